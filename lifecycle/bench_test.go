package lifecycle_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/mem"
	"orcas/core/sqlite"
	"orcas/lifecycle"
)

// BenchmarkPass measures, per version, a pass that finds no expired versions and a pass that deletes all of them.
func BenchmarkPass(b *testing.B) {
	meta, err := sqlite.Open(filepath.Join(b.TempDir(), "metadata.db"), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { meta.Close() })
	writer, err := batch.Open(b.Context(), batch.Options{Meta: meta, Blocks: mem.NewBlocks()})
	require.NoError(b, err)
	b.Cleanup(func() { writer.Close() })
	info := core.BucketInfo{Name: "bucket"}
	r := rule("r", func(r *lifecycle.Rule) { r.Expiration = days(30) })
	require.NoError(b, lifecycle.Set(&info, &lifecycle.Config{Rules: []lifecycle.Rule{r}}))
	res, err := writer.Do(context.Background(), batch.Write{Change: &core.PutBucket{Info: info}})
	require.NoError(b, err)
	now := time.Now()
	for n := 0; n < b.N; n += 1000 {
		writes := make([]batch.Write, min(1000, b.N-n))
		for i := range writes {
			writes[i].Change = &core.PutObject{Object: core.ObjectInfo{
				Bucket: core.BucketID(res.Seq), Key: fmt.Sprintf("log/2026/%09d", n+i), Modified: now, Size: 100, ETag: "0123456789abcdef0123456789abcdef",
			}}
		}
		_, errs := writer.DoAll(context.Background(), writes)
		require.NoError(b, errs[0])
	}
	w := lifecycle.New(lifecycle.Options{Meta: meta, Writer: writer, Now: func() time.Time { return now }})
	b.ResetTimer()
	report, err := w.Pass(b.Context())
	require.NoError(b, err)
	require.Zero(b, report.Deleted())
	scanned := b.Elapsed()
	now = now.Add(100 * lifecycle.Day)
	report, err = w.Pass(b.Context())
	require.NoError(b, err)
	require.Equal(b, int64(b.N), report.Expired)
	b.ReportMetric(float64(scanned.Nanoseconds())/float64(b.N), "ns/scanned")
	b.ReportMetric(float64((b.Elapsed()-scanned).Nanoseconds())/float64(b.N), "ns/expired")
}
