package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// lockedBuffer is a log that a test can read while the server writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// headClient sends raw requests to a server.
type headClient struct {
	t      *testing.T
	s      *Server
	signer *sigv4.Signer
}

func newHeadClient(t *testing.T, log io.Writer) *headClient {
	t.Helper()
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket"}
	config.Log = log
	s, _ := running(t, config)
	return &headClient{t, s, &sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: s.Credentials().SecretKey, Region: "us-east-1"}}
}

// request returns the bytes of a signed request; lines are additional header lines, which are not signed.
func (c *headClient) request(method, path, body string, lines ...string) string {
	c.t.Helper()
	r, err := http.NewRequest(method, c.s.Endpoint()+path, nil)
	require.NoError(c.t, err)
	c.signer.Sign(r, sigv4.UnsignedPayload, time.Now())
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, path, r.Host, len(body))
	for _, line := range lines {
		b.WriteString(line + "\r\n")
	}
	require.NoError(c.t, r.Header.Write(&b))
	return b.String() + "\r\n" + body
}

func (c *headClient) dial() (net.Conn, *bufio.Reader) {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.s.Endpoint(), "http://"))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}

func (c *headClient) response(in *bufio.Reader) (int, string) {
	c.t.Helper()
	res, err := http.ReadResponse(in, nil)
	require.NoError(c.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	return res.StatusCode, string(body)
}

// An Expect header other than 100-continue is ignored, in the first request of a connection and in later ones. A body
// that contains such a header line is not changed, wherever the bytes are split, even if requests are pipelined.
func TestExpectIsIgnored(t *testing.T) {
	c := newHeadClient(t, nil)
	body := "Expect: 200-ok\r\n\r\nExpect: 200-ok\r\nGET / HTTP/1.1\r\nExpect: 200-ok\r\n\r\n"
	put := c.request("PUT", "/bucket/key", body, "Expect: 200-ok")
	get := c.request("GET", "/bucket/key", "", "expect:  nonsense ")
	conn, in := c.dial()
	for range 3 {
		_, err := io.WriteString(conn, put)
		require.NoError(t, err)
		status, text := c.response(in)
		require.Equal(t, 200, status, text)
		_, err = io.WriteString(conn, get)
		require.NoError(t, err)
		status, text = c.response(in)
		require.Equal(t, 200, status)
		require.Equal(t, body, text)
	}
	plain := c.request("PUT", "/bucket/key", body)
	get = c.request("GET", "/bucket/key", "")
	for cut := range len(plain) {
		conn, in := c.dial()
		require.NoError(t, conn.(*net.TCPConn).SetNoDelay(true))
		// Three requests in two pieces: net/http reads beyond the end of the head that it parses.
		all := plain + plain + get
		_, err := io.WriteString(conn, all[:len(plain)+cut])
		require.NoError(t, err)
		status, _ := c.response(in)
		require.Equal(t, 200, status)
		_, err = io.WriteString(conn, all[len(plain)+cut:])
		require.NoError(t, err)
		status, _ = c.response(in)
		require.Equal(t, 200, status)
		status, text := c.response(in)
		require.Equal(t, 200, status)
		require.Equal(t, body, text, "cut at %d", cut)
		conn.Close()
	}
	// 100-continue still gets its response.
	conn, in = c.dial()
	head := strings.TrimSuffix(c.request("PUT", "/bucket/key", "content", "Expect: 100-continue"), "content")
	_, err := io.WriteString(conn, head)
	require.NoError(t, err)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = in.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, "content")
	require.NoError(t, err)
	status, _ := c.response(in)
	require.Equal(t, 200, status)
}

// A request head that net/http rejects gets an error document with a request ID, and a line in the log.
func TestBadHeads(t *testing.T) {
	var log lockedBuffer
	c := newHeadClient(t, &log)
	good := c.request("GET", "/bucket?location", "")
	for _, bad := range []struct {
		head, code string
		status     int
	}{
		{"GET /bucket/%zz HTTP/1.1\r\nHost: x\r\n\r\n", "BadRequest", 400},
		{"GET /bucket HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "BadRequest", 400},
		{"GET /bucket HTTP/1.1\r\n\r\n", "BadRequest", 400},
		{"GET /bucket HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", "BadRequest", 400},
		{"GET /bucket HTTP/7.1\r\nHost: x\r\n\r\n", "BadRequest", 505},
		{"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "NotImplemented", 501},
		{"GET /bucket HTTP/1.1\r\nHost: x\r\nX-Fat: " + strings.Repeat("v", maxHeaderBytes+8192) + "\r\n\r\n", "RequestHeaderSectionTooLarge", 400},
		{strings.Repeat("nonsense ", 100) + "\r\n\r\n", "BadRequest", 400},
	} {
		for _, before := range []string{"", good} { // as the first request of a connection, and as a later one
			conn, in := c.dial()
			_, err := io.WriteString(conn, before)
			require.NoError(t, err)
			if before != "" {
				status, _ := c.response(in)
				require.Equal(t, 200, status)
			}
			_, err = io.WriteString(conn, bad.head)
			require.NoError(t, err)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err, "%.60q", bad.head)
			doc, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, bad.status, res.StatusCode, "%.60q: %s", bad.head, doc)
			require.Equal(t, "application/xml", res.Header.Get("Content-Type"))
			require.True(t, res.Close)
			id := res.Header.Get("X-Amz-Request-Id")
			require.Len(t, id, 16)
			require.Contains(t, string(doc), "<Error><Code>"+bad.code+"</Code>")
			require.Contains(t, string(doc), "<RequestId>"+id+"</RequestId>")
			conn.Close()
			c.s.logBuffer.Flush()
			require.Contains(t, log.String(), `"id":"`+id+`"`)
		}
	}
}

// Content that looks like a response of net/http is sent unchanged.
func TestContentLikeARefusal(t *testing.T) {
	c := newHeadClient(t, nil)
	refusal := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	content := strings.Repeat(refusal, 100_000/len(refusal)+1)
	conn, in := c.dial()
	for range 2 {
		_, err := io.WriteString(conn, c.request("PUT", "/bucket/key", content)+c.request("GET", "/bucket/key", ""))
		require.NoError(t, err)
		status, _ := c.response(in)
		require.Equal(t, 200, status)
		status, text := c.response(in)
		require.Equal(t, 200, status)
		require.True(t, text == content)
	}
}
