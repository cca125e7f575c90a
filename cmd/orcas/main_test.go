package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/server"
)

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	data, file, home := filepath.Join(dir, "data"), filepath.Join(dir, "file"), filepath.Join(dir, "home")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "Documents"), 0o700))
	cases := []struct {
		args, env []string
		status    int
		says      string // text that the output must contain
	}{
		{args: []string{"version"}, status: exitOK, says: "orcas "},
		{args: []string{"--version"}, status: exitOK, says: "encryption by"},
		{args: []string{"--help"}, status: exitOK, says: "server"},
		{args: []string{"help"}, status: exitOK, says: "Back up a data directory"},
		{args: []string{"help", "--help"}, status: exitOK, says: "orcas help"},
		{args: []string{"help", "admin", "scrub"}, status: exitOK, says: "--wait"},
		{args: []string{"help", "backup"}, status: exitOK, says: "--keep"},
		{args: []string{"help", "admin", "policy", "detach"}, status: exitOK,
			says: "Usage: orcas admin policy detach (--user=NAME | --group=NAME | --role=NAME) <name> [flags]\n"},
		{args: []string{"help", "admin", "policy", "simulate"}, status: exitOK, says: "(--key=KEY | --user=NAME | --role=NAME | --anonymous) "},
		{args: []string{"server", "--help"}, status: exitOK, says: "--tls-self-signed"},
		{args: []string{"help", "nothing"}, status: exitUsage, says: "unexpected argument nothing"},
		{args: []string{"serve"}, status: exitUsage, says: `did you mean "server"`},
		{args: []string{"server"}, status: exitUsage, says: "missing flag --data=DIR (see orcas server --help)"},
		{args: []string{"server", "--data", ""}, status: exitUsage, says: "missing flag --data=DIR"},
		{args: []string{"server", "--data", data, "--addres", "x"}, status: exitUsage, says: `did you mean "--address"`},
		{args: []string{"server", "--data", data, "--address", "localhost"}, status: exitUsage, says: "HOST:PORT"},
		{args: []string{"server", "--data", data, "--tls-cert", "c"}, status: exitUsage, says: "--tls-key"},
		{args: []string{"server", "--data", data, "--tls-cert", "c", "--tls-key", "k", "--tls-self-signed"}, status: exitUsage, says: "--tls-self-signed"},
		{args: []string{"server", "--data", data}, env: []string{"ORCAS_DURABILITY=lax"}, status: exitUsage,
			says: `ORCAS_DURABILITY: "lax" is neither strict nor relaxed (see orcas server --help)`},
		{args: []string{"server", "--data", data}, env: []string{"ORCAS_MASTER_KEY_FILE=/nowhere"}, status: exitUsage, says: "ORCAS_MASTER_KEY_FILE"},
		{args: []string{"backup"}, status: exitUsage, says: "DIR"},
		{args: []string{"backup", "b"}, status: exitUsage, says: "missing flag --data=DIR"},
		{args: []string{"backup", "b", "x", "--data", data}, status: exitUsage, says: "only with --check"},
		{args: []string{"backup", "b", "--check", "--link"}, status: exitUsage, says: "--check cannot be combined"},
		{args: []string{"backup", "b", "--data", data, "--keep", "-1"}, status: exitUsage, says: "--keep"},
		{args: []string{"backup", "b", "--data", data}, status: exitFailed, says: "there is no directory " + data},
		{args: []string{"backup", "b", "--data", home}, status: exitFailed, says: "is not an ORCAS data directory"},
		{args: []string{"backup", "/nowhere", "--check"}, status: exitFailed, says: "not a backup directory"},
		{args: []string{"restore", "b"}, status: exitUsage, says: "--data"},
		{args: []string{"restore", "/nowhere", "--data", data}, status: exitFailed, says: "not a backup directory"},
		{args: []string{"fsck"}, status: exitUsage, says: "missing flag --data=DIR"},
		{args: []string{"fsck", "--data", file}, status: exitFailed, says: file + " is a file"},
		{args: []string{"rebuild", "--data", home}, status: exitFailed, says: "is not an ORCAS data directory"},
		{args: []string{"server", "--data", file, "--address", "127.0.0.1:0", "--admin-address", "none"}, status: exitFailed, says: file + " is a file"},
		{args: []string{"server", "--data", home, "--address", "127.0.0.1:0", "--admin-address", "none"}, status: exitFailed,
			says: home + " is not empty and is not an ORCAS data directory (it contains Documents): use an empty or a new directory"},
		{args: []string{"admin", "reclaim", "--admin-address", "127.0.0.1:1"}, env: []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"},
			status: exitFailed, says: "no server is listening at --admin-address 127.0.0.1:1: start one"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:99999"}, status: exitUsage, says: "99999"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:99999"}, status: exitUsage, says: "99999"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:0", "--tls-cert", "/nowhere", "--tls-key", "/k"}, status: exitUsage,
			says: "--tls-cert /nowhere with --tls-key /k: open /nowhere: no such file or directory (see orcas server --help)"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--admin-tls-cert", file, "--admin-tls-key", "/k"},
			status: exitUsage, says: "--admin-tls-cert " + file + " with --admin-tls-key /k: open /k: no such file or directory"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:0"}, env: []string{"ORCAS_AUDIT_FILE=/nowhere/x"}, status: exitUsage,
			says: "ORCAS_AUDIT_FILE: /nowhere: no such file or directory"},
		{args: []string{"server", "--data", data, "--address", "127.0.0.1:0"}, env: []string{"ORCAS_AUDIT_FILE=" + home}, status: exitUsage,
			says: "ORCAS_AUDIT_FILE: " + home + " is not a regular file"},
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
		require.NotContains(t, stderr.String(), "internal error")
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "expected one line: %q", stderr.String())
		require.Empty(t, stdout.String())
	}
	require.NoDirExists(t, data)
}

// TestUsageWithoutArguments: orcas without arguments lists all commands, and returns the status of a usage error.
func TestUsageWithoutArguments(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run(nil, nil, &stdout, &stderr))
	require.Empty(t, stdout.String())
	for _, command := range []string{"server", "admin", "fsck", "rebuild", "backup", "restore", "perf", "version", "help"} {
		require.Regexp(t, `(?m)^  `+command+` +[A-Z]`, stderr.String())
	}
}

// TestServerHelpListsVariables: most settings are environment variables, and the binary is installed without the
// documentation.
func TestServerHelpListsVariables(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run([]string{"server", "--help"}, nil, &stdout, &stderr))
	require.NotEmpty(t, server.Variables())
	for _, v := range server.Variables() {
		require.Contains(t, stdout.String(), "  "+v.Name+"\n      "+v.Help)
	}
}
