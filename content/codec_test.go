package content_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/internal/checksum"
	"orcas/storetest"
	"orcas/vfs"
)

// mixed returns content in which some frames are compressible and some are not.
func mixed(seed uint64, n int) []byte {
	b := make([]byte, 0, n+frame.MaxPlain)
	for i := seed; len(b) < n; i++ {
		if i%3 == 0 {
			b = append(b, storetest.Random(i, frame.MaxPlain/2)...)
		} else {
			b = append(b, storetest.Text(i, frame.MaxPlain/2)...)
		}
	}
	return b[:n]
}

// compressed sets the compression of the world's bucket.
func (w *world) compressed(level core.Compression) {
	w.T.Helper()
	b, err := w.FS.UpdateBucket(ctx, w.Bucket.Name, func(b *core.BucketInfo) error {
		b.Compression = level
		return nil
	})
	require.NoError(w.T, err)
	w.Bucket = b
}

func (w *world) dataOf(key string) *core.DataInfo {
	w.T.Helper()
	o, err := w.FS.Stat(ctx, w.Bucket, key, core.Current)
	require.NoError(w.T, err)
	return o.Segments[0].Info
}

func storedBytes(d *core.DataInfo) (n int64) {
	for _, e := range d.Extents {
		n += e.Length
	}
	return n
}

func TestCompressedContent(t *testing.T) {
	w := newWorld(t)
	for _, level := range []core.Compression{core.CompressionFast, core.CompressionBetter} {
		w.compressed(level)
		for _, size := range append(sizes, 100, 300_000, 1<<20) {
			for name, body := range map[string]func(uint64, int) []byte{"text": storetest.Text, "random": storetest.Random, "mixed": mixed} {
				body := body(uint64(size), size)
				o := w.Put("k", body)
				require.EqualValues(t, size, o.Size)
				w.RequireContent("k", body)
				if size == 0 {
					continue
				}
				d := w.dataOf("k")
				require.EqualValues(t, size, d.Size)
				switch {
				case name == "text" && size >= 4096:
					require.EqualValues(t, frame.Zstd, d.Codec, "%s %d", name, size)
					require.Less(t, storedBytes(d), int64(size/2))
				case name == "random":
					require.EqualValues(t, frame.Plain, d.Codec, "%s %d: incompressible content is stored uncompressed", name, size)
				}
			}
		}
	}
}

func TestRangesOfCompressedContent(t *testing.T) {
	w := newWorld(t)
	w.compressed(core.CompressionFast)
	const size = 9<<20 + 12345
	for name, body := range map[string]func(uint64, int) []byte{"text": storetest.Text, "mixed": mixed} {
		body := body(1, size)
		w.Put("k", body)
		o, err := w.FS.Open(ctx, w.Bucket, "k", core.Current)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			off := r.Int64N(size)
			n := min(r.Int64N(1<<uint(1+r.IntN(22))), size-off)
			if i%10 == 0 { // at the edges of frames and chunks
				off = min((off>>18)<<18, size-1)
				n = min(n, size-off)
			}
			s, err := o.Range(ctx, off, n)
			require.NoError(t, err)
			var got bytes.Buffer
			if i%2 == 0 {
				_, err = s.WriteTo(&got)
			} else {
				_, err = io.CopyBuffer(&got, struct{ io.Reader }{s}, make([]byte, 1000))
			}
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.True(t, bytes.Equal(body[off:off+n], got.Bytes()), "%s: %d bytes at %d", name, n, off)
		}
		o.Close()
	}
}

// TestRangesReadLittle counts the reads for a small range of large compressed content: the headers up to its frame, and
// that frame.
func TestRangesReadLittle(t *testing.T) {
	calls, size := 0, 0
	w := worldOver(t, &coretest.HookedBlocks{Blocks: mem.NewBlocks(), Read: func(r core.BlockReader, _ core.Extent, p []byte, off int64) (int, error) {
		calls++
		size += len(p)
		return r.ReadAt(p, off)
	}})
	w.compressed(core.CompressionFast)
	body := storetest.Text(1, 4<<20)
	w.Put("k", body)
	d := w.dataOf("k")
	average := int(storedBytes(d)) / 16
	o, err := w.FS.Open(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	defer o.Close()
	for i := range 16 {
		off := int64(i)*frame.MaxPlain + 1000
		calls, size = 0, 0
		s, err := o.Range(ctx, off, 4096)
		require.NoError(t, err)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.Equal(t, body[off:off+4096], got)
		require.LessOrEqual(t, calls, i+2)
		require.Less(t, size, 17*frame.HeaderSize+2*average)
	}
	calls, size = 0, 0
	s, err := o.Range(ctx, 0, 4<<20)
	require.NoError(t, err)
	_, err = s.WriteTo(io.Discard)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, 17, calls, "one header, then each frame together with the header of the next")
	require.EqualValues(t, storedBytes(d)+frame.HeaderSize+15*frame.HeaderSize, size)
}

