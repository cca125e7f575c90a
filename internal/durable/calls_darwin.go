package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dataSync flushes the cache of the drive too. macOS has no cheaper call that survives a power cut. Some network file
// systems support fsync only, as far as that goes there. Package os does the same for Sync.
func dataSync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if errors.Is(err, unix.ENOTSUP) {
		return unix.Fsync(fd)
	}
	return err
}

// allocate reserves space behind what the file has, and then extends it.
func allocate(fd int, off, n int64, keepSize bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if missing := off + n - st.Blocks*512; missing > 0 {
		space := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: missing}
		if err := unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &space); err != nil {
			return err
		}
	}
	if keepSize || off+n <= st.Size {
		return nil
	}
	return unix.Ftruncate(fd, off+n)
}

// clone fails, because macOS clones a file only to a name that does not exist.
func clone(_, _ int) error { return unix.ENOTSUP }

// startWrite does nothing: macOS cannot begin to write a range.
func startWrite(int, int64, int64) {}

// writeOut does nothing either.
func writeOut(int, int64, int64) error { return nil }

// syncAll passes the bytes of each file on to the drive, and then flushes the cache of the drive once. There is no
// syncfs, and sync does not wait.
func syncAll(dir string) error {
	if err := syncEach(dir, func(f *os.File) error { return again(func() error { return unix.Fsync(int(f.Fd())) }) }); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
