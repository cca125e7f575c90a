package gate

import (
	"context"
	"errors"
	"net/http"

	"orcas/auth"
	"orcas/internal/mutant"
	"orcas/internal/sigv4"
	"orcas/s3/sigv2"
)

// A Scheme is a way to authenticate requests.
type Scheme interface {
	// Authenticate identifies the sender of r. If r has no credentials of this scheme, the principal is
	// auth.Anonymous. After any error the request is refused.
	Authenticate(r *http.Request) (Identity, error)
}

// Identity is the sender of a request, with a reader of its body.
type Identity struct {
	*sigv4.Auth // reads the body; may be nil if the scheme found no credentials
	Principal   *auth.Principal

	Session bool // the sender has a session instead of a signature: see IdentityOf

	lookup Lookup // of the access key; nil if there is none
}

// Again looks up the access key of the sender again, for a request that has taken long. It returns the principal that
// the access key has now, and whether its rights may have changed since it was authenticated. Its error is the one that
// a new request with the access key would get. An access key with another secret is unknown, because the secret that
// verified the request has been replaced.
func (id *Identity) Again(ctx context.Context) (p *auth.Principal, changed bool, err error) {
	if id.lookup == nil {
		return id.Principal, !id.Principal.IsAnonymous(), nil
	}
	c, err := id.lookup(ctx, id.AccessKey, id.SecurityToken)
	switch {
	case errors.Is(err, ErrToken), errors.Is(err, ErrExpired):
		return nil, true, err
	case err != nil:
		return nil, true, &LookupError{err}
	case c.SecretKey == "" || c.Principal == nil, !id.SignedWith(c.SecretKey) && !mutant.Is("replaced-secrets-work"):
		return nil, true, sigv4.UnknownAccessKey(id.AccessKey)
	case c.Token != id.SecurityToken:
		return nil, true, ErrToken
	case c.Principal.ID != id.Principal.ID || c.Principal.Account != id.Principal.Account:
		return nil, true, auth.ErrDenied // the access key belongs to another identity now
	}
	return c.Principal, c.Principal != id.Principal, nil
}

// IdentityOf returns the Identity of a sender who has proved in another way than by a signature that an access key is his.
// c is the result of lookup. Nothing of the request is signed.
func IdentityOf(lookup Lookup, accessKey string, c Credential) Identity {
	a := &sigv4.Auth{AccessKey: accessKey, SecurityToken: c.Token, Mode: sigv4.PayloadUnsigned}
	a.Accept(sigv4.Credential{SecretKey: c.SecretKey, Holder: c.Principal})
	return Identity{Auth: a, Principal: c.Principal, Session: true, lookup: lookup}
}

// Authenticate tries the schemes in order. The first one that finds credentials decides. If none does, the principal
// is auth.Anonymous and the last scheme determines how to read the body.
func Authenticate(schemes []Scheme, r *http.Request) (id Identity, err error) {
	for _, s := range schemes {
		if id, err = s.Authenticate(r); err != nil || !id.Principal.IsAnonymous() {
			break
		}
	}
	return id, err
}

// Credential is the secret and the principal of an access key. An access key without a SecretKey is unknown.
type Credential struct {
	SecretKey string

	// Principal is a new value after each change of the policies and other settings that apply to it, so that two lookups
	// that return the same value stand for the same rights. The policies of buckets are not among them.
	Principal *auth.Principal
	Token     string // the session token that a request must present with the access key; "" if it must present none
}

// Lookup returns the Credential of an access key, which a request presents with a session token, or with "". It returns
// the zero Credential if the key is unknown, and ErrToken or ErrExpired if the token is not valid. It is called once per
// request, and once more when the body of a request has arrived (see Identity.Again).
type Lookup func(ctx context.Context, accessKey, token string) (Credential, error)

// ErrToken is returned for a request with a session token that does not belong to its access key.
var ErrToken = errors.New("the session token does not belong to the access key, or is not valid")

// ErrExpired is returned for a request with temporary credentials that have expired.
var ErrExpired = errors.New("the temporary credentials have expired")

// LookupError is returned if a Lookup failed, so the sender of the request is unknown. Its text is for the client.
// Cause is for the log; there is no Unwrap, so that the kind of Cause does not determine the response.
type LookupError struct{ Cause error }

