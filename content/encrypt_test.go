package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/storetest"
	"orcas/vfs"
)

func parseKeys(t testing.TB, text string) *codec.Keys {
	keys, err := codec.ParseKeys(text)
	require.NoError(t, err)
	return keys
}

var (
	firstKey  = "1:" + strings.Repeat("a1", 32)
	secondKey = "2:" + strings.Repeat("b2", 32)
)

func withKeys(t *testing.T, text string) func(*content.Options) {
	return func(o *content.Options) { o.Keys = parseKeys(t, text) }
}

// encrypt writes an encrypted object.
func (w *world) encrypt(key string, body []byte, e content.Encryption) *core.DataInfo {
	w.T.Helper()
	c, err := w.FS.NewContent(ctx, w.Bucket, int64(len(body)))
	require.NoError(w.T, err)
	defer c.Discard()
	require.NoError(w.T, c.Encrypt(ctx, e))
	_, err = c.ReadFrom(bytes.NewReader(body))
	require.NoError(w.T, err)
	_, err = w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: key, Content: c})
	require.NoError(w.T, err)
	return w.dataOf(key)
}

// raw returns the frames of d as they are stored.
func raw(t *testing.T, b core.Blocks, d *core.DataInfo) (frames [][]byte, headers []frame.Header) {
	for _, e := range d.Extents {
		r, err := b.Open(ctx, e)
		require.NoError(t, err)
		all := make([]byte, e.Length)
		_, err = r.ReadAt(all, 0)
		require.True(t, err == nil || errors.Is(err, io.EOF))
		require.NoError(t, r.Close())
		for at := int64(0); at < e.Length; {
			h, err := frame.Decode(all[at:], e.Block, e.Offset+at)
			require.NoError(t, err)
			next := h.End() - e.Offset
			frames, headers = append(frames, all[at:next]), append(headers, h)
			at = next
		}
	}
	return frames, headers
}

// overlay copies the bytes of b, which begins at bAt, over the bytes of p, which begins at pAt, where they overlap.
func overlay(p []byte, pAt int64, b []byte, bAt int64) {
	if bAt < pAt {
		b = b[min(pAt-bAt, int64(len(b))):]
	} else {
		p = p[min(bAt-pAt, int64(len(p))):]
	}
	copy(p, b)
}

// TestFramesOfEncryptedContentKeepTheirPlaces replaces a frame, under a valid header, with another frame of the same
// content, with a frame of other content, or with plain bytes. Reads must fail, and may return only the bytes before
// that frame.
func TestFramesOfEncryptedContentKeepTheirPlaces(t *testing.T) {
	blocks := &coretest.HookedBlocks{Blocks: mem.NewBlocks()}
	w := worldWith(t, blocks, withKeys(t, firstKey))
	body := storetest.Random(1, 5*frame.MaxPlain)
	d := w.encrypt("key", body, content.Encryption{Store: true})
	other := w.encrypt("other", storetest.Random(2, len(body)), content.Encryption{Store: true})
	require.EqualValues(t, 1, d.KeyID)
	require.NotEqual(t, d.DataKey, other.DataKey)
	w.RequireContent("key", body)
	frames, headers := raw(t, blocks, d)
	others, _ := raw(t, blocks, other)
	require.Len(t, frames, 5)
	put := func(at int, payload []byte, change func(*frame.Header)) {
		h := headers[at]
		change(&h)
		b := make([]byte, frame.HeaderSize+len(payload))
		frame.Encode(b, &h, payload)
		copy(b[frame.HeaderSize:], payload)
		blocks.Read = func(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error) {
			n, err := r.ReadAt(p, off)
			if e.Block == d.Extents[0].Block {
				overlay(p[:n], e.Offset+off, b, h.Offset)
			}
			return n, err
		}
	}
	same := func(*frame.Header) {}
	payload := func(b []byte) []byte { return b[frame.HeaderSize:] }
	for name, tamper := range map[string]func(){
		"another frame of the content": func() { put(2, payload(frames[1]), same) },
		"a frame of other content":     func() { put(2, payload(others[2]), same) },
		"plain":                        func() { put(2, make([]byte, len(payload(frames[2]))), func(h *frame.Header) { h.KeyID = 0 }) },
		"plain, marked as encrypted":   func() { put(2, make([]byte, len(payload(frames[2]))), same) },
		"marked as compressed":         func() { put(2, payload(frames[2]), func(h *frame.Header) { h.Codec = frame.Zstd }) },
		"marked as the last":           func() { put(2, payload(frames[2]), func(h *frame.Header) { h.Last = true }) },
		"one flipped bit": func() {
			b := bytes.Clone(payload(frames[2]))
			b[1000] ^= 4
			put(2, b, same)
		},
	} {
		tamper()
		for _, off := range []int64{0, 2*frame.MaxPlain + 5} {
			got, err := w.Read("key", off, int64(len(body))-off)
			require.Equal(t, core.Damaged, core.KindOf(err), "%s: %v", name, err)
			require.True(t, bytes.Equal(body[off:off+int64(len(got))], got), name)
			require.LessOrEqual(t, int64(len(got)), 2*int64(frame.MaxPlain))
		}
	}
	blocks.Read = nil
	w.RequireContent("key", body)
}

