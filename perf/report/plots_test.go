package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// TestCeilingsAreDrawn: each plot has the lines of what the machine allows.
func TestCeilingsAreDrawn(t *testing.T) {
	run := example()
	null := func(op string, workers int) result.Row {
		return result.Row{Operation: op, Variant: "null", SizeBytes: 4096, Workers: workers, ThroughputRPS: 30_000, P50Ms: 0.05}
	}
	run.Ceilings.Null = append(run.Ceilings.Null, null("get", 16), null("get", 1))
	run.Ceilings.Null[1].P50Ms = 5
	ceilingsOf := func(d *drawing) (names []string) {
		for _, l := range d.lines {
			if l.dashed {
				names = append(names, l.name)
			}
		}
		return names
	}
	s := run.Scenarios
	ramp := latencyAgainstLoad(&s[2], run.Ceilings)
	require.Equal(t, []string{"fdatasync of 4 KiB, p50", "null server, get of 4 KiB: all that it gets", "null server, put of 4 KiB: all that it gets"}, ceilingsOf(ramp))
	floor, wall := ramp.lines[1].points, ramp.lines[2].points
	require.Equal(t, []float64{30_000, 30_000}, []float64{wall[0].X, wall[1].X})
	require.Equal(t, []float64{0.15, 0.15}, []float64{floor[0].Y, floor[1].Y})
	list := listAgainstKeys(&s[1], run.Ceilings)
	require.Equal(t, []string{"null server, a GET of 4 KiB"}, ceilingsOf(list))
	require.Equal(t, 0.05, list.lines[1].points[0].Y)
	require.Equal(t, []string{"null server"}, ceilingsOf(packingOnAndOff(&s[0], run.Ceilings)))
	sweep := result.Scenario{Scenario: "workers-sweep", Results: []result.Row{
		{Operation: "put", SizeBytes: 4096, Workers: 1, BytesPerSec: 4e6}, {Operation: "put", SizeBytes: 4096, Workers: 8, BytesPerSec: 8e6},
		{Operation: "get", SizeBytes: 4096, Workers: 1, BytesPerSec: 5e6}, {Operation: "get", SizeBytes: 1 << 20, Workers: 8, BytesPerSec: 9e6},
	}}
	run.Ceilings.Null[len(run.Ceilings.Null)-2].BytesPerSec = 70e6
	gets := throughputAgainstWorkers(&sweep, "get", run.Ceilings)
	require.Equal(t, []string{"null server, 4 KiB"}, ceilingsOf(gets), "each operation and size has its own, where there is one")
	require.Equal(t, 70.0, gets.lines[2].points[0].Y)
	require.Len(t, throughputAgainstWorkers(&sweep, "put", run.Ceilings).lines[0].points, 2)
	require.Empty(t, ceilingsOf(latencyAgainstLoad(&s[2], nil)))
	require.Empty(t, ceilingsOf(listAgainstKeys(&s[1], nil)))
}
