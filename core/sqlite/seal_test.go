package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A seal fits one row's bytes and no others, and each column that says whose they are counts.
func TestSeal(t *testing.T) {
	places := []place{
		placeOfState(1, 2), placeOfState(2, 1), placeOfBucket(1, "a"), placeOfBucket(1, "b"), placeOfData(1, []byte("a")), placeOfData(1, []byte("b")),
		placeOfVersion(1, "a", 2, 3), placeOfVersion(1, "a", 3, 2), placeOfVersion(2, "a", 2, 3), placeOfVersion(1, "b", 2, 3), placeOfPart(1, 2, 3),
		placeOfUpload(1, "a", 2), placeOfGarbage(1, 2), placeOfRecord("a", "b"), placeOfRecord("b", "a"),
	}
	for i, p := range places {
		sealed := p.seal([]byte("content"))
		for j, q := range places {
			content, err := q.open(sealed)
			require.Equal(t, i == j, err == nil, "%d %d", i, j)
			if i == j {
				require.Equal(t, "content", string(content))
			}
		}
		for bit := range len(sealed) * 8 {
			sealed[bit/8] ^= 1 << (bit % 8)
			_, err := p.open(sealed)
			require.ErrorIs(t, err, errSeal)
			sealed[bit/8] ^= 1 << (bit % 8)
		}
	}
	for n := range sealSize {
		_, err := places[0].open(make([]byte, n))
		require.ErrorIs(t, err, errSeal)
	}
}
