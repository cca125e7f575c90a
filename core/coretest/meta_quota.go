package coretest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/mem"
)

// limit sets the quota of a bucket, and updates b.
func (h *harness) limit(b *core.BucketInfo, bytes, objects int64) *core.BucketInfo {
	b.Quota = core.Quota{Bytes: bytes, Objects: objects}
	h.ok(&core.PutBucket{Info: *b})
	return b
}

// limited creates a bucket with a quota.
func (h *harness) limited(name string, v core.Versioning, bytes, objects int64) *core.BucketInfo {
	return h.limit(h.bucket(name, v), bytes, objects)
}

// holds checks the usage of a bucket with a quota, and that it agrees with the objects and parts in the bucket.
func (h *harness) holds(b *core.BucketInfo, bytes, objects int64) {
	u, err := h.m.Usage(h.ctx, b.ID)
	require.NoError(h.t, err)
	require.Equal(h.t, core.Usage{Bytes: bytes, Objects: objects}, u)
	h.state().Check(h.t)
}

// sized returns the change that puts a version with new content of size bytes.
func (m *maker) sized(b *core.BucketInfo, key string, size int64) *core.PutObject {
	return &core.PutObject{Object: m.object(b, key, m.content(size))}
}

func (h *harness) erase(b *core.BucketInfo, key string, v core.Version) {
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: key, Version: v, Modified: h.at()})
}

func (m *maker) move(from *core.ObjectInfo, to *core.BucketInfo, key string) *core.MoveObject {
	return &core.MoveObject{From: core.Source{Bucket: from.Bucket, Key: from.Key, Seq: from.Seq}, Bucket: to.ID, Key: key, Time: m.at()}
}

func quotaCases() []metaCase {
	return slices.Concat(quotaBucketCases(), quotaObjectCases(), quotaUploadCases(), quotaMoveCases())
}

func quotaBucketCases() []metaCase {
	return []metaCase{
		{"quota/a bucket without a quota has no usage", quotaNone},
		{"quota/set, read, change, remove, set again", quotaSetAndRemove},
		{"quota/of a new bucket", quotaNewBucket},
		{"quota/a negative quota is refused", quotaNegative},
		{"quota/counts existing versions, markers, copies, lists and uploads, but no garbage", quotaCountsWhatExists},
		{"quota/set in the batch that fills the bucket", quotaSetInBatch},
		{"quota/of a bucket that is deleted and created again", quotaBucketRecreated},
		{"quota/many buckets in one batch", quotaManyBucketsInBatch},
		{"quota/details of the error", quotaErrorDetails},
	}
}

func quotaNone(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "k")
	_, err := h.m.Usage(h.ctx, b.ID)
	require.True(h.t, core.Is(err, core.BucketState), err)
	_, err = h.m.Usage(h.ctx, 999)
	require.True(h.t, core.Is(err, core.NoSuchBucket), err)
}

func quotaSetAndRemove(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "before")
	h.limit(b, 1000, 10)
	got, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	require.Equal(h.t, core.Quota{Bytes: 1000, Objects: 10}, got.Quota)
	h.holds(b, 100, 1)
	h.put(b, "k")
	h.limit(b, 2000, 0)
	h.holds(b, 200, 2)
	h.limit(b, 0, 0)
	_, err = h.m.Usage(h.ctx, b.ID)
	require.True(h.t, core.Is(err, core.BucketState), err)
	h.put(b, "uncounted")
	h.limit(b, 0, 5)
	h.holds(b, 300, 3)
}

func quotaNewBucket(h *harness) {
	h.ok(&core.PutBucket{Info: core.BucketInfo{Name: "b", Quota: core.Quota{Objects: 1}}})
	b, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	h.holds(b, 0, 0)
	h.put(b, "k")
	h.holds(b, 100, 1)
	h.fails(core.QuotaExceeded, h.sized(b, "l", 1))
}

