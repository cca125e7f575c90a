package sdk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves space for a file. On file systems that cannot do it, it does nothing.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
