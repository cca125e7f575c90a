package tree

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

func TestBadOptions(t *testing.T) {
	c := newClient(t, shared)
	remote, dir := Remote(c, "bucket", ""), Local(t.TempDir())
	for name, x := range map[string]struct {
		from, to Place
		o        Options
	}{
		"must be remote":      {dir, dir, Options{}},
		"Options.SizeOnly":    {dir, remote, Options{SizeOnly: true, Checksum: true}},
		"Options.Conflict":    {dir, remote, Options{Conflict: 99}},
		"Options.Symlinks":    {dir, remote, Options{Symlinks: -1}},
		"Options.Parallel":    {dir, remote, Options{Parallel: -1}},
		"needs two buckets":   {dir, remote, Options{Versions: true}},
		"overlap":             {remote, Remote(c, "bucket", "x"), Options{}},
		"and s3://bucket/x/ ": {Remote(c, "bucket", "x/y"), Remote(c, "bucket", "x"), Options{}},
		"s3://bucket/x/y/ ":   {Remote(c, "bucket", "x/y"), Remote(c, "bucket", "x/y/"), Options{}},
		"the conflict policy": {remote, remote, Options{Versions: true, Conflict: Skip}},
	} {
		r, err := Sync(t.Context(), x.from, x.to, x.o)
		require.ErrorContains(t, err, name)
		require.Nil(t, r)
		for _, err = range Diff(t.Context(), x.from, x.to, x.o) {
		}
		require.ErrorContains(t, err, name)
	}
	_, err := Move(t.Context(), remote, remote, Options{Versions: true})
	require.ErrorContains(t, err, "Move")
	_, err = MoveFile(t.Context(), Object(c, "bucket", "x"), Object(c, "bucket", "x"), Options{})
	require.ErrorContains(t, err, "overlap")
	require.False(t, new(Remote(c, "bucket", "x")).overlaps(new(Remote(c, "bucket", "xy"))))
	require.False(t, new(Object(c, "bucket", "x")).overlaps(new(Object(c, "bucket", "xy"))))
	for _, p := range []Conflict{Overwrite, Skip, Rename, Newer, Fail} {
		got, err := ParseConflict(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err = ParseConflict("ask")
	require.ErrorContains(t, err, `"ask" is not a conflict policy: expected one of overwrite, skip`)
	require.Equal(t, "Conflict(9)", Conflict(9).String())
}

// TestConflicts: what each policy does with files of the same name, in both directions.
func TestConflicts(t *testing.T) {
	source := map[string]string{"same": "1", "older.txt": "source", "newer.txt": "source", "new": "2"}
	target := map[string]string{"same": "1", "older.txt": "target!", "newer.txt": "target!", "older (1).txt": "other"}
	for policy, want := range map[Conflict]map[string]string{
		Overwrite: {"older.txt": "source", "newer.txt": "source", "older (1).txt": "other"},
		Skip:      {"older.txt": "target!", "newer.txt": "target!", "older (1).txt": "other"},
		Newer:     {"older.txt": "target!", "newer.txt": "source", "older (1).txt": "other"},
		Rename: {"older.txt": "target!", "older (1).txt": "other", "older (2).txt": "source",
			"newer.txt": "target!", "newer (1).txt": "source"},
	} {
		want["same"], want["new"] = "1", "2"
		t.Run(policy.String(), func(t *testing.T) {
			c, bucket := newBucket(t)
			put(t, c, bucket, target)
			dir := write(t, t.TempDir(), source)
			future := time.Now().Add(time.Hour)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "newer.txt"), future, future))
			_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Conflict: policy})
			require.Equal(t, want, objects(t, c, bucket, ""))
			r, done := syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Conflict: policy})
			require.EqualValues(t, 0, r.Copied, "%q", done)

			c, bucket = newBucket(t)
			put(t, c, bucket, source)
			dir = write(t, t.TempDir(), target)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "older.txt"), future, future))
			require.NoError(t, os.Chtimes(filepath.Join(dir, "same"), future, future))
			_, _ = syncBoth(t, Remote(c, bucket, ""), Local(dir), Options{Conflict: policy})
			require.Equal(t, want, read(t, dir))
			r, done = syncBoth(t, Remote(c, bucket, ""), Local(dir), Options{Conflict: policy})
			require.EqualValues(t, 0, r.Copied, "%q", done)
		})
	}
	t.Run("fail", func(t *testing.T) {
		c, bucket := newBucket(t)
		put(t, c, bucket, target)
		dir := write(t, t.TempDir(), source)
		for _, dry := range []bool{true, false} {
			_, err := Sync(t.Context(), Local(dir), Remote(c, bucket, ""), Options{Conflict: Fail, DryRun: dry})
			require.ErrorIs(t, err, ErrConflict)
			require.ErrorContains(t, err, "er.txt")
		}
		require.Equal(t, "target!", objects(t, c, bucket, "")["older.txt"])
	})
}

