package server

import (
	"context"
	"sync"
	"time"

	"orcas/admin"
	"orcas/metrics"
)

// The history has an hour, in intervals of ten seconds.
const (
	historyEvery  = 10 * time.Second
	historyPoints = 360
)

// history keeps what the requests to S3 did recently, for people who have just opened the console. It reads the counters
// that metrics have, so it costs requests nothing.
type history struct {
	mu     sync.Mutex // guards the fields below
	points []admin.HistoryPoint
	last   metrics.Totals
}

// run adds a point after each interval, until ctx ends.
func (h *history) run(ctx context.Context, counts *metrics.Requests) {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.add(now, counts.Totals())
		}
	}
}

// add adds the point of the interval that has just ended.
func (h *history) add(now time.Time, totals metrics.Totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := totals.Since(&h.last)
	h.last = totals
	if len(h.points) == historyPoints {
		h.points = append(h.points[:0], h.points[1:]...)
	}
	h.points = append(h.points, admin.HistoryPoint{
		Time: now.UTC(), Requests: d.Requests, Errors: d.Errors, In: d.In, Out: d.Out, Half: d.Latency(0.5), Most: d.Latency(0.99),
	})
}

// document returns a copy of the points.
func (h *history) document() *admin.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &admin.History{Interval: historyEvery.Seconds(), Points: append([]admin.HistoryPoint{}, h.points...)}
}
