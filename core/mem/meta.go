// Package mem keeps metadata and blocks in memory, for tests and experiments. It is the model for every other driver,
// so it is written to be obviously correct: it uses maps, sorts for each listing, and copies all input and output. When
// the process ends, everything is lost.
package mem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"orcas/core"
)

// Meta is a core.Meta in memory.
type Meta struct {
	mu       sync.RWMutex // guards everything below
	closed   bool
	state    core.State
	buckets  map[core.BucketID]*bucket
	names    map[string]core.BucketID
	contents contents
	lists    map[core.UploadID]*list
	records  map[string]map[string][]byte // value by kind and key
}

// bucket is a bucket with its versions and uploads.
type bucket struct {
	info     core.BucketInfo
	versions map[string][]*core.ObjectInfo // versions by key, the oldest first; at least one per key
	uploads  map[core.UploadID]*core.UploadInfo
}

// list has the parts of an upload in progress, of the objects created from it, or of a list in the garbage.
type list struct {
	parts   map[int]*core.PartInfo
	objects int // the number of objects that refer to it; 0: an upload in progress, or garbage
}

// NewMeta returns an empty Meta.
func NewMeta() *Meta {
	return &Meta{
		state:    core.State{NextData: 1},
		buckets:  map[core.BucketID]*bucket{},
		names:    map[string]core.BucketID{},
		contents: contents{byID: map[core.DataID]*core.DataInfo{}},
		lists:    map[core.UploadID]*list{},
		records:  map[string]map[string][]byte{},
	}
}

// SingleWriter implements core.SingleWriter.
func (m *Meta) SingleWriter() {}

// begin locks m for reading. The caller must call the returned function to unlock it.
func (m *Meta) begin(ctx context.Context, op string) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	m.mu.RLock()
	if m.closed {
		m.mu.RUnlock()
		return nil, core.E(op, core.Unavailable, errors.New("the metadata engine is closed"))
	}
	return m.mu.RUnlock, nil
}

// State implements core.Meta.
func (m *Meta) State(ctx context.Context) (core.State, error) {
	end, err := m.begin(ctx, "mem.State")
	if err != nil {
		return core.State{}, err
	}
	defer end()
	return m.state, nil
}

// Bucket implements core.Meta.
func (m *Meta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	end, err := m.begin(ctx, "mem.Bucket")
	if err != nil {
		return nil, err
	}
	defer end()
	id, ok := m.names[name]
	if !ok {
		return nil, core.E("mem.Bucket", core.NoSuchBucket, fmt.Errorf("bucket %q does not exist", name))
	}
	info := cloneBucket(m.buckets[id].info)
	return &info, nil
}

// Buckets implements core.Meta.
func (m *Meta) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, error) {
	end, err := m.begin(ctx, "mem.Buckets")
	if err != nil {
		return nil, err
	}
	defer end()
	var found []core.BucketInfo
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		if len(found) < limit && name > after && strings.HasPrefix(name, prefix) {
			found = append(found, cloneBucket(m.buckets[m.names[name]].info))
		}
	}
	return found, nil
}

// Object implements core.Meta.
func (m *Meta) Object(ctx context.Context, id core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	end, err := m.begin(ctx, "mem.Object")
	if err != nil {
		return nil, err
	}
	defer end()
	b := m.buckets[id]
	if b == nil || len(b.versions[key]) == 0 {
		return nil, core.E("mem.Object", core.NoSuchKey, nil)
	}
	o := b.find(key, v)
	if o == nil {
		return nil, core.E("mem.Object", core.NoSuchVersion, nil)
	}
	found := b.read(o)
	m.contents.resolve(found.Segments)
	return &found, nil
}

// find returns a version of a key, or nil if it does not exist. The null version is found only as Null, not by its
// sequence.
func (b *bucket) find(key string, v core.Version) *core.ObjectInfo {
	if v == core.Current {
		return b.current(key)
	}
	for _, o := range b.versions[key] {
		if o.Version() == v {
			return o
		}
	}
	return nil
}

