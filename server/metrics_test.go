package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/metrics"
)

// scrape returns the response to GET /metrics, with a token unless it is "".
func scrape(t *testing.T, s *Server, token string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.AdminAddress()+"/metrics", nil)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// requireMetric waits until /metrics has a line. A request is counted just after its response was sent.
func requireMetric(t *testing.T, s *Server, line string) {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		_, text = scrape(t, s, "")
		return strings.Contains(text, line+"\n")
	}, time.Minute, 10*time.Millisecond, "%s", line)
}

func TestMetricsCountRequests(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"bucket"}
	s, _ := running(t, config)
	c, ctx := client(t, s), context.Background()
	for i := range 5 {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprint(i)), Body: strings.NewReader("hello")})
		require.NoError(t, err)
	}
	_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("none")})
	require.Error(t, err)
	response, err := httpClient(t, s).Get(s.Endpoint() + "/bucket/0")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	for _, line := range []string{
		`orcas_s3_requests_total{operation="PutObject",status="200"} 5`,
		`orcas_s3_requests_total{operation="GetObject",status="404"} 1`,
		`orcas_s3_requests_total{operation="GetObject",status="403"} 1`,
		`orcas_s3_received_bytes_total{operation="PutObject"} 25`,
		`orcas_s3_request_duration_seconds_count{operation="PutObject"} 5`,
		`orcas_s3_first_byte_seconds_count{operation="PutObject"} 5`,
		`orcas_s3_rejections_total{reason="authorization"} 1`,
		`orcas_s3_rejections_total{reason="authentication"} 0`,
		`orcas_s3_requests_in_flight 0`,
	} {
		requireMetric(t, s, line)
	}
	_, _, _ = askWith(t, s, s.Credentials().AccessKey, s.Credentials().SecretKey, "GET", "/-/admin/scrub", "")
	requireMetric(t, s, `orcas_admin_requests_total{operation="GetScrub",status="200"} 1`)
}

// value returns the value of a series in the text of metrics.
func value(t *testing.T, text, series string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			require.NoError(t, err, line)
			return f
		}
	}
	require.Fail(t, "there is no series "+series, text)
	return 0
}

// TestMetricsOfTheStore: each part of a server feeds its metrics, and the last values are in a file after a stop.
func TestMetricsOfTheStore(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"bucket"}
	s, stop := running(t, config)
	c, ctx := client(t, s), context.Background()
	require.Eventually(t, func() bool { r := s.survey.Last(); return r != nil && !r.SpaceAt.IsZero() }, time.Minute, time.Millisecond)
	for i := range 3 {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprint(i)), Body: strings.NewReader("hello")})
		require.NoError(t, err)
		for range 2 {
			out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprint(i))})
			require.NoError(t, err)
			require.NoError(t, out.Body.Close())
		}
	}
	for _, path := range []string{"/-/admin/scrub?wait=true", "/-/admin/lifecycle?wait=true", "/-/admin/reclaim?wait=true"} {
		status, body, _ := askWith(t, s, s.Credentials().AccessKey, s.Credentials().SecretKey, "POST", path, "")
		require.Equal(t, 200, status, string(body))
	}
	checkpointer, ok := core.As[core.Checkpointer](s.meta)
	require.True(t, ok)
	require.NoError(t, checkpointer.Checkpoint(ctx))
	_, text := scrape(t, s, "")
	for series, least := range map[string]float64{
		"orcas_batch_objects_count": 3, "orcas_batch_objects_sum": 3, "orcas_batch_bytes_sum": 15,
		"orcas_batch_commit_seconds_count": 3, "orcas_batch_apply_seconds_count": 3, "orcas_fdatasync_seconds_count": 3,
		`orcas_checkpoints_total{result="ok"}`: 1, "orcas_checkpoint_seconds_count": 1,
		`orcas_cache_hits_total{cache="objects"}`: 3, `orcas_cache_misses_total{cache="objects"}`: 3,
		`orcas_cache_hits_total{cache="buckets"}`: 6, `orcas_cache_bytes{cache="objects"}`: 300,
		`orcas_cache_bytes{cache="buckets"}`: 100, "orcas_drive_free_bytes": 1, "orcas_drive_total_bytes": 1,
		`orcas_state{state="ready"}`: 1, `orcas_connections_open{listener="admin"}`: 1, "orcas_scrub_progress_ratio": 1,
		`orcas_background_last_success_timestamp_seconds{work="reclaim"}`:   seconds(s.counts.started),
		`orcas_background_last_success_timestamp_seconds{work="scrub"}`:     seconds(s.counts.started),
		`orcas_background_last_success_timestamp_seconds{work="lifecycle"}`: seconds(s.counts.started),
	} {
		require.GreaterOrEqual(t, value(t, text, series), least, series)
	}
	for _, series := range []string{
		`orcas_state{state="readonly"}`, "orcas_writes_refused", "orcas_missing_blocks", "orcas_lost_objects",
		"orcas_batch_errors_total", "orcas_scrub_errors_found_total", "orcas_pinned_bytes", "orcas_replayed_changes",
		`orcas_checkpoints_total{result="error"}`, `orcas_connections_closed_total{listener="s3",reason="limit"}`,
	} {
		require.Zero(t, value(t, text, series), series)
	}
	require.NoError(t, stop())
	saved, err := os.ReadFile(filepath.Join(config.Data, MetricsFile))
	require.NoError(t, err)
	require.Contains(t, string(saved), `orcas_s3_requests_total{operation="PutObject",status="200"} 3`+"\n")
	require.Equal(t, 1.0, value(t, string(saved), `orcas_state{state="stopping"}`))
	require.Equal(t, 15.0, value(t, string(saved), "orcas_store_logical_bytes"))
}

