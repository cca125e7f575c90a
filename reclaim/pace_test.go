package reclaim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/reclaim"
	"orcas/storetest"
)

// TestSnapshotsAreSpared overwrites a few keys continually, in a store with much other content. A snapshot must not be
// written whenever a block has been emptied, but only if the last snapshot was long ago, or if the blocks that wait for
// it have a considerable share of the content.
func TestSnapshotsAreSpared(t *testing.T) {
	const took = time.Second
	now := time.Unix(1_800_000_000, 0)
	store := storetest.Open(t, storetest.Options{Reclaim: reclaim.Options{Now: func() time.Time { return now }}})
	store.Hook = func(place string) {
		if place == reclaim.HookSnapshot {
			now = now.Add(took)
		}
	}
	store.Set("stays", storetest.Random(1, 200<<20))
	seed := uint64(1)
	round := func(overwritten int) reclaim.Report {
		for range overwritten / 60_000 {
			seed++
			store.Set(fmt.Sprint("hot-", seed%8), storetest.Random(seed, 60_000))
		}
		report, err := store.Reclaimer.Round(ctx, false)
		require.NoError(t, err)
		return report
	}
	const little, much = 20 << 20, 80 << 20

	require.Equal(t, 1, round(little).Snapshots, "the first snapshot since the start")
	report := round(little)
	require.Zero(t, report.Snapshots, "too soon")
	require.Positive(t, report.Waiting)
	now = now.Add(10 * took)
	report = round(0)
	require.Equal(t, 1, report.Snapshots)
	require.Zero(t, report.Waiting)
	require.Greater(t, report.BytesFreed, int64(little/2))
	require.Equal(t, 1, round(much).Snapshots, "the dead blocks are a large share of the content")
	require.Zero(t, round(little).Snapshots)
	now = now.Add(-time.Hour)
	require.Equal(t, 1, round(0).Snapshots, "the clock was set back")
}
