package batch

import (
	"context"
	"math"
	"sync"
	"time"

	"orcas/core"
	"orcas/feed"
	"orcas/internal/mutant"
)

// # Acknowledging before the sync
//
// With Options.Relaxed, a batch is passed to the operating system, applied, and acknowledged before it is synced. A
// killed process loses nothing. A goroutine syncs the blocks half a window after the oldest write that is not durable.
//
// # The bound
//
// A power cut loses only writes that were acknowledged within the last window plus the time of two syncs:
//
//   - A sync covers every write acknowledged before it began.
//   - A write acknowledged while a sync is running has to wait for the end of that sync, and then for the next one. The
//     next sync begins half a window after the write, or immediately if the first one took longer than that.
//   - While the oldest write that is not durable is older than the window, new batches wait. So even with a slow drive
//     the number of writes at risk is bounded.
//
// # After a power cut
//
// A power cut may leave any of the bytes that were not synced, in any order, and metadata that is ahead of them. So
// each batch begins with a core.Synced: the sequence up to which everything was durable when the batch was laid out.
// Recovery reads the batches after that sequence in order. The first batch that is missing or incomplete, or that
// refers to missing or incomplete content, ends the history: recovery drops it and everything after it. If the metadata
// is ahead of that point, recovery rebuilds it from a snapshot and the records (see Recover). The content that the lost
// writes had replaced still exists, because reclaim deletes it only after a later, durable batch records that the
// change that replaced it is durable (Settle).
//
// # When nothing more is written
//
// Incomplete content ends the history only if it is not recorded as durable. So the fact that the last writes are
// durable must be recorded without waiting for later writes: otherwise, bit rot a month later would look like a power
// cut. When a sync has made everything durable, a separate batch (a note) records that. It is synced like any other
// batch, but never followed by another note. Close writes a note too, and so does Open if the previous process was
// killed.

// unsynced tracks what is committed but not yet durable.
type unsynced struct {
	mu     sync.Mutex // guards the fields below, up to took
	caught sync.Cond  // signaled when synced has advanced or a sync has failed
	last   position   // the last batch
	synced position   // everything up to this position is durable
	since  time.Time  // time of the first batch that is not durable; zero if there is none
	next   time.Time  // like since, for batches after the beginning of the sync in progress
	noted  time.Time  // time of the last note, if no sync has begun after it; notes do not count in since and next
	work   core.Seq   // the last sequence of the last batch that is not a note
	asked  core.Seq   // noteIdle has requested a note for changes up to this sequence
	upTo   core.Seq   // the last batch records that everything up to this sequence is durable
	failed error
	begun  time.Time // when the sync in progress began; zero if there is none
	ended  time.Time // when the last sync ended, and how long it took
	took   time.Duration

	syncing sync.Mutex    // held by a sync
	wake    chan struct{} // one token: a batch is waiting
	stop    chan struct{}
	once    sync.Once // closes stop
	stopped sync.WaitGroup
}

// position is a point in the history: the last sequence of a batch, and the block with its record.
type position struct {
	seq   core.Seq
	floor core.BlockID
}

// start sets the position up to which everything is durable. Unnoted means that not all of it is recorded as durable.
func (u *unsynced) start(w *Writer, at position, unnoted bool) {
	u.caught.L = &u.mu
	u.last, u.synced = at, at
	if unnoted {
		u.work = at.seq
	}
	u.wake, u.stop = make(chan struct{}, 1), make(chan struct{})
	if w.o.Relaxed {
		u.stopped.Go(func() { w.syncAll() })
	}
}

// committed adds a batch that was passed to the operating system and records that everything up to upTo is durable. If
// it is a note, it contains nothing else.
func (u *unsynced) committed(at position, upTo core.Seq, note bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last, u.upTo = at, upTo
	now := time.Now()
	if note {
		u.noted = now
	} else {
		u.work = at.seq
		if u.since.IsZero() {
			u.since = now
		}
		if u.next.IsZero() {
			u.next = now
		}
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// wait waits while an acknowledged write that is not durable is older than the window, and returns the durable
// position.
func (u *unsynced) wait(window time.Duration) position {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.failed == nil && !u.since.IsZero() && time.Since(u.since) > window {
		u.caught.Wait()
	}
	return u.synced
}

// syncAll syncs half a window after the oldest write that is not durable, until the Writer is closed.
func (w *Writer) syncAll() {
	for {
		select {
		case <-w.unsynced.stop:
			return
		case <-w.unsynced.wake:
		}
		for {
			wait, pending := w.unsynced.due(w.o.Window / 2)
			if !pending {
				w.noteIdle()
				break
			}
			if wait > 0 {
				select {
				case <-w.unsynced.stop:
					return
				case <-time.After(wait):
				}
				continue // another caller may have synced in the meantime
			}
			if err := w.Flush(context.Background()); err != nil {
				return // the Writer has stopped
			}
		}
	}
}

// unnoted reports whether everything is durable but not all of it is recorded as durable.
func (u *unsynced) unnoted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed == nil && u.since.IsZero() && u.upTo < u.work
}

// ask reports whether a note for the latest work has not been requested yet, and marks it as requested.
func (u *unsynced) ask() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asked >= u.work {
		return false
	}
	u.asked = u.work
	return true
}

