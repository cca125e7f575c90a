package server

import (
	"context"
	"encoding/json"
	"net/http"

	"orcas/internal/build"
)

// Version returns the version of this binary: the release, the commit, or "devel".
func Version() string { return build.Read().Version }

// health serves /-/health/live (the process responds) and /-/health/ready (it accepts requests, including writes). A
// server whose drive is full is ready: reads and deletes work, and a restart would not help. Neither needs credentials.
type health struct {
	version    string
	durability Durability
	state      func() string
	comparing  func() bool
	full       func(context.Context) bool // the drive is full
	lag        func() *relaxedHealth      // nil in strict mode
}

// relaxedHealth describes what a power cut at this moment could lose: writes acknowledged within the window plus the
// time of the last sync and of the one in progress.
type relaxedHealth struct {
	Window  float64 `json:"window_seconds"`
	Last    float64 `json:"last_sync_seconds"`
	Running float64 `json:"running_sync_seconds"`
	Oldest  float64 `json:"oldest_write_seconds"` // age of the oldest write that is not known to be durable
}

// The states in which a server is ready.
const (
	stateReady    = "ready"
	stateDegraded = "degraded"
)

// The states in which it is not, because it refuses all writes.
const (
	stateReadOnly = "readonly"
	stateStopping = "stopping"
)

type healthResponse struct {
	Status     string     `json:"status"`
	Durability Durability `json:"durability"`
	Version    string     `json:"version"`
	Comparing  bool       `json:"comparing_blocks,omitempty"` // it is not yet known whether blocks are missing
	DriveFull  bool       `json:"drive_full,omitempty"`       // PUT is refused with 507

	Relaxed *relaxedHealth `json:"relaxed,omitempty"`
}

// ServeHTTP implements http.Handler.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := healthResponse{Durability: h.durability, Version: h.version}
	status := http.StatusOK
	switch r.URL.Path {
	case "/-/health/live":
		response.Status = "live"
	case "/-/health/ready":
		response.Status, response.Comparing, response.DriveFull = h.state(), h.comparing(), h.full(r.Context())
		if response.Status != stateReady && response.Status != stateDegraded {
			status = http.StatusServiceUnavailable
		}
		if h.lag != nil {
			response.Relaxed = h.lag()
		}
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error here means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(response)
}
