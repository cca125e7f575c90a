// Package cached keeps the hot reads of a metadata engine in memory: buckets by name, and the newest version of a key. It
// stands before an engine that sees every write to its store (core.SingleWriter), and everything else goes through to it.
//
// # What may be seen
//
// A *core.BucketInfo is shared: callers must not change it. Objects are kept encoded, a third of their size and without pointers for
// the collector to follow, and each look-up decodes one of its own. DataInfo.Refs and Sums in it are as old as the entry.
//
// # Never stale
//
// Time plays no part: package ecache's time to live slides with every hit, so it could not bound staleness. An entry is
// dropped by key, by the Apply that touches it. What must not happen is that a reader reads the old row, the writer writes and
// drops, and the reader then stores the old row. So every key belongs to a gate, which counts: Apply makes the count of each
// gate that it touches odd and drops the keys before it writes, and makes it even again when the write has returned, however it
// returned. A reader notes the count before it reads, and stores what it read only where the count is even and still the
// same, under the gate's lock. So while a key is being written no entry of it exists and none can be made: all readers
// see what the engine shows them, and none can see the new row and then, from here, the old one.
//
// Content that moves to another block (core.MoveData) or whose data key is wrapped anew (core.RewrapData) is named by its number, not by its keys. So the numbers of what
// moved lately are kept with what an entry has to say now, and an entry that says otherwise is no entry. When there are too many of them, every entry is dropped.
//
// # Bounds
//
// ecache counts entries, not bytes. So an entry larger than maxEntryBytes is not kept; the largest cache is
// Options.Objects times that. An object of one content takes about 350 bytes. That a key does not exist is not kept: it would be as safe, but a scan over names
// that nobody has would push out what is used.
package cached

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/orca-zhang/ecache"
	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/mutant"
)

// Options bounds the cache.
type Options struct {
	Objects int // entries for objects, at least; 0: DefaultObjects
	Buckets int // entries for buckets, at least; 0: DefaultBuckets
}

// The defaults of Options, and the most that either may be.
const (
	DefaultObjects = 65_536
	DefaultBuckets = 1_000
	MaxEntries     = 1_000_000
)

// What an entry may hold, of an object as it is encoded. Every request looks its bucket up, so the limit for buckets leaves room for the
// longest tags and for many rules; few buckets come near it.
const (
	maxEntryBytes  = 1 << 10
	maxBucketBytes = 32 << 10
)

// maxMoved is how many notes of moved content are kept, of about 50 bytes each.
const maxMoved = 50_000

// maxSegments is how many segments an object may have to be encoded for an entry at all.
const maxSegments = 16

const (
	gateCount = 4096 // a power of two, well above the changes of a batch: few readers meet a gate that another key made odd
	shards    = 64   // of an ecache, each with a lock; a power of two
)

// Meta is a core.Meta before another.
type Meta struct {
	core.Meta // the engine

	objects *ecache.Cache // bucket/key (see objectKey): encoded core.ObjectInfo
	buckets *ecache.Cache // name: *core.BucketInfo

	gates      [gateCount]gate // of objects, by the hash of their key in objects
	bucketGate gate            // of all buckets

	movedMu sync.RWMutex // guards moved
	moved   map[core.DataID]note
	moves   atomic.Int32 // len(moved)

	applying sync.Mutex // held by Apply; guards odd
	odd      []*gate    // that the Apply in progress has to make even
}

// note is what an entry has to say of content.
type note struct {
	block core.BlockID // where it stands; zero: anywhere
	key   uint64       // of its wrapped data key (see keyHash); 0: any
}

// keyHash tells wrapped data keys from each other.
func keyHash(wrapped []byte) uint64 { return xxh3.Hash(wrapped) | 1 }

// gate counts the beginnings and ends of writes to its keys.
type gate struct {
	mu    sync.Mutex // guards count, and that an entry is stored only while it is what the reader noted
	count uint64     // odd: a write is in progress
}

