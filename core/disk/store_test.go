package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

func FuzzDecodeStore(f *testing.F) {
	f.Add(encodeStore(1, 0))
	f.Add(encodeStore(1<<63, 1<<32-1))
	f.Add(encodeStoreAs(1, 1, 0))
	f.Add([]byte("orcas-store 3\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		number, generation, err := decodeStore(b)
		if err != nil {
			require.Contains(t, []core.Kind{core.Damaged, core.Unsupported}, core.KindOf(err))
			return
		}
		forms := [][]byte{encodeStoreAs(1, number, generation), encodeStore(number, generation)}
		require.Contains(t, forms, b, "a valid text has only one form in each version")
	})
}

func TestEveryBitOfStoreIsChecked(t *testing.T) {
	b := encodeStore(0x0123456789abcdef, 42)
	number, generation, err := decodeStore(b)
	require.NoError(t, err)
	require.EqualValues(t, 0x0123456789abcdef, number)
	require.EqualValues(t, 42, generation)
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		_, _, err := decodeStore(b)
		require.Error(t, err, "bit %d", i)
		b[i/8] ^= 1 << (i % 8)
	}
}

// TestFork checks that a copy of a data directory counts its starts from a much higher number than the original.
func TestFork(t *testing.T) {
	seen := map[uint32]int{}
	for range 100 {
		b, err := Fork(encodeStore(7, 5000))
		require.NoError(t, err)
		number, generation, err := decodeStore(b)
		require.NoError(t, err)
		require.EqualValues(t, 7, number)
		require.GreaterOrEqual(t, generation, uint32(8192))
		seen[generation]++
	}
	require.Greater(t, len(seen), 50)
	_, err := Fork([]byte("x"))
	require.True(t, core.Is(err, core.Damaged))
	_, err = Fork(encodeStore(7, 1<<32-1))
	require.True(t, core.Is(err, core.Unsupported))
}
