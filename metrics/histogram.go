package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxBounds is the maximum number of bounds of a Histogram.
const maxBounds = 20

// Bounds are the upper bounds of the buckets of a Histogram, in ascending order, in the unit of its observations. per is the
// number of these units in a unit of the exported metric.
type Bounds struct {
	upper []int64
	per   float64
}

// newBounds returns bounds in the unit of the exported metric.
func newBounds(per float64, exported ...float64) *Bounds {
	b := &Bounds{per: per}
	for _, e := range exported {
		b.upper = append(b.upper, int64(e*per+0.5))
	}
	return b
}

// perSecond is the unit of durations.
const perSecond = float64(time.Second)

// The bounds of the histograms.
var (
	// requestBounds are for requests: from the time of a cached GET to that of a large upload.
	requestBounds = newBounds(perSecond, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
	// syncBounds are for steps that every write waits for.
	syncBounds = newBounds(perSecond, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
	// countBounds are for objects in a batch.
	countBounds = newBounds(1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
	// sizeBounds are for bytes in a batch.
	sizeBounds = newBounds(1, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 2<<20, 4<<20, 8<<20, 16<<20, 64<<20)
)

// Histogram counts observations in fixed buckets. It is used with the same Bounds in every call. The zero value is empty.
type Histogram struct {
	buckets [maxBounds + 1]atomic.Uint64 // not cumulative; the last one used is for everything above the bounds
	sum     atomic.Int64                 // in the unit of observations
}

// observe counts one value. It takes two atomic additions.
func (h *Histogram) observe(b *Bounds, value int64) {
	i := 0
	for i < len(b.upper) && value > b.upper[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(value)
}

// metric returns the state of a Histogram.
func (h *Histogram) metric(b *Bounds, desc *prometheus.Desc, labels ...string) prometheus.Metric {
	var count uint64
	cumulative := make(map[float64]uint64, len(b.upper))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(b.upper) {
			cumulative[float64(b.upper[i])/b.per] = count
		}
	}
	return prometheus.MustNewConstHistogram(desc, count, float64(h.sum.Load())/b.per, cumulative, labels...)
}
