package perf

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// cleanTimeout is the maximum time for cleaning up after a scenario.
const cleanTimeout = 5 * time.Minute

// openConnections bounds the connections of an open loop.
const openConnections = 512

// session is a scenario in progress: the servers that it loads, the loads, and the resulting rows. A scenario is a
// function of a session.
type session struct {
	*run
	sc     *scenario
	p      params
	out    *result.Scenario
	target *loadgen.Target
	main   *Process // the server that the run started as the target; nil if there is none
	null   *Process // the null server, once a scenario has requested it
	prefix string   // prefix of every key
	loads  uint64   // number of loads that had new body numbers

	mu    sync.Mutex // guards timed, and out while loads run at the same time
	timed []timed    // the loads that had a duration
}

// params returns the parameters of a scenario, with the overrides from the options.
func (r *run) params(sc *scenario) params {
	p := sc.profiles[slices.Index(profiles(), r.o.Profile)]
	if r.o.Duration > 0 {
		p.duration = r.o.Duration
	}
	if r.o.Workers > 0 {
		p.workers = []int{r.o.Workers}
	}
	if r.o.Rate > 0 {
		p.rates = []float64{r.o.Rate}
	}
	if r.o.Keys > 0 {
		p.keys = []int{r.o.Keys}
	}
	if r.o.Size > 0 && sc.id == idGrowth {
		p.sizes = []int{r.o.Size}
	}
	p.turns = cmp.Or(r.o.Turns, p.turns, 1)
	return p
}

// scenario runs one scenario and deletes what it created.
func (r *run) scenario(sc *scenario) (err error) {
	s := &session{run: r, sc: sc, p: r.params(sc), target: r.o.Target, prefix: r.id + "/" + sc.id + "/"}
	s.out = &result.Scenario{
		Scenario: sc.id, Bucket: r.bucket, Mode: sc.mode, StartedAt: time.Now().UTC().Truncate(time.Second), Values: map[string]float64{},
		Hardware: result.Hardware{OS: runtime.GOOS, Arch: runtime.GOARCH, NumCPU: runtime.NumCPU(), GoVersion: runtime.Version()},
	}
	s.out.Note = sc.note
	if r.o.Target == nil && !sc.serverless {
		if s.main, err = r.server(sc.id); err != nil {
			return err
		}
		s.target = s.main.Target
		defer func() {
			s.main.Kill() // its data is deleted anyway
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, sc.id)))
		}()
	}
	if s.target != nil {
		s.out.Endpoint = s.target.Endpoint()
	}
	defer func() {
		if s.null != nil {
			s.null.Kill()
		}
	}()
	start := time.Now()
	err = sc.run(s)
	s.out.DurationSec = time.Since(start).Seconds()
	s.out.Note = strings.TrimSpace(s.lengths() + " " + s.out.Note)
	if len(s.out.Results) > 0 || len(s.out.Goals) > 0 || err == nil {
		r.doc.Scenarios = append(r.doc.Scenarios, *s.out)
	}
	if r.o.Target != nil {
		err = errors.Join(err, s.clean())
	}
	return err
}

// pid returns the process ID of the server, or 0 if it is unknown.
func (s *session) pid() int {
	if s.main != nil {
		return s.main.PID
	}
	return s.o.ServerPID
}

// path returns the path of a key.
func (s *session) path(key string) string { return "/" + s.bucket + "/" + s.prefix + key }

// contents returns a generator of bodies of a size, compressible as the options specify.
func (s *session) contents(size int) *Contents { return NewContents(size, s.o.Compressible) }

// load runs a load against the server, and fails if more requests failed than the options allow.
func (s *session) load(l *Load) (*LoadResult, error) {
	res, err := s.tolerate(l)
	if err == nil && res.ErrorRate() > s.o.MaxErrorRate {
		err = fmt.Errorf("%.2f %% of the requests failed: %w", 100*res.ErrorRate(), res.FirstError)
	}
	return res, err
}

