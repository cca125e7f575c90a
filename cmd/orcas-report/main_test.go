package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/report"
	"orcas/perf/report/draw"
	"orcas/perf/result"
)

// TestReport writes reports on a run, with and without benchmarks.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	doc := &result.Run{Version: result.Version, Scenarios: []result.Scenario{{Scenario: "put-sweep", Results: []result.Row{{Operation: "put", SizeBytes: 1024, Workers: 1, ThroughputRPS: 5}}}}}
	var b bytes.Buffer
	require.NoError(t, doc.Write(&b))
	runFile, out := file("run.json", b.String()), filepath.Join(dir, "out")
	make := func(args ...string) (status int, stderr string) {
		var stdout, errs bytes.Buffer
		status = run(append([]string{runFile, "--out", out, "--markdown", filepath.Join(dir, "REPORT.md")}, args...), &stdout, &errs)
		return status, errs.String()
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	text, tables := func() string { return read("REPORT.md") }, func() string { return read("out/tables.md") }

	status, errs := make()
	require.Equal(t, exitOK, status, errs)
	require.Contains(t, text(), "## Goals")
	require.Contains(t, text(), "(out/tables.md)")
	require.NotContains(t, text(), "## put-sweep")
	require.Contains(t, tables(), "## put-sweep")
	require.NotContains(t, tables(), "## Go benchmarks")

	status, errs = make("--head", file("head.md", "# Head\n"), "--bench", file("bench.txt", "pkg: orcas/batch\nBenchmarkDo-2 10 1234 ns/op\n"))
	require.Equal(t, exitOK, status, errs)
	require.Contains(t, text(), "# Head")
	require.Contains(t, tables(), "| Do | 1234 |")
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "orcas/batch")

	status, errs = make("--bench", file("empty.txt", "PASS\n"))
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "empty.txt contains no benchmark results")
	status, errs = make("--bench", filepath.Join(dir, "missing.txt"))
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "missing.txt")
	status, errs = make("--outt")
	require.Equal(t, exitUsage, status)
	require.Contains(t, errs, "--outt")
	status, errs = make("--help")
	require.Equal(t, exitOK, status, errs)
}

// TestReportMatchesTheRun compares the report in the repository with the one that the program generates from the run in
// the repository.
func TestReportMatchesTheRun(t *testing.T) {
	run, err := result.ReadFile("../../docs/perf/baseline.json")
	require.NoError(t, err)
	bench, err := os.Open("../../docs/perf/bench.txt")
	require.NoError(t, err)
	defer bench.Close()
	run.Benchmarks, err = report.ReadBenchmarks(bench, "bench.txt")
	require.NoError(t, err)
	plots, err := draw.Plots(run)
	require.NoError(t, err)
	head, err := os.ReadFile("../../perf/report/head.md")
	require.NoError(t, err)
	front, tables := texts(run, plots, head, "docs/perf")
	for name, want := range map[string][]byte{"PERFORMANCE_TEST_REPORT.md": front, "docs/perf/tables.md": tables} {
		got, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is outdated: regenerate it with `orcas perf report`, as the target report of the Makefile does", name)
	}
	for _, p := range plots {
		require.FileExists(t, "../../docs/perf/"+p.Name)
	}
}
