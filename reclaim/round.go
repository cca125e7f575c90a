package reclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/internal/mutant"
)

// errEnough ends a walk over blocks.
var errEnough = errors.New("enough")

// round is one round of a Reclaimer.
type round struct {
	*Reclaimer
	ctx        context.Context
	report     Report
	replayFrom core.BlockID // packed blocks before this block are closed, and all of their changes have been applied
}

func (r *round) phase(name string, todo int) {
	r.note(func(s *Status) { s.Phase, s.Done, s.Todo = name, 0, todo })
}

func (r *round) step() { r.note(func(s *Status) { s.Done++ }) }

func (r *round) run() error {
	if r.report.Full {
		// Close the open block, so that it can be emptied too. This also moves replayFrom to the generation of this
		// start.
		if _, errs := r.o.Writer.DoAll(r.ctx, []batch.Write{{Change: &core.Void{}, Fresh: true}}); errs[0] != nil {
			return errs[0]
		}
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return err
	}
	r.setReplayFrom(st.ReplayFrom)
	r.phase("garbage", 0)
	if err := r.read(); err != nil {
		return err
	}
	if r.report.Full {
		if err := r.mark(); err != nil {
			return err
		}
	}
	if err := r.large(); err != nil {
		return err
	}
	moveErr := r.packed()
	if moveErr != nil && !core.Is(moveErr, core.NoSpace) {
		return moveErr
	}
	// Even on a full drive, blocks that are already dead can be freed.
	return errors.Join(moveErr, r.release())
}

func (r *round) setReplayFrom(replayFrom core.BlockID) {
	r.replayFrom = replayFrom
	if mutant.Is("no-floor") {
		r.replayFrom = core.MakeBlockID(replayFrom.Store(), math.MaxUint32, math.MaxUint32)
	}
}

// read updates the ledger. It also deletes the segment lists in the garbage, except for pinned lists.
func (r *round) read() error {
	for {
		if err := r.ledger.read(r.ctx, r.o.Meta); err != nil {
			return err
		}
		dropped, err := r.dropLists()
		if err != nil {
			return err
		}
		if !dropped { // deleting lists creates new garbage
			return r.ledger.measure(r.ctx, r.o.Blocks, r.replayFrom)
		}
	}
}

// dropLists deletes the segment lists in the garbage that are not pinned, and reports whether there were any.
func (r *round) dropLists() (dropped bool, err error) {
	entries, err := r.unpinnedLists(slices.Sorted(maps.Keys(r.ledger.lists)))
	if err != nil || len(entries) == 0 {
		return false, err
	}
	if err := r.quiet(); err != nil {
		return false, err
	}
	if entries, err = r.unpinnedLists(entries); err != nil { // after quiet, the result is final
		return false, err
	}
	for _, entry := range entries {
		if err := r.dropList(r.ledger.lists[entry]); err != nil {
			return false, err
		}
		delete(r.ledger.lists, entry)
	}
	return len(entries) > 0, nil
}

// unpinnedLists returns the entries whose lists are not pinned.
func (r *round) unpinnedLists(entries []uint64) (free []uint64, err error) {
	for _, entry := range entries {
		isPinned, err := r.isPinnedList(r.ledger.lists[entry].List)
		if err != nil {
			return nil, err
		}
		if !isPinned {
			free = append(free, entry)
		}
	}
	return free, nil
}

// quiet waits for the lookups that are in progress.
func (r *round) quiet() error {
	if mutant.Is("no-quiet") {
		return nil
	}
	return r.o.Readers.Quiet(r.ctx)
}

// slice is the number of parts of a list that one change deletes.
const slice = 500

func (r *round) dropList(g core.Garbage) error {
	for {
		parts, err := r.o.Meta.Parts(r.ctx, g.List, 0, 1, core.WithoutContent)
		if err != nil {
			return err
		}
		err = r.apply(r.ctx, &core.DropParts{Garbage: g.ID, Count: slice})
		if core.Is(err, core.NoSuchData) {
			return nil // the change that deleted the last part also deleted the entry
		}
		if err != nil || len(parts) == 0 {
			return err
		}
	}
}

// large frees dead large blocks, and deletes the garbage entries of blocks that no longer exist.
func (r *round) large() error {
	var dead, gone []core.BlockID
	for id, a := range r.ledger.blocks {
		switch {
		case a.gone:
			gone = append(gone, id)
		case a.kind == core.Large && !r.bad[id]:
			dead = append(dead, id)
		}
	}
	slices.SortFunc(dead, core.BlockID.Compare)
	r.phase("large blocks", len(dead))
	var proven []core.BlockID
	for _, id := range dead {
		r.step()
		if r.isPinned(id, r.ledger.blocks[id].size) { // kept for now, even if it is dead
			continue
		}
		live, err := r.liveIn(id, r.ledger.blocks[id].size, 1)
		if err != nil {
			return err
		}
		if live == nil {
			r.damaged(id)
			r.bad[id] = true
			continue
		}
		if len(live.contents) == 0 {
			proven = append(proven, id)
		}
	}
	sizes := r.snaps.orphans
	if sizes == nil {
		sizes = map[core.BlockID]int64{}
	}
	r.snaps.orphans = nil
	for _, id := range proven {
		sizes[id] = r.ledger.blocks[id].size
	}
	unlinked, err := r.unlink(slices.SortedFunc(maps.Keys(sizes), core.BlockID.Compare), sizes)
	if err != nil {
		return err
	}
	for _, id := range unlinked {
		delete(sizes, id)
	}
	maps.DeleteFunc(sizes, func(id core.BlockID, _ int64) bool { return r.ledger.blocks[id] != nil })
	r.snaps.orphans = sizes // pinned blocks without a garbage entry remain for the next round
	return r.forget(gone)
}

