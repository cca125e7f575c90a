package ids

import (
	"crypto/aes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
)

var testKey = [keySize]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// forge returns an ID for a block, computed without the code under test.
func forge(key [keySize]byte, n uint64, tag string) string {
	block, _ := aes.NewCipher(key[:])
	b := append(binary.BigEndian.AppendUint64(nil, n), tag...)
	block.Encrypt(b, b)
	return base64.NewEncoding(alphabet).WithPadding(base64.NoPadding).EncodeToString(b)
}

const (
	version = "version\x00"
	upload  = "upload\x00\x00"
)

func TestPlain(t *testing.T) {
	var c *Codec
	for v, id := range map[core.Version]string{
		core.Null: "null", 1: "0000000000000001", 1 << 40: "0000010000000000", core.Null - 1: "fffffffffffffffe",
		0x0123456789abcdef: "0123456789abcdef",
	} {
		require.Equal(t, id, c.Version(v))
		got, ok := c.ParseVersion(id)
		require.True(t, ok, id)
		require.Equal(t, v, got)
	}
	require.Empty(t, c.Version(core.Current))
	for _, id := range []string{
		"", "NULL", "1", "00000000000000000", "ffffffffffffffff", "000000000000000g", "0000000000000000",
		"+000000000000001", "0x00000000000001", "0000_0000_0000_1", forge(testKey, 1, version),
	} {
		_, ok := c.ParseVersion(id)
		require.False(t, ok, id)
	}
	id, ok := c.ParseUpload(c.Upload(1 << 40))
	require.True(t, ok)
	require.Equal(t, core.UploadID(1<<40), id)
	_, ok = c.ParseUpload("null")
	require.False(t, ok, "an upload has a sequence")
}

func TestRoundTrip(t *testing.T) {
	c := New(testKey, 100)
	seen := map[string]bool{}
	for _, n := range []uint64{101, 102, 255, 1 << 20, 1<<40 - 1, 1 << 63, 1<<64 - 2} {
		id := c.Version(core.Version(n))
		require.Equal(t, forge(testKey, n, version), id)
		v, ok := c.ParseVersion(id)
		require.True(t, ok)
		require.Equal(t, core.Version(n), v)

		uploadID := c.Upload(core.UploadID(n))
		require.Equal(t, forge(testKey, n, upload), uploadID)
		u, ok := c.ParseUpload(uploadID)
		require.True(t, ok)
		require.Equal(t, core.UploadID(n), u)

		for _, s := range []string{id, uploadID} {
			require.Len(t, s, textSize)
			require.Empty(t, strings.Trim(s, alphabet))
			require.False(t, seen[s])
			seen[s] = true
			require.Equal(t, s, c.CanonicalVersion(s))
		}
	}
	require.Equal(t, "null", c.Version(core.Null))
	v, ok := c.ParseVersion("null")
	require.True(t, ok)
	require.Equal(t, core.Null, v)
	require.Empty(t, c.Version(core.Current))
}

// Up to the boundary, IDs are plain; after it, they are encrypted. Each version has one ID.
func TestBoundary(t *testing.T) {
	c := New(testKey, 0xab)
	require.Equal(t, "00000000000000ab", c.Version(0xab))
	require.Equal(t, "00000000000000ab", c.Upload(0xab))
	require.Equal(t, "00000000000000ab", c.CanonicalVersion("00000000000000AB"))
	v, ok := c.ParseVersion("00000000000000AB")
	require.True(t, ok)
	require.Equal(t, core.Version(0xab), v)
	require.Len(t, c.Version(0xac), textSize)
	for what, id := range map[string]string{
		"plain, after the boundary":     "00000000000000ac",
		"encrypted, up to the boundary": forge(testKey, 0xab, version),
		"the current version":           forge(testKey, 0, version),
		"the null version":              forge(testKey, uint64(core.Null), version),
		"of an upload":                  forge(testKey, 0xac, upload),
		"with another tag":              forge(testKey, 0xac, "version\x01"),
		"of another store":              forge([keySize]byte{9}, 0xac, version),
	} {
		_, ok := c.ParseVersion(id)
		require.False(t, ok, what)
		require.Equal(t, id, c.CanonicalVersion(id), what)
	}
	for what, id := range map[string]string{
		"plain, after the boundary": "00000000000000ac",
		"of a version":              forge(testKey, 0xac, version),
		"the null version":          "null",
		"of another store":          forge([keySize]byte{9}, 0xac, upload),
	} {
		_, ok := c.ParseUpload(id)
		require.False(t, ok, what)
	}
}

