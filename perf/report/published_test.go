package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// TestPublished: published figures are next to those of the run, and missing figures are marked.
func TestPublished(t *testing.T) {
	cell := func(run *result.Run, what string) string {
		for _, row := range elsewhere(run).Table[0].Rows {
			if row[0] == what {
				return row[3]
			}
		}
		t.Fatal(what)
		return ""
	}
	run := example()
	require.Equal(t, "not measured yet", cell(run, "OrcaS [2], random places (512 KiB)"))
	require.Equal(t, "not in this run", cell(run, "OrcaS [1], instant upload, 10 KiB"))
	require.Equal(t, "not in this run", cell(run, "OrcaS [1], instant upload, overhead on unique content"))
	require.Equal(t, "not in this run", cell(run, "OrcaS [2], 256 KiB encrypted"))
	require.Equal(t, "not in this run", cell(run, "s3proxy [3], below 1 KB"))
	require.Equal(t, "not in this run", cell(run, "OrcaS [1], PUT/s of 1, 4, 64 KiB, packing on"))
	instant := func(variant string, ms float64) result.Row {
		return result.Row{Operation: "put", Variant: variant, SizeBytes: 10 << 10, Workers: 1, P50Ms: ms}
	}
	packed := func(size int64, rate float64) result.Row {
		return result.Row{Operation: "put", Variant: "packing-on", SizeBytes: size, Workers: 50, ThroughputRPS: rate}
	}
	run.Scenarios = append(run.Scenarios,
		result.Scenario{Scenario: "instant", Results: []result.Row{instant("unique", 3), instant("duplicate", 2)},
			Values: map[string]float64{"overhead_percent_1024": 2.26, "overhead_percent_10485760": -1}},
		result.Scenario{Scenario: "get-warm", Results: []result.Row{{Operation: "get", Variant: "warm", SizeBytes: 1024, ThroughputRPS: 500, P50Ms: 0.2, P95Ms: 0.5}}},
		result.Scenario{Scenario: "batch-compare", Results: []result.Row{packed(1024, 9000), packed(4096, 8000), packed(65536, 3000)}})
	run.Benchmarks = []result.Benchmark{{Package: "orcas/vfs", Name: "Files/encrypted", Values: map[string]float64{"MB/s": 123}}}
	require.Equal(t, "duplicate 2.00 ms, unique 3.00 ms (1.50 times)", cell(run, "OrcaS [1], instant upload, 10 KiB"))
	require.Equal(t, "1 KiB +2.3 %, 10 MiB -1.0 %", cell(run, "OrcaS [1], instant upload, overhead on unique content"))
	run.Benchmarks = append(run.Benchmarks, result.Benchmark{Name: "Instant/10240/duplicate", Values: map[string]float64{"allocs/op": 34}},
		result.Benchmark{Name: "Instant/10240/unique", Values: map[string]float64{"allocs/op": 38}})
	require.Equal(t, "duplicate 2.00 ms, unique 3.00 ms (1.50 times); in process 34.0 allocs/op and 38.0 allocs/op", cell(run, "OrcaS [1], instant upload, 10 KiB"))
	require.Equal(t, "123 MB/s", cell(run, "OrcaS [2], 256 KiB encrypted"))
	require.Equal(t, "500/s, p50 0.200, p95 0.500 ms", cell(run, "s3proxy [3], below 1 KB"))
	require.Equal(t, "at 50: 9000, 8000, 3000", cell(run, "OrcaS [1], PUT/s of 1, 4, 64 KiB, packing on"))
}
