package s3

import (
	"net/http"

	"orcas/gate"
)

// Busy responds to a request that arrives while all connections are in use: with 503 SlowDown, as ServeHTTP does beyond
// Options.MaxInFlight. It closes the connection. The APIs that share the listener handle their requests as usual.
func (s *Server) Busy(w http.ResponseWriter, r *http.Request) {
	if api := gate.Find(s.apis, r, s.hostBucket(r) != ""); api != nil {
		w.Header().Set("Connection", "close")
		api.Handler.ServeHTTP(w, r)
		return
	}
	q := &request{s: s, w: w, r: r, ctx: r.Context(), header: w.Header(), start: s.now(), id: s.requestID()}
	q.begin()
	defer q.finish()
	q.reason = gate.Connections
	q.fail(errSlowDown.WithHeader("Connection", "close"))
}
