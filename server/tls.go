package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"orcas/internal/datadir"
	"orcas/internal/durable"
)

// AdminCertificateFile is the name of the file, in the data directory, with the self-signed certificate of the admin
// listener.
const AdminCertificateFile = datadir.AdminCertificateFile

// A self-signed certificate is its own authority, so clients can use its file as a trusted CA. The admin listener has a
// pair of its own, so that trust in the one listener does not include the other.
const (
	selfSignedCert  = "self-signed.crt"
	selfSignedKey   = "self-signed.key"
	adminSignedKey  = "admin-self-signed.key"
	selfSignedYears = 10
	renewBefore     = 30 * 24 * time.Hour
)

// checkEvery is the minimum time between two checks of the certificate files. Checks take place when clients connect.
const checkEvery = time.Second

// certificate serves the key pair in two files, and reloads it when they change. If the files cannot be read while the
// server is running, it logs that once, and continues to use the previous pair.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	mu      sync.Mutex // guards the fields below
	pair    *tls.Certificate
	stamp   [2]fileStamp
	checked time.Time
}

// fileStamp distinguishes the versions of a file.
type fileStamp struct {
	size     int64
	modified time.Time
}

func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, now: time.Now}
	stamp, err := c.stat()
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c.pair, c.stamp, c.checked = &pair, stamp, c.now()
	return c, nil
}

// get is tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked) >= checkEvery || now.Before(c.checked) {
		c.checked = now
		c.reload()
	}
	return c.pair, nil
}

func (c *certificate) reload() {
	stamp, err := c.stat()
	if err == nil && stamp == c.stamp {
		return
	}
	if err == nil {
		c.stamp = stamp
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.pair = &pair
			c.log.Info("certificate reloaded", "file", c.certFile)
			return
		}
	} else if c.stamp == ([2]fileStamp{}) {
		return // logged already
	} else {
		c.stamp = [2]fileStamp{}
	}
	c.log.Error("certificate not reloaded; the previous one stays in use", "file", c.certFile, "error", err)
}

func (c *certificate) stat() (stamp [2]fileStamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		st, err := os.Stat(name)
		if err != nil {
			return stamp, err
		}
		stamp[i] = fileStamp{st.Size(), st.ModTime()}
	}
	return stamp, nil
}

// config returns the TLS configuration of the server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// expires returns the end of the validity of the certificate, or the zero time if it is not known.
func (c *certificate) expires() time.Time {
	pair, err := c.get(nil)
	if err != nil || pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// covers reports whether the certificate is valid for a host name.
func (c *certificate) covers(name string) bool {
	pair, err := c.get(nil)
	return err == nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(name) == nil
}

// fingerprint returns the SHA-256 of the certificate, in hexadecimal.
func (c *certificate) fingerprint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := sha256.Sum256(c.pair.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// selfSigned creates a certificate for names (host names and addresses) in two files, unless they contain one that
// covers the names and does not expire soon.
func selfSigned(certFile, keyFile string, names []string, now time.Time) error {
	good, err := covers(certFile, keyFile, names, now)
	if err != nil || good {
		return err
	}
	certPEM, keyPEM, err := makeCertificate(names, now)
	if err != nil {
		return err
	}
	// A crash between the two files leaves a pair that does not match, which the next start replaces.
	var steps durable.Steps
	if err := steps.Replace(keyFile, keyPEM); err != nil {
		return err
	}
	return steps.Replace(certFile, certPEM)
}

// covers reports whether the pair of files is valid for all names, and remains valid for at least renewBefore. It
// returns false if the files do not exist or do not match.
func covers(certFile, keyFile string, names []string, now time.Time) (bool, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	var denied *fs.PathError
	if errors.As(err, &denied) && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err != nil || pair.Leaf == nil || now.Add(renewBefore).After(pair.Leaf.NotAfter) {
		return false, nil
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !hasName(pair.Leaf, name) }), nil
}

// hasName compares names literally: a wildcard matches only itself.
func hasName(leaf *x509.Certificate, name string) bool {
	if ip := net.ParseIP(name); ip != nil {
		return slices.ContainsFunc(leaf.IPAddresses, ip.Equal)
	}
	return slices.Contains(leaf.DNSNames, name)
}

func makeCertificate(names []string, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "ORCAS self-signed"},
		NotBefore:             now.Add(-time.Hour), // the clocks of clients may be behind
		NotAfter:              now.AddDate(selfSignedYears, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// localNames returns the names of the server for clients on this machine: loopback, the host name, the listen address
// if it is a single one, and the base domains with their subdomains.
func localNames(host string, domains []string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if name, err := os.Hostname(); err == nil && isHostName(name) {
		add(name)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		add(ip.String())
	} else if ip == nil && isHostName(host) {
		add(host)
	}
	for _, domain := range domains {
		add(domain)
		add("*." + domain)
	}
	return names
}
