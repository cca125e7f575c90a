package s3

import (
	"maps"
	"net/http"

	"orcas/s3/xmldoc"
)

// handler performs one operation, for a request that has passed the gate. An operation with more than a few steps is a
// struct (putOperation, copyOperation and so on), whose fields hold the results of the steps so far. The request only
// holds the state of the gate, the response and the log.
type handler func(*request) error

// document returns the handler of an operation whose response is a document that write renders.
func document(write func(*request, *xmldoc.Writer) error) handler {
	return func(q *request) error {
		x := q.s.document()
		defer q.s.release(x)
		if err := write(q, x); err != nil {
			return err
		}
		q.sendXML(http.StatusOK, x)
		return nil
	}
}

// empty returns the handler of an operation whose response has only a status and headers.
func empty(status int, run func(*request) error) handler {
	return func(q *request) error {
		if err := run(q); err != nil {
			return err
		}
		q.sendEmpty(status)
		return nil
	}
}

// handlers returns the handlers of all operations, by the names in their routes.
func handlers() map[string]handler {
	all := map[string]handler{
		"ListBuckets":                     document(listBuckets),
		"CreateBucket":                    empty(http.StatusOK, createBucket),
		"HeadBucket":                      empty(http.StatusOK, headBucket),
		"DeleteBucket":                    empty(http.StatusNoContent, deleteBucket),
		"ListObjects":                     document(listObjects),
		"ListObjectsV2":                   document(listObjectsV2),
		"DeleteObjects":                   document(deleteObjects),
		"FindContent":                     document(findContent),
		"ListMultipartUploads":            document(listUploads),
		"GetBucketLocation":               document(getLocation),
		"GetBucketLifecycleConfiguration": document(getLifecycle),
		"PutBucketLifecycleConfiguration": empty(http.StatusOK, putLifecycle),
		"DeleteBucketLifecycle":           empty(http.StatusNoContent, deleteLifecycle),
		"GetBucketVersioning":             document(getVersioning),
		"PutBucketVersioning":             empty(http.StatusOK, putVersioning),
		"ListObjectVersions":              document(listVersions),
		"PutBucketEncryption":             empty(http.StatusOK, putBucketEncryption),
		"GetBucketEncryption":             document(getBucketEncryption),
		"DeleteBucketEncryption":          empty(http.StatusNoContent, deleteBucketEncryption),
		"PutBucketQuota":                  empty(http.StatusOK, putQuota),
		"GetBucketQuota":                  document(getQuota),
		"DeleteBucketQuota":               empty(http.StatusNoContent, deleteQuota),
		"PutBucketAcl":                    empty(http.StatusOK, putBucketACL),
		"GetObjectLockConfiguration":      document(getLockConfiguration),
		"PutObjectLockConfiguration":      empty(http.StatusOK, putLockConfiguration),
		"GetBucketAcl":                    document(getBucketACL),
		"GetBucketPolicy":                 getPolicy,
		"PutBucketPolicy":                 empty(http.StatusNoContent, putPolicy),
		"DeleteBucketPolicy":              empty(http.StatusNoContent, deletePolicy),
		"GetBucketPolicyStatus":           document(getPolicyStatus),
		"GetObject":                       getObject,
		"HeadObject":                      headObject,
		"PutObject":                       putObject,
		"PostObject":                      postObject,
		"CopyObject":                      document(copyObject),
		"DeleteObject":                    empty(http.StatusNoContent, deleteObject),
		"RenameObject":                    empty(http.StatusOK, renameObject),
		"MoveObject":                      document(moveObject),
		"PutObjectAcl":                    empty(http.StatusOK, putObjectACL),
		"GetObjectAttributes":             document(getObjectAttributes),
		"GetObjectAcl":                    document(getObjectACL),
		"GetObjectTagging":                document(getObjectTagging),
		"PutObjectTagging":                empty(http.StatusOK, putObjectTagging),
		"DeleteObjectTagging":             empty(http.StatusNoContent, deleteObjectTagging),
		"GetObjectRetention":              document(getRetention),
		"PutObjectRetention":              empty(http.StatusOK, putRetention),
		"GetObjectLegalHold":              document(getLegalHold),
		"PutObjectLegalHold":              empty(http.StatusOK, putLegalHold),
		"CreateMultipartUpload":           document(createUpload),
		"UploadPart":                      uploadPart,
		"UploadPartCopy":                  document(uploadPartCopy),
		"ListParts":                       document(listParts),
		"CompleteMultipartUpload":         document(completeUpload),
		"AbortMultipartUpload":            empty(http.StatusNoContent, abortUpload),
	}
	maps.Copy(all, documentHandlers())
	return all
}
