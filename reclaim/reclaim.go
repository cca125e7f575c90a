// Package reclaim frees the space of unreferenced content while the store is in use.
//
// # How reclaim finds dead content
//
// Every change that releases content adds its extents to the garbage (core.Garbage). The ledger of this package sums up
// the garbage by block. This is only a hint which blocks to examine; it never justifies a deletion. The proof is the
// metadata itself. A frame header contains the DataID of its content. If core.Meta.Data does not place that content at
// the position of the frame, the frame is dead and remains dead, because DataIDs are not reused, and content never
// moves into a closed block. A pass over all metadata, called the mark, proves this for all blocks. Each complete snapshot
// includes a mark. A mark also finds dead blocks that no garbage entry refers to: blocks left by a crash, and blocks
// that contain only records. Beside a delta, the sums that the engine keeps for each block replace the pass (see
// core.Placer). They prove nothing, so each block that they show as dead is examined like those of the ledger.
//
// Not everything without references is garbage: new content is written to its block before the metadata refers to it.
// Therefore reclaim examines only packed blocks before core.State.ReplayFrom, whose changes have all been applied. A
// large block to which neither content nor garbage refers is deleted only if it was created before this start of the
// store.
//
// # How a block is freed
//
//  1. A dead large block is freed with steps 4 and 5 alone.
//  2. A packed block is emptied if its dead share is large enough. Its live frames are read, verified, and written to
//     the open block under new headers (batch.Write.Moved), with one MoveData per DataID. MoveData fails if the content
//     is no longer where it was read, because it was deleted or overwritten in the meantime. It is then dead.
//  3. The block also contains records. It may be deleted once a durable snapshot of the metadata, which has been read
//     back, covers the last of these records, and the database has been synced after that. Then a start after a power
//     failure does not need the records.
//  4. If responses are sent before writes are durable, the writes that released the content are made durable first
//     (Options.Settle). Readers may have looked up the old position, so Readers.Quiet waits until they have pinned what
//     they still need. A pinned block is kept, and the next round tries again. So a slow reader keeps the content that
//     it reads, and delays nothing else. The same applies to a long segment list that a reader has partly read.
//  5. The block is deleted, and then its garbage entries. A crash between any two of these steps leaves garbage that
//     the next round finds again.
//
// Several stores may share one place for their blocks. Block IDs are compared only within the store of this process,
// so the blocks and snapshots of other stores are never touched.
//
// If reclaim cannot read the garbage, the round ends without deleting anything. A damaged block is kept, because
// unreadable frames do not prove that it is dead.
//
// Two other designs were tried and dropped. With garbage rows as the only record of dead space, bytes without a row are
// never freed: a crash leaves such bytes, and so does a move whose content was deleted in the meantime. With snapshots
// of only the part of the metadata that is in a block, deletions would have to be kept forever.
package reclaim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/lease"
)

// Meta is the part of a metadata engine that reclaim needs.
type Meta interface {
	core.Meta
	core.Snapshotter
	core.Syncer
}

// Options configure a Reclaimer. Meta, Blocks and Writer are required; for all other fields, the zero value selects the
// default.
type Options struct {
	Meta   Meta
	Blocks core.Blocks
	Writer batch.Doer

	Readers Readers // the readers of content in this process; nil if there are none

	// Settle waits until every change that was applied before the call is durable. It is nil if applied changes are
	// always durable. Content must not be freed while a power failure could still undo the write that replaced it.
	Settle func(ctx context.Context) error

	DeadShare float64       // the minimum dead share for emptying a packed block; default 0.5
	Every     time.Duration // time between background rounds (a sixth while content is being released); default 250 ms
	Logger    *slog.Logger
	Now       func() time.Time
	Leases    lease.Leases // the leases of the store; nil if no other process reclaims

	// Hook, for tests, is called between the steps of a round, with one of the constants below.
	Hook func(place string)
}

// The arguments of Options.Hook.
const (
	HookMarked   = "marked"   // after finding the live content, before moving it
	HookCopied   = "copied"   // after copying a block's content, before checking that the block is empty
	HookSnapshot = "snapshot" // after a new snapshot, before the old one is deleted
	HookSwitched = "switched" // after a block was found dead, before it is deleted
	HookUnlinked = "unlinked" // after a block is deleted, before its garbage entries are
)