func TestRangesOfEncryptedContent(t *testing.T) {
	for _, level := range []core.Compression{core.CompressionOff, core.CompressionFast} {
		w := worldWith(t, mem.NewBlocks(), withKeys(t, firstKey))
		w.compressed(level)
		body := mixed(1, 9<<20+123) // three chunks
		w.encrypt("key", body, content.Encryption{Store: true})
		for _, r := range [][2]int64{
			{0, int64(len(body))}, {1, 3 * frame.MaxPlain}, {frame.MaxPlain - 1, 2}, {frame.MaxPlain, frame.MaxPlain}, {4<<20 - 5, 3 << 20},
			{4<<20 + 7, 1}, {8<<20 - 1, 1<<20 + 124}, {int64(len(body)) - 1, 1},
		} {
			got, err := w.Read("key", r[0], r[1])
			require.NoError(t, err)
			require.True(t, bytes.Equal(body[r[0]:r[0]+r[1]], got), "%v", r)
		}
		o, err := w.FS.Open(ctx, w.Bucket, "key", core.Current)
		require.NoError(t, err)
		s, err := o.Range(ctx, 3, int64(len(body))-3)
		require.NoError(t, err)
		n, err := s.WriteTo(&closing{left: 3*frame.MaxPlain + 9}) // a client that disconnects
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.EqualValues(t, 3*frame.MaxPlain+9, n)
		require.NoError(t, s.Close())
		o.Close()
	}
}

// closing accepts left bytes, and then fails.
type closing struct{ left int }

func (f *closing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, io.ErrClosedPipe
	}
	f.left -= len(p)
	return len(p), nil
}

