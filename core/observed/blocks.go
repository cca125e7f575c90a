package observed

import (
	"context"
	"errors"
	"io"
	"time"

	"orcas/core"
)

// blocks wraps a core.Blocks and reports its calls.
type blocks struct {
	store   core.Blocks
	observe Observer
}

// Blocks returns a wrapper of b that reports its calls, and those of its writers and readers, to o.
func Blocks(b core.Blocks, o Observer) core.Blocks {
	observed := &blocks{b, o}
	if f, ok := core.As[core.Flusher](b); ok {
		return &flusher{observed, f}
	}
	return observed // not a Flusher, so that callers can see that every commit is durable
}

// Unwrap returns the block store, for core.As.
func (b *blocks) Unwrap() core.Blocks { return b.store }

// Create implements core.Blocks.
func (b *blocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	start := time.Now()
	w, err := b.store.Create(ctx, o)
	b.observe.observe(BlockCreate, start, 0, err)
	if err != nil {
		return nil, err
	}
	return &writer{w, b.observe}, nil
}

// Open implements core.Blocks.
func (b *blocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	start := time.Now()
	r, err := b.store.Open(ctx, e)
	b.observe.observe(BlockOpen, start, 0, err)
	if err != nil {
		return nil, err
	}
	return &reader{r, b.observe}, nil
}

// Delete implements core.Blocks.
func (b *blocks) Delete(ctx context.Context, id core.BlockID) (err error) {
	defer b.observe.call(BlockDelete, time.Now(), &err)
	return b.store.Delete(ctx, id)
}

// Walk implements core.Blocks. The reported duration includes the calls of fn, and the error may be an error of fn.
func (b *blocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) (err error) {
	defer b.observe.call(BlockWalk, time.Now(), &err)
	return b.store.Walk(ctx, from, fn)
}

// Close implements core.Blocks.
func (b *blocks) Close() (err error) {
	defer b.observe.call(BlockClose, time.Now(), &err)
	return b.store.Close()
}

// flusher is a blocks whose block store supports relaxed commits.
type flusher struct {
	*blocks
	below core.Flusher
}

// Sync implements core.Flusher.
func (f *flusher) Sync(ctx context.Context) (err error) {
	defer f.observe.call(BlockSync, time.Now(), &err)
	return f.below.Sync(ctx)
}

type writer struct {
	core.BlockWriter
	observe Observer
}

// Unwrap returns the writer of the block store, for core.As.
func (w *writer) Unwrap() core.BlockWriter { return w.BlockWriter }

// Write implements core.BlockWriter.
func (w *writer) Write(p []byte) (int, error) {
	start := time.Now()
	n, err := w.BlockWriter.Write(p)
	w.observe.observe(BlockWrite, start, n, err)
	return n, err
}

// Commit implements core.BlockWriter.
func (w *writer) Commit(ctx context.Context) (err error) {
	defer w.observe.call(BlockCommit, time.Now(), &err)
	return w.BlockWriter.Commit(ctx)
}

// Abort implements core.BlockWriter. A call after Commit, which does nothing, is also reported.
func (w *writer) Abort() (err error) {
	defer w.observe.call(BlockAbort, time.Now(), &err)
	return w.BlockWriter.Abort()
}

type reader struct {
	core.BlockReader
	observe Observer
}

// ReadAt implements core.BlockReader. The end of the extent is not reported as an error.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	start := time.Now()
	n, err := r.BlockReader.ReadAt(p, off)
	r.observe.observe(BlockReadAt, start, n, withoutEOF(err))
	return n, err
}

// Unwrap returns the reader of the block store, for core.As.
func (r *reader) Unwrap() core.BlockReader { return r.BlockReader }

// ReadSpan implements core.SpanReader. Each read of the span is reported like a ReadAt.
func (r *reader) ReadSpan(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	s, err := core.ReadSpan(ctx, r.BlockReader, off, n)
	if err != nil {
		return nil, err
	}
	return &span{s, r.observe}, nil
}

type span struct {
	io.ReadCloser
	observe Observer
}

// Read implements io.Reader. The end of the span is not reported as an error.
func (s *span) Read(p []byte) (int, error) {
	start := time.Now()
	n, err := s.ReadCloser.Read(p)
	s.observe.observe(BlockReadAt, start, n, withoutEOF(err))
	return n, err
}

func withoutEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
