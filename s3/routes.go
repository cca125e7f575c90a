package s3

import (
	"net/http"
	"slices"

	"orcas/auth"
	"orcas/gate"
)

// route is one operation. The embedded gate.Route is the part that the gate needs and that other packages can read
// (Routes); the other fields are for this package.
type route struct {
	gate.Route
	withoutBucket bool      // the bucket need not exist
	writes        bool      // writes content to the key, or prepares to
	creates       bool      // creates a version of an object (s3:ObjectCreationOperation)
	initiator     bool      // needs no permission to act on an upload that the caller has begun
	conditions    condition // supported conditional headers; if 0, a read supports cacheConditions
	optional      optional  // supported headers that other operations refuse
}

// Routes returns the rows of all operations of S3.
func Routes() []*gate.Route { return rowsOf(allRoutes()) }

// rowsOf returns the rows that other packages can read.
func rowsOf(all []route) []*gate.Route {
	rows := make([]*gate.Route, len(all))
	for i := range all {
		rows[i] = &all[i].Route
	}
	return rows
}

// allRoutes returns every operation. A handler is registered for each by name (handlers.go).
func allRoutes() []route {
	all := slices.Concat(bucketRoutes(), objectRoutes(), documentRoutes())
	for i := range all {
		r := &all[i].Route
		if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; reads && all[i].conditions == 0 {
			all[i].conditions = cacheConditions
		}
		if r.Effect == 0 {
			r.Effect = effectOf(r)
		}
		r.Keys = append(slices.Clip(commonKeys), r.Keys...)
		if r.Level == gate.Object && r.VersionAction != "" {
			r.Keys = append(r.Keys, "s3:VersionId")
		}
	}
	return all
}

// effectOf returns the effect of a route that does not name it. Only GET and HEAD count as reading.
func effectOf(r *gate.Route) gate.Effect {
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return gate.Read
	case r.Target() == gate.Object:
		return gate.Write
	}
	return gate.Settings
}

// bypassRetention is the action of deleting versions locked in governance mode, or of changing their retention.
const bypassRetention = "s3:BypassGovernanceRetention"

// lists is the permission that a caller needs to find out that an object does not exist.
const lists = "s3:ListBucket"

// Secondary actions.
var (
	newBucket = []auth.Action{
		"s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning", "s3:PutBucketTagging", "s3:PutBucketOwnershipControls",
	}
	mayList   = []auth.Action{lists}
	compares  = []auth.Action{"s3:GetObject", lists} // for a condition on the object, and for its failure
	bypassing = []auth.Action{bypassRetention}
	// readWhole are asked for every key, because the response may reveal what the bucket contains.
	readWhole  = []auth.Action{"s3:GetObject", "s3:GetObjectVersion"}
	readSource = []auth.Action{"s3:GetObject", "s3:GetObjectVersion"}
	sourceTags = []auth.Action{"s3:GetObjectTagging", "s3:GetObjectVersionTagging"}
	moveSource = []auth.Action{"s3:GetObject", "s3:DeleteObject", "s3:GetObjectTagging", "s3:PutObjectTagging"}
	readLock   = []auth.Action{"s3:GetObjectRetention", "s3:GetObjectLegalHold"} // for headers of the response
	tagAndLock = []auth.Action{"s3:PutObjectTagging", "s3:PutObjectRetention", "s3:PutObjectLegalHold"}
)

// Condition keys. Every operation has the common ones. Keys that follow from the principal or the owner of a resource
// apply everywhere and are not listed.
var (
	commonKeys = []string{
		"aws:CurrentTime", "aws:EpochTime", "aws:Referer", "aws:SecureTransport", "aws:SourceIp", "aws:UserAgent",
		"s3:TlsVersion", "s3:authType", "s3:signatureAge", "s3:signatureversion", "s3:x-amz-content-sha256",
	}
	aclKeys = []string{
		"s3:x-amz-acl", "s3:x-amz-grant-full-control", "s3:x-amz-grant-read", "s3:x-amz-grant-read-acp",
		"s3:x-amz-grant-write", "s3:x-amz-grant-write-acp",
	}
	bucketKeys    = slices.Concat(aclKeys, []string{"s3:locationconstraint", "s3:x-amz-object-ownership"})
	listKeys      = []string{"s3:delimiter", "s3:max-keys", "s3:prefix"}
	tagKeys       = []string{existingTagKey} // of the version that the request is about
	newTagKeys    = []string{"s3:RequestObjectTag/", "s3:RequestObjectTagKeys"}
	retentionKeys = []string{
		"s3:object-lock-mode", "s3:object-lock-remaining-retention-days", "s3:object-lock-retain-until-date",
	}
	holdKeys  = []string{"s3:object-lock-legal-hold"}
	writeKeys = slices.Concat(aclKeys, newTagKeys, retentionKeys, holdKeys, []string{
		"s3:ObjectCreationOperation", "s3:if-match", "s3:if-none-match", "s3:x-amz-server-side-encryption",
		"s3:x-amz-server-side-encryption-aws-kms-key-id", "s3:x-amz-server-side-encryption-customer-algorithm",
		"s3:x-amz-storage-class", "s3:x-amz-website-redirect-location",
	})
	sourceKeys = []string{"s3:x-amz-copy-source"}
	moveKeys   = slices.Concat(newTagKeys, sourceKeys, []string{
		"s3:ObjectCreationOperation", "s3:if-match", "s3:if-none-match", "s3:x-amz-storage-class",
		"s3:x-amz-website-redirect-location",
	})
	copyKeys = slices.Concat(writeKeys, sourceKeys, []string{"s3:x-amz-metadata-directive"})
)

