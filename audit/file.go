package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// file is a target that appends to a file, and starts a new one when it is full, or when it was moved away or removed,
// as by logrotate. If a step of this fails, it continues with the file that is open, so nothing is lost.
type file struct {
	path string
	max  int64
	keep int
	now  func() time.Time

	f     *os.File
	size  int64
	torn  bool      // the file may end within a line
	again time.Time // when a failed rotation is tried again
}

// openFile opens or creates the file of an audit log, which only its owner can read.
func openFile(o Options) (*file, error) {
	path, err := filepath.Abs(o.File)
	if err != nil {
		return nil, err
	}
	f := &file{path: path, max: o.FileSize, keep: o.Keep, now: o.Now}
	return f, f.open()
}

// open opens the file under its name, and closes the previous one.
func (f *file) open() error {
	next, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600) // O_NONBLOCK: not to wait for a pipe
	if err != nil {
		return err
	}
	info, err := next.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.path)
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	if f.f != nil {
		_ = f.f.Close() // nothing is buffered, so nothing is lost
	}
	f.f, f.size, f.torn = next, info.Size(), false
	if f.size > 0 {
		last := make([]byte, 1)
		_, err := next.ReadAt(last, f.size-1)
		f.torn = err != nil || last[0] != '\n'
	}
	return nil
}

// write implements target.
func (f *file) write(_ context.Context, records []byte) (written int, err error) {
	var late error // an error of a rotation, which does not prevent writing
	if f.moved() {
		if late = f.open(); late != nil && f.removed() {
			return 0, late // nobody could read what is written now
		}
	}
	for written < len(records) {
		part := f.fitting(records[written:])
		if f.size > 0 && f.size+int64(len(part)) > f.max {
			late = errors.Join(late, f.rotate())
			part = f.fitting(records[written:])
		}
		n, err := f.append(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, late
}

// moved reports whether another file, or none, has the name of the open one.
func (f *file) moved() bool {
	named, err := os.Stat(f.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	open, err := f.f.Stat()
	return err == nil && !os.SameFile(named, open)
}

// removed reports whether the open file has no name any more.
func (f *file) removed() bool {
	info, err := f.f.Stat()
	if err != nil {
		return false
	}
	system, ok := info.Sys().(*syscall.Stat_t)
	return ok && system.Nlink == 0
}

// fitting returns as many of the first records as fit into the file, and at least one.
func (f *file) fitting(records []byte) []byte {
	room := max(f.max-f.size, 0)
	if int64(len(records)) <= room {
		return records
	}
	if end := bytes.LastIndexByte(records[:room], '\n'); end >= 0 {
		return records[:end+1]
	}
	return records[:bytes.IndexByte(records, '\n')+1]
}

// append appends records, and returns how many bytes of complete records were written. It removes a part of a record,
// so that the rest does not follow it.
func (f *file) append(records []byte) (written int, err error) {
	if f.torn {
		if _, err := f.f.Write([]byte("\n")); err != nil {
			return 0, err
		}
		f.torn = false
		f.size++
	}
	n, err := f.f.Write(records)
	if err == nil {
		f.size += int64(n)
		return n, nil
	}
	written = bytes.LastIndexByte(records[:n], '\n') + 1
	f.size += int64(written)
	f.torn = n > written && f.f.Truncate(f.size) != nil
	return written, err
}

// rotate renames the file, and opens a new one.
func (f *file) rotate() error {
	now := f.now()
	if now.Before(f.again) {
		return nil
	}
	err := f.shift()
	if err == nil {
		err = f.open()
	}
	if err != nil {
		f.again = now.Add(complainEvery)
		return fmt.Errorf("rotation: %w", err)
	}
	f.again = time.Time{}
	return nil
}

// shift renames the file and the rotated ones before it, up to the first number without a file, or else to the oldest,
// which it replaces. So a rotation that fails again and again never removes more than one file.
func (f *file) shift() error {
	free := 0
	for free < f.keep && exists(f.numbered(free)) {
		free++
	}
	for i := free - 1; i >= 0; i-- {
		if err := os.Rename(f.numbered(i), f.numbered(i+1)); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// numbered returns the name of a rotated file; 0 is the file itself.
func (f *file) numbered(i int) string {
	if i == 0 {
		return f.path
	}
	return f.path + "." + strconv.Itoa(i)
}

// close implements target.
func (f *file) close() { _ = f.f.Close() }
