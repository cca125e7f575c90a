package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
)

// TestExitStatuses: each mistake and failure has its status, and a message that says what to do. Nothing is half done.
func TestExitStatuses(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	sh.write("f", "text")
	sh.write("dir/g", "text")
	sh.run("cp", "f", "s3://bucket1/f")
	sh.run("cp", "f", "s3://bucket1/dir/g")
	for _, c := range []struct {
		status int
		says   string
		args   string
	}{
		{client.StatusUsage, "(see orcas cp --help)", "cp f"},
		{client.StatusUsage, "expected SOURCE... TARGET", "cp f"},
		{client.StatusUsage, "both f and dir are local", "cp f dir"},
		{client.StatusUsage, "dir is a directory: use --recursive, or orcas sync", "cp dir s3://bucket1"},
		{client.StatusUsage, "is a bucket: use --recursive", "cp s3://bucket1 dir"},
		{client.StatusUsage, "s3://bucket1/dir/ is a prefix: use --recursive", "cp s3://bucket1/dir/ dir"},
		{client.StatusUsage, "is both the source and the target", "cp s3://bucket1/f s3://bucket1/f"},
		{client.StatusUsage, "overlap: expected two places", "sync s3://bucket1 s3://bucket1/dir"},
		{client.StatusUsage, "overlap: expected two places", "mv -r s3://bucket1/dir s3://bucket1/dir/sub"},
		{client.StatusUsage, "both dir and other are local", "sync dir other"},
		{client.StatusUsage, "f is a file: expected a directory", "sync f s3://bucket1"},
		{client.StatusUsage, "--include: ", "sync dir s3://bucket1 --include [a"},
		{client.StatusUsage, "--checksum and --size-only exclude each other", "sync dir s3://bucket1 --checksum --size-only"},
		{client.StatusUsage, "--bandwidth", "cp f s3://bucket1/x --bandwidth fast"},
		{client.StatusUsage, "--ref-level must be one of", "cp f s3://bucket1/x --ref-level 2"},
		{client.StatusUsage, "--conflict must be one of", "cp f s3://bucket1/x --conflict ask"},
		{client.StatusUsage, "--versions needs --recursive", "cp s3://bucket1/f s3://bucket1/x --versions"},
		{client.StatusUsage, "--include and --exclude need --recursive", "cp f s3://bucket1/x --include a"},
		{client.StatusUsage, "there is no profile nme", "cp f nme://bucket1/x"},
		{client.StatusUsage, "expected s3://BUCKET/KEY or NAME://BUCKET/KEY", "cp f https://host/bucket1/x"},
		{client.StatusUsage, "s3://BUCKET without a key", "mb s3://bucket2/key"},
		{client.StatusUsage, "http://HOST:PORT", "ls --endpoint localhost:9000"},
		{client.StatusUsage, "--limit: expected 1 or more", "ls --limit=-1"},
		{client.StatusUsage, "--older-than needs --recursive", "rm s3://bucket1/f --older-than 1d"},
		{client.StatusUsage, "--tail cannot be combined", "cat s3://bucket1/f --tail 1 --offset 1"},
		{client.StatusUsage, "the certificates to trust", "ls --ca /nowhere"},
		{client.StatusNotFound, "there is no object s3://bucket1/missing", "cp s3://bucket1/missing x"},
		{client.StatusNotFound, "there is no object s3://bucket1/dir, but there are objects below", "cp s3://bucket1/dir x"},
		{client.StatusNotFound, "there is no bucket missing1", "cp f s3://missing1/x"},
		{client.StatusNotFound, "there is no bucket missing1 at http://127.0.0.1:", "cp s3://missing1/f x"},
		{client.StatusNotFound, "create it with orcas mb s3://missing1", "sync dir s3://missing1"},
		{client.StatusNotFound, "there is no bucket missing1", "sync s3://missing1 new"},
		{client.StatusNotFound, "there is no bucket missing1", "ls s3://missing1"},
		{client.StatusNotFound, "there is no bucket missing1", "rm -rf s3://missing1"},
		{client.StatusNotFound, "there is no bucket missing1", "rb s3://missing1"},
		{client.StatusNotFound, "there is nothing below s3://bucket1/missing/", "sync s3://bucket1/missing new"},
		{client.StatusNotFound, "no such file", "cp missing s3://bucket1"},
		{client.StatusNotFound, "no such file", "sync missing s3://bucket1"},
		{client.StatusPrecondition, "the bucket bucket1 exists already", "mb s3://bucket1"},
		{client.StatusPrecondition, "is not empty", "rb s3://bucket1"},
		{client.StatusPrecondition, "s3://bucket1/dir/g", "cp f s3://bucket1/dir/g --conflict fail"},
		{client.StatusPrecondition, "a condition is false", "pipe --new s3://bucket1/f"},
		{client.StatusDisk, "not a directory", "cp s3://bucket1/f f/below"},
		{client.StatusDisk, "f", "cp -r s3://bucket1/dir f/below"},
	} {
		sh.fails(c.status, c.says, strings.Fields(c.args)...)
	}
	require.Equal(t, "dir/g f", sh.keys("bucket1"))
	for _, name := range []string{"new", "x", "other"} {
		require.NoFileExists(t, filepath.Join(sh.dir, name))
		require.NoDirExists(t, filepath.Join(sh.dir, name))
	}
	for variable, says := range map[string]string{
		"ORCAS_REF_LEVEL=1":                       "ORCAS_REF_LEVEL: expected OFF or FULL or FAST",
		"AWS_PROFILE=none":                        "AWS_PROFILE: there is no profile none",
		"AWS_ENDPOINT_URL=http://u:p@127.0.0.1:1": "must not contain a user name",
	} {
		sh.with(variable).fails(client.StatusUsage, says, "ls")
	}
	sh.with("AWS_SECRET_ACCESS_KEY=wrong-secret").fails(client.StatusDenied, "does not accept the signature: the secret key of AWS_ACCESS_KEY_ID is wrong", "ls")
	sh.with("AWS_ACCESS_KEY_ID=WRONG").fails(client.StatusDenied, "does not accept the access key of AWS_ACCESS_KEY_ID", "ls", "s3://bucket1")
	sh.fails(client.StatusDenied, "access to s3://bucket1 is denied", "ls", "--anonymous", "s3://bucket1")
	full := exec.Command("sh", "-c", `exec "$@" >/dev/full`, "sh", os.Args[0], "cat", "s3://bucket1/f")
	full.Env = sh.environ
	text, err := full.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, client.StatusDisk, full.ProcessState.ExitCode(), "%s", text)
	require.Contains(t, string(text), "orcas: cannot write the output: write /dev/stdout: no space left on device")
}

