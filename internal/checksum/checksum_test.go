package checksum

import (
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKnownValues compares the checksums of "123456789" with the check values of CRC catalogs and the output of
// reference tools.
func TestKnownValues(t *testing.T) {
	want := map[Algorithm]string{
		MD5:       "25f9e794323b453885f5181f1b624d0b",
		CRC32:     "cbf43926",
		CRC32C:    "e3069283",
		CRC64NVME: "ae8b14860a799888",
		SHA1:      "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
		SHA256:    "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
		SHA512: "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a" +
			"d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
		XXHASH64:  "8cb841db40e6ae83",
		XXHASH3:   "72dcb18b67a17dff",
		XXHASH128: "33119477ede5dcd5e9716427681d5860",
	}
	for a, sum := range want {
		require.Equal(t, sum, hex.EncodeToString(Sum(a, []byte("123456789"))), a.Name())
	}
	// Checksums of empty input, as published by the xxHash project.
	require.Equal(t, "ef46db3751d8e999", hex.EncodeToString(Sum(XXHASH64, nil)))
	require.Equal(t, "2d06800538d394c2", hex.EncodeToString(Sum(XXHASH3, nil)))
	require.Equal(t, "99aa06d3014798d86001c324468d497f", hex.EncodeToString(Sum(XXHASH128, nil)))
}

func TestNames(t *testing.T) {
	require.Len(t, All(), 10)
	for _, a := range All() {
		require.True(t, a.Valid())
		for _, name := range []string{a.Name(), strings.ToLower(a.Name())} {
			got, ok := Parse(name)
			require.True(t, ok)
			require.Equal(t, a, got)
		}
		require.Equal(t, "x-amz-checksum-"+strings.ToLower(a.Name()), a.Header())
		require.Equal(t, http.CanonicalHeaderKey(a.Header()), a.HeaderKey())
		got, ok := FromHeader(a.HeaderKey())
		require.True(t, ok)
		require.Equal(t, a, got)
		require.Len(t, Sum(a, []byte("x")), a.Size())
		require.LessOrEqual(t, a.Size(), MaxSize)
	}
	for _, name := range []string{"", "x-amz-checksum-", "x-amz-checksum-type", "x-amz-checksum-mode", "x-amz-checksum-algorithm", "CRC32"} {
		_, ok := FromHeader(name)
		require.False(t, ok, name)
	}
	_, ok := Parse("")
	require.False(t, ok)
	for _, a := range []Algorithm{None, 11, 255} {
		require.False(t, a.Valid())
		require.Zero(t, a.Size())
		require.Empty(t, a.Name()+a.Header()+a.HeaderKey())
	}
}

func TestHashesCanBeReused(t *testing.T) {
	for _, a := range All() {
		h := New(a)
		h.Write([]byte("something else"))
		h.Reset()
		h.Write([]byte("1234"))
		h.Write([]byte("56789"))
		require.Equal(t, Sum(a, []byte("123456789")), h.Sum(nil), a.Name())
	}
}

func TestDecode(t *testing.T) {
	for _, a := range All() {
		sum := Sum(a, []byte("content"))
		text := Encode(sum)
		got, err := Decode(a, text)
		require.NoError(t, err)
		require.Equal(t, sum, got)
		for _, bad := range []string{"", text[1:], text[:len(text)-1], text + "=", "*" + text[1:], " " + text[1:], text[:len(text)-1] + "\n", hex.EncodeToString(sum)} {
			_, err := Decode(a, bad)
			require.ErrorIs(t, err, ErrMalformed, "%s %q", a, bad)
		}
	}
	_, err := Decode(CRC32, "AAAAAB==")
	require.ErrorIs(t, err, ErrMalformed)
	_, err = Decode(CRC32, "AAAAAA==")
	require.NoError(t, err)
	_, err = Decode(CRC32, "AAAAAR==") // has bits after the last byte
	require.ErrorIs(t, err, ErrMalformed)
	_, err = Decode(None, "")
	require.ErrorIs(t, err, ErrMalformed)
}

func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	for _, a := range []Algorithm{CRC32, CRC32C, CRC64NVME} {
		require.True(t, a.CanCombine())
		for _, size := range []int{0, 1, 2, 7, 8, 63, 64, 255, 256, 1000, 65535, 65536, len(content)} {
			whole := Sum(a, content[:size])
			for _, cut := range []int{0, 1, size / 3, size / 2, size - 1, size} {
				if cut < 0 || cut > size {
					continue
				}
				got, err := Combine(a, Sum(a, content[:cut]), Sum(a, content[cut:size]), int64(size-cut))
				require.NoError(t, err)
				require.Equal(t, whole, got, "%s of %d bytes, cut at %d", a, size, cut)
			}
		}
		// Many parts of odd sizes, as CompleteMultipartUpload combines them.
		sum, rest := Sum(a, nil), content
		for len(rest) > 0 {
			n := min(len(rest), 1+int(rng.Uint32()%100000))
			var err error
			sum, err = Combine(a, sum, Sum(a, rest[:n]), int64(n))
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, Sum(a, content), sum, a.Name())
	}
}

// TestCombineOfHugeContent uses sizes that are too large to hash in a test. Combining is associative, so three
// checksums must give the same result in both orders.
func TestCombineOfHugeContent(t *testing.T) {
	for _, a := range []Algorithm{CRC32, CRC32C, CRC64NVME} {
		x, y, z := Sum(a, []byte("x")), Sum(a, []byte("y")), Sum(a, []byte("z"))
		const size = 48<<40 + 12345
		xy, err := Combine(a, x, y, size)
		require.NoError(t, err)
		left, err := Combine(a, xy, z, size)
		require.NoError(t, err)
		yz, err := Combine(a, y, z, size)
		require.NoError(t, err)
		right, err := Combine(a, x, yz, 2*size)
		require.NoError(t, err)
		require.Equal(t, left, right, a.Name())
	}
}

func TestCombineRefuses(t *testing.T) {
	for _, a := range []Algorithm{None, MD5, SHA1, SHA256, SHA512, XXHASH64, XXHASH3, XXHASH128, 99} {
		require.False(t, a.CanCombine())
		_, err := Combine(a, make([]byte, a.Size()), make([]byte, a.Size()), 1)
		require.ErrorIs(t, err, ErrMalformed)
	}
	for _, bad := range []struct {
		one, two []byte
		size     int64
	}{{make([]byte, 4), make([]byte, 4), -1}, {make([]byte, 3), make([]byte, 4), 1}, {make([]byte, 4), make([]byte, 8), 1}} {
		_, err := Combine(CRC32, bad.one, bad.two, bad.size)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func BenchmarkCombine(b *testing.B) {
	one, two := Sum(CRC64NVME, []byte("1")), Sum(CRC64NVME, []byte("2"))
	for b.Loop() {
		Combine(CRC64NVME, one, two, 5<<20+4711)
	}
}

func BenchmarkSum(b *testing.B) {
	content := make([]byte, 64<<10)
	for _, a := range All() {
		b.Run(a.Name(), func(b *testing.B) {
			h := New(a)
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				h.Reset()
				h.Write(content)
				h.Sum(nil)
			}
		})
	}
}
