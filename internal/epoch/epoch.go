// Package epoch lets one wait for readers that had begun before, without a lock between them: as sleepable read-copy-update does in the Linux kernel
// (Documentation/RCU/whatisRCU.rst), with two counters that take turns.
package epoch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Readers are those who may hold on to what was taken away meanwhile. The zero value is good.
type Readers struct {
	turn   atomic.Uint32 // its lowest bit is the counter that new readers use
	counts [2]atomic.Int64
	wait   sync.Mutex // held by Wait
}

// Reader is one of them; its Leave has to be called once.
type Reader struct{ count *atomic.Int64 }

// Enter is called before something is looked up that may be taken away.
func (r *Readers) Enter() Reader {
	for {
		turn := r.turn.Load()
		count := &r.counts[turn%2]
		count.Add(1)
		if r.turn.Load() == turn {
			return Reader{count}
		}
		count.Add(-1) // a Wait has begun in between, and may not have seen this one
	}
}

// Leave says that nothing is held on to any more.
func (r Reader) Leave() { r.count.Add(-1) }

// Wait returns when every Reader has left that had entered before the call, or when ctx ends.
func (r *Readers) Wait(ctx context.Context) error {
	r.wait.Lock()
	defer r.wait.Unlock()
	turn := r.turn.Load()
	// The other counter holds nobody, unless the last wait was given up.
	if err := r.drain(ctx, turn+1); err != nil {
		return err
	}
	r.turn.Add(1)
	return r.drain(ctx, turn)
}

// drain waits until nobody is counted in a turn any more.
func (r *Readers) drain(ctx context.Context, turn uint32) error {
	for pause := 50 * time.Microsecond; r.counts[turn%2].Load() != 0; pause = min(2*pause, 20*time.Millisecond) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}
