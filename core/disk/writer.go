package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"orcas/core"
	"orcas/core/frame"
	"orcas/internal/durable"
	"orcas/internal/mutant"
)

// maxDeferred is the maximum number of bytes of an unshared block that remain in the page cache until the commit, after
// Defer.
const maxDeferred = 32 << 20

// writer is a core.BlockWriter.
type writer struct {
	store   *Store
	f       *durable.File
	id      core.BlockID
	kind    core.BlockKind
	shared  bool
	relaxed bool
	epoch   int   // the epoch of the directory (see directories); used only if not shared
	start   int64 // the position of the first byte of this writer
	pos     int64 // the position of the next byte
	begun   int64 // the end of the bytes whose write-out has begun (see pacer)
	waits   int64 // the position up to which nothing is written out before the commit (see Defer)
	ahead   int   // the number of ranges whose results have not been received from results
	results chan error
	failed  error // the first write or write-out that failed
	ended   bool
}

// Create implements core.Blocks.
func (s *Store) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	const op = "disk.Create"
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	if extOf(o.Kind) == "" {
		return nil, core.E(op, core.InvalidArgument, fmt.Errorf("unknown kind of block: %d", o.Kind))
	}
	var w *writer
	var err error
	if o.Kind == core.Packed && !o.Alone {
		w, err = s.createShared(op, o.SizeHint)
	} else {
		w, err = s.newBlock(op, o.Kind, false)
	}
	if err != nil {
		return nil, err
	}
	w.relaxed = o.Relaxed
	return w, nil
}

// createShared returns a writer that appends to the open packed file, or to a new one.
func (s *Store) createShared(op string, size int64) (*writer, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, core.E(op, core.Unavailable, errClosed)
	}
	old := s.open
	s.open = packedFile{}
	fits := old.f != nil && size <= s.packedSize-old.pos
	if fits {
		s.writing[old.id] = false
	}
	s.mu.Unlock()

	if fits {
		if old.f.AtPath() || mutant.Is("no-path-check") {
			return &writer{store: s, f: old.f, id: old.id, kind: core.Packed, shared: true, start: old.pos, pos: old.pos}, nil
		}
		s.log.Error("the file of the open packed block was removed or replaced, so its content is lost", "block", old.id, "path", old.f.Path())
		s.ended(old.id)
	}
	s.retire(old)
	return s.newBlock(op, core.Packed, true)
}

// newBlock creates the file of a block and writes its header. If the block is shared, its name is durable when newBlock
// returns.
func (s *Store) newBlock(op string, kind core.BlockKind, shared bool) (*writer, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, core.E(op, core.Unavailable, errClosed)
	}
	if s.last == math.MaxUint32 {
		s.mu.Unlock()
		return nil, core.E(op, core.Overloaded, errors.New("this process has used all of its block numbers: restart the server"))
	}
	s.last++
	id := core.MakeBlockID(s.number, s.generation, s.last)
	if shared {
		s.newest, s.writing[id] = id, false
	} else {
		s.begun[id] = true
	}
	s.mu.Unlock()

	dir := s.blockDir(id)
	f, epoch, err := s.createFile(dir, s.blockPath(id, extOf(kind)))
	if err != nil {
		s.ended(id)
		return nil, fail(op, err)
	}
	w := &writer{store: s, f: f, id: id, kind: kind, shared: shared, epoch: epoch}
	if shared {
		// This only makes commits faster. If the drive is full, a later write fails.
		if err := f.Allocate(0, s.packedSize, true); err != nil {
			s.log.Debug("could not preallocate the space of a block", "block", id, "err", err)
		}
	}
	header := make([]byte, frame.BlockHeaderSize)
	frame.EncodeBlockHeader(header, id, uint8(kind))
	_, err = f.WriteAt(header, 0)
	if err == nil && shared {
		err = s.dirs.sync(&s.steps, dir, epoch)
	}
	if err != nil {
		w.discard()
		s.ended(id)
		return nil, fail(op, err)
	}
	w.start, w.pos = frame.BlockHeaderSize, frame.BlockHeaderSize
	return w, nil
}

// createFile creates a file in a directory of blocks. It creates the directory again if someone removed it.
func (s *Store) createFile(dir, path string) (f *durable.File, epoch int, err error) {
	parent := s.generationDir(s.generation)
	if epoch, err = s.dirs.make(&s.steps, parent, dir); err == nil {
		f, err = s.steps.Create(path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return f, epoch, err
	}
	s.log.Error("a directory of blocks was removed together with its blocks; recreating the directory", "dir", dir)
	if err = s.steps.MkdirAll(parent); err != nil {
		return nil, 0, err
	}
	s.dirs.forget(dir)
	if epoch, err = s.dirs.make(&s.steps, parent, dir); err != nil {
		return nil, 0, err
	}
	f, err = s.steps.Create(path)
	return f, epoch, err
}

// retire closes a packed file that is no longer appended to, and frees the space allocated beyond its end. All of its
// commits are durable or wait for a Sync, so an error only wastes space.
func (s *Store) retire(p packedFile) {
	if p.f == nil {
		return
	}
	err := p.f.Truncate(p.pos)
	if !s.unsynced.leave(p.id) {
		err = errors.Join(err, p.f.Close())
	}
	if err != nil {
		s.log.Warn("could not close a packed block", "block", p.id, "err", err)
	}
}

// Block implements core.BlockWriter.
func (w *writer) Block() core.BlockID { return w.id }

// Offset implements core.BlockWriter.
func (w *writer) Offset() int64 { return w.pos }

var errEnded = errors.New("the writer has ended")

// usable returns nil if w can be used, and otherwise the error of further calls.
func (w *writer) usable(op string) error {
	switch {
	case w.ended:
		return core.E(op, core.Internal, errEnded)
	case w.failed != nil:
		return fail(op, w.failed)
	case w.store.isClosed():
		return core.E(op, core.Unavailable, errClosed)
	}
	return nil
}

// Write implements core.BlockWriter. After an error only Abort may be called.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.usable("disk.Write"); err != nil {
		return 0, err
	}
	n, err := w.f.WriteAt(p, w.pos)
	w.pos += int64(n)
	if err != nil {
		w.failed = err
		return n, fail("disk.Write", err)
	}
	if !w.shared && w.pos-w.begun >= paceSize && w.pos > w.waits {
		if err := w.writeOut(w.pos &^ (paceSize - 1)); err != nil {
			return n, fail("disk.Write", err)
		}
	}
	return n, nil
}

