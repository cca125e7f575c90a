package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/backup"
	"orcas/server"
)

// serve runs a server on a data directory while fn uses it.
func serve(t *testing.T, data string, fn func(client *s3.Client, admin string)) {
	t.Helper()
	serveWith(t, data, []string{"ORCAS_MIN_FREE=0"}, fn)
}

// serveWith is serve with environment variables for the server.
func serveWith(t *testing.T, data string, environ []string, fn func(client *s3.Client, admin string)) {
	t.Helper()
	settings, err := server.ReadSettings(environ)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	s, err := server.Open(ctx, server.Config{Data: data, Address: "127.0.0.1:0", Admin: "127.0.0.1:0", Settings: settings})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	root := s.Credentials()
	fn(s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(root.AccessKey, root.SecretKey, ""),
	}), s.AdminAddress())
	stop()
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
}

// orcasExits runs a command, checks its exit status, and returns its output.
func orcasExits(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, status, run(args, nil, &out, &errs), "%q: %s%s", args, &out, &errs)
	return out.String(), errs.String()
}

// TestBackupAndRestore runs server, backup, check and restore from the command line.
func TestBackupAndRestore(t *testing.T) {
	base := t.TempDir()
	data, dir, again := filepath.Join(base, "data"), filepath.Join(base, "backups"), filepath.Join(base, "again")
	ctx := t.Context()
	body := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%d.", i), 10+i*i*40) }
	put := func(c *s3.Client, from, to int) {
		for i := from; i < to; i++ {
			_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprint(i)), Body: bytes.NewReader(body(i))})
			require.NoError(t, err)
		}
	}
	check := func(c *s3.Client, n int) {
		list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		require.Len(t, list.Contents, n)
		for i := range n {
			o, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprint(i))})
			require.NoError(t, err)
			got, err := io.ReadAll(o.Body)
			require.NoError(t, err)
			require.NoError(t, o.Body.Close())
			require.True(t, bytes.Equal(body(i), got))
		}
	}
	serve(t, data, func(c *s3.Client, admin string) {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		put(c, 0, 20)
		_, stderr := orcasExits(t, exitFailed, "backup", dir, "--data", data, "--admin-address", "127.0.0.1:1") // nothing listens there
		require.Contains(t, stderr, "is using "+data)
		stdout, _ := orcasExits(t, exitOK, "backup", dir, "--data", data, "--admin-address", admin)
		require.Contains(t, stdout, "backup 20")
		for _, what := range []string{"reclaim", "reclaim --wait", "reclaim --status", "scrub", "scrub --wait", "scrub --status",
			"lifecycle run", "lifecycle run --wait", "lifecycle status", "fsck --content", "bucket bucket", "keys status"} {
			stdout, _ := orcasExits(t, exitOK, append(strings.Fields("admin "+what), "--data", data, "--admin-address", admin)...)
			require.NotEmpty(t, stdout, what)
		}
	})
	serve(t, data, func(c *s3.Client, _ string) { put(c, 20, 60) })
	require.NoError(t, os.Remove(filepath.Join(data, "metadata.db"))) // a backup needs only the blocks
	stdout, _ := orcasExits(t, exitOK, "backup", dir, "--data", data, "--json")
	var report backup.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Less(t, report.CopiedBytes, report.Bytes, "the first backup contains some of the blocks already")
	orcasExits(t, exitOK, "backup", dir, "--check")

	names, err := os.ReadDir(filepath.Join(dir, "backups"))
	require.NoError(t, err)
	require.Len(t, names, 2)
	first := strings.TrimSuffix(names[0].Name(), ".json")
	orcasExits(t, exitOK, "backup", dir, "--check", first)
	orcasExits(t, exitOK, "restore", dir, "--data", filepath.Join(base, "old"), "--backup", first)
	serve(t, filepath.Join(base, "old"), func(c *s3.Client, _ string) { check(c, 20) })
	orcasExits(t, exitOK, "restore", dir, "--data", again)
	serve(t, again, func(c *s3.Client, _ string) { check(c, 60) })
	for _, f := range []string{server.CredentialsFile} {
		want, err := os.ReadFile(filepath.Join(data, f))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(again, f))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	_, stderr := orcasExits(t, exitFailed, "restore", dir, "--data", again)
	require.Contains(t, stderr, "not empty")
	stdout, _ = orcasExits(t, exitOK, "backup", dir, "--data", data, "--keep", "1", "--link")
	require.Contains(t, stdout, "removed: 2 backups")

	// The error names a damaged copy, and everything else is restored.
	blocks, err := filepath.Glob(filepath.Join(dir, "blocks", "*", "*", "*.large"))
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	require.NoError(t, os.Truncate(blocks[0], 100))
	_, stderr = orcasExits(t, exitFailed, "backup", dir, "--check")
	require.Contains(t, stderr, blocks[0])
	_, stderr = orcasExits(t, exitFailed, "restore", dir, "--data", filepath.Join(base, "part"))
	require.Contains(t, stderr, blocks[0])
	serve(t, filepath.Join(base, "part"), func(c *s3.Client, _ string) {
		list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		require.Len(t, list.Contents, 60)
	})
}

