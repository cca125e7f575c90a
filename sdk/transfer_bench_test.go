package sdk_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// benchmarkSize is the size of the objects of the benchmarks, in bytes.
const benchmarkSize = 1 << 30

// BenchmarkUpload uploads a file. The server is in the same process, so allocations include its own.
func BenchmarkUpload(b *testing.B) {
	c, bucket := newBucket(b)
	path := filepath.Join(b.TempDir(), "file")
	require.NoError(b, os.WriteFile(path, bytes.Repeat(random(1, mib), benchmarkSize/mib), 0o600))
	b.SetBytes(benchmarkSize)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer() // no content that the server has
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(b, err)
		for at := int64(0); at < benchmarkSize; at += mib {
			_, err := f.WriteAt([]byte{byte(n), byte(n >> 8), byte(at >> 20), byte(at >> 28)}, at)
			require.NoError(b, err)
		}
		require.NoError(b, f.Close())
		b.StartTimer()
		_, err = c.UploadFile(b.Context(), bucket, "key", path, nil)
		require.NoError(b, err)
	}
}

// discard is an io.WriterAt that keeps nothing.
type discard struct{}

func (discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// BenchmarkDownload downloads an object without keeping it, in ranges and, for comparison, with one Get.
func BenchmarkDownload(b *testing.B) {
	c, bucket := newBucket(b)
	part := random(2, 16*mib)
	r := io.MultiReader()
	for i := range benchmarkSize / len(part) {
		own := bytes.Clone(part)
		own[0] = byte(i)
		r = io.MultiReader(r, bytes.NewReader(own))
	}
	_, err := c.Upload(b.Context(), bucket, "key", r, &sdk.UploadOptions{Size: benchmarkSize})
	require.NoError(b, err)
	b.Run("ranges", func(b *testing.B) {
		b.SetBytes(benchmarkSize)
		b.ReportAllocs()
		for b.Loop() {
			_, err := c.Download(b.Context(), bucket, "key", discard{}, nil)
			require.NoError(b, err)
		}
	})
	b.Run("get", func(b *testing.B) {
		b.SetBytes(benchmarkSize)
		b.ReportAllocs()
		for b.Loop() {
			o, err := c.Get(b.Context(), bucket, "key", nil)
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, o)
			require.NoError(b, err)
			require.NoError(b, o.Close())
		}
	})
}
