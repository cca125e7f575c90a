// Package cached caches the most frequent reads of a metadata engine in memory: buckets by name, and the newest
// versions of keys. It wraps an engine that sees every write to its store (core.SingleWriter), and passes all other
// calls through.
//
// # What callers see
//
// A *core.BucketInfo is shared: callers must not change it. Objects are cached in encoded form, which takes a third of
// the memory and has no pointers for the garbage collector to follow. Each lookup decodes a new copy, whose
// DataInfo.Refs and Sums are as old as the entry.
//
// # Never stale
//
// Entries do not expire: every hit extends the TTL of package ecache, so it could not bound staleness. The Apply that
// changes a key invalidates its entry. One race must be excluded: a reader reads the old row, the writer writes and
// invalidates, and the reader then stores the old row. So every key belongs to a seqlock, a lock with a sequence
// number. Before it writes, Apply makes the sequence of each seqlock that it needs odd and deletes the entries of its
// keys. When the write has returned, with or without an error, Apply makes the sequence even again. A reader notes the
// sequence before it reads, and stores the result only if the sequence is even and unchanged, under the lock. So while
// a key is being written it has no entry and cannot get one: all readers read from the engine, and none can see the new
// row first and then the old one from the cache.
//
// A change of content (which moves it, repairs it, marks it as damaged, or wraps its data key again) contains the
// DataID of the content, not the keys that refer to it. So the cache keeps notes of recent changes by DataID, and
// treats an entry that contradicts a note as a miss. When there are too many notes, it deletes every entry.
//
// # Bounds
//
// ecache counts entries, not bytes. So an entry larger than maxEntryBytes is not cached, and the maximum size of the
// cache is Options.Objects times maxEntryBytes. An object with one segment takes about 350 bytes. Missing keys are not
// cached: that would be just as safe, but lookups of many names that do not exist would evict useful entries.
// ReleaseMemory deletes all objects, and the next read of an object allocates the cache again.
package cached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orca-zhang/ecache"
	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// Options limits the size of the cache.
type Options struct {
	Objects int // the minimum number of objects to keep; 0: DefaultObjects
	Buckets int // the minimum number of buckets to keep; 0: DefaultBuckets
}

// The defaults of Options, and the maximum of each.
const (
	DefaultObjects = 65_536
	DefaultBuckets = 1_000
	MaxEntries     = 1_000_000
)

// The maximum sizes of entries: of an encoded object, and of a bucket. Every request looks up its bucket, so the limit
// for buckets allows for the longest tags and for many lifecycle rules. Most buckets are much smaller.
const (
	maxEntryBytes  = 1 << 10
	maxBucketBytes = 32 << 10
)

// maxMoved is the maximum number of notes about changed content. A note takes about 70 bytes.
const maxMoved = 50_000

// maxSegments is the maximum number of segments of an object that is encoded for an entry. With more segments the entry
// would be too large anyway.
const maxSegments = 16

const (
	lockCount = 4096 // a power of two; well above the size of a batch, so that keys rarely share a busy lock
	shards    = 64   // the shards of an ecache, each with a lock; a power of two
)

// Meta is a core.Meta that caches reads of another one.
type Meta struct {
	core.Meta // the engine

	objects atomic.Pointer[ecache.Cache] // encoded core.ObjectInfo by bucket and key (see objectKey)
	size    int                          // the number of entries of objects, except after ReleaseMemory
	resize  sync.Mutex                   // held while objects is replaced
	isSmall atomic.Bool                  // objects has minimal size: nothing was stored since New or ReleaseMemory
	buckets *ecache.Cache                // *core.BucketInfo by name

	locks      [lockCount]seqlock // the locks of objects, by the hash of the key in objects
	bucketLock seqlock            // the lock of all buckets

	movedMu sync.RWMutex // guards moved
	moved   map[core.DataID]note
	moves   atomic.Int32 // len(moved)

	objectUse, bucketUse use

	applying sync.Mutex // held by Apply; guards odd
	odd      []*seqlock // the locks whose sequence the Apply in progress has made odd
}

// note is the current state of content that changed; zero fields are unknown. A valid entry agrees with it.
type note struct {
	block  core.BlockID // the block of the first extent; zero: unknown
	offset int64        // the offset of the first extent, if block is set
	key    uint64       // the hash of the wrapped data key (see keyHash); 0: unknown
	damage damage
}

