package backup_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/backup"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/storetest"
	"orcas/vfs"
)

// TestBackupsRestoreTheStore makes several backups, with all kinds of writes, rounds of reclaim and restarts between
// them. Each backup must restore the state that the store had at that time.
func TestBackupsRestoreTheStore(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backups")
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, smallName), []byte("{}"), 0o600))
	type kept struct {
		name  string
		state *coretest.MetaState
		want  map[string][]byte
	}
	var all []kept
	want := map[string][]byte{}
	for i := range 4 {
		s := open(t, data)
		s.Want = want
		s.Churn(100)
		if i%2 == 1 {
			_, err := s.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
		}
		report := s.backup(dir)
		all = append(all, kept{report.Backup, s.State(), maps.Clone(s.Want)})
		t.Logf("%d of %d bytes copied", report.CopiedBytes, report.Bytes)
		want = s.Want
		s.Close()
	}
	for _, k := range all {
		requireWhole(t, dir, k.name)
		requireRestores(t, dir, k.name, k.state, k.want)
	}
	data, _ = restored(t, dir, "")
	st, err := os.Stat(filepath.Join(data, smallName))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode())
}

// TestASecondBackupIsCheap counts the bytes that a backup copies if the store has not changed, and after a small
// change.
func TestASecondBackupIsCheap(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	for i := range 10 {
		s.Set(fmt.Sprint(i), storetest.Random(uint64(i), 1_000_000))
	}
	s.Churn(200)
	dir := t.TempDir()
	first := s.backup(dir)
	require.GreaterOrEqual(t, first.CopiedBytes+first.SharedBytes, first.Bytes)
	second := s.backup(dir)
	require.Equal(t, first.Bytes, second.Bytes)
	require.Zero(t, second.CopiedBytes+second.SharedBytes)
	require.Zero(t, second.CopiedBlocks)
	s.Set("one more", storetest.Random(77, 5000))
	third := s.backup(dir)
	require.Positive(t, third.CopiedBytes)
	require.Less(t, third.CopiedBytes, int64(8000), "only the tail of one block may be copied")
	for _, name := range []string{first.Backup, second.Backup, third.Backup} {
		requireWhole(t, dir, name)
	}
	requireRestores(t, dir, "", s.State(), s.Want)
	t.Logf("%d, %d, %d bytes written", first.CopiedBytes, second.CopiedBytes, third.CopiedBytes)
}

