package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// limitedServer runs a server with the given number of slots for connections.
func limitedServer(t *testing.T, slots int, overTLS bool) *Server {
	t.Helper()
	config := testConfig(t)
	config.Connections, config.SelfSigned = slots, overTLS
	config.Settings.Buckets = []string{"bucket"}
	s, _ := running(t, config)
	return s
}

// counts returns the number of connections, and how many of them are idle.
func (l *limitListener) counts() (open, idle int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		if c.idleSince.Load() > 0 {
			idle++
		}
	}
	return len(l.conns), idle
}

// until waits until the server has exactly these numbers of open and idle connections.
func until(t *testing.T, s *Server, open, idle int) {
	t.Helper()
	require.Eventually(t, func() bool {
		gotOpen, gotIdle := s.listener.counts()
		return gotOpen == open && gotIdle == idle
	}, time.Minute, time.Millisecond)
}

// dial connects, sends text, and returns the connection once the server has accepted it.
func dial(t *testing.T, s *Server, send string) net.Conn {
	t.Helper()
	before := s.listener.evicted.Load()
	open, _ := s.listener.counts()
	c, err := net.Dial("tcp", s.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, send)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now, _ := s.listener.counts()
		return now > open || s.listener.evicted.Load() > before
	}, time.Minute, time.Millisecond)
	return c
}

// closed reports whether the server has closed a connection. It returns false if nothing happens for a moment.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestIdleConnectionsMakeRoom: when all slots are taken, the connection that has been idle longest is closed, whether
// it has sent nothing, sent half a header, or is between two requests.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	s := limitedServer(t, 3, false)
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	silent := dial(t, s, "")
	half := dial(t, s, "GET / HTTP/1.1\r\nHost: x\r\nX-Amz")
	between := dial(t, s, request)
	response, err := http.ReadResponse(bufio.NewReader(between), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode, "the request is anonymous, but it is served")
	until(t, s, 3, 3)

	for i, want := range [][3]bool{{true, false, false}, {true, true, false}, {true, true, true}} {
		dial(t, s, "")
		until(t, s, 3, 3)
		require.Equal(t, want, [3]bool{closed(t, silent), closed(t, half), closed(t, between)}, "after %d more", i+1)
	}
	require.Equal(t, int64(3), s.listener.evicted.Load())
	require.Zero(t, s.listener.refused.Load())
}

// transport returns a client with separate connections, which uses HTTP/2 if h2 is set.
func transport(t *testing.T, s *Server, h2 bool) *http.Client {
	t.Helper()
	client := httpClient(t, s)
	tr := client.Transport.(*http.Transport)
	tr.ForceAttemptHTTP2 = h2
	if !h2 {
		tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return client
}

// TestBusyConnectionsAreKept: a connection with a request in progress is never closed in favor of another. While all
// connections are busy, further requests immediately get 503 SlowDown, but the health check works. Connections beyond
// the extra slots are closed.
func TestBusyConnectionsAreKept(t *testing.T) {
	for name, how := range map[string]struct{ tls, h2 bool }{"HTTP/1.1": {}, "HTTPS": {tls: true}, "HTTP/2": {tls: true, h2: true}} {
		t.Run(name, func(t *testing.T) {
			const slots = 3
			s := limitedServer(t, slots, how.tls)
			type upload struct {
				body *io.PipeWriter
				done chan error
			}
			var uploads []upload
			for i := range slots {
				body, w := io.Pipe()
				r, err := http.NewRequestWithContext(t.Context(), "PUT", fmt.Sprintf("%s/bucket/%d", s.Endpoint(), i), body)
				require.NoError(t, err)
				r.ContentLength = 10
				signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: s.Credentials().SecretKey, Region: "us-east-1"}
				signer.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
				client, u := transport(t, s, how.h2), upload{w, make(chan error, 1)}
				go func() {
					response, err := client.Do(r)
					if err == nil {
						_ = response.Body.Close()
						if response.StatusCode != http.StatusOK {
							err = fmt.Errorf("status %s", response.Status)
						}
					}
					u.done <- err
				}()
				_, err = io.WriteString(w, "01234")
				require.NoError(t, err)
				uploads = append(uploads, u)
			}
			until(t, s, slots, 0)

			for range 5 { // more than the number of extra slots, but each request frees its slot
				response, err := transport(t, s, how.h2).Get(s.Endpoint() + "/bucket/key")
				require.NoError(t, err)
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
				require.Contains(t, string(text), "<Code>SlowDown</Code>")
				require.Contains(t, string(text), "<RequestId>"+response.Header.Get("X-Amz-Request-Id")+"</RequestId>")
				require.Equal(t, "1", response.Header.Get("Retry-After"))
				if !how.h2 {
					require.True(t, response.Close)
				}
				until(t, s, slots, 0)
			}
			require.Equal(t, int64(5), s.listener.refused.Load())
			health, err := transport(t, s, how.h2).Get(s.Endpoint() + "/-/health/ready")
			require.NoError(t, err)
			require.NoError(t, health.Body.Close())
			require.Equal(t, http.StatusOK, health.StatusCode)
			until(t, s, slots, 0)

			// One request ends. Then its connection is idle, and its slot can be used for another.
			end := func(u upload) {
				_, err := io.WriteString(u.body, "56789")
				require.NoError(t, err)
				require.NoError(t, u.body.Close())
				require.NoError(t, <-u.done, "a request in progress must not be aborted")
			}
			end(uploads[0])
			until(t, s, slots, 1)
			response, err := transport(t, s, how.h2).Get(s.Endpoint() + "/bucket/key")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusForbidden, response.StatusCode)
			require.Equal(t, int64(1), s.listener.evicted.Load())

			for _, u := range uploads[1:] {
				end(u)
			}
		})
	}
}

