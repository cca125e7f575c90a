package frame_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"orcas/core/frame"
)

var block = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// sample returns a header, and a complete frame with n bytes of content.
func sample(n int) (frame.Header, []byte) {
	h := frame.Header{
		Type: frame.Data, Codec: 3, Last: true, Block: block, Offset: 64,
		ID: 1<<63 + 5, Index: 7, KeyID: 9, Plain: uint32(n),
	}
	b := make([]byte, frame.HeaderSize+n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b[frame.HeaderSize:])
	frame.Encode(b, &h, b[frame.HeaderSize:])
	return h, b
}

// short returns a header, and a complete frame with n bytes of content and a short header.
func short(n int, keyID uint32) (frame.Header, []byte) {
	h := frame.Header{
		Type: frame.Record, Short: true, Codec: 3, Last: true, Block: block, Offset: 64, ID: 1<<63 + 5, KeyID: keyID, Plain: uint32(n),
	}
	b := make([]byte, h.Size()+n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b[h.Size():])
	frame.Encode(b, &h, b[h.Size():])
	return h, b
}

// samples returns a header and a frame of each kind.
func samples(n int) (headers []frame.Header, frames [][]byte) {
	for _, make := range []func() (frame.Header, []byte){
		func() (frame.Header, []byte) { return sample(n) },
		func() (frame.Header, []byte) { return short(n, 0) },
		func() (frame.Header, []byte) { return short(n, 1<<32-1) },
	} {
		h, b := make()
		headers, frames = append(headers, h), append(frames, b)
	}
	return headers, frames
}

// accepts reports whether b is accepted as a frame at its position.
func accepts(b []byte) bool {
	h, err := frame.Decode(b, block, 64)
	return err == nil && h.End() == 64+int64(len(b)) && h.Verify(b[h.Size():]) == nil
}

func TestFrameRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 80, 4096, frame.MaxPlain} {
		headers, frames := samples(n)
		for i, b := range frames {
			got, err := frame.Decode(b, block, 64)
			require.NoError(t, err)
			require.Equal(t, headers[i], got)
			require.EqualValues(t, n, got.Stored)
			require.Equal(t, []int{frame.HeaderSize, frame.ShortSize, frame.SealedShortSize}[i], got.Size())
			require.NoError(t, got.Verify(b[got.Size():]))
		}
	}
}

func TestEveryBitOfAFrameIsChecked(t *testing.T) {
	_, frames := samples(600)
	for n, b := range frames {
		require.True(t, accepts(b))
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			require.False(t, accepts(b), "frame %d, bit %d", n, i)
			b[i/8] ^= 1 << (i % 8)
		}
		require.True(t, accepts(b))
	}
}

func TestEveryLengthIsChecked(t *testing.T) {
	headers, frames := samples(100)
	for i, b := range frames {
		for n := range b {
			require.False(t, accepts(b[:n]))
		}
		require.ErrorIs(t, headers[i].Verify(append(b[headers[i].Size():], 0)), frame.ErrDamaged)
	}
}

func TestDecodeErrors(t *testing.T) {
	_, b := sample(10)
	other := block
	other[15]++
	_, err := frame.Decode(b, other, 64)
	require.ErrorIs(t, err, frame.ErrNotFrame, "a frame of another block")
	_, err = frame.Decode(b, block, 65)
	require.ErrorIs(t, err, frame.ErrNotFrame, "a frame at another offset")
	_, err = frame.Decode(make([]byte, 80), block, 64)
	require.ErrorIs(t, err, frame.ErrNotFrame, "the preallocated tail")
	_, err = frame.Decode(b[:79], block, 64)
	require.ErrorIs(t, err, frame.ErrNotFrame)

	for _, c := range []struct {
		at   int
		to   byte
		want error
	}{{4, 2, frame.ErrVersion}, {5, 4, frame.ErrVersion}, {7, 2, frame.ErrVersion}, {48, 1, frame.ErrDamaged}, {52, 1, frame.ErrDamaged}} {
		_, d := sample(10)
		d[c.at] = c.to
		_, err = frame.Decode(d, block, 64)
		require.ErrorIs(t, err, frame.ErrDamaged, "the checksum is verified first")
		binary.BigEndian.PutUint64(d[72:], xxh3.Hash(d[:72]))
		_, err = frame.Decode(d, block, 64)
		require.ErrorIs(t, err, c.want, "byte %d", c.at)
	}
}

// TestShortHeaderErrors checks that a short header is refused at any position but its own, and if it is of a newer
// format.
func TestShortHeaderErrors(t *testing.T) {
	for _, keyID := range []uint32{0, 9} {
		h, b := short(10, keyID)
		for bit := range 8 * len(block) {
			other := block
			other[bit/8] ^= 1 << (bit % 8)
			_, err := frame.Decode(b, other, 64)
			require.ErrorIs(t, err, frame.ErrDamaged, "a frame of another block")
		}
		for _, offset := range []int64{0, 63, 65, 64 << 8, 64 << 32} {
			_, err := frame.Decode(b, block, offset)
			require.ErrorIs(t, err, frame.ErrDamaged, "a frame at another offset")
		}
		_, err := frame.Decode(b[:h.Size()-1], block, 64)
		require.ErrorIs(t, err, frame.ErrNotFrame)

		// The checksum is that of package frame, so a test can compute it only for a header that PutHeader writes.
		h.Type = 4
		frame.PutHeader(b, &h)
		_, err = frame.Decode(b, block, 64)
		require.ErrorIs(t, err, frame.ErrVersion)
	}
}

