// Package durable carries out file steps so that they last: each method says which system calls it makes, in which
// order, and what is on the drive when it returns nil.
//
// A file that was written is on the drive after its data sync; a file that was created, renamed or removed has, or has
// lost, its name on the drive after a sync of the directory. After a failed sync the kernel forgets that there was
// something to write, and the next sync says nil: so nothing here is ever tried twice, and whoever sees an error must
// take the file as lost from there on.
//
// Every step goes through Steps.Hook where one is set, so tests count the steps of a flow and let each of them fail,
// both "failed, not done" and "failed, yet done".
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

// Op names a step.
type Op string

// The steps, by the system call that does the work.
const (
	Create   Op = "create"    // openat O_CREAT|O_EXCL
	Write    Op = "write"     // pwrite, until all is written
	DataSync Op = "fdatasync" // the bytes of a file, and what is needed to find them
	Sync     Op = "fsync"     // the same, and its other attributes
	DirSync  Op = "dirsync"   // fsync of a directory: the names in it
	Mkdir    Op = "mkdir"
	Rename   Op = "rename"
	Remove   Op = "unlink"
	Allocate Op = "fallocate"
	Truncate Op = "ftruncate"
	Clone    Op = "ficlone"
	Link     Op = "link"
)

// Step is one file step, as a hook sees it.
type Step struct {
	Op     Op
	Path   string
	Offset int64  // with Write, Allocate and Truncate, in bytes
	Data   []byte // with Write
}

// Steps makes and removes files. The zero value is ready. All methods may be called from several goroutines.
type Steps struct {
	// Hook, where set, stands in for each step: it may call do, which carries the step out, and says how it went.
	Hook func(s Step, do func() error) error
}

// File is a file to be written. Its offset is nobody's: every write says where.
type File struct {
	f     *os.File
	fd    int
	path  string
	steps *Steps
}

// Create makes a file that must not exist, for writing (one openat). Neither bytes nor name last yet.
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

// SyncDir makes the names in a directory last (open, fsync, close).
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

// Mkdir makes a directory that must not exist (one mkdir); its name does not last before a sync of the directory above.
func (s *Steps) Mkdir(path string) error {
	return s.step(Step{Op: Mkdir, Path: path}, func() error { return os.Mkdir(path, 0o700) })
}

// MkdirAll makes a directory and those above it, as far as they are missing, and makes the names last: per directory one mkdir,
// then one sync of the directory that it is in; that also for the first one that is there already.
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

// Remove takes a name away (one unlink); that does not last before a sync of its directory.
func (s *Steps) Remove(path string) error {
	return s.step(Step{Op: Remove, Path: path}, func() error { return os.Remove(path) })
}

// Replace puts data in the place of a file's content, or makes the file: after it, and after a crash at any point of it, the
// file holds the old content or the new. It writes a file beside it (create, pwrite, fsync), renames, and syncs the directory.
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

// Rename gives a file the name path, and takes that away from another (one rename); that does not last before a sync of the directories.
func (s *Steps) Rename(from, path string) error {
	return s.step(Step{Op: Rename, Path: path}, func() error { return os.Rename(from, path) })
}

// Link gives a file a second name, which must not exist (one link); that does not last before a sync of its directory.
func (s *Steps) Link(from, path string) error {
	return s.step(Step{Op: Link, Path: path}, func() error { return os.Link(from, path) })
}

// ErrLocked says that another process, or another owner in this one, holds the lock.
var ErrLocked = errors.New("durable: locked")

// Lock takes the exclusive lock on the file at path, which it makes where it is missing (openat, flock). It does not wait:
// where somebody else holds the lock it says ErrLocked. The lock goes with the file returned, or with the process.
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

// step runs do through the hook.
func (s *Steps) step(what Step, do func() error) error {
	if s.Hook == nil {
		return do()
	}
	return s.Hook(what, do)
}

// Path returns where the file was when it was opened.
func (f *File) Path() string { return f.path }

// WriteAt writes all of p at off (one pwrite, more where the kernel takes less). With an error, some of p may be written.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	if f.steps.Hook == nil {
		return f.f.WriteAt(p, off)
	}
	return f.hookedWriteAt(p, off)
}

// hookedWriteAt is apart from WriteAt, which must not allocate what the closure captures.
func (f *File) hookedWriteAt(p []byte, off int64) (n int, err error) {
	err = f.steps.Hook(Step{Write, f.path, off, p}, func() (err error) {
		n, err = f.f.WriteAt(p, off)
		return err
	})
	return n, err
}

// DataSync makes the bytes last, with the size where it changed (one fdatasync). After an error nobody knows what lasts.
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
	return f.wrap("fdatasync", again(func() error { return unix.Fdatasync(f.fd) }))
}

// Sync makes bytes and attributes last (one fsync). After an error nobody knows what lasts.
func (f *File) Sync() error {
	return f.steps.step(Step{Op: Sync, Path: f.path}, f.f.Sync)
}

// Allocate reserves room for n bytes from off on, which read as zeros (one fallocate). The file gets as long, so that writing there
// later changes no size; with keepSize it does not. File systems that cannot do it say ErrCannotAllocate.
func (f *File) Allocate(off, n int64, keepSize bool) error {
	var mode uint32
	if keepSize {
		mode = unix.FALLOC_FL_KEEP_SIZE
	}
	return f.steps.step(Step{Op: Allocate, Path: f.path, Offset: off}, func() error {
		err := again(func() error { return unix.Fallocate(f.fd, mode, off, n) })
		if slices.Contains([]error{unix.EOPNOTSUPP, unix.ENOSYS}, err) {
			return fmt.Errorf("%w: %w", ErrCannotAllocate, err)
		}
		return f.wrap("fallocate", err)
	})
}

// ErrCannotAllocate says that the file system has no fallocate.
var ErrCannotAllocate = errors.New("durable: the file system cannot allocate")

// Truncate cuts the file to n bytes (one ftruncate).
func (f *File) Truncate(n int64) error {
	return f.steps.step(Step{Op: Truncate, Path: f.path, Offset: n}, func() error { return f.f.Truncate(n) })
}

// Clone makes the file hold what another one on the same file system holds, without a copy (one ioctl FICLONE). Most file systems cannot.
func (f *File) Clone(from *os.File) error {
	return f.steps.step(Step{Op: Clone, Path: f.path}, func() error {
		return f.wrap("ficlone", again(func() error { return unix.IoctlFileClone(f.fd, int(from.Fd())) }))
	})
}

// StartWrite asks the kernel to begin writing n bytes from off on (one sync_file_range), so that a later DataSync has less to
// wait for. It promises nothing and can fail without harm.
func (f *File) StartWrite(off, n int64) {
	_ = unix.SyncFileRange(f.fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// Close lets go of the file and makes nothing last.
func (f *File) Close() error {
	f.fd = -1 // the number may soon be another file's
	return f.f.Close()
}

// wrap gives a bare error of a system call the shape that package os gives its own.
func (f *File) wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: f.path, Err: err}
}

// again repeats a call that a signal interrupted before it did anything.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
