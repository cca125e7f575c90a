package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// fake starts a server with a handler.
func fake(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// refuse writes an error document.
func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>message</Message><RequestId>id</RequestId></Error>", code)
}

// TestRetries: a temporary error is followed by another attempt, any other error is not.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		attempts int64
	}{{500, "InternalError", 5}, {503, "SlowDown", 5}, {503, "", 5}, {502, "", 5}, {504, "", 5}, {429, "", 5}, {400, "RequestTimeout", 5}, {400, "IncompleteBody", 5},
		{400, "BadDigest", 5}, {409, "OperationAborted", 5}, {403, "AccessDenied", 1}, {404, "NoSuchBucket", 1}, {501, "NotImplemented", 1}, {507, "InsufficientStorage", 1},
		{412, "PreconditionFailed", 1}, {400, "InvalidArgument", 1}} {
		var n atomic.Int64
		c1 := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			if c.code == "" {
				w.WriteHeader(c.status)
				return
			}
			refuse(w, c.status, c.code)
		}))
		_, err := c1.Put(t.Context(), "b", "k", strings.NewReader("content"), nil)
		e := errorOf(t, err)
		require.Equal(t, c.attempts, n.Load(), "%d %s", c.status, c.code)
		require.Equal(t, int(c.attempts), e.Attempts)
		require.Equal(t, c.status, e.Status)
		if c.code != "" {
			require.Equal(t, c.code, e.Code)
			require.Equal(t, "id", e.RequestID)
		}
		require.Equal(t, c.status == 500 || c.status == 502 || c.status == 504, e.Uncertain, "%d %s", c.status, c.code)
	}
}

// TestRetrySucceeds: the whole body is sent again, and the result is that of the last attempt.
func TestRetrySucceeds(t *testing.T) {
	content := noise(300_000)
	var n atomic.Int64
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, content[7:]) {
			refuse(w, 400, "Wrong")
			return
		}
		if n.Add(1) < 3 {
			w.Header().Set("Retry-After", "0")
			refuse(w, 503, "SlowDown")
			return
		}
		w.Header().Set("ETag", `"tag"`)
	}))
	body := bytes.NewReader(content)
	_, err := body.Seek(7, io.SeekStart)
	require.NoError(t, err)
	w, err := c.Put(t.Context(), "b", "k", body, nil)
	require.NoError(t, err)
	require.Equal(t, "tag", w.ETag)
	require.Equal(t, int64(3), n.Load())
	require.Equal(t, sdk.Stats{Requests: 1, Attempts: 3, BytesSent: 3 * (300_000 - 7), BytesReceived: c.Stats().BytesReceived}, c.Stats())
}

// TestRetryBudget: when the budget is used up, requests fail at once, until successes refill it.
func TestRetryBudget(t *testing.T) {
	var n atomic.Int64
	var fail atomic.Bool
	fail.Store(true)
	c := newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		if fail.Load() {
			refuse(w, 503, "SlowDown")
		}
	}), func(c *sdk.Config) { c.Retry.Budget = 12 })
	attempts := func() int64 {
		n.Store(0)
		_, _ = c.Delete(t.Context(), "b", "k", nil)
		return n.Load()
	}
	require.Equal(t, int64(3), attempts(), "two retries cost 10 of 12 tokens")
	require.Equal(t, int64(1), attempts())
	fail.Store(false)
	for range 3 {
		require.Equal(t, int64(1), attempts())
	}
	fail.Store(true)
	require.Equal(t, int64(2), attempts(), "three successes have returned three tokens")
	_, err := sdk.New(sdk.Config{Retry: sdk.Retry{Attempts: -1}})
	require.Error(t, err)
	_, err = sdk.New(sdk.Config{Retry: sdk.Retry{DelayMin: time.Minute, DelayMax: time.Second}})
	require.Error(t, err)
}

