package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesForget changes names with and without syncs of their directories, and undoes the changes that are not
// durable.
func TestNamesForget(t *testing.T) {
	if !private(t) {
		return
	}
	dir := t.TempDir()
	lower, limbo, view := filepath.Join(dir, "lower"), filepath.Join(dir, "limbo"), filepath.Join(dir, "view")
	for _, path := range []string{lower, limbo, view} {
		require.NoError(t, os.Mkdir(path, 0o755))
	}
	names, err := MountNames(lower, limbo, view)
	if err != nil {
		cannot(t, err.Error())
	}
	write := func(name string) { require.NoError(t, os.WriteFile(filepath.Join(view, name), []byte(name), 0o644)) }
	syncDir := func(name string) {
		d, err := os.Open(filepath.Join(view, name))
		require.NoError(t, err)
		require.NoError(t, d.Sync())
		require.NoError(t, d.Close())
	}
	rename := func(from, to string) {
		require.NoError(t, os.Rename(filepath.Join(view, from), filepath.Join(view, to)))
	}

	require.NoError(t, os.Mkdir(filepath.Join(view, "d"), 0o755))
	for _, name := range []string{"lasts", "removed", "replaced", "d/lasts"} {
		write(name)
	}
	syncDir("")
	syncDir("d")
	write("made")
	write("replaced.new")
	rename("replaced.new", "replaced")
	require.NoError(t, os.Remove(filepath.Join(view, "removed")))
	write("d/made")
	require.NoError(t, os.Mkdir(filepath.Join(view, "e"), 0o755))
	write("e/made")
	syncDir("e")
	write("d/synced")
	syncDir("d")
	write("d/late")
	require.Equal(t, "d/lasts d/late d/made d/synced e/made lasts made replaced:replaced.new", tree(t, view))

	pending, err := names.Freeze(func() error { return nil })
	require.NoError(t, err)
	require.NoError(t, names.Close())
	require.NoError(t, Forget(lower, limbo, pending))
	require.Equal(t, "d/lasts d/made d/synced lasts removed replaced", tree(t, lower))
	require.NoError(t, Forget(lower, limbo, pending), "the changes are already undone")
	require.Equal(t, "d/lasts d/made d/synced lasts removed replaced", tree(t, lower))
}

// TestForgetBelowALostDirectory undoes the removal of a directory whose parent the file system below has lost.
func TestForgetBelowALostDirectory(t *testing.T) {
	lower := t.TempDir()
	pending := []nameChange{{made: "e"}, {made: "e/inner"}, {removed: "e/inner", isDir: true}}
	require.NoError(t, Forget(lower, t.TempDir(), pending))
	require.Empty(t, tree(t, lower))
	require.NoError(t, os.Mkdir(filepath.Join(lower, "e"), 0o755))
	require.NoError(t, Forget(lower, t.TempDir(), pending[2:]))
	require.DirExists(t, filepath.Join(lower, "e", "inner"))
}

// tree returns the files below dir, in order, each with its content if that is not its name.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		if string(b) != path {
			path = fmt.Sprintf("%s:%s", path, b)
		}
		list = append(list, path)
		return err
	}))
	return strings.Join(list, " ")
}
