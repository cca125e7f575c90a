package sigv4

import (
	"io"
	"net/http"
	"time"
)

// Signer signs requests. Its fields are set before its first use; it may be used by many goroutines.
type Signer struct {
	AccessKey, SecretKey string
	Region               string
	SecurityToken        string // of temporary credentials; else ""
}

// Sign signs r in its Authorization header, at the time t. payloadHash is the SHA-256 of the body in hexadecimal, or
// UNSIGNED-PAYLOAD. It sets X-Amz-Date and X-Amz-Content-Sha256 too. Signed are host, Content-Type, Content-MD5 and every
// X-Amz-* header that r has.
func (s *Signer) Sign(r *http.Request, payloadHash string, t time.Time) {}

// Presign signs r in its query, from the time t on, for at most MaxExpires, and returns the URL. The request must be sent with
// the X-Amz-* headers that it has now.
func (s *Signer) Presign(r *http.Request, expires time.Duration, t time.Time) string { return "" }

// Trailer is a trailer to send: its lower-case name, the bytes that its value will have, and the value, asked for once the
// content has been read to its end.
type Trailer struct {
	Name  string
	Size  int
	Value func() string
}

// Chunked says how a body is to be sent.
type Chunked struct {
	Mode      PayloadMode // one of the chunked ones
	Length    int64       // bytes of content
	ChunkSize int         // bytes of content in a chunk; 0: 64 KiB
	Trailers  []Trailer   // in the trailer modes
}

// SignChunked signs r, at the time t, to be sent with content as an aws-chunked body: it sets r.Body, r.ContentLength and the headers.
func (s *Signer) SignChunked(r *http.Request, content io.Reader, c Chunked, t time.Time) {}
