package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPerfReport: the program orcas-report in the same directory gets the arguments, and its output and exit status
// become those of the command. If the program is missing, the error says how to build it.
func TestPerfReport(t *testing.T) {
	if dir := os.Getenv("TEST_PERF_REPORT_DIR"); dir != "" { // this process is the command
		t.Fatal(runReport(dir, []string{"run.json", "--out", "a b"}, []string{"X=y"}))
	}
	dir := t.TempDir()
	report := func() (string, error) {
		c := exec.Command(os.Args[0], "-test.run=^TestPerfReport$")
		c.Env = append(os.Environ(), "TEST_PERF_REPORT_DIR="+dir)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := report()
	require.Error(t, err)
	require.Contains(t, out, "make orcas-report")
	require.Contains(t, out, dir)

	program := filepath.Join(dir, "orcas-report")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$X:$#:$1:$2:$3\"; exit 7\n"), 0o755))
	out, err = report()
	require.Equal(t, "y:3:run.json:--out:a b\n", out)
	require.Equal(t, 7, err.(*exec.ExitError).ExitCode())

	_, stderr := orcasExits(t, exitFailed, "perf", "report", "run.json", "--out", "x")
	require.Contains(t, stderr, "make orcas-report", "flags must be passed on to orcas-report")
}
