package main

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"orcas/cmd/orcas/internal/client"
	"orcas/internal/datadir"
)

// adminConnection is the admin API to connect to, and the certificates to trust.
type adminConnection struct {
	AdminAddress string `default:"127.0.0.1:9001" placeholder:"HOST:PORT" help:"Connect to this admin API: the --admin-address of the server (default ${default}), with https:// in front if it uses TLS."`
	CA           string `name:"ca" placeholder:"FILE" help:"Use HTTPS, and trust the certificates in this file (PEM). The default is AWS_CA_BUNDLE, or the system's certificates and, with --data, the self-signed certificate in that directory."`
	Fingerprint  string `placeholder:"SHA256" help:"Use HTTPS, and trust only the certificate with this SHA-256, in hexadecimal, whatever its names: the server prints it at startup."`

	selfSigned string // a data directory, whose self-signed certificate is trusted
}

// connect returns the URL of the admin API, and a client that trusts its certificate. data is the data directory, if it
// is known.
func (a *adminConnection) connect(environ []string, data string) (endpoint string, transport http.RoundTripper, err error) {
	overTLS := a.CA != "" || a.Fingerprint != ""
	address, found := strings.CutPrefix(a.AdminAddress, "https://")
	if plain, ok := strings.CutPrefix(address, "http://"); ok {
		if overTLS {
			return "", nil, errors.New("--ca and --fingerprint cannot be combined with an http:// address")
		}
		address = plain
	}
	if !found && !overTLS {
		return "http://" + address, http.DefaultTransport, nil
	}
	config, err := a.tls(environ, cmp.Or(data, a.selfSigned))
	if err != nil {
		return "", nil, err
	}
	return "https://" + address, &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true}, nil
}

// tls returns the TLS configuration of a client that trusts the given certificates.
func (a *adminConnection) tls(environ []string, data string) (*tls.Config, error) {
	if a.Fingerprint != "" {
		if a.CA != "" {
			return nil, errors.New("--fingerprint cannot be combined with --ca")
		}
		return pinned(a.Fingerprint)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	file := a.CA
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "AWS_CA_BUNDLE="); ok && file == "" {
			file = value
		}
	}
	if file != "" {
		config.RootCAs = x509.NewCertPool()
		return config, trust(config.RootCAs, file)
	}
	if data == "" {
		return config, nil
	}
	var err error
	if config.RootCAs, err = x509.SystemCertPool(); err != nil {
		config.RootCAs = x509.NewCertPool() // this system has no certificates
	}
	err = trust(config.RootCAs, filepath.Join(data, datadir.AdminCertificateFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return config, err
}

// trust adds the certificates in a file to a pool.
func trust(pool *x509.CertPool, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s does not contain a certificate in PEM form", file)
	}
	return nil
}

// pinned returns the TLS configuration of a client that trusts the certificate with a fingerprint, and no other.
func pinned(fingerprint string) (*tls.Config, error) {
	want, err := hex.DecodeString(strings.ReplaceAll(fingerprint, ":", ""))
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("--fingerprint: expected the SHA-256 of a certificate, 64 hexadecimal digits, not %q", fingerprint)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the certificate; the handshake proves its key
		VerifyConnection: func(state tls.ConnectionState) error {
			if got := sha256.Sum256(state.PeerCertificates[0].Raw); string(got[:]) != string(want) {
				return fmt.Errorf("the certificate of the server has the fingerprint %x, not that of --fingerprint", got)
			}
			return nil
		},
	}, nil
}

// explain returns an error that says what to do about a connection that failed.
func (a *adminConnection) explain(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(err, client.ErrRefused):
		return fmt.Errorf("no server is listening at --admin-address %s: start one, or use the admin address that the server prints at startup", a.AdminAddress)
	case errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("%s does not serve HTTPS: use the address without https://, --ca and --fingerprint", a.AdminAddress)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of the admin API at %s is not trusted: %w: use --ca, --fingerprint or --data", a.AdminAddress, untrusted.Err)
	}
	return fmt.Errorf("cannot reach the admin API at --admin-address %s: %w", a.AdminAddress, err)
}
