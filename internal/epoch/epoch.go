// Package epoch counts readers, and waits until every reader that entered before the wait has left. Readers and the
// waiter share no lock. It works like sleepable read-copy-update in the Linux kernel (Documentation/RCU/whatisRCU.rst),
// with two alternating counters. Epochs must be short, because every deletion waits for them; package pins covers reads
// that may take long.
package epoch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Readers counts readers that may still use something that was deleted in the meantime. The zero value is ready to use.
type Readers struct {
	turn   atomic.Uint32 // its lowest bit selects the counter that new readers use
	counts [2]atomic.Int64
	wait   sync.Mutex // held by Wait
}

// Reader is a reader that has entered. Its Leave must be called once.
type Reader struct{ count *atomic.Int64 }

// Enter must be called before looking up anything that may be deleted.
func (r *Readers) Enter() Reader {
	for {
		turn := r.turn.Load()
		count := &r.counts[turn%2]
		count.Add(1)
		if r.turn.Load() == turn {
			return Reader{count}
		}
		count.Add(-1) // a Wait began in between and may have missed this reader
	}
}

// Leave reports that the reader no longer uses anything.
func (r Reader) Leave() { r.count.Add(-1) }

// Wait returns when every Reader that entered before the call has left, or when ctx is canceled.
func (r *Readers) Wait(ctx context.Context) error {
	r.wait.Lock()
	defer r.wait.Unlock()
	turn := r.turn.Load()
	// The other counter is zero, unless the last wait was canceled.
	if err := r.drain(ctx, turn+1); err != nil {
		return err
	}
	r.turn.Add(1)
	return r.drain(ctx, turn)
}

// drain waits until the counter of a turn is zero.
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
