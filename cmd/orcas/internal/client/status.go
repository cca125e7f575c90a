package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"

	"orcas/sdk"
	"orcas/sdk/profile"
	"orcas/sdk/tree"
)

// The exit statuses of the commands.
const (
	StatusOK           = 0
	StatusFailed       = 1
	StatusUsage        = 2
	StatusNotFound     = 3
	StatusDenied       = 4
	StatusPrecondition = 5
	StatusNetwork      = 6
	StatusDisk         = 7
	StatusSomeFailed   = 8
)

// Statuses are the exit statuses and their meanings, for manual pages. A test compares docs/commands.md with them.
func Statuses() []string {
	return []string{
		StatusOK:           "success",
		StatusFailed:       "another error, or interrupted",
		StatusUsage:        "the command line, an environment variable or a configuration file is wrong",
		StatusNotFound:     "a bucket, object, version or local file does not exist",
		StatusDenied:       "access is denied: wrong keys, missing permission, a locked object, or a wrong clock",
		StatusPrecondition: "a condition is false: the target exists, changed, or is not empty",
		StatusNetwork:      "the server cannot be reached, does not respond, or is overloaded",
		StatusDisk:         "a local file cannot be read or written: no space, no permission",
		StatusSomeFailed:   "some files failed, and the others are done",
	}
}

// statusError is an error with its exit status.
type statusError struct {
	status int
	text   string
	err    error
}

func (e *statusError) Error() string   { return e.text }
func (e *statusError) Unwrap() error   { return e.err }
func (e *statusError) ExitStatus() int { return e.status }

// Status returns the exit status for an error of a command.
func Status(err error) int {
	var withStatus *statusError
	var usage *UsageError
	var unknown *profile.UnknownError
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var path *fs.PathError
	var link *os.LinkError
	var system *os.SyscallError
	switch {
	case err == nil:
		return StatusOK
	case errors.As(err, &withStatus):
		return withStatus.status
	case errors.As(err, &usage), errors.As(err, &unknown), errors.Is(err, profile.ErrNoCredentials):
		return StatusUsage
	case errors.Is(err, tree.ErrPartial):
		return StatusSomeFailed
	case errors.Is(err, context.Canceled):
		return StatusFailed
	case isAny(err, sdk.ErrNoSuchKey, sdk.ErrNoSuchBucket, sdk.ErrNoSuchVersion, sdk.ErrNoSuchUpload, sdk.ErrNoSuchConfiguration):
		return StatusNotFound
	case isAny(err, sdk.ErrAccessDenied, sdk.ErrSignature, sdk.ErrInvalidAccessKey, sdk.ErrInvalidToken, sdk.ErrClockSkew):
		return StatusDenied
	case isAny(err, sdk.ErrPreconditionFailed, sdk.ErrNotModified, sdk.ErrBucketExists, sdk.ErrBucketNotEmpty, tree.ErrConflict, fs.ErrExist):
		return StatusPrecondition
	case isAny(err, sdk.ErrNetwork, sdk.ErrSlowDown):
		return StatusNetwork
	case errors.As(err, &path), errors.As(err, &link):
		if errors.Is(err, fs.ErrNotExist) {
			return StatusNotFound
		}
		return StatusDisk
	case errors.As(err, &network), errors.As(err, &certificate), errors.As(err, &system):
		return StatusNetwork
	}
	return StatusFailed
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
