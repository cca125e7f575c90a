// Package apierr defines the errors of the S3 API as values with a code, an HTTP status, a message, and optional
// additional elements and headers of the response. It does not depend on requests and does not render responses.
//
// Error values are shared and never modified: the methods of Error return copies.
package apierr

import "strings"

// Field is a named value.
type Field struct{ Name, Value string }

// Error is an error in the form that clients see.
type Error struct {
	Code    string
	Status  int // HTTP status
	Message string
	Fields  []Field // additional elements of the XML document
	Headers []Field // additional response headers
	Cause   error   // for the log only
}

// New returns an error.
func New(status int, code, message string) *Error {
	return &Error{Code: code, Status: status, Message: message}
}

// The errors that more than one package returns.
var (
	InvalidArgument    = New(400, "InvalidArgument", "Invalid Argument")
	InvalidRequest     = New(400, "InvalidRequest", "Invalid Request")
	InvalidTag         = New(400, "InvalidTag", "The tag provided was not a valid tag.")
	MalformedXML       = New(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema.")
	MessageTooLong     = New(400, "MaxMessageLengthExceeded", "Your request was too big.")
	NotImplemented     = New(501, "NotImplemented", "A header or query you provided implies functionality that is not implemented.")
	PreconditionFailed = New(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	InvalidRange       = New(416, "InvalidRange", "The requested range is not satisfiable")
)

// Argument returns an InvalidArgument with the name of a header, a parameter or an element, and its value unless that
// is empty.
func Argument(name, value, message string) *Error {
	e := InvalidArgument.Say(message).With("ArgumentName", name)
	if value != "" {
		e = e.With("ArgumentValue", value)
	}
	return e
}

// UnservedHeader returns the error for a header of S3 that this server does not implement.
func UnservedHeader(name string) *Error {
	name = strings.ToLower(name)
	return NotImplemented.Say("The header "+name+" implies functionality that is not implemented.").With("Header", name)
}

// Unserved returns the error for a feature of S3 that this server does not implement.
func Unserved(what string) *Error { return NotImplemented.Say(what + " is not implemented.") }

// Error returns the code, the message and the cause.
func (e *Error) Error() string {
	s := "s3: " + e.Code + ": " + e.Message
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Say returns a copy of e with another message.
func (e *Error) Say(message string) *Error {
	c := *e
	c.Message = message
	return &c
}

// With returns a copy of e with one more element.
func (e *Error) With(name, value string) *Error {
	c := *e
	c.Fields = append(append([]Field(nil), e.Fields...), Field{Name: name, Value: value})
	return &c
}

// WithHeader returns a copy of e with one more header.
func (e *Error) WithHeader(name, value string) *Error {
	c := *e
	c.Headers = append(append([]Field(nil), e.Headers...), Field{Name: name, Value: value})
	return &c
}

// Because returns a copy of e with a cause.
func (e *Error) Because(err error) *Error {
	c := *e
	c.Cause = err
	return &c
}

// Field returns the value of an element, or "".
func (e *Error) Field(name string) string {
	for _, f := range e.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}
