package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/reclaim"
	"orcas/s3/bucketaccess"
	"orcas/vfs"
)

// ask sends a request to the admin listener, signed with a secret key, or unsigned if the secret is "".
func ask(t *testing.T, s *Server, secret, method, path, body string) (int, []byte, http.Header) {
	t.Helper()
	return askWith(t, s, s.Credentials().AccessKey, secret, method, path, body)
}

// askWith is ask with another access key.
func askWith(t *testing.T, s *Server, access, secret, method, path, body string) (int, []byte, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.adminListen.Addr().String()+path, strings.NewReader(body))
	require.NoError(t, err)
	if secret != "" {
		signer := sigv4.Signer{AccessKey: access, SecretKey: secret, Region: "eu-west-1"}
		signer.Sign(r, sigv4.EmptySHA256, time.Now())
	}
	response, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, text, response.Header
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
		{"", "GET", "/-/admin/nothing", "", 403}, // without credentials, the response does not reveal which paths exist
		{"a wrong secret", "POST", "/-/admin/reclaim", "", 403},
		{root, "POST", "/-/admin/reclaim", "a body that was not signed", 403},
		{root, "GET", "/-/admin/nothing", "", 404},
		{root, "GET", "/nothing", "", 404},
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
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=0", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=128KiB", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=300KiB", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=65MiB", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=1M", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&chunk-size=64MiB", "", 404},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=1&max-objects=none", "", 404},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=0", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=-1", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-bytes=10M", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-objects=", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-objects=1KiB", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&max-objects=9223372036854775808", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&public=read", "", 404},
		{root, "POST", "/-/admin/bucket?name=none&public=custom", "", 400},
		{root, "POST", "/-/admin/bucket?name=none&public=", "", 400},
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
	require.Contains(t, log.String(), "admin request")
	require.NotContains(t, log.String(), "null")
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
		var b admin.BucketSettings
		require.NoError(t, json.Unmarshal(text, &b))
		require.Equal(t, admin.BucketSettings{Name: "some-bucket", Compression: want, ChunkSize: 4 << 20, Public: bucketaccess.PublicNone}, b)
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
		want  admin.BucketSettings
	}{
		{"&max-bytes=100", admin.BucketSettings{MaxBytes: 100, Bytes: 7, Objects: 1}},
		{"&max-objects=3&compression=fast", admin.BucketSettings{Compression: "fast", MaxBytes: 100, MaxObjects: 3, Bytes: 7, Objects: 1}},
		{"&max-bytes=1.5KiB", admin.BucketSettings{Compression: "fast", MaxBytes: 1536, MaxObjects: 3, Bytes: 7, Objects: 1}},
		{"&max-bytes=none", admin.BucketSettings{Compression: "fast", MaxObjects: 3, Bytes: 7, Objects: 1}},
		{"&max-objects=none&compression=default", admin.BucketSettings{}},
	} {
		status, text, _ := ask(t, s, root, "POST", "/-/admin/bucket?name=some-bucket"+c.query, "")
		require.Equal(t, 200, status, "%s", text)
		var b admin.BucketSettings
		require.NoError(t, json.Unmarshal(text, &b))
		c.want.Name, c.want.Compression, c.want.ChunkSize = "some-bucket", cmp.Or(c.want.Compression, "default"), 4<<20
		c.want.Public, c.want.Holds = bucketaccess.PublicNone, admin.Holds{Objects: 1, Bytes: 7}
		require.Equal(t, c.want, b)
	}
	require.NoError(t, stop())
}

// TestBucketChunkSize: the chunk size of a bucket, small or large, applies to new content of plain, compressed and
// multipart objects; stored content keeps its chunks.
func TestBucketChunkSize(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"some-bucket"}
	s, _ := running(t, config)
	ctx := t.Context()
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true, HTTPClient: httpClient(t, s),
		Credentials: credentials.NewStaticCredentialsProvider(s.Credentials().AccessKey, s.Credentials().SecretKey, ""),
	})
	bucket, bodies, extents := aws.String("some-bucket"), map[string][]byte{}, map[string]int{}
	put := func(key string, size, chunks int) {
		body := bytes.Repeat([]byte(key+" is not like any other. "), size/20)[:size]
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(body)})
		require.NoError(t, err)
		bodies[key], extents[key] = body, chunks
	}
	set := func(query, want string) {
		status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/bucket?name=some-bucket&"+query, "")
		require.Equal(t, 200, status, "%s", text)
		require.Contains(t, string(text), want)
	}
	put("default", 5<<20, 2)
	set("chunk-size=256KiB", `"chunk_size": 262144`)
	put("small chunks", 5<<20+1, 21)
	set("compression=better", `"chunk_size": 262144`)
	put("compressed", 3<<20, 12)
	set("chunk-size=8MiB&compression=off", `"chunk_size": 8388608`)
	put("large chunks", 9<<20, 2)
	upload, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("parts")})
	require.NoError(t, err)
	set("chunk-size=1MiB", `"chunk_size": 1048576`)
	bodies["parts"], extents["parts"] = bytes.Repeat([]byte("a part of it. "), 400_000)[:5<<20], 5
	part, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: aws.String("parts"), UploadId: upload.UploadId, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(bodies["parts"])})
	require.NoError(t, err)
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: aws.String("parts"), UploadId: upload.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.ETag}}}})
	require.NoError(t, err)
	set("chunk-size=default", `"chunk_size": 4194304`)

	info, err := s.fs.Bucket(ctx, "some-bucket")
	require.NoError(t, err)
	for key, body := range bodies {
		o, err := s.fs.Stat(ctx, info, key, core.Current)
		require.NoError(t, err)
		segments := o.Segments
		if o.List != 0 {
			parts, err := s.meta.Parts(ctx, o.List, 0, 10, core.WithContent)
			require.NoError(t, err)
			require.Len(t, parts, 1)
			segments = parts[0].Segments
		}
		require.Len(t, segments, 1)
		require.Len(t, segments[0].Info.Extents, extents[key], key)
		for _, r := range [][2]int{{0, len(body)}, {256<<10 - 1, 256<<10 + 1}, {1<<20 - 3, 2<<20 + 3}, {len(body) - 1, len(body)}} {
			got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key), Range: aws.String(fmt.Sprintf("bytes=%d-%d", r[0], r[1]-1))})
			require.NoError(t, err)
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.NoError(t, got.Body.Close())
			require.True(t, bytes.Equal(body[r[0]:r[1]], text), "%s %v", key, r)
		}
	}
	status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/fsck?content=true", "")
	require.Equal(t, 200, status)
	require.Contains(t, string(text), `"found": 0`)
}
