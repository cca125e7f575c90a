package metrics

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// send sends a request to a handler.
func send(h http.Handler, method, host, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/metrics", nil)
	r.Host, r.RemoteAddr = host, "127.0.0.1:1"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAccess(t *testing.T) {
	registry, err := New(Build{})
	require.NoError(t, err)
	const secret = "a token of some length"
	token := func() (string, error) { return secret, nil }
	none := func() (string, error) { return "", nil }
	failing := func() (string, error) { return secret, errors.New("no such file") }
	for name, c := range map[string]struct {
		listen        string
		token         func() (string, error)
		method, host  string
		authorization string
		status        int
	}{
		"loopback":             {"127.0.0.1", nil, "GET", "127.0.0.1:9001", "", 200},
		"HEAD":                 {"127.0.0.1", nil, "HEAD", "127.0.0.1:9001", "", 200},
		"POST":                 {"127.0.0.1", nil, "POST", "127.0.0.1:9001", "", 405},
		"localhost":            {"127.0.0.1", nil, "GET", "LocalHost", "", 200},
		"IPv6":                 {"::1", nil, "GET", "[::1]:9001", "", 200},
		"IPv6, no port":        {"::1", nil, "GET", "[::1]", "", 200},
		"another loopback":     {"127.0.0.2", nil, "GET", "127.0.0.2:9001", "", 200},
		"a rebound name":       {"127.0.0.1", nil, "GET", "example.org:9001", "", 403},
		"like localhost":       {"127.0.0.1", nil, "GET", "localhost.example.org", "", 403},
		"like a loopback":      {"127.0.0.1", nil, "GET", "127.0.0.1.example.org", "", 403},
		"no host":              {"127.0.0.1", nil, "GET", "", "", 403},
		"every address":        {"0.0.0.0", nil, "GET", "127.0.0.1:9001", "", 403},
		"another address":      {"192.0.2.1", nil, "GET", "192.0.2.1:9001", "", 403},
		"token":                {"0.0.0.0", token, "GET", "example.org", "Bearer " + secret, 200},
		"token, lower case":    {"0.0.0.0", token, "GET", "example.org", "bearer " + secret, 200},
		"no token":             {"0.0.0.0", token, "GET", "example.org", "", 401},
		"no token on loopback": {"127.0.0.1", token, "GET", "127.0.0.1:9001", "", 401},
		"another scheme":       {"127.0.0.1", token, "GET", "127.0.0.1:9001", "Basic " + secret, 401},
		"wrong token":          {"127.0.0.1", token, "GET", "127.0.0.1:9001", "Bearer " + secret + "x", 403},
		"part of the token":    {"127.0.0.1", token, "GET", "127.0.0.1:9001", "Bearer a", 403},
		"empty token":          {"127.0.0.1", token, "GET", "127.0.0.1:9001", "Bearer ", 403},
		"no token expected":    {"127.0.0.1", none, "GET", "127.0.0.1:9001", "Bearer ", 500},
		"unreadable":           {"127.0.0.1", failing, "GET", "127.0.0.1:9001", "Bearer " + secret, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := registry.Handler(Access{netip.MustParseAddr(c.listen), c.token}, slog.New(slog.NewTextHandler(&log, nil)))
			w := send(h, c.method, c.host, c.authorization)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Equal(t, c.status == 200, bytes.Contains(w.Body.Bytes(), []byte("orcas_build_info")))
			require.Equal(t, c.status == 401, w.Header().Get("WWW-Authenticate") != "")
			require.NotContains(t, log.String(), secret)
			require.NotContains(t, log.String(), "nil")
			require.NotContains(t, w.Body.String(), secret)
		})
	}
}

// TestClientOfAProxy: without a token, a client behind a trusted proxy on this machine does not get metrics.
func TestClientOfAProxy(t *testing.T) {
	registry, err := New(Build{})
	require.NoError(t, err)
	h := registry.Handler(Access{Listen: netip.MustParseAddr("127.0.0.1")}, slog.New(slog.DiscardHandler))
	for remote, status := range map[string]int{"127.0.0.1:80": 200, "[::1]:80": 200, "[::ffff:127.0.0.1]:80": 200, "192.0.2.1:0": 403, "": 403} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host, r.RemoteAddr = "127.0.0.1:9001", remote
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, remote)
	}
}

// TestUnreadableToken: the log says why the token cannot be read, but not for each request.
func TestUnreadableToken(t *testing.T) {
	registry, err := New(Build{})
	require.NoError(t, err)
	var log bytes.Buffer
	token := func() (string, error) { return "", errors.New("permission denied") }
	h := registry.Handler(Access{Token: token}, slog.New(slog.NewTextHandler(&log, nil)))
	for range 100 {
		require.Equal(t, 500, send(h, "GET", "example.org", "Bearer guess").Code)
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "%s", log.String())
	require.Contains(t, log.String(), "permission denied")
}

// TestEachReasonIsLogged: a stream of requests without a token, or with a wrong one, does not hide why the token cannot be
// read, or that the reason is now another one.
func TestEachReasonIsLogged(t *testing.T) {
	registry, err := New(Build{})
	require.NoError(t, err)
	var log bytes.Buffer
	reason := error(nil)
	token := func() (string, error) { return "a token of some length", reason }
	h := registry.Handler(Access{Token: token}, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 100 {
		for _, reason = range []error{nil, errors.New("others can read the file"), errors.New("no such file")} {
			send(h, "GET", "example.org", "")
			send(h, "GET", "example.org", "Bearer guess")
		}
		require.Equal(t, 4, bytes.Count(log.Bytes(), []byte("\n")), "round %d: %s", i, log.String())
	}
	for _, text := range []string{"status=401", "status=403", "status=500", "others can read the file", "no such file"} {
		require.Contains(t, log.String(), text)
	}
}

// TestCorrectTokenIsNeverRefused: wrong tokens do not lock out the correct one, and the log has one line about them.
func TestCorrectTokenIsNeverRefused(t *testing.T) {
	registry, err := New(Build{})
	require.NoError(t, err)
	var log bytes.Buffer
	token := func() (string, error) { return "a token of some length", nil }
	h := registry.Handler(Access{Token: token}, slog.New(slog.NewTextHandler(&log, nil)))
	for range 100 {
		require.Equal(t, 403, send(h, "GET", "example.org", "Bearer guess").Code)
	}
	require.Equal(t, 200, send(h, "GET", "example.org", "Bearer a token of some length").Code)
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("refused")))
}
