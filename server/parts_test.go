package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

func TestCredentialsAreGeneratedOnce(t *testing.T) {
	dir := t.TempDir()
	first, err := rootCredentials(&Settings{}, dir, false)
	require.NoError(t, err)
	require.True(t, first.made)
	require.Len(t, first.AccessKey, 20)
	require.Len(t, first.SecretKey, 40)
	st, err := os.Stat(filepath.Join(dir, CredentialsFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	again, err := rootCredentials(&Settings{}, dir, false)
	require.NoError(t, err)
	require.False(t, again.made)
	require.Equal(t, [2]string{first.AccessKey, first.SecretKey}, [2]string{again.AccessKey, again.SecretKey})

	given, err := rootCredentials(&Settings{AccessKey: "mine", SecretKey: "my-secret"}, dir, true)
	require.NoError(t, err)
	require.Equal(t, "mine", given.AccessKey)

	other, err := rootCredentials(&Settings{}, t.TempDir(), false)
	require.NoError(t, err)
	require.NotEqual(t, first.SecretKey, other.SecretKey)
}

// No credentials are built in: those that other servers have, and empty ones, are refused.
func TestNoDefaultCredentials(t *testing.T) {
	s, _ := running(t, testConfig(t))
	client := httpClient(t, s)
	for access, secret := range map[string]string{
		"minioadmin": "minioadmin", "minio": "minio123", "admin": "admin", "root": "root", "orcas": "orcas", "test": "test", "rustfsadmin": "rustfsadmin",
		"AKIAIOSFODNN7EXAMPLE": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "access": "secret", "x": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint()+"/", nil)
		require.NoError(t, err)
		(&sigv4.Signer{AccessKey: access, SecretKey: secret, Region: "us-east-1"}).Sign(r, sigv4.EmptySHA256, time.Now())
		a, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, http.StatusForbidden, a.StatusCode, access)
	}
}

func TestCredentialsDamaged(t *testing.T) {
	for _, content := range []string{"", "{}", `{"accessKey":"AAAA","secretKey":"hidden`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, CredentialsFile), []byte(content), 0o600))
		_, err := rootCredentials(&Settings{}, dir, false)
		require.ErrorContains(t, err, CredentialsFile)
		require.NotContains(t, err.Error(), "hidden")
	}
}

// TestCredentialsOfOthersAreRefused: anyone who can write to the file or the directory could set the root credentials.
func TestCredentialsOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, CredentialsFile)
	_, err := rootCredentials(&Settings{}, dir, false)
	require.NoError(t, err)
	environment := &Settings{AccessKey: "mine", SecretKey: "my-secret"}
	for _, mode := range []os.FileMode{0o666, 0o622, 0o620, 0o602, 0o644, 0o640} {
		require.NoError(t, os.Chmod(path, mode))
		_, err = rootCredentials(&Settings{}, dir, true)
		require.EqualError(t, err, fmt.Sprintf("%s has mode %04o, so users other than its owner can read or change it: run chmod 600 %s", path, mode, path))
		_, err = rootCredentials(environment, dir, true)
		require.NoError(t, err, "the file is not used")
	}
	require.NoError(t, os.Chmod(path, 0o400))
	_, err = rootCredentials(&Settings{}, dir, true)
	require.NoError(t, err)

	info, err := os.Stat(path)
	require.NoError(t, err)
	owner, known := ownerOf(info)
	require.True(t, known)
	require.NoError(t, checkPrivate(path, info, owner))
	err = checkPrivate(path, otherOwner{info}, owner)
	require.ErrorContains(t, err, fmt.Sprintf("belongs to user %d", owner+1))
	require.ErrorContains(t, err, fmt.Sprintf("run chown %d %s", owner, path))

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = readCredentials(pipe)
	require.EqualError(t, err, pipe+" is not a regular file", "opening the pipe must not wait for a writer")
	require.NoError(t, os.Remove(pipe))

	require.NoError(t, os.Chmod(dir, 0o777))
	for range 2 { // with the file, and without it
		_, err = rootCredentials(&Settings{}, dir, true)
		require.EqualError(t, err, fmt.Sprintf("%s has mode 0777, so every user of this machine can replace the files in it: run chmod o-w %s", dir, dir))
		require.NoError(t, os.RemoveAll(path))
	}
	require.NoFileExists(t, path)
	given, err := rootCredentials(environment, dir, true)
	require.NoError(t, err)
	require.Len(t, given.warnings, 1)
	require.Contains(t, given.warnings[0], "0777")
	require.NoError(t, os.Chmod(dir, 0o775)) // a group may have write access
	_, err = rootCredentials(&Settings{}, dir, true)
	require.NoError(t, err)
}

// otherOwner describes the same file as if it belonged to another user, who is not root.
type otherOwner struct{ os.FileInfo }

func (o otherOwner) Sys() any {
	st := *o.FileInfo.Sys().(*syscall.Stat_t)
	st.Uid++
	return &st
}