// TestRenameAvoidsTheSource: a free name that another file of the source has is not free.
func TestRenameAvoidsTheSource(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"a.txt": "target"})
	dir := write(t, t.TempDir(), map[string]string{"a.txt": "source!", "a (1).txt": "one"})
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Conflict: Rename})
	require.Equal(t, map[string]string{"a.txt": "target", "a (1).txt": "one", "a (2).txt": "source!"}, objects(t, c, bucket, ""))
}

func TestPatternsLimitBothTrees(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"extra.txt": "", "extra.log": "", "keep/extra.txt": ""})
	dir := write(t, t.TempDir(), map[string]string{"a.txt": "1", "a.log": "2", "keep/a.txt": "3", ".git/objects/a.txt": "4"})
	o := Options{Delete: true, Patterns: patterns(t, "- *.log", "- .git/", "- keep/**")}
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), o)
	require.Equal(t, map[string]string{"a.txt": "1", "extra.log": "", "keep/extra.txt": ""}, objects(t, c, bucket, ""))

	down := write(t, t.TempDir(), map[string]string{"x/a.log": "1", "x/b.txt": "2", "y/c.txt": "3"})
	_, done := syncBoth(t, Remote(c, bucket, ""), Local(down), o)
	require.Equal(t, map[string]string{"x/a.log": "1", "a.txt": "1"}, read(t, down))
	require.Contains(t, done, "delete y/ (extra)")
	require.NotContains(t, done, "delete x/ (extra)", "it has something that is excluded")
}

func TestSizeOnlyAndChecksum(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), map[string]string{"a": "one", "b": "same"})
	to := Remote(c, bucket, "")
	_, _ = syncBoth(t, Local(dir), to, Options{})
	write(t, dir, map[string]string{"a": "two"}) // the same size and time
	future := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "b"), future, future))
	r, _ := syncBoth(t, Local(dir), to, Options{SizeOnly: true})
	require.EqualValues(t, 0, r.Copied)
	r, done := syncBoth(t, Local(dir), to, Options{Checksum: true})
	require.EqualValues(t, 1, r.Copied)
	require.Contains(t, done, "copy a (checksum)")
	require.Equal(t, "two", objects(t, c, bucket, "")["a"])
	write(t, dir, map[string]string{"a": "333"})
	r, done = syncBoth(t, to, Local(dir), Options{Checksum: true})
	require.Contains(t, done, "copy a (checksum)")
	require.EqualValues(t, 1, r.Copied)
	require.Equal(t, "two", read(t, dir)["a"])
	r, _ = syncBoth(t, to, Local(dir), Options{Checksum: true, Always: true})
	require.EqualValues(t, 2, r.Copied)
}

