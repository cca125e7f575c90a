// Package batch is the write buffer: it makes many writes durable in one step. Every write to the metadata of a process goes
// through it, and so does all small content.
//
// # The way of a batch
//
// Two goroutines form a pipeline.
//
// The gatherer waits for a write, takes what else has queued up meanwhile (no timer: a lone write goes at once, and while one
// batch is being synced the next one gathers by itself), gives each change its sequence, and lays out, in one packed block:
// the frames of the small contents, one after the other, and behind them one record, the changes of the batch in binary
// form. Then one Commit makes content and record durable together.
//
// The applier hands the changes to Meta.Apply, one transaction for all, and gives each waiter the outcome of its own change.
// While it does so, the gatherer lays out and syncs the next batch.
//
// # Why an answer may be given
//
// When Commit has returned, the write survives everything: Apply may still be lost by a power cut (the metadata need not be synced), but the
// record is not, and recovery applies it again. When Apply has returned, every reader sees it. Only then is the waiter told. A crash
// before Commit leaves frames that no record names; a crash between Commit and Apply leaves a write that was not acknowledged,
// which recovery applies: whole.
//
// # When something fails
//
// A Commit that fails fails the waiters of its batch and nobody else; the driver seals the block. The record may or may not be on disk, so
// its sequences are voided by the next record (core.Void), and replay leaves them out. The same holds for an Apply that
// wrote nothing (a full disk); then the batch that was laid out meanwhile fails with it, since its record cannot void what failed behind its back, and
// what is applied must never stand behind a record that a replay would apply and that was not. An Apply of which nobody knows (core.Unavailable) stops all writing until a restart.
// A change that fails its check in Apply stays in its record: Apply is deterministic, so in a replay it fails again.
//
// # Order
//
// There is one gatherer, so sequences, records in blocks and calls of Apply have the same order. State.Floor tells where
// recovery has to begin: it moves, by a change of its own, whenever records go to another block.
//
// Tried and dropped: a gathering window (a timer adds its length to each lone write, and under load the sync of the batch before
// is window enough); records in a log of their own (a second sync per batch).
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
	"orcas/internal/mutant"
)

// Options configure a Writer. Zero values stand for the defaults.
type Options struct {
	Meta    core.Meta
	Blocks  core.Blocks
	Alone   bool  // packing off: each write is a batch of its own, in a block of its own
	Bytes   int64 // a batch is closed at this many bytes of content; default 8 MiB
	Count   int   // ... or at this many writes; default 2048
	Logger  *slog.Logger
	Pending int // writes that may wait; more are Overloaded; default 16384

	// Relaxed answers when a write was handed to the operating system. At most Window (default 10 s) later it is synced.
	Relaxed bool
	Window  time.Duration
}

// Write is a change and, where it brings small content, that content.
type Write struct {
	Change core.Change
	// Info is the DataInfo in one of Change's segments whose content is Content; the batch sets its Extents. Both are nil
	// where the change brings no content, or content that a Large has stored.
	Info    *core.DataInfo
	Content []byte // plain bytes; they must not change until Do returns

	// Frames is, in place of Content, the frames of the content as they are to be stored, one after the other: headers included, which say that the first
	// stands at offset 0 of no block (see Stored). They must not change until Do returns.
	Frames []byte

	// Moved is, with a core.MoveData, the frames of the content as they are stored, headers included, which the caller has verified: the
	// batch gives them new headers and sets the change's To.
	Moved []byte

	Fresh bool // the batch begins a new packed block
}

// size returns the bytes of content that w brings.
func (w *Write) size() int64 { return int64(len(w.Content) + len(w.Frames) + len(w.Moved)) }

// Writer is the write buffer. Its methods may be called from many goroutines.
type Writer struct {
	meta   core.Meta
	blocks core.Blocks
	o      Options
	log    *slog.Logger
	data   atomic.Uint64 // the last DataID given away

	mu     sync.Mutex // guards queue and closed
	queue  []*pending
	closed bool
	wake   chan struct{} // one token: the queue is not empty, or closed

	sealed atomic.Pointer[error] // set when Meta refuses all writes, or a sync of relaxed ones failed
	lag    lag

	drops    sync.WaitGroup // contents that are being dropped
	dropping atomic.Int32   // so many

	// Of the gatherer alone:
	seq   core.Seq     // the last sequence given away
	floor core.BlockID // the block of the last record
	after bool         // of one that was relaxed: the floor moves together with what is durable
	buf   []byte       // what is laid out and not yet written

	voidMu sync.Mutex // guards voids and failed, which the applier adds to
	voids  []*core.Void
	failed int // batches that the applier voided

	apply chan *flight  // from the gatherer to the applier
	taken chan struct{} // back: the applier has decided whether the flight comes too late
	done  chan struct{}
}

// pending is a write that waits for its outcome.
type pending struct {
	write Write
	res   core.Result
	err   error
	ready chan struct{} // capacity 1
}

var pendings = sync.Pool{New: func() any { return &pending{ready: make(chan struct{}, 1)} }}

