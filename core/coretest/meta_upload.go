package coretest

import (
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

func (r *reader) noUpload(b *core.BucketInfo, key string, id core.UploadID) {
	_, err := r.m.Upload(r.ctx, b.ID, key, id)
	require.True(r.t, core.Is(err, core.NoSuchUpload), err)
}

func (r *reader) parts(id core.UploadID, after, limit int) []core.PartInfo {
	found, err := r.m.Parts(r.ctx, id, after, limit, core.WithContent)
	require.NoError(r.t, err)
	return found
}

func uploadCases() []metaCase {
	return []metaCase{
		{"upload/every field is kept", uploadKeepsEveryField},
		{"upload/no object until it is complete", uploadShowsNoObject},
		{"upload/two of one key", uploadTwoOfOneKey},
		{"part/every field is kept", partKeepsEveryField},
		{"part/WithoutContent the segments have no DataInfo", partWithoutContent},
		{"part/numbers 1 to 10000", partNumberRange},
		{"part/replaced", partReplaced},
		{"part/replaced by a copy of itself keeps the content", partReplacedByItsCopy},
		{"part/of a missing upload", partWithoutUpload},
		{"part/a copy", partCopy},
		{"part/more segments than MaxInlineSegments", partManySegments},
		{"part/paging", partPaging},
		{"abort/the list becomes garbage as a whole", abortLeavesListAsGarbage},
		{"abort/without parts there is no garbage", abortWithoutParts},
		{"abort/of a missing upload", abortWithoutUpload},
	}
}

func uploadKeepsEveryField(h *harness) {
	b := h.lockBucket("b")
	u := core.UploadInfo{ID: 99, Bucket: b.ID, Key: "k", Initiated: h.at(), Owner: "o", Algorithm: checksum.CRC64NVME, Composite: true,
		Attrs: []core.Attr{{Name: "Content-Type", Value: "x"}}, Tags: []core.Attr{{Name: "a", Value: "b"}},
		Lock: core.Lock{Mode: core.LockGovernance, Until: h.at(), Hold: core.HoldOn}}
	r := h.ok(&core.CreateUpload{Upload: u})
	u.ID = core.UploadID(r.Seq)
	got, err := h.m.Upload(h.ctx, b.ID, "k", u.ID)
	require.NoError(h.t, err)
	require.Equal(h.t, u, normalUpload(got))
	h.noUpload(b, "l", u.ID)
	h.noUpload(b, "k", u.ID+1)
	h.noUpload(h.bucket("c", core.VersioningOff), "k", u.ID)
}

func uploadShowsNoObject(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.part(b, "k", h.begin(b, "k"), 1)
	h.none(core.NoSuchKey, b, "k", core.Current)
}

func uploadTwoOfOneKey(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	x, y := h.begin(b, "k"), h.begin(b, "k")
	p := h.part(b, "k", x, 1)
	require.Empty(h.t, h.parts(y, 0, 9))
	h.ok(h.complete(b, "k", x, p))
	_, err := h.m.Upload(h.ctx, b.ID, "k", y)
	require.NoError(h.t, err)
}

func partKeepsEveryField(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	c := h.partOf(b, "k", id, 10_000, h.content(1500), h.content(0))
	c.Part.Sums = []core.Checksum{{Algorithm: checksum.SHA256, Value: make([]byte, 32)}}
	c.Part.Seq = 99 // Apply must set it
	r := h.ok(c)
	require.Equal(h.t, core.Current, r.Version)
	want := normalPart(&c.Part)
	want.Seq = r.Seq
	got := h.parts(id, 0, 9)
	require.Len(h.t, got, 1)
	require.Equal(h.t, want, normalPart(&got[0]))
}

func partWithoutContent(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	for n := range 5 {
		h.ok(h.partOf(b, "k", id, n+1, h.content(10), h.content(20)))
	}
	bare, err := h.m.Parts(h.ctx, id, 1, 3, core.WithoutContent)
	require.NoError(h.t, err)
	want := h.parts(id, 1, 3)
	require.Len(h.t, want, 3)
	for i := range want {
		for j := range want[i].Segments {
			require.Equal(h.t, want[i].Segments[j].Data, want[i].Segments[j].Info.ID)
			want[i].Segments[j].Info = nil
		}
	}
	require.Equal(h.t, want, bare)
}

func partNumberRange(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	for _, n := range []int{-1, 0, 10_001} {
		h.fails(core.InvalidArgument, h.partOf(b, "k", id, n, h.content(1)))
	}
}

func partReplaced(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	h.part(b, "k", id, 1)
	old := h.parts(id, 0, 9)[0]
	h.part(b, "k", id, 2)
	again := h.part(b, "k", id, 1)
	got := h.parts(id, 0, 9)
	require.Len(h.t, got, 2)
	require.Equal(h.t, again.Seq, got[0].Seq)
	extents, lists := h.trash()
	require.Equal(h.t, old.Segments[0].Info.Extents, extents)
	require.Empty(h.t, lists)
}

func partReplacedByItsCopy(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	s := h.content(10)
	h.ok(h.partOf(b, "k", id, 1, s))
	s.Info = nil
	h.ok(h.partOf(b, "k", id, 1, s))
	require.EqualValues(h.t, 1, h.refs(s.Data))
}

func partWithoutUpload(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	id := h.begin(b, "k")
	h.fails(core.NoSuchUpload, h.partOf(b, "k", id+1, 1, h.content(1)))
	h.fails(core.NoSuchUpload, h.partOf(b, "l", id, 1, h.content(1)))
	h.fails(core.NoSuchUpload, h.partOf(c, "k", id, 1, h.content(1)))
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "k", Upload: id})
	h.fails(core.NoSuchUpload, h.partOf(b, "k", id, 1, h.content(1)))
	o := h.multipart(b, "m", 1)
	h.fails(core.NoSuchUpload, h.partOf(b, "m", o.List, 1, h.content(1)))
}