// tolerate is like load, for loads that may overload the server: failed requests are only counted.
func (s *session) tolerate(l *Load) (*LoadResult, error) {
	if l.Target == nil {
		l.Target, l.PID = s.target, s.pid()
	}
	switch {
	case s.o.Mode == "closed" && l.Rate > 0:
		l.Rate, l.RateTo, l.Workers = 0, 0, cmp.Or(s.o.Workers, 16)
	case s.o.Mode == "open" && l.Rate == 0 && !l.Script:
		l.Rate = s.o.Rate
	}
	if l.Rate > 0 && l.Workers == 0 {
		l.Workers = openConnections
	}
	l.Workers = cmp.Or(l.Workers, 1)
	res, err := l.Run(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Workers = max(s.out.Workers, l.Workers)
	if err == nil && l.Duration > 0 && l.Count == 0 {
		s.timed = append(s.timed, timed{l.Duration, res.Window, l.MaxBytes})
	}
	return res, err
}

// add adds a row for an operation of a load, or for all operations if op is empty, and reports it.
func (s *session) add(res *LoadResult, op, variant string, size int) *result.Row {
	row := res.Row(op)
	row.Variant, row.SizeBytes = variant, int64(size)
	s.out.Results = append(s.out.Results, row)
	s.o.Progress.Row(rowText(&row))
	return &s.out.Results[len(s.out.Results)-1]
}

// rowText formats a row for people.
func rowText(r *result.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %-14s %9s  %3d conn", r.Operation, r.Variant, sizeText(r.SizeBytes), r.Workers)
	if r.RequestedRPS > 0 {
		fmt.Fprintf(&b, "  requested %7.0f/s", r.RequestedRPS)
	}
	fmt.Fprintf(&b, "  %9.1f/s  %8.1f MB/s  p50 %.2f", r.ThroughputRPS, r.BytesPerSec/1e6, r.P50Ms)
	if r.P99Ms > 0 {
		fmt.Fprintf(&b, " p99 %.2f", r.P99Ms)
	}
	fmt.Fprintf(&b, " max %.2f ms", r.MaxMs)
	if r.ErrorRate > 0 {
		fmt.Fprintf(&b, "  errors %.2f %%", 100*r.ErrorRate)
	}
	if r.ServerCPUus > 0 {
		fmt.Fprintf(&b, "  CPU us/op server %.0f", r.ServerCPUus)
	}
	if r.ClientCPUus > 0 {
		fmt.Fprintf(&b, " client %.0f", r.ClientCPUus)
	}
	return b.String()
}

func sizeText(n int64) string {
	switch {
	case n >= gib && n%gib == 0:
		return fmt.Sprintf("%d GiB", n/gib)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// Row returns the row of an operation, or of all operations if the load has no operation op. It has percentiles only if
// there are enough samples.
func (r *LoadResult) Row(op string) result.Row {
	o, sent := r.All, float64(r.Sent)
	if i := slices.IndexFunc(r.Ops, func(o *OpResult) bool { return o.Op == op }); len(r.Ops) > 1 && i >= 0 {
		o = r.Ops[i]
		sent = float64(o.Completed + o.Statuses[0])
	}
	elapsed := r.Elapsed.Seconds()
	row := result.Row{
		Operation: cmp.Or(op, o.Op, "all"), SizeBytes: o.BodyBytes, Workers: r.Connections, OpenLoop: r.Load.Rate > 0,
		RequestedRPS: r.Load.Rate,
		SentRPS:      sent / r.Window.Seconds(), CompletedRPS: float64(o.Completed) / elapsed, ThroughputRPS: float64(o.Successful) / elapsed,
		Requests: o.Completed, Samples: o.Latency.TotalCount(), DurationSec: elapsed, BytesPerSec: float64(o.Bytes) / elapsed,
		StatusCodes: map[string]int64{}, Cost: result.Cost{PeakRSS: r.PeakRSS},
	}
	if r.Load.RateTo > 0 {
		row.RequestedRPS = (r.Load.Rate + r.Load.RateTo) / 2
	}
	if sent > 0 {
		row.ErrorRate = float64(o.Failed) / sent
	}
	row.MeanMs, row.P50Ms, row.MaxMs = o.Latency.Mean()/1000, ms(o, 50), float64(o.Latency.Max())/1000
	if row.Samples >= 20 {
		row.P95Ms = ms(o, 95)
	}
	if row.Samples >= 100 {
		row.P99Ms = ms(o, 99)
	}
	for status, n := range o.Statuses {
		name := strconv.Itoa(status)
		if status == 0 {
			name = "none"
		}
		row.StatusCodes[name] = n
	}
	if o == r.All && o.Completed > 0 {
		row.ClientCPUus = micros(r.ClientCPU) / float64(o.Completed)
		if r.ServerCPU >= 100*time.Millisecond { // the system counts CPU time in steps of 10 ms
			row.ServerCPUus = micros(r.ServerCPU) / float64(o.Completed)
		}
	}
	return row
}

// Has reports whether a load includes an operation.
func (r *LoadResult) Has(op string) bool {
	return slices.ContainsFunc(r.Ops, func(o *OpResult) bool { return o.Op == op })
}

func ms(o *OpResult, q float64) float64 { return float64(o.Latency.ValueAtQuantile(q)) / 1000 }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// once sends one request and expects a status.
func (s *session) once(call loadgen.Request, status int) (loadgen.Reply, error) {
	call.Keep = true
	a, err := once(s.ctx, s.target, call)
	if err != nil {
		return a, err
	}
	if a.Status != status {
		return a, fmt.Errorf("%s %s?%s: %s, not %d", call.Method, call.Path, call.Query, describe(a), status)
	}
	return a, nil
}

// put returns a PUT of body number n.
func (s *session) put(w *Worker, c *Contents, key string, n uint64) (loadgen.Request, Expect) {
	body, hash := w.Body(c, n)
	return loadgen.Request{Op: "put", Method: http.MethodPut, Path: s.path(key), Body: body, Hash: hash}, Expect{Status: http.StatusOK}
}

// get returns a GET of an object that put has written.
func (s *session) get(c *Contents, key string, n uint64) (loadgen.Request, Expect) {
	return loadgen.Request{Op: "get", Method: http.MethodGet, Path: s.path(key)}, c.Expect(n)
}

// seed puts bodies 0 to n-1 under the keys that name gives them.
func (s *session) seed(c *Contents, n int, name func(n uint64) string) error {
	s.o.Progress.Step(fmt.Sprintf("seeding %d keys of %s", n, sizeText(int64(c.size))))
	s.out.SeedCount += n
	workers := 64
	if c.size > 1<<20 {
		workers = 4
	}
	l := &Load{Target: s.target, Workers: min(workers, n), Count: uint64(n), Next: func(w *Worker, n uint64) (loadgen.Request, Expect) { return s.put(w, c, name(n), n) }}
	res, err := l.Run(s.ctx)
	if err == nil && res.ErrorRate() > 0 {
		err = res.FirstError
	}
	if err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	return nil
}

// scatter maps 0, 1, 2, ... to numbers below n in a pseudorandom order.
func scatter(i uint64, n int) uint64 { return i * 0x9e3779b97f4a7c15 >> 20 % uint64(n) }

// listing contains the elements of a listing that a run uses.
type listing struct {
	Contents []struct{ Key string }
	Uploads  []struct {
		Key      string
		UploadID string `xml:"UploadId"`
	} `xml:"Upload"`
	CommonPrefixes        []struct{ Prefix string }
	IsTruncated           bool
	NextContinuationToken string
}

// page reads a page of a listing of keys or uploads.
func page(ctx context.Context, t *loadgen.Target, bucket, query string) (*listing, error) {
	a, err := once(ctx, t, loadgen.Request{Method: http.MethodGet, Path: "/" + bucket, Query: query, Keep: true})
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("listing %s: %s", query, describe(a))
	}
	var l listing
	return &l, xml.Unmarshal(a.Body, &l)
}

// clean deletes the keys and the uploads under the session's prefix, even after an interrupt.
func (s *session) clean() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanTimeout)
	defer cancel()
	s.o.Progress.Step("cleaning up")
	prefix := url.QueryEscape(s.prefix)
	for {
		l, err := page(ctx, s.target, s.bucket, "prefix="+prefix+"&uploads=")
		if err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
		for _, u := range l.Uploads {
			if _, err := once(ctx, s.target, loadgen.Request{Method: http.MethodDelete, Path: "/" + s.bucket + "/" + u.Key, Query: "uploadId=" + url.QueryEscape(u.UploadID)}); err != nil {
				return fmt.Errorf("cleaning up: %w", err)
			}
		}
		if len(l.Uploads) == 0 {
			break
		}
	}
	for {
		l, err := page(ctx, s.target, s.bucket, "list-type=2&prefix="+prefix)
		if err != nil || len(l.Contents) == 0 {
			return err
		}
		var keys []string
		for _, c := range l.Contents {
			keys = append(keys, c.Key)
		}
		call := deleteBatch(s.bucket, keys)
		call.Keep = true
		a, err := once(ctx, s.target, call)
		if err == nil && (a.Status != http.StatusOK || strings.Contains(string(a.Body), "<Error>")) {
			err = errors.New(describe(a))
		}
		if err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
	}
}
