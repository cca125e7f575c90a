package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/internal/checksum"
	"orcas/vfs"
)

// text makes n bytes that compress well.
func text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, 0, n+100)
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":%d,"name":"user-%d","tags":["alpha","beta","gamma"],"score":%.3f}`+"\n", r.IntN(1e6), r.IntN(1e4), r.Float64())
	}
	return b[:n]
}

// mixed makes content of which some frames compress and some do not.
func mixed(seed uint64, n int) []byte {
	b := make([]byte, 0, n+frame.MaxPlain)
	for i := seed; len(b) < n; i++ {
		if i%3 == 0 {
			b = append(b, random(i, frame.MaxPlain/2)...)
		} else {
			b = append(b, text(i, frame.MaxPlain/2)...)
		}
	}
	return b[:n]
}

// compressed sets the compression of the world's bucket.
func (w *world) compressed(level codec.Level) {
	w.t.Helper()
	b, err := w.fs.UpdateBucket(ctx, w.b.Name, func(b *core.BucketInfo) error {
		b.Compression = level
		return nil
	})
	require.NoError(w.t, err)
	w.b = b
}

func (w *world) dataOf(key string) *core.DataInfo {
	w.t.Helper()
	o, err := w.fs.Stat(ctx, w.b, key, core.Current)
	require.NoError(w.t, err)
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
	for _, level := range []codec.Level{codec.Fast, codec.Better} {
		w.compressed(level)
		for _, size := range append(sizes, 100, 300_000, 1<<20) {
			for name, content := range map[string]func(uint64, int) []byte{"text": text, "random": random, "mixed": mixed} {
				body := content(uint64(size), size)
				o := w.put("k", body)
				require.EqualValues(t, size, o.Size)
				w.requireContent("k", body)
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
					require.EqualValues(t, frame.Plain, d.Codec, "%s %d: what does not shrink is read as fast as ever", name, size)
				}
			}
		}
	}
}

func TestRangesOfCompressedContent(t *testing.T) {
	w := newWorld(t)
	w.compressed(codec.Fast)
	const size = 9<<20 + 12345
	for name, content := range map[string]func(uint64, int) []byte{"text": text, "mixed": mixed} {
		body := content(1, size)
		w.put("k", body)
		o, err := w.fs.Open(ctx, w.b, "k", core.Current)
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

// TestRangesReadLittle counts what a small range of a large compressed content reads: headers up to its frame, and that frame.
func TestRangesReadLittle(t *testing.T) {
	counted := &readBytes{Blocks: mem.NewBlocks()}
	w := worldOver(t, counted)
	w.compressed(codec.Fast)
	body := text(1, 4<<20)
	w.put("k", body)
	d := w.dataOf("k")
	average := int(storedBytes(d)) / 16
	o, err := w.fs.Open(ctx, w.b, "k", core.Current)
	require.NoError(t, err)
	defer o.Close()
	for i := range 16 {
		off := int64(i)*frame.MaxPlain + 1000
		counted.calls, counted.n = 0, 0
		s, err := o.Range(ctx, off, 4096)
		require.NoError(t, err)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.Equal(t, body[off:off+4096], got)
		require.LessOrEqual(t, counted.calls, i+2)
		require.Less(t, counted.n, 17*frame.HeaderSize+2*average)
	}
	counted.calls, counted.n = 0, 0
	s, err := o.Range(ctx, 0, 4<<20)
	require.NoError(t, err)
	_, err = s.WriteTo(io.Discard)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, 17, counted.calls, "a header, and then each frame together with the next one's header")
	require.EqualValues(t, storedBytes(d)+frame.HeaderSize+15*frame.HeaderSize, counted.n)
}

// readBytes counts what is read.
type readBytes struct {
	*mem.Blocks
	calls, n int
}

func (b *readBytes) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	return &countedReader{r, b}, err
}

type countedReader struct {
	core.BlockReader
	b *readBytes
}

func (r *countedReader) ReadAt(p []byte, off int64) (int, error) {
	r.b.calls++
	r.b.n += len(p)
	return r.BlockReader.ReadAt(p, off)
}

func TestWhatTheHeadersSay(t *testing.T) {
	w := newWorld(t)
	w.compressed(codec.Fast)
	for i, c := range []struct {
		attrs []core.Attr
		codec uint8
	}{
		{nil, frame.Zstd},
		{[]core.Attr{{Name: "Content-Type", Value: "text/html; charset=utf-8"}}, frame.Zstd},
		{[]core.Attr{{Name: "Content-Type", Value: "image/png"}}, frame.Plain},
		{[]core.Attr{{Name: "Cache-Control", Value: "gzip"}, {Name: "Content-Encoding", Value: "gzip"}}, frame.Plain},
	} {
		body := text(uint64(i), 100_000)
		content, err := w.fs.NewContent(ctx, w.b, int64(len(body)))
		require.NoError(t, err)
		content.Describe(c.attrs)
		_, err = content.ReadFrom(bytes.NewReader(body))
		require.NoError(t, err)
		_, err = w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: "k", Content: content, Attrs: c.attrs})
		require.NoError(t, err)
		content.Discard()
		require.Equal(t, c.codec, w.dataOf("k").Codec, "%v", c.attrs)
		w.requireContent("k", body)
	}
}

// TestDefaultCompression shows that a bucket's own setting wins over that of the server.
func TestDefaultCompression(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *vfs.Options) { o.Compression = codec.Better })
	for i, c := range []struct {
		level codec.Level
		codec uint8
	}{{codec.Default, frame.Zstd}, {codec.Off, frame.Plain}, {codec.Fast, frame.Zstd}} {
		w.compressed(c.level)
		w.put("k", text(uint64(i), 5000))
		require.Equal(t, c.codec, w.dataOf("k").Codec, "%v", c.level)
	}
}

