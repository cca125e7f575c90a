package batch_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/sqlite"
)

// BenchmarkDo makes writes of 4 KiB durable from the given number of goroutines, on a real disk and a real database,
// and reports how many writes share a batch.
func BenchmarkDo(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			dir := b.TempDir()
			store, err := disk.Open(dir, disk.Options{})
			require.NoError(b, err)
			meta, err := sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
			require.NoError(b, err)
			counted := coretest.NewCountingMeta(meta)
			w, err := batch.Open(b.Context(), batch.Options{Meta: counted, Blocks: store})
			require.NoError(b, err)
			_, err = w.Do(b.Context(), batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "bucket"}}})
			require.NoError(b, err)
			bucket, err := meta.Bucket(b.Context(), "bucket")
			require.NoError(b, err)
			counted.Reset()
			content := make([]byte, 4096)
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						info := &core.DataInfo{ID: w.NewData(), Size: int64(len(content))}
						_, err := w.Do(b.Context(), batch.Write{Info: info, Content: content, Change: &core.PutObject{Object: core.ObjectInfo{
							Bucket: bucket.ID, Key: fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15), Size: info.Size,
							Segments: []core.Segment{{Data: info.ID, Length: info.Size, Info: info}},
						}}})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/float64(max(counted.Counts().Apply, 1)), "writes/batch")
			require.NoError(b, w.Close())
			require.NoError(b, meta.Close())
			require.NoError(b, store.Close())
		})
	}
}

// TestAllocationsOfDo bounds the number of allocations per write of small content, including those of the gatherer and
// the applier, with drivers in memory.
func TestAllocationsOfDo(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector empties pools")
	}
	s := newStore(t, batch.Options{})
	content := make([]byte, 4096)
	got := testing.AllocsPerRun(200, func() {
		if err := s.put("key", content); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f", got)
	require.LessOrEqual(t, got, 26.0)
}
