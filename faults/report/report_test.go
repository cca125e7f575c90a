package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
)

// TestPageIsCurrent compares docs/reliability.md with the stored results.
func TestPageIsCurrent(t *testing.T) {
	rows, err := result.Read("../results.jsonl")
	require.NoError(t, err)
	want, err := Render(rows)
	require.NoError(t, err)
	got, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run make faults-report")
}

// TestRender checks that the page shows every violation, every new fault, and every mutant that survived.
func TestRender(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	page, err := Render([]result.Row{
		{Fault: "sigkill", Name: "a  name", Tried: 1000, Unit: "kills", Acknowledged: 1234567, Ready: 0.5, Rate: 100, Seed: 1, Started: day},
		{Fault: "sigkill", Name: "a name", Tried: 3000, Unit: "kills", Ready: 2, Rate: 300, Seed: 2, Started: day, Violations: map[string]int{"torn": 1, "lost": 2}},
		{Fault: "new-fault", Name: "x", Tried: 1, Unit: "tries", Started: day},
		{Fault: "mutant", Name: "seen", Killed: "TestSeen|TestToo", Note: "a guard", Started: day},
		{Fault: "mutant", Name: "unseen", Started: day},
	})
	require.NoError(t, err)
	for _, want := range []string{
		"**3** promises were broken, and 1 of 2 builds",
		"| a name | 4,000 kills | 1,234,567 | **2 lost, 1 torn** | 250/s | 2.00 s | 1, 2 | 2026-01-02 |",
		"## new-fault", "| seen | a guard | TestSeen, TestToo |", "| unseen |  | **nothing** |", "**Not in these runs:** SIGTERM, Reclaim, Power cuts",
		"## Not tried",
	} {
		require.Contains(t, string(page), want)
	}
}
