package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Volatile is a file system on a drive with a write cache. After a power cut, any of the writes since the last flush
// may be missing, and so may single sectors of these writes. The drive is a loop device on a file in a FUSE file
// system, which receives each write and each flush of the inner file system.
type Volatile struct {
	dir    string // contains the image and the mount points drive and inner
	inner  string // the inner file system: ext4 or xfs
	random *rand.Rand
	server *fuse.Server
	image  *os.File
	up     bool // the inner file system is mounted

	mu      sync.Mutex // guards the fields below
	cache   []cached   // writes since the last flush, oldest first
	off     bool       // the power is cut: writes are discarded
	flushes int
	lost    string // a description of what the last cut lost
}

// cached is a write since the last flush, with the bytes before and after it.
type cached struct {
	at       int64
	old, new []byte
}

// sector is the unit that a drive writes completely or not at all, in bytes.
const sector = 512

// volatileSize is the size of the drive, in bytes; the image is sparse.
const volatileSize = 4 << 30

// NewVolatile creates a drive with an empty inner file system in dir.
func NewVolatile(ctx context.Context, dir, inner string, seed uint64) (*Volatile, error) {
	format, ok := formats[inner]
	if !ok {
		return nil, fmt.Errorf("unknown inner file system %q: expected ext4 or xfs", inner)
	}
	v := &Volatile{dir: dir, inner: inner, random: rand.New(rand.NewPCG(seed, 0xcac4e))}
	for _, name := range []string{"drive", "inner"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	image := filepath.Join(dir, "image")
	if err := sparse(image, volatileSize); err != nil {
		return nil, err
	}
	if err := run(ctx, format.mkfs[0], append(format.mkfs[1:], image)...); err != nil {
		return nil, err
	}
	var err error
	if v.image, err = os.OpenFile(image, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	return v, v.mount(ctx)
}

// Path returns the directory for data.
func (v *Volatile) Path() string { return filepath.Join(v.dir, "inner") }

func (v *Volatile) drive() string { return filepath.Join(v.dir, "drive") }

// mount mounts the drive and the inner file system, which recovers from its journal.
func (v *Volatile) mount(ctx context.Context) error {
	root := &fs.Inode{}
	server, err := fs.Mount(v.drive(), root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "faults", Name: "volatile", DisableXAttrs: true, MaxWrite: 1 << 20},
		OnAdd: func(ctx context.Context) {
			root.AddChild("disk", root.NewPersistentInode(ctx, &volatileFile{v: v}, fs.StableAttr{Mode: fuse.S_IFREG}), false)
		},
	})
	if err != nil {
		return fmt.Errorf("mount a FUSE file system at %s: %w", v.drive(), err)
	}
	v.server = server
	if err := keepFromChildren("/dev/fuse"); err != nil {
		return err
	}
	if err := run(ctx, "mount", "-o", formats[v.inner].options, filepath.Join(v.drive(), "disk"), v.Path()); err != nil {
		return err
	}
	v.up = true
	return nil
}

// unmount unmounts both file systems. It retries, because the loop device releases the file a little later.
func (v *Volatile) unmount() error {
	if v.up {
		if err := unix.Unmount(v.Path(), 0); err != nil {
			return fmt.Errorf("unmount %s: %w", v.Path(), err)
		}
		v.up = false
	}
	if v.server == nil {
		return nil
	}
	var err error
	for range 200 {
		if err = v.server.Unmount(); err == nil {
			v.server = nil
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Cut cuts the power: from now on no write reaches the drive. Usually the cache has few writes, so Cut first waits a
// moment for more.
func (v *Volatile) Cut() error {
	want := 1 + v.random.IntN(20)
	for wait := 300; ; wait-- {
		v.mu.Lock()
		if v.flushes == 0 {
			v.mu.Unlock()
			return errors.New("no flush has reached the drive: the loop device does not pass flushes on")
		}
		v.off = len(v.cache) >= want || wait == 0
		v.mu.Unlock()
		if v.off {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Restore decides which writes in the cache survive the cut, and mounts the inner file system again. No file may be
// open there.
func (v *Volatile) Restore(ctx context.Context) error {
	if err := v.unmount(); err != nil {
		return err
	}
	if err := v.settle(); err != nil {
		return err
	}
	return v.mount(ctx)
}

// settle undoes all cached writes, and then repeats some of them, some of those torn.
func (v *Volatile) settle() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := len(v.cache) - 1; i >= 0; i-- {
		if _, err := v.image.WriteAt(v.cache[i].old, v.cache[i].at); err != nil {
			return err
		}
	}
	keep := []float64{0, 0.5, 0.9}[v.random.IntN(3)]
	kept, torn := 0, 0
	for _, c := range v.cache {
		if v.random.Float64() >= keep {
			continue
		}
		kept++
		tear := v.random.IntN(3) == 0
		if tear {
			torn++
		}
		for at := 0; at < len(c.new); at += sector {
			if tear && v.random.IntN(2) == 0 {
				continue
			}
			if _, err := v.image.WriteAt(c.new[at:min(at+sector, len(c.new))], c.at+int64(at)); err != nil {
				return err
			}
		}
	}
	v.lost = fmt.Sprintf("%d writes since the last flush: %d kept, %d of them torn; %d flushes before", len(v.cache), kept, torn, v.flushes)
	v.cache, v.off, v.flushes = nil, false, 0
	return nil
}

// Lost describes the losses of the last cut.
func (v *Volatile) Lost() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lost
}

// Close unmounts everything.
func (v *Volatile) Close() error {
	if v.image == nil {
		return nil
	}
	err := errors.Join(v.unmount(), v.image.Close())
	v.image = nil
	return err
}

// volatileFile is the file that the loop device uses.
type volatileFile struct {
	fs.Inode
	v *Volatile
}

var (
	_ fs.NodeGetattrer = (*volatileFile)(nil)
	_ fs.NodeOpener    = (*volatileFile)(nil)
	_ fs.NodeReader    = (*volatileFile)(nil)
	_ fs.NodeWriter    = (*volatileFile)(nil)
	_ fs.NodeFsyncer   = (*volatileFile)(nil)
	_ fs.NodeSetattrer = (*volatileFile)(nil)
)

// Getattr implements fs.NodeGetattrer.
func (f *volatileFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blksize = fuse.S_IFREG|0o600, volatileSize, 4096
	return 0
}

// Setattr implements fs.NodeSetattrer. It ignores all changes.
func (f *volatileFile) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return f.Getattr(ctx, h, out)
}

// Open implements fs.NodeOpener.
func (f *volatileFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read implements fs.NodeReader.
func (f *volatileFile) Read(_ context.Context, _ fs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	n, err := f.v.image.ReadAt(b, at)
	if n < len(b) && err != nil && at+int64(n) < volatileSize {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(b[:n]), 0
}

// Write implements fs.NodeWriter.
func (f *volatileFile) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	v := f.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.off {
		return uint32(len(b)), 0
	}
	c := cached{at, make([]byte, len(b)), append([]byte(nil), b...)}
	if _, err := v.image.ReadAt(c.old, at); err != nil {
		return 0, fs.ToErrno(err)
	}
	if _, err := v.image.WriteAt(b, at); err != nil {
		return 0, fs.ToErrno(err)
	}
	v.cache = append(v.cache, c)
	return uint32(len(b)), 0
}

// Fsync implements fs.NodeFsyncer. It flushes the cache.
func (f *volatileFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	v := f.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.off {
		v.cache = nil
		v.flushes++
	}
	return 0
}
