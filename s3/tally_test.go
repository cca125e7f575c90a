package s3

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

func TestTally(t *testing.T) {
	var tally Tally
	require.Equal(t, &Counts{}, tally.Take())
	require.Zero(t, tally.Take().Quantile(0.5))
	for i := range 100 {
		tally.Observe(t.Context(), &gate.Event{Status: 200, In: 10, Out: 1000, Took: time.Duration(i+1) * time.Millisecond})
	}
	tally.Observe(t.Context(), &gate.Event{Status: 404, Out: 200})
	tally.Observe(t.Context(), &gate.Event{Status: 499})
	tally.Observe(t.Context(), &gate.Event{Status: 503})
	c := tally.Take()
	require.Equal(t, []int64{103, 2, 1, 1000, 100_200}, []int64{c.Requests, c.ClientErrors, c.ServerErrors, c.In, c.Out})
	require.InDelta(t, 50, c.Quantile(0.5).Milliseconds(), 13)
	require.InDelta(t, 99, c.Quantile(0.99).Milliseconds(), 25)
	require.GreaterOrEqual(t, c.Quantile(1), 100*time.Millisecond)
	require.Zero(t, tally.Take().Requests)
}

func BenchmarkTally(b *testing.B) {
	var tally Tally
	e := &gate.Event{Status: 200, In: 4096, Took: 700 * time.Microsecond}
	for b.Loop() {
		tally.Observe(b.Context(), e)
	}
}
