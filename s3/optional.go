package s3

import "strings"

// optional is a set of headers that only some operations accept.
type optional uint16

const (
	headerTagging optional = 1 << iota
	headerLock             // retention mode, retention date and legal hold of a new version
	headerBypass
	headerBucketLock
	headerAppend     // x-amz-write-offset-bytes
	headerRename     // the source of a rename, conditions on it, and the client token
	headerMove       // the source of a move, conditions on it, and the client token
	headerSame       // time and size that the object to delete must have
	headerInstant    // the length of the content that a request refers to
	headerEncryption // any encryption header; encryptionOf returns the ones that an operation accepts
	headerInitiated  // the time at which the upload to abort must have begun
)

// optionalHeader returns the set that contains a header.
func optionalHeader(name string) optional {
	switch name {
	case "X-Amz-Tagging":
		return headerTagging
	case lockModeName, lockUntilName, lockHoldName:
		return headerLock
	case bypassName:
		return headerBypass
	case bucketLockName:
		return headerBucketLock
	case writeOffsetName:
		return headerAppend
	case instantLengthName:
		return headerInstant
	case initiatedName:
		return headerInitiated
	case tokenName:
		return headerRename | headerMove
	case sameTimeName, sameSizeName:
		return headerSame
	}
	switch {
	case strings.HasPrefix(name, renameSourceName):
		return headerRename
	case strings.HasPrefix(name, moveSourceName):
		return headerMove
	}
	return 0
}

// takes reports whether the operation accepts a header that others refuse. If so, it records that the request has it.
func (q *request) takes(name string) bool {
	o := q.route.optional & optionalHeader(name)
	q.optional |= o
	return o != 0
}
