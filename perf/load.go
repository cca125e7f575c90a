package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"orcas/internal/loadgen"
)

// Load is a stream of requests to one Target, in a closed or an open loop.
//
// In a closed loop, each of Workers sends its next request when it has received the response to the previous one. So a
// server that stalls receives fewer requests, and its stall is one slow response per worker. In an open loop (Rate),
// requests are sent at fixed times, whether or not the responses to earlier ones have arrived. Latency counts from the
// intended time, so a stall shows in all requests that it delays. Workers then bounds the number of connections. If all
// of them are busy, a request waits, and the wait counts as latency.
type Load struct {
	Target   *loadgen.Target
	Workers  int
	Rate     float64       // requests per second; 0 means a closed loop
	RateTo   float64       // the rate changes linearly to this one, if not 0
	Ramp     time.Duration // the starts of the workers are spread over this time
	Duration time.Duration
	Count    uint64 // stop after this many requests, if not 0
	MaxBytes int64  // stop after sending this many bytes of bodies, if not 0
	// Next returns request n and the expected response. Requests are numbered from 0, without gaps in an open loop; in
	// a closed loop, worker w has the numbers w, w+Workers, ... unless Shared is set. Next is called by many goroutines
	// concurrently, but for each Worker by only one.
	Next func(w *Worker, n uint64) (loadgen.Request, Expect)
	// Shared makes the workers of a closed loop share one sequence of numbers: each request gets the next number. So
	// fast workers send more requests than slow ones, and all workers stay busy until Count is reached. The numbers
	// below Count have no gaps.
	Shared bool
	// StopAtFailure makes a closed loop stop once a request has failed; requests in flight are completed.
	StopAtFailure bool
	// Stop, if set to true, ends the load; requests in flight are completed.
	Stop   *atomic.Bool
	PID    int  // process ID of the server, to measure its CPU time and memory; 0 if they are not measured
	Script bool // requests depend on the previous response, so the load needs a closed loop
	// Unfinished reports whether a worker is in the middle of an operation that takes several requests. In a closed
	// loop, the worker completes it after the end of the load. Unfinished is nil if no operation takes several
	// requests.
	Unfinished func(w *Worker) bool
}

// Worker is the user of one connection. State belongs to Next.
type Worker struct {
	ID    int
	Last  loadgen.Reply // the response to the previous request
	OK    bool          // Last was the expected response
	State any
	body  []byte
	of    *Contents
}

// Body returns the body of c with the given number, in a buffer that belongs to w.
func (w *Worker) Body(c *Contents, number uint64) (body []byte, hash string) {
	if w.of != c {
		w.of, w.body = c, nil
	}
	w.body, hash = c.Body(number, w.body)
	return w.body, hash
}

// Expect describes the expected response to a request.
type Expect struct {
	Status int
	Body   bool // compare Size and XXH3
	Size   int64
	XXH3   uint64
	Type   string                       // the Content-Type, if not empty; needs Request.Keep
	Check  func(a *loadgen.Reply) error // a further check, if not nil
}

// mismatch returns an error if a response is not as expected.
func (e *Expect) mismatch(a *loadgen.Reply) error {
	switch {
	case a.Status != e.Status:
		return fmt.Errorf("status %d, not %d", a.Status, e.Status)
	case e.Body && a.Size != e.Size:
		return fmt.Errorf("%d bytes, not %d", a.Size, e.Size)
	case e.Body && a.XXH3 != e.XXH3:
		return errors.New("wrong content")
	case e.Type != "" && a.Type != e.Type:
		return fmt.Errorf("type %q, not %q", a.Type, e.Type)
	case e.Check != nil:
		return e.Check(a)
	}
	return nil
}

// OpResult is the result of a load for one operation.
type OpResult struct {
	Op             string
	Latency        *hdrhistogram.Histogram // in microseconds
	Completed      int64                   // requests with a response
	Successful     int64                   // requests with the expected response
	Failed         int64                   // requests with an unexpected response or none
	Bytes          int64                   // body bytes of successful requests, in both directions
	BodyBytes      int64                   // size of the largest body
	Statuses       map[int]int64
	latencySum     time.Duration
	latencySamples int64
}

