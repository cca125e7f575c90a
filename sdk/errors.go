package sdk

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Error is the error of an operation.
type Error struct {
	Op, Bucket, Key string // the operation, such as "Get", and what it was for
	Code            string // the code of S3. If the response has none, the one that belongs to its status; "" without a response
	Status          int    // HTTP status; 0 without a response
	Message         string // of the server
	RequestID       string
	Region          string // with ErrRedirect: the region of the bucket, if the server told it
	DeleteMarker    bool   // the current or requested version is a delete marker
	Uncertain       bool   // a write failed, but may have happened: look before you repeat it
	Attempts        int    // requests that were sent
	Err             error  // the cause, if it is not a response of the server

	version bool // a version was requested
	guessed bool // the code was derived from the status
}

// Error names the operation and the object, then what the server responded, or the cause. It has one line, and characters
// that could control a terminal are escaped, because the server and the authors of keys choose parts of the text.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Bucket != "" {
		b.WriteString(" s3://" + e.Bucket)
		if e.Key != "" {
			b.WriteString("/" + e.Key)
		}
	}
	if e.Code != "" || e.Status != 0 {
		fmt.Fprintf(&b, ": %s (HTTP status %d)", e.Code, e.Status)
		if e.Message != "" {
			b.WriteString(": " + e.Message)
		}
		if e.RequestID != "" {
			b.WriteString(" [request " + e.RequestID + "]")
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	if e.Uncertain {
		b.WriteString("; it may have happened nevertheless")
	}
	return printable(b.String())
}

// printable escapes what cannot be printed, as in Go's string literals.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteString(s[i : i+n])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += n
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is one of the errors of this package, and e of that kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(*kind)
	if !ok {
		return false
	}
	if slices.Contains(k.codes, e.Code) {
		return true
	}
	// A response to HEAD has no document. With a version, a 404 means that either does not exist.
	return k == ErrNoSuchKey && e.guessed && e.Code == "NoSuchVersion"
}

// kind is an error to compare with. An Error is of this kind if it has one of the codes.
type kind struct {
	text  string
	codes []string
}

// Error implements error.
func (k *kind) Error() string { return "sdk: " + k.text }

func newKind(text string, codes ...string) *kind { return &kind{text, codes} }

// The kinds of errors, for errors.Is.
var (
	ErrNoSuchKey           = newKind("the object does not exist", "NoSuchKey")
	ErrNoSuchBucket        = newKind("the bucket does not exist", "NoSuchBucket")
	ErrNoSuchVersion       = newKind("the version does not exist", "NoSuchVersion")
	ErrNoSuchUpload        = newKind("the multipart upload does not exist", "NoSuchUpload")
	ErrNoSuchContent       = newKind("the server does not hold the content", "NoSuchContent")
	ErrNoSuchConfiguration = newKind("nothing is configured", "NoSuchConfiguration", "NoSuchBucketPolicy", "NoSuchCORSConfiguration",
		"NoSuchLifecycleConfiguration", "NoSuchTagSet", "NoSuchWebsiteConfiguration", "NoSuchPublicAccessBlockConfiguration",
		"NoSuchObjectLockConfiguration", "NoSuchQuotaConfiguration", "ObjectLockConfigurationNotFoundError", "OwnershipControlsNotFoundError",
		"ReplicationConfigurationNotFoundError", "ServerSideEncryptionConfigurationNotFoundError")
	ErrAccessDenied        = newKind("access denied", "AccessDenied", "AllAccessDisabled", "AccountProblem")
	ErrSignature           = newKind("the signature is wrong: check the secret key", "SignatureDoesNotMatch")
	ErrInvalidAccessKey    = newKind("the server does not know the access key", "InvalidAccessKeyId")
	ErrInvalidToken        = newKind("the session token is invalid or has expired", "InvalidToken", "ExpiredToken", "TokenRefreshRequired")
	ErrClockSkew           = newKind("the clocks of client and server differ too much", "RequestTimeTooSkewed")
	ErrPreconditionFailed  = newKind("a condition is false", "PreconditionFailed", "ConditionalRequestConflict")
	ErrNotModified         = newKind("not modified", "NotModified")
	ErrBucketExists        = newKind("the bucket exists", "BucketAlreadyExists", "BucketAlreadyOwnedByYou")
	ErrBucketNotEmpty      = newKind("the bucket is not empty", "BucketNotEmpty")
	ErrQuotaExceeded       = newKind("the quota of the bucket is exceeded", "QuotaExceeded")
	ErrInsufficientStorage = newKind("the server has no space left", "InsufficientStorage", "XMinioStorageFull")
	ErrInvalidRange        = newKind("the range is outside of the object", "InvalidRange", "InvalidPartNumber")
	ErrInvalidOffset       = newKind("the object does not have the size that the append expects", "InvalidWriteOffset")
	ErrInvalidArgument     = newKind("an argument is invalid", "InvalidArgument", "InvalidRequest", "InvalidBucketName", "InvalidURI", "KeyTooLongError",
		"MalformedXML", "InvalidTag", "MetadataTooLarge", "InvalidStorageClass")
	ErrInvalidPart    = newKind("a part of the upload does not exist or is too small", "InvalidPart", "InvalidPartOrder", "EntityTooSmall")
	ErrNotImplemented = newKind("the server does not support this", "NotImplemented", "MethodNotAllowed")
	ErrSlowDown       = newKind("the server is overloaded", "SlowDown", "ServiceUnavailable", "Busy", "TooManyRequests")
	ErrRedirect       = newKind("the bucket is elsewhere", "PermanentRedirect", "TemporaryRedirect", "Redirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")

	// ErrChecksum means that content was damaged: what arrived differs from its checksum, at the client or at the server.
	ErrChecksum = newKind("the content is damaged", "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch")

	// ErrNetwork means that there is no response: the connection failed, or broke, or made no progress.
	ErrNetwork = newKind("no response from the server")

	// ErrProtocol means that a response is not what S3 defines: it is not XML, or too long, or contradicts itself.
	ErrProtocol = newKind("the response of the server is not valid")
)

