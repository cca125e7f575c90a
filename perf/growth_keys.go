package perf

import (
	"fmt"
	"slices"
)

// Order is the order in which the scenario growth puts its keys.
type Order string

// The orders. A B-tree appends the keys of one ascending sequence to its last page. Several sequences use a page each,
// and almost every random key is on a different page.
const (
	Sequential  Order = "sequential"  // one ascending sequence, which all connections share
	Random      Order = "random"      // uniformly random keys
	Interleaved Order = "interleaved" // a separate ascending sequence for each connection; they grow side by side
)

// Orders returns the orders.
func Orders() []Order { return []Order{Sequential, Random, Interleaved} }

// sequenceBits is the number of low bits of an object's ID that contain its number in its sequence. The higher bits
// contain the number of the sequence.
const sequenceBits = 40

// keyspace numbers and names the objects of a growing store. The ID of an object is also the number of its body.
type keyspace struct {
	order Order
	// next contains the number of objects in each sequence; all orders except Interleaved have one sequence. While a
	// load runs, each element belongs to one worker with Interleaved, and does not change with the other orders.
	next []uint64
}

func newKeyspace(order Order, workers int) *keyspace {
	if order != Interleaved {
		workers = 1
	}
	return &keyspace{order, make([]uint64, workers)}
}

// take returns the ID of a new object, for request n of a load with shared numbers.
func (k *keyspace) take(w *Worker, n uint64) uint64 {
	if k.order != Interleaved {
		return k.next[0] + n
	}
	id := uint64(w.ID)<<sequenceBits | k.next[w.ID]
	k.next[w.ID]++
	return id
}

// taken records that a load that took n IDs has ended.
func (k *keyspace) taken(n uint64) {
	if k.order != Interleaved {
		k.next[0] += n
	}
}

// mark returns a mark, with which pick and count consider only newer objects.
func (k *keyspace) mark() []uint64 { return slices.Clone(k.next) }

// count returns the number of objects since a mark; a nil mark precedes the first object.
func (k *keyspace) count(mark []uint64) (n uint64) {
	for i := range k.next {
		n += k.next[i] - k.start(mark, i)
	}
	return n
}

// pick returns the ID of object x of the objects since a mark, with x from 0 to count(mark)-1.
func (k *keyspace) pick(mark []uint64, x uint64) uint64 {
	for i, next := range k.next {
		start := k.start(mark, i)
		if x < next-start {
			return uint64(i)<<sequenceBits | (start + x)
		}
		x -= next - start
	}
	panic(fmt.Sprintf("perf: pick: index out of range: there are %d objects", k.count(mark)))
}

// start returns the number of the first object of sequence i since a mark.
func (*keyspace) start(mark []uint64, i int) uint64 {
	if mark == nil {
		return 0
	}
	return mark[i]
}

// name returns the key of an object. All keys are 16 bytes long, so runs differ only in the order of their keys.
func (k *keyspace) name(id uint64) string {
	switch k.order {
	case Random:
		return fmt.Sprintf("%016x", scramble(id))
	case Interleaved:
		return fmt.Sprintf("%03d/%012d", id>>sequenceBits, id&(1<<sequenceBits-1))
	}
	return fmt.Sprintf("%016d", id)
}

// scramble returns a pseudorandom number, a different one for each n: it is the finalizer of SplitMix64, a permutation
// of the 64-bit numbers.
func scramble(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
