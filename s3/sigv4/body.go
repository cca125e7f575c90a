package sigv4

import "net/http"

// Body is the content of a request, decoded. It is an io.Reader for one goroutine.
//
// Bytes are handed out as they come, so that memory is bounded whatever the size of a chunk, but the last piece of the
// content and io.EOF come only after everything has been verified: chunk signatures, lengths, the trailer and its
// signature, the SHA-256. So content counts only once it has been read to its end without an error.
type Body struct {
	length int64
}

// Body returns the content of r as a says it was sent. It reads nothing yet. The errors are *Error: MissingContentLength,
// InvalidRequest, InvalidArgument.
func (a *Auth) Body(r *http.Request) (*Body, error) {
	return nil, newError(NotImplemented, "not yet")
}

// Read hands out content. Besides errors of the connection, which come unchanged, it returns *Error: IncompleteBody,
// SignatureDoesNotMatch, InvalidRequest, MalformedTrailerError, XAmzContentSHA256Mismatch. An error is final.
func (b *Body) Read(p []byte) (int, error) { return 0, newError(NotImplemented, "not yet") }

// DecodedLength returns the size of the content in bytes, as announced; Read returns neither more nor less without an error.
func (b *Body) DecodedLength() int64 { return b.length }

// Announced returns the names of the trailers that will come, in lower case.
func (b *Body) Announced() []string { return nil }

// Trailer returns the value of a trailer by its lower-case name, once Read has returned io.EOF; else "".
func (b *Body) Trailer(name string) string { return "" }

// HashElsewhere says that the caller computes the SHA-256 of the content itself, so Read does not. The caller must pass it
// to CheckSHA256 before the content counts. Without this call Read computes and compares it.
func (b *Body) HashElsewhere() {}

// CheckSHA256 compares the SHA-256 of the content with the one that was signed, if any. The error is an
// XAmzContentSHA256Mismatch.
func (b *Body) CheckSHA256(sum []byte) error { return nil }
