package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// TestPerfReport makes a report of a run, with and without benchmarks.
func TestPerfReport(t *testing.T) {
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
	report := func(args ...string) (status int, stderr string) {
		var stdout, errs bytes.Buffer
		status = run(append([]string{"perf", "report", runFile, "--out", out, "--markdown", filepath.Join(dir, "REPORT.md")}, args...), nil, &stdout, &errs)
		return status, errs.String()
	}
	text := func() string {
		b, err := os.ReadFile(filepath.Join(dir, "REPORT.md"))
		require.NoError(t, err)
		return string(b)
	}

	status, errs := report()
	require.Equal(t, exitOK, status, errs)
	require.Contains(t, text(), "## put-sweep")
	require.NotContains(t, text(), "## Go benchmarks")

	status, errs = report("--head", file("head.md", "# Head\n"), "--bench", file("bench.txt", "pkg: orcas/batch\nBenchmarkDo-2 10 1234 ns/op\n"))
	require.Equal(t, exitOK, status, errs)
	require.Contains(t, text(), "# Head")
	require.Contains(t, text(), "| Do | 1234 |")
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "orcas/batch")

	status, errs = report("--bench", file("empty.txt", "PASS\n"))
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "empty.txt has no benchmark in it")
	status, errs = report("--bench", filepath.Join(dir, "missing.txt"))
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "missing.txt")
}
