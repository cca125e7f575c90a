package reclaim

import (
	"errors"
	"slices"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// trySnapshot writes a snapshot. If the engine aborts it in favor of writes (see core.Snapshotter), a background round
// continues without a snapshot, and the blocks that wait for it are kept until the next attempt.
func (r *round) trySnapshot(f form) error {
	if f == delta {
		return r.delta()
	}
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

// snapshot writes a complete snapshot, reads it back, and deletes the old snapshots. It also does what mark does.
func (r *round) snapshot() error {
	began, err := r.beginSnapshot()
	if err != nil {
		return err
	}
	t := &liveSum{r.o.Meta, map[core.BlockID]int64{}, true}
	info, err := snapshot.Write(r.ctx, t, r.o.Blocks, snapshot.WriteOptions{Before: r.o.Settle})
	if err != nil {
		return err
	}
	if err := snapshot.Read(r.ctx, r.o.Blocks, info, nil); err != nil {
		return errors.Join(err, r.o.Blocks.Delete(r.ctx, info.Block))
	}
	r.snaps.whole = false
	return r.endSnapshot(info, t, began)
}

// delta extends the last snapshot by the changes since then, and reads them back. If that fails, the next snapshot is
// complete. It also does what mark does.
func (r *round) delta() (err error) {
	defer func() {
		if err != nil && !core.Is(err, core.NoSpace) {
			r.snaps.whole = true
		}
	}()
	// Every change that failed, or that recovery dropped, must be voided by a record that the delta reads.
	if err := r.apply(r.ctx, &core.Void{}); err != nil {
		return err
	}
	began, err := r.beginSnapshot()
	if err != nil {
		return err
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return err
	}
	last := &r.snaps.list[0]
	info, err := snapshot.WriteDelta(r.ctx, r.o.Blocks, last, st, func(emit func([]core.Change) error) error {
		return batch.Changes(r.ctx, r.o.Blocks, last.State, st.Seq, emit)
	}, snapshot.WriteOptions{Before: r.o.Settle})
	if err != nil {
		return err
	}
	if err := snapshot.ReadDelta(r.ctx, r.o.Blocks, info); err != nil && !mutant.Is("delta-not-read-back") {
		return errors.Join(err, r.o.Blocks.Delete(r.ctx, info.Deltas[len(info.Deltas)-1].Block))
	}
	t := &liveSum{r.o.Meta, map[core.BlockID]int64{}, false}
	if err := t.places(r.ctx); err != nil {
		return err
	}
	r.report.Deltas++
	return r.endSnapshot(info, t, began)
}

// beginSnapshot prepares for a snapshot, and returns the time.
func (r *round) beginSnapshot() (began time.Time, err error) {
	r.phase("snapshot", 0)
	began = r.o.Now()
	if err := r.reserve(0); err != nil {
		return began, err
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return began, err
	}
	r.setReplayFrom(st.ReplayFrom)
	return began, nil
}

// endSnapshot makes info, which was read back, the snapshot that covers records, and deletes the blocks of all others.
func (r *round) endSnapshot(info *snapshot.Info, t *liveSum, began time.Time) error {
	r.report.Snapshots++
	r.o.Hook(HookSnapshot)
	r.snaps.ended = r.o.Now()
	r.snaps.took = r.snaps.ended.Sub(began)
	r.snaps.aborted = time.Time{}
	r.note(func(s *Status) { s.LastSnapshot = r.snaps.ended.UTC() })
	keep := info.Blocks()
	if mutant.Is("delta-without-base") {
		keep = keep[len(keep)-1:]
	}
	var old []core.BlockInfo // includes damaged snapshots, and incomplete snapshots left by a crash
	if err := r.o.Blocks.Walk(r.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Snapshot && !slices.Contains(keep, b.ID) && b.ID.Store() == info.Block.Store() {
			old = append(old, b)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, o := range slices.Backward(old) { // a delta before its predecessor
		if err := r.o.Blocks.Delete(r.ctx, o.ID); err != nil {
			return err
		}
		r.report.BytesFreed += o.Size
	}
	r.snaps.list, r.snaps.replayFrom = []snapshot.Info{*info}, info.ReplayFrom
	return r.markBlocks(t)
}
