package vfs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/frame"
	"orcas/core/sqlite"
	"orcas/storetest"
	"orcas/vfs"
)

// BenchmarkFiles measures in-process writes with a real disk and a real database, from the first byte until the object
// is durable. Afterwards, outside the measured time, all objects are read back and compared. An iteration is the whole
// scenario. Compressed scenarios write text, at the level better.
func BenchmarkFiles(b *testing.B) {
	for _, c := range []struct {
		name                 string
		size, ops, writers   int
		compressed, encrypts bool
	}{
		{"small", 4 << 10, 200, 1, false, false},
		{"medium", 256 << 10, 100, 1, false, false},
		{"small-concurrent", 4 << 10, 60, 3, false, false},
		{"large", 100 << 20, 1, 1, false, false},
		{"sequential", 1 << 20, 10, 1, false, false},
		{"encrypted", 256 << 10, 20, 1, false, true},
		{"compressed", 256 << 10, 20, 1, true, false},
		{"compressed-encrypted", 256 << 10, 20, 1, true, true},
		{"large-compressed-encrypted", 100 << 20, 1, 1, true, true},
		{"sequential-compressed-encrypted", 1 << 20, 10, 1, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			var o content.Options
			body := storetest.Random(uint64(c.size), c.size)
			if c.compressed {
				o.Compression, body = core.CompressionBetter, storetest.Text(uint64(c.size), c.size)
			}
			if c.encrypts {
				o.Keys, o.EncryptAll = storetest.Keys("1:"+strings.Repeat("a1", 32)), true
			}
			f := newFiles(b, o)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var took time.Duration
			b.SetBytes(int64(c.size * c.ops))
			b.ReportAllocs()
			for round := 0; b.Loop(); round++ {
				begun := time.Now()
				f.write(b, round, c.ops, c.writers, body)
				took += time.Since(begun)
				b.StopTimer()
				f.compare(b, round, c.ops, body)
				d := f.data(b, fileName(round, 0))
				require.Equal(b, c.compressed, d.Codec == frame.Zstd)
				require.Equal(b, c.encrypts, d.KeyID != 0)
				b.StartTimer()
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(b.N*c.ops)/took.Seconds(), "files/s")
			b.ReportMetric(float64(after.NumGC-before.NumGC)/float64(b.N), "GCs/op")
		})
	}
}

// files is a store on disk.
type files struct {
	fs     *vfs.FS
	b      *core.BucketInfo
	writer *batch.Writer
}

// BenchmarkInstant puts new content, without and with deduplication, and duplicate content. Each put is durable before
// the next one begins.
func BenchmarkInstant(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20} {
		for _, c := range []struct {
			name               string
			instant, duplicate bool
		}{{"off", false, false}, {"unique", true, false}, {"duplicate", true, true}} {
			b.Run(fmt.Sprintf("%d/%s", size, c.name), func(b *testing.B) {
				f := newFiles(b, content.Options{Instant: c.instant})
				body := storetest.Filler(1, size)
				put := func(n int) {
					if !c.duplicate {
						binary.LittleEndian.PutUint64(body, uint64(n))
					}
					content, err := f.fs.NewContent(b.Context(), f.b, int64(size))
					require.NoError(b, err)
					_, err = content.ReadFrom(bytes.NewReader(body))
					require.NoError(b, err)
					_, err = f.fs.Put(b.Context(), vfs.PutRequest{Bucket: f.b, Key: fmt.Sprint(n), Content: content})
					require.NoError(b, err)
					content.Discard()
				}
				put(0)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for n := 1; b.Loop(); n++ {
					put(n)
				}
			})
		}
	}
}

// BenchmarkGet reads an object from a real disk and a real database, with one reader and with 64 concurrent readers.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20, 10 << 20} {
		f := newFiles(b, content.Options{})
		require.NoError(b, f.put("key", storetest.Filler(1, size)))
		get := func() error {
			o, err := f.fs.Open(b.Context(), f.b, "key", core.Current)
			if err != nil {
				return err
			}
			defer o.Close()
			s, err := o.Range(b.Context(), 0, o.Info.Size)
			if err != nil {
				return err
			}
			defer s.Close()
			n, err := s.WriteTo(io.Discard)
			if err == nil && n != int64(size) {
				err = io.ErrShortWrite
			}
			return err
		}
		b.Run(fmt.Sprintf("%d/one", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, get())
			}
		})
		b.Run(fmt.Sprintf("%d/64", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := get(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// newFiles opens a store on disk. It sets the drivers in o.
func newFiles(b *testing.B, o content.Options) *files {
	dir := b.TempDir()
	blocks, err := disk.Open(dir, disk.Options{})
	require.NoError(b, err)
	meta, err := sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
	require.NoError(b, err)
	writer, err := batch.Open(b.Context(), batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, writer.Close())
		require.NoError(b, meta.Close())
		require.NoError(b, blocks.Close())
	})
	o.Meta, o.Blocks, o.Writer = meta, blocks, writer
	fs, err := storetest.NewFS(o)
	require.NoError(b, err)
	bucket, err := fs.CreateBucket(b.Context(), core.BucketInfo{Name: "bucket"})
	require.NoError(b, err)
	return &files{fs, bucket, writer}
}

// mark makes the content of a file unique.
func mark(body []byte, round, i int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(body[:0], uint32(round)), uint32(i))
}