func TestCompressedTypesAreNotCompressed(t *testing.T) {
	w := newWorld(t)
	w.compressed(core.CompressionFast)
	for i, h := range []struct {
		attrs []core.Attr
		codec uint8
	}{
		{nil, frame.Zstd},
		{[]core.Attr{{Name: "Content-Type", Value: "text/html; charset=utf-8"}}, frame.Zstd},
		{[]core.Attr{{Name: "Content-Type", Value: "image/png"}}, frame.Plain},
		{[]core.Attr{{Name: "Cache-Control", Value: "gzip"}, {Name: "Content-Encoding", Value: "gzip"}}, frame.Plain},
	} {
		body := storetest.Text(uint64(i), 100_000)
		c, err := w.FS.NewContent(ctx, w.Bucket, int64(len(body)))
		require.NoError(t, err)
		c.Describe(h.attrs)
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.NoError(t, err)
		_, err = w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: c, Attrs: h.attrs})
		require.NoError(t, err)
		c.Discard()
		require.Equal(t, h.codec, w.dataOf("k").Codec, "%v", h.attrs)
		w.RequireContent("k", body)
	}
}

// TestDefaultCompression checks that a bucket's own setting overrides that of the server.
func TestDefaultCompression(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Compression = core.CompressionBetter })
	for i, c := range []struct {
		level core.Compression
		codec uint8
	}{{core.CompressionDefault, frame.Zstd}, {core.CompressionOff, frame.Plain}, {core.CompressionFast, frame.Zstd}} {
		w.compressed(c.level)
		w.Put("k", storetest.Text(uint64(i), 5000))
		require.Equal(t, c.codec, w.dataOf("k").Codec, "%v", c.level)
	}
}

// TestCopiesAcrossCodecs completes an upload whose parts are copied from content in different stored forms.
func TestCopiesAcrossCodecs(t *testing.T) {
	w := newWorld(t)
	plain := mixed(1, 6<<20)
	w.Put("plain", plain)
	w.compressed(core.CompressionBetter)
	zipped := mixed(2, 6<<20+999)
	w.Put("zipped", zipped)
	small := storetest.Text(3, 4000)
	w.Put("small", small)

	id := w.Upload("joined", core.UploadInfo{})
	var want []byte
	var parts []vfs.CompletedPart
	add := func(n int, key string, body []byte, from, length int64) {
		source, err := w.FS.Stat(ctx, w.Bucket, key, core.Current)
		require.NoError(t, err)
		p, err := w.FS.CopyPart(ctx, vfs.CopyPartRequest{Source: source, From: from, Length: length, Bucket: w.Bucket, Key: "joined", Upload: id, Number: n,
			Algorithms: []checksum.Algorithm{checksum.CRC64NVME}})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: n, ETag: p.ETag})
		want = append(want, body[from:from+length]...)
	}
	add(1, "plain", plain, 500_000, 5<<20)
	add(2, "zipped", zipped, 300_001, 5<<20)
	add(3, "plain", plain, 0, 6<<20)
	add(4, "small", small, 100, 2000)
	_, err := w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "joined", Upload: id, Parts: parts, Size: -1})
	require.NoError(t, err)
	w.RequireContent("joined", want)
	for range 50 {
		off := rand.Int64N(int64(len(want)))
		n := min(rand.Int64N(2<<20), int64(len(want))-off)
		got, err := w.Read("joined", off, n)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[off:off+n], got))
	}
}

