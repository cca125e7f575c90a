// Package lease ensures that only one worker at a time does each kind of background work of a store: reclaim, scrub,
// lifecycle, and dictionary training.
//
// In one process, a Local is sufficient. If several servers share a store, its metadata engine must provide Leases that
// also exclude workers of other processes. Such a lease has a time limit that the holder renews, so that another server
// takes over the work of a server that died.
//
// # What a lease protects, and what it does not
//
// A holder that hangs longer than the time limit loses its lease without noticing it, and another worker starts. So a
// lease avoids duplicate work, but is never the only protection of data:
//
//   - A change to the metadata states what it expects (core.Precondition, MoveData.From, PutRecord.Expect), so if two
//     workers make the same change, the second one fails with Conflict.
//   - An action that is not a change, such as deleting a block, requires a context that has not ended, and a condition
//     that no other worker can invalidate later: content without references is never referred to again.
package lease

import (
	"context"
	"sync"

	"orcas/core"
)

// The names of leases.
const (
	Reclaim      = "reclaim"
	Scrub        = "scrub"
	Lifecycle    = "lifecycle"
	Dictionaries = "dictionaries"
)

// Leases provides mutual exclusion between workers.
type Leases interface {
	// Do acquires the lease of that name, waiting while another worker in this or another process holds it, and calls
	// fn while it holds the lease. The context of fn ends when ctx ends or the lease is lost; fn must return soon
	// after. Do returns the error of fn, or Canceled if ctx ended before fn was called. Leases are not reentrant: fn
	// must not acquire the same lease.
	Do(ctx context.Context, name string, fn func(ctx context.Context) error) error
}

// Local implements Leases for workers of one process. The zero value is ready to use.
type Local struct {
	mu    sync.Mutex               // guards slots
	slots map[string]chan struct{} // full while a lease is held
}

// Do implements Leases.
func (l *Local) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	slot := l.slot(name)
	err := ctx.Err()
	if err == nil {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
			return fn(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return core.E("lease.Do", core.Canceled, err)
}

func (l *Local) slot(name string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		l.slots = map[string]chan struct{}{}
	}
	if l.slots[name] == nil {
		l.slots[name] = make(chan struct{}, 1)
	}
	return l.slots[name]
}
