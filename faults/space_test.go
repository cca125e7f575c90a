package faults

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
	"orcas/internal/loadgen"
	"orcas/perf"
)

// The load of the test of disk space, as in the goal, except for the number of objects, which a variable sets.
const (
	spaceSize    = 4 << 10
	spaceTimes   = 20
	spaceWorkers = 64
)

// packedBlock is the size of a packed block, in bytes. The open block and the one that is being compacted add to the
// space that objects take.
const packedBlock = 8 << 20

// spaceServer is a server with objects to overwrite.
type spaceServer struct {
	*Process
	target   *loadgen.Target
	contents *perf.Contents
	objects  int
	next     uint64 // the number of the next piece of content
}

func newSpaceServer(t *testing.T, binary, name string, objects int, env ...string) *spaceServer {
	t.Helper()
	dir := workDir(t)
	s := &spaceServer{objects: objects, contents: perf.NewContents(spaceSize, 0),
		Process: &Process{Binary: binary, Data: filepath.Join(dir, name), Log: filepath.Join(dir, name+".log"), Env: env}}
	t.Cleanup(func() { require.NoError(t, s.Kill()) })
	endpoint, err := s.Start(t.Context())
	require.NoError(t, err)
	client := NewClient(endpoint, s.Credentials(), bucket, 1)
	require.NoError(t, client.CreateBucket(t.Context()))
	client.Close()
	address := strings.TrimPrefix(endpoint, "http://")
	s.target = loadgen.NewTarget(address, loadgen.Keys{Access: s.Credentials().AccessKey, Secret: s.Credentials().SecretKey}, "us-east-1")
	s.put(t, objects)
	return s
}

// put writes n objects, starting over when it has written each key.
func (s *spaceServer) put(t *testing.T, n int) *perf.LoadResult {
	t.Helper()
	first := s.next
	s.next += uint64(n)
	return s.run(t, n, func(w *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
		body, hash := w.Body(s.contents, first+n)
		return loadgen.Request{Op: "put", Method: http.MethodPut, Path: s.path(first + n), Body: body, Hash: hash}, perf.Expect{Status: http.StatusOK}
	})
}

func (s *spaceServer) path(n uint64) string {
	return fmt.Sprintf("/%s/%08d", bucket, n%uint64(s.objects))
}

func (s *spaceServer) run(t *testing.T, n int, next func(*perf.Worker, uint64) (loadgen.Request, perf.Expect)) *perf.LoadResult {
	t.Helper()
	load := &perf.Load{Target: s.target, Workers: spaceWorkers, Count: uint64(n), Duration: time.Hour, Next: next}
	r, err := load.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, r.All.Successful, "all of %d requests must succeed", n)
	return r
}

// peak calls fn and returns the maximum size of all blocks during the call, in bytes.
func (s *spaceServer) peak(t *testing.T, fn func()) (most int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-done:
			return max(most, blockBytes(t, s.Data))
		case <-tick.C:
			most = max(most, blockBytes(t, s.Data))
		}
	}
}

