package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"orcas/core"
	"orcas/s3/sigv4"
)

// apiError is an error as clients see it. The values below are shared and never changed: the methods return copies.
type apiError struct {
	code    string
	status  int
	message string
	fields  []core.Attr // further elements of the XML
	headers []core.Attr // of the answer
	cause   error       // for the log only
}

// Error gives code, message and cause.
func (e *apiError) Error() string {
	s := "s3: " + e.code + ": " + e.message
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *apiError) Unwrap() error { return e.cause }

// say returns e with another message.
func (e *apiError) say(message string) *apiError {
	c := *e
	c.message = message
	return &c
}

// with returns e with one more element.
func (e *apiError) with(name, value string) *apiError {
	c := *e
	c.fields = append(append([]core.Attr(nil), e.fields...), core.Attr{Name: name, Value: value})
	return &c
}

// header returns e with one more header.
func (e *apiError) header(name, value string) *apiError {
	c := *e
	c.headers = append(append([]core.Attr(nil), e.headers...), core.Attr{Name: name, Value: value})
	return &c
}

// argument returns an InvalidArgument that names a header, a parameter or an element.
func argument(name, value, message string) *apiError {
	e := errInvalidArgument.say(message).with("ArgumentName", name)
	if value != "" {
		e = e.with("ArgumentValue", value)
	}
	return e
}

// because returns e with a cause.
func (e *apiError) because(err error) *apiError {
	c := *e
	c.cause = err
	return &c
}

func newError(status int, code, message string) *apiError {
	return &apiError{code: code, status: status, message: message}
}

