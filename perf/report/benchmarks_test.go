package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// printed is output of go test -bench, including lines that are not results.
const printed = `goos: linux
goarch: amd64
pkg: orcas/batch
cpu: A Processor @ 2.00GHz
BenchmarkDo/1-2         	    1234	    200000 ns/op	  20.48 MB/s	    3000 B/op	      30 allocs/op
some log of the program
BenchmarkDo/64-2        	   20000	     50000 ns/op	  81.92 MB/s	    2000 B/op	      20 allocs/op	        31.50 writes/batch
PASS
ok  	orcas/batch	3.210s
?   	orcas/core	[no test files]
goos: linux
goarch: amd64
pkg: orcas/core/frame
cpu: A Processor @ 2.00GHz
BenchmarkEncode/a-b-2   	 1000000	       900 ns/op	       0 B/op	       0 allocs/op
BenchmarkEncode/a-b-2   	 1000000	      1100 ns/op	       0 B/op	       0 allocs/op
BenchmarkEncode/a-b-2   	 1000000	      1000 ns/op	       0 B/op	       0 allocs/op
PASS
ok  	orcas/core/frame	1.000s
`

func TestReadBenchmarks(t *testing.T) {
	list, err := ReadBenchmarks(strings.NewReader(printed), "bench.txt")
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, result.Benchmark{Package: "orcas/batch", Name: "Do/1", CPU: "A Processor @ 2.00GHz", Iters: 1234,
		Values: map[string]float64{"ns/op": 200_000, "MB/s": 20.48, "B/op": 3000, "allocs/op": 30}}, list[0])
	require.Equal(t, 31.5, list[1].Values["writes/batch"])
	require.Equal(t, "Encode/a-b", list[2].Name)
	require.Equal(t, 1000.0, list[2].Values["ns/op"], "the median of three")

	for _, bad := range []string{"", "PASS\nok orcas/batch 1s\n", "BenchmarkDo-2 12 x ns/op\n", "BenchmarkDo-2 12 5 ns/op 7\n", "BenchmarkDo-2 12 5\n", "BenchmarkDo-2 often 5 ns/op\n"} {
		_, err := ReadBenchmarks(strings.NewReader(bad), "bench.txt")
		require.ErrorContains(t, err, "bench.txt", bad)
	}
}

func TestBenchmarkTables(t *testing.T) {
	run := example()
	require.NotContains(t, string(Markdown(Tables(run, nil), "")), "## Go benchmarks")
	var err error
	run.Benchmarks, err = ReadBenchmarks(strings.NewReader(printed), "bench.txt")
	require.NoError(t, err)
	text := string(Markdown(Tables(run, nil), ""))
	for _, want := range []string{
		"## Go benchmarks", "on A Processor @ 2.00GHz",
		"| orcas/batch | ns/op | MB/s | B/op | allocs/op | writes/batch |", "| Do/1 | 200,000 | 20.5 | 3000 | 30 |  |", "| Do/64 | 50,000 | 81.9 | 2000 | 20 | 31.5 |",
		"| orcas/core/frame | ns/op | B/op | allocs/op |", "| Encode/a-b | 1000 | 0 | 0 |",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "Compared with this run's fdatasync", "the benchmarks ran on another processor")
	run.Environment.CPU, run.Environment.FdatasyncP50us = "A Processor @ 2.00GHz", 100
	require.Contains(t, string(Markdown(Tables(run, nil), "")), "Compared with this run's fdatasync of 4 KiB (100 us): the fastest, Do/64, takes 0.500 times as long, the slowest, Do/1, 2.00 times.")
}
