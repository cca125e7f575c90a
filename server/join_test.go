package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writesCounted counts the writes to the connections that a listener accepts.
type writesCounted struct {
	net.Listener
	writes atomic.Int64
}

func (l *writesCounted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return writeCounter{c, l}, err
}

type writeCounter struct {
	net.Conn
	l *writesCounted
}

func (c writeCounter) Write(p []byte) (int, error) {
	c.l.writes.Add(1)
	return c.Conn.Write(p)
}

// joinServer serves handler through a limitListener and counts the writes.
func joinServer(t *testing.T, handler http.HandlerFunc) (string, *atomic.Int64) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	counted := &writesCounted{Listener: s.Listener}
	limit := newLimitListener(counted, 10, time.Minute)
	s.Listener = limit
	limit.install(s.Config, http.NotFoundHandler())
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), &counted.writes
}

// TestResponsesAreJoined: responses of any length, written in pieces of any size, arrive complete and in order, on one
// connection, and one of up to joinMost bytes takes one write.
func TestResponsesAreJoined(t *testing.T) {
	content := make([]byte, joinMost+3*netHTTPBuffer)
	for i := range content {
		content[i] = byte(i ^ i>>8)
	}
	type body struct {
		size, piece int
		flush       bool
	}
	bodies := make(chan body, 1)
	address, writes := joinServer(t, func(w http.ResponseWriter, _ *http.Request) {
		b := <-bodies
		w.Header().Set("Content-Length", fmt.Sprint(b.size))
		for from := 0; from < b.size; from += b.piece {
			_, _ = w.Write(content[from:min(from+b.piece, b.size)])
			if b.flush {
				w.(http.Flusher).Flush()
			}
		}
	})
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	head := 0 // the length of the head of a response whose Content-Length has four digits
	send := func(b body) int64 {
		t.Helper()
		bodies <- b
		before := writes.Load()
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		var all []byte
		for buf := make([]byte, 64<<10); ; {
			n, err := conn.Read(buf)
			require.NoError(t, err, "%+v: after %d bytes", b, len(all))
			all = append(all, buf[:n]...)
			if i := bytes.Index(all, []byte("\r\n\r\n")); i >= 0 && len(all) >= i+4+b.size {
				head = i + 4
				require.True(t, bytes.Equal(content[:b.size], all[head:]), "%+v", b)
				return writes.Load() - before
			}
		}
	}
	send(body{size: 4096, piece: 4096})
	full := netHTTPBuffer - head // the size of a body that fills the buffer exactly
	most := full - 1 + joinMost  // its length has a fifth digit
	for _, size := range []int{1000, full - 1, full, full + 1, 4096, full + netHTTPBuffer, most - 1, most} {
		require.Equal(t, int64(1), send(body{size: size, piece: size}), size)
	}
	for _, size := range []int{most + 1, len(content)} {
		require.Equal(t, int64(2), send(body{size: size, piece: size}), size)
	}
	for _, size := range []int{full - 1, full, full + 1, 4096, full + netHTTPBuffer, full + 2*netHTTPBuffer, len(content)} {
		for _, piece := range []int{1, 100, 2048, full - 1, full, full + 1, 4096} {
			send(body{size: size, piece: piece})
			send(body{size: size, piece: max(piece, 100), flush: true})
		}
	}
}

// TestHeldBytesAreSentAtTheEnd: if the beginning of a response is held and no write follows, the end of the response
// sends it.
func TestHeldBytesAreSentAtTheEnd(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := &limitedConn{Conn: server, listener: &limitListener{stall: time.Minute}}
	c.joiner.expect(httptest.NewRequest(http.MethodGet, "/", nil))
	first := bytes.Repeat([]byte("a"), netHTTPBuffer)
	n, err := c.Write(first) // it would block if it wrote to the pipe
	require.NoError(t, err)
	require.Equal(t, netHTTPBuffer, n)
	done := make(chan error, 1)
	go func() { done <- c.SetWriteDeadline(time.Time{}) }()
	got := make([]byte, netHTTPBuffer)
	_, err = io.ReadFull(client, got)
	require.NoError(t, err)
	require.Equal(t, first, got)
	require.NoError(t, <-done)
}

// TestJoinedWriteFails: a write that sends held bytes too reports how many of its own bytes were sent.
func TestJoinedWriteFails(t *testing.T) {
	for sent, want := range map[int]int{0: 0, 100: 0, netHTTPBuffer: 0, netHTTPBuffer + 10: 10} {
		slow := &halting{takes: []int{sent, 0, 0, 0}}
		c := &limitedConn{Conn: slow, listener: &limitListener{stall: time.Minute}}
		c.joiner.begins = true
		_, err := c.Write(make([]byte, netHTTPBuffer))
		require.NoError(t, err)
		n, err := c.Write(make([]byte, 100))
		require.Error(t, err)
		require.Equal(t, want, n)
		require.Equal(t, sent, slow.written)
	}
}

// TestOnlyPlainHTTP1IsJoined: responses over TLS and HTTP/2 are not held.
func TestOnlyPlainHTTP1IsJoined(t *testing.T) {
	plain := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	encrypted := httptest.NewRequest(http.MethodGet, "https://x/", nil)
	multiplexed := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	multiplexed.ProtoMajor = 2
	for r, holds := range map[*http.Request]bool{plain: true, encrypted: false, multiplexed: false} {
		var j joiner
		j.expect(r)
		require.Equal(t, holds, j.hold(make([]byte, netHTTPBuffer)))
	}
}
