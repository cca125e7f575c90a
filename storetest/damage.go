package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// BlockFile returns the path of the file of a block, and reports whether it exists.
func (s *Store) BlockFile(id core.BlockID) (path string, exists bool) {
	s.T.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "blocks", fmt.Sprintf("%08x", id.Generation()), "*", fmt.Sprintf("%08x.*", id.Number())))
	require.NoError(s.T, err)
	if len(found) == 0 {
		return "", false
	}
	require.Len(s.T, found, 1)
	return found[0], true
}

// Flip flips a bit at an offset in the file of a block.
func (s *Store) Flip(id core.BlockID, at int64) {
	s.T.Helper()
	path, exists := s.BlockFile(id)
	require.True(s.T, exists, "block %v", id)
	FlipFile(s.T, path, at)
}

// Touch is like Flip, but also sets a modification time later than that of any write to the block.
func (s *Store) Touch(id core.BlockID, at int64) {
	s.T.Helper()
	s.Flip(id, at)
	path, _ := s.BlockFile(id)
	later := time.Now().Add(time.Second)
	require.NoError(s.T, os.Chtimes(path, later, later))
}

// RemoveBlocks deletes the files of the blocks that contain d.
func (s *Store) RemoveBlocks(d core.DataInfo) {
	s.T.Helper()
	for _, e := range d.Extents {
		if path, exists := s.BlockFile(e.Block); exists {
			require.NoError(s.T, os.Remove(path))
		}
	}
}

// RemoveAllBlocks deletes everything in the block directory.
func (s *Store) RemoveAllBlocks() {
	s.T.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "blocks", "*"))
	require.NoError(s.T, err)
	for _, path := range found {
		require.NoError(s.T, os.RemoveAll(path))
	}
}

// FlipFile flips a bit at an offset in a file.
func FlipFile(t require.TestingT, path string, at int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 16
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
}
