package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/server"
)

// TestAdminOverTLS connects to admin listeners with and without TLS, with each way to trust the certificate, and with
// each mistake.
func TestAdminOverTLS(t *testing.T) {
	base := t.TempDir()
	data, other, notPEM := filepath.Join(base, "data"), filepath.Join(base, "other"), filepath.Join(base, "text")
	require.NoError(t, os.WriteFile(notPEM, []byte("text"), 0o600))
	settings, err := server.ReadSettings([]string{"ORCAS_MIN_FREE=0", "ORCAS_ROOT_ACCESS_KEY=root", "ORCAS_ROOT_SECRET_KEY=the-secret"})
	require.NoError(t, err)
	start := func(data string, overTLS bool) *server.Server {
		ctx, stop := context.WithCancel(t.Context())
		s, err := server.Open(ctx, server.Config{
			Data: data, Address: "127.0.0.1:0", Admin: "127.0.0.1:0", AdminSelfSigned: overTLS, Settings: settings,
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
			require.NoError(t, s.Close())
		})
		return s
	}
	address, plain := start(data, true).AdminAddress(), start(other, false).AdminAddress()
	cert := filepath.Join(data, server.AdminCertificateFile)
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	sum := sha256.Sum256(block.Bytes)
	fingerprint := hex.EncodeToString(sum[:])
	wrong := hex.EncodeToString(make([]byte, sha256.Size))
	environ := []string{"ORCAS_ROOT_ACCESS_KEY=root", "ORCAS_ROOT_SECRET_KEY=the-secret"}
	for _, c := range []struct {
		args, env string
		says      string // "" for success
	}{
		{"--ca " + cert, "", ""},
		{"--ca " + cert + " --admin-address https://" + address, "", ""},
		{"--admin-address https://" + address, "AWS_CA_BUNDLE=" + cert, ""},
		{"--fingerprint " + fingerprint, "", ""},
		{"--fingerprint " + strings.ToUpper(fingerprint[:2]+":"+fingerprint[2:]), "", ""},
		{"", "", address + " serves HTTPS: use --admin-address https://" + address},
		{"--admin-address https://" + address, "", "is not trusted"},
		{"--admin-address https://" + address, "AWS_CA_BUNDLE=" + notPEM, "does not contain a certificate"},
		{"--ca " + notPEM, "", "does not contain a certificate"},
		{"--ca " + cert + ".none", "", "no such file"},
		{"--fingerprint " + wrong, "", "has the fingerprint " + fingerprint + ", not that of --fingerprint"},
		{"--fingerprint 1234", "", "expected the SHA-256 of a certificate"},
		{"--ca " + cert + " --fingerprint " + fingerprint, "", "cannot be combined"},
		{"--ca " + cert + " --admin-address http://" + address, "", "cannot be combined with an http:// address"},
		{"--ca " + cert + " --admin-address " + plain, "", plain + " does not serve HTTPS"},
		{"--admin-address http://" + plain, "", ""},
	} {
		args := append(strings.Fields("admin key list --admin-address "+address), strings.Fields(c.args)...)
		var out, errs bytes.Buffer
		status := run(args, append([]string{c.env}, environ...), &out, &errs)
		if c.says == "" {
			require.Equal(t, exitOK, status, "%q %s: %s", args, c.env, &errs)
			continue
		}
		require.Equal(t, exitFailed, status, "%q", args)
		require.Contains(t, errs.String(), c.says, "%q", args)
		require.Equal(t, 1, strings.Count(errs.String(), "\n"))
	}

	// The credentials and the certificate of a data directory. The directory has no file of credentials, so that the first
	// command gets no further.
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run([]string{"admin", "key", "list", "--admin-address", "https://" + address, "--data", data}, nil, &out, &errs))
	require.Contains(t, errs.String(), server.CredentialsFile)
	credentials := []byte(`{"accessKey": "root", "secretKey": "the-secret"}`)
	require.NoError(t, os.WriteFile(filepath.Join(data, server.CredentialsFile), credentials, 0o600))
	orcasExits(t, exitOK, "admin", "key", "list", "--admin-address", "https://"+address, "--data", data)
	orcasExits(t, exitOK, "backup", filepath.Join(base, "backups"), "--admin-address", "https://"+address, "--data", data)
}

// TestAdminTLSFlags: flags that contradict each other are mistakes in the command line.
func TestAdminTLSFlags(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for args, says := range map[string]string{
		"--admin-tls-cert a.crt": "--admin-tls-cert and --admin-tls-key must be used together",
		"--admin-tls-key a.key":  "--admin-tls-cert and --admin-tls-key must be used together",
		"--admin-tls-cert a.crt --admin-tls-key a.key --admin-tls-self-signed": "--admin-tls-self-signed cannot be combined",
		"--admin-tls-self-signed --admin-insecure":                             "--admin-insecure cannot be combined",
		"--admin-tls-self-signed --admin-address none":                         "cannot be combined with --admin-address none",
		"--admin-insecure --admin-address none":                                "cannot be combined with --admin-address none",
		"--admin-address 0.0.0.0:0":                                            "other machines can reach this address",
	} {
		m := mistake{append(strings.Fields("server --address 127.0.0.1:0 --data "+data), strings.Fields(args)...), nil, exitUsage, says}
		m.check(t)
	}
	require.NoDirExists(t, data)
}
