package codec_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// record returns a piece of JSON.
func record(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 99))
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":%d,"items":[`, seed)
	for b.Len() < size {
		fmt.Fprintf(&b, `{"sku":"%08x","quantity":%d,"price":{"currency":"EUR","amount":%d.%02d},"warehouse":"%s","shipped":%t},`,
			r.Uint32(), 1+r.IntN(9), r.IntN(1000), r.IntN(100), []string{"hamburg", "rotterdam", "antwerp"}[r.IntN(3)], r.IntN(2) == 0)
	}
	return b.Bytes()[:size]
}

func trained(t require.TestingT, id uint32) *codec.Dictionary {
	var samples [][]byte
	for i := range 64 {
		samples = append(samples, record(uint64(i), 2000))
	}
	d, err := codec.Train(id, samples)
	require.NoError(t, err)
	require.Equal(t, id, d.ID())
	return d
}

func TestDictionary(t *testing.T) {
	d := trained(t, 40_000)
	for _, level := range []core.Compression{core.CompressionFast, core.CompressionBetter} {
		plain := record(1000, 1000)
		without := codec.Encoder{Level: level}
		_, long := encode(&without, 0, plain)
		e := codec.Encoder{Level: level, Dictionary: d}
		h, b := encode(&e, 0, plain)
		require.EqualValues(t, frame.Zstd, h.Codec)
		require.Less(t, len(b)-frame.HeaderSize, (len(long)-frame.HeaderSize)*4/5)

		again, err := codec.NewDictionary(d.ID(), bytes.Clone(d.Raw()))
		require.NoError(t, err)
		got, err := decode(&codec.Decoder{Dictionary: again}, b)
		require.NoError(t, err)
		require.Equal(t, plain, got)

		got, err = decode(&codec.Decoder{Dictionary: again}, long)
		require.NoError(t, err, "a frame without a dictionary can be read with any dictionary")
		require.Equal(t, plain, got)

		_, err = decode(&codec.Decoder{}, b)
		require.ErrorIs(t, err, codec.ErrNoDictionary)
		_, err = decode(&codec.Decoder{Dictionary: trained(t, 40_001)}, b)
		require.ErrorIs(t, err, codec.ErrNoDictionary)
	}
}

func TestNoDictionary(t *testing.T) {
	_, err := codec.NewDictionary(40_000, nil)
	require.ErrorIs(t, err, codec.ErrDamaged)
	_, err = codec.NewDictionary(40_000, random(1, 128<<10))
	require.ErrorIs(t, err, codec.ErrDamaged)
	_, err = codec.NewDictionary(7, random(1, 5000))
	require.ErrorIs(t, err, codec.ErrDamaged, "numbers below 32768 are not for private use")

	_, err = codec.Train(40_000, [][]byte{record(1, 1000)})
	require.Error(t, err)
	for name, sample := range map[string]func(i int) []byte{
		"random": func(i int) []byte { return random(uint64(i), 1000) },
		"empty":  func(int) []byte { return nil },
		"equal":  func(int) []byte { return record(1, 500) },
		"short":  func(i int) []byte { return []byte{1, 2, 3, byte(i)} },
		"zeros":  func(int) []byte { return make([]byte, 1000) },
	} {
		var samples [][]byte
		for i := range 64 {
			samples = append(samples, sample(i))
		}
		d, err := codec.Train(40_000, samples)
		t.Log(name, d != nil, err)
		if err == nil { // the dictionary must work
			e := codec.Encoder{Level: core.CompressionBetter, Dictionary: d}
			_, b := encode(&e, 0, record(5, 700))
			got, err := decode(&codec.Decoder{Dictionary: d}, b)
			require.NoError(t, err)
			require.Equal(t, record(5, 700), got)
		}
	}
}