func (e *LookupError) Error() string { return "the access key cannot be looked up: try again" }

// SigV4 returns the scheme of AWS Signature Version 4: in the Authorization header or in the query, with signed or
// unsigned chunks of the body. It sets v.Lookup.
func SigV4(v *sigv4.Verifier, lookup Lookup) Scheme {
	v.Lookup = credentials(lookup)
	return signature{v, lookup}
}

// SigV2 returns the scheme of AWS Signature Version 2, in the places that v.Mode allows. It sets v.Lookup. It must be
// tried before SigV4, which refuses signatures of version 2.
func SigV2(v *sigv2.Verifier, lookup Lookup) Scheme {
	v.Lookup = credentials(lookup)
	return signature{v, lookup}
}

// credentials returns lookup in the form that verifiers need.
func credentials(lookup Lookup) func(context.Context, string, string) (sigv4.Credential, error) {
	return func(ctx context.Context, accessKey, token string) (sigv4.Credential, error) {
		if refuses(ctx, accessKey) {
			return sigv4.Credential{}, ErrThrottled
		}
		c, err := lookup(ctx, accessKey, token)
		switch {
		case errors.Is(err, ErrToken), errors.Is(err, ErrExpired):
			return sigv4.Credential{}, err
		case err != nil:
			return sigv4.Credential{}, &LookupError{err}
		case c.Token != token && c.SecretKey != "":
			return sigv4.Credential{SecretKey: c.SecretKey, Holder: wrongToken{}}, nil
		}
		return sigv4.Credential{SecretKey: c.SecretKey, Holder: c.Principal}, nil
	}
}

// wrongToken is the holder of an access key that was presented with a token which does not belong to it. The request is
// refused after its signature was verified.
type wrongToken struct{}

// A FormScheme is a Scheme that can also authenticate the sender of an HTML form (POST) by its fields.
type FormScheme interface {
	Scheme

	// AuthenticateForm is like Authenticate. field returns the value of a field by its lower-case name, or "".
	AuthenticateForm(ctx context.Context, field func(name string) string) (Identity, error)
}

// AuthenticateForm is like Authenticate, for an HTML form. It skips schemes that cannot authenticate forms.
func AuthenticateForm(ctx context.Context, schemes []Scheme, field func(name string) string) (id Identity, err error) {
	id.Principal = auth.Anonymous
	for _, s := range schemes {
		f, ok := s.(FormScheme)
		if !ok {
			continue
		}
		if id, err = f.AuthenticateForm(ctx, field); err != nil || !id.Principal.IsAnonymous() {
			break
		}
	}
	return id, err
}

// signature is the scheme of a signature whose verifier returns sigv4.ErrAnonymous for requests without one.
type signature struct {
	verifier interface {
		Verify(r *http.Request) (*sigv4.Auth, error)
		VerifyForm(ctx context.Context, field func(string) string) (*sigv4.Auth, error)
	}
	lookup Lookup
}

// Authenticate implements Scheme.
func (s signature) Authenticate(r *http.Request) (Identity, error) {
	a, err := s.verifier.Verify(r)
	return s.identity(r.Context(), a, err)
}

// AuthenticateForm implements FormScheme.
func (s signature) AuthenticateForm(ctx context.Context, field func(name string) string) (Identity, error) {
	a, err := s.verifier.VerifyForm(ctx, field)
	return s.identity(ctx, a, err)
}

// identity returns the Identity for the result of a verifier.
func (s signature) identity(ctx context.Context, a *sigv4.Auth, err error) (Identity, error) {
	if err == sigv4.ErrAnonymous { //nolint:errorlint // verifiers do not wrap it
		return Identity{Auth: a, Principal: auth.Anonymous}, nil
	}
	if err != nil {
		note(ctx, err)
		return Identity{}, err
	}
	if _, wrong := a.Holder.(wrongToken); wrong {
		return Identity{}, ErrToken
	}
	p, _ := a.Holder.(*auth.Principal)
	if p == nil || p.IsAnonymous() {
		return Identity{}, auth.ErrDenied // the key does not belong to an account
	}
	return Identity{Auth: a, Principal: p, lookup: s.lookup}, nil
}
