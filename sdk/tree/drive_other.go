//go:build !windows

package tree

import "syscall"

// driveErrors are the errors of a drive that cannot store any more files.
func driveErrors() []error { return []error{syscall.ENOSPC, syscall.EROFS} }
