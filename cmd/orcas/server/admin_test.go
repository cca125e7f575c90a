package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core/reclaim"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// ask makes a request of the admin listener, signed with a secret; "" signs nothing.
func ask(t *testing.T, s *Server, secret, method, path, body string) (int, []byte, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.adminListen.Addr().String()+path, strings.NewReader(body))
	require.NoError(t, err)
	if secret != "" {
		signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: secret, Region: "eu-west-1"}
		signer.Sign(r, sigv4.EmptySHA256, time.Now())
	}
	answer, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, text, answer.Header
}

func TestAdminGate(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	var log bytes.Buffer
	config.Log = &log
	s, stop := running(t, config)
	root := s.Credentials().SecretKey
	for _, c := range []struct {
		secret, method, path, body string
		status                     int
	}{
		{"", "GET", "/-/health/ready", "", 200},
		{"", "GET", "/-/admin/reclaim", "", 403},
		{"", "POST", "/-/admin/reclaim", "", 403},
		{"", "GET", "/-/admin/nothing", "", 403}, // who may not ask is not told what there is
		{"a wrong secret", "POST", "/-/admin/reclaim", "", 403},
		{root, "POST", "/-/admin/reclaim", "a body that was not signed", 403},
		{root, "GET", "/-/admin/nothing", "", 404},
		{root, "GET", "/", "", 404},
		{root, "DELETE", "/-/admin/reclaim", "", 405},
		{root, "POST", "/-/admin/reclaim?wait=perhaps", "", 400},
		{root, "GET", "/-/admin/reclaim", "", 200},
		{root, "POST", "/-/admin/reclaim", "", 200},
		{root, "GET", "/-/admin/scrub", "", 200},
		{root, "POST", "/-/admin/scrub?wait=true", "", 200},
		{root, "GET", "/-/admin/lifecycle", "", 200},
		{root, "POST", "/-/admin/lifecycle", "", 200},
		{root, "POST", "/-/admin/lifecycle?wait=true", "", 200},
		{root, "POST", "/-/admin/lifecycle?wait=1", "", 400},
		{root, "POST", "/-/admin/fsck?content=true", "", 200},
		{root, "POST", "/-/admin/fsck?content=1", "", 400},
		{root, "GET", "/-/admin/bucket?name=none", "", 404},
		{root, "POST", "/-/admin/bucket?name=none&compression=fast", "", 404},
		{root, "POST", "/-/admin/bucket?name=none", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&compression=best", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=1&max-objects=none", "", 404},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=0", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=-1", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-objects=", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-objects=9223372036854775808", "", 400},
		{root, "POST", "/-/admin/backup?dir=backups", "", 400},
		{root, "POST", "/-/admin/backup?dir=/b&keep=all", "", 400},
		{root, "POST", "/-/admin/backup?dir=" + filepath.Join(t.TempDir(), "backups"), "", 200},
	} {
		status, text, header := ask(t, s, c.secret, c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%+v: %s", c, text)
		require.True(t, json.Valid(text), "%s", text)
		if status == 405 {
			require.Equal(t, "GET, POST", header.Get("Allow"))
		}
	}
	status, text, _ := ask(t, s, root, "POST", "/-/admin/reclaim?wait=true", "")
	require.Equal(t, 200, status)
	var report reclaim.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.True(t, report.Full)
	require.Empty(t, report.Error)
	require.NoError(t, stop())
	require.NotContains(t, log.String(), root)
}

func TestBucketSettings(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"some-bucket"}
	s, stop := running(t, config)
	root := s.Credentials().SecretKey
	for _, level := range []string{"", "better", "off", "default"} {
		method, query := "GET", "?name=some-bucket"
		want := "default"
		if level != "" {
			method, query, want = "POST", query+"&compression="+level, level
		}
		status, text, _ := ask(t, s, root, method, "/-/admin/bucket"+query, "")
		require.Equal(t, 200, status, "%s", text)
		var b BucketSettings
		require.NoError(t, json.Unmarshal(text, &b))
		require.Equal(t, BucketSettings{Name: "some-bucket", Compression: want}, b)
	}
	ctx := context.Background()
	info, err := s.fs.Bucket(ctx, "some-bucket")
	require.NoError(t, err)
	content, err := s.fs.NewContent(ctx, info, 7)
	require.NoError(t, err)
	_, err = content.ReadFrom(strings.NewReader("content"))
	require.NoError(t, err)
	_, err = s.fs.Put(ctx, vfs.PutRequest{Bucket: info, Key: "key", Content: content})
	require.NoError(t, err)
	for _, c := range []struct {
		query string
		want  BucketSettings
	}{
		{"&max-bytes=100", BucketSettings{MaxBytes: 100, Bytes: 7, Objects: 1}},
		{"&max-objects=3&compression=fast", BucketSettings{Compression: "fast", MaxBytes: 100, MaxObjects: 3, Bytes: 7, Objects: 1}},
		{"&max-bytes=none", BucketSettings{Compression: "fast", MaxObjects: 3, Bytes: 7, Objects: 1}},
		{"&max-objects=none&compression=default", BucketSettings{}},
	} {
		status, text, _ := ask(t, s, root, "POST", "/-/admin/bucket?name=some-bucket"+c.query, "")
		require.Equal(t, 200, status, "%s", text)
		var b BucketSettings
		require.NoError(t, json.Unmarshal(text, &b))
		c.want.Name, c.want.Compression = "some-bucket", cmp.Or(c.want.Compression, "default")
		require.Equal(t, c.want, b)
	}
	require.NoError(t, stop())
}