// noteOf returns the note about whole content in extents. Empty content has none.
func noteOf(extents []core.Extent) note {
	n := note{damage: whole}
	if len(extents) > 0 {
		n.block, n.offset = extents[0].Block, extents[0].Offset
	}
	return n
}

// damage is the mark of damaged content in a note.
type damage uint8

const (
	notNoted damage = iota
	whole
	damaged
)

func damageOf(info *core.DataInfo) damage {
	if info.Damaged {
		return damaged
	}
	return whole
}

// keyHash returns a hash of a wrapped data key that is never 0.
func keyHash(wrapped []byte) uint64 { return xxh3.Hash(wrapped) | 1 }

// seqlock is a lock whose sequence counts the beginnings and ends of writes to its keys.
type seqlock struct {
	mu  sync.Mutex // guards seq; also held while an entry is stored, so that seq does not change
	seq uint64     // odd while a write is in progress
}

// New returns a cache of engine. It fails with InvalidArgument if the engine is not a core.SingleWriter or an option is
// out of range.
func New(engine core.Meta, o Options) (*Meta, error) {
	if _, ok := core.As[core.SingleWriter](engine); !ok {
		return nil, core.E("cached.New", core.InvalidArgument, errors.New("this metadata engine cannot be cached, because others may write to its database"))
	}
	if o.Objects < 0 || o.Objects > MaxEntries || o.Buckets < 0 || o.Buckets > MaxEntries {
		return nil, core.E("cached.New", core.InvalidArgument, fmt.Errorf("a cache of %d objects and %d buckets: each number must be between 0 and %d", o.Objects, o.Buckets, MaxEntries))
	}
	m := &Meta{
		Meta: engine, size: cmp.Or(o.Objects, DefaultObjects), buckets: newCache(cmp.Or(o.Buckets, DefaultBuckets)),
		moved: map[core.DataID]note{},
	}
	m.objects.Store(newCache(0))
	m.isSmall.Store(true)
	return m, nil
}

// ReleaseMemory implements core.MemoryReleaser: it deletes the cached objects.
func (m *Meta) ReleaseMemory(idle time.Duration) {
	m.resizeObjects(0, true)
	if r, ok := core.As[core.MemoryReleaser](m.Meta); ok {
		r.ReleaseMemory(idle)
	}
}

// resizeObjects replaces the cache of objects by an empty one, unless isSmall says that it has the right size already.
// An entry that is stored at the same time may be lost. A stale entry is impossible: entries are stored and deleted
// while the lock of the key is held, in the cache that is current then.
func (m *Meta) resizeObjects(entries int, small bool) {
	m.resize.Lock()
	defer m.resize.Unlock()
	if m.isSmall.Load() != small {
		m.objects.Store(newCache(entries))
		m.isSmall.Store(small)
	}
}

// putObject stores an entry in objects. The caller holds the lock of the key. ecache allocates memory for all entries at
// once, so the first entry creates a cache of full size.
func (m *Meta) putObject(k string, encoded []byte) {
	if m.isSmall.Load() {
		m.resizeObjects(m.size, false)
	}
	m.objects.Load().PutBytes(k, encoded)
}

// Unwrap returns the engine, for core.As. Meta also implements every optional interface that changes the engine, so
// that such changes invalidate entries.
func (m *Meta) Unwrap() core.Meta { return m.Meta }

// newCache returns an ecache whose entries are kept until they are deleted or evicted.
func newCache(entries int) *ecache.Cache {
	return ecache.NewLRUCache(shards, uint16(max(2, (entries+shards-1)/shards)))
}

// objectKey returns the name of a key in the cache of objects. It costs one allocation.
func objectKey(bucket core.BucketID, key string) string {
	var number [13]byte
	return string(strconv.AppendUint(number[:0], uint64(bucket), 36)) + "/" + key
}

func (m *Meta) lockOf(objectKey string) *seqlock {
	return &m.locks[xxh3.HashString(objectKey)%lockCount]
}

// begin returns the sequence. Readers call it before they read.
func (l *seqlock) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// store calls put to cache a row that was read after begin returned seq, unless a write was in progress then or has
// begun since.
func (l *seqlock) store(seq uint64, put func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == seq && seq%2 == 0 || mutant.Is("no-cache-gate") {
		put()
	}
}