func partCopy(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "src")
	id := h.begin(b, "k")
	c := h.partOf(b, "k", id, 1, core.Segment{Data: o.Segments[0].Data, From: 10, Length: 20}, core.Segment{Data: o.Segments[0].Data, Length: 5})
	c.Source = &core.Source{Bucket: b.ID, Key: "src", Seq: o.Seq}
	h.ok(c)
	require.EqualValues(h.t, 3, h.refs(o.Segments[0].Data))
	h.remove(b, "src")
	require.EqualValues(h.t, 2, h.refs(o.Segments[0].Data))
	again := h.partOf(b, "k", id, 2, core.Segment{Data: o.Segments[0].Data, Length: 20})
	again.Source = &core.Source{Bucket: b.ID, Key: "src", Seq: o.Seq}
	h.fails(core.Conflict, again)
	again.Source = nil
	again.Part.Segments[0].Data = 999
	h.fails(core.NoSuchData, again)
}

func partManySegments(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	s := h.content(500)
	segments := []core.Segment{s}
	for i := range 300 {
		segments = append(segments, core.Segment{Data: s.Data, From: int64(i), Length: 1})
	}
	h.ok(h.partOf(b, "k", id, 1, segments...))
	require.EqualValues(h.t, 301, h.refs(s.Data))
	require.Len(h.t, h.parts(id, 0, 9)[0].Segments, 301)
	h.ok(h.partOf(b, "k", id, 1))
	require.Zero(h.t, h.refs(s.Data))
}

func partPaging(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	for _, n := range []int{700, 3, 9999, 1, 10} {
		h.part(b, "k", id, n)
	}
	numbers := func(after, limit int) []int {
		var found []int
		for _, p := range h.parts(id, after, limit) {
			found = append(found, p.Number)
		}
		return found
	}
	require.Equal(h.t, []int{1, 3, 10, 700, 9999}, numbers(0, 9))
	require.Equal(h.t, []int{1, 3}, numbers(0, 2))
	require.Equal(h.t, []int{10, 700}, numbers(3, 2))
	require.Equal(h.t, []int{10}, numbers(4, 1))
	require.Empty(h.t, numbers(9999, 9))
	require.Empty(h.t, numbers(0, 0))
	require.Empty(h.t, h.parts(id+100, 0, 9))
}

func abortLeavesListAsGarbage(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	h.part(b, "k", id, 1)
	h.part(b, "k", id, 2)
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "k", Upload: id})
	h.noUpload(b, "k", id)
	extents, lists := h.trash()
	require.Empty(h.t, extents)
	require.Equal(h.t, []core.UploadID{id}, lists)
	require.Len(h.t, h.parts(id, 0, 9), 2, "the parts must remain until reclaim deletes them")
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID, Key: "k", Upload: id})
}

