package perf

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// TestGrowth grows a small store in each order and checks every figure.
func TestGrowth(t *testing.T) {
	for _, order := range Orders() {
		t.Run(string(order), func(t *testing.T) {
			o := tiny(t, idGrowth)
			o.Keys, o.Size, o.Order = 1500, 300, order
			doc, err := Run(t.Context(), o)
			require.NoError(t, err)
			empty(t, o.Dir)
			require.Len(t, doc.Scenarios, 1)
			s := doc.Scenarios[0]
			require.Equal(t, string(order), s.Order)
			require.Equal(t, o.Workers, s.Workers)
			v := s.Values
			for _, name := range []string{
				"put_rps_first", "put_rps_last", "get_rps_first", "get_rps_last", "null_put_rps_first", "null_put_rps_last", "put_of_null_first", "put_of_null_last",
				"put_ratio", "get_ratio", "pause_max_ms", "fdatasync_max_ms", "fdatasync_p50_ms", "fdatasync_probes", "wal_max_bytes",
				"bytes_beyond_content", "bytes_beyond_content_max", "bytes_beyond_content_stopped", "rss_max", "rss_idle_bytes", "rss_after_restart_bytes",
				"restart_ms", "list_first_page_ms", "list_walk_keys_per_sec", "growth_sec", "idle_sec",
			} {
				require.Positive(t, v[name], name)
			}
			require.Equal(t, 750.0, v["objects_first"])
			require.Equal(t, 1500.0, v["objects_last"])
			require.Equal(t, 1500.0+187+375, v["objects"], "expected to include the PUTs of one turn and those before SIGKILL")
			require.Contains(t, v, "drive_bytes_per_put")
			if doc.Environment.FileSystem != "tmpfs" {
				require.Greater(t, v["drive_bytes_per_put"], 300.0, "content must be written at least once")
			}
			require.GreaterOrEqual(t, v["bytes_beyond_content_max"], v["bytes_beyond_content"])
			require.GreaterOrEqual(t, v["fdatasync_max_ms"], v["fdatasync_p50_ms"])
			require.Greater(t, v["rss_max"], 5e6)
			require.Less(t, v["pause_max_ms"], 1000*v["growth_sec"])
			require.Len(t, s.Goals, 10)

			points := map[string][]float64{}
			for _, row := range s.Results {
				sensible(t, string(order), &row)
				if row.Variant == s.Order || row.Null() {
					points[row.Operation+" "+row.Variant] = append(points[row.Operation+" "+row.Variant], row.Values["keys"])
				}
			}
			both := []float64{750, 1500}
			require.Equal(t, map[string][]float64{"put " + s.Order: both, "get " + s.Order: both, "put " + result.NullVariant(s.Order): both}, points)
		})
	}
}

// TestGrowthRefuses: invalid options of the scenario are refused.
func TestGrowthRefuses(t *testing.T) {
	target, _ := start(t)
	for name, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"order":    {func(o *Options) { o.Order = "zigzag" }, `--order: "zigzag" is not an order`},
		"keys":     {func(o *Options) { o.Keys = GrowthKeysMin - 1 }, "--keys: 15 is too few"},
		"disk":     {func(o *Options) { o.Keys = 1e12 }, "does not fit"},
		"endpoint": {func(o *Options) { o.Target = target }, "needs servers that the run starts itself"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tiny(t, idGrowth)
			c.change(&o)
			_, err := Run(t.Context(), o)
			require.ErrorContains(t, err, c.says)
			empty(t, o.Dir)
		})
	}
}

