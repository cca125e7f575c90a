// Package sdk is a client for S3 servers: ORCAS, AWS and others. It needs no C compiler, builds for Linux, macOS and
// Windows, and imports no package of the server.
//
//	client, err := sdk.New(sdk.Config{Endpoint: "http://127.0.0.1:9000", Credentials: sdk.Static("ACCESS", "SECRET")})
//	_, err = client.Put(ctx, "bucket", "key", strings.NewReader("content"), nil)
//
// Requests are written directly on net/http and signed with Signature Version 4. Every operation takes a context, which
// may end it at any time, and options, which may be nil.
//
// # Errors
//
// Operations return an *Error with the code, status and request ID of the server. Compare with the variables of this
// package: errors.Is(err, sdk.ErrNoSuchKey). Error.Uncertain reports that a write may have happened although it failed.
//
// # Retries
//
// A request is retried if its connection breaks, or if the server reports a temporary error; see Retry. A write may
// therefore happen twice: an object gets a second version with the same content. Conditional writes do not happen twice.
//
// # Integrity
//
// Content is sent with a checksum, which the server verifies, and content that is read is verified at its end: the last
// Read returns ErrChecksum if it is damaged. See Config.Checksum.
//
// # Servers that misbehave
//
// No response makes the client hang, use unbounded memory, or send credentials to another host: redirects are never
// followed, documents have a maximum size, bodies end at the announced length, and a connection without progress is
// closed after Config.IdleTimeout.
package sdk

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultRegion is the region for signatures if Config.Region is empty.
const DefaultRegion = "us-east-1"

// Config is the configuration of a Client. The zero value reads public objects from AWS.
type Config struct {
	Endpoint    string      // http(s)://HOST[:PORT]; "" is https://s3.REGION.amazonaws.com
	Region      string      // the region for signatures; "" is DefaultRegion
	Credentials Credentials // nil: requests are anonymous

	// VirtualHost puts the bucket in the host name instead of the path. At amazonaws.com that is always so. A bucket
	// whose name contains a dot stays in the path if the endpoint is https, because no certificate covers it.
	VirtualHost bool

	TLS         *tls.Config       // nil: the defaults of crypto/tls. Not used with Transport
	Transport   http.RoundTripper // nil: a transport for HTTP/1.1 that uses the proxy of the environment
	Connections int               // idle connections to keep; 0: 128. Not used with Transport

	Retry       Retry
	IdleTimeout time.Duration // a request without progress for so long fails; 0: 60 seconds, negative: none

	// Checksum is the algorithm for content that is sent; None is CRC64NVME. With ChecksumsWhenRequired a checksum is
	// sent only if S3 requires one, for servers that do not know the newer headers. Content is then compared with its
	// ETag, if that is an MD5.
	Checksum              Algorithm
	ChecksumsWhenRequired bool

	RefLevel  RefLevel   // how Upload uses instant upload
	Bandwidth *Bandwidth // limits the bytes of content per second; nil: no limit
	UserAgent string     // "" is orcas-sdk

	Now func() time.Time // the clock for signatures; nil is time.Now
}

// Client sends requests to a server. It may be used concurrently; create one for each server and keep it, because it
// holds the connections.
type Client struct {
	w *wire
}

// Stats are counters of a Client since it was created.
type Stats struct {
	Requests      int64 // operations on the wire
	Attempts      int64 // requests that were sent, including retries
	BytesSent     int64 // bytes of bodies
	BytesReceived int64 // bytes of bodies
	BytesReferred int64 // bytes of content that was not sent, because the server already had it
}

// New returns a client. It connects to nobody. An error names the field of the configuration that is wrong.
func New(c Config) (*Client, error) {
	if c.Region == "" {
		c.Region = DefaultRegion
	}
	if strings.ContainsAny(c.Region, "/ \t\r\n") {
		return nil, fmt.Errorf("sdk: Config.Region %q is not the name of a region", c.Region)
	}
	if c.Endpoint == "" {
		c.Endpoint = "https://s3." + c.Region + ".amazonaws.com"
	}
	u, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	if c.Checksum == None {
		c.Checksum = CRC64NVME
	}
	if !c.Checksum.Valid() {
		return nil, fmt.Errorf("sdk: Config.Checksum %d is not an algorithm", c.Checksum)
	}
	if c.Connections < 0 {
		return nil, fmt.Errorf("sdk: Config.Connections is %d, expected 0 or more", c.Connections)
	}
	if c.Retry, err = c.Retry.withDefaults(); err != nil {
		return nil, err
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = time.Minute
	}
	if c.UserAgent == "" {
		c.UserAgent = "orcas-sdk"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	w := &wire{config: c, scheme: u.Scheme, host: u.Host, secure: u.Scheme == "https", transport: c.Transport, userAgent: []string{c.UserAgent}}
	w.virtual = c.VirtualHost || isAmazon(u.Hostname())
	w.budget.init(c.Retry.Budget)
	if w.transport == nil {
		own := newTransport(&c)
		w.transport, w.closeIdle = own, own.CloseIdleConnections
	}
	return &Client{w: w}, nil
}

// parseEndpoint parses the URL of a server.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sdk: Config.Endpoint: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("sdk: Config.Endpoint is %q, expected http(s)://HOST[:PORT]", endpoint)
	case u.User != nil:
		return nil, errors.New("sdk: Config.Endpoint contains a user name: set Config.Credentials instead")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("sdk: Config.Endpoint is %q, expected http(s)://HOST[:PORT] without a path", endpoint)
	}
	// Standard ports are not part of the Host header that is signed.
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u, nil
}

// isAmazon reports whether a host belongs to AWS, where buckets are in the host name.
func isAmazon(host string) bool {
	host = strings.ToLower(host)
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// newTransport returns a transport for HTTP/1.1: S3 requests are large or short, and one TCP connection for all of them,
// as in HTTP/2, would be slower than one for each.
func newTransport(c *Config) *http.Transport {
	connections := c.Connections
	if connections == 0 {
		connections = 128
	}
	idle := 45 * time.Second
	if c.IdleTimeout > 0 {
		idle = min(idle, c.IdleTimeout)
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		IdleConnTimeout:        idle,
		DisableCompression:     true, // content is data, and a compressed document could be a bomb
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
		MaxResponseHeaderBytes: 256 << 10,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	return t
}

// Endpoint returns the URL of the server, http(s)://HOST[:PORT].
func (c *Client) Endpoint() string { return c.w.scheme + "://" + c.w.host }

// RefLevel returns how Upload uses instant upload, Config.RefLevel.
func (c *Client) RefLevel() RefLevel { return c.w.config.RefLevel }

// Close closes idle connections. Requests that are in flight continue. A client can be used after Close.
func (c *Client) Close() {
	if c.w.closeIdle != nil {
		c.w.closeIdle()
	}
}

// Stats returns the counters of the client.
func (c *Client) Stats() Stats {
	n := &c.w.count
	return Stats{Requests: n.requests.Load(), Attempts: n.attempts.Load(), BytesSent: n.sent.Load(),
		BytesReceived: n.received.Load(), BytesReferred: n.referred.Load()}
}

// counters are the counters behind Stats.
type counters struct {
	requests, attempts, sent, received, referred atomic.Int64
}
