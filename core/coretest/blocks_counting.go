package coretest

import (
	"context"
	"io"
	"sync"

	"orcas/core"
)

// BlockCounts are the numbers of calls of the methods of a Blocks and its readers and writers.
type BlockCounts struct {
	Creates, Writes, Commits, Aborts int // an Abort after a Commit or another Abort is not counted
	Opens, Reads, Deletes, Stats     int // Reads includes reads of spans
	Spans                            int
	Written, Read                    int64 // bytes
}

// CountingBlocks is a core.Blocks that counts its calls, so that tests can assert the cost of an operation.
type CountingBlocks struct {
	core.Blocks
	mu     sync.Mutex // guards counts
	counts BlockCounts
}

// NewCountingBlocks wraps b.
func NewCountingBlocks(b core.Blocks) *CountingBlocks { return &CountingBlocks{Blocks: b} }

// Counts returns the counts since the start or the last Reset.
func (c *CountingBlocks) Counts() BlockCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Reset sets all counts to zero.
func (c *CountingBlocks) Reset() { c.add(func(n *BlockCounts) { *n = BlockCounts{} }) }

func (c *CountingBlocks) add(count func(*BlockCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.counts)
}

// Create implements core.Blocks.
func (c *CountingBlocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	c.add(func(n *BlockCounts) { n.Creates++ })
	w, err := c.Blocks.Create(ctx, o)
	if err != nil {
		return nil, err
	}
	return &countingWriter{BlockWriter: w, counting: c}, nil
}

// Open implements core.Blocks.
func (c *CountingBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	c.add(func(n *BlockCounts) { n.Opens++ })
	r, err := c.Blocks.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &countingReader{r, c}, nil
}

// Stat implements core.Stater if the wrapped Blocks does.
func (c *CountingBlocks) Stat(ctx context.Context, id core.BlockID) (core.BlockStat, error) {
	c.add(func(n *BlockCounts) { n.Stats++ })
	return stat(ctx, c.Blocks, id)
}

// Delete implements core.Blocks.
func (c *CountingBlocks) Delete(ctx context.Context, id core.BlockID) error {
	c.add(func(n *BlockCounts) { n.Deletes++ })
	return c.Blocks.Delete(ctx, id)
}

// Unwrap returns the wrapped Blocks, for core.As.
func (c *CountingBlocks) Unwrap() core.Blocks { return c.Blocks }

type countingWriter struct {
	core.BlockWriter
	counting *CountingBlocks
	ended    bool
}

func (w *countingWriter) Unwrap() core.BlockWriter { return w.BlockWriter }

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.BlockWriter.Write(p)
	w.counting.add(func(c *BlockCounts) { c.Writes++; c.Written += int64(n) })
	return n, err
}

func (w *countingWriter) Commit(ctx context.Context) error {
	w.ended = true
	w.counting.add(func(c *BlockCounts) { c.Commits++ })
	return w.BlockWriter.Commit(ctx)
}

func (w *countingWriter) Abort() error {
	if !w.ended {
		w.ended = true
		w.counting.add(func(c *BlockCounts) { c.Aborts++ })
	}
	return w.BlockWriter.Abort()
}

type countingReader struct {
	core.BlockReader
	counting *CountingBlocks
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.BlockReader.ReadAt(p, off)
	r.counting.add(func(c *BlockCounts) { c.Reads++; c.Read += int64(n) })
	return n, err
}

func (r *countingReader) Unwrap() core.BlockReader { return r.BlockReader }

// ReadSpan implements core.SpanReader.
func (r *countingReader) ReadSpan(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r.counting.add(func(c *BlockCounts) { c.Spans++ })
	s, err := core.ReadSpan(ctx, r.BlockReader, off, n)
	return &countingSpan{s, r.counting}, err
}

type countingSpan struct {
	io.ReadCloser
	counting *CountingBlocks
}

func (s *countingSpan) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.counting.add(func(c *BlockCounts) { c.Reads++; c.Read += int64(n) })
	return n, err
}
