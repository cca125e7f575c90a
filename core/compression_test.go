package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompression(t *testing.T) {
	for _, l := range []Compression{CompressionDefault, CompressionOff, CompressionFast, CompressionBetter} {
		got, err := ParseCompression(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	_, err := ParseCompression("best")
	require.Error(t, err)
	require.Equal(t, "level 9", Compression(9).String())
}
