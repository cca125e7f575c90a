package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a file system whose power can be cut. It is in an image file on an outer file system that can clone files.
// Both are on loop devices. The mounts belong to the mount namespace of the process, and the outer image is unlinked,
// so everything disappears with the process, however it ends (see Private).
//
// A strict disk also loses every name whose directory was not synced (see Names).
type Disk struct {
	dir    string // contains the mount points outer, inner and, for a strict disk, view
	inner  string // the inner file system: ext4 or xfs
	strict bool
	number int  // number of the image in use
	up     bool // the inner file system is mounted
	closed bool

	names   *Names       // on top of the inner file system of a strict disk
	pending []nameChange // changes that the restore after the last cut must undo
}

// The sizes of the images in bytes; they are sparse.
const (
	outerSize = 24 << 30
	innerSize = 6 << 30
)

// formats are the commands that create the inner file systems, and the mount options. They make the file systems write
// as little as possible without a sync, so that data that was not synced is missing after a cut.
var formats = map[string]struct {
	mkfs    []string
	options string
}{
	"ext4": {[]string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"}, "loop,noatime,commit=300,noauto_da_alloc"},
	"xfs":  {[]string{"mkfs.xfs", "-q", "-f"}, "loop,noatime"},
}

// NewDisk creates a disk with an empty inner file system in dir.
func NewDisk(ctx context.Context, dir, inner string, strict bool) (*Disk, error) {
	format, ok := formats[inner]
	if !ok {
		return nil, fmt.Errorf("unknown inner file system %q: expected ext4 or xfs", inner)
	}
	d := &Disk{dir: dir, inner: inner, strict: strict}
	for _, name := range []string{"outer", "inner", "view"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	image := filepath.Join(dir, "outer.img")
	if err := sparse(image, outerSize); err != nil {
		return nil, err
	}
	defer os.Remove(image)
	outer := filepath.Join(dir, "outer")
	err := run(ctx, "mkfs.btrfs", "-q", "-f", image)
	options := "loop,noatime,nobarrier"
	if errors.Is(err, exec.ErrNotFound) {
		err, options = run(ctx, "mkfs.xfs", "-q", "-f", "-m", "reflink=1", image), "loop,noatime"
	}
	if err != nil {
		return nil, err
	}
	if err := run(ctx, "mount", "-o", options, image, outer); err != nil {
		return nil, err
	}
	if err := sparse(d.image(), innerSize); err != nil {
		return nil, err
	}
	if err := run(ctx, format.mkfs[0], append(format.mkfs[1:], d.image())...); err != nil {
		return nil, err
	}
	if err := d.mount(ctx); err != nil {
		return nil, err
	}
	for _, path := range []string{d.root(), d.limbo()} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return nil, err
		}
	}
	if err := run(ctx, "sync", "-f", d.root()); err != nil {
		return nil, err
	}
	return d, d.mountNames()
}

// Path returns the directory for data.
func (d *Disk) Path() string {
	if d.strict {
		return filepath.Join(d.dir, "view")
	}
	return d.root()
}

// mountPoint returns the mount point of the inner file system, which contains the directories root and limbo.
func (d *Disk) mountPoint() string { return filepath.Join(d.dir, "inner") }
func (d *Disk) root() string       { return filepath.Join(d.mountPoint(), "root") }
func (d *Disk) limbo() string      { return filepath.Join(d.mountPoint(), "limbo") }

// image returns the path of the file that contains the inner file system.
func (d *Disk) image() string {
	return filepath.Join(d.dir, "outer", fmt.Sprintf("%03d.img", d.number))
}

// mount mounts the inner file system.
func (d *Disk) mount(ctx context.Context) error {
	err := run(ctx, "mount", "-o", formats[d.inner].options, d.image(), d.mountPoint())
	d.up = err == nil
	return err
}

// mountNames mounts Names on top of the inner file system of a strict disk. It empties limbo first, because the new
// Names reuses the numbers of the files in it.
func (d *Disk) mountNames() (err error) {
	if !d.strict {
		return nil
	}
	if err := os.RemoveAll(d.limbo()); err != nil {
		return err
	}
	if err := os.Mkdir(d.limbo(), 0o755); err != nil {
		return err
	}
	d.names, err = MountNames(d.root(), d.limbo(), d.Path())
	return err
}

// Cut clones the image: the clone is what a power cut would leave. Before that, it writes a file without a sync, which
// must be missing after the cut. If the file survives, the cut lost nothing and the test proves nothing (see Restore).
func (d *Disk) Cut() (err error) {
	if err := os.WriteFile(d.canary(), []byte("not synced"), 0o644); err != nil {
		return err
	}
	if !d.strict {
		return d.clone()
	}
	d.pending, err = d.names.Freeze(d.clone)
	return err
}

// clone clones the image.
func (d *Disk) clone() error {
	from, err := os.Open(d.image())
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(d.image() + ".cut")
	if err != nil {
		return err
	}
	defer to.Close()
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		return fmt.Errorf("clone %s: %w", d.image(), err)
	}
	return nil
}

// canary returns the name of the file that must not survive a cut.
func (d *Disk) canary() string {
	return filepath.Join(d.mountPoint(), fmt.Sprintf("canary.%d", d.number))
}

// Restore replaces the inner file system with the clone of the last cut. No file may be open there.
func (d *Disk) Restore(ctx context.Context) error {
	canary := d.canary()
	if err := d.unmount(); err != nil {
		return err
	}
	old := d.image()
	d.number++
	if err := os.Rename(old+".cut", d.image()); err != nil {
		return err
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if err := d.mount(ctx); err != nil {
		return err
	}
	if b, err := os.ReadFile(canary); err == nil && len(b) > 0 {
		return fmt.Errorf("a file that was never synced survived the power cut, so the test proves nothing")
	}
	if err := Forget(d.root(), d.limbo(), d.pending); err != nil {
		return err
	}
	return d.mountNames()
}

// unmount unmounts the inner file system, and Names.
func (d *Disk) unmount() error {
	if !d.up {
		return nil
	}
	if d.names != nil {
		if err := d.names.Close(); err != nil {
			return err
		}
		d.names = nil
	}
	if err := unix.Unmount(d.mountPoint(), 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.mountPoint(), err)
	}
	d.up = false
	return nil
}

// SyncAll makes everything on a strict disk durable. On other disks, the server's own syncfs does this.
func (d *Disk) SyncAll() error {
	if d.names == nil {
		return nil
	}
	return d.names.SyncAll()
}

// SlowSyncs makes each sync of a file on a strict disk take longer by the given time, until the next Restore.
func (d *Disk) SlowSyncs(by time.Duration) {
	if d.names != nil {
		d.names.slow.Store(int64(by))
	}
}

// Lost describes what the last cut lost in addition to the data that had not reached the device.
func (d *Disk) Lost() string { return fmt.Sprintf("%d names not synced", len(d.pending)) }

// Close unmounts both file systems.
func (d *Disk) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(d.unmount(), unix.Unmount(filepath.Join(d.dir, "outer"), 0))
}

// sparse creates a sparse file of size bytes.
func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// run runs a command. Its error contains the output.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Private returns a command that runs binary in a mount namespace of its own. It is killed when the calling thread
// ends.
func Private(binary string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}
