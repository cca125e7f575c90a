// Package perf loads an S3 server over HTTP and says how fast it is, beside the most that the machine allows: a null server (the
// same HTTP front, storing nothing) and the disk (append and fdatasync).
//
// Its rules: real SigV4, connections kept alive, random bodies that differ from each other, every answer's status expected
// and every body that comes back compared by XXH3-64; what is compared runs in turns (A B A B) in one run, and the median counts; a
// run in which anything unexpected happened fails. Client and server share the machine here, so figures are ratios first.
package perf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/s3/sigv4"
)

// Target is a server to load.
type Target struct {
	Address string // HOST:PORT
	Signer  *sigv4.Signer
}

// Client is one connection to a Target. It writes and reads HTTP/1.1 by itself, so that the load costs little beside the server.
// One goroutine uses it.
type Client struct {
	target  Target
	conn    net.Conn
	r       *bufio.Reader
	out     []byte
	request http.Request
	scratch []byte
}

// Answer is what came back.
type Answer struct {
	Status int
	Size   int64
	XXH3   uint64 // of the body
	Body   []byte // where it was asked for; valid until the next call
}

// Dial connects to t.
func Dial(t Target) (*Client, error) {
	c := &Client{target: t, scratch: make([]byte, 256<<10)}
	c.request = http.Request{URL: &url.URL{}, Header: http.Header{}, Host: t.Address}
	return c, c.connect()
}

func (c *Client) connect() error {
	conn, err := net.DialTimeout("tcp", c.target.Address, 5*time.Second)
	if err != nil {
		return err
	}
	c.conn, c.r = conn, bufio.NewReaderSize(conn, 64<<10)
	return nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Call is one request. Path is raw and escaped already; hash is the hexadecimal SHA-256 of body, "" where that is empty.
type Call struct {
	Method, Path, Query string
	Header              map[string]string
	Body                []byte
	Hash                string
	Keep                bool // keep the answer's body
}

// Do sends a request and reads its answer.
func (c *Client) Do(call Call) (Answer, error) {
	clear(c.request.Header)
	r := &c.request
	r.Method, r.URL.Path, r.URL.RawQuery = call.Method, call.Path, call.Query
	for k, v := range call.Header {
		r.Header[http.CanonicalHeaderKey(k)] = []string{v}
	}
	hash := call.Hash
	if hash == "" {
		hash = sigv4.EmptySHA256
	}
	c.target.Signer.Sign(r, hash, time.Now())
	b := append(c.out[:0], call.Method...)
	b = append(append(b, ' '), call.Path...)
	if call.Query != "" {
		b = append(append(b, '?'), call.Query...)
	}
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.target.Address...)
	b = append(b, "\r\n"...)
	for k, v := range r.Header {
		b = append(append(append(append(b, k...), ": "...), v[0]...), "\r\n"...)
	}
	if len(call.Body) > 0 || call.Method == http.MethodPut || call.Method == http.MethodPost {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(call.Body)), 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	c.out = b
	buffers := net.Buffers{b}
	if len(call.Body) > 0 {
		buffers = append(buffers, call.Body)
	}
	if _, err := buffers.WriteTo(c.conn); err != nil {
		return Answer{}, err
	}
	return c.read(call.Method == http.MethodHead, call.Keep)
}

// read reads an answer.
func (c *Client) read(head, keep bool) (a Answer, err error) {
	line, err := c.line()
	if err != nil {
		return a, err
	}
	if len(line) < 12 || !strings.HasPrefix(line, "HTTP/1.1 ") {
		return a, fmt.Errorf("no status line: %q", line)
	}
	if a.Status, err = strconv.Atoi(line[9:12]); err != nil {
		return a, err
	}
	length, chunked, closing := int64(0), false, false
	for {
		if line, err = c.line(); err != nil {
			return a, err
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.ParseInt(value, 10, 64); err != nil {
				return a, err
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			chunked = value == "chunked"
		case strings.EqualFold(name, "Connection"):
			closing = value == "close"
		}
	}
	if !head && a.Status != http.StatusNotModified && a.Status != http.StatusNoContent {
		err = c.body(&a, length, chunked, keep)
	}
	if closing && err == nil {
		c.conn.Close()
		err = c.connect()
	}
	return a, err
}

func (c *Client) line() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func (c *Client) body(a *Answer, length int64, chunked, keep bool) error {
	var h xxh3.Hasher
	var kept []byte
	take := func(n int64) error {
		for n > 0 {
			b := c.scratch[:min(n, int64(len(c.scratch)))]
			if _, err := io.ReadFull(c.r, b); err != nil {
				return err
			}
			_, _ = h.Write(b) // never fails
			if keep {
				kept = append(kept, b...)
			}
			n -= int64(len(b))
			a.Size += int64(len(b))
		}
		return nil
	}
	if !chunked {
		if err := take(length); err != nil {
			return err
		}
		a.XXH3, a.Body = h.Sum64(), kept
		return nil
	}
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(line, 16, 64)
		if err != nil {
			return err
		}
		if err := take(n); err != nil {
			return err
		}
		if line, err = c.line(); err != nil || line != "" {
			return errors.Join(err, errors.New("a chunk without end"))
		}
		if n == 0 {
			a.XXH3, a.Body = h.Sum64(), kept
			return nil
		}
	}
}
