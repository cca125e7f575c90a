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

// Names is a file system that passes all operations through to a directory of another file system, and keeps track of
// the changes to names that are not durable yet: names that were created, moved or removed in a directory that was not
// synced since. A power cut may undo any of these changes; Forget undoes all of them.
//
// ext4 and similar file systems hide a missing sync of a directory if a new file in it was synced, because they have a
// single journal. POSIX does not guarantee that, and other file systems do not do it.
//
// Files that were removed or replaced are kept in a second directory, limbo, under a number, as long as they may have
// to be restored.
type Names struct {
	lower, limbo string // directories of one file system
	server       *fuse.Server
	handles      sync.WaitGroup // open files and directories
	slow         atomic.Int64   // additional time of each sync of a file, in nanoseconds

	mu      sync.Mutex // held during every change of a name and every sync of a directory; guards the rest
	changes []nameChange
	next    int // the last number used in limbo
}

// nameChange is a change that is not durable yet. Paths are relative to lower.
type nameChange struct {
	made    string // the name that was created
	from    string // the name that was moved to made
	removed string // the name that was removed
	saved   string // the replaced or removed file, in limbo; "" if there was none
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

// keepFromChildren sets close-on-exec on this process's descriptors of a device. If a server inherited the descriptor
// of the file system that it waits for, and the bench ended, the server would wait forever, even after SIGKILL.
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

// Close unmounts the file system, whose users have ended or are about to end. It waits until every file is also closed
// in the file system below, which happens a little later.
func (n *Names) Close() error {
	n.handles.Wait()
	return n.server.Unmount()
}

// Freeze calls fn while no name changes and no directory is synced, and returns the changes that are not durable at
// that moment.
func (n *Names) Freeze(fn func() error) ([]nameChange, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.changes), fn()
}

// SyncAll makes everything durable, like syncfs on other file systems. The kernel does not pass syncfs on to FUSE file
// systems.
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
			_ = os.Remove(filepath.Join(n.limbo, c.saved)) // a leftover file does no harm
		}
	}
	n.changes = nil
	return nil
}

// Forget undoes changes in the directory lower, with the saved files in the directory limbo. Names must not be mounted.
// A change that the file system below has lost by itself is not an error.
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
		err := os.Mkdir(filepath.Join(lower, c.removed), 0o700)
		return ignore(ignore(err, gofs.ErrExist), gofs.ErrNotExist) // the parent may be lost as well
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

// ignore returns err, or nil if it is the error to ignore.
func ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// change performs a change of a name, and records it if it succeeds. save is the path of the file that it replaces or
// removes, or "".
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

// synced drops the changes that a sync of a directory made durable. A move between directories becomes durable with its
// target directory.
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
			_ = os.Remove(filepath.Join(n.limbo, c.saved)) // a leftover file does no harm
		}
		return true
	})
}

// nameNode is a file or directory.
type nameNode struct {
	*fs.LoopbackNode
	names *Names
}

// WrapChild wraps the nodes below in nameNodes.
func (d *nameNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &nameNode{child.(*fs.LoopbackNode), d.names}
}

// at returns the path of a name in this directory, relative to the root.
func (d *nameNode) at(name string) string { return filepath.Join(d.Path(d.Root()), name) }

// Create creates or opens a file.
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

// Fsync syncs a file, after the delay that simulates a slow drive.
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

// Mkdir creates a directory.
func (d *nameNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (node *fs.Inode, errno syscall.Errno) {
	errno = d.names.change(nameChange{made: d.at(name)}, "", func() syscall.Errno {
		node, errno = d.LoopbackNode.Mkdir(ctx, name, mode, out)
		return errno
	})
	return node, errno
}

// Link gives a file another name.
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

// Rename moves a file, and saves the file that it replaces. It does not support directories and exchanges.
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

// dirStream has the methods of an open directory of the loopback file system.
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

// Fsyncdir makes the names in the directory durable.
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
