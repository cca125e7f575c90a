package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIdleness: memory is released after enough quiet ticks, and again after many or after a busy one.
func TestIdleness(t *testing.T) {
	var i idleness
	requests := uint64(0)
	for n, c := range []struct {
		requests      uint64 // since the tick before
		idle, release bool
	}{
		{100, false, false},
		{0, false, false},
		{idleRequests, true, true}, // a few requests, such as health checks, keep no server from being idle
		{0, true, false},
		{1, true, false},
		{idleRequests + 1, false, false},
		{0, false, false},
		{100, false, false},
		{0, false, false},
		{0, true, true},
	} {
		requests += c.requests
		idle, release := i.tick(requests)
		require.Equal(t, []bool{c.idle, c.release}, []bool{idle, release}, "tick %d", n)
	}
	released := 0
	for range 2 * longTicks {
		if _, release := i.tick(requests); release {
			released++
			require.Equal(t, longTicks, i.quiet)
		}
	}
	require.Equal(t, 1, released)
}