// The errors of this package.
var (
	errAccessDenied       = newError(403, "AccessDenied", "Access Denied")
	errACLArgument        = newError(400, "InvalidArgument", "The canned ACL is not one that S3 knows.")
	errBadDigest          = newError(400, "BadDigest", "The checksum you specified did not match the calculated checksum.")
	errBadMD5             = newError(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
	errBucketExists       = newError(409, "BucketAlreadyExists", "The requested bucket name is not available. Please select a different name and try again.")
	errBucketOwned        = newError(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.")
	errBucketNotEmpty     = newError(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
	errBucketState        = newError(409, "InvalidBucketState", "The request is not valid with the current state of the bucket.")
	errClientGone         = newError(400, "RequestTimeout", "The client went away before the answer was sent.")
	errConflict           = newError(409, "OperationAborted", "A conflicting operation is in progress against this resource. Please try again.")
	errDamaged            = newError(500, "InternalError", "The stored content failed its checksum; it was not sent.")
	errEntityTooLarge     = newError(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")
	errEntityTooSmall     = newError(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size.")
	errHeadersTooLarge    = newError(400, "RequestHeaderSectionTooLarge", "Your request header section exceeds the maximum allowed request header section size.")
	errIllegalVersioning  = newError(400, "IllegalVersioningConfigurationException", "The Versioning element must be specified")
	errIncompleteBody     = newError(400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header.")
	errInsufficientSpace  = newError(507, "InsufficientStorage", "There is not enough free space to store the content.")
	errInternal           = newError(500, "InternalError", "We encountered an internal error. Please try again.")
	errInvalidAlgorithm   = newError(400, "InvalidEncryptionAlgorithmError", "The Encryption request you specified is not valid. Supported value: AES256.").with("ArgumentName", sseArgument)
	errInvalidArgument    = newError(400, "InvalidArgument", "Invalid Argument")
	errInvalidBucketName  = newError(400, "InvalidBucketName", "The specified bucket is not valid.")
	errInvalidDigest      = newError(400, "InvalidDigest", "The Content-MD5 you specified was invalid.")
	errInvalidPart        = newError(400, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.")
	errInvalidPartNumber  = newError(416, "InvalidPartNumber", "The requested partnumber is not satisfiable")
	errInvalidPartOrder   = newError(400, "InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number.")
	errInvalidRange       = newError(416, "InvalidRange", "The requested range is not satisfiable")
	errInvalidRedirect    = newError(400, "InvalidRedirectLocation", "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.")
	errInvalidRequest     = newError(400, "InvalidRequest", "Invalid Request")
	errInvalidStorage     = newError(400, "InvalidStorageClass", "The storage class you specified is not valid.")
	errInvalidTag         = newError(400, "InvalidTag", "The tag provided was not a valid tag.")
	errInvalidToken       = newError(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
	errInvalidURI         = newError(400, "InvalidURI", "Couldn't parse the specified URI.")
	errKeyForPart         = newError(400, "InvalidRequest", "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.")
	errKeyNeeded          = newError(400, "InvalidRequest", "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.")
	errKeyLength          = newError(400, "InvalidArgument", "The secret key was invalid for the specified algorithm.").with("ArgumentName", sseArgument)
	errKeyTooLong         = newError(400, "KeyTooLongError", "Your key is too long.")
	errLargeSource        = newError(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
	errLockWithoutSum     = newError(400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
	errLocation           = newError(400, "InvalidLocationConstraint", "The specified location-constraint is not valid.")
	errMalformedXML       = newError(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema.")
	errMessageTooLong     = newError(400, "MaxMessageLengthExceeded", "Your request was too big.")
	errMetadataTooLarge   = newError(400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size.")
	errMethodNotAllowed   = newError(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	errMissingBody        = newError(400, "MissingRequestBodyError", "Request Body is empty")
	errMissingHeader      = newError(400, "MissingSecurityHeader", "Your request was missing a required header")
	errMissingMD5         = newError(400, "InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	errNoCORS             = newError(404, "NoSuchCORSConfiguration", "The CORS configuration does not exist")
	errNoLifecycle        = newError(404, "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
	errNoConfiguration    = newError(404, "NoSuchConfiguration", "The specified configuration does not exist.")
	errNoOwnership        = newError(404, "OwnershipControlsNotFoundError", "The bucket ownership controls were not found")
	errNoPolicy           = newError(404, "NoSuchBucketPolicy", "The bucket policy does not exist")
	errNoPublicBlock      = newError(404, "NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")
	errNoQuota            = newError(404, "NoSuchQuotaConfiguration", "The bucket has no quota")
	errNoReplication      = newError(404, "ReplicationConfigurationNotFoundError", "The replication configuration was not found")
	errNoBucketLock       = newError(400, "InvalidRequest", "Bucket is missing Object Lock Configuration")
	errNoLock             = newError(404, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
	errNoLockConfig       = newError(404, "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")
	errNoEncryption       = newError(404, "ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found")
	errNoKMS              = newError(501, "NotImplemented", "Encryption with keys of a key management service (SSE-KMS) is not implemented. AES256 and customer-provided keys are.")
	errNoMasterKey        = newError(501, "NotImplemented", "This server has no master key to encrypt with: its ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY has to be set.")
	errNoSuchBucket       = newError(404, "NoSuchBucket", "The specified bucket does not exist")
	errNoSuchContent      = newError(404, "NoSuchContent", "The bucket does not hold this content, or not with all of these checksums. Send it.")
	errNoSuchKey          = newError(404, "NoSuchKey", "The specified key does not exist.")
	errNoSuchTagSet       = newError(404, "NoSuchTagSet", "The TagSet does not exist")
	errNoSuchUpload       = newError(404, "NoSuchUpload", "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed.")
	errNoSuchVersion      = newError(404, "NoSuchVersion", "The specified version does not exist.")
	errNoWebsite          = newError(404, "NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration")
	errNotImplemented     = newError(501, "NotImplemented", "A header or query you provided implies functionality that is not implemented.")
	errObjectLocked       = newError(403, "AccessDenied", "Access Denied because object protected by object lock.")
	errOtherKey           = newError(400, "InvalidRequest", "The provided encryption parameters did not match the ones used originally.")
	errWrongKey           = newError(403, "AccessDenied", "Requests specifying Server Side Encryption with Customer provided keys must provide the correct secret key.")
	errWrittenSince       = newError(409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation against this resource.")
	errPrecondition       = newError(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	errQuotaExceeded      = newError(403, "QuotaExceeded", "The quota of the bucket is exceeded.")
	errRequestTimeout     = newError(400, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period.")
	errServiceUnavailable = newError(503, "ServiceUnavailable", "The service is unable to handle writes at the moment.")
	errSlowDown           = newError(503, "SlowDown", "Please reduce your request rate.")
	errTokenMismatch      = newError(400, "IdempotencyParameterMismatch", "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).")
	errTooManyAppends     = newError(400, "TooManyParts", "You have attempted to add more parts than the maximum of 10000 that are allowed for this object.")
	errWriteConflict      = newError(409, "ConditionalRequestConflict", "A conflicting operation occurred during the upload. Please try again.")
	errWriteOffset        = newError(400, "InvalidWriteOffset", "The write offset value that you specified does not match the current object size.")
	errTooManyBucketTags  = newError(400, "BadRequest", "Bucket tag count cannot be greater than 50")
	errTooManyTags        = newError(400, "BadRequest", "Object tags cannot be greater than 10")
	errUnexpectedContent  = newError(400, "UnexpectedContent", "This request does not support content")
)

// kindErrors is the one table from kinds of core to what clients see. A kind that is not here is an InternalError.
var kindErrors = map[core.Kind]*apiError{
	core.NoSuchBucket:       errNoSuchBucket,
	core.NoSuchKey:          errNoSuchKey,
	core.NoSuchVersion:      errNoSuchVersion,
	core.NoSuchUpload:       errNoSuchUpload,
	core.InvalidPart:        errInvalidPart,
	core.BucketExists:       errBucketExists,
	core.BucketNotEmpty:     errBucketNotEmpty,
	core.PreconditionFailed: errPrecondition,
	core.Conflict:           errConflict,
	core.MethodNotAllowed:   errMethodNotAllowed,
	core.InvalidArgument:    errInvalidArgument,
	core.TooLarge:           errEntityTooLarge,
	core.TooSmall:           errEntityTooSmall,
	core.Incomplete:         errIncompleteBody,
	core.Damaged:            errDamaged,
	core.NoSpace:            errInsufficientSpace,
	core.Overloaded:         errSlowDown,
	core.Unavailable:        errServiceUnavailable,
	core.Canceled:           errClientGone,
	core.BadDigest:          errBadDigest,
	core.Locked:             errObjectLocked,
	core.BucketState:        errBucketState,
	core.NoKey:              errAccessDenied,
	core.QuotaExceeded:      errQuotaExceeded,
}

// errorDetails are the elements that S3 adds to errors of a code, as far as they follow from the request alone (see
// request.element). What failed may say them first: of a copy, say, that it is the source that is not there.
var errorDetails = map[string][]string{
	errBucketExists.code:      {"BucketName"},
	errBucketNotEmpty.code:    {"BucketName"},
	errBucketOwned.code:       {"BucketName"},
	errInvalidBucketName.code: {"BucketName"},
	errInvalidURI.code:        {"URI"},
	errMethodNotAllowed.code:  {"Method", "ResourceType"},
	errNoCORS.code:            {"BucketName"},
	errNoEncryption.code:      {"BucketName"},
	errNoLifecycle.code:       {"BucketName"},
	errNoLockConfig.code:      {"BucketName"},
	errNoOwnership.code:       {"BucketName"},
	errNoPolicy.code:          {"BucketName"},
	errNoPublicBlock.code:     {"BucketName"},
	errNoQuota.code:           {"BucketName"},
	errNoReplication.code:     {"BucketName"},
	errNoSuchBucket.code:      {"BucketName"},
	errNoSuchKey.code:         {"Key"},
	errNoSuchTagSet.code:      {"BucketName"},
	errNoSuchUpload.code:      {"UploadId"},
	errNoSuchVersion.code:     {"Key", "VersionId"},
	errNoWebsite.code:         {"BucketName"},
	errQuotaExceeded.code:     {"BucketName"},
	errPrecondition.code:      {"Condition"},
}

// element returns what an element of an error says of the request, or "".
func (q *request) element(name string) string {
	switch name {
	case "BucketName":
		return q.bucketName
	case "Key":
		return q.key
	case "VersionId":
		return q.query.value("versionId")
	case "UploadId":
		return q.query.value("uploadId")
	case "URI":
		return q.r.URL.EscapedPath()
	case "Method":
		return q.r.Method
	case "ResourceType":
		if sub, _ := q.query.subresource(); sub != "" {
			return strings.ToUpper(sub)
		}
		return [...]string{"SERVICE", "BUCKET", "OBJECT"}[q.level()]
	case "Condition":
		for _, name := range [...]string{"If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since", sameSizeName, sameTimeName} {
			if len(q.r.Header[name]) > 0 {
				return name
			}
		}
	}
	return ""
}

// detail adds to an error what S3 tells of the request that failed.
func (q *request) detail(e *apiError) *apiError {
	for _, name := range errorDetails[e.code] {
		if attr(e.fields, name) == "" {
			if v := q.element(name); v != "" {
				e = e.with(name, v)
			}
		}
	}
	return e
}

// signatureStatus is the HTTP status of the codes of sigv4 that are not 400.
var signatureStatus = map[sigv4.Code]int{
	sigv4.AccessDenied:          http.StatusForbidden,
	sigv4.InvalidAccessKeyID:    http.StatusForbidden,
	sigv4.RequestTimeTooSkewed:  http.StatusForbidden,
	sigv4.SignatureDoesNotMatch: http.StatusForbidden,
	sigv4.MissingContentLength:  http.StatusLengthRequired,
	sigv4.NotImplemented:        http.StatusNotImplemented,
}

// toAPI turns any error into the one that the client sees.
func toAPI(err error) *apiError {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var sig *sigv4.Error
	if errors.As(err, &sig) {
		return fromSignature(sig)
	}
	var inner *core.Error
	if errors.As(err, &inner) {
		if e, ok := kindErrors[inner.Kind]; ok {
			if e == errQuotaExceeded {
				e = overQuota(err)
			}
			return e.because(err)
		}
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errIncompleteBody.because(err)
	case errors.Is(err, context.Canceled):
		return errClientGone.because(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return errRequestTimeout.because(err)
	case errors.As(err, &tooLong):
		return errMessageTooLong.because(err)
	}
	return errInternal.because(err)
}

func fromSignature(e *sigv4.Error) *apiError {
	status := http.StatusBadRequest
	if s, ok := signatureStatus[e.Code]; ok {
		status = s
	}
	out := &apiError{code: string(e.Code), status: status, message: e.Message, cause: e.Err}
	for _, d := range e.Details {
		out.fields = append(out.fields, core.Attr(d))
	}
	return out
}