// lossy is a proxy that loses the response to every request for which lose returns true: the server has done it, and the
// client does not know.
func lossy(t testing.TB, lose func(*http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(shared)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
	}, ErrorLog: nil}
	return fake(t, func(w http.ResponseWriter, r *http.Request) {
		if !lose(r) {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

// TestLostResponses: writes that have no further effect when they are repeated succeed; the others fail, and the error is
// Uncertain.
func TestLostResponses(t *testing.T) {
	direct, bucket := newBucket(t)
	var left atomic.Int64
	c := newClient(t, lossy(t, func(*http.Request) bool { return left.Add(-1) >= 0 }))
	lose := func() { left.Store(1) }

	lose()
	_, err := c.Put(t.Context(), bucket, "put", strings.NewReader("content"), nil)
	require.NoError(t, err)
	lose()
	_, err = c.Put(t.Context(), bucket, "if", strings.NewReader("content"), &sdk.PutOptions{Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.True(t, errorOf(t, err).Uncertain)
	require.ErrorContains(t, err, "may have happened")
	require.Equal(t, "content", readAll(t, direct, bucket, "if", nil), "it has happened")
	lose()
	_, err = c.Append(t.Context(), bucket, "if", 7, strings.NewReader("!"), nil)
	require.ErrorIs(t, err, sdk.ErrInvalidOffset)
	require.True(t, errorOf(t, err).Uncertain)
	lose()
	require.NoError(t, c.Rename(t.Context(), bucket, "if", "renamed", nil))
	lose()
	_, err = c.Move(t.Context(), sdk.Source{Bucket: bucket, Key: "renamed"}, bucket, "moved", nil)
	require.NoError(t, err)
	require.Equal(t, "content!", readAll(t, direct, bucket, "moved", nil))
	lose()
	_, err = c.Delete(t.Context(), bucket, "moved", nil)
	require.NoError(t, err)
	lose()
	_, err = c.Head(t.Context(), bucket, "absent", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	require.False(t, errorOf(t, err).Uncertain, "not a write")
	lose()
	require.Equal(t, "content", readAll(t, c, bucket, "put", nil))
	left.Store(1000)
	_, err = c.Put(t.Context(), bucket, "put", strings.NewReader("content"), nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.True(t, errorOf(t, err).Uncertain)
	require.Equal(t, 5, errorOf(t, err).Attempts)
}

// TestNothingWasSent: an error is not Uncertain if the server cannot have received the whole request.
func TestNothingWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	_, err = newClient(t, closed).Put(t.Context(), "b", "k", strings.NewReader("content"), nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.False(t, errorOf(t, err).Uncertain)
	require.Equal(t, 5, errorOf(t, err).Attempts)

	cut := fake(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1000)
		panic(http.ErrAbortHandler)
	})
	_, err = newClient(t, cut).Put(t.Context(), "b", "k", bytes.NewReader(make([]byte, 64<<20)), nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.False(t, errorOf(t, err).Uncertain, "a server cannot use a part of a body")
}

// TestBodiesThatFail: an error of the caller's reader is reported as such, without other attempts.
func TestBodiesThatFail(t *testing.T) {
	var n atomic.Int64
	c := newClient(t, fake(t, func(_ http.ResponseWriter, r *http.Request) {
		n.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	broken := errors.New("the disk is broken")
	_, err := c.Put(t.Context(), "b", "k", &seeker{Reader: iotest.ErrReader(broken), size: 10}, nil)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, sdk.ErrNetwork)
	require.Zero(t, n.Load(), "it failed when the checksum was computed")
	sum := &sdk.PutOptions{Checksum: sdk.CRC32, ChecksumValue: "AAAAAA==", SHA256: strings.Repeat("0", 64)}
	_, err = c.Put(t.Context(), "b", "k", &seeker{Reader: iotest.ErrReader(broken), size: 10}, sum)
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, sdk.ErrNetwork)
	require.Equal(t, 1, max(1, errorOf(t, err).Attempts))
	_, err = c.Put(t.Context(), "b", "k", &seeker{Reader: strings.NewReader("short"), size: 10}, sum)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "5 bytes shorter")
	require.LessOrEqual(t, n.Load(), int64(2))
}

// seeker is a reader that claims to have a size.
type seeker struct {
	io.Reader
	size int64
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		offset += s.size
	}
	return offset, nil
}

// TestCanceled: the context ends an operation wherever it is, and its cause is the error.
func TestCanceled(t *testing.T) {
	began := make(chan struct{}, 8)
	release := make(chan struct{})
	endpoint := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/body") {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	c := newClient(t, endpoint)
	why := errors.New("the user has had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-began; cancel(why) }()
	_, err := c.Get(ctx, "b", "k", nil)
	require.ErrorIs(t, err, why)
	require.NotErrorIs(t, err, sdk.ErrNetwork)
	require.Equal(t, 1, errorOf(t, err).Attempts)

	ctx, cancel = context.WithCancelCause(t.Context())
	o, err := c.Get(ctx, "b", "body", nil)
	require.NoError(t, err)
	go func() { <-began; cancel(why) }()
	_, err = io.ReadAll(o)
	require.ErrorIs(t, err, why)
	require.NoError(t, o.Close())

	busy := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		refuse(w, 503, "SlowDown")
		began <- struct{}{}
	})
	ctx, cancel = context.WithCancelCause(t.Context())
	go func() { <-began; cancel(why) }()
	_, err = newClient(t, busy).Get(ctx, "b", "k", nil) // would wait for a minute
	require.True(t, errors.Is(err, why) || errors.Is(err, sdk.ErrSlowDown), "%v", err)
}

// TestIdleTimeout: a server that says nothing more ends a request, whether it is silent before the header, in a document
// or in content.
func TestIdleTimeout(t *testing.T) {
	release := make(chan struct{})
	endpoint := fake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/content"):
			w.Header().Set("Content-Length", "100")
			w.Header().Set("ETag", `"a"`)
			_, _ = w.Write([]byte("x"))
		case r.URL.RawQuery != "":
			_, _ = w.Write([]byte("<ListBucketResult>"))
		default:
			<-release
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	c := newClient(t, endpoint, func(c *sdk.Config) { c.IdleTimeout, c.Retry.Attempts = 20*time.Millisecond, 2 })
	_, err := c.Head(t.Context(), "b", "k", nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.ErrorContains(t, err, "no byte was sent or received for 20ms")
	for _, err := range c.List(t.Context(), "b", nil) {
		require.ErrorIs(t, err, sdk.ErrNetwork)
	}
	o, err := c.Get(t.Context(), "b", "content", nil)
	require.NoError(t, err)
	_, err = io.ReadAll(o)
	require.Error(t, err)
	require.NoError(t, o.Close())
	_, err = c.Fetch(t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/b/k"})
	require.ErrorIs(t, err, sdk.ErrNetwork)

	// A caller that is slow is not a server that is idle.
	real, bucket := newBucket(t, func(c *sdk.Config) { c.IdleTimeout = 50 * time.Millisecond })
	write(t, real, bucket, "k", strings.Repeat("x", 10<<20))
	o, err = real.Get(t.Context(), bucket, "k", nil)
	require.NoError(t, err)
	_, err = io.ReadFull(o, make([]byte, 10))
	require.NoError(t, err)
	time.Sleep(200 * time.Millisecond)
	n, err := io.Copy(io.Discard, o)
	require.NoError(t, err)
	require.Equal(t, int64(10<<20-10), n)
	require.NoError(t, o.Close())
	require.Equal(t, real.Stats().Requests, real.Stats().Attempts)
}

// cutting is a proxy for reads that sends only limit bytes of each body, and then closes the connection.
func cutting(t testing.TB, limit int, change func([]byte)) string {
	t.Helper()
	return fake(t, func(w http.ResponseWriter, r *http.Request) {
		q, err := http.NewRequest(r.Method, shared+r.URL.RequestURI(), nil) //nolint:noctx
		if err != nil {
			panic(err)
		}
		q.Header, q.Host = r.Header, r.Host
		res, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			panic(err)
		}
		defer res.Body.Close()
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(res.StatusCode)
		b := make([]byte, limit)
		n, err := io.ReadFull(res.Body, b)
		if change != nil {
			change(b[:n])
		}
		_, _ = w.Write(b[:n])
		_ = http.NewResponseController(w).Flush()
		if err == nil {
			panic(http.ErrAbortHandler)
		}
	})
}

// TestGetResumes: reading continues after each broken connection, and no byte is read twice.
func TestGetResumes(t *testing.T) {
	direct, bucket := newBucket(t)
	content := string(noise(100_000))
	write(t, direct, bucket, "k", content)
	c := newClient(t, cutting(t, 9_999, nil))
	require.True(t, content == readAll(t, c, bucket, "k", nil))
	require.Equal(t, int64(11), c.Stats().Attempts)
	require.Equal(t, int64(100_000), c.Stats().BytesReceived)
	require.True(t, content[5000:95_000] == readAll(t, c, bucket, "k", &sdk.GetOptions{Offset: 5000, Length: 90_000}))
	require.True(t, content[5000:] == readAll(t, c, bucket, "k", &sdk.GetOptions{Suffix: 95_000}))
	require.True(t, content == readAll(t, c, bucket, "k", &sdk.GetOptions{Part: 1}))

	o, err := c.Get(t.Context(), bucket, "k", nil)
	require.NoError(t, err)
	_, err = io.ReadFull(o, make([]byte, 5000))
	require.NoError(t, err)
	write(t, direct, bucket, "k", content[1:])
	_, err = io.ReadAll(o)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.ErrorContains(t, err, "changed while it was read")
	require.NoError(t, o.Close())

	stuck := newClient(t, cutting(t, 0, nil))
	o, err = stuck.Get(t.Context(), bucket, "k", nil)
	require.NoError(t, err)
	_, err = io.ReadAll(o)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.Equal(t, int64(5), stuck.Stats().Attempts, "attempts without a byte are limited")
	require.NoError(t, o.Close())
}

// TestGetIsVerified: a byte that changes on the way is noticed, also across connections, and also by the MD5 alone.
func TestGetIsVerified(t *testing.T) {
	direct, bucket := newBucket(t)
	write(t, direct, bucket, "k", string(noise(20_000)))
	damage := func(b []byte) {
		if len(b) > 0 {
			b[len(b)-1] ^= 1
		}
	}
	for _, limit := range []int{6_000, 1 << 20} {
		for _, required := range []bool{false, true} {
			c := newClient(t, cutting(t, limit, damage), func(c *sdk.Config) { c.ChecksumsWhenRequired = required })
			o, err := c.Get(t.Context(), bucket, "k", nil)
			require.NoError(t, err)
			n, err := io.Copy(io.Discard, o)
			require.ErrorIs(t, err, sdk.ErrChecksum)
			require.Less(t, n, int64(20_000), "the end is not returned")
			require.NoError(t, o.Close())
		}
	}
}

// TestConnectionsAreReused: workers keep their connections.
func TestConnectionsAreReused(t *testing.T) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", "4096")
			_, _ = w.Write(make([]byte, 4096))
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := newClient(t, s.URL)
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for i := range 20 {
				key := strconv.Itoa(i)
				if _, err := c.Put(t.Context(), "b", key, bytes.NewReader(make([]byte, 4096)), nil); err != nil {
					t.Error(err)
				}
				o, err := c.Get(t.Context(), "b", key, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, o); err != nil {
					t.Error(err)
				}
				_ = o.Close()
			}
		})
	}
	workers.Wait()
	// A worker may dial although another one is about to return its connection, so there can be a few more than workers.
	require.LessOrEqual(t, opened.Load(), int64(128))
}

// TestFileBody: a file is sent from its position, and stays open.
func TestFileBody(t *testing.T) {
	c, bucket := newBucket(t)
	f, err := os.Open(file(t, []byte("0123456789")))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(4, io.SeekStart)
	require.NoError(t, err)
	w, err := c.Put(t.Context(), bucket, "k", f, nil)
	require.NoError(t, err)
	require.Equal(t, int64(6), w.Size)
	require.Equal(t, "456789", readAll(t, c, bucket, "k", nil))
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(t, err)
}
