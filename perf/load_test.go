package perf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"orcas/internal/loadgen"
)

func TestContents(t *testing.T) {
	for _, size := range []int{8, 9, 338, 1024, 4096, 5000, 1 << 20} {
		c := NewContents(size, 0.5)
		var reuse []byte
		seen := map[string]bool{}
		for n := range uint64(4) {
			body, sha := c.Body(n<<36, reuse)
			reuse = body
			sum := sha256.Sum256(body)
			require.Len(t, body, size)
			require.Equal(t, hex.EncodeToString(sum[:]), sha)
			require.Equal(t, xxh3.Hash(body), c.XXH3(n<<36))
			seen[sha] = true
		}
		require.Len(t, seen, 4)
		if size >= 1024 {
			require.Equal(t, make([]byte, 256), reuse[:256], "half of the body must be zeros")
		}
	}
}

func TestFailingServerFailsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		object   http.HandlerFunc
		scenario string
		says     string
	}{
		"500":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "put-sweep", "status 500, not 200"},
		"507":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(507) }, "head", "status 507, not 200"},
		"wrong bytes": {wrongBytes, "concurrent-1m", "wrong content"},
		"short":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("short")) }, "concurrent-1m", "5 bytes, not 1048576"},
		"hangs up":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "put-sweep", "no request was completed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tiny(t, c.scenario)
			o.Target, o.Keys = lying(t, c.object), 3
			doc, err := Run(t.Context(), o)
			require.ErrorContains(t, err, c.says)
			require.Len(t, doc.Failures, 1)
			require.Contains(t, doc.Failures[0].Error, c.says)
		})
	}
}

func wrongBytes(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = w.Write(make([]byte, 1<<20)) // the client notices an error
	}
}

func TestMaxErrorRate(t *testing.T) {
	var n atomic.Int64
	target := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%10 == 0 {
			w.WriteHeader(503)
		}
	})
	o := tiny(t, "put-sweep")
	o.Target, o.Duration, o.Rate = target, 400*time.Millisecond, 500
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "status 503")
	o.MaxErrorRate = 0.5
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	row := doc.Scenarios[0].Results[0]
	require.InDelta(t, 0.1, row.ErrorRate, 0.02)
	require.InDelta(t, 0.9, row.ThroughputRPS/row.CompletedRPS, 0.02)
	require.Positive(t, row.StatusCodes["503"])
}

// TestExpectedErrorIsASuccess: a 404 counts as a success if the load expects it.
func TestExpectedErrorIsASuccess(t *testing.T) {
	target := lying(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	l := &Load{Target: target, Workers: 2, Count: 50, Next: func(*Worker, uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "get", Method: "GET", Path: "/b/k"}, Expect{Status: 404}
	}}
	res, err := l.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 50, res.All.Successful)
	require.Zero(t, res.ErrorRate())
}

// TestRatesDiffer: of three requests one gets the expected response, one another response, and one no response, and
// some requests find no free connection.
func TestRatesDiffer(t *testing.T) {
	var n atomic.Int64
	release := make(chan struct{})
	target := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.WriteHeader(500)
		}
		if n.Load() > 30 {
			<-release
		}
	})
	time.AfterFunc(600*time.Millisecond, func() { close(release) })
	l := &Load{Target: target, Workers: 4, Rate: 200, Duration: 500 * time.Millisecond, Next: func(*Worker, uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "get", Method: "GET", Path: "/b/k"}, Expect{Status: 200}
	}}
	res, err := l.Run(t.Context())
	require.NoError(t, err)
	row := res.Row("get")
	require.Greater(t, row.RequestedRPS, row.SentRPS)
	require.Greater(t, row.SentRPS, row.CompletedRPS)
	require.Greater(t, row.CompletedRPS, row.ThroughputRPS)
	require.Positive(t, row.ThroughputRPS)
	require.Positive(t, row.StatusCodes["none"])
	require.Positive(t, res.Unsent)
	require.EqualValues(t, 100, res.Sent+res.Unsent)
	require.Equal(t, res.Sent, res.All.Completed+res.All.Statuses[0])
	require.Equal(t, res.Sent+res.Unsent, row.Samples, "the waits of unsent requests must count too")
}

