package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/watch"
)

// TestTraceText: a line has the important fields, and nothing that could change what a terminal shows.
func TestTraceText(t *testing.T) {
	e := watch.Event{
		API: "s3", Operation: "PutObject", Bucket: "bucket", Key: "a\x1b[2J\n\u202eb ä", Status: 403, Code: "AccessDenied", Reason: "authorization", In: 7, Took: 1500,
		Address: "192.0.2.1:7",
	}
	line := traceText(&admin.TraceLine{Event: &e})
	require.Contains(t, line, ` 403 PutObject            1.5ms bucket/a\x1b[2J\n\u202eb ä in=7 out=0 AccessDenied reason=authorization anonymous 192.0.2.1:7`)
	require.Equal(t, 1, strings.Count(line, "\n"))
	e = watch.Event{API: "iam", Method: "POST", Target: "UserName=alice", Principal: "arn"}
	require.Contains(t, traceText(&admin.TraceLine{Event: &e}), " 000 iam:POST                0s UserName=alice in=0 out=0 arn ")
}

// TestTopText: rates are per second, and tables without rows are left out.
func TestTopText(t *testing.T) {
	now := time.Now()
	text := topText(&admin.TopLine{
		Time: &now, Load: &admin.Load{InFlight: 3, Connections: 4, Queue: 5},
		Rates: &watch.Rates{Seconds: 2, All: watch.Rate{Requests: 20, In: 4096, Half: 1500, Most: 12_345_678},
			Buckets: []watch.Rate{{Name: "bucket", Requests: 10, Errors: 1}}},
	})
	require.Contains(t, text, "10 requests/s, 0.0 errors/s, in 2.0 KiB/s, out 0 bytes/s, p50 1.5ms, p99 12s\n3 requests in flight, 4 connections, 5 writes queued")
	require.Contains(t, text, "\nbucket                                  5.0        0.5")
	require.NotContains(t, text, "OPERATION")
}

// TestStatusText: work that has not succeeded yet, and figures that are not known yet, are named as such.
func TestStatusText(t *testing.T) {
	text := func(s *admin.Status) string {
		var out strings.Builder
		writeStatus(&out, s)
		return out.String()
	}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	s := &admin.Status{Work: []admin.Work{
		{Name: "reclaim", Enabled: true, Running: true, Success: &at},
		{Name: "scrub", Running: true},
		{Name: "lifecycle", Enabled: true, Success: &at, Error: "broken"},
		{Name: "survey"},
	}, Scrub: admin.ScrubState{Progress: 0.5, Found: 3, Repaired: 2, Damaged: 1}}
	for _, line := range []string{
		"drive          not known",
		"store          not known yet: the first survey is running",
		"reclaim        running; last succeeded 2026-11-23 12:00:00",
		"scrub          running, 50 %; no success since the server started; damage found: 3, repaired: 2, remaining: 1",
		"lifecycle      waiting; last succeeded 2026-11-23 12:00:00; the last attempt failed",
		"survey         only on request; no success since the server started",
	} {
		require.Contains(t, text(s), line+"\n")
	}
	s.Store = &admin.Holdings{Buckets: 1, Objects: 2, Versions: 3}
	require.Contains(t, text(s), "store          1 bucket, 2 objects, 3 versions\nspace          not known yet")
	s.Store.Space = &admin.Space{Logical: 4096, Stored: 3072, Live: 2048, Reclaimable: 1024, Deduplication: 1.25, Compression: 1.6}
	require.Contains(t, text(s), "space          4.0 KiB of versions and parts; 3.0 KiB stored, of it 2.0 KiB live and 1.0 KiB reclaimable\n"+
		"ratios         deduplication 1.25, compression 1.60\n")
}

// TestHealth: the exit status is 0 only if the server is healthy.
func TestHealth(t *testing.T) {
	status, body := http.StatusOK, `{"status":"ready"}`
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/-/health/live" {
			_, _ = w.Write([]byte(`{"status":"live"}`))
			return
		}
		if r.URL.Path != "/-/health/ready" || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	s, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer s.Close()
	defer secure.Close()
	address := strings.TrimPrefix(s.URL, "http://")
	check := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		require.Equal(t, want, run(append([]string{"health"}, args...), nil, &out, &errs), "%s", errs.String())
		return out.String() + errs.String()
	}
	require.Equal(t, "ready\n", check(0, "--address", address))
	require.Empty(t, check(0, "--quiet", "--address", address))
	require.Equal(t, "ready\n", check(0, "--address", secure.URL))
	host := strings.TrimPrefix(secure.URL, "https://")
	require.Equal(t, "orcas: the server at "+host+" uses TLS: use --address https://"+host+"\n", check(1, "--address", host))
	body = `{"status":"ready","drive_full":true}`
	require.Equal(t, "ready, but the drive is full: PUT is refused\n", check(0, "--address", address))
	status, body = http.StatusServiceUnavailable, `{"status":"readonly"}`
	require.Contains(t, check(1, "--address", address), "is not healthy: readonly")
	require.Equal(t, "live\n", check(0, "--live", "--address", address))
	status, body = http.StatusOK, "<html>"
	require.Contains(t, check(1, "--address", address), "is not healthy: 200 OK")
	s.Close()
	require.Contains(t, check(1, "--address", address), "connection refused")
	require.Contains(t, check(2, "--address", "host"), "expected HOST:PORT")
	for given, want := range map[string]string{
		"0.0.0.0:9000": "http://localhost:9000/-/health/ready", ":9000": "http://localhost:9000/-/health/ready",
		"https://[::]:9": "https://localhost:9/-/health/ready", "[::1]:9": "http://[::1]:9/-/health/ready",
	} {
		got, err := (&healthCommand{Address: given}).url()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
