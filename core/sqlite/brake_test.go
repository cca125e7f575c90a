package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// logFileBytes returns the length of the log file.
func logFileBytes(t *testing.T, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, "meta.db-wal"))
	require.NoError(t, err)
	return info.Size()
}

// TestLogBoundBesideALongRead checks that while a long read does not end, writes continue until the log is half as long
// as its bound. Then the read yields, and the log restarts. The log file is never longer than the bound, and is short
// afterwards.
func TestLogBoundBesideALongRead(t *testing.T) {
	const limit, bound = 1 << 20, 8 << 20
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{CheckpointBytes: limit, LogBytes: bound, Idle: time.Hour}), core.VersioningOff)
	f.fill(0, 2000)
	next := 0
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel) // if the test fails, the read must end before the database is closed
	for range 3 {
		begun := make(chan struct{})
		var reader sync.WaitGroup
		var err error
		reader.Go(func() {
			err = f.m.readLong(ctx, "test", func(ctx context.Context, c *conn) error {
				return c.snapshot(func() error {
					_, err := c.row(listObjects, int64(f.bucket), blob(""))
					close(begun)
					<-ctx.Done()
					return errors.Join(err, ctx.Err())
				})
			})
		})
		<-begun
		longest, written := int64(0), 0
		for f.m.check.long.Load() > 0 {
			require.Less(t, written, 20_000, "the read was not ended")
			changes := make([]core.Change, 50)
			for i := range changes {
				next++
				changes[i] = f.put(benchKey((next * 7919) % 100_000))
			}
			f.apply(changes...)
			written += len(changes)
			longest = max(longest, logFileBytes(t, dir))
		}
		reader.Wait()
		require.True(t, core.Is(err, core.Busy), "%v", err)
		require.ErrorContains(t, err, "in favor of writes")
		require.Less(t, longest, int64(bound))
		require.Greater(t, longest, int64(bound/4), "the read was not ended early")
		for range 100 {
			f.apply(f.put("one more"))
			time.Sleep(time.Millisecond)
			if logFileBytes(t, dir) <= int64(2*limit+2*limit/10) {
				break
			}
		}
		require.LessOrEqual(t, logFileBytes(t, dir), int64(2*limit+2*limit/10), "the file is truncated when the log restarts")
	}
}

// TestLogBesideASnapshot checks that the log restarts while a snapshot is read, so writes need not wait for it and it
// need not yield.
func TestLogBesideASnapshot(t *testing.T) {
	const limit = 2 << 20
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{CheckpointBytes: limit, Idle: time.Hour, dumpRows: 100}), core.VersioningOff)
	f.fill(0, 1000)
	want := 1 + 1 + 1000 // the state, the bucket, and the versions
	for i := range 500 {
		f.apply(&core.DeleteObject{Bucket: f.bucket, Key: benchKey(2 * i)})
		want-- // and garbage instead
		want++
	}
	longest, rows, next := int64(0), 0, 0
	require.NoError(t, f.m.Snapshot(context.Background(), func(*core.Row) error {
		rows++
		changes := make([]core.Change, 20)
		for i := range changes {
			next++
			changes[i] = f.put(benchKey((next * 7919) % 3000))
		}
		f.apply(changes...)
		longest = max(longest, logFileBytes(t, dir))
		return nil
	}))
	require.Equal(t, want, rows)
	require.Greater(t, next, 10_000)
	require.Less(t, longest, int64(6*limit), "at most twice the limit and a quarter, and 256 changes")
	require.NoFileExists(t, filepath.Join(dir, "meta.db-images"))
}

// TestIdleLogIsEmptied checks that the log file is emptied after some time without writes, unless it is short. A long
// read delays that until the read ends.
func TestIdleLogIsEmptied(t *testing.T) {
	dir := t.TempDir()
	synced := 0
	f := feed(t, openAt(t, dir, Options{Idle: 5 * time.Millisecond, BeforeSync: func() { synced++ }}), core.VersioningOff)
	f.apply(f.put("small"))
	require.Never(t, func() bool { return logFileBytes(t, dir) == 0 }, 50*time.Millisecond, 5*time.Millisecond)
	f.fill(0, 5000)
	emptied := func() bool { return logFileBytes(t, dir) == 0 }
	require.Eventually(t, emptied, 10*time.Second, time.Millisecond)
	require.NotZero(t, synced)
	reading, end := make(chan struct{}), make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		var once sync.Once
		if err := f.m.Salvage(context.Background(), func(*core.Row) error {
			once.Do(func() { close(reading) })
			<-end
			return nil
		}, nil); err != nil {
			t.Error(err)
		}
	})
	<-reading
	f.fill(5000, 10_000)
	length := logFileBytes(t, dir)
	require.Greater(t, length, int64(idleBytes))
	close(end)
	reader.Wait()
	require.Eventually(t, emptied, 10*time.Second, time.Millisecond)
	f.fill(10_000, 10_100)
}

// TestCanceledSnapshot checks that a long read can be canceled, and that its error differs from that of a read that
// yielded.
func TestCanceledSnapshot(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.fill(0, 100)
	ctx, cancel := context.WithCancel(context.Background())
	err := f.m.Snapshot(ctx, func(*core.Row) error { cancel(); return nil })
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	_, err = f.m.Verify(ctx)
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	_, err = f.m.Verify(context.Background())
	require.NoError(t, err)
}
