package s3

import (
	"net/http"
	"strings"

	"orcas/auth"
	"orcas/content"
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/sigv4"
	"orcas/s3/bucketaccess"
)

// known returns the content that the request announces if the bucket has it and every claim about it is true. Otherwise
// it returns nil. The client must either refer to the content, or announce its hash and wait for 100 Continue. In the
// latter case the final response is sent instead of 100 Continue, and the client does not send the body. Everything
// else is the same as for a request with a body.
func (u *upload) known(q *request, algs []checksum.Algorithm) (*content.Content, error) {
	if u.form != nil || !u.refers && (u.appended || !waits(q.r) || !q.readsBucket(q.decide)) {
		return nil, nil
	}
	sha256, ok := u.signedSHA256(q)
	if !ok {
		return nil, nil
	}
	content, err := q.s.fs.KnownContent(q.ctx, q.bucket, sha256, u.length, u.encryption.Encryption, algs...)
	if err != nil || content == nil {
		return nil, err
	}
	if err := u.in.verify(content.Sum, u.body); err != nil {
		content.Discard()
		if u.refers {
			return nil, err
		}
		return nil, nil // reading the body will find the error
	}
	q.s.inFlight.unsent.Add(u.length)
	return content, nil
}

// waits reports whether the client waits for 100 Continue before it sends the body. HTTP/2 clients do not.
func waits(r *http.Request) bool {
	v := r.Header["Expect"]
	return len(v) == 1 && strings.EqualFold(v[0], "100-continue") && r.ProtoMajor == 1
}

// readsBucket reports whether the caller may read every version of every key of the bucket. Only then may a response
// reveal that the bucket has a piece of content. An anonymous request does not qualify. Neither does a presigned URL
// or a form: it permits only the request that was signed, and its user is not the signer. decide is q.authorize if a request
// without the permission is refused, otherwise q.decide.
func (q *request) readsBucket(decide func(auth.Action, auth.Resource) error) bool {
	if q.auth.Presigned || q.auth.Form || q.caller.IsAnonymous() {
		return false
	}
	for _, a := range readWhole {
		if decide(a, everyKey(q.bucket)) != nil {
			return false
		}
	}
	return true
}

// everyKey returns the resource that represents all objects that a bucket has or could have.
func everyKey(b *core.BucketInfo) auth.Resource {
	r := bucketaccess.Resource(b)
	r.Scope = auth.EveryKey
	return r
}

// signedSHA256 returns the hash of the content if it is signed.
func (u *upload) signedSHA256(q *request) (sum [32]byte, ok bool) {
	switch {
	case q.auth.Mode == sigv4.PayloadSHA256:
		return q.auth.SHA256, true
	case q.auth.Mode == sigv4.PayloadUnsigned && u.in.alg == checksum.SHA256 && len(u.in.value) == len(sum):
		return [32]byte(u.in.value), true // x-amz-* headers are signed
	}
	return sum, false
}
