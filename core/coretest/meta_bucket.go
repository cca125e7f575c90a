package coretest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

func bucketCases() []metaCase {
	return []metaCase{
		{"bucket/empty store", bucketEmptyStore},
		{"bucket/create and read", bucketCreateAndRead},
		{"bucket/create with a name that exists", bucketNameTaken},
		{"bucket/create twice in one batch", bucketSameNameInBatch},
		{"bucket/update", bucketUpdate},
		{"bucket/an update requires the same ID and name", bucketUpdateAnother},
		{"bucket/versioning cannot be turned off: Conflict", bucketVersioningOffAgain},
		{"bucket/Expect", bucketAsExpected},
		{"bucket/two updates with the same Expect in one batch", bucketExpectedTwice},
		{"bucket/delete and create again", bucketDeleteAndCreate},
		{"bucket/delete a bucket that is not empty", bucketNotEmpty},
		{"bucket/a list in the garbage does not prevent deletion", bucketWithListInGarbage},
		{"bucket/its records are deleted with it", bucketRecordsAreDeleted},
		{"bucket/list", bucketList},
		{"bucket/changes in a deleted bucket", bucketChangesAfterDelete},
		{"bucket/reads in a missing bucket: empty, NoSuchKey, NoSuchUpload", bucketReadsOfMissing},
	}
}

func bucketEmptyStore(h *harness) {
	s, err := h.m.State(h.ctx)
	require.NoError(h.t, err)
	require.Equal(h.t, core.State{NextData: 1}, s)
	_, err = h.m.Bucket(h.ctx, "b")
	require.True(h.t, core.Is(err, core.NoSuchBucket), err)
	require.Empty(h.t, h.buckets("", "", 10))
}

func bucketCreateAndRead(h *harness) {
	info := core.BucketInfo{Name: "b", Owner: "o", Region: "eu-1", Created: h.at(), Versioning: core.VersioningEnabled, ObjectLock: true,
		ChunkSize: 1 << 20, Compression: core.CompressionBetter, Encrypted: true, Attrs: []core.Attr{{Name: "x", Value: "y"}, {Name: "", Value: ""}}}
	r := h.ok(&core.PutBucket{Info: info})
	got, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	info.ID = core.BucketID(r.Seq)
	require.Equal(h.t, info, normalBucket(*got))
}

func bucketNameTaken(h *harness) {
	h.bucket("b", core.VersioningOff)
	h.fails(core.BucketExists, &core.PutBucket{Info: core.BucketInfo{Name: "b", Owner: "other"}})
}

func bucketSameNameInBatch(h *harness) {
	rs := h.apply(&core.PutBucket{Info: core.BucketInfo{Name: "b", Owner: "1"}}, &core.PutBucket{Info: core.BucketInfo{Name: "b", Owner: "2"}})
	require.NoError(h.t, rs[0].Err)
	require.True(h.t, core.Is(rs[1].Err, core.BucketExists), rs[1].Err)
	require.Equal(h.t, "1", h.buckets("", "", 9)[0].Owner)
}

func bucketUpdate(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "k")
	changed := *b
	changed.Versioning, changed.Owner, changed.Attrs, changed.Compression = core.VersioningEnabled, "new", []core.Attr{{Name: "a", Value: "b"}}, core.CompressionFast
	h.ok(&core.PutBucket{Info: changed})
	got, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	require.Equal(h.t, normalBucket(changed), normalBucket(*got))
}

func bucketUpdateAnother(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.bucket("c", core.VersioningOff)
	renamed, other := *b, *b
	renamed.Name = "d"
	other.ID = 999
	h.fails(core.NoSuchBucket, &core.PutBucket{Info: renamed})
	h.fails(core.NoSuchBucket, &core.PutBucket{Info: other})
	renamed.Name = "c"
	h.fails(core.NoSuchBucket, &core.PutBucket{Info: renamed})
}

