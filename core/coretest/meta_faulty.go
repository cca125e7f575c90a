package coretest

import (
	"context"
	"sync"

	"orcas/core"
)

// FaultyMeta is a Meta whose calls fail as a Fault specifies. Fault.Call is "Apply", the name of a read method,
// "Snapshot", "Restore", "Reset" or "Sync". As the contract requires, an Apply that takes effect but reports failure
// returns Unavailable, regardless of Fault.Kind, and after an Apply has returned Unavailable, every later Apply fails.
type FaultyMeta struct {
	core.Meta
	mu    sync.Mutex // guards the fields below
	fault Fault
	calls int // the number of calls that match the fault, since it was set
	dead  bool
}

// NewFaultyMeta wraps m. No call fails until Fail is called.
func NewFaultyMeta(m core.Meta) *FaultyMeta { return &FaultyMeta{Meta: m} }

// Fail replaces the fault. With the zero Fault no call fails, except Apply after it has returned Unavailable.
func (f *FaultyMeta) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.calls = fault, 0
}

// Calls returns the number of calls that match the fault since it was set.
func (f *FaultyMeta) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Unwrap returns the engine, for core.As.
func (f *FaultyMeta) Unwrap() core.Meta { return f.Meta }

// hit counts a call. It returns an error if the call must fail, and whether it takes effect anyway.
func (f *FaultyMeta) hit(call string) (err error, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fails := false
	if f.fault.Call == "" || f.fault.Call == call {
		f.calls++
		fails = f.fault.Nth > 0 && (f.calls == f.fault.Nth || f.fault.On && f.calls > f.fault.Nth)
	}
	op, kind := "coretest."+call, f.fault.Kind
	if call == "Apply" {
		if f.dead {
			return core.E(op, core.Unavailable, ErrInjected), false
		}
		if fails && f.fault.Done {
			kind, done = core.Unavailable, true
		}
		f.dead = fails && kind == core.Unavailable
	}
	if !fails {
		return nil, false
	}
	return core.E(op, kind, ErrInjected), done
}

// Apply fails as the fault specifies.
func (f *FaultyMeta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	fault, done := f.hit("Apply")
	if fault != nil && !done {
		return nil, fault
	}
	results, err := f.Meta.Apply(ctx, changes)
	if err != nil || fault == nil {
		return results, err
	}
	return nil, fault
}

// State fails as the fault specifies.
func (f *FaultyMeta) State(ctx context.Context) (core.State, error) {
	if err, _ := f.hit("State"); err != nil {
		return core.State{}, err
	}
	return f.Meta.State(ctx)
}

// Bucket fails as the fault specifies.
func (f *FaultyMeta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	if err, _ := f.hit("Bucket"); err != nil {
		return nil, err
	}
	return f.Meta.Bucket(ctx, name)
}

// Buckets fails as the fault specifies.
func (f *FaultyMeta) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, error) {
	if err, _ := f.hit("Buckets"); err != nil {
		return nil, err
	}
	return f.Meta.Buckets(ctx, prefix, after, limit)
}

// Object fails as the fault specifies.
func (f *FaultyMeta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	if err, _ := f.hit("Object"); err != nil {
		return nil, err
	}
	return f.Meta.Object(ctx, bucket, key, v)
}

// List fails as the fault specifies.
func (f *FaultyMeta) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	if err, _ := f.hit("List"); err != nil {
		return nil, err
	}
	return f.Meta.List(ctx, q)
}

// Upload fails as the fault specifies.
func (f *FaultyMeta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	if err, _ := f.hit("Upload"); err != nil {
		return nil, err
	}
	return f.Meta.Upload(ctx, bucket, key, id)
}

// Parts fails as the fault specifies.
func (f *FaultyMeta) Parts(ctx context.Context, id core.UploadID, after, limit int, content core.PartContent) ([]core.PartInfo, error) {
	if err, _ := f.hit("Parts"); err != nil {
		return nil, err
	}
	return f.Meta.Parts(ctx, id, after, limit, content)
}

// Data fails as the fault specifies.
func (f *FaultyMeta) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	if err, _ := f.hit("Data"); err != nil {
		return nil, err
	}
	return f.Meta.Data(ctx, ids)
}

// FindData fails as the fault specifies.
func (f *FaultyMeta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	if err, _ := f.hit("FindData"); err != nil {
		return nil, err
	}
	return f.Meta.FindData(ctx, k)
}

// Garbage fails as the fault specifies.
func (f *FaultyMeta) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	if err, _ := f.hit("Garbage"); err != nil {
		return nil, err
	}
	return f.Meta.Garbage(ctx, after, limit)
}

// Records fails as the fault specifies.
func (f *FaultyMeta) Records(ctx context.Context, kind, after string, limit int) ([]core.Record, error) {
	if err, _ := f.hit("Records"); err != nil {
		return nil, err
	}
	return f.Meta.Records(ctx, kind, after, limit)
}

// Usage fails as the fault specifies.
func (f *FaultyMeta) Usage(ctx context.Context, bucket core.BucketID) (core.Usage, error) {
	if err, _ := f.hit("Usage"); err != nil {
		return core.Usage{}, err
	}
	return f.Meta.Usage(ctx, bucket)
}

// Snapshot fails as the fault specifies.
func (f *FaultyMeta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	return f.snapshotter("Snapshot", func(s core.Snapshotter) error { return s.Snapshot(ctx, emit) })
}

// Restore fails as the fault specifies.
func (f *FaultyMeta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	return f.snapshotter("Restore", func(s core.Snapshotter) error { return s.Restore(ctx, next) })
}

// Reset fails as the fault specifies.
func (f *FaultyMeta) Reset(ctx context.Context) error {
	return f.snapshotter("Reset", func(s core.Snapshotter) error { return s.Reset(ctx) })
}

func (f *FaultyMeta) snapshotter(call string, carryOut func(core.Snapshotter) error) error {
	if err, _ := f.hit(call); err != nil {
		return err
	}
	own, ok := core.As[core.Snapshotter](f.Meta)
	if !ok {
		return core.E("coretest."+call, core.Unsupported, nil)
	}
	return carryOut(own)
}

// Sync fails as the fault specifies.
func (f *FaultyMeta) Sync(ctx context.Context) (core.State, error) {
	if err, _ := f.hit("Sync"); err != nil {
		return core.State{}, err
	}
	own, ok := core.As[core.Syncer](f.Meta)
	if !ok {
		return core.State{}, core.E("coretest.Sync", core.Unsupported, nil)
	}
	return own.Sync(ctx)
}
