package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// machine is a run on 2 cores with round figures as ceilings: the null server reaches 90 % of the cores with PUTs, and
// 67.5 % with GETs.
func machine() *result.Run {
	null := func(op string, size int64, workers int, rps, serverUs, clientUs float64) result.Row {
		return result.Row{Operation: op, Variant: "null", SizeBytes: size, Workers: workers, ThroughputRPS: rps, CompletedRPS: rps,
			Cost: result.Cost{ServerCPUus: serverUs, ClientCPUus: clientUs}}
	}
	return &result.Run{
		Environment: result.Environment{NumCPU: 2, SameMachine: true, FdatasyncP50us: 100},
		Ceilings: &result.Ceilings{
			Null:   []result.Row{null("put", 4096, 1, 10_000, 40, 40), null("put", 4096, 64, 40_000, 30, 15), null("get", 4096, 16, 30_000, 30, 15), null("head", 4096, 16, 50_000, 20, 10)},
			Disk:   []result.DiskRow{{SizeBytes: 4096, P50us: 100, BytesPerSec: 40e6}, {SizeBytes: 1 << 20, P50us: 1100, BytesPerSec: 900e6}, {SizeBytes: 1 << 20, Sequential: true, BytesPerSec: 1e9}},
			Memory: []result.MemoryRow{{Function: "md5", BytesPerSec: 500e6}, {Function: "sha256", BytesPerSec: 500e6}, {Function: "xxh3", BytesPerSec: 1e9}},
		},
	}
}

// put returns a row of successful PUTs.
func put(size int64, workers int, rps, serverUs, clientUs float64) result.Row {
	return result.Row{Operation: "put", SizeBytes: size, Workers: workers, ThroughputRPS: rps, CompletedRPS: rps, SentRPS: rps, BytesPerSec: rps * float64(size),
		Cost: result.Cost{ServerCPUus: serverUs, ClientCPUus: clientUs}}
}

func TestLimitOfARow(t *testing.T) {
	l := limitsOf(machine())
	alone := put(4096, 1, 2000, 200, 50)
	alone.MeanMs, alone.P50Ms = 0.5, 0.4
	asked := put(4096, 3, 100, 0, 100)
	asked.OpenLoop, asked.RequestedRPS = true, 100
	behind := put(4096, 512, 20_000, 70, 20)
	behind.OpenLoop, behind.RequestedRPS, behind.SentRPS = true, 30_000, 30_000
	unsent := asked // all sent requests succeeded, but too few were sent
	unsent.RequestedRPS = 200
	for _, c := range []struct {
		name string
		row  result.Row
		by   bound
		cell string
	}{
		{"kept up", asked, byRate, "requested rate"},
		{"fell behind", behind, byCPU, "CPU 90 %"},
		{"was not sent", unsent, unknown, "unknown"},
		{"busy cores", put(4096, 64, 16_000, 80, 20), byCPU, "CPU 80 %"},
		{"just not busy", put(4096, 64, 14_000, 80, 20), byWait, "waiting, CPU 70 %"},
		{"idle cores", put(4096, 50, 2000, 200, 20), byWait, "waiting, CPU 22 %"},
		{"the disk", put(1<<20, 10, 858, 200, 20), byDisk, "disk 90 %"},
		{"one at a time", alone, byTurn, "one at a time: server CPU 40 %, sync 25 %"},
		{"one connection, short load", put(4096, 1, 2000, 0, 50), byTurn, "one at a time"},
		{"several connections, short load", put(4096, 10, 2000, 0, 50), unknown, "unknown"},
	} {
		x := l.of(&c.row, nil)
		require.Equal(t, c.by, x.by, c.name)
		require.Equal(t, c.cell, x.String(), c.name)
	}
}

