package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/server"
)

// TestPerfBadInput: bad input causes a clear error and a nonzero exit status, and leaves no files.
func TestPerfBadInput(t *testing.T) {
	s, err := server.Open(t.Context(), server.Config{
		Data: t.TempDir(), Address: "127.0.0.1:0", Banner: io.Discard, Log: io.Discard, Settings: settings(t),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, s.Close())
	}()
	dir := t.TempDir()
	keys := []string{"--access-key", "somebody", "--secret-key", "some-secret"}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"list"}, exitOK, ""},
		{[]string{"run", "--scenario", "put-swep"}, exitFailed, `unknown scenario "put-swep"`},
		{[]string{"run", "--scenario", "footprint", "--keys", "1000000000000"}, exitFailed, "does not fit"},
		{append([]string{"run", "--endpoint", "http://127.0.0.1:1"}, keys...), exitFailed, "cannot reach http://127.0.0.1:1"},
		{append([]string{"run", "--endpoint", s.Endpoint()}, keys...), exitFailed, "rejects these credentials"},
		{append([]string{"run", "--endpoint", s.Endpoint(), "--h2"}, keys...), exitFailed, "HTTP/2 needs"},
		{append([]string{"run", "--endpoint", "nowhere"}, keys...), exitFailed, "is not http://HOST:PORT"},
		{[]string{"run", "--endpoint", s.Endpoint()}, exitUsage, "--access-key"},
		{[]string{"run", "--mode", "open"}, exitUsage, "--rate"},
		{[]string{"run", "--mode", "ajar"}, exitUsage, "--mode"},
		{[]string{"run", "--profile", "huge"}, exitUsage, "--profile"},
		{[]string{"run", "--compressible", "2"}, exitUsage, "--compressible"},
		{[]string{"run", "--workers=-1"}, exitUsage, "--workers"},
		{[]string{"run", "--scenario", "growth", "--order", "zigzag"}, exitUsage, "--order"},
		{[]string{"run", "--scenario", "growth", "--size", "7"}, exitUsage, "--size"},
		{[]string{"run", "--scenario", "growth", "--size", "1GiB"}, exitUsage, "--size"},
		{[]string{"run", "--scenario", "growth", "--size", "small"}, exitUsage, "--size"},
		{[]string{"run", "--scenario", "growth", "--keys", "15"}, exitUsage, "--keys"},
		{[]string{"run", "--scenario", "growth", "--keys=-1"}, exitUsage, "--keys"},
		{[]string{"run", "--scenario", "growth", "--keys", "1000000000000"}, exitFailed, "does not fit"},
		{[]string{"run", "--order", "random"}, exitUsage, "--order can only be used with --scenario growth"},
		{[]string{"run", "--scenario", "growth", "--scenario", "list", "--size", "256"}, exitUsage, "--size can only be used with --scenario growth"},
	} {
		args := append([]string{"perf"}, c.args...)
		if c.args[0] == "run" {
			args = append(args, "--dir", dir, "--json", dir+"/run.json")
		}
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(args, nil, &stdout, &stderr), "%q: %s", args, stderr.String())
		require.Contains(t, stderr.String(), c.says)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func settings(t *testing.T) server.Settings {
	s, err := server.ReadSettings(nil)
	require.NoError(t, err)
	return s
}
