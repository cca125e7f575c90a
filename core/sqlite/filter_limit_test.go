package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilterLimit: a filter with a limit does not grow beyond it, and still has no false negatives.
func TestFilterLimit(t *testing.T) {
	for size, blooms := range map[int64]int{1: 1, 1 << 20: 1, 3<<20 - 1: 1, 3 << 20: 2, 7 << 20: 3, 1 << 40: maxBlooms} {
		var f filter
		f.limit(size)
		require.Equal(t, blooms, f.most, size)
	}
	var f filter
	f.limit(1 << 20)
	const hashes = 2 * bloomBlocks * hashesPerBlock
	for h := range uint64(hashes) {
		f.add(h)
	}
	f.full.Store(true)
	require.Len(t, *f.blooms.Load(), 1)
	for h := range uint64(hashes) {
		if !f.mayHave(h) {
			t.Fatalf("%d was added", h)
		}
	}
}

// TestCacheBytes: the size of page caches can be set, and has defaults.
func TestCacheBytes(t *testing.T) {
	o := Options{}
	require.Equal(t, readerCacheKiB, o.cacheKiB(readerCacheKiB))
	o.CacheBytes = 2 << 20
	require.Equal(t, 2048, o.cacheKiB(readerCacheKiB))
	m, err := Open(t.TempDir()+"/db", o)
	require.NoError(t, err)
	got, err := m.w.c.pragma("cache_size")
	require.NoError(t, err)
	require.EqualValues(t, -2048, got[0])
	require.NoError(t, m.Close())
}