// TestCeilingsOfARow: a row is compared with ceilings for the same operation, size and number of connections.
func TestCeilingsOfARow(t *testing.T) {
	l := limitsOf(machine())
	of := func(r result.Row) limit { return l.of(&r, nil) }
	require.InDelta(t, 0.9, of(put(100, 50, 1, 1, 1)).busy, 1e-9, "expected the row with the nearest size and several connections")
	large := put(1<<20, 50, 1, 1, 1)
	large.Operation = "get"
	require.InDelta(t, 0.675, of(large).busy, 1e-9)
	large.Operation = "list"
	require.InDelta(t, 0.9, of(large).busy, 1e-9, "expected the maximum, because the operation was not measured")
	require.InDelta(t, 0.4, of(put(4096, 50, 16_000, 80, 20)).null, 1e-9)
	require.InDelta(t, 0.2, of(put(4096, 1, 2000, 80, 20)).null, 1e-9, "expected the row with one connection")
	require.Zero(t, of(put(1024, 64, 2000, 80, 20)).null, "another size is not comparable")
	get1 := put(4096, 1, 2000, 80, 20)
	get1.Operation = "get"
	require.Zero(t, of(get1).null, "one connection is not comparable with several")
	head := result.Row{Operation: "head", SizeBytes: 1024, Workers: 16, ThroughputRPS: 25_000}
	require.InDelta(t, 0.5, of(head).null, 1e-9, "the size of a HEAD does not matter")
	head.OpenLoop = true
	require.Zero(t, l.ofNull(&head), "a requested rate is not a limit")

	require.InDelta(t, 1.6, of(put(4096, 50, 16_000, 80, 20)).synced, 1e-9)
	get := put(4096, 50, 16_000, 80, 20)
	get.Operation = "get"
	require.Zero(t, of(get).synced)
	require.Zero(t, of(get).hash)
	null := machine().Ceilings.Null
	idle := null[3]
	idle.ServerCPUus, idle.ClientCPUus = 2, 1
	require.Equal(t, byCPU, of(idle).by, "the null server waits for nothing else, even if the cores are idle")
	require.Zero(t, of(null[1]).synced, "the null server stores nothing")
	require.Zero(t, of(null[1]).null)
	// 100 MB per second at 4 ns per byte, on two cores.
	require.InDelta(t, 0.2, of(put(100_000, 50, 1000, 80, 20)).hash, 1e-9)

	small := put(100, 1, 1, 1, 1)
	large = put(1<<19, 1, 1, 1, 1)
	require.InDelta(t, 600, l.sync(&large), 5, "expected half of the time")
	require.InDelta(t, 100, l.sync(&small), 1e-9)
	large.SizeBytes = 2 << 20
	require.InDelta(t, 2200, l.sync(&large), 1e-9)
	large.Operation = "delete"
	require.InDelta(t, 100, l.sync(&large), 1e-9, "a DELETE writes no body")
}

// TestCPUOfTheWholeLoad: if a load has several operations, its CPU time is measured for the whole load.
func TestCPUOfTheWholeLoad(t *testing.T) {
	l := limitsOf(machine())
	part, whole := put(16<<10, 16, 8000, 0, 0), put(16<<10, 16, 10_000, 150, 20)
	whole.Operation = "all"
	require.Equal(t, unknown, l.of(&part, nil).by)
	require.Equal(t, "CPU 85 %", l.of(&part, []result.Row{part, whole}).String())
	require.Zero(t, l.of(&part, []result.Row{part, whole}).synced, "other operations of the load share the syncs")
	whole.Variant = "another"
	require.Equal(t, unknown, l.of(&part, []result.Row{part, whole}).by)
}

func TestWithoutCeilings(t *testing.T) {
	run := machine()
	run.Ceilings = nil
	l := limitsOf(run)
	row := put(4096, 64, 16_000, 80, 20)
	require.Equal(t, "What limits it: the CPU: server 64 %, client 16 % of 2 cores. Compared with the ceilings: 1.60 of the rate of one writer that syncs each write.", l.sentence(l.all([]result.Row{row})))
	row = put(4096, 64, 15_000, 80, 20)
	require.Equal(t, byWait, l.of(&row, nil).by, "without ceilings, 75 % is not the maximum")
	require.Empty(t, l.diskSentence()+l.memorySentence())
}

