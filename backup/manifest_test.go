package backup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"orcas/core"
)

func sample() *manifest {
	return &manifest{
		Format: format, Store: storeName(7), Seq: 9, Time: time.UnixMilli(1).UTC(),
		Files: []smallFile{{storeFile, []byte("text")}},
		Blocks: []*entry{
			{Block: "b1", Kind: "packed", Name: "blocks/1", Length: 64, Sum: "1"},
			{Block: "b2", Kind: "large", Name: "blocks/2", Length: 65, Sum: "2", Damaged: []string{"all \"of\" it"}},
		},
	}
}

// TestManifestRoundTrip encodes and decodes manifests, and checks that every flipped bit is detected.
func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*manifest{sample(), {Format: format, Store: storeName(1)}} {
		b, err := m.encode()
		require.NoError(t, err)
		got, err := decodeManifest(b)
		require.NoError(t, err)
		again, err := got.encode()
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
		for i := range len(b) * 8 {
			b[i/8] ^= 1 << (i % 8)
			_, err := decodeManifest(b)
			require.True(t, core.Is(err, core.Damaged), "bit %d", i)
			b[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestManifestNames checks that a manifest is refused if it has names that lead out of the directory, even if its
// checksum is correct.
func TestManifestNames(t *testing.T) {
	for _, harm := range []func(m *manifest){
		func(m *manifest) { m.Blocks[0].Name = "../blocks/x" },
		func(m *manifest) { m.Blocks[0].Name = "blocks/../../x" },
		func(m *manifest) { m.Blocks[0].Name = "/etc/passwd" },
		func(m *manifest) { m.Blocks[0].Name = "metadata.db" },
		func(m *manifest) { m.Blocks[0].Length = -1 },
		func(m *manifest) { m.Blocks[0] = nil },
		func(m *manifest) { m.Files[0].Name = "../x" },
		func(m *manifest) { m.Files[0].Name = ".." },
		func(m *manifest) { m.Files[0].Name = "" },
	} {
		m := sample()
		harm(m)
		b, err := m.encode()
		require.NoError(t, err)
		_, err = decodeManifest(b)
		require.True(t, core.Is(err, core.Damaged), "%s", b)
	}
	m := sample()
	m.Format = format + 1
	b, err := m.encode()
	require.NoError(t, err)
	_, err = decodeManifest(b)
	require.True(t, core.Is(err, core.Unsupported))
}

func FuzzDecodeManifest(f *testing.F) {
	b, err := sample().encode()
	require.NoError(f, err)
	f.Add(b[:len(b)-len(fmt.Sprintf(lastLine, 0))])
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = fmt.Appendf(b, lastLine, xxh3.Hash(b)) // with a correct checksum
		if m, err := decodeManifest(b); err == nil {
			_, err := m.encode()
			require.NoError(t, err)
		}
	})
}

func FuzzDecodeIdentity(f *testing.F) {
	f.Add(encodeIdentity(storeName(1)))
	f.Add([]byte("orcas-backup 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		store, err := decodeIdentity(b)
		if err != nil {
			require.Contains(t, []core.Kind{core.Damaged, core.Unsupported}, core.KindOf(err))
			return
		}
		require.Equal(t, b, encodeIdentity(store))
	})
}