func quotaNegative(h *harness) {
	h.fails(core.InvalidArgument, &core.PutBucket{Info: core.BucketInfo{Name: "b", Quota: core.Quota{Bytes: -1}}})
	b := *h.bucket("b", core.VersioningOff)
	b.Quota.Objects = -1
	h.fails(core.InvalidArgument, &core.PutBucket{Info: b})
}

func quotaCountsWhatExists(h *harness) {
	h.everything()
	b, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	v, err := h.m.Bucket(h.ctx, "v")
	require.NoError(h.t, err)
	h.limit(b, 1, 1)
	h.limit(v, 1, 1)
	h.holds(b, 100+2500+2500+150+100+50, 5) // k, shared, equal, m, lost, and a part of u
	h.holds(v, 100+200+100+150, 5)          // copy, two versions of k, the null version of k, and m
}

func quotaSetInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	set := *b
	set.Quota = core.Quota{Bytes: 250}
	rs := h.apply(h.sized(b, "a", 100), &core.PutBucket{Info: set}, h.sized(b, "b", 100), h.sized(b, "c", 100), h.sized(b, "d", 50), h.sized(b, "e", 1))
	for i, want := range []bool{true, true, true, false, true, false} {
		require.Equal(h.t, want, rs[i].Err == nil, "change %d: %v", i, rs[i].Err)
	}
	h.holds(b, 250, 3)
}

func quotaBucketRecreated(h *harness) {
	b := h.limited("b", core.VersioningOff, 100, 0)
	h.put(b, "k")
	h.remove(b, "k")
	h.ok(&core.DeleteBucket{Bucket: b.ID})
	_, err := h.m.Usage(h.ctx, b.ID)
	require.True(h.t, core.Is(err, core.NoSuchBucket), err)
	again := h.limited("b", core.VersioningOff, 100, 0)
	h.put(again, "k")
	h.holds(again, 100, 1)
}

func quotaManyBucketsInBatch(h *harness) {
	var changes []core.Change
	var buckets []*core.BucketInfo
	for i := range 40 {
		b := h.limited(fmt.Sprintf("b%02d", i), core.VersioningOff, 150, 0)
		buckets = append(buckets, b)
	}
	for range 2 {
		for _, b := range buckets {
			changes = append(changes, h.sized(b, fmt.Sprint(len(changes)), 100))
		}
	}
	for i, r := range h.apply(changes...) {
		require.Equal(h.t, i < 40, r.Err == nil, "change %d: %v", i, r.Err)
	}
	for _, b := range buckets {
		h.holds(b, 100, 1)
	}
}

func quotaErrorDetails(h *harness) {
	b := h.limited("b", core.VersioningOff, 250, 2)
	h.put(b, "k")
	r := h.apply(h.sized(b, "l", 151))[0]
	var over *core.OverQuota
	require.ErrorAs(h.t, r.Err, &over)
	require.Equal(h.t, core.OverQuota{Quota: b.Quota, Held: core.Usage{Bytes: 100, Objects: 1}, More: core.Usage{Bytes: 151, Objects: 1}}, *over)
	require.Equal(h.t, "100 of 250 bytes are in use, and the request adds 151", over.Error())
}

func quotaObjectCases() []metaCase {
	return []metaCase{
		{"quota/exact to the byte and the object", quotaExact},
		{"quota/an overwrite counts the difference", quotaOverwrite},
		{"quota/below the usage: changes that do not increase it succeed", quotaBelowUsage},
		{"quota/with versioning a delete does not free anything, and a marker does not count", quotaDeleteWithVersions},
		{"quota/suspended: the null version is replaced, also by a marker", quotaSuspendedVersions},
		{"quota/other errors come first, and failed changes do not count", quotaOtherFailures},
		{"quota/a change that adds existing content fails and does not count", quotaContentBroughtTwice},
		{"quota/copies and equal content count in full", quotaCopies},
		{"quota/an append counts the bytes that it adds", quotaAppends},
	}
}