// Every change of a valid ID makes it invalid: its characters, its length, and unused bits of its last character.
func TestChangedIDs(t *testing.T) {
	c := New(testKey, 0)
	id := c.Version(1)
	refused := func(s string) {
		t.Helper()
		_, ok := c.ParseVersion(s)
		require.False(t, ok, "%q", s)
	}
	for i := range id {
		for _, r := range alphabet + "-/+=~ \n\r\x00" {
			if byte(r) != id[i] {
				refused(id[:i] + string(r) + id[i+1:])
			}
		}
		refused(id[:i] + id[i+1:])
		refused(id[:i] + "\n" + id[i:])
	}
	refused(id + "A")
	refused(id + "==")
	refused(strings.ToLower(id))
}

func TestRecord(t *testing.T) {
	meta := mem.NewMeta()
	none, err := Load(t.Context(), meta)
	require.NoError(t, err)
	require.Nil(t, none)

	seq := core.Seq(0)
	store := func(r core.Record) {
		seq++
		c := &core.PutRecord{Record: r}
		c.SetStamp(seq)
		results, err := meta.Apply(t.Context(), []core.Change{c})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
	}
	first, second := NewRecord(7), NewRecord(7)
	require.NotEqual(t, first.Value, second.Value, "keys are random")
	store(first)
	c, err := Load(t.Context(), meta)
	require.NoError(t, err)
	require.Equal(t, "0000000000000007", c.Version(7))
	require.Equal(t, forge([keySize]byte(first.Value[9:]), 8, version), c.Version(8))

	for kind, value := range map[core.Kind][]byte{core.Unsupported: {2, 0}, core.Damaged: first.Value[:24]} {
		r := first
		r.Value = value
		store(r)
		_, err = Load(t.Context(), meta)
		require.True(t, core.Is(err, kind), "%v", err)
	}
}

// The only allocation is the string, and parsing needs none.
func TestAllocations(t *testing.T) {
	c := New(testKey, 10)
	id, old := c.Version(1<<40), c.Version(5)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { sink = c.Version(1 << 40) }), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { sink = c.Version(5) }), 1.0)
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.ParseVersion(id) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.ParseVersion(old) }))
}

var sink string

func BenchmarkIDs(b *testing.B) {
	c := New(testKey, 10)
	b.Run("version", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			sink = c.Version(core.Version(i + 11))
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		id := c.Version(1 << 40)
		for range b.N {
			c.ParseVersion(id)
		}
	})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			sink = c.Version(5)
		}
	})
}

// No text other than an ID is accepted, and what is accepted is the ID of what it decodes to.
func FuzzParse(f *testing.F) {
	c := New(testKey, 0xff)
	for _, s := range []string{
		"null", "", "00000000000000ff", "0000000000000100", "00000000000000FF", c.Version(0x100), c.Upload(0x100), c.Version(1 << 60),
		strings.Repeat("A", textSize), strings.Repeat("\n", textSize), c.Version(0x100)[:21] + "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := c.ParseVersion(s); ok {
			require.NotEqual(t, core.Current, v)
			require.Equal(t, c.CanonicalVersion(s), c.Version(v))
			require.True(t, s == c.Version(v) || len(s) == plainSize && strings.EqualFold(s, c.Version(v)))
		}
		if u, ok := c.ParseUpload(s); ok {
			require.True(t, strings.EqualFold(s, c.Upload(u)))
			_, both := c.ParseVersion(s)
			require.Equal(t, len(s) == plainSize, both)
		}
	})
}