func abortWithoutParts(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "k", Upload: h.begin(b, "k")})
	require.Empty(h.t, h.state().Garbage)
}

func abortWithoutUpload(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID, Key: "l", Upload: id})
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID + 1, Key: "k", Upload: id})
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID, Key: "k", Upload: id + 1})
	o := h.multipart(b, "m", 1)
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID, Key: "m", Upload: o.List})
}

func completeCases() []metaCase {
	return []metaCase{
		{"complete/the object", completeObject},
		{"complete/attributes, tags, lock and owner are those of the upload", completeTakesUploadAttributes},
		{"complete/parts that are not listed are freed", completeDropsOtherParts},
		{"complete/twice", completeTwice},
		{"complete/a part was replaced: Conflict", completePartReplaced},
		{"complete/a missing part: InvalidPart", completePartMissing},
		{"complete/invalid requests", completeMalformed},
		{"complete/of a missing upload", completeWithoutUpload},
		{"complete/preconditions are checked before the parts", completePreconditionFirst},
		{"complete/replaces an object", completeReplacesObject},
		{"complete/with versioning", completeWithVersions},
		{"complete/10000 parts", completeManyParts},
	}
}

func completeObject(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	p1, p3 := h.part(b, "k", id, 1), h.part(b, "k", id, 3)
	u, err := h.m.Upload(h.ctx, b.ID, "k", id)
	require.NoError(h.t, err)
	c := h.complete(b, "k", id, p1, p3)
	c.Object.Index = []core.PartIndex{{After: 1, Offset: 50}}
	r := h.ok(c)
	require.Equal(h.t, core.Null, r.Version)
	// Values that were set when the upload began are taken from the upload.
	want := c.Object
	want.Seq, want.Null, want.Latest, want.List = r.Seq, true, true, id
	want.Attrs, want.Tags, want.Lock, want.Owner = u.Attrs, u.Tags, u.Lock, u.Owner
	require.Equal(h.t, normalObject(&want), normalObject(h.get(b, "k", core.Current)))
	parts := h.parts(id, 0, 9)
	require.Len(h.t, parts, 2)
	require.Equal(h.t, []core.Seq{p1.Seq, p3.Seq}, []core.Seq{parts[0].Seq, parts[1].Seq})
	h.noUpload(b, "k", id)
}

func completeTakesUploadAttributes(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	c := h.complete(b, "k", id, h.part(b, "k", id, 1))
	c.Object.Owner, c.Object.Attrs, c.Object.Lock.Hold = "completer", []core.Attr{{Name: "no", Value: "no"}}, core.HoldOn
	c.Object.List = 999
	h.ok(c)
	got := h.get(b, "k", core.Current)
	require.Equal(h.t, "uploader", got.Owner)
	require.Equal(h.t, "video/x", got.Attrs[0].Value)
	require.True(h.t, got.Lock.IsZero())
	require.Equal(h.t, id, got.List)
}

func completeDropsOtherParts(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	h.part(b, "k", id, 1)
	p2 := h.part(b, "k", id, 2)
	h.part(b, "k", id, 3)
	all := h.parts(id, 0, 9)
	h.ok(h.complete(b, "k", id, p2))
	require.Len(h.t, h.parts(id, 0, 9), 1)
	extents, lists := h.trash()
	require.ElementsMatch(h.t, []core.Extent{all[0].Segments[0].Info.Extents[0], all[2].Segments[0].Info.Extents[0]}, extents)
	require.Empty(h.t, lists)
}

func completeTwice(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	p := h.part(b, "k", id, 1)
	rs := h.apply(h.complete(b, "k", id, p), h.complete(b, "k", id, p))
	require.NoError(h.t, rs[0].Err)
	require.True(h.t, core.Is(rs[1].Err, core.NoSuchUpload), rs[1].Err)
	h.fails(core.NoSuchUpload, h.complete(b, "k", id, p))
}

func completePartReplaced(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	p, q := h.part(b, "k", id, 1), h.part(b, "k", id, 2)
	again := h.part(b, "k", id, 1)
	h.fails(core.Conflict, h.complete(b, "k", id, p, q))
	h.ok(h.complete(b, "k", id, again, q))
}

