package metrics

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"orcas/gate"
)

// unknown is the operation of requests that matched no route.
const unknown = "Unknown"

// statuses are the statuses that the APIs respond with. Each has a counter for each operation. 0 stands for requests
// that ended without a response; requests with any other status are counted as "other".
var statuses = []int{
	0, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 400, 401, 403, 404, 405, 408, 409, 411, 412, 413, 416, 417, 429, 431,
	500, 501, 503, 507,
}

// statusIndex has the position of each status in statuses, plus 1; 0 for any other.
var statusIndex = func() (index [600]uint8) {
	for i, s := range statuses {
		index[s] = uint8(i + 1)
	}
	return index
}()

// statusLabel returns the label for a position in statuses plus 1.
func statusLabel(i int) string {
	switch {
	case i == 0:
		return "other"
	case statuses[i-1] == 0:
		return "none"
	}
	return strconv.Itoa(statuses[i-1])
}

// maxStatuses is more than the number of statuses.
const maxStatuses = 32

// operation has the counts of one operation.
type operation struct {
	name      string
	requests  [maxStatuses]atomic.Uint64 // by statusIndex
	in, out   atomic.Int64
	took      Histogram
	firstByte Histogram
}

// Requests is the gate.Observer that counts the requests of one API. It is also their prometheus.Collector.
type Requests struct {
	operations []*operation
	byName     map[string]*operation
	rejections []atomic.Uint64 // by the position in reasons
	reasons    []gate.Reason
	desc       requestDescs
}

// requestDescs describe the metrics of Requests. Only requests is not nil if the API has few metrics.
type requestDescs struct{ requests, took, firstByte, in, out, rejections *prometheus.Desc }

// NewRequests returns an observer for the API of S3, with the routes that it has.
func NewRequests(routes []*gate.Route) *Requests {
	r := NewCounts("s3", routes)
	operation := []string{"operation"}
	r.desc.took = prometheus.NewDesc("orcas_s3_request_duration_seconds",
		"The time from the arrival of a request's head until the request ended.", operation, nil)
	r.desc.firstByte = prometheus.NewDesc("orcas_s3_first_byte_seconds",
		"The time from the arrival of a request's head until the head of the response was sent.", operation, nil)
	r.desc.in = prometheus.NewDesc("orcas_s3_received_bytes_total", "The size of the bodies of requests.", operation, nil)
	r.desc.out = prometheus.NewDesc("orcas_s3_sent_bytes_total", "The size of the bodies of responses.", operation, nil)
	r.desc.rejections = prometheus.NewDesc("orcas_s3_rejections_total",
		"The number of requests that a rule of the server refused.", []string{"reason"}, nil)
	return r
}

// NewCounts returns an observer that only counts the requests of an API, by operation and status.
func NewCounts(api string, routes []*gate.Route) *Requests {
	r := &Requests{byName: map[string]*operation{}, reasons: gate.Reasons()}
	r.rejections = make([]atomic.Uint64, len(r.reasons))
	r.desc.requests = prometheus.NewDesc("orcas_"+api+"_requests_total",
		"The number of requests that have ended.", []string{"operation", "status"}, nil)
	for _, route := range routes {
		r.add(route.Name)
	}
	r.add(unknown)
	return r
}

func (r *Requests) add(name string) {
	if r.byName[name] == nil {
		o := &operation{name: name}
		r.operations, r.byName[name] = append(r.operations, o), o
	}
}

// Observe implements gate.Observer.
func (r *Requests) Observe(_ context.Context, e *gate.Event) {
	o := r.byName[e.Operation]
	if o == nil {
		o = r.byName[unknown]
	}
	status := 0
	if e.Status >= 0 && e.Status < len(statusIndex) {
		status = int(statusIndex[e.Status])
	}
	o.requests[status].Add(1)
	if e.Reason != "" {
		if i := slices.Index(r.reasons, e.Reason); i >= 0 {
			r.rejections[i].Add(1)
		}
	}
	if r.desc.took == nil {
		return
	}
	o.took.observe(requestBounds, int64(e.Took))
	if e.FirstByte > 0 {
		o.firstByte.observe(requestBounds, int64(e.FirstByte))
	}
	if e.In > 0 {
		o.in.Add(e.In)
	}
	if e.Out > 0 {
		o.out.Add(e.Out)
	}
}

