package coretest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// tallyCases is about core.Tallier, an ability that an engine may lack. After every case of the suite, and after each
// step of the random ones, the tallies of all buckets are compared with what they hold.
func tallyCases() []metaCase {
	return []metaCase{
		{"tally/versions, markers, and uploads", tallyVersions},
		{"tally/suspended: a null version that is not the newest is replaced", tallySuspended},
		{"tally/the newest version is deleted", tallyNewestDeleted},
		{"tally/uploads", tallyUploads},
		{"tally/moves", tallyMoves},
		{"tally/pages", tallyPages},
	}
}

// tallied checks the tally of a bucket.
func (h *harness) tallied(b *core.BucketInfo, want core.Tally) {
	t, ok := core.As[core.Tallier](h.m)
	if !ok {
		return
	}
	list, err := t.Tallies(h.ctx, b.ID-1, 1)
	require.NoError(h.t, err)
	require.Equal(h.t, []core.BucketTally{{Bucket: b.ID, Tally: want}}, list)
}

func tallyVersions(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.tallied(b, core.Tally{})
	h.put(b, "k")
	h.put(b, "k")
	h.put(b, "l")
	h.tallied(b, core.Tally{Versions: 2, Bytes: 200})
	h.set(b, core.VersioningEnabled)
	h.put(b, "k")
	h.tallied(b, core.Tally{Versions: 3, Bytes: 300, NoncurrentVersions: 1, NoncurrentBytes: 100})
	marker := h.remove(b, "l")
	h.tallied(b, core.Tally{Versions: 3, Bytes: 300, NoncurrentVersions: 2, NoncurrentBytes: 200, DeleteMarkers: 1})
	h.remove(b, "l")
	h.erase(b, "l", marker.Version)
	h.tallied(b, core.Tally{Versions: 3, Bytes: 300, NoncurrentVersions: 2, NoncurrentBytes: 200, DeleteMarkers: 1})
	h.ok(&core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: []core.Attr{{Name: "t", Value: "v"}}})
	h.tallied(b, core.Tally{Versions: 3, Bytes: 300, NoncurrentVersions: 2, NoncurrentBytes: 200, DeleteMarkers: 1})
}

func tallySuspended(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "k")
	h.set(b, core.VersioningEnabled)
	h.put(b, "k")
	h.set(b, core.VersioningSuspended)
	h.ok(h.sized(b, "k", 7))
	h.tallied(b, core.Tally{Versions: 2, Bytes: 107, NoncurrentVersions: 1, NoncurrentBytes: 100})
	h.remove(b, "k")
	h.remove(b, "k")
	h.tallied(b, core.Tally{Versions: 1, Bytes: 100, NoncurrentVersions: 1, NoncurrentBytes: 100, DeleteMarkers: 1})
	h.ok(h.sized(b, "k", 8))
	h.tallied(b, core.Tally{Versions: 2, Bytes: 108, NoncurrentVersions: 1, NoncurrentBytes: 100})
}

func tallyNewestDeleted(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.ok(h.sized(b, "k", 1))
	h.ok(h.sized(b, "k", 20))
	marker := h.remove(b, "k")
	newest := h.ok(h.sized(b, "k", 300))
	h.tallied(b, core.Tally{Versions: 3, Bytes: 321, NoncurrentVersions: 2, NoncurrentBytes: 21, DeleteMarkers: 1})
	h.erase(b, "k", newest.Version)
	h.tallied(b, core.Tally{Versions: 2, Bytes: 21, NoncurrentVersions: 2, NoncurrentBytes: 21, DeleteMarkers: 1})
	h.erase(b, "k", marker.Version)
	h.tallied(b, core.Tally{Versions: 2, Bytes: 21, NoncurrentVersions: 1, NoncurrentBytes: 1})
}

func tallyUploads(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.put(b, "k")
	id, other := h.begin(b, "k"), h.begin(b, "k")
	one := h.part(b, "k", id, 1)
	h.part(b, "k", id, 2)
	h.ok(h.partOf(b, "k", id, 2, h.content(70)))
	h.part(b, "k", other, 1)
	h.tallied(b, core.Tally{Versions: 1, Bytes: 100, Uploads: 2, UploadBytes: 170})
	h.ok(h.complete(b, "k", id, one))
	h.tallied(b, core.Tally{Versions: 2, Bytes: 150, NoncurrentVersions: 1, NoncurrentBytes: 100, Uploads: 1, UploadBytes: 50})
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "k", Upload: other})
	h.tallied(b, core.Tally{Versions: 2, Bytes: 150, NoncurrentVersions: 1, NoncurrentBytes: 100})
}

func tallyMoves(h *harness) {
	b, v := h.bucket("b", core.VersioningOff), h.bucket("v", core.VersioningEnabled)
	o := h.put(b, "k")
	h.put(v, "k")
	h.ok(h.move(o, v, "k"))
	h.tallied(b, core.Tally{})
	h.tallied(v, core.Tally{Versions: 2, Bytes: 200, NoncurrentVersions: 1, NoncurrentBytes: 100})
	h.ok(h.move(h.get(v, "k", core.Current), v, "l"))
	h.tallied(v, core.Tally{Versions: 3, Bytes: 300, NoncurrentVersions: 2, NoncurrentBytes: 200, DeleteMarkers: 1})
}

func tallyPages(h *harness) {
	t, ok := core.As[core.Tallier](h.m)
	if !ok {
		return
	}
	var all []core.BucketTally
	for i := range 7 {
		b := h.bucket(fmt.Sprintf("b%d", 9-i), core.VersioningOff)
		for k := range i {
			h.put(b, fmt.Sprint(k))
		}
		all = append(all, core.BucketTally{Bucket: b.ID, Tally: core.Tally{Versions: int64(i), Bytes: int64(100 * i)}})
	}
	h.ok(&core.DeleteBucket{Bucket: all[0].Bucket})
	all = all[1:]
	for limit := 1; limit <= 7; limit++ {
		var found []core.BucketTally
		for after := core.BucketID(0); ; after = found[len(found)-1].Bucket {
			page, err := t.Tallies(h.ctx, after, limit)
			require.NoError(h.t, err)
			require.LessOrEqual(h.t, len(page), limit)
			if found = append(found, page...); len(page) < limit {
				break
			}
		}
		require.Equal(h.t, all, found)
	}
	page, err := t.Tallies(h.ctx, ^core.BucketID(0), 1)
	require.NoError(h.t, err)
	require.Empty(h.t, page)
}