// writeOut begins to write the bytes up to end to the drive, in ranges, and waits while too many of them are not there
// yet. It returns the error of an earlier range.
func (w *writer) writeOut(end int64) error {
	if w.relaxed {
		w.f.StartWrite(w.begun, end-w.begun)
		w.begun = end
		return nil
	}
	if w.results == nil {
		w.results = make(chan error, maxAhead)
	}
	for w.begun < end {
		if w.ahead == maxAhead {
			if w.receive(); w.failed != nil {
				return w.failed
			}
		}
		from, n := w.begun, min(paceSize, end-w.begun)
		w.begun += n
		w.ahead++
		go func() {
			w.results <- w.store.pacer.write(func() error { return w.f.WriteOut(from, n) })
		}()
	}
	return nil
}

// receive waits for the end of a range. The kernel reports an error of a write-out only once, so the commit has to fail
// because of it: the fdatasync would succeed.
func (w *writer) receive() {
	err := <-w.results
	w.ahead--
	if err != nil && w.failed == nil && !mutant.Is("no-write-out-error") {
		w.failed = err
	}
}

// settle waits until no range is being written out, and returns the first error.
func (w *writer) settle() error {
	for w.ahead > 0 {
		w.receive()
	}
	return w.failed
}

// Defer implements core.Deferrer.
func (w *writer) Defer() { w.waits = maxDeferred }

// Commit implements core.BlockWriter. It ignores the cancellation of the context, because the result of a commit that
// is canceled halfway would be unknown.
func (w *writer) Commit(context.Context) error {
	const op = "disk.Commit"
	if err := w.usable(op); err != nil {
		return errors.Join(err, w.Abort())
	}
	w.ended = true
	if !w.shared {
		defer w.store.ended(w.id) // after the block is durable or discarded
	}
	if w.relaxed {
		return w.handOver()
	}
	if w.shared {
		var err error
		if w.pos > w.start {
			err = w.store.pacer.sync(func() error { return w.store.dataSync(w.f) })
		}
		w.release(err != nil && !mutant.Is("no-seal"))
		if err != nil {
			return fail(op, err)
		}
		return nil
	}
	var err error
	if w.pos < paceSize {
		err = w.store.pacer.sync(w.sync)
	} else if err = errors.Join(w.writeOut(w.pos), w.settle()); err == nil {
		err = w.sync()
	}
	if err == nil && !w.f.AtPath() {
		err = fmt.Errorf("the file %s was removed or replaced while it was written", w.f.Path())
	}
	if err != nil {
		w.discard()
		return fail(op, err)
	}
	if err := w.f.Close(); err != nil {
		w.store.log.Warn("could not close a block", "block", w.id, "err", err)
	}
	return nil
}

// sync makes an unshared block and its name durable.
func (w *writer) sync() error {
	if mutant.Is("written-out-is-durable") && w.begun == w.pos {
		return nil
	}
	if err := w.store.dataSync(w.f); err != nil {
		return err
	}
	return w.store.dirs.sync(&w.store.steps, w.store.blockDir(w.id), w.epoch)
}

// dataSync syncs a file, and measures it.
func (s *Store) dataSync(f *durable.File) error {
	if s.synced == nil {
		return f.DataSync()
	}
	start := time.Now()
	err := f.DataSync()
	s.synced(time.Since(start), err)
	return err
}

// handOver performs a relaxed commit: the written bytes wait for the next Sync.
func (w *writer) handOver() error {
	s := w.store
	x := waiting{f: w.f, done: !w.shared}
	if !w.shared {
		x.dir, x.epoch = s.blockDir(w.id), w.epoch
	}
	n := s.unsynced.add(w.id, x)
	if w.shared {
		w.release(false)
	} else if n >= maxUnsynced {
		return s.Sync(context.Background())
	}
	return nil
}

// Abort implements core.BlockWriter.
func (w *writer) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	if w.shared {
		w.release(w.pos > w.start || w.failed != nil)
	} else {
		w.discard()
		w.store.ended(w.id)
	}
	return nil
}

// release ends a shared writer. The next one appends to the same block, unless finish is set, the store is closed, the
// block was deleted, or a newer block was created.
func (w *writer) release(finish bool) {
	s := w.store
	p := packedFile{w.f, w.id, w.pos}
	s.mu.Lock()
	deleted := s.writing[w.id]
	delete(s.writing, w.id)
	if !finish && !s.closed && !deleted && w.id == s.newest {
		s.open, p = p, packedFile{}
	}
	s.mu.Unlock()
	s.retire(p)
}

// discard closes and deletes a file without acknowledged content. If the file exists again after a crash, it is
// garbage.
func (w *writer) discard() {
	_ = w.settle() // nothing may use the file after it is closed
	if err := errors.Join(w.f.Close(), w.store.steps.Remove(w.f.Path())); err != nil {
		w.store.log.Warn("could not remove the file of an aborted block, which is garbage", "block", w.id, "err", err)
	}
}
