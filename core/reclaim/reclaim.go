// Package reclaim gives back the room of what nothing refers to any more, while the store is in use.
//
// # What is dead, and how that is known
//
// Every change that lets go of content writes where that stood into the garbage (core.Garbage). The ledger of this package adds it up by
// blocks: that is a hint where room can be won, and nothing is deleted for it. Proof is the metadata itself: a frame carries the
// number of the content that it belongs to, and that content either stands there (core.Meta.Data says so) or it does not, and then never will again,
// since numbers are not used twice and content never moves to a block that is closed. A pass over all metadata (the mark) is such a proof for every block at once;
// it is made with each snapshot, and finds what no garbage names: what a crash left, and blocks of records alone.
//
// Not everything that nothing refers to is garbage: content stands in its block before the metadata knows of it. So packed blocks are touched
// below the floor of the metadata only (core.State.Floor: all that is in them was applied), and a large block that no metadata names goes only
// if an earlier start of the store made it.
//
// # How a block goes
//
//  1. Large blocks that are dead need nothing else.
//  2. A packed block whose dead share is large enough is emptied: its live frames are read, verified and written to the open block under new headers
//     (batch.Write.Moved), with one MoveData for each content, which expects it where it was read. What was deleted or overwritten meanwhile fails that and is dead.
//  3. The block holds records as well. It may go when a snapshot of the metadata, durable and read back, covers the last of them, and
//     when the database has been synced behind it, so that a start after a power cut does not look for them.
//  4. Where writes are answered before they are durable, those that let go of the content are made so first (Options.Settle).
//     Readers that found the old place in the metadata may still be on their way to it: Options.Quiet waits until those have
//     ended that had begun before.
//  5. The block is unlinked, and after that its garbage is forgotten. A crash between any two of these steps leaves garbage that
//     the next round finds again.
//
// An error while it looks for garbage ends a round, and nothing is deleted for it. A damaged block is left alone: what cannot be read proves
// nothing.
//
// Tried and dropped: the rows of the garbage as the only account (a crash, or a move whose content was deleted meanwhile, leaves bytes that no row names); snapshots of
// the part of the metadata that a block holds (deletions would have to be kept for ever).
package reclaim

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"orcas/core"
)

// Write is a change, and the frames of the content that it moves, if it does (see batch.Write).
type Write struct {
	Change core.Change
	Moved  []byte
	Fresh  bool // begins a new packed block
}

// Writer makes changes durable; the write buffer of the process.
type Writer interface {
	// DoAll returns the outcomes in the order of writes; a change that failed its check is an error.
	DoAll(ctx context.Context, writes []Write) ([]core.Result, []error)
}

// Meta is what reclaim needs of the metadata.
type Meta interface {
	core.Meta
	core.Snapshotter
	core.Syncer
}

// Options configure a Reclaimer. Zero values stand for the defaults.
type Options struct {
	Meta   Meta
	Blocks core.Blocks
	Writer Writer

	// Quiet returns when every read has ended that had begun before the call; nil: there are no readers.
	Quiet func(ctx context.Context) error

	// Settle returns when everything that was applied before the call is durable and known to be; nil: it always is. What a write that a
	// power cut may still take has replaced must not go.
	Settle func(ctx context.Context) error

	DeadShare float64       // of a packed block from which on it is emptied; default 0.5
	Every     time.Duration // between two rounds that were not asked for; default 250 ms, and a sixth of it while content goes
	Logger    *slog.Logger
	Now       func() time.Time

	// Hook is called at the places that a crash could come between; for tests. See the constants.
	Hook func(place string)
}

// The places of Options.Hook.
const (
	HookMarked   = "marked"   // between finding what is dead and moving what is not
	HookCopied   = "copied"   // between the copies of a block's content and the proof that it is empty
	HookSnapshot = "snapshot" // between a new snapshot and the end of the old
	HookSwitched = "switched" // between the last check and the unlink
	HookUnlinked = "unlinked" // between the unlink and the end of the garbage
)

// fullShare is the dead share from which on a block is emptied in a round that was asked for.
const fullShare = 0.10

// Report says what a round did.
type Report struct {
	Full         bool      `json:"full"` // asked for: everything that can be freed was looked for
	Started      time.Time `json:"started"`
	Seconds      float64   `json:"seconds"`
	BytesFreed   int64     `json:"bytes_freed"`
	BlocksFreed  int       `json:"blocks_freed"`
	BytesMoved   int64     `json:"bytes_moved"`
	BlocksMoved  int       `json:"blocks_moved"`
	Snapshots    int       `json:"snapshots"`
	SnapshotSeq  core.Seq  `json:"snapshot_seq"`
	GarbageBytes int64     `json:"garbage_bytes"` // known at the end and not freed
	Held         int       `json:"blocks_held"`   // dead, and waiting for a snapshot
	Damaged      []string  `json:"damaged_blocks,omitempty"`
	Error        string    `json:"error,omitempty"`

	busy bool // content went since the round before
}

// Status says what goes on.
type Status struct {
	Running bool   `json:"running"`
	Phase   string `json:"phase,omitempty"`
	Done    int    `json:"blocks_done"` // of the present phase
	Todo    int    `json:"blocks_todo"`
	Rounds  int    `json:"rounds"`
	Freed   int64  `json:"bytes_freed"` // since the start
	Moved   int64  `json:"bytes_moved"`
	Last    Report `json:"last"` // the last round that did something, or was asked for
}