// TestCredentialsChangeWithAWarning: the server warns when credentials from the environment replace those in the file,
// and when generated ones replace those from the environment.
func TestCredentialsChangeWithAWarning(t *testing.T) {
	config := testConfig(t)
	start := func() (warnings string) {
		var log syncedBuilder
		config.Log = &log
		s, err := Open(context.Background(), config)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NotContains(t, log.String(), s.Credentials().SecretKey)
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "WARN") {
				warnings += line
			}
		}
		return warnings
	}
	config.Settings.AccessKey, config.Settings.SecretKey = "mine", "my-secret"
	require.Empty(t, start())
	require.Empty(t, start())
	config.Settings.AccessKey, config.Settings.SecretKey = "", ""
	require.Contains(t, start(), "this store was used with other root credentials before")
	require.Empty(t, start())
	config.Settings.AccessKey, config.Settings.SecretKey = "mine", "my-secret"
	require.Contains(t, start(), "the root credentials come from the environment; those in "+filepath.Join(config.Data, CredentialsFile)+" are different")
}

func TestSelfSignedIsTrustedByItsFile(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	names := localNames("10.1.2.3", []string{"s3.example.org"})
	certFile, keyFile := filepath.Join(dir, selfSignedCert), filepath.Join(dir, selfSignedKey)
	require.NoError(t, selfSigned(certFile, keyFile, names, now))
	st, err := os.Stat(keyFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(certFile)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(pem))
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "10.1.2.3", "s3.example.org", "bucket.s3.example.org"} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool})
		require.NoError(t, err, name)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: "example.org", Roots: pool})
	require.Error(t, err)
}

func TestSelfSignedIsKeptWhileValid(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	read := func(names []string, now time.Time) string {
		certFile := filepath.Join(dir, selfSignedCert)
		require.NoError(t, selfSigned(certFile, filepath.Join(dir, selfSignedKey), names, now))
		pem, err := os.ReadFile(certFile)
		require.NoError(t, err)
		return string(pem)
	}
	first := read([]string{"localhost"}, now)
	require.Equal(t, first, read([]string{"localhost"}, now.AddDate(9, 0, 0)))
	wider := read([]string{"localhost", "10.0.0.1"}, now)
	require.NotEqual(t, first, wider, "a new name requires a new certificate")
	require.Equal(t, wider, read([]string{"localhost"}, now))
	require.NotEqual(t, wider, read([]string{"localhost"}, now.AddDate(10, 0, -1)), "it expires soon")
	require.NoError(t, os.WriteFile(filepath.Join(dir, selfSignedCert), []byte("torn"), 0o600))
	require.Contains(t, read([]string{"localhost"}, now), "BEGIN CERTIFICATE")
}

func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, selfSignedCert), filepath.Join(dir, selfSignedKey)
	require.NoError(t, selfSigned(certFile, keyFile, []string{"one.example"}, time.Now()))
	var out strings.Builder
	c, err := newCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&out, nil)))
	require.NoError(t, err)
	clock := time.Now()
	c.now = func() time.Time { return clock }
	name := func() string {
		clock = clock.Add(checkEvery)
		pair, err := c.get(nil)
		require.NoError(t, err)
		return pair.Leaf.DNSNames[0]
	}
	require.Equal(t, "one.example", name())

	require.NoError(t, os.WriteFile(certFile, []byte("half a certif"), 0o600))
	require.Equal(t, "one.example", name())
	require.Equal(t, "one.example", name())
	require.Equal(t, 1, strings.Count(out.String(), "not reloaded"), "the error must be logged once")
	require.NoError(t, os.Remove(certFile))
	require.Equal(t, "one.example", name())
	require.Equal(t, "one.example", name())
	require.Equal(t, 2, strings.Count(out.String(), "not reloaded"), "the error must be logged once")

	require.NoError(t, selfSigned(certFile, keyFile, []string{"two.example"}, time.Now()))
	require.Equal(t, "two.example", name())
}

// TestStalledClientLosesItsConnection writes to a pipe, which has no buffer, so a client that does not read stalls the
// server immediately.
func TestStalledClientLosesItsConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	l := newLimitListener(nil, 1, time.Millisecond)
	c := l.admit(ours)
	_, err := c.Write([]byte("nobody reads this"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	// If the deadline is removed, the next write sets it again.
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	_, err = c.Write([]byte("nor this"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	// A client that reads after a pause is served.
	l.stall = time.Hour
	go func() { _, _ = c.Write([]byte("x")) }()
	var b [1]byte
	_, err = io.ReadFull(theirs, b[:])
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Empty(t, l.conns)
}

// syncedBuilder is a strings.Builder that several goroutines can use.
type syncedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncedBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestReserve(t *testing.T) {
	const gib = int64(1 << 30)
	require.Equal(t, 10*gib, Reserve{Percent: 1, Bytes: minReserve}.of(1000*gib))
	require.Equal(t, int64(minReserve), Reserve{Percent: 1, Bytes: minReserve}.of(2*gib))
	require.Equal(t, int64(64<<20), Reserve{Percent: 1, Bytes: minReserve}.of(128<<20), "never more than half")
	require.Equal(t, int64(0), Reserve{}.of(gib))
}

func TestShellQuote(t *testing.T) {
	require.Equal(t, "/a/b-c.d", shellQuote("/a/b-c.d"))
	require.Equal(t, `'/a b'\''c'`, shellQuote("/a b'c"))
	require.Equal(t, "''", shellQuote(""))
}