// TestExtraSlots: a connection in an extra slot is served if a regular slot is free by the time of its request. If no
// extra slot is free either, a connection is closed.
func TestExtraSlots(t *testing.T) {
	s := limitedServer(t, 1, false)
	inner := s.listener
	a, b := net.Pipe()
	defer a.Close()
	busy := inner.admit(b)
	inner.connState(busy, http.StateActive)
	waiting := dial(t, s, "")
	until(t, s, 2, 1)
	require.NoError(t, busy.Close())
	until(t, s, 1, 1)
	_, err := io.WriteString(waiting, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(waiting), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Zero(t, inner.refused.Load())

	until(t, s, 1, 1)
	require.True(t, inner.evict())
	var all []*limitedConn
	for range 1 + inner.extraSlots {
		_, c := net.Pipe()
		conn := inner.admit(c)
		inner.connState(conn, http.StateActive)
		all = append(all, conn)
	}
	c, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, int64(1), inner.dropped.Load())
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
	until(t, s, 0, 0)
}

// TestEvictedRequestsAreNotServed: if a header becomes complete just as its connection loses its slot, the request is
// not served.
func TestEvictedRequestsAreNotServed(t *testing.T) {
	l := newLimitListener(nil, 1, time.Hour)
	served := 0
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })}
	l.install(s, http.NotFoundHandler())
	_, c := net.Pipe()
	conn := l.admit(c)
	r := (&http.Request{Method: "PUT"}).WithContext(s.ConnContext(t.Context(), conn))
	s.Handler.ServeHTTP(nil, r)
	require.Equal(t, 1, served)
	require.True(t, l.evict())
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { s.Handler.ServeHTTP(nil, r) })
	require.Equal(t, 1, served)
	require.False(t, l.evict())
	l.connState(conn, http.StateIdle) // a late state change
	require.False(t, l.evict())
	require.NoError(t, conn.Close())
	open, idle := l.counts()
	require.Zero(t, open+idle)
}

