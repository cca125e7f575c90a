package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/server"
)

// callChain matches names of Go packages, functions and types in front of a message: "sqlite.Bucket: ", "sigv4: ",
// "*fs.PathError".
var callChain = regexp.MustCompile(`(?:^|[\s("])(?:\*?[a-z][a-z0-9]*\.[A-Z]\w*(?:[:\s]|$)|(?:sigv4|kong|json|sqlite|vfs): )`)

// TestCallChainIsFound tests the regular expression.
func TestCallChainIsFound(t *testing.T) {
	for _, text := range []string{
		"orcas: sqlite.Bucket: no such bucket: sqlite.Bucket: no such bucket", "orcas: sigv4: AccessDenied: no", "orcas: open: *fs.PathError", "cannot run (vfs.Open: gone)",
	} {
		require.Regexp(t, callChain, text)
	}
	for _, text := range []string{"orcas: bucket \"x\" does not exist", "orcas: open /d/metadata.db: permission denied", "orcas: --data: there is no directory /d"} {
		require.NotRegexp(t, callChain, text)
	}
}

// mistake is a command line that fails, and text that its error must contain.
type mistake struct {
	args, env []string
	status    int
	says      string
}

// check runs the command, and checks that it fails with one line that contains no Go names.
func (m *mistake) check(t *testing.T) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(m.args, m.env, &stdout, &stderr)
	require.Equal(t, m.status, status, "%q: %s%s", m.args, &stdout, &stderr)
	said := stderr.String()
	for strings.HasPrefix(said, "{") { // a server may log JSON lines before it fails
		_, said, _ = strings.Cut(said, "\n")
	}
	require.Contains(t, said, m.says, "%q", m.args)
	require.True(t, strings.HasPrefix(said, "orcas: "), "%q: %s", m.args, said)
	require.Equal(t, 1, strings.Count(said, "\n"), "expected one line: %q", said)
	for _, text := range []string{stdout.String(), said} {
		require.NotRegexp(t, callChain, text, "%q", m.args)
		require.NotContains(t, text, "internal error", "%q", m.args)
	}
}

// TestMistakesOffline: mistakes that need no running server get plain error messages.
func TestMistakesOffline(t *testing.T) {
	base := t.TempDir()
	missing, file, other := filepath.Join(base, "missing"), filepath.Join(base, "file"), filepath.Join(base, "other")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(other, "Documents"), 0o700))
	for _, m := range []mistake{
		{[]string{"fsck", "--data", missing}, nil, exitFailed, "there is no directory " + missing},
		{[]string{"fsck", "--data", file}, nil, exitFailed, file + " is a file"},
		{[]string{"fsck", "--data", other}, nil, exitFailed, other + " is not an ORCAS data directory"},
		{[]string{"rebuild", "--data", missing}, nil, exitFailed, "there is no directory " + missing},
		{[]string{"backup", filepath.Join(base, "b"), "--data", missing}, nil, exitFailed, "there is no directory " + missing},
		{[]string{"backup", missing, "--check"}, nil, exitFailed, missing},
		{[]string{"backup", file, "--check"}, nil, exitFailed, file},
		{[]string{"restore", other, "--data", missing}, nil, exitFailed, other},
		{[]string{"server", "--data", file, "--address", "127.0.0.1:0", "--admin-address", "none"}, nil, exitFailed, file + " is a file"},
		{[]string{"server", "--data", missing, "--address", "127.0.0.1:0", "--admin-address", "none"}, []string{"ORCAS_MIN_FREE=lots"}, exitUsage, "ORCAS_MIN_FREE"},
		{[]string{"server", "--data", missing, "--address", "127.0.0.1:0", "--admin-address", "none"}, []string{"ORCAS_ROOT_ACCESS_KEY=key"}, exitUsage, "ORCAS_ROOT_SECRET_KEY"},
		{[]string{"admin", "fsck"}, nil, exitFailed, "no credentials: use --data DIR"},
		{[]string{"admin", "fsck", "--data", missing}, nil, exitFailed, filepath.Join(missing, server.CredentialsFile)},
		{[]string{"admin", "fsck", "--admin-address", "nowhere"}, []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"}, exitFailed, "nowhere"},
		{[]string{"perf", "compare", missing, missing}, nil, exitFailed, missing},
		{[]string{"perf", "compare", file, file}, nil, exitFailed, file},
		{[]string{"admin", "nothing"}, nil, exitUsage, "nothing"},
	} {
		m.check(t)
	}
	if os.Getuid() != 0 { // root reads everything
		require.NoError(t, os.Chmod(file, 0))
		(&mistake{[]string{"perf", "compare", file, file}, nil, exitFailed, "permission denied"}).check(t)
	}
}

// TestMistakesWithAServer: so do mistakes in commands to a running server.
func TestMistakesWithAServer(t *testing.T) {
	base := t.TempDir()
	data := filepath.Join(base, "data")
	serve(t, data, func(c *s3.Client, admin string) {
		_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("photos")})
		require.NoError(t, err)
		target := []string{"--data", data, "--admin-address", admin}
		unreachable := []string{"--data", data, "--admin-address", "127.0.0.1:1"}
		wrong := []string{"AWS_ACCESS_KEY_ID=somebody", "AWS_SECRET_ACCESS_KEY=some-secret"}
		for _, m := range []mistake{
			{append([]string{"admin", "bucket", "nowhere"}, target...), nil, exitFailed, `bucket "nowhere" does not exist`},
			{append([]string{"admin", "bucket", "nowhere", "--max-bytes", "1GiB"}, target...), nil, exitFailed, `bucket "nowhere" does not exist`},
			{append([]string{"admin", "bucket", "photos", "--compression", "best"}, target...), nil, exitFailed, "compression"},
			{append([]string{"admin", "bucket", "photos", "--max-bytes", "1 parsec"}, target...), nil, exitFailed, "max-bytes"},
			{append([]string{"admin", "keys", "rotate", "--wait"}, target...), nil, exitFailed, "master key"},
			{[]string{"admin", "bucket", "photos", "--admin-address", admin}, wrong, exitFailed, "not signed with valid credentials"},
			{[]string{"fsck", "--data", data}, nil, exitFailed, "orcas admin fsck"},
			{[]string{"rebuild", "--data", data}, nil, exitFailed, data},
			{[]string{"server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "none"}, nil, exitFailed, fmt.Sprint("process ", os.Getpid())},
			{append([]string{"backup", filepath.Join(base, "b")}, unreachable...), nil, exitFailed, "no server is listening"},
		} {
			m.check(t)
		}
		for _, command := range []string{"reclaim", "scrub", "lifecycle run", "lifecycle status", "lost", "fsck", "bucket photos", "keys status"} {
			m := mistake{append(append([]string{"admin"}, strings.Fields(command)...), unreachable...), nil, exitFailed, "no server is listening at --admin-address 127.0.0.1:1"}
			m.check(t)
		}
	})
	require.NoError(t, os.Chmod(filepath.Join(data, server.CredentialsFile), 0o644))
	(&mistake{[]string{"server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "none"}, nil, exitFailed, server.CredentialsFile}).check(t)
}
