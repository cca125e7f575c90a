package reclaim

import (
	"context"
	"errors"
	"slices"
	"time"

	"orcas/core"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// snapshots describes the snapshots of the metadata, and the state of the blocks at the last mark.
type snapshots struct {
	listed     bool
	list       []snapshot.Info // newest first; none is known to be damaged
	replayFrom core.BlockID    // the newest snapshot covers all records in packed blocks before this block

	ended   time.Time              // when this process finished its last snapshot; zero if it wrote none
	took    time.Duration          // time to write that snapshot and read it back
	aborted time.Time              // end of the last attempt aborted in favor of writes; zero if none since the last snapshot
	spent   time.Duration          // duration of that attempt
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
	for len(list) > 0 { // a snapshot justifies a deletion only after it has been read to its end
		err := snapshot.Read(ctx, blocks, &list[0], func(*core.Row) error { return nil })
		if err == nil {
			break
		}
		if !core.Is(err, core.Damaged) {
			return err
		}
		list = list[1:]
	}
	s.list, s.listed = list, true
	if len(list) > 0 {
		s.replayFrom = list[0].ReplayFrom
	}
	return nil
}

// liveSum sums up the live bytes of each block during a pass over all metadata.
type liveSum struct {
	core.Snapshotter
	live map[core.BlockID]int64
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

// mark computes the live bytes of each block.
func (r *round) mark() error {
	r.phase("mark", 0)
	t := &liveSum{r.o.Meta, map[core.BlockID]int64{}}
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
const (
	heldBytes   = 8 << 20
	heldTimes   = 4
	heldShare   = 0.25
	restTimes   = 10
	dueChanges  = 1_000_000
	fullChanges = 10_000 // in a full round
)

// release deletes the emptied packed blocks whose records are covered by a snapshot.
func (r *round) release() error {
	if err := r.snaps.load(r.ctx, r.o.Blocks, r.replayFrom); err != nil {
		return err
	}
	due, err := r.due()
	if err != nil {
		return err
	}
	if due {
		if err := r.trySnapshot(); err != nil {
			return err
		}
	}
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

// due reports whether a snapshot should be written now.
//
// One process: it uses a difference of sequences as a number of changes. An engine that several servers write to leaves
// gaps, so there would be too many snapshots.
func (r *round) due() (bool, error) {
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return false, err
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
		return held > 0 || changes >= fullChanges, nil
	}
	if r.snaps.rest(r.o.Now()) {
		return false, nil
	}
	return held >= max(heldBytes, heldTimes*last.Size) && r.isTime(held) || changes >= max(dueChanges, 2*last.Rows), nil
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

// trySnapshot writes a snapshot. If the engine aborts it in favor of writes (see core.Snapshotter), a background round
// continues without a snapshot, and the blocks that wait for it are kept until the next attempt.
func (r *round) trySnapshot() error {
	began := r.o.Now()
	err := r.snapshot()
	if !core.Is(err, core.Busy) || r.report.Full {
		return err
	}
	r.snaps.aborted = r.o.Now()
	r.snaps.spent = r.snaps.aborted.Sub(began)
	r.log.Warn("a snapshot of the metadata was aborted in favor of writes; it will be retried",
		"seconds", r.snaps.spent.Seconds(), "next_in_seconds", (restTimes * r.snaps.spent).Seconds(), "err", err)
	return nil
}

// snapshot writes a new snapshot, reads it back, and deletes the old snapshots. It also does what mark does.
func (r *round) snapshot() error {
	r.phase("snapshot", 0)
	began := r.o.Now()
	if err := r.reserve(0); err != nil {
		return err
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return err
	}
	r.setReplayFrom(st.ReplayFrom)
	t := &liveSum{r.o.Meta, map[core.BlockID]int64{}}
	info, err := snapshot.Write(r.ctx, t, r.o.Blocks, snapshot.WriteOptions{Before: r.o.Settle})
	if err != nil {
		return err
	}
	check := *info
	if err := snapshot.Read(r.ctx, r.o.Blocks, &check, func(*core.Row) error { return nil }); err != nil {
		return errors.Join(err, r.o.Blocks.Delete(r.ctx, info.Block))
	}
	r.report.Snapshots++
	r.o.Hook(HookSnapshot)
	r.snaps.ended = r.o.Now()
	r.snaps.took = r.snaps.ended.Sub(began)
	r.snaps.aborted = time.Time{}
	var old []core.BlockInfo // includes damaged snapshots, and incomplete snapshots left by a crash
	if err := r.o.Blocks.Walk(r.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Snapshot && b.ID != info.Block && b.ID.Store() == info.Block.Store() {
			old = append(old, b)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, o := range old {
		if err := r.o.Blocks.Delete(r.ctx, o.ID); err != nil {
			return err
		}
		r.report.BytesFreed += o.Size
	}
	r.snaps.list, r.snaps.replayFrom = []snapshot.Info{*info}, info.ReplayFrom
	return r.markBlocks(t)
}
