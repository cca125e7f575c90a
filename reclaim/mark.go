package reclaim

import (
	"context"
	"slices"
	"time"

	"orcas/core"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// snapshots describes the snapshots of the metadata, and the state of the blocks at the last mark.
type snapshots struct {
	listed     bool
	list       []snapshot.Info // the newest intact snapshot, if there is one
	replayFrom core.BlockID    // the newest snapshot covers all records in packed blocks before this block

	ended   time.Time              // when this process finished its last snapshot; zero if it wrote none
	took    time.Duration          // time to write that snapshot and read it back
	aborted time.Time              // end of the last attempt aborted in favor of writes; zero if none since the last snapshot
	spent   time.Duration          // duration of that attempt
	whole   bool                   // the next snapshot must be complete: a delta failed, or a newer snapshot is damaged
	live    int64                  // bytes of live content at the last mark
	packed  map[core.BlockID]int64 // sizes of the closed packed blocks that have dead bytes or are empty files
	orphans map[core.BlockID]int64 // sizes of the large blocks without live content
}

func (s *snapshots) seq() core.Seq {
	if len(s.list) == 0 {
		return 0
	}
	return s.list[0].Seq
}

// load finds the existing snapshots of this store, once. The block replayFrom identifies the store.
func (s *snapshots) load(ctx context.Context, blocks core.Blocks, replayFrom core.BlockID) error {
	if s.listed {
		return nil
	}
	list, err := snapshot.List(ctx, blocks)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(i snapshot.Info) bool { return i.Block.Store() != replayFrom.Store() })
	newest, err := snapshot.Newest(ctx, blocks, list) // a snapshot justifies a deletion only after it has been read to its end
	if err != nil {
		return err
	}
	s.list, s.listed, s.whole = nil, true, false
	if newest != nil {
		s.list, s.replayFrom = []snapshot.Info{*newest}, newest.ReplayFrom
		s.whole = newest.Seq != list[0].Seq || newest.Block != list[0].Block // the metadata may have been repaired in between
	}
	return nil
}

// liveSum sums up the live bytes of each block during a pass over all metadata.
type liveSum struct {
	core.Snapshotter
	live  map[core.BlockID]int64
	proof bool // the sums were computed from the rows, so a block without live bytes is dead
}

// Snapshot implements core.Snapshotter.
func (t *liveSum) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	return t.Snapshotter.Snapshot(ctx, func(row *core.Row) error {
		row.EachData(func(d *core.DataInfo) {
			for _, e := range d.Extents {
				t.live[e.Block] += e.Length
			}
		})
		return emit(row)
	})
}

// places sets the live bytes of each block from the sums that the engine keeps, if it does. It is no proof.
func (t *liveSum) places(ctx context.Context) error {
	p, ok := core.As[core.Placer](t.Snapshotter)
	if !ok {
		return t.Snapshot(ctx, func(*core.Row) error { return nil })
	}
	_, err := p.Places(ctx, func(block core.BlockID, of core.BlockContent) error {
		t.live[block] = of.Bytes
		return nil
	})
	return err
}

// mark computes the live bytes of each block.
func (r *round) mark() error {
	r.phase("mark", 0)
	t := &liveSum{r.o.Meta, map[core.BlockID]int64{}, true}
	if err := t.Snapshot(r.ctx, func(*core.Row) error { return nil }); err != nil {
		return err
	}
	return r.markBlocks(t)
}

// markBlocks collects the blocks with dead bytes. The pass of t must have begun after r.replayFrom was read.
func (r *round) markBlocks(t *liveSum) error {
	packed, orphans := map[core.BlockID]int64{}, map[core.BlockID]int64{}
	r.snaps.live = 0
	for _, n := range t.live {
		r.snaps.live += n
	}
	err := r.o.Blocks.Walk(r.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		switch {
		case b.Kind == core.Packed && b.ID.Before(r.replayFrom) && (t.live[b.ID] < b.Size || b.Size == 0):
			packed[b.ID] = b.Size
		case b.Kind == core.Large && r.isOld(b.ID) && t.live[b.ID] == 0:
			orphans[b.ID] = b.Size
		}
		return nil
	})
	for id, size := range orphans {
		if t.proof || err != nil {
			break
		}
		var found *live
		if found, err = r.liveIn(id, size, 1); found == nil || len(found.contents) > 0 {
			delete(orphans, id)
		}
	}
	if err != nil {
		return err
	}
	r.marked, r.snaps.packed, r.snaps.orphans = t.live, packed, orphans
	return nil
}

// isOld reports whether a block was created before this start of the store, so that its content can no longer be
// committed. The generation of this start is known once replayFrom has moved.
func (r *round) isOld(id core.BlockID) bool {
	return r.replayFrom.Generation() > r.first.Generation() && id.Before(r.replayFrom) && id.Generation() < r.replayFrom.Generation()
}

// A background round writes a snapshot if the dead blocks that wait for one are large enough: at least heldBytes, and
// at least heldTimes the size of the last snapshot. In addition, one of these must be true:
//
//   - This process has not written a snapshot yet.
//   - Since the end of the last snapshot, restTimes its duration has passed.
//   - The dead blocks have at least heldShare of the size of the live content.
//   - The drive does not have enough free space for that share.
//
// A round also writes a snapshot after dueChanges changes, if these are at least twice as many as the rows of the last
// snapshot. A snapshot of a large store takes seconds of CPU time, and without these conditions a few keys that are
// continually overwritten would cause one snapshot after another.
//
// A round writes a delta instead of a complete snapshot if it can (see allowsDelta). That is much cheaper, so the first
// condition is then heldTimes the expected size of the delta. This is how a large store frees its dead blocks early.
const (
	heldBytes   = 8 << 20
	heldTimes   = 4
	heldShare   = 0.25
	restTimes   = 10
	dueChanges  = 1_000_000
	fullChanges = 10_000 // in a full round
)

// The next snapshot is complete if a chain has maxDeltas deltas, or if with the next one they would have more than
// 1/deltaShare of the size of the complete snapshot. So that a chain is not full of small deltas, a delta counts as at
// least 1/(deltaShare * maxDeltas) of that size. changeBytes is the expected size of a change in a delta.
const (
	maxDeltas   = 64
	deltaShare  = 3
	changeBytes = 80
)

// form is the form of the next snapshot.
type form int

const (
	none form = iota
	delta
	complete
)

// release deletes the emptied packed blocks whose records are covered by a snapshot. It writes one if it is due.
func (r *round) release() error {
	if err := r.snaps.load(r.ctx, r.o.Blocks, r.replayFrom); err != nil {
		return err
	}
	due, err := r.due()
	if err != nil {
		return err
	}
	if due != none {
		if err := r.trySnapshot(due); err != nil {
			return err
		}
	}
	return r.free()
}

// free deletes the emptied packed blocks that a snapshot covers.
func (r *round) free() error {
	st, err := r.o.Meta.State(r.ctx)
	if err != nil || len(r.covered(st.ReplayFrom)) == 0 {
		return err
	}
	if !mutant.Is("no-sync-before-unlink") {
		if st, err = r.o.Meta.Sync(r.ctx); err != nil {
			return err
		}
	}
	unlinked, err := r.unlink(r.covered(st.ReplayFrom), r.ledger.empty)
	for _, id := range unlinked {
		delete(r.ledger.empty, id)
	}
	return err
}

// covered returns the unpinned empty blocks before replayFrom whose records are covered by a snapshot.
func (r *round) covered(replayFrom core.BlockID) []core.BlockID {
	var ids []core.BlockID
	for id := range r.ledger.empty {
		covered := id.Before(r.snaps.replayFrom) || mutant.Is("no-snapshot-cover")
		if covered && id.Before(replayFrom) && !r.isPinned(id, r.ledger.empty[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// due returns the form of the snapshot that should be written now, or none.
//
// One process: it uses a difference of sequences as a number of changes. An engine that several servers write to leaves
// gaps, so there would be too many snapshots.
func (r *round) due() (form, error) {
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return none, err
	}
	held, last := int64(0), snapshot.Info{}
	for id, size := range r.ledger.empty {
		if !id.Before(r.snaps.replayFrom) {
			held += size
		}
	}
	if len(r.snaps.list) > 0 {
		last = r.snaps.list[0]
	}
	changes := int64(st.Seq - last.Seq)
	if r.report.Full {
		switch {
		case held == 0 && changes < fullChanges:
			return none, nil
		case r.allowsDelta(changes):
			return delta, nil
		}
		return complete, nil
	}
	if r.snaps.rest(r.o.Now()) {
		return none, nil
	}
	if changes >= max(dueChanges, 2*last.Rows) {
		return complete, nil
	}
	next, size := complete, last.Size
	if r.allowsDelta(changes) {
		next, size = delta, max(changes*changeBytes, last.Size/(deltaShare*maxDeltas))
	}
	if held >= max(heldBytes, heldTimes*size) && r.isTime(held) {
		return next, nil
	}
	return none, nil
}

// allowsDelta reports whether the next snapshot can be a delta with a number of changes.
func (r *round) allowsDelta(changes int64) bool {
	if len(r.snaps.list) == 0 || r.snaps.whole {
		return false
	}
	last := &r.snaps.list[0]
	fits := deltaShare*(last.DeltaSize()+changes*changeBytes) <= last.Size || mutant.Is("large-deltas")
	if len(last.Deltas) >= maxDeltas || !fits {
		return false
	}
	_, ok := core.As[core.SingleWriter](core.Meta(r.o.Meta)) // otherwise gaps between sequences mean nothing
	return ok
}

// isTime reports whether held bytes of dead blocks have waited long enough for the next snapshot.
func (r *round) isTime(held int64) bool {
	most := int64(heldShare * float64(r.snaps.live))
	if held >= most || r.snaps.ended.IsZero() || r.reserve(most) != nil {
		return true
	}
	since := r.o.Now().Sub(r.snaps.ended)
	return since < 0 || since >= restTimes*r.snaps.took // negative if the clock was set back
}

// rest reports whether it is too early to try again after a snapshot was aborted in favor of writes. As with successful
// snapshots, most of the time should be spent without one.
func (s *snapshots) rest(now time.Time) bool {
	since := now.Sub(s.aborted)
	return !s.aborted.IsZero() && since >= 0 && since < restTimes*s.spent && !mutant.Is("no-rest")
}
