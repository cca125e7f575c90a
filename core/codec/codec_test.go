package codec_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(b)
	return b
}

// text returns n bytes that look like a log.
func text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "2026-01-%02d GET /photos/%d/%s status=%d bytes=%d\n", 1+r.IntN(28), r.IntN(100_000), strings.Repeat("ab", r.IntN(5)), 200+r.IntN(3)*100, r.IntN(1<<20))
	}
	return b.Bytes()[:n]
}

// gcm is a Sealer for tests.
type gcm struct{ cipher.AEAD }

var errSealed = errors.New("another key, frame or header")

func newGCM(t require.TestingT, key byte) gcm {
	b, err := aes.NewCipher(bytes.Repeat([]byte{key}, 32))
	require.NoError(t, err)
	a, err := cipher.NewGCM(b)
	require.NoError(t, err)
	return gcm{a}
}

func nonce(h *frame.Header) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, h.Index), h.ID)
}

func bound(h *frame.Header) []byte { return []byte{h.Codec, byte(h.Plain), byte(h.Plain >> 8)} }

func (g gcm) Seal(dst, plain []byte, h *frame.Header) []byte {
	return g.AEAD.Seal(dst, nonce(h), plain, bound(h))
}

func (g gcm) Open(dst, stored []byte, h *frame.Header) ([]byte, error) {
	plain, err := g.AEAD.Open(dst, nonce(h), stored, bound(h))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// encode returns a complete frame, at offset 0 of a block with a zero ID.
func encode(e *codec.Encoder, index uint32, plain []byte) (frame.Header, []byte) {
	h := frame.Header{Type: frame.Data, ID: 7, Index: index}
	b := e.Encode(make([]byte, frame.HeaderSize, 100), &h, plain)
	if b == nil {
		b = append(make([]byte, frame.HeaderSize), plain...)
	}
	frame.Encode(b, &h, b[frame.HeaderSize:])
	return h, b
}

func decode(d *codec.Decoder, b []byte) ([]byte, error) {
	h, err := frame.Decode(b, [16]byte{}, 0)
	if err == nil {
		err = h.Verify(b[frame.HeaderSize:])
	}
	if err != nil {
		return nil, err
	}
	return d.Decode(nil, bytes.Clone(b[frame.HeaderSize:]), &h)
}

func TestRoundTrips(t *testing.T) {
	dictionary := trained(t, 40_000)
	rapid.Check(t, func(r *rapid.T) {
		var e codec.Encoder
		var d codec.Decoder
		e.Level = rapid.SampledFrom([]core.Compression{core.CompressionDefault, core.CompressionOff, core.CompressionFast, core.CompressionBetter}).Draw(r, "level")
		if rapid.Bool().Draw(r, "sealed") {
			e.Sealer, e.KeyID = newGCM(r, 1), 9
			d.Sealer = e.Sealer
		}
		if rapid.Bool().Draw(r, "dictionary") {
			e.Dictionary, d.Dictionary = dictionary, dictionary
		}
		for i := range rapid.IntRange(1, 5).Draw(r, "frames") {
			n := rapid.SampledFrom([]int{0, 1, 63, 64, 500, 4096, 65_537, frame.MaxPlain}).Draw(r, "size")
			seed := rapid.Uint64Max(1000).Draw(r, "seed")
			content := rapid.SampledFrom([]func(uint64, int) []byte{random, text, func(_ uint64, n int) []byte { return make([]byte, n) },
				func(s uint64, n int) []byte { return append(random(s, n/2), text(s, n-n/2)...) }}).Draw(r, "kind")(seed, n)
			want := bytes.Clone(content)
			h, b := encode(&e, uint32(i), content)
			require.Equal(r, want, content, "the content is not modified")
			require.LessOrEqual(r, len(b), frame.HeaderSize+n+64)
			require.Equal(r, e.Sealer != nil, h.KeyID == 9)
			if h.Codec == frame.Zstd {
				require.True(r, e.Compressed() && e.Level > core.CompressionOff)
			}
			got, err := decode(&d, b)
			require.NoError(r, err)
			require.True(r, bytes.Equal(want, got))
		}
	})
}

func TestCompressedFrames(t *testing.T) {
	for _, level := range []core.Compression{core.CompressionFast, core.CompressionBetter} {
		e := codec.Encoder{Level: level}
		h, b := encode(&e, 0, text(1, frame.MaxPlain))
		require.EqualValues(t, frame.Zstd, h.Codec)
		require.Less(t, len(b), frame.MaxPlain/3)
		h, b = encode(&e, 1, random(1, 4096))
		require.EqualValues(t, frame.Plain, h.Codec, "a frame that does not shrink is stored unchanged")
		require.Len(t, b, frame.HeaderSize+4096)
		h, _ = encode(&codec.Encoder{Level: level}, 0, text(1, 40))
		require.EqualValues(t, frame.Plain, h.Codec, "too short")
	}
	e := codec.Encoder{Level: core.CompressionOff}
	h, _ := encode(&e, 0, text(1, 4096))
	require.EqualValues(t, frame.Plain, h.Codec)
	require.True(t, e.Plain())
	require.False(t, e.Compressed())
}

// TestSampling checks that content that does not shrink is sampled less and less often, and that later frames that do
// shrink are still compressed.
func TestSampling(t *testing.T) {
	e := codec.Encoder{Level: core.CompressionFast}
	for i := range 100 {
		h, _ := encode(&e, uint32(i), random(uint64(i), 20_000))
		require.EqualValues(t, frame.Plain, h.Codec)
	}
	compressed := 0
	for i := range 100 {
		if h, _ := encode(&e, uint32(100+i), text(uint64(i), 20_000)); h.Codec == frame.Zstd {
			compressed++
		}
	}
	require.GreaterOrEqual(t, compressed, 60)
	require.Less(t, compressed, 100, "some were stored without sampling")
}

// TestEveryBit flips every bit of a compressed payload and decodes it without verifying the checksum of the frame. The
// result is either an error, or content of the plain size of the frame.
func TestEveryBit(t *testing.T) {
	h, b := encode(&codec.Encoder{Level: core.CompressionBetter}, 0, text(1, 3000))
	require.EqualValues(t, frame.Zstd, h.Codec)
	failed := 0
	var d codec.Decoder
	for i := range 8 * h.Stored {
		payload := bytes.Clone(b[frame.HeaderSize:])
		payload[i/8] ^= 1 << (i % 8)
		require.ErrorIs(t, h.Verify(payload), frame.ErrDamaged, "readers verify the checksum first")
		got, err := d.Decode(nil, payload, &h)
		if err != nil {
			failed++
			continue
		}
		require.Len(t, got, 3000)
	}
	require.Positive(t, failed)
}

// TestBombs checks that a payload that would decode to more bytes than its header states is an error, and that decoding
// it allocates little memory.
func TestBombs(t *testing.T) {
	big, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20))
	require.NoError(t, err)
	for _, single := range []bool{true, false} {
		e, err := zstd.NewWriter(nil, zstd.WithSingleSegment(single), zstd.WithWindowSize(8<<20))
		require.NoError(t, err)
		bomb := e.EncodeAll(make([]byte, 64<<20), nil)
		require.Less(t, len(bomb), frame.MaxStored)
		for _, plain := range []uint32{0, 1, 100, frame.MaxPlain} {
			h := frame.Header{Type: frame.Data, Codec: frame.Zstd, Plain: plain, Stored: uint32(len(bomb))}
			dst := make([]byte, 0, plain)
			var d codec.Decoder
			allocated := testing.AllocsPerRun(1, func() { _, err = d.Decode(dst, bomb, &h) })
			require.ErrorIs(t, err, codec.ErrDamaged)
			require.Less(t, allocated, 100.0)
		}
	}
	var stream bytes.Buffer // its header has no size
	big.Reset(&stream)
	_, err = big.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, big.Close())
	h := frame.Header{Type: frame.Data, Codec: frame.Zstd, Plain: frame.MaxPlain, Stored: uint32(stream.Len())}
	_, err = (&codec.Decoder{}).Decode(nil, stream.Bytes(), &h)
	require.ErrorIs(t, err, codec.ErrDamaged)
}

