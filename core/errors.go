package core

import (
	"errors"
	"fmt"
)

// Kind classifies errors for all layers. Drivers convert their errors to kinds; one table converts kinds to S3 error
// codes. Tests and callers compare kinds, never texts.
type Kind uint8

// The kinds of errors.
const (
	Internal           Kind = iota // a bug, or a system error that has no other kind
	NoSuchBucket                   // the bucket does not exist
	NoSuchKey                      // the key has no current version
	NoSuchVersion                  // the key has no such version
	NoSuchUpload                   // the upload does not exist, or was completed or aborted
	NoSuchData                     // the content that a change refers to does not exist
	InvalidPart                    // a part that a CompleteUpload refers to does not exist, or is not the expected one
	BucketExists                   // a bucket of this name exists
	BucketNotEmpty                 // the bucket has versions, delete markers or uploads
	PreconditionFailed             // the current version does not meet the caller's condition
	Conflict                       // the data that the change is based on has changed: read it again and retry
	MethodNotAllowed               // the requested version is a delete marker
	InvalidArgument                // the request is invalid
	TooLarge                       // the content is larger than announced or allowed
	Incomplete                     // the content ended before the announced length
	Damaged                        // stored bytes failed their checksum
	NoSpace                        // the drive is full, or only its reserve is left
	Overloaded                     // a limit was reached; retry later
	Unavailable                    // the engine refuses writes until it is restarted and recovered
	Canceled                       // the caller canceled the request
	Unsupported                    // a newer version of ORCAS wrote the data, or the driver lacks the ability
	Busy                           // the resource is in use, for example the data directory by another process
	TooSmall                       // a part other than the last is smaller than the minimum
	BadDigest                      // the content does not match its checksum
	Locked                         // retention or a legal hold protects the version
	BucketState                    // the state of the bucket does not allow the request
	NoKey                          // the content is encrypted, and its key is not available
	QuotaExceeded                  // the change would exceed the quota of the bucket (see OverQuota)
	ReadOnly                       // the store refuses writes until an operator has dealt with missing blocks
)

var kindNames = [...]string{
	"internal error", "no such bucket", "no such key", "no such version", "no such upload", "no such data",
	"invalid part", "bucket exists", "bucket not empty", "precondition failed", "conflict", "method not allowed",
	"invalid argument", "too large", "incomplete", "damaged", "no space", "overloaded", "unavailable", "canceled",
	"unsupported", "busy", "too small", "bad digest", "locked", "wrong state of the bucket", "no key",
	"quota exceeded", "read-only",
}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Error is the error type of every contract in this module. It has the failed operation, the kind of the error, and its
// cause, if any.
type Error struct {
	Op   string // for example "sqlite.Apply"
	Kind Kind
	Err  error
}

// Error returns the operation, the kind and the cause on one line.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Op + ": " + e.Kind.String()
	}
	return e.Op + ": " + e.Kind.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// E returns an *Error. If kind is Internal, the error takes the kind of its cause, if that has one, so wrapping never
// hides a kind.
func E(op string, kind Kind, err error) error {
	var inner *Error
	if kind == Internal && errors.As(err, &inner) {
		kind = inner.Kind
	}
	return &Error{Op: op, Kind: kind, Err: err}
}

// KindOf returns the kind of the outermost *Error in the chain of err, or Internal if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of kind k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }
