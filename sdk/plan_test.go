package sdk

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPartsCoverContent: for every size, the parts are adjacent, cover the content, and are within the limits of S3.
func TestPartsCoverContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(
			rapid.Int64Range(0, 64<<20),
			rapid.Int64Range(0, partSizeMax*partsMax),
			rapid.SampledFrom([]int64{partSizeDefault * partsMax, partSizeDefault*partsMax + 1, partSizeMax * partsMax}),
		).Draw(t, "size")
		wish := int64(0)
		if rapid.Bool().Draw(t, "wish") {
			wish = rapid.Int64Range(max(partSizeMin, (size+partsMax-1)/partsMax), partSizeMax).Draw(t, "part size")
		}
		p, err := planParts(size, wish)
		require.NoError(t, err)
		if wish != 0 {
			require.Equal(t, wish, p.partSize)
		}
		n := p.count()
		require.LessOrEqual(t, n, partsMax)
		require.GreaterOrEqual(t, n, 1)
		for _, i := range []int{1, 2, n / 2, n - 1, n} {
			if i < 1 || i > n {
				continue
			}
			offset, length := p.part(i)
			require.Equal(t, int64(i-1)*p.partSize, offset)
			require.LessOrEqual(t, length, int64(partSizeMax))
			if i < n {
				require.Equal(t, p.partSize, length)
				require.GreaterOrEqual(t, length, int64(partSizeMin))
			} else {
				require.Equal(t, size, offset+length)
				require.True(t, length > 0 || size == 0)
			}
		}
	})
}

func TestPartSizes(t *testing.T) {
	const gib = 1 << 30
	for size, want := range map[int64]int64{
		0: 8 << 20, 5 * gib: 8 << 20, 78 * gib: 8 << 20, 79 * gib: 16 << 20, 1 << 40: 128 << 20, partSizeMax * partsMax: partSizeMax,
	} {
		p, err := planParts(size, 0)
		require.NoError(t, err)
		require.Equal(t, want, p.partSize, size)
	}
	for _, bad := range []struct{ size, wish int64 }{
		{1, 1}, {1, -1}, {1, partSizeMin - 1}, {1, partSizeMax + 1}, {partSizeMin*partsMax + 1, partSizeMin}, {partSizeMax*partsMax + 1, 0},
	} {
		_, err := planParts(bad.size, bad.wish)
		require.Error(t, err, bad)
	}
	for _, c := range []struct {
		size, wish int64
		single     bool
	}{{0, 0, true}, {putMax, 0, true}, {putMax + 1, 0, false}, {6 << 20, 5 << 20, false}, {5 << 20, 5 << 20, true}, {16 << 20, 32 << 20, true}, {17 << 20, 32 << 20, false}} {
		p, err := planParts(c.size, c.wish)
		require.NoError(t, err)
		require.Equal(t, c.single, p.single(), c)
	}
}

// TestStreamParts: a stream of unknown size has the parts of an object of known size first, and can be as large as the
// largest object of most servers.
func TestStreamParts(t *testing.T) {
	total := int64(0)
	for n := 1; n <= partsMax; n++ {
		size := streamPart(n, partSizeDefault)
		if n <= streamParts {
			require.Equal(t, int64(partSizeDefault), size)
		}
		require.LessOrEqual(t, size, int64(partSizeMax))
		total += size
	}
	require.Greater(t, total, int64(5<<40))
}