// fullShare is the minimum dead share for emptying a packed block in a full round.
const fullShare = 0.10

// Report is the result of a round.
type Report struct {
	Full         bool      `json:"full"` // a full round, requested by a command
	Started      time.Time `json:"started"`
	Seconds      float64   `json:"seconds"`
	BytesFreed   int64     `json:"bytes_freed"`
	BlocksFreed  int       `json:"blocks_freed"`
	BytesMoved   int64     `json:"bytes_moved"`
	BlocksMoved  int       `json:"blocks_moved"`
	Snapshots    int       `json:"snapshots"`
	Deltas       int       `json:"deltas"` // those of the snapshots that are deltas
	SnapshotSeq  core.Seq  `json:"snapshot_seq"`
	GarbageBytes int64     `json:"garbage_bytes"` // known garbage that was not freed
	Waiting      int       `json:"blocks_held"`   // dead packed blocks that wait for a snapshot or a reader
	PinnedBytes  int64     `json:"pinned_bytes"`  // dead bytes that were not freed because readers still need them
	OldestReader float64   `json:"oldest_reader_seconds"`
	Damaged      []string  `json:"damaged_blocks,omitempty"`
	Error        string    `json:"error,omitempty"`

	busy bool // content was released since the last round
}

// Status is the progress of the current round, and the totals of all rounds since the start.
type Status struct {
	Running bool   `json:"running"`
	Phase   string `json:"phase,omitempty"`
	Done    int    `json:"blocks_done"` // in the current phase
	Todo    int    `json:"blocks_todo"`
	Rounds  int    `json:"rounds"`
	Freed   int64  `json:"bytes_freed"` // since the start
	Moved   int64  `json:"bytes_moved"`

	PinnedBytes  int64   `json:"pinned_bytes"`          // dead bytes that the last round could not free because of readers
	Readers      int     `json:"readers"`               // readers that pin content, dead or not
	OldestReader float64 `json:"oldest_reader_seconds"` // how long the oldest of them has been reading; 0 if there are none

	LastSuccess  time.Time `json:"last_success"`  // the end of the last round without an error; zero if there was none since the start
	LastSnapshot time.Time `json:"last_snapshot"` // the end of the last snapshot of the metadata; zero if there was none since the start

	Last Report `json:"last"` // the last round that did something or failed, that followed a failure, or that a command requested
}

// Reclaimer frees garbage. Its methods are safe for concurrent use.
type Reclaimer struct {
	o   Options
	log *slog.Logger

	// The reclaim lease guards the fields below, up to pinned.
	ledger ledger
	snaps  snapshots
	marked map[core.BlockID]int64 // live bytes of each block at the last mark; nil if there was none
	first  core.BlockID           // State.ReplayFrom at the start of this process
	bad    map[core.BlockID]bool  // damaged blocks, which are never read again
	pinned pinned

	mu     sync.Mutex // guards status
	status Status
}

// New returns a Reclaimer. It must be called after the recovery of the store and before its first write.
func New(ctx context.Context, o Options) (*Reclaimer, error) {
	if o.DeadShare <= 0 || o.DeadShare > 1 {
		o.DeadShare = 0.5
	}
	o.Every = cmp.Or(max(o.Every, 0), 250*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Leases = cmp.Or[lease.Leases](o.Leases, &lease.Local{})
	o.Readers = cmp.Or[Readers](o.Readers, noReaders{})
	if o.Now == nil {
		o.Now = time.Now
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
	r := &Reclaimer{o: o, log: o.Logger, first: st.ReplayFrom, bad: map[core.BlockID]bool{}}
	r.ledger.init()
	return r, nil
}

// soon divides the time between rounds while content is being released. Under a load that overwrites objects, dead
// content wastes space until the next round.
const soon = 6

// Run makes rounds until ctx is canceled.
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
			r.log.Warn("reclaim failed, so deleted content keeps its space; the next round tries again: if this continues, correct the cause", "err", err)
		case err == nil:
			failed = ""
		}
		if report.BlocksFreed > 0 {
			r.log.Debug("reclaimed space", "bytes", report.BytesFreed, "blocks", report.BlocksFreed, "moved", report.BytesMoved,
				"seconds", report.Seconds, "pinned_bytes", report.PinnedBytes, "oldest_reader_seconds", report.OldestReader)
		}
	}
}

