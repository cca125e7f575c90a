package sqlite

import (
	"cmp"
	"math/bits"
	"sync"
	"sync/atomic"
)

// filter is a set of hashes with false positives (one in two hundred) and no false negatives. It is a list of Bloom
// filters, each twice as large as the one before. So it grows with the number of hashes, up to 63 MiB for 33 million: 31
// MiB for 10 million. With more hashes the rate of false positives rises, which only costs lookups, each of which
// searches all runs of the hash index. Hashes are never deleted.
//
// After a long idle time, ReleaseMemory drops the filter. It is filled again once so many hashes were looked up without it that they have cost
// about as much as filling it will (see refillAfter), so a server with few writes needs no filter.
type filter struct {
	full    atomic.Bool // every hash of the runs has been added: a hash that is not in the filter does not exist
	blooms  atomic.Pointer[[]*bloom]
	lookups atomic.Uint64 // the number of lookups while the filter was not full
	mu      sync.Mutex    // held by add; guards dropped
	most    int           // the maximum number of blooms; 0: maxBlooms
	dropped bool          // hashes are not added
}

// bloom is a Bloom filter that consists of blocks of the size of a CPU cache line.
type bloom struct {
	blocks [][8]atomic.Uint64
	room   int // the number of hashes that may still be added
}

const (
	bloomBlocks     = 16 << 10 // the number of blocks of the first bloom: 1 MiB
	bloomGrowth     = 2
	maxBlooms       = 6
	hashesPerBlock  = 32 // a block has 512 bits
	bitsPerHash     = 6
	bitsInBlockBits = 9 // the number of hash bits that select a bit of a block
)

// bits returns the block of a hash in b, and a number whose lowest bits select bits of that block: bitsInBlockBits for
// each of bitsPerHash bits.
func (b *bloom) bits(hash uint64) (*[8]atomic.Uint64, uint64) {
	hash *= 0x9e3779b97f4a7c15
	hash ^= hash >> 29
	i, _ := bits.Mul64(hash, uint64(len(b.blocks)))
	return &b.blocks[i], hash * 0xbf58476d1ce4e5b9 >> (64 - bitsPerHash*bitsInBlockBits)
}

func (b *bloom) has(hash uint64) bool {
	block, p := b.bits(hash)
	for range bitsPerHash {
		if block[p>>6&7].Load()>>(p&63)&1 == 0 {
			return false
		}
		p >>= bitsInBlockBits
	}
	return true
}

func (b *bloom) add(hash uint64) {
	block, p := b.bits(hash)
	for range bitsPerHash {
		block[p>>6&7].Or(1 << (p & 63))
		p >>= bitsInBlockBits
	}
	b.room--
}

// limit bounds the size of the filter, in bytes, unless it is 0. It must be called before hashes are added.
func (f *filter) limit(size int64) {
	if size <= 0 {
		return
	}
	f.most = 1
	for next, total := int64(bloomGrowth), int64(1); f.most < maxBlooms && (total+next)<<20 <= size; f.most++ {
		total += next
		next *= bloomGrowth
	}
}

func (f *filter) add(hash uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped {
		return
	}
	var blooms []*bloom
	if p := f.blooms.Load(); p != nil {
		blooms = *p
	}
	n := len(blooms)
	for _, b := range blooms {
		if b.has(hash) {
			return
		}
	}
	if n == 0 || blooms[n-1].room <= 0 && n < cmp.Or(f.most, maxBlooms) {
		blocks := bloomBlocks
		for range n {
			blocks *= bloomGrowth
		}
		more := append(append(make([]*bloom, 0, n+1), blooms...), &bloom{make([][8]atomic.Uint64, blocks), blocks * hashesPerBlock})
		f.blooms.Store(&more)
		blooms = more
	}
	blooms[len(blooms)-1].add(hash)
}

// mayHave reports whether a hash may have been added.
func (f *filter) mayHave(hash uint64) bool {
	if !f.full.Load() {
		f.lookups.Add(1)
		return true
	}
	if p := f.blooms.Load(); p != nil {
		for _, b := range *p {
			if b.has(hash) {
				return true
			}
		}
	}
	return !f.full.Load() // it may have been dropped in the meantime
}

// drop deletes all hashes, unless the filter is being filled.
func (f *filter) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full.Load() {
		f.dropped = true
		f.lookups.Store(0)
		f.full.Store(false) // before the hashes are deleted, see mayHave
		f.blooms.Store(nil)
	}
}

// refillAfter returns the number of lookups after which a filter for a number of pairs is filled again. A lookup in the
// runs takes about a thousand times as long as adding a pair to the filter.
func refillAfter(pairs uint64) uint64 { return 1000 + pairs/1000 }

// refill reports whether a filter that was dropped should be filled again. If so, it lets hashes be added from then on.
func (f *filter) refill(pairs uint64) bool {
	if f.lookups.Load() < refillAfter(pairs) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.dropped
	f.dropped = false
	return was
}
