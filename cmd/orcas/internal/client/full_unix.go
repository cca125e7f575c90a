//go:build unix

package client

import (
	"errors"
	"syscall"
)

// isFull reports whether an error means that a file system has no space left.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
