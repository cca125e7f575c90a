package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/auth/identity"
	"orcas/gate"
	"orcas/internal/sigv4"
)

// limitedConfig returns the configuration of a server whose clock stands still.
func limitedConfig(t *testing.T) Config {
	config := testConfig(t)
	now := time.Now()
	config.Now = func() time.Time { return now }
	config.Settings.Buckets = []string{"bucket"}
	return config
}

// TestSessionsShareALimit: a client that assumes a role again and again, each time with another name, has one limit. Its
// user, and the sessions of another role, have others.
func TestSessionsShareALimit(t *testing.T) {
	config := limitedConfig(t)
	config.Settings.Rates.KeyRate = 5
	s, _ := newKeyed(t, config)
	account := s.identities.Root().Account
	s.admin(200, "POST", "/-/admin/user?name=alice")
	key := s.admin(200, "POST", "/-/admin/user/key?name=alice")
	for _, role := range []string{"one", "two"} {
		s.admin(200, "POST", "/-/admin/role?user=alice&name="+role)
		s.admin(200, "POST", "/-/admin/policy/attach?policy=readwrite&attached=true&role="+role)
	}
	s.admin(200, "POST", "/-/admin/policy/attach?policy=readwrite&attached=true&user=alice")
	session := func(role, name string) *s3.Client {
		c, err := s.identities.Lookup(t.Context(), key.AccessKey, "")
		require.NoError(t, err)
		i, err := s.identities.AssumeRole(t.Context(), c.Principal, identity.AssumeRole{
			Role: "arn:aws:iam::" + account + ":role/" + role, Session: name,
		})
		require.NoError(t, err)
		o := s.client(i.AccessKey, i.SecretKey).Options()
		o.Credentials = credentials.NewStaticCredentialsProvider(i.AccessKey, i.SecretKey, i.Token)
		return s3.New(o)
	}
	for i := range 20 {
		want := ""
		if i >= 5 {
			want = "SlowDown"
		}
		require.Equal(t, want, list(session("one", fmt.Sprint("name", i)), ""), i)
	}
	require.Empty(t, list(session("two", "name0"), ""))
	for range 5 {
		require.Empty(t, list(s.client(key.AccessKey, key.SecretKey), ""))
	}
	require.Equal(t, "SlowDown", list(s.client(key.AccessKey, key.SecretKey), ""))
	status, text := s.queryAs(key.AccessKey, key.SecretKey, "sts", whoami)
	require.Equal(t, 503, status, "IAM has the same limits")
	require.Equal(t, "SlowDown", between(t, text, "<Code>", "</Code>"))
	status, text = s.query("sts", whoami)
	require.Equal(t, 200, status, text)
	require.Eventually(t, func() bool { // a request is counted just after its response was sent
		var b strings.Builder
		require.NoError(t, s.counts.registry.Write(&b))
		return value(t, b.String(), `orcas_s3_rejections_total{reason="rate"}`) == 16
	}, time.Minute, 10*time.Millisecond)
}

// TestTrustedProxies: clients behind a trusted proxy have limits of their own, and the log shows their addresses.
// Without a trusted proxy, the header means nothing.
func TestTrustedProxies(t *testing.T) {
	for _, trusted := range []string{"", "127.0.0.0/8"} {
		t.Run("trusted="+trusted, func(t *testing.T) {
			config := limitedConfig(t)
			config.Settings.Rates.AddressRate = 2
			var log syncedBuilder
			config.Log = &log
			if trusted != "" {
				config.Settings.Proxies.Trusted = []netip.Prefix{netip.MustParsePrefix(trusted)}
			}
			s, stop := running(t, config)
			client := httpClient(t, s)
			get := func(from string) int {
				r, err := http.NewRequestWithContext(t.Context(), "GET", s.Endpoint()+"/bucket/key", nil)
				require.NoError(t, err)
				r.Header.Set("X-Forwarded-For", "1.1.1.1, "+from)
				r.Header.Set("X-Real-Ip", from)
				response, err := client.Do(r)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				return response.StatusCode
			}
			ok := 0
			for i := range 10 {
				if get(fmt.Sprintf("198.51.100.%d", i)) != 503 {
					ok++
				}
			}
			if trusted == "" {
				require.Equal(t, 2, ok)
			} else {
				require.Equal(t, 10, ok)
				require.Equal(t, 403, get("198.51.100.1"))
				require.Equal(t, 503, get("198.51.100.1"))
			}
			require.NoError(t, stop())
			require.Equal(t, trusted != "", strings.Contains(log.String(), `"remote":"198.51.100.1:0"`), "%s", log.String())
			require.NotContains(t, log.String(), "1.1.1.1:")
		})
	}
}

