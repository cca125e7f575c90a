package sqlite

import (
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"orcas/core"
)

// touched is the set of places that the open transaction has changed, with false positives. The writer adds places, and
// readers look for them without a lock. A cell has the number of the last transaction that changed a place that shares
// the cell, so a new number removes all places.
type touched struct {
	number atomic.Uint32
	cells  [1 << touchedBits]atomic.Uint32
}

// With 4,000 changed places, 3% of the lookups are false positives.
const touchedBits = 17

// place is the hash of a key of a bucket, of a bucket, or of content.
type place uint64

func placeOfKey(bucket core.BucketID, key string) place {
	return place(xxh3.HashStringSeed(key, uint64(bucket)))
}

func placeOfBucket(id core.BucketID) place { return placeOf(uint64(id), 0x9e3779b97f4a7c15) }

func placeOfData(id core.DataID) place { return placeOf(uint64(id), 0xd6e8feb86659fd93) }

func placeOf(id, kind uint64) place {
	id *= kind
	return place(id ^ id>>32)
}

func (t *touched) cell(p place) *atomic.Uint32 { return &t.cells[p&(1<<touchedBits-1)] }

func (t *touched) mark(p place) { t.cell(p).Store(t.number.Load()) }

// has reports whether the open transaction has changed a place.
func (t *touched) has(p place) bool { return t.cell(p).Load() == t.number.Load() }

func newTouched() *touched {
	t := &touched{}
	t.clear()
	return t
}

// clear removes all places.
func (t *touched) clear() {
	if t.number.Add(1) == 0 { // the initial value of a cell
		t.number.Store(1)
	}
}