func TestSentences(t *testing.T) {
	run := machine()
	l := limitsOf(run)
	alone := put(4096, 1, 2000, 200, 50)
	alone.MeanMs, alone.P50Ms = 0.5, 0.4
	require.Equal(t, "What limits it: the CPU: server 64 to 66 %, client 16 % of 2 cores, while the null server reaches 90 % (2 of 4 rows); "+
		"one request at a time, in overlapping shares: the server's CPU 40 %, an fdatasync 25 %, MD5 and SHA-256 3 % (1 of 4 rows); "+
		"waiting for the disk or for other requests, with 22 % of the CPU in use (1 of 4 rows). "+
		"Compared with the ceilings: 0.05 to 0.41 of the null server's rate; 0.20 to 1.65 of the rate of one writer that syncs each write; MD5 and SHA-256 take 2 to 14 % of all cores.",
		l.sentence(l.all([]result.Row{put(4096, 64, 16_000, 80, 20), put(4096, 64, 16_500, 80, 20), put(4096, 50, 2000, 200, 20), alone})))
	require.Empty(t, l.sentence(nil))
	require.Equal(t, "What limits it: one writer can sync 10,000 writes of 4 KiB per second, one after the other; for a higher rate, writes must share syncs. Synced writes of 1 MiB reach 90 % of the rate with one sync at the end.", l.diskSentence())
	require.Equal(t, "What limits it: one core. The body of a PUT is hashed with MD5 and SHA-256: at most 250 MB/s per core, or 500 MB/s on 2 cores that do nothing else.", l.memorySentence())

	get := func(variant string, ms float64) result.Row {
		return result.Row{Operation: "get", Variant: variant, SizeBytes: 1024, Workers: 16, P50Ms: ms, OpenLoop: true, RequestedRPS: 100, SentRPS: 100, ThroughputRPS: 100, Cost: result.Cost{ClientCPUus: 1}}
	}
	require.Equal(t, "What limits it: reads from the drive. The median of a cold GET is higher than that of a warm one by 0.25 ms for 1 KiB.",
		l.values(&result.Scenario{Scenario: "get-cold", Results: []result.Row{get("cold", 0.5), get("warm", 0.25)}}))
	ramp := &result.Scenario{Scenario: "mixed-ramp", Results: []result.Row{get("50/50", 1)}}
	require.Equal(t, "What limits it: the ramp, which ended before the server reached its limit.", l.values(ramp))
	late := get("50/50", 9)
	late.ThroughputRPS, late.CompletedRPS, late.ServerCPUus, late.ClientCPUus = 80, 80, 15_000, 5000
	ramp.Results = append(ramp.Results, late)
	require.Equal(t, "What limits the steps that fell behind: the CPU: server 60 %, client 20 % of 2 cores, while the null server reaches 68 %.", l.values(ramp))
	require.Equal(t, "What limits it: the store was filled at 20,000 objects per second, 0.50 of the null server's rate; a start without the database read 500 MB/s of blocks, 50 % of the disk's rate for sequential writes.",
		l.values(&result.Scenario{Scenario: "footprint", Results: []result.Row{{SizeBytes: 4096}},
			Values: map[string]float64{"keys": 1e6, "fill_sec": 50, "disk_bytes_per_object": 5000, "start_after_rebuild_sec": 10}}))
	require.Equal(t, "What limits it: reclaim, which freed 75 % of the bytes on the disk.",
		l.values(&result.Scenario{Scenario: "churn", Values: map[string]float64{"disk_bytes_before_reclaim": 400, "disk_bytes_after_reclaim": 100}}))
}

// TestEveryTableHasItsLimit: each table of figures is followed by a sentence about its limit.
func TestEveryTableHasItsLimit(t *testing.T) {
	run := example()
	run.Benchmarks = []result.Benchmark{{Package: "p", Name: "X", CPU: run.Environment.CPU, Values: map[string]float64{"ns/op": 1000}}}
	run.Environment.FdatasyncP50us = 100
	run.Scenarios[3].Results = []result.Row{{Operation: "put", Variant: "PUT: orcas", Workers: 64}}
	for _, s := range append(Front(run, nil), Tables(run, nil)...) {
		for _, table := range s.Table {
			if prose := table.Prose && s.Title != "Goals"; !prose {
				require.NotEmpty(t, table.Limit, "%s: %v", s.Title, table.Header)
			}
		}
	}
}