// LoadResult is the result of a Load.
type LoadResult struct {
	Load                 *Load
	Connections          int // number of connections used
	Sent                 int64
	Unsent               int64         // requests that were due, but found no free connection
	Window               time.Duration // time in which requests were sent
	Elapsed              time.Duration // time until the last response
	All                  *OpResult     // all operations together
	Ops                  []*OpResult   // each operation, if there are several, sorted by name
	FirstError           error
	ServerCPU, ClientCPU time.Duration
	PeakRSS              int64
}

// Rate returns the number of successful operations per second.
func (r *LoadResult) Rate() float64 { return float64(r.All.Successful) / r.Elapsed.Seconds() }

// ErrorRate returns the share of requests that did not get the expected response, from 0 to 1.
func (r *LoadResult) ErrorRate() float64 {
	if r.Sent == 0 {
		return 0
	}
	return 1 - float64(r.All.Successful)/float64(r.Sent)
}

// runner is a load in progress.
type runner struct {
	*Load
	ctx     context.Context
	start   time.Time
	sent    atomic.Int64
	bytes   atomic.Int64
	next    atomic.Uint64 // the next number of a Shared load
	tallies [8]tally
	first   atomic.Pointer[error]
}

// Run runs the load. It returns an error if ctx ends before the load does, or if no request was completed. Unexpected
// responses are not errors; see LoadResult.FirstError.
func (l *Load) Run(ctx context.Context) (*LoadResult, error) {
	r := &runner{Load: l, ctx: ctx}
	server, client := cpuTime(l.PID), ownCPUTime()
	var o opened
	var err error
	r.start = time.Now()
	if l.Rate > 0 {
		o, err = r.open()
	} else {
		err = r.closed()
	}
	res := r.result(o)
	for _, t := range o.unsent { // their latency is at least this long
		_ = res.All.Latency.RecordValue(min(time.Since(t.intended), maxLatency).Microseconds()) // it is in range
	}
	res.ServerCPU, res.ClientCPU = cpuTime(l.PID)-server, ownCPUTime()-client
	_, res.PeakRSS = ResidentBytes(l.PID)
	switch {
	case ctx.Err() != nil:
		return res, ctx.Err()
	case err != nil:
		return res, err
	case res.All.Completed == 0 && res.FirstError != nil:
		return res, fmt.Errorf("no request was completed: %w", res.FirstError)
	case res.All.Completed == 0:
		return res, fmt.Errorf("no request was completed in %v", res.Elapsed)
	}
	return res, nil
}

// over reports whether a closed loop has ended, so that request n is not sent.
func (r *runner) over(n uint64) bool {
	return r.ctx.Err() != nil || r.Stop != nil && r.Stop.Load() || r.StopAtFailure && r.first.Load() != nil || r.Count > 0 && n >= r.Count || r.Duration > 0 && time.Since(r.start) >= r.Duration ||
		r.MaxBytes > 0 && r.bytes.Load() >= r.MaxBytes
}

// number returns the number of a worker's first request, or of its request after last.
func (r *runner) number(w *Worker, first bool, last uint64) uint64 {
	switch {
	case r.Shared:
		return r.next.Add(1) - 1
	case first:
		return uint64(w.ID)
	}
	return last + uint64(r.Workers)
}

// mustFinish reports whether a worker has to finish an operation after the end of the load.
func (r *runner) mustFinish(w *Worker) bool {
	return r.Unfinished != nil && r.ctx.Err() == nil && r.Unfinished(w)
}

