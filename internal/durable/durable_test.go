package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/internal/durable"
)

func TestReplaceLeavesTheOldOrTheNew(t *testing.T) {
	boom := errors.New("boom")
	ops := []durable.Op{durable.Create, durable.Write, durable.Sync, durable.Rename, durable.DirSync}
	var seen []durable.Op
	steps := durable.Steps{Hook: func(s durable.Step, do func() error) error {
		seen = append(seen, s.Op)
		return do()
	}}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, steps.Replace(path, []byte("old")))
	require.Equal(t, ops, seen, "this order makes the new content durable")

	for _, op := range ops {
		for _, done := range []bool{false, true} {
			plain := durable.Steps{}
			require.NoError(t, plain.Replace(path, []byte("old")))
			failing := durable.Steps{Hook: func(s durable.Step, do func() error) error {
				if s.Op != op {
					return do()
				}
				if done {
					require.NoError(t, do())
				}
				return boom
			}}
			require.ErrorIs(t, failing.Replace(path, []byte("new")), boom)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			if renamed := op == durable.DirSync || op == durable.Rename && done; renamed {
				require.Equal(t, "new", string(got))
			} else {
				require.Equal(t, "old", string(got))
			}
			require.NoError(t, plain.Replace(path, []byte("again")), "leftover files of a failed call must not disturb the next")
		}
	}
}

func TestMkdirAllSyncsEachParent(t *testing.T) {
	root := t.TempDir()
	var got []string
	steps := durable.Steps{Hook: func(s durable.Step, do func() error) error {
		rel, err := filepath.Rel(root, s.Path)
		require.NoError(t, err)
		got = append(got, string(s.Op)+" "+rel)
		return do()
	}}
	require.NoError(t, steps.MkdirAll(filepath.Join(root, "a", "b")))
	require.Equal(t, []string{"dirsync ..", "mkdir a", "dirsync .", "mkdir a/b", "dirsync a"}, got)
	got = nil
	require.NoError(t, steps.MkdirAll(filepath.Join(root, "a", "b")))
	require.Equal(t, []string{"dirsync a"}, got, "the process that created it may have been killed before the sync")
	require.ErrorIs(t, steps.Mkdir(filepath.Join(root, "a")), fs.ErrExist)
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	require.Error(t, steps.MkdirAll(filepath.Join(root, "file", "x")))
}

func TestFile(t *testing.T) {
	steps := durable.Steps{}
	path := filepath.Join(t.TempDir(), "file")
	f, err := steps.Create(path)
	require.NoError(t, err)
	require.Equal(t, path, f.Path())
	_, err = steps.Create(path)
	require.ErrorIs(t, err, fs.ErrExist, "Create must not open an existing file")

	if err := f.Allocate(0, 1<<20, true); !errors.Is(err, durable.ErrCannotAllocate) {
		require.NoError(t, err)
	}
	size := func() int64 {
		st, err := os.Stat(path)
		require.NoError(t, err)
		return st.Size()
	}
	require.Zero(t, size())
	n, err := f.WriteAt([]byte("hello"), 3)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	f.StartWrite(0, 8)
	require.NoError(t, f.WriteOut(0, 8))
	require.NoError(t, f.DataSync())
	require.NoError(t, f.Sync())
	require.NoError(t, f.Truncate(7))
	require.EqualValues(t, 7, size())
	require.NoError(t, f.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte("\x00\x00\x00hell"), got))

	require.Error(t, f.DataSync(), "the file is closed")
	_, err = f.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	second := path + "-2"
	require.NoError(t, steps.Link(path, second))
	require.ErrorIs(t, steps.Link(path, second), fs.ErrExist)
	require.NoError(t, steps.Rename(second, path), "both names refer to the same file, so rename does nothing")
	require.NoError(t, steps.Remove(second))
	require.NoError(t, steps.Remove(path))
	require.ErrorIs(t, steps.Remove(path), fs.ErrNotExist)
	require.Error(t, steps.SyncDir(path))
}

// TestClone works on file systems with and without support for clones.
func TestClone(t *testing.T) {
	steps := durable.Steps{}
	dir := t.TempDir()
	from, err := os.Create(filepath.Join(dir, "from"))
	require.NoError(t, err)
	defer from.Close()
	_, err = from.WriteString("hello")
	require.NoError(t, err)
	f, err := steps.Create(filepath.Join(dir, "to"))
	require.NoError(t, err)
	defer f.Close()
	err = f.Clone(from)
	got, readErr := os.ReadFile(f.Path())
	require.NoError(t, readErr)
	if err != nil {
		require.Empty(t, got, "%v", err)
		return
	}
	require.Equal(t, "hello", string(got))
}

func TestLock(t *testing.T) {
	steps := durable.Steps{}
	path := filepath.Join(t.TempDir(), "LOCK")
	first, err := steps.Lock(path)
	require.NoError(t, err)
	_, err = steps.Lock(path)
	require.ErrorIs(t, err, durable.ErrLocked)
	require.NoError(t, first.Close())
	second, err := steps.Lock(path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// TestKernelReportsAnErrorOnce fills the drive during a write-out, and then makes space: WriteOut returns the error, and
// the next sync succeeds although bytes are missing. This is why an error of WriteOut must not be ignored. After
// StartWrite, which returns no errors, the sync does return the error.
func TestKernelReportsAnErrorOnce(t *testing.T) {
	for _, waits := range []bool{true, false} {
		outer, inner := t.TempDir(), t.TempDir()
		if err := unix.Mount("orcas", outer, "tmpfs", 0, "size=12m"); err != nil {
			t.Skip("cannot mount a tmpfs: ", err)
		}
		t.Cleanup(func() { require.NoError(t, unix.Unmount(outer, unix.MNT_DETACH)) })
		image := filepath.Join(outer, "image")
		require.NoError(t, os.WriteFile(image, nil, 0o600))
		require.NoError(t, os.Truncate(image, 64<<20))
		for _, command := range [][]string{{"mkfs.ext4", "-q", "-O", "^has_journal", image}, {"mount", "-o", "loop", image, inner}} {
			if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%v: %v: %s", command, err, text)
			}
		}
		t.Cleanup(func() { require.NoError(t, unix.Unmount(inner, unix.MNT_DETACH)) })

		steps := durable.Steps{}
		f, err := steps.Create(filepath.Join(inner, "file"))
		require.NoError(t, err)
		content := bytes.Repeat([]byte("content"), 4<<20)
		_, err = f.WriteAt(content, 0)
		require.NoError(t, err)
		if waits {
			require.Error(t, f.WriteOut(0, int64(len(content))))
		} else {
			f.StartWrite(0, int64(len(content)))
			require.Error(t, f.DataSync())
		}
		require.NoError(t, unix.Mount("orcas", outer, "tmpfs", unix.MS_REMOUNT, "size=96m"))
		require.NoError(t, f.DataSync(), "the error has been reported")
		require.NoError(t, f.Close())
	}
}
