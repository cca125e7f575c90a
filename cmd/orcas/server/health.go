package server

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
)

// Version returns what this binary was built from: a released version, or the commit, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "devel"
}

// health answers /-/health/live (the process answers) and /-/health/ready (it takes requests, writes too). Both need no
// credentials, and tell nothing that the banner does not.
type health struct {
	version    string
	durability Durability
	state      func() string
}

// stateReady is the one state in which a server is ready.
const stateReady = "ready"

type healthAnswer struct {
	Status     string     `json:"status"`
	Durability Durability `json:"durability"`
	Version    string     `json:"version"`
}

// ServeHTTP implements http.Handler.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := healthAnswer{Durability: h.durability, Version: h.version}
	status := http.StatusOK
	switch r.URL.Path {
	case "/-/health/live":
		answer.Status = "live"
	case "/-/health/ready":
		if answer.Status = h.state(); answer.Status != stateReady {
			status = http.StatusServiceUnavailable
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
	// An error here is a client that went away.
	_ = json.NewEncoder(w).Encode(answer)
}
