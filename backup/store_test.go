package backup_test

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/backup"
	"orcas/batch"
	"orcas/content"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/sqlite"
	"orcas/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// smallName is the name of a file that backups store in their manifests.
const smallName = "small.json"

// store is a store on disk, of which the tests make backups.
type store struct{ *storetest.Store }

func open(t *testing.T, dir string) *store { return openWith(t, dir, batch.Options{}) }

func openWith(t *testing.T, dir string, o batch.Options) *store {
	s := storetest.Open(t, storetest.Options{Dir: dir, Batch: o, FS: &content.Options{}})
	s.Rand = rand.New(rand.NewPCG(5, 5))
	return &store{s}
}

func (s *store) options(dir string) backup.Options {
	return backup.Options{Meta: s.Meta, Blocks: s.Blocks, DataDir: s.Dir, SmallFiles: []string{smallName}, Dir: dir, Pause: s.Reclaimer.Pause}
}

// backup makes a backup, and requires that it has no problems.
func (s *store) backup(dir string) *backup.Report {
	s.T.Helper()
	return s.backupWith(s.options(dir))
}

func (s *store) backupWith(o backup.Options) *backup.Report {
	s.T.Helper()
	r, err := backup.Backup(ctx, o)
	require.NoError(s.T, err)
	require.Empty(s.T, r.Problems)
	return r
}

func requireWhole(t *testing.T, dir, name string) {
	t.Helper()
	r, err := backup.Check(ctx, dir, name, nil)
	require.NoError(t, err)
	require.Empty(t, r.Problems)
}

// restored restores a backup to a new data directory, and requires that it has no problems.
func restored(t *testing.T, dir, name string) (data string, report *backup.Report) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	report, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, Backup: name, DataDir: data, Fork: disk.Fork, Marker: disk.Marker})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	return data, report
}

// rebuilt returns the metadata that is rebuilt from the blocks of a data directory.
func rebuilt(t *testing.T, data string) *coretest.MetaState {
	t.Helper()
	blocks, err := disk.Open(data, disk.Options{})
	require.NoError(t, err)
	defer blocks.Close()
	meta, err := sqlite.Open(filepath.Join(t.TempDir(), storetest.Database), sqlite.Options{})
	require.NoError(t, err)
	defer meta.Close()
	_, err = batch.Recover(ctx, meta, blocks, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	state, err := coretest.ReadMeta(ctx, meta)
	require.NoError(t, err)
	return state
}

func requireSame(t *testing.T, want, got *coretest.MetaState) {
	t.Helper()
	require.Equal(t, want.State, got.State)
	require.True(t, reflect.DeepEqual(want.Comparable(), got.Comparable()), "the metadata differs")
}

// requireRestores restores a backup, and compares it with the expected metadata and content.
func requireRestores(t *testing.T, dir, name string, state *coretest.MetaState, want map[string][]byte) {
	t.Helper()
	data, report := restored(t, dir, name)
	require.Equal(t, state.State.Seq, report.Seq)
	requireSame(t, state, rebuilt(t, data))
	s := open(t, data)
	defer s.Close()
	maps.Copy(s.Want, want)
	s.Check()
	s.Churn(10) // the restored store must be writable
}

// files returns the files below dir, with their sizes.
func files(t *testing.T, dir string) map[string]int64 {
	all := map[string]int64{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := os.Stat(path)
		all[path] = st.Size()
		return err
	}))
	return all
}

// blocksIn returns the files of blocks in a backup directory or a data directory, sorted.
func blocksIn(t *testing.T, dir string) []string {
	return slices.Sorted(maps.Keys(files(t, filepath.Join(dir, "blocks"))))
}
