package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/coretest"
)

func plan(t *testing.T, c *conn, sql string) (lines []string) {
	s, err := c.c.Prepare("EXPLAIN QUERY PLAN " + sql)
	require.NoError(t, err)
	defer s.Close()
	args := make([]driver.NamedValue, s.NumInput())
	for i := range args {
		args[i].Ordinal = i + 1
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	require.NoError(t, err)
	defer rows.Close()
	row := make([]driver.Value, 4)
	for {
		if err := rows.Next(row); err == io.EOF {
			return lines
		}
		require.NoError(t, err)
		lines = append(lines, row[3].(string))
	}
}

func readAll(t *testing.T, m core.Meta) *coretest.MetaState {
	s, err := coretest.ReadMeta(context.Background(), m, "user")
	require.NoError(t, err)
	return s
}

func copyFile(t *testing.T, from, to string) {
	b, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// After a kill, the files of the database and the log have every change for which Apply has returned.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{CheckpointBytes: 1 << 20}), core.VersioningOff)
	f.limit(core.Quota{Bytes: 1 << 40}) // so that the comparison includes the tally
	for round := range 6 {
		f.fill(round*300, round*300+500) // new keys and overwritten ones
		f.apply(&core.DeleteObject{Bucket: f.bucket, Key: benchKey(round * 300)})
		copied := t.TempDir()
		f.m.check.idle(f.m) // no checkpoint may run while the files are copied
		for _, name := range []string{"meta.db", "meta.db-wal"} {
			copyFile(t, filepath.Join(dir, name), filepath.Join(copied, name))
		}
		m := openAt(t, copied, Options{})
		got := readAll(t, m)
		require.Equal(t, readAll(t, f.m), got)
		require.Equal(t, f.seq, got.State.Seq)
		got.Check(t)
		require.NoError(t, m.Close())
	}
}

// idle waits until no checkpoint runs.
func (k *checkpointer) idle(m *Meta) {
	k.running.Lock()
	defer k.running.Unlock()
}

// The length of the log is bounded even if writes never pause and there are always readers.
func TestLogStaysBounded(t *testing.T) {
	const limit = int64(2 << 20)
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{CheckpointBytes: limit}), core.VersioningOff)
	f.fill(0, 2000)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				q := core.ListQuery{Bucket: f.bucket, Limit: 1000}
				if _, err := f.m.List(context.Background(), q); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var longest, step, before, written int64 // in bytes: the longest log, the most that an Apply added, the log before it, and all additions
	for round := range 200 {
		var changes []core.Change
		for i := range 100 {
			changes = append(changes, f.put(benchKey((round*7919+i*104729)%100_000)))
		}
		f.apply(changes...)
		l, err := f.m.logLength()
		require.NoError(t, err)
		length := l.frames * pageSize
		grown := max(length-before, 0)
		longest, step, before, written = max(longest, length), max(step, grown), length, written+grown
	}
	close(done)
	readers.Wait()
	require.Greater(t, written, 10*limit, "the test writes much more than the bound")
	// Writes wait when the log has reached twice the limit, which is noticed by the first measurement after another
	// quarter.
	bound := 2*limit + limit/4 + (measureEvery/100+2)*step
	require.Less(t, longest, bound)
	info, err := os.Stat(filepath.Join(dir, "meta.db-wal"))
	require.NoError(t, err)
	require.Less(t, info.Size(), bound+bound/100) // a frame is a page and its header
	require.Greater(t, longest, int64(0))
}

// holdLog starts a reader, which keeps the log from restarting until end is called.
func holdLog(t *testing.T, f *feeder) (end func()) {
	begun, ending := make(chan struct{}), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := f.m.read(context.Background(), "test", func(c *conn) error {
			return c.snapshot(func() error {
				_, err := c.row(listObjects, int64(f.bucket), blob(""))
				close(begun)
				<-ending
				return err
			})
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	return func() {
		close(ending)
		reader.Wait()
	}
}

// The log restarts even if there is always a reader, and even if new readers reuse the read mark of a reader that
// needed the old log.
func TestRestartLogBesideReaders(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.fill(0, 100)
	end := holdLog(t, f)
	f.fill(100, 200)
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		err = f.m.w.c.restartLog()
	}()
	time.Sleep(50 * time.Millisecond) // until it waits for that reader, with longer and longer pauses
	end()
	end = holdLog(t, f)
	for restarted := false; !restarted; {
		select {
		case <-done:
			restarted = true
		default:
			next := holdLog(t, f)
			end()
			end = next
		}
	}
	defer end()
	require.NoError(t, err)
	l, err := f.m.logLength()
	require.NoError(t, err)
	require.Positive(t, l.frames)
	require.Equal(t, l.frames, l.copied, "all of the log is in the database")
}

// damage overwrites bytes in every page of the database, from the given page on.
func damage(t *testing.T, path string, from int64) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	for at := from * pageSize; at < info.Size(); at += pageSize {
		_, err := file.WriteAt([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), at)
		require.NoError(t, err)
	}
}

