// Package durable performs file operations that survive a power cut. The comment of each method documents its system
// calls in order, and what is on the drive when it returns nil.
//
// Written bytes are on the drive after a data sync of the file. The creation, renaming or removal of a file is on the
// drive after a sync of its directory. After a failed sync the kernel no longer knows that there was something to
// write, and the next sync succeeds. So this package never retries a sync, and after an error the caller must treat
// the file as lost.
//
// The calls are those of Linux. On macOS (calls_darwin.go), fsync only passes bytes on to the drive, which may keep them in
// a cache without power; so every sync of this package is F_FULLFSYNC there.
//
// Every step goes through Steps.Hook if one is set, so tests can count the steps of a flow and make each of them fail,
// both "failed, not done" and "failed, but done".
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"orcas/internal/mutant"
)

// Op is the kind of a step.
type Op string

// The steps, named after the system call that does the work.
const (
	Create   Op = "create"          // openat O_CREAT|O_EXCL
	Write    Op = "write"           // pwrite, until everything is written
	WriteOut Op = "sync_file_range" // with the flag that waits; nothing becomes durable
	DataSync Op = "fdatasync"       // the bytes of a file, and the metadata needed to read them
	Sync     Op = "fsync"           // the same, and the other attributes of the file
	DirSync  Op = "dirsync"         // fsync of a directory: the names in it
	Mkdir    Op = "mkdir"
	Rename   Op = "rename"
	Remove   Op = "unlink"
	Allocate Op = "fallocate"
	Truncate Op = "ftruncate"
	Clone    Op = "ficlone"
	Link     Op = "link"
)

// Step is one file operation, as passed to a hook.
type Step struct {
	Op     Op
	Path   string
	Offset int64  // for Write, WriteOut, Allocate and Truncate, in bytes
	Data   []byte // for Write
}

// Steps creates and deletes files. The zero value is ready to use. All methods are safe for concurrent use.
type Steps struct {
	// Hook, if set, replaces each step. It may call do, which performs the step, and returns the result.
	Hook func(s Step, do func() error) error
}

// File is a file for writing. It has no current offset: every write specifies one.
type File struct {
	f     *os.File
	fd    int
	path  string
	steps *Steps
}

// Create creates a file that must not exist, for writing (one openat). Neither its bytes nor its name is durable yet.
func (s *Steps) Create(path string) (*File, error) {
	f := &File{path: path, steps: s}
	err := s.step(Step{Op: Create, Path: path}, func() (err error) {
		f.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		if f.f != nil {
			_ = f.f.Close()
		}
		return nil, err
	}
	f.fd = int(f.f.Fd())
	return f, nil
}

// Open opens a file that exists, for writing (one openat).
func (s *Steps) Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &File{f: f, fd: int(f.Fd()), path: path, steps: s}, nil
}

// SyncDir makes the names in a directory durable (open, fsync, close).
func (s *Steps) SyncDir(path string) error {
	if mutant.Is("no-dir-sync") {
		return nil
	}
	return s.step(Step{Op: DirSync, Path: path}, func() error {
		d, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// SyncAll makes everything below a directory durable, whoever wrote it: on Linux the whole file system (one syncfs), on
// macOS each file and each directory. It is not a step: a hook does not see it.
func SyncAll(dir string) error { return syncAll(dir) }

// syncEach calls sync for everything below a directory, and last for the directory itself. A file that is removed in the
// meantime need not be durable.
func syncEach(dir string, sync func(*os.File) error) error {
	var dirs []string
	one := func(path string) error {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(sync(f), f.Close())
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, path)
		case d.Type().IsRegular():
			return one(path)
		}
		return nil
	})
	for _, path := range slices.Backward(dirs) {
		err = errors.Join(err, one(path))
	}
	return err
}

// Mkdir creates a directory that must not exist (one mkdir). Its name is durable after a sync of its parent.
func (s *Steps) Mkdir(path string) error {
	return s.step(Step{Op: Mkdir, Path: path}, func() error { return os.Mkdir(path, 0o700) })
}

// MkdirAll creates a directory and its missing parents, and makes their names durable: one mkdir per directory, then
// one sync of its parent. It also syncs the parent of the first one that already exists.
func (s *Steps) MkdirAll(path string) error {
	parent := filepath.Dir(path)
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return s.SyncDir(parent) // an earlier process may have been killed before its own sync
	}
	if parent != path {
		if err := s.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := s.Mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.SyncDir(parent)
}

// Remove removes a name (one unlink). This is durable after a sync of its directory.
func (s *Steps) Remove(path string) error {
	return s.step(Step{Op: Remove, Path: path}, func() error { return os.Remove(path) })
}

// Replace replaces the content of a file, or creates the file, atomically: after a crash at any point the file has the
// old content or the new. It writes a temporary file next to it (create, pwrite, fsync), renames that, and syncs the
// directory.
func (s *Steps) Replace(path string, data []byte) error {
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.Rename(temp, path); err != nil {
		return err
	}
	return s.SyncDir(filepath.Dir(path))
}

// Rename renames a file to path, and replaces an existing file (one rename). This is durable after a sync of the
// directories.
func (s *Steps) Rename(from, path string) error {
	return s.step(Step{Op: Rename, Path: path}, func() error { return os.Rename(from, path) })
}

// Link gives a file a second name, which must not exist (one link). This is durable after a sync of its directory.
func (s *Steps) Link(from, path string) error {
	return s.step(Step{Op: Link, Path: path}, func() error { return os.Link(from, path) })
}

