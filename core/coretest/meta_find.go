package coretest

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/internal/checksum"
)

// sharable returns a segment with new content of size bytes that other objects of the bucket may share. Content with
// the same hash is equal.
func (m *maker) sharable(b core.BucketID, size int64, hash byte) core.Segment {
	s := m.content(size)
	s.Info.Scope, s.Info.KeyID, s.Info.SHA256 = b, 5, [32]byte{hash, 2, 31: hash}
	return s
}

// headed is like sharable, for larger content that can also be found by its beginning. Content with the same head has
// the same beginning.
func (m *maker) headed(b core.BucketID, size int64, hash, head byte) core.Segment {
	s := m.sharable(b, size, hash)
	s.Info.Head = [32]byte{head, 3, 31: head}
	return s
}

// equalTo returns the change for a version that shares content d, which was found by its hash.
func (m *maker) equalTo(b *core.BucketInfo, key string, d *core.DataInfo) *core.PutObject {
	k := d.ContentKey()
	return &core.PutObject{
		Object: m.object(b, key, core.Segment{Data: d.ID, Length: d.Size}), Source: &core.Source{Content: &k},
	}
}

// found returns the ID of content that matches k, or 0 if there is none.
func (r *reader) found(k core.ContentKey) core.DataID { return r.foundIn(r.m, k) }

func (r *reader) foundIn(m core.Meta, k core.ContentKey) core.DataID {
	d, err := m.FindData(r.ctx, k)
	if core.Is(err, core.NoSuchData) {
		return 0
	}
	require.NoError(r.t, err)
	require.True(r.t, k.Fits(d), "%+v does not fit %+v", d, k)
	return d.ID
}

// checkFound checks that all content that may be shared is found, that intact content is preferred to damaged content,
// and that deleted content is not found.
func (h *harness) checkFound(m core.Meta, s *MetaState) {
	exists, whole, damaged := map[core.ContentKey]bool{}, map[core.ContentKey]bool{}, map[core.DataID]bool{}
	for i := range s.Data {
		d := &s.Data[i]
		if d.Scope == 0 {
			continue
		}
		damaged[d.ID] = d.Damaged
		keys := []core.ContentKey{d.ContentKey()}
		if d.HasHead() {
			keys = append(keys, d.HeadKey())
		}
		for _, k := range keys {
			exists[k] = true
			whole[k] = whole[k] || !d.Damaged
		}
	}
	for k := range exists {
		id := h.foundIn(m, k)
		require.NotZero(h.t, id, "content %+v was not found", k)
		require.Equal(h.t, !whole[k], damaged[id], "content %d was found for %+v", id, k)
	}
	for _, c := range h.history {
		for _, g := range segmentsOf(c) {
			if g.Info != nil && g.Info.Scope != 0 {
				for _, k := range []core.ContentKey{g.Info.ContentKey(), g.Info.HeadKey()} {
					if !exists[k] && (!k.Head || g.Info.HasHead()) {
						require.Zero(h.t, h.foundIn(m, k), "deleted content was found")
					}
				}
			}
		}
	}
}

// findCases returns the cases about finding content by its hash and sharing it.
func findCases() []metaCase {
	return []metaCase{
		{"find/equal content is found only in its scope", findInScopeOnly},
		{"find/content without a scope is not found", findWithoutScope},
		{"find/equal content is shared, and deleted with the last reference", findSharedUntilLastRef},
		{"find/verified checksums are kept with shared content", findKeepsVerifiedSums},
		{"find/an object may be replaced by its own content", findReplacesItself},
		{"find/deleted content cannot be shared", findContentDeleted},
		{"find/the precondition is checked before the content", findPreconditionFirst},
		{"find/shared content must match the key, and be shared as a whole", findSharedMustMatch},
		{"find/parts can share content", findInParts},
		{"find/equal content that was stored several times", findStoredTwice},
		{"find/content is found by its beginning, only in its scope", findByHead},
		{"find/the beginning of small content is all of it", findHeadOfSmallContent},
		{"find/different content with the same beginning", findSameHead},
		{"find/a change cannot refer to content by its beginning", findHeadIsNoReference},
		{"find/damaged content is not shared until it is repaired", findNotDamaged},
		{"find/intact content is preferred to damaged content", findUndamagedOfEqual},
		{"find/content is found after a move", findAfterMove},
		{"find/content changes while it is shared", findWhileContentChanges},
		{"find/many objects, half of them overwritten", findManyHalfOverwritten},
	}
}

