package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"orcas/cmd/orcas/internal/client"
	"orcas/server"
)

// shell runs the program as a user does: as a process, with a home directory of its own and a server.
type shell struct {
	t       *testing.T
	dir     string // the current directory
	environ []string
	daemon  *daemon
}

// newShell starts a server, whose root credentials are in the environment of the user.
func newShell(t *testing.T) *shell {
	t.Helper()
	dir := t.TempDir()
	d := startDaemon(t, filepath.Join(dir, "data"), io.Discard)
	sh := &shell{t: t, dir: filepath.Join(dir, "work"), daemon: d}
	require.NoError(t, os.Mkdir(sh.dir, 0o700))
	key, err := d.client.Options().Credentials.Retrieve(context.Background())
	require.NoError(t, err)
	sh.environ = []string{
		"ORCAS_TEST_COMMAND=1", "PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TZ=UTC",
		"AWS_ACCESS_KEY_ID=" + key.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + key.SecretAccessKey, "AWS_ENDPOINT_URL=" + *d.client.Options().BaseEndpoint,
	}
	return sh
}

// with returns a shell with more variables; a variable without a value is unset.
func (sh *shell) with(environ ...string) *shell {
	other := *sh
	other.environ = append([]string{}, sh.environ...)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		kept := other.environ[:0:0]
		for _, e := range other.environ {
			if !strings.HasPrefix(e, name+"=") {
				kept = append(kept, e)
			}
		}
		other.environ = append(kept, entry)
	}
	return &other
}

// done is a command that has ended.
type done struct {
	status         int
	stdout, stderr string
}

