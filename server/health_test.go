package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestHealthOnAFullDrive: a server whose drive is full is ready, but says so, also if nothing is reserved.
func TestHealthOnAFullDrive(t *testing.T) {
	s, err := Open(t.Context(), testConfig(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Eventually(t, func() bool { return !s.comparing() }, time.Minute, time.Millisecond)
	blocks := s.blocks
	defer func() { s.blocks = blocks }()
	for _, c := range []struct {
		free, reserve int64
		full          bool
	}{{100, 0, false}, {0, 0, true}, {11, 10, false}, {10, 10, true}} {
		s.blocks, s.config.Settings.MinFree = &drive{Blocks: blocks, free: c.free, total: 1000}, Reserve{Bytes: c.reserve}
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/-/health/ready", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), `"status":"ready"`)
		require.Equal(t, c.full, strings.Contains(w.Body.String(), `"drive_full":true`), "%+v: %s", c, w.Body)
	}
}
