package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// TestWrongSignaturesAreSlowedDown counts the wrong signatures that each listener compares, over one connection and over
// many. The right secret works again when the clock says so, and other access keys work all the time.
func TestWrongSignaturesAreSlowedDown(t *testing.T) {
	config := testConfig(t)
	config.Admin, config.SelfSigned = "127.0.0.1:0", true
	config.Settings.Buckets = []string{"bucket"}
	var later atomic.Int64
	start := time.Now()
	clock := func() time.Time { return start.Add(time.Duration(later.Load())) }
	config.Now = clock
	var log syncedBuilder
	config.Log = &log
	s, _ := running(t, config)
	client := httpClient(t, s)
	once := &http.Client{Transport: &http.Transport{TLSClientConfig: client.Transport.(*http.Transport).TLSClientConfig, DisableKeepAlives: true}}
	send := func(c *http.Client, url, access, secret string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		signer := sigv4.Signer{AccessKey: access, SecretKey: secret, Region: "us-east-1"}
		signer.Sign(r, sigv4.EmptySHA256, clock())
		response, err := c.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response
	}
	root := s.Credentials()
	status, key, _ := ask(t, s, root.SecretKey, "POST", "/-/admin/key?name=app&bucket=bucket&access=read", "")
	require.Equal(t, 200, status)
	access := between(t, string(key), `"access_key": "`, `"`)
	secret := between(t, string(key), `"secret_key": "`, `"`)
	for _, c := range []struct {
		url            string
		burst, refused int
		every          time.Duration
		fewConnections int
	}{
		{s.Endpoint() + "/bucket", wrongSignatures, http.StatusServiceUnavailable, wrongSignaturesEvery, 10},
		{s.AdminEndpoint() + "/-/admin/user", wrongAdminSignatures, http.StatusTooManyRequests, wrongAdminSignaturesEvery, 5},
	} {
		for i := range c.burst {
			via := client
			if i < c.fewConnections {
				via = once
			}
			require.Equal(t, http.StatusForbidden, send(via, c.url, root.AccessKey, "wrong").StatusCode, i)
		}
		for _, secret := range []string{"wrong", root.SecretKey} {
			response := send(client, c.url, root.AccessKey, secret)
			require.Equal(t, c.refused, response.StatusCode)
			require.NotEmpty(t, response.Header.Get("Retry-After"))
		}
		require.Equal(t, http.StatusForbidden, send(client, c.url, access, "wrong").StatusCode, "another access key is not refused")
		later.Add(int64(c.every))
		require.Equal(t, http.StatusOK, send(client, c.url, root.AccessKey, root.SecretKey).StatusCode)
		require.Equal(t, http.StatusForbidden, send(client, c.url, root.AccessKey, "wrong").StatusCode)
		require.Equal(t, c.refused, send(client, c.url, root.AccessKey, "wrong").StatusCode)
	}
	require.Equal(t, http.StatusOK, send(client, s.Endpoint()+"/bucket", access, secret).StatusCode)
	require.NotContains(t, log.String(), root.SecretKey)
	require.Equal(t, 2, strings.Count(log.String(), "too many wrong signatures"))
}

// between returns the text between two others.
func between(t *testing.T, text, after, before string) string {
	_, rest, ok := strings.Cut(text, after)
	require.True(t, ok, text)
	found, _, ok := strings.Cut(rest, before)
	require.True(t, ok, text)
	return found
}
