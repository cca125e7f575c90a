package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/sdk"
	"orcas/server"
)

const (
	access = "test-access"
	secret = "test-secret-key"
)

// shared is the server of all tests and examples.
var shared string

// TestMain starts the server, and checks at the end that nothing has left goroutines behind.
func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent() // of packages of the server
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "orcas-tree")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		s, stop, err := startServer(dir, false)
		if err != nil {
			panic(err)
		}
		shared = s.Endpoint()
		code := m.Run()
		stop()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := goleak.Find(before); err != nil && code == 0 {
			println(err.Error())
			return 1
		}
		return code
	}())
}

// startServer starts a server.
func startServer(dir string, secure bool) (s *server.Server, stop func(), err error) {
	settings, err := server.ReadSettings([]string{"ORCAS_ROOT_ACCESS_KEY=" + access, "ORCAS_ROOT_SECRET_KEY=" + secret, "ORCAS_MIN_FREE=0", "ORCAS_BUCKETS=bucket"})
	if err != nil {
		return nil, nil, err
	}
	s, err = server.Open(context.Background(), server.Config{Data: filepath.Join(dir, "data"), Address: "127.0.0.1:0", Settings: settings, SelfSigned: secure})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := errors.Join(<-ran, s.Close()); err != nil {
			panic(err)
		}
	}, nil
}

// fast are retries that do not slow tests down.
var fast = sdk.Retry{DelayMin: time.Microsecond, DelayMax: time.Millisecond}

// newClient returns a client that is closed at the end of the test. change may change its configuration.
func newClient(t testing.TB, endpoint string, change ...func(*sdk.Config)) *sdk.Client {
	t.Helper()
	config := sdk.Config{Endpoint: endpoint, Credentials: sdk.Static(access, secret), Retry: fast}
	for _, f := range change {
		f(&config)
	}
	c, err := sdk.New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

var buckets atomic.Int64

// newBucket returns a client of the shared server, and a new bucket.
func newBucket(t testing.TB, change ...func(*sdk.Config)) (*sdk.Client, string) {
	t.Helper()
	c := newClient(t, shared, change...)
	bucket := fmt.Sprintf("tree-%d-%d", time.Now().UnixNano(), buckets.Add(1))
	r, err := c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	return c, bucket
}

// old is the modification time of files that tests write: before that of any object.
var old = time.Date(2020, 2, 3, 4, 5, 6, 789_000_000, time.UTC)

// write writes files below a directory. A name that ends with "/" is a directory; content that begins with "-> " is a
// symbolic link.
func write(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(files[name], "-> "); ok {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(files[name]), 0o644))
		require.NoError(t, os.Chtimes(path, old, old))
	}
	return dir
}

// read returns the files below a directory, in the form of write. Directories are only returned if they are empty.
func read(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir():
			list, err := os.ReadDir(path)
			if len(list) == 0 {
				files[name+"/"] = ""
			}
			return err
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			files[name] = "-> " + target
			return err
		}
		b, err := os.ReadFile(path)
		files[name] = string(b)
		return err
	}))
	return files
}

// objects returns the objects of a bucket below a prefix.
func objects(t testing.TB, c *sdk.Client, bucket, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for e, err := range c.List(t.Context(), bucket, &sdk.ListOptions{Prefix: prefix}) {
		require.NoError(t, err)
		o, err := c.Get(t.Context(), bucket, e.Key, nil)
		require.NoError(t, err)
		b, err := io.ReadAll(o)
		require.NoError(t, err)
		require.NoError(t, o.Close())
		found[strings.TrimPrefix(e.Key, prefix)] = string(b)
	}
	return found
}

// put writes objects.
func put(t testing.TB, c *sdk.Client, bucket string, files map[string]string) {
	t.Helper()
	for key, content := range files {
		_, err := c.Put(t.Context(), bucket, key, strings.NewReader(content), nil)
		require.NoError(t, err)
	}
}

// actions are reports of actions as "op path", in order of the paths.
type actions []string

// collect makes o report to the returned list.
func collect(o Options) (Options, func() actions) {
	var list actions
	o.Report = func(a Action) {
		s := string(a.Op) + " " + a.Path
		if a.Reason != "" {
			s += " (" + a.Reason + ")"
		}
		list = append(list, s)
	}
	return o, func() actions {
		slices.Sort(list)
		return list
	}
}

// sync runs Sync twice, dry and really, checks that the actions are the same, and returns the result of the second.
func syncBoth(t testing.TB, from, to Place, o Options) (*Result, actions) {
	t.Helper()
	o.DryRun = true
	dry, planned := collect(o)
	expected, err := Sync(t.Context(), from, to, dry)
	require.NoError(t, err)
	o.DryRun = false
	really, done := collect(o)
	result, err := Sync(t.Context(), from, to, really)
	require.NoError(t, err)
	require.Equal(t, planned(), done(), "a dry run reports other actions")
	require.Equal(t, expected.Copied, result.Copied)
	require.Equal(t, expected.BytesCopied, result.BytesCopied)
	return result, done()
}
