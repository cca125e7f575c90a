package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/batch"
	"orcas/core"
	"orcas/core/backup"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/internal/durable"
	"orcas/vfs"
)

// TestABackupIsTheStore: all kinds of writes, rounds of reclaim and restarts in between; each backup is restored to what the store was.
func TestABackupIsTheStore(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backups")
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "root-credentials.json"), []byte("{}"), 0o600))
	type kept struct {
		name  string
		state *coretest.MetaState
		want  map[string][]byte
	}
	var all []kept
	want := map[string][]byte{}
	for i := range 4 {
		s := open(t, data)
		s.want = want
		s.churn(100)
		if i%2 == 1 {
			_, err := s.r.Round(ctx, true)
			require.NoError(t, err)
		}
		report := s.backup(dir)
		all = append(all, kept{report.Backup, s.state(), maps.Clone(s.want)})
		t.Logf("%d of %d bytes copied", report.CopiedBytes, report.Bytes)
		want = s.want
		s.close()
	}
	for _, k := range all {
		requireWhole(t, dir, k.name)
		requireRestores(t, dir, k.name, k.state, k.want)
	}
	data, _ = restored(t, dir, "")
	st, err := os.Stat(filepath.Join(data, "root-credentials.json"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode())
}

// interleaved does something right behind a read of the metadata.
type interleaved struct {
	core.Meta
	state, data, garbage func()
}

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

// TestTheCutIsExact writes, overwrites and deletes behind each thing that a backup learns: what comes out is the state at S, whatever followed.
func TestTheCutIsExact(t *testing.T) {
	for i := range 2 {
		s := open(t, t.TempDir())
		for k := range 6 {
			s.set(fmt.Sprint("large-", k), random(uint64(k), 200_000))
		}
		s.churn(80)
		if i%2 == 1 {
			_, err := s.r.Round(ctx, true)
			require.NoError(t, err)
			s.churn(10)
		}
		state, want := s.state(), maps.Clone(s.want)
		more := func(k int) func() {
			return func() {
				s.remove(fmt.Sprint("large-", k))
				s.set(fmt.Sprint("large-", k+1), []byte("small now"))
				s.set(fmt.Sprint("later-", k), random(uint64(k), 300_000))
				s.churn(60) // more than one packed block
			}
		}
		first := more(0)
		withSnapshot := func() {
			first()
			_, err := snapshot.Write(ctx, s.meta, s.blocks, snapshot.WriteOptions{})
			require.NoError(t, err)
		}
		o := s.options(t.TempDir())
		o.Meta = &interleaved{s.meta, withSnapshot, more(2), more(4)}
		s.backupWith(o)
		requireRestores(t, o.Dir, "", state, want)

		// The next one has what followed, and the first is what it was.
		check, err := backup.Check(ctx, o.Dir, "", nil)
		require.NoError(t, err)
		s.backup(o.Dir)
		requireRestores(t, o.Dir, "", s.state(), s.want)
		requireRestores(t, o.Dir, check.Backup, state, want)
		s.close()
	}
}

// TestTheCutOfRelaxedWrites: what was answered before it was durable is in the backup, also where contents of it are gone already, or were
// never taken.
func TestTheCutOfRelaxedWrites(t *testing.T) {
	s := openWith(t, t.TempDir(), batch.Options{Relaxed: true, Window: time.Hour})
	s.churn(30)
	for k := range 4 {
		s.set("large", random(uint64(k), 200_000))
		c, err := s.fs.NewContent(ctx, s.b, 150_000)
		require.NoError(t, err)
		_, err = c.ReadFrom(bytes.NewReader(random(uint64(k+9), 150_000)))
		require.NoError(t, err)
		_, err = s.fs.Put(ctx, vfs.PutRequest{Bucket: s.b, Key: "large", Content: c, If: core.Precondition{NoneMatch: []string{"*"}}})
		require.True(t, core.Is(err, core.PreconditionFailed), "%v", err)
		c.Discard()
	}
	s.remove("large")
	s.churn(20)
	dir := t.TempDir()
	s.backup(dir)
	requireRestores(t, dir, "", s.state(), s.want)
	for range 2 {
		s.churn(30)
		_, err := s.r.Round(ctx, true)
		require.NoError(t, err)
		s.churn(5)
		s.backup(dir)
		requireRestores(t, dir, "", s.state(), s.want)
	}
	s.close()
}

