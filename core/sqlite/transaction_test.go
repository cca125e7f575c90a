package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"orcas/core"
)

// rolledBack applies changes in a transaction that is rolled back just before its commit, and returns their results.
func rolledBack(t require.TestingT, m *Meta, changes []core.Change) []core.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(t, m.beginWrite())
	results := make([]core.Result, len(changes))
	require.NoError(t, m.w.applyAll(changes, results))
	require.NoError(t, m.w.index.work())
	m.rollBack(errors.New("a test"), false)
	require.NoError(t, m.stopped)
	return results
}

// openLong opens a database whose transactions are committed only where a read or a kind of change causes it.
func openLong(t testing.TB, dir string) *Meta {
	m := openAt(t, dir, Options{changes: 1 << 20})
	m.filling.Wait()
	m.committer.age = time.Hour
	return m
}

// uncommitted returns the number of uncommitted changes.
func uncommitted(m *Meta) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.w.tx.changes
}

// Every read shows the changes of the open transaction. Reads of single keys and of content use it, and reads of many
// rows commit it.
func TestReadsOfTheOpenTransaction(t *testing.T) {
	ctx := context.Background()
	f := feed(t, openLong(t, t.TempDir()), core.VersioningOff)
	m := f.m
	f.limit(core.Quota{Objects: 1 << 40})
	f.shared = true
	old := f.put("old")
	f.apply(old)
	require.NoError(t, m.commitOpen("test"))

	put := f.put("new")
	f.apply(put)
	f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "old"})
	require.Equal(t, 2, uncommitted(m))
	o, err := m.Object(ctx, f.bucket, "new", core.Current)
	require.NoError(t, err)
	require.Equal(t, put.Seq, o.Seq)
	require.Equal(t, put.Object.Segments[0].Data, o.Segments[0].Info.ID)
	require.True(t, o.Latest)
	_, err = m.Object(ctx, f.bucket, "new", core.Null)
	require.NoError(t, err)
	_, err = m.Object(ctx, f.bucket, "old", core.Current)
	require.True(t, core.Is(err, core.NoSuchKey), err)
	found, err := m.FindData(ctx, put.Object.Segments[0].Info.ContentKey())
	require.NoError(t, err)
	require.Equal(t, put.Object.Segments[0].Data, found.ID)
	_, err = m.FindData(ctx, old.Object.Segments[0].Info.ContentKey())
	require.True(t, core.Is(err, core.NoSuchData), err)
	data, err := m.Data(ctx, []core.DataID{put.Object.Segments[0].Data})
	require.NoError(t, err)
	require.Len(t, data, 1)
	data, err = m.Data(ctx, []core.DataID{old.Object.Segments[0].Data})
	require.NoError(t, err)
	require.Empty(t, data)
	f.apply(f.share("shared", put))
	data, err = m.Data(ctx, []core.DataID{put.Object.Segments[0].Data})
	require.NoError(t, err)
	require.EqualValues(t, 2, data[0].Refs)
	u, err := m.Usage(ctx, f.bucket)
	require.NoError(t, err)
	require.EqualValues(t, 2, u.Objects)
	tallies, err := m.Tallies(ctx, f.bucket-1, 1)
	require.NoError(t, err)
	require.Equal(t, []core.BucketTally{{Bucket: f.bucket, Tally: core.Tally{Versions: 2, Bytes: 2 * 4096}}}, tallies)
	require.Equal(t, 3, uncommitted(m), "these reads commit nothing")

	commits := map[string]func() int{
		"List": func() int { return count(t, m, f.bucket) },
		"Data": func() int {
			data, err := m.Data(ctx, []core.DataID{put.Object.Segments[0].Data, f.data})
			require.NoError(t, err)
			require.Len(t, data, 2)
			return count(t, m, f.bucket)
		},
		"Garbage": func() int {
			garbage, err := m.Garbage(ctx, 0, 10)
			require.NoError(t, err)
			require.Len(t, garbage, 1)
			return count(t, m, f.bucket)
		},
		"Snapshot": func() (n int) {
			require.NoError(t, m.Snapshot(ctx, func(r *core.Row) error {
				if r.State != nil {
					require.Equal(t, f.seq, r.State.Seq)
				}
				if r.Object != nil {
					n++
				}
				return nil
			}))
			return n
		},
		"Sync": func() int {
			s, err := m.Sync(ctx)
			require.NoError(t, err)
			require.Equal(t, f.seq, s.Seq)
			return count(t, m, f.bucket)
		},
		"Checkpoint": func() int {
			require.NoError(t, m.Checkpoint(ctx))
			return count(t, m, f.bucket)
		},
		"Verify": func() int {
			lines, err := m.Verify(ctx)
			require.NoError(t, err)
			require.Empty(t, lines)
			return count(t, m, f.bucket)
		},
		"Places": func() int {
			n := 0
			_, err := m.Places(ctx, func(_ core.BlockID, of core.BlockContent) error {
				n += int(of.Contents)
				return nil
			})
			require.NoError(t, err)
			return n + 1 // "shared" has no content of its own
		},
		"another kind of change": func() int {
			f.apply(&core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}})
			return count(t, m, f.bucket)
		},
	}
	n := 2
	for name, read := range commits {
		f.apply(f.put(name))
		n++
		if uncommitted(m) == 0 { // the checkpointer commits when it copies the log, after a long read
			f.apply(f.put(name + " again"))
			n++
		}
		require.NotZero(t, uncommitted(m), name)
		require.Equal(t, n, read(), name)
		require.Zero(t, uncommitted(m), name)
	}
}

