package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

var keys = Keys{Access: "access", Secret: "secret-key"}

// newServer starts a server that verifies requests and echoes them. It is closed at the end of the test.
func newServer(t *testing.T) *httptest.Server {
	verifier := &sigv4.Verifier{Region: "us-east-1", Lookup: func(_ context.Context, k, _ string) (sigv4.Credential, error) {
		if k != keys.Access {
			return sigv4.Credential{}, nil
		}
		return sigv4.Credential{SecretKey: keys.Secret}, nil
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth, err := verifier.Verify(r)
		if err != nil {
			var refused *sigv4.Error
			_ = errors.As(err, &refused)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", refused.Code)
			return
		}
		body, err := auth.Body(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		content, err := io.ReadAll(body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("ETag", `"tag"`)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("X-Amz-Meta-N"), content)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns several requests, each with the response of newServer as its key.
func requests() map[string]*Request {
	return map[string]*Request{
		"GET /bucket list-type=2  ": {Method: http.MethodGet, Path: "/bucket", Query: "list-type=2"},
		"PUT /bucket/a b+c/ä%2F  value content": {Method: http.MethodPut, Path: "/bucket/a b+c/ä%2F",
			Header: []Header{{Name: "X-Amz-Meta-N", Value: "value"}}, Body: []byte("content")},
		"PUT /bucket/large   " + strings.Repeat("x", 100_000): {Method: http.MethodPut, Path: "/bucket/large", Body: []byte(strings.Repeat("x", 100_000)),
			Hash: sigv4.UnsignedPayload},
	}
}

// TestConnSigns: the server receives each request unchanged, with a valid signature, in every mode of signing.
func TestConnSigns(t *testing.T) {
	s := newServer(t)
	address, err := url.Parse(s.URL)
	require.NoError(t, err)
	for _, mode := range []Signing{Signed, Unsigned, Chunked, Trailer} {
		target := NewTarget(address.Host, keys, "us-east-1")
		target.Signing = mode
		c := NewConn(t.Context(), target)
		for want, q := range requests() {
			if mode == Signed && q.Hash == "" && len(q.Body) > 0 {
				q.Hash = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" // of "content"
			}
			q.Keep = true
			a, err := c.Do(q)
			require.NoError(t, err)
			require.Equal(t, 200, a.Status, "%s %s", mode, a.Body)
			require.Equal(t, want, string(a.Body))
		}
		require.NoError(t, c.Close())
	}
}