func TestPreserve(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), map[string]string{"run": "#!", "secret": "s", "sub/dir/x": ""})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "secret"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sub", "dir"), 0o500))
	defer func() { require.NoError(t, os.Chmod(filepath.Join(dir, "sub", "dir"), 0o700)) }()
	o := Options{Preserve: true, Directories: true}
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), o)
	info, err := c.Head(t.Context(), bucket, "secret", nil)
	require.NoError(t, err)
	require.Equal(t, "33152", info.Metadata["mode"])
	require.NotEmpty(t, info.Metadata["uid"])
	info, err = c.Head(t.Context(), bucket, "sub/dir/", nil)
	require.NoError(t, err)
	require.Equal(t, "16704", info.Metadata["mode"])
	require.Equal(t, directoryType, info.ContentType)

	down := t.TempDir()
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(down), o)
	defer func() { require.NoError(t, os.Chmod(filepath.Join(down, "sub", "dir"), 0o700)) }()
	for name, mode := range map[string]fs.FileMode{"run": 0o755, "secret": 0o600, "sub/dir": fs.ModeDir | 0o500, "sub/dir/x": 0o644} {
		info, err := os.Stat(filepath.Join(down, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
		if !info.IsDir() {
			require.Equal(t, old.UnixNano(), info.ModTime().UnixNano(), name)
		}
	}
	r, _ := syncBoth(t, Remote(c, bucket, ""), Local(down), o)
	require.EqualValues(t, 0, r.Copied)

	plain := t.TempDir() // without Preserve, files get the time of the objects
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(plain), Options{})
	info2, err := os.Stat(filepath.Join(plain, "secret"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), info2.ModTime(), time.Minute)
	require.NotEqual(t, fs.FileMode(0o600), info2.Mode().Perm())
	// A file that is replaced keeps its permissions.
	require.NoError(t, os.Chmod(filepath.Join(plain, "run"), 0o700))
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(plain), Options{Always: true})
	info2, err = os.Stat(filepath.Join(plain, "run"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info2.Mode().Perm())
}

// TestAttributesOfOthers reads the metadata of rclone and s3fs.
func TestAttributesOfOthers(t *testing.T) {
	c, bucket := newBucket(t)
	for key, meta := range map[string]map[string]string{
		"rclone": {"mode": "100640", "mtime": "1580702706.5"}, "s3fs": {"mode": "33184", "mtime": "1580702706"},
	} {
		_, err := c.Put(t.Context(), bucket, key, strings.NewReader("x"), &sdk.PutOptions{Properties: sdk.Properties{Metadata: meta}})
		require.NoError(t, err)
	}
	_, err := c.Put(t.Context(), bucket, "link", strings.NewReader("s3fs"), &sdk.PutOptions{Properties: sdk.Properties{Metadata: map[string]string{"mode": "41471"}}})
	require.NoError(t, err)
	dir := t.TempDir()
	o := Options{Preserve: true, Symlinks: StoreSymlinks}
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(dir), o)
	require.Equal(t, map[string]string{"rclone": "x", "s3fs": "x", "link": "-> s3fs"}, read(t, dir))
	for _, name := range []string{"rclone", "s3fs"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode(), name)
		require.EqualValues(t, 1580702706, info.ModTime().Unix())
	}
	r, done := syncBoth(t, Remote(c, bucket, ""), Local(dir), o)
	require.EqualValues(t, 0, r.Copied, "%q", done)
}

func TestSymlinks(t *testing.T) {
	c, bucket := newBucket(t)
	files := map[string]string{"a/file": "1", "link": "-> a/file", "dir-link": "-> a", "broken": "-> nowhere/else", "out": "-> /etc/passwd"}
	dir := write(t, t.TempDir(), files)
	o := Options{Symlinks: StoreSymlinks, Delete: true}
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), o)
	require.Equal(t, map[string]string{"a/file": "1", "link.rclonelink": "a/file", "dir-link.rclonelink": "a", "broken.rclonelink": "nowhere/else",
		"out.rclonelink": "/etc/passwd"}, objects(t, c, bucket, ""))
	down := write(t, t.TempDir(), map[string]string{"regular.rclonelink": "1", "extra": "-> x", "link": "-> elsewhere!", "dir-link": "-> b"})
	require.NoError(t, os.Chmod(down, 0o700))
	_, done := syncBoth(t, Remote(c, bucket, ""), Local(down), o)
	require.Contains(t, done, "copy link.rclonelink (size)")
	require.Contains(t, done, "delete extra.rclonelink (extra)")
	got := read(t, down)
	require.Equal(t, "-> a/file", got["link"])
	require.NotContains(t, got, "extra")
	require.NotContains(t, got, "regular.rclonelink")
	r, done := syncBoth(t, Remote(c, bucket, ""), Local(down), o)
	require.EqualValues(t, 0, r.Copied, "%q", done)

	// A link in the target is replaced by a file, and what it leads to stays.
	c, bucket = newBucket(t)
	put(t, c, bucket, map[string]string{"f": "new"})
	outside := write(t, t.TempDir(), map[string]string{"victim": "old"})
	down = write(t, t.TempDir(), map[string]string{"f": "-> " + filepath.Join(outside, "victim")})
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(down), Options{})
	require.Equal(t, map[string]string{"f": "new"}, read(t, down))
	require.Equal(t, map[string]string{"victim": "old"}, read(t, outside))
}

