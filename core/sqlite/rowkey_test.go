package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A row checksum matches only the bytes of one row, and depends on each column that identifies the row.
func TestRowSum(t *testing.T) {
	keys := []rowKey{
		stateKey(1, 2), stateKey(2, 1), bucketKey(1, "a"), bucketKey(1, "b"), dataKey(1, []byte("a")), dataKey(1, []byte("b")),
		versionKey(1, "a", 2, 3), versionKey(1, "a", 3, 2), versionKey(2, "a", 2, 3), versionKey(1, "b", 2, 3), partKey(1, 2, 3),
		uploadKey(1, "a", 2), garbageKey(1, 2), recordKey("a", "b"), recordKey("b", "a"),
		runKey(1), runKey(2), pageKey(1), pageKey(2),
	}
	for i, k := range keys {
		column := k.appendSum([]byte("content"))
		for j, other := range keys {
			content, err := other.checkSum(column)
			require.Equal(t, i == j, err == nil, "%d %d", i, j)
			if i == j {
				require.Equal(t, "content", string(content))
			}
		}
		for bit := range len(column) * 8 {
			column[bit/8] ^= 1 << (bit % 8)
			_, err := k.checkSum(column)
			require.ErrorIs(t, err, errRowSum)
			column[bit/8] ^= 1 << (bit % 8)
		}
	}
	for n := range rowSumSize {
		_, err := keys[0].checkSum(make([]byte, n))
		require.ErrorIs(t, err, errRowSum)
	}
}
