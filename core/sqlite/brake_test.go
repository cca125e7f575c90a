package sqlite

import (
	"context"
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

// TestLogBoundBesideASnapshot checks that while a snapshot is read and does not end, writes continue until the log
// reaches its bound. Then the snapshot yields and the log restarts. The log file is never longer than the bound, and is
// short afterwards.
func TestLogBoundBesideASnapshot(t *testing.T) {
	const limit, bound = 1 << 20, 8 << 20
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{CheckpointBytes: limit, LogBytes: bound, Idle: time.Hour}), core.VersioningOff)
	f.fill(0, 2000)
	next := 0
	for range 3 {
		begun := make(chan struct{})
		var reader sync.WaitGroup
		var err error
		reader.Go(func() {
			var once sync.Once
			err = f.m.Snapshot(context.Background(), func(*core.Row) error {
				once.Do(func() { close(begun) })
				for !f.m.check.full.Load() { // read until the log is full
					time.Sleep(time.Millisecond)
				}
				return nil
			})
		})
		<-begun
		longest, paused := int64(0), 0
		for f.m.check.long.Load() > 0 {
			changes := make([]core.Change, 50)
			for i := range changes {
				next++
				changes[i] = f.put(benchKey((next * 7919) % 100_000))
			}
			if f.m.check.pause.Load() > 0 {
				paused++
			}
			f.apply(changes...)
			longest = max(longest, logFileBytes(t, dir))
		}
		reader.Wait()
		require.True(t, core.Is(err, core.Busy), "%v", err)
		require.ErrorContains(t, err, "in favor of writes")
		require.Less(t, longest, int64(bound))
		require.Greater(t, longest, int64(bound/2), "most of the bound was used")
		require.NotZero(t, paused, "writes were slowed down before")
		f.apply(f.put("one more"))
		require.LessOrEqual(t, logFileBytes(t, dir), int64(2*limit+2*limit/10), "the file is truncated when the log restarts")
	}
	rows := 0
	require.NoError(t, f.m.Snapshot(context.Background(), func(*core.Row) error { rows++; return nil }))
	require.Greater(t, rows, 2000)
}

// TestPauseFor checks that the further the log is ahead of the read, the longer is the pause for the same number of
// bytes.
func TestPauseFor(t *testing.T) {
	for _, done := range []float64{0, 0.25, 0.5} {
		free := done * (1 - aheadMax)
		require.Zero(t, pauseFor(64<<10, free, done))
		require.Zero(t, pauseFor(64<<10, free/2, done))
		last := time.Duration(0)
		for ahead := aheadMax / 8; ahead <= aheadMax; ahead += aheadMax / 8 {
			p := pauseFor(64<<10, free+ahead, done)
			require.Greater(t, p, last)
			last = p
		}
		require.InDelta(t, float64(62500*time.Microsecond), float64(last), float64(time.Microsecond))
		require.Equal(t, last, pauseFor(64<<10, 1, done))
		require.Equal(t, pauseMax, pauseFor(64<<20, 1, done))
	}
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
		if err := f.m.Snapshot(context.Background(), func(*core.Row) error {
			once.Do(func() { close(reading) })
			<-end
			return nil
		}); err != nil {
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
