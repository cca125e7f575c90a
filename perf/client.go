package perf

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
	"net/url"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"
)

// requestTimeout is the longest that a request may take; then its connection is given up. In practice it is between half of it and
// all of it, since a deadline that is still far away is not moved.
const requestTimeout = 60 * time.Second

// Call is one request.
type Call struct {
	Op          string // under which it is counted: put, get, ...
	Method      string
	Path, Query string // Path is decoded, Query encoded
	Header      []Header
	Body        []byte
	Hash        string // hexadecimal SHA-256 of Body; "" where that is empty or the target does not sign it
	Keep        bool   // keep the answer's body, ETag and type
	Anonymous   bool   // do not sign it
}

// Header is one header of a Call, with its name in canonical form.
type Header struct{ Name, Value string }

// Answer is what came back.
type Answer struct {
	Status int
	Size   int64
	XXH3   uint64 // of the body
	// Where they were asked for (Call.Keep); Body is valid until the next call.
	Body       []byte
	ETag, Type string
	Server     string // what the server calls itself
}

// Client sends requests, one at a time, for one goroutine.
type Client interface {
	Connect() error // ahead of the first call, which does it otherwise
	Do(call *Call) (Answer, error)
	Close() error
}

// wire is a Client with one connection, over which it writes and reads HTTP/1.1 by itself, so that the load costs little beside the
// server. A connection that broke is made again by the next call.
type wire struct {
	ctx      context.Context // its end breaks the connection
	target   *Target
	conn     net.Conn // nil: broken
	unwatch  func() bool
	deadline time.Time
	r        *bufio.Reader
	out      []byte
	signed   signing
	scratch  []byte
	hash     xxh3.Hasher
	kept     []byte
}

// NewClient makes a client of t. The end of ctx breaks its connection.
func NewClient(ctx context.Context, t *Target) Client {
	if t.H2 {
		return newH2(ctx, t)
	}
	c := &wire{ctx: ctx, target: t, scratch: make([]byte, 64<<10), r: bufio.NewReaderSize(nil, 32<<10)}
	c.signed.init(t)
	return c
}

// Connect connects.
func (c *wire) Connect() error {
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
	c.unwatch = context.AfterFunc(c.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // a closed one needs none
	c.r.Reset(conn)
	return nil
}

// Close ends the connection.
func (c *wire) Close() error {
	if c.conn == nil {
		return nil
	}
	c.unwatch()
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Do sends a request and reads its answer.
func (c *wire) Do(call *Call) (Answer, error) {
	if c.conn == nil {
		if err := c.Connect(); err != nil {
			return Answer{}, err
		}
	}
	a, closing, err := c.exchange(call)
	if err != nil || closing {
		_ = c.Close() // it is of no use any more
	}
	if c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	return a, err
}

func (c *wire) exchange(call *Call) (a Answer, closing bool, err error) {
	now := time.Now()
	if c.deadline.Sub(now) < requestTimeout/2 {
		c.deadline = now.Add(requestTimeout)
		if err := c.conn.SetDeadline(c.deadline); err != nil || c.ctx.Err() != nil {
			return a, false, errors.Join(err, c.ctx.Err())
		}
	}
	r, body, err := c.signed.request(call, now)
	if err != nil {
		return a, false, err
	}
	b := append(append(c.out[:0], call.Method...), ' ')
	b = appendPath(b, call.Path)
	if call.Query != "" {
		b = append(append(b, '?'), call.Query...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), c.target.Host...), "\r\n"...)
	for k, v := range r.Header {
		b = append(append(append(append(b, k...), ": "...), v[0]...), "\r\n"...)
	}
	if len(body) > 0 || call.Method == http.MethodPut || call.Method == http.MethodPost {
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
	return c.read(call.Method == http.MethodHead, call.Keep)
}

// appendPath appends a decoded path as a request line has it.
func appendPath(b []byte, path string) []byte {
	for i := range len(path) {
		ch := path[i]
		if 'a' <= ch && ch <= 'z' || '0' <= ch && ch <= '9' || 'A' <= ch && ch <= 'Z' || ch == '/' || ch == '-' || ch == '_' || ch == '.' || ch == '~' {
			continue
		}
		u := url.URL{Path: path}
		return append(b, u.EscapedPath()...)
	}
	return append(b, path...)
}

// read reads an answer, and whether the server will close the connection.
func (c *wire) read(head, keep bool) (a Answer, closing bool, err error) {
	line, err := c.line()
	if err != nil {
		return a, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return a, false, fmt.Errorf("no status line: %q", line)
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

func (c *wire) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// take reads n bytes of a body into the hash.
func (c *wire) take(a *Answer, n int64, keep bool) error {
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

func (c *wire) body(a *Answer, length int64, chunked, keep bool) error {
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
			return errors.Join(err, errors.New("a chunk without end"))
		}
		if n == 0 {
			a.XXH3, a.Body = c.hash.Sum64(), c.kept
			return nil
		}
	}
}

// emptyXXH3 is the hash of nothing.
const emptyXXH3 = 0x2d06800538d394c2
