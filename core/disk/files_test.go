package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/disk"
)

// openFiles counts the files below dir that this process has open, including deleted ones.
func openFiles(t *testing.T, dir string) (n int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(path, dir) {
			n++
		}
	}
	return n
}

func TestFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{MaxOpenFiles: 3})
	base := openFiles(t, dir)
	require.Equal(t, 1, base, "the lock")
	var list []core.Extent
	for i := range 10 {
		list = append(list, mustWrite(t, s, large, fmt.Sprint(i)))
	}
	require.Equal(t, base, openFiles(t, dir), "after the writers have ended")
	for range 2 {
		for i, e := range list {
			requireRead(t, s, e, fmt.Sprint(i))
		}
	}
	require.Equal(t, base+3, openFiles(t, dir), "the configured maximum")
	requireRead(t, s, list[7], "7")
	require.NoError(t, s.Delete(t.Context(), list[9].Block))
	require.NoError(t, s.Delete(t.Context(), list[0].Block))
	require.Equal(t, base+2, openFiles(t, dir), "the file of a deleted block is closed")

	var readers []core.BlockReader
	for _, e := range list[1:9] {
		r, err := s.Open(t.Context(), e)
		require.NoError(t, err)
		readers = append(readers, r)
	}
	require.Equal(t, base+8, openFiles(t, dir), "readers keep their files open")
	require.NoError(t, s.Delete(t.Context(), list[8].Block))
	for i, r := range readers {
		p := make([]byte, 1)
		_, err := r.ReadAt(p, 0)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i+1), string(p))
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		_, err = r.ReadAt(p, 0)
		require.Error(t, err)
	}
	require.LessOrEqual(t, openFiles(t, dir), base+3)

	// The least recently used files were closed: the one that was read last is still open.
	requireRead(t, s, list[5], "5")
	require.NoError(t, os.Rename(filepath.Join(dir, "blocks"), filepath.Join(dir, "away")))
	requireRead(t, s, list[5], "5")
	_, err := read(t, s, list[2])
	require.Error(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "blocks")))

	pinned, err := s.Open(t.Context(), list[1])
	require.NoError(t, err)
	w, err := s.Create(t.Context(), packed)
	require.NoError(t, err)
	_, err = w.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.Open(t.Context(), list[1])
	require.True(t, core.Is(err, core.Unavailable), "%v", err)
	_, err = pinned.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err, "the reader can be used after Close")
	require.NoError(t, pinned.Close())
	require.NoError(t, w.Abort())
	require.Zero(t, openFiles(t, dir))
}

func TestReadsAndCommitsAllocateLittle(t *testing.T) {
	s := open(t, t.TempDir(), disk.Options{})
	e := mustWrite(t, s, packed, strings.Repeat("x", 4096))
	p := make([]byte, 4096)
	ctx := t.Context()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		r, err := s.Open(ctx, e)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := r.ReadAt(p, 0); err != nil {
			t.Error(err)
		}
		_ = r.Close()
	}), 1.0, "the reader")
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		w, err := s.Create(ctx, packed)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.Write(p); err != nil {
			t.Error(err)
		}
		if err := w.Commit(ctx); err != nil {
			t.Error(err)
		}
	}), 2.0, "the writer, and the path that it checks with stat")
}
