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

// busyMeta is metadata whose snapshots take some time, and then give way to writes.
type busyMeta struct {
	*mem.Meta
	now   time.Time
	takes time.Duration
	gives bool // way
	tries int
}

func (m *busyMeta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	m.tries++
	m.now = m.now.Add(m.takes)
	if m.gives {
		return core.E("test.Snapshot", core.Busy, nil)
	}
	return m.Meta.Snapshot(ctx, emit)
}

// TestSnapshotGivesWay: a snapshot that gives way to writes is no error of a round, and is tried again after ten
// times the time that it took; what waits for it waits. A full round tries at once, and returns the error.
func TestSnapshotGivesWay(t *testing.T) {
	meta := &busyMeta{Meta: mem.NewMeta(), now: time.Now(), takes: 3 * time.Second, gives: true}
	store := storetest.Open(t, storetest.Options{Blocks: mem.NewBlocks(), Meta: meta, Reclaim: reclaim.Options{Now: func() time.Time { return meta.now }}})
	for round := range 2 {
		for i := range 400 {
			store.Set(fmt.Sprint("key", i), storetest.Random(uint64(1000*round+i), 60_000))
		}
	}
	// A block of which everything is dead is emptied by a round, and waits for a snapshot.
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
	require.Equal(t, 1, meta.tries, "it is at rest")
	_, err := store.Reclaimer.Round(ctx, true)
	require.True(t, core.Is(err, core.Busy), "%v", err)
	tries := meta.tries
	require.Greater(t, tries, 1)
	meta.now = meta.now.Add(time.Second)
	require.Zero(t, rounds(3))
	require.Equal(t, tries+1, meta.tries, "one more, and another rest")
	meta.now = meta.now.Add(30 * time.Second)
	meta.gives = false
	require.NotZero(t, rounds(3))
	require.Equal(t, tries+2, meta.tries)
	store.Check()
}
