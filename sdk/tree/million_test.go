//go:build long

package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/freeport"
	"orcas/sdk"
)

// measured is what a child process reports.
type measured struct {
	Files   int64
	Copied  int64
	Seconds float64
	MaxRSS  int64 // bytes
}

// TestMillion compares a million local files with as many objects, in one directory and in many, and reports time and
// memory of the client. ORCAS_BINARY is the server's program, which runs as a process of its own.
func TestMillion(t *testing.T) {
	if p := os.Getenv("ORCAS_MILLION_CHILD"); p != "" {
		child(t, p)
		return
	}
	count := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("ORCAS_MILLION_FILES")); err == nil {
		count = n
	}
	base := t.TempDir()
	endpoint := serverProcess(t, base)
	for _, name := range []string{"one", "many"} {
		dir := filepath.Join(base, name)
		create(t, dir, count, name == "many")
		up := measure(t, "copy", endpoint, dir, name)
		require.EqualValues(t, count, up.Copied)
		t.Logf("%s: %d empty files sent in %.1f s, %.0f per second, %d MB of memory", name, count, up.Seconds, float64(count)/up.Seconds, up.MaxRSS>>20)
		for range 3 {
			m := measure(t, "compare", endpoint, dir, name)
			require.EqualValues(t, count, m.Files)
			require.Zero(t, m.Copied)
			t.Logf("%s: %d files compared in %.1f s, %d MB of memory", name, count, m.Seconds, m.MaxRSS>>20)
		}
	}
}

// serverProcess starts a server, and returns its URL.
func serverProcess(t *testing.T, dir string) string {
	binary := os.Getenv("ORCAS_BINARY")
	require.NotEmpty(t, binary, "ORCAS_BINARY")
	addresses, err := freeport.Addresses(2)
	require.NoError(t, err)
	cmd := exec.Command(binary, "server", "--data", filepath.Join(dir, "data"), "--address", addresses[0], "--admin-address", addresses[1])
	cmd.Env = append(os.Environ(), "ORCAS_ROOT_ACCESS_KEY="+access, "ORCAS_ROOT_SECRET_KEY="+secret, "ORCAS_MIN_FREE=0", "ORCAS_BUCKETS=million")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	})
	endpoint := "http://" + addresses[0]
	c := newClient(t, endpoint)
	for range 100 {
		if _, err := c.Head(t.Context(), "million", "x", nil); err == nil || errors.Is(err, sdk.ErrNoSuchKey) {
			return endpoint
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the server did not start")
	return ""
}

func create(t *testing.T, dir string, count int, many bool) {
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range count {
		d := dir
		if many {
			d = filepath.Join(dir, fmt.Sprintf("directory-%03d", i/1000))
			if i%1000 == 0 {
				require.NoError(t, os.Mkdir(d, 0o755))
			}
		}
		f, err := os.OpenFile(filepath.Join(d, fmt.Sprintf("file-%07d.txt", i)), os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// measure runs the transfer in a process of its own.
func measure(t *testing.T, mode, endpoint, dir, prefix string) (m measured) {
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMillion$", "-test.timeout", "2h")
	cmd.Env = append(os.Environ(), "ORCAS_MILLION_CHILD="+mode, "ORCAS_MILLION_ENDPOINT="+endpoint, "ORCAS_MILLION_DIR="+dir, "ORCAS_MILLION_PREFIX="+prefix,
		"ORCAS_MILLION_OUT="+filepath.Join(t.TempDir(), "out"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	m.MaxRSS = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	for _, e := range cmd.Env {
		if len(e) > 18 && e[:18] == "ORCAS_MILLION_OUT=" {
			text, err := os.ReadFile(e[18:])
			require.NoError(t, err)
			rss := m.MaxRSS
			require.NoError(t, json.Unmarshal(text, &m))
			m.MaxRSS = rss
		}
	}
	return m
}

func child(t *testing.T, mode string) {
	c := newClient(t, os.Getenv("ORCAS_MILLION_ENDPOINT"))
	start := time.Now()
	from, to := Local(os.Getenv("ORCAS_MILLION_DIR")), Remote(c, "million", os.Getenv("ORCAS_MILLION_PREFIX"))
	if mode == "down" {
		from, to = to, from
	}
	r, err := Sync(context.Background(), from, to, Options{DryRun: mode == "compare", Delete: true})
	require.NoError(t, err)
	text, err := json.Marshal(measured{Files: r.Files, Copied: r.Copied, Seconds: time.Since(start).Seconds()})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(os.Getenv("ORCAS_MILLION_OUT"), text, 0o600))
}