func quotaExact(h *harness) {
	b := h.limited("b", core.VersioningOff, 200, 3)
	h.put(b, "a")
	h.fails(core.QuotaExceeded, h.sized(b, "b", 101))
	h.ok(h.sized(b, "b", 100))
	h.fails(core.QuotaExceeded, h.sized(b, "c", 1))
	h.ok(h.sized(b, "c", 0))
	h.fails(core.QuotaExceeded, h.sized(b, "d", 0))
	h.holds(b, 200, 3)
}

func quotaOverwrite(h *harness) {
	b := h.limited("b", core.VersioningOff, 200, 1)
	h.put(b, "k")
	h.ok(h.sized(b, "k", 200))
	h.fails(core.QuotaExceeded, h.sized(b, "k", 201))
	h.ok(h.sized(b, "k", 10))
	h.holds(b, 10, 1)
}

func quotaBelowUsage(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "a")
	h.put(b, "b")
	h.limit(b, 10, 1)
	h.fails(core.QuotaExceeded, h.sized(b, "c", 0))
	h.fails(core.QuotaExceeded, h.sized(b, "a", 101))
	h.ok(h.sized(b, "a", 100))
	h.ok(h.sized(b, "a", 99))
	h.holds(b, 199, 2)
	h.remove(b, "a")
	h.ok(&core.UpdateObject{Bucket: b.ID, Key: "b", SetTags: true, Tags: []core.Attr{{Name: "t", Value: "v"}}})
	h.holds(b, 100, 1)
	h.remove(b, "b")
	h.ok(h.sized(b, "c", 10))
	h.holds(b, 10, 1)
}

func quotaDeleteWithVersions(h *harness) {
	b := h.limited("b", core.VersioningEnabled, 200, 0)
	o := h.put(b, "k")
	h.put(b, "k")
	h.remove(b, "k")
	h.holds(b, 200, 2)
	h.fails(core.QuotaExceeded, h.sized(b, "k", 1))
	h.erase(b, "k", o.Version())
	h.holds(b, 100, 1)
	h.ok(h.sized(b, "k", 100))
	h.remove(b, "other")
	h.holds(b, 200, 2)
}

func quotaSuspendedVersions(h *harness) {
	b := h.limited("b", core.VersioningOff, 300, 0)
	h.put(b, "k")
	h.set(b, core.VersioningEnabled)
	h.put(b, "k")
	h.set(b, core.VersioningSuspended)
	h.holds(b, 200, 2)
	h.fails(core.QuotaExceeded, h.sized(b, "k", 201))
	h.ok(h.sized(b, "k", 200)) // replaces the null version of 100 bytes, which is not the newest
	h.holds(b, 300, 2)
	h.ok(h.sized(b, "k", 150)) // replaces the newest version
	h.holds(b, 250, 2)
	h.remove(b, "k")
	h.holds(b, 100, 1)
	h.remove(b, "k") // a marker replaces a marker
	h.ok(h.sized(b, "k", 200))
	h.holds(b, 300, 2)
	h.erase(b, "k", core.Null)
	h.holds(b, 100, 1)
}

func quotaOtherFailures(h *harness) {
	b := h.limited("b", core.VersioningOff, 100, 0)
	h.put(b, "k")
	c := h.sized(b, "k", 200)
	c.If.NoneMatch = []string{"*"}
	h.fails(core.PreconditionFailed, c)
	c = h.sized(b, "new", 200)
	c.If.Match = []string{"*"}
	h.fails(core.NoSuchKey, c)
	c = &core.PutObject{Object: h.object(b, "new", core.Segment{Data: 999, Length: 200})}
	h.fails(core.NoSuchData, c)
	h.holds(b, 100, 1)
}

