package loadgen

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/zeebo/xxh3"
)

// http2 is a Conn over HTTP/2.
type http2 struct {
	ctx       context.Context
	transport *http.Transport
	endpoint  *url.URL
	signed    signing
}

func newHTTP2(ctx context.Context, t *Target) *http2 {
	config := t.TLS.Clone()
	config.NextProtos = nil // the transport sets them
	c := &http2{ctx: ctx, transport: &http.Transport{TLSClientConfig: config, DisableCompression: true, Protocols: &http.Protocols{}}}
	c.transport.Protocols.SetHTTP2(true) // only HTTP/2
	c.endpoint = &url.URL{Scheme: "https", Host: t.Address}
	c.signed.init(t)
	return c
}

// Connect implements Conn. It does nothing: the transport connects with the first request.
func (c *http2) Connect() error { return nil }

// Close implements Conn.
func (c *http2) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Do implements Conn.
func (c *http2) Do(q *Request) (a Reply, err error) {
	signed, body, err := c.signed.sign(q, time.Now())
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
	defer cancel()
	r := signed.WithContext(ctx)
	r.Header = signed.Header.Clone()
	r.URL = &url.URL{Scheme: "https", Host: c.endpoint.Host, Path: q.Path, RawPath: string(appendPath(nil, q.Path)), RawQuery: q.Query}
	r.ContentLength, r.Body = int64(len(body)), http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	var h xxh3.Hasher
	var kept bytes.Buffer
	to := io.Writer(&h)
	if q.Keep {
		a.ETag, a.Type, a.Server = resp.Header.Get("ETag"), resp.Header.Get("Content-Type"), resp.Header.Get("Server")
		to = io.MultiWriter(&h, &kept)
	}
	a.Size, err = io.Copy(to, resp.Body)
	if q.Method == http.MethodHead {
		a.Size = max(resp.ContentLength, 0)
	}
	a.XXH3, a.Body = h.Sum64(), kept.Bytes()
	return a, err
}
