package reclaim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/reclaim"
	"orcas/storetest"
)

// TestSnapshotsAreSpared: a few keys that are overwritten all the time beside content that stays ask for a snapshot
// of everything when the last one was long ago, or when what waits for it is a good share of the content, and not
// whenever a block is empty.
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

	require.Equal(t, 1, round(little).Snapshots, "the first of this start")
	report := round(little)
	require.Zero(t, report.Snapshots, "too soon")
	require.Positive(t, report.Waiting)
	now = now.Add(10 * took)
	report = round(0)
	require.Equal(t, 1, report.Snapshots)
	require.Zero(t, report.Waiting)
	require.Greater(t, report.BytesFreed, int64(little/2))
	require.Equal(t, 1, round(much).Snapshots, "so much need not wait")
	require.Zero(t, round(little).Snapshots)
	now = now.Add(-time.Hour)
	require.Equal(t, 1, round(0).Snapshots, "nobody waits for a clock that was set back")
}
