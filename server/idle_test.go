package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIdleness: memory is released once after enough quiet ticks, and again only after a busy one.
func TestIdleness(t *testing.T) {
	var i idleness
	requests := uint64(0)
	for n, c := range []struct {
		requests     uint64 // since the tick before
		idle, begins bool
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
		idle, begins := i.tick(requests)
		require.Equal(t, []bool{c.idle, c.begins}, []bool{idle, begins}, "tick %d", n)
	}
}
