// Package sigv4 is AWS Signature Version 4 as S3 uses it: it verifies requests (Verifier), decodes and verifies their
// bodies (Body), and signs requests (Signer). It knows net/http and nothing of buckets or stores.
//
// A request is signed in its Authorization header or in its query (a presigned URL). What is signed is the canonical
// request:
//
//		METHOD \n path \n query \n "name:value\n" for each signed header \n names of the signed headers \n payload
//
//	  - The path is decoded once (Path) and every byte of it but A-Z a-z 0-9 - . _ ~ / is encoded again. "//", "." and ".."
//	    are data. The decoded path is the one value for the signature, the policy and the store.
//	  - The query is decoded once ("+" is a space), encoded like the path but for "/", and sorted by name, then value.
//	  - host, and every x-amz-* header that the request has, must be among the signed headers.
//	  - The payload is the value of x-amz-content-sha256; it alone decides how the body is read (PayloadMode).
//
// The signature is HMAC-SHA256 of "AWS4-HMAC-SHA256 \n time \n scope \n SHA-256 of the canonical request", under a key
// derived from the secret, the day, the region, "s3" and "aws4_request" (the scope).
//
// A body in one of the streaming modes is aws-chunked: chunks of
//
//	hexadecimal size [";chunk-signature=" 64 digits] \r\n content \r\n
//
// and a last one of size 0, which in the trailer modes is followed by "name:value" lines, the line
// "x-amz-trailer-signature:" where the chunks are signed, and an empty line. Each chunk's signature covers the signature
// before it; the first covers that of the request (the seed).
package sigv4

import (
	"net/http"
	"strings"
	"time"
)

// DefaultSkew is how far the clock of a client may be from ours, both ways.
const DefaultSkew = 15 * time.Minute

// MaxExpires is the longest life of a presigned URL.
const MaxExpires = 7 * 24 * time.Hour

// PayloadMode says how the body of a request is sent and what vouches for it.
type PayloadMode uint8

// The modes.
const (
	PayloadSHA256          PayloadMode = iota // as it is; its SHA-256 is signed
	PayloadUnsigned                           // as it is; nothing vouches for it
	PayloadSigned                             // aws-chunked, each chunk signed
	PayloadSignedTrailer                      // aws-chunked, each chunk and the trailer signed
	PayloadUnsignedTrailer                    // aws-chunked, nothing signed, a checksum in the trailer
)

var modeNames = [...]string{
	"", "UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
	"STREAMING-UNSIGNED-PAYLOAD-TRAILER",
}

// String returns the mode as x-amz-content-sha256 names it, "" for PayloadSHA256.
func (m PayloadMode) String() string { return modeNames[m] }

// Chunked says whether the body is aws-chunked.
func (m PayloadMode) Chunked() bool { return m >= PayloadSigned }

// Trailer says whether the body ends with a trailer.
func (m PayloadMode) Trailer() bool { return m >= PayloadSignedTrailer }

// signed says whether the chunks are signed.
func (m PayloadMode) signed() bool { return m == PayloadSigned || m == PayloadSignedTrailer }

// Auth is who sent a request, as its signature proves, and how its body is to be read. It is not to be changed.
type Auth struct {
	AccessKey     string // "" for an anonymous request
	Presigned     bool
	Region        string    // of the signature's scope
	Time          time.Time // when it was signed, whole seconds, UTC
	Expires       time.Time // of a presigned URL
	SecurityToken string    // X-Amz-Security-Token: signed, but not compared with anything
	Mode          PayloadMode
	SHA256        [32]byte // of the body, with PayloadSHA256

	key      [32]byte // signing key
	seed     [64]byte // signature of the request in hexadecimal
	date     string   // Time as it was signed
	scope    string
	decoders *decoderPool
}

// Anonymous says whether the request carried no credentials at all.
func (a *Auth) Anonymous() bool { return a.AccessKey == "" }

// Path returns the path of r decoded once, beginning with "/": the value that is signed, and the one from which bucket and
// key are to be taken. Nothing is cleaned: "//", "." and ".." are data. The error is an InvalidURI.
func Path(r *http.Request) (string, error) {
	if r.URL.Opaque != "" || !strings.HasPrefix(r.URL.Path, "/") {
		return "", newError(InvalidURI, "Couldn't parse the specified URI.")
	}
	return r.URL.Path, nil
}

// Split cuts a path of a path-style request into bucket and key; either may be empty.
func Split(path string) (bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return bucket, key
}

// StripAWSChunked returns a Content-Encoding without aws-chunked, which is a matter of transport and not to be stored.
func StripAWSChunked(contentEncoding string) string {
	if !strings.Contains(strings.ToLower(contentEncoding), "aws-chunked") {
		return contentEncoding
	}
	var kept []string
	for coding := range strings.SplitSeq(contentEncoding, ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "aws-chunked") {
			kept = append(kept, coding)
		}
	}
	return strings.Join(kept, ",")
}
