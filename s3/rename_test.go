package s3_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// rename sends a RenameObject.
func (w *world) rename(target, source string, headers ...string) *response {
	w.t.Helper()
	return w.do("PUT", target+"?renameObject", nil, append(headers, "X-Amz-Rename-Source", source)...)
}

func (w *world) move(target, source string, headers ...string) *response {
	w.t.Helper()
	return w.do("PUT", target, nil, append(headers, "X-Amz-Move-Source", source)...)
}

func TestRename(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	etag := w.put("/bucket/a%20b", "content", "Content-Type", "text/x", "X-Amz-Meta-One", "1", "X-Amz-Storage-Class", "STANDARD_IA", "X-Amz-Tagging", "a=b",
		"X-Amz-Checksum-Sha256", base64SHA256([]byte("content")))
	was := w.do("HEAD", "/bucket/a%20b", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.Empty(t, w.rename("/bucket/new/key", "a%20b").is(200, "").body)
	require.Equal(t, "(none)", w.content("/bucket/a%20b"))
	require.Equal(t, "content", w.content("/bucket/new/key"))
	is := w.do("HEAD", "/bucket/new/key", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	for _, h := range []http.Header{was.header, is.header} {
		for _, name := range []string{"Date", "X-Amz-Request-Id"} {
			h.Del(name)
		}
	}
	require.Equal(t, was.header, is.header, "metadata, tags, checksums and Last-Modified")
	require.Equal(t, etag, is.etag())
	require.Equal(t, "1", is.header.Get("X-Amz-Tagging-Count"))
	w.rename("/bucket/third", "/bucket/new/key").is(200, "")
	w.put("/bucket/fourth", "x")
	w.rename("/bucket/fourth", "third").is(200, "")
	require.Equal(t, []string{"fourth"}, listAll(w, "bucket", ""))
	require.Equal(t, "content", w.content("/bucket/fourth"))

	for source, code := range map[string]string{
		"none": "NoSuchKey", "/bucket/none": "NoSuchKey", "/other/fourth": "InvalidArgument", "": "InvalidArgument", "/bucket/": "InvalidArgument",
		"fourth?versionId=null": "InvalidArgument", "%zz": "InvalidArgument", "key": "InvalidRequest",
	} {
		require.Equal(t, code, w.rename("/bucket/key", source).code(), source)
	}
	w.rename("/nowhere/key", "k").is(404, "NoSuchBucket")
	w.rename("/bucket/key", "fourth", "X-Amz-Meta-A", "b").is(400, "InvalidRequest")
	w.rename("/bucket/key", "fourth", "X-Amz-Copy-Source", "/bucket/fourth").is(501, "NotImplemented")
	w.do("PUT", "/bucket/key", []byte("x"), "X-Amz-Rename-Source", "fourth").is(501, "NotImplemented")
	w.do("PUT", "/bucket/key", []byte("x"), "X-Amz-Client-Token", "x").is(501, "NotImplemented")
	require.Equal(t, []string{"fourth"}, listAll(w, "bucket", ""))
}

func TestRenameConditions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	source, target := w.put("/bucket/source", "source"), w.put("/bucket/target", "target")
	modified, err := http.ParseTime(w.do("HEAD", "/bucket/target", nil).header.Get("Last-Modified"))
	require.NoError(t, err)
	before, same, after := modified.Add(-time.Hour).Format(http.TimeFormat), modified.Format(http.TimeFormat), modified.Add(time.Hour).Format(http.TimeFormat)
	for _, c := range [][2]string{
		{"If-None-Match", "*"}, {"If-Match", source}, {"If-Modified-Since", after}, {"If-Unmodified-Since", before},
		{"X-Amz-Rename-Source-If-Match", target}, {"X-Amz-Rename-Source-If-None-Match", source}, {"X-Amz-Rename-Source-If-None-Match", "*"},
		{"X-Amz-Rename-Source-If-Modified-Since", same}, {"X-Amz-Rename-Source-If-Unmodified-Since", before},
	} {
		w.rename("/bucket/target", "source", c[0], c[1]).is(412, "PreconditionFailed")
	}
	w.rename("/bucket/none", "source", "If-Match", "*").is(412, "PreconditionFailed")
	w.rename("/bucket/none", "source", "If-Modified-Since", before).is(412, "PreconditionFailed")
	w.rename("/bucket/target", "source", "If-None-Match", source).is(501, "NotImplemented")
	w.rename("/bucket/target", "none", "X-Amz-Rename-Source-If-Match", source).is(404, "NoSuchKey")
	require.Equal(t, "target", w.content("/bucket/target"))
	require.Equal(t, "source", w.content("/bucket/source"))

	w.rename("/bucket/target", "source", "If-Match", target, "If-Unmodified-Since", after, "If-Modified-Since", before, "X-Amz-Rename-Source-If-Match", source,
		"X-Amz-Rename-Source-If-None-Match", target, "X-Amz-Rename-Source-If-Modified-Since", before, "X-Amz-Rename-Source-If-Unmodified-Since", after).is(200, "")
	w.rename("/bucket/new", "target", "If-None-Match", "*", "If-Unmodified-Since", before).is(200, "")
	require.Equal(t, "source", w.content("/bucket/new"))
}

func TestRenameToken(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/source", "source", "X-Amz-Meta-One", "1")
	for range 3 { // retries, as if the response had been lost
		w.rename("/bucket/target", "source", "X-Amz-Client-Token", "token", "If-None-Match", "*").is(200, "")
	}
	w.rename("/bucket/target", "source", "X-Amz-Client-Token", "token").is(400, "IdempotencyParameterMismatch")
	w.rename("/bucket/target", "other", "X-Amz-Client-Token", "token", "If-None-Match", "*").is(400, "IdempotencyParameterMismatch")
	w.rename("/bucket/target", "source", "X-Amz-Client-Token", "another").is(404, "NoSuchKey")
	w.rename("/bucket/target", "source").is(404, "NoSuchKey")
	for _, bad := range []string{"a b", string(make([]byte, 0)) + "ä", "1234567890123456789012345678901234567890123456789012345678901234x"} {
		w.rename("/bucket/target", "source", "X-Amz-Client-Token", bad).is(400, "InvalidArgument")
	}
	// A retry has no effect, even if there is a new source.
	w.put("/bucket/source", "newer")
	w.rename("/bucket/target", "source", "X-Amz-Client-Token", "token", "If-None-Match", "*").is(200, "")
	require.Equal(t, "newer", w.content("/bucket/source"))

	// The token is not sent to clients and not copied.
	require.NotContains(t, w.do("GET", "/bucket/target", nil).header, "Orcas-Move-Token")
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/target").is(200, "")
	for _, key := range []string{"/bucket/target", "/bucket/copy"} {
		for name := range w.do("HEAD", key, nil).is(200, "").header {
			require.NotContains(t, name, "oken")
		}
	}
	w.rename("/bucket/copy", "target", "X-Amz-Client-Token", "token").is(200, "")
}

func TestRenameWithVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	first := w.do("PUT", "/bucket/source", []byte("source")).is(200, "").header.Get("X-Amz-Version-Id")
	w.put("/bucket/target", "target")
	version := w.rename("/bucket/target", "source").is(200, "").header.Get("X-Amz-Version-Id")
	require.Equal(t, "source", string(w.do("GET", "/bucket/target?versionId="+version, nil).is(200, "").body))
	a := w.do("GET", "/bucket/source", nil).is(404, "NoSuchKey")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	require.Equal(t, "source", string(w.do("GET", "/bucket/source?versionId="+first, nil).is(200, "").body))
	w.rename("/bucket/target", "source").is(404, "NoSuchKey")
	w.do("DELETE", "/bucket/source?versionId="+a.header.Get("X-Amz-Version-Id"), nil).is(204, "")
	require.Equal(t, "source", w.content("/bucket/source"))
}