// Reclaimer frees garbage. Its methods may be called from many goroutines.
type Reclaimer struct {
	o   Options
	log *slog.Logger

	round  sync.Mutex // held by a round; guards what follows
	ledger ledger
	snaps  snapshots
	marked map[core.BlockID]int64 // live bytes of blocks, as of the last mark; nil: none was made
	first  core.BlockID           // State.Floor when this process began
	bad    map[core.BlockID]bool  // damaged: not looked at again

	mu     sync.Mutex // guards status
	status Status
}

// New makes a Reclaimer. The store has recovered, and takes no writes yet.
func New(ctx context.Context, o Options) (*Reclaimer, error) {
	if o.DeadShare <= 0 || o.DeadShare > 1 {
		o.DeadShare = 0.5
	}
	if o.Every <= 0 {
		o.Every = 250 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quiet == nil {
		o.Quiet = func(context.Context) error { return nil }
	}
	if o.Settle == nil {
		o.Settle = func(context.Context) error { return nil }
	}
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	st, err := o.Meta.State(ctx)
	if err != nil {
		return nil, core.E("reclaim.New", core.Internal, err)
	}
	r := &Reclaimer{o: o, log: o.Logger, first: st.Floor, bad: map[core.BlockID]bool{}}
	r.ledger.init()
	return r, nil
}

// soon is how many times earlier the next round comes while content goes: under a load that overwrites, what becomes dead between two rounds is
// room that is taken for nothing.
const soon = 6

// Run makes rounds until ctx ends.
func (r *Reclaimer) Run(ctx context.Context) {
	tick := time.NewTimer(r.o.Every)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		report, err := r.Round(ctx, false)
		pause := r.o.Every
		if err == nil && report.busy {
			pause /= soon
		}
		tick.Reset(pause)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != failed:
			failed = err.Error()
			r.log.Warn("reclaim stopped for now", "err", err)
		case err == nil:
			failed = ""
		}
		if report.BlocksFreed > 0 {
			r.log.Debug("reclaimed", "bytes", report.BytesFreed, "blocks", report.BlocksFreed, "moved", report.BytesMoved, "seconds", report.Seconds)
		}
	}
}

// Round frees what can be freed now. A full one empties every block in which there is something to win, whatever it costs. After
// an error, which Report gives as well, what was freed until then is freed.
func (r *Reclaimer) Round(ctx context.Context, full bool) (Report, error) {
	r.round.Lock()
	defer r.round.Unlock()
	rd := &round{Reclaimer: r, ctx: ctx, report: Report{Full: full, Started: r.o.Now().UTC()}}
	start := time.Now()
	r.note(func(s *Status) { s.Running, s.Done, s.Todo = true, 0, 0 })
	seen := r.ledger.after
	err := rd.run()
	rep := &rd.report
	rep.Seconds = time.Since(start).Seconds()
	rep.busy = rep.BlocksFreed > 0 || r.ledger.after > seen
	rep.GarbageBytes, rep.Held, rep.SnapshotSeq = r.ledger.bytes, len(r.ledger.empty), r.snaps.seq()
	if err != nil {
		rep.Error = err.Error()
		r.ledger.reset() // whatever was read may have been half of it
	}
	r.note(func(s *Status) {
		s.Running, s.Phase = false, ""
		s.Rounds++
		s.Freed += rep.BytesFreed
		s.Moved += rep.BytesMoved
		if full || err != nil || rep.BlocksFreed+rep.BlocksMoved+rep.Snapshots > 0 {
			s.Last = *rep
		}
	})
	if err != nil {
		err = core.E("reclaim.Round", core.Internal, err)
	}
	return *rep, err
}

// Hold calls fn while no round runs: no block is unlinked, no content is moved, no garbage is forgotten.
func (r *Reclaimer) Hold(ctx context.Context, fn func() error) error {
	r.round.Lock()
	defer r.round.Unlock()
	if err := ctx.Err(); err != nil { // it may have waited for long
		return core.E("reclaim.Hold", core.Canceled, err)
	}
	return fn()
}

// Snapshot writes a new snapshot of the metadata now, and lets the old ones go: what ScrubOptions.NewSnapshot asks for.
func (r *Reclaimer) Snapshot(ctx context.Context) error {
	r.round.Lock()
	defer r.round.Unlock()
	rd := &round{Reclaimer: r, ctx: ctx, report: Report{Started: r.o.Now().UTC()}}
	r.note(func(s *Status) { s.Running, s.Done, s.Todo = true, 0, 0 })
	err := rd.snapshot()
	r.note(func(s *Status) { s.Running, s.Phase = false, "" })
	if err != nil {
		return core.E("reclaim.Snapshot", core.Internal, err)
	}
	return nil
}

// Status returns what goes on.
func (r *Reclaimer) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Reclaimer) note(fn func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.status)
}

// apply writes changes that have to pass.
func (r *Reclaimer) apply(ctx context.Context, changes ...core.Change) error {
	writes := make([]Write, len(changes))
	for i, c := range changes {
		writes[i].Change = c
	}
	_, errs := r.o.Writer.DoAll(ctx, writes)
	return errors.Join(errs...)
}
