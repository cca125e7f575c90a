package batch

import (
	"context"
	"math"
	"sync"
	"time"

	"orcas/core"
)

// # Answers before the sync
//
// With Options.Relaxed a batch is handed to the operating system, applied and answered; a killed process loses nothing. A goroutine syncs the
// blocks half a window after the first write that waits, and writes wait where a sync takes longer than the window.
//
// A power cut may leave any of the bytes that were not synced, in any order, and metadata that is ahead of them. So each batch begins
// with a core.Synced: up to where everything was durable when it was laid out. A start looks at the batches behind that, in order, and the first of them that
// is missing or not whole, with the contents that it names, ends the history: neither it nor what came after it ever was. Where the metadata is
// ahead of that, it is made again from a snapshot and the records (see Recover). What the lost writes had replaced is there still, since reclaim
// unlinks nothing before a later batch, durable itself, says that the change which let go of it is (Settle).

// lag is how far the drive is behind.
type lag struct {
	mu     sync.Mutex // guards the rest
	caught sync.Cond  // synced has moved, or failed
	last   point      // the last batch
	synced point      // everything up to it is durable
	since  time.Time  // when the first batch came that is not; zero: there is none
	next   time.Time  // the same, of the batches that came while a sync was in progress
	failed error

	syncing sync.Mutex    // held by a sync
	wake    chan struct{} // one token: a batch waits
	stop    chan struct{}
	once    sync.Once // closes stop
	stopped sync.WaitGroup
}

// point is a place in the history: the last sequence of a batch, and the block that its record is in.
type point struct {
	seq   core.Seq
	floor core.BlockID
}

func (l *lag) start(w *Writer, at point) {
	l.caught.L = &l.mu
	l.last, l.synced = at, at
	l.wake, l.stop = make(chan struct{}, 1), make(chan struct{})
	if w.o.Relaxed {
		l.stopped.Go(func() { w.syncAll() })
	}
}

// committed notes a batch that was handed over.
func (l *lag) committed(at point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = at
	now := time.Now()
	if l.since.IsZero() {
		l.since = now
	}
	if l.next.IsZero() {
		l.next = now
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wait waits while what was answered is older than the window, and returns what is durable.
func (l *lag) wait(window time.Duration) point {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.failed == nil && !l.since.IsZero() && time.Since(l.since) > window {
		l.caught.Wait()
	}
	return l.synced
}

// syncAll syncs half a window after a batch that waits, until the Writer is closed.
func (w *Writer) syncAll() {
	for {
		select {
		case <-w.lag.stop:
			return
		case <-w.lag.wake:
		}
		select {
		case <-w.lag.stop:
			return
		case <-time.After(w.o.Window / 2):
		}
		_ = w.Flush(context.Background()) // an error has sealed the Writer
	}
}

// Flush makes everything durable that was answered before. An error seals the Writer: what was answered may be lost, and nobody can say what.
func (w *Writer) Flush(ctx context.Context) error {
	if !w.o.Relaxed {
		return nil
	}
	l := &w.lag
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	at := l.last
	l.next = time.Time{}
	waiting := !l.since.IsZero()
	l.mu.Unlock()
	if !waiting {
		return nil
	}
	err := w.blocks.(core.Flusher).Sync(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		err = core.E("batch.Flush", core.Unavailable, err)
		l.failed = err
		w.sealed.CompareAndSwap(nil, &err)
		w.log.Error("a sync failed: what was answered before may be lost, and nothing more is taken", "err", err)
	} else {
		l.synced, l.since = at, l.next
	}
	l.caught.Broadcast()
	return err
}

// Settle makes everything durable that was answered before, and makes it last that this is so: from here on what those writes let go of may be
// taken away.
func (w *Writer) Settle(ctx context.Context) error {
	if !w.o.Relaxed {
		return nil
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	if _, err := w.Do(ctx, Write{Change: &core.Void{}}); err != nil { // its batch begins with a Synced
		return err
	}
	return w.Flush(ctx)
}

// Relaxed says whether writes are answered before they are durable.
func (w *Writer) Relaxed() bool { return w.o.Relaxed }

// Synced returns up to where everything is durable.
func (w *Writer) Synced() core.Seq {
	if !w.o.Relaxed {
		return math.MaxInt64
	}
	w.lag.mu.Lock()
	defer w.lag.mu.Unlock()
	return w.lag.synced.seq
}