// TestSomeFailed: the files that can be transferred are, and the others are reported.
func TestSomeFailed(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	for _, key := range []string{"t/a", "t/a/b", "t/../x", "t/ok"} {
		sh.daemon.put("bucket1", key, "text")
	}
	d := sh.try("", "sync", "s3://bucket1/t", "back")
	require.Equal(t, client.StatusSomeFailed, d.status, d.stderr)
	require.Contains(t, d.stderr, "orcas: a/b: ")
	require.Contains(t, d.stderr, "orcas: 2 files failed; the errors are above, and the same command tries them again\n")
	require.Equal(t, "text", sh.read("back/ok"))
	require.NoFileExists(t, filepath.Join(sh.dir, "x"))
	sh.write("f", "text")
	d = sh.try("", "cp", "f", "missing", "s3://bucket1/many/")
	require.Equal(t, client.StatusSomeFailed, d.status)
	require.Contains(t, d.stderr, "missing: no such file")
	require.Equal(t, "text", sh.object("bucket1", "many/f"))
	d = sh.try("", "cp", "--json", "f", "missing", "s3://bucket1/many/")
	require.Contains(t, d.stdout, `"status":3`)
}

// TestFullDisk: a download that does not fit leaves nothing behind.
func TestFullDisk(t *testing.T) {
	sh := newShell(t)
	sh.run("mb", "s3://bucket1")
	sh.daemon.put("bucket1", "big", strings.Repeat("x", 200<<10))
	small := filepath.Join(sh.dir, "small")
	require.NoError(t, os.Mkdir(small, 0o755))
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount a small file system: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
	for _, args := range [][]string{{"cp", "s3://bucket1/big", "small/big"}, {"sync", "s3://bucket1", "small"}} {
		d := sh.try("", args...)
		require.Equal(t, client.StatusDisk, d.status, d.stderr)
		require.Contains(t, d.stderr, "the file system is full: free space, and run the command again")
		entries, err := os.ReadDir(small)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// answering starts a server for tests of what the client says about one.
func answering(t *testing.T, answer http.HandlerFunc) string {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return "AWS_ENDPOINT_URL=" + server.URL
}

// TestOddServers: a wrong clock, a lost connection, an overloaded server, a redirect, and something that is no S3 server.
func TestOddServers(t *testing.T) {
	sh := &shell{t: t, dir: t.TempDir(), environ: []string{"ORCAS_TEST_COMMAND=1", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=very-secret"}}
	refuse := func(status int, code, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said</Message>%s</Error>", code, more)
		}
	}
	ahead := time.Now().Add(90*time.Minute + 30*time.Second).UTC().Format(time.RFC3339)
	late := sh.with(answering(t, refuse(403, "RequestTimeTooSkewed", "<ServerTime>"+ahead+"</ServerTime>"))).
		fails(client.StatusDenied, " is 1h30m", "ls", "s3://bucket1")
	require.Contains(t, late, "behind that of the server: set the clock")

	var requests atomic.Int32
	cut := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	})
	said := sh.with(cut).fails(client.StatusNetwork, "no response from http://127.0.0.1:", "ls", "s3://bucket1")
	require.Contains(t, said, "after 5 attempts")
	require.Contains(t, said, "check the network and the endpoint")
	require.EqualValues(t, 5, requests.Load())

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	sh.with("AWS_ENDPOINT_URL=http://"+address).fails(client.StatusNetwork, "no server is listening there", "ls")
	require.Contains(t, sh.with(answering(t, refuse(503, "SlowDown", ""))).fails(client.StatusNetwork, "is overloaded", "ls"), "lower --parallel")
	sh.with(answering(t, refuse(301, "PermanentRedirect", "<Endpoint>evil.example.com</Endpoint>"))).fails(client.StatusFailed, `"evil.example.com"`, "ls", "s3://bucket1")
	sh.with(answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") })).fails(client.StatusFailed, "", "ls", "s3://bucket1")
	sh.with("AWS_ENDPOINT_URL="+strings.Replace(strings.TrimPrefix(cut, "AWS_ENDPOINT_URL="), "http:", "https:", 1)).
		fails(client.StatusNetwork, "", "ls", "s3://bucket1")
	own := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(own.Close)
	sh.with("AWS_ENDPOINT_URL="+own.URL).fails(client.StatusNetwork, "is not trusted", "ls")
}

// hang returns a handler that does not answer until the test ends.
func hang(t *testing.T) http.HandlerFunc {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
}