// Reads of keys, buckets and content that the open transaction has not changed do not wait for the writer.
func TestReadsBesideTheOpenTransaction(t *testing.T) {
	ctx := context.Background()
	f := feed(t, openLong(t, t.TempDir()), core.VersioningOff)
	f.fill(0, 100)
	other := feed(t, f.m, core.VersioningOff) // commits
	first := other.data - 1
	other.apply(other.put("touched"))
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	n := 0
	for i := range 100 {
		if f.m.w.tx.touched.has(placeOfKey(f.bucket, benchKey(i))) {
			continue // it shares a cell
		}
		_, err := f.m.Object(ctx, f.bucket, benchKey(i), core.Current)
		require.NoError(t, err)
		n++
	}
	require.Greater(t, n, 90)
	require.Equal(t, 100, count(t, f.m, f.bucket))
	data, err := f.m.Data(ctx, []core.DataID{first})
	require.NoError(t, err)
	require.Len(t, data, 1)
	require.Equal(t, 1, f.m.w.tx.changes)
}

// The committer commits when a transaction has enough changes or is old enough.
func TestCommitter(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{changes: 50}), core.VersioningOff)
	settled := func() bool { return uncommitted(f.m) == 0 }
	f.apply(f.put("old"))
	require.Eventually(t, settled, time.Minute, time.Millisecond, "a single change is committed")
	f.m.committer.age = time.Hour
	f.apply(f.puts("few", 49)...)
	require.Equal(t, 49, uncommitted(f.m))
	f.apply(f.put("enough"))
	require.Eventually(t, settled, time.Minute, time.Millisecond)
	require.NoError(t, f.m.Close())

	// If the committer does not run, Apply commits.
	f = feed(t, openLong(t, t.TempDir()), core.VersioningOff)
	f.m.options.changes, f.m.committer.wake = 10, make(chan struct{})
	most := 0
	for i := range 100 {
		f.apply(f.puts(fmt.Sprint(i, "/"), 3)...)
		most = max(most, uncommitted(f.m))
	}
	require.Equal(t, 21, most)
}

// copyKilled copies the files of a database as a kill would leave them, and opens the copy.
func copyKilled(t *testing.T, m *Meta, o Options) *Meta {
	m.check.idle(m) // no checkpoint may run while the files are copied
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, m.path+suffix, filepath.Join(dir, "meta.db"+suffix))
	}
	return openAt(t, dir, o)
}

