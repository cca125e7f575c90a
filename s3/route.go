package s3

import (
	"fmt"
	"net/http"
)

// level is what a path names.
type level uint8

const (
	serviceLevel level = iota
	bucketLevel
	objectLevel
)

// action is what a caller must be allowed to do, in the words of S3's policies.
type action string

// condition is a set of the conditional headers of HTTP.
type condition uint8

const (
	ifMatch condition = 1 << iota
	ifNoneMatch
	ifModifiedSince
	ifUnmodifiedSince

	readConditions  = ifMatch | ifNoneMatch | ifModifiedSince | ifUnmodifiedSince
	writeConditions = ifMatch | ifNoneMatch
	// cacheConditions may be left out of account: the full answer to a GET is always right.
	cacheConditions = ifNoneMatch | ifModifiedSince
)

// route is one operation.
type route struct {
	name   string
	method string
	level  level
	sub    string // the query parameter that selects it; "": none
	copies bool   // it has the header x-amz-copy-source
	moves  bool   // it has the header x-amz-move-source

	action        action
	withoutBucket bool      // the bucket need not exist
	versioned     bool      // it takes a versionId
	conditions    condition // the conditional headers that it heeds
	optional      optional  // further headers that it heeds and others refuse
	handle        func(*request) error
}

// routeKey is how a request is recognised.
type routeKey struct {
	method string
	level  level
	sub    string
	copies bool
	moves  bool
}

