package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientBuild builds orcas without cgo, as for other systems, and runs it: it has the commands of the client, lists
// the others, and says that they are not included.
func TestClientBuild(t *testing.T) {
	program := filepath.Join(t.TempDir(), "orcas")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"version"}, exitOK, "client commands only, " + runtime.Version()},
		{[]string{"--help"}, exitOK, "Serve S3 from a data directory."},
		{[]string{"server", "--help"}, exitOK, "not included in this build: install the package for Linux,"},
		{[]string{"help", "perf"}, exitOK, "not included in this build"},
		{[]string{"server", "--data", "DIR"}, exitUsage, "orcas: orcas server is not included in this build: "},
		{[]string{"fsck"}, exitUsage, "orcas: orcas fsck is not included in this build: "},
		{[]string{"perf", "run"}, exitUsage, "orcas: orcas perf is not included in this build: "},
		{[]string{"completion", "bash"}, exitOK, "admin key create"},
		{[]string{"health", "--address", "127.0.0.1:1"}, exitFailed, "is not healthy"},
		{[]string{"admin", "scrub", "--admin-address", "127.0.0.1:1"}, exitFailed, "no server is listening at --admin-address 127.0.0.1:1"},
	} {
		run := exec.Command(program, c.args...)
		run.Env = []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"}
		out, err := run.CombinedOutput()
		var failed *exec.ExitError
		if c.status == exitOK {
			require.NoError(t, err, "%q: %s", c.args, out)
		} else {
			require.True(t, errors.As(err, &failed), "%q: %v", c.args, err)
			require.Equal(t, c.status, failed.ExitCode(), "%q: %s", c.args, out)
		}
		require.Contains(t, string(out), c.says, "%q", c.args)
	}
}
