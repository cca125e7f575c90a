package live_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/live"
)

// TestUpdate: concurrent updates are not lost, and a reader never sees a mix of two updates.
func TestUpdate(t *testing.T) {
	v := live.New(live.Settings{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				v.Update(func(s *live.Settings) { s.MaxInFlight++; s.MinRate++ })
				if s := v.Load(); s.MaxInFlight != s.MinRate {
					t.Errorf("MaxInFlight is %d and MinRate is %d: a mix of two updates", s.MaxInFlight, s.MinRate)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 8000, v.Load().MaxInFlight)
}

// TestLevel: a change of the level affects existing handlers.
func TestLevel(t *testing.T) {
	v := live.New(live.Settings{LogLevel: slog.LevelWarn})
	h := slog.NewJSONHandler(t.Output(), &slog.HandlerOptions{Level: v})
	require.False(t, h.Enabled(context.Background(), slog.LevelInfo))
	v.Update(func(s *live.Settings) { s.LogLevel = slog.LevelDebug })
	require.True(t, h.Enabled(context.Background(), slog.LevelInfo))
}