// TestWhatIsBeingWrittenStaysOut: a large block that nobody names yet, and one that nobody ever will.
func TestWhatIsBeingWrittenStaysOut(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.set("k", random(1, 100_000))
	w, err := s.writer.NewLarge(ctx, 4<<20, 0, nil)
	require.NoError(t, err)
	for range 5 {
		b := batch.NewBuffer(256 << 10)
		require.NoError(t, w.Write(b.B[:frame.HeaderSize+256<<10]))
		b.Release()
	}
	content, err := s.fs.NewContent(ctx, s.b, 1_000_000)
	require.NoError(t, err)
	_, err = content.ReadFrom(strings.NewReader(strings.Repeat("x", 1_000_000)))
	require.NoError(t, err)
	dir := t.TempDir()
	report := s.backup(dir)
	require.Less(t, report.Bytes, int64(105_000))
	content.Discard()
	w.Abort()
	requireRestores(t, dir, "", s.state(), s.want)
}

// TestBackupWhileWritersRun makes backups while objects are put, overwritten and deleted and rounds free what dies: each backup holds all
// that was acknowledged before it began, and nothing that was not begun when it ended.
func TestBackupWhileWritersRun(t *testing.T) {
	t.Run("strict", func(t *testing.T) { backupWhileWritersRun(t, batch.Options{}) })
	t.Run("relaxed", func(t *testing.T) { backupWhileWritersRun(t, batch.Options{Relaxed: true, Window: time.Second}) })
}

func backupWhileWritersRun(t *testing.T, o batch.Options) {
	s := openWith(t, t.TempDir(), o)
	defer s.close()
	var err error
	s.b, err = s.fs.CreateBucket(ctx, core.BucketInfo{Name: "versions", Versioning: core.VersioningEnabled})
	require.NoError(t, err)
	const writers, keys, versions, backups = 4, 6, 24, 3
	body := func(w, k, v int) []byte {
		n := 3000 + 100*k
		if (k+v)%7 == 0 {
			n = 150_000
		}
		return append(fmt.Appendf(nil, "%d %d %d ", w, k, v), random(uint64(w*100+k*10+v), n)...)
	}
	var mu sync.Mutex // guards the next two
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
					s.put(key, body(w, k, v))
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
			_, err := s.r.Round(ctx, false)
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
		r.b, err = r.fs.Bucket(ctx, "versions")
		require.NoError(t, err)
		all := 0
		for w := range writers {
			for k := range keys {
				key := fmt.Sprint(w, "-", k)
				page, err := r.meta.List(ctx, core.ListQuery{Kind: core.ListVersions, Bucket: r.b.ID, Prefix: key, Limit: 1000})
				require.NoError(t, err)
				require.False(t, page.Truncated)
				n := len(page.Objects)
				require.GreaterOrEqual(t, n, b.from[key])
				require.LessOrEqual(t, n, b.to[key])
				all += n
				for j := range page.Objects {
					got, err := r.read(key, page.Objects[j].Version())
					require.NoError(t, err)
					require.Equal(t, body(w, k, n-j), got, "version %d of %s", n-j, key)
				}
			}
		}
		t.Logf("backup %d: %d versions", i, all)
		r.state()
		r.close()
	}
}

// TestASecondBackupIsCheap counts what an unchanged store and one that changed a little cost.
func TestASecondBackupIsCheap(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	for i := range 10 {
		s.set(fmt.Sprint(i), random(uint64(i), 1_000_000))
	}
	s.churn(200)
	dir := t.TempDir()
	first := s.backup(dir)
	require.GreaterOrEqual(t, first.CopiedBytes+first.SharedBytes, first.Bytes)
	second := s.backup(dir)
	require.Equal(t, first.Bytes, second.Bytes)
	require.Zero(t, second.CopiedBytes+second.SharedBytes)
	require.Zero(t, second.CopiedBlocks)
	s.set("one more", random(77, 5000))
	third := s.backup(dir)
	require.Positive(t, third.CopiedBytes)
	require.Less(t, third.CopiedBytes, int64(8000), "the tail of one block")
	for _, name := range []string{first.Backup, second.Backup, third.Backup} {
		requireWhole(t, dir, name)
	}
	requireRestores(t, dir, "", s.state(), s.want)
	t.Logf("%d, %d, %d bytes written", first.CopiedBytes, second.CopiedBytes, third.CopiedBytes)
}

