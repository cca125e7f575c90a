package perf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/internal/checksum"
	"orcas/s3/sigv4"
)

// Signing says how the body of a PUT is sent and signed. Requests without a body are signed the same way in all of them.
type Signing string

// The ways of signing a body.
const (
	Signed   Signing = "signed"   // its SHA-256 is in the signature
	Unsigned Signing = "unsigned" // nothing vouches for it
	Chunked  Signing = "chunked"  // aws-chunked, each chunk signed
	Trailer  Signing = "trailer"  // aws-chunked, not signed, a CRC64NVME behind it
)

// Target is a server to load.
type Target struct {
	Address string // HOST:PORT
	Host    string // as the Host header has it; often the same
	Signer  *sigv4.Signer
	Signing Signing
	TLS     *tls.Config // nil: in the clear
	H2      bool
}

// Keys are credentials.
type Keys struct{ Access, Secret string }

// ParseTarget makes a Target of a URL without a path. The certificate is checked against those of the file ca, where it is not "", or
// those of the system, unless insecure.
func ParseTarget(endpoint string, keys Keys, region, ca string, insecure, h2 bool) (*Target, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint %q is not http://HOST:PORT or https://HOST:PORT", endpoint)
	}
	t := &Target{Address: u.Host, Host: u.Host, Signing: Signed, Signer: &sigv4.Signer{AccessKey: keys.Access, SecretKey: keys.Secret, Region: region}}
	if u.Port() == "" {
		t.Address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if u.Scheme == "http" {
		if h2 {
			return nil, fmt.Errorf("HTTP/2 needs an https:// endpoint, not %q", endpoint)
		}
		return t, nil
	}
	t.H2 = h2
	t.TLS = &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: insecure, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1024)}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		t.TLS.RootCAs = x509.NewCertPool()
		if !t.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", ca)
		}
	}
	return t, nil
}

// Endpoint returns the target's URL.
func (t *Target) Endpoint() string {
	if t.TLS != nil {
		return "https://" + t.Host
	}
	return "http://" + t.Host
}

// Protocol returns http/1.1 or h2, with "+tls" where it is.
func (t *Target) Protocol() string {
	p := "http/1.1"
	if t.H2 {
		p = "h2"
	}
	if t.TLS != nil {
		p += "+tls"
	}
	return p
}

// signing makes signed requests of calls, with memory of its own. One goroutine uses it.
type signing struct {
	target  *Target
	r       http.Request
	encoded bytes.Buffer
}

func (s *signing) init(t *Target) {
	s.target = t
	s.r = http.Request{URL: &url.URL{}, Header: make(http.Header, 8), Host: t.Host}
}

// request returns a signed request for call, without a body, and the body to send; both are valid until the next call.
func (s *signing) request(call *Call, now time.Time) (*http.Request, []byte, error) {
	r := &s.r
	clear(r.Header)
	r.Method, r.URL.Path, r.URL.RawQuery = call.Method, call.Path, call.Query
	for _, h := range call.Header {
		r.Header[h.Name] = []string{h.Value}
	}
	mode := s.target.Signing
	switch {
	case call.Anonymous:
		return r, call.Body, nil
	case len(call.Body) > 0 && (mode == Chunked || mode == Trailer):
		return s.chunked(call, mode, now)
	case len(call.Body) > 0 && mode == Unsigned:
		s.target.Signer.Sign(r, sigv4.UnsignedPayload, now)
	case len(call.Body) == 0:
		s.target.Signer.Sign(r, sigv4.EmptySHA256, now)
	default:
		s.target.Signer.Sign(r, call.Hash, now)
	}
	return r, call.Body, nil
}

func (s *signing) chunked(call *Call, mode Signing, now time.Time) (*http.Request, []byte, error) {
	c := sigv4.Chunked{Mode: sigv4.PayloadSigned, Length: int64(len(call.Body)), ChunkSize: 256 << 10}
	if mode == Trailer {
		crc := checksum.New(checksum.CRC64NVME)
		_, _ = crc.Write(call.Body) // never fails
		value := checksum.Encode(crc.Sum(nil))
		c.Mode = sigv4.PayloadUnsignedTrailer
		c.Trailers = []sigv4.Trailer{{Name: "x-amz-checksum-crc64nvme", Size: len(value), Value: func() string { return value }}}
	}
	s.target.Signer.SignChunked(&s.r, bytes.NewReader(call.Body), c, now)
	s.encoded.Reset()
	_, err := s.encoded.ReadFrom(s.r.Body)
	s.r.Body = nil
	return &s.r, s.encoded.Bytes(), err
}

// h2 is a Client over HTTP/2, with a connection of its own.
type h2 struct {
	ctx       context.Context
	transport *http.Transport
	endpoint  *url.URL
	signed    signing
}

func newH2(ctx context.Context, t *Target) *h2 {
	config := t.TLS.Clone()
	config.NextProtos = nil // the transport's own
	c := &h2{ctx: ctx, transport: &http.Transport{TLSClientConfig: config, DisableCompression: true, Protocols: &http.Protocols{}}}
	c.transport.Protocols.SetHTTP2(true) // and nothing else
	c.endpoint = &url.URL{Scheme: "https", Host: t.Address}
	c.signed.init(t)
	return c
}

// Connect does nothing: the transport connects with the first request.
func (c *h2) Connect() error { return nil }

// Close ends the connection.
func (c *h2) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Do sends a request and reads its answer.
func (c *h2) Do(call *Call) (a Answer, err error) {
	signed, body, err := c.signed.request(call, time.Now())
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
	defer cancel()
	r := signed.WithContext(ctx)
	r.Header = signed.Header.Clone()
	r.URL = &url.URL{Scheme: "https", Host: c.endpoint.Host, Path: call.Path, RawPath: string(appendPath(nil, call.Path)), RawQuery: call.Query}
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
	if call.Keep {
		a.ETag, a.Type, a.Server = resp.Header.Get("ETag"), resp.Header.Get("Content-Type"), resp.Header.Get("Server")
		to = io.MultiWriter(&h, &kept)
	}
	a.Size, err = io.Copy(to, resp.Body)
	if call.Method == http.MethodHead {
		a.Size = max(resp.ContentLength, 0)
	}
	a.XXH3, a.Body = h.Sum64(), kept.Bytes()
	return a, err
}
