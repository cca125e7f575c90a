package reclaim

import (
	"context"
	"errors"
	"time"

	"orcas/core"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// snapshots is what is known of the snapshots of the metadata, and of the blocks as of the last mark.
type snapshots struct {
	listed bool
	list   []snapshot.Info // the newest first; those that are whole, as far as is known
	floor  core.BlockID    // packed blocks below it hold no record that the newest does not cover

	ended   time.Time              // when this process wrote the last one; zero: it wrote none
	took    time.Duration          // to write that and to read it back
	live    int64                  // bytes of content as of the last mark
	packed  map[core.BlockID]int64 // closed packed blocks in which something is dead, or nothing at all is, by size
	orphans map[core.BlockID]int64 // large blocks that no content is in, by size
}

func (s *snapshots) seq() core.Seq {
	if len(s.list) == 0 {
		return 0
	}
	return s.list[0].Seq
}

// load looks for snapshots, once.
func (s *snapshots) load(ctx context.Context, blocks core.Blocks) error {
	if s.listed {
		return nil
	}
	list, err := snapshot.List(ctx, blocks)
	if err != nil {
		return err
	}
	for len(list) > 0 { // before anything is deleted for it, it is read to its end
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
		s.floor = list[0].Floor
	}
	return nil
}

// tally adds up what is alive in each block, while everything that the metadata holds goes by.
type tally struct {
	core.Snapshotter
	live map[core.BlockID]int64
}

// Snapshot implements core.Snapshotter.
func (t *tally) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	return t.Snapshotter.Snapshot(ctx, func(row *core.Row) error {
		switch {
		case row.Data != nil:
			t.add(row.Data)
		case row.Object != nil:
			for _, s := range row.Object.Segments {
				if s.Info != nil {
					t.add(s.Info)
				}
			}
		}
		return emit(row)
	})
}

func (t *tally) add(d *core.DataInfo) {
	for _, e := range d.Extents {
		t.live[e.Block] += e.Length
	}
}

// mark learns what is alive in each block.
func (r *round) mark() error {
	r.phase("mark", 0)
	t := &tally{r.o.Meta, map[core.BlockID]int64{}}
	if err := t.Snapshot(r.ctx, func(*core.Row) error { return nil }); err != nil {
		return err
	}
	return r.markBlocks(t)
}

// markBlocks notes the blocks in which something is dead, after a tally that began when r.floor was read or later.
func (r *round) markBlocks(t *tally) error {
	packed, orphans := map[core.BlockID]int64{}, map[core.BlockID]int64{}
	r.snaps.live = 0
	for _, n := range t.live {
		r.snaps.live += n
	}
	err := r.o.Blocks.Walk(r.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		switch {
		case b.Kind == core.Packed && compareIDs(b.ID, r.floor) < 0 && (t.live[b.ID] < b.Size || b.Size == 0):
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

// isOld says whether an earlier start made a block: then nobody is about to name its content. This start is known by the floor,
// once that has moved.
func (r *round) isOld(id core.BlockID) bool {
	return r.floor.Generation() > r.first.Generation() && id.Generation() < r.floor.Generation()
}

// When a round that was not asked for makes a snapshot: when the dead blocks that wait for one are so large, and so much larger than the last one was,
// and the last one is so many times as long ago as it took, or the blocks are that share of the content, or the drive has no room for as much;
// or when so many changes came since, and more than twice the rows of the last. A snapshot of a large store takes seconds of a core, and a few keys
// that are overwritten all the time would ask for one after the other.
const (
	heldBytes   = 8 << 20
	heldTimes   = 4
	heldShare   = 0.25
	restTimes   = 10
	dueChanges  = 1_000_000
	fullChanges = 10_000 // in a round that was asked for
)

// release unlinks packed blocks that were emptied, as far as a snapshot covers their records.
func (r *round) release() error {
	if err := r.snaps.load(r.ctx, r.o.Blocks); err != nil {
		return err
	}
	due, err := r.due()
	if err != nil {
		return err
	}
	if due {
		if err := r.snapshot(); err != nil {
			return err
		}
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil || len(r.covered(st.Floor)) == 0 {
		return err
	}
	if !mutant.Is("no-sync-before-unlink") {
		if st, err = r.o.Meta.Sync(r.ctx); err != nil {
			return err
		}
	}
	ids := r.covered(st.Floor)
	if err := r.unlink(ids, r.ledger.empty); err != nil {
		return err
	}
	for _, id := range ids {
		delete(r.ledger.empty, id)
	}
	return nil
}

// covered returns the empty blocks whose records are in a snapshot and behind nobody's floor.
func (r *round) covered(floor core.BlockID) []core.BlockID {
	var ids []core.BlockID
	for id := range r.ledger.empty {
		covered := compareIDs(id, r.snaps.floor) < 0 || mutant.Is("no-snapshot-cover")
		if covered && compareIDs(id, floor) < 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *round) due() (bool, error) {
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return false, err
	}
	held, last := int64(0), snapshot.Info{}
	for id, size := range r.ledger.empty {
		if compareIDs(id, r.snaps.floor) >= 0 {
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
	return held >= max(heldBytes, heldTimes*last.Size) && r.isTime(held) || changes >= max(dueChanges, 2*last.Rows), nil
}

// isTime says whether dead blocks of so many bytes need not wait any longer for the next snapshot.
func (r *round) isTime(held int64) bool {
	most := int64(heldShare * float64(r.snaps.live))
	if held >= most || r.snaps.ended.IsZero() || r.reserve(most) != nil {
		return true
	}
	since := r.o.Now().Sub(r.snaps.ended)
	return since < 0 || since >= restTimes*r.snaps.took // a clock may be set back
}

// snapshot writes a new snapshot, reads it back, and lets the old ones go. It is a mark as well.
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
	r.setFloor(st.Floor)
	t := &tally{r.o.Meta, map[core.BlockID]int64{}}
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
	var old []core.BlockInfo // also those that a crash cut off, and damaged ones
	if err := r.o.Blocks.Walk(r.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Snapshot && b.ID != info.Block {
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
	r.snaps.list, r.snaps.floor = []snapshot.Info{*info}, info.Floor
	return r.markBlocks(t)
}