func findInScopeOnly(h *harness) {
	b, other := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	g.Info.Codec, g.Info.KeyID = 3, 7
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	k := g.Info.ContentKey()
	require.Equal(h.t, g.Data, h.found(k))
	for i, change := range []func(*core.ContentKey){
		func(k *core.ContentKey) { k.Scope = other.ID },
		func(k *core.ContentKey) { k.Scope = 0 },
		func(k *core.ContentKey) { k.KeyID = 8 },
		func(k *core.ContentKey) { k.Size++ },
		func(k *core.ContentKey) { k.SHA256[31]++ },
		func(k *core.ContentKey) { k.SHA256[0]++ },
	} {
		changed := k
		change(&changed)
		require.Zero(h.t, h.found(changed), "change %d", i)
	}
}

func findWithoutScope(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	d := o.Segments[0].Info
	require.Zero(h.t, h.found(d.ContentKey()))
	h.fails(core.NoSuchData, h.equalTo(b, "l", d))
}

func findSharedUntilLastRef(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	g := h.sharable(b.ID, 2500, 1)
	first := h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	second := h.ok(h.equalTo(b, "k", g.Info))
	third := h.ok(h.equalTo(b, "l", g.Info))
	require.EqualValues(h.t, 3, h.refs(g.Data))
	require.Equal(h.t, g.Data, h.get(b, "l", core.Current).Segments[0].Data)
	for i, v := range []core.Version{first.Version, second.Version} {
		h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: v})
		require.EqualValues(h.t, 2-i, h.refs(g.Data))
		require.Equal(h.t, g.Data, h.found(g.Info.ContentKey()), "content must be found after its first version was deleted")
	}
	extents, _ := h.trash()
	require.Empty(h.t, extents)
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "l", Version: third.Version})
	extents, _ = h.trash()
	require.Equal(h.t, g.Info.Extents, extents)
	require.Zero(h.t, h.found(g.Info.ContentKey()))
}

func findKeepsVerifiedSums(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	h.get(b, "k", core.Current) // so that a cache has it
	md5 := g.Info.Sums[0]
	crc, sha := core.Checksum{Algorithm: checksum.CRC32, Value: []byte("four")}, core.Checksum{Algorithm: checksum.SHA1, Value: []byte("twenty")}
	for _, sums := range [][]core.Checksum{{crc}, {{Algorithm: checksum.MD5, Value: []byte("another")}, crc}, {sha, crc}} {
		c := h.equalTo(b, "k", g.Info)
		c.Source.Sums = sums
		h.ok(c)
	}
	require.Equal(h.t, []core.Checksum{md5, crc, sha}, h.contentOf(g.Data).Sums)
	c := h.equalTo(b, "k", g.Info)
	c.If.NoneMatch, c.Source.Sums = []string{"*"}, []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: []byte("8")}}
	h.fails(core.PreconditionFailed, c)
	require.Len(h.t, h.contentOf(g.Data).Sums, 3)
}

func findReplacesItself(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	for range 3 {
		h.ok(h.equalTo(b, "k", g.Info))
		require.EqualValues(h.t, 1, h.refs(g.Data))
	}
	require.Empty(h.t, h.entries())
}

func findContentDeleted(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	rs := h.apply(&core.DeleteObject{Bucket: b.ID, Key: "k"}, h.equalTo(b, "l", g.Info), h.equalTo(b, "k", g.Info))
	for _, r := range rs[1:] {
		require.True(h.t, core.Is(r.Err, core.NoSuchData), "%v", r.Err)
	}
	again := h.sharable(b.ID, 100, 1)
	rs = h.apply(&core.PutObject{Object: h.object(b, "l", again)}, h.equalTo(b, "m", again.Info), &core.DeleteObject{Bucket: b.ID, Key: "l"})
	require.NoError(h.t, rs[1].Err)
	require.EqualValues(h.t, 1, h.refs(again.Data))
	require.Equal(h.t, again.Data, h.found(g.Info.ContentKey()))
}

