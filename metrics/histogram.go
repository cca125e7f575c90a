package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxBounds is the maximum number of bounds of a Histogram.
const maxBounds = 20

// Bounds are the upper bounds of the buckets of a Histogram, in ascending order, in the unit of its observations. unit is
// the value of one such unit in the exported metric.
type Bounds struct {
	upper []int64
	unit  float64
}

// newBounds returns bounds in an exported unit.
func newBounds(unit float64, exported ...float64) *Bounds {
	b := &Bounds{unit: unit}
	for _, e := range exported {
		b.upper = append(b.upper, int64(e/unit+0.5))
	}
	return b
}

// The bounds of the histograms.
var (
	// requestBounds are for requests: from the time of a cached GET to that of a large upload.
	requestBounds = newBounds(1e-9, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
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

// metric returns the state of a Histogram, or nil if it is empty and optional.
func (h *Histogram) metric(b *Bounds, desc *prometheus.Desc, optional bool, labels ...string) prometheus.Metric {
	var count uint64
	cumulative := make(map[float64]uint64, len(b.upper))
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(b.upper) {
			cumulative[float64(b.upper[i])*b.unit] = count
		}
	}
	if count == 0 && optional {
		return nil
	}
	return prometheus.MustNewConstHistogram(desc, count, float64(h.sum.Load())*b.unit, cumulative, labels...)
}
