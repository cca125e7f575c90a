package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
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
	require.Equal(t, inServer, inPage, "the metrics of a server (expected) and docs/metrics.md (actual) differ")
	var text strings.Builder
	require.NoError(t, s.counts.registry.Write(&text))
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (orcas_\S+) (\S+)$`).FindAllStringSubmatch(text.String(), -1) {
		require.Equal(t, types[m[1]], m[2], m[1])
	}
}
