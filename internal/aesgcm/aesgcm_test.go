package aesgcm

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// published are test cases 16 and 14 (a block of zeros) of "The Galois/Counter Mode of Operation (GCM)", McGrew and
// Viega, 2005, appendix B.
var published = []struct{ key, nonce, plain, more, sealed string }{
	{
		"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
		"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
		"feedfacedeadbeeffeedfacedeadbeefabaddad2",
		"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662" +
			"76fc6ece0f4e1768cddf8853bb2d551b",
	},
	{
		"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "00000000000000000000000000000000", "",
		"cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
	},
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestPublishedVectors(t *testing.T) {
	for i, v := range published {
		for name, a := range map[string]cipher.AEAD{"new": New(unhex(t, v.key)), "portable": newPortable(unhex(t, v.key))} {
			sealed := a.Seal([]byte("head"), unhex(t, v.nonce), unhex(t, v.plain), unhex(t, v.more))
			require.Equal(t, "head"+string(unhex(t, v.sealed)), string(sealed), "%d %s", i, name)
			plain, err := a.Open(nil, unhex(t, v.nonce), sealed[4:], unhex(t, v.more))
			require.NoError(t, err)
			require.Equal(t, v.plain, hex.EncodeToString(plain))
		}
	}
}

// filled returns n random bytes, with capacity for a tag after them.
func filled(n int) []byte {
	b := make([]byte, n, n+TagSize)
	_, _ = rand.Read(b)
	return b
}

// TestVectorIsPortable compares vector AES with the standard library, at sizes around the numbers of blocks that may
// have a code path of their own.
func TestVectorIsPortable(t *testing.T) {
	if !native() {
		t.Skip("no vector AES here")
	}
	var sizes []int
	for n := range 1100 {
		sizes = append(sizes, n)
	}
	for _, around := range []int{4 << 10, 64 << 10, 256 << 10} {
		for d := -17; d <= 17; d++ {
			sizes = append(sizes, around+d)
		}
	}
	for _, n := range sizes {
		key, nonce, more, plain := filled(KeySize), filled(NonceSize), filled(mrand.IntN(70)), filled(n)
		ours, theirs := New(key), newPortable(key)
		sealed := theirs.Seal(nil, nonce, plain, more)
		require.True(t, bytes.Equal(sealed, ours.Seal(nil, nonce, plain, more)), n)
		opened, err := ours.Open(make([]byte, 0, n), nonce, sealed, more)
		require.NoError(t, err, n)
		require.True(t, bytes.Equal(plain, opened), n)

		inPlace := bytes.Clone(plain)
		inPlace = ours.Seal(inPlace[:0], nonce, inPlace, more)
		require.True(t, bytes.Equal(sealed, inPlace), n)
		inPlace, err = ours.Open(inPlace[:0], nonce, inPlace, more)
		require.NoError(t, err, n)
		require.True(t, bytes.Equal(plain, inPlace), n)
	}
}

// TestOpenRefuses flips a bit in each authenticated part. Open must return an error, and leave no byte of content in
// the destination.
func TestOpenRefuses(t *testing.T) {
	for _, n := range []int{0, 1, 16, 4096} {
		key, nonce, more, plain := filled(KeySize), filled(NonceSize), filled(18), filled(n)
		a := New(key)
		sealed := a.Seal(nil, nonce, plain, more)
		for name, part := range map[string][]byte{"nonce": nonce, "more": more, "content": sealed[:n], "tag": sealed[n:], "key": key} {
			if len(part) == 0 {
				continue
			}
			at, bit := mrand.IntN(len(part)), byte(1)<<mrand.IntN(8)
			part[at] ^= bit
			room := bytes.Repeat([]byte{0xee}, n)
			_, err := New(key).Open(room[:0], nonce, sealed, more)
			require.Error(t, err, "%s of %d", name, n)
			require.Equal(t, make([]byte, n), room, "%s of %d", name, n)
			part[at] ^= bit
		}
		_, err := a.Open(nil, nonce, sealed[:TagSize-1], more)
		require.Error(t, err)
	}
	require.Panics(t, func() { New(make([]byte, 16)) })
	require.Panics(t, func() { New(make([]byte, KeySize)).Seal(nil, make([]byte, 8), nil, nil) })
}

// TestConcurrentUse shares a key among goroutines, as the readers of the same content may.
func TestConcurrentUse(t *testing.T) {
	a, plain := New(filled(KeySize)), filled(10_000)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			nonce := make([]byte, NonceSize)
			for i := range 200 {
				nonce[0], nonce[1] = byte(g), byte(i)
				opened, err := a.Open(nil, nonce, a.Seal(nil, nonce, plain, nil), nil)
				if err != nil || !bytes.Equal(plain, opened) {
					t.Errorf("goroutine %d, turn %d: %v", g, i, err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkOpen(b *testing.B) {
	for name, make := range map[string]func([]byte) cipher.AEAD{"new": New, "portable": newPortable} {
		for _, n := range []int{1 << 10, 4 << 10, 256 << 10} {
			a, nonce := make(filled(KeySize)), filled(NonceSize)
			sealed, room := a.Seal(nil, nonce, filled(n), nil), filled(n)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					_, _ = a.Open(room[:0], nonce, sealed, nil)
				}
			})
		}
	}
}
