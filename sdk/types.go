package sdk

import (
	"time"

	"orcas/internal/checksum"
)

// Algorithm is a checksum algorithm of S3.
type Algorithm = checksum.Algorithm

// The algorithms. In options, None means the algorithm of the client.
const (
	None      = checksum.None
	MD5       = checksum.MD5
	CRC32     = checksum.CRC32
	CRC32C    = checksum.CRC32C
	CRC64NVME = checksum.CRC64NVME
	SHA1      = checksum.SHA1
	SHA256    = checksum.SHA256
	SHA512    = checksum.SHA512
	XXHASH64  = checksum.XXHASH64
	XXHASH3   = checksum.XXHASH3
	XXHASH128 = checksum.XXHASH128
)

// Checksums are the checksums of some content by algorithm, in Base64. A checksum of a multipart object may be of the
// type COMPOSITE, and then ends with "-N" for N parts; see Info.ChecksumType.
type Checksums map[Algorithm]string

// ObjectID is a key, and a version of it.
type ObjectID struct {
	Key       string
	VersionID string // "" is the current version
}

// Source is an object to copy or move.
type Source struct {
	Bucket, Key string
	VersionID   string // "" is the current version
}

// Info describes an object. A listing fills in only what its document contains: the key, size, ETag, time, storage
// class, and for versions the version ID and the two flags.
type Info struct {
	Key          string
	VersionID    string // "" if versioning was never enabled on the bucket; "null" is a version
	Latest       bool   // listings of versions: the current version
	DeleteMarker bool
	Size         int64  // bytes; of the whole object, also if a range was requested
	ETag         string // without quotes
	LastModified time.Time
	Owner        string // ID of the owner; only in listings that ask for it

	Properties

	Checksums    Checksums
	ChecksumType string // FULL_OBJECT, COMPOSITE or ""
	Parts        int    // number of parts; 0 if unknown. Only for requests with a part number, and Attributes
	TagCount     int
	Expiration   string // as the server describes it
}

// Entry is an element of a listing: an object, or with a delimiter a common prefix of several.
type Entry struct {
	Prefix string // a common prefix; "" for an object
	Info
}

// Properties are what a write stores with the content.
type Properties struct {
	ContentType        string // "" is binary/octet-stream
	CacheControl       string
	ContentDisposition string
	ContentEncoding    string
	ContentLanguage    string
	Expires            string // as it is sent
	WebsiteRedirect    string
	StorageClass       string            // "" is STANDARD
	ACL                string            // a canned ACL; sent only
	Metadata           map[string]string // names in lower case, without x-amz-meta-
	Tags               map[string]string // sent only; see Client.Tags
	Lock               Lock
	Encryption         Encryption
}

// Lock is the object lock of a version.
type Lock struct {
	Mode      string // GOVERNANCE, COMPLIANCE or ""
	Until     time.Time
	LegalHold bool
}

// Encryption is how the server encrypts an object. The zero value is the default of the bucket.
type Encryption struct {
	Algorithm   string // AES256, aws:kms or ""
	KMSKeyID    string
	CustomerKey []byte // the customer's key, 32 bytes, which the server does not store; needs https
}

// Conditions make an operation depend on the object as it is when the operation takes effect; otherwise it fails with
// ErrPreconditionFailed, or ErrNotModified. ETags are written without quotes; "*" is any object.
type Conditions struct {
	IfMatch, IfNoneMatch               string
	IfModifiedSince, IfUnmodifiedSince time.Time // in whole seconds; only for reading
}

// PutOptions are the options of writes.
type PutOptions struct {
	Properties
	Conditions
	Checksum      Algorithm // None is the algorithm of the client
	ChecksumValue string    // the checksum of the body in Base64, if it is known
	SHA256        string    // the SHA-256 of the body in hexadecimal, if it is known
}

// Written is the result of a write.
type Written struct {
	ETag      string // without quotes
	VersionID string // "" if versioning was never enabled on the bucket
	Checksums Checksums
	Size      int64     // bytes of the object; 0 if the operation does not know it
	Modified  time.Time // copies and moves only
}

// GetOptions are the options of reads.
type GetOptions struct {
	VersionID string
	Offset    int64 // first byte
	Length    int64 // bytes; 0 is to the end
	Suffix    int64 // the last bytes of the object, instead of Offset and Length
	Part      int   // a part of a multipart object, from 1
	Conditions
	CustomerKey []byte            // the key of Encryption.CustomerKey
	Response    map[string]string // response headers to replace: response-content-type and so on
	Unverified  bool              // do not compute a checksum of the content
}

// DeleteOptions are the options of deletions.
type DeleteOptions struct {
	VersionID        string // Delete only: this version instead of the current one
	IfMatch          string // Delete only: fail unless this is the ETag of the object
	BypassGovernance bool   // delete versions with a lock of the mode GOVERNANCE
	Quiet            bool   // DeleteAll only: the server reports, and DeleteAll yields, only failures
}

// Deleted is the result of a deletion.
type Deleted struct {
	ObjectID
	Marker   bool   // a delete marker was written, or the deleted version was one
	MarkerID string // version ID of that delete marker
	Err      error  // DeleteAll only: why this object was not deleted
}

// ListOptions are the options of listings.
type ListOptions struct {
	Prefix     string // only keys that begin with it
	Delimiter  string // group keys that contain it after the prefix
	StartAfter string // only keys after this one
	PageSize   int    // keys per request; 0 is 1000
	Owner      bool   // fill in Info.Owner
}

// UploadInfo is a multipart upload in progress.
type UploadInfo struct {
	Key, UploadID string
	Initiated     time.Time
	StorageClass  string
	Owner         string
	Prefix        string // with a delimiter: a common prefix of several uploads, and nothing else is set
}

// Part is a part of a multipart upload. CompleteUpload needs the number, the ETag and the checksums.
type Part struct {
	Number       int   // 1 to 10,000
	Size         int64 // bytes
	ETag         string
	Checksums    Checksums
	LastModified time.Time // only in listings
}

// PartOptions are the options of UploadPart and UploadPartCopy.
type PartOptions struct {
	Checksum      Algorithm // None is the algorithm of the client
	ChecksumValue string    // the checksum of the body in Base64, if it is known
	SHA256        string    // the SHA-256 of the body in hexadecimal, if it is known
	CustomerKey   []byte    // the key that CreateUpload was called with

	// Of UploadPartCopy only:
	Offset, Length    int64      // the bytes of the source to copy; Length 0 is to the end, and then Offset must be 0
	Source            Conditions // of the source
	SourceCustomerKey []byte
}

// CompleteOptions are the options of CompleteUpload.
type CompleteOptions struct {
	Conditions    Conditions // only IfMatch and IfNoneMatch
	Size          int64      // the size of the object in bytes, which the server verifies; 0 is unknown
	Checksum      Algorithm  // with ChecksumValue: the checksum of the whole object, which the server verifies
	ChecksumValue string
	CustomerKey   []byte
}

// RefLevel is how much a client asks a server before it sends content, because the server may already have it; see
// Upload. Servers other than ORCAS do not have instant upload; the client notices that and sends all content.
type RefLevel int

// The levels.
const (
	RefOff  RefLevel = iota // send everything
	RefFull                 // ask with the SHA-256 of the content
	RefFast                 // ask with the SHA-256 of the first 64 KiB, then as RefFull if the server may have the content
)
