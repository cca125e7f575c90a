package reclaim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
	"orcas/reclaim"
	"orcas/storetest"
)

// busyMeta is metadata whose snapshots take some time, and may be aborted in favor of writes.
type busyMeta struct {
	*mem.Meta
	now    time.Time
	takes  time.Duration
	aborts bool
	tries  int
}

func (m *busyMeta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	m.tries++
	m.now = m.now.Add(m.takes)
	if m.aborts {
		return core.E("test.Snapshot", core.Busy, nil)
	}
	return m.Meta.Snapshot(ctx, emit)
}

// TestSnapshotGivesWay checks that a snapshot that is aborted in favor of writes does not fail the round, and that it
// is retried after a pause of ten times its duration. Until then, the blocks that wait for it are kept. A full round
// retries immediately, and returns the error.
func TestSnapshotGivesWay(t *testing.T) {
	meta := &busyMeta{Meta: mem.NewMeta(), now: time.Now(), takes: 3 * time.Second, aborts: true}
	store := storetest.Open(t, storetest.Options{Blocks: mem.NewBlocks(), Meta: meta, Reclaim: reclaim.Options{Now: func() time.Time { return meta.now }}})
	for round := range 2 {
		for i := range 400 {
			store.Set(fmt.Sprint("key", i), storetest.Random(uint64(1000*round+i), 60_000))
		}
	}
	// All content of these blocks is dead, so a round empties them, and they wait for a snapshot.
	rounds := func(n int) (freed int) {
		for range n {
			report, err := store.Reclaimer.Round(ctx, false)
			require.NoError(t, err)
			freed += report.BlocksFreed
		}
		return freed
	}
	require.Zero(t, rounds(3))
	require.Equal(t, 1, meta.tries)
	meta.now = meta.now.Add(29 * time.Second)
	require.Zero(t, rounds(3))
	require.Equal(t, 1, meta.tries, "too early for a retry")
	_, err := store.Reclaimer.Round(ctx, true)
	require.True(t, core.Is(err, core.Busy), "%v", err)
	tries := meta.tries
	require.Greater(t, tries, 1)
	meta.now = meta.now.Add(time.Second)
	require.Zero(t, rounds(3))
	require.Equal(t, tries+1, meta.tries, "expected one retry, and then a pause")
	meta.now = meta.now.Add(30 * time.Second)
	meta.aborts = false
	require.NotZero(t, rounds(3))
	require.Equal(t, tries+2, meta.tries)
	store.Check()
}