// TestAdminAtTheAddressOfS3: orcas admin explains the mistake if it gets the address of the S3 API.
func TestAdminAtTheAddressOfS3(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	serve(t, data, func(c *s3.Client, _ string) {
		address := strings.TrimPrefix(*c.Options().BaseEndpoint, "http://")
		_, stderr := orcasExits(t, exitFailed, "admin", "bucket", "name", "--data", data, "--admin-address", address)
		require.Equal(t, "orcas: "+address+" is not an admin API: it returned 404 Not Found (use the --admin-address of the server, not its --address, which serves S3)\n", stderr)
	})
}

// TestChunkSizeSurvives: the setting of a bucket is recorded in the blocks, so rebuild and restore keep it.
func TestChunkSizeSurvives(t *testing.T) {
	base := t.TempDir()
	data, dir, again := filepath.Join(base, "data"), filepath.Join(base, "backups"), filepath.Join(base, "again")
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	serve(t, data, func(c *s3.Client, admin string) {
		_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		target := []string{"--data", data, "--admin-address", admin}
		stdout, _ := orcasExits(t, exitOK, append(strings.Fields("admin bucket bucket"), target...)...)
		require.Equal(t, "bucket: compression default, chunks of 4MiB, no quota, public access: none\n"+
			"bucket: 0 objects (0 bytes), 0 noncurrent versions (0 bytes), 0 unfinished uploads (0 bytes)\n", stdout)
		_, stderr := orcasExits(t, exitFailed, append(strings.Fields("admin bucket bucket --chunk-size 100KiB"), target...)...)
		require.Contains(t, stderr, "chunk-size: 102400 bytes: expected a multiple of 256 KiB, at most 64 MiB")
		stdout, _ = orcasExits(t, exitOK, append(strings.Fields("admin bucket bucket --chunk-size 512KiB"), target...)...)
		require.Equal(t, "bucket: compression default, chunks of 512KiB, no quota, public access: none\n"+
			"bucket: 0 objects (0 bytes), 0 noncurrent versions (0 bytes), 0 unfinished uploads (0 bytes)\n", stdout)
		_, err = c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key"), Body: bytes.NewReader(body)})
		require.NoError(t, err)
	})
	check := func(data string) {
		orcasExits(t, exitOK, "fsck", "--data", data, "--content")
		serve(t, data, func(c *s3.Client, admin string) {
			stdout, _ := orcasExits(t, exitOK, "admin", "bucket", "bucket", "--data", data, "--admin-address", admin)
			require.Contains(t, stdout, "chunks of 512KiB")
			o, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
			require.NoError(t, err)
			got, err := io.ReadAll(o.Body)
			require.NoError(t, err)
			require.NoError(t, o.Body.Close())
			require.True(t, bytes.Equal(body, got))
		})
	}
	require.NoError(t, os.Remove(filepath.Join(data, "metadata.db")))
	orcasExits(t, exitOK, "rebuild", "--data", data)
	check(data)
	orcasExits(t, exitOK, "backup", dir, "--data", data)
	orcasExits(t, exitOK, "restore", dir, "--data", again)
	orcasExits(t, exitOK, "rebuild", "--data", again)
	check(again)
}