func TestEncryptionWithoutAKey(t *testing.T) {
	storetest.NeedsPlain(t)
	w := newWorld(t)
	c, err := w.FS.NewContent(ctx, w.Bucket, 1)
	require.NoError(t, err)
	defer c.Discard()
	require.Equal(t, core.NoKey, core.KindOf(c.Encrypt(ctx, content.Encryption{Store: true})))
	mine, err := codec.NewKey(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	other, err := codec.NewKey(bytes.Repeat([]byte{8}, 32))
	require.NoError(t, err)
	d := w.encrypt("mine", []byte("content"), content.Encryption{Customer: mine})
	require.Zero(t, d.SHA256, "a hash could confirm a guess of the content")
	require.Empty(t, d.Sums)
	read := func(key *codec.Key) error {
		o, err := w.FS.Open(ctx, w.Bucket, "mine", core.Current)
		require.NoError(t, err)
		defer o.Close()
		o.Unlock(key)
		s, err := o.Range(ctx, 0, 7)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	require.NoError(t, read(mine))
	require.Equal(t, core.NoKey, core.KindOf(read(other)))
	require.Equal(t, core.NoKey, core.KindOf(read(nil)))
}

// stopping is a context that is canceled after left calls of Err.
type stopping struct {
	context.Context
	left int
}

func (c *stopping) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRotationOfNothing checks that a rotation does not make any key necessary if nothing is encrypted.
func TestRotationOfNothing(t *testing.T) {
	storetest.NeedsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, withKeys(t, firstKey))
	w.Put("plain", []byte("plain"))
	s, err := content.NewRotator(w.FS.Engine).Run(ctx)
	require.NoError(t, err)
	require.Equal(t, content.RotateStatus{Newest: 1, Needed: []uint32{}}, s)
	require.NoError(t, w.reopened(blocks, secondKey).FS.CheckKeys(ctx), "the store can start with any other key")
	_, err = content.NewRotator(newWorld(t).FS.Engine).Run(ctx)
	require.Equal(t, core.NoKey, core.KindOf(err))
}

// TestRotationIsResumed interrupts a rotation at every point: all content must remain readable with both keys, and a
// later rotation must complete the work.
func TestRotationIsResumed(t *testing.T) {
	storetest.NeedsPlain(t)
	blocks := mem.NewBlocks()
	w := worldWith(t, blocks, withKeys(t, firstKey))
	require.NoError(t, w.FS.CheckKeys(ctx))
	const n = 700 // several batches
	for i := range n {
		w.encrypt(fmt.Sprint(i), fmt.Appendf(nil, "content %d", i), content.Encryption{Store: true})
	}
	w.Put("plain", []byte("plain"))
	both := w.reopened(blocks, secondKey+","+firstKey)
	require.NoError(t, both.FS.CheckKeys(ctx))
	rotator := content.NewRotator(both.FS.Engine)
	var before int64
	for left := 1; ; left++ {
		s, err := rotator.Run(&stopping{Context: ctx, left: left})
		for i := range n {
			both.RequireContent(fmt.Sprint(i), fmt.Appendf(nil, "content %d", i))
			if left > 8 {
				break // checking all objects after every interruption would take too long
			}
		}
		if err != nil {
			require.Equal(t, core.Canceled, core.KindOf(err), "%v", err)
			require.Equal(t, core.NoKey, core.KindOf(w.reopened(blocks, secondKey).FS.CheckKeys(ctx)), "the old key is still needed")
			now, err := rotator.Status(ctx)
			require.NoError(t, err)
			require.False(t, now.Running)
			before += now.Rewrapped
			continue
		}
		require.EqualValues(t, n, before+s.Rewrapped)
		require.Equal(t, []uint32{1}, s.Retired)
		break
	}
	only := w.reopened(blocks, secondKey)
	require.NoError(t, only.FS.CheckKeys(ctx))
	for i := range n {
		only.RequireContent(fmt.Sprint(i), fmt.Appendf(nil, "content %d", i))
	}
	require.Equal(t, core.NoKey, core.KindOf(w.reopened(blocks, firstKey).FS.CheckKeys(ctx)))
	require.Equal(t, core.NoKey, core.KindOf(w.reopened(blocks, "2:"+strings.Repeat("c3", 32)).FS.CheckKeys(ctx)))
}

// reopened returns the same store with other master keys.
func (w *world) reopened(blocks core.Blocks, keys string) *world {
	w.T.Helper()
	writer, err := batch.Open(ctx, batch.Options{Meta: w.Meta, Blocks: blocks})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { writer.Close() })
	fs, err := storetest.NewFS(content.Options{Meta: w.Meta, Blocks: blocks, Writer: writer, Keys: parseKeys(w.T, keys)})
	require.NoError(w.T, err)
	again := w.In(w.Bucket)
	again.FS = fs
	return &world{again}
}
