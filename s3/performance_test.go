package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/loadgen"
	"orcas/perf"
	"orcas/server"
)

// These tests print tables of the kind in which object stores are compared. They use real sockets and a real disk, and
// read every object back. Client and server share one process, so the figures are only a first impression; orcas perf
// measures a server in a separate process, and compares it with the limits of the machine.
//
//	go test -v -run TestPerformance ./s3                    tiny, a few hundred requests per row
//	ORCAS_PERF=1 go test -v -run TestPerformance ./s3       two seconds per row
//	go test -v -run TestPerformanceReport ./s3              writes the tables to ORCAS_PERF_REPORT, or a temporary file

// perfStore is a server under load.
type perfStore struct {
	target *loadgen.Target
	base   uint64 // first number of the next pieces of content
}

func newPerfStore(t testing.TB, settings ...string) *perfStore {
	t.Helper()
	keys := loadgen.Keys{Access: "performance", Secret: "performance-secret"}
	set, err := server.ReadSettings(append(settings, "ORCAS_ROOT_ACCESS_KEY="+keys.Access, "ORCAS_ROOT_SECRET_KEY="+keys.Secret, "ORCAS_BUCKETS=performance", "ORCAS_MIN_FREE=0"))
	require.NoError(t, err)
	s, err := server.Open(t.Context(), server.Config{Data: t.TempDir(), Address: "127.0.0.1:0", Settings: set, Log: new(bytes.Buffer)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ran)
		require.NoError(t, s.Close())
	})
	target, err := loadgen.ParseTarget(s.Endpoint(), keys, "us-east-1", "", false, false)
	require.NoError(t, err)
	return &perfStore{target: target}
}

// perfRow is a row of a table.
type perfRow struct {
	size, workers int
	put, get      *perf.LoadResult
}

// load puts objects of a size, and gets them.
func (s *perfStore) load(t *testing.T, size, workers int) perfRow {
	t.Helper()
	contents := perf.NewContents(size, 0)
	s.base += 1 << 32
	base := s.base
	path := func(n uint64) string { return fmt.Sprintf("/performance/%d/%016x", size, (base+n)*0x9e3779b97f4a7c15) }
	put := &perf.Load{Target: s.target, Workers: workers, Next: func(w *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
		body, hash := w.Body(contents, base+n)
		return loadgen.Request{Op: "put", Method: http.MethodPut, Path: path(n), Body: body, Hash: hash}, perf.Expect{Status: 200}
	}}
	if os.Getenv("ORCAS_PERF") == "1" {
		put.Duration = 2 * time.Second
	} else {
		put.Count = uint64(max(50, 2*workers))
		if size >= 1<<20 {
			put.Count = uint64(2 * workers)
		}
	}
	run := func(l *perf.Load) *perf.LoadResult {
		res, err := l.Run(t.Context())
		require.NoError(t, err)
		require.NoError(t, res.FirstError)
		require.Equal(t, res.Sent, res.All.Successful)
		return res
	}
	r := perfRow{size: size, workers: workers, put: run(put)}
	// Each worker writes its own numbers, and some workers are faster than others. Only numbers that every worker has
	// reached are read.
	each := uint64(r.put.All.Successful) / uint64(workers) * 3 / 4
	r.get = run(&perf.Load{Target: s.target, Workers: workers, Count: max(each, 1) * uint64(workers), Next: func(_ *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
		n %= max(each, 1) * uint64(workers)
		return loadgen.Request{Op: "get", Method: http.MethodGet, Path: path(n)}, s.expect(contents, base+n)
	}})
	return r
}

func (s *perfStore) expect(c *perf.Contents, number uint64) perf.Expect { return c.Expect(number) }

// performance returns the tables. It measures only once, because -run TestPerformance runs both tests.
func performance(t *testing.T) string {
	perfTables.Do(func() { perfText = measure(t) })
	return perfText
}

var (
	perfTables sync.Once
	perfText   string
)

func measure(t *testing.T) string {
	var b strings.Builder
	sizes, workers := []int{1 << 10, 4 << 10, 64 << 10}, []int{1, 10, 50}
	on, off := newPerfStore(t), newPerfStore(t, "ORCAS_BATCH_WRITE_ENABLED=false")
	b.WriteString("### Packing\n\n| size | workers | off: PUT/s | on: PUT/s | gain | GET/s | on: MB/s |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, size := range sizes {
		for _, n := range workers {
			without, with := off.load(t, size, n), on.load(t, size, n)
			fmt.Fprintf(&b, "| %d KiB | %d | %.0f | %.0f | %.2f | %.0f | %.1f |\n", size>>10, n, without.put.Rate(), with.put.Rate(),
				with.put.Rate()/without.put.Rate(), with.get.Rate(), with.put.Rate()*float64(size)/1e6)
		}
	}
	b.WriteString("\n### Concurrency\n\n| size | workers | PUT MB/s | GET MB/s | PUT p50 ms | GET p50 ms |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, size := range []int{1 << 20, 10 << 20} {
		for _, n := range workers {
			if (size > 1<<20 || n > 10) && os.Getenv("ORCAS_PERF") != "1" {
				continue // too much data for the tiny run
			}
			r := on.load(t, size, n)
			p50 := func(res *perf.LoadResult) float64 { return float64(res.All.Latency.ValueAtQuantile(50)) / 1000 }
			fmt.Fprintf(&b, "| %d MiB | %d | %.0f | %.0f | %.2f | %.2f |\n", size>>20, n, r.put.Rate()*float64(size)/1e6, r.get.Rate()*float64(size)/1e6, p50(r.put), p50(r.get))
		}
	}
	return b.String()
}

func TestPerformance(t *testing.T) { t.Logf("\n%s", performance(t)) }

// TestPerformanceReport writes the tables to a file.
func TestPerformanceReport(t *testing.T) {
	path := os.Getenv("ORCAS_PERF_REPORT")
	if path == "" {
		path = filepath.Join(t.TempDir(), "report.md")
	}
	text := "## In one process\n\n" + performance(t)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	t.Logf("written to %s\n%s", path, text)
}
