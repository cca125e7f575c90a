package backup_test

import (
	"bytes"
	"context"
	"fmt"
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

	"orcas/batch"
	"orcas/core"
	"orcas/core/backup"
	"orcas/core/cached"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/reclaim"
	"orcas/core/sqlite"
	"orcas/vfs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// reclaimWriter gives reclaim the write buffer.
type reclaimWriter struct{ *batch.Writer }

func (w reclaimWriter) DoAll(ctx context.Context, writes []reclaim.Write) ([]core.Result, []error) {
	list := make([]batch.Write, len(writes))
	for i, x := range writes {
		list[i] = batch.Write{Change: x.Change, Moved: x.Moved, Fresh: x.Fresh}
	}
	return w.Writer.DoAll(ctx, list)
}

// store is a whole store on real drivers, and what should be in it.
type store struct {
	t      *testing.T
	dir    string
	blocks *disk.Store
	meta   *cached.Meta
	writer *batch.Writer
	fs     *vfs.FS
	r      *reclaim.Reclaimer
	b      *core.BucketInfo
	rand   *rand.Rand
	want   map[string][]byte
}

// open opens the store in dir; close ends it.
func open(t *testing.T, dir string) *store { return openWith(t, dir, batch.Options{}) }

func openWith(t *testing.T, dir string, o batch.Options) *store {
	s := &store{t: t, dir: dir, rand: rand.New(rand.NewPCG(5, 5)), want: map[string][]byte{}}
	var err error
	s.blocks, err = disk.Open(dir, disk.Options{PackedSize: 1 << 20})
	require.NoError(t, err)
	database, err := sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
	require.NoError(t, err)
	s.meta, err = cached.New(database, cached.Options{})
	require.NoError(t, err)
	o.Meta, o.Blocks = s.meta, s.blocks
	s.writer, err = batch.Open(ctx, o)
	require.NoError(t, err)
	s.fs, err = vfs.New(vfs.Options{Meta: s.meta, Blocks: s.blocks, Writer: s.writer})
	require.NoError(t, err)
	s.r, err = reclaim.New(ctx, reclaim.Options{Meta: s.meta, Blocks: s.blocks, Writer: reclaimWriter{s.writer}, Quiet: s.fs.Quiet, Settle: s.writer.Settle})
	require.NoError(t, err)
	if s.b, err = s.fs.CreateBucket(ctx, core.BucketInfo{Name: "bucket"}); core.Is(err, core.BucketExists) {
		s.b, err = s.fs.Bucket(ctx, "bucket")
	}
	require.NoError(t, err)
	return s
}

func (s *store) close() {
	require.NoError(s.t, s.writer.Close())
	require.NoError(s.t, s.meta.Close())
	require.NoError(s.t, s.blocks.Close())
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(b)
	return b
}

func (s *store) put(key string, body []byte) {
	c, err := s.fs.NewContent(ctx, s.b, int64(len(body)))
	require.NoError(s.t, err)
	defer c.Discard()
	_, err = c.ReadFrom(bytes.NewReader(body))
	require.NoError(s.t, err)
	_, err = s.fs.Put(ctx, vfs.PutRequest{Bucket: s.b, Key: key, Content: c})
	require.NoError(s.t, err)
}

func (s *store) set(key string, body []byte) {
	s.put(key, body)
	s.want[key] = body
}

func (s *store) remove(key string) {
	s.fs.Delete(ctx, s.b, "", []vfs.DeleteRequest{{Key: key}})
	delete(s.want, key)
}

func (s *store) read(key string, v core.Version) ([]byte, error) {
	o, err := s.fs.Open(ctx, s.b, key, v)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	r, err := o.Range(ctx, 0, o.Info.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out bytes.Buffer
	_, err = r.WriteTo(&out)
	return out.Bytes(), err
}

// churn makes some random writes.
func (s *store) churn(n int) {
	for range n {
		key := fmt.Sprint("key-", s.rand.IntN(60))
		switch s.rand.IntN(12) {
		default:
			s.set(key, random(s.rand.Uint64(), 1+s.rand.IntN(40_000)))
		case 0:
			s.set(key, random(s.rand.Uint64(), 70_000+s.rand.IntN(600_000)))
		case 1, 2:
			s.remove(key)
		case 3:
			keys := slices.Sorted(maps.Keys(s.want))
			if len(keys) == 0 {
				continue
			}
			from := keys[s.rand.IntN(len(keys))]
			o, err := s.fs.Stat(ctx, s.b, from, core.Current)
			require.NoError(s.t, err)
			_, err = s.fs.Copy(ctx, vfs.CopyRequest{SourceBucket: s.b, Source: o, Bucket: s.b, Key: key})
			require.NoError(s.t, err)
			s.want[key] = s.want[from]
		case 4:
			tags := []core.Attr{{Name: "n", Value: fmt.Sprint(s.rand.IntN(1000))}}
			_, err := s.fs.Update(ctx, s.b, core.UpdateObject{Key: key, SetTags: true, Tags: tags})
			if _, there := s.want[key]; there || err == nil {
				require.NoError(s.t, err)
			}
		}
	}
}

// state reads all metadata.
func (s *store) state() *coretest.MetaState {
	state, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(s.t, err)
	state.Check(s.t)
	return state
}

// requireContents reads everything that should be there, and that there is no more.
func (s *store) requireContents(want map[string][]byte) {
	s.t.Helper()
	for key, body := range want {
		got, err := s.read(key, core.Current)
		require.NoError(s.t, err, "%s", key)
		require.True(s.t, bytes.Equal(body, got), "content of %s", key)
	}
	keys := 0
	for _, b := range s.state().Buckets {
		keys += len(b.Current)
	}
	require.Equal(s.t, len(want), keys)
}

func (s *store) options(dir string) backup.Options {
	return backup.Options{Meta: s.meta, Blocks: s.blocks, DataDir: s.dir, Dir: dir, Hold: s.r.Hold}
}

// backup makes one of which nothing is wrong.
func (s *store) backup(dir string) *backup.Report {
	s.t.Helper()
	return s.backupWith(s.options(dir))
}

func (s *store) backupWith(o backup.Options) *backup.Report {
	s.t.Helper()
	r, err := backup.Backup(ctx, o)
	require.NoError(s.t, err)
	require.Empty(s.t, r.Problems)
	return r
}

func requireWhole(t *testing.T, dir, name string) {
	t.Helper()
	r, err := backup.Check(ctx, dir, name, nil)
	require.NoError(t, err)
	require.Empty(t, r.Problems)
}

// restored makes a data directory of a backup of which nothing is wrong.
func restored(t *testing.T, dir, name string) (data string, report *backup.Report) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	report, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, Backup: name, DataDir: data, Fork: disk.Fork})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	return data, report
}

// rebuilt returns the metadata that the blocks in a data directory give.
func rebuilt(t *testing.T, data string) *coretest.MetaState {
	t.Helper()
	blocks, err := disk.Open(data, disk.Options{})
	require.NoError(t, err)
	defer blocks.Close()
	meta, err := sqlite.Open(filepath.Join(t.TempDir(), "metadata.db"), sqlite.Options{})
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

// requireRestores restores a backup and compares.
func requireRestores(t *testing.T, dir, name string, state *coretest.MetaState, want map[string][]byte) {
	t.Helper()
	data, report := restored(t, dir, name)
	require.Equal(t, state.State.Seq, report.Seq)
	requireSame(t, state, rebuilt(t, data))
	s := open(t, data)
	defer s.close()
	s.requireContents(want)
	s.churn(10) // it goes on
}

// files returns the files beneath dir, with their sizes.
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

// blocksIn returns the copies of blocks beneath a backup directory.
func blocksIn(t *testing.T, dir string) []string {
	return slices.Sorted(maps.Keys(files(t, filepath.Join(dir, "blocks"))))
}
