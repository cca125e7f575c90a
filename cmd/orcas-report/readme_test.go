package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/report"
	"orcas/perf/result"
)

// TestReadmeHasTheFigures compares the table of figures in README.md with the run in the repository. With
// ORCAS_README=1 it writes the table instead, as `make report` does. If the run did not compare servers, README.md does
// not change.
func TestReadmeHasTheFigures(t *testing.T) {
	const readme, begin, end = "../../README.md", "<!-- figures -->\n", "<!-- end of figures -->"
	run, err := result.ReadFile("../../docs/perf/baseline.json")
	require.NoError(t, err)
	summary := report.Summarize(run)
	if summary == nil || len(summary.Servers) < 3 { // ORCAS and the null server are always included
		t.Skip("the run did not compare servers")
	}
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "README.md has no table of figures")
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "the table of figures in README.md has no end")
	want := before + begin + figures(summary, run) + end + after
	if os.Getenv("ORCAS_README") != "" {
		require.NoError(t, os.WriteFile(readme, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "README.md is outdated: run ORCAS_README=1 go test -run TestReadmeHasTheFigures ./cmd/orcas-report")
}

// figures renders five lines of a summary, without the null server, and whether each server syncs before it responds to
// a PUT.
func figures(s *report.Summary, run *result.Run) string {
	lines := []string{
		"PUT 4 KiB, 64 connections", "GET 4 KiB, 16 connections", "PUT 10 MiB, 10 connections", "GET 10 MiB, 10 connections",
		"LIST a page of 1,000 keys",
	}
	servers := s.Servers[:len(s.Servers)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %d cores of an %s, shared by client and server; all servers have default settings:\n\n|  |",
		run.Environment.NumCPU, run.Environment.CPU)
	for _, server := range servers {
		fmt.Fprintf(&b, " %s |", server.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(servers)) + "\n")
	for _, title := range lines {
		for _, l := range s.Lines {
			if l.Title != title {
				continue
			}
			fmt.Fprintf(&b, "| %s, %s |", l.Title, l.Unit)
			for i := range servers {
				fmt.Fprintf(&b, " %s |", report.Figure(l.Values[i]))
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("| A PUT is on disk before the response |")
	for _, server := range servers {
		synced := "yes"
		if !strings.HasPrefix(server.Durability, "synced") {
			synced = "no"
		}
		fmt.Fprintf(&b, " %s |", synced)
	}
	b.WriteByte('\n')
	return b.String()
}
