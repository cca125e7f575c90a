// Package heads wraps the connections of net/http to change two things that net/http does with the head of a request
// before it calls a handler:
//
//   - It responds to an invalid head with plain text, without a request ID or an entry in the log.
//     Listener.Refuse returns the response to send instead.
//   - It rejects an Expect header other than 100-continue with 417. S3 ignores such headers, so a Listener blanks their
//     values.
//
// Neither change requires finding the end of a body. Heads are read, and such responses are written, only between the
// end of one handler and the beginning of the next, which Watch reports to the connection. In that time net/http reads
// only a head and any data that the client has sent after it. A connection does not change anything that it cannot
// recognize with certainty.
//
// For HTTP/2, net/http needs a *tls.Conn, and it chooses the protocol after it has accepted the connection. So TLS
// connections cannot be wrapped, and net/http sends its own responses there.
package heads

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Listener accepts connections whose heads are changed as described in the package comment. Watch must have been called
// for the server that uses it.
type Listener struct {
	net.Listener
	// Refuse returns the response to a head that net/http rejects with a status and possibly a reason. The connection
	// is closed after the response.
	Refuse func(status int, reason, remote string) []byte
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h := &conn{Conn: c, refuse: l.Refuse}
	h.reading.Store(true)
	return h, nil
}

type connKey struct{}

// Watch makes s notify the connections of a Listener when a handler begins and ends. Call it after setting the handler
// and the hooks of s.
func Watch(s *http.Server) {
	handler, connContext, connState := s.Handler, s.ConnContext, s.ConnState
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := r.Context().Value(connKey{}).(*conn); ok {
			h.reading.Store(false)
		}
		handler.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, c)
		}
		if h, ok := c.(*conn); ok {
			return context.WithValue(ctx, connKey{}, h)
		}
		return ctx
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if connState != nil {
			connState(c, state)
		}
		if h, ok := c.(*conn); ok && state == http.StateIdle {
			h.at, h.line = before, h.line[:0]
			h.reading.Store(true)
		}
	}
}

// conn is an HTTP/1 connection.
type conn struct {
	net.Conn
	refuse  func(status int, reason, remote string) []byte
	reading atomic.Bool // set from the end of one handler to the beginning of the next

	// The fields below track the reading of a head. They need no lock because net/http reads with one goroutine at a
	// time.
	at   position
	line []byte // the beginning of an unfinished line, for scan
}

// position is a position relative to the head.
type position uint8

const (
	before position = iota
	inside
	after
)

// keptOfLine is the number of bytes of an unfinished line to keep, which is enough to recognize an empty line.
const keptOfLine = 2

// Read implements net.Conn. It blanks the header values that net/http must not see.
func (h *conn) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 && h.at != after && h.reading.Load() {
		h.scan(p[:n])
	}
	return n, err
}

// scan blanks the values of the Expect headers that p contains completely. If net/http has buffered the beginning of
// the head, p begins inside the head. That does no harm, because the first empty line ends the head in any case.
func (h *conn) scan(p []byte) {
	first := h.at == before // p begins with the request line
	if first && !beginsHead(p) {
		h.at = after
		return
	}
	h.at = inside
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			if len(h.line) < keptOfLine {
				h.line = append(h.line, p[:min(len(p), keptOfLine)]...)
			}
			return
		}
		line := bytes.TrimSuffix(p[:end], []byte("\r"))
		switch {
		case len(h.line) > 0: // the rest of a line
			if len(line) == 0 && string(h.line) == "\r" {
				h.at = after
			}
			h.line = h.line[:0]
		case first:
		case len(line) == 0:
			h.at = after
		default:
			blankExpect(line)
		}
		if h.at == after {
			return
		}
		first, p = false, p[end+1:]
	}
}

// beginsHead reports whether p begins with a method and a space.
func beginsHead(p []byte) bool {
	for i, c := range p {
		if c == ' ' {
			return i > 0
		}
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return false
}

// blankExpect blanks the value of a header line if its name is Expect and net/http would reject it.
func blankExpect(line []byte) {
	const name, known = "expect:", "100-continue"
	if len(line) < len(name) || line[0]|0x20 != name[0] || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return
	}
	value := line[len(name):]
	if bytes.EqualFold(bytes.TrimSpace(value), []byte(known)) || bytes.Contains(bytes.ToLower(value), []byte(known)) {
		return
	}
	for i := range value {
		value[i] = ' '
	}
}

// Write implements net.Conn. If no handler is running, p is net/http's response to a head that it rejects.
func (h *conn) Write(p []byte) (int, error) {
	if !h.reading.Load() {
		return h.Conn.Write(p)
	}
	status, reason, ok := parseRefusal(p)
	if !ok {
		return h.Conn.Write(p)
	}
	if _, err := h.Conn.Write(h.refuse(status, reason, h.RemoteAddr().String())); err != nil {
		return 0, err
	}
	return len(p), nil
}

// parseRefusal parses net/http's response to a head that it rejects. reason is empty if the response has none.
func parseRefusal(p []byte) (status int, reason string, ok bool) {
	head, rest, ok := bytes.Cut(p, []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"))
	if !ok {
		return 0, "", false
	}
	code, ok := bytes.CutPrefix(head, []byte("HTTP/1.1 "))
	if !ok || len(code) < 3 {
		return 0, "", false
	}
	status, err := strconv.Atoi(string(code[:3]))
	if _, after, found := bytes.Cut(rest, []byte(": ")); found {
		reason = string(after)
	}
	return status, reason, err == nil && status >= http.StatusBadRequest
}

// CloseWrite closes the server's side of the connection. net/http does so after some responses, so the client can read
// them before a reset.
func (h *conn) CloseWrite() error {
	if half, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NetConn returns the connection that h wraps.
func (h *conn) NetConn() net.Conn { return h.Conn }
