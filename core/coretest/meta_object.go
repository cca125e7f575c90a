package coretest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

func objectCases() []metaCase {
	return []metaCase{
		{"object/every field is kept", objectKeepsEveryField},
		{"object/only the key is set", objectWithKeyOnly},
		{"object/missing", objectMissing},
		{"object/overwrite", objectOverwrite},
		{"object/overwrite twice in one batch", objectOverwriteTwiceInBatch},
		{"object/delete", objectDelete},
		{"object/delete a missing key", objectDeleteMissing},
		{"object/put, delete and put in one batch", objectPutDeletePutInBatch},
		{"object/bucket, object, upload and part in one batch", objectAllKindsInBatch},
		{"object/keys are bytes", objectKeysAreBytes},
		{"object/at most MaxInlineSegments segments", objectSegmentLimit},
		{"object/PutObject of a delete marker is refused", objectMarkerIsRefused},
		{"object/large content with many extents", objectManyExtents},
	}
}

func objectKeepsEveryField(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.content(2500)
	s.Info.Codec, s.Info.Dictionary, s.Info.KeyID, s.Info.DataKey = 2, 1<<31, 3, []byte("wrapped")
	s.Info.Sums = append(s.Info.Sums, core.Checksum{Algorithm: checksum.CRC32, Value: []byte{0, 1, 2, 3}})
	o := h.object(b, "k", s)
	o.Tags = append(o.Tags, core.Attr{Name: "", Value: "ü"}, core.Attr{Name: "a", Value: ""})
	o.Attrs = append(o.Attrs, core.Attr{Name: "x-amz-meta-n", Value: "twice"})
	o.ETag = "not an MD5"
	o.Seq, o.Latest, o.Null = 77, false, false // Apply must set these
	r := h.ok(&core.PutObject{Object: o})
	require.Equal(h.t, core.Null, r.Version)
	require.False(h.t, r.Marker)
	o.Seq, o.Latest, o.Null = r.Seq, true, true
	require.Equal(h.t, normalObject(&o), normalObject(h.get(b, "k", core.Current)))
	require.Equal(h.t, normalObject(&o), normalObject(h.get(b, "k", core.Null)))
}

func objectWithKeyOnly(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	r := h.ok(&core.PutObject{Object: core.ObjectInfo{Bucket: b.ID, Key: "k", Modified: h.at()}})
	want := core.ObjectInfo{Bucket: b.ID, Key: "k", Modified: h.at(), Seq: r.Seq, Null: true, Latest: true}
	want.Modified = h.get(b, "k", core.Current).Modified.UTC()
	require.Equal(h.t, want, normalObject(h.get(b, "k", core.Current)))
}

func objectMissing(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.none(core.NoSuchKey, b, "k", core.Current)
	h.none(core.NoSuchKey, b, "k", core.Null)
	h.none(core.NoSuchKey, b, "k", 1)
	o := h.put(b, "k")
	h.none(core.NoSuchKey, b, "K", core.Current)
	h.none(core.NoSuchKey, b, "", core.Current)
	h.none(core.NoSuchVersion, b, "k", core.Version(o.Seq+1))
	h.none(core.NoSuchKey, h.bucket("c", core.VersioningOff), "k", core.Current)
}

func objectOverwrite(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	old := h.put(b, "k")
	o := h.put(b, "k")
	require.Greater(h.t, o.Seq, old.Seq)
	require.Zero(h.t, h.refs(old.Segments[0].Data))
	extents, lists := h.trash()
	require.Equal(h.t, old.Segments[0].Info.Extents, extents)
	require.Empty(h.t, lists)
}

func objectOverwriteTwiceInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.apply(&core.PutObject{Object: h.object(b, "k", h.content(1))}, &core.PutObject{Object: h.object(b, "k", h.content(2))},
		&core.PutObject{Object: h.object(b, "k", h.content(3))})
	require.EqualValues(h.t, 3, h.get(b, "k", core.Current).Size)
	extents, _ := h.trash()
	require.Len(h.t, extents, 2)
}

func objectDelete(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	r := h.remove(b, "k")
	require.Equal(h.t, core.Null, r.Version)
	require.False(h.t, r.Marker)
	h.none(core.NoSuchKey, b, "k", core.Current)
	extents, _ := h.trash()
	require.Equal(h.t, o.Segments[0].Info.Extents, extents)
}

