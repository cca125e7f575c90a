package limit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shards is the number of parts of a table, each with a lock.
	shards = 16

	// maxEntries is the maximum number of entries of a shard (tests set less), of about 250 bytes each.
	maxEntries = 4096

	// looks is the number of entries that are checked for removal before a new one is added.
	looks = 8
)

// table has the buckets of the senders of one kind.
//
// It is bounded. An entry is removed only if it is full and not in use, which is the state of a new one: nobody can get
// rid of a debt by filling the table. If there is no such entry, further senders share one entry, and its limits.
type table[K comparable] struct {
	requests, bytes size
	most            int // the maximum number of entries of a shard
	seed            maphash.Seed
	shards          [shards]shard[K]
}

type shard[K comparable] struct {
	mu      sync.Mutex // guards entries
	entries map[K]*entry
	others  *entry // shared by those who do not fit
}

// entry has the buckets of a sender.
type entry struct {
	users           atomic.Int64 // requests in progress
	requests, bytes bucket
}

// size is the size of a bucket, in tokens. A rate of 0 is no limit.
type size struct{ rate, burst float64 }

// bucket is a token bucket. A new one is full.
type bucket struct {
	mu    sync.Mutex // guards the fields below
	spent float64    // tokens that are missing; more than the burst if the bucket is in debt
	at    time.Time  // of spent
}

// newTable returns a table, or nil if both limits are off.
func newTable[K comparable](rate, bandwidth int64) *table[K] {
	if rate <= 0 && bandwidth <= 0 {
		return nil
	}
	t := &table[K]{
		requests: size{float64(max(rate, 0)), float64(max(rate, 1))},
		bytes:    size{float64(max(bandwidth, 0)), float64(max(bandwidth, maxChunk))},
		most:     maxEntries,
		seed:     maphash.MakeSeed(),
	}
	for i := range t.shards {
		t.shards[i].entries, t.shards[i].others = map[K]*entry{}, &entry{}
	}
	return t
}

// get returns the entry of a sender, and counts a user of it.
func (t *table[K]) get(k K, now time.Time) *entry {
	s := &t.shards[maphash.Comparable(t.seed, k)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[k]
	if e == nil {
		t.sweep(s, now)
		if e = s.others; len(s.entries) < t.most {
			e = &entry{}
			s.entries[k] = e
		}
	}
	e.users.Add(1)
	return e
}

// sweep removes some of the entries that are like new. The caller holds s.mu, so none of them gets a user.
func (t *table[K]) sweep(s *shard[K], now time.Time) {
	n := looks
	for k, e := range s.entries { // in random order
		if n--; n < 0 {
			return
		}
		if e.users.Load() == 0 && e.requests.isFull(t.requests, now) && e.bytes.isFull(t.bytes, now) {
			delete(s.entries, k)
		}
	}
}

// admit counts a request, or returns an *Error if the sender has none left or is deep in debt.
func (t *table[K]) admit(e *entry, now time.Time, whose string) error {
	if debt := e.bytes.spend(t.bytes, 0, now); debt > maxDebt {
		return &Error{debt - maxDebt, "bytes of this " + whose}
	}
	if wait := e.requests.take(t.requests, now); wait > 0 {
		return &Error{wait, "requests of this " + whose}
	}
	return nil
}

// refill adds the tokens of the time that has passed. The caller holds b.mu.
func (b *bucket) refill(s size, now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.spent = max(0, b.spent-passed*s.rate)
		b.at = now
	}
}

// take takes one token, or returns the time until there is one.
func (b *bucket) take(s size, now time.Time) time.Duration {
	if s.rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(s, now)
	if missing := b.spent + 1 - s.burst; missing > 0 {
		return max(time.Duration(missing/s.rate*float64(time.Second)), 1)
	}
	b.spent++
	return 0
}

// spend takes n tokens, even if that many are not there, and returns the time until the debt is paid.
func (b *bucket) spend(s size, n float64, now time.Time) time.Duration {
	if s.rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(s, now)
	b.spent += n
	return max(0, time.Duration((b.spent-s.burst)/s.rate*float64(time.Second)))
}

// isFull reports whether a bucket is like a new one.
func (b *bucket) isFull(s size, now time.Time) bool {
	if s.rate <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(s, now)
	return b.spent == 0
}