func TestWrongHeaders(t *testing.T) {
	var d codec.Decoder
	h, b := encode(&codec.Encoder{Level: core.CompressionFast}, 0, text(1, 3000))
	payload := b[frame.HeaderSize:]
	for _, plain := range []uint32{0, 2999, 3001, frame.MaxPlain, frame.MaxPlain + 1, 1<<32 - 1} {
		h := h
		h.Plain = plain
		_, err := d.Decode(nil, payload, &h)
		require.ErrorIs(t, err, codec.ErrDamaged, plain)
	}
	other := h
	other.Codec = 2
	_, err := d.Decode(nil, payload, &other)
	require.ErrorIs(t, err, codec.ErrCodec)
	other.Codec, other.KeyID = frame.Zstd, 5
	_, err = d.Decode(nil, payload, &other)
	require.ErrorIs(t, err, codec.ErrNoKey)
	_, err = (&codec.Decoder{Sealer: newGCM(t, 1)}).Decode(nil, payload, &h)
	require.ErrorIs(t, err, codec.ErrNoKey, "a frame that should be encrypted is not accepted unencrypted")
	_, err = d.Decode(nil, payload[:len(payload)-1], &h)
	require.ErrorIs(t, err, codec.ErrDamaged)
}

func TestWrongSealer(t *testing.T) {
	e := codec.Encoder{Level: core.CompressionFast, Sealer: newGCM(t, 1), KeyID: 3}
	h, b := encode(&e, 5, text(1, 3000))
	require.EqualValues(t, frame.Zstd, h.Codec)
	_, err := decode(&codec.Decoder{Sealer: newGCM(t, 2)}, b)
	require.ErrorIs(t, err, errSealed)
	h.Index = 6
	_, err = (&codec.Decoder{Sealer: e.Sealer}).Decode(nil, bytes.Clone(b[frame.HeaderSize:]), &h)
	require.ErrorIs(t, err, errSealed)
}

