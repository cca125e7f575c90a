package sqlite

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// filter is a set of hashes that may say of one that it is in although it is not (one in fifty), and never the other way round. It is
// a row of Bloom filters, each four times as large as the one before it, so it grows with what is in it, up to about 43 MB for 34 million
// hashes; from there on it errs more and more often, which costs looks and nothing else. Nothing is taken out.
type filter struct {
	full   atomic.Bool // everything is in: what it does not have is not there
	blooms atomic.Pointer[[]*bloom]
	mu     sync.Mutex // held by add
}

// bloom is a Bloom filter of blocks as long as a line of the processor's cache.
type bloom struct {
	blocks [][8]atomic.Uint64
	room   int // how many more hashes it is good for
}

const (
	bloomBlocks     = 2 << 10 // of the first bloom: 128 KiB
	bloomGrowth     = 4
	maxBlooms       = 5
	hashesPerBlock  = 48 // of 512 bits
	bitsPerHash     = 6
	bitsInBlockBits = 9 // a place in a block takes so many bits of a hash
)

// places returns the block of a hash in b, and a number whose bits say which bits of it.
func (b *bloom) places(hash uint64) (*[8]atomic.Uint64, uint64) {
	hash *= 0x9e3779b97f4a7c15
	hash ^= hash >> 29
	i, _ := bits.Mul64(hash, uint64(len(b.blocks)))
	return &b.blocks[i], hash * 0xbf58476d1ce4e5b9 >> (64 - bitsPerHash*bitsInBlockBits)
}

func (b *bloom) has(hash uint64) bool {
	block, p := b.places(hash)
	for range bitsPerHash {
		if block[p>>6&7].Load()>>(p&63)&1 == 0 {
			return false
		}
		p >>= bitsInBlockBits
	}
	return true
}

func (b *bloom) add(hash uint64) {
	block, p := b.places(hash)
	for range bitsPerHash {
		block[p>>6&7].Or(1 << (p & 63))
		p >>= bitsInBlockBits
	}
	b.room--
}

// add puts a hash in.
func (f *filter) add(hash uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	if n == 0 || blooms[n-1].room <= 0 && n < maxBlooms {
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

// mayHave says whether a hash may be in.
func (f *filter) mayHave(hash uint64) bool {
	if !f.full.Load() {
		return true
	}
	if p := f.blooms.Load(); p != nil {
		for _, b := range *p {
			if b.has(hash) {
				return true
			}
		}
	}
	return false
}