func findPreconditionFirst(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	c := h.equalTo(b, "k", g.Info)
	c.If.NoneMatch = []string{"*"}
	h.fails(core.PreconditionFailed, c)
	c = h.equalTo(&core.BucketInfo{ID: 999}, "k", g.Info)
	h.fails(core.NoSuchBucket, c)
}

func findSharedMustMatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g, other := h.sharable(b.ID, 100, 1), h.sharable(b.ID, 100, 2)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	h.ok(&core.PutObject{Object: h.object(b, "o", other)})
	c := h.equalTo(b, "l", g.Info)
	c.Object.Segments[0].Data = other.Data
	h.fails(core.NoSuchData, c)
	for _, change := range []func(*core.Segment){
		func(s *core.Segment) { s.From, s.Length = 1, 99 },
		func(s *core.Segment) { s.From = 1 },
		func(s *core.Segment) { s.Length = 99 },
	} {
		c := h.equalTo(b, "l", g.Info)
		change(&c.Object.Segments[0])
		h.fails(core.InvalidArgument, c)
	}
	c = h.equalTo(b, "l", g.Info)
	c.Object.Segments = append(c.Object.Segments, c.Object.Segments[0])
	h.fails(core.InvalidArgument, c)
	c.Object.Segments = nil
	h.fails(core.InvalidArgument, c)
	c = h.equalTo(b, "l", g.Info)
	c.Object.Segments = []core.Segment{h.sharable(b.ID, 100, 1)}
	h.fails(core.InvalidArgument, c)
}

func findInParts(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "m")
	g := h.sharable(b.ID, 50, 1)
	h.ok(h.partOf(b, "m", id, 1, g))
	k := g.Info.ContentKey()
	p := h.partOf(b, "m", id, 2, core.Segment{Data: g.Data, Length: 50})
	p.Source = &core.Source{Content: &k}
	h.ok(p)
	require.EqualValues(h.t, 2, h.refs(g.Data))
	again := h.partOf(b, "m", id, 1, core.Segment{Data: g.Data, Length: 50})
	again.Source = p.Source
	h.ok(again)
	require.EqualValues(h.t, 2, h.refs(g.Data))
	longer := k
	longer.Size++
	wrong := h.partOf(b, "m", id, 3, core.Segment{Data: g.Data, Length: 51})
	wrong.Source = &core.Source{Content: &longer}
	h.fails(core.NoSuchData, wrong)
}

func findStoredTwice(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var all []core.Segment
	for _, key := range []string{"a", "b", "c"} {
		all = append(all, h.sharable(b.ID, 100, 1))
		h.ok(&core.PutObject{Object: h.object(b, key, all[len(all)-1])})
	}
	k := all[0].Info.ContentKey()
	for _, key := range []string{"b", "a"} {
		require.NotZero(h.t, h.found(k))
		h.remove(b, key)
	}
	require.Equal(h.t, all[2].Data, h.found(k))
	h.remove(b, "c")
	require.Zero(h.t, h.found(k))
}

func findByHead(h *harness) {
	b, other := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	g := h.headed(b.ID, core.HeadSize+1, 1, 9)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	k := g.Info.HeadKey()
	require.Equal(h.t, g.Data, h.found(k))
	require.Equal(h.t, g.Info.Head, h.contentOf(g.Data).Head)
	require.Equal(h.t, g.Info.Head, h.get(b, "k", core.Current).Segments[0].Info.Head)
	for i, change := range []func(*core.ContentKey){
		func(k *core.ContentKey) { k.Scope = other.ID },
		func(k *core.ContentKey) { k.Scope = 0 },
		func(k *core.ContentKey) { k.KeyID = 8 },
		func(k *core.ContentKey) { k.Size++ },
		func(k *core.ContentKey) { k.Size = core.HeadSize },
		func(k *core.ContentKey) { k.SHA256[31]++ },
		func(k *core.ContentKey) { k.SHA256 = g.Info.SHA256 },
		func(k *core.ContentKey) { k.Head = false },
	} {
		changed := k
		change(&changed)
		require.Zero(h.t, h.found(changed), "change %d", i)
	}
	h.remove(b, "k")
	require.Zero(h.t, h.found(k))
}