// existingTagKey is followed by the key of a tag.
const existingTagKey = "s3:ExistingObjectTag/"

// bucketRoutes returns the operations on the service and on buckets.
func bucketRoutes() []route {
	const (
		get, head, put, post, del = http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete
		service, bucket, object   = gate.Service, gate.Bucket, gate.Object
	)
	return []route{
		{Route: gate.Route{Name: "ListBuckets", Method: get, Level: service, Action: "s3:ListAllMyBuckets"},
			withoutBucket: true},

		{Route: gate.Route{Name: "CreateBucket", Method: put, Level: bucket, Action: "s3:CreateBucket",
			Secondary: newBucket, Keys: bucketKeys}, withoutBucket: true, optional: headerBucketLock},
		{Route: gate.Route{Name: "HeadBucket", Method: head, Level: bucket, Action: "s3:ListBucket", AnyAction: true}},
		{Route: gate.Route{Name: "DeleteBucket", Method: del, Level: bucket, Action: "s3:DeleteBucket"}},
		{Route: gate.Route{Name: "ListObjects", Method: get, Level: bucket, Action: "s3:ListBucket", Keys: listKeys}},
		{Route: gate.Route{Name: "ListObjectsV2", Method: get, Level: bucket, Sub: "list-type",
			Action: "s3:ListBucket", Keys: listKeys}},
		{Route: gate.Route{Name: "DeleteObjects", Method: post, Level: bucket, Sub: "delete",
			Action: "s3:DeleteObject", VersionAction: "s3:DeleteObjectVersion", Resource: object,
			Secondary: slices.Concat(bypassing, compares), Keys: []string{"s3:if-match"}}, optional: headerBypass},
		{Route: gate.Route{Name: "PostObject", Method: post, Level: bucket, Action: "s3:PutObject", Resource: object,
			Secondary: tagAndLock, Keys: writeKeys}, writes: true, creates: true, optional: headerTagging | headerLock},
		{Route: gate.Route{Name: "FindContent", Method: post, Level: bucket, Sub: instantSub,
			Effect: gate.Read, Action: "s3:PutObject", Resource: object, Secondary: readWhole}},
		{Route: gate.Route{Name: "ListMultipartUploads", Method: get, Level: bucket, Sub: "uploads",
			Action: "s3:ListBucketMultipartUploads", Keys: listKeys}},
		{Route: gate.Route{Name: "GetBucketLocation", Method: get, Level: bucket, Sub: "location",
			Action: "s3:GetBucketLocation"}},
		{Route: gate.Route{Name: "GetBucketLifecycleConfiguration", Method: get, Level: bucket, Sub: "lifecycle",
			Action: "s3:GetLifecycleConfiguration"}},
		{Route: gate.Route{Name: "PutBucketLifecycleConfiguration", Method: put, Level: bucket, Sub: "lifecycle",
			Action: "s3:PutLifecycleConfiguration"}},
		{Route: gate.Route{Name: "DeleteBucketLifecycle", Method: del, Level: bucket, Sub: "lifecycle",
			Action: "s3:PutLifecycleConfiguration"}},
		{Route: gate.Route{Name: "GetBucketVersioning", Method: get, Level: bucket, Sub: "versioning",
			Action: "s3:GetBucketVersioning"}},
		{Route: gate.Route{Name: "PutBucketVersioning", Method: put, Level: bucket, Sub: "versioning",
			Action: "s3:PutBucketVersioning"}},
		{Route: gate.Route{Name: "ListObjectVersions", Method: get, Level: bucket, Sub: "versions",
			Action: "s3:ListBucketVersions", Keys: listKeys}},
		{Route: gate.Route{Name: "PutBucketEncryption", Method: put, Level: bucket, Sub: encryptionSub,
			Action: "s3:PutEncryptionConfiguration"}},
		{Route: gate.Route{Name: "GetBucketEncryption", Method: get, Level: bucket, Sub: encryptionSub,
			Action: "s3:GetEncryptionConfiguration"}},
		{Route: gate.Route{Name: "DeleteBucketEncryption", Method: del, Level: bucket, Sub: encryptionSub,
			Action: "s3:PutEncryptionConfiguration"}},
		{Route: gate.Route{Name: "PutBucketQuota", Method: put, Level: bucket, Sub: quotaSub,
			Action: "s3:PutBucketQuota"}},
		{Route: gate.Route{Name: "GetBucketQuota", Method: get, Level: bucket, Sub: quotaSub,
			Action: "s3:GetBucketQuota"}},
		{Route: gate.Route{Name: "DeleteBucketQuota", Method: del, Level: bucket, Sub: quotaSub,
			Action: "s3:PutBucketQuota"}},
		{Route: gate.Route{Name: "PutBucketAcl", Method: put, Level: bucket, Sub: "acl", Action: "s3:PutBucketAcl",
			Keys: aclKeys}},
		{Route: gate.Route{Name: "GetObjectLockConfiguration", Method: get, Level: bucket, Sub: "object-lock",
			Action: "s3:GetBucketObjectLockConfiguration"}},
		{Route: gate.Route{Name: "PutObjectLockConfiguration", Method: put, Level: bucket, Sub: "object-lock",
			Action: "s3:PutBucketObjectLockConfiguration"}},
		{Route: gate.Route{Name: "GetBucketPolicy", Method: get, Level: bucket, Sub: policySub,
			Action: "s3:GetBucketPolicy"}},
		{Route: gate.Route{Name: "PutBucketPolicy", Method: put, Level: bucket, Sub: policySub,
			Action: "s3:PutBucketPolicy"}},
		{Route: gate.Route{Name: "DeleteBucketPolicy", Method: del, Level: bucket, Sub: policySub,
			Action: "s3:DeleteBucketPolicy"}},
		{Route: gate.Route{Name: "GetBucketPolicyStatus", Method: get, Level: bucket, Sub: "policyStatus",
			Action: "s3:GetBucketPolicyStatus"}},
		{Route: gate.Route{Name: "GetBucketAcl", Method: get, Level: bucket, Sub: "acl", Action: "s3:GetBucketAcl"}},
	}
}

