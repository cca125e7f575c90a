package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }

func allocate(fd int, off, n int64, keepSize bool) error {
	var mode uint32
	if keepSize {
		mode = unix.FALLOC_FL_KEEP_SIZE
	}
	return unix.Fallocate(fd, mode, off, n)
}

func clone(fd, from int) error { return unix.IoctlFileClone(fd, from) }

func startWrite(fd int, off, n int64) { _ = unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE) }

func writeOut(fd int, off, n int64) error {
	err := unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	if err != nil && unix.SyncFileRange(fd, off, n, 0) != nil { // without flags it can fail only if there is no such call
		return nil
	}
	return err
}

func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
