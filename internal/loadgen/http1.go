package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/internal/sigv4"
)

// http1 is a Conn that writes and reads HTTP/1.1 itself, with buffers that it reuses. After an error, the next request
// opens a new connection.
type http1 struct {
	ctx      context.Context // when it is canceled, requests in progress fail
	target   *Target
	conn     net.Conn // nil if not connected
	unwatch  func() bool
	deadline time.Time
	r        *bufio.Reader
	out      []byte
	signed   signing
	scratch  []byte
	hash     xxh3.Hasher
	kept     []byte
}

func newHTTP1(ctx context.Context, t *Target) *http1 {
	c := &http1{ctx: ctx, target: t, scratch: make([]byte, 64<<10), r: bufio.NewReaderSize(nil, 32<<10)}
	c.signed.init(t)
	return c
}

// Connect implements Conn.
func (c *http1) Connect() error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(c.ctx, "tcp", c.target.Address)
	if err != nil {
		return err
	}
	if c.target.TLS != nil {
		secure := tls.Client(conn, c.target.TLS)
		if err := secure.HandshakeContext(c.ctx); err != nil {
			conn.Close()
			return err
		}
		conn = secure
	}
	c.conn, c.deadline = conn, time.Time{}
	c.unwatch = context.AfterFunc(c.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // an error means that it is already closed
	c.r.Reset(conn)
	return nil
}

// Close implements Conn.
func (c *http1) Close() error {
	if c.conn == nil {
		return nil
	}
	c.unwatch()
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Do implements Conn.
func (c *http1) Do(q *Request) (Reply, error) {
	if c.conn == nil {
		if err := c.Connect(); err != nil {
			return Reply{}, err
		}
	}
	a, closing, err := c.exchange(q)
	if err != nil || closing {
		_ = c.Close() // the connection cannot be used again
	}
	if c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	return a, err
}

func (c *http1) exchange(q *Request) (a Reply, closing bool, err error) {
	now := time.Now()
	if c.deadline.Sub(now) < requestTimeout/2 {
		c.deadline = now.Add(requestTimeout)
		if err := c.conn.SetDeadline(c.deadline); err != nil || c.ctx.Err() != nil {
			return a, false, errors.Join(err, c.ctx.Err())
		}
	}
	r, body, err := c.signed.sign(q, now)
	if err != nil {
		return a, false, err
	}
	b := append(append(c.out[:0], q.Method...), ' ')
	b = appendPath(b, q.Path)
	if q.Query != "" {
		b = append(append(b, '?'), q.Query...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), c.target.Host...), "\r\n"...)
	for k, v := range r.Header {
		b = append(append(append(append(b, k...), ": "...), v[0]...), "\r\n"...)
	}
	if len(body) > 0 || q.Method == http.MethodPut || q.Method == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	if small := len(body) <= 16<<10; small {
		b = append(b, body...)
		body = nil
	}
	c.out = b
	if _, err := c.conn.Write(b); err != nil {
		return a, false, err
	}
	if len(body) > 0 {
		if _, err := c.conn.Write(body); err != nil {
			return a, false, err
		}
	}
	return c.read(q.Method == http.MethodHead, q.Keep)
}

// appendPath appends a decoded path in the encoding of a request line.
func appendPath(b []byte, path string) []byte {
	for i := range len(path) {
		ch := path[i]
		if 'a' <= ch && ch <= 'z' || '0' <= ch && ch <= '9' || 'A' <= ch && ch <= 'Z' || ch == '/' || ch == '-' || ch == '_' || ch == '.' || ch == '~' {
			continue
		}
		return append(b, sigv4.Escape(path)...)
	}
	return append(b, path...)
}

// read reads a response, and reports whether the server will close the connection.
func (c *http1) read(head, keep bool) (a Reply, closing bool, err error) {
	line, err := c.line()
	if err != nil {
		return a, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return a, false, fmt.Errorf("expected an HTTP/1.1 status line, found %q", line)
	}
	if a.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, false, err
	}
	length, chunked := int64(0), false
	for {
		if line, err = c.line(); err != nil || len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(name) == 14 && equalFold(name, "content-length"):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return a, false, err
			}
		case len(name) == 17 && equalFold(name, "transfer-encoding"):
			chunked = equalFold(value, "chunked")
		case len(name) == 10 && equalFold(name, "connection"):
			closing = equalFold(value, "close")
		case !keep:
		case equalFold(name, "etag"):
			a.ETag = string(value)
		case equalFold(name, "content-type"):
			a.Type = string(value)
		case equalFold(name, "server"):
			a.Server = string(value)
		}
	}
	switch {
	case err != nil:
	case head:
		a.Size = length
	case a.Status != http.StatusNotModified && a.Status != http.StatusNoContent:
		err = c.body(&a, length, chunked, keep)
	}
	return a, closing, err
}

func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != lower[i]|0x20 {
			return false
		}
	}
	return true
}

func (c *http1) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// take reads n bytes of a body into the hash, and keeps them if keep is set.
func (c *http1) take(a *Reply, n int64, keep bool) error {
	for n > 0 {
		b := c.scratch[:min(n, int64(len(c.scratch)))]
		if _, err := io.ReadFull(c.r, b); err != nil {
			return err
		}
		_, _ = c.hash.Write(b) // never fails
		if keep {
			c.kept = append(c.kept, b...)
		}
		n -= int64(len(b))
		a.Size += int64(len(b))
	}
	return nil
}

func (c *http1) body(a *Reply, length int64, chunked, keep bool) error {
	if length == 0 && !chunked {
		a.XXH3 = emptyXXH3
		return nil
	}
	c.hash.Reset()
	c.kept = c.kept[:0]
	if !chunked {
		if err := c.take(a, length, keep); err != nil {
			return err
		}
		a.XXH3, a.Body = c.hash.Sum64(), c.kept
		return nil
	}
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return err
		}
		if err := c.take(a, n, keep); err != nil {
			return err
		}
		if line, err = c.line(); err != nil || len(line) != 0 {
			return errors.Join(err, errors.New("expected a line break after a chunk of the response"))
		}
		if n == 0 {
			a.XXH3, a.Body = c.hash.Sum64(), c.kept
			return nil
		}
	}
}

// emptyXXH3 is the hash of an empty body.
const emptyXXH3 = 0x2d06800538d394c2
