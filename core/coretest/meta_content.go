package coretest

import (
	"github.com/stretchr/testify/require"

	"orcas/core"
)

// copyOf returns the change that copies a version to another key, by reference.
func (m *maker) copyOf(from *core.ObjectInfo, b *core.BucketInfo, key string) *core.PutObject {
	o := *from
	o.Bucket, o.Key, o.Modified = b.ID, key, m.at()
	o.Segments = append([]core.Segment(nil), from.Segments...)
	stripInfo(o.Segments)
	return &core.PutObject{Object: o, Source: &core.Source{Bucket: from.Bucket, Key: from.Key, Seq: from.Seq}}
}

func copyCases() []metaCase {
	return []metaCase{
		{"copy/by reference", copyByReference},
		{"copy/onto itself keeps the content", copyOntoItselfKeepsContent},
		{"copy/the source was overwritten or deleted: Conflict", copySourceChanged},
		{"copy/from a version that is not the newest", copyOldVersion},
		{"copy/put, copy and delete in one batch", copyInOneBatch},
		{"copy/of content without a source", copyWithoutSource},
		{"copy/of a multipart object", copyMultipartObject},
		{"copy/of a list that is garbage, in progress or missing", copyListNotOfAnObject},
		{"copy/a range of a part of a multipart object", copyRangeOfPart},
	}
}

func copyByReference(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningEnabled)
	o := h.put(b, "k")
	id := o.Segments[0].Data
	h.ok(h.copyOf(o, c, "l"))
	got := h.get(c, "l", core.Current)
	require.Equal(h.t, normalSegments(o.Segments), normalSegments(got.Segments))
	require.EqualValues(h.t, 2, h.refs(id))
	h.remove(b, "k")
	require.EqualValues(h.t, 1, h.refs(id))
	extents, _ := h.trash()
	require.Empty(h.t, extents)
	h.ok(&core.DeleteObject{Bucket: c.ID, Key: "l", Version: got.Version()})
	require.Zero(h.t, h.refs(id))
	extents, _ = h.trash()
	require.Equal(h.t, o.Segments[0].Info.Extents, extents)
}

func copyOntoItselfKeepsContent(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	c := h.copyOf(o, b, "k")
	c.Object.Attrs = nil
	h.ok(c)
	extents, _ := h.trash()
	require.Empty(h.t, extents)
	require.EqualValues(h.t, 1, h.refs(o.Segments[0].Data))
	require.Empty(h.t, h.get(b, "k", core.Current).Attrs)
}

func copySourceChanged(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	other := h.copyOf(o, b, "other") // the content still exists, but the source does not
	h.ok(other)
	h.put(b, "k")
	h.fails(core.Conflict, h.copyOf(o, b, "l"))
	h.remove(b, "k")
	h.fails(core.Conflict, h.copyOf(o, b, "l"))
	gone := h.copyOf(o, b, "l")
	gone.Source.Bucket = 999
	h.fails(core.Conflict, gone)
}

func copyOldVersion(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	null := h.put(b, "k")
	h.set(b, core.VersioningEnabled)
	h.put(b, "k")
	h.remove(b, "k")
	h.ok(h.copyOf(null, b, "k"))
	require.Equal(h.t, null.Segments[0].Data, h.get(b, "k", core.Current).Segments[0].Data)
}

func copyInOneBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	first := h.object(b, "k", h.content(10))
	first.Seq = h.seq + 1
	rs := h.apply(&core.PutObject{Object: first}, h.copyOf(&first, b, "l"), &core.DeleteObject{Bucket: b.ID, Key: "k"}, h.copyOf(&first, b, "m"))
	require.NoError(h.t, rs[1].Err)
	require.True(h.t, core.Is(rs[3].Err, core.Conflict), rs[3].Err)
	require.EqualValues(h.t, 1, h.refs(first.Segments[0].Data))
}

func copyWithoutSource(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	h.ok(&core.PutObject{Object: h.object(b, "l", core.Segment{Data: o.Segments[0].Data, Length: 100})})
	require.EqualValues(h.t, 2, h.refs(o.Segments[0].Data))
	h.fails(core.NoSuchData, &core.PutObject{Object: h.object(b, "m", core.Segment{Data: 999, Length: 100})})
	h.fails(core.NoSuchData, &core.PutObject{Object: h.object(b, "m", h.content(5), core.Segment{Data: 999, Length: 100})})
	h.remove(b, "k")
	h.remove(b, "l")
	h.fails(core.NoSuchData, &core.PutObject{Object: h.object(b, "m", core.Segment{Data: o.Segments[0].Data, Length: 100})})
}

func copyMultipartObject(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.multipart(b, "m", 3)
	parts, err := h.m.Parts(h.ctx, o.List, 0, 9, core.WithContent)
	require.NoError(h.t, err)
	h.ok(h.copyOf(o, b, "n"))
	got := h.get(b, "n", core.Current)
	require.Equal(h.t, o.List, got.List)
	for _, p := range parts {
		require.EqualValues(h.t, 1, h.refs(p.Segments[0].Data), "a list counts as one reference, even if several objects use it")
	}
	h.remove(b, "m")
	_, lists := h.trash()
	require.Empty(h.t, lists)
	h.ok(h.copyOf(got, b, "n")) // copy onto itself
	_, lists = h.trash()
	require.Empty(h.t, lists)
	h.remove(b, "n")
	extents, lists := h.trash()
	require.Equal(h.t, []core.UploadID{o.List}, lists)
	require.Empty(h.t, extents)
}