// TestGrowthStopsAtAFailedPut: if a PUT fails, the scenario ends, whatever error rate is allowed.
func TestGrowthStopsAtAFailedPut(t *testing.T) {
	var n atomic.Int64
	target := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for _, allowed := range []float64{0, 0.5} {
		o := tiny(t)
		o.MaxErrorRate = allowed
		s := &session{run: &run{ctx: t.Context(), o: o, bucket: "b"}, sc: &scenario{}, out: &result.Scenario{}, p: params{sizes: []int{64}}}
		g := &growth{session: s, order: Sequential, workers: 4}
		st := g.store(&Process{Target: target})
		st.watch = &watch{epoch: time.Now()}
		n.Store(0)
		_, err := st.put(1000)
		require.ErrorContains(t, err, "PUTs failed; the first: PUT /b/0000")
		require.ErrorContains(t, err, "status 503, not 200")
		require.Less(t, n.Load(), int64(500), "it stops")
		require.Equal(t, n.Load()-n.Load()/10, st.watch.objects.Load(), "a failed PUT does not count as a completed one")
		require.Zero(t, st.keys.count(nil))
	}
}

func TestGrowthPoints(t *testing.T) {
	for keys, want := range map[int][]int{
		16: {8, 16}, 17: {8, 17}, 110: {55, 110}, 150_000: {75_000, 150_000}, 200_000: {100_000, 200_000}, 300_000: {100_000, 200_000, 300_000},
		1_000_000:  {100_000, 200_000, 400_000, 800_000, 1_000_000},
		10_000_000: {100_000, 200_000, 400_000, 800_000, 1_600_000, 3_200_000, 6_400_000, 10_000_000},
	} {
		require.Equal(t, want, growthPoints(keys))
	}
	for keys := GrowthKeysMin; keys < 2000; keys++ {
		points := growthPoints(keys)
		window, before := points[0]/2, 0
		for _, n := range points {
			require.GreaterOrEqual(t, n-before, window, "%d keys: the measured PUTs of two points overlap", keys)
			before = n
		}
	}
}

// TestKeyspace: every order gives each object a different key, in the expected order, and can pick each object.
func TestKeyspace(t *testing.T) {
	const workers, each = 4, 50
	for _, order := range Orders() {
		k := newKeyspace(order, workers)
		names := map[string]uint64{}
		last := map[int]string{}
		ascending := true
		var mark []uint64
		for load := range 2 {
			if load == 1 {
				mark = k.mark()
			}
			for n := range uint64(workers * each) {
				w := &Worker{ID: int(n) % (workers - load)} // in the second load, one worker is too slow to send a request
				id := k.take(w, n)
				name := k.name(id)
				require.Len(t, name, 16)
				require.NotContains(t, names, name)
				names[name] = id
				sequence := 0
				if order == Interleaved {
					sequence = w.ID
				}
				ascending = ascending && last[sequence] < name
				last[sequence] = name
			}
			k.taken(workers * each)
		}
		require.Equal(t, order != Random, ascending, order)
		if order == Interleaved {
			require.Less(t, last[0], last[1])
			require.Equal(t, "000/", last[0][:4])
		}
		require.EqualValues(t, 2*workers*each, k.count(nil))
		require.EqualValues(t, workers*each, k.count(mark))
		picked := map[uint64]bool{}
		for x := range k.count(nil) {
			id := k.pick(nil, x)
			picked[id] = true
			require.Equal(t, id, names[k.name(id)])
		}
		require.Len(t, picked, 2*workers*each)
		for x := range k.count(mark) {
			delete(picked, k.pick(mark, x))
		}
		require.Len(t, picked, workers*each, "only objects before the mark may be left")
		require.Panics(t, func() { k.pick(nil, k.count(nil)) })
	}
}

