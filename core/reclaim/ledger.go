package reclaim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"orcas/core"
)

// page is how many entries of the garbage are read at once.
const page = 1000

// maxEntries bounds the entries that the ledger keeps; more are read when some have gone.
const maxEntries = 4_000_000

// ledger is what is known of the garbage, by blocks.
type ledger struct {
	after  uint64 // the last entry that was read
	blocks map[core.BlockID]*account
	wide   map[uint64][]core.Extent // entries that touch several blocks
	lists  []core.Garbage
	count  int   // entries
	bytes  int64 // in all of them

	empty map[core.BlockID]int64 // packed blocks without live content, which wait for a snapshot, by size
}

// account is what is known of a block with garbage in it.
type account struct {
	dead  int64    // bytes
	ids   []uint64 // entries that touch this block alone
	size  int64    // of the block, once it is known
	kind  core.BlockKind
	known bool
	gone  bool // there is no such block

	before   int64     // dead, as of the round before
	beforeAt time.Time // when that was; zero: there was none
}

// Content that will be overwritten or deleted soon is not worth a copy, which would be garbage soon itself: a block that loses the
// rest of it in dyingSoon, if it goes on as it did since the round before, is left to do so, until dyingShare of it is dead.
const (
	dyingSoon  = 2 * time.Second
	dyingShare = 0.9
)

// isDying says whether a block will be dead soon without help. It is asked once a round.
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
	*l = ledger{blocks: map[core.BlockID]*account{}, wide: map[uint64][]core.Extent{}, empty: map[core.BlockID]int64{}}
}

// reset forgets everything but what does not depend on reading the garbage.
func (l *ledger) reset() {
	empty := l.empty
	l.init()
	l.empty = empty
}

// read takes in the entries that came since the last time.
func (l *ledger) read(ctx context.Context, meta core.Meta) error {
	if _, ok := meta.(core.SingleWriter); !ok {
		l.reset() // an entry may appear below one that was read
	}
	l.lists = l.lists[:0]
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
		l.lists = append(l.lists, g)
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

// measure learns the sizes and kinds of the blocks with garbage that are new to it. Packed blocks from the floor on are still written to: they
// stay unknown.
func (l *ledger) measure(ctx context.Context, blocks core.Blocks, floor core.BlockID) error {
	var unknown []core.BlockID
	for id, a := range l.blocks {
		if !a.known {
			unknown = append(unknown, id)
		}
	}
	found, err := look(ctx, blocks, unknown)
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
			a.known = b.Kind != core.Packed || compareIDs(id, floor) < 0
		}
	}
	return nil
}

// look returns what is known of blocks, without those that are gone. It sorts ids.
func look(ctx context.Context, blocks core.Blocks, ids []core.BlockID) (map[core.BlockID]core.BlockInfo, error) {
	slices.SortFunc(ids, compareIDs)
	found := make(map[core.BlockID]core.BlockInfo, len(ids))
	for len(ids) > 0 {
		first, last, n := ids[0], ids[len(ids)-1], len(ids)
		if n <= 16 { // one by one: what lies between them may be much
			last, n = first, 1
		}
		wanted := ids[:n]
		err := blocks.Walk(ctx, first, func(b core.BlockInfo) error {
			if compareIDs(b.ID, last) > 0 {
				return errEnough
			}
			for len(wanted) > 0 && compareIDs(wanted[0], b.ID) < 0 {
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

// forget drops the account of a block that is gone and returns the entries that are done with it.
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

func compareIDs(a, b core.BlockID) int { return bytes.Compare(a[:], b[:]) }
