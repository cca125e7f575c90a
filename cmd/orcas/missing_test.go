package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"orcas/fsck"
)

// quiet and allowing are environments for servers with as little background work as possible. With allowing, the server
// accepts writes even if blocks are missing.
var (
	quiet    = []string{"ORCAS_MIN_FREE=0", "ORCAS_SCRUB_DAYS=0", "ORCAS_LIFECYCLE_INTERVAL_SEC=0"}
	allowing = append(slices.Clone(quiet), "ORCAS_ALLOW_MISSING_BLOCKS=true")
)

// requireHealth waits until the comparison at startup has ended, and then checks the health.
func requireHealth(t *testing.T, c *s3.Client, status int, state string) {
	t.Helper()
	var got struct {
		Status    string
		Comparing bool `json:"comparing_blocks"`
	}
	var code int
	require.Eventually(t, func() bool {
		r, err := http.Get(*c.Options().BaseEndpoint + "/-/health/ready")
		require.NoError(t, err)
		defer r.Body.Close()
		code = r.StatusCode
		got.Comparing = false
		require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
		return !got.Comparing
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, state, got.Status)
	require.Equal(t, status, code)
}

// once disables retries of a request.
func once(o *s3.Options) { o.RetryMaxAttempts = 1 }

func putObject(t *testing.T, c *s3.Client, key string, body []byte) error {
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("plain"), Key: &key, Body: bytes.NewReader(body)}, once)
	return err
}

// get reads an object to its end.
func get(t *testing.T, c *s3.Client, key string) error {
	o, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("plain"), Key: &key}, once)
	if err != nil {
		return err
	}
	defer o.Body.Close()
	_, err = io.Copy(io.Discard, o.Body)
	return err
}

// requireReadOnly checks that err is the response of a server that accepts no writes.
func requireReadOnly(t *testing.T, err error) {
	t.Helper()
	var response *awshttp.ResponseError
	require.ErrorAs(t, err, &response)
	require.Equal(t, http.StatusServiceUnavailable, response.HTTPStatusCode())
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, "ServiceUnavailable", api.ErrorCode())
	require.Contains(t, api.ErrorMessage(), "read-only because stored blocks are missing")
}

// lostOf returns the objects that orcas admin lost --json prints, by bucket, key and version or upload.
func lostOf(t *testing.T, data, admin string, status int) map[string]fsck.LostObject {
	t.Helper()
	stdout, stderr := orcasExits(t, status, "admin", "lost", "--json", "--data", data, "--admin-address", admin)
	lost := map[string]fsck.LostObject{}
	for line := range strings.Lines(stdout) {
		var o fsck.LostObject
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		lost[o.Bucket+"/"+o.Key+"/"+o.Version+o.Upload] = o
	}
	require.Equal(t, status == exitFailed, strings.Contains(stderr, "are lost"), stderr)
	return lost
}

// deleteLost deletes lost objects and aborts lost uploads. Afterwards no block may be missing.
func deleteLost(t *testing.T, c *s3.Client, data, admin string) {
	for _, o := range lostOf(t, data, admin, exitFailed) {
		if o.Upload != "" {
			_, err := c.AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: &o.Bucket, Key: &o.Key, UploadId: &o.Upload})
			require.NoError(t, err)
			continue
		}
		_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &o.Bucket, Key: &o.Key, VersionId: &o.Version})
		require.NoError(t, err)
	}
	orcasExits(t, exitOK, "admin", "reclaim", "--wait", "--data", data, "--admin-address", admin)
	stdout, _ := orcasExits(t, exitOK, "admin", "lost", "--data", data, "--admin-address", admin)
	require.Equal(t, "no block is missing\n", stdout)
}