// networkError is an error of the connection.
type networkError struct{ err error }

func (e *networkError) Error() string        { return e.err.Error() }
func (e *networkError) Unwrap() error        { return e.err }
func (e *networkError) Is(target error) bool { return target == ErrNetwork }

// kindError is an error of this package of the given kind.
type kindError struct {
	kind *kind
	text string
}

func (e *kindError) Error() string        { return e.text }
func (e *kindError) Is(target error) bool { return target == error(e.kind) }

// failed returns an error of a kind with its own text.
func failed(k *kind, format string, args ...any) error {
	return &kindError{k, fmt.Sprintf(format, args...)}
}

// errIdle is the cause of a request that made no progress.
var errIdle = errors.New("idle timeout")

// argument returns the error of an operation that was called with a wrong argument.
func argument(op, bucket, key, format string, args ...any) error {
	return &Error{Op: op, Bucket: bucket, Key: key, Err: failed(ErrInvalidArgument, format, args...)}
}

// errorDocument is the document of an error response.
type errorDocument struct {
	XMLName    xml.Name `xml:"Error"`
	Code       string
	Message    string
	RequestID  string `xml:"RequestId"`
	Region     string
	Endpoint   string
	ServerTime string
}

// parseErrorDocument returns the document in b, or nil if b is something else.
func parseErrorDocument(b []byte) *errorDocument {
	var d errorDocument
	if len(b) == 0 || xml.Unmarshal(b, &d) != nil || d.Code == "" {
		return nil
	}
	return &d
}

// responseError returns the error for a response. doc is its document, and may be nil.
func (q *call) responseError(status int, h http.Header, doc *errorDocument, now time.Time) *Error {
	e := &Error{Op: q.op, Bucket: q.bucket, Key: q.key, Status: status, RequestID: h.Get("X-Amz-Request-Id"),
		Region: h.Get("X-Amz-Bucket-Region"), DeleteMarker: h.Get("X-Amz-Delete-Marker") == "true", version: q.version}
	if doc != nil {
		e.Code, e.Message = doc.Code, doc.Message
		if e.RequestID == "" {
			e.RequestID = doc.RequestID
		}
		if e.Region == "" {
			e.Region = doc.Region
		}
	} else {
		e.guessed = true
		e.Code = codeOfStatus(status, q)
		e.Message = http.StatusText(status)
	}
	switch {
	case status >= 300 && status < 400 && status != http.StatusNotModified:
		e.Message = redirectMessage(e, doc, h)
	case e.Code == "RequestTimeTooSkewed":
		e.Message = skewMessage(e, doc, h, now)
	}
	return e
}

// redirectMessage says where a bucket is. The client never goes there by itself: the requests, and so the credentials,
// are for the configured server only.
func redirectMessage(e *Error, doc *errorDocument, h http.Header) string {
	switch {
	case e.Region != "":
		return fmt.Sprintf("the bucket is in the region %s: configure that region and its endpoint", e.Region)
	case doc != nil && doc.Endpoint != "":
		return fmt.Sprintf("the server says that the endpoint is %q: configure it if that is right", doc.Endpoint)
	case h.Get("Location") != "":
		return fmt.Sprintf("the server redirects to %q, which is not followed: configure that endpoint if it is right", h.Get("Location"))
	}
	return "the server redirects, without saying where to"
}

// skewMessage says by how much the clocks differ.
func skewMessage(e *Error, doc *errorDocument, h http.Header, now time.Time) string {
	var server time.Time
	if doc != nil {
		server, _ = time.Parse(time.RFC3339, doc.ServerTime)
	}
	if server.IsZero() {
		server, _ = http.ParseTime(h.Get("Date"))
	}
	if server.IsZero() {
		return e.Message
	}
	d := now.Sub(server).Round(time.Second)
	relation := "ahead of"
	if d < 0 {
		d, relation = -d, "behind"
	}
	return fmt.Sprintf("the clock of this machine (%s) is %s %s that of the server: set the clock",
		now.UTC().Format(time.RFC3339), d, relation)
}

// codeOfStatus returns the code for a response without a document.
func codeOfStatus(status int, q *call) string {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return "Redirect"
	case http.StatusNotModified:
		return "NotModified"
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDenied"
	case http.StatusNotFound:
		switch {
		case q.key == "":
			return "NoSuchBucket"
		case q.version:
			return "NoSuchVersion"
		}
		return "NoSuchKey"
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowed"
	case http.StatusPreconditionFailed:
		return "PreconditionFailed"
	case http.StatusRequestedRangeNotSatisfiable:
		return "InvalidRange"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusInternalServerError:
		return "InternalError"
	case http.StatusNotImplemented:
		return "NotImplemented"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	case http.StatusInsufficientStorage:
		return "InsufficientStorage"
	}
	return "HTTP" + fmt.Sprint(status)
}

// localError returns the error for an operation that failed without a response.
func (q *call) localError(err error) *Error {
	return &Error{Op: q.op, Bucket: q.bucket, Key: q.key, Err: err, version: q.version}
}

// transportError makes an error of the transport, or of reading a response, one of this package. ctx is that of the
// caller, and cause the reason why the request was canceled.
func transportError(ctx context.Context, cause, err error, idle time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(cause, errIdle):
		return &networkError{fmt.Errorf("no byte was sent or received for %s", idle)}
	}
	var e *kindError
	if errors.As(err, &e) {
		return err
	}
	return &networkError{err}
}
