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
)

// Load is a stream of requests to one Target, in a closed or an open loop.
//
// In a closed loop each of Workers sends its next request when the answer to its last one is there, so a server that stalls is
// asked less and its stall is one slow answer per worker. In an open loop (Rate) requests have their times, whatever the
// answers do; latency counts from the intended time, so a stall shows in all requests that it delays. Workers then bounds the connections;
// a request that finds all of them busy waits, and its latency runs.
type Load struct {
	Target   *Target
	Workers  int
	Rate     float64       // requests a second; 0: a closed loop
	RateTo   float64       // the rate grows evenly to this one, where not 0
	Ramp     time.Duration // workers start spread over this time
	Duration time.Duration
	Count    uint64 // stop after so many requests, where not 0
	MaxBytes int64  // stop when so many bytes of bodies were sent, where not 0
	// Next returns request n, and what its answer must be. Requests are numbered from 0, without gaps in an open loop; in a closed loop
	// worker w has the numbers w, w+Workers, ... Next is called by many goroutines at once, for a Worker by one.
	Next   func(w *Worker, n uint64) (Call, Expect)
	PID    int  // of the server, for its CPU time and memory; 0: not measured
	Script bool // a request depends on the answer before: only a closed loop will do
}

// Worker is one connection's user. What it holds is Next's.
type Worker struct {
	ID    int
	Last  Answer // to the request before
	OK    bool   // it was as expected
	State any
	body  []byte
	of    *Contents
}

// Body returns the body of a number of c, in memory of w's own.
func (w *Worker) Body(c *Contents, number uint64) (body []byte, hash string) {
	if w.of != c {
		w.of, w.body = c, nil
	}
	w.body, hash = c.Body(number, w.body)
	return w.body, hash
}

// Expect is what an answer must be.
type Expect struct {
	Status int
	Body   bool // compare Size and XXH3
	Size   int64
	XXH3   uint64
	Type   string                // the Content-Type, where not ""; needs Call.Keep
	Check  func(a *Answer) error // looks further, where not nil
}

// mismatch says what is wrong with an answer; nil: nothing.
func (e *Expect) mismatch(a *Answer) error {
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

// OpResult is what was measured of one operation.
type OpResult struct {
	Op             string
	Latency        *hdrhistogram.Histogram // in microseconds
	Completed      int64                   // answered
	Successful     int64                   // answered as expected
	Failed         int64                   // not answered, or otherwise
	Bytes          int64                   // of bodies, both ways, of successful ones
	BodyBytes      int64                   // of the largest body
	Statuses       map[int]int64
	latencySum     time.Duration
	latencySamples int64
}

// LoadResult is what a Load measured.
type LoadResult struct {
	Load                 *Load
	Connections          int // that were used
	Sent                 int64
	Unsent               int64         // due in the time, but no connection was free
	Window               time.Duration // in which requests were sent
	Elapsed              time.Duration // until the last answer
	All                  *OpResult     // everything together
	Ops                  []*OpResult   // where there are several, in the order of their names
	FirstError           error
	ServerCPU, ClientCPU time.Duration
	PeakRSS              int64
}

// Rate returns successful operations a second.
func (r *LoadResult) Rate() float64 { return float64(r.All.Successful) / r.Elapsed.Seconds() }

// ErrorRate returns the share of what was sent that was not answered as expected, from 0 to 1.
func (r *LoadResult) ErrorRate() float64 {
	if r.Sent == 0 {
		return 0
	}
	return 1 - float64(r.All.Successful)/float64(r.Sent)
}

// runner is a load under way.
type runner struct {
	*Load
	ctx     context.Context
	start   time.Time
	sent    atomic.Int64
	bytes   atomic.Int64
	tallies [8]tally
	first   atomic.Pointer[error]
}

// Run carries the load out, until it ends or ctx does; that is an error. What a server answers is not: see LoadResult.FirstError.
// Nothing completed is one.
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
	for _, t := range o.unsent { // so long at least
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
		return res, fmt.Errorf("nothing was completed: %w", res.FirstError)
	case res.All.Completed == 0:
		return res, fmt.Errorf("nothing was completed in %v", res.Elapsed)
	}
	return res, nil
}

// over says whether a load has come to its end in a closed loop, before request n.
func (r *runner) over(n uint64) bool {
	return r.ctx.Err() != nil || r.Count > 0 && n >= r.Count || r.Duration > 0 && time.Since(r.start) >= r.Duration ||
		r.MaxBytes > 0 && r.bytes.Load() >= r.MaxBytes
}

func (r *runner) closed() error {
	clients := make([]Client, r.Workers)
	for i := range clients {
		clients[i] = NewClient(r.ctx, r.Target)
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
			for n := uint64(id); !r.over(n); n += uint64(r.Workers) {
				r.one(c, w, n, time.Now())
			}
		})
	}
	wg.Wait()
	return nil
}

// one sends request n and takes its answer; begin is when its latency starts.
func (r *runner) one(c Client, w *Worker, n uint64, begin time.Time) {
	call, want := r.Next(w, n)
	if r.Rate == 0 {
		begin = time.Now() // making a body is not the server's time
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
			r.sent.Add(-1) // it is us who broke it off
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
		sleep(r.ctx, 20*time.Millisecond) // a dead server is not to be hammered
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// tally counts what some of the workers do.
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
	o.Statuses[status]++ // 0: no answer
	if ok {
		o.Successful++
		o.Bytes += bytes
	} else {
		o.Failed++
	}
}

// maxLatency is where histograms end.
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
