package codec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core/codec"
	"orcas/core/frame"
)

func keyOf(t testing.TB, seed byte) *codec.Key {
	k, err := codec.NewKey(bytes.Repeat([]byte{seed}, codec.KeySize))
	require.NoError(t, err)
	return k
}

func TestDataKeyIsBoundToItsContentAndKey(t *testing.T) {
	master, other := keyOf(t, 1), keyOf(t, 2)
	h := frame.Header{Type: frame.Data, ID: 7, Index: 3, Plain: 5}
	key, wrapped := master.NewDataKey(9, 7)
	sealed := key.Seal(nil, []byte("plain"), &h)
	require.NotContains(t, string(sealed), "plain")
	require.Len(t, sealed, 5+codec.SealedMore)

	again, err := master.DataKey(9, 7, wrapped)
	require.NoError(t, err)
	plain, err := again.Open(nil, sealed, &h)
	require.NoError(t, err)
	require.Equal(t, "plain", string(plain))

	for name, try := range map[string]func() error{
		"another key":     func() error { _, err := other.DataKey(9, 7, wrapped); return err },
		"another id":      func() error { _, err := master.DataKey(8, 7, wrapped); return err },
		"another content": func() error { _, err := master.DataKey(9, 6, wrapped); return err },
		"rewrap":          func() error { _, err := other.Rewrap(9, 7, wrapped, master, 8); return err },
	} {
		require.ErrorIs(t, try(), codec.ErrWrongKey, name)
	}
	for i := range wrapped {
		bad := bytes.Clone(wrapped)
		bad[i] ^= 1
		_, err := master.DataKey(9, 7, bad)
		require.Error(t, err, "byte %d", i)
		_, err = master.DataKey(9, 7, wrapped[:i])
		require.ErrorIs(t, err, codec.ErrDamaged)
	}

	moved, err := master.Rewrap(9, 7, wrapped, other, 10)
	require.NoError(t, err)
	again, err = other.DataKey(10, 7, moved)
	require.NoError(t, err)
	plain, err = again.Open(nil, sealed, &h)
	require.NoError(t, err)
	require.Equal(t, "plain", string(plain))
}

func TestDataKeysAndWrappedKeysNeverRepeat(t *testing.T) {
	master := keyOf(t, 1)
	h := frame.Header{ID: 1, Plain: 5}
	seen := map[string]bool{}
	for range 100 {
		key, wrapped := master.NewDataKey(1, 1)
		sealed := string(key.Seal(nil, []byte("plain"), &h))
		require.False(t, seen[sealed] || seen[string(wrapped)])
		seen[sealed], seen[string(wrapped)] = true, true
		h.Index = 1
		require.NotEqual(t, sealed, string(key.Seal(nil, []byte("plain"), &h)), "each frame has a separate nonce")
		h.Index = 0
	}
}

// TestFrameIsBoundToItsContent checks that a sealed frame cannot be opened with another header, with a changed byte, or
// if it is truncated, and that no plain content is returned then.
func TestFrameIsBoundToItsContent(t *testing.T) {
	master := keyOf(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(rt, "plain")
		h := frame.Header{
			Type: frame.Data, ID: rapid.Uint64().Draw(rt, "id"), Index: rapid.Uint32().Draw(rt, "index"), Last: rapid.Bool().Draw(rt, "last"),
			Plain: uint32(len(plain)), Codec: rapid.Byte().Draw(rt, "codec"),
		}
		key, _ := master.NewDataKey(1, h.ID)
		room := make([]byte, 3, 3+len(plain)+codec.SealedMore)
		room = append(room, plain...)
		sealed := key.Seal(room[:3], room[3:], &h)[3:] // in place
		for name, change := range map[string]func(*frame.Header){
			"id": func(h *frame.Header) { h.ID++ }, "index": func(h *frame.Header) { h.Index++ }, "last": func(h *frame.Header) { h.Last = !h.Last },
			"plain": func(h *frame.Header) { h.Plain++ }, "codec": func(h *frame.Header) { h.Codec++ },
		} {
			other := h
			change(&other)
			got, err := key.Open(nil, sealed, &other)
			require.ErrorIs(rt, err, codec.ErrDamaged, name)
			require.Nil(rt, got)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		_, err := key.Open(nil, bad, &h)
		require.ErrorIs(rt, err, codec.ErrDamaged)
		_, err = key.Open(nil, sealed[:rapid.IntRange(0, len(sealed)-1).Draw(rt, "cut")], &h)
		require.ErrorIs(rt, err, codec.ErrDamaged)

		elsewhere := h
		elsewhere.Block, elsewhere.Offset, elsewhere.KeyID = [16]byte{1}, 99, 5 // the position does not matter
		got, err := key.Open(sealed[:0], sealed, &elsewhere)
		require.NoError(rt, err)
		require.Equal(rt, plain, got)
	})
}

