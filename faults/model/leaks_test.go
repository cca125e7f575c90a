package model

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestNoGoroutineOutlivesTheServer closes client connections at many places of a request body and of a response, stops
// the server, and checks that none of its goroutines are left.
func TestNoGoroutineOutlivesTheServer(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m, err := newMachine(workDir(t), nil)
	require.NoError(t, err)
	must(t, 200)(m.do("PUT", "bucket", "", "", nil))
	large := random(1, 3<<20)
	must(t, 200)(m.do("PUT", "bucket", "large", "", large))
	must(t, 200)(m.do("PUT", "bucket", "same", "", []byte("as it was")))

	// In the middle of a body: of packed content, of content with a block of its own, and of a document.
	for _, size := range []int{4096, 1 << 20} {
		for _, sent := range []int{0, 1, size / 2, size - 1} {
			vanish(t, m, "PUT", "same", "", random(2, size), sent, 0)
		}
	}
	vanish(t, m, "POST", "", "delete=", make([]byte, 1000), 500, 0)
	// In the middle of a response, most of which the server still has to send.
	for _, taken := range []int{1, 100, 64 << 10, 1 << 20} {
		vanish(t, m, "GET", "large", "", nil, 0, taken)
	}
	// A connection without a request, and half of a request.
	for _, text := range []string{"", "GET /bucket/large HTTP/1.1\r\nHost: x\r\n"} {
		c := dial(t, m)
		_, err := io.WriteString(c, text)
		require.NoError(t, err)
		defer c.Close() // after the server has ended
	}
	require.Equal(t, "as it was", string(must(t, 200)(m.do("GET", "bucket", "same", "", nil)).body), "an incomplete body must not change the object")
	// Not a clean shutdown, which would give a client that has just connected, and has sent nothing yet, five seconds.
	require.NoError(t, m.cut())
	require.NoError(t, m.alarm.err())
	// net/http keeps a connection open for half a second if its last response may still be in flight. Find waits a
	// little too.
	// The clock of ecache runs until the process ends.
	options := []goleak.Option{before, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1")}
	for range 20 {
		if err = goleak.Find(options...); err == nil {
			break
		}
	}
	require.NoError(t, err)
}

func dial(t *testing.T, m *machine) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
	require.NoError(t, err)
	return c
}

// vanish sends a request with the first bytes of its body, reads the first bytes of the response's body, and closes the
// connection.
func vanish(t *testing.T, m *machine, method, key, query string, body []byte, sent, taken int) {
	t.Helper()
	r, err := m.request(method, "bucket", key, query, body, "Content-Md5", contentMD5(body))
	require.NoError(t, err)
	c := dial(t, m)
	w := bufio.NewWriter(c)
	fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, r.URL.RequestURI(), r.URL.Host, len(body))
	require.NoError(t, r.Header.Write(w))
	fmt.Fprint(w, "\r\n")
	_, err = w.Write(body[:sent])
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	if taken > 0 {
		res, err := http.ReadResponse(bufio.NewReader(c), r)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		_, err = io.CopyN(io.Discard, res.Body, int64(taken))
		require.NoError(t, err)
	}
	if tcp, ok := c.(*net.TCPConn); ok && sent%2 == 1 {
		require.NoError(t, tcp.SetLinger(0)) // a reset instead of a clean close
	}
	require.NoError(t, c.Close())
}