// Round frees the garbage that can be freed now. A full round empties every packed block whose dead share is at least
// fullShare, whatever that costs. If a round fails, the blocks that it has already deleted remain deleted. The error is
// also in the report.
func (r *Reclaimer) Round(ctx context.Context, full bool) (report Report, err error) {
	err = r.o.Leases.Do(ctx, lease.Reclaim, func(ctx context.Context) (err error) {
		report, err = r.leasedRound(ctx, full)
		return err
	})
	return report, err
}

// leasedRound is like Round, but the caller must hold the lease.
func (r *Reclaimer) leasedRound(ctx context.Context, full bool) (Report, error) {
	rd := &round{Reclaimer: r, ctx: ctx, report: Report{Full: full, Started: r.o.Now().UTC()}}
	start := time.Now()
	r.note(func(s *Status) { s.Running, s.Done, s.Todo = true, 0, 0 })
	seen := r.ledger.after
	r.pinned.now = map[dead]kept{}
	err := rd.run()
	rep := &rd.report
	rep.Seconds = time.Since(start).Seconds()
	rep.busy = rep.BlocksFreed > 0 || r.ledger.after > seen
	rep.GarbageBytes, rep.Waiting, rep.SnapshotSeq = r.ledger.bytes, len(r.ledger.empty), r.snaps.seq()
	if err != nil {
		rep.Error = core.Text(err)
		r.ledger.reset() // it may be incomplete
	}
	r.notePins(rep)
	r.note(func(s *Status) {
		s.Running, s.Phase = false, ""
		s.Rounds++
		s.Freed += rep.BytesFreed
		s.Moved += rep.BytesMoved
		s.PinnedBytes = rep.PinnedBytes
		if err == nil {
			s.LastSuccess = r.o.Now().UTC()
		}
		if full || err != nil || s.Last.Error != "" || rep.BlocksFreed+rep.BlocksMoved+rep.Snapshots > 0 {
			s.Last = *rep
		}
	})
	if full && err == nil {
		r.log.Info("reclaim round", "freed_bytes", rep.BytesFreed, "freed_blocks", rep.BlocksFreed,
			"moved_bytes", rep.BytesMoved, "pinned_bytes", rep.PinnedBytes, "oldest_reader_seconds", rep.OldestReader, "seconds", rep.Seconds)
	}
	if err != nil {
		err = core.E("reclaim.Round", core.Internal, err)
	}
	return *rep, err
}

// Pause calls fn while no round is running, so that no block is deleted, no content is moved, and no garbage entry is
// deleted.
func (r *Reclaimer) Pause(ctx context.Context, fn func() error) error {
	return r.o.Leases.Do(ctx, lease.Reclaim, func(context.Context) error { return fn() })
}

// Snapshot writes a new snapshot of the metadata, and deletes the old snapshots. See scrub.Options.NewSnapshot.
func (r *Reclaimer) Snapshot(ctx context.Context) error {
	err := r.o.Leases.Do(ctx, lease.Reclaim, func(ctx context.Context) error {
		rd := &round{Reclaimer: r, ctx: ctx, report: Report{Started: r.o.Now().UTC()}}
		r.note(func(s *Status) { s.Running, s.Done, s.Todo = true, 0, 0 })
		defer r.note(func(s *Status) { s.Running, s.Phase = false, "" })
		return rd.snapshot()
	})
	if err != nil {
		return core.E("reclaim.Snapshot", core.Internal, err)
	}
	return nil
}

// Status returns the current status.
func (r *Reclaimer) Status() Status {
	readers, age := r.o.Readers.OldestReader()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Readers, s.OldestReader = readers, age.Seconds()
	return s
}

func (r *Reclaimer) note(fn func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.status)
}

// apply writes changes, and returns an error if any of them fails.
func (r *Reclaimer) apply(ctx context.Context, changes ...core.Change) error {
	writes := make([]batch.Write, len(changes))
	for i, c := range changes {
		writes[i].Change = c
	}
	_, errs := r.o.Writer.DoAll(ctx, writes)
	return errors.Join(errs...)
}