// TestCopiesAcrossCodecs makes an object of pieces that are stored in different ways.
func TestCopiesAcrossCodecs(t *testing.T) {
	w := newWorld(t)
	plain := mixed(1, 6<<20)
	w.put("plain", plain)
	w.compressed(codec.Better)
	zipped := mixed(2, 6<<20+999)
	w.put("zipped", zipped)
	small := text(3, 4000)
	w.put("small", small)

	id := w.upload("made", core.UploadInfo{})
	var want []byte
	var parts []vfs.CompletedPart
	add := func(n int, key string, body []byte, from, length int64) {
		source, err := w.fs.Stat(ctx, w.b, key, core.Current)
		require.NoError(t, err)
		p, err := w.fs.CopyPart(ctx, vfs.CopyPartRequest{Source: source, From: from, Length: length, Bucket: w.b, Key: "made", Upload: id, Number: n,
			Algorithms: []checksum.Algorithm{checksum.CRC64NVME}})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: n, ETag: p.ETag})
		want = append(want, body[from:from+length]...)
	}
	add(1, "plain", plain, 500_000, 5<<20)
	add(2, "zipped", zipped, 300_001, 5<<20)
	add(3, "plain", plain, 0, 6<<20)
	add(4, "small", small, 100, 2000)
	_, err := w.fs.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.b, Key: "made", Upload: id, Parts: parts, Size: -1})
	require.NoError(t, err)
	w.requireContent("made", want)
	for range 50 {
		off := rand.Int64N(int64(len(want)))
		n := min(rand.Int64N(2<<20), int64(len(want))-off)
		got, err := w.read("made", off, n)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[off:off+n], got))
	}
}

// TestEveryBitOfCompressedContent flips every bit on the way from the block: an error, and not one wrong byte.
func TestEveryBitOfCompressedContent(t *testing.T) {
	blocks := &flipping{Blocks: mem.NewBlocks()}
	w := worldOver(t, blocks)
	w.compressed(codec.Better)
	body := text(1, 3000)
	w.put("k", body)
	d := w.dataOf("k")
	require.EqualValues(t, frame.Zstd, d.Codec)
	blocks.block = d.Extents[0].Block
	for bit := range d.Extents[0].Length * 8 {
		blocks.at, blocks.flip = d.Extents[0].Offset+bit/8, 1<<(bit%8)
		got, err := w.read("k", 0, -1)
		require.True(t, core.Is(err, core.Damaged), "bit %d: %v", bit, err)
		require.Empty(t, got)
	}
	blocks.flip = 0
	w.requireContent("k", body)
}

// TestLyingFrames replaces stored frames by ones whose checksums are right and whose payload is not what it should be.
func TestLyingFrames(t *testing.T) {
	needsPlain(t)
	for name, lie := range map[string]func(h *frame.Header, payload []byte) []byte{
		"another size": func(h *frame.Header, payload []byte) []byte {
			h.Plain--
			return payload
		},
		"a codec of the future": func(h *frame.Header, payload []byte) []byte {
			h.Codec = 77
			return payload
		},
		"no codec": func(h *frame.Header, payload []byte) []byte {
			h.Codec = frame.Plain
			return payload
		},
		"encrypted": func(h *frame.Header, payload []byte) []byte {
			h.KeyID = 1
			return payload
		},
		"garbage": func(h *frame.Header, payload []byte) []byte {
			return random(1, len(payload))
		},
		"cut off": func(h *frame.Header, payload []byte) []byte { return payload[:len(payload)-1] },
		"another content": func(h *frame.Header, payload []byte) []byte {
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
		t.Run(name, func(t *testing.T) {
			blocks := &lying{Blocks: mem.NewBlocks()}
			w := worldOver(t, blocks)
			w.compressed(codec.Fast)
			body := text(1, 30_000)
			w.put("k", body)
			w.requireContent("k", body)
			blocks.lie = lie
			got, err := w.read("k", 0, -1)
			require.True(t, core.Is(err, core.Damaged), "%v", err)
			require.Empty(t, got)
		})
	}
}

// lying changes the frame at the start of an extent.
type lying struct {
	*mem.Blocks
	lie func(h *frame.Header, payload []byte) []byte
}

type lyingReader struct {
	core.BlockReader
	e   core.Extent
	lie func(h *frame.Header, payload []byte) []byte
}

func (b *lying) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	if err != nil || b.lie == nil {
		return r, err
	}
	return &lyingReader{r, e, b.lie}, nil
}

func (r *lyingReader) ReadAt(p []byte, off int64) (int, error) {
	all := make([]byte, r.e.Length)
	if _, err := r.BlockReader.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	h, err := frame.Decode(all, r.e.Block, r.e.Offset)
	if err != nil {
		return 0, err
	}
	payload := r.lie(&h, all[frame.HeaderSize:])
	made := make([]byte, frame.HeaderSize+len(payload), len(all))
	frame.Encode(made, &h, payload)
	copy(made[frame.HeaderSize:], payload)
	return copy(p, made[:len(all)][off:]), nil
}

// TestAllocationsOfCompressedReads bounds what reading a small compressed object allocates.
func TestAllocationsOfCompressedReads(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector empties pools")
	}
	w := newWorld(t)
	w.compressed(codec.Better)
	w.put("key", text(1, 4096))
	require.EqualValues(t, frame.Zstd, w.dataOf("key").Codec)
	got := testing.AllocsPerRun(200, func() {
		o, err := w.fs.Open(ctx, w.b, "key", core.Current)
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.Range(ctx, 0, o.Info.Size)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.WriteTo(io.Discard); n != 4096 || err != nil {
			t.Fatal(n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f", got)
	require.LessOrEqual(t, got, 12.0)
}
