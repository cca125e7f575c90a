package reclaim_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/reclaim"
	"orcas/storetest"
)

// TestLongReadersAreReported checks that readers that pin dead content for a long time cause one warning, and that
// later readers cause another.
func TestLongReadersAreReported(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	store := storetest.Open(t, storetest.Options{Reclaim: reclaim.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }}})
	warnings := func() int { return strings.Count(log.String(), "slow readers keep deleted content") }
	for turn := range 2 {
		store.Set("key", storetest.Random(uint64(turn), 900_000))
		o, err := store.FS.Open(ctx, store.Bucket, "key", core.Current)
		require.NoError(t, err)
		s, err := o.Range(ctx, 0, o.Info.Size)
		require.NoError(t, err)
		o.Close()
		store.Remove("key")
		for i := range 8 {
			store.Set("other", storetest.Random(uint64(i), 300_000)) // garbage that is freed must not affect the warning
			_, err := store.Reclaimer.Round(ctx, i%4 == 0)
			require.NoError(t, err)
			require.Equal(t, turn+i/5, warnings(), "after %d minutes", i)
			now = now.Add(time.Minute)
		}
		require.NoError(t, s.Close())
		store.Full()
	}
	require.Contains(t, log.String(), "pinned_bytes=900")
	require.Contains(t, log.String(), "oldest_reader_seconds=")
}