func completePartMissing(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	p := h.part(b, "k", id, 1)
	h.fails(core.InvalidPart, h.complete(b, "k", id, p, core.PartRef{Number: 2, Seq: p.Seq}))
	h.fails(core.InvalidPart, h.complete(b, "k", id, core.PartRef{Number: 2, Seq: p.Seq}))
	for _, number := range []int{10_000, 10_001, 20_000} {
		h.fails(core.InvalidPart, h.complete(b, "k", id, p, core.PartRef{Number: number, Seq: p.Seq}))
	}
	empty := h.begin(b, "empty")
	h.fails(core.InvalidPart, h.complete(b, "empty", empty, core.PartRef{Number: 1, Seq: p.Seq}))
	h.part(b, "k", id, 3)
	h.fails(core.InvalidPart, h.complete(b, "k", id, p, core.PartRef{Number: 2, Seq: p.Seq}))
}

func completeMalformed(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	p, q := h.part(b, "k", id, 1), h.part(b, "k", id, 2)
	h.fails(core.InvalidArgument, h.complete(b, "k", id))
	h.fails(core.InvalidArgument, h.complete(b, "k", id, q, p))
	h.fails(core.InvalidArgument, h.complete(b, "k", id, p, p))
	c := h.complete(b, "k", id, p, q)
	c.Object.Segments = []core.Segment{{Data: 1, Length: 1}}
	h.fails(core.InvalidArgument, c)
}

func completeWithoutUpload(h *harness) {
	b, other := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	id := h.begin(b, "k")
	p := h.part(b, "k", id, 1)
	h.fails(core.NoSuchUpload, h.complete(b, "l", id, p))
	h.fails(core.NoSuchUpload, h.complete(other, "k", id, p))
	h.fails(core.NoSuchUpload, h.complete(b, "k", id+1, p))
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "k", Upload: id})
	h.fails(core.NoSuchUpload, h.complete(b, "k", id, p))
}

func completePreconditionFirst(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	id := h.begin(b, "k")
	p := h.part(b, "k", id, 1)
	c := h.complete(b, "k", id, p, core.PartRef{Number: 2, Seq: 1})
	c.If.NoneMatch = []string{"*"}
	h.fails(core.PreconditionFailed, c)
	c = h.complete(b, "k", id, p)
	c.If.Match = []string{"x"}
	h.fails(core.PreconditionFailed, c)
	c.If.Match = []string{o.ETag}
	h.ok(c)
}

func completeReplacesObject(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	m := h.multipart(b, "k", 2)
	extents, _ := h.trash()
	require.Equal(h.t, o.Segments[0].Info.Extents, extents)
	h.put(b, "k")
	_, lists := h.trash()
	require.Equal(h.t, []core.UploadID{m.List}, lists)
	require.Len(h.t, h.parts(m.List, 0, 9), 2, "the parts must remain until reclaim deletes them")
	h.multipart(b, "k", 1)
	h.multipart(b, "k", 1)
	_, lists = h.trash()
	require.Len(h.t, lists, 2)
}

func completeWithVersions(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	x, y := h.multipart(b, "k", 1), h.multipart(b, "k", 1)
	require.Equal(h.t, core.Version(y.Seq), y.Version())
	require.True(h.t, y.Latest)
	require.Equal(h.t, x.List, h.get(b, "k", x.Version()).List)
	_, lists := h.trash()
	require.Empty(h.t, lists)
	h.set(b, core.VersioningSuspended)
	z := h.multipart(b, "k", 1)
	require.True(h.t, z.Null)
	h.remove(b, "k")
	_, lists = h.trash()
	require.Equal(h.t, []core.UploadID{z.List}, lists)
}

func completeManyParts(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	id := h.begin(b, "k")
	var changes []core.Change
	refs := make([]core.PartRef, 10_000)
	for i := range refs {
		changes = append(changes, h.partOf(b, "k", id, i+1, h.content(1)))
		refs[i] = core.PartRef{Number: i + 1, Seq: h.seq + core.Seq(len(changes))}
	}
	h.apply(changes...)
	h.ok(h.complete(b, "k", id, refs...))
	require.Len(h.t, h.parts(id, 5000, 10_000), 5000)
	h.remove(b, "k")
	_, lists := h.trash()
	require.Equal(h.t, []core.UploadID{id}, lists)
}