// TestKeep: older backups go, and the copies that only they named.
func TestKeep(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	dir := t.TempDir()
	var last *backup.Report
	for i := range 6 {
		s.churn(80)
		_, err := s.r.Round(ctx, true)
		require.NoError(t, err)
		o := s.options(dir)
		o.Keep = 2
		report := s.backupWith(o)
		require.Len(t, report.Removed, min(max(i-1, 0), 1))
		if i > 2 {
			require.Positive(t, report.RemovedBlocks)
		}
		last = report
	}
	names, err := os.ReadDir(filepath.Join(dir, "backups"))
	require.NoError(t, err)
	require.Len(t, names, 2)
	for _, n := range names {
		requireWhole(t, dir, strings.TrimSuffix(n.Name(), ".json"))
	}
	requireRestores(t, dir, "", s.state(), s.want)
	o := s.options(dir)
	o.Keep = 1
	s.backupWith(o)
	total := int64(0)
	for _, n := range files(t, filepath.Join(dir, "blocks")) {
		total += n
	}
	require.LessOrEqual(t, total, last.Bytes+4<<10, "what one backup needs")
	requireRestores(t, dir, "", s.state(), s.want)

	// A manifest that cannot be read may name any of them.
	broken := filepath.Join(dir, "backups", "20200101T000000.000Z.json")
	require.NoError(t, os.WriteFile(broken, []byte("{}"), 0o600))
	before := blocksIn(t, dir)
	s.churn(80)
	_, err = s.r.Round(ctx, true)
	require.NoError(t, err)
	report, err := backup.Backup(ctx, o)
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.Contains(t, report.Problems[0], "20200101T000000.000Z")
	require.Subset(t, blocksIn(t, dir), before)
	require.NoError(t, os.Remove(broken))
	require.Positive(t, s.backupWith(o).RemovedBlocks)
	requireRestores(t, dir, "", s.state(), s.want)
}

// TestLink: closed blocks get a second name; a file that is written to has one name.
func TestLink(t *testing.T) {
	base := t.TempDir()
	s := open(t, filepath.Join(base, "data"))
	s.churn(200)
	o := s.options(filepath.Join(base, "backups"))
	o.Link = true
	report := s.backupWith(o)
	require.Positive(t, report.SharedBytes)
	require.Less(t, report.CopiedBytes, int64(1<<20), "the open block")
	state, want := s.state(), maps.Clone(s.want)
	links := func() (n int) {
		for _, path := range blocksIn(t, o.Dir) {
			st, err := os.Stat(path)
			require.NoError(t, err)
			var all unix.Stat_t
			require.NoError(t, unix.Stat(path, &all))
			require.LessOrEqual(t, all.Nlink, uint64(2))
			if all.Nlink == 2 {
				n++
				require.NotZero(t, st.Size())
			}
		}
		return n
	}
	require.Positive(t, links())
	st, err := s.meta.State(ctx)
	require.NoError(t, err)
	floor := filepath.Base(s.blocks.BlockFile(core.BlockInfo{ID: st.Floor, Kind: core.Packed}))
	open := filepath.Join(o.Dir, "blocks", "00000001", "00000", floor)
	another := filepath.Join(base, "snapshot-of-the-backups") // cp -al
	require.NoError(t, os.Link(open, another))
	before, err := os.ReadFile(another)
	require.NoError(t, err)
	var all unix.Stat_t
	require.NoError(t, unix.Stat(open, &all))
	require.EqualValues(t, 2, all.Nlink, "it has no name in the data directory")
	s.churn(3)
	s.backupWith(o)
	after, err := os.ReadFile(another)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after), "who linked a copy has what was there")
	s.churn(200)
	_, err = s.r.Round(ctx, true)
	require.NoError(t, err)
	s.backupWith(o)
	requireRestores(t, o.Dir, report.Backup, state, want)
	requireRestores(t, o.Dir, "", s.state(), s.want)
	s.close()
}