// A kill loses the open transaction, as a whole, and the records of its changes restore it. What Sync has returned is
// never lost.
func TestKilledUncommitted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{runLength: 5, changes: rapid.SampledFrom([]int{1, 3, 20, 1 << 20}).Draw(rt, "changes")}
		versioning := rapid.SampledFrom([]core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended}).Draw(rt, "versioning")
		f := feed(t, openAt(t, t.TempDir(), o), versioning)
		f.apply(&core.PutBucket{Info: core.BucketInfo{ID: f.bucket, Name: fmt.Sprint("bucket-", f.bucket), Versioning: versioning, Quota: core.Quota{Objects: 1 << 40}}})
		f.shared = true
		require.NoError(t, f.m.commitOpen("test"))
		var log []core.Change // since the beginning
		var put []*core.PutObject
		var synced core.State
		for range rapid.IntRange(1, 30).Draw(rt, "batches") {
			var batch []core.Change
			for range rapid.IntRange(1, 8).Draw(rt, "batch") {
				key := benchKey(rapid.IntRange(0, 12).Draw(rt, "key"))
				switch kind := rapid.IntRange(0, 5).Draw(rt, "kind"); {
				case kind == 0:
					batch = append(batch, &core.DeleteObject{Bucket: f.bucket, Key: key})
				case kind == 1 && len(put) > 0:
					batch = append(batch, f.share(key, put[rapid.IntRange(0, len(put)-1).Draw(rt, "of")])) // may fail its check
				case kind == 2:
					batch = append(batch, &core.SetReplayFrom{ReplayFrom: core.MakeBlockID(1, 2, uint32(f.seq))})
				default:
					c := f.put(key)
					put = append(put, c)
					batch = append(batch, c)
				}
			}
			f.results(batch)
			log = append(log, batch...)
			switch rapid.IntRange(0, 6).Draw(rt, "then") {
			case 0:
				s, err := f.m.Sync(background)
				require.NoError(t, err)
				synced = s
			case 1:
				_ = count(t, f.m, f.bucket)
			case 2:
				rolledBack(t, f.m, []core.Change{f.stamped(f.put(benchKey(1)))})
			case 3:
				killed := copyKilled(t, f.m, o)
				s, err := killed.State(background)
				require.NoError(t, err)
				require.GreaterOrEqual(t, s.Seq, synced.Seq, "a kill undid what was synced")
				require.GreaterOrEqual(t, s.ReplayFrom.Compare(synced.ReplayFrom), 0)
				_, err = killed.Apply(background, log)
				require.NoError(t, err)
				got := readAll(t, killed)
				require.NoError(t, killed.Close())
				require.Equal(t, readAll(t, f.m), got)
				got.Check(t)
			}
		}
		want := readAll(t, f.m)
		require.NoError(t, f.m.Close())
		m := openAt(t, filepath.Dir(f.m.path), o)
		require.Equal(t, want, readAll(t, m))
		require.NoError(t, m.Close())
	})
}

// stamped gives a change the next stamp, without using it up.
func (f *feeder) stamped(c core.Change) core.Change {
	c.SetStamp(f.seq + 1)
	return c
}

// Readers see every change whose Apply has returned, while transactions are committed and rolled back.
func TestReadersSeeTheOpenTransaction(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{changes: 20, Readers: 3, runLength: 3}), core.VersioningOff)
	f.shared = true
	const keys = 8
	var newest [keys]atomic.Pointer[core.PutObject]
	put := func(n int) {
		c := f.put(benchKey(n))
		f.apply(c)
		newest[n].Store(c)
	}
	for n := range keys {
		put(n)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() { readNewest(t, f, i, &newest, done) })
	}
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 3000 {
		put(random.IntN(keys))
		if i%50 == 0 {
			rolledBack(t, f.m, []core.Change{f.stamped(f.put(benchKey(1)))})
		}
	}
	close(done)
	readers.Wait()
}

