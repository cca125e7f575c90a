package coretest

import (
	"context"
	"errors"
	"io"
	"sync"

	"orcas/core"
)

// ErrInjected is the cause of every failure that a wrapper of this package injects.
var ErrInjected = errors.New("coretest: injected failure")

// Fault specifies which calls fail, and how.
type Fault struct {
	Call string    // Create, Write, Commit, Abort, Open, ReadAt, Delete, Stat, Walk, or Sync; "" matches every method
	Nth  int       // which matching call fails, counted from 1; 0 if none
	Done bool      // the call takes effect but returns an error; otherwise it has no effect
	On   bool      // all later matching calls fail too
	Kind core.Kind // the kind of the error
}

// FaultyBlocks is a core.Blocks whose calls fail as a Fault specifies. If Done is not set, a failed Commit aborts the
// wrapped writer, and a failed Write writes half of its bytes.
type FaultyBlocks struct {
	core.Blocks
	mu    sync.Mutex // guards fault and calls
	fault Fault
	calls int // the number of calls that match the fault, since it was set
}

// NewFaultyBlocks wraps b. No call fails until Fail is called.
func NewFaultyBlocks(b core.Blocks) *FaultyBlocks { return &FaultyBlocks{Blocks: b} }

// Fail replaces the fault. With the zero Fault no call fails, and every call matches.
func (f *FaultyBlocks) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.calls = fault, 0
}

// Calls returns the number of calls that match the fault since it was set. After a run without failures this is the
// number of calls that can fail.
func (f *FaultyBlocks) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// do calls carryOut, or returns the injected failure. If the call fails and Done is not set, do calls instead, unless
// it is nil.
func (f *FaultyBlocks) do(call string, carryOut func() error, instead func()) error {
	f.mu.Lock()
	fault, fails := f.fault, false
	if fault.Call == "" || fault.Call == call {
		f.calls++
		fails = fault.Nth > 0 && (f.calls == fault.Nth || fault.On && f.calls > fault.Nth)
	}
	f.mu.Unlock()
	if !fails {
		return carryOut()
	}
	failure := core.E("coretest."+call, fault.Kind, ErrInjected)
	if fault.Done {
		return errors.Join(failure, carryOut())
	}
	if instead != nil {
		instead()
	}
	return failure
}

// Create implements core.Blocks.
func (f *FaultyBlocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	var w core.BlockWriter
	err := f.do("Create", func() (err error) { w, err = f.Blocks.Create(ctx, o); return err }, nil)
	if err != nil {
		if w != nil {
			_ = w.Abort() // the caller cannot abort it
		}
		return nil, err
	}
	return &faultyWriter{BlockWriter: w, faulty: f}, nil
}

// Open implements core.Blocks.
func (f *FaultyBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	var r core.BlockReader
	err := f.do("Open", func() (err error) { r, err = f.Blocks.Open(ctx, e); return err }, nil)
	if err != nil {
		if r != nil {
			_ = r.Close()
		}
		return nil, err
	}
	return &faultyReader{BlockReader: r, faulty: f}, nil
}

// Stat implements core.Stater if the wrapped Blocks does.
func (f *FaultyBlocks) Stat(ctx context.Context, id core.BlockID) (found core.BlockStat, err error) {
	err = f.do("Stat", func() (err error) { found, err = stat(ctx, f.Blocks, id); return err }, nil)
	return found, err
}

func stat(ctx context.Context, b core.Blocks, id core.BlockID) (core.BlockStat, error) {
	if s, ok := core.As[core.Stater](b); ok {
		return s.Stat(ctx, id)
	}
	return core.BlockStat{}, core.E("coretest.Stat", core.Unsupported, nil)
}

// Delete implements core.Blocks.
func (f *FaultyBlocks) Delete(ctx context.Context, id core.BlockID) error {
	return f.do("Delete", func() error { return f.Blocks.Delete(ctx, id) }, nil)
}

// Walk implements core.Blocks.
func (f *FaultyBlocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return f.do("Walk", func() error { return f.Blocks.Walk(ctx, from, fn) }, nil)
}

// Unwrap returns the wrapped Blocks, for core.As.
func (f *FaultyBlocks) Unwrap() core.Blocks { return f.Blocks }

// Sync implements core.Flusher. If the wrapped Blocks does not, commits are always durable, and Sync does nothing.
func (f *FaultyBlocks) Sync(ctx context.Context) error {
	flusher, ok := core.As[core.Flusher](f.Blocks)
	if !ok {
		return nil
	}
	return f.do("Sync", func() error { return flusher.Sync(ctx) }, nil)
}

type faultyWriter struct {
	core.BlockWriter
	faulty *FaultyBlocks
}

func (w *faultyWriter) Unwrap() core.BlockWriter { return w.BlockWriter }

func (w *faultyWriter) Write(p []byte) (n int, err error) {
	err = w.faulty.do("Write",
		func() (err error) { n, err = w.BlockWriter.Write(p); return err },
		func() { n, _ = w.BlockWriter.Write(p[:len(p)/2]) })
	return n, err
}

func (w *faultyWriter) Commit(ctx context.Context) error {
	return w.faulty.do("Commit",
		func() error { return w.BlockWriter.Commit(ctx) },
		func() { _ = w.BlockWriter.Abort() })
}

func (w *faultyWriter) Abort() error {
	return w.faulty.do("Abort", w.BlockWriter.Abort, func() { _ = w.BlockWriter.Abort() })
}

type faultyReader struct {
	core.BlockReader
	faulty *FaultyBlocks
}

func (r *faultyReader) ReadAt(p []byte, off int64) (n int, err error) {
	err = r.faulty.do("ReadAt", func() (err error) { n, err = r.BlockReader.ReadAt(p, off); return err }, nil)
	return n, err
}

func (r *faultyReader) Unwrap() core.BlockReader { return r.BlockReader }

// ReadSpan implements core.SpanReader. A read of the span matches faults of ReadAt.
func (r *faultyReader) ReadSpan(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	s, err := core.ReadSpan(ctx, r.BlockReader, off, n)
	return &faultySpan{s, r.faulty}, err
}

type faultySpan struct {
	io.ReadCloser
	faulty *FaultyBlocks
}

func (s *faultySpan) Read(p []byte) (n int, err error) {
	err = s.faulty.do("ReadAt", func() (err error) { n, err = s.ReadCloser.Read(p); return err }, nil)
	return n, err
}