// drive has the space of a drive, or an error.
type drive struct {
	core.Blocks
	free, total int64
	err         error
}

func (d *drive) Space(context.Context) (free, total int64, err error) { return d.free, d.total, d.err }

// exported returns the text of metrics.
func exported(t *testing.T, list []prometheus.Collector) string {
	t.Helper()
	r, err := metrics.New(metrics.Build{})
	require.NoError(t, err)
	require.NoError(t, r.Add(list...))
	var text strings.Builder
	require.NoError(t, r.Write(&text))
	return text.String()
}

// TestUnknownSpaceIsNotAFullDrive: while the space on the drive cannot be determined, it has no metrics. Each failure is
// logged once.
func TestUnknownSpaceIsNotAFullDrive(t *testing.T) {
	var log bytes.Buffer
	d := &drive{free: 300, total: 1000}
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	s.blocks = d
	s.config.Settings.MinFree = Reserve{Bytes: 10}
	list := readings{s}.driveMetrics()
	for failures := range 3 {
		require.Equal(t, failures, strings.Count(log.String(), "\n"), "%s", log.String())
		d.err = nil
		text := exported(t, list)
		for series, want := range map[string]float64{"free": 300, "total": 1000, "reserve": 10} {
			require.Equal(t, want, value(t, text, "orcas_drive_"+series+"_bytes"))
		}
		d.err = errors.New("the drive does not respond")
		for range 5 {
			require.NotContains(t, exported(t, list), "orcas_drive")
		}
		require.Contains(t, log.String(), d.err.Error())
	}
}

// TestUnknownExpiryIsNotInThePast: a certificate without an end that is known has no metric.
func TestUnknownExpiryIsNotInThePast(t *testing.T) {
	const metric = "orcas_certificate_expiry_timestamp_seconds"
	now := time.Now()
	c := &certificate{now: func() time.Time { return now }, checked: now, pair: &tls.Certificate{}}
	s := &Server{listener: newLimitListener(nil, 1, 0), view: view{cert: c}}
	list := readings{s}.connectionMetrics()
	require.NotContains(t, exported(t, list), metric)
	c.pair = &tls.Certificate{Leaf: &x509.Certificate{NotAfter: now}}
	require.InDelta(t, seconds(now), value(t, exported(t, list), metric+`{listener="s3"}`), 1)
}

// TestMetricsFileCannotBeWritten: a stop succeeds even so.
func TestMetricsFileCannotBeWritten(t *testing.T) {
	config := testConfig(t)
	var log bytes.Buffer
	config.Log = &log
	s, stop := running(t, config)
	require.NoError(t, os.MkdirAll(filepath.Join(s.config.Data, MetricsFile, "in the way"), 0o700))
	require.NoError(t, stop())
	require.Contains(t, log.String(), "the final values of the metrics could not be saved")
}

