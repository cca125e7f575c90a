package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"orcas/core"
)

// fileCache keeps the most recently used files open for readers. If a file is removed from the cache while readers use
// it, the last of these readers closes it.
type fileCache struct {
	mu     sync.Mutex // guards the fields below, and the fields of the files
	max    int
	files  map[core.BlockID]*file
	newest *file // newest and oldest are the ends of the list of files, which is in the order of their last use
	oldest *file
	drops  uint64 // the number of deleted or replaced files that were dropped, cached or not
	closed bool
}

// inode identifies a file independently of its name.
type inode struct{ dev, ino uint64 }

type file struct {
	*os.File
	id           core.BlockID
	inode        inode
	pins         int
	kept         bool // the file is in the cache
	newer, older *file
}

func (c *fileCache) init(maxFiles int) {
	c.max, c.files = cmp.Or(max(maxFiles, 0), 512), map[core.BlockID]*file{}
}

// get returns the file of a block, pinned, if it is in the cache. Otherwise it returns the argument drops of put.
func (c *fileCache) get(id core.BlockID) (f *file, drops uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, errClosed
	}
	if f := c.files[id]; f != nil {
		f.pins++
		if c.newest != f {
			c.unlink(f)
			c.link(f)
		}
		return f, 0, nil
	}
	return nil, c.drops, nil
}

// put adds a file that was opened after get returned drops, and returns it pinned. If any file has been dropped since
// then, put does not cache the file, because it may be the file of the dropped block.
func (c *fileCache) put(id core.BlockID, opened *os.File, ino inode, drops uint64) *file {
	f := &file{File: opened, id: id, inode: ino, pins: 1}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.drops != drops || c.files[id] != nil {
		return f
	}
	f.kept = true
	c.files[id] = f
	c.link(f)
	for len(c.files) > c.max {
		c.forget(c.oldest)
	}
	return f
}

// unpin releases a file that get or put returned.
func (c *fileCache) unpin(f *file) error {
	c.mu.Lock()
	f.pins--
	last := f.pins == 0 && !f.kept
	c.mu.Unlock()
	if last {
		return f.File.Close()
	}
	return nil
}

// drop removes the file of a deleted block from the cache.
func (c *fileCache) drop(id core.BlockID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if f := c.files[id]; f != nil {
		c.forget(f)
	}
}

// dropOther removes the cached file of a block, unless it is the given file.
func (c *fileCache) dropOther(id core.BlockID, ino inode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[id]; f != nil && f.inode != ino {
		c.drops++
		c.forget(f)
	}
}

// close empties the cache. Nothing is cached after that.
func (c *fileCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.oldest != nil {
		c.forget(c.oldest)
	}
}

// forget removes f from the cache, and closes it if no reader uses it. The caller holds mu.
func (c *fileCache) forget(f *file) {
	delete(c.files, f.id)
	c.unlink(f)
	f.kept = false
	if f.pins == 0 {
		_ = f.File.Close() // the file was opened only for reading
	}
}

// link makes f the most recently used file. The caller holds mu.
func (c *fileCache) link(f *file) {
	f.older, f.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = f
	} else {
		c.oldest = f
	}
	c.newest = f
}

// unlink removes f from the list. The caller holds mu.
func (c *fileCache) unlink(f *file) {
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		c.newest = f.older
	}
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		c.oldest = f.newer
	}
}

// reader implements core.BlockReader.
type reader struct {
	store  *Store
	file   *file // nil after Close
	extent core.Extent
}

// Open implements core.Blocks. It makes no system call if the file is already open.
func (s *Store) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	const op = "disk.Open"
	if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length < 0 {
		return nil, core.E(op, core.InvalidArgument, fmt.Errorf("invalid extent: %d bytes at offset %d", e.Length, e.Offset))
	}
	f, drops, err := s.cache.get(e.Block)
	if err != nil {
		return nil, core.E(op, core.Unavailable, err)
	}
	if f == nil {
		opened, ino, err := s.openFile(e.Block)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, core.E(op, core.NoSuchData, err)
		}
		if err != nil {
			return nil, fail(op, err)
		}
		f = s.cache.put(e.Block, opened, ino, drops)
	}
	return &reader{s, f, e}, nil
}

// openFile opens the file of a block of any kind.
func (s *Store) openFile(id core.BlockID) (f *os.File, ino inode, err error) {
	if id.Store() != s.number {
		return nil, ino, fmt.Errorf("block %v belongs to another store: %w", id, fs.ErrNotExist)
	}
	for _, ext := range extensions {
		if f, err = os.Open(s.blockPath(id, ext)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, ino, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, ino, errors.Join(err, f.Close())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		ino = inode{uint64(st.Dev), st.Ino}
	}
	return f, ino, nil
}

// Stat implements core.Stater, with a stat of the block's path. If the cached file is no longer the file at that path,
// it is removed from the cache, so that later reads use the file that a restart would find.
func (s *Store) Stat(_ context.Context, id core.BlockID) (core.BlockStat, error) {
	const op = "disk.Stat"
	for _, ext := range extensions {
		if id.Store() != s.number {
			break
		}
		path := s.blockPath(id, ext)
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		for err == unix.EINTR {
			err = unix.Stat(path, &st)
		}
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			return core.BlockStat{}, fail(op, &fs.PathError{Op: "stat", Path: path, Err: err})
		}
		s.cache.dropOther(id, inode{uint64(st.Dev), st.Ino})
		return core.BlockStat{
			BlockInfo: core.BlockInfo{ID: id, Kind: kindOf(ext), Size: st.Size}, Modified: time.Unix(st.Mtim.Unix()),
		}, nil
	}
	return core.BlockStat{}, core.E(op, core.NoSuchData, fmt.Errorf("block %v: its file %s is missing", id, s.blockPath(id, ".*")))
}

// ReadAt implements core.BlockReader, with one pread. It returns Damaged if the block ends inside the extent.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	const op = "disk.ReadAt"
	if r.file == nil {
		return 0, core.E(op, core.Internal, fs.ErrClosed)
	}
	if off < 0 {
		return 0, core.E(op, core.InvalidArgument, errors.New("negative offset"))
	}
	if off >= r.extent.Length && len(p) > 0 {
		return 0, io.EOF
	}
	var end error
	if left := r.extent.Length - off; int64(len(p)) > left {
		p, end = p[:left], io.EOF
	}
	n, err := r.file.ReadAt(p, r.extent.Offset+off)
	switch {
	case n == len(p):
		return n, end
	case err == io.EOF:
		return n, core.E(op, core.Damaged, io.ErrUnexpectedEOF)
	}
	return n, fail(op, err)
}

// Close implements core.BlockReader.
func (r *reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	if err := r.store.cache.unpin(f); err != nil {
		return fail("disk.Close", err)
	}
	return nil
}