func TestFollowedSymlinks(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), map[string]string{"a/file": "1", "link": "-> a/file", "dir": "-> a"})
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Symlinks: FollowSymlinks})
	require.Equal(t, map[string]string{"a/file": "1", "link": "1", "dir/file": "1"}, objects(t, c, bucket, ""))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	r, err := Sync(t.Context(), Local(dir), Remote(c, bucket, ""), Options{Symlinks: FollowSymlinks})
	require.ErrorIs(t, err, ErrPartial)
	require.Equal(t, "out", r.Errors[0].Path)
	require.Len(t, objects(t, c, bucket, ""), 3)
}

func TestEmptyDirectories(t *testing.T) {
	c, bucket := newBucket(t)
	files := map[string]string{"a/": "", "b/c/": "", "d/e": "1"}
	dir := write(t, t.TempDir(), files)
	_, done := syncBoth(t, Local(dir), Remote(c, bucket, "x"), Options{Directories: true, Delete: true})
	require.Contains(t, done, "mkdir a/ (new)")
	require.Equal(t, map[string]string{"a/": "", "b/": "", "b/c/": "", "d/": "", "d/e": "1"}, objects(t, c, bucket, "x/"))
	r, done := syncBoth(t, Local(dir), Remote(c, bucket, "x"), Options{Directories: true, Delete: true})
	require.Equal(t, actions{"skip d/e (equal)"}, done)
	require.EqualValues(t, 0, r.Deleted)
	down := t.TempDir()
	_, _ = syncBoth(t, Remote(c, bucket, "x"), Local(down), Options{Delete: true})
	require.Equal(t, files, read(t, down))
	_, done = syncBoth(t, Remote(c, bucket, "x"), Local(down), Options{Delete: true})
	require.Equal(t, actions{"skip d/e (equal)"}, done)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, "x"), Options{Delete: true}) // without Directories: those of the source stay
	require.Equal(t, map[string]string{"a/": "", "d/": "", "d/e": "1"}, objects(t, c, bucket, "x/"))
}

// TestFilesInTheWay: with Delete, an extra file makes way for a directory, and the other way round.
func TestFilesInTheWay(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"a/b": "1", "c": "2"})
	for _, dry := range []bool{true, false} {
		dir := write(t, t.TempDir(), map[string]string{"a": "file", "c/d/e": "dir"})
		r, err := Sync(t.Context(), Remote(c, bucket, ""), Local(dir), Options{DryRun: dry})
		require.ErrorIs(t, err, ErrPartial)
		require.EqualValues(t, 2, r.Failed)
		require.Equal(t, map[string]string{"a": "file", "c/d/e": "dir"}, read(t, dir))
	}
	dir := write(t, t.TempDir(), map[string]string{"a": "file", "c/d/e": "dir"})
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(dir), Options{Delete: true})
	require.Equal(t, map[string]string{"a/b": "1", "c": "2"}, read(t, dir))
}

