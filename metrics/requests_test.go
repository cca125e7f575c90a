package metrics

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

func routes(names ...string) (list []*gate.Route) {
	for _, n := range names {
		list = append(list, &gate.Route{Name: n})
	}
	return list
}

// text returns the metrics of a registry.
func text(t *testing.T, r *Registry) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	return b.String()
}

func TestRequests(t *testing.T) {
	r, err := New(Build{Version: "v1", Commit: "c", GoVersion: "go1"})
	require.NoError(t, err)
	requests := NewRequests(routes("PutObject", "GetObject", "CopyObject", "ListBuckets"))
	require.NoError(t, r.Add(requests, NewCounts("admin", routes("GetScrub"))))
	for _, e := range []gate.Event{
		{Operation: "PutObject", Status: 200, In: 4096, Took: 3 * time.Millisecond, FirstByte: 2 * time.Millisecond},
		{Operation: "PutObject", Status: 200, In: 4096, Took: 2500 * time.Microsecond, FirstByte: 2 * time.Millisecond},
		{Operation: "PutObject", Status: 403, Reason: gate.Authorization, Took: time.Hour, FirstByte: time.Microsecond},
		{Operation: "GetObject", Status: 206, Out: 100},
		{Operation: "GetObject", Status: 0, Out: 50},
		{Operation: "CopyObject", Status: 299},
		{Operation: "CopyObject", Status: 1000},
		{Status: 503, Reason: gate.InFlight},
		{Operation: "NoRoute", Status: 403, Reason: gate.Authentication},
		{Operation: "NoRoute", Status: 403, Reason: "no such reason"},
	} {
		requests.Observe(context.Background(), &e)
	}
	got := text(t, r)
	require.Contains(t, got, `orcas_build_info{commit="c",go_version="go1",version="v1"} 1`)
	for _, want := range []string{
		`orcas_s3_requests_total{operation="PutObject",status="200"} 2`,
		`orcas_s3_requests_total{operation="PutObject",status="403"} 1`,
		`orcas_s3_requests_total{operation="PutObject",status="503"} 0`,
		`orcas_s3_requests_total{operation="GetObject",status="206"} 1`,
		`orcas_s3_requests_total{operation="GetObject",status="none"} 1`,
		`orcas_s3_requests_total{operation="CopyObject",status="other"} 2`,
		`orcas_s3_requests_total{operation="Unknown",status="503"} 1`,
		`orcas_s3_requests_total{operation="Unknown",status="403"} 2`,
		`orcas_s3_request_duration_seconds_bucket{operation="PutObject",le="0.001"} 0`,
		`orcas_s3_request_duration_seconds_bucket{operation="PutObject",le="0.0025"} 1`,
		`orcas_s3_request_duration_seconds_bucket{operation="PutObject",le="0.005"} 2`,
		`orcas_s3_request_duration_seconds_bucket{operation="PutObject",le="300"} 2`,
		`orcas_s3_request_duration_seconds_bucket{operation="PutObject",le="+Inf"} 3`,
		`orcas_s3_request_duration_seconds_count{operation="PutObject"} 3`,
		`orcas_s3_request_duration_seconds_sum{operation="PutObject"} 3600.0055`,
		`orcas_s3_first_byte_seconds_count{operation="GetObject"} 0`,
		`orcas_s3_received_bytes_total{operation="PutObject"} 8192`,
		`orcas_s3_sent_bytes_total{operation="GetObject"} 150`,
		`orcas_s3_rejections_total{reason="authorization"} 1`,
		`orcas_s3_rejections_total{reason="authentication"} 1`,
		`orcas_s3_rejections_total{reason="in_flight"} 1`,
		`orcas_s3_rejections_total{reason="full_drive"} 0`,
		`orcas_admin_requests_total{operation="Unknown",status="403"} 0`,
	} {
		require.Contains(t, got, want+"\n")
	}
	require.NotContains(t, got, "ListBuckets", "an operation that was never used has no series")
	require.NotContains(t, got, "NoRoute", "labels come from the routes")
}

func TestStatusLabels(t *testing.T) {
	require.Less(t, len(statuses), maxStatuses)
	for i, s := range statuses {
		require.Equal(t, i+1, int(statusIndex[s]), s)
	}
	for _, s := range []int{http.StatusTeapot, http.StatusContinue} {
		require.Equal(t, "other", statusLabel(int(statusIndex[s])))
	}
	require.Equal(t, "404", statusLabel(int(statusIndex[404])))
}

// TestObserveDoesNotAllocate: metrics must not cost the requests anything that shows.
func TestObserveDoesNotAllocate(t *testing.T) {
	r, e := NewRequests(routes("GetObject", "PutObject")), event()
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Observe(context.Background(), e) }))
}

func event() *gate.Event {
	return &gate.Event{Operation: "PutObject", Status: 200, In: 4096, Out: 10, Took: 300 * time.Microsecond, FirstByte: 290 * time.Microsecond}
}

func BenchmarkObserve(b *testing.B) {
	r, e := NewRequests(routes("GetObject", "PutObject")), event()
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(context.Background(), e)
	}
}
