package report

import (
	"fmt"

	"orcas/perf/result"
)

// Pair is a row of one run, and the corresponding row of another.
type Pair struct {
	Scenario string
	A, B     *result.Row
}

// Throughput returns B's successful rate divided by A's, or 0 if A has none.
func (p Pair) Throughput() float64 { return ratio(p.A.ThroughputRPS, p.B.ThroughputRPS) }

// Regression returns the slowdown of B as a share of A; it is negative if B is faster. It compares the figure that the
// load does not fix: the successful rate of a closed loop, and the median latency of an open loop.
func (p Pair) Regression() float64 {
	if p.A.OpenLoop && p.A.P50Ms > 0 {
		return ratio(p.A.P50Ms, p.B.P50Ms) - 1
	}
	if p.A.ThroughputRPS == 0 {
		return 0
	}
	return 1 - p.Throughput()
}

func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return b / a
}

// Pairs finds the rows that two runs have in common, by scenario, operation, variant, size, workers and rate. It also
// returns the number of rows that exist in only one of the runs.
func Pairs(a, b *result.Run) (pairs []Pair, only int) {
	type key struct {
		scenario, operation, variant string
		size                         int64
		workers                      int
		rate, keys                   float64
	}
	keyOf := func(s *result.Scenario, r *result.Row) key {
		return key{s.Scenario, r.Operation, r.Variant, r.SizeBytes, r.Workers, r.RequestedRPS, r.Values["keys"]}
	}
	known := map[key]*result.Row{}
	for i := range a.Scenarios {
		s := &a.Scenarios[i]
		for j := range s.Results {
			known[keyOf(s, &s.Results[j])] = &s.Results[j]
		}
	}
	only = len(known)
	for i := range b.Scenarios {
		s := &b.Scenarios[i]
		for j := range s.Results {
			if r := known[keyOf(s, &s.Results[j])]; r != nil {
				pairs = append(pairs, Pair{s.Scenario, r, &s.Results[j]})
				only--
			} else {
				only++
			}
		}
	}
	return pairs, only
}

// Compare returns a table of pairs, with the ratios of B to A.
func Compare(pairs []Pair) Table {
	t := Table{Header: []string{"scenario", "operation", "variant", "size", "workers", "requested /s", "A ok/s", "B ok/s", "ok/s B/A", "p50 B/A", "p99 B/A", "server CPU B/A"}}
	times := func(a, b float64) string {
		if a == 0 || b == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", b/a)
	}
	for _, p := range pairs {
		a, b := p.A, p.B
		t.Rows = append(t.Rows, []string{
			p.Scenario, a.Operation, a.Variant, Size(a.SizeBytes), fmt.Sprint(a.Workers), Number(a.RequestedRPS), Number(a.ThroughputRPS), Number(b.ThroughputRPS),
			times(a.ThroughputRPS, b.ThroughputRPS), times(a.P50Ms, b.P50Ms), times(a.P99Ms, b.P99Ms), times(a.ServerCPUus, b.ServerCPUus),
		})
	}
	return t
}