// TestCaseOfNames: on file systems that do not distinguish case, only one of several names is written.
func TestCaseOfNames(t *testing.T) {
	p := &plan{engine: &engine{options: &Options{}}, folded: newFolded(), rules: nameRules{foldCase: true}}
	require.NoError(t, p.checkName(&task{path: "README"}))
	require.ErrorContains(t, p.checkName(&task{path: "Readme"}), "only in case")
	require.NoError(t, p.checkName(&task{path: "Readme2"}))
	dir := write(t, t.TempDir(), map[string]string{"file": ""})
	l, err := openLocal(dir)
	require.NoError(t, err)
	defer l.close()
	p.toLocal = l
	_, err = p.look(&task{path: "file"}) // the listing does not have "file", but the system finds it
	require.ErrorContains(t, err, "only in case")
}

func TestMove(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), sample)
	put(t, c, bucket, map[string]string{"a": "1"})
	o, done := collect(Options{})
	r, err := Move(t.Context(), Local(dir), Remote(c, bucket, ""), o)
	require.NoError(t, err)
	require.EqualValues(t, 7, r.Copied)
	require.EqualValues(t, 8, r.Deleted, "a file that the target already has is deleted, too")
	require.Contains(t, done(), "delete a (moved)")
	require.Equal(t, sample, objects(t, c, bucket, ""))
	require.NotContains(t, read(t, dir), "a")

	dry, planned := collect(Options{DryRun: true})
	down := t.TempDir()
	_, err = Move(t.Context(), Remote(c, bucket, ""), Local(down), dry)
	require.NoError(t, err)
	o, done = collect(Options{})
	_, err = Move(t.Context(), Remote(c, bucket, ""), Local(down), o)
	require.NoError(t, err)
	require.Equal(t, planned(), done())
	require.Equal(t, sample, read(t, down))
	require.Empty(t, objects(t, c, bucket, ""))
}

func TestSingleFiles(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), map[string]string{"a.html": "<p>", "link": "-> a.html"})
	r, err := CopyFile(t.Context(), File(filepath.Join(dir, "a.html")), Object(c, bucket, "x/y.html"), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Copied)
	_, err = CopyFile(t.Context(), File(filepath.Join(dir, "link")), Object(c, bucket, "linked"), Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x/y.html": "<p>", "linked": "<p>"}, objects(t, c, bucket, ""))
	r, err = CopyFile(t.Context(), File(filepath.Join(dir, "a.html")), Object(c, bucket, "x/y.html"), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Skipped)
	_, err = CopyFile(t.Context(), Object(c, bucket, "x/y.html"), File(filepath.Join(dir, "down", "b")), Options{})
	require.NoError(t, err)
	r, err = MoveFile(t.Context(), Object(c, bucket, "x/y.html"), Object(c, bucket, "z"), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Deleted)
	require.Equal(t, map[string]string{"z": "<p>", "linked": "<p>"}, objects(t, c, bucket, ""))
	require.Equal(t, "<p>", read(t, dir)["down/b"])

	_, err = CopyFile(t.Context(), Object(c, bucket, "missing"), File(filepath.Join(dir, "x")), Options{})
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	_, err = CopyFile(t.Context(), File(filepath.Join(dir, "missing")), Object(c, bucket, "x"), Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = CopyFile(t.Context(), File(filepath.Join(dir, "down")), Object(c, bucket, "x"), Options{})
	require.ErrorContains(t, err, "is a directory")
	_, err = CopyFile(t.Context(), Object(c, bucket, "z"), File(filepath.Join(dir, "down")), Options{})
	require.ErrorContains(t, err, "is a directory")
	_, err = CopyFile(t.Context(), Object(c, bucket, "z/"), File(filepath.Join(dir, "q")), Options{})
	require.ErrorContains(t, err, "not the address of an object")
	_, err = CopyFile(t.Context(), Object(c, bucket, "z"), File(dir+"/"), Options{})
	require.ErrorContains(t, err, "not the path of a file")
}

// TestMovedLinkIsDeleted: a link that the caller names is followed, and then deleted.
func TestMovedLinkIsDeleted(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), map[string]string{"file": "content", "link": "-> file"})
	r, err := MoveFile(t.Context(), File(filepath.Join(dir, "link")), Object(c, bucket, "x"), Options{})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Deleted)
	require.Equal(t, map[string]string{"file": "content"}, read(t, dir))
	require.Equal(t, map[string]string{"x": "content"}, objects(t, c, bucket, ""))
}