// noting returns the empty write of a note. Its batch begins with a Synced, as every batch does.
func (w *Writer) noting() Write { return Write{Change: &core.Void{}, note: true} }

func onlyNotes(writes []*pending) bool {
	for _, p := range writes {
		if !p.write.note {
			return false
		}
	}
	return true
}

// noteIdle records what is durable if no write waits for a sync. It does not wait for the result: the gatherer may have
// to wait for a sync, which the caller of noteIdle performs.
func (w *Writer) noteIdle() {
	if !w.unsynced.unnoted() || !w.unsynced.ask() || mutant.Is("no-idle-note") {
		return
	}
	// This fails only if the Writer no longer accepts writes. Then there is nothing to record, or Close records it.
	_ = w.enqueue(&pending{write: w.noting(), ready: make(chan struct{}, 1)})
}

// noteLast records what is durable after the gatherer and the applier have stopped. If that fails, usually because the
// drive is full, nothing is lost: the next start records it.
func (w *Writer) noteLast(ctx context.Context) error {
	if !w.o.Relaxed || w.Err() != nil || !w.unsynced.unnoted() || mutant.Is("no-last-note") {
		return nil
	}
	f, err := w.commit([]*pending{{write: w.noting()}})
	if err == nil {
		if err := w.Flush(ctx); err != nil {
			return err
		}
		_, err = w.meta.Apply(ctx, f.changes)
	}
	if err != nil {
		w.log.Warn("could not record that all changes are durable; the next start will record it", "err", err)
	}
	return nil
}

// due returns the time until the next sync, and whether one is pending. A sync begins a given time after the oldest
// write that is not durable or, if there is no such write, after the last note.
func (u *unsynced) due(after time.Duration) (wait time.Duration, pending bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := u.since
	if since.IsZero() {
		since = u.noted
	}
	if u.failed != nil || since.IsZero() {
		return 0, false
	}
	if mutant.Is("overdue-sync-waits") && since.Before(u.ended) {
		since = u.ended
	}
	return time.Until(since.Add(after)), true
}

// Flush makes all writes durable that were acknowledged before the call. An error stops the Writer, because any of
// those writes may be lost.
func (w *Writer) Flush(ctx context.Context) error {
	if !w.o.Relaxed {
		return nil
	}
	u := &w.unsynced
	u.syncing.Lock()
	defer u.syncing.Unlock()
	u.mu.Lock()
	at := u.last
	u.next = time.Time{}
	waiting := !u.since.IsZero() || !u.noted.IsZero()
	u.noted = time.Time{}
	if waiting {
		u.begun = time.Now()
	}
	u.mu.Unlock()
	if !waiting {
		return nil
	}
	err := w.flusher.Sync(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = time.Now()
	u.took, u.begun = u.ended.Sub(u.begun), time.Time{}
	w.o.Observer.synced(u.took, err)
	if err != nil {
		err = core.E("batch.Flush", core.Unavailable, err)
		u.failed = err
		w.stopped.CompareAndSwap(nil, &err)
		w.log.Error("a sync failed: acknowledged writes may be lost, and all writes are refused until the server is restarted", "err", err)
	} else {
		u.synced, u.since = at, u.next
		w.changeFeed.Durable(feed.Position{Seq: at.seq, Block: at.floor})
	}
	u.caught.Broadcast()
	return err
}

// Settle makes all writes durable that were acknowledged before the call, and durably records this. Afterwards the
// content that those writes orphaned may be deleted.
func (w *Writer) Settle(ctx context.Context) error {
	if !w.o.Relaxed {
		return nil
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	if _, err := w.Do(ctx, w.noting()); err != nil {
		return err
	}
	return w.Flush(ctx)
}

// Lag describes the writes that are acknowledged but not yet durable, in relaxed mode. A power cut now would lose only
// writes that were acknowledged within the window plus LastSync plus RunningSync.
type Lag struct {
	Oldest      time.Duration // age of the oldest write that is not known to be durable
	LastSync    time.Duration // duration of the last sync
	RunningSync time.Duration // time since the sync in progress began
}

// Lag returns the state of the writes that are not durable.
func (w *Writer) Lag() Lag {
	u := &w.unsynced
	u.mu.Lock()
	defer u.mu.Unlock()
	lag := Lag{LastSync: u.took}
	if !u.since.IsZero() {
		lag.Oldest = time.Since(u.since)
	}
	if !u.begun.IsZero() {
		lag.RunningSync = time.Since(u.begun)
	}
	return lag
}

// Relaxed reports whether writes are acknowledged before they are durable.
func (w *Writer) Relaxed() bool { return w.o.Relaxed }

// Synced returns the sequence up to which everything is durable.
func (w *Writer) Synced() core.Seq {
	if !w.o.Relaxed {
		return math.MaxInt64
	}
	w.unsynced.mu.Lock()
	defer w.unsynced.mu.Unlock()
	return w.unsynced.synced.seq
}
