package content_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/mem"
)

// store is an engine with in-memory drivers, without a namespace.
type store struct {
	*content.Engine
	t      *testing.T
	meta   *mem.Meta
	blocks *coretest.CountingBlocks
	bucket core.BucketInfo
	writer *batch.Writer
}

func newStore(t *testing.T) *store {
	s := &store{t: t, meta: mem.NewMeta(), blocks: coretest.NewCountingBlocks(mem.NewBlocks()), bucket: core.BucketInfo{Name: "b"}}
	var err error
	s.writer, err = batch.Open(t.Context(), batch.Options{Meta: s.meta, Blocks: s.blocks})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.writer.Close()) })
	s.Engine, err = content.New(content.Options{Meta: s.meta, Blocks: s.blocks, Writer: s.writer})
	require.NoError(t, err)
	res, err := s.writer.Do(t.Context(), batch.Write{Change: &core.PutBucket{Info: s.bucket}})
	require.NoError(t, err)
	s.bucket.ID = core.BucketID(res.Seq)
	return s
}

// put stores a body under a key, and returns the object.
func (s *store) put(key string, body []byte) *core.ObjectInfo {
	c, err := s.NewContent(s.t.Context(), &s.bucket, int64(len(body)))
	require.NoError(s.t, err)
	defer c.Discard()
	_, err = c.ReadFrom(bytes.NewReader(body))
	require.NoError(s.t, err)
	change := &core.PutObject{Object: core.ObjectInfo{Bucket: s.bucket.ID, Key: key, Size: c.Size(), Modified: time.Now()}}
	target := content.Target{Change: change, Segments: &change.Object.Segments, Source: &change.Source}
	_, err = c.Put(s.t.Context(), target)
	require.NoError(s.t, err)
	o, err := s.meta.Object(s.t.Context(), s.bucket.ID, key, core.Current)
	require.NoError(s.t, err)
	return o
}

// open opens n bytes of an object, from off.
func (s *store) open(ctx context.Context, o *core.ObjectInfo, off, n int64) *content.Section {
	lookup := s.Enter()
	defer lookup.Leave()
	section, err := s.NewSection(ctx, o, off, n, nil)
	require.NoError(s.t, err)
	return section
}

// TestLongRunsAreReadInSpans checks that several frames of an extent are read as one span, and a single frame without a
// span. The bytes must be correct for every range and every division into segments.
func TestLongRunsAreReadInSpans(t *testing.T) {
	s := newStore(t)
	body := make([]byte, 10<<20+5)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(body)
	whole := s.put("key", body)
	pieces := *whole // two segments of the same content; the second begins inside a frame and inside an extent
	info := whole.Segments[0].Info
	const first = 300_000
	pieces.Segments = []core.Segment{
		{Data: info.ID, Length: first, Info: info}, {Data: info.ID, From: first, Length: whole.Size - first, Info: info},
	}
	for _, c := range []struct {
		object *core.ObjectInfo
		off, n int64
		spans  int
	}{
		{whole, 0, whole.Size, 3},
		{whole, 10, frame.MaxPlain - 10, 0},
		{whole, 10, frame.MaxPlain, 1},
		{whole, 4<<20 - 1, 2, 0},
		{whole, 4<<20 - frame.MaxPlain - 1, frame.MaxPlain + 2, 1},
		{whole, 8 << 20, 2<<20 + 5, 1},
		{whole, whole.Size - 5, 5, 0},
		{&pieces, 0, whole.Size, 3},
		{&pieces, first - 1, frame.MaxPlain, 0},
	} {
		s.blocks.Reset()
		section := s.open(t.Context(), c.object, c.off, c.n)
		got, err := io.ReadAll(section)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body[c.off:c.off+c.n], got), "%d bytes from %d", c.n, c.off)
		require.NoError(t, section.Close())
		require.Equal(t, c.spans, s.blocks.Counts().Spans, "%d bytes from %d", c.n, c.off)
	}
}

// TestSectionsEndWithTheirContext checks that a read whose context is canceled returns Canceled, and that the content
// is not marked as damaged.
func TestSectionsEndWithTheirContext(t *testing.T) {
	s := newStore(t)
	o := s.put("key", make([]byte, 3<<20))
	ctx, cancel := context.WithCancel(t.Context())
	section := s.open(ctx, o, 0, o.Size)
	defer section.Close()
	before, err := s.meta.State(t.Context())
	require.NoError(t, err)
	cancel()
	_, err = io.Copy(io.Discard, section)
	require.Equal(t, core.Canceled, core.KindOf(err), "%v", err)
	after, err := s.meta.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Seq, after.Seq)
}
