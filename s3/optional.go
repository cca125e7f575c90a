package s3

import "strings"

// optional is a set of headers that only some operations heed.
type optional uint16

const (
	headerTagging optional = 1 << iota
	headerLock             // mode, date and legal hold of a new version
	headerBypass
	headerBucketLock
	headerAppend    // x-amz-write-offset-bytes
	headerRename    // the source of a rename, conditions on it, and the client token
	headerMove      // the same of a move
	headerSame      // time and size that what is deleted must have
	headerInstant   // the length of content that is referred to
	headerInitiated // when an upload that is aborted was begun
)

// optionalHeader returns the set that a header belongs to.
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

// takes says whether the operation heeds a header that others refuse, and remembers that it is there.
func (q *request) takes(name string) bool {
	o := q.route.optional & optionalHeader(name)
	q.optional |= o
	return o != 0
}