// TestDamageInTheStore: a damaged block is copied as it is, and every backup that has it says so.
func TestDamageInTheStore(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.set("large", random(1, 1_000_000))
	s.churn(100)
	var large, packed string
	for _, path := range blocksIn(t, s.dir) {
		switch {
		case strings.HasSuffix(path, ".large") && large == "": // of the others some may be dead
			large = path
		case strings.HasSuffix(path, "00001.packed"):
			packed = path
		}
	}
	for _, path := range []string{large, packed} {
		flip(t, path, 5000)
	}
	dir := t.TempDir()
	for range 2 {
		report, err := backup.Backup(ctx, s.options(dir))
		require.NoError(t, err)
		require.Len(t, report.Problems, 2)
		for _, path := range []string{large, packed} {
			require.Contains(t, strings.Join(report.Problems, "\n"), filepath.Base(path))
		}
		check, err := backup.Check(ctx, dir, report.Backup, nil)
		require.NoError(t, err)
		require.Equal(t, report.Problems, check.Problems)
	}
	data := filepath.Join(t.TempDir(), "data")
	report, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork})
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
	requireSame(t, s.state(), rebuilt(t, data))
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestCheckFindsDamage flips bytes in copies and in a manifest, cuts copies off and takes them away.
func TestCheckFindsDamage(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.churn(150)
	dir := t.TempDir()
	report := s.backup(dir)
	for i, path := range blocksIn(t, dir) {
		st, err := os.Stat(path)
		require.NoError(t, err)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for name, harm := range map[string]func() error{
			"damaged": func() error { flip(t, path, (int64(i)*7919)%st.Size()); return nil },
			"ends":    func() error { return os.Truncate(path, st.Size()-1) },
			"missing": func() error { return os.Remove(path) },
			"be read": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		} {
			require.NoError(t, harm())
			check, err := backup.Check(ctx, dir, "", nil)
			require.NoError(t, err)
			require.Len(t, check.Problems, 1)
			require.Contains(t, check.Problems[0], path)
			require.Contains(t, check.Problems[0], name)
			data := filepath.Join(t.TempDir(), "data")
			restore, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork})
			require.NoError(t, err)
			require.Equal(t, check.Problems, restore.Problems)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		}
		if i > 10 {
			break
		}
	}
	requireWhole(t, dir, "")
	manifest := filepath.Join(dir, "backups", report.Backup+".json")
	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	for i := 0; i < len(text); i += 1 + len(text)/200 {
		flip(t, manifest, int64(i))
		_, err := backup.Check(ctx, dir, "", nil)
		require.True(t, core.Is(err, core.Damaged), "byte %d: %v", i, err)
		flip(t, manifest, int64(i))
	}
	requireWhole(t, dir, "")
}

// TestTheNextBackupMends: copies that are missing or cut off are made again.
func TestTheNextBackupMends(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.churn(150)
	dir := t.TempDir()
	first := s.backup(dir)
	paths := blocksIn(t, dir)
	require.NoError(t, os.Remove(paths[0]))
	require.NoError(t, os.Truncate(paths[1], 100))
	report, err := backup.Backup(ctx, s.options(dir))
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
	requireWhole(t, dir, "")
	requireWhole(t, dir, first.Backup)
	// What a backup compares shows that a copy is another block.
	flip(t, paths[0], 20)
	_, err = backup.Backup(ctx, s.options(dir))
	require.True(t, core.Is(err, core.Conflict), "%v", err)
}

// TestLeftoversAreNotBelieved: what a backup left that did not end is used where it is whole, and made anew where it is not.
func TestLeftoversAreNotBelieved(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.churn(150)
	o := s.options(t.TempDir())
	o.Hook = func(step durable.Step, do func() error) error {
		if strings.Contains(step.Path, ".json") {
			return errors.New("boom")
		}
		return do()
	}
	_, err := backup.Backup(ctx, o)
	require.Error(t, err)
	paths := blocksIn(t, o.Dir)
	sizes := files(t, filepath.Join(o.Dir, "blocks"))
	flip(t, paths[1], sizes[paths[1]]/2)
	require.NoError(t, os.Truncate(paths[2], sizes[paths[2]]-1))
	report := s.backup(o.Dir)
	require.Equal(t, 2, report.CopiedBlocks)
	requireRestores(t, o.Dir, "", s.state(), s.want)
}