// exhausted is a listener whose first fails calls to Accept fail, because the process has too many open files.
type exhausted struct {
	net.Listener
	fails int
	next  net.Conn
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.fails > 0 {
		e.fails--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.next, nil
}

// TestFilesRunOut: if the process has too many open files, idle connections are closed; without idle connections,
// Accept returns the error.
func TestFilesRunOut(t *testing.T) {
	_, first := net.Pipe()
	_, second := net.Pipe()
	l := newLimitListener(&exhausted{fails: 1, next: second}, 10, time.Hour)
	l.admit(first)
	c, err := l.Accept()
	require.NoError(t, err)
	require.Equal(t, second, c.(*limitedConn).Conn)
	_, err = first.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	l.Listener.(*exhausted).fails = 1
	l.connState(c, http.StateActive)
	_, err = l.Accept()
	require.ErrorIs(t, err, syscall.EMFILE)
}

// TestOldestIdleIsFirst opens, uses and closes connections at random, and compares the listener with a list in the
// order of idle times.
func TestOldestIdleIsFirst(t *testing.T) {
	l := newLimitListener(nil, 600, time.Hour)
	var order, live []*limitedConn
	drop := func(list []*limitedConn, c *limitedConn) []*limitedConn {
		return slices.DeleteFunc(list, func(x *limitedConn) bool { return x == c })
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		switch {
		case len(live) == 0 || random.IntN(3) == 0:
			full := l.full()
			_, pipe := net.Pipe()
			c := l.admit(pipe)
			if full && len(order) > 0 {
				require.Equal(t, int64(gone), order[0].idleSince.Load())
				live, order = drop(live, order[0]), order[1:]
			}
			if c != nil {
				live, order = append(live, c), append(order, c)
			}
		case random.IntN(2) == 0:
			c := live[random.IntN(len(live))]
			l.connState(c, http.StateActive)
			order = drop(order, c)
		case random.IntN(5) == 0:
			c := live[random.IntN(len(live))]
			require.NoError(t, c.Close())
			live, order = drop(live, c), drop(order, c)
		default:
			c := live[random.IntN(len(live))]
			l.connState(c, http.StateIdle)
			order = append(drop(order, c), c)
		}
		require.Equal(t, len(live), len(l.conns))
	}
	require.Positive(t, l.evicted.Load())
	for _, want := range order {
		require.True(t, l.evict())
		require.Equal(t, int64(gone), want.idleSince.Load())
	}
	require.False(t, l.evict())
}

// TestUnsentBodies: a client that announces a body and never sends it does not keep its slot, whichever handler
// responds to the request.
func TestUnsentBodies(t *testing.T) {
	config := testConfig(t)
	config.Connections, config.Admin = 10, "127.0.0.1:0"
	s, _ := running(t, config)
	requests := []string{"OPTIONS *", "POST /-/health/live", "PUT /bucket/key", "OPTIONS /bucket/key", "HEAD /bucket"}
	conns := map[string]net.Conn{}
	for _, request := range requests {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conns[request+", "+length] = dial(t, s, request+" HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n")
		}
	}
	admin, err := net.Dial("tcp", s.AdminAddress())
	require.NoError(t, err)
	defer admin.Close()
	_, err = io.WriteString(admin, "POST /-/admin/fsck HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	until(t, s, 0, 0)
	for name, c := range conns {
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, name)
		require.NotEmpty(t, response.Header.Get("Date"), name)
	}
	require.NoError(t, admin.SetReadDeadline(time.Now().Add(time.Minute)))
	rest, err := io.ReadAll(admin)
	require.NoError(t, err, "the server must close the connection")
	require.Contains(t, string(rest), "403 Forbidden")
}

// gated is a connection whose reads wait while its gate is locked.
type gated struct {
	net.Conn
	gate *sync.RWMutex
}

func (g gated) Read(p []byte) (int, error) {
	g.gate.RLock()
	c := g.Conn
	g.gate.RUnlock()
	return c.Read(p)
}

// TestResponsesInFlightAreKept: a response that the kernel still has to send counts as being in progress, as long as
// there is another connection to close. Over HTTP/2 the client sends frames in the meantime, so closing the connection
// would lose the rest of the response.
func TestResponsesInFlightAreKept(t *testing.T) {
	for name, how := range map[string]struct{ tls, h2 bool }{"HTTP/1.1": {}, "HTTPS": {tls: true}, "HTTP/2": {tls: true, h2: true}} {
		t.Run(name, func(t *testing.T) {
			s := limitedServer(t, 3, how.tls)
			signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: s.Credentials().SecretKey, Region: "us-east-1"}
			client := transport(t, s, how.h2)
			var gate sync.RWMutex
			client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return gated{c, &gate}, c.(*net.TCPConn).SetReadBuffer(16 << 10)
			}
			content := strings.Repeat("0123456789abcdef", 8<<10)
			do := func(method, body string) (string, error) {
				r, err := http.NewRequestWithContext(t.Context(), method, s.Endpoint()+"/bucket/key", strings.NewReader(body))
				if err != nil {
					return "", err
				}
				signer.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
				response, err := client.Do(r)
				if err != nil {
					return "", err
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				return string(text), err
			}
			_, err := do("PUT", content)
			require.NoError(t, err)
			until(t, s, 1, 1)

			s.listener.mu.Lock()
			conn := s.listener.conns[0]
			s.listener.mu.Unlock()
			before := conn.idleSince.Load()
			gate.Lock()
			type result struct {
				text string
				err  error
			}
			done := make(chan result, 1)
			go func() {
				text, err := do("GET", "")
				done <- result{text, err}
			}()
			require.Eventually(t, func() bool { return conn.idleSince.Load() > before }, time.Minute, time.Millisecond)
			for range 5 {
				dial(t, s, "")
			}
			require.Equal(t, int64(3), s.listener.evicted.Load())
			gate.Unlock()
			got := <-done
			require.NoError(t, got.err)
			require.Equal(t, content, got.text)
		})
	}
}

// BenchmarkConnState measures the cost of the listener for one request.
func BenchmarkConnState(b *testing.B) {
	l := newLimitListener(nil, 1000, time.Hour)
	var conns []*limitedConn
	for range 100 {
		_, c := net.Pipe()
		conns = append(conns, l.admit(c))
	}
	for i := 0; b.Loop(); i++ {
		c := conns[i%len(conns)]
		l.connState(c, http.StateActive)
		l.connState(c, http.StateIdle)
	}
}