// TestMoveKeepsWhatChanged: a file that changed after it was copied is not deleted.
func TestMoveKeepsWhatChanged(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"f": "12"})
	l, err := openLocal(dir)
	require.NoError(t, err)
	defer l.close()
	e := &engine{options: &Options{}, fromLocal: l, purpose: moving}
	f := entry{path: "f"}
	require.NoError(t, l.stat(&f, false))
	f.modified--
	require.ErrorIs(t, e.deleteSource(t.Context(), &task{from: f}), errChanged)
	f.modified++
	require.NoError(t, e.deleteSource(t.Context(), &task{from: f}))
	require.Empty(t, read(t, dir))
}

// TestMarkersOfDirectories: the object for a directory that exists is not extra, also if what is in it is excluded.
func TestMarkersOfDirectories(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"a/": "", "b/": "", "a/x": "1"})
	dir := write(t, t.TempDir(), map[string]string{"a/y": ""})
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Delete: true, Patterns: patterns(t, "- a/**")})
	require.Equal(t, map[string]string{"a/": "", "a/x": "1"}, objects(t, c, bucket, ""))
}

// TestRenameReplacesNothing: another program may have written the free name in the meantime.
func TestRenameReplacesNothing(t *testing.T) {
	var conditional []string
	c, bucket := newBucket(t, func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool {
			if r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" {
				conditional = append(conditional, r.URL.Path)
			}
			return false
		}}
	})
	put(t, c, bucket, map[string]string{"a": "target"})
	dir := write(t, t.TempDir(), map[string]string{"a": "source!", "b": ""})
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, ""), Options{Conflict: Rename})
	require.Equal(t, []string{"/" + bucket + "/a (1)"}, conditional)
}

// TestCustomerKeys: objects that are encrypted with a key of the caller are read with it, too.
func TestCustomerKeys(t *testing.T) {
	s, stop, err := startServer(t.TempDir(), true)
	require.NoError(t, err)
	t.Cleanup(stop)
	c := newClient(t, s.Endpoint(), func(c *sdk.Config) { c.TLS = &tls.Config{InsecureSkipVerify: true} })
	dir, down := write(t, t.TempDir(), map[string]string{"a": "secret", "big": strings.Repeat("x", 17<<20)}), t.TempDir()
	var o Options
	o.Put.Encryption.CustomerKey = bytes.Repeat([]byte{7}, 32)
	o.StateDir, o.Checksum = t.TempDir(), true
	_, _ = syncBoth(t, Local(dir), Remote(c, "bucket", "enc"), o)
	_, err = c.Head(t.Context(), "bucket", "enc/a", nil)
	require.Error(t, err, "the key is needed")
	_, _ = syncBoth(t, Remote(c, "bucket", "enc"), Local(down), o)
	require.Equal(t, read(t, dir), read(t, down))
	r, _ := syncBoth(t, Local(dir), Remote(c, "bucket", "enc"), o)
	require.EqualValues(t, 2, r.Skipped)
}

func TestFatalErrors(t *testing.T) {
	c, bucket := newBucket(t)
	dir := write(t, t.TempDir(), sample)
	for _, dry := range []bool{true, false} {
		_, err := Sync(t.Context(), Local(dir), Remote(c, bucket+"-missing", ""), Options{DryRun: dry})
		require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
		target := filepath.Join(t.TempDir(), "target")
		_, err = Sync(t.Context(), Remote(c, bucket+"-missing", ""), Local(target), Options{DryRun: dry})
		require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
		require.NoDirExists(t, target, "nothing is created for nothing")
		_, err = Sync(t.Context(), Local(filepath.Join(dir, "missing")), Remote(c, bucket, ""), Options{DryRun: dry})
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = Sync(t.Context(), Local(filepath.Join(dir, "a")), Remote(c, bucket, ""), Options{DryRun: dry})
		require.Error(t, err, "a file is not a directory")
	}
	wrong := newClient(t, shared, func(c *sdk.Config) { c.Credentials = sdk.Static(access, "wrong") })
	_, err := Sync(t.Context(), Local(dir), Remote(wrong, bucket, ""), Options{})
	require.ErrorIs(t, err, sdk.ErrSignature)
	e := &engine{}
	require.True(t, e.fatal(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}))
	require.False(t, e.fatal(errors.New("x")))
}

