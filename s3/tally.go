package s3

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"orcas/gate"
	"orcas/internal/latency"
)

// Tally is an observer that counts requests. Counting one takes two or three atomic additions.
type Tally struct {
	times                  [latency.Classes]atomic.Int64 // number of requests by the class of their duration
	in, out                atomic.Int64
	clientErrors, failures atomic.Int64
}

// Counts holds the counts of a Tally.
type Counts struct {
	Requests     int64
	ClientErrors int64 // responses with status 400 to 499
	ServerErrors int64 // responses with status 500 or higher
	In, Out      int64 // bytes of request and response bodies

	times latency.Histogram
}

// Observe implements gate.Observer.
func (t *Tally) Observe(_ context.Context, e *gate.Event) {
	t.times[latency.Class(e.Took)].Add(1)
	if e.In > 0 {
		t.in.Add(e.In)
	}
	if e.Out > 0 {
		t.out.Add(e.Out)
	}
	switch {
	case e.Status >= http.StatusInternalServerError:
		t.failures.Add(1)
	case e.Status >= http.StatusBadRequest:
		t.clientErrors.Add(1)
	}
}

// Take returns the counts since the last call, and resets them.
func (t *Tally) Take() *Counts {
	c := &Counts{
		ClientErrors: t.clientErrors.Swap(0), ServerErrors: t.failures.Swap(0), In: t.in.Swap(0), Out: t.out.Swap(0),
	}
	for i := range t.times {
		c.times[i] = t.times[i].Swap(0)
		c.Requests += c.times[i]
	}
	return c
}

// Quantile returns the duration within which a share of the requests, from 0 to 1, ended. It overestimates by up to a
// quarter.
func (c *Counts) Quantile(share float64) time.Duration { return c.times.Quantile(share) }
