//go:build !unix

package client

import (
	"errors"
	"syscall"
)

// isFull reports whether an error means that a file system has no space left. The numbers are ERROR_HANDLE_DISK_FULL and
// ERROR_DISK_FULL of Windows.
func isFull(err error) bool {
	return errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112))
}
