package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/survey"
)

func TestStore(t *testing.T) {
	r, err := New(Build{})
	require.NoError(t, err)
	var last *survey.Result
	require.NoError(t, r.Add(NewStore(func() *survey.Result { return last })))
	require.NotContains(t, text(t, r), "orcas_bucket")
	last = &survey.Result{Buckets: []survey.Bucket{{Name: "a", Tally: core.Tally{
		Versions: 7, Bytes: 60, NoncurrentVersions: 5, NoncurrentBytes: 40, DeleteMarkers: 3, Uploads: 2, UploadBytes: 1,
	}}}}
	got := text(t, r)
	for _, want := range []string{
		`orcas_buckets 1`, `orcas_bucket_objects{bucket="a"} 2`, `orcas_bucket_versions{bucket="a"} 7`, `orcas_bucket_bytes{bucket="a"} 60`,
		`orcas_bucket_noncurrent_bytes{bucket="a"} 40`, `orcas_bucket_uploads{bucket="a"} 2`, `orcas_bucket_upload_bytes{bucket="a"} 1`,
	} {
		require.Contains(t, got, want+"\n")
	}
	require.NotContains(t, got, "orcas_store", "the space is not known yet")
	next := *last
	next.SpaceAt, next.Space = time.Now(), survey.Space{Stored: 100, Live: 25, Logical: 80, Contents: core.BlockContent{Contents: 1, Bytes: 50}}
	last = &next
	got = text(t, r)
	for _, want := range []string{
		`orcas_store_stored_bytes 100`, `orcas_store_live_bytes 25`, `orcas_store_reclaimable_bytes 75`, `orcas_store_logical_bytes 80`,
		`orcas_deduplication_ratio 1.6`, `orcas_compression_ratio 2`,
	} {
		require.Contains(t, got, want+"\n")
	}
}

// manyBuckets returns a result with n buckets, the largest last, one of which is called "other".
func manyBuckets(n int) *survey.Result {
	r := &survey.Result{SpaceAt: time.Now()}
	for i := range n {
		r.Buckets = append(r.Buckets, survey.Bucket{Name: fmt.Sprintf("bucket-%05d", i), Tally: core.Tally{Versions: int64(i), Bytes: int64(i) * 10}})
	}
	r.Buckets[n-1].Name = "other"
	return r
}

// Beyond MaxBuckets, the smallest buckets are added up.
func TestStoreIsBounded(t *testing.T) {
	r, err := New(Build{})
	require.NoError(t, err)
	last := manyBuckets(MaxBuckets)
	require.NoError(t, r.Add(NewStore(func() *survey.Result { return last })))
	got := text(t, r)
	require.Equal(t, MaxBuckets, strings.Count(got, "\norcas_bucket_objects{"))
	require.NotContains(t, got, Others)

	last = manyBuckets(MaxBuckets + 5)
	got = text(t, r)
	require.Equal(t, MaxBuckets+1, strings.Count(got, "\norcas_bucket_objects{"))
	require.Contains(t, got, "\norcas_buckets 1005\n")
	require.Contains(t, got, "\norcas_bucket_objects{bucket=\"(other)\"} 10\n") // 0 + 1 + 2 + 3 + 4
	require.Contains(t, got, "\norcas_bucket_bytes{bucket=\"(other)\"} 100\n")
	require.Contains(t, got, "\norcas_bucket_objects{bucket=\"other\"} 1004\n")
	require.Contains(t, got, "\norcas_bucket_objects{bucket=\"bucket-00005\"} 5\n")
	require.NotContains(t, got, "bucket-00004")
}

// BenchmarkStore measures a scrape with 1,000 buckets.
func BenchmarkStore(b *testing.B) {
	r, err := New(Build{})
	require.NoError(b, err)
	last := manyBuckets(MaxBuckets)
	require.NoError(b, r.Add(NewStore(func() *survey.Result { return last })))
	for b.Loop() {
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			b.Fatal(err)
		}
	}
}