func quotaContentBroughtTwice(h *harness) {
	b := h.limited("b", core.VersioningOff, 1000, 0)
	o := h.put(b, "k")
	segment := o.Segments[0]
	h.fails(core.InvalidArgument, &core.PutObject{Object: h.object(b, "new", segment)})
	h.holds(b, 100, 1)
}

func quotaCopies(h *harness) {
	b, other := h.limited("b", core.VersioningOff, 250, 0), h.bucket("o", core.VersioningOff)
	g := h.sharable(b.ID, 100, 7)
	h.ok(&core.PutObject{Object: h.object(b, "shared", g)})
	h.ok(h.equalTo(b, "equal", g.Info))
	h.holds(b, 200, 2)
	h.fails(core.QuotaExceeded, h.equalTo(b, "third", g.Info))
	o := h.put(other, "k")
	h.fails(core.QuotaExceeded, h.copyOf(o, b, "copy"))
	h.ok(h.copyOf(o, b, "equal"))
	h.ok(h.copyOf(h.get(b, "shared", core.Current), b, "shared"))
	h.holds(b, 200, 2)
	h.remove(b, "shared") // the last reference to its content
	h.holds(b, 100, 1)
}

func quotaAppends(h *harness) {
	b := h.limited("b", core.VersioningOff, 150, 0)
	o := h.put(b, "k")
	longer := func(n int64) *core.PutObject {
		kept := core.Segment{Data: o.Segments[0].Data, Length: 100}
		return &core.PutObject{Object: h.object(b, "k", kept, h.content(n)), If: core.Precondition{Seq: o.Seq}}
	}
	h.fails(core.QuotaExceeded, longer(51))
	h.ok(longer(50))
	h.holds(b, 150, 1)
}

func quotaUploadCases() []metaCase {
	return []metaCase{
		{"quota/parts of uploads in progress count, as bytes", func(h *harness) {
			b := h.limited("b", core.VersioningOff, 100, 1)
			id := h.begin(b, "u")
			h.holds(b, 0, 0)
			h.part(b, "u", id, 1)
			h.ok(h.partOf(b, "u", id, 2, h.content(40)))
			h.fails(core.QuotaExceeded, h.partOf(b, "u", id, 3, h.content(11)))
			h.fails(core.QuotaExceeded, h.partOf(b, "u", id, 2, h.content(51)))
			h.ok(h.partOf(b, "u", id, 2, h.content(50))) // replaces the part before
			h.holds(b, 100, 0)
			h.fails(core.QuotaExceeded, h.sized(b, "k", 1))
			h.ok(h.partOf(b, "u", id, 2, h.content(5)))
			h.ok(&core.AbortUpload{Bucket: b.ID, Key: "u", Upload: id})
			h.holds(b, 0, 0)
			h.ok(&core.DropParts{Garbage: h.entries()[len(h.entries())-1].ID, Count: 1})
			h.holds(b, 0, 0)
			h.ok(&core.AbortUpload{Bucket: b.ID, Key: "v", Upload: h.begin(b, "v")})
		}},
		{"quota/listed parts become the object, other parts are released", func(h *harness) {
			b := h.limited("b", core.VersioningOff, 150, 1)
			id := h.begin(b, "u")
			one, two := h.part(b, "u", id, 1), h.part(b, "u", id, 2)
			h.part(b, "u", id, 3)
			h.holds(b, 150, 0)
			h.ok(h.complete(b, "u", id, one, two))
			h.holds(b, 100, 1)
			id = h.begin(b, "v")
			one = h.part(b, "v", id, 1)
			h.fails(core.QuotaExceeded, h.complete(b, "v", id, one)) // a second object
			h.holds(b, 150, 1)
			h.remove(b, "u")
			h.holds(b, 50, 0)
			h.ok(h.complete(b, "v", id, one))
			h.holds(b, 50, 1)
		}},
		{"quota/a multipart object replaces another object", func(h *harness) {
			b := h.limited("b", core.VersioningOff, 200, 1)
			h.put(b, "k")
			h.multipart(b, "k", 2)
			h.holds(b, 100, 1)
			h.multipart(b, "k", 1) // its parts count in addition to those of the object
			h.holds(b, 50, 1)
			h.remove(b, "k")
			h.holds(b, 0, 0)
		}},
		{"quota/an object larger than its parts", func(h *harness) {
			b := h.limited("b", core.VersioningOff, 100, 0)
			id := h.begin(b, "k")
			one := h.part(b, "k", id, 1)
			c := h.complete(b, "k", id, one)
			c.Object.Size = 101
			h.fails(core.QuotaExceeded, c)
			c.Object.Size = 100
			h.ok(c)
			h.holds(b, 100, 1)
		}},
		{"quota/a copied list counts in full", func(h *harness) {
			b := h.limited("b", core.VersioningEnabled, 250, 0)
			o := h.multipart(b, "k", 2)
			h.ok(h.copyOf(o, b, "l"))
			h.fails(core.QuotaExceeded, h.copyOf(o, b, "m"))
			h.holds(b, 200, 2)
			h.erase(b, "k", o.Version())
			h.holds(b, 100, 1)
		}},
	}
}