// Totals are the sums of all operations since the start.
type Totals struct {
	Requests, Errors uint64 // errors: with a status of 400 or more, or without a response
	In, Out          int64  // bytes of the bodies
	took             [maxBounds + 1]uint64
}

// Totals returns the sums of all operations.
func (r *Requests) Totals() (t Totals) {
	for _, o := range r.operations {
		for i := range o.requests {
			n := o.requests[i].Load()
			t.Requests += n
			if i == 0 || i > len(statuses) || statuses[i-1] == 0 || statuses[i-1] >= 400 {
				t.Errors += n
			}
		}
		t.In, t.Out = t.In+o.in.Load(), t.Out+o.out.Load()
		for i := range o.took.buckets {
			t.took[i] += o.took.buckets[i].Load()
		}
	}
	return t
}

// Since returns what has been added to earlier totals.
func (t *Totals) Since(earlier *Totals) Totals {
	d := Totals{Requests: t.Requests - earlier.Requests, Errors: t.Errors - earlier.Errors, In: t.In - earlier.In, Out: t.Out - earlier.Out}
	for i := range d.took {
		d.took[i] = t.took[i] - earlier.took[i]
	}
	return d
}

// Latency returns the time, in seconds, within which a share of the requests ended: the upper bound of the bucket of the
// histogram in which it lies. It is 0 without requests.
func (t *Totals) Latency(share float64) float64 {
	var all uint64
	for _, n := range t.took {
		all += n
	}
	if all == 0 {
		return 0
	}
	var sum uint64
	for i, n := range t.took {
		if sum += n; float64(sum) >= share*float64(all) && i < len(requestBounds.upper) {
			return float64(requestBounds.upper[i]) / requestBounds.per
		}
	}
	return float64(requestBounds.upper[len(requestBounds.upper)-1]) / requestBounds.per
}

// Describe implements prometheus.Collector.
func (r *Requests) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		r.desc.requests, r.desc.took, r.desc.firstByte, r.desc.in, r.desc.out, r.desc.rejections,
	} {
		if d != nil {
			c <- d
		}
	}
}

// Collect implements prometheus.Collector. It returns only operations that were used, except that requests of the
// operations in always are counted from 0, so that the first of them shows in a rate.
func (r *Requests) Collect(c chan<- prometheus.Metric) {
	for _, o := range r.operations {
		used := o.collectRequests(c, r.desc.requests)
		if !used || r.desc.took == nil {
			continue
		}
		c <- o.took.metric(requestBounds, r.desc.took, o.name)
		c <- o.firstByte.metric(requestBounds, r.desc.firstByte, o.name)
		c <- prometheus.MustNewConstMetric(r.desc.in, prometheus.CounterValue, float64(o.in.Load()), o.name)
		c <- prometheus.MustNewConstMetric(r.desc.out, prometheus.CounterValue, float64(o.out.Load()), o.name)
	}
	if r.desc.rejections == nil {
		return
	}
	for i, reason := range r.reasons {
		c <- prometheus.MustNewConstMetric(r.desc.rejections, prometheus.CounterValue, float64(r.rejections[i].Load()), string(reason))
	}
}

// common are the operations whose metrics exist before their first request, so that a rate over the first requests, and
// a dashboard of a new server, show them.
var common = map[string]bool{"PutObject": true, "GetObject": true, "HeadObject": true, "DeleteObject": true, "ListObjectsV2": true, unknown: true}

// collectRequests emits the counts of requests, and reports whether the operation is used or common.
func (o *operation) collectRequests(c chan<- prometheus.Metric, desc *prometheus.Desc) bool {
	used := common[o.name]
	for i := range len(statuses) + 1 {
		n := o.requests[i].Load()
		if n > 0 || common[o.name] && isCommonStatus(i) {
			used = true
			c <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), o.name, statusLabel(i))
		}
	}
	return used
}

// isCommonStatus reports whether a position in statuses plus 1 is that of a status which common operations have from
// the start.
func isCommonStatus(i int) bool {
	return i > 0 && slices.Contains([]int{200, 403, 500, 503}, statuses[i-1])
}
