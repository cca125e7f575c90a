package reclaim

import (
	"context"
	"slices"
	"time"

	"orcas/core"
)

// page is the number of garbage entries that are read per call.
const page = 1000

// maxEntries is the maximum number of entries that the ledger keeps. It reads more when some have been freed.
const maxEntries = 4_000_000

// ledger sums up the known garbage by block.
type ledger struct {
	after  uint64 // the ID of the last entry that was read
	blocks map[core.BlockID]*account
	wide   map[uint64][]core.Extent // entries with extents in several blocks
	lists  map[uint64]core.Garbage  // entries of segment lists
	count  int                      // the number of entries with extents
	bytes  int64                    // the total length of those extents

	empty map[core.BlockID]int64 // sizes of packed blocks without live content, which wait for a snapshot
}

// account describes a block that contains garbage.
type account struct {
	dead  int64    // dead bytes
	ids   []uint64 // entries that refer to this block only
	size  int64    // the size of the block, if known
	kind  core.BlockKind
	known bool
	gone  bool // the block does not exist

	before   int64     // dead bytes in the previous round
	beforeAt time.Time // time of the previous round; zero if there was none
}

// Content that will soon be overwritten or deleted is not worth copying, because the copy would soon be garbage too. So
// a block is not emptied if it is losing live content so fast that all of it would be dead within dyingSoon. It is
// emptied anyway once dyingShare of it is dead.
const (
	dyingSoon  = 2 * time.Second
	dyingShare = 0.9
)

// isDying reports whether a block will soon be dead without compaction. It must be called once per round.
func (a *account) isDying(now time.Time) bool {
	grown, took := a.dead-a.before, now.Sub(a.beforeAt)
	isFirst := a.beforeAt.IsZero()
	a.before, a.beforeAt = a.dead, now
	if isFirst || grown <= 0 || float64(a.dead) >= dyingShare*float64(a.size) {
		return false
	}
	left := float64(a.size-a.dead) / float64(grown) * float64(took)
	return left < float64(dyingSoon)
}

func (l *ledger) init() {
	*l = ledger{
		blocks: map[core.BlockID]*account{}, wide: map[uint64][]core.Extent{}, lists: map[uint64]core.Garbage{}, empty: map[core.BlockID]int64{},
	}
}

// reset discards all entries that were read.
func (l *ledger) reset() {
	empty := l.empty
	l.init()
	l.empty = empty
}

// read adds the entries that appeared since the last call.
func (l *ledger) read(ctx context.Context, meta core.Meta) error {
	if _, ok := core.As[core.SingleWriter](meta); !ok {
		l.reset() // a new entry may have a lower ID than the last one that was read
	}
	for l.count < maxEntries {
		entries, err := meta.Garbage(ctx, l.after, page)
		if err != nil {
			return err
		}
		for _, g := range entries {
			l.add(g)
		}
		if len(entries) < page {
			return nil
		}
	}
	return nil
}

func (l *ledger) add(g core.Garbage) {
	l.after = g.ID
	if g.List != 0 {
		l.lists[g.ID] = g
		return
	}
	l.count++
	several := false
	for i, e := range g.Extents {
		a := l.blocks[e.Block]
		if a == nil {
			a = &account{}
			l.blocks[e.Block] = a
		}
		a.dead += e.Length
		l.bytes += e.Length
		several = several || i > 0 && e.Block != g.Extents[0].Block
	}
	switch {
	case several:
		l.wide[g.ID] = g.Extents
	case len(g.Extents) > 0:
		a := l.blocks[g.Extents[0].Block]
		a.ids = append(a.ids, g.ID)
	}
}

// measure looks up the sizes and kinds of blocks that are not known yet. Packed blocks from replayFrom on are still
// being written, so their sizes remain unknown.
func (l *ledger) measure(ctx context.Context, blocks core.Blocks, replayFrom core.BlockID) error {
	var unknown []core.BlockID
	for id, a := range l.blocks {
		if !a.known {
			unknown = append(unknown, id)
		}
	}
	found, err := lookUp(ctx, blocks, unknown)
	if err != nil {
		return err
	}
	for _, id := range unknown {
		a := l.blocks[id]
		b, ok := found[id]
		if !ok && a.kind == 0 {
			a.known, a.gone = true, true
		}
		if ok {
			a.size, a.kind = b.Size, b.Kind
			a.known = b.Kind != core.Packed || id.Before(replayFrom)
		}
	}
	return nil
}

// lookUp returns the BlockInfos of the given blocks, without those that do not exist. It sorts ids.
func lookUp(ctx context.Context, blocks core.Blocks, ids []core.BlockID) (map[core.BlockID]core.BlockInfo, error) {
	slices.SortFunc(ids, core.BlockID.Compare)
	found := make(map[core.BlockID]core.BlockInfo, len(ids))
	for len(ids) > 0 {
		first, last, n := ids[0], ids[len(ids)-1], len(ids)
		if n <= 16 { // look them up one by one, because there may be many blocks between them
			last, n = first, 1
		}
		wanted := ids[:n]
		err := blocks.Walk(ctx, first, func(b core.BlockInfo) error {
			if b.ID.Compare(last) > 0 {
				return errEnough
			}
			for len(wanted) > 0 && wanted[0].Compare(b.ID) < 0 {
				wanted = wanted[1:]
			}
			if len(wanted) > 0 && wanted[0] == b.ID {
				found[b.ID] = b
			}
			if b.ID == last {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			return nil, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// forget deletes the account of a block that no longer exists. It returns the entries that do not refer to any other
// block.
func (l *ledger) forget(id core.BlockID) (done []uint64) {
	a := l.blocks[id]
	if a == nil {
		return nil
	}
	delete(l.blocks, id)
	l.bytes -= a.dead
	l.count -= len(a.ids)
	done = a.ids
	for entry, extents := range l.wide {
		if !slices.ContainsFunc(extents, func(e core.Extent) bool { return l.blocks[e.Block] != nil }) {
			delete(l.wide, entry)
			l.count--
			done = append(done, entry)
		}
	}
	return done
}
