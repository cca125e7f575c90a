package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core/mem"
	"orcas/s3"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// bench calls the handler as net/http would, without a socket: what is measured is the protocol, over drivers in memory.
func bench(b *testing.B, method, path string, body []byte, quiet bool) {
	meta, blocks := mem.NewMeta(), mem.NewBlocks()
	writer, err := batch.Open(b.Context(), batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(b, err)
	defer writer.Close()
	fs, err := vfs.New(vfs.Options{Meta: meta, Blocks: blocks, Writer: writer})
	require.NoError(b, err)
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	if quiet {
		logger = slog.New(slog.DiscardHandler)
	}
	handler, err := s3.New(s3.Options{
		FS: fs, Region: "us-east-1", Logger: logger,
		Lookup: func(string) (s3.Credential, bool) { return s3.Credential{SecretKey: secretKey, Account: account}, true },
	})
	require.NoError(b, err)
	w := &world{signer: &sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}}
	do := func(method, path string, body []byte) *http.Request {
		r, err := http.NewRequest(method, "http://s3.local"+path, bytes.NewReader(body))
		require.NoError(b, err)
		r.RemoteAddr = "127.0.0.1:12345"
		r.Header.Set("User-Agent", "bench")
		w.signer.Sign(r, hash(body), time.Now())
		var out sink
		handler.ServeHTTP(&out, r)
		require.Equal(b, 200, out.status)
		return r
	}
	do("PUT", "/bucket", nil)
	do("PUT", "/bucket/key", random(1, 4096))
	if strings.Contains(path, "list-type") {
		for i := range 1000 {
			do("PUT", fmt.Sprintf("/bucket/listed/%06d", i), random(1, 10))
		}
	}
	r := do(method, path, body)
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		out := sink{header: make(http.Header, 16)}
		handler.ServeHTTP(&out, r)
		if out.status != 200 {
			b.Fatal(out.status)
		}
	}
}

// sink takes an answer and forgets it.
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

func BenchmarkPut4K(b *testing.B)       { bench(b, "PUT", "/bucket/key", random(1, 4096), true) }
func BenchmarkPut4KLogged(b *testing.B) { bench(b, "PUT", "/bucket/key", random(1, 4096), false) }
func BenchmarkGet4K(b *testing.B)       { bench(b, "GET", "/bucket/key", nil, true) }
func BenchmarkGet4KLogged(b *testing.B) { bench(b, "GET", "/bucket/key", nil, false) }

// BenchmarkList lists a page of 1,000 keys.
func BenchmarkList(b *testing.B) { bench(b, "GET", "/bucket?list-type=2", nil, true) }

func BenchmarkHead(b *testing.B) { bench(b, "HEAD", "/bucket/key", nil, true) }
