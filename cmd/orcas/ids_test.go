package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"orcas/core"
)

// wireIDSize is the length of an encrypted ID.
const wireIDSize = 22

// versioned is the client of a server with the versions of a key in a bucket.
type versioned struct {
	t *testing.T
	*s3.Client
}

var (
	idBucket, idKey = aws.String("bucket"), aws.String("key")
	idUpload        = aws.String("upload")
	enabled         = &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}
)

// put writes a version and returns its ID.
func (v versioned) put(content string) string {
	out, err := v.PutObject(ctx, &s3.PutObjectInput{Bucket: idBucket, Key: idKey, Body: strings.NewReader(content)})
	require.NoError(v.t, err)
	return *out.VersionId
}

// read returns the content of a version, or the code of the error.
func (v versioned) read(id string) string {
	out, err := v.GetObject(ctx, &s3.GetObjectInput{Bucket: idBucket, Key: idKey, VersionId: &id})
	if err != nil {
		return idError(v.t, err)
	}
	require.Equal(v.t, id, *out.VersionId)
	body, err := io.ReadAll(out.Body)
	require.NoError(v.t, err)
	require.NoError(v.t, out.Body.Close())
	return string(body)
}

// parts returns the number of parts of an upload, or the code of the error.
func (v versioned) parts(id string) string {
	out, err := v.ListParts(ctx, &s3.ListPartsInput{Bucket: idBucket, Key: idUpload, UploadId: &id})
	if err != nil {
		return idError(v.t, err)
	}
	require.Equal(v.t, id, *out.UploadId)
	return fmt.Sprint(len(out.Parts))
}

func idError(t *testing.T, err error) string {
	var e smithy.APIError
	require.True(t, errors.As(err, &e), "%v", err)
	return e.ErrorCode()
}

// versions returns the IDs of the versions in the order of a listing with pages of n entries.
func (v versioned) versions(n int32) (all []string) {
	in := &s3.ListObjectVersionsInput{Bucket: idBucket, MaxKeys: &n}
	for {
		page, err := v.ListObjectVersions(ctx, in)
		require.NoError(v.t, err)
		for _, o := range page.Versions {
			all = append(all, *o.VersionId)
		}
		if !*page.IsTruncated {
			return all
		}
		in.KeyMarker, in.VersionIdMarker = page.NextKeyMarker, page.NextVersionIdMarker
	}
}

// uploads returns the IDs of the uploads in the order of a listing with pages of n entries.
func (v versioned) uploads(n int32) (all []string) {
	in := &s3.ListMultipartUploadsInput{Bucket: idBucket, MaxUploads: &n}
	for {
		page, err := v.ListMultipartUploads(ctx, in)
		require.NoError(v.t, err)
		for _, u := range page.Uploads {
			all = append(all, *u.UploadId)
		}
		if !*page.IsTruncated {
			return all
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}

// TestIDsSurvive: the IDs of versions and uploads that clients know stay valid, and the only ones, when a store is
// upgraded, restarted, rebuilt from its blocks alone, and restored from a backup. Those written after the upgrade cannot
// be guessed.
func TestIDsSurvive(t *testing.T) {
	base := t.TempDir()
	data, dir, again, other := filepath.Join(base, "data"), filepath.Join(base, "backups"), filepath.Join(base, "again"), filepath.Join(base, "other")

	// A store that was written before IDs were encrypted.
	s := openStore(t, data)
	b := s.OpenBucket("bucket", core.VersioningEnabled)
	old := s.In(b).Put("key", []byte("old")).Version().String()
	upload := s.In(b).Upload("upload", core.UploadInfo{})
	s.In(b).Part("upload", upload, 1, []byte("part"))
	oldUpload := core.Version(upload).String()
	last := s.State().State.Seq
	s.Close()

	var ids, uploads []string // newest first, as in a listing; uploads are in the order of their beginning
	content := map[string]string{old: "old"}
	check := func(c *s3.Client, extra string) {
		t.Helper()
		v := versioned{t, c}
		for id, want := range content {
			require.Equal(t, want, v.read(id))
		}
		for _, n := range []int32{1, 2, 1000} {
			require.Equal(t, ids, v.versions(n))
			require.Equal(t, uploads, v.uploads(n))
		}
		require.Equal(t, "1", v.parts(oldUpload))
		for _, id := range uploads[1:] {
			require.Equal(t, "0", v.parts(id))
			require.Equal(t, "InvalidArgument", v.read(id), "the ID of an upload is not that of a version")
		}
		for _, id := range ids[:2] {
			require.Equal(t, "NoSuchUpload", v.parts(id), "the ID of a version is not that of an upload")
		}
		for seq := last + 1; seq < last+100; seq++ {
			require.Equal(t, "InvalidArgument", v.read(core.Version(seq).String()))
			require.Equal(t, "NoSuchUpload", v.parts(core.Version(seq).String()))
		}
		if extra != "" {
			require.Equal(t, "InvalidArgument", v.read(extra), "the ID of another store")
		}
	}
	serve(t, data, func(c *s3.Client, _ string) {
		v := versioned{t, c}
		require.Equal(t, []string{old}, v.versions(10))
		uploads = []string{oldUpload}
		ids = []string{old}
		for i := range 3 {
			id := v.put(fmt.Sprint("new ", i))
			require.Len(t, id, wireIDSize)
			content[id] = fmt.Sprint("new ", i)
			ids = append([]string{id}, ids...)
			u, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: idBucket, Key: idUpload})
			require.NoError(t, err)
			require.Len(t, *u.UploadId, wireIDSize)
			uploads = append(uploads, *u.UploadId)
		}
		check(c, "")
	})
	var foreign string
	serve(t, other, func(c *s3.Client, _ string) {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: idBucket})
		require.NoError(t, err)
		_, err = c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: idBucket, VersioningConfiguration: enabled})
		require.NoError(t, err)
		foreign = versioned{t, c}.put("foreign")
		require.Equal(t, "InvalidArgument", versioned{t, c}.read(ids[0]))
	})
	serve(t, data, func(c *s3.Client, _ string) { check(c, foreign) })

	for _, file := range []string{"metadata.db", "identity-key.json"} {
		require.NoError(t, os.Remove(filepath.Join(data, file)))
	}
	orcasExits(t, exitOK, "rebuild", "--data", data)
	serve(t, data, func(c *s3.Client, _ string) { check(c, foreign) })
	orcasExits(t, exitOK, "backup", dir, "--data", data)
	orcasExits(t, exitOK, "restore", dir, "--data", again)
	serve(t, again, func(c *s3.Client, _ string) { check(c, foreign) })
	environ := []string{"ORCAS_MIN_FREE=0", "ORCAS_MASTER_KEY=1:" + strings.Repeat("5a", 32), "ORCAS_ENCRYPTION=all", "ORCAS_DURABILITY=relaxed"}
	serveWith(t, again, environ, func(c *s3.Client, _ string) { check(c, foreign) })
	orcasExits(t, exitOK, "fsck", "--data", again)
}

