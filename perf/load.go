package perf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is a closed loop: each of Workers sends its next request when the answer to its last one is there.
type Load struct {
	Target   Target
	Workers  int
	Duration time.Duration
	Count    int // stop after this many requests in all instead, where not 0
	// Next returns a worker's i-th request, and what its answer must be. Next is called by many goroutines at once.
	Next func(worker, i int) (Call, Expect)
	PID  int // of the server, for its CPU time; 0: not measured
}

// Expect is what an answer must be.
type Expect struct {
	Status int
	Body   bool // compare Size and XXH3
	Size   int64
	XXH3   uint64
}

// LoadResult is what a Load measured.
type LoadResult struct {
	Operations int
	Elapsed    time.Duration
	Latency    *hdrhistogram.Histogram // in microseconds
	ServerCPU  time.Duration
	ClientCPU  time.Duration
}

// Rate returns operations a second.
func (r *LoadResult) Rate() float64 { return float64(r.Operations) / r.Elapsed.Seconds() }

// Median returns the median latency.
func (r *LoadResult) Median() time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(50)) * time.Microsecond
}

// Run carries the load out. Any answer that is not what was expected is an error: a run that counts failures is worth nothing.
func (l *Load) Run() (*LoadResult, error) {
	res := &LoadResult{Latency: newHistogram()}
	clients := make([]*Client, l.Workers)
	for i := range clients {
		c, err := Dial(l.Target)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		clients[i] = c
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards res and first
	var first error
	server, client := cpuTime(l.PID), cpuTime(os.Getpid())
	start := time.Now()
	for w, c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			h, n, err := l.work(c, w, start)
			mu.Lock()
			defer mu.Unlock()
			res.Operations += n
			res.Latency.Merge(h)
			if first == nil {
				first = err
			}
		}()
	}
	wg.Wait()
	res.Elapsed = time.Since(start)
	res.ServerCPU, res.ClientCPU = cpuTime(l.PID)-server, cpuTime(os.Getpid())-client
	if first == nil && res.Operations == 0 {
		first = fmt.Errorf("nothing was completed in %v", res.Elapsed)
	}
	return res, first
}

func (l *Load) work(c *Client, w int, start time.Time) (*hdrhistogram.Histogram, int, error) {
	h := newHistogram()
	n := 0
	for i := 0; l.Count > 0 && i*l.Workers+w < l.Count || l.Count == 0 && time.Since(start) < l.Duration; i++ {
		call, want := l.Next(w, i)
		begin := time.Now()
		got, err := c.Do(call)
		if err != nil {
			return h, n, fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
		}
		_ = h.RecordValue(time.Since(begin).Microseconds()) // above a minute counts as a minute
		if got.Status != want.Status {
			return h, n, fmt.Errorf("%s %s: status %d, not %d", call.Method, call.Path, got.Status, want.Status)
		}
		if want.Body && (got.Size != want.Size || got.XXH3 != want.XXH3) {
			return h, n, fmt.Errorf("%s %s: wrong content, %d bytes", call.Method, call.Path, got.Size)
		}
		n++
	}
	return h, n, nil
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// cpuTime returns the processor time that a process has used, user and system; 0 where it cannot be read.
func cpuTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11]) // a number by the kernel's word
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// ResidentBytes returns the resident memory of a process and its peak; 0 where they cannot be read.
func ResidentBytes(pid int) (now, peak int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}
