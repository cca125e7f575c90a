package disk_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/disk"
	"orcas/internal/durable"
)

// benchStore opens a store for a benchmark, in a temporary directory: set TMPDIR to measure a particular drive.
func benchStore(b *testing.B) *disk.Store {
	s, err := disk.Open(b.TempDir(), disk.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func commitBytes(b *testing.B, s *disk.Store, o core.BlockOptions, pieces int, piece []byte) core.Extent {
	w, err := s.Create(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	e := core.Extent{Block: w.Block(), Offset: w.Offset(), Length: int64(pieces * len(piece))}
	for range pieces {
		if _, err := w.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkPacked commits to a shared packed block. For comparison, "bare" is the same write and sync of a plain file.
func BenchmarkPacked(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		piece := make([]byte, size)
		o := core.BlockOptions{Kind: core.Packed, SizeHint: int64(size)}
		b.Run(fmt.Sprintf("%dKiB/store", size>>10), func(b *testing.B) {
			s := benchStore(b)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			times := make([]time.Duration, 0, 1<<14)
			for b.Loop() {
				start := time.Now()
				commitBytes(b, s, o, 1, piece)
				times = append(times, time.Since(start))
			}
			reportMedian(b, times)
		})
		b.Run(fmt.Sprintf("%dKiB/bare", size>>10), func(b *testing.B) {
			f, err := (&durable.Steps{}).Create(filepath.Join(b.TempDir(), "bare"))
			require.NoError(b, err)
			b.SetBytes(int64(size))
			times := make([]time.Duration, 0, 1<<14)
			var pos int64
			for b.Loop() {
				start := time.Now()
				n, err := f.WriteAt(piece, pos)
				pos += int64(n)
				if err != nil || f.DataSync() != nil {
					b.Fatal("failed")
				}
				times = append(times, time.Since(start))
			}
			reportMedian(b, times)
			require.NoError(b, f.Close())
		})
	}
}

func reportMedian(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkLarge10MiB(b *testing.B) {
	s := benchStore(b)
	piece := make([]byte, 256<<10)
	b.SetBytes(10 << 20)
	for b.Loop() {
		e := commitBytes(b, s, large, 40, piece)
		b.StopTimer()
		require.NoError(b, s.Delete(b.Context(), e.Block))
		b.StartTimer()
	}
}

func BenchmarkAlone4KiB(b *testing.B) {
	s := benchStore(b)
	piece := make([]byte, 4<<10)
	for b.Loop() {
		commitBytes(b, s, alone, 1, piece)
	}
}

func BenchmarkRead4KiB(b *testing.B) {
	s := benchStore(b)
	e := commitBytes(b, s, packed, 1, make([]byte, 4<<10))
	b.SetBytes(e.Length)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := make([]byte, e.Length)
		for pb.Next() {
			r, err := s.Open(b.Context(), e)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.ReadAt(p, 0); err != nil {
				b.Fatal(err)
			}
			_ = r.Close()
		}
	})
}