func TestDamagedPages(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.fill(0, 2000)
	require.NoError(t, f.m.Close())
	path := filepath.Join(dir, "meta.db")
	pristine, err := os.ReadFile(path)
	require.NoError(t, err)

	// All pages after those of the schema are damaged: each read returns Damaged.
	damage(t, path, 16)
	m := openAt(t, dir, Options{})
	_, err = m.Object(context.Background(), f.bucket, benchKey(7), core.Current)
	require.True(t, core.Is(err, core.Damaged), err)
	_, err = m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 10})
	require.True(t, core.Is(err, core.Damaged), err)
	f.m = m
	c := f.put(benchKey(7))
	c.Seq = f.seq + 1
	_, err = m.Apply(context.Background(), []core.Change{c})
	require.True(t, core.Is(err, core.Damaged), err)
	s, err := m.State(context.Background())
	require.NoError(t, err)
	require.Equal(t, f.seq, s.Seq, "nothing was written")
	require.NoError(t, m.Close())

	// With one damaged byte anywhere, a read returns an error or a result, but never panics.
	step := int64(1013)
	if testing.Short() {
		step *= 8
	}
	for at := int64(100); at < int64(len(pristine)); at += step {
		broken := append([]byte(nil), pristine...)
		broken[at] ^= 0x55
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		m, err := Open(path, Options{})
		if err != nil {
			continue
		}
		_, _ = m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 5000})
		_, _ = m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 5000, Brief: true})
		_, _ = m.Object(context.Background(), f.bucket, benchKey(int(at)%2000), core.Current)
		_ = m.Close()
	}
}

func TestFullDrive(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("cannot mount a tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600))
	m := openAt(t, dir, Options{CheckpointBytes: 1 << 20})
	f := feed(t, m, core.VersioningOff)
	f.limit(core.Quota{Objects: 1 << 40})
	written := 0
	var failed error
	for round := 0; failed == nil; round++ {
		require.Less(t, round, 1000)
		changes := make([]core.Change, 0, 100)
		for i := range 100 {
			c := f.put(fmt.Sprintf("%d/%d/%s", round, i, strings.Repeat("k", 200)))
			f.seq++
			c.Seq = f.seq
			changes = append(changes, c)
		}
		if _, failed = m.Apply(context.Background(), changes); failed != nil {
			f.seq -= 100
			f.data -= 100
		} else {
			written += 100
		}
	}
	require.True(t, core.Is(failed, core.NoSpace), failed)
	require.Equal(t, written, count(t, m, f.bucket), "the failed changes had no effect")
	u, err := m.Usage(context.Background(), f.bucket)
	require.NoError(t, err)
	require.EqualValues(t, written, u.Objects, "the failed changes were not counted")
	s, err := m.State(context.Background())
	require.NoError(t, err)
	require.Equal(t, core.State{Seq: f.seq, NextData: f.data + 1}, s)

	require.NoError(t, m.Close(), "the log is kept if it cannot be copied")
	require.NoError(t, os.Remove(ballast))
	m = openAt(t, dir, Options{CheckpointBytes: 1 << 20})
	f.m = m
	require.Equal(t, written, count(t, m, f.bucket))
	f.apply(f.put("after"))
	require.Equal(t, written+1, count(t, m, f.bucket))
	require.EqualValues(t, written+1, f.usage().Objects)
	require.NoError(t, m.Close())
	m = openAt(t, dir, Options{})
	require.Equal(t, written+1, count(t, m, f.bucket))
	require.NoError(t, m.Close())
}

func count(t *testing.T, m *Meta, bucket core.BucketID) (n int) {
	q := core.ListQuery{Bucket: bucket, Limit: 1000}
	for {
		page, err := m.List(context.Background(), q)
		require.NoError(t, err)
		n += len(page.Objects)
		if !page.Truncated {
			return n
		}
		q.After = page.Next
	}
}

// After an error that leaves the state of the files unknown, no writes are accepted until the database is opened again.
// Reads continue.
func TestStopped(t *testing.T) {
	fsync := sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrFsync}
	for _, c := range []struct {
		err     error
		stopped bool
	}{
		{fsync, true},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrRead}, true},
		{sqlite3.Error{Code: sqlite3.ErrCorrupt}, true},
		{sqlite3.Error{Code: sqlite3.ErrFull}, false},
		{sqlite3.Error{Code: sqlite3.ErrBusy}, false},
	} {
		dir := t.TempDir()
		f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
		f.apply(f.put("a"))
		f.m.mu.Lock()
		f.m.checkFailed(c.err)
		f.m.mu.Unlock()
		next := f.put("b")
		next.Seq = f.seq + 1
		for range 2 {
			_, err := f.m.Apply(context.Background(), []core.Change{next})
			require.Equal(t, c.stopped, core.Is(err, core.Unavailable), "%v: %v", c.err, err)
		}
		require.Equal(t, 1+int(boolean(!c.stopped)), count(t, f.m, f.bucket))
		require.NoError(t, f.m.Close())
		if c.stopped {
			require.FileExists(t, filepath.Join(dir, "meta.db-wal"), "the log still has the pages that may be missing from the database")
		}
		m := openAt(t, dir, Options{})
		_, err := m.Apply(context.Background(), []core.Change{next})
		require.NoError(t, err)
		require.Equal(t, 2, count(t, m, f.bucket))
		require.NoError(t, m.Close())
	}
}

