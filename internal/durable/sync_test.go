package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSyncEach: everything below the directory is synced, a directory after what is in it.
func TestSyncEach(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o700))
	for _, name := range []string{"x", "a/y", "a/b/z"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(root, "link")))
	var synced []string
	record := func(f *os.File) error {
		rel, err := filepath.Rel(root, f.Name())
		require.NoError(t, err)
		synced = append(synced, rel)
		return nil
	}
	require.NoError(t, syncEach(root, record))
	require.Equal(t, []string{"a/b/z", "a/y", "x", "a/b", "a", "."}, synced)

	failed := errors.New("the drive is broken")
	require.ErrorIs(t, syncEach(root, func(f *os.File) error {
		if filepath.Base(f.Name()) == "y" {
			return failed
		}
		return nil
	}), failed)
	require.NoError(t, syncEach(root, func(*os.File) error { return os.RemoveAll(filepath.Join(root, "a", "b")) }), "a file is removed in the meantime")
	require.ErrorIs(t, syncEach(filepath.Join(root, "missing"), record), os.ErrNotExist)
	require.NoError(t, SyncAll(root))
	require.ErrorIs(t, SyncAll(filepath.Join(root, "missing")), os.ErrNotExist)
}
