package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatus(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	cases := []struct {
		args, env []string
		status    int
		says      string // in what is printed
	}{
		{args: []string{"version"}, status: exitOK, says: "orcas "},
		{args: []string{"--help"}, status: exitOK, says: "server"},
		{args: []string{"server", "--help"}, status: exitOK, says: "--tls-self-signed"},
		{args: nil, status: exitUsage, says: "expected"},
		{args: []string{"serve"}, status: exitUsage, says: "serve"},
		{args: []string{"server"}, status: exitUsage, says: "--data"},
		{args: []string{"server", "--data", ""}, status: exitUsage, says: "--data"},
		{args: []string{"server", "--data", data, "--address", "localhost"}, status: exitUsage, says: "HOST:PORT"},
		{args: []string{"server", "--data", data, "--tls-cert", "c"}, status: exitUsage, says: "--tls-key"},
		{args: []string{"server", "--data", data, "--tls-cert", "c", "--tls-key", "k", "--tls-self-signed"}, status: exitUsage, says: "--tls-self-signed"},
		{args: []string{"server", "--data", data}, env: []string{"ORCAS_DURABILITY=lax"}, status: exitFailed, says: "ORCAS_DURABILITY"},
		{args: []string{"backup"}, status: exitUsage, says: "DIR"},
		{args: []string{"backup", "b"}, status: exitUsage, says: "--data"},
		{args: []string{"backup", "b", "x", "--data", data}, status: exitUsage, says: "only --check"},
		{args: []string{"backup", "b", "--check", "--link"}, status: exitUsage, says: "--check goes without"},
		{args: []string{"backup", "b", "--data", data, "--keep", "-1"}, status: exitUsage, says: "--keep"},
		{args: []string{"backup", "b", "--data", data}, status: exitFailed, says: "no data directory"},
		{args: []string{"backup", "/nowhere", "--check"}, status: exitFailed, says: "not a backup directory"},
		{args: []string{"restore", "b"}, status: exitUsage, says: "--data"},
		{args: []string{"restore", "/nowhere", "--data", data}, status: exitFailed, says: "not a backup directory"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:99999"}, status: exitFailed, says: "99999"},
	}
	for _, c := range cases {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(c.args, c.env, &stdout, &stderr), "%q", c.args)
		if c.status == exitOK {
			require.Contains(t, stdout.String(), c.says)
			require.Empty(t, stderr.String())
			continue
		}
		require.Contains(t, stderr.String(), c.says)
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %q", stderr.String())
		require.Empty(t, stdout.String())
	}
	require.NoDirExists(t, data)
}