func copyListNotOfAnObject(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.multipart(b, "m", 2)
	h.remove(b, "m")
	id := h.begin(b, "u")
	h.part(b, "u", id, 1)
	for _, list := range []core.UploadID{o.List, id, 999} {
		c := h.object(b, "k")
		c.List = list
		h.fails(core.NoSuchData, &core.PutObject{Object: c})
	}
}

func copyRangeOfPart(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.multipart(b, "m", 2)
	parts, err := h.m.Parts(h.ctx, o.List, 0, 9, core.WithContent)
	require.NoError(h.t, err)
	id := parts[1].Segments[0].Data
	c := h.object(b, "k", core.Segment{Data: id, From: 7, Length: 20})
	h.ok(&core.PutObject{Object: c, Source: &core.Source{Bucket: b.ID, Key: "m", Seq: o.Seq}})
	require.EqualValues(h.t, 2, h.refs(id))
	got := h.get(b, "k", core.Current).Segments[0]
	require.EqualValues(h.t, []int64{7, 20, 50}, []int64{got.From, got.Length, got.Info.Size})
	h.remove(b, "k")
	require.EqualValues(h.t, 1, h.refs(id))
}

func contentCases() []metaCase {
	return []metaCase{
		{"content/each segment is a reference", contentRefsCountSegments},
		{"content/empty content leaves no garbage", contentEmptyLeavesNoGarbage},
		{"content/Data keeps the requested order", contentDataInOrderRequested},
		{"content/Data of many IDs", contentDataOfManyIDs},
		{"content/NextData", contentNextData},
		{"content/a failed change also increases NextData, because its frames are in a block", contentNextDataAfterFailure},
		{"content/garbage is paged by ID", contentGarbagePages},
	}
}

func contentRefsCountSegments(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.content(100)
	again := core.Segment{Data: s.Data, From: 50, Length: 50}
	h.ok(&core.PutObject{Object: h.object(b, "k", s, again, again)})
	require.EqualValues(h.t, 3, h.refs(s.Data))
	got := h.get(b, "k", core.Current).Segments
	require.Len(h.t, got, 3)
	require.EqualValues(h.t, 50, got[2].From)
	h.ok(&core.PutObject{Object: h.object(b, "l", again), Source: &core.Source{Bucket: b.ID, Key: "k", Seq: h.seq}})
	h.remove(b, "k")
	require.EqualValues(h.t, 1, h.refs(s.Data))
}

func contentEmptyLeavesNoGarbage(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.ok(&core.PutObject{Object: h.object(b, "k", h.content(0))})
	h.ok(&core.PutObject{Object: h.object(b, "none")})
	require.Len(h.t, h.get(b, "k", core.Current).Segments, 1)
	require.EqualValues(h.t, 1, h.refs(h.data))
	h.remove(b, "k")
	require.Zero(h.t, h.refs(h.data))
	require.Empty(h.t, h.state().Garbage)
}

func contentDataInOrderRequested(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var ids []core.DataID
	for _, key := range []string{"a", "b", "c", "d"} {
		ids = append(ids, h.put(b, key).Segments[0].Data)
	}
	h.remove(b, "b")
	got, err := h.m.Data(h.ctx, []core.DataID{ids[3], 999, ids[0], ids[1], 0, ids[2]})
	require.NoError(h.t, err)
	require.Len(h.t, got, 3)
	require.Equal(h.t, []core.DataID{ids[3], ids[0], ids[2]}, []core.DataID{got[0].ID, got[1].ID, got[2].ID})
	none, err := h.m.Data(h.ctx, nil)
	require.NoError(h.t, err)
	require.Empty(h.t, none)
}

func contentDataOfManyIDs(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var ids []core.DataID
	var changes []core.Change
	for i := range 2500 {
		changes = append(changes, &core.PutObject{Object: h.object(b, string(rune(1000+i)), h.content(int64(i%7+1)))})
		ids = append(ids, h.data)
	}
	h.apply(changes...)
	got, err := h.m.Data(h.ctx, ids)
	require.NoError(h.t, err)
	require.Len(h.t, got, len(ids))
	for i := range got {
		require.Equal(h.t, ids[i], got[i].ID)
	}
}

func contentNextData(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.data = 40
	h.put(b, "k")
	require.EqualValues(h.t, 42, h.state().State.NextData)
	h.remove(b, "k")
	require.EqualValues(h.t, 42, h.state().State.NextData, "DataIDs must not be reused")
	h.data = 20 // content may be stored in another order than that of the DataIDs
	h.put(b, "l")
	require.EqualValues(h.t, 42, h.state().State.NextData)
}

func contentNextDataAfterFailure(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.fails(core.NoSuchKey, &core.PutObject{Object: h.object(b, "k", h.content(1)), If: core.Precondition{Match: []string{"*"}}})
	require.EqualValues(h.t, 2, h.state().State.NextData)
	h.fails(core.NoSuchUpload, h.partOf(b, "k", 99, 1, h.content(1)))
	require.EqualValues(h.t, 3, h.state().State.NextData)
}

func contentGarbagePages(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	for range 8 {
		h.put(b, "k")
	}
	all, err := h.m.Garbage(h.ctx, 0, 100)
	require.NoError(h.t, err)
	require.Len(h.t, all, 7, "one entry for each change that orphaned content")
	for limit := 1; limit <= 8; limit++ {
		var got []core.Garbage
		for after := uint64(0); ; {
			page, err := h.m.Garbage(h.ctx, after, limit)
			require.NoError(h.t, err)
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			after = page[len(page)-1].ID
		}
		require.Equal(h.t, all, got)
	}
	none, err := h.m.Garbage(h.ctx, 0, 0)
	require.NoError(h.t, err)
	require.Empty(h.t, none)
}
