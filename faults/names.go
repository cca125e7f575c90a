package faults

import (
	"context"
	"errors"
	"fmt"
	gofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Names is a file system that passes everything through to a directory of another one, and keeps account of the names
// that do not last yet: those made, moved or removed in a directory that was not synced since. A power cut may take any
// of them back, and Forget takes all of them back.
//
// ext4 and its like never show that a directory was not synced, where a new file in it was: they keep one journal for
// all. POSIX promises nothing of the kind, and other file systems take it at its word.
//
// What was removed or replaced lives on under a number in a second directory, for as long as it may have to come back.
type Names struct {
	lower, limbo string // directories of one file system
	server       *fuse.Server
	handles      sync.WaitGroup // files and directories that are open
	slow         atomic.Int64   // additional time of each sync of a file, in nanoseconds

	mu      sync.Mutex // held over every change of a name and every sync of a directory; guards the rest
	changes []nameChange
	next    int // name in limbo
}

// nameChange is a change that does not last yet. Paths are relative to lower.
type nameChange struct {
	made    string // this name was made
	from    string // or was moved from here to made
	removed string // or this one was removed
	saved   string // what stood there before, in limbo; "" nothing
	isDir   bool   // removed was a directory
}

// MountNames mounts the directory lower at view; limbo must be an empty directory on the same file system.
func MountNames(lower, limbo, view string) (*Names, error) {
	n := &Names{lower: lower, limbo: limbo}
	var st unix.Stat_t
	if err := unix.Stat(lower, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", lower, err)
	}
	data := &fs.LoopbackRoot{Path: lower, Dev: st.Dev}
	root := &nameNode{LoopbackNode: &fs.LoopbackNode{RootData: data}, names: n}
	data.RootNode = root
	server, err := fs.Mount(view, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "faults", Name: "names", DisableXAttrs: true, MaxWrite: 1 << 20}})
	if err != nil {
		return nil, fmt.Errorf("mount a FUSE file system at %s: %w", view, err)
	}
	n.server = server
	return n, keepFromChildren("/dev/fuse")
}

// keepFromChildren marks this process's descriptors of a device as not to be inherited. A server that held the
// descriptor of the file system that it waits for would wait for ever, beyond SIGKILL, if the bench ended.
func keepFromChildren(device string) error {
	const fds = "/proc/self/fd"
	list, err := os.ReadDir(fds)
	if err != nil {
		return err
	}
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err != nil || to != device {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		syscall.CloseOnExec(fd)
	}
	return nil
}

// Close unmounts it. Whoever used it has ended or is about to; Close waits until every file is closed below as well,
// which happens a little later.
func (n *Names) Close() error {
	n.handles.Wait()
	return n.server.Unmount()
}

// Freeze calls fn while no name changes and no directory is synced, and returns what does not last at that moment.
func (n *Names) Freeze(fn func() error) ([]nameChange, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.changes), fn()
}

// SyncAll makes everything last that is there, as syncfs does on another file system: the kernel does not pass that on
// to one of FUSE.
func (n *Names) SyncAll() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := os.Open(n.lower)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Syncfs(int(d.Fd())), d.Close()); err != nil {
		return err
	}
	for _, c := range n.changes {
		if c.saved != "" {
			_ = os.Remove(filepath.Join(n.limbo, c.saved)) // one that stays is in nobody's way
		}
	}
	n.changes = nil
	return nil
}

// Forget takes the changes back in the directory lower, whose names in limbo are in the directory limbo. Nothing
// may be mounted over it. What the file system below has forgotten by itself is no error.
func Forget(lower, limbo string, changes []nameChange) error {
	for _, c := range slices.Backward(changes) {
		if err := c.undo(lower, limbo); err != nil {
			return fmt.Errorf("forget %+v: %w", c, err)
		}
	}
	return nil
}

// undo undoes one change.
func (c nameChange) undo(lower, limbo string) error {
	made := filepath.Join(lower, c.made)
	switch {
	case c.isDir:
		return ignore(os.Mkdir(filepath.Join(lower, c.removed), 0o700), gofs.ErrExist)
	case c.removed != "":
		made = filepath.Join(lower, c.removed)
	case c.from != "":
		from := filepath.Join(lower, c.from)
		if _, err := os.Lstat(from); err == nil {
			return nil // the move itself was lost
		}
		if err := ignore(os.Rename(made, from), gofs.ErrNotExist); err != nil {
			return err
		}
	default:
		return os.RemoveAll(made)
	}
	if c.saved == "" {
		return nil
	}
	err := os.Link(filepath.Join(limbo, c.saved), made)
	return ignore(ignore(err, gofs.ErrExist), gofs.ErrNotExist)
}

// ignore returns err unless it is the one to be ignored.
func ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// change does one change of a name, and notes it where it was done. save is the path whose file it replaces or removes,
// "" none.
func (n *Names) change(c nameChange, save string, do func() syscall.Errno) syscall.Errno {
	n.mu.Lock()
	defer n.mu.Unlock()
	if save != "" {
		n.next++
		saved := fmt.Sprint(n.next)
		err := os.Link(filepath.Join(n.lower, save), filepath.Join(n.limbo, saved))
		if err == nil {
			c.saved = saved
		} else if !errors.Is(err, gofs.ErrNotExist) {
			return fs.ToErrno(err)
		}
	}
	errno := do()
	if errno == 0 {
		n.changes = append(n.changes, c)
	}
	return errno
}