func readNewest(t *testing.T, f *feeder, seed int, newest *[8]atomic.Pointer[core.PutObject], done chan struct{}) {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	for {
		select {
		case <-done:
			return
		default:
		}
		n := random.IntN(len(newest))
		c := newest[n].Load()
		o, err := f.m.Object(background, f.bucket, benchKey(n), core.Current)
		if err != nil || o.Seq < c.Seq {
			t.Errorf("change %d is missing: %v, %v", c.Seq, o, err)
			return
		}
		info := c.Object.Segments[0].Info
		found, err := f.m.FindData(background, info.ContentKey())
		data, dataErr := f.m.Data(background, []core.DataID{info.ID})
		page, listErr := f.m.List(background, core.ListQuery{Bucket: f.bucket, Prefix: benchKey(n), Limit: 1})
		if dataErr != nil || listErr != nil || page.Objects[0].Seq < c.Seq {
			t.Errorf("the page lacks change %d: %v, %v, %v", c.Seq, dataErr, listErr, page)
			return
		}
		if newest[n].Load() == c && (err != nil || found.ID != info.ID || len(data) != 1) {
			if o, _ := f.m.Object(background, f.bucket, benchKey(n), core.Current); o.Seq == c.Seq { // it was not replaced in the meantime
				t.Errorf("content %d is missing: %v, %v", info.ID, err, data)
				return
			}
		}
	}
}

// A batch that fails because of a damaged row leaves no trace, and those before it remain.
func TestFailedBatchKeepsTheOthers(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openLong(t, dir), core.VersioningOff)
	f.limit(core.Quota{Objects: 1 << 40})
	f.apply(f.put("damaged"))
	require.NoError(t, f.m.commitOpen("test"))
	require.NoError(t, f.m.runSQL("UPDATE data SET info = x'00010203' WHERE id = "+fmt.Sprint(f.data)))
	f.apply(f.puts("kept", 5)...)
	f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "kept1"})
	bad := []core.Change{f.put("lost"), f.put("damaged")}
	for i, c := range bad {
		c.SetStamp(f.seq + 1 + core.Seq(i))
	}
	_, err := f.m.Apply(background, bad)
	require.True(t, core.Is(err, core.Damaged), err)
	require.Equal(t, 6, uncommitted(f.m))
	s, err := f.m.State(background)
	require.NoError(t, err)
	require.Equal(t, f.seq, s.Seq)
	check := func(m *Meta, key string, exists bool) {
		_, err := m.Object(background, f.bucket, key, core.Current)
		require.Equal(t, !exists, core.Is(err, core.NoSuchKey), "%s: %v", key, err)
	}
	after := f.put("after")
	f.data -= 2
	f.apply(after)
	for range 2 {
		check(f.m, "kept0", true)
		check(f.m, "kept1", false)
		check(f.m, "lost", false)
		check(f.m, "after", true)
		u, err := f.m.Usage(background, f.bucket)
		require.NoError(t, err)
		require.EqualValues(t, 6, u.Objects)
		require.NoError(t, f.m.Close())
		f.m = openLong(t, dir)
	}
}

