package iam

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/sigv4"
)

// apiError is an error in the form that clients see. Values are shared: saying and because return copies.
type apiError struct {
	status  int // HTTP status
	code    string
	message string
	cause   error // for the log only
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// saying returns a copy with another message.
func (e *apiError) saying(format string, args ...any) *apiError {
	copied := *e
	copied.message = fmt.Sprintf(format, args...)
	return &copied
}

// because returns a copy with a cause.
func (e *apiError) because(cause error) *apiError {
	copied := *e
	copied.cause = cause
	return &copied
}

// The errors that all actions have in common, with the codes and messages of AWS.
var (
	errBusy          = &apiError{status: 503, code: "ServiceUnavailable", message: "Too many requests are in progress. Try again."}
	errDenied        = &apiError{status: 403, code: "AccessDenied"}
	errExpiredToken  = &apiError{status: 403, code: "ExpiredToken", message: "The security token included in the request is expired"}
	errIncomplete    = &apiError{status: 400, code: "IncompleteSignature"}
	errInternal      = &apiError{status: 500, code: "InternalFailure", message: "The request processing has failed because of an internal error."}
	errInvalidAction = &apiError{status: 400, code: "InvalidAction"}
	errInvalidInput  = &apiError{status: 400, code: "InvalidInput"}
	errInvalidToken  = &apiError{status: 403, code: "InvalidClientTokenId", message: "The security token included in the request is invalid."}
	errMalformed     = &apiError{status: 400, code: "MalformedQueryString", message: "The query string contains a syntax error."}
	errNoAction      = &apiError{status: 400, code: "MissingAction", message: "The request is missing an action or a required parameter."}
	errNoEntity      = &apiError{status: 404, code: "NoSuchEntity"}
	errNoSpace       = &apiError{status: 507, code: "ServiceFailure", message: "The drive of the server is full."}
	errNoToken       = &apiError{status: 403, code: "MissingAuthenticationToken", message: "Request is missing Authentication Token"}
	errSignature     = &apiError{status: 403, code: "SignatureDoesNotMatch", message: "The request signature we calculated does not match " +
		"the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."}
	errSlowDown    = &apiError{status: 503, code: "SlowDown"}
	errThrottling  = &apiError{status: 400, code: "Throttling"}
	errTooLarge    = &apiError{status: 413, code: "RequestEntityTooLarge", message: fmt.Sprintf("The body is larger than %d bytes.", maxBody)}
	errUnavailable = &apiError{status: 503, code: "ServiceUnavailable", message: "The request has failed due to a temporary failure of the server."}
	errValidation  = &apiError{status: 400, code: "ValidationError"}
)

// internalError returns an InternalFailure with a cause for the log.
func internalError(format string, args ...any) *apiError {
	return errInternal.because(fmt.Errorf(format, args...))
}

// authenticationError returns the error for a request whose sender could not be identified at the time now.
func authenticationError(err error, now time.Time) error {
	var unknown *gate.LookupError
	var tooLarge *http.MaxBytesError
	var signature *sigv4.Error
	switch {
	case errors.As(err, &unknown):
		return errInternal.because(unknown.Cause)
	case errors.As(err, &tooLarge):
		return errTooLarge
	case errors.Is(err, gate.ErrThrottled):
		return errThrottling.saying("Rate exceeded: %s.", gate.ErrThrottled)
	case errors.Is(err, gate.ErrExpired):
		return errExpiredToken
	case errors.Is(err, gate.ErrToken):
		return errInvalidToken
	case errors.Is(err, auth.ErrDenied):
		return errInvalidToken
	case !errors.As(err, &signature):
		return err
	}
	switch signature.Code {
	case sigv4.InvalidAccessKeyID:
		return errInvalidToken
	case sigv4.SignatureDoesNotMatch, sigv4.XAmzContentSHA256Mismatch:
		return errSignature
	case sigv4.RequestTimeTooSkewed:
		return errSignature.saying("Signature expired or not yet current: the time of the request and that of the server (%s) "+
			"differ by more than %d minutes.", now.UTC().Format(time.RFC3339), int(sigv4.DefaultSkew.Minutes()))
	case sigv4.IncompleteBody:
		return errMalformed.saying("%s", signature.Message).because(signature.Err)
	case sigv4.AccessDenied:
		return errSignature.saying("%s", signature.Message)
	}
	return errIncomplete.saying("%s", signature.Message)
}

// statuses are the HTTP statuses of errors of package identity.
var statuses = map[identity.Code]int{
	identity.NoSuchEntity:    http.StatusNotFound,
	identity.Exists:          http.StatusConflict,
	identity.InUse:           http.StatusConflict,
	identity.TooMany:         http.StatusConflict,
	identity.Invalid:         http.StatusBadRequest,
	identity.MalformedPolicy: http.StatusBadRequest,
	identity.Unmodifiable:    http.StatusBadRequest,
	identity.Denied:          http.StatusForbidden,
	identity.Validation:      http.StatusBadRequest,
}

// toError returns the response to an error.
func toError(err error) *apiError {
	var known *apiError
	var wrong *identity.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrong) && statuses[wrong.Code] != 0:
		return &apiError{status: statuses[wrong.Code], code: string(wrong.Code), message: wrong.Text}
	}
	switch core.KindOf(err) {
	case core.NoSpace:
		return errNoSpace.because(err)
	case core.NoKey:
		return errInternal.saying("%s", core.Text(err)).because(err)
	case core.Canceled, core.Unavailable, core.Overloaded, core.Busy, core.ReadOnly:
		return errUnavailable.because(err)
	}
	return errInternal.because(err)
}
