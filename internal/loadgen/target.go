package loadgen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"orcas/internal/sigv4"
)

// Signing is how a body is sent and signed. Requests without a body are signed in the same way in all modes.
type Signing string

// The modes.
const (
	Signed   Signing = "signed"   // the signature covers the SHA-256 of the body
	Unsigned Signing = "unsigned" // the signature does not cover the body
	Chunked  Signing = "chunked"  // aws-chunked, each chunk signed
	Trailer  Signing = "trailer"  // aws-chunked, not signed, followed by a CRC64NVME
)

// Target is the server that a Conn connects to.
type Target struct {
	Address string // HOST:PORT
	Host    string // the value of the Host header; often the same as Address
	Signer  *sigv4.Signer
	Signing Signing
	TLS     *tls.Config // nil for plain HTTP
	H2      bool
}

// Keys are credentials.
type Keys struct {
	Access, Secret string
	Token          string // the session token of temporary credentials, or ""
}

// signer returns a Signer with the keys, for a region.
func (k Keys) signer(region string) *sigv4.Signer {
	return &sigv4.Signer{AccessKey: k.Access, SecretKey: k.Secret, SecurityToken: k.Token, Region: region}
}

// NewTarget returns a Target at an address, without TLS.
func NewTarget(address string, keys Keys, region string) *Target {
	return &Target{Address: address, Host: address, Signing: Signed, Signer: keys.signer(region)}
}

// ParseTarget returns the Target of a URL without a path. The certificate of the server is verified with those in the
// file ca or, if that is "", those of the system, unless insecure is set.
func ParseTarget(endpoint string, keys Keys, region, ca string, insecure, h2 bool) (*Target, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("endpoint %q is not http://HOST:PORT or https://HOST:PORT", endpoint)
	}
	t := NewTarget(u.Host, keys, region)
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
			return nil, fmt.Errorf("%s does not contain a certificate in PEM form", ca)
		}
	}
	return t, nil
}

// Endpoint returns the URL of the target.
func (t *Target) Endpoint() string {
	if t.TLS != nil {
		return "https://" + t.Host
	}
	return "http://" + t.Host
}

// Protocol returns http/1.1 or h2, followed by "+tls" if the connection is encrypted.
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