// synced forgets the changes that a sync of a directory made last. A move between directories lasts with the one it
// went to.
func (n *Names) synced(dir string) {
	n.changes = slices.DeleteFunc(n.changes, func(c nameChange) bool {
		name := c.made
		if c.removed != "" {
			name = c.removed
		}
		if filepath.Dir(name) != dir {
			return false
		}
		if c.saved != "" {
			_ = os.Remove(filepath.Join(n.limbo, c.saved)) // one that stays is in nobody's way
		}
		return true
	})
}

// nameNode is a file or directory.
type nameNode struct {
	*fs.LoopbackNode
	names *Names
}

// WrapChild makes the nodes below like this one.
func (d *nameNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &nameNode{child.(*fs.LoopbackNode), d.names}
}

// at returns the path of a name in this directory, relative to the root.
func (d *nameNode) at(name string) string { return filepath.Join(d.Path(d.Root()), name) }

// Create makes or opens a file.
func (d *nameNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (node *fs.Inode, fh fs.FileHandle, fuseFlags uint32, errno syscall.Errno) {
	create := func() syscall.Errno {
		node, fh, fuseFlags, errno = d.LoopbackNode.Create(ctx, name, flags, mode, out)
		if errno == 0 {
			d.names.handles.Add(1)
		}
		return errno
	}
	if _, err := os.Lstat(filepath.Join(d.names.lower, d.at(name))); err == nil {
		errno = create()
	} else {
		errno = d.names.change(nameChange{made: d.at(name)}, "", create)
	}
	return node, fh, fuseFlags, errno
}

// Open opens a file.
func (d *nameNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, fuseFlags, errno := d.LoopbackNode.Open(ctx, flags)
	if errno == 0 {
		d.names.handles.Add(1)
	}
	return fh, fuseFlags, errno
}

// Fsync syncs a file, on a drive that may be slow.
func (d *nameNode) Fsync(ctx context.Context, fh fs.FileHandle, flags uint32) syscall.Errno {
	time.Sleep(time.Duration(d.names.slow.Load()))
	if f, ok := fh.(fs.FileFsyncer); ok {
		return f.Fsync(ctx, flags)
	}
	return syscall.ENOTSUP
}

// Release closes a file.
func (d *nameNode) Release(ctx context.Context, fh fs.FileHandle) syscall.Errno {
	defer d.names.handles.Done()
	if r, ok := fh.(fs.FileReleaser); ok {
		return r.Release(ctx)
	}
	return 0
}

// Mkdir makes a directory.
func (d *nameNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (node *fs.Inode, errno syscall.Errno) {
	errno = d.names.change(nameChange{made: d.at(name)}, "", func() syscall.Errno {
		node, errno = d.LoopbackNode.Mkdir(ctx, name, mode, out)
		return errno
	})
	return node, errno
}

// Link gives a file a further name.
func (d *nameNode) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (node *fs.Inode, errno syscall.Errno) {
	errno = d.names.change(nameChange{made: d.at(name)}, "", func() syscall.Errno {
		node, errno = d.LoopbackNode.Link(ctx, target, name, out)
		return errno
	})
	return node, errno
}

// Unlink removes a file.
func (d *nameNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return d.names.change(nameChange{removed: d.at(name)}, d.at(name), func() syscall.Errno {
		return d.LoopbackNode.Unlink(ctx, name)
	})
}

// Rmdir removes a directory.
func (d *nameNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	return d.names.change(nameChange{removed: d.at(name), isDir: true}, "", func() syscall.Errno {
		return d.LoopbackNode.Rmdir(ctx, name)
	})
}

// Rename moves a file; what stood at the new name is saved. Directories and exchanges are not moved here.
func (d *nameNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := parent.(*nameNode)
	if child := d.GetChild(name); !ok || flags&^unix.RENAME_NOREPLACE != 0 || child == nil || child.IsDir() {
		return syscall.ENOTSUP
	}
	return d.names.change(nameChange{made: to.at(newName), from: d.at(name)}, to.at(newName), func() syscall.Errno {
		return d.LoopbackNode.Rename(ctx, name, to.LoopbackNode, newName, flags)
	})
}

// OpendirHandle opens a directory, for reading or for a sync.
func (d *nameNode) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := d.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	stream, ok := h.(dirStream)
	if !ok {
		return nil, 0, syscall.ENOTSUP
	}
	d.names.handles.Add(1)
	return &nameDir{stream, d}, fuseFlags, 0
}

// dirStream is what the loopback's open directory can do.
type dirStream interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

// nameDir is an open directory.
type nameDir struct {
	dirStream
	node *nameNode
}

// Fsyncdir makes the names in the directory last.
func (d *nameDir) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	n := d.node.names
	n.mu.Lock()
	defer n.mu.Unlock()
	errno := d.dirStream.Fsyncdir(ctx, flags)
	if errno == 0 {
		n.synced(filepath.Clean(d.node.at("")))
	}
	return errno
}

// Releasedir closes the directory.
func (d *nameDir) Releasedir(ctx context.Context, flags uint32) {
	defer d.node.names.handles.Done()
	d.dirStream.Releasedir(ctx, flags)
}