func bucketVersioningOffAgain(h *harness) {
	for _, v := range []core.Versioning{core.VersioningEnabled, core.VersioningSuspended} {
		b := *h.bucket([]string{"", "e", "s"}[v], v)
		b.Versioning = core.VersioningOff
		h.fails(core.Conflict, &core.PutBucket{Info: b})
	}
}

func bucketDeleteAndCreate(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.ok(&core.DeleteBucket{Bucket: b.ID})
	_, err := h.m.Bucket(h.ctx, "b")
	require.True(h.t, core.Is(err, core.NoSuchBucket), err)
	h.fails(core.NoSuchBucket, &core.DeleteBucket{Bucket: b.ID})
	again := h.bucket("b", core.VersioningOff)
	require.NotEqual(h.t, b.ID, again.ID)
	h.fails(core.NoSuchBucket, &core.DeleteBucket{Bucket: b.ID})
}

func bucketNotEmpty(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.bucket("other", core.VersioningOff)
	o := h.put(b, "k")
	h.fails(core.BucketNotEmpty, &core.DeleteBucket{Bucket: b.ID})
	marker := h.remove(b, "k")
	h.fails(core.BucketNotEmpty, &core.DeleteBucket{Bucket: b.ID})
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version()})
	h.fails(core.BucketNotEmpty, &core.DeleteBucket{Bucket: b.ID}) // the marker still exists
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: marker.Version})
	id := h.begin(b, "u")
	h.fails(core.BucketNotEmpty, &core.DeleteBucket{Bucket: b.ID})
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "u", Upload: id})
	h.ok(&core.DeleteBucket{Bucket: b.ID})
}

func bucketWithListInGarbage(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.multipart(b, "k", 2)
	h.remove(b, "k")
	h.ok(&core.DeleteBucket{Bucket: b.ID})
}

func bucketRecordsAreDeleted(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	for _, id := range []core.BucketID{b.ID, c.ID} {
		h.ok(&core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(id), Key: "cors", Value: []byte("x")}})
		h.ok(&core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(id), Key: "policy", Value: []byte("y")}})
	}
	h.ok(&core.DeleteBucket{Bucket: b.ID})
	require.Empty(h.t, h.records(core.BucketRecordKind(b.ID), "", 9))
	require.Len(h.t, h.records(core.BucketRecordKind(c.ID), "", 9), 2)
}

func bucketList(h *harness) {
	for _, name := range []string{"b", "a", "ab", "aa", "b.a", "b-a"} {
		h.bucket(name, core.VersioningOff)
	}
	names := func(prefix, after string, limit int) []string {
		var names []string
		for _, b := range h.buckets(prefix, after, limit) {
			names = append(names, b.Name)
		}
		return names
	}
	require.Equal(h.t, []string{"a", "aa", "ab", "b", "b-a", "b.a"}, names("", "", 10))
	require.Equal(h.t, []string{"a", "aa"}, names("", "", 2))
	require.Equal(h.t, []string{"ab", "b"}, names("", "aa", 2))
	require.Equal(h.t, []string{"ab", "b"}, names("", "aaa", 2))
	require.Equal(h.t, []string{"b", "b-a", "b.a"}, names("b", "", 10))
	require.Equal(h.t, []string{"b-a", "b.a"}, names("b", "b", 10))
	require.Empty(h.t, names("b", "c", 10))
	require.Equal(h.t, []string{"b"}, names("b", "a", 1))
	require.Empty(h.t, names("c", "", 10))
	require.Empty(h.t, names("", "", 0))
}

func bucketChangesAfterDelete(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.ok(&core.DeleteBucket{Bucket: b.ID})
	h.fails(core.NoSuchBucket, &core.PutBucket{Info: *b})
	h.fails(core.NoSuchBucket, &core.PutObject{Object: h.object(b, "k", h.content(1))})
	h.fails(core.NoSuchBucket, &core.DeleteObject{Bucket: b.ID, Key: "k"})
	h.fails(core.NoSuchBucket, &core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: "k"}})
	h.fails(core.NoSuchUpload, h.partOf(b, "k", 1, 1, h.content(1)))
	h.fails(core.NoSuchUpload, h.complete(b, "k", 1, core.PartRef{Number: 1, Seq: 1}))
	h.fails(core.NoSuchUpload, &core.AbortUpload{Bucket: b.ID, Key: "k", Upload: 1})
}

