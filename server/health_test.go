package server

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHealthRelaxed: with relaxed durability, and only then, the health check shows what a power cut could lose.
func TestHealthRelaxed(t *testing.T) {
	for _, durability := range []Durability{Strict, Relaxed} {
		config := testConfig(t)
		config.Settings.Durability = durability
		s, _ := running(t, config)
		resp, err := httpClient(t, s).Get(s.Endpoint() + "/-/health/ready")
		require.NoError(t, err)
		var health struct {
			Relaxed map[string]float64 `json:"relaxed"`
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&health))
		require.NoError(t, resp.Body.Close())
		if durability == Strict {
			require.Nil(t, health.Relaxed)
			continue
		}
		require.Equal(t, []string{"last_sync_seconds", "oldest_write_seconds", "running_sync_seconds", "window_seconds"},
			slices.Sorted(maps.Keys(health.Relaxed)))
		require.Equal(t, config.Settings.Window.Seconds(), health.Relaxed["window_seconds"])
	}
}
