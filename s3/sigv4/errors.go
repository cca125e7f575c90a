package sigv4

import (
	"encoding/hex"
	"strconv"
)

// Code is the code of an S3 error, as clients see it.
type Code string

// The codes of this package's errors, and the HTTP status that S3 gives them.
const (
	AccessDenied                      Code = "AccessDenied"                      // 403
	AuthorizationHeaderMalformed      Code = "AuthorizationHeaderMalformed"      // 400
	AuthorizationQueryParametersError Code = "AuthorizationQueryParametersError" // 400
	IncompleteBody                    Code = "IncompleteBody"                    // 400
	InvalidAccessKeyID                Code = "InvalidAccessKeyId"                // 403
	InvalidArgument                   Code = "InvalidArgument"                   // 400
	InvalidRequest                    Code = "InvalidRequest"                    // 400
	InvalidURI                        Code = "InvalidURI"                        // 400
	MalformedTrailerError             Code = "MalformedTrailerError"             // 400
	MissingContentLength              Code = "MissingContentLength"              // 411
	NotImplemented                    Code = "NotImplemented"                    // 501
	RequestTimeTooSkewed              Code = "RequestTimeTooSkewed"              // 403
	SignatureDoesNotMatch             Code = "SignatureDoesNotMatch"             // 403
	XAmzContentSHA256Mismatch         Code = "XAmzContentSHA256Mismatch"         // 400
)

// Error is the error of this package: what is to be answered. Neither message nor details ever hold a signature that would be right,
// or a secret.
type Error struct {
	Code    Code
	Message string   // for the client
	Details []Detail // what S3 tells besides, each as an element of the document
	Err     error    // the cause, if any: an error of the connection
}

// Detail is an element of an error's document.
type Detail struct{ Name, Value string }

// with adds a detail to an error that was just made, and returns it.
func (e *Error) with(name, value string) *Error {
	e.Details = append(e.Details, Detail{name, value})
	return e
}

// Error gives code and message.
func (e *Error) Error() string { return "sigv4: " + string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrAnonymous is the error of Verify for a request that carries no credentials. Unlike with every other error, the Auth
// that comes with it can be used, where a policy grants access to anyone.
var ErrAnonymous error = newError(AccessDenied, "Access Denied")

func newError(c Code, message string) *Error { return &Error{Code: c, Message: message} }

func errMismatch() *Error {
	return newError(SignatureDoesNotMatch, "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
}

// errUnknown says that nobody has the access key.
func errUnknown(accessKey string) *Error {
	return newError(InvalidAccessKeyID, "The AWS Access Key Id you provided does not exist in our records.").with("AWSAccessKeyId", accessKey)
}

func errIncomplete(cause error) *Error {
	return &Error{Code: IncompleteBody, Message: "The request body terminated unexpectedly", Err: cause}
}

// errOtherLength says that content is shorter or longer than was announced, in bytes.
func errOtherLength(announced, came int64) *Error {
	return newError(IncompleteBody, "You did not provide the number of bytes specified by the Content-Length HTTP header").
		with("NumberBytesExpected", strconv.FormatInt(announced, 10)).with("NumberBytesProvided", strconv.FormatInt(came, 10))
}

// errMalformed says what is wrong with the frame of chunks: S3 has no other code for it than that the body is not whole.
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