func objectDeleteMissing(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	for _, v := range []core.Version{core.Current, core.Null, 7} {
		r := h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: v, Modified: h.at()})
		require.Equal(h.t, core.Current, r.Version)
		require.False(h.t, r.Marker)
	}
	h.none(core.NoSuchKey, b, "k", core.Current)
}

func objectPutDeletePutInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	rs := h.apply(&core.PutObject{Object: h.object(b, "k", h.content(1))}, &core.DeleteObject{Bucket: b.ID, Key: "k"},
		&core.PutObject{Object: h.object(b, "k", h.content(2))}, &core.DeleteObject{Bucket: b.ID, Key: "l"})
	require.Equal(h.t, core.Null, rs[1].Version)
	require.Equal(h.t, core.Current, rs[3].Version)
	require.EqualValues(h.t, 2, h.get(b, "k", core.Current).Size)
}

func objectAllKindsInBatch(h *harness) {
	id := h.seq + 1
	b := &core.BucketInfo{ID: core.BucketID(id), Name: "b"}
	rs := h.apply(&core.PutBucket{Info: core.BucketInfo{Name: "b"}}, &core.PutObject{Object: h.object(b, "k", h.content(1))},
		&core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: "u", Initiated: h.at()}},
		h.partOf(b, "u", core.UploadID(id+2), 1, h.content(9)),
		h.complete(b, "u", core.UploadID(id+2), core.PartRef{Number: 1, Seq: id + 3}))
	for _, r := range rs {
		require.NoError(h.t, r.Err)
	}
	require.Equal(h.t, core.UploadID(id+2), h.get(b, "u", core.Current).List)
}

func objectKeysAreBytes(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var keys []string
	for c := 1; c < 256; c++ {
		keys = append(keys, string([]byte{byte(c)}), string([]byte{'a', byte(c), byte(c)}))
	}
	keys = append(keys, strings.Repeat("k", 1024), strings.Repeat("\xff", 1024), "a b", "../..", "//", "é", "e\u0301", "'\"%_*?[", "\xff\xfe\x00x", "a\x00", "a\x00b")
	changes := make([]core.Change, len(keys))
	for i, key := range keys {
		changes[i] = &core.PutObject{Object: h.object(b, key, h.content(int64(i)))}
	}
	h.apply(changes...)
	for i, key := range keys {
		o := h.get(b, key, core.Current)
		require.Equal(h.t, key, o.Key)
		require.EqualValues(h.t, i, o.Size)
	}
}

func objectSegmentLimit(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	var segments []core.Segment
	for range core.MaxInlineSegments {
		segments = append(segments, h.content(10))
	}
	h.ok(&core.PutObject{Object: h.object(b, "k", segments...)})
	got := h.get(b, "k", core.Current)
	require.Equal(h.t, normalSegments(segments), normalSegments(got.Segments))
	for range core.MaxInlineSegments + 1 {
		segments = append(segments[1:], h.content(10))
	}
	h.fails(core.InvalidArgument, &core.PutObject{Object: h.object(b, "k", append(segments, h.content(10))...)})
}

func objectMarkerIsRefused(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.fails(core.InvalidArgument, &core.PutObject{Object: core.ObjectInfo{Bucket: b.ID, Key: "k", Marker: true}})
}

func objectManyExtents(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.content(1_280_000)
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	require.Len(h.t, h.get(b, "k", core.Current).Segments[0].Info.Extents, 1280)
	h.remove(b, "k")
	extents, _ := h.trash()
	require.Len(h.t, extents, 1280)
}

