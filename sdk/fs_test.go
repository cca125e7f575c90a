package sdk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// TestFS runs the tests of io/fs on a bucket with keys that are no paths.
func TestFS(t *testing.T) {
	c, bucket := newBucket(t)
	files := []string{"a-b", "a.txt", "dir/a", "dir/b/c/d", "dir/b-c", "dir/ä ö+%", "z", "z-/q", "dir/:*?", "clash/x", "clash-"}
	for _, key := range append([]string{
		"clash", "dir", // also directories
		"", "/", "//", "/abs", "dir//x", "dir/./x", "dir/../x", ".", "..", "../up", "./here", "dir/b/.", `back\slash`, `back\dir/x`, "marker/", "dir/b/",
	}, files...) {
		if key == "" {
			continue
		}
		_, err := c.Put(t.Context(), bucket, "root/"+key, strings.NewReader("content of "+key), nil)
		require.NoError(t, err, key)
	}
	for _, prefix := range []string{"root", "root/"} {
		require.NoError(t, fstest.TestFS(c.FS(t.Context(), bucket, prefix), files...))
	}
	f := c.FS(t.Context(), bucket, "root")
	var walked []string
	require.NoError(t, fs.WalkDir(f, ".", func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !d.IsDir() {
			walked = append(walked, path)
			b, err := fs.ReadFile(f, path)
			require.NoError(t, err)
			require.Equal(t, "content of "+path, string(b))
		}
		return nil
	}))
	require.ElementsMatch(t, files, walked)
	sub, err := fs.Sub(f, "dir/b")
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(sub, "c/d"))
	require.NoError(t, fstest.TestFS(c.FS(t.Context(), bucket, ""), "root/a-b"))
	info, err := fs.Stat(f, "clash")
	require.NoError(t, err)
	require.True(t, info.IsDir(), "a directory has precedence over the object")
	info, err = fs.Stat(f, "marker")
	require.NoError(t, err)
	require.True(t, info.IsDir())
	entries, err := fs.ReadDir(f, "marker")
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestFSFile reads at random places, and beyond the end.
func TestFSFile(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(90, 3*mib)
	_, err := c.Put(t.Context(), bucket, "key", bytes.NewReader(content), nil)
	require.NoError(t, err)
	f, err := c.FS(t.Context(), bucket, "").Open("key")
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(len(content)), info.Size())
	require.Equal(t, fs.FileMode(0o444), info.Mode())
	require.WithinDuration(t, time.Now(), info.ModTime(), time.Minute)
	require.IsType(t, &sdk.Info{}, info.Sys())
	r := f.(io.ReadSeeker)
	at := f.(io.ReaderAt)
	for _, whence := range []struct {
		offset int64
		whence int
		want   int64
	}{{100, io.SeekStart, 100}, {50, io.SeekCurrent, 160}, {-10, io.SeekEnd, int64(len(content)) - 10}, {0, io.SeekStart, 0}} {
		n, err := r.Seek(whence.offset, whence.whence)
		require.NoError(t, err)
		require.Equal(t, whence.want, n)
		b := make([]byte, 10)
		_, err = io.ReadFull(r, b)
		require.NoError(t, err)
		same(t, content[n:n+10], b)
	}
	_, err = r.Seek(0, io.SeekStart)
	require.NoError(t, err)
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	same(t, content, all)
	_, err = r.Seek(10, io.SeekEnd)
	require.NoError(t, err)
	_, err = r.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = r.Seek(-1, io.SeekStart)
	require.ErrorIs(t, err, fs.ErrInvalid)

	b := make([]byte, 100)
	n, err := at.ReadAt(b, 1000)
	require.NoError(t, err)
	same(t, content[1000:1100], b[:n])
	n, err = at.ReadAt(b, int64(len(content)-40))
	require.Equal(t, io.EOF, err)
	same(t, content[len(content)-40:], b[:n])
	_, err = at.ReadAt(b, int64(len(content)))
	require.Equal(t, io.EOF, err)
	_, err = at.ReadAt(b, -1)
	require.ErrorIs(t, err, fs.ErrInvalid)

	_, err = c.Put(t.Context(), bucket, "key", strings.NewReader("replaced"), nil)
	require.NoError(t, err)
	_, err = at.ReadAt(b, 0)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed, "the file is the object that was opened")
	require.NoError(t, f.Close())
	_, err = at.ReadAt(b, 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = r.Read(b)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
}

func TestFSErrors(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Put(t.Context(), bucket, "file", strings.NewReader("x"), nil)
	require.NoError(t, err)
	f := c.FS(t.Context(), bucket, "")
	for name, want := range map[string]error{"none": fs.ErrNotExist, "../x": fs.ErrInvalid, "/x": fs.ErrInvalid, "": fs.ErrInvalid, `a\b`: fs.ErrNotExist} {
		_, err := f.Open(name)
		require.ErrorIs(t, err, want, name)
		_, err = fs.Stat(f, name)
		require.ErrorIs(t, err, want, name)
		_, err = fs.ReadFile(f, name)
		require.ErrorIs(t, err, want, name)
		var p *fs.PathError
		require.True(t, errors.As(err, &p), name)
	}
	_, err = fs.ReadDir(f, "none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fs.ReadDir(f, "file")
	require.ErrorContains(t, err, "not a directory")
	_, err = fs.ReadFile(f, ".")
	require.ErrorContains(t, err, "is a directory")
	_, err = fs.Sub(f, "../x")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = fs.ReadDir(c.FS(t.Context(), "no-such-bucket", ""), ".")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
	stranger := newClient(t, shared, func(c *sdk.Config) { c.Credentials = nil })
	_, err = stranger.FS(t.Context(), bucket, "").Open("file")
	require.ErrorIs(t, err, fs.ErrPermission)
}
