package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"orcas/sdk"
	"orcas/sdk/tree"
)

// explain returns an error for people, with its exit status: what failed, for which object, and what to do about it. at
// has the profile that was used. An error that is explained already, or is not of the SDK, remains as it is.
func (s *session) explain(at Address, err error) error {
	var done *statusError
	if err == nil || errors.As(err, &done) {
		return err
	}
	text := s.text(at, err)
	return &statusError{Status(err), text, err}
}

// text returns what explain says.
func (s *session) text(at Address, err error) string {
	if s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return "interrupted: files that were not finished do not exist at the target; the same command continues"
	}
	var e *sdk.Error
	if errors.As(err, &e) {
		if r := s.remotes[at.Profile]; r != nil && !at.Local {
			return r.text(e)
		}
		for _, r := range s.remotes { // a single server, or any whose words are the same
			return r.text(e)
		}
	}
	switch {
	case errors.Is(err, tree.ErrConflict):
		return err.Error() + ": nothing was replaced (--conflict)"
	case isFull(err):
		return fmt.Sprintf("%v: the file system is full: free space, and run the command again; it continues where it stopped", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v: you need permission for this file or directory", err)
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "tree: "), "sdk: ")
}

// text describes an error of an operation at the server.
func (r *remote) text(e *sdk.Error) string {
	object := r.address(e.Bucket, e.Key)
	name := shown(object.String())
	said := e.Message
	if said == "" {
		said = e.Code
	}
	noBucket := errors.Is(e, sdk.ErrNoSuchBucket)
	if e.Op == "Head" && errors.Is(e, sdk.ErrNoSuchKey) { // the response to HEAD does not tell which of the two is missing
		_, err := r.HeadBucket(r.session.ctx, e.Bucket)
		noBucket = errors.Is(err, sdk.ErrNoSuchBucket)
	}
	switch {
	case noBucket:
		return fmt.Sprintf("there is no bucket %s at %s: create it with orcas mb %s", e.Bucket, r.Endpoint(), r.address(e.Bucket, ""))
	case errors.Is(e, sdk.ErrNoSuchVersion):
		return fmt.Sprintf("there is no such version of %s: orcas ls --versions %[1]s lists them", name)
	case errors.Is(e, sdk.ErrNoSuchKey) && e.DeleteMarker:
		return fmt.Sprintf("%s is deleted: orcas undelete %[1]s restores it", name)
	case errors.Is(e, sdk.ErrNoSuchKey):
		return fmt.Sprintf("there is no object %s", name)
	case errors.Is(e, sdk.ErrAccessDenied):
		return fmt.Sprintf("access to %s is denied: %s (%s): the credentials are those of %s; they need permission for this, and an object can be locked",
			name, said, e.Op, r.source())
	case errors.Is(e, sdk.ErrInvalidAccessKey), errors.Is(e, sdk.ErrInvalidToken):
		return fmt.Sprintf("%s does not accept the access key of %s: %s", r.Endpoint(), r.source(), said)
	case errors.Is(e, sdk.ErrSignature):
		return fmt.Sprintf("%s does not accept the signature: the secret key of %s is wrong, or a proxy changes requests", r.Endpoint(), r.source())
	case errors.Is(e, sdk.ErrClockSkew):
		return fmt.Sprintf("%s refuses the request because of the time: %s", r.Endpoint(), said)
	case errors.Is(e, sdk.ErrBucketExists):
		return fmt.Sprintf("the bucket %s exists already at %s", e.Bucket, r.Endpoint())
	case errors.Is(e, sdk.ErrBucketNotEmpty):
		return fmt.Sprintf("the bucket %s is not empty: orcas rb --force %[1]s deletes it with all objects and versions", r.address(e.Bucket, ""))
	case errors.Is(e, sdk.ErrRedirect):
		return fmt.Sprintf("%s is not at %s: %s", name, r.Endpoint(), said)
	case errors.Is(e, sdk.ErrNetwork):
		return r.networkText(e)
	case errors.Is(e, sdk.ErrPreconditionFailed):
		return fmt.Sprintf("%s: a condition is false, so nothing was changed: %s", name, said)
	case errors.Is(e, sdk.ErrSlowDown):
		return fmt.Sprintf("%s is overloaded: %s (after %d attempts): try again later, or with a lower --parallel", r.Endpoint(), said, e.Attempts)
	case e.Bucket == "" && e.Code == "":
		return e.Error()
	}
	return strings.Replace(e.Error(), "s3://"+e.Bucket, strings.TrimSuffix(r.address(e.Bucket, "").String(), "/"), 1)
}

// networkText describes a connection that failed.
func (r *remote) networkText(e *sdk.Error) string {
	var untrusted *tls.CertificateVerificationError
	cause := e.Err
	text := fmt.Sprintf("no response from %s", r.Endpoint())
	if e.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	switch {
	case errors.As(cause, &untrusted):
		return fmt.Sprintf("the certificate of %s is not trusted: %v: use --ca FILE or AWS_CA_BUNDLE if it is right", r.Endpoint(), untrusted.Err)
	case errors.Is(cause, ErrRefused):
		return text + ": no server is listening there: start it, or correct the endpoint of " + r.source()
	case strings.Contains(cause.Error(), "HTTP response to HTTPS client"):
		return fmt.Sprintf("%s does not serve HTTPS: use http:// in the endpoint of %s", r.Endpoint(), r.source())
	}
	return fmt.Sprintf("%s: %v: check the network and the endpoint, and run the command again", text, cause)
}

// source returns where the credentials come from.
func (r *remote) source() string {
	if r.profile.Source == "" {
		return "the profile " + r.profile.Name
	}
	return r.profile.Source
}