func findHeadOfSmallContent(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, core.HeadSize, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	k := g.Info.ContentKey()
	k.Head = true
	require.Equal(h.t, g.Data, h.found(k))
	large := h.sharable(b.ID, core.HeadSize+1, 2) // without a hash of its beginning
	h.ok(&core.PutObject{Object: h.object(b, "l", large)})
	for _, sum := range [][32]byte{large.Info.SHA256, {}} {
		k = large.Info.ContentKey()
		k.Head, k.SHA256 = true, sum
		require.Zero(h.t, h.found(k))
	}
}

func findSameHead(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	one, two := h.headed(b.ID, 70_000, 1, 9), h.headed(b.ID, 70_000, 2, 9)
	one.Info.DataKey = []byte("wrapped")
	h.ok(&core.PutObject{Object: h.object(b, "1", one)})
	h.ok(&core.PutObject{Object: h.object(b, "2", two)})
	k := one.Info.HeadKey()
	require.NotZero(h.t, h.found(k))
	h.remove(b, "2")
	require.Equal(h.t, one.Data, h.found(k))
	h.ok(&core.MoveData{Data: one.Data, From: one.Info.Extents, To: h.elsewhere(one.Info.Extents)})
	require.Equal(h.t, one.Data, h.found(k))
	h.ok(&core.RewrapData{Data: one.Data, From: one.Info.DataKey, KeyID: 6, DataKey: []byte("another")})
	require.Zero(h.t, h.found(k))
	k.KeyID = 6
	require.Equal(h.t, one.Data, h.found(k))
	h.ok(&core.Unshare{Data: one.Data})
	require.Equal(h.t, one.Data, h.found(k), "damaged content must be found, so that it can be repaired")
	require.True(h.t, h.contentOf(one.Data).Damaged)
}

func findHeadIsNoReference(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g, small := h.headed(b.ID, 70_000, 1, 9), h.sharable(b.ID, 100, 2)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	h.ok(&core.PutObject{Object: h.object(b, "l", small)})
	for _, d := range []*core.DataInfo{g.Info, small.Info} {
		c := h.equalTo(b, "m", d)
		c.Source.Content.Head = true
		if d.HasHead() {
			*c.Source.Content = d.HeadKey()
		}
		h.fails(core.InvalidArgument, c)
	}
}

func findNotDamaged(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	h.get(b, "k", core.Current) // so that a cache has it
	h.ok(&core.Unshare{Data: g.Data})
	require.Equal(h.t, g.Data, h.found(g.Info.ContentKey()), "damaged content must be found, so that it can be repaired")
	require.True(h.t, h.contentOf(g.Data).Damaged)
	require.True(h.t, h.get(b, "k", core.Current).Segments[0].Info.Damaged)
	h.fails(core.NoSuchData, h.equalTo(b, "l", g.Info))
	h.ok(&core.Unshare{Data: g.Data})
	h.fails(core.NoSuchData, &core.Unshare{Data: 999})
	h.ok(&core.MoveData{Data: g.Data, From: g.Info.Extents, To: h.elsewhere(g.Info.Extents)})
	require.False(h.t, h.contentOf(g.Data).Damaged, "content is verified when it is moved")
	h.ok(h.equalTo(b, "l", g.Info))
}

func findUndamagedOfEqual(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	one, two := h.headed(b.ID, core.HeadSize+1, 1, 9), h.headed(b.ID, core.HeadSize+1, 1, 9)
	h.ok(&core.PutObject{Object: h.object(b, "1", one)})
	h.ok(&core.PutObject{Object: h.object(b, "2", two)})
	for _, k := range []core.ContentKey{one.Info.ContentKey(), one.Info.HeadKey()} {
		h.ok(&core.Unshare{Data: one.Data})
		require.Equal(h.t, two.Data, h.found(k))
		h.ok(&core.Unshare{Data: two.Data})
		require.NotZero(h.t, h.found(k))
		d := h.contentOf(one.Data)
		h.ok(&core.RepairData{From: d.Extents, Info: h.repaired(&d)})
		require.Equal(h.t, one.Data, h.found(k))
		d = h.contentOf(two.Data)
		h.ok(&core.RepairData{From: d.Extents, Info: h.repaired(&d)})
	}
}