// New returns a cache before engine. It is InvalidArgument where the engine is not a core.SingleWriter, or where an option is
// out of range.
func New(engine core.Meta, o Options) (*Meta, error) {
	if _, ok := engine.(core.SingleWriter); !ok {
		return nil, core.E("cached.New", core.InvalidArgument, errors.New("others may write to this store"))
	}
	if o.Objects < 0 || o.Objects > MaxEntries || o.Buckets < 0 || o.Buckets > MaxEntries {
		return nil, core.E("cached.New", core.InvalidArgument, errors.New("number of entries out of range"))
	}
	if o.Objects == 0 {
		o.Objects = DefaultObjects
	}
	if o.Buckets == 0 {
		o.Buckets = DefaultBuckets
	}
	return &Meta{
		Meta: engine, objects: newCache(o.Objects), buckets: newCache(o.Buckets), moved: map[core.DataID]note{},
	}, nil
}

// SingleWriter implements core.SingleWriter, as the engine does.
func (m *Meta) SingleWriter() {}

// newCache makes an ecache whose entries stay until they are dropped or pushed out.
func newCache(entries int) *ecache.Cache {
	return ecache.NewLRUCache(shards, uint16(max(2, (entries+shards-1)/shards)))
}

// objectKey is what objects calls a key; it costs one allocation.
func objectKey(bucket core.BucketID, key string) string {
	var number [13]byte
	return string(strconv.AppendUint(number[:0], uint64(bucket), 36)) + "/" + key
}

func (m *Meta) gate(objectKey string) *gate { return &m.gates[xxh3.HashString(objectKey)%gateCount] }

// note returns the count before a read.
func (g *gate) note() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// store keeps what was read after note returned count, where no write has begun since or was in progress.
func (g *gate) store(count uint64, put func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == count && count%2 == 0 || mutant.Is("no-cache-gate") {
		put()
	}
}

// Checkpoint implements core.Checkpointer, where the engine does; else it does nothing.
func (m *Meta) Checkpoint(ctx context.Context) error {
	if c, ok := m.Meta.(core.Checkpointer); ok {
		return c.Checkpoint(ctx)
	}
	return nil
}

// Snapshot implements core.Snapshotter, where the engine does.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	if s, ok := m.Meta.(core.Snapshotter); ok {
		return s.Snapshot(ctx, emit)
	}
	return core.E("cached.Snapshot", core.Unsupported, errors.New("the engine makes no snapshots"))
}

