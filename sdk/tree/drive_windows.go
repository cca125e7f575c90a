package tree

import "golang.org/x/sys/windows"

// driveErrors are the errors of a drive that cannot store any more files. Windows never returns syscall.ENOSPC.
func driveErrors() []error {
	return []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_WRITE_PROTECT}
}
