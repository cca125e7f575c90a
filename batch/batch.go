// Package batch is the write buffer: it makes many writes durable in one step. Every metadata write of a process and
// all small content go through it.
//
// # How a batch is written
//
// Two goroutines form a pipeline.
//
// The gatherer waits for a write and takes everything in the queue. There is no timer: a lone write starts immediately,
// and the next batch accumulates while the current one is being synced. The gatherer assigns each change a sequence,
// and lays out the batch in one packed block: the frames of the small content, followed by one record, which contains
// the changes of the batch in binary form. Then one Commit makes both the content and the record durable.
//
// The applier passes the changes to Meta.Apply and gives each waiter the result of its own change. Meanwhile the
// gatherer lays out and syncs the next batch.
//
// # Why a write may be acknowledged
//
// When Commit has returned, the write survives a crash: the record has it, and recovery applies it again if the crash
// has undone Apply. When Apply has returned, every reader sees the write. Only then is it acknowledged. A crash before
// Commit leaves frames to which no record refers. A crash between Commit and Apply leaves a write that was not
// acknowledged, and recovery applies it.
//
// So nothing waits for a transaction of the database. An engine may apply many batches in one transaction, and commit
// it later (see package core/sqlite):
//
//   - The records have every acknowledged write.
//   - Readers see every acknowledged write: committed ones in the database, the others through the engine's memory.
//   - The database has all writes up to the state that Meta.Sync returned last, and usually all but the last few
//     thousand. State.ReplayFrom is committed with them, so after a kill, recovery begins at the right block. Whoever
//     deletes records calls Meta.Sync first.
//
// # Failures
//
// If Commit fails, only the writes of its batch fail; the driver closes the block. The record may or may not be on
// disk, so the next record voids its sequences (core.Void), and replay skips them. The same is true if Apply wrote
// nothing (a full disk). In that case the next batch, which was laid out in the meantime, fails too: its record was
// written too early to void the failed batch. If it were applied, a replay would apply the failed batch before it,
// although Apply did not. If the result of Apply is unknown (core.Unavailable), the Writer refuses all writes until a
// restart. A change that fails its check in Apply stays in its record: Apply is deterministic, so the change fails
// again in a replay.
//
// # Order
//
// There is one gatherer, so sequences, records in blocks and calls of Apply have the same order. Recovery begins at
// State.ReplayFrom. Whenever the gatherer begins to write records to another block, it adds a change that advances
// ReplayFrom.
//
// Tried and dropped: a gathering window (the timer delays each lone write by the full window, and under load the next
// batch fills up during the sync of the previous one anyway); records in a separate log (a second sync per batch).
package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"orcas/core"
	"orcas/core/frame"
	"orcas/feed"
	"orcas/internal/mutant"
)

// Options configure a Writer. Zero values mean the defaults.
type Options struct {
	Meta    core.Meta
	Blocks  core.Blocks
	Alone   bool  // no packing: each write is a separate batch, in a separate block
	Bytes   int64 // a batch with this many bytes of content accepts no more writes; default 8 MiB
	Count   int   // the maximum number of writes in a batch; default 2048
	Logger  *slog.Logger
	Pending int // the maximum number of waiting writes; further writes return Overloaded; default 16384

	// Relaxed acknowledges a write as soon as it has been passed to the operating system. The write becomes durable
	// within Window (default 10 s) plus the time of two syncs: see relaxed.go.
	Relaxed bool
	Window  time.Duration

	// Recovered is the result of Rebuild, if it has just filled Meta. If it is nil, Open calls Recover.
	Recovered *Recovery

	Observer   Observer
	FeedBuffer int // number of events that can wait for the subscribers of Writer.Feed; default feed.DefaultBuffer
}