func TestCheckRecognizesTheKey(t *testing.T) {
	a, b := keyOf(t, 1), keyOf(t, 2)
	check := a.Check()
	require.True(t, a.Is(check))
	require.False(t, b.Is(check))
	require.NotEqual(t, check, a.Check(), "salted")
	for i := range check {
		bad := bytes.Clone(check)
		bad[i] ^= 1
		require.False(t, a.Is(bad))
		require.False(t, a.Is(check[:i]))
	}
	require.False(t, a.Is(nil))
}

func TestParseKeys(t *testing.T) {
	one, two := bytes.Repeat([]byte{0xab}, 32), bytes.Repeat([]byte{0xfe}, 32)
	h1, b2 := hex.EncodeToString(one), base64.StdEncoding.EncodeToString(two)
	for _, text := range []string{
		"7:" + b2 + "\n3:" + h1 + "\n", "7:" + b2 + ",3:" + strings.ToUpper(h1), "# comment, with a comma\n\n 7 : " + strings.TrimRight(b2, "=") + " \r\n3:" + h1,
	} {
		keys, err := codec.ParseKeys(text)
		require.NoError(t, err)
		require.Equal(t, []uint32{7, 3}, keys.IDs())
		id, key := keys.Newest()
		require.EqualValues(t, 7, id)
		require.Same(t, keys.Get(7), key)
		want, err := codec.NewKey(one)
		require.NoError(t, err)
		require.True(t, keys.Get(3).Is(want.Check()))
		require.Nil(t, keys.Get(1))
	}
	keys, err := codec.ParseKeys(h1)
	require.NoError(t, err)
	require.Equal(t, []uint32{1}, keys.IDs())
	var none *codec.Keys
	require.Empty(t, none.IDs())
	require.Nil(t, none.Get(1))

	for name, text := range map[string]string{
		"empty": "", "comment only": "# nothing\n", "zeros": strings.Repeat("0", 64), "short": h1[:62], "long": h1 + "00", "no hex": "xx" + h1[2:],
		"id 0": "0:" + h1, "customers' id": "4294967295:" + h1, "large id": "4294967296:" + h1, "id twice": "1:" + h1 + ",1:" + b2, "key twice": "1:" + h1 + ",2:" + h1,
		"two without ids": h1 + "\n" + b2, "one without id": "2:" + h1 + "\n" + b2, "no key": "1:",
	} {
		_, err := codec.ParseKeys(text)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), h1[:62], name)
	}
}

func TestKeysAreNeverPrinted(t *testing.T) {
	k := keyOf(t, 'S')
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.NotContains(t, fmt.Sprintf(verb, k), "SS")
		require.NotContains(t, fmt.Sprintf(verb, k), "83 83")
		require.NotContains(t, fmt.Sprintf(verb, k), "0x53")
	}
}

func BenchmarkSeal(b *testing.B) {
	key, _ := keyOf(b, 1).NewDataKey(1, 1)
	for _, size := range []int{4 << 10, frame.MaxPlain} {
		h := frame.Header{Plain: uint32(size)}
		room := make([]byte, size, size+codec.SealedMore)
		b.Run(fmt.Sprintf("seal/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				key.Seal(room[:0], room[:size], &h)
			}
		})
		sealed := key.Seal(nil, make([]byte, size), &h)
		dst := make([]byte, 0, size)
		b.Run(fmt.Sprintf("open/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := key.Open(dst, sealed, &h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDataKey(b *testing.B) {
	master := keyOf(b, 1)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			master.NewDataKey(1, 1)
		}
	})
	_, wrapped := master.NewDataKey(1, 1)
	b.Run("unwrap", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = master.DataKey(1, 1, wrapped)
		}
	})
}
