package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/backup"
	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/storetest"
	"orcas/vfs"
)

// interleaved calls a function immediately after the first call of a method.
type interleaved struct {
	core.Meta
	state, data, garbage func()
}

func (m *interleaved) Unwrap() core.Meta { return m.Meta }

func (m *interleaved) State(ctx context.Context) (core.State, error) {
	st, err := m.Meta.State(ctx)
	once(&m.state)
	return st, err
}

func (m *interleaved) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	infos, err := m.Meta.Data(ctx, ids)
	once(&m.data)
	return infos, err
}

func (m *interleaved) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	g, err := m.Meta.Garbage(ctx, after, limit)
	once(&m.garbage)
	return g, err
}

func once(fn *func()) {
	if do := *fn; do != nil {
		*fn = nil
		do()
	}
}

// TestTheCutIsExact writes, overwrites and deletes objects after each read of the metadata by a backup. The backup must
// contain exactly the state at S.
func TestTheCutIsExact(t *testing.T) {
	for i := range 2 {
		s := open(t, t.TempDir())
		for k := range 6 {
			s.Set(fmt.Sprint("large-", k), storetest.Random(uint64(k), 200_000))
		}
		s.Churn(80)
		if i%2 == 1 {
			_, err := s.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
			s.Churn(10)
		}
		state, want := s.State(), maps.Clone(s.Want)
		more := func(k int) func() {
			return func() {
				s.Remove(fmt.Sprint("large-", k))
				s.Set(fmt.Sprint("large-", k+1), []byte("small now"))
				s.Set(fmt.Sprint("later-", k), storetest.Random(uint64(k), 300_000))
				s.Churn(60) // more than one packed block
			}
		}
		first := more(0)
		withSnapshot := func() {
			first()
			_, err := snapshot.Write(ctx, s.Meta, s.Blocks, snapshot.WriteOptions{})
			require.NoError(t, err)
		}
		o := s.options(t.TempDir())
		o.Meta = &interleaved{s.Meta, withSnapshot, more(2), more(4)}
		s.backupWith(o)
		requireRestores(t, o.Dir, "", state, want)

		// The next backup has the later changes, and the first backup is unchanged.
		check, err := backup.Check(ctx, o.Dir, "", nil)
		require.NoError(t, err)
		s.backup(o.Dir)
		requireRestores(t, o.Dir, "", s.State(), s.Want)
		requireRestores(t, o.Dir, check.Backup, state, want)
		s.Close()
	}
}

// TestTheCutOfRelaxedWrites checks that a backup contains all acknowledged relaxed writes, including content that was
// deleted since, and content whose change failed its precondition.
func TestTheCutOfRelaxedWrites(t *testing.T) {
	s := openWith(t, t.TempDir(), batch.Options{Relaxed: true, Window: time.Hour})
	s.Churn(30)
	for k := range 4 {
		s.Set("large", storetest.Random(uint64(k), 200_000))
		c, err := s.FS.NewContent(ctx, s.Bucket, 150_000)
		require.NoError(t, err)
		_, err = c.ReadFrom(bytes.NewReader(storetest.Random(uint64(k+9), 150_000)))
		require.NoError(t, err)
		_, err = s.FS.Put(ctx, vfs.PutRequest{Bucket: s.Bucket, Key: "large", Content: c, If: core.Precondition{NoneMatch: []string{"*"}}})
		require.True(t, core.Is(err, core.PreconditionFailed), "%v", err)
		c.Discard()
	}
	s.Remove("large")
	s.Churn(20)
	dir := t.TempDir()
	s.backup(dir)
	requireRestores(t, dir, "", s.State(), s.Want)
	for range 2 {
		s.Churn(30)
		_, err := s.Reclaimer.Round(ctx, true)
		require.NoError(t, err)
		s.Churn(5)
		s.backup(dir)
		requireRestores(t, dir, "", s.State(), s.Want)
	}
	s.Close()
}