// While a commit fails because the drive is full, the changes of the transaction remain visible, and Apply writes
// nothing. They are committed when there is room.
func TestFullDriveKeepsTheTransaction(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("cannot mount a tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	f := feed(t, openLong(t, dir), core.VersioningOff)
	f.limit(core.Quota{Objects: 1 << 40})
	f.apply(f.puts("a", 10)...)
	require.Equal(t, 10, count(t, f.m, f.bucket))
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 4<<20), 0o600)
	f.apply(f.puts("b", 2000)...)
	for range 2 {
		require.Equal(t, 2010, count(t, f.m, f.bucket))
		u, err := f.m.Usage(background, f.bucket)
		require.NoError(t, err)
		require.EqualValues(t, 2010, u.Objects)
		garbage, err := f.m.Garbage(background, 0, 10)
		require.NoError(t, err)
		require.Empty(t, garbage)
		_, err = f.m.Object(background, f.bucket, "b1", core.Current)
		require.NoError(t, err)
		for _, c := range []core.Change{f.put("c"), &core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}}} {
			_, err = f.m.Apply(background, []core.Change{f.stamped(c)})
			require.True(t, core.Is(err, core.NoSpace), err)
		}
		_, err = f.m.Sync(background)
		require.True(t, core.Is(err, core.NoSpace), err)
		require.True(t, core.Is(f.m.Checkpoint(background), core.NoSpace))
		require.True(t, core.Is(f.m.Snapshot(background, func(*core.Row) error { return nil }), core.NoSpace))
	}
	require.NoError(t, os.Remove(ballast))
	f.data -= 2
	f.apply(f.put("d"))
	require.NoError(t, f.m.Close())
	f.m = openLong(t, dir)
	require.Equal(t, 2011, count(t, f.m, f.bucket))
	require.EqualValues(t, 2011, f.usage().Objects)
	require.NoError(t, f.m.Close()) // waits for the checkpointer, which commits after the long read of usage
	f.m = openLong(t, dir)

	// Close reports what it could not commit.
	f.apply(f.puts("e", 2000)...)
	_ = os.WriteFile(ballast, make([]byte, 4<<20), 0o600)
	err := f.m.Close()
	require.True(t, core.Is(err, core.NoSpace), err)
	require.NoError(t, os.Remove(ballast))
	require.Equal(t, 2011, count(t, openLong(t, dir), f.bucket))
}

// After a write error nothing is committed, but the changes of the transaction remain visible until the restart.
func TestFailedCommitKeepsTheTransaction(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openLong(t, dir), core.VersioningOff)
	f.fill(0, 100)
	require.NoError(t, f.m.commitOpen("test"))
	info, err := os.Stat(filepath.Join(dir, "meta.db-wal"))
	require.NoError(t, err)
	changes := f.puts("kept", 100)
	f.apply(changes...)

	lift := limitFiles(t, info.Size()+3*pageSize)
	n := count(t, f.m, f.bucket)
	lift()
	require.Equal(t, 200, n)
	_, err = f.m.Apply(background, []core.Change{f.stamped(f.put("next"))})
	require.True(t, core.Is(err, core.Unavailable), "even when the drive works again: %v", err)
	_, err = f.m.Sync(background)
	require.True(t, core.Is(err, core.Unavailable), err)
	_, err = f.m.Object(background, f.bucket, "kept7", core.Current)
	require.NoError(t, err)
	require.Equal(t, 200, count(t, f.m, f.bucket))
	require.True(t, core.Is(f.m.Close(), core.Unavailable), "Close reports that changes are uncommitted")

	m := openLong(t, dir)
	_, err = m.Apply(background, changes) // from their records
	require.NoError(t, err)
	require.Equal(t, 200, count(t, m, f.bucket))
}

// If the kept changes cannot be applied again, no read shows the older state. When they can be, everything works again.
func TestLostTransaction(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openLong(t, dir), core.VersioningOff)
	f.fill(0, 10)
	require.NoError(t, f.m.commitOpen("test"))
	f.apply(f.put("lost"), &core.DeleteObject{Bucket: f.bucket, Key: benchKey(3)})
	f.m.mu.Lock()
	f.m.w.tx.kept[0] ^= 0xff
	f.m.rollBack(sqlite3.Error{Code: sqlite3.ErrFull}, true)
	f.m.mu.Unlock()
	data := f.data
	reads := []func() error{
		func() error { _, err := f.m.Object(background, f.bucket, "lost", core.Current); return err },
		func() error { _, err := f.m.Data(background, []core.DataID{data}); return err },
		func() error { _, err := f.m.List(background, core.ListQuery{Bucket: f.bucket, Limit: 10}); return err },
		func() error { _, err := f.m.Garbage(background, 0, 10); return err },
	}
	deleted := func() error { _, err := f.m.Object(background, f.bucket, benchKey(3), core.Current); return err }
	next := f.stamped(f.put("next"))
	others := []func() error{
		func() error { _, err := f.m.Apply(background, []core.Change{next}); return err },
		func() error { _, err := f.m.Sync(background); return err },
		func() error { return f.m.Snapshot(background, func(*core.Row) error { return nil }) },
	}
	for _, read := range append(reads, deleted) {
		err := read()
		require.True(t, core.Is(err, core.Unavailable), err)
	}
	for i, other := range others {
		err := other()
		require.True(t, core.Is(err, core.Internal), "%d: %v", i, err)
	}
	_, err := f.m.Object(background, f.bucket, benchKey(5), core.Current)
	require.NoError(t, err, "unchanged keys are still readable")

	f.m.mu.Lock()
	f.m.w.tx.kept[0] ^= 0xff
	f.m.mu.Unlock()
	err = deleted()
	require.True(t, core.Is(err, core.NoSuchKey), err)
	for _, works := range append(others, reads...) {
		require.NoError(t, works())
	}
	require.Equal(t, 11, count(t, f.m, f.bucket))
	require.NoError(t, f.m.Close())
	m := openLong(t, dir)
	require.Equal(t, 11, count(t, m, f.bucket))
}