// A transaction that could not be written stops all writes. After the next start, the state is the one before or after
// the transaction, never one in between.
func TestFailedCommitStopsWrites(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.limit(core.Quota{Objects: 1 << 40})
	f.fill(0, 100)
	info, err := os.Stat(filepath.Join(dir, "meta.db-wal"))
	require.NoError(t, err)

	lift := limitFiles(t, info.Size()+3*pageSize)
	var changes []core.Change
	for i := range 100 {
		c := f.put(benchKey(1000 + i))
		c.Seq = f.seq + 1 + core.Seq(i)
		changes = append(changes, c)
	}
	_, err = f.m.Apply(context.Background(), changes)
	lift()
	require.True(t, core.Is(err, core.Unavailable), err)
	_, err = f.m.Apply(context.Background(), changes)
	require.True(t, core.Is(err, core.Unavailable), "even when the drive works again: %v", err)
	require.Equal(t, 100, count(t, f.m, f.bucket), "reads continue")
	require.NoError(t, f.m.Close())

	m := openAt(t, dir, Options{})
	n := count(t, m, f.bucket)
	require.Contains(t, []int{100, 200}, n)
	s, err := m.State(context.Background())
	require.NoError(t, err)
	require.Equal(t, f.seq+core.Seq(n-100), s.Seq)
	_, err = m.Apply(context.Background(), changes)
	require.NoError(t, err)
	require.Equal(t, 200, count(t, m, f.bucket))
	f.m = m
	require.EqualValues(t, 200, f.usage().Objects)
}

func TestKinds(t *testing.T) {
	for err, kind := range map[error]core.Kind{
		sqlite3.Error{Code: sqlite3.ErrFull}:                      core.NoSpace,
		sqlite3.Error{Code: sqlite3.ErrCorrupt}:                   core.Damaged,
		sqlite3.Error{Code: sqlite3.ErrNotADB}:                    core.Damaged,
		sqlite3.Error{Code: sqlite3.ErrIoErr}:                     core.Damaged,
		sqlite3.Error{Code: sqlite3.ErrBusy}:                      core.Busy,
		sqlite3.Error{Code: sqlite3.ErrMisuse}:                    core.Internal,
		damaged("x", io.ErrUnexpectedEOF):                         core.Damaged,
		damaged("x", core.E("y", core.Unsupported, nil)):          core.Unsupported,
		fmt.Errorf("x: %w", sqlite3.Error{Code: sqlite3.ErrFull}): core.NoSpace,
	} {
		require.Equal(t, kind.String(), core.KindOf(wrap("op", err)).String(), err)
	}
	require.NoError(t, wrap("op", nil))
}

// While another process writes, the error is Busy.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	other, err := connect(filepath.Join(dir, "meta.db"), role{synchronous: "NORMAL", cacheKiB: 64})
	require.NoError(t, err)
	require.NoError(t, other.run("BEGIN IMMEDIATE"))
	c := f.put("k")
	c.Seq = f.seq + 1
	_, err = f.m.Apply(context.Background(), []core.Change{c})
	require.True(t, core.Is(err, core.Busy), err)
	require.NoError(t, other.run("ROLLBACK"))
	_, err = f.m.Apply(context.Background(), []core.Change{c})
	require.NoError(t, err)
	require.NoError(t, other.close())
}

func TestCanceled(t *testing.T) {
	m := openAt(t, t.TempDir(), Options{Readers: 1})
	ctx, cancel := context.WithCancel(context.Background())
	c, err := m.acquire(ctx, "test")
	require.NoError(t, err)
	go cancel()
	_, err = m.Bucket(ctx, "b") // waits for the only connection
	require.True(t, core.Is(err, core.Canceled), err)
	_, err = m.Apply(ctx, nil)
	require.True(t, core.Is(err, core.Canceled), err)
	m.release(c)
}
