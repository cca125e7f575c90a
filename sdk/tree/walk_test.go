package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// walkAll returns the paths of a walk, and its errors.
func walkAll(t testing.TB, dir string, f filter, s Symlinks) (paths []string, errs map[string]error) {
	t.Helper()
	l, err := openLocal(dir)
	require.NoError(t, err)
	defer l.close()
	w := l.walkStream(t.Context(), f, s, nil)
	errs = map[string]error{}
	for e := w.next(); e != nil; e = w.next() {
		paths = append(paths, e.path)
		if e.err != nil {
			errs[e.path] = e.err
		}
	}
	require.NoError(t, w.err)
	return paths, errs
}

func TestWalkHasTheOrderOfKeys(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"a": "", "a.txt": "", "a-b/c": "", "b/c": "", "b.txt": "", "b-c": "", "b0": "", "b\x01": "", "empty/": "", "z/y/x/w": "", "z/y.x": "", ".hidden": "", "日本": "",
	})
	paths, _ := walkAll(t, dir, nil, SkipSymlinks)
	require.Equal(t, []string{".hidden", "a", "a-b/", "a-b/c", "a.txt", "b\x01", "b-c", "b.txt", "b/", "b/c", "b0", "empty/",
		"z/", "z/y.x", "z/y/", "z/y/x/", "z/y/x/w", "日本"}, paths)
	require.True(t, slices.IsSorted(paths))
}

func TestNamesAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`(ab|commonprefix|[a-c.0/\x01-]|é){1,12}`)
		list := rapid.SliceOfDistinct(name, func(s string) string { return s }).Draw(t, "names")
		var n names
		for _, s := range list {
			require.NoError(t, n.add(s, file))
		}
		n.sort()
		slices.Sort(list)
		for i, s := range list {
			require.Equal(t, s, string(n.bytes(i)))
		}
		require.Len(t, n.items, len(list))
	})
}

func TestWalkOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * batchEntries {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d", i)), []byte("x"), 0o600))
	}
	l, err := openLocal(dir)
	require.NoError(t, err)
	defer l.close()
	w := l.walkStream(t.Context(), nil, SkipSymlinks, nil)
	n := 0
	for e := w.next(); e != nil; e = w.next() {
		require.NoError(t, e.err)
		require.EqualValues(t, 1, e.size)
		require.WithinDuration(t, time.Now(), time.Unix(0, e.modified), time.Hour)
		n++
	}
	require.Equal(t, 3*batchEntries, n)
}

func TestWalkDoesNotLeaveTheTree(t *testing.T) {
	outside := write(t, t.TempDir(), map[string]string{"secret": "s", "dir/secret": "s"})
	dir := write(t, t.TempDir(), map[string]string{
		"real/file": "1", "inside": "-> real", "file-link": "-> real/file", "up": "-> " + outside, "up-file": "-> " + outside + "/secret",
		"real/loop": "-> ..", "broken": "-> nowhere", "dots": "-> ../" + filepath.Base(outside),
	})
	paths, _ := walkAll(t, dir, nil, SkipSymlinks)
	require.Contains(t, paths, "inside", "links are reported as something that is not transferred")
	require.NotContains(t, paths, "inside/file")

	paths, _ = walkAll(t, dir, nil, StoreSymlinks)
	require.Contains(t, paths, "inside.rclonelink")
	require.Contains(t, paths, "up.rclonelink")
	require.True(t, slices.IsSorted(paths))

	paths, errs := walkAll(t, dir, nil, FollowSymlinks)
	require.Contains(t, paths, "inside/file")
	require.Contains(t, paths, "file-link")
	for _, name := range []string{"up", "up-file", "broken", "dots", "real/loop/", "inside/loop/"} {
		require.Error(t, errs[name], name)
	}
	require.False(t, slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(p, "secret") }), "%q", paths)
}

func TestWalkReportsWhatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		// Root can read everything, so the test removes a directory while the walk is on its way.
		dir := write(t, t.TempDir(), map[string]string{"a/b/c": "", "d": ""})
		l, err := openLocal(dir)
		require.NoError(t, err)
		defer l.close()
		w := &walk{local: l, ctx: t.Context()}
		list, _, err := w.read("a/", nil)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "a", "b")))
		require.NoError(t, w.directory("a/", list, nil))
		require.Equal(t, "a/b/", w.current.entries[0].path)
		require.ErrorIs(t, w.current.entries[0].err, os.ErrNotExist)
		return
	}
	dir := write(t, t.TempDir(), map[string]string{"a/b": "", "c": ""})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0))
	defer func() { require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o700)) }()
	paths, errs := walkAll(t, dir, nil, SkipSymlinks)
	require.Equal(t, []string{"a/", "c"}, paths)
	require.ErrorIs(t, errs["a/"], os.ErrPermission)
}

func TestWalkOfNoDirectory(t *testing.T) {
	_, err := openLocal(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(write(t, t.TempDir(), map[string]string{"f": ""}), "f")
	_, err = openLocal(file)
	require.Error(t, err)
}

func TestStreamsMustBeSorted(t *testing.T) {
	for name, list := range map[string][]entry{
		"backwards": {{path: "b"}, {path: "a"}}, "twice": {{path: "a"}, {path: "a"}},
	} {
		batches := make(chan *batch, 1)
		batches <- &batch{entries: list}
		close(batches)
		s := &stream{ctx: t.Context(), batches: batches, where: "x"}
		require.NotNil(t, s.next(), name)
		require.Nil(t, s.next(), name)
		require.ErrorContains(t, s.err, "not in order", name)
		require.Nil(t, s.next(), "an error is final")
	}
}

func TestJoin(t *testing.T) {
	stream := func(err error, paths ...string) *stream {
		batches := make(chan *batch, len(paths)+1)
		for _, p := range paths {
			batches <- &batch{entries: []entry{{path: p}}}
		}
		if err != nil {
			batches <- &batch{err: err}
		}
		close(batches)
		return &stream{ctx: t.Context(), batches: batches}
	}
	all := func(j *join) (list []string) {
		for {
			p, ok := j.next()
			switch {
			case !ok:
				return list
			case p.from == nil:
				list = append(list, "+"+p.to.path)
			case p.to == nil:
				list = append(list, "-"+p.from.path)
			default:
				require.Equal(t, p.from.path, p.to.path)
				list = append(list, p.from.path)
			}
		}
	}
	require.Equal(t, []string{"-a", "b", "+c", "d", "+e"}, all(&join{a: stream(nil, "a", "b", "d"), b: stream(nil, "b", "c", "d", "e")}))
	require.Equal(t, []string{"-a", "-b"}, all(&join{a: stream(nil, "a", "b")}))
	broken := errors.New("broken")
	j := &join{a: stream(nil, "a", "z"), b: stream(broken, "b")}
	require.Equal(t, []string{"-a", "+b"}, all(j), "nothing is concluded from a listing that is incomplete")
	require.ErrorIs(t, j.err(), broken)
}

func BenchmarkWalk(b *testing.B) {
	dir := b.TempDir()
	const files = 10_000
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%07d", i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if paths, _ := walkAll(b, dir, nil, SkipSymlinks); len(paths) != files {
			b.Fatal(len(paths))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/file")
}