// TestUnfinishedContentStaysOut checks that a backup does not contain unfinished large blocks.
func TestUnfinishedContentStaysOut(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Set("k", storetest.Random(1, 100_000))
	w, err := s.Writer.NewLarge(ctx, 4<<20, 0, nil)
	require.NoError(t, err)
	for range 5 {
		b := batch.NewBuffer(256 << 10)
		require.NoError(t, w.Write(b.B[:frame.HeaderSize+256<<10]))
		b.Release()
	}
	content, err := s.FS.NewContent(ctx, s.Bucket, 1_000_000)
	require.NoError(t, err)
	_, err = content.ReadFrom(strings.NewReader(strings.Repeat("x", 1_000_000)))
	require.NoError(t, err)
	dir := t.TempDir()
	report := s.backup(dir)
	require.Less(t, report.Bytes, int64(105_000))
	content.Discard()
	w.Abort()
	requireRestores(t, dir, "", s.State(), s.Want)
}

// TestBackupWhileWritersRun makes backups while objects are written and overwritten and reclaim runs. Each backup must
// contain all writes that were acknowledged before it began, and none that began after it ended.
func TestBackupWhileWritersRun(t *testing.T) {
	t.Run("strict", func(t *testing.T) { backupWhileWritersRun(t, batch.Options{}) })
	t.Run("relaxed", func(t *testing.T) { backupWhileWritersRun(t, batch.Options{Relaxed: true, Window: time.Second}) })
}

func backupWhileWritersRun(t *testing.T, o batch.Options) {
	s := openWith(t, t.TempDir(), o)
	defer s.Close()
	var err error
	s.Bucket, err = s.FS.CreateBucket(ctx, core.BucketInfo{Name: "versions", Versioning: core.VersioningEnabled})
	require.NoError(t, err)
	const writers, keys, versions, backups = 4, 6, 24, 3
	body := func(w, k, v int) []byte {
		n := 3000 + 100*k
		if (k+v)%7 == 0 {
			n = 150_000
		}
		return append(fmt.Appendf(nil, "%d %d %d ", w, k, v), storetest.Random(uint64(w*100+k*10+v), n)...)
	}
	var mu sync.Mutex // guards begun and acked
	begun, acked := map[string]int{}, map[string]int{}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for v := 1; v <= versions; v++ {
				for k := range keys {
					select {
					case <-stop:
						return
					default:
					}
					key := fmt.Sprint(w, "-", k)
					mu.Lock()
					begun[key] = v
					mu.Unlock()
					s.Put(key, body(w, k, v))
					mu.Lock()
					acked[key] = v
					mu.Unlock()
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			_, err := s.Reclaimer.Round(ctx, false)
			if err != nil {
				t.Error(err)
			}
		}
	})
	dir := t.TempDir()
	type span struct {
		name     string
		from, to map[string]int
	}
	var spans []span
	for i := range backups {
		var from map[string]int
		for n := 0; n < i*writers*keys*versions/backups; runtime.Gosched() {
			mu.Lock()
			from, n = maps.Clone(acked), 0
			mu.Unlock()
			for _, v := range from {
				n += v
			}
		}
		report := s.backup(dir)
		mu.Lock()
		spans = append(spans, span{report.Backup, from, maps.Clone(begun)})
		mu.Unlock()
	}
	close(stop)
	all.Wait()
	for i, b := range spans {
		data, _ := restored(t, dir, b.name)
		r := open(t, data)
		r.Bucket, err = r.FS.Bucket(ctx, "versions")
		require.NoError(t, err)
		all := 0
		for w := range writers {
			for k := range keys {
				key := fmt.Sprint(w, "-", k)
				page, err := r.Meta.List(ctx, core.ListQuery{Kind: core.ListVersions, Bucket: r.Bucket.ID, Prefix: key, Limit: 1000})
				require.NoError(t, err)
				require.False(t, page.Truncated)
				n := len(page.Objects)
				require.GreaterOrEqual(t, n, b.from[key])
				require.LessOrEqual(t, n, b.to[key])
				all += n
				for j := range page.Objects {
					got, err := r.ReadVersion(key, page.Objects[j].Version(), 0, -1)
					require.NoError(t, err)
					require.Equal(t, body(w, k, n-j), got, "version %d of %s", n-j, key)
				}
			}
		}
		t.Logf("backup %d: %d versions", i, all)
		r.State()
		r.Close()
	}
}