// TestSpace overwrites small objects repeatedly. Blocks must not take much more than twice the live bytes under load,
// and little more than the live bytes after a requested round of reclaim. Preallocated space and the database do not
// count.
func TestSpace(t *testing.T) {
	long(t)
	objects := count(t, "ORCAS_FAULTS_SPACE", 1500)
	row := result.Of(t, result.Row{Fault: "reclaim", Unit: "overwrites", Tried: objects * spaceTimes,
		Name: fmt.Sprintf("space: %d objects of 4 KiB, each overwritten %d times over %d connections", objects, spaceTimes, spaceWorkers)})
	s := newSpaceServer(t, buildServer(t, ""), "space", objects)
	live := int64(objects) * spaceSize
	var r *perf.LoadResult
	most := s.peak(t, func() { r = s.put(t, objects*spaceTimes) })
	at := blockBytes(t, s.Data)
	report, err := s.Reclaim(t.Context())
	require.NoError(t, err)
	idle := blockBytes(t, s.Data)
	row.Acknowledged, row.Rate = int64(r.All.Successful), r.Rate()
	row.Note = fmt.Sprintf("at most %.2f times the live bytes under load (goal: 2), %.3f times after a full round", float64(most)/float64(live), float64(idle)/float64(live))
	t.Logf("%s; %d MB live, %d MB at most, %d MB at the end of the load, %.0f PUT/s; the round freed %d MB and moved %d MB in %.1f s",
		row.Note, live>>20, most>>20, at>>20, r.Rate(), report.BytesFreed>>20, report.BytesMoved>>20, report.Seconds)
	// The goal is twice the live bytes. How far reclaim falls behind the load depends on the machine and on its other
	// work, and this test must pass on every machine, so it allows 2.5 times the live bytes.
	allowed := 2*live + live/2
	if live < 2*packedBlock { // too few objects for the goal: a busy machine writes half of all bytes in one pause of reclaim
		allowed = int64(spaceTimes) * live * 6 / 10
	}
	if most > allowed {
		t.Errorf("blocks took %d bytes for %d live bytes; expected at most %d", most, live, allowed)
	}
	if float64(idle) > 1.15*float64(live) {
		t.Errorf("blocks take %d bytes for %d live bytes after reclaim; expected at most 1.15 times the live bytes", idle, live)
	}
	s.run(t, objects, func(_ *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
		return loadgen.Request{Op: "get", Method: http.MethodGet, Path: s.path(n)}, perf.Expect{Status: http.StatusOK, Size: spaceSize}
	})
	require.NoError(t, s.Stop())
	require.Empty(t, s.Alarms())
}

// TestSpaceCosts measures how much reclaim slows the load, in turns with a server without reclaim. It is only a
// measurement: no result makes it fail.
func TestSpaceCosts(t *testing.T) {
	turns := count(t, "ORCAS_FAULTS_SPACE_TURNS", 0)
	if turns == 0 {
		t.Skip("ORCAS_FAULTS_SPACE_TURNS is not set")
	}
	objects := count(t, "ORCAS_FAULTS_SPACE", 1500)
	row := result.Of(t, result.Row{Fault: "reclaim", Unit: "overwrites",
		Name: fmt.Sprintf("speed: PUT of 4 KiB over %d connections, reclaim on and off in turns", spaceWorkers)})
	binary := buildServer(t, "")
	servers := []*spaceServer{newSpaceServer(t, binary, "on", objects), newSpaceServer(t, binary, "off", objects, "ORCAS_RECLAIM_ENABLED=false")}
	rates, late := make([][]float64, 2), make([][]float64, 2)
	for range turns {
		for i, s := range servers {
			r := s.put(t, objects*spaceTimes/2)
			rates[i] = append(rates[i], r.Rate())
			late[i] = append(late[i], float64(r.All.Latency.ValueAtQuantile(99))/1000)
			row.Tried += objects * spaceTimes / 2
			row.Acknowledged += int64(r.All.Successful)
			t.Logf("%s: %.0f PUT/s, p99 %.1f ms, blocks of %d MB", filepath.Base(s.Data), r.Rate(), late[i][len(late[i])-1], blockBytes(t, s.Data)>>20)
		}
	}
	on, off := median(rates[0]), median(rates[1])
	onLate, offLate := median(late[0]), median(late[1])
	row.Rate = on
	row.Note = fmt.Sprintf("medians of %d turns: %.0f PUT/s with reclaim, %.0f without: %.2f (goal: at least 0.70); p99 %.1f ms and %.1f ms: %.2f times (goal: at most 2)",
		turns, on, off, on/off, onLate, offLate, onLate/offLate)
	t.Log(row.Note)
	for _, s := range servers {
		require.NoError(t, s.Stop())
		require.Empty(t, s.Alarms())
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