// Write is a change, together with its content if that is small.
type Write struct {
	Change core.Change
	// Info is the DataInfo of Content, in one of Change's segments; the batch sets its Extents. Both are nil if the
	// change has no content, or if a Large has stored the content.
	Info    *core.DataInfo
	Content []byte // plain bytes; must not be modified until Do returns

	// Frames, if set, is used instead of Content: its encoded frames, back to back. The offsets in their headers begin
	// at 0, and the block IDs are unset. Frames must not be modified until Do returns.
	Frames []byte

	// Moved contains the stored frames, including headers, of the content that a core.MoveData moves. The caller has
	// verified them. The batch gives them new headers and sets the change's To.
	Moved []byte

	Fresh bool // start a new packed block
	note  bool // a note: its only purpose is the Synced at the beginning of its batch (see relaxed.go)
}

// size returns the size in bytes of the content of w.
func (w *Write) size() int64 { return int64(len(w.Content) + len(w.Frames) + len(w.Moved)) }

// Writer is the write buffer. Its methods are safe for concurrent use.
type Writer struct {
	meta    core.Meta
	blocks  core.Blocks
	flusher core.Flusher // blocks, if it is a Flusher; else nil
	o       Options
	log     *slog.Logger
	data    atomic.Uint64 // the last assigned DataID

	changeFeed *feed.Feed

	mu     sync.Mutex // guards queue and closed
	queue  []*pending
	closed bool
	wake   chan struct{} // contains a token after queue has grown or closed was set

	pendings sync.Pool // of *pending

	stopped  atomic.Pointer[error] // set when Meta, or a sync in relaxed mode, has failed; all writes return it
	refused  atomic.Pointer[error] // see Refuse
	unsynced unsynced
	closing  sync.Mutex // serializes the final steps of concurrent calls of Close

	largeState  // shared by every Large
	gatherState // used only by the gatherer

	voidMu sync.Mutex // guards voids and failed, which both goroutines modify
	voids  []*core.Void
	failed int // number of batches that the applier voided

	apply chan *flight  // gatherer to applier
	taken chan struct{} // applier to gatherer: isLate has returned, so the next batch may take the voids
	done  chan struct{}
}

// gatherState is the state of the gatherer: its position, and the batch that it is laying out.
type gatherState struct {
	seq     core.Seq     // the last assigned sequence
	floor   core.BlockID // the block of the last record
	after   bool         // the previous writer was relaxed, so a Synced advances ReplayFrom instead of a SetReplayFrom
	buf     []byte       // bytes that are laid out but not yet written
	plain   []byte       // a buffer for the record
	shrunk  []byte       // a buffer for its compressed form
	waiting int          // number of writes that were waiting when take returned, including the ones in the batch
}

// pending is a write that waits for its result.
type pending struct {
	write Write
	res   core.Result
	err   error
	ready chan struct{} // capacity 1
}

// flight is a batch that the gatherer passes to the applier.
type flight struct {
	writes  []*pending
	changes []core.Change // the changes that the batch adds, followed by those of writes, in order
	own     int           // number of changes that the batch has added
	failed  int           // Writer.failed when the batch took the voids
	block   core.BlockID  // the block of the record
	stats   BatchStats    // set if there is an observer
}