// allRoutes returns every operation that there is.
func allRoutes() []route {
	const (
		get, head, put, post, del = http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete
		service, bucket, object   = serviceLevel, bucketLevel, objectLevel
	)
	return append([]route{
		{name: "ListBuckets", method: get, level: service, action: "s3:ListAllMyBuckets", withoutBucket: true, conditions: cacheConditions, handle: (*request).listBuckets},

		{name: "CreateBucket", method: put, level: bucket, action: "s3:CreateBucket", withoutBucket: true, optional: headerBucketLock, handle: (*request).createBucket},
		{name: "HeadBucket", method: head, level: bucket, action: "s3:ListBucket", conditions: cacheConditions, handle: (*request).headBucket},
		{name: "DeleteBucket", method: del, level: bucket, action: "s3:DeleteBucket", handle: (*request).deleteBucket},
		{name: "ListObjects", method: get, level: bucket, action: "s3:ListBucket", conditions: cacheConditions, handle: (*request).listObjects},
		{name: "ListObjectsV2", method: get, level: bucket, sub: "list-type", action: "s3:ListBucket", conditions: cacheConditions, handle: (*request).listObjectsV2},
		{name: "DeleteObjects", method: post, level: bucket, sub: "delete", action: "s3:DeleteObject", optional: headerBypass, handle: (*request).deleteObjects},
		{name: "FindContent", method: post, level: bucket, sub: instantSub, action: "s3:PutObject", handle: (*request).findContent},
		{name: "ListMultipartUploads", method: get, level: bucket, sub: "uploads", action: "s3:ListBucketMultipartUploads", conditions: cacheConditions, handle: (*request).listUploads},
		{name: "GetBucketLocation", method: get, level: bucket, sub: "location", action: "s3:GetBucketLocation", conditions: cacheConditions, handle: (*request).getLocation},
		{name: "GetBucketLifecycleConfiguration", method: get, level: bucket, sub: "lifecycle", action: "s3:GetLifecycleConfiguration", conditions: cacheConditions, handle: (*request).getLifecycle},
		{name: "PutBucketLifecycleConfiguration", method: put, level: bucket, sub: "lifecycle", action: "s3:PutLifecycleConfiguration", handle: (*request).putLifecycle},
		{name: "DeleteBucketLifecycle", method: del, level: bucket, sub: "lifecycle", action: "s3:PutLifecycleConfiguration", handle: (*request).deleteLifecycle},
		{name: "GetBucketVersioning", method: get, level: bucket, sub: "versioning", action: "s3:GetBucketVersioning", conditions: cacheConditions, handle: (*request).getVersioning},
		{name: "PutBucketVersioning", method: put, level: bucket, sub: "versioning", action: "s3:PutBucketVersioning", handle: (*request).putVersioning},
		{name: "ListObjectVersions", method: get, level: bucket, sub: "versions", action: "s3:ListBucketVersions", conditions: cacheConditions, handle: (*request).listVersions},
		{name: "PutBucketEncryption", method: put, level: bucket, sub: encryptionSub, action: "s3:PutEncryptionConfiguration", handle: (*request).putBucketEncryption},
		{name: "GetBucketEncryption", method: get, level: bucket, sub: encryptionSub, action: "s3:GetEncryptionConfiguration", conditions: cacheConditions, handle: (*request).getBucketEncryption},
		{name: "DeleteBucketEncryption", method: del, level: bucket, sub: encryptionSub, action: "s3:PutEncryptionConfiguration", handle: (*request).deleteBucketEncryption},
		{name: "PutBucketQuota", method: put, level: bucket, sub: quotaSub, action: "s3:PutBucketQuota", handle: (*request).putQuota},
		{name: "GetBucketQuota", method: get, level: bucket, sub: quotaSub, action: "s3:GetBucketQuota", conditions: cacheConditions, handle: (*request).getQuota},
		{name: "DeleteBucketQuota", method: del, level: bucket, sub: quotaSub, action: "s3:PutBucketQuota", handle: (*request).deleteQuota},
		{name: "PutBucketAcl", method: put, level: bucket, sub: "acl", action: "s3:PutBucketAcl", handle: (*request).putBucketACL},
		{name: "GetObjectLockConfiguration", method: get, level: bucket, sub: "object-lock", action: "s3:GetBucketObjectLockConfiguration", conditions: cacheConditions, handle: (*request).getLockConfiguration},
		{name: "PutObjectLockConfiguration", method: put, level: bucket, sub: "object-lock", action: "s3:PutBucketObjectLockConfiguration", handle: (*request).putLockConfiguration},
		{name: "GetBucketAcl", method: get, level: bucket, sub: "acl", action: "s3:GetBucketAcl", conditions: cacheConditions, handle: (*request).getBucketACL},

		{name: "GetObject", method: get, level: object, action: "s3:GetObject", versioned: true, conditions: readConditions, handle: (*request).getObject},
		{name: "HeadObject", method: head, level: object, action: "s3:GetObject", versioned: true, conditions: readConditions, handle: (*request).headObject},
		{name: "PutObject", method: put, level: object, action: "s3:PutObject", conditions: writeConditions, optional: headerTagging | headerLock | headerAppend | headerInstant, handle: (*request).putObject},
		{name: "CopyObject", method: put, level: object, copies: true, action: "s3:PutObject", conditions: writeConditions, optional: headerTagging | headerLock, handle: (*request).copyObject},
		{name: "DeleteObject", method: del, level: object, action: "s3:DeleteObject", versioned: true, conditions: ifMatch, optional: headerBypass | headerSame, handle: (*request).deleteObject},
		{name: "RenameObject", method: put, level: object, sub: "renameObject", action: "s3:PutObject", conditions: readConditions, optional: headerRename, handle: (*request).renameObject},
		{name: "MoveObject", method: put, level: object, moves: true, action: "s3:PutObject", conditions: writeConditions, optional: headerMove, handle: (*request).moveObject},
		{name: "PutObjectAcl", method: put, level: object, sub: "acl", action: "s3:PutObjectAcl", versioned: true, handle: (*request).putObjectACL},
		{name: "GetObjectAttributes", method: get, level: object, sub: "attributes", action: "s3:GetObjectAttributes", versioned: true, conditions: cacheConditions, handle: (*request).getObjectAttributes},
		{name: "GetObjectAcl", method: get, level: object, sub: "acl", action: "s3:GetObjectAcl", versioned: true, conditions: cacheConditions, handle: (*request).getObjectACL},
		{name: "GetObjectTagging", method: get, level: object, sub: "tagging", action: "s3:GetObjectTagging", versioned: true, conditions: cacheConditions, handle: (*request).getObjectTagging},
		{name: "PutObjectTagging", method: put, level: object, sub: "tagging", action: "s3:PutObjectTagging", versioned: true, handle: (*request).putObjectTagging},
		{name: "DeleteObjectTagging", method: del, level: object, sub: "tagging", action: "s3:DeleteObjectTagging", versioned: true, handle: (*request).deleteObjectTagging},
		{name: "GetObjectRetention", method: get, level: object, sub: "retention", action: "s3:GetObjectRetention", versioned: true, conditions: cacheConditions, handle: (*request).getRetention},
		{name: "PutObjectRetention", method: put, level: object, sub: "retention", action: "s3:PutObjectRetention", versioned: true, optional: headerBypass, handle: (*request).putRetention},
		{name: "GetObjectLegalHold", method: get, level: object, sub: "legal-hold", action: "s3:GetObjectLegalHold", versioned: true, conditions: cacheConditions, handle: (*request).getLegalHold},
		{name: "PutObjectLegalHold", method: put, level: object, sub: "legal-hold", action: "s3:PutObjectLegalHold", versioned: true, handle: (*request).putLegalHold},

		{name: "CreateMultipartUpload", method: post, level: object, sub: "uploads", action: "s3:PutObject", optional: headerTagging | headerLock, handle: (*request).createUpload},
		{name: "UploadPart", method: put, level: object, sub: "uploadId", action: "s3:PutObject", optional: headerInstant, handle: (*request).uploadPart},
		{name: "UploadPartCopy", method: put, level: object, sub: "uploadId", copies: true, action: "s3:PutObject", handle: (*request).uploadPartCopy},
		{name: "ListParts", method: get, level: object, sub: "uploadId", action: "s3:ListMultipartUploadParts", conditions: cacheConditions, handle: (*request).listParts},
		{name: "CompleteMultipartUpload", method: post, level: object, sub: "uploadId", action: "s3:PutObject", conditions: writeConditions, handle: (*request).completeUpload},
		{name: "AbortMultipartUpload", method: del, level: object, sub: "uploadId", action: "s3:AbortMultipartUpload", optional: headerInitiated, handle: (*request).abortUpload},
	}, documentRoutes()...)
}

