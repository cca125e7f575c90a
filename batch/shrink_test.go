package batch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/mem"
)

// recordFrames returns the headers of the frames with records in the only block of s.
func recordFrames(t *testing.T, s *store) (headers []frame.Header) {
	b := onlyBlock(t, s)
	r, err := s.mem.Open(ctx, core.Extent{Block: b.ID, Length: b.Size})
	require.NoError(t, err)
	defer r.Close()
	scan := &frame.Scanner{R: r, Block: b.ID, Size: b.Size}
	for at := int64(frame.BlockHeaderSize); at < b.Size; {
		h, err := scan.Header(at)
		require.NoError(t, err)
		if h.Type == frame.Record {
			headers = append(headers, h)
		}
		at = h.End()
	}
	return headers
}

// TestRecordsShrink writes records of one change, of many changes, and of several frames. A record is compressed if that
// makes it smaller, and the metadata can be rebuilt from all of them.
func TestRecordsShrink(t *testing.T) {
	s := newStore(t, batch.Options{})
	write := func(n int, value func(i int) []byte) frame.Header {
		before := len(recordFrames(t, s))
		var writes []batch.Write
		for i := range n {
			writes = append(writes, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "kind", Key: fmt.Sprint(n, " ", i), Value: value(i)}}})
		}
		_, errs := s.w.DoAll(ctx, writes)
		require.NoError(t, errors.Join(errs...))
		added := recordFrames(t, s)[before:]
		require.EqualValues(t, len(added)-1, added[len(added)-1].Index)
		return added[0]
	}
	small := write(1, func(int) []byte { return []byte("v") })
	require.EqualValues(t, frame.Plain, small.Codec)
	require.True(t, small.Short)
	many := write(100, func(i int) []byte { return fmt.Appendf(nil, "the value of record %d", i) })
	require.EqualValues(t, frame.S2, many.Codec)
	require.True(t, many.Short)
	require.Less(t, many.Stored, many.Plain/2)
	noise := write(2, func(i int) []byte { return random(uint64(i), 5000) })
	require.EqualValues(t, frame.Plain, noise.Codec, "it would not become smaller")
	long := write(3, func(i int) []byte { return make([]byte, frame.MaxPlain) })
	require.EqualValues(t, frame.S2, long.Codec)
	require.False(t, long.Short)
	require.EqualValues(t, frame.MaxPlain, long.Plain)
	require.Less(t, long.Stored, uint32(20_000))

	again := mem.NewMeta()
	_, err := batch.Recover(ctx, again, s.mem, discard())
	require.NoError(t, err)
	want, err := s.meta.Records(ctx, "kind", "", 1000)
	require.NoError(t, err)
	require.Len(t, want, 106)
	got, err := again.Records(ctx, "kind", "", 1000)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestLyingRecords recovers records whose checksums are correct, but whose compressed form is wrong. They count as
// damaged, and a record in an unknown form stops the recovery.
func TestLyingRecords(t *testing.T) {
	changes := []core.Change{&core.PutRecord{Stamped: core.Stamped{Seq: 1}, Record: core.Record{Kind: "k", Key: "n", Value: make([]byte, 500)}}}
	for name, c := range map[string]struct {
		lie       func(h *frame.Header, stored []byte) []byte
		refused   bool
		recovered int
	}{
		"the truth":        {func(_ *frame.Header, b []byte) []byte { return b }, false, 1},
		"a shorter length": {func(h *frame.Header, b []byte) []byte { h.Plain--; return b }, false, 0},
		"a longer length":  {func(h *frame.Header, b []byte) []byte { h.Plain = frame.MaxPlain; return b }, false, 0},
		"truncated":        {func(_ *frame.Header, b []byte) []byte { return b[:len(b)-1] }, false, 0},
		"noise":            {func(_ *frame.Header, b []byte) []byte { return random(1, len(b)) }, false, 0},
		"a bomb": {func(h *frame.Header, b []byte) []byte {
			return append(binary.AppendUvarint(nil, 1<<31), b...) // its length in the S2 block
		}, false, 0},
		"Zstandard": {func(h *frame.Header, b []byte) []byte { h.Codec = frame.Zstd; return b }, true, 0},
		"unknown":   {func(h *frame.Header, b []byte) []byte { h.Codec = 9; return b }, true, 0},
	} {
		blocks := mem.NewBlocks()
		w, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Packed})
		require.NoError(t, err)
		record := encoding.AppendChanges(binary.BigEndian.AppendUint64(nil, uint64(w.Offset())), changes)
		h := frame.Header{Type: frame.Record, Short: true, Last: true, Codec: frame.S2, Block: w.Block(), Offset: w.Offset(), ID: 1, Plain: uint32(len(record))}
		stored := c.lie(&h, s2.Encode(nil, record))
		b := append(make([]byte, h.Size()), stored...)
		frame.Encode(b, &h, stored)
		_, err = w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Commit(ctx))
		meta := mem.NewMeta()
		_, err = batch.Recover(ctx, meta, blocks, discard())
		if c.refused {
			require.ErrorContains(t, err, "newer version", name)
		} else {
			require.NoError(t, err, name)
		}
		got, err := meta.Records(ctx, "k", "", 10)
		require.NoError(t, err)
		require.Len(t, got, c.recovered, name)
	}
}