// Restore implements core.Snapshotter, where the engine does. Nothing is cached of an empty engine but what a failed try showed.
func (m *Meta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	s, ok := m.Meta.(core.Snapshotter)
	if !ok {
		return core.E("cached.Restore", core.Unsupported, errors.New("the engine restores no snapshots"))
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.end()
	m.dropAll()
	return s.Restore(ctx, next)
}

// Reset implements core.Snapshotter, where the engine does.
func (m *Meta) Reset(ctx context.Context) error {
	s, ok := m.Meta.(core.Snapshotter)
	if !ok {
		return core.E("cached.Reset", core.Unsupported, errors.New("the engine restores no snapshots"))
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	defer m.end()
	m.dropAll()
	return s.Reset(ctx)
}

// Sync implements core.Syncer, where the engine does; else everything that was applied is durable.
func (m *Meta) Sync(ctx context.Context) (core.State, error) {
	if s, ok := m.Meta.(core.Syncer); ok {
		return s.Sync(ctx)
	}
	return m.State(ctx)
}

// Bucket implements core.Meta. The BucketInfo is shared.
func (m *Meta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	if v, ok := m.buckets.Get(name); ok {
		return v.(*core.BucketInfo), nil
	}
	count := m.bucketGate.note()
	b, err := m.Meta.Bucket(ctx, name)
	if err == nil && bucketBytes(b) <= maxBucketBytes {
		m.bucketGate.store(count, func() { m.buckets.Put(name, b) })
	}
	return b, err
}

// Object implements core.Meta.
func (m *Meta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	if v != core.Current {
		return m.Meta.Object(ctx, bucket, key, v)
	}
	k := objectKey(bucket, key)
	if encoded, ok := m.objects.GetBytes(k); ok {
		o := &core.ObjectInfo{Bucket: bucket, Key: key, Latest: true}
		if err := core.DecodeResolvedObject(encoded, o); err != nil || m.moves.Load() == 0 || !m.hasMoved(o) {
			return o, err
		}
	}
	g := m.gate(k)
	count := g.note()
	o, err := m.Meta.Object(ctx, bucket, key, v)
	if err == nil && len(o.Segments) <= maxSegments {
		var room [maxEntryBytes]byte
		if encoded := core.AppendResolvedObject(room[:0], o); len(encoded) <= maxEntryBytes {
			g.store(count, func() { m.objects.PutBytes(k, slices.Clone(encoded)) })
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

// noteMoves keeps where content stands now, and how its data key is wrapped. Too many notes are forgotten, with everything that was read before.
func (m *Meta) noteMoves(changes []core.Change, results []core.Result) {
	for i, c := range changes {
		if results[i].Err != nil || results[i].Skipped {
			continue
		}
		switch c := c.(type) {
		case *core.MoveData:
			if len(c.To) > 0 {
				m.note(c.Data, note{block: c.To[0].Block})
			}
		case *core.RewrapData:
			m.note(c.Data, note{key: keyHash(c.DataKey)})
		}
	}
}

// note adds to what is known of content.
func (m *Meta) note(id core.DataID, n note) {
	m.movedMu.Lock()
	full := len(m.moved) >= maxMoved
	old := m.moved[id]
	if n.block.IsZero() {
		n.block = old.block
	}
	if n.key == 0 {
		n.key = old.key
	}
	m.moved[id] = n
	m.moves.Store(int32(len(m.moved)))
	m.movedMu.Unlock()
	if full {
		m.dropAll() // what is being read is not stored any more, so the notes are not needed
		m.movedMu.Lock()
		clear(m.moved)
		m.moves.Store(0)
		m.movedMu.Unlock()
	}
}

// hasMoved says whether some content of o is not any more as o says.
func (m *Meta) hasMoved(o *core.ObjectInfo) bool {
	m.movedMu.RLock()
	defer m.movedMu.RUnlock()
	for i := range o.Segments {
		info := o.Segments[i].Info
		n, ok := m.moved[info.ID]
		if ok && (!n.block.IsZero() && info.Extents[0].Block != n.block || n.key != 0 && keyHash(info.DataKey) != n.key) {
			return true
		}
	}
	return false
}

// begin drops what c touches and closes its gates.
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
		m.drop(&m.bucketGate, m.buckets, c.Info.Name)
	case *core.DeleteBucket:
		m.drop(&m.bucketGate, m.buckets, keys(m.buckets)...)
	case *core.CreateUpload, *core.PutPart, *core.AbortUpload, *core.PutRecord, *core.SetFloor, *core.Synced, *core.Void,
		*core.FreeGarbage, *core.DropParts:
		// nothing that is kept here: a key of the bucket, or its newest version
	case *core.MoveData, *core.RewrapData: // see noteMoves
	default: // one that this package does not know
		m.dropAll()
	}
}

// dropAll closes every gate and drops everything.
func (m *Meta) dropAll() {
	for i := range m.gates {
		m.drop(&m.gates[i], m.objects)
	}
	for _, k := range keys(m.objects) {
		m.objects.Del(k)
	}
	m.drop(&m.bucketGate, m.buckets, keys(m.buckets)...)
}

func (m *Meta) dropObject(bucket core.BucketID, key string) {
	k := objectKey(bucket, key)
	m.drop(m.gate(k), m.objects, k)
}

// drop closes a gate, so that nothing is stored behind it until end, and then drops keys of it.
func (m *Meta) drop(g *gate, c *ecache.Cache, keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count%2 == 0 {
		g.count++
		m.odd = append(m.odd, g)
	}
	for _, k := range keys {
		c.Del(k)
	}
}

// end opens the gates that begin closed.
func (m *Meta) end() {
	for _, g := range m.odd {
		g.mu.Lock()
		g.count++
		g.mu.Unlock()
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