func findAfterMove(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	h.ok(&core.PutObject{Object: h.object(b, "k", g)})
	h.ok(&core.MoveData{Data: g.Data, From: g.Info.Extents, To: h.elsewhere(g.Info.Extents)})
	h.ok(h.equalTo(b, "l", g.Info))
	require.EqualValues(h.t, 2, h.refs(g.Data))
}

func findWhileContentChanges(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	g := h.sharable(b.ID, 100, 1)
	g.Info.KeyID, g.Info.DataKey = 5, []byte("wrapped")
	h.ok(&core.PutObject{Object: h.object(b, "1", g)})
	h.ok(h.equalTo(b, "2", g.Info))

	to := h.elsewhere(g.Info.Extents)
	h.ok(&core.MoveData{Data: g.Data, From: g.Info.Extents, To: to})
	c := h.equalTo(b, "3", g.Info)
	sum := core.Checksum{Algorithm: checksum.CRC32, Value: []byte{1, 2, 3, 4}}
	c.Source.Sums = []core.Checksum{sum}
	h.ok(c)
	now := h.get(b, "3", core.Current).Segments[0].Info
	require.Equal(h.t, to, now.Extents, "adding a checksum restored the old extents")
	require.Contains(h.t, now.Sums, sum)
	c = h.equalTo(b, "4", g.Info)
	c.Source.Sums = []core.Checksum{{Algorithm: checksum.SHA1, Value: make([]byte, 20)}}
	h.ok(c)
	require.Contains(h.t, h.get(b, "4", core.Current).Segments[0].Info.Sums, sum)

	h.ok(&core.RewrapData{Data: g.Data, From: g.Info.DataKey, KeyID: 6, DataKey: []byte("another")})
	h.fails(core.NoSuchData, h.equalTo(b, "5", g.Info))
	info := *g.Info
	info.KeyID = 6
	h.ok(h.equalTo(b, "5", &info))
	h.ok(&core.Unshare{Data: g.Data})
	h.fails(core.NoSuchData, h.equalTo(b, "6", &info))

	g = h.sharable(b.ID, 100, 2)
	h.ok(&core.PutObject{Object: h.object(b, "1", g)})
	h.ok(h.equalTo(b, "2", g.Info))
	h.remove(b, "1")
	h.remove(b, "2")
	h.fails(core.NoSuchData, h.equalTo(b, "3", g.Info))
}

func findManyHalfOverwritten(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	for round := range 2 {
		for n := range 200 {
			g := h.sharable(b.ID, int64(1000*round+n+1), byte(n))
			h.ok(&core.PutObject{Object: h.object(b, fmt.Sprint("k", n>>round), g)})
		}
	}
}

// sharableContent draws content for a bucket, which is often equal to other content.
func (s *simulation) sharableContent() core.Segment {
	g := s.sharable(s.bucketID(), rapid.SampledFrom([]int64{1, 1, 2500}).Draw(s.t, "size"), byte(rapid.IntRange(1, 3).Draw(s.t, "hash")))
	if s.one(4) { // larger content, which often has the same beginning as other content
		g = s.headed(s.bucketID(), core.HeadSize+1, g.Info.SHA256[0], byte(rapid.IntRange(1, 2).Draw(s.t, "head")))
	}
	g.Info.Codec = uint8(rapid.IntRange(0, 1).Draw(s.t, "codec"))
	return g
}

// equal draws the key of content that may exist, and a segment that may refer to it.
func (s *simulation) equal() (*core.Source, []core.Segment) {
	id := core.DataID(rapid.Uint64Range(1, uint64(s.data)+1).Draw(s.t, "equal"))
	infos, err := s.model.Data(s.ctx, []core.DataID{id})
	require.NoError(s.t, err)
	k := core.ContentKey{Scope: s.bucketID(), Size: 1, SHA256: [32]byte{1, 2, 31: 1}}
	if len(infos) > 0 {
		k = infos[0].ContentKey()
	}
	if s.one(10) {
		k.KeyID++
	}
	source := &core.Source{Content: &k}
	for _, a := range []checksum.Algorithm{checksum.MD5, checksum.SHA1, checksum.CRC32} {
		if s.one(3) {
			source.Sums = append(source.Sums, core.Checksum{Algorithm: a, Value: []byte{byte(a), byte(s.seq)}})
		}
	}
	return source, []core.Segment{{Data: id, Length: k.Size}}
}