func TestMetricsToken(t *testing.T) {
	const first, second = "the-first-token-of-all", "the-second-token-of-all"
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o440, 0o400} {
		_ = os.Remove(path)
		write(first+"\n", mode)
		_, err := ReadSettings([]string{metricsTokenVariable + "=" + path})
		require.NoError(t, err, "mode %o", mode)
	}
	mounted := filepath.Join(t.TempDir(), "token") // as Kubernetes mounts a secret
	require.NoError(t, os.Symlink(filepath.Base(filepath.Dir(path)), filepath.Join(filepath.Dir(filepath.Dir(path)), "..data")))
	require.NoError(t, os.Symlink(filepath.Join(filepath.Dir(filepath.Dir(path)), "..data", "token"), mounted))
	_, err := ReadSettings([]string{metricsTokenVariable + "=" + mounted})
	require.NoError(t, err)
	for mode, text := range map[os.FileMode]string{0o644: first, 0o660: first, 0o604: first, 0o600: "short", 0o400: "two tokens with spaces\nand lines"} {
		_ = os.Remove(path)
		write(text, mode)
		_, err := ReadSettings([]string{metricsTokenVariable + "=" + path})
		require.ErrorContains(t, err, metricsTokenVariable)
		require.NotContains(t, err.Error(), text)
	}
	_ = os.Remove(path)
	write(first+"\n", 0o600)
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.MetricsTokenFile = path
	s, _ := running(t, config)
	for token, want := range map[string]int{first: 200, "": 401, second: 403} {
		status, text := scrape(t, s, token)
		require.Equal(t, want, status, text)
	}
	write(second, 0o640)
	for token, want := range map[string]int{first: 403, second: 200} {
		status, _ := scrape(t, s, token)
		require.Equal(t, want, status, "a new token works at once")
	}
	require.NoError(t, os.Remove(path))
	status, text := scrape(t, s, second)
	require.Equal(t, 500, status)
	require.NotContains(t, text, second)
}

// TestMetricsOfManyBuckets: the response has every series of 1,000 buckets.
func TestMetricsOfManyBuckets(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	for i := range metrics.MaxBuckets {
		config.Settings.Buckets = append(config.Settings.Buckets, fmt.Sprintf("bucket-%04d", i))
	}
	s, _ := running(t, config)
	requireMetric(t, s, "orcas_buckets 1000")
	begun := time.Now()
	status, text := scrape(t, s, "")
	t.Logf("%d bytes in %v", len(text), time.Since(begun))
	require.Equal(t, 200, status)
	for _, m := range []string{"objects", "versions", "bytes", "noncurrent_bytes", "uploads", "upload_bytes"} {
		require.Equal(t, metrics.MaxBuckets, strings.Count(text, "\norcas_bucket_"+m+`{bucket="bucket-`), m)
	}
}

// documentedMetric matches the rows of the tables of metrics.
var documentedMetric = regexp.MustCompile("(?m)^\\| `(orcas_[a-z0-9_]+)(\\{[a-z_,]*\\})?` \\| (counter|gauge|histogram) \\| ")

// described matches a description of client_golang.
var described = regexp.MustCompile(`fqName: "(orcas_[a-z0-9_]+)".*variableLabels: (\{[^}]*\})`)

// TestDocumentHasEveryMetric compares docs/metrics.md with the metrics of a server that has all of them: the names, the
// labels, and the types of those that have values.
func TestDocumentHasEveryMetric(t *testing.T) {
	config := testConfig(t)
	config.Admin, config.AdminSelfSigned = "127.0.0.1:0", true
	config.SelfSigned = true
	config.Settings.Durability, config.Settings.Window = Relaxed, time.Second
	s, _ := running(t, config)
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	var inPage, inServer []string
	types := map[string]string{}
	for _, m := range documentedMetric.FindAllStringSubmatch(string(page), -1) {
		inPage = append(inPage, m[1]+m[2])
		types[m[1]] = m[3]
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		s.counts.registry.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			inServer = append(inServer, m[1]+strings.TrimSuffix(m[2], "{}"))
		}
	}
	slices.Sort(inPage)
	slices.Sort(inServer)
	inServer = slices.Compact(inServer) // a metric is described once for each of its series
	require.Equal(t, inServer, inPage, "the metrics of a server (expected) and docs/metrics.md (actual) differ")
	var text strings.Builder
	require.NoError(t, s.counts.registry.Write(&text))
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (orcas_\S+) (\S+)$`).FindAllStringSubmatch(text.String(), -1) {
		require.Equal(t, types[m[1]], m[2], m[1])
	}
}

// BenchmarkScrape collects the metrics of a server with 1,000 buckets.
func BenchmarkScrape(b *testing.B) {
	settings, err := ReadSettings([]string{"ORCAS_MIN_FREE=0"})
	require.NoError(b, err)
	for i := range 1000 {
		settings.Buckets = append(settings.Buckets, fmt.Sprintf("bucket-%d", i))
	}
	s, err := Open(context.Background(), Config{Data: filepath.Join(b.TempDir(), "data"), Address: "127.0.0.1:0", Settings: settings})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	for b.Loop() {
		require.NoError(b, s.counts.registry.Write(io.Discard))
	}
}