// packed empties the packed blocks with enough garbage.
func (r *round) packed() error {
	type candidate struct {
		id   core.BlockID
		dead float64
	}
	var list []candidate
	share := r.o.DeadShare
	if r.report.Full {
		share = fullShare
	}
	seen := maps.Clone(r.bad)
	consider := func(id core.BlockID, dead float64) {
		if _, done := r.ledger.empty[id]; !done && !seen[id] && id.Before(r.replayFrom) && dead >= share {
			seen[id] = true
			list = append(list, candidate{id, dead})
		}
	}
	now := r.o.Now()
	for id, a := range r.ledger.blocks {
		if a.kind == core.Packed && !a.gone && (!a.isDying(now) || r.report.Full) {
			consider(id, float64(a.dead)/float64(max(a.size, 1)))
		}
	}
	for id, size := range r.snaps.packed { // found by the last mark
		consider(id, 1-float64(r.marked[id])/float64(max(size, 1)))
	}
	slices.SortFunc(list, func(a, b candidate) int { // blocks with nothing to copy come first
		return cmp.Or(cmp.Compare(b.dead, a.dead), a.id.Compare(b.id))
	})
	ids := make([]core.BlockID, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	// The size in the ledger may be from a time when the block was still open, so look up the current size.
	blocks, err := lookUp(r.ctx, r.o.Blocks, ids)
	if err != nil {
		return err
	}
	r.phase("packed blocks", len(list))
	for _, c := range list {
		if b, ok := blocks[c.id]; ok && b.Size == 0 {
			r.ledger.empty[c.id] = 0
		} else if ok {
			if err := r.empty(c.id, b.Size); err != nil {
				return fmt.Errorf("block %s: %w", c.id, err)
			}
		}
		r.step()
		delete(r.snaps.packed, c.id)
	}
	return nil
}

// unlink deletes the given dead blocks, except for pinned blocks, and then their garbage entries. It returns the
// deleted blocks.
func (r *round) unlink(ids []core.BlockID, sizes map[core.BlockID]int64) ([]core.BlockID, error) {
	ids = slices.Clone(ids)
	isPinned := func(id core.BlockID) bool { return r.isPinned(id, sizes[id]) }
	if ids = slices.DeleteFunc(ids, isPinned); len(ids) == 0 {
		return nil, nil
	}
	r.o.Hook(HookSwitched)
	if err := r.o.Settle(r.ctx); err != nil {
		return nil, err
	}
	if err := r.quiet(); err != nil {
		return nil, err
	}
	if ids = slices.DeleteFunc(ids, isPinned); len(ids) == 0 { // after quiet, the result is final
		return nil, nil
	}
	if mutant.Is("forget-early") {
		if err := r.forget(ids); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		if err := r.ctx.Err(); err != nil {
			return nil, core.E("reclaim.unlink", core.Canceled, err)
		}
		if err := r.o.Blocks.Delete(r.ctx, id); err != nil {
			return nil, err
		}
		delete(r.snaps.packed, id)
		r.report.BlocksFreed++
		r.report.BytesFreed += sizes[id]
	}
	r.o.Hook(HookUnlinked)
	return ids, r.forget(ids)
}

// freeTogether is the number of entries that one change deletes. changesTogether is the number of changes per sync.
const (
	freeTogether    = 1000
	changesTogether = 64
)

// forget deletes the garbage entries of blocks that no longer exist.
func (r *round) forget(ids []core.BlockID) error {
	var done []uint64
	for _, id := range ids {
		done = append(done, r.ledger.forget(id)...)
	}
	var changes []core.Change
	for ids := range slices.Chunk(done, freeTogether) {
		changes = append(changes, &core.FreeGarbage{IDs: ids})
	}
	for together := range slices.Chunk(changes, changesTogether) {
		if err := r.apply(r.ctx, together...); err != nil {
			return err
		}
	}
	return nil
}

// damaged adds a damaged block, which must be kept, to the report.
func (r *round) damaged(id core.BlockID) {
	r.report.Damaged = append(r.report.Damaged, id.String())
	r.log.Error("a block is damaged and cannot be freed", "block", id)
}
