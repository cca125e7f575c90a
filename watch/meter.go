package watch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"orcas/gate"
	"orcas/internal/latency"
)

// Meter measures all requests while it is open. It is safe for concurrent use.
type Meter struct {
	hub *Hub

	mu         sync.Mutex // guards the fields below
	since      time.Time
	all        count
	operations map[string]*count
	buckets    map[string]*count
}

// maxBuckets is the maximum number of buckets that a Meter tells apart, and shown the number that it returns.
const (
	maxBuckets = 4096
	shown      = 20
)

// otherBuckets is the name for all buckets beyond maxBuckets, which no bucket has.
const otherBuckets = "(other)"

// Rates are the measurements of one interval.
type Rates struct {
	Seconds    float64 `json:"seconds"` // the length of the interval
	All        Rate    `json:"all"`
	Operations []Rate  `json:"operations"` // those with the most requests, in this order
	Buckets    []Rate  `json:"buckets"`
}

// Rate has the measurements of an operation or a bucket.
type Rate struct {
	Name     string `json:"name,omitempty"`
	Requests int64  `json:"requests"`
	Errors   int64  `json:"errors"` // with a status of 400 or more, or without a response
	Faults   int64  `json:"faults"` // with a status of 500 or more
	In       int64  `json:"in"`     // bytes of the bodies
	Out      int64  `json:"out"`
	Half     int64  `json:"p50_us"` // microseconds; up to a quarter too large
	Most     int64  `json:"p99_us"`
}

// count counts requests.
type count struct {
	Rate
	times latency.Histogram
}

func (c *count) add(e *gate.Event) {
	c.Requests++
	if failed(e.Status) {
		c.Errors++
	}
	if e.Status >= 500 {
		c.Faults++
	}
	c.In += max(e.In, 0)
	c.Out += max(e.Out, 0)
	c.times[latency.Class(e.Took)]++
}

// rate returns the measurements under a name.
func (c *count) rate(name string) Rate {
	r := c.Rate
	r.Name, r.Half, r.Most = name, c.times.Quantile(0.5).Microseconds(), c.times.Quantile(0.99).Microseconds()
	return r
}

// Meter begins to measure. The caller closes the Meter.
func (h *Hub) Meter() (*Meter, error) {
	m := &Meter{hub: h, since: time.Now(), operations: map[string]*count{}, buckets: map[string]*count{}}
	return m, h.add(m)
}

// Close ends the measurement. It may be called more than once.
func (m *Meter) Close() { m.hub.remove(m) }

func (m *Meter) observe(api string, e *gate.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.add(e)
	operation := cmp.Or(e.Operation, "Unknown")
	if api != "s3" {
		operation = api + " " + operation
	}
	countOf(m.operations, operation).add(e) // operations are names of routes, so there are not many
	if e.Bucket == "" {
		return
	}
	bucket := e.Bucket
	if _, known := m.buckets[bucket]; !known && (len(m.buckets) >= maxBuckets || len(bucket) > maxBucketName || mayNotExist(e.Status)) {
		bucket = otherBuckets
	}
	countOf(m.buckets, bucket).add(e)
}

// maxBucketName is the length of the longest name that a bucket can have. A request may name a longer one.
const maxBucketName = 63

// mayNotExist reports whether a request with a status may name a bucket that does not exist: it may have been refused
// before anybody looked for the bucket.
func mayNotExist(status int) bool { return status/100 == 4 || status == 503 }

// countOf returns the count with a name, which it copies.
func countOf(counts map[string]*count, name string) *count {
	c := counts[name]
	if c == nil {
		c = &count{}
		counts[strings.Clone(name)] = c
	}
	return c
}

// Take returns the measurements since the last call, and begins a new interval.
func (m *Meter) Take() *Rates {
	m.mu.Lock()
	now := time.Now()
	r := &Rates{Seconds: now.Sub(m.since).Seconds()}
	all, operations, buckets := m.all, m.operations, m.buckets
	m.since, m.all, m.operations, m.buckets = now, count{}, map[string]*count{}, map[string]*count{}
	m.mu.Unlock()
	r.All, r.Operations, r.Buckets = all.rate(""), busiest(operations), busiest(buckets)
	return r
}

// busiest returns the measurements with the most requests.
func busiest(counts map[string]*count) []Rate {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b].Requests, counts[a].Requests), cmp.Compare(a, b))
	})
	list := make([]Rate, 0, shown)
	for _, name := range names[:min(shown, len(names))] {
		list = append(list, counts[name].rate(name))
	}
	return list
}