func (r *runner) closed() error {
	clients := make([]loadgen.Conn, r.Workers)
	for i := range clients {
		clients[i] = loadgen.NewConn(r.ctx, r.Target)
		defer clients[i].Close()
		if err := clients[i].Connect(); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	r.start = time.Now()
	for id, c := range clients {
		wg.Go(func() {
			if r.Ramp > 0 {
				sleep(r.ctx, r.Ramp*time.Duration(id)/time.Duration(r.Workers))
			}
			w := &Worker{ID: id}
			for n := r.number(w, true, 0); !r.over(n) || r.mustFinish(w); n = r.number(w, false, n) {
				r.one(c, w, n, time.Now())
			}
		})
	}
	wg.Wait()
	return nil
}

// one sends request n and records the response. In an open loop, latency counts from begin.
func (r *runner) one(c loadgen.Conn, w *Worker, n uint64, begin time.Time) {
	call, want := r.Next(w, n)
	if r.Rate == 0 {
		begin = time.Now() // do not count the time to generate the body
	}
	r.sent.Add(1)
	if r.MaxBytes > 0 {
		r.bytes.Add(int64(len(call.Body)))
	}
	a, err := c.Do(&call)
	took := time.Since(begin)
	answered := err == nil
	if answered {
		err = want.mismatch(&a)
	}
	w.Last, w.OK = a, err == nil
	if err != nil {
		if r.ctx.Err() != nil {
			r.sent.Add(-1) // the run was interrupted, so the request does not count
			return
		}
		err = fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
		r.first.CompareAndSwap(nil, &err)
	}
	bytes := int64(len(call.Body))
	if call.Method == "GET" {
		bytes += a.Size
	}
	r.tallies[w.ID%len(r.tallies)].add(call.Op, a.Status, answered, err == nil, took, bytes)
	if !answered {
		sleep(r.ctx, 20*time.Millisecond) // do not flood a server that is down
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// tally collects the results of some of the workers.
type tally struct {
	mu  sync.Mutex // guards ops
	ops []*OpResult
}

func (t *tally) add(op string, status int, answered, ok bool, took time.Duration, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.ops, func(o *OpResult) bool { return o.Op == op })
	if i < 0 {
		i = len(t.ops)
		t.ops = append(t.ops, newOpResult(op))
	}
	o := t.ops[i]
	_ = o.Latency.RecordValue(min(took, maxLatency).Microseconds()) // it is in range
	o.latencySum += took
	o.latencySamples++
	o.BodyBytes = max(o.BodyBytes, bytes)
	if answered {
		o.Completed++
	}
	o.Statuses[status]++ // the status is 0 if there was no response
	if ok {
		o.Successful++
		o.Bytes += bytes
	} else {
		o.Failed++
	}
}

// maxLatency is the largest latency in a histogram.
const maxLatency = 2 * time.Minute

func newOpResult(op string) *OpResult {
	return &OpResult{Op: op, Latency: newHistogram(), Statuses: map[int]int64{}}
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency.Microseconds(), 3) }

func (o *OpResult) merge(other *OpResult) {
	o.Latency.Merge(other.Latency)
	o.Completed += other.Completed
	o.Successful += other.Successful
	o.Failed += other.Failed
	o.Bytes += other.Bytes
	o.BodyBytes = max(o.BodyBytes, other.BodyBytes)
	o.latencySum += other.latencySum
	o.latencySamples += other.latencySamples
	for status, n := range other.Statuses {
		o.Statuses[status] += n
	}
}

func (r *runner) result(o opened) *LoadResult {
	res := &LoadResult{Load: r.Load, Elapsed: time.Since(r.start), Sent: r.sent.Load(), All: newOpResult(""), Connections: r.Workers}
	res.Window = res.Elapsed
	if r.Rate > 0 {
		res.Connections, res.Unsent, res.Window = o.connections, int64(len(o.unsent)), o.window
		res.Elapsed = max(res.Elapsed, res.Window)
	}
	byName := map[string]*OpResult{}
	for i := range r.tallies {
		for _, o := range r.tallies[i].ops {
			res.All.merge(o)
			if byName[o.Op] == nil {
				byName[o.Op] = newOpResult(o.Op)
				res.Ops = append(res.Ops, byName[o.Op])
			}
			byName[o.Op].merge(o)
		}
	}
	slices.SortFunc(res.Ops, func(a, b *OpResult) int { return strings.Compare(a.Op, b.Op) })
	if len(res.Ops) == 1 {
		res.All.Op = res.Ops[0].Op
	}
	if p := r.first.Load(); p != nil {
		res.FirstError = *p
	}
	return res
}