func preconditionCases() []metaCase {
	match := func(tags ...string) core.Precondition { return core.Precondition{Match: tags} }
	noneMatch := func(tags ...string) core.Precondition { return core.Precondition{NoneMatch: tags} }
	put := func(h *harness, b *core.BucketInfo, key string, p core.Precondition) *core.PutObject {
		return &core.PutObject{Object: h.object(b, key, h.content(10)), If: p}
	}
	return []metaCase{
		{"if/put", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.fails(core.NoSuchKey, put(h, b, "k", match("*")))
			h.fails(core.NoSuchKey, put(h, b, "k", match("x")))
			h.ok(put(h, b, "k", noneMatch("*")))
			h.fails(core.PreconditionFailed, put(h, b, "k", noneMatch("*")))
			o := h.get(b, "k", core.Current)
			h.fails(core.PreconditionFailed, put(h, b, "k", match("x", "y")))
			h.fails(core.PreconditionFailed, put(h, b, "k", noneMatch("x", o.ETag)))
			h.ok(put(h, b, "k", match("x", o.ETag)))
			h.fails(core.PreconditionFailed, put(h, b, "k", match(o.ETag)))
			h.ok(put(h, b, "k", match("*")))
			h.ok(put(h, b, "k", noneMatch(o.ETag)))
		}},
		{"if/sequence", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.fails(core.Conflict, put(h, b, "k", core.Precondition{Seq: 1}))
			o := h.put(b, "k")
			h.ok(put(h, b, "k", core.Precondition{Seq: o.Seq}))
			h.fails(core.Conflict, put(h, b, "k", core.Precondition{Seq: o.Seq}))
			h.fails(core.Conflict, &core.DeleteObject{Bucket: b.ID, Key: "k", If: core.Precondition{Seq: o.Seq}})
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", If: core.Precondition{Seq: h.get(b, "k", core.Current).Seq}})
		}},
		{"if/the same key is created twice in one batch: one succeeds", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			rs := h.apply(put(h, b, "k", noneMatch("*")), put(h, b, "k", noneMatch("*")), put(h, b, "l", noneMatch("*")))
			require.NoError(h.t, rs[0].Err)
			require.True(h.t, core.Is(rs[1].Err, core.PreconditionFailed), rs[1].Err)
			require.NoError(h.t, rs[2].Err)
			require.Equal(h.t, rs[0].Seq, h.get(b, "k", core.Current).Seq)
		}},
		{"if/delete", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.fails(core.NoSuchKey, &core.DeleteObject{Bucket: b.ID, Key: "k", If: match("*")})
			o := h.put(b, "k")
			h.fails(core.PreconditionFailed, &core.DeleteObject{Bucket: b.ID, Key: "k", If: match("x")})
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", If: match(o.ETag)})
		}},
		{"if/a delete marker does not match", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			h.put(b, "k")
			marker := h.remove(b, "k")
			h.fails(core.NoSuchKey, put(h, b, "k", match("*")))
			h.fails(core.NoSuchKey, &core.DeleteObject{Bucket: b.ID, Key: "k", If: match("*"), Modified: h.at()})
			h.fails(core.Conflict, put(h, b, "k", core.Precondition{Seq: marker.Seq + 1}))
			h.ok(put(h, b, "k", core.Precondition{Seq: marker.Seq, NoneMatch: []string{"*"}}))
		}},
		{"if/conditions apply to the current version, even if another version is deleted", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			old, o := h.put(b, "k"), h.put(b, "k")
			h.fails(core.PreconditionFailed, &core.DeleteObject{Bucket: b.ID, Key: "k", Version: old.Version(), If: match(old.ETag)})
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: old.Version(), If: match(o.ETag)})
		}},
		{"if/a noncurrent version is deleted if the current version is the expected one", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			old, o := h.put(b, "k"), h.put(b, "k")
			del := func(seq core.Seq) core.Change {
				return &core.DeleteObject{Bucket: b.ID, Key: "k", Version: old.Version(), If: core.Precondition{Seq: seq}, Modified: h.at()}
			}
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version(), Modified: h.at()})
			h.fails(core.Conflict, del(o.Seq)) // it is the current version now
			marker := h.remove(b, "k")
			h.fails(core.Conflict, del(old.Seq))
			h.ok(del(marker.Seq))
			// A new null version must not be mistaken for an earlier, noncurrent null version.
			h.set(b, core.VersioningSuspended)
			old = h.put(b, "k")
			h.set(b, core.VersioningEnabled)
			o = h.put(b, "k")
			h.set(b, core.VersioningSuspended)
			again := h.put(b, "k")
			require.Equal(h.t, core.Null, old.Version())
			h.fails(core.Conflict, del(o.Seq))
			require.Equal(h.t, again.Seq, h.get(b, "k", core.Null).Seq)
		}},
		{"if/order of checks: validity, existence, If, Source, content", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.put(b, "k")
			c := put(h, b, "k", noneMatch("*"))
			c.Source = &core.Source{Bucket: b.ID, Key: "k", Seq: 999}
			c.Object.Segments = []core.Segment{{Data: 999, Length: 1}}
			h.fails(core.PreconditionFailed, c)
			c.If = core.Precondition{}
			h.fails(core.Conflict, c)
			c.Source = nil
			h.fails(core.NoSuchData, c)
			c.Object.Bucket = 999
			h.fails(core.NoSuchBucket, c)
			c.Object.Marker = true
			h.fails(core.InvalidArgument, c)
		}},
	}
}
