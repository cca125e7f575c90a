package gate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

// TestProxies: the client is the last address that is not a trusted proxy, in the one header that is believed.
func TestProxies(t *testing.T) {
	trusted, err := gate.ParseProxies([]string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/32"})
	require.NoError(t, err)
	const peer = "10.0.0.1:4000"
	for _, c := range []struct {
		header gate.ProxyHeader
		peer   string
		name   string
		values []string
		want   string
	}{
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"203.0.113.9"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"203.0.113.9:1234"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"1.1.1.1, 203.0.113.9, 10.2.3.4,192.0.2.7"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"1.1.1.1", "203.0.113.9", "10.2.3.4"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"rubbish, 203.0.113.9"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"203.0.113.9, rubbish"}, peer},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"203.0.113.9,"}, peer},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"10.1.1.1, 10.2.2.2"}, "10.1.1.1:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"2001:db9::5"}, "[2001:db9::5]:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"[2001:db9::5]:80"}, "[2001:db9::5]:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"[2001:db9::5]"}, "[2001:db9::5]:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"::ffff:203.0.113.9"}, "203.0.113.9:0"},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"fe80::1%eth0"}, peer},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"203.0.113.9:port"}, peer},
		{gate.XForwardedFor, peer, "X-Forwarded-For", []string{"0.0.0.0"}, peer},
		{gate.XForwardedFor, peer, "X-Forwarded-For", nil, peer},
		{gate.XForwardedFor, peer, "X-Real-Ip", []string{"203.0.113.9"}, peer},
		{gate.XForwardedFor, "[2001:db8::9]:1", "X-Forwarded-For", []string{"203.0.113.9"}, "203.0.113.9:0"},
		{gate.XForwardedFor, "[::ffff:10.0.0.1]:1", "X-Forwarded-For", []string{"203.0.113.9"}, "203.0.113.9:0"},
		{gate.XForwardedFor, "198.51.100.1:5", "X-Forwarded-For", []string{"203.0.113.9"}, "198.51.100.1:5"},
		{gate.XRealIP, peer, "X-Real-Ip", []string{"203.0.113.9"}, "203.0.113.9:0"},
		{gate.XRealIP, peer, "X-Real-Ip", []string{"1.1.1.1", "203.0.113.9"}, peer},
		{gate.XRealIP, peer, "X-Real-Ip", []string{"1.1.1.1, 203.0.113.9"}, peer},
		{gate.XRealIP, peer, "X-Forwarded-For", []string{"203.0.113.9"}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`for=203.0.113.9;proto=https`}, "203.0.113.9:0"},
		{gate.Forwarded, peer, "Forwarded", []string{`for=1.1.1.1, proto=http;For="203.0.113.9:80", for=10.0.0.3`}, "203.0.113.9:0"},
		{gate.Forwarded, peer, "Forwarded", []string{`for="[2001:db9::5]:4711"`}, "[2001:db9::5]:0"},
		{gate.Forwarded, peer, "Forwarded", []string{`for="1.1.1.1, for=2.2.2.2"`}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`for=1.1.1.1, for="2.2.2.2`}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`for=1.1.1.1;for=2.2.2.2`}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`for=unknown`}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`for=1.1.1.1, for=_hidden`}, peer},
		{gate.Forwarded, peer, "Forwarded", []string{`proto=https`}, peer},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{}}
		if c.values != nil {
			r.Header[c.name] = c.values
		}
		found := gate.NewProxies(trusted, c.header).Identify(r)
		require.Equal(t, c.want, r.RemoteAddr, "%s: %q", c.header, c.values)
		require.Equal(t, c.want != c.peer, found)
	}
	r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
	require.False(t, gate.NewProxies(nil, gate.XForwardedFor).Identify(r), "without trusted proxies the header is ignored")
	require.Equal(t, peer, r.RemoteAddr)
	for _, bad := range []string{"10.0.0.1/8", "10.0.0.0/33", "host", "", "fe80::1%eth0"} {
		_, err := gate.ParseProxies([]string{bad})
		require.Error(t, err, bad)
	}
}

// FuzzProxies: the address of a client is valid, whatever the header is; otherwise the peer is kept.
func FuzzProxies(f *testing.F) {
	trusted, err := gate.ParseProxies([]string{"10.0.0.0/8"})
	require.NoError(f, err)
	f.Add("1.1.1.1, 10.0.0.2", true)
	f.Add(`for="[2001:db8::1]:80";by=x`, false)
	f.Fuzz(func(t *testing.T, value string, x bool) {
		header := gate.Forwarded
		if x {
			header = gate.XForwardedFor
		}
		const peer = "10.0.0.1:80"
		r := &http.Request{RemoteAddr: peer, Header: http.Header{string(header): {value}}}
		if !gate.NewProxies(trusted, header).Identify(r) {
			require.Equal(t, peer, r.RemoteAddr)
			return
		}
		_, ok := gate.CommonFact(r, time.Time{}, "aws:SourceIp")
		require.True(t, ok)
	})
}
