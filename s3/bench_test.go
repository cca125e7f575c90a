package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core/mem"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/storetest"
)

// local is a handler over drivers in memory. It is called like by net/http, but without a socket, so that a benchmark
// measures only the protocol.
type local struct {
	t       testing.TB
	handler http.Handler
	signer  sigv4.Signer
}

func newLocal(t testing.TB, logger *slog.Logger) *local {
	meta, blocks := mem.NewMeta(), mem.NewBlocks()
	writer, err := batch.Open(t.Context(), batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(t, err)
	t.Cleanup(func() { _ = writer.Close() }) // no data is kept, so the error does not matter
	fs, err := storetest.NewFS(content.Options{Meta: meta, Blocks: blocks, Writer: writer})
	require.NoError(t, err)
	handler, err := s3.New(s3.Options{
		FS: fs, Region: "us-east-1", IDs: testIDs, Logger: logger,
		Lookup: func(context.Context, string, string) (gate.Credential, error) { return holders[accessKey], nil },
	})
	require.NoError(t, err)
	l := &local{t: t, handler: handler, signer: sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}}
	l.do(200, l.request("PUT", "/bucket", nil), nil)
	return l
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// request returns a signed request, which may be sent more than once.
func (l *local) request(method, path string, body []byte) *http.Request {
	r, err := http.NewRequest(method, "http://s3.local"+path, bytes.NewReader(body))
	require.NoError(l.t, err)
	r.RemoteAddr = "127.0.0.1:12345"
	r.Header.Set("User-Agent", "bench")
	l.signer.Sign(r, hash(body), time.Now())
	return r
}

// do sends a request and checks the status.
func (l *local) do(status int, r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := sink{header: make(http.Header, 16)}
	l.handler.ServeHTTP(&out, r)
	if out.status != status {
		l.t.Fatalf("%s %s: status %d", r.Method, r.URL, out.status)
	}
}

// bench sends one request repeatedly.
func bench(b *testing.B, method, path string, body []byte, logger *slog.Logger) {
	l := newLocal(b, logger)
	for path, size := range map[string]int{"/bucket/key": 4096, "/bucket/large": 10 << 20} {
		object := random(1, size)
		l.do(200, l.request("PUT", path, object), object)
	}
	if strings.Contains(path, "list-type") {
		content := random(1, 10)
		for i := range 1000 {
			l.do(200, l.request("PUT", fmt.Sprintf("/bucket/listed/%06d", i), content), content)
		}
	}
	r := l.request(method, path, body)
	b.ReportAllocs()
	for b.Loop() {
		l.do(200, r, body)
	}
}

// sink discards a response, except for its status and headers.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func logged() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func BenchmarkPut4K(b *testing.B)       { bench(b, "PUT", "/bucket/key", random(1, 4096), quiet()) }
func BenchmarkPut4KLogged(b *testing.B) { bench(b, "PUT", "/bucket/key", random(1, 4096), logged()) }
func BenchmarkGet4K(b *testing.B)       { bench(b, "GET", "/bucket/key", nil, quiet()) }
func BenchmarkGet4KLogged(b *testing.B) { bench(b, "GET", "/bucket/key", nil, logged()) }
func BenchmarkGet10M(b *testing.B)      { bench(b, "GET", "/bucket/large", nil, quiet()) }

// BenchmarkList lists a page of 1,000 keys.
func BenchmarkList(b *testing.B) { bench(b, "GET", "/bucket?list-type=2", nil, quiet()) }

func BenchmarkHead(b *testing.B) { bench(b, "HEAD", "/bucket/key", nil, quiet()) }

// BenchmarkDelete deletes existing objects. They are written in batches while the timer is stopped.
func BenchmarkDelete(b *testing.B) {
	l := newLocal(b, quiet())
	content := random(1, 4096)
	puts, deletes := make([]*http.Request, 1000), make([]*http.Request, 1000)
	for i := range puts {
		path := fmt.Sprintf("/bucket/deleted/%06d", i)
		puts[i], deletes[i] = l.request("PUT", path, content), l.request("DELETE", path, nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i %= len(puts); i == 0 {
			b.StopTimer()
			for _, r := range puts {
				l.do(200, r, content)
			}
			b.StartTimer()
		}
		l.do(204, deletes[i], nil)
	}
}

// TestAllocationsOfRequests limits the allocations of a request for a small object between net/http and the drivers,
// including a PUT's share of its batch. The limits are a little higher than the usual numbers. Whoever raises a limit
// must state the reason here.
func TestAllocationsOfRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector empties pools")
	}
	l := newLocal(t, quiet())
	content := random(1, 4096)
	put, get := l.request("PUT", "/bucket/key", content), l.request("GET", "/bucket/key", nil)
	l.do(200, put, content)
	for _, c := range []struct {
		request *http.Request
		body    []byte
		most    float64
	}{{put, content, 48}, {get, nil, 29}, {l.request("HEAD", "/bucket/key", nil), nil, 27}} {
		got := testing.AllocsPerRun(200, func() { l.do(200, c.request, c.body) })
		t.Logf("%s: %.0f", c.request.Method, got)
		require.LessOrEqual(t, got, c.most, c.request.Method)
	}
}
