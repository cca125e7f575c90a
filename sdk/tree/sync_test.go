package tree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sample = map[string]string{
	"a": "1", "a.txt": "22", "b/c": "333", "b/d/e.html": "<p>4", "b-c": "55555", "empty": "", "z/z/z/z": "6", "ü/ß": "7",
}

func TestUploadAndDownload(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), sample)
	r, done := syncBoth(t, Local(dir), Remote(c, bucket, "x"), Options{})
	require.EqualValues(t, 8, r.Copied)
	require.EqualValues(t, 17, r.BytesCopied)
	require.EqualValues(t, 17, r.BytesSent)
	require.Contains(t, done, "copy b/d/e.html (new)")
	require.Equal(t, sample, objects(t, c, bucket, "x/"))
	info, err := c.Head(t.Context(), bucket, "x/b/d/e.html", nil)
	require.NoError(t, err)
	require.Equal(t, "text/html; charset=utf-8", info.ContentType)
	require.Equal(t, map[string]string{"mtime": "1580702706.789"}, info.Metadata)

	r, _ = syncBoth(t, Local(dir), Remote(c, bucket, "x/"), Options{})
	require.EqualValues(t, 0, r.Copied)
	require.EqualValues(t, 8, r.Skipped)

	down := filepath.Join(t.TempDir(), "new", "dir")
	r, _ = syncBoth(t, Remote(c, bucket, "x"), Local(down), Options{})
	require.EqualValues(t, 8, r.Copied)
	require.EqualValues(t, 17, r.BytesReceived)
	require.Equal(t, sample, read(t, down))
	before := c.Stats().Requests
	r, _ = syncBoth(t, Remote(c, bucket, "x"), Local(down), Options{})
	require.EqualValues(t, 8, r.Skipped)
	require.EqualValues(t, 2, c.Stats().Requests-before, "only the listings are requested")
}

func TestOnlyChangesAreCopied(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), sample)
	to := Remote(c, bucket, "")
	_, _ = syncBoth(t, Local(dir), to, Options{})
	write(t, dir, map[string]string{"a": "size", "new": "n", "b/c": "444"})
	future := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "b", "c"), future, future))
	r, done := syncBoth(t, Local(dir), to, Options{})
	require.EqualValues(t, 3, r.Copied)
	require.Subset(t, done, actions{"copy a (size)", "copy b/c (newer)", "copy new (new)"})
	// The time of b/c is later than that of its object, and recorded there.
	r, _ = syncBoth(t, Local(dir), to, Options{})
	require.EqualValues(t, 0, r.Copied)
	require.Equal(t, "444", objects(t, c, bucket, "b/")["c"])
}

func TestDelete(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), sample)
	put(t, c, bucket, map[string]string{"x/extra": "1", "x/b/extra": "2", "xy": "3", "x": "4", "w": "5"})
	r, done := syncBoth(t, Local(dir), Remote(c, bucket, "x"), Options{Delete: true})
	require.EqualValues(t, 2, r.Deleted)
	require.Subset(t, done, actions{"delete b/extra (extra)", "delete extra (extra)"})
	require.Equal(t, sample, objects(t, c, bucket, "x/"))
	require.Len(t, objects(t, c, bucket, ""), 8+3, "nothing outside the prefix is deleted")

	down := write(t, t.TempDir(), map[string]string{"b/extra/1": "", "b/extra/2": "", "c/d/e/f": "", "g/": "", "b/d/e.html": "other"})
	r, done = syncBoth(t, Remote(c, bucket, "x"), Local(down), Options{Delete: true})
	require.EqualValues(t, 3+5, r.Deleted)
	require.Subset(t, done, actions{"delete c/d/e/ (extra)", "delete g/ (extra)", "copy b/d/e.html (size)"})
	require.Equal(t, sample, read(t, down))
}
