package latency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	last := -1
	for us := int64(0); us < 1<<20; us = us + 1 + us/50 {
		d := time.Duration(us) * time.Microsecond
		i := Class(d)
		require.GreaterOrEqual(t, i, last)
		last = i
		require.GreaterOrEqual(t, Longest(i), d)
		require.LessOrEqual(t, Longest(i), d+d/4)
		require.Equal(t, i, Class(Longest(i)), "%d us: the longest time of a class must belong to the class", us)
	}
	require.Equal(t, 0, Class(-time.Second))
	require.Less(t, Class(1<<63-1), Classes)
}

func TestQuantile(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	for i := range 100 {
		h[Class(time.Duration(i+1)*time.Millisecond)]++
	}
	require.InDelta(t, 50, h.Quantile(0.5).Milliseconds(), 13)
	require.InDelta(t, 99, h.Quantile(0.99).Milliseconds(), 25)
	require.GreaterOrEqual(t, h.Quantile(1), 100*time.Millisecond)
}
