//go:build unix

package sdk

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// fileNumber returns the device and inode of a file, which change if the file is replaced.
func fileNumber(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(uint64(s.Dev), 10) + ":" + strconv.FormatUint(s.Ino, 10)
}

// noFollow makes opening a symbolic link fail.
const noFollow = syscall.O_NOFOLLOW

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(syncOpenDir(d), d.Close())
}

func syncOpenDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // some network file systems
		return nil
	}
	return err
}