// TestAFullDrive says whose, and leaves the earlier backups whole.
func TestAFullDrive(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.churn(100)
	dir := t.TempDir()
	s.backup(dir)
	state, want := s.state(), maps.Clone(s.want)
	s.churn(100)
	o := s.options(dir)
	room := 300_000
	o.Hook = func(step durable.Step, do func() error) error {
		if step.Op == durable.Write {
			if room -= len(step.Data); room < 0 {
				return unix.ENOSPC
			}
		}
		if step.Op == durable.Clone {
			return unix.EOPNOTSUPP
		}
		return do()
	}
	_, err := backup.Backup(ctx, o)
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.Contains(t, err.Error(), dir)
	require.Contains(t, err.Error(), "full")
	requireRestores(t, dir, "", state, want)
	s.backup(dir)
	requireRestores(t, dir, "", s.state(), s.want)

	data := filepath.Join(t.TempDir(), "data")
	room = 300_000
	_, err = backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork, Hook: o.Hook})
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.Contains(t, err.Error(), data)
	_, err = disk.Open(data, disk.Options{})
	require.True(t, core.Is(err, core.Damaged), "no store starts in half a directory: %v", err)
}

// TestCrashes ends backups at every step, which is done or not, and all steps behind it are not: the earlier backups are whole, and so is the next.
func TestCrashes(t *testing.T) {
	boom := errors.New("boom")
	for _, link := range []bool{false, true} {
		for _, done := range []bool{false, true} {
			base := t.TempDir()
			s := open(t, filepath.Join(base, "data"))
			s.churn(60)
			dir := filepath.Join(base, "backups")
			earlier := s.backup(dir)
			state, want := s.state(), maps.Clone(s.want)
			points := 1 << 20
			for n := 0; n <= points; n += 1 + n/5 {
				s.churn(25)
				if n%3 == 1 {
					_, err := s.r.Round(ctx, true)
					require.NoError(t, err)
				}
				steps := 0
				o := s.options(dir)
				o.Link, o.Keep = link, 3
				if n == 0 {
					o.Dir = filepath.Join(base, "first")
				}
				o.Hook = func(_ durable.Step, do func() error) error {
					if steps++; n == 0 || steps < n {
						return do()
					}
					if steps == n && done {
						_ = do()
					}
					return boom
				}
				_, err := backup.Backup(ctx, o)
				if n == 0 {
					require.NoError(t, err)
					points = steps
					continue
				}
				if err == nil {
					break // this one needs fewer steps
				}
				require.ErrorIs(t, err, boom)
				for _, name := range names(t, dir) {
					requireWhole(t, dir, name)
				}
				if n%5 == 1 {
					requireRestores(t, dir, earlier.Backup, state, want)
				}
				o.Hook = nil
				earlier = s.backupWith(o)
				state, want = s.state(), maps.Clone(s.want)
				requireWhole(t, dir, "")
			}
			requireRestores(t, dir, earlier.Backup, state, want)
			require.Greater(t, points, 20)
			t.Logf("link %v, done %v: %d points", link, done, points)
			s.close()
		}
	}
}

func names(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(filepath.Join(dir, "backups"))
	require.NoError(t, err)
	for _, f := range list {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names
}

// TestACopyGoesItsOwnWay: a store that was restored gives its blocks other ids, and may be backed up to the same directory; one whose blocks
// have the ids of others may not.
func TestACopyGoesItsOwnWay(t *testing.T) {
	s := open(t, t.TempDir())
	s.churn(100)
	dir := t.TempDir()
	first := s.backup(dir)
	data, _ := restored(t, dir, "")
	plain := filepath.Join(t.TempDir(), "data")
	_, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: plain})
	require.NoError(t, err)

	s.close()
	s = open(t, s.dir)
	s.churn(100)
	second := s.backup(dir)
	secondState := s.state()
	r := open(t, data)
	r.rand.Uint64()
	r.churn(100)
	third := r.backup(dir)
	for _, b := range []*backup.Report{first, second, third} {
		requireWhole(t, dir, b.Backup)
	}
	data, _ = restored(t, dir, third.Backup)
	requireSame(t, r.state(), rebuilt(t, data))
	data, _ = restored(t, dir, second.Backup)
	requireSame(t, secondState, rebuilt(t, data))
	r.close()
	s.close()

	p := open(t, plain)
	defer p.close()
	p.rand.Uint64()
	p.churn(100)
	_, err = backup.Backup(ctx, p.options(dir))
	require.True(t, core.Is(err, core.Conflict), "%v", err)
}

