package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCredentialsAreMadeOnce(t *testing.T) {
	dir := t.TempDir()
	first, err := rootCredentials(&Settings{}, dir)
	require.NoError(t, err)
	require.True(t, first.made)
	require.Len(t, first.AccessKey, 20)
	require.Len(t, first.SecretKey, 40)
	st, err := os.Stat(filepath.Join(dir, credentialsFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	again, err := rootCredentials(&Settings{}, dir)
	require.NoError(t, err)
	require.False(t, again.made)
	require.Equal(t, [2]string{first.AccessKey, first.SecretKey}, [2]string{again.AccessKey, again.SecretKey})

	given, err := rootCredentials(&Settings{AccessKey: "mine", SecretKey: "my-secret"}, dir)
	require.NoError(t, err)
	require.Equal(t, "mine", given.AccessKey)

	other, err := rootCredentials(&Settings{}, t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, first.SecretKey, other.SecretKey)
}

func TestCredentialsDamaged(t *testing.T) {
	for _, content := range []string{"", "{}", `{"accessKey":"AAAA","secretKey":"hidden`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, credentialsFile), []byte(content), 0o600))
		_, err := rootCredentials(&Settings{}, dir)
		require.ErrorContains(t, err, credentialsFile)
		require.NotContains(t, err.Error(), "hidden")
	}
}

func TestSelfSignedIsTrustedByItsFile(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	names := localNames("10.1.2.3", []string{"s3.example.org"})
	certFile, keyFile, err := selfSigned(dir, names, now)
	require.NoError(t, err)
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

func TestSelfSignedIsKeptWhileItServes(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	read := func(names []string, now time.Time) string {
		certFile, _, err := selfSigned(dir, names, now)
		require.NoError(t, err)
		pem, err := os.ReadFile(certFile)
		require.NoError(t, err)
		return string(pem)
	}
	first := read([]string{"localhost"}, now)
	require.Equal(t, first, read([]string{"localhost"}, now.AddDate(9, 0, 0)))
	wider := read([]string{"localhost", "10.0.0.1"}, now)
	require.NotEqual(t, first, wider, "a new name needs a new certificate")
	require.Equal(t, wider, read([]string{"localhost"}, now))
	require.NotEqual(t, wider, read([]string{"localhost"}, now.AddDate(10, 0, -1)), "it expires soon")
	require.NoError(t, os.WriteFile(filepath.Join(dir, selfSignedCert), []byte("torn"), 0o600))
	require.Contains(t, read([]string{"localhost"}, now), "BEGIN CERTIFICATE")
}

func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, err := selfSigned(dir, []string{"one.example"}, time.Now())
	require.NoError(t, err)
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
	require.Equal(t, 1, strings.Count(out.String(), "not reloaded"), "reported once")
	require.NoError(t, os.Remove(certFile))
	require.Equal(t, "one.example", name())
	require.Equal(t, "one.example", name())
	require.Equal(t, 2, strings.Count(out.String(), "not reloaded"), "reported once")

	_, _, err = selfSigned(dir, []string{"two.example"}, time.Now())
	require.NoError(t, err)
	require.Equal(t, "two.example", name())
}

func TestLimitListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := newLimitListener(inner, 1, time.Hour)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first := <-accepted
	second := dial() // in the kernel's queue
	_, err = second.Write([]byte("x"))
	require.NoError(t, err)
	require.Len(t, l.slots, 1)
	select {
	case <-accepted:
		t.Fatal("accepted beyond the limit")
	default:
	}
	require.NoError(t, first.(*limitedConn).CloseWrite())
	require.NoError(t, first.Close())
	require.ErrorIs(t, first.Close(), net.ErrClosed)
	next := <-accepted
	var b [1]byte
	_, err = io.ReadFull(next, b[:])
	require.NoError(t, err)

	// Close ends an Accept that waits for a slot.
	require.NoError(t, l.Close())
	_, open := <-accepted
	require.False(t, open)
	require.NoError(t, next.Close())
}

// TestStalledClientLosesItsConnection writes to a pipe, which holds nothing, so that a client who does not read is seen at once.
func TestStalledClientLosesItsConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	l := newLimitListener(nil, 1, time.Millisecond)
	l.slots <- struct{}{}
	c := &limitedConn{Conn: ours, listener: l}
	_, err := c.Write([]byte("nobody reads this"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	// A deadline that others take away comes back with the next write.
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	_, err = c.Write([]byte("nor this"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	// A client who reads after a pause of any length is served.
	l.stall = time.Hour
	go func() { _, _ = c.Write([]byte("x")) }()
	var b [1]byte
	_, err = io.ReadFull(theirs, b[:])
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Empty(t, l.slots)
}

// syncedBuilder is a strings.Builder for several goroutines.
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

func TestLogIsBufferedAndErrorsAreNot(t *testing.T) {
	var out syncedBuilder
	b := &logBuffer{out: &out, stop: make(chan struct{}), done: make(chan struct{})}
	go b.flushEach(time.Hour)
	log := newLogger(b)
	log.Info("access")
	require.Empty(t, out.String())
	log.With("a", 1).WithGroup("g").Error("broken")
	require.Contains(t, out.String(), `"access"`)
	require.Contains(t, out.String(), `"broken"`)
	for range 2000 {
		log.Info("a line of some length that fills the buffer")
	}
	require.Greater(t, len(out.String()), logBufferBytes)
	log.Info("last")
	b.Close()
	require.Contains(t, out.String(), `"last"`)
	require.Equal(t, 2003, strings.Count(out.String(), "\n"))
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