// TestWrongSignaturesBehindAProxy: the wrong signatures of a client do not slow down another one behind the same proxy.
func TestWrongSignaturesBehindAProxy(t *testing.T) {
	config := limitedConfig(t)
	config.Settings.Proxies = ProxySettings{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: gate.XRealIP}
	s, _ := running(t, config)
	client := httpClient(t, s)
	get := func(from, secret string) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.Endpoint()+"/bucket", nil)
		require.NoError(t, err)
		signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: secret, Region: "us-east-1"}
		signer.Sign(r, sigv4.EmptySHA256, s.now())
		r.Header.Set("X-Real-Ip", from)
		response, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for range wrongSignatures {
		require.Equal(t, 403, get("198.51.100.1", "wrong"))
	}
	require.Equal(t, 503, get("198.51.100.1", s.Credentials().SecretKey))
	require.Equal(t, 200, get("198.51.100.2", s.Credentials().SecretKey))
}

// TestWarningsAboutProxies: settings that trust everybody, or have no effect, are not silent.
func TestWarningsAboutProxies(t *testing.T) {
	for _, c := range []struct{ environ, want string }{
		{"ORCAS_TRUSTED_PROXIES=10.0.0.0/8", ""},
		{"ORCAS_TRUSTED_PROXIES=10.0.0.0/8,::/0", "every client can choose"},
		{"ORCAS_PROXY_HEADER=forwarded", "no effect without ORCAS_TRUSTED_PROXIES"},
	} {
		s, err := ReadSettings([]string{c.environ})
		require.NoError(t, err)
		if c.want == "" {
			require.Empty(t, s.Warnings)
			continue
		}
		require.Len(t, s.Warnings, 1)
		require.Contains(t, s.Warnings[0], c.want)
	}
	for _, bad := range []string{
		"ORCAS_TRUSTED_PROXIES=proxy", "ORCAS_PROXY_HEADER=via", "ORCAS_LIMIT_KEY_RATE=0", "ORCAS_LIMIT_KEY_BANDWIDTH=1KiB",
		"ORCAS_LIMIT_ADDRESS_CONNECTIONS=-1",
	} {
		_, err := ReadSettings([]string{bad})
		name, _, _ := strings.Cut(bad, "=")
		require.ErrorContains(t, err, name)
	}
}

// TestConnectionsOfAnAddress: an address has a limited number of connections, and trusted proxies any number.
func TestConnectionsOfAnAddress(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		t.Run(fmt.Sprint("trusted=", trusted), func(t *testing.T) {
			config := limitedConfig(t)
			config.Settings.Rates.AddressConnections = 3
			if trusted {
				config.Settings.Proxies.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			}
			s, _ := running(t, config)
			connect := func() (net.Conn, bool) {
				c, err := net.Dial("tcp", s.listener.Addr().String())
				require.NoError(t, err)
				t.Cleanup(func() { c.Close() })
				if _, err = io.WriteString(c, "GET /-/health/live HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return c, false
				}
				head := make([]byte, 12)
				_, err = io.ReadFull(c, head)
				return c, err == nil && bytes.Equal(head, []byte("HTTP/1.1 200"))
			}
			var conns []net.Conn
			for range 3 {
				c, ok := connect()
				require.True(t, ok)
				conns = append(conns, c)
			}
			_, ok := connect()
			require.Equal(t, trusted, ok)
			require.Equal(t, !trusted, s.listener.crowded.Load() == 1)
			if trusted {
				return
			}
			var log syncedBuilder
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.listener.report(ctx, slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond)
			}()
			for n := 1; n <= 2; n++ { // each line has the address
				require.Eventually(t, func() bool { return strings.Count(log.String(), "limit=3 closed=1 first_address=127.0.0.1\n") == n },
					time.Minute, time.Millisecond)
				_, ok = connect()
				require.False(t, ok)
			}
			stop()
			<-done
			require.NoError(t, conns[0].Close())
			require.Eventually(t, func() bool { _, ok := connect(); return ok }, time.Minute, time.Millisecond, "the others have ended")
		})
	}
}