func quotaMoveCases() []metaCase {
	return []metaCase{
		{"quota/a move within a bucket does not change the usage", func(h *harness) {
			b := h.limited("b", core.VersioningOff, 100, 1)
			o := h.put(b, "k")
			h.ok(h.move(o, b, "l"))
			h.holds(b, 100, 1)
		}},
		{"quota/a move onto an existing key releases its version", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := h.put(b, "k")
			h.put(b, "l")
			h.limit(b, 50, 1) // less than the usage, which the move decreases
			h.ok(h.move(o, b, "l"))
			h.holds(b, 100, 1)
		}},
		{"quota/a move with versioning adds a version", func(h *harness) {
			b := h.limited("b", core.VersioningEnabled, 150, 0)
			o := h.put(b, "k")
			h.fails(core.QuotaExceeded, h.move(o, b, "l"))
			h.limit(b, 200, 2)
			h.ok(h.move(o, b, "l"))
			h.holds(b, 200, 2)
			h.fails(core.QuotaExceeded, h.move(h.get(b, "l", core.Current), b, "m"))
		}},
		{"quota/a move with suspended versioning", func(h *harness) {
			b := h.limited("b", core.VersioningSuspended, 100, 1)
			o := h.put(b, "k")
			h.ok(h.move(o, b, "l")) // the null marker replaces the null version
			h.holds(b, 100, 1)
			b.Versioning = core.VersioningEnabled
			h.limit(b, 200, 2)
			o = h.put(b, "m")
			h.set(b, core.VersioningSuspended)
			h.fails(core.QuotaExceeded, h.move(o, b, "n")) // that version is not a null version, and is kept
			h.holds(b, 200, 2)
		}},
		{"quota/a move into another bucket", func(h *harness) {
			a, b := h.limited("a", core.VersioningOff, 200, 0), h.limited("b", core.VersioningOff, 150, 0)
			o, kept := h.put(a, "k"), h.put(a, "l")
			h.ok(h.move(o, b, "k"))
			h.holds(a, 100, 1)
			h.holds(b, 100, 1)
			h.fails(core.QuotaExceeded, h.move(kept, b, "l"))
			h.ok(h.move(kept, b, "k"))
			h.holds(a, 0, 0)
			h.holds(b, 100, 1)
		}},
		{"quota/a move between buckets with and without a quota", func(h *harness) {
			a, b := h.bucket("a", core.VersioningOff), h.limited("b", core.VersioningOff, 100, 0)
			o := h.put(a, "k")
			h.ok(h.move(o, b, "k"))
			h.holds(b, 100, 1)
			h.ok(h.move(h.get(b, "k", core.Current), a, "k"))
			h.holds(b, 0, 0)
		}},
		{"quota/a move of a multipart object", func(h *harness) {
			a, b := h.limited("a", core.VersioningOff, 200, 0), h.limited("b", core.VersioningOff, 99, 0)
			o := h.multipart(a, "k", 2)
			h.fails(core.QuotaExceeded, h.move(o, b, "k"))
			h.limit(b, 100, 0)
			h.ok(h.move(o, b, "k"))
			h.holds(a, 0, 0)
			h.holds(b, 100, 1)
		}},
	}
}

