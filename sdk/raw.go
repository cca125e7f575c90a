package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"

	"orcas/internal/sigv4"
)

// Request is a request of the raw mode, for what this package has no operation for, and for tests of servers.
type Request struct {
	Method string
	Path   string // decoded, with the bucket and the key: /bucket/key
	Query  string // encoded
	Header http.Header

	// The body: Body, or Length bytes of Stream; Length -1 sends Stream in chunks.
	Body   []byte
	Stream io.Reader
	Length int64

	Hash      string // x-amz-content-sha256; "" is computed from Body, and UNSIGNED-PAYLOAD for Stream
	Anonymous bool   // do not sign
}

// Response is a complete response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code returns the code of an error document, or "".
func (r *Response) Code() string {
	if d := parseErrorDocument(r.Body); d != nil {
		return d.Code
	}
	return ""
}

// ETag returns the ETag without its quotes.
func (r *Response) ETag() string { return unquote(r.Header.Get("Etag")) }

// Sign returns a request as it would be sent. It may be changed before Send, for instance to break it.
func (c *Client) Sign(ctx context.Context, q *Request) (*http.Request, error) {
	w := c.w
	r := w.newRequest(ctx, new(url.URL), q.Method, address{w.host, q.Path}, q.Query, copyHeader(q.Header))
	hash := q.Hash
	switch {
	case q.Stream != nil:
		r.Body, r.ContentLength = io.NopCloser(q.Stream), q.Length
		if q.Length == 0 {
			r.Body = http.NoBody
		}
		if hash == "" {
			hash = sigv4.UnsignedPayload
		}
	default:
		r.Body, r.ContentLength = http.NoBody, int64(len(q.Body))
		if len(q.Body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(q.Body))
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.Body)), nil }
		}
		if hash == "" {
			sum := sha256.Sum256(q.Body)
			hash = hex.EncodeToString(sum[:])
		}
	}
	if q.Anonymous {
		return r, nil
	}
	return r, w.sign(ctx, r, hash)
}

// Do sends a request once. Every response is returned as it is: no status is an error, and no redirect is followed. The
// caller closes the body. A request or a body without progress fails after Config.IdleTimeout.
func (c *Client) Do(ctx context.Context, q *Request) (*http.Response, error) {
	r, err := c.Sign(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.w.open(r)
}

// open sends a signed request.
func (w *wire) open(r *http.Request) (*http.Response, error) {
	w.count.requests.Add(1)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &counted{ReadCloser: r.Body, wire: w}
		r.GetBody = nil
	}
	watch := new(watch)
	watch.init(r.Context(), w.config.IdleTimeout)
	res, err := w.send(r.WithContext(watch.ctx), watch)
	if err != nil {
		return nil, transportError(r.Context(), watch.end(), err, w.config.IdleTimeout)
	}
	res.Body = &receiving{body: res.Body, watch: watch, wire: w, ctx: r.Context()}
	return res, nil
}

// counted is the body of a request of the raw mode.
type counted struct {
	io.ReadCloser
	wire  *wire
	watch *watch // set by wire.send
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.wire.count.sent.Add(int64(n))
	c.watch.progress()
	return n, err
}

// Send sends a request that Sign has returned, and reads the response. If the response breaks off, it returns the part
// that it has read, and the error.
func (c *Client) Send(r *http.Request) (*Response, error) {
	res, err := c.w.open(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := &Response{Status: res.StatusCode, Header: res.Header}
	out.Body, err = io.ReadAll(res.Body)
	return out, err
}

// Fetch signs and sends a request once, and reads the response.
func (c *Client) Fetch(ctx context.Context, q *Request) (*Response, error) {
	r, err := c.Sign(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.Send(r)
}