func bucketReadsOfMissing(h *harness) {
	b := &core.BucketInfo{ID: 5}
	for _, kind := range []core.ListKind{core.ListObjects, core.ListVersions, core.ListUploads} {
		page, err := h.m.List(h.ctx, core.ListQuery{Kind: kind, Bucket: b.ID, Limit: 1})
		require.NoError(h.t, err)
		require.Empty(h.t, page.Objects)
		require.False(h.t, page.Truncated)
	}
	h.none(core.NoSuchKey, b, "k", core.Current)
	h.none(core.NoSuchKey, b, "k", core.Null)
	_, err := h.m.Upload(h.ctx, b.ID, "k", 1)
	require.True(h.t, core.Is(err, core.NoSuchUpload), err)
}

func (r *reader) buckets(prefix, after string, limit int) []core.BucketInfo {
	found, err := r.m.Buckets(r.ctx, prefix, after, limit)
	require.NoError(r.t, err)
	return found
}

func (r *reader) records(kind, after string, limit int) []core.Record {
	found, err := r.m.Records(r.ctx, kind, after, limit)
	require.NoError(r.t, err)
	return found
}

func bucketAsExpected(h *harness) {
	h.bucket("other", core.VersioningOff)
	info := core.BucketInfo{Name: "b", Owner: "o", Region: "eu-1", Created: h.at(), Versioning: core.VersioningEnabled, ObjectLock: true,
		Retention: core.DefaultRetention{Mode: core.LockGovernance, Days: 1}, ChunkSize: 1 << 20, Compression: core.CompressionBetter,
		Quota: core.Quota{Objects: 9}, Attrs: []core.Attr{{Name: "x", Value: "y"}}}
	h.ok(&core.PutBucket{Info: info})
	before, err := h.m.Bucket(h.ctx, "b")
	require.NoError(h.t, err)
	for _, change := range []func(b *core.BucketInfo){
		func(b *core.BucketInfo) { b.Owner = "p" },
		func(b *core.BucketInfo) { b.Created = b.Created.Add(1e6) },
		func(b *core.BucketInfo) { b.Retention.Days = 2 },
		func(b *core.BucketInfo) { b.Quota.Objects = 10 },
		func(b *core.BucketInfo) { b.Attrs = nil },
		func(b *core.BucketInfo) { b.Attrs = []core.Attr{{Name: "x", Value: "z"}} },
	} {
		other, next := *before, *before
		change(&other)
		next.Region = "new"
		h.fails(core.Conflict, &core.PutBucket{Info: next, Expect: &other})
	}
	next := *before
	next.Region = "new"
	h.ok(&core.PutBucket{Info: next, Expect: before})
	h.fails(core.Conflict, &core.PutBucket{Info: next, Expect: before})
}

func bucketExpectedTwice(h *harness) {
	before := h.bucket("b", core.VersioningOff)
	one, two := *before, *before
	one.Owner, two.Owner = "1", "2"
	rs := h.apply(&core.PutBucket{Info: one, Expect: before}, &core.PutBucket{Info: two, Expect: before})
	require.NoError(h.t, rs[0].Err)
	require.True(h.t, core.Is(rs[1].Err, core.Conflict), rs[1].Err)
}