// TestBadInput is about what people get wrong.
func TestBadInput(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.churn(20)
	other := open(t, t.TempDir())
	defer other.close()
	dir := filepath.Join(t.TempDir(), "backups")
	s.backup(dir)
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "letter.txt"), nil, 0o600))
	newer := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(newer, "BACKUP"), []byte("orcas-backup 2\n"), 0o600))
	missing := filepath.Join(t.TempDir(), "missing")
	makes := func(s *store, dir string) error {
		_, err := backup.Backup(ctx, s.options(dir))
		return err
	}
	checks := func(dir, name string) error {
		_, err := backup.Check(ctx, dir, name, nil)
		return err
	}
	restores := func(dir, name, data string) error {
		_, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, Backup: name, DataDir: data})
		return err
	}
	for name, c := range map[string]struct {
		err  error
		kind core.Kind
		says string
	}{
		"foreign directory":   {makes(s, foreign), core.InvalidArgument, "letter.txt"},
		"another store":       {makes(other, dir), core.Conflict, "another store"},
		"in the data":         {makes(s, filepath.Join(s.dir, "backups")), core.InvalidArgument, "apart"},
		"the data itself":     {makes(s, s.dir), core.InvalidArgument, "apart"},
		"newer":               {makes(s, newer), core.Unsupported, "newer"},
		"check of nothing":    {checks(missing, ""), core.InvalidArgument, "not a backup directory"},
		"check of a file":     {checks(filepath.Join(foreign, "letter.txt"), ""), core.InvalidArgument, "not a backup directory"},
		"check of no name":    {checks(dir, "20200101T000000.000Z"), core.InvalidArgument, "there is no backup 20200101T000000.000Z"},
		"restore of no name":  {restores(dir, "x", missing), core.InvalidArgument, "there is no backup x"},
		"restore of nothing":  {restores(missing, "", missing+"2"), core.InvalidArgument, "not a backup directory"},
		"restore over a file": {restores(dir, "", foreign), core.InvalidArgument, "not empty"},
		"restore to itself":   {restores(dir, "", filepath.Join(dir, "x")), core.InvalidArgument, "apart"},
	} {
		require.True(t, core.Is(c.err, c.kind), "%s: %v", name, c.err)
		require.Contains(t, c.err.Error(), c.says, name)
	}
	require.NoDirExists(t, missing)

	// One at a time.
	o := s.options(dir)
	o.Hold = func(ctx context.Context, fn func() error) error {
		require.True(t, core.Is(makes(s, dir), core.Busy))
		require.True(t, core.Is(checks(dir, ""), core.Busy))
		return fn()
	}
	s.backupWith(o)

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := backup.Backup(canceled, s.options(dir))
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	_, err = backup.Check(canceled, dir, "", nil)
	require.True(t, core.Is(err, core.Canceled), "%v", err)

	// An empty store has a backup too.
	empty := t.TempDir()
	report := other.backup(empty)
	require.NotZero(t, report.Blocks) // the bucket
	requireRestores(t, empty, "", other.state(), nil)
}