// After a failed read SQLite rolls back the transaction of the connection, whatever the read was for (a ROLLBACK stands
// for it here, since a file descriptor that fails would disturb checkpoints too). The uncommitted changes are applied
// again.
func TestFailedReadKeepsTheTransaction(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openLong(t, dir), core.VersioningOff)
	f.limit(core.Quota{Objects: 1 << 40})
	f.fill(0, 100)
	require.NoError(t, f.m.commitOpen("test"))
	failed := sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrRead}
	failedRead := func(c *conn) error {
		require.NoError(t, c.run("ROLLBACK"))
		return failed
	}
	check := func(kept ...string) {
		for _, key := range kept {
			o, err := f.m.Object(background, f.bucket, key, core.Current)
			require.NoError(t, err, key)
			require.Len(t, o.Segments, 1)
		}
		u, err := f.m.Usage(background, f.bucket)
		require.NoError(t, err)
		require.EqualValues(t, 100+len(kept), u.Objects)
	}

	f.apply(f.puts("kept", 3)...)
	require.Equal(t, 3, uncommitted(f.m))
	require.ErrorIs(t, f.m.readTouched(background, "test", failedRead), failed)
	require.Equal(t, 3, uncommitted(f.m))
	check("kept0", "kept1", "kept2")

	f.apply(f.put("kept3"))
	err := f.m.readTouched(background, "test", func(c *conn) error {
		_ = failedRead(c) // an error that is ignored
		return nil
	})
	require.True(t, core.Is(err, core.Unavailable), err)
	check("kept0", "kept1", "kept2", "kept3")

	f.apply(f.put("kept4"))
	f.m.mu.Lock()
	_ = failedRead(f.m.w.c) // by a statement that belongs neither to a change nor to a read
	f.m.mu.Unlock()
	f.apply(f.put("kept5"))
	require.Equal(t, 6, uncommitted(f.m))
	check("kept0", "kept1", "kept2", "kept3", "kept4", "kept5")

	f.apply(f.put("kept6"))
	f.m.mu.Lock()
	_ = failedRead(f.m.w.c)
	f.m.mu.Unlock()
	require.NoError(t, f.m.commitOpen("test"))
	require.NoError(t, f.m.Close())
	f.m = openLong(t, dir)
	check("kept0", "kept1", "kept2", "kept3", "kept4", "kept5", "kept6")
	lines, err := f.m.Verify(background)
	require.NoError(t, err)
	require.Empty(t, lines)
}

// A batch after which SQLite has rolled the transaction back has failed, and so has the commit of such a transaction.
func TestUnnoticedRollback(t *testing.T) {
	f := feed(t, openLong(t, t.TempDir()), core.VersioningOff)
	f.apply(f.put("kept"))
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(t, m.w.c.run("ROLLBACK"))
	committing, err := m.writeCommit(0)
	require.False(t, committing)
	require.ErrorIs(t, err, errRolledBack)
	require.NoError(t, m.revive())
	require.False(t, m.w.c.isLost())
	require.NoError(t, m.w.tx.lost)
	require.NoError(t, m.stopped)
	_, err = m.writeCommit(0)
	require.NoError(t, err)
}