// TestEmptiedBlocks: if the file system with the blocks is not mounted, every command that would use the block
// directory refuses to, and does not change it.
func TestEmptiedBlocks(t *testing.T) {
	dir := filled(t)
	blocks := filepath.Join(dir, "blocks")
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) { requireHealth(t, c, 200, "ready") })
	require.NoError(t, os.Rename(blocks, blocks+".away"))
	require.NoError(t, os.Mkdir(blocks, 0o700))
	for _, command := range [][]string{
		{"server", "--data", dir, "--address", "127.0.0.1:0", "--admin-address", "none"},
		{"fsck", "--data", dir},
		{"fsck", "--data", dir, "--repair"},
		{"rebuild", "--data", dir, "--lossy"},
		{"backup", t.TempDir(), "--data", dir},
	} {
		_, stderr := orcasExits(t, exitFailed, command...)
		require.Contains(t, stderr, blocks+" contains neither blocks nor the file STORE, but the database refers to blocks")
		require.Contains(t, stderr, "--allow-missing-blocks")
		left, err := os.ReadDir(blocks)
		require.NoError(t, err)
		require.Empty(t, left, command)
	}
	stdout, _ := orcasExits(t, exitFailed, "fsck", "--data", dir, "--allow-missing-blocks", "--json")
	var report fsckReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Positive(t, report.Check.ByKind[fsck.KindNoBlock])
	require.NoError(t, os.RemoveAll(blocks))

	require.NoError(t, os.Rename(blocks+".away", blocks))
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) {
		requireHealth(t, c, 200, "ready")
		require.NoError(t, get(t, c, "small-9"))
	})

	require.NoError(t, os.RemoveAll(blocks)) // from here on the blocks are lost
	serveWith(t, dir, allowing, func(c *s3.Client, admin string) {
		requireHealth(t, c, 200, "degraded")
		require.Error(t, get(t, c, "small-9"))
		require.NoError(t, putObject(t, c, "new", []byte("new")))
		require.NoError(t, get(t, c, "new"))
		lost := lostOf(t, dir, admin, exitFailed)
		require.NotContains(t, slices.Collect(maps.Keys(lost)), "plain/new/null")
		require.Equal(t, "small-9", lost["plain/small-9/null"].Key)
		deleteLost(t, c, dir, admin)
		requireHealth(t, c, 200, "ready")
	})
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) {
		requireHealth(t, c, 200, "ready")
		require.NoError(t, get(t, c, "new"))
	})
}

// TestOneBlockMissing: the server reports the missing block and continues, and the list of lost objects is exact.
func TestOneBlockMissing(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.Remove(blockFiles(t, dir, ".large")[0]))
	serveWith(t, dir, quiet, func(c *s3.Client, admin string) {
		requireHealth(t, c, 200, "degraded")
		lost := lostOf(t, dir, admin, exitFailed)
		require.ElementsMatch(t, []string{
			"plain/large/null", "plain/copy-0/null", "plain/copy-1/null", "plain/copy-2/null", "plain/copy-3/null", "plain/copy-4/null",
		}, slices.Collect(maps.Keys(lost)))
		for _, o := range lost {
			require.EqualValues(t, 300_000, o.Size)
			require.Len(t, o.Block, 32)
			require.Error(t, get(t, c, o.Key))
		}
		require.NoError(t, get(t, c, "multipart"))
		stdout, _ := orcasExits(t, exitFailed, "admin", "lost", "--data", dir, "--admin-address", admin)
		require.Contains(t, stdout, `plain/"large" version null: 300000 bytes, block `+lost["plain/large/null"].Block)
		report, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(t, err)
		_, stderr := orcasExits(t, exitFailed, "backup", report, "--data", dir, "--admin-address", admin)
		require.Contains(t, stderr, "is missing in the store (pieces of content in it: 1)")

		require.NoError(t, putObject(t, c, "large", []byte("another")), "overwritten")
		deleteLost(t, c, dir, admin)
		requireHealth(t, c, 200, "ready")
	})
}

// TestManyBlocksMissing: the server is read-only until a setting allows writes, or until the lost objects are deleted.
func TestManyBlocksMissing(t *testing.T) {
	dir := filled(t)
	for _, path := range blockFiles(t, dir, ".large") {
		require.NoError(t, os.Remove(path))
	}
	left := blockFiles(t, dir, ".packed")
	serveWith(t, dir, append(slices.Clone(quiet), "ORCAS_BUCKETS=plain,other"), func(c *s3.Client, admin string) {
		requireHealth(t, c, 503, "readonly")
		requireReadOnly(t, putObject(t, c, "new", []byte("new")))
		requireReadOnly(t, putObject(t, c, "new", make([]byte, 1<<20)))
		_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("plain"), Key: aws.String("large")}, once)
		requireReadOnly(t, err)
		_, err = c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("plain"), Key: aws.String("new")}, once)
		requireReadOnly(t, err)
		_, err = c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("new")}, once)
		requireReadOnly(t, err)
		require.NoError(t, get(t, c, "small-9"))
		require.Error(t, get(t, c, "multipart"))
		lost := lostOf(t, dir, admin, exitFailed)
		require.Contains(t, lost, "plain/multipart/null")
		require.Contains(t, lost, "plain/multipart-copy/null")
		upload := slices.IndexFunc(slices.Collect(maps.Values(lost)), func(o fsck.LostObject) bool { return o.Key == "unfinished" && o.Part == 1 })
		require.GreaterOrEqual(t, upload, 0)
		_, stderr := orcasExits(t, exitFailed, "admin", "reclaim", "--wait", "--data", dir, "--admin-address", admin)
		require.Contains(t, stderr, "read-only", "a read-only server must not reclaim space")
	})
	require.Equal(t, left, blockFiles(t, dir, ".packed"))
	serveWith(t, dir, allowing, func(c *s3.Client, admin string) {
		requireHealth(t, c, 200, "degraded")
		require.NoError(t, putObject(t, c, "new", []byte("new")))
		deleteLost(t, c, dir, admin)
		requireHealth(t, c, 200, "ready")
	})
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) { requireHealth(t, c, 200, "ready") })
}