// routeTable indexes routes. A route without an action or a handler, and two for one request, are errors.
func routeTable(all []route) (map[routeKey]*route, error) {
	table := make(map[routeKey]*route, len(all))
	for i := range all {
		r := &all[i]
		key := routeKey{r.method, r.level, r.sub, r.copies, r.moves}
		if r.name == "" || r.action == "" || r.handle == nil || table[key] != nil || r.sub != "" && !isSubresource(r.sub) {
			return nil, fmt.Errorf("s3: bad route %q (%+v)", r.name, key)
		}
		table[key] = r
	}
	return table, nil
}

// route finds the operation that q asks for.
func (s *Server) route(q *request) (*route, error) {
	sub, err := q.query.subresource()
	if err != nil {
		return nil, err
	}
	key := routeKey{method: q.r.Method, level: q.level(), sub: sub}
	if v := q.r.Header["X-Amz-Copy-Source"]; len(v) > 0 && key.method != http.MethodPut {
		return nil, argument("x-amz-copy-source", v[0], "You can only specify a copy source header for copy requests.")
	}
	if key.level == objectLevel && key.method == http.MethodPut {
		key.copies = len(q.r.Header["X-Amz-Copy-Source"]) > 0
		key.moves = len(q.r.Header[moveSourceName]) > 0
	}
	rt := s.routes[key]
	switch {
	case rt != nil:
	case key.moves:
		return nil, errInvalidRequest.say("x-amz-move-source cannot be combined with this operation.")
	case key.level == objectLevel && key.method == http.MethodGet && (sub == "uploads" || sub == "versions"):
		return nil, errInvalidRequest.say("The sub-resource \"" + sub + "\" is one of buckets, and not of keys.")
	case sub != "" && s.serves(key):
		return nil, errMethodNotAllowed
	case sub != "":
		return nil, errNotImplemented.say("The sub-resource \"" + sub + "\" is not implemented for this method.")
	case key.level == bucketLevel && key.method == http.MethodPost:
		return nil, errNotImplemented.say("Uploads by HTML form are not implemented.")
	default:
		return nil, errMethodNotAllowed
	}
	if key.level == objectLevel && key.method == http.MethodPut && q.query.value("uploadId") == "" {
		if _, ok := q.query.get("partNumber"); ok {
			return nil, argument("partNumber", "partNumber", "This operation does not accept partNumber without uploadId")
		}
	}
	if !rt.versioned {
		if v, ok := q.query.get("versionId"); ok && key.level == objectLevel {
			return nil, argument("versionId", v, "This operation does not accept a version-id.")
		}
	}
	return rt, nil
}

// serves says whether there is a sub-resource, for which S3 has no operation with the method of key either. It has many with PUT that are not
// served, and what it makes of HEAD is not known.
func (s *Server) serves(key routeKey) bool {
	if key.method == http.MethodPut || key.method == http.MethodHead {
		return false
	}
	for k := range s.routes {
		if k.level == key.level && k.sub == key.sub {
			return true
		}
	}
	return false
}

// isSubresource says whether a query parameter selects an operation of S3 (or of a dialect of it), so that a request which
// carries it asks for that operation and for nothing else.
func isSubresource(name string) bool {
	switch name {
	case "abac", "accelerate", "acl", "analytics", "annotation", "annotations", "append", "attributes", "cors", "delete", "encryption",
		instantSub, "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "list-type", "location", "logging", "max-directory-buckets",
		"metadataAnnotationTable", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable", "metrics", "notification",
		"object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", quotaSub, "renameObject", "replication",
		"replication-metrics", "requestPayment", "restore", "retention", "select", "session", "tagging", "torrent",
		"uploadId", "uploads", "versioning", "versions", "website":
		return true
	}
	return false
}