// ErrLocked reports that another process, or another owner in this one, holds the lock.
var ErrLocked = errors.New("durable: locked")

// Lock acquires the exclusive lock on the file at path, which it creates if it does not exist (openat, flock). It does
// not wait: if the lock is already held, it returns ErrLocked. Closing the returned file, or the end of the process,
// releases the lock.
func (s *Steps) Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if mutant.Is("no-lock-file") {
		return f, nil
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	if err == unix.EWOULDBLOCK {
		err = fmt.Errorf("%w: %s", ErrLocked, path)
	}
	return nil, errors.Join(err, f.Close())
}

// step performs a step, through the hook if there is one.
func (s *Steps) step(what Step, do func() error) error {
	if s.Hook == nil {
		return do()
	}
	return s.Hook(what, do)
}

// Path returns the path with which the file was opened.
func (f *File) Path() string { return f.path }

// AtPath reports whether the file still exists at Path. It returns false if the file, or a directory above it, was
// removed or replaced (one fstat, one stat).
func (f *File) AtPath() bool {
	var own, found unix.Stat_t
	if unix.Fstat(f.fd, &own) != nil || unix.Stat(f.path, &found) != nil {
		return false
	}
	return own.Dev == found.Dev && own.Ino == found.Ino
}

// WriteAt writes all of p at off (one pwrite, or more if the kernel writes less). After an error, a part of p may have
// been written.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	if f.steps.Hook == nil {
		return f.f.WriteAt(p, off)
	}
	return f.hookedWriteAt(p, off)
}

// hookedWriteAt is separate from WriteAt, which must not allocate the variables that the closure captures.
func (f *File) hookedWriteAt(p []byte, off int64) (n int, err error) {
	err = f.steps.Hook(Step{Write, f.path, off, p}, func() (err error) {
		n, err = f.f.WriteAt(p, off)
		return err
	})
	return n, err
}

// DataSync makes the bytes durable, and the size if it changed (one fdatasync). After an error it is unknown what is
// durable.
func (f *File) DataSync() error {
	if mutant.Is("no-data-sync") {
		return nil
	}
	if f.steps.Hook == nil {
		return f.datasync()
	}
	return f.steps.Hook(Step{Op: DataSync, Path: f.path}, f.datasync)
}

func (f *File) datasync() error {
	return f.wrap("fdatasync", again(func() error { return dataSync(f.fd) }))
}

// Sync makes bytes and attributes durable (one fsync). After an error it is unknown what is durable.
func (f *File) Sync() error {
	return f.steps.step(Step{Op: Sync, Path: f.path}, f.f.Sync)
}

// Allocate reserves space for n bytes at off, which read as zeros (one fallocate). It extends the file to that size,
// so that later writes do not change it, unless keepSize is set. It returns ErrCannotAllocate if the file system does
// not support this.
func (f *File) Allocate(off, n int64, keepSize bool) error {
	return f.steps.step(Step{Op: Allocate, Path: f.path, Offset: off}, func() error {
		err := again(func() error { return allocate(f.fd, off, n, keepSize) })
		if slices.Contains([]error{unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS}, err) {
			return fmt.Errorf("%w: %w", ErrCannotAllocate, err)
		}
		return f.wrap("fallocate", err)
	})
}

// ErrCannotAllocate reports that the file system does not support fallocate.
var ErrCannotAllocate = errors.New("durable: the file system does not support fallocate")

// Truncate truncates the file to n bytes (one ftruncate).
func (f *File) Truncate(n int64) error {
	return f.steps.step(Step{Op: Truncate, Path: f.path, Offset: n}, func() error { return f.f.Truncate(n) })
}

// Clone makes the file share the content of another file on the same file system (one ioctl FICLONE). Most file
// systems do not support it.
func (f *File) Clone(from *os.File) error {
	return f.steps.step(Step{Op: Clone, Path: f.path}, func() error {
		return f.wrap("ficlone", again(func() error { return clone(f.fd, int(from.Fd())) }))
	})
}

// StartWrite asks the kernel to begin writing n bytes at off (one sync_file_range), so that a later DataSync waits
// less. It guarantees nothing, and can fail without harm.
func (f *File) StartWrite(off, n int64) {
	startWrite(f.fd, off, n)
}

// WriteOut writes n bytes at off to the drive and waits for the drive to accept them (one sync_file_range). Nothing is
// durable before a DataSync. Linux reports an error of a write-back only once per open file: if WriteOut returns it, a
// later DataSync succeeds although bytes are missing, so the caller must treat the file as lost (see
// TestKernelReportsAnErrorOnce). If the system does not have the call, WriteOut does nothing.
func (f *File) WriteOut(off, n int64) error {
	if f.steps.Hook == nil {
		return f.writeOut(off, n)
	}
	return f.steps.Hook(Step{Op: WriteOut, Path: f.path, Offset: off}, func() error { return f.writeOut(off, n) })
}

func (f *File) writeOut(off, n int64) error {
	return f.wrap("sync_file_range", writeOut(f.fd, off, n))
}

// Close closes the file. It makes nothing durable.
func (f *File) Close() error {
	f.fd = -1 // the descriptor may soon belong to another file
	return f.f.Close()
}

// wrap converts an error of a system call to an *os.PathError, as package os does.
func (f *File) wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: f.path, Err: err}
}

// again repeats a call that a signal interrupted before it had an effect.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