func fileName(round, i int) string { return fmt.Sprintf("%06d/%06d", round, i) }

// write writes n files with the given number of concurrent writers.
func (f *files) write(b *testing.B, round, n, writers int, body []byte) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			mine := bytes.Clone(body)
			for i := w; i < n; i += writers {
				mark(mine, round, i)
				if err := f.put(fileName(round, i), mine); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (f *files) put(key string, body []byte) error {
	c, err := f.fs.NewContent(context.Background(), f.b, int64(len(body)))
	if err != nil {
		return err
	}
	defer c.Discard()
	if _, err := c.ReadFrom(bytes.NewReader(body)); err != nil {
		return err
	}
	_, err = f.fs.Put(context.Background(), vfs.PutRequest{Bucket: f.b, Key: key, Content: c})
	return err
}

// data returns the DataInfo of a file.
func (f *files) data(b *testing.B, key string) *core.DataInfo {
	o, err := f.fs.Stat(b.Context(), f.b, key, core.Current)
	require.NoError(b, err)
	return o.Segments[0].Info
}

// compare reads n files back and compares them with what was written.
func (f *files) compare(b *testing.B, round, n int, body []byte) {
	want := bytes.Clone(body)
	for i := range n {
		o, err := f.fs.Open(b.Context(), f.b, fileName(round, i), core.Current)
		require.NoError(b, err)
		s, err := o.Range(b.Context(), 0, o.Info.Size)
		require.NoError(b, err)
		var got bytes.Buffer
		got.Grow(len(body))
		_, err = s.WriteTo(&got)
		require.NoError(b, err)
		require.NoError(b, s.Close())
		mark(want, round, i)
		if !bytes.Equal(got.Bytes(), want) {
			b.Fatalf("file %d of round %d does not have the content that was written", i, round)
		}
	}
}

// TestAllocationsOfSmallReads limits the number of allocations for reading a small object, from the lookup of its key
// to its last byte, with in-memory drivers.
func TestAllocationsOfSmallReads(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector empties pools")
	}
	w := newWorld(t)
	w.Put("key", storetest.Filler(1, 4096))
	got := w.AllocationsOfRead("key", 4096)
	t.Logf("%.0f allocations", got)
	require.LessOrEqual(t, got, 11.0)
}

// BenchmarkComplete completes an upload of 10,000 parts, each with different content. The parts have metadata but no
// stored content, because it is never read.
func BenchmarkComplete(b *testing.B) {
	const parts = 10_000
	f := newFiles(b, content.Options{})
	named := make([]vfs.CompletedPart, parts)
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		key := fileName(round, 0)
		u, err := f.fs.CreateUpload(b.Context(), f.b, core.UploadInfo{Key: key})
		require.NoError(b, err)
		for from := 0; from < parts; from += 1000 {
			writes := make([]batch.Write, 1000)
			for i := range writes {
				etag := fmt.Sprintf("%032x", from+i)
				id := f.writer.NewData()
				named[from+i] = vfs.CompletedPart{Number: from + i + 1, ETag: etag}
				writes[i].Change = &core.PutPart{Bucket: f.b.ID, Key: key, Upload: u.ID, Part: core.PartInfo{
					Number: from + i + 1, Modified: time.Now(), Size: vfs.MinPartSize, ETag: etag, Segments: []core.Segment{{
						Data: id, Length: vfs.MinPartSize, Info: &core.DataInfo{
							ID: id, Size: vfs.MinPartSize, ChunkSize: core.DefaultChunkSize, Extents: make([]core.Extent, 2),
						}}},
				}}
			}
			_, errs := f.writer.DoAll(b.Context(), writes)
			for _, err := range errs {
				require.NoError(b, err)
			}
		}
		b.StartTimer()
		_, err = f.fs.CompleteUpload(b.Context(), vfs.CompleteRequest{Bucket: f.b, Key: key, Upload: u.ID, Parts: named, Size: -1})
		require.NoError(b, err)
	}
}