// quota draws a quota that is soon reached, or none.
func (s *simulation) quota() (q core.Quota) {
	if s.one(2) {
		q.Bytes = rapid.SampledFrom([]int64{1, 100, 2500, 2501, 5001, 10_000}).Draw(s.t, "bytes")
	}
	if s.one(2) {
		q.Objects = rapid.Int64Range(1, 6).Draw(s.t, "objects")
	}
	return q
}

// judge compares the quota decisions of the model with the usage before and after a change, independently of the
// arithmetic of the model. A successful change must not leave a bucket both larger than before and larger than its
// quota. A refused change would have done so. Before is the model before the change.
func (s *simulation) judge(before *mem.Meta, c core.Change, r core.Result) {
	after := s.model
	refused := core.Is(r.Err, core.QuotaExceeded)
	if refused {
		after = s.without(before)
		results, err := after.Apply(s.ctx, []core.Change{c})
		require.NoError(s.t, err)
		require.NoError(s.t, results[0].Err, "without a quota, %T must succeed", c)
	}
	exceeded := false
	was, is := s.counted(before), s.counted(after)
	for id, q := range s.quotas(before) {
		if _, bucket := c.(*core.PutBucket); bucket {
			continue
		}
		exceeded = exceeded || q.Bytes > 0 && is[id].Bytes > max(q.Bytes, was[id].Bytes) || q.Objects > 0 && is[id].Objects > max(q.Objects, was[id].Objects)
	}
	require.Equal(s.t, refused, exceeded, "%T %+v: usage before %v, after %v", c, c, was, is)
}

// copyOfModel returns a copy of the model, or nil if no bucket has a quota.
func (s *simulation) copyOfModel() *mem.Meta {
	if len(s.quotas(s.model)) == 0 {
		return nil
	}
	return s.copyOfMeta(s.model, func(*core.BucketInfo) {})
}

// without returns a copy of a model without the quotas of its buckets.
func (s *simulation) without(m *mem.Meta) *mem.Meta {
	return s.copyOfMeta(m, func(b *core.BucketInfo) { b.Quota = core.Quota{} })
}

func (s *simulation) copyOfMeta(m *mem.Meta, each func(*core.BucketInfo)) *mem.Meta {
	c := mem.NewMeta()
	rows, err := Rows(s.ctx, m)
	require.NoError(s.t, err)
	next := NextOf(rows)
	require.NoError(s.t, c.Restore(s.ctx, func() (*core.Row, error) {
		row, err := next()
		if row != nil && row.Bucket != nil {
			each(row.Bucket)
		}
		return row, err
	}))
	return c
}

func (s *simulation) quotas(m *mem.Meta) map[core.BucketID]core.Quota {
	found := map[core.BucketID]core.Quota{}
	all, err := m.Buckets(s.ctx, "", "", 100)
	require.NoError(s.t, err)
	for _, b := range all {
		if !b.Quota.IsZero() {
			found[b.ID] = b.Quota
		}
	}
	return found
}

// counted computes the usage of each bucket.
func (s *simulation) counted(m *mem.Meta) map[core.BucketID]core.Usage {
	found := map[core.BucketID]core.Usage{}
	state := s.read(m)
	for i := range state.Buckets {
		found[state.Buckets[i].Info.ID] = state.Buckets[i].counted(state.Lists).Usage()
	}
	return found
}
