package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// compared returns a run that compared servers; one of them was not measured.
func compared() *result.Run {
	run := example()
	v := func(x float64) *float64 { return &x }
	row := func(op, variant string, size int64, workers int, rate, ms float64) result.Row {
		return result.Row{Operation: op, Variant: variant, SizeBytes: size, Workers: workers, ThroughputRPS: rate, BytesPerSec: rate * float64(size), P50Ms: ms}
	}
	run.Environment.Commit, run.Environment.FileSystem = "abc1234", "ext4"
	run.Scenarios = append(run.Scenarios, result.Scenario{
		Scenario: "peers", Values: map[string]float64{"footprint_keys": 30_000},
		Servers: []result.Server{
			{Name: "ORCAS", Version: "v1", Durability: "synced: 1 sync", SyncsPerPut: v(1), BytesPerObject: v(4651), FilesPerObject: v(0.0005), PeakRSS: v(190 << 20), StartAfterCrash: v(0.04)},
			{Name: "null server", Durability: "stores nothing", PeakRSS: v(25 << 20)},
			{Name: "MinIO", Missing: "no program was given (--minio)"},
			{Name: "Versity S3 Gateway", Version: "v1.8.0", Durability: "not synced", SyncsPerPut: v(0), BytesPerObject: v(8192), FilesPerObject: v(1.25), StartAfterCrash: v(0.05)},
		},
		Results: []result.Row{
			row("put", "ORCAS", 4096, 64, 13_447, 4), row("put", "null", 4096, 64, 32_634, 2), row("put", "Versity S3 Gateway", 4096, 64, 6243, 9),
			row("put", "ORCAS", 4096, 1, 2000, 0.444), row("get", "ORCAS", 4096, 16, 24_484, 0.6), row("list", "ORCAS", 0, 1, 500, 1.79),
			row("put", "ORCAS", 10<<20, 10, 36, 270), row("get", "ORCAS", 10<<20, 10, 342, 29),
		},
	}, result.Scenario{Scenario: "footprint", Values: map[string]float64{"keys": 1e6, "disk_bytes_per_object": 4651, "files_per_object": 0.000542, "start_after_kill_sec": 0.043, "rss_after_kill_bytes": 42 << 20}})
	return run
}

// TestSummary: a report begins with ten figures of each measured server, and names the servers that were not measured.
func TestSummary(t *testing.T) {
	run := compared()
	s := Summarize(run)
	require.Len(t, s.Lines, 10)
	require.Equal(t, []string{"ORCAS", "Versity S3 Gateway", "null server"}, []string{s.Servers[0].Name, s.Servers[1].Name, s.Servers[2].Name})
	front := Front(run, []Plot{{Name: "summary.png", Title: "picture", Text: []string{"bars"}}})
	require.Equal(t, []string{"Summary", "Goals", "Environment"}, []string{front[0].Title, front[1].Title, front[2].Title})
	text := string(Markdown(front, "docs/perf"))
	for _, want := range []string{
		"ORCAS abc1234 stores 13,447 objects of 4 KiB per second, each on the drive before the response, and reads 24,484 per second.",
		"An object of 4 KiB uses 4651 bytes on the drive and 0.0005 files.",
		"A store of 1,000,000 such objects uses 4651 bytes and 0.0005 files per object, and serves requests 0.043 s after a SIGKILL, using 42.0 MiB of memory.",
		"|  | unit | ORCAS | Versity S3 Gateway | null server |",
		"| PUT 4 KiB, 64 connections | per second, more is better | 13,447 | 6243 | 32,634 |",
		"| GET 10 MiB, 10 connections | MB/s, more is better | 3586 | – | – |",
		"| Files per object of 4 KiB | files, less is better | 0.0005 | 1.25 | – |",
		"| Durability of an acknowledged PUT |  | synced: 1 sync | not synced | stores nothing |",
		"![picture](docs/perf/summary.png)\n\n- bars\n",
		"of a stopped server with 30,000 objects;",
		"Versions: ORCAS v1, Versity S3 Gateway v1.8.0. Not measured: MinIO (no program was given (--minio)).",
	} {
		require.Contains(t, text, want)
	}
	require.Nil(t, Summarize(example()))
	require.Equal(t, "Goals", Front(example(), nil)[0].Title, "a run that did not compare servers has no summary")
}

// TestNullOfARow: a row is compared with the null server's row at the same point of its own scenario.
func TestNullOfARow(t *testing.T) {
	run := machine()
	listed := func(variant string, keys, rate float64) result.Row {
		return result.Row{Operation: "list", Variant: variant, Workers: 1, ThroughputRPS: rate, Values: map[string]float64{"keys": keys}}
	}
	at := put(4096, 10, 24_000, 20, 10)
	at.Variant = "null"
	open := put(4096, 10, 100, 20, 10)
	open.Variant, open.OpenLoop = "null: 50/50", true
	run.Scenarios = []result.Scenario{{Scenario: "list", Results: []result.Row{listed("null: first page", 1000, 2000), listed("null: few prefixes", 1000, 4000), at, open}}}
	l := limitsOf(run)
	of := func(r result.Row) float64 { return l.ofNull(&r) }
	require.InDelta(t, 0.5, of(listed("first page", 1000, 1000)), 1e-9)
	require.InDelta(t, 0.25, of(listed("few prefixes", 1000, 1000)), 1e-9)
	require.Zero(t, of(listed("first page", 10_000, 1000)), "another number of keys is not comparable")
	require.InDelta(t, 0.5, of(put(4096, 10, 12_000, 20, 10)), 1e-9, "expected the row with 10 connections, not the one with 64")
	require.Zero(t, of(listed("null: first page", 1000, 1000)))
}
