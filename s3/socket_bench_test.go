package s3_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/loadgen"
	"orcas/perf"
)

// BenchmarkSockets sends requests for objects of 4 KiB over 64 connections to a server in this process, with a real
// disk. It is meant for profiles: everything below net/http's conn.serve, and the goroutines of package batch, belongs
// to the server; the rest belongs to the client.
func BenchmarkSockets(b *testing.B) {
	const size, workers, keys = 4 << 10, 64, 10_000
	contents := perf.NewContents(size, 0)
	path := func(n uint64) string { return fmt.Sprintf("/performance/%016x", n*0x9e3779b97f4a7c15) }
	put := func(base uint64) func(w *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
		return func(w *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
			body, hash := w.Body(contents, base+n)
			return loadgen.Request{Op: "put", Method: http.MethodPut, Path: path(base + n), Body: body, Hash: hash}, perf.Expect{Status: 200}
		}
	}
	run := func(b *testing.B, l *perf.Load) {
		l.Workers = workers
		res, err := l.Run(b.Context())
		require.NoError(b, err)
		require.NoError(b, res.FirstError)
	}
	b.Run("put", func(b *testing.B) {
		s := newPerfStore(b)
		b.ReportAllocs()
		b.ResetTimer()
		run(b, &perf.Load{Target: s.target, Count: uint64(max(b.N, workers)), Next: put(0)})
		b.StopTimer()
	})
	b.Run("get", func(b *testing.B) {
		s := newPerfStore(b)
		run(b, &perf.Load{Target: s.target, Count: keys, Next: put(0)})
		b.ReportAllocs()
		b.ResetTimer()
		run(b, &perf.Load{Target: s.target, Count: uint64(max(b.N, workers)), Next: func(_ *perf.Worker, n uint64) (loadgen.Request, perf.Expect) {
			n = n * 7919 % keys
			return loadgen.Request{Op: "get", Method: http.MethodGet, Path: path(n)}, contents.Expect(n)
		}})
		b.StopTimer()
	})
}