// TestListedIDsAreThoseOfClients: the commands that list objects show IDs that a client can use.
func TestListedIDsAreThoseOfClients(t *testing.T) {
	data := t.TempDir()
	var id string
	serve(t, data, func(c *s3.Client, _ string) {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: idBucket})
		require.NoError(t, err)
		_, err = c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: idBucket, VersioningConfiguration: enabled})
		require.NoError(t, err)
		id = versioned{t, c}.put(strings.Repeat("x", 1<<20))
	})
	for _, block := range blockFiles(t, data, ".large") {
		require.NoError(t, os.Truncate(block, 1000))
	}
	_, stdout, _ := orcas("fsck", "--data", data, "--content", "--json")
	require.Contains(t, stdout, id)
	for _, block := range blockFiles(t, data, ".large") {
		require.NoError(t, os.Remove(block))
	}
	serve(t, data, func(_ *s3.Client, admin string) {
		lost := lostOf(t, data, admin, exitFailed)
		require.Len(t, lost, 1)
		for _, o := range lost {
			require.Equal(t, id, o.Version)
		}
	})
}

// TestIDsOfAReadOnlyServer: a server that cannot store the key serves the old IDs, and they remain valid when a later
// start stores it.
func TestIDsOfAReadOnlyServer(t *testing.T) {
	data := filled(t)
	for _, path := range blockFiles(t, data, ".large") {
		require.NoError(t, os.Remove(path))
	}
	list := func(c *s3.Client) (ids []string) {
		page, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: aws.String("versioned"), Prefix: aws.String("v-9")})
		require.NoError(t, err)
		for _, o := range page.Versions {
			ids = append(ids, *o.VersionId)
			out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("versioned"), Key: o.Key, VersionId: o.VersionId})
			require.NoError(t, err)
			require.NoError(t, out.Body.Close())
		}
		return ids
	}
	var old []string
	serveWith(t, data, quiet, func(c *s3.Client, _ string) {
		requireHealth(t, c, 503, "readonly")
		old = list(c)
		require.Len(t, old, 3)
		for _, id := range old {
			require.Len(t, id, 16)
		}
	})
	serveWith(t, data, allowing, func(c *s3.Client, _ string) {
		require.Equal(t, old, list(c))
		out, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("versioned"), Key: aws.String("v-9"), Body: strings.NewReader("x")})
		require.NoError(t, err)
		require.Len(t, *out.VersionId, wireIDSize)
		require.Equal(t, append([]string{*out.VersionId}, old...), list(c))
	})
}