// objectRoutes returns the operations on objects and on multipart uploads.
func objectRoutes() []route {
	const (
		get, head, put, post, del = http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete
		object                    = gate.Object
	)
	return []route{
		{Route: gate.Route{Name: "GetObject", Method: get, Level: object,
			Action: "s3:GetObject", VersionAction: "s3:GetObjectVersion",
			Secondary: slices.Concat(mayList, sourceTags, readLock), Keys: tagKeys},
			conditions: readConditions},
		{Route: gate.Route{Name: "HeadObject", Method: head, Level: object,
			Action: "s3:GetObject", VersionAction: "s3:GetObjectVersion",
			Secondary: slices.Concat(mayList, sourceTags, readLock), Keys: tagKeys},
			conditions: readConditions},
		{Route: gate.Route{Name: "PutObject", Method: put, Level: object, Action: "s3:PutObject",
			Secondary: slices.Concat(tagAndLock, readWhole, mayList), Keys: writeKeys},
			writes: true, creates: true, conditions: writeConditions,
			optional: headerTagging | headerLock | headerAppend | headerInstant},
		{Route: gate.Route{Name: "CopyObject", Method: put, Level: object, Header: copySourceName,
			Action: "s3:PutObject", Keys: copyKeys,
			Secondary: slices.Concat(tagAndLock, readSource, sourceTags, mayList)},
			writes: true, creates: true, conditions: writeConditions, optional: headerTagging | headerLock},
		{Route: gate.Route{Name: "DeleteObject", Method: del, Level: object,
			Action: "s3:DeleteObject", VersionAction: "s3:DeleteObjectVersion",
			Secondary: slices.Concat(bypassing, compares), Keys: []string{"s3:if-match"}},
			conditions: ifMatch, optional: headerBypass | headerSame},
		{Route: gate.Route{Name: "RenameObject", Method: put, Level: object, Sub: "renameObject",
			Action: "s3:PutObject", Secondary: slices.Concat(moveSource, mayList), Keys: moveKeys},
			writes: true, creates: true, conditions: readConditions, optional: headerRename},
		{Route: gate.Route{Name: "MoveObject", Method: put, Level: object, Header: moveSourceName,
			Action: "s3:PutObject", Secondary: slices.Concat(moveSource, mayList), Keys: moveKeys},
			writes: true, creates: true, conditions: writeConditions, optional: headerMove},
		{Route: gate.Route{Name: "PutObjectAcl", Method: put, Level: object, Sub: "acl",
			Action: "s3:PutObjectAcl", VersionAction: "s3:PutObjectVersionAcl",
			Secondary: mayList, Keys: slices.Concat(aclKeys, tagKeys, []string{"s3:x-amz-storage-class"})}},
		{Route: gate.Route{Name: "GetObjectAttributes", Method: get, Level: object, Sub: "attributes",
			Action: "s3:GetObjectAttributes", VersionAction: "s3:GetObjectVersionAttributes",
			Secondary: slices.Concat(readSource, mayList), Keys: tagKeys}},
		{Route: gate.Route{Name: "GetObjectAcl", Method: get, Level: object, Sub: "acl",
			Action: "s3:GetObjectAcl", VersionAction: "s3:GetObjectVersionAcl",
			Secondary: mayList, Keys: tagKeys}},
		{Route: gate.Route{Name: "GetObjectTagging", Method: get, Level: object, Sub: "tagging",
			Action: "s3:GetObjectTagging", VersionAction: "s3:GetObjectVersionTagging",
			Secondary: mayList, Keys: tagKeys}},
		{Route: gate.Route{Name: "PutObjectTagging", Method: put, Level: object, Sub: "tagging",
			Action: "s3:PutObjectTagging", VersionAction: "s3:PutObjectVersionTagging",
			Secondary: mayList, Keys: slices.Concat(tagKeys, newTagKeys)}},
		{Route: gate.Route{Name: "DeleteObjectTagging", Method: del, Level: object, Sub: "tagging",
			Action: "s3:DeleteObjectTagging", VersionAction: "s3:DeleteObjectVersionTagging",
			Secondary: mayList, Keys: tagKeys}},
		{Route: gate.Route{Name: "GetObjectRetention", Method: get, Level: object, Sub: "retention",
			Action: "s3:GetObjectRetention", VersionAction: "s3:GetObjectRetention",
			Secondary: mayList}},
		{Route: gate.Route{Name: "PutObjectRetention", Method: put, Level: object, Sub: "retention",
			Action: "s3:PutObjectRetention", VersionAction: "s3:PutObjectRetention",
			Secondary: slices.Concat(bypassing, mayList), Keys: retentionKeys},
			optional: headerBypass},
		{Route: gate.Route{Name: "GetObjectLegalHold", Method: get, Level: object, Sub: "legal-hold",
			Action: "s3:GetObjectLegalHold", VersionAction: "s3:GetObjectLegalHold",
			Secondary: mayList}},
		{Route: gate.Route{Name: "PutObjectLegalHold", Method: put, Level: object, Sub: "legal-hold",
			Action: "s3:PutObjectLegalHold", VersionAction: "s3:PutObjectLegalHold",
			Secondary: mayList, Keys: holdKeys}},

		{Route: gate.Route{Name: "CreateMultipartUpload", Method: post, Level: object, Sub: "uploads",
			Action: "s3:PutObject", Secondary: tagAndLock, Keys: writeKeys},
			writes: true, optional: headerTagging | headerLock},
		{Route: gate.Route{Name: "UploadPart", Method: put, Level: object, Sub: "uploadId", Action: "s3:PutObject",
			Secondary: readWhole, Keys: writeKeys}, writes: true, optional: headerInstant},
		{Route: gate.Route{Name: "UploadPartCopy", Method: put, Level: object, Sub: "uploadId", Header: copySourceName,
			Action: "s3:PutObject", Secondary: slices.Concat(readSource, mayList), Keys: slices.Concat(writeKeys, sourceKeys)}, writes: true},
		{Route: gate.Route{Name: "ListParts", Method: get, Level: object, Sub: "uploadId",
			Action: "s3:ListMultipartUploadParts"}, initiator: true},
		{Route: gate.Route{Name: "CompleteMultipartUpload", Method: post, Level: object, Sub: "uploadId",
			Action: "s3:PutObject", Secondary: compares, Keys: writeKeys},
			writes: true, creates: true, conditions: writeConditions},
		{Route: gate.Route{Name: "AbortMultipartUpload", Method: del, Level: object, Sub: "uploadId",
			Action: "s3:AbortMultipartUpload"}, initiator: true, optional: headerInitiated},
	}
}