// TestScanFindsFramesOfBothKinds damages the frames of a block one after another, and looks for the next intact one.
func TestScanFindsFramesOfBothKinds(t *testing.T) {
	b := make([]byte, 64)
	var at []int64
	for i := range 9 {
		h := frame.Header{Type: frame.Data, Short: i%3 != 0, Last: true, Block: block, Offset: int64(len(b)), ID: uint64(i), KeyID: uint32(i % 3 / 2), Plain: 5}
		head := make([]byte, h.Size())
		frame.Encode(head, &h, []byte("ORCsO"))
		at = append(at, h.Offset)
		b = append(append(b, head...), "ORCsO"...)
	}
	for i := range at {
		s := &frame.Scanner{R: bytes.NewReader(b), Block: block, Size: int64(len(b))}
		next, err := s.Next(0)
		require.NoError(t, err)
		require.Equal(t, at[i], next)
		h, err := s.Header(next)
		require.NoError(t, err)
		payload, err := s.Payload(h)
		require.NoError(t, err)
		require.Equal(t, "ORCsO", string(payload))
		b[at[i]+9] ^= 1
	}
	s := &frame.Scanner{R: bytes.NewReader(b), Block: block, Size: int64(len(b))}
	next, err := s.Next(0)
	require.NoError(t, err)
	require.EqualValues(t, -1, next)
}

func TestMovedFrameKeepsItsPayload(t *testing.T) {
	headers, frames := samples(500)
	for i, b := range frames {
		h := headers[i]
		h.Block[0]++
		h.Offset = 1 << 40
		frame.PutHeader(b, &h)
		got, err := frame.Decode(b, h.Block, 1<<40)
		require.NoError(t, err)
		require.NoError(t, got.Verify(b[h.Size():]))
		require.False(t, accepts(b), "it is no longer a frame at its old position")
	}
}

func TestOversizedFramesAreRefused(t *testing.T) {
	dst := make([]byte, frame.HeaderSize)
	require.Panics(t, func() { frame.Encode(dst, &frame.Header{}, make([]byte, frame.MaxStored+1)) })
	require.Panics(t, func() { frame.PutHeader(dst, &frame.Header{Plain: frame.MaxPlain + 1}) })
	for _, h := range []frame.Header{{Last: true, Index: 1}, {Index: 0}, {Last: true, Codec: 16}} {
		h.Short = true
		require.Panics(t, func() { frame.PutHeader(dst, &h) })
	}
}

func TestBlockHeader(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, frame.BlockHeaderSize)
	frame.EncodeBlockHeader(b, block, 2)
	id, kind, err := frame.DecodeBlockHeader(b)
	require.NoError(t, err)
	require.Equal(t, block, id)
	require.EqualValues(t, 2, kind)
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		_, _, err := frame.DecodeBlockHeader(b)
		require.Error(t, err, "bit %d", i)
		b[i/8] ^= 1 << (i % 8)
	}
	_, _, err = frame.DecodeBlockHeader(b[:63])
	require.ErrorIs(t, err, frame.ErrNotFrame)
	b[8] = 2
	_, _, err = frame.DecodeBlockHeader(b)
	require.ErrorIs(t, err, frame.ErrDamaged)
	binary.BigEndian.PutUint64(b[56:], xxh3.Hash(b[:56]))
	_, _, err = frame.DecodeBlockHeader(b)
	require.ErrorIs(t, err, frame.ErrVersion)
}

func TestNoAllocations(t *testing.T) {
	h, b := sample(4096)
	require.Zero(t, testing.AllocsPerRun(100, func() { frame.Encode(b, &h, b[frame.HeaderSize:]) }))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		got, err := frame.Decode(b, block, 64)
		if err != nil || got.Verify(b[frame.HeaderSize:]) != nil {
			t.Error("damaged")
		}
	}))
}

func FuzzDecode(f *testing.F) {
	_, b := sample(20)
	f.Add(b)
	f.Add(b[:frame.HeaderSize])
	for _, keyID := range []uint32{0, 9} {
		_, b := short(20, keyID)
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte("ORCs"), 30))
	f.Add(make([]byte, 100))
	f.Add(bytes.Repeat([]byte("ORCf"), 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := frame.Decode(b, block, 64)
		if err != nil {
			require.Zero(t, h)
			return
		}
		again := make([]byte, h.Size())
		frame.PutHeader(again, &h)
		require.Equal(t, b[:h.Size()], again, "a valid header has only one form")
		if payload := b[h.Size():]; h.Verify(payload) == nil {
			frame.Encode(again, &h, payload)
			require.Equal(t, b[:h.Size()], again)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	bench(b, func(h *frame.Header, f []byte) { frame.Encode(f, h, f[80:]) })
}

func BenchmarkDecodeVerify(b *testing.B) {
	bench(b, func(_ *frame.Header, f []byte) {
		h, err := frame.Decode(f, block, 64)
		if err != nil || h.Verify(f[80:]) != nil {
			b.Fatal("damaged")
		}
	})
}

func bench(b *testing.B, do func(*frame.Header, []byte)) {
	for _, n := range []int{1 << 10, 4 << 10, 64 << 10, frame.MaxPlain} {
		b.Run(byteSize(n), func(b *testing.B) {
			h, f := sample(n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				do(&h, f)
			}
		})
	}
}

func byteSize(n int) string {
	return map[int]string{1 << 10: "1KiB", 4 << 10: "4KiB", 64 << 10: "64KiB", frame.MaxPlain: "256KiB"}[n]
}