// flight is a batch between the gatherer and the applier.
type flight struct {
	writes  []*pending
	changes []core.Change // what the batch itself adds, then those of writes, in order
	own     int           // how many of changes are the batch's own
	failed  int           // Writer.failed when it took the voids
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
	if _, ok := o.Blocks.(core.Flusher); !ok {
		o.Relaxed = false // every commit is durable
	}
	if o.Window <= 0 {
		o.Window = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r, err := Recover(ctx, o.Meta, o.Blocks, o.Logger)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		meta: o.Meta, blocks: o.Blocks, o: o, log: o.Logger,
		wake: make(chan struct{}, 1), apply: make(chan *flight), taken: make(chan struct{}, 1), done: make(chan struct{}),
		seq: r.Seq, floor: r.Floor, voids: r.Voids, after: r.Relaxed,
	}
	if r.NextData > 0 {
		w.data.Store(uint64(r.NextData) - 1)
	}
	w.lag.start(w, point{r.Durable, r.Floor})
	go w.gather()
	go w.applyAll()
	if len(r.Voids) > 0 {
		// They have to be in a record before this start ends: the next one finds the batch applied and asks no more, and a rebuild, for which that batch
		// is not the last, would bring the changes back. In relaxed mode nothing may be said to be durable behind what was cut off before that is said to be void.
		_, err := w.Do(ctx, Write{Change: &core.Void{}})
		if err == nil {
			err = w.Flush(ctx)
		}
		if err != nil && o.Relaxed {
			return nil, errors.Join(err, w.Close())
		}
		if err != nil {
			w.log.Warn("what was left out is not recorded yet: the next write does it", "err", err)
		}
	}
	return w, nil
}

// NewData returns a DataID that was never used.
func (w *Writer) NewData() core.DataID { return core.DataID(w.data.Add(1)) }

// Do makes a write durable and returns the outcome of its change. It returns when the outcome is known, also when ctx has
// ended meanwhile: a write that is under way cannot be taken back, and its content is read until then.
func (w *Writer) Do(ctx context.Context, write Write) (core.Result, error) {
	if err := ctx.Err(); err != nil {
		return core.Result{}, core.E("batch.Do", core.Canceled, err)
	}
	p := pendings.Get().(*pending)
	p.write = write
	if err := w.enqueue(p); err != nil {
		return core.Result{}, err
	}
	<-p.ready
	return p.release()
}

// DoAll is Do for several writes: they go into one batch where they fit. Results and errors are in the order of writes.
func (w *Writer) DoAll(ctx context.Context, writes []Write) ([]core.Result, []error) {
	results, errs := make([]core.Result, len(writes)), make([]error, len(writes))
	ps := make([]*pending, len(writes))
	for i := range writes {
		ps[i] = pendings.Get().(*pending)
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
		results[i], errs[i] = p.release()
	}
	return results, errs
}

// release gives p back to its pool and returns its outcome; a change that failed its check is an error here.
func (p *pending) release() (core.Result, error) {
	res, err := p.res, p.err
	if err == nil {
		err = res.Err
	}
	p.write, p.res, p.err = Write{}, core.Result{}, nil
	pendings.Put(p)
	return res, err
}

// enqueue takes all of ps or, with an error, none.
func (w *Writer) enqueue(ps ...*pending) error {
	if err := w.sealed.Load(); err != nil {
		return *err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return core.E("batch.Do", core.Unavailable, errors.New("stopping"))
	}
	if n := len(w.queue); n > 0 && n+len(ps) > w.o.Pending {
		w.mu.Unlock()
		return core.E("batch.Do", core.Overloaded, fmt.Errorf("%d writes are waiting", n))
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

// Err says why every write is refused, of the kind Unavailable; nil while writes are taken.
func (w *Writer) Err() error {
	if err := w.sealed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close finishes the writes that wait, refuses new ones, and stops. It does not close Meta or Blocks.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.done
	w.drops.Wait()
	w.lag.once.Do(func() { close(w.lag.stop) })
	w.lag.stopped.Wait()
	return w.Flush(context.Background())
}

// take waits for writes and returns the next batch of them, or nil when the Writer is closed and empty.
func (w *Writer) take() []*pending {
	for {
		w.mu.Lock()
		n, size := 0, int64(0)
		for n < len(w.queue) && n < w.o.Count && (n == 0 || size < w.o.Bytes) {
			size += w.queue[n].write.size() + frame.HeaderSize
			n++
		}
		if n > 0 {
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
	var failure error // of the last batch that was voided
	for f := range w.apply {
		late := w.isLate(f)
		if late {
			w.void(f.changes, 1)
		}
		w.taken <- struct{}{}
		var results []core.Result
		err := failure
		if !late {
			results, err = w.meta.Apply(context.Background(), f.changes)
		}
		if err != nil && !late {
			failure = err
			w.applyFailed(f, err)
		}
		for i, p := range f.writes {
			if err != nil {
				p.err = err
			} else {
				p.res = results[f.own+i]
			}
			p.finish()
		}
	}
}

// applyFailed seals the Writer where the outcome is unknown, and else voids the batch's record.
func (w *Writer) applyFailed(f *flight, err error) {
	if core.Is(err, core.Unavailable) {
		w.sealed.Store(&err)
		w.log.Error("metadata refuses writes until a restart", "err", err)
		return
	}
	w.void(f.changes, 1)
}

// isLate says whether a batch was voided that f's record does not void.
func (w *Writer) isLate(f *flight) bool {
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	return w.failed != f.failed
}

// void notes that the changes, which may be recorded in a block, were reported as failed: by the applier, if failed is 1.
func (w *Writer) void(changes []core.Change, failed int) {
	if mutant.Is("no-void") {
		return
	}
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	w.failed += failed
	w.voids = append(w.voids, &core.Void{From: core.FirstPlace(changes[0]), To: changes[len(changes)-1].Place().Seq})
}

// finish tells the waiter. p must not be touched afterwards.
func (p *pending) finish() { p.ready <- struct{}{} }