func TestRenameOfLockedVersions(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/locked", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	w.bucket("bucket")
	w.do("PUT", "/locked/key", []byte("x"), "X-Amz-Object-Lock-Legal-Hold", "ON", "Content-Md5", md5Of([]byte("x"))).is(200, "")
	w.rename("/locked/other", "key").is(403, "AccessDenied")
	w.move("/bucket/other", "/locked/key").is(403, "AccessDenied")
	require.Equal(t, "x", w.content("/locked/key"))
}

func TestMoveBetweenBuckets(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	w.put("/bucket/a%20b", "content", "X-Amz-Meta-One", "1")
	was := w.do("HEAD", "/bucket/a%20b", nil).is(200, "")
	var got copyResult
	w.move("/other/key", "/bucket/a%20b").is(200, "").parse(&got)
	require.Equal(t, was.header.Get("ETag"), got.ETag)
	require.NotEmpty(t, got.LastModified)
	require.Equal(t, "(none)", w.content("/bucket/a%20b"))
	require.Equal(t, "content", w.content("/other/key"))
	is := w.do("HEAD", "/other/key", nil)
	require.Equal(t, "1", is.header.Get("X-Amz-Meta-One"))
	require.Equal(t, was.header.Get("Last-Modified"), is.header.Get("Last-Modified"))

	w.move("/bucket/key", "/other/key", "If-Match", "*").is(412, "PreconditionFailed")
	w.move("/bucket/key", "/other/key", "X-Amz-Move-Source-If-Match", "x").is(412, "PreconditionFailed")
	w.move("/other/key", "/other/key").is(400, "InvalidRequest")
	w.move("/bucket/key", "/other/key?versionId=null").is(400, "InvalidRequest")
	w.move("/bucket/key", "/nowhere/key").is(404, "NoSuchBucket")
	w.move("/bucket/key", "/other/none").is(404, "NoSuchKey")
	w.move("/bucket/key", "key").is(400, "InvalidArgument")
	w.move("/bucket/key", "/other/key", "X-Amz-Copy-Source", "/other/key").is(400, "InvalidRequest")
	w.move("/bucket/key", "/other/key", "X-Amz-Source-Expected-Bucket-Owner", "1").is(403, "AccessDenied")
	w.do("GET", "/bucket/key", nil, "X-Amz-Move-Source", "/other/key").is(501, "NotImplemented")
	up := w.begin("/bucket/up")
	w.do("PUT", "/bucket/up?partNumber=1&uploadId="+up.id, nil, "X-Amz-Move-Source", "/other/key").is(400, "InvalidRequest")
	for range 2 {
		w.move("/bucket/key", "/other/key", "X-Amz-Client-Token", "t", "X-Amz-Move-Source-If-None-Match", "x").is(200, "")
	}

	// The caller must own both buckets.
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	other.bucket("theirs")
	other.put("/theirs/key", "theirs")
	w.move("/bucket/stolen", "/theirs/key").is(403, "AccessDenied")
	other.move("/theirs/stolen", "/bucket/key").is(403, "AccessDenied")
	w.move("/theirs/gift", "/bucket/key").is(403, "AccessDenied")
	require.Equal(t, "theirs", other.content("/theirs/key"))
	require.Equal(t, "content", w.content("/bucket/key"))
}
