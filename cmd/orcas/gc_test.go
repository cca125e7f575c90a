package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPercentFor: the garbage is bounded, except if the live heap is so large that it would be collected all the time.
func TestPercentFor(t *testing.T) {
	require.Equal(t, gcPercent, percentFor(0))
	require.Equal(t, gcPercent, percentFor(garbageMax/3))
	for live := uint64(garbageMax) / 3; live < 3*garbageMax; live += 1 << 20 {
		require.LessOrEqual(t, live*uint64(percentFor(live))/100, uint64(garbageMax))
	}
	require.Equal(t, gcPercentMin, percentFor(1<<30))
}