// current returns the newest version of a key, or nil if there is none.
func (b *bucket) current(key string) *core.ObjectInfo {
	if all := b.versions[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// read returns a copy of a version, without resolving its segments.
func (b *bucket) read(o *core.ObjectInfo) core.ObjectInfo {
	found := cloneObject(o)
	found.Latest = o == b.current(o.Key)
	return found
}

// Upload implements core.Meta.
func (m *Meta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	end, err := m.begin(ctx, "mem.Upload")
	if err != nil {
		return nil, err
	}
	defer end()
	u := m.upload(bucket, key, id)
	if u == nil {
		return nil, core.E("mem.Upload", core.NoSuchUpload, nil)
	}
	found := cloneUpload(u)
	return &found, nil
}

// upload returns an upload in progress, or nil if there is none with that ID for the bucket and key.
func (m *Meta) upload(bucket core.BucketID, key string, id core.UploadID) *core.UploadInfo {
	b := m.buckets[bucket]
	if b == nil || b.uploads[id] == nil || b.uploads[id].Key != key {
		return nil
	}
	return b.uploads[id]
}

// Parts implements core.Meta.
func (m *Meta) Parts(ctx context.Context, id core.UploadID, after, limit int, content core.PartContent) ([]core.PartInfo, error) {
	end, err := m.begin(ctx, "mem.Parts")
	if err != nil {
		return nil, err
	}
	defer end()
	l := m.lists[id]
	if l == nil {
		return nil, nil
	}
	var found []core.PartInfo
	for _, number := range slices.Sorted(maps.Keys(l.parts)) {
		if len(found) < limit && number > after {
			p := clonePart(l.parts[number])
			if content == core.WithContent {
				m.contents.resolve(p.Segments)
			}
			found = append(found, p)
		}
	}
	return found, nil
}

// Data implements core.Meta.
func (m *Meta) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	end, err := m.begin(ctx, "mem.Data")
	if err != nil {
		return nil, err
	}
	defer end()
	var found []core.DataInfo
	for _, id := range ids {
		if d := m.contents.byID[id]; d != nil {
			found = append(found, cloneData(d))
		}
	}
	return found, nil
}

// FindData implements core.Meta.
func (m *Meta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	end, err := m.begin(ctx, "mem.FindData")
	if err != nil {
		return nil, err
	}
	defer end()
	var best *core.DataInfo
	for _, d := range m.contents.byID {
		if !k.Fits(d) {
			continue
		}
		if best == nil || best.Damaged && !d.Damaged || best.Damaged == d.Damaged && d.ID > best.ID {
			best = d
		}
	}
	if best == nil {
		return nil, core.E("mem.FindData", core.NoSuchData, nil)
	}
	found := cloneData(best)
	return &found, nil
}

// GuessData implements core.Guesser. It ignores the KeyID, so it may return content with another master key, which the
// contract permits.
func (m *Meta) GuessData(k core.ContentKey) core.DataID {
	end, err := m.begin(context.Background(), "mem.GuessData")
	if err != nil {
		return 0
	}
	defer end()
	for id, d := range m.contents.byID {
		if k.Scope != 0 && k.Hash() == d.Hash() && !d.Damaged {
			return id
		}
	}
	return 0
}

// Garbage implements core.Meta.
func (m *Meta) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	end, err := m.begin(ctx, "mem.Garbage")
	if err != nil {
		return nil, err
	}
	defer end()
	var found []core.Garbage
	for _, g := range m.contents.garbage {
		if len(found) < limit && g.ID > after {
			g.Extents = slices.Clone(g.Extents)
			found = append(found, g)
		}
	}
	return found, nil
}

// Records implements core.Meta.
func (m *Meta) Records(ctx context.Context, kind, after string, limit int) ([]core.Record, error) {
	end, err := m.begin(ctx, "mem.Records")
	if err != nil {
		return nil, err
	}
	defer end()
	var found []core.Record
	for _, key := range slices.Sorted(maps.Keys(m.records[kind])) {
		if len(found) < limit && key > after {
			found = append(found, core.Record{Kind: kind, Key: key, Value: slices.Clone(m.records[kind][key])})
		}
	}
	return found, nil
}

// Close implements core.Meta. Later calls return Unavailable.
func (m *Meta) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