// TestStall stalls a server for a while. In an open loop the stall shows in all requests that it delays, in a closed
// loop in a single request.
func TestStall(t *testing.T) {
	const stall = 400 * time.Millisecond
	run := func(rate float64) (res *LoadResult) {
		var n atomic.Int64
		open := make(chan struct{})
		target := lying(t, func(http.ResponseWriter, *http.Request) {
			if n.Add(1) == 50 {
				time.AfterFunc(stall, func() { close(open) })
			}
			if n.Load() >= 50 {
				<-open
			}
		})
		l := &Load{Target: target, Workers: 1, Rate: rate, Count: 300, Next: func(*Worker, uint64) (loadgen.Request, Expect) {
			return loadgen.Request{Op: "get", Method: "GET", Path: "/b/k"}, Expect{Status: 200}
		}}
		if rate > 0 {
			l.Workers = 8
		}
		res, err := l.Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 300, res.All.Successful+res.Unsent)
		return res
	}
	closed, open := run(0), run(500)
	stallMs := float64(stall.Milliseconds())
	require.GreaterOrEqual(t, float64(closed.All.Latency.Max())/1000, stallMs*0.98, "one request must show the stall")
	require.Less(t, ms(closed.All, 99), stallMs*0.98, "p99 must not show it")
	require.GreaterOrEqual(t, ms(open.All, 99), stallMs*0.98)
	require.Greater(t, ms(open.All, 80), stallMs/4, "the stall must show in most requests, including those that waited for a connection")
	require.Greater(t, open.Connections, 1)
}

// TestSchedule: intended times depend only on the load.
func TestSchedule(t *testing.T) {
	even := &Load{Rate: 100}
	require.Equal(t, 2*time.Second, even.due(200))
	grows := &Load{Rate: 10, RateTo: 30, Duration: 10 * time.Second}
	require.InDelta(t, 10, grows.due(200).Seconds(), 1e-6, "20 requests per second on average")
	require.InDelta(t, 4.142, grows.due(50+25).Seconds(), 0.9)
	require.Greater(t, grows.due(100), 5*time.Second, "the rate must be low at first")
	level := &Load{Rate: 10, RateTo: 10, Duration: time.Second}
	require.Equal(t, time.Second, level.due(10))
}

func TestBadOptions(t *testing.T) {
	target, dir := start(t)
	wrong, err := loadgen.ParseTarget(target.Endpoint(), loadgen.Keys{Access: "nobody", Secret: "not-the-secret"}, ownRegion, "", false, false)
	require.NoError(t, err)
	away, err := loadgen.ParseTarget("http://127.0.0.1:1", loadgen.Keys{Access: "nobody", Secret: "not-the-secret"}, ownRegion, "", false, false)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"scenario":    {func(o *Options) { o.Scenarios = []string{"put-swep"} }, `unknown scenario "put-swep"`},
		"profile":     {func(o *Options) { o.Profile = "huge" }, `profile "huge"`},
		"unreachable": {func(o *Options) { o.Target = away }, "cannot reach http://127.0.0.1:1"},
		"credentials": {func(o *Options) { o.Target = wrong }, "rejects these credentials: status 403 InvalidAccessKeyId"},
		"bucket":      {func(o *Options) { o.Target, o.Bucket = target, "nowhere" }, "has no bucket nowhere"},
		"disk":        {func(o *Options) { o.Keys, o.Scenarios = 1e12, []string{"footprint"} }, "does not fit"},
		"program":     {func(o *Options) { o.Program = "/nonexistent" }, "no such file"},
		"directory":   {func(o *Options) { o.Dir = "/nonexistent" }, "no such file"},
		"own needed":  {func(o *Options) { o.Target, o.Scenarios = target, []string{"batch-compare"} }, "needs servers that the run starts itself"},
		"not served":  {func(o *Options) { o.Target, o.Scenarios = target, []string{"encrypted"} }, "this server does not support it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tiny(t, "put-sweep")
			c.change(&o)
			_, err := Run(t.Context(), o)
			require.ErrorContains(t, err, c.says)
			if o.Dir != "/nonexistent" {
				empty(t, o.Dir)
			}
			require.Empty(t, bucketsOf(t, target))
		})
	}
	require.DirExists(t, dir)
	for _, endpoint := range []string{"", "localhost:9000", "ftp://x", "http://x/bucket", "http://"} {
		_, err := loadgen.ParseTarget(endpoint, loadgen.Keys{}, "", "", false, false)
		require.Error(t, err, endpoint)
	}
	_, err = loadgen.ParseTarget("http://x", loadgen.Keys{}, "", "", false, true)
	require.ErrorContains(t, err, "HTTP/2 needs an https")
	require.True(t, errors.Is(needsOwn, ErrUnsupported))
}

// TestPairs: a turn in which one side was not measured is ignored, and no ratio is infinite, because JSON cannot
// represent that.
func TestPairs(t *testing.T) {
	turns := func(cpu ...time.Duration) (list []*LoadResult) {
		for _, c := range cpu {
			list = append(list, &LoadResult{ServerCPU: c})
		}
		return list
	}
	of := func(r *LoadResult) float64 { return float64(r.ServerCPU) }
	v, ok := pairs(turns(10, 30, 20), turns(0, 10, 20), of)
	require.True(t, ok)
	require.Equal(t, 3.0, v)
	v, ok = pairs(turns(10, 30), turns(0, 0), of)
	require.False(t, ok)
	require.Zero(t, v)
}
