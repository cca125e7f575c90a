package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"orcas/core"
)

// fileCache keeps files open for readers, the most recently used ones. A file that is dropped while readers hold it is
// closed by the last of them.
type fileCache struct {
	mu     sync.Mutex // guards all below, and the files' fields
	max    int
	files  map[core.BlockID]*file
	newest *file // ends of the list, by last use
	oldest *file
	drops  uint64 // calls of drop
	closed bool
}

type file struct {
	*os.File
	id           core.BlockID
	pins         int
	kept         bool // in the cache
	newer, older *file
}

func (c *fileCache) init(maxFiles int) {
	if maxFiles <= 0 {
		maxFiles = 512
	}
	c.max, c.files = maxFiles, map[core.BlockID]*file{}
}

// get returns the file of a block, pinned, if it is in the cache. Else it returns what put wants to know.
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

// put takes a file that was opened since get said drops, and returns it pinned. Where anything was dropped in between it is not kept
// for others, since it may be that block.
func (c *fileCache) put(id core.BlockID, opened *os.File, drops uint64) *file {
	f := &file{File: opened, id: id, pins: 1}
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

// unpin lets go of a file that get or put returned.
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

// drop forgets a block that is gone.
func (c *fileCache) drop(id core.BlockID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if f := c.files[id]; f != nil {
		c.forget(f)
	}
}

// close forgets every file, and refuses from now on.
func (c *fileCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.oldest != nil {
		c.forget(c.oldest)
	}
}

// forget takes f out of the cache, and closes it where nobody holds it. The caller holds mu.
func (c *fileCache) forget(f *file) {
	delete(c.files, f.id)
	c.unlink(f)
	f.kept = false
	if f.pins == 0 {
		_ = f.File.Close() // it was read only
	}
}

// link makes f the newest. The caller holds mu.
func (c *fileCache) link(f *file) {
	f.older, f.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = f
	} else {
		c.oldest = f
	}
	c.newest = f
}

// unlink takes f out of the list. The caller holds mu.
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

// reader is core.BlockReader.
type reader struct {
	store  *Store
	file   *file // nil after Close
	extent core.Extent
}

// Open implements core.Blocks. It makes no system call where the file is open already.
func (s *Store) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	const op = "disk.Open"
	if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length < 0 {
		return nil, core.E(op, core.InvalidArgument, fmt.Errorf("no extent: %d bytes at %d", e.Length, e.Offset))
	}
	f, drops, err := s.cache.get(e.Block)
	if err != nil {
		return nil, core.E(op, core.Unavailable, err)
	}
	if f == nil {
		opened, err := s.openFile(e.Block)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, core.E(op, core.NoSuchData, err)
		}
		if err != nil {
			return nil, fail(op, err)
		}
		f = s.cache.put(e.Block, opened, drops)
	}
	return &reader{s, f, e}, nil
}

// openFile opens the file of a block, whatever its kind.
func (s *Store) openFile(id core.BlockID) (*os.File, error) {
	if id.Store() != s.number {
		return nil, fmt.Errorf("block %v of another store: %w", id, fs.ErrNotExist)
	}
	var err error
	for _, ext := range extensions {
		f, openErr := os.Open(s.blockPath(id, ext))
		if !errors.Is(openErr, fs.ErrNotExist) {
			return f, openErr
		}
		err = openErr
	}
	return nil, err
}

// ReadAt implements core.BlockReader, with one pread. Damaged says that the block ends inside the extent.
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
