// Package sigv4 implements AWS Signature Version 4 as used by S3. It verifies requests (Verifier), decodes and verifies
// their bodies (Body), and signs requests (Signer). It depends on net/http, but not on buckets or stores. A Verifier
// can also accept requests that are signed for another service, such as iam or sts. Other services encode paths twice,
// but that does not matter because the path of these requests is "/".
//
// The signature of a request is in its Authorization header or in its query (a presigned URL). It covers the canonical
// request:
//
//		METHOD \n path \n query \n "name:value\n" for each signed header \n names of the signed headers \n payload
//
//	  - The path is decoded once (Path), and every byte of it except A-Z a-z 0-9 - . _ ~ / is encoded again. "//", "."
//	    and ".." are data. The same decoded path is used for the signature, the policy and the store.
//	  - The query is decoded once ("+" is a space), encoded like the path except that "/" is encoded, too, and sorted by
//	    name, then value.
//	  - host, and every x-amz-* header of the request, must be among the signed headers.
//	  - The payload is the value of x-amz-content-sha256, which alone determines how the body is read (PayloadMode). For
//	    other services it is the SHA-256 of the body (PayloadFromBody).
//
// The signature is the HMAC-SHA256 of "AWS4-HMAC-SHA256 \n time \n scope \n SHA-256 of the canonical request". Its key
// is derived from the secret, the day, the region, the service and "aws4_request". All of these except the secret form
// the scope.
//
// A body in one of the streaming modes is aws-chunked: chunks of
//
//	hexadecimal size [";chunk-signature=" 64 digits] \r\n content \r\n
//
// and a last chunk of size 0. In the trailer modes it is followed by "name:value" lines, the line
// "x-amz-trailer-signature:" if the chunks are signed, and an empty line. The signature of each chunk covers the
// preceding signature; that of the first chunk covers the signature of the request (the seed).
package sigv4

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"time"
)

// DefaultSkew is the default maximum difference between the clocks of client and server, in either direction.
const DefaultSkew = 15 * time.Minute

// MaxExpires is the maximum lifetime of a presigned URL.
const MaxExpires = 7 * 24 * time.Hour

// PayloadMode specifies how the body of a request is sent and protected.
type PayloadMode uint8

// The modes.
const (
	PayloadSHA256          PayloadMode = iota // not encoded; its SHA-256 is signed
	PayloadUnsigned                           // not encoded and not signed
	PayloadSigned                             // aws-chunked, each chunk signed
	PayloadSignedTrailer                      // aws-chunked, each chunk and the trailer signed
	PayloadUnsignedTrailer                    // aws-chunked, nothing signed, a checksum in the trailer
)

var modeNames = [...]string{
	"", "UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
	"STREAMING-UNSIGNED-PAYLOAD-TRAILER",
}

// String returns the value of x-amz-content-sha256 for the mode, or "" for PayloadSHA256.
func (m PayloadMode) String() string { return modeNames[m] }

// Chunked reports whether the body is aws-chunked.
func (m PayloadMode) Chunked() bool { return m >= PayloadSigned }

// Trailer reports whether the body ends with a trailer.
func (m PayloadMode) Trailer() bool { return m >= PayloadSignedTrailer }

// signed reports whether the chunks are signed.
func (m PayloadMode) signed() bool { return m == PayloadSigned || m == PayloadSignedTrailer }

// Auth describes the authenticated sender of a request and how to read its body. It must not be modified.
type Auth struct {
	AccessKey     string // "" for an anonymous request
	Holder        any    // holder of the access key, as returned by Verifier.Lookup
	Algorithm     string // AWS4-HMAC-SHA256, or the algorithm of another scheme; "" for an anonymous request
	Presigned     bool
	Form          bool      // signed in the fields of an HTML form
	Region        string    // region in the signature's scope
	Time          time.Time // time of signing in whole seconds, UTC
	Expires       time.Time // end of validity of a presigned URL
	SecurityToken string    // X-Amz-Security-Token, which is signed; Lookup verifies it
	Mode          PayloadMode
	SHA256        [32]byte // SHA-256 of the body, if Mode is PayloadSHA256

	secret   string   // the secret key that verified the signature
	key      [32]byte // signing key
	seed     [64]byte // signature of the request in hexadecimal
	date     string   // Time as it was signed
	scope    string
	decoders *decoderPool
}

// Accept records the credential that verified the signature.
func (a *Auth) Accept(c Credential) { a.Holder, a.secret = c.Holder, c.SecretKey }

// SignedWith reports whether secretKey verified the signature, in a time that does not depend on its content.
func (a *Auth) SignedWith(secretKey string) bool {
	return subtle.ConstantTimeCompare([]byte(a.secret), []byte(secretKey)) == 1
}

// Anonymous reports whether the request has no credentials.
func (a *Auth) Anonymous() bool { return a.AccessKey == "" }

// Path returns the path of r, decoded once. It begins with "/". This is the value that is signed, and the bucket and
// the key must be taken from it. It is not cleaned: "//", "." and ".." are data. The error is an InvalidURI.
func Path(r *http.Request) (string, error) {
	if r.URL.Opaque != "" || !strings.HasPrefix(r.URL.Path, "/") {
		return "", newError(InvalidURI, "Couldn't parse the specified URI.")
	}
	return r.URL.Path, nil
}

// Split splits the path of a path-style request into bucket and key. Either may be empty.
func Split(path string) (bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return bucket, key
}

// StripAWSChunked returns a Content-Encoding without aws-chunked, which describes the transport and is not stored.
// The other codings are kept as the client wrote them, including the spaces between them.
func StripAWSChunked(contentEncoding string) string {
	if !strings.Contains(strings.ToLower(contentEncoding), "aws-chunked") {
		return contentEncoding
	}
	var kept []string
	for coding := range strings.SplitSeq(contentEncoding, ",") {
		if name := strings.TrimSpace(coding); name != "" && !strings.EqualFold(name, "aws-chunked") {
			kept = append(kept, coding)
		}
	}
	return strings.TrimSpace(strings.Join(kept, ","))
}
