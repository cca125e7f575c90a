package sdk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/sdk"
)

// TestDownloadFullDisk: on a drive without space a download fails, leaves nothing behind without a state file, and
// continues after space was freed with one.
func TestDownloadFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("orcas-test", dir, "tmpfs", 0, "size=24m"); err != nil { // only root may
		fullWriter(t)
		return
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 8*mib), 0o600))
	c, bucket := newBucket(t)
	content := random(69, 20*mib)
	_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(content), nil)
	require.NoError(t, err)
	path, state := filepath.Join(dir, "file"), filepath.Join(dir, "state")
	before := names(t, dir)
	for _, o := range []*sdk.DownloadOptions{nil, {Preallocate: true}} {
		down, err := c.DownloadFile(t.Context(), bucket, "key", path, o)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Equal(t, o == nil, down.BytesReceived > 0, "reserving space fails before anything is requested")
		require.Equal(t, before, names(t, dir))
	}
	_, err = c.DownloadFile(t.Context(), bucket, "key", path, &sdk.DownloadOptions{StateFile: state})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoFileExists(t, path)
	require.NoError(t, os.Remove(filepath.Join(dir, "ballast")))
	down, err := c.DownloadFile(t.Context(), bucket, "key", path, &sdk.DownloadOptions{StateFile: state})
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	same(t, content, got)
	require.Equal(t, int64(len(content)), down.Size)
	require.Equal(t, []string{"file"}, names(t, dir))
}

// fullWriter checks what everybody can check: writing to a full device is an error.
func fullWriter(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Upload(t.Context(), bucket, "key", bytes.NewReader(random(69, 20*mib)), nil)
	require.NoError(t, err)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	_, err = c.Download(t.Context(), bucket, "key", full, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
}