// TestKeep checks that older backups are deleted, together with the copies to which only they refer.
func TestKeep(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	dir := t.TempDir()
	var last *backup.Report
	for i := range 6 {
		s.Churn(80)
		_, err := s.Reclaimer.Round(ctx, true)
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
	requireRestores(t, dir, "", s.State(), s.Want)
	o := s.options(dir)
	o.Keep = 1
	s.backupWith(o)
	total := int64(0)
	for _, n := range files(t, filepath.Join(dir, "blocks")) {
		total += n
	}
	require.LessOrEqual(t, total, last.Bytes+4<<10, "more copies than one backup needs")
	requireRestores(t, dir, "", s.State(), s.Want)

	// A manifest that cannot be read may refer to any copy, so no copies may be deleted.
	broken := filepath.Join(dir, "backups", "20200101T000000.000Z.json")
	require.NoError(t, os.WriteFile(broken, []byte("{}"), 0o600))
	before := blocksIn(t, dir)
	s.Churn(80)
	_, err = s.Reclaimer.Round(ctx, true)
	require.NoError(t, err)
	report, err := backup.Backup(ctx, o)
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.Contains(t, report.Problems[0], "20200101T000000.000Z")
	require.Subset(t, blocksIn(t, dir), before)
	require.NoError(t, os.Remove(broken))
	require.Positive(t, s.backupWith(o).RemovedBlocks)
	requireRestores(t, dir, "", s.State(), s.Want)
}

// TestLink checks that copies of closed blocks are hard links, and that a file that is written to is not.
func TestLink(t *testing.T) {
	base := t.TempDir()
	s := open(t, filepath.Join(base, "data"))
	s.Churn(200)
	o := s.options(filepath.Join(base, "backups"))
	o.Link = true
	report := s.backupWith(o)
	require.Positive(t, report.SharedBytes)
	require.Less(t, report.CopiedBytes, int64(1<<20), "only the open block may be copied")
	state, want := s.State(), maps.Clone(s.Want)
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
	st, err := s.Meta.State(ctx)
	require.NoError(t, err)
	floor := filepath.Base(s.Blocks.(*disk.Store).BlockFile(core.BlockInfo{ID: st.ReplayFrom, Kind: core.Packed}))
	open := filepath.Join(o.Dir, "blocks", "00000001", "00000", floor)
	another := filepath.Join(base, "snapshot-of-the-backups") // cp -al
	require.NoError(t, os.Link(open, another))
	before, err := os.ReadFile(another)
	require.NoError(t, err)
	var all unix.Stat_t
	require.NoError(t, unix.Stat(open, &all))
	require.EqualValues(t, 2, all.Nlink, "the copy of the open block is a hard link to the store")
	s.Churn(3)
	s.backupWith(o)
	after, err := os.ReadFile(another)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after), "a backup changed a hard link to its copy")
	s.Churn(200)
	_, err = s.Reclaimer.Round(ctx, true)
	require.NoError(t, err)
	s.backupWith(o)
	requireRestores(t, o.Dir, report.Backup, state, want)
	requireRestores(t, o.Dir, "", s.State(), s.Want)
	s.Close()
}

// TestBackupOfARestoredStore checks that a restored store, whose new blocks have other IDs, can be backed up to the
// same directory as the original, and that a copy of the store whose new blocks have the same IDs cannot.
func TestBackupOfARestoredStore(t *testing.T) {
	s := open(t, t.TempDir())
	s.Churn(100)
	dir := t.TempDir()
	first := s.backup(dir)
	data, _ := restored(t, dir, "")
	plain := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(plain, "lost+found"), 0o700)) // as in a new file system
	_, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: plain})
	require.NoError(t, err)

	s.Close()
	s = open(t, s.Dir)
	s.Churn(100)
	second := s.backup(dir)
	secondState := s.State()
	r := open(t, data)
	r.Rand.Uint64()
	r.Churn(100)
	third := r.backup(dir)
	for _, b := range []*backup.Report{first, second, third} {
		requireWhole(t, dir, b.Backup)
	}
	data, _ = restored(t, dir, third.Backup)
	requireSame(t, r.State(), rebuilt(t, data))
	data, _ = restored(t, dir, second.Backup)
	requireSame(t, secondState, rebuilt(t, data))
	r.Close()
	s.Close()

	p := open(t, plain)
	defer p.Close()
	p.Rand.Uint64()
	p.Churn(100)
	_, err = backup.Backup(ctx, p.options(dir))
	require.True(t, core.Is(err, core.Conflict), "%v", err)
}

