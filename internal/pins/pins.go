// Package pins counts the claims of readers on content that they have not read yet, so that reclaim keeps exactly that
// content.
//
// # The protocol
//
// A reader looks up in the metadata where content is stored, and reads it later. In between, the content may be
// deleted, and reclaim may delete its block. Two things prevent that:
//
//   - An epoch (package epoch) covers the short time from the lookup until the reader has read all that it needs or
//     has pinned what it still needs. No client can prolong it: in an epoch, a reader waits only for the drive.
//   - A pin covers the rest. It refers to one thing, lasts as long as the client takes, and delays nothing else.
//
// The reader:
//
//  1. enters the epoch;
//  2. looks up the content;
//  3. reads the first bytes, and pins what it has to read after them (nothing, for small content);
//  4. leaves the epoch;
//  5. reads the rest, and unpins each thing after reading its last byte, before it waits for the client again.
//
// A long list of content is read page by page. The reader pins the list as a whole, so that what the list refers to is
// kept. The blocks may still change, because compaction moves content. So each page is another lookup, with steps 1 to
// 4.
//
// Reclaim:
//
//  1. proves that nothing in the metadata refers to a thing, and that nothing can refer to it again;
//  2. waits until every reader that entered the epoch before now has left it;
//  3. calls Pinned, and deletes the thing if no reader pins it. Otherwise it keeps the thing and tries again later.
//
// Why this is enough: a reader that can pin the thing has found it in the metadata, so its lookup came before the proof
// was complete, and it entered its epoch before the wait began. When the wait ends, that reader has either pinned the
// thing or will never need it. So if Pinned returns false after the wait, it would return false forever, and no lock is
// needed between the check and the deletion. If the last pin is removed during the call of Pinned, either result is
// correct: that reader has read its last byte.
//
// Lookups in a cache of the metadata are safe too, if the cache never returns what an earlier write has deleted (see
// package cached).
//
// # Handles that stay open
//
// A file layer keeps a handle open as long as its client wants, even after the file was deleted. Such a handle pins
// content and is never in an epoch between two calls: it looks up the version once, like a reader, and keeps its pins
// until it is closed. Pinned content remains readable where the handle found it: compaction may copy it, and a deletion
// may drop the last reference, but the old block is kept. A handle on a long list pins the list, and looks up each page
// in a separate epoch. An epoch that lasted as long as a handle would stop all reclaim.
//
// One process: a table knows the readers of this process. If several servers share blocks, another one may delete what
// is pinned here. Then a reader finds that the block is missing, and reads the metadata again, once (see package
// content).
//
// # Costs
//
// A table has one entry for each thing that is pinned and one for each reader that pins something. The caller bounds
// how much one reader pins at once. Each reader uses one of several maps, each with its own lock, so readers rarely
// compete. Pinned and Oldest check all maps, but only reclaim and its status call them.
package pins

import (
	"sync"
	"sync/atomic"
	"time"
)

// shardCount is a power of two, and a few times the number of processors that readers run on.
const shardCount = 32

// Table contains the pins of all readers of a process. The zero value is ready to use.
type Table[K comparable] struct {
	next   atomic.Uint32 // the shard of the next reader
	shards [shardCount]shard[K]
}

type shard[K comparable] struct {
	mu      sync.Mutex
	pins    map[K]int // number of pins of each thing, above 0
	readers map[*Reader[K]]struct{}
	_       [40]byte // to the end of a cache line
}

// Reader holds the pins of one reader. The zero value pins nothing. Only one goroutine may use it, and it must not be
// copied.
type Reader[K comparable] struct {
	shard *shard[K] // nil if it pins nothing
	since time.Time // when the first of its current pins was set
	count int       // number of pins
}

// Pin pins things until Unpin; a thing that is pinned twice must be unpinned twice. The caller must be in an epoch
// that began before it looked them up. All calls for one reader must use the same table.
func (r *Reader[K]) Pin(t *Table[K], things ...K) {
	if len(things) == 0 {
		return
	}
	isNew := r.shard == nil
	if isNew {
		r.shard, r.since = &t.shards[t.next.Add(1)%shardCount], time.Now()
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil {
		s.pins, s.readers = map[K]int{}, map[*Reader[K]]struct{}{}
	}
	if isNew {
		s.readers[r] = struct{}{}
	}
	for _, k := range things {
		s.pins[k]++
	}
	r.count += len(things)
}

// Unpin removes one pin from each of things, all of which the reader has pinned.
func (r *Reader[K]) Unpin(things ...K) {
	if len(things) == 0 {
		return
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range things {
		if s.pins[k]--; s.pins[k] == 0 {
			delete(s.pins, k)
		}
	}
	if r.count -= len(things); r.count == 0 {
		delete(s.readers, r)
		r.shard = nil
	}
}

// Pinned reports whether any reader pins k.
func (t *Table[K]) Pinned(k K) bool {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		_, pinned := s.pins[k]
		s.mu.Unlock()
		if pinned {
			return true
		}
	}
	return false
}

// Oldest returns the number of readers that pin anything, and the time at which the first of them began to, or the zero
// time if there are no such readers.
func (t *Table[K]) Oldest() (readers int, since time.Time) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		readers += len(s.readers)
		for r := range s.readers {
			if since.IsZero() || r.since.Before(since) {
				since = r.since
			}
		}
		s.mu.Unlock()
	}
	return readers, since
}
