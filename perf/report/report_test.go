package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// example is a run with a row of every kind.
func example() *result.Run {
	put := func(variant string, workers int, rate float64) result.Row {
		return result.Row{Operation: "put", Variant: variant, SizeBytes: 4096, Workers: workers, ThroughputRPS: rate, BytesPerSec: rate * 4096, P50Ms: 1, P95Ms: 2, P99Ms: 3, Samples: 1000, Cost: result.Cost{ServerCPUus: 50}}
	}
	list := func(keys float64, ms float64) result.Row {
		return result.Row{Operation: "list", Variant: "first page", P50Ms: ms, Values: map[string]float64{"keys": keys}}
	}
	return &result.Run{
		Version: 1, ID: "r", Profile: "smoke", StartedAt: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), DurationSec: 600,
		Environment: result.Environment{CPU: "a | processor", NumCPU: 2, Settings: map[string]string{"ORCAS_REGION": "x"}},
		Ceilings:    &result.Ceilings{Null: []result.Row{put("null", 64, 40_000)}, Disk: []result.DiskRow{{SizeBytes: 4096, P50us: 150, BytesPerSec: 27e6}}, Memory: []result.MemoryRow{{Function: "md5", BytesPerSec: 7e8}}},
		Scenarios: []result.Scenario{
			{Scenario: "batch-compare", Results: []result.Row{put("packing-off", 1, 1000), put("packing-on", 1, 3000), put("packing-off", 64, 2000), put("packing-on", 64, 18_000)}},
			{Scenario: "list", Results: []result.Row{list(10_000, 2), list(1_000_000, 2.5)}, Note: "shortened"},
			{Scenario: "mixed-ramp", SaturationRPS: 1200, Results: []result.Row{
				{Operation: "mixed", Variant: "50/50", OpenLoop: true, RequestedRPS: 100, SentRPS: 100, ThroughputRPS: 100, P50Ms: 1, P95Ms: 2},
				{Operation: "mixed", Variant: "50/50", OpenLoop: true, RequestedRPS: 300, SentRPS: 290, ThroughputRPS: 280, P50Ms: 2, P95Ms: 30, ErrorRate: 0.01},
			}},
			{Scenario: "core", Goals: []result.Goal{{Name: "PUT", Value: 0.47, Limit: "at least 0.40", Met: true}, {Name: "GET", Value: 0.3, Limit: "at least 0.60"}}},
		},
		Failures: []result.Failure{{Scenario: "multipart", Error: "it went wrong"}},
	}
}

func TestMarkdown(t *testing.T) {
	run := example()
	plots := []Plot{{Scenario: "batch-compare", Name: "batch-compare.png", Title: "PUT of 4 KiB, packing on and off"}}
	text := string(Markdown(append(Front(run, plots), Tables(run, plots)...), "plots"))
	for _, want := range []string{
		`a \| processor`, "| PUT | at least 0.40 | 0.470 | met |", "| GET | at least 0.60 | 0.300 | **missed** |",
		"| 4 KiB | 64 | 2000 | 18,000 | 9.00 | 73.7 | 1.00 | 2.00 | 3.00 | 50.0 | 50.0 |", "![PUT of 4 KiB, packing on and off](plots/batch-compare.png)",
		"shortened", "saturation at 1200 requests per second", "| mixed | 50/50 | open | 300 | 290 | 280 |", "| multipart | it went wrong |", "## Published elsewhere",
	} {
		require.Contains(t, text, want)
	}
	for _, l := range strings.Split(text, "\n") {
		require.NotContains(t, l, "NaN")
	}
}

func TestPage(t *testing.T) {
	run := example()
	run.Scenarios[1].Note = "<script>alert(1)</script>"
	plots := []Plot{{Scenario: "list", Name: "list.png", PNG: []byte("a picture")}}
	page, err := Page(run, plots)
	require.NoError(t, err)
	require.NotContains(t, string(page), "<script>")
	require.Equal(t, len(plots), bytes.Count(page, []byte("data:image/png;base64,")))
	require.NotContains(t, string(page), "src=\"http", "the page must not load other files")
	require.Contains(t, string(page), `class="bad">missed`)
}

func TestCompare(t *testing.T) {
	a, b := example(), example()
	pairs, only := Pairs(a, b)
	require.Len(t, pairs, 8)
	require.Zero(t, only)
	for _, p := range pairs {
		require.InDelta(t, 0, p.Regression(), 1e-9)
	}
	b.Scenarios[0].Results[3].ThroughputRPS = 9000 // half
	b.Scenarios[2].Results[0].P50Ms = 3            // three times
	b.Scenarios[2].Results[0].ThroughputRPS = 100  // an open loop sends at the requested rate
	b.Scenarios[1].Results = b.Scenarios[1].Results[:1]
	pairs, only = Pairs(a, b)
	require.Equal(t, 1, only)
	worse := map[string]float64{}
	for _, p := range pairs {
		if p.Regression() > 0.1 {
			worse[p.Scenario] = p.Regression()
		}
	}
	require.InDelta(t, 0.5, worse["batch-compare"], 1e-9)
	require.InDelta(t, 2, worse["mixed-ramp"], 1e-9)
	require.Len(t, worse, 2)
	require.Contains(t, Compare(pairs).String(), "| batch-compare | put | packing-on | 4 KiB | 64 |  | 18,000 | 9000 | 0.50 | 1.00 | 1.00 | 1.00 |")
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "", 0.0123: "0.012", 1: "1.00", 12.34: "12.3", 999.6: "1000", 1234: "1234", 12345.6: "12,346", 1234567: "1,234,567"} {
		require.Equal(t, want, Number(v))
	}
	for n, want := range map[int64]string{0: "", 338: "338 B", 4096: "4 KiB", 10 << 20: "10 MiB"} {
		require.Equal(t, want, Size(n))
	}
}