// TestDenied: a single denied file is reported, and if all are denied, the transfer ends early.
func TestDenied(t *testing.T) {
	c, bucket := newBucket(t, func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/denied") }}
	})
	dir := write(t, t.TempDir(), map[string]string{"a": "1", "denied": "2", "z": "3"})
	r, err := Sync(t.Context(), Local(dir), Remote(c, bucket, ""), Options{Delete: true})
	require.ErrorIs(t, err, ErrPartial)
	require.ErrorIs(t, err, sdk.ErrAccessDenied)
	require.ErrorContains(t, err, "1 of 3")
	require.EqualValues(t, 2, r.Copied)
	require.Equal(t, "denied", r.Errors[0].Path)

	c, bucket = newBucket(t, func(c *sdk.Config) {
		c.Transport = denying{http.DefaultTransport, func(r *http.Request) bool { return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/f") }}
	})
	for i := range 200 {
		write(t, dir, map[string]string{"f" + string(rune('0'+i)): ""})
	}
	r, err = Sync(t.Context(), Local(dir), Remote(c, bucket, ""), Options{Parallel: 1, Patterns: patterns(t, "+ f*")})
	require.ErrorIs(t, err, sdk.ErrAccessDenied)
	require.NotErrorIs(t, err, ErrPartial)
	require.LessOrEqual(t, r.Failed, int64(deniedMax))
}

// denying is a transport that denies some requests.
type denying struct {
	http.RoundTripper
	deny func(*http.Request) bool
}

func (d denying) RoundTrip(r *http.Request) (*http.Response, error) {
	if !d.deny(r) {
		return d.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: 403, Header: http.Header{}, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func TestFilesThatChange(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{"f": "12345"})
	l, err := openLocal(dir)
	require.NoError(t, err)
	defer l.close()
	var buf bytes.Buffer
	e := entry{path: "f", size: 1} // it has become longer since
	ok, err := l.read(&e, &buf)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 5, e.size)
	require.Equal(t, "12345", buf.String())
	times := 0
	l.reading = func() { // the same size, another time
		if times++; times <= 2 {
			require.NoError(t, os.Chtimes(filepath.Join(dir, "f"), old, old.Add(time.Duration(times)*time.Second)))
		}
	}
	ok, err = l.read(&e, &buf)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 3, times)
	require.Equal(t, old.Add(2*time.Second).UnixNano(), e.modified)
	times = -10
	_, err = l.read(&e, &buf)
	require.ErrorIs(t, err, errChanged, "it changes all the time")
	l.reading = nil
	require.NoError(t, os.Truncate(filepath.Join(dir, "f"), smallMax+1))
	ok, err = l.read(&e, &buf)
	require.NoError(t, err)
	require.False(t, ok, "too large now")
	require.EqualValues(t, smallMax+1, e.size)
}

func TestStaleFilesAreRemoved(t *testing.T) {
	c, bucket := newBucket(t)
	put(t, c, bucket, map[string]string{"a": "1"})
	dir := write(t, t.TempDir(), map[string]string{".orcas-0123456789abcdef.tmp": "stale", ".orcas-0123456789abcdee.tmp": "fresh"})
	require.NoError(t, os.Chtimes(filepath.Join(dir, ".orcas-0123456789abcdee.tmp"), time.Now(), time.Now()))
	_, _ = syncBoth(t, Remote(c, bucket, ""), Local(dir), Options{Delete: true})
	require.Equal(t, map[string]string{"a": "1", ".orcas-0123456789abcdee.tmp": "fresh"}, read(t, dir))
	_, _ = syncBoth(t, Local(dir), Remote(c, bucket, "up"), Options{})
	require.Equal(t, map[string]string{"a": "1"}, objects(t, c, bucket, "up/"), "temporary files are not part of a tree")
}