// try runs a command with a standard input.
func (sh *shell) try(stdin string, args ...string) done {
	sh.t.Helper()
	command := sh.command(args...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := command.Run()
	if command.ProcessState == nil {
		require.NoError(sh.t, err)
	}
	return done{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// command returns the process for a command.
func (sh *shell) command(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env, command.Dir = sh.environ, sh.dir
	return command
}

// run runs a command, which must succeed, and returns its output.
func (sh *shell) run(args ...string) string {
	sh.t.Helper()
	d := sh.try("", args...)
	require.Equal(sh.t, client.StatusOK, d.status, "orcas %s: %s", strings.Join(args, " "), d.stderr)
	require.Empty(sh.t, d.stderr)
	return d.stdout
}

// fails runs a command, which must fail with a status and a message in one line. It returns the message.
func (sh *shell) fails(status int, says string, args ...string) string {
	sh.t.Helper()
	d := sh.try("", args...)
	require.Equal(sh.t, status, d.status, "orcas %s: %s%s", strings.Join(args, " "), d.stdout, d.stderr)
	require.Contains(sh.t, d.stderr, says)
	for line := range strings.Lines(d.stderr) {
		require.True(sh.t, strings.HasPrefix(line, "orcas: "), "%q", d.stderr)
	}
	sh.noSecret(d)
	return d.stderr
}

// noSecret checks that no secret is in the output of a command.
func (sh *shell) noSecret(d done) {
	sh.t.Helper()
	for _, entry := range sh.environ {
		if secret, ok := strings.CutPrefix(entry, "AWS_SECRET_ACCESS_KEY="); ok && secret != "" {
			require.NotContains(sh.t, d.stdout+d.stderr, secret)
		}
	}
}

// json runs a command with --json, and returns the objects that it prints.
func (sh *shell) json(args ...string) (objects []map[string]any) {
	sh.t.Helper()
	for line := range strings.Lines(sh.run(append(args, "--json")...)) {
		var object map[string]any
		require.NoError(sh.t, json.Unmarshal([]byte(line), &object), line)
		objects = append(objects, object)
	}
	return objects
}

// write writes a file, and the directories above it.
func (sh *shell) write(name, text string) string {
	path := filepath.Join(sh.dir, name)
	require.NoError(sh.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(sh.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// read returns the content of a file.
func (sh *shell) read(name string) string {
	text, err := os.ReadFile(filepath.Join(sh.dir, name))
	require.NoError(sh.t, err)
	return string(text)
}

// age makes a file old, so that it is not newer than an object.
func (sh *shell) age(names ...string) {
	for _, name := range names {
		when := time.Now().Add(-time.Hour)
		require.NoError(sh.t, os.Chtimes(filepath.Join(sh.dir, name), when, when))
	}
}

// object returns the content of an object as another client reads it.
func (sh *shell) object(bucket, key string) string {
	sh.t.Helper()
	o, err := sh.daemon.client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	require.NoError(sh.t, err, key)
	text, err := io.ReadAll(o.Body)
	require.NoError(sh.t, err)
	return string(text)
}

// keys returns the keys of a bucket, separated by spaces.
func (sh *shell) keys(bucket string) string {
	sh.t.Helper()
	list, err := sh.daemon.client.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: &bucket})
	require.NoError(sh.t, err)
	var keys []string
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
	}
	return strings.Join(keys, " ")
}

// TestNamesOfLocalFiles: package profile knows the names of the files in a data directory, although it may not import
// the server.
func TestNamesOfLocalFiles(t *testing.T) {
	sh := newShell(t)
	require.FileExists(t, filepath.Join(sh.daemon.data, server.CredentialsFile))
	sh.run("mb", "s3://local1", "--data", sh.daemon.data)
	require.Contains(t, sh.with("AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=").run("ls", "--data", sh.daemon.data), "local1")
}

// TestSession is a day with the commands: each one changes what the next one shows.
func TestSession(t *testing.T) {
	sh := newShell(t)
	require.Equal(t, "created s3://bucket1\n", sh.run("mb", "s3://bucket1"))
	require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d bucket1\n$`, sh.run("ls"))
	require.Equal(t, sh.run("ls"), sh.run("ls", "s3://"))
	sh.write("hello.txt", "hello\n")
	require.Contains(t, sh.run("cp", "hello.txt", "s3://bucket1"), "copy hello.txt to s3://bucket1/hello.txt\n")
	sh.run("cp", "hello.txt", "s3://bucket1/a/b.txt")
	sh.run("cp", "hello.txt", "s3://bucket1/a/")
	require.Equal(t, "a/b.txt a/hello.txt hello.txt", sh.keys("bucket1"))
	require.Equal(t, "hello\n", sh.object("bucket1", "a/b.txt"))
	require.Regexp(t, `^ +DIR a/\n\S+ \S+ +6 hello.txt\n$`, sh.run("ls", "s3://bucket1"))
	require.Regexp(t, `^\S+ \S+ +6 b.txt\n\S+ \S+ +6 hello.txt\n$`, sh.run("ls", "s3://bucket1/a/"))
	require.Regexp(t, `^\S+ \S+ +6 B a/b.txt\n\S+ \S+ +6 B a/hello.txt\n\S+ \S+ +6 B hello.txt\n$`, sh.run("ls", "-rH", "s3://bucket1"))
	require.Equal(t, 1, strings.Count(sh.run("ls", "-r", "--limit", "1", "s3://bucket1"), "\n"))
	require.Equal(t, "hello\nhello\n", sh.run("cat", "s3://bucket1/hello.txt", "s3://bucket1/a/b.txt"))
	require.Equal(t, "ell", sh.run("cat", "--offset", "1", "--length", "3", "s3://bucket1/hello.txt"))
	require.Equal(t, "lo\n", sh.run("cat", "--tail", "3", "s3://bucket1/hello.txt"))
	require.Equal(t, "hello\n", sh.run("cp", "s3://bucket1/hello.txt", "-"))
	sh.run("cp", "s3://bucket1/hello.txt", "back.txt")
	require.Equal(t, "hello\n", sh.read("back.txt"))
	sh.run("cp", "s3://bucket1/hello.txt", "s3://bucket1/a/b.txt", "new/dir/")
	require.Equal(t, "hello\n", sh.read("new/dir/b.txt"))
	sh.run("mv", "s3://bucket1/hello.txt", "s3://bucket1/moved.txt")
	require.Equal(t, "a/b.txt a/hello.txt moved.txt", sh.keys("bucket1"))
	sh.run("mv", "back.txt", "s3://bucket1/")
	require.NoFileExists(t, filepath.Join(sh.dir, "back.txt"))
	sh.run("mv", "s3://bucket1/back.txt", ".")
	require.Equal(t, "hello\n", sh.read("back.txt"))
	require.Equal(t, "a/b.txt a/hello.txt moved.txt", sh.keys("bucket1"))
	piped := sh.try("from a pipe", "pipe", "s3://bucket1/piped")
	require.Equal(t, "stored 11 B as s3://bucket1/piped\n", piped.stdout, piped.stderr)
	require.Equal(t, "from a pipe", sh.object("bucket1", "piped"))
	require.Zero(t, sh.try("again", "cp", "-", "s3://bucket1/piped").status)
	require.Equal(t, "again", sh.object("bucket1", "piped"))
	require.Equal(t, "s3://bucket1/a/b.txt\ns3://bucket1/moved.txt\n", sh.run("find", "s3://bucket1", "--name", "[bm]*.txt"))
	require.Equal(t, "s3://bucket1\n├── a/\n│   ├── b.txt\n│   └── hello.txt\n├── moved.txt\n└── piped\n\n1 prefix, 4 objects\n", sh.run("tree", "s3://bucket1"))
	require.Regexp(t, `^ +12 +2 objects  s3://bucket1/a/\n +23 +4 objects  s3://bucket1\n$`, sh.run("du", "s3://bucket1"))
	require.Equal(t, "deleted s3://bucket1/piped\n", sh.run("rm", "s3://bucket1/piped"))
	sh.run("rm", "-r", "s3://bucket1/a")
	require.Equal(t, "moved.txt", sh.keys("bucket1"))
	sh.fails(client.StatusPrecondition, "orcas rb --force s3://bucket1 deletes it", "rb", "s3://bucket1")
	require.Equal(t, "deleted s3://bucket1\n", sh.run("rb", "--force", "s3://bucket1"))
	require.Empty(t, sh.run("ls"))
}

// value returns the value of a variable.
func (sh *shell) value(name string) string {
	for _, entry := range sh.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// fetched is a response to a request without credentials.
type fetched struct {
	status int
	header http.Header
	body   string
}

// fetch sends a request.
func fetch(t *testing.T, method, url, body string) fetched {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return fetched{response.StatusCode, response.Header, string(text)}
}

// postForm uploads a file with an HTML form, as a browser does, and returns the status.
func postForm(t *testing.T, url string, fields map[string]string, name, content string) int {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for field, value := range fields {
		require.NoError(t, form.WriteField(field, value))
	}
	file, err := form.CreateFormFile("file", name)
	require.NoError(t, err)
	_, err = io.WriteString(file, content)
	require.NoError(t, err)
	require.NoError(t, form.Close())
	response, err := http.Post(url, form.FormDataContentType(), &b)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// retain puts an object with a retention in the mode GOVERNANCE.
func (d *daemon) retain(bucket, key string, until time.Time) {
	d.t.Helper()
	_, err := d.client.PutObject(context.Background(), &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, Body: strings.NewReader("x"), ObjectLockMode: types.ObjectLockModeGovernance, ObjectLockRetainUntilDate: &until,
	})
	require.NoError(d.t, err)
}

// put puts an object, whatever its key.
func (d *daemon) put(bucket, key, content string) {
	d.t.Helper()
	_, err := d.client.PutObject(context.Background(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(content)})
	require.NoError(d.t, err)
}