func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	var p pauses
	p.begin(100 * ms)
	for _, at := range []time.Duration{101, 105, 103, 135, 134, 136} { // some callers are late
		p.completed(at * ms)
	}
	require.Equal(t, 30*ms, p.take())
	require.Zero(t, p.take())
	p.begin(500 * ms)
	p.completed(502 * ms)
	require.Equal(t, 2*ms, p.take(), "the time between two loads must not count")

	var wg sync.WaitGroup
	p.begin(0)
	for range 8 {
		wg.Go(func() {
			for i := range 10_000 {
				p.completed(time.Duration(i) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	p.completed(50 * ms)
	require.Equal(t, 50*ms-9999*time.Microsecond, p.take())
}

// TestWatch: a watch finds the largest size of the WAL, and the space that the files use beyond the content.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	file := func(name string, size int) {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), make([]byte, size), 0o600))
	}
	file("metadata.db-wal", 3<<20)
	file("block", 1<<20)
	w := &watch{dir: dir, data: data, size: 1024, from: 1024}
	w.start(t.Context())
	w.begin()
	for range 1023 {
		w.put()
	}
	beyond, err := w.measure()
	require.NoError(t, err)
	require.InDelta(t, 3<<10, beyond, 64)
	require.Zero(t, w.bytesBeyond, "too few objects")
	w.put()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.walMax > 0 && len(w.syncs) > 1
	}, 10*time.Second, time.Millisecond)
	file("metadata.db-wal", 1<<20)
	_, err = w.measure()
	require.NoError(t, err)
	require.NoError(t, w.stop())
	require.NoError(t, w.stop())
	v := map[string]float64{}
	w.values(v)
	require.Equal(t, 3.0*(1<<20), v["wal_max_bytes"])
	require.Positive(t, v["bytes_beyond_content_max"])
	require.Positive(t, v["fdatasync_max_ms"])
	left, err := filepath.Glob(filepath.Join(dir, "perf-disk-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	// If the probe fails, stop returns its error.
	w = &watch{dir: filepath.Join(dir, "missing"), data: data}
	w.start(t.Context())
	require.ErrorIs(t, w.stop(), os.ErrNotExist)
}

// TestShared: the numbers of a shared load have no gaps, and a slow worker sends fewer requests than the others.
func TestShared(t *testing.T) {
	target := lying(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b/slow" {
			time.Sleep(50 * time.Millisecond)
		}
	})
	const count = 500
	var mu sync.Mutex
	var numbers []uint64
	requests := make([]int, 4)
	l := &Load{Target: target, Workers: len(requests), Count: count, Shared: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		mu.Lock()
		defer mu.Unlock()
		numbers = append(numbers, n)
		requests[w.ID]++
		path := "/b/fast"
		if w.ID == 0 {
			path = "/b/slow"
		}
		return loadgen.Request{Op: "get", Method: http.MethodGet, Path: path}, Expect{Status: http.StatusOK}
	}}
	res, err := l.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, count, res.All.Successful)
	slices.Sort(numbers)
	for i, n := range numbers {
		require.EqualValues(t, i, n)
	}
	require.Len(t, numbers, count)
	require.Less(t, requests[0], count/8)
}

// TestSettle: settle waits until a busy process is idle.
func TestSettle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &session{run: &run{ctx: ctx}}
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 { // beside other processes, one goroutine would get too little time to look busy
		wg.Go(func() {
			for !done.Load() {
			}
		})
	}
	time.AfterFunc(400*time.Millisecond, func() { done.Store(true) })
	begin := time.Now()
	s.settle(&Process{PID: os.Getpid()})
	require.GreaterOrEqual(t, time.Since(begin), 400*time.Millisecond)
	wg.Wait()
}

// TestDriveCounters: the counters include the bytes that this process writes and syncs.
func TestDriveCounters(t *testing.T) {
	dir := t.TempDir()
	if fileSystem(dir) == "tmpfs" {
		t.Skip("a tmpfs is not on a drive")
	}
	before, err := writtenBytes(os.Getpid())
	require.NoError(t, err)
	device, ok := deviceWrittenBytes(dir)
	_, err = MeasureSequential(dir, mib, 4*mib)
	require.NoError(t, err)
	after, err := writtenBytes(os.Getpid())
	require.NoError(t, err)
	require.GreaterOrEqual(t, after-before, int64(4*mib))
	if ok {
		now, _ := deviceWrittenBytes(dir)
		require.GreaterOrEqual(t, now-device, int64(4*mib))
	}
	_, err = writtenBytes(1 << 30)
	require.ErrorContains(t, err, "/proc/1073741824/io cannot be read")
	_, ok = deviceWrittenBytes(filepath.Join(dir, "missing"))
	require.False(t, ok)
}
