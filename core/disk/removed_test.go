package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/disk"
)

// remove deletes the files that match a pattern below the directory of the blocks, as another program might.
func remove(t *testing.T, dir, pattern string) {
	found, err := filepath.Glob(filepath.Join(dir, "blocks", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, path := range found {
		require.NoError(t, os.RemoveAll(path))
	}
}

// requireNamed checks that the next start will find a block.
func requireNamed(t *testing.T, s *disk.Store, e core.Extent) {
	t.Helper()
	_, err := s.Stat(t.Context(), e.Block)
	require.NoError(t, err)
}

// TestNothingIsAppendedToARemovedFile checks that the open packed block and the directories of blocks are created again
// if another program removed them. Bytes appended to a deleted file would be acknowledged, and then lost when the
// process ends.
func TestNothingIsAppendedToARemovedFile(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		o       core.BlockOptions
	}{
		"the file, packed":                    {"*/*/*.packed", packed},
		"its directory, packed":               {"*/*", packed},
		"its directory, large":                {"*/*", large},
		"the generation, packed":              {"*", packed},
		"the generation, large":               {"*", large},
		"the directory of all blocks, packed": {"../blocks", packed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, disk.Options{})
			first := mustWrite(t, s, packed, "first")
			requireRead(t, s, first, "first") // the file remains open
			remove(t, dir, c.pattern)
			_, err := s.Stat(t.Context(), first.Block)
			require.Equal(t, core.NoSuchData, core.KindOf(err), "%v", err)
			for range 3 {
				e := mustWrite(t, s, c.o, "after")
				requireNamed(t, s, e)
				requireRead(t, s, e, "after")
			}
		})
	}
}

// TestReplacedFileIsRead checks that after Stat, readers use the file that is now at the path, not an earlier one.
func TestReplacedFileIsRead(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{})
	e := mustWrite(t, s, large, "content")
	requireRead(t, s, e, "content")
	path := s.BlockFile(core.BlockInfo{ID: e.Block, Kind: core.Large})
	bytes, err := os.ReadFile(path)
	require.NoError(t, err)
	bytes[len(bytes)-1] = 'T'
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, bytes, 0o600))
	requireNamed(t, s, e)
	requireRead(t, s, e, "contenT")
}

// TestLargeFileRemovedWhileWritten checks that the commit of a block fails if its file was deleted, since it is not
// durable.
func TestLargeFileRemovedWhileWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{})
	w, err := s.Create(t.Context(), large)
	require.NoError(t, err)
	_, err = w.Write([]byte("content"))
	require.NoError(t, err)
	remove(t, dir, "*/*/*.large")
	require.ErrorContains(t, w.Commit(t.Context()), "removed")
	requireNamed(t, s, mustWrite(t, s, large, "next"))
}