// Open recovers (see Recover) and starts a Writer.
func Open(ctx context.Context, o Options) (*Writer, error) {
	if o.Bytes <= 0 {
		o.Bytes = 8 << 20
	}
	if o.Count <= 0 {
		o.Count = 2048
	}
	if o.Pending <= 0 {
		o.Pending = 16384
	}
	if o.Alone {
		o.Count = 1
	}
	flusher, ok := core.As[core.Flusher](o.Blocks)
	if !ok {
		o.Relaxed = false // every commit is durable
	}
	if o.Window <= 0 {
		o.Window = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := o.Recovered
	if r == nil {
		var err error
		if r, err = Recover(ctx, o.Meta, o.Blocks, o.Logger); err != nil {
			return nil, err
		}
	}
	w := &Writer{
		meta: o.Meta, blocks: o.Blocks, flusher: flusher, o: o, log: o.Logger, largeState: newLargeState(),
		wake: make(chan struct{}, 1), apply: make(chan *flight), taken: make(chan struct{}, 1), done: make(chan struct{}),
		gatherState: gatherState{seq: r.Seq, floor: r.ReplayFrom, after: r.Relaxed}, voids: r.Voids,
	}
	w.pendings.New = func() any { return &pending{ready: make(chan struct{}, 1)} }
	if r.NextData > 0 {
		w.data.Store(uint64(r.NextData) - 1)
	}
	w.changeFeed = feed.New(feed.Options{
		Records: records{o.Blocks}, Buffer: o.FeedBuffer, Start: feed.Position{Seq: r.Seq, Block: r.block}, Relaxed: o.Relaxed,
	})
	o.Observer.recovered(r)
	w.unsynced.start(w, position{r.Durable, r.ReplayFrom}, r.unnoted)
	go w.gather()
	go w.applyAll()
	if len(r.Voids) > 0 {
		// Record the voids now. The next start finds the batch already applied and does not check its content again. A
		// rebuild would then apply the voided changes, because it checks only the content of the last batch. In relaxed
		// mode, the truncated changes must be recorded as void before anything after them is recorded as durable.
		_, err := w.Do(ctx, Write{Change: &core.Void{}})
		if err == nil {
			err = w.Flush(ctx)
		}
		if err != nil && o.Relaxed {
			return nil, errors.Join(err, w.Close())
		}
		if err != nil {
			w.log.Warn("could not record the voided changes; the next batch will record them", "err", err)
		}
	}
	if r.unnoted && len(r.Voids) == 0 {
		if _, err := w.Do(ctx, w.noting()); err != nil {
			w.log.Warn("could not record that the recovered changes are durable; a later batch will record it", "err", err)
		}
	}
	return w, nil
}

// NewData returns a new DataID.
func (w *Writer) NewData() core.DataID { return core.DataID(w.data.Add(1)) }

// Feed returns the feed of the changes that the Writer applies. Close closes it.
func (w *Writer) Feed() *feed.Feed { return w.changeFeed }

// Do makes a write durable and returns the result of its change. It returns when the result is known, even if ctx is
// canceled in the meantime: a write in progress cannot be canceled, and its content is in use until then.
func (w *Writer) Do(ctx context.Context, write Write) (core.Result, error) {
	if err := ctx.Err(); err != nil {
		return core.Result{}, core.E("batch.Do", core.Canceled, err)
	}
	p := w.pendings.Get().(*pending)
	p.write = write
	if err := w.enqueue(p); err != nil {
		return core.Result{}, err
	}
	<-p.ready
	return w.release(p)
}

// DoAll is Do for several writes: they go into one batch if they fit. Results and errors are in the order of writes.
func (w *Writer) DoAll(ctx context.Context, writes []Write) ([]core.Result, []error) {
	results, errs := make([]core.Result, len(writes)), make([]error, len(writes))
	ps := make([]*pending, len(writes))
	for i := range writes {
		ps[i] = w.pendings.Get().(*pending)
		ps[i].write = writes[i]
	}
	err := ctx.Err()
	if err != nil {
		err = core.E("batch.DoAll", core.Canceled, err)
	} else {
		err = w.enqueue(ps...)
	}
	for i, p := range ps {
		if err != nil {
			errs[i] = err
			continue
		}
		<-p.ready
		results[i], errs[i] = w.release(p)
	}
	return results, errs
}

// release returns p to its pool and returns its result. If the change failed its check, the error is that of the check.
func (w *Writer) release(p *pending) (core.Result, error) {
	res, err := p.res, p.err
	if err == nil {
		err = res.Err
	}
	p.write, p.res, p.err = Write{}, core.Result{}, nil
	w.pendings.Put(p)
	return res, err
}

// enqueue accepts all of ps or, if it returns an error, none of them.
func (w *Writer) enqueue(ps ...*pending) error {
	if err := w.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return core.E("batch.Do", core.Unavailable, errors.New("the server is shutting down and accepts no more writes"))
	}
	if n := len(w.queue); n > 0 && n+len(ps) > w.o.Pending {
		w.mu.Unlock()
		return core.E("batch.Do", core.Overloaded, fmt.Errorf("%d writes are already waiting, at most %d may wait: try again later", n, w.o.Pending))
	}
	w.queue = append(w.queue, ps...)
	w.mu.Unlock()
	w.signal()
	return nil
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Queued returns the number of writes that wait for a batch.
func (w *Writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// Err returns nil if writes are accepted, and otherwise the reason why they are refused: an Unavailable error, which
// remains until a restart, or the error that was passed to Refuse.
func (w *Writer) Err() error {
	if err := w.stopped.Load(); err != nil {
		return *err
	}
	if err := w.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Refuse makes later writes fail with err, or accepts writes again if err is nil. Writes that were already accepted
// continue.
func (w *Writer) Refuse(err error) {
	if err == nil {
		w.refused.Store(nil)
		return
	}
	w.refused.Store(&err)
}

// Close finishes the waiting writes, refuses new ones, and stops. In relaxed mode it makes everything durable, and
// writes a note that records this (see relaxed.go). It does not close Meta or Blocks.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.done
	w.drops.Wait()
	w.unsynced.once.Do(func() { close(w.unsynced.stop) })
	w.unsynced.stopped.Wait()
	w.closing.Lock()
	defer w.closing.Unlock()
	defer w.changeFeed.Close()
	if err := w.Flush(context.Background()); err != nil {
		return err
	}
	return w.noteLast(context.Background())
}

// take waits for writes and returns the next batch of them, or nil if the Writer is closed and empty.
func (w *Writer) take() []*pending {
	for {
		w.mu.Lock()
		n, size := 0, int64(0)
		for n < len(w.queue) && n < w.o.Count && (n == 0 || size < w.o.Bytes) {
			size += w.queue[n].write.size() + frame.HeaderSize
			n++
		}
		if n > 0 {
			w.waiting = len(w.queue)
			batch := append(make([]*pending, 0, n), w.queue[:n]...)
			rest := copy(w.queue, w.queue[n:])
			clear(w.queue[rest:])
			w.queue = w.queue[:rest]
			w.mu.Unlock()
			return batch
		}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return nil
		}
		<-w.wake
	}
}

// applyAll is the applier.
func (w *Writer) applyAll() {
	defer close(w.done)
	var failure error // the error of the last batch that was voided
	for f := range w.apply {
		late := w.isLate(f)
		if late {
			w.void(f.changes, 1)
		}
		w.taken <- struct{}{}
		var results []core.Result
		err := failure
		if !late {
			start := w.o.Observer.now()
			results, err = w.meta.Apply(context.Background(), f.changes)
			f.stats.applied(start)
		}
		if err != nil && !late {
			failure = err
			w.applyFailed(f, err)
		}
		if err == nil { // before the waiters may modify the changes again
			w.changeFeed.Applied(f.changes, results, feed.Position{Seq: results[len(results)-1].Seq, Block: f.block})
		}
		for i, p := range f.writes {
			if err != nil {
				p.err = err
			} else {
				p.res = results[f.own+i]
			}
			p.finish()
		}
		w.o.Observer.ended(&f.stats, err)
	}
}

// applyFailed stops the Writer if the result of Apply is unknown, and otherwise voids the batch's record.
func (w *Writer) applyFailed(f *flight, err error) {
	if core.Is(err, core.Unavailable) {
		w.stopped.Store(&err)
		w.log.Error("the result of a metadata transaction is unknown: all writes are refused until the server is restarted", "err", err)
		return
	}
	w.void(f.changes, 1)
}

// isLate reports whether the applier has voided a batch since the gatherer took the voids for f. The record of f does
// not void that batch, so f must fail too.
func (w *Writer) isLate(f *flight) bool {
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	return w.failed != f.failed
}

// void queues a core.Void for changes that were reported as failed although a block may contain their record. The
// applier passes 1 for failed, and the gatherer 0.
func (w *Writer) void(changes []core.Change, failed int) {
	if mutant.Is("no-void") {
		return
	}
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	w.failed += failed
	w.voids = append(w.voids, &core.Void{From: core.FirstSeq(changes[0]), To: changes[len(changes)-1].Stamp()})
}

// finish wakes the waiter. p must not be used afterwards.
func (p *pending) finish() { p.ready <- struct{}{} }
