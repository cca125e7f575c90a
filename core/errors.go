package core

import (
	"errors"
	"fmt"
)

// Kind says what went wrong in terms that every floor understands. Drivers turn their own errors into kinds at their
// edge; s3 turns kinds into S3 codes in one table. Tests and callers compare kinds, never texts.
type Kind uint8

// The kinds of errors.
const (
	Internal           Kind = iota // a defect, or an error of the system that has no kind of its own
	NoSuchBucket                   // the bucket does not exist
	NoSuchKey                      // the key has no current version
	NoSuchVersion                  // the key has no such version
	NoSuchUpload                   // the upload does not exist, or was completed or aborted
	NoSuchData                     // content that a change refers to does not exist (any more)
	InvalidPart                    // a part that a Complete names does not exist, or is not the one it expects
	BucketExists                   // a bucket of this name exists
	BucketNotEmpty                 // the bucket holds versions, delete markers or uploads
	PreconditionFailed             // the current version is not what the caller demanded
	Conflict                       // what the change was computed from has changed: read again, and try again
	MethodNotAllowed               // the version named is a delete marker
	InvalidArgument                // the request makes no sense
	TooLarge                       // the content is larger than what was announced or allowed
	Incomplete                     // the content ended before the announced length
	Damaged                        // stored bytes failed their checksum
	NoSpace                        // the drive is full, or its reserve is reached
	Overloaded                     // a bound was reached: try again later
	Unavailable                    // the engine refuses writes until a restart has checked it
	Canceled                       // the caller went away
	Unsupported                    // the data was written by a newer version
	Busy                           // another process owns the data directory
	TooSmall                       // a part that is not the last is below the minimum
	BadDigest                      // content is not what its checksum says
	Locked                         // retention or a legal hold keeps the version as it is
	BucketState                    // the bucket is not in a state that allows it
	NoKey                          // content is encrypted, and the key that it takes is not at hand
	QuotaExceeded                  // the bucket would hold more than its quota (see OverQuota)
)

var kindNames = [...]string{
	"internal error", "no such bucket", "no such key", "no such version", "no such upload", "no such data",
	"invalid part", "bucket exists", "bucket not empty", "precondition failed", "conflict", "method not allowed",
	"invalid argument", "too large", "incomplete", "damaged", "no space", "overloaded", "unavailable", "canceled",
	"unsupported", "busy", "too small", "bad digest", "locked", "wrong state of the bucket", "no key",
	"quota exceeded",
}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Error is the error of every contract in this module: the operation that failed, its kind, and the cause, if any.
type Error struct {
	Op   string // for example "sqlite.Apply"
	Kind Kind
	Err  error
}

// Error gives operation, kind and cause on one line.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Op + ": " + e.Kind.String()
	}
	return e.Op + ": " + e.Kind.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// E makes an *Error. A cause that is an *Error keeps its kind when kind is Internal, so wrapping never hides a kind.
func E(op string, kind Kind, err error) error {
	var inner *Error
	if kind == Internal && errors.As(err, &inner) {
		kind = inner.Kind
	}
	return &Error{Op: op, Kind: kind, Err: err}
}

// KindOf returns the kind of err: that of the outermost *Error in its chain, or Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Is says whether err is of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }
