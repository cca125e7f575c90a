package sqlite

import (
	"slices"

	"orcas/core"
)

// hashBuffer is a set of pairs in memory, with one pair for a hash and a DataID.
type hashBuffer struct {
	first map[uint64]hashPair   // by hash
	more  map[uint64][]hashPair // the other pairs of hashes that have several
}

// newHashBuffer returns an empty buffer with room for size hashes.
func newHashBuffer(size int) *hashBuffer {
	return &hashBuffer{first: make(map[uint64]hashPair, size), more: map[uint64][]hashPair{}}
}

// get returns the pair with the hash and the DataID of p.
func (b *hashBuffer) get(p hashPair) (was hashPair, ok bool) {
	if was, ok = b.first[p.hash]; !ok || was.data == p.data {
		return was, ok
	}
	for _, was := range b.more[p.hash] {
		if was.data == p.data {
			return was, true
		}
	}
	return hashPair{}, false
}

// put adds a pair. It replaces the one with the same hash and DataID.
func (b *hashBuffer) put(p hashPair) {
	if was, ok := b.first[p.hash]; !ok || was.data == p.data {
		b.first[p.hash] = p
		return
	}
	others := b.more[p.hash]
	for i := range others {
		if others[i].data == p.data {
			others[i] = p
			return
		}
	}
	b.more[p.hash] = append(others, p)
}

// drop removes the pair with the hash and the DataID of p.
func (b *hashBuffer) drop(p hashPair) {
	others := b.more[p.hash]
	n := len(others) - 1
	switch {
	case b.first[p.hash].data != p.data:
		others = slices.DeleteFunc(others, func(other hashPair) bool { return other.data == p.data })
	case n >= 0:
		b.first[p.hash], others = others[n], others[:n]
	default:
		delete(b.first, p.hash)
	}
	if len(others) == 0 {
		delete(b.more, p.hash)
	} else {
		b.more[p.hash] = others
	}
}

// size returns the number of pairs.
func (b *hashBuffer) size() int {
	n := len(b.first)
	for _, others := range b.more {
		n += len(others)
	}
	return n
}

// sorted returns all pairs in the order of a run.
func (b *hashBuffer) sorted() []hashPair {
	pairs := make([]hashPair, 0, len(b.first))
	for _, p := range b.first {
		pairs = append(pairs, p)
	}
	for _, others := range b.more {
		pairs = append(pairs, others...)
	}
	slices.SortFunc(pairs, comparePairs)
	return pairs
}

// each calls fn with the hash of each pair, once per hash.
func (b *hashBuffer) each(fn func(hash uint64)) {
	for hash := range b.first {
		fn(hash)
	}
}

// find appends the IDs of content with a hash to ids.
func (b *hashBuffer) find(hash uint64, ids []core.DataID) []core.DataID {
	if p, ok := b.first[hash]; ok && !p.gone {
		ids = append(ids, p.data)
	}
	for _, p := range b.more[hash] {
		if !p.gone {
			ids = append(ids, p.data)
		}
	}
	return ids
}
