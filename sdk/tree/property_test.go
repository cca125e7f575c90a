package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/sdk"
)

// trees generates files of a tree: no path is below another file.
var trees = rapid.Custom(func(t *rapid.T) map[string]string {
	part := rapid.StringMatching(`[a-c]{1,2}|[ab][-. (+&%]?[ab]|é|\.x`)
	path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/") })
	content := rapid.StringMatching(`[x-z]{0,3}`)
	files := rapid.MapOfN(path, content, 0, 12).Draw(t, "files")
	var s ancestry
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if s.add(path, path) != "" {
			delete(files, path)
		}
	}
	return files
})

// place is a tree with a way to read and replace it.
type testTree struct {
	Place
	read func() map[string]string
}

// localTree is a local directory with files.
func localTree(t *testing.T, files map[string]string) testTree {
	dir, err := os.MkdirTemp(t.TempDir(), "tree")
	require.NoError(t, err)
	write(t, dir, files)
	return testTree{Local(dir), func() map[string]string { return read(t, dir) }}
}

// remoteTree is a prefix with files.
func remoteTree(t *testing.T, c *sdk.Client, bucket string, files map[string]string) testTree {
	prefix := fmt.Sprintf("%d/", prefixes.Add(1))
	for path, content := range files {
		put(t, c, bucket, map[string]string{prefix + path: content})
	}
	return testTree{Remote(c, bucket, prefix), func() map[string]string { return objects(t, c, bucket, prefix) }}
}

var prefixes atomic.Int64

// TestTreesBecomeEqual: whatever two trees contain, Sync with Delete makes the second one equal to the first, a dry run
// reports the same actions, a second run does nothing, and Diff finds exactly what Sync copies and deletes.
func TestTreesBecomeEqual(t *testing.T) {
	c, bucket := newBucket(t)
	rapid.Check(t, func(r *rapid.T) {
		a, b := trees.Draw(r, "from"), trees.Draw(r, "to")
		kinds := rapid.SampledFrom([]string{"up", "down", "between"}).Draw(r, "direction")
		var from, to testTree
		switch kinds {
		case "up":
			from, to = localTree(t, a), remoteTree(t, c, bucket, b)
		case "down":
			from, to = remoteTree(t, c, bucket, a), localTree(t, b)
		default:
			from, to = remoteTree(t, c, bucket, a), remoteTree(t, c, bucket, b)
		}
		o := Options{Delete: true, Checksum: true, Parallel: rapid.SampledFrom([]int{1, 4, 64}).Draw(r, "parallel")}
		var found []string
		for d, err := range Diff(t.Context(), from.Place, to.Place, o) {
			require.NoError(r, err)
			found = append(found, map[DifferenceKind]string{OnlyFrom: "copy ", Differs: "copy ", OnlyTo: "delete "}[d.Kind]+d.Path)
		}
		_, done := syncBoth(t, from.Place, to.Place, o)
		var changed []string
		for _, s := range done {
			s, _, _ = strings.Cut(s, " (new)")
			s, _, _ = strings.Cut(s, " (size)")
			s, _, _ = strings.Cut(s, " (checksum)")
			s, _, _ = strings.Cut(s, " (extra)")
			if !strings.HasPrefix(s, "skip") && !strings.HasSuffix(s, "/") {
				changed = append(changed, s)
			}
		}
		require.ElementsMatch(r, found, changed)
		require.Equal(r, a, to.read())
		require.Equal(r, a, from.read(), "the source does not change")
		result, _ := syncBoth(t, from.Place, to.Place, o)
		require.EqualValues(r, 0, result.Copied+result.Deleted)
		for d, err := range Diff(t.Context(), from.Place, to.Place, o) {
			r.Fatalf("%+v %v", d, err)
		}
	})
}

// TestRoundTrips: a tree comes back as it was, after random changes, too.
func TestRoundTrips(t *testing.T) {
	c, bucket := newBucket(t)
	rapid.Check(t, func(r *rapid.T) {
		a, b := trees.Draw(r, "files"), trees.Draw(r, "changes")
		source, remote, back := localTree(t, a), remoteTree(t, c, bucket, nil), localTree(t, nil)
		o := Options{Delete: true, Preserve: true, Symlinks: StoreSymlinks, Directories: true}
		for _, files := range []map[string]string{a, b} {
			require.NoError(r, os.RemoveAll(source.dir))
			write(t, source.dir, files)
			for path := range files { // a change of content comes with a later time
				require.NoError(r, os.Chtimes(filepath.Join(source.dir, filepath.FromSlash(path)), time.Now(), time.Now()))
			}
			_, _ = syncBoth(t, source.Place, remote.Place, o)
			_, _ = syncBoth(t, remote.Place, back.Place, o)
			require.Equal(r, source.read(), back.read())
		}
	})
}

// TestInterruptions: a run that ends at a random request leaves nothing half done, and a later one completes it.
func TestInterruptions(t *testing.T) {
	files := randomFiles(60, 2000)
	ended := errors.New("ended")
	for round := range 20 {
		var left atomic.Int64
		left.Store(1 << 40)
		cancel := func(error) {}
		c, bucket := newBucket(t, func(c *sdk.Config) {
			c.RefLevel = sdk.RefLevel(round % 3)
			c.Transport = denying{http.DefaultTransport, func(*http.Request) bool {
				if left.Add(-1) == 0 {
					cancel(ended)
				}
				return false
			}}
		})
		dir, down := write(t, t.TempDir(), files), filepath.Join(t.TempDir(), "down")
		for _, x := range [][2]Place{{Local(dir), Remote(c, bucket, "")}, {Remote(c, bucket, ""), Local(down)}} {
			ctx, end := context.WithCancelCause(t.Context())
			cancel = end
			left.Store(1 + rand.Int64N(60))
			_, err := Sync(ctx, x[0], x[1], Options{Delete: true, Parallel: 8})
			require.ErrorIs(t, err, ended)
			left.Store(1 << 40)
			if x[1].remote() {
				requireSubset(t, files, objects(t, c, bucket, ""))
			} else if _, err := os.Stat(down); err == nil {
				requireSubset(t, files, read(t, down))
			}
			_, err = Sync(t.Context(), x[0], x[1], Options{Delete: true, Parallel: 8})
			require.NoError(t, err)
		}
		require.Equal(t, files, read(t, down))
		cancel(nil)
	}
}

// requireSubset checks that every file is one of those expected, with all of its content.
func requireSubset(t *testing.T, want, got map[string]string) {
	t.Helper()
	for path, content := range got {
		require.Equal(t, want[path], content, path)
	}
}