// TestEveryBitOfCompressedContent flips each bit as it is read from the block. Every flip must cause an error, and no
// wrong byte may be returned.
func TestEveryBitOfCompressedContent(t *testing.T) {
	blocks := newFlipping(mem.NewBlocks())
	w := worldOver(t, blocks)
	w.compressed(core.CompressionBetter)
	body := storetest.Text(1, 3000)
	w.Put("k", body)
	d := w.dataOf("k")
	require.EqualValues(t, frame.Zstd, d.Codec)
	blocks.block = d.Extents[0].Block
	for bit := range d.Extents[0].Length * 8 {
		blocks.at, blocks.flip = d.Extents[0].Offset+bit/8, 1<<(bit%8)
		got, err := w.Read("k", 0, -1)
		require.True(t, core.Is(err, core.Damaged), "bit %d: %v", bit, err)
		require.Empty(t, got)
	}
	blocks.flip = 0
	w.RequireContent("k", body)
}

// TestLyingFrames replaces stored frames with frames whose checksums are correct but whose header or payload is wrong.
func TestLyingFrames(t *testing.T) {
	storetest.NeedsPlain(t)
	for name, lie := range map[string]func(h *frame.Header, payload []byte) []byte{
		"another size": func(h *frame.Header, payload []byte) []byte {
			h.Plain--
			return payload
		},
		"an unknown codec": func(h *frame.Header, payload []byte) []byte {
			h.Codec = 7
			return payload
		},
		"marked as uncompressed": func(h *frame.Header, payload []byte) []byte {
			h.Codec = frame.Plain
			return payload
		},
		"marked as encrypted": func(h *frame.Header, payload []byte) []byte {
			h.KeyID = 1
			return payload
		},
		"garbage": func(h *frame.Header, payload []byte) []byte {
			return storetest.Random(1, len(payload))
		},
		"truncated": func(h *frame.Header, payload []byte) []byte { return payload[:len(payload)-1] },
		"other content": func(h *frame.Header, payload []byte) []byte {
			h.ID++
			return payload
		},
		"another frame": func(h *frame.Header, payload []byte) []byte {
			h.Index++
			return payload
		},
		"not the last": func(h *frame.Header, payload []byte) []byte {
			h.Last = false
			return payload
		},
	} {
		for kind, packing := range map[string]int64{"short header": 64 << 10, "full header": 1} {
			t.Run(name+", "+kind, func(t *testing.T) {
				blocks := &coretest.HookedBlocks{Blocks: mem.NewBlocks()}
				w := worldOver(t, blocks)
				w.Packing(packing)
				w.compressed(core.CompressionFast)
				body := storetest.Text(1, 30_000)
				w.Put("k", body)
				w.RequireContent("k", body)
				blocks.Read = lying(lie)
				got, err := w.Read("k", 0, -1)
				want := core.Damaged
				if name == "an unknown codec" {
					want = core.Unsupported
				}
				require.Equal(t, want, core.KindOf(err), "%v", err)
				require.Empty(t, got)
			})
		}
	}
}

// lying returns a function for coretest.HookedBlocks that modifies the frame at the start of each extent that is read.
func lying(lie func(h *frame.Header, payload []byte) []byte) func(core.BlockReader, core.Extent, []byte, int64) (int, error) {
	return func(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error) {
		all := make([]byte, e.Length)
		if _, err := r.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		h, err := frame.Decode(all, e.Block, e.Offset)
		if err != nil {
			return 0, err
		}
		payload := lie(&h, all[h.Size():])
		h.Short = h.Short && h.Last && h.Index == 0 // otherwise only a full header can express the lie
		made := make([]byte, max(len(all), h.Size()+len(payload)))
		frame.Encode(made, &h, payload)
		copy(made[h.Size():], payload)
		return copy(p, made[off:]), nil
	}
}

// TestAllocationsOfCompressedReads limits the number of allocations for reading a small compressed object.
func TestAllocationsOfCompressedReads(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector empties pools")
	}
	w := newWorld(t)
	w.compressed(core.CompressionBetter)
	w.Put("key", storetest.Text(1, 4096))
	require.EqualValues(t, frame.Zstd, w.dataOf("key").Codec)
	got := w.AllocationsOfRead("key", 4096)
	t.Logf("%.0f allocations", got)
	require.LessOrEqual(t, got, 12.0)
}