// TestALostRecord: where a closed block ends with what is no frame, a backup finds out whether that was a record that a restore needs.
func TestALostRecord(t *testing.T) {
	for _, lost := range []bool{true, false} {
		s := open(t, t.TempDir())
		s.churn(150) // several blocks
		first := blocksIn(t, s.dir)[0]
		st, err := os.Stat(first)
		require.NoError(t, err)
		if lost {
			flip(t, first, st.Size()-10)
		} else { // a batch that was cut off
			f, err := os.OpenFile(first, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.Write(random(1, 5000))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		dir := t.TempDir()
		for range 2 {
			report, err := backup.Backup(ctx, s.options(dir))
			require.NoError(t, err)
			if !lost {
				require.Empty(t, report.Problems)
				continue
			}
			require.Len(t, report.Problems, 1)
			require.Contains(t, report.Problems[0], filepath.Base(first))
			require.Contains(t, report.Problems[0], "in no block")
		}
		if !lost {
			requireRestores(t, dir, "", s.state(), s.want)
		}
		s.close()
	}
}

// TestTornContent: what a closed block ends with is content that the metadata names, and no record is missed, since a snapshot covers it.
func TestTornContent(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.close()
	s.set("k", random(1, 50_000))
	_, err := s.r.Round(ctx, true)
	require.NoError(t, err)
	_, err = snapshot.Write(ctx, s.meta, s.blocks, snapshot.WriteOptions{})
	require.NoError(t, err)
	o, err := s.fs.Stat(ctx, s.b, "k", core.Current)
	require.NoError(t, err)
	e := o.Segments[0].Info.Extents[0]
	path := s.blocks.BlockFile(core.BlockInfo{ID: e.Block, Kind: core.Packed})
	flip(t, path, e.Offset+100)
	flip(t, path, e.Offset+e.Length+10) // the header of the record
	report, err := backup.Backup(ctx, s.options(t.TempDir()))
	require.NoError(t, err)
	require.Len(t, report.Problems, 1, "%+v", report)
	require.Contains(t, report.Problems[0], e.Block.String())
	require.NotContains(t, report.Problems[0], "in no block")
}

// TestABlockThatNeverWas: a power cut right after a block was made leaves zeros of some length under its name. That is no damage.
func TestABlockThatNeverWas(t *testing.T) {
	base := t.TempDir()
	data, dir := filepath.Join(base, "data"), filepath.Join(base, "backups")
	s := open(t, data)
	s.put("k", random(1, 1000))
	s.close()
	require.NoError(t, os.WriteFile(filepath.Join(data, "blocks", "00000001", "00000", "000000ff.packed"), make([]byte, 5000), 0o600))
	s = open(t, data)
	defer s.close()
	require.Empty(t, s.backup(dir).Problems)
}

// TestTagsAndLocks: what a backup gives back is as locked and tagged as the store was, whether the changes that made it so are in
// a snapshot or behind it.
func TestTagsAndLocks(t *testing.T) {
	s := open(t, t.TempDir())
	b, err := s.fs.CreateBucket(ctx, core.BucketInfo{Name: "locked", Versioning: core.VersioningEnabled, ObjectLock: true,
		Retention: core.DefaultRetention{Mode: core.LockGovernance, Days: 1}})
	require.NoError(t, err)
	s.b = b
	update := func(key string, c core.UpdateObject) {
		c.Key = key
		_, err := s.fs.Update(ctx, b, c)
		require.NoError(t, err)
	}
	change := func(prefix string) {
		for _, key := range []string{"governed", "held", "tagged"} {
			s.put(prefix+key, random(1, 1000))
		}
		update(prefix+"governed", core.UpdateObject{SetRetention: true, Lock: core.Lock{Mode: core.LockCompliance, Until: s.fs.Now().Add(time.Hour)}, Bypass: true})
		update(prefix+"held", core.UpdateObject{SetHold: true, Lock: core.Lock{Hold: core.HoldOn}})
		update(prefix+"tagged", core.UpdateObject{SetTags: true, Tags: []core.Attr{{Name: "a", Value: "1"}}, SetRetention: true, Bypass: true})
	}
	change("first-")
	require.NoError(t, s.r.Snapshot(ctx))
	change("second-")
	update("first-tagged", core.UpdateObject{SetTags: true, Tags: []core.Attr{{Name: "b", Value: "2"}}})
	update("first-held", core.UpdateObject{SetHold: true, Lock: core.Lock{Hold: core.HoldOff}, SetRetention: true, Bypass: true})
	want := s.state()
	dir := t.TempDir()
	s.backup(dir)
	s.close()

	data, _ := restored(t, dir, "")
	requireSame(t, want, rebuilt(t, data))
	again := open(t, data)
	defer again.close()
	remove := func(key string, bypass bool) error {
		o, err := again.fs.Stat(ctx, b, key, core.Current)
		require.NoError(t, err)
		return again.fs.Delete(ctx, b, "", []vfs.DeleteRequest{{Key: key, Version: o.Version(), Bypass: bypass}})[0].Err
	}
	for _, key := range []string{"first-governed", "second-governed", "second-held"} {
		require.True(t, core.Is(remove(key, true), core.Locked), key)
	}
	for key, tag := range map[string]string{"first-tagged": "b", "second-tagged": "a"} {
		o, err := again.fs.Stat(ctx, b, key, core.Current)
		require.NoError(t, err)
		require.Equal(t, tag, o.Tags[0].Name)
		require.NoError(t, remove(key, false))
	}
	require.NoError(t, remove("first-held", false))
}