func recordCases() []metaCase {
	put := func(key, value string) *core.PutRecord {
		return &core.PutRecord{Record: core.Record{Kind: kindUser, Key: key, Value: []byte(value)}}
	}
	expect := func(c *core.PutRecord, value string) *core.PutRecord {
		c.HasExpect, c.Expect = true, []byte(value)
		return c
	}
	remove := func(key string) *core.PutRecord {
		return &core.PutRecord{Record: core.Record{Kind: kindUser, Key: key}}
	}
	return []metaCase{
		{"record/put, replace, delete", func(h *harness) {
			h.ok(put("a", "1"))
			h.ok(put("a", "2"))
			require.Equal(h.t, []core.Record{{Kind: kindUser, Key: "a", Value: []byte("2")}}, h.records(kindUser, "", 9))
			h.ok(remove("a"))
			require.Empty(h.t, h.records(kindUser, "", 9))
			h.ok(remove("a")) // deleting a missing record succeeds
		}},
		{"record/an empty value is a record", func(h *harness) {
			h.ok(put("a", ""))
			got := h.records(kindUser, "", 9)
			require.Len(h.t, got, 1)
			require.Empty(h.t, got[0].Value)
			h.fails(core.Conflict, expect(put("a", "2"), "")) // expects no record
		}},
		{"record/expect", func(h *harness) {
			h.fails(core.Conflict, expect(put("a", "2"), "1"))
			h.ok(expect(put("a", "1"), ""))
			h.fails(core.Conflict, expect(put("a", "2"), ""))
			h.fails(core.Conflict, expect(put("a", "2"), "2"))
			h.ok(expect(put("a", "2"), "1"))
			h.fails(core.Conflict, expect(remove("a"), "1"))
			h.ok(expect(remove("a"), "2"))
			h.ok(expect(remove("a"), ""))
		}},
		{"record/In requires the bucket to exist", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			in := func(key string) *core.PutRecord {
				c := &core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(b.ID), Key: key, Value: []byte("x")}, In: b.ID}
				return c
			}
			h.ok(in("a"))
			h.ok(&core.DeleteBucket{Bucket: b.ID})
			h.fails(core.NoSuchBucket, in("a"))
			h.bucket("b", core.VersioningOff)
			h.fails(core.NoSuchBucket, in("a")) // a different bucket with that name
		}},
		{"record/two changes with the same Expect in one batch", func(h *harness) {
			rs := h.apply(expect(put("a", "1"), ""), expect(put("a", "2"), ""))
			require.NoError(h.t, rs[0].Err)
			require.True(h.t, core.Is(rs[1].Err, core.Conflict), rs[1].Err)
		}},
		{"record/kinds are separate", func(h *harness) {
			h.ok(put("a", "1"))
			h.ok(&core.PutRecord{Record: core.Record{Kind: kindCursor, Key: "a", Value: []byte("2")}})
			h.ok(remove("a"))
			require.Len(h.t, h.records(kindCursor, "", 9), 1)
			require.Empty(h.t, h.records("unknown", "", 9))
		}},
		{"record/pages are in byte order", func(h *harness) {
			keys := []string{"\x00", "\x00\x00", "a", "a\x00", "aa", "b", "\x7f", "\x80", "\xc3\xa9", "\xff", "\xff\xff"}
			for _, i := range []int{3, 9, 0, 7, 1, 10, 2, 8, 4, 6, 5} {
				h.ok(put(keys[i], keys[i]))
			}
			for limit := 1; limit <= len(keys)+1; limit++ {
				var got []string
				for after := ""; ; {
					page := h.records(kindUser, after, limit)
					for _, r := range page {
						got = append(got, r.Key)
						require.Equal(h.t, r.Key, string(r.Value))
						after = r.Key
					}
					require.LessOrEqual(h.t, len(page), limit)
					if len(page) < limit {
						break
					}
				}
				require.Equal(h.t, keys, got, "limit %d", limit)
			}
			require.Equal(h.t, "b", h.records(kindUser, "ab", 1)[0].Key, "after a key that does not exist")
			require.Empty(h.t, h.records(kindUser, "", 0))
		}},
		{"record/large value", func(h *harness) {
			h.ok(&core.PutRecord{Record: core.Record{Kind: kindUser, Key: "a", Value: slices.Repeat([]byte{0, 1, 0xff}, 100_000)}})
			require.Len(h.t, h.records(kindUser, "", 9)[0].Value, 300_000)
		}},
	}
}
