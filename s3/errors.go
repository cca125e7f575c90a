package s3

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"orcas/core"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3/apierr"
)

// The errors of this package.
var (
	errAccessDenied       = apierr.New(403, "AccessDenied", "Access Denied")
	errACLArgument        = apierr.New(400, "InvalidArgument", "Unknown canned ACL.")
	errBadDigest          = apierr.New(400, "BadDigest", "The checksum you specified did not match the calculated checksum.")
	errBadMD5             = apierr.New(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
	errBucketExists       = apierr.New(409, "BucketAlreadyExists", "The requested bucket name is not available. Please select a different name and try again.")
	errBucketOwned        = apierr.New(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.")
	errBucketNotEmpty     = apierr.New(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
	errBucketState        = apierr.New(409, "InvalidBucketState", "The request is not valid with the current state of the bucket.")
	errCORSDisabled       = apierr.New(403, "AccessForbidden", "CORSResponse: CORS is not enabled for this bucket.")
	errCORSNoBucket       = apierr.New(403, "AccessForbidden", "CORSResponse: Bucket not found")
	errCORSRefused        = apierr.New(403, "AccessForbidden", "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.")
	errClientGone         = apierr.New(400, "RequestTimeout", "The client disconnected before the response was sent.")
	errConflict           = apierr.New(409, "OperationAborted", "A conflicting operation is in progress against this resource. Please try again.")
	errDamaged            = apierr.New(500, "InternalError", "The stored content is damaged or missing, so it was not sent.")
	errEntityTooLarge     = apierr.New(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")
	errEntityTooSmall     = apierr.New(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size.")
	errEscapingKey        = apierr.New(400, "InvalidURI", "The key must not contain \"..\" segments that lead above the root of the bucket.")
	errHeadersTooLarge    = apierr.New(400, "RequestHeaderSectionTooLarge", "Your request header section exceeds the maximum allowed request header section size.")
	errIllegalVersioning  = apierr.New(400, "IllegalVersioningConfigurationException", "The Versioning element must be specified")
	errIncompleteBody     = apierr.New(400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header.")
	errInsufficientSpace  = apierr.New(507, "InsufficientStorage", "There is not enough free space to store the content.")
	errInternal           = apierr.New(500, "InternalError", "We encountered an internal error. Please try again.")
	errInvalidAlgorithm   = apierr.New(400, "InvalidEncryptionAlgorithmError", "The Encryption request you specified is not valid. Supported value: AES256.").With("ArgumentName", sseArgument)
	errInvalidArgument    = apierr.InvalidArgument
	errInvalidBucketName  = apierr.New(400, "InvalidBucketName", "The specified bucket is not valid.")
	errInvalidDigest      = apierr.New(400, "InvalidDigest", "The Content-MD5 you specified was invalid.")
	errInvalidPart        = apierr.New(400, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.")
	errInvalidPartNumber  = apierr.New(416, "InvalidPartNumber", "The requested partnumber is not satisfiable")
	errInvalidPartOrder   = apierr.New(400, "InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number.")
	errInvalidRedirect    = apierr.New(400, "InvalidRedirectLocation", "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.")
	errInvalidRequest     = apierr.InvalidRequest
	errInvalidStorage     = apierr.New(400, "InvalidStorageClass", "The storage class you specified is not valid.")
	errExpiredToken       = apierr.New(400, "ExpiredToken", "The provided token has expired.")
	errInvalidToken       = apierr.New(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
	errInvalidURI         = apierr.New(400, "InvalidURI", "Couldn't parse the specified URI.")
	errKeyForPart         = apierr.New(400, "InvalidRequest", "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.")
	errKeyNeeded          = apierr.New(400, "InvalidRequest", "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.")
	errKeyLength          = apierr.New(400, "InvalidArgument", "The secret key was invalid for the specified algorithm.").With("ArgumentName", sseArgument)
	errKeyTooLong         = apierr.New(400, "KeyTooLongError", "Your key is too long.")
	errLargeSource        = apierr.New(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
	errLockWithoutSum     = apierr.New(400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters")
	errLocation           = apierr.New(400, "InvalidLocationConstraint", "The specified location-constraint is not valid.")
	errMalformedPolicy    = apierr.New(400, "MalformedPolicy", "The policy is not valid.")
	errMalformedXML       = apierr.MalformedXML
	errMessageTooLong     = apierr.MessageTooLong
	errMetadataTooLarge   = apierr.New(400, "MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size.")
	errMethodNotAllowed   = apierr.New(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	errMissingBody        = apierr.New(400, "MissingRequestBodyError", "Request Body is empty")
	errMissingHeader      = apierr.New(400, "MissingSecurityHeader", "Your request was missing a required header")
	errMissingLength      = apierr.New(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
	errMissingMD5         = apierr.New(400, "InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	errNoCORSMethod       = apierr.New(400, "BadRequest", "Invalid Access-Control-Request-Method: null")
	errNoCORS             = apierr.New(404, "NoSuchCORSConfiguration", "The CORS configuration does not exist")
	errNoLifecycle        = apierr.New(404, "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
	errNoConfiguration    = apierr.New(404, "NoSuchConfiguration", "The specified configuration does not exist.")
	errNoOrigin           = apierr.New(400, "BadRequest", "Insufficient information. Origin request header needed.")
	errNoOwnership        = apierr.New(404, "OwnershipControlsNotFoundError", "The bucket ownership controls were not found")
	errNoPolicy           = apierr.New(404, "NoSuchBucketPolicy", "The bucket policy does not exist")
	errNoPublicBlock      = apierr.New(404, "NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")
	errNoQuota            = apierr.New(404, "NoSuchQuotaConfiguration", "The bucket has no quota")
	errNoReplication      = apierr.New(404, "ReplicationConfigurationNotFoundError", "The replication configuration was not found")
	errNoACLs             = apierr.New(400, "AccessControlListNotSupported", "The bucket does not allow ACLs")
	errNoBucketACLs       = apierr.New(400, "InvalidBucketAclWithObjectOwnership", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
	errNoBucketLock       = apierr.New(400, "InvalidRequest", "Bucket is missing Object Lock Configuration")
	errNoLock             = apierr.New(404, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
	errNoLockConfig       = apierr.New(404, "ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket")
	errNoEncryption       = apierr.New(404, "ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found")
	errNoKMS              = apierr.New(501, "NotImplemented", "Encryption with keys of a key management service (SSE-KMS) is not implemented. Use AES256 or a customer-provided key.")
	errNoMasterKey        = apierr.New(501, "NotImplemented", "This server has no master key. Its operator must set ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY to enable encryption.")
	errNoSuchBucket       = apierr.New(404, "NoSuchBucket", "The specified bucket does not exist")
	errNoSuchContent      = apierr.New(404, "NoSuchContent", "The bucket does not contain content with all of these checksums. Send the content.")
	errNoSuchKey          = apierr.New(404, "NoSuchKey", "The specified key does not exist.")
	errNoSuchTagSet       = apierr.New(404, "NoSuchTagSet", "The TagSet does not exist")
	errNoSuchUpload       = apierr.New(404, "NoSuchUpload", "The specified multipart upload does not exist. The upload ID might be invalid, or the multipart upload might have been aborted or completed.")
	errNoSuchVersion      = apierr.New(404, "NoSuchVersion", "The specified version does not exist.")
	errNoWebsite          = apierr.New(404, "NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration")
	errNotImplemented     = apierr.NotImplemented
	errObjectLocked       = apierr.New(403, "AccessDenied", "Access Denied because object protected by object lock.")
	errOtherKey           = apierr.New(400, "InvalidRequest", "The provided encryption parameters did not match the ones used originally.")
	errWrongKey           = apierr.New(403, "AccessDenied", "Requests specifying Server Side Encryption with Customer provided keys must provide the correct secret key.")
	errWrittenSince       = apierr.New(409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation against this resource.")
	errPrecondition       = apierr.PreconditionFailed
	errQuotaExceeded      = apierr.New(403, "QuotaExceeded", "The quota of the bucket is exceeded.")
	errRequestTimeout     = apierr.New(400, "RequestTimeout", "Your socket connection to the server was not read from or written to within the timeout period.")
	errReadOnly           = apierr.New(503, "ServiceUnavailable", "The server is read-only because stored blocks are missing. The server log has the details.")
	errServiceUnavailable = apierr.New(503, "ServiceUnavailable", "The service is unable to handle writes at the moment.")
	errSlowDown           = apierr.New(503, "SlowDown", "Please reduce your request rate.")
	errTokenMismatch      = apierr.New(400, "IdempotencyParameterMismatch", "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).")
	errTooManyAppends     = apierr.New(400, "TooManyParts", "You have attempted to add more parts than the maximum of 10000 that are allowed for this object.")
	errWriteConflict      = apierr.New(409, "ConditionalRequestConflict", "A conflicting operation occurred during the upload. Please try again.")
	errWriteOffset        = apierr.New(400, "InvalidWriteOffset", "The write offset value that you specified does not match the current object size.")
	errUnexpectedContent  = apierr.New(400, "UnexpectedContent", "This request does not support content")
)

// kindErrors maps the error kinds of core to S3 errors. This is the only such table. Any other kind becomes an
// InternalError.
var kindErrors = map[core.Kind]*apierr.Error{
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
	core.ReadOnly:           errReadOnly,
}

// errorDetails lists the elements that S3 adds to errors by code, if their values follow from the request (see
// request.element). They do not replace elements that an error already has, such as the key of a copy's source.
var errorDetails = map[string][]string{
	errBucketExists.Code:      {"BucketName"},
	errBucketNotEmpty.Code:    {"BucketName"},
	errBucketOwned.Code:       {"BucketName"},
	errInvalidBucketName.Code: {"BucketName"},
	errInvalidURI.Code:        {"URI"},
	errMethodNotAllowed.Code:  {"Method", "ResourceType"},
	errNoCORS.Code:            {"BucketName"},
	errNoEncryption.Code:      {"BucketName"},
	errNoLifecycle.Code:       {"BucketName"},
	errNoLockConfig.Code:      {"BucketName"},
	errNoOwnership.Code:       {"BucketName"},
	errNoPolicy.Code:          {"BucketName"},
	errNoPublicBlock.Code:     {"BucketName"},
	errNoQuota.Code:           {"BucketName"},
	errNoReplication.Code:     {"BucketName"},
	errNoSuchBucket.Code:      {"BucketName"},
	errNoSuchKey.Code:         {"Key"},
	errNoSuchTagSet.Code:      {"BucketName"},
	errNoSuchUpload.Code:      {"UploadId"},
	errNoSuchVersion.Code:     {"Key", "VersionId"},
	errNoWebsite.Code:         {"BucketName"},
	errQuotaExceeded.Code:     {"BucketName"},
	errPrecondition.Code:      {"Condition"},
}

// element returns the value of an error element for the request, or "".
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
		return [...]string{gate.Service: "SERVICE", gate.Bucket: "BUCKET", gate.Object: "OBJECT"}[q.level()]
	case "Condition":
		for _, name := range [...]string{"If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since", sameSizeName, sameTimeName} {
			if len(q.r.Header[name]) > 0 {
				return name
			}
		}
	}
	return ""
}

// detail adds the elements that describe the failed request to an error, as in S3.
func (q *request) detail(e *apierr.Error) *apierr.Error {
	for _, name := range errorDetails[e.Code] {
		if e.Field(name) == "" {
			if v := q.element(name); v != "" {
				e = e.With(name, v)
			}
		}
	}
	return e
}

// signatureStatus maps codes of sigv4 to their HTTP status if that is not 400.
var signatureStatus = map[sigv4.Code]int{
	sigv4.AccessDenied:          http.StatusForbidden,
	sigv4.InvalidAccessKeyID:    http.StatusForbidden,
	sigv4.InvalidChunkSizeError: http.StatusForbidden,
	sigv4.RequestTimeTooSkewed:  http.StatusForbidden,
	sigv4.SignatureDoesNotMatch: http.StatusForbidden,
	sigv4.MissingContentLength:  http.StatusLengthRequired,
	sigv4.NotImplemented:        http.StatusNotImplemented,
}

// toAPI converts any error to the error that the client sees.
func toAPI(err error) *apierr.Error {
	var own *apierr.Error
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
			return e.Because(err)
		}
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errIncompleteBody.Because(err)
	case errors.Is(err, context.Canceled):
		return errClientGone.Because(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return errRequestTimeout.Because(err)
	case errors.As(err, &tooLong):
		return errMessageTooLong.Because(err)
	}
	return errInternal.Because(err)
}

func fromSignature(e *sigv4.Error) *apierr.Error {
	out := &apierr.Error{Code: string(e.Code), Status: cmp.Or(signatureStatus[e.Code], http.StatusBadRequest), Message: e.Message, Cause: e.Err}
	for _, d := range e.Details {
		out.Fields = append(out.Fields, apierr.Field(d))
	}
	return out
}
