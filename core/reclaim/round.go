package reclaim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"orcas/core"
	"orcas/internal/mutant"
)

// errEnough ends a walk.
var errEnough = errors.New("enough")

// round is one round of a Reclaimer.
type round struct {
	*Reclaimer
	ctx    context.Context
	report Report
	floor  core.BlockID // packed blocks below it are closed, and all that is in them was applied
}

func (r *round) phase(name string, todo int) {
	r.note(func(s *Status) { s.Phase, s.Done, s.Todo = name, 0, todo })
}

func (r *round) step() { r.note(func(s *Status) { s.Done++ }) }

func (r *round) run() error {
	if r.report.Full {
		// The open block is closed, so that it can be emptied too; and the floor is this start's from now on.
		if _, errs := r.o.Writer.DoAll(r.ctx, []Write{{Change: &core.Void{}, Fresh: true}}); errs[0] != nil {
			return errs[0]
		}
	}
	st, err := r.o.Meta.State(r.ctx)
	if err != nil {
		return err
	}
	r.setFloor(st.Floor)
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
	// On a full drive what is dead already still goes.
	return errors.Join(moveErr, r.release())
}

func (r *round) setFloor(floor core.BlockID) {
	r.floor = floor
	if mutant.Is("no-floor") {
		r.floor = core.BlockID(bytes.Repeat([]byte{0xff}, len(floor)))
	}
}

// read brings the ledger up to date, long lists worked off.
func (r *round) read() error {
	for {
		if err := r.ledger.read(r.ctx, r.o.Meta); err != nil {
			return err
		}
		if len(r.ledger.lists) == 0 {
			return r.ledger.measure(r.ctx, r.o.Blocks, r.floor)
		}
		if err := r.o.Quiet(r.ctx); err != nil { // a reader may be in the middle of such a list
			return err
		}
		for _, g := range r.ledger.lists {
			if err := r.dropList(g); err != nil {
				return err
			}
		}
	}
}

// slice is how many parts of a list go in one change.
const slice = 500

func (r *round) dropList(g core.Garbage) error {
	for {
		parts, err := r.o.Meta.Parts(r.ctx, g.List, 0, 1)
		if err != nil {
			return err
		}
		err = r.apply(r.ctx, &core.DropParts{Garbage: g.ID, Count: slice})
		if core.Is(err, core.NoSuchData) {
			return nil // the entry went with its last part
		}
		if err != nil || len(parts) == 0 {
			return err
		}
	}
}

// large frees large blocks, and forgets the garbage of blocks that are gone.
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
	slices.SortFunc(dead, compareIDs)
	r.phase("large blocks", len(dead))
	var proven []core.BlockID
	for _, id := range dead {
		r.step()
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
	if err := r.unlink(slices.SortedFunc(maps.Keys(sizes), compareIDs), sizes); err != nil {
		return err
	}
	return r.forget(gone)
}

// packed empties packed blocks that are worth it.
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
	consider := func(id core.BlockID, size int64, dead float64) {
		if _, done := r.ledger.empty[id]; !done && !seen[id] && compareIDs(id, r.floor) < 0 && dead >= share {
			seen[id] = true
			list = append(list, candidate{id, dead})
		}
	}
	now := r.o.Now()
	for id, a := range r.ledger.blocks {
		if a.kind == core.Packed && !a.gone && (!a.isDying(now) || r.report.Full) {
			consider(id, a.size, float64(a.dead)/float64(max(a.size, 1)))
		}
	}
	for id, size := range r.snaps.packed { // as of the last mark
		consider(id, size, 1-float64(r.marked[id])/float64(max(size, 1)))
	}
	slices.SortFunc(list, func(a, b candidate) int { // those without anything to copy first
		switch {
		case a.dead > b.dead:
			return -1
		case a.dead < b.dead:
			return 1
		}
		return compareIDs(a.id, b.id)
	})
	ids := make([]core.BlockID, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	// What size a block was when it was still written to must not decide what is in it.
	blocks, err := look(r.ctx, r.o.Blocks, ids)
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

// unlink deletes blocks that are proven to be dead, and then the garbage in them.
func (r *round) unlink(ids []core.BlockID, sizes map[core.BlockID]int64) error {
	if len(ids) == 0 {
		return nil
	}
	r.o.Hook(HookSwitched)
	if err := r.o.Settle(r.ctx); err != nil {
		return err
	}
	if !mutant.Is("no-quiet") {
		if err := r.o.Quiet(r.ctx); err != nil {
			return err
		}
	}
	if mutant.Is("forget-early") {
		if err := r.forget(ids); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := r.ctx.Err(); err != nil {
			return core.E("reclaim.unlink", core.Canceled, err)
		}
		if err := r.o.Blocks.Delete(r.ctx, id); err != nil {
			return err
		}
		delete(r.snaps.packed, id)
		r.report.BlocksFreed++
		r.report.BytesFreed += sizes[id]
	}
	r.o.Hook(HookUnlinked)
	return r.forget(ids)
}

// freeTogether is how many entries one change forgets, and changesTogether how many changes are made durable at once.
const (
	freeTogether    = 1000
	changesTogether = 64
)

// forget takes the garbage of blocks that are gone out of the metadata.
func (r *round) forget(ids []core.BlockID) error {
	var done []uint64
	for _, id := range ids {
		done = append(done, r.ledger.forget(id)...)
	}
	var changes []core.Change
	for len(done) > 0 {
		n := min(len(done), freeTogether)
		changes = append(changes, &core.FreeGarbage{IDs: done[:n]})
		done = done[n:]
		if len(done) == 0 || len(changes) == changesTogether {
			if err := r.apply(r.ctx, changes...); err != nil {
				return err
			}
			changes = nil
		}
	}
	return nil
}

// damaged notes a block that cannot be read, and therefore stays.
func (r *round) damaged(id core.BlockID) {
	r.report.Damaged = append(r.report.Damaged, id.String())
	r.log.Error("a damaged block is left alone", "block", id)
}
