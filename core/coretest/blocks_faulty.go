package coretest

import (
	"context"
	"errors"
	"sync"

	"orcas/core"
)

// ErrInjected is the cause of every failure that a wrapper of this package makes up.
var ErrInjected = errors.New("coretest: injected failure")

// Fault says which call fails, and how.
type Fault struct {
	Call string    // the method: "Create", "Write", "Commit", "Abort", "Open", "ReadAt", "Delete" or "Walk"; "" counts them all
	Nth  int       // the nth of those calls from now on, from 1
	Done bool      // the call is carried out, and reported failed nonetheless; else it is not carried out
	On   bool      // every later one fails as well
	Kind core.Kind // of the error
}

// FaultyBlocks is Blocks in which calls fail as a Fault says. A Commit that fails "not done" aborts the writer beneath, a
// Write that does writes half.
type FaultyBlocks struct {
	core.Blocks
	mu    sync.Mutex // guards fault and calls
	fault Fault
	calls int // that match the fault, since it was set
}

// NewFaultyBlocks wraps b. Nothing fails until Fail is called.
func NewFaultyBlocks(b core.Blocks) *FaultyBlocks { return &FaultyBlocks{Blocks: b} }

// Fail sets what fails from now on, in place of what was set before. The zero Fault ends all failing, and counts every call.
func (f *FaultyBlocks) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.calls = fault, 0
}

// Calls returns how many calls matched since Fail was called: after a run without failure, how many points there are to fail at.
func (f *FaultyBlocks) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// do carries a call out, or fails it. Instead, where not nil, is what a call does that fails "not done".
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
			_ = w.Abort() // nobody else can
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

// Delete implements core.Blocks.
func (f *FaultyBlocks) Delete(ctx context.Context, id core.BlockID) error {
	return f.do("Delete", func() error { return f.Blocks.Delete(ctx, id) }, nil)
}

// Walk implements core.Blocks.
func (f *FaultyBlocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return f.do("Walk", func() error { return f.Blocks.Walk(ctx, from, fn) }, nil)
}

// Space implements core.Spacer where the Blocks beneath do, and says Unsupported where they do not.
func (f *FaultyBlocks) Space(ctx context.Context) (free, total int64, err error) {
	return space(ctx, f.Blocks)
}

func space(ctx context.Context, b core.Blocks) (free, total int64, err error) {
	if s, ok := b.(core.Spacer); ok {
		return s.Space(ctx)
	}
	return 0, 0, core.E("coretest.Space", core.Unsupported, nil)
}

type faultyWriter struct {
	core.BlockWriter
	faulty *FaultyBlocks
}

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
