package scrub_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/fsck"
	"orcas/scrub"
	"orcas/storetest"
)

// TestCompareGivesWay checks that the existing blocks are read even if the search for missing blocks is always aborted
// in favor of writes.
func TestCompareGivesWay(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Churn(50)
	store.Set("large", storetest.Filler(1, 100_000))
	searches, busy := 0, true
	store.Scrubber = store.NewScrubber(scrub.Options{Compare: func(ctx context.Context) (*fsck.Comparison, error) {
		if searches++; busy {
			return nil, core.E("test", core.Busy, nil)
		}
		return fsck.Compare(ctx, store.Meta, store.Blocks)
	}})
	require.Equal(t, 1, store.Pass().Passes)
	require.Equal(t, 2, searches, "the search must be repeated at the end of the pass")
	busy = false
	require.NoError(t, store.Blocks.Delete(ctx, store.Data("large").Extents[0].Block))
	require.Equal(t, 1, store.Pass().Missing)
	require.Equal(t, 3, searches)
}
