package s3client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"orcas/internal/sigv4"
)

// Client sends requests with net/http. It may be used concurrently.
type Client struct {
	Endpoint string // http://HOST:PORT
	HTTP     *http.Client
	Now      func() time.Time // the time for signatures; nil means time.Now

	signer *sigv4.Signer
}

// New returns a client that signs with the given keys, for the region us-east-1.
func New(endpoint string, keys Keys, h *http.Client) *Client {
	return &Client{Endpoint: endpoint, HTTP: h, signer: keys.signer("us-east-1")}
}

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code returns the code of an S3 error document, or "".
func (a *Answer) Code() string {
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	if xml.Unmarshal(a.Body, &e) != nil {
		return ""
	}
	return e.Code
}

// ETag returns the ETag without its quotes.
func (a *Answer) ETag() string { return strings.Trim(a.Header.Get("ETag"), `"`) }

// Sign returns q as a signed HTTP request, for Send. To send a broken request, change it in between.
func (c *Client) Sign(ctx context.Context, q *Request) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, c.Endpoint, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = q.Path, Escape(q.Path), q.Query
	for _, h := range q.Header {
		r.Header.Add(h.Name, h.Value)
	}
	if q.Anonymous {
		return r, nil
	}
	hash := q.Hash
	if hash == "" {
		sum := sha256.Sum256(q.Body)
		hash = hex.EncodeToString(sum[:])
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	c.signer.Sign(r, hash, now())
	return r, nil
}

// Open sends a request and returns the response, whose body the caller closes.
func (c *Client) Open(ctx context.Context, q *Request) (*http.Response, error) {
	r, err := c.Sign(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.HTTP.Do(r)
}

// Send sends a request that Sign has returned and reads the response. If the response breaks off, it returns the part
// that it has read, and the error.
func (c *Client) Send(r *http.Request) (*Answer, error) {
	res, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	a.Body, err = io.ReadAll(res.Body)
	return a, err
}

// Do signs and sends a request.
func (c *Client) Do(ctx context.Context, q *Request) (*Answer, error) {
	r, err := c.Sign(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.Send(r)
}

// Escape percent-encodes every character of a path that signatures encode.
func Escape(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c == '/' || c == '-' || c == '_' || c == '.' || c == '~' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
