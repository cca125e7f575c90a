//go:build long

package tree

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBesideOthers sends and fetches 10,000 files of 4 KiB with this package, rclone and the AWS command line, if they are
// installed, and reports the times.
func TestBesideOthers(t *testing.T) {
	const count = 10_000
	base := t.TempDir()
	endpoint := serverProcess(t, base)
	dir := filepath.Join(base, "files")
	content := make([]byte, 4096)
	for i := range count {
		_, _ = rand.Read(content)
		path := filepath.Join(dir, fmt.Sprintf("%02d", i/1000), fmt.Sprintf("file-%05d.bin", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
	require.NoError(t, os.Unsetenv("AWS_CA_BUNDLE")) // rclone does not start with it
	env := append(os.Environ(), "AWS_ACCESS_KEY_ID="+access, "AWS_SECRET_ACCESS_KEY="+secret, "AWS_DEFAULT_REGION=us-east-1",
		"RCLONE_CONFIG_X_TYPE=s3", "RCLONE_CONFIG_X_PROVIDER=Other", "RCLONE_CONFIG_X_ENV_AUTH=true", "RCLONE_CONFIG_X_ENDPOINT="+endpoint)
	program := func(name string, args ...string) {
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("%s is not installed", name)
			return
		}
		cmd := exec.Command(name, args...)
		cmd.Env = env
		start := time.Now()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s %s: %.2f s", name, args[0], time.Since(start).Seconds())
	}
	for range 2 {
		down := t.TempDir()
		for i, run := range []string{"up", "up again", "down", "down again"} {
			mode := "copy"
			if i >= 2 {
				mode = "down"
			}
			d := dir
			if i >= 2 {
				d = filepath.Join(down, "orcas")
			}
			start := time.Now()
			m := measure(t, mode, endpoint, d, fmt.Sprintf("orcas-%s", filepath.Base(down)))
			t.Logf("this package, %s: %.2f s with the start of the process, %.2f s without, %d copied, %d MB of memory", run, time.Since(start).Seconds(), m.Seconds, m.Copied, m.MaxRSS>>20)
		}
		prefix := filepath.Base(down)
		program("rclone", "sync", "--transfers", "64", "--checkers", "64", dir, "x:million/rclone-"+prefix)
		program("rclone", "sync", "--transfers", "64", "--checkers", "64", "x:million/rclone-"+prefix, filepath.Join(down, "rclone"))
	}
	program("aws", "s3", "sync", "--only-show-errors", "--endpoint-url", endpoint, dir, "s3://million/aws")
	program("aws", "s3", "sync", "--only-show-errors", "--endpoint-url", endpoint, "s3://million/aws", filepath.Join(base, "aws"))
}
