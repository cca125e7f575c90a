package sdk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBandwidth: with a fake clock, bytes pass at the rate of the limit, in steps of any size.
func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBandwidth(1 << 20)
		require.Equal(t, int64(1<<20), b.Limit())
		start := time.Now()
		for n := 0; n < 10<<20; n += 3 << 20 / 2 { // 7 steps of 1.5 MiB
			require.NoError(t, b.wait(t.Context(), 3<<20/2))
		}
		require.InDelta(t, 10.4, time.Since(start).Seconds(), 0.1, "10.5 MiB, of which the first burst passes at once")

		b.SetLimit(0)
		require.Zero(t, b.Limit())
		start = time.Now()
		require.NoError(t, b.wait(t.Context(), 1<<30))
		require.Zero(t, time.Since(start))
		b.SetLimit(3) // less than one byte per burst
		start = time.Now()
		require.NoError(t, b.wait(t.Context(), 31))
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.5)
	})
}

// TestBandwidthStops: a wait ends when its context does, and reports the error of the context.
func TestBandwidthStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBandwidth(1000)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.ErrorIs(t, b.wait(ctx, 1<<20), context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, b.wait(ctx, 1<<20), context.Canceled)

		// The burst becomes smaller while somebody waits for a larger one.
		b.SetLimit(1 << 20)
		time.AfterFunc(time.Second/100, func() { b.SetLimit(1000) })
		start := time.Now()
		require.NoError(t, b.wait(t.Context(), 1<<20))
		require.Greater(t, time.Since(start), 100*time.Second)
	})
	var none *Bandwidth
	require.NoError(t, none.wait(t.Context(), 1<<30))
}
