package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAdminAddressNeedsTLS: without TLS, only loopback addresses are accepted. A refused start creates nothing.
func TestAdminAddressNeedsTLS(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		config := testConfig(t)
		config.Admin = address
		_, err := Open(context.Background(), config)
		require.ErrorContains(t, err, "--admin-address "+address+": other machines can reach this address")
		require.NoDirExists(t, config.Data)
	}
	for _, address := range []string{"127.0.0.1:0", "127.0.0.2:0", "localhost:0"} {
		config := testConfig(t)
		config.Admin = address
		s, err := Open(context.Background(), config)
		require.NoError(t, err, address)
		require.NoError(t, s.Close())
	}
	for _, set := range []func(*Config){
		func(c *Config) { c.AdminInsecure = true },
		func(c *Config) { c.AdminSelfSigned = true },
	} {
		config := testConfig(t)
		config.Admin = "0.0.0.0:0"
		set(&config)
		s, err := Open(context.Background(), config)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// TestAdminTLS: the admin listener has a certificate of its own, which is reloaded when its files change. It does not
// serve plain HTTP.
func TestAdminTLS(t *testing.T) {
	config := testConfig(t)
	config.Admin, config.SelfSigned, config.AdminSelfSigned = "127.0.0.1:0", true, true
	var banner syncedBuilder
	config.Banner = &banner
	s, stop := running(t, config)
	client := func(certFile string) *http.Client {
		pem, err := os.ReadFile(filepath.Join(config.Data, certFile))
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(pem))
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	}
	url := s.AdminEndpoint() + "/-/health/live"
	require.Contains(t, url, "https://127.0.0.1:")
	r, err := client(AdminCertificateFile).Get(url)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "HTTP/1.1", r.Proto)
	_, err = client(selfSignedCert).Get(url)
	var untrusted *tls.CertificateVerificationError
	require.ErrorAs(t, err, &untrusted, "the certificate of the S3 listener")
	r, err = http.Get("http://" + s.AdminAddress() + "/-/health/live")
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusBadRequest, r.StatusCode)
	require.Contains(t, banner.String(), "  admin        "+s.AdminEndpoint()+"\n")
	first := s.adminCert.fingerprint()
	require.Contains(t, banner.String(), "--fingerprint "+first+"\n")

	names := append(localNames("127.0.0.1", nil), "new.example")
	require.NoError(t, selfSigned(s.config.AdminTLSCert, s.config.AdminTLSKey, names, time.Now()))
	s.adminCert.mu.Lock()
	s.adminCert.checked = time.Time{}
	s.adminCert.mu.Unlock()
	r, err = client(AdminCertificateFile).Get(url)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.NotEqual(t, first, s.adminCert.fingerprint())
	require.Contains(t, r.TLS.PeerCertificates[0].DNSNames, "new.example")
	require.NoError(t, stop())
}