// TestBadInput checks the errors for invalid directories and names.
func TestBadInput(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Churn(20)
	other := open(t, t.TempDir())
	defer other.Close()
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
		"foreign directory":          {makes(s, foreign), core.InvalidArgument, "letter.txt"},
		"another store":              {makes(other, dir), core.Conflict, "another store"},
		"backup inside the data":     {makes(s, filepath.Join(s.Dir, "backups")), core.InvalidArgument, "must be separate"},
		"backup to the data":         {makes(s, s.Dir), core.InvalidArgument, "must be separate"},
		"newer format":               {makes(s, newer), core.Unsupported, "newer"},
		"check of nothing":           {checks(missing, ""), core.InvalidArgument, "not a backup directory"},
		"check of a file":            {checks(filepath.Join(foreign, "letter.txt"), ""), core.InvalidArgument, "not a backup directory"},
		"check of an unknown name":   {checks(dir, "20200101T000000.000Z"), core.InvalidArgument, "there is no backup 20200101T000000.000Z"},
		"restore of an unknown name": {restores(dir, "x", missing), core.InvalidArgument, "there is no backup x"},
		"restore of nothing":         {restores(missing, "", missing+"2"), core.InvalidArgument, "not a backup directory"},
		"restore over a file":        {restores(dir, "", foreign), core.InvalidArgument, "not empty"},
		"restore inside the backup":  {restores(dir, "", filepath.Join(dir, "x")), core.InvalidArgument, "must be separate"},
	} {
		require.True(t, core.Is(c.err, c.kind), "%s: %v", name, c.err)
		require.Contains(t, c.err.Error(), c.says, name)
	}
	require.NoDirExists(t, missing)

	// Only one backup may run at a time.
	o := s.options(dir)
	o.Pause = func(ctx context.Context, fn func() error) error {
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

	// An empty store can be backed up too.
	empty := t.TempDir()
	report := other.backup(empty)
	require.NotZero(t, report.Blocks) // the record of the bucket
	requireRestores(t, empty, "", other.State(), nil)
}

// TestTagsAndLocks checks that a restored store has the same tags and locks as the original, whether their changes are
// in a snapshot or in later records.
func TestTagsAndLocks(t *testing.T) {
	s := open(t, t.TempDir())
	b, err := s.FS.CreateBucket(ctx, core.BucketInfo{Name: "locked", Versioning: core.VersioningEnabled, ObjectLock: true,
		Retention: core.DefaultRetention{Mode: core.LockGovernance, Days: 1}})
	require.NoError(t, err)
	s.Bucket = b
	update := func(key string, c core.UpdateObject) {
		c.Key = key
		_, err := s.FS.Update(ctx, b, c)
		require.NoError(t, err)
	}
	change := func(prefix string) {
		for _, key := range []string{"governed", "held", "tagged"} {
			s.Put(prefix+key, storetest.Random(1, 1000))
		}
		update(prefix+"governed", core.UpdateObject{SetRetention: true, Lock: core.Lock{Mode: core.LockCompliance, Until: s.FS.Now().Add(time.Hour)}, Bypass: true})
		update(prefix+"held", core.UpdateObject{SetHold: true, Lock: core.Lock{Hold: core.HoldOn}})
		update(prefix+"tagged", core.UpdateObject{SetTags: true, Tags: []core.Attr{{Name: "a", Value: "1"}}, SetRetention: true, Bypass: true})
	}
	change("first-")
	require.NoError(t, s.Reclaimer.Snapshot(ctx))
	change("second-")
	update("first-tagged", core.UpdateObject{SetTags: true, Tags: []core.Attr{{Name: "b", Value: "2"}}})
	update("first-held", core.UpdateObject{SetHold: true, Lock: core.Lock{Hold: core.HoldOff}, SetRetention: true, Bypass: true})
	want := s.State()
	dir := t.TempDir()
	s.backup(dir)
	s.Close()

	data, _ := restored(t, dir, "")
	requireSame(t, want, rebuilt(t, data))
	again := open(t, data)
	defer again.Close()
	remove := func(key string, bypass bool) error {
		o, err := again.FS.Stat(ctx, b, key, core.Current)
		require.NoError(t, err)
		return again.FS.Delete(ctx, b, "", []vfs.DeleteRequest{{Key: key, Version: o.Version(), Bypass: bypass}})[0].Err
	}
	for _, key := range []string{"first-governed", "second-governed", "second-held"} {
		require.True(t, core.Is(remove(key, true), core.Locked), key)
	}
	for key, tag := range map[string]string{"first-tagged": "b", "second-tagged": "a"} {
		o, err := again.FS.Stat(ctx, b, key, core.Current)
		require.NoError(t, err)
		require.Equal(t, tag, o.Tags[0].Name)
		require.NoError(t, remove(key, false))
	}
	require.NoError(t, remove("first-held", false))
}
