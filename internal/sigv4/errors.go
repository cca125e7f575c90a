package sigv4

import (
	"encoding/hex"
	"strconv"
)

// Code is an S3 error code.
type Code string

// The codes of this package's errors, with the HTTP status that S3 uses for each.
const (
	AccessDenied                      Code = "AccessDenied"                      // 403
	AuthorizationHeaderMalformed      Code = "AuthorizationHeaderMalformed"      // 400
	AuthorizationQueryParametersError Code = "AuthorizationQueryParametersError" // 400
	IncompleteBody                    Code = "IncompleteBody"                    // 400
	InvalidAccessKeyID                Code = "InvalidAccessKeyId"                // 403
	InvalidArgument                   Code = "InvalidArgument"                   // 400
	InvalidChunkSizeError             Code = "InvalidChunkSizeError"             // 403
	InvalidRequest                    Code = "InvalidRequest"                    // 400
	InvalidURI                        Code = "InvalidURI"                        // 400
	MalformedTrailerError             Code = "MalformedTrailerError"             // 400
	MissingContentLength              Code = "MissingContentLength"              // 411
	NotImplemented                    Code = "NotImplemented"                    // 501
	RequestTimeTooSkewed              Code = "RequestTimeTooSkewed"              // 403
	SignatureDoesNotMatch             Code = "SignatureDoesNotMatch"             // 403
	XAmzContentSHA256Mismatch         Code = "XAmzContentSHA256Mismatch"         // 400
)

// Error is the error type of this package: the response to the client. Its message and details never contain a valid
// signature or a secret.
type Error struct {
	Code    Code
	Message string   // for the client
	Details []Detail // additional elements of the error document, as in S3
	Err     error    // the cause, which is an error of the connection, or nil
}

// Detail is an additional element of an error document.
type Detail struct{ Name, Value string }

// with adds a detail to a newly created error, and returns the error.
func (e *Error) with(name, value string) *Error {
	e.Details = append(e.Details, Detail{name, value})
	return e
}

// Error returns the code and the message.
func (e *Error) Error() string { return "sigv4: " + string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrAnonymous is returned by Verify for a request without credentials. Unlike any other error, it is returned with a
// usable Auth, because a policy may grant access to everyone.
var ErrAnonymous error = newError(AccessDenied, "Access Denied")

func newError(c Code, message string) *Error { return &Error{Code: c, Message: message} }

func errMismatch() *Error {
	return newError(SignatureDoesNotMatch, "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
}

// UnknownAccessKey returns the error for an access key that does not exist.
func UnknownAccessKey(accessKey string) *Error {
	return newError(InvalidAccessKeyID, "The AWS Access Key Id you provided does not exist in our records.").with("AWSAccessKeyId", accessKey)
}

func errIncomplete(cause error) *Error {
	return &Error{Code: IncompleteBody, Message: "The request body terminated unexpectedly", Err: cause}
}

// errOtherLength returns the error for content that is shorter or longer than announced. Both lengths are in bytes.
func errOtherLength(announced, received int64) *Error {
	return newError(IncompleteBody, "You did not provide the number of bytes specified by the Content-Length HTTP header").
		with("NumberBytesExpected", strconv.FormatInt(announced, 10)).
		with("NumberBytesProvided", strconv.FormatInt(received, 10))
}

// errChunkSize returns the error for a chunk, other than the last one, that is too small. As in S3, chunk is the number
// of the next chunk, because only its header shows that the small chunk is not the last one.
func errChunkSize(chunk, size int64) *Error {
	return newError(InvalidChunkSizeError, "Only the last chunk is allowed to have a size less than 8192 bytes").
		with("Chunk", strconv.FormatInt(chunk, 10)).with("BadChunkSize", strconv.FormatInt(size, 10))
}

// errMalformed returns the error for invalid framing of chunks. S3's only code for that is IncompleteBody.
func errMalformed(what string) *Error {
	return newError(IncompleteBody, "The aws-chunked body is malformed: "+what+".")
}

func errTrailer() *Error {
	return newError(MalformedTrailerError, "The request contained trailing data that was not well-formed or did not conform to our published schema.")
}

func errSHA256(claimed, computed []byte) *Error {
	return newError(XAmzContentSHA256Mismatch, "The provided 'x-amz-content-sha256' header does not match what was computed.").
		with("ClientComputedContentSHA256", hex.EncodeToString(claimed)).with("S3ComputedContentSHA256", hex.EncodeToString(computed))
}