// Snapshot implements core.Snapshotter if the engine does.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	if s, ok := core.As[core.Snapshotter](m.Meta); ok {
		return s.Snapshot(ctx, emit)
	}
	return core.E("cached.Snapshot", core.Unsupported, errors.New("the metadata engine does not support snapshots"))
}

// Restore implements core.Snapshotter if the engine does. The engine is empty, so any entries were cached during a
// failed restore.
func (m *Meta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	s, ok := core.As[core.Snapshotter](m.Meta)
	if !ok {
		return core.E("cached.Restore", core.Unsupported, errors.New("the metadata engine does not support snapshots"))
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.end()
	m.dropAll()
	return s.Restore(ctx, next)
}

// Reset implements core.Snapshotter if the engine does.
func (m *Meta) Reset(ctx context.Context) error {
	s, ok := core.As[core.Snapshotter](m.Meta)
	if !ok {
		return core.E("cached.Reset", core.Unsupported, errors.New("the metadata engine does not support snapshots"))
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.end()
	m.dropAll()
	return s.Reset(ctx)
}

// Sync implements core.Syncer. If the engine does not implement it, all applied changes are durable.
func (m *Meta) Sync(ctx context.Context) (core.State, error) {
	if s, ok := core.As[core.Syncer](m.Meta); ok {
		return s.Sync(ctx)
	}
	return m.State(ctx)
}

// Bucket implements core.Meta. The BucketInfo is shared.
func (m *Meta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	if v, ok := m.buckets.Get(name); ok {
		m.bucketUse.hits.Add(1)
		return v.(*core.BucketInfo), nil
	}
	m.bucketUse.misses.Add(1)
	seq := m.bucketLock.begin()
	b, err := m.Meta.Bucket(ctx, name)
	if err == nil && bucketBytes(b) <= maxBucketBytes {
		m.bucketLock.store(seq, func() { m.buckets.Put(name, b) })
	}
	return b, err
}

// Object implements core.Meta.
func (m *Meta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	if v != core.Current {
		return m.Meta.Object(ctx, bucket, key, v)
	}
	k := objectKey(bucket, key)
	if encoded, ok := m.objects.Load().GetBytes(k); ok {
		o := &core.ObjectInfo{Bucket: bucket, Key: key, Latest: true}
		if err := encoding.DecodeResolvedObject(encoded, o); err != nil || m.moves.Load() == 0 || !m.hasMoved(o) {
			m.objectUse.hits.Add(1)
			return o, err
		}
	}
	m.objectUse.misses.Add(1)
	l := m.lockOf(k)
	seq := l.begin()
	o, err := m.Meta.Object(ctx, bucket, key, v)
	if err == nil && len(o.Segments) <= maxSegments {
		var buf [maxEntryBytes]byte
		if encoded := encoding.AppendResolvedObject(buf[:0], o); len(encoded) <= maxEntryBytes {
			l.store(seq, func() { m.putObject(k, slices.Clone(encoded)) })
		}
	}
	return o, err
}

// Apply implements core.Meta.
func (m *Meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.end()
	for _, c := range changes {
		m.begin(c)
	}
	results, err := m.Meta.Apply(ctx, changes)
	if err == nil {
		m.noteMoves(changes, results)
	}
	return results, err
}

// noteMoves updates the notes about content after changes were applied.
func (m *Meta) noteMoves(changes []core.Change, results []core.Result) {
	for i, c := range changes {
		if results[i].Err != nil || results[i].Skipped {
			continue
		}
		switch c := c.(type) {
		case *core.MoveData:
			m.note(c.Data, noteOf(c.To))
		case *core.RepairData:
			n := noteOf(c.Info.Extents)
			if len(c.Info.DataKey) > 0 {
				n.key = keyHash(c.Info.DataKey)
			}
			m.note(c.Info.ID, n)
		case *core.RewrapData:
			m.note(c.Data, note{key: keyHash(c.DataKey)})
		case *core.Unshare:
			m.note(c.Data, note{damage: damaged})
		}
	}
}

// note merges n into the note about content. If there are too many notes, it deletes all of them, and every entry.
func (m *Meta) note(id core.DataID, n note) {
	m.movedMu.Lock()
	full := len(m.moved) >= maxMoved
	old := m.moved[id]
	if n.block.IsZero() {
		n.block, n.offset = old.block, old.offset
	}
	if n.key == 0 {
		n.key = old.key
	}
	if n.damage == notNoted {
		n.damage = old.damage
	}
	m.moved[id] = n
	m.moves.Store(int32(len(m.moved)))
	m.movedMu.Unlock()
	if full {
		m.dropAll() // reads in progress will store nothing, so the notes are no longer needed
		m.movedMu.Lock()
		clear(m.moved)
		m.moves.Store(0)
		m.movedMu.Unlock()
	}
}

// hasMoved reports whether a note contradicts the content of o.
func (m *Meta) hasMoved(o *core.ObjectInfo) bool {
	m.movedMu.RLock()
	defer m.movedMu.RUnlock()
	for i := range o.Segments {
		info := o.Segments[i].Info
		n, ok := m.moved[info.ID]
		if !ok {
			continue
		}
		if !n.block.IsZero() && (info.Extents[0].Block != n.block || info.Extents[0].Offset != n.offset) ||
			n.key != 0 && keyHash(info.DataKey) != n.key || n.damage != notNoted && damageOf(info) != n.damage {
			return true
		}
	}
	return false
}

// begin makes the sequences of the keys that c changes odd, and deletes their entries.
func (m *Meta) begin(c core.Change) {
	switch c := c.(type) {
	case *core.PutObject:
		m.dropObject(c.Object.Bucket, c.Object.Key)
	case *core.DeleteObject:
		m.dropObject(c.Bucket, c.Key)
	case *core.UpdateObject:
		m.dropObject(c.Bucket, c.Key)
	case *core.MoveObject:
		m.dropObject(c.From.Bucket, c.From.Key)
		m.dropObject(c.Bucket, c.Key)
	case *core.CompleteUpload:
		m.dropObject(c.Object.Bucket, c.Object.Key)
	case *core.PutBucket:
		m.drop(&m.bucketLock, func() { m.buckets.Del(c.Info.Name) })
	case *core.DeleteBucket:
		m.dropBuckets()
	case *core.CreateUpload, *core.PutPart, *core.AbortUpload, *core.PutRecord, *core.SetReplayFrom, *core.Synced, *core.Void,
		*core.FreeGarbage, *core.DropParts:
		// these change nothing that is cached: no bucket, and no newest version of a key
	case *core.MoveData, *core.RepairData, *core.RewrapData, *core.Unshare: // see noteMoves
	default: // a kind of change that is unknown to this package
		m.dropAll()
	}
}

// dropAll makes every sequence odd and deletes every entry.
func (m *Meta) dropAll() {
	for i := range m.locks {
		m.drop(&m.locks[i], func() {})
	}
	objects := m.objects.Load() // nothing is stored while every sequence is odd
	for _, k := range keys(objects) {
		objects.Del(k)
	}
	m.dropBuckets()
}

func (m *Meta) dropObject(bucket core.BucketID, key string) {
	k := objectKey(bucket, key)
	m.drop(m.lockOf(k), func() { m.objects.Load().Del(k) })
}

func (m *Meta) dropBuckets() {
	m.drop(&m.bucketLock, func() {
		for _, name := range keys(m.buckets) {
			m.buckets.Del(name)
		}
	})
}

// drop makes the sequence of l odd, so that none of its keys is cached until end, and then calls del, which deletes
// entries.
func (m *Meta) drop(l *seqlock, del func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq%2 == 0 {
		l.seq++
		m.odd = append(m.odd, l)
	}
	del()
}

// end makes the sequences that begin and drop have made odd even again.
func (m *Meta) end() {
	for _, l := range m.odd {
		l.mu.Lock()
		l.seq++
		l.mu.Unlock()
	}
	clear(m.odd)
	m.odd = m.odd[:0]
}

func keys(c *ecache.Cache) []string {
	var found []string
	c.Walk(func(key string, _ *interface{}, _ []byte, _ int64) bool {
		found = append(found, key)
		return true
	})
	return found
}

func bucketBytes(b *core.BucketInfo) int {
	return 200 + len(b.Name) + len(b.Owner) + len(b.Region) + attrBytes(b.Attrs)
}

func attrBytes(attrs []core.Attr) int {
	n := 0
	for _, a := range attrs {
		n += 32 + len(a.Name) + len(a.Value)
	}
	return n
}