func TestTypes(t *testing.T) {
	for _, s := range []string{"image/png", "IMAGE/JPEG", "video/mp4; x=y", "application/zip", "application/gzip", "audio/mpeg", "font/woff2",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "application/x-zip-compressed"} {
		require.True(t, codec.IsCompressedType(s), s)
	}
	for _, s := range []string{"", "text/plain", "application/json", "image/svg+xml", "image/bmp", "binary/octet-stream", "audio/wav", "font/ttf", "imag", "zip"} {
		require.False(t, codec.IsCompressedType(s), s)
	}
	for _, s := range []string{"gzip", "aws-chunked, GZIP", "zstd", "br"} {
		require.True(t, codec.IsCompressedEncoding(s), s)
	}
	for _, s := range []string{"", "aws-chunked", "identity", "utf-8"} {
		require.False(t, codec.IsCompressedEncoding(s), s)
	}
}

// FuzzDecode decodes arbitrary payloads.
func FuzzDecode(f *testing.F) {
	for _, level := range []core.Compression{core.CompressionOff, core.CompressionFast, core.CompressionBetter} {
		h, b := encode(&codec.Encoder{Level: level}, 0, text(1, 3000))
		f.Add(b[frame.HeaderSize:], h.Codec, h.Plain)
	}
	f.Fuzz(func(t *testing.T, payload []byte, codecID uint8, plain uint32) {
		h := frame.Header{Type: frame.Data, Codec: codecID, Plain: plain, Stored: uint32(len(payload))}
		got, err := (&codec.Decoder{}).Decode(nil, payload, &h)
		if err == nil {
			require.Len(t, got, int(plain))
		}
	})
}