// TestNewestRecordsMissing: if the block from which recovery starts is missing, the server writes only if a setting
// allows it. Then a snapshot replaces the missing records.
func TestNewestRecordsMissing(t *testing.T) {
	dir := filled(t)
	s := openStore(t, dir)
	s.In(s.OpenBucket("plain", 0)).Delete("small-29") // creates a block with only a record
	s.Close()
	packed := blockFiles(t, dir, ".packed")
	require.NoError(t, os.Remove(packed[len(packed)-1]))
	serveWith(t, dir, quiet, func(c *s3.Client, admin string) {
		requireHealth(t, c, 503, "readonly")
		requireReadOnly(t, putObject(t, c, "new", []byte("new")))
		require.NoError(t, get(t, c, "large"))
		require.Error(t, get(t, c, "small-29"))
		require.Empty(t, lostOf(t, dir, admin, exitOK))
	})
	serveWith(t, dir, allowing, func(c *s3.Client, _ string) {
		requireHealth(t, c, 200, "ready")
		require.NoError(t, putObject(t, c, "new", []byte("new")))
	})
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) {
		requireHealth(t, c, 200, "ready")
		require.NoError(t, get(t, c, "new"))
		require.NoError(t, get(t, c, "large"))
		require.Error(t, get(t, c, "small-29"), "the database was rebuilt from that snapshot")
	})
}

// TestForeignBlocks: the blocks of another store are refused, with and without a marker, even if missing blocks are
// allowed.
func TestForeignBlocks(t *testing.T) {
	dir, other := filled(t), filled(t)
	blocks := filepath.Join(dir, "blocks")
	require.NoError(t, os.RemoveAll(blocks))
	require.NoError(t, os.Rename(filepath.Join(other, "blocks"), blocks))
	for range 2 {
		for _, command := range []string{"server --allow-missing-blocks --address 127.0.0.1:0 --admin-address none", "fsck", "rebuild"} {
			_, stderr := orcasExits(t, exitFailed, append(strings.Fields(command), "--data", dir)...)
			require.Contains(t, stderr, "mount the file system with the blocks of this store at "+blocks)
		}
		if err := os.Remove(filepath.Join(blocks, "STORE")); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
}

// TestMarkerOfOlderStores: if a store with blocks has no marker, the next start creates it.
func TestMarkerOfOlderStores(t *testing.T) {
	dir := filled(t)
	marker := filepath.Join(dir, "blocks", "STORE")
	require.NoError(t, os.Remove(marker))
	serveWith(t, dir, quiet, func(c *s3.Client, _ string) { requireHealth(t, c, 200, "ready") })
	require.FileExists(t, marker)
	require.NoError(t, os.Remove(marker))
	stdout, _ := orcasExits(t, exitOK, "fsck", "--data", dir, "--content")
	require.Contains(t, stdout, "no difference")
	require.FileExists(t, marker)
}

// TestScrubFindsMissingBlocks: a pass of the scrub finds a block that was deleted while the server was running.
func TestScrubFindsMissingBlocks(t *testing.T) {
	dir := filled(t)
	serveWith(t, dir, quiet, func(c *s3.Client, admin string) {
		requireHealth(t, c, 200, "ready")
		orcasExits(t, exitOK, "admin", "scrub", "--wait", "--data", dir, "--admin-address", admin)
		path := blockFiles(t, dir, ".large")[0]
		require.NoError(t, os.Remove(path))
		stdout, stderr := orcasExits(t, exitFailed, "admin", "scrub", "--wait", "--data", dir, "--admin-address", admin)
		require.Contains(t, stdout, "missing blocks: 1")
		require.Contains(t, stderr, "orcas admin lost")
		requireHealth(t, c, 200, "degraded")
		orcasExits(t, exitFailed, "admin", "lost", "--data", dir, "--admin-address", admin)
	})
}

// TestRestoreMarksBlocks: a restore creates the marker, before the first start in the restored directory.
func TestRestoreMarksBlocks(t *testing.T) {
	dir, backups, again := filled(t), t.TempDir(), filepath.Join(t.TempDir(), "again")
	orcasExits(t, exitOK, "backup", backups, "--data", dir)
	orcasExits(t, exitOK, "restore", backups, "--data", again)
	want, err := os.ReadFile(filepath.Join(dir, "blocks", "STORE"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(again, "blocks", "STORE"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	serveWith(t, again, quiet, func(c *s3.Client, _ string) {
		requireHealth(t, c, 200, "ready")
		require.NoError(t, get(t, c, "multipart"))
	})
}
