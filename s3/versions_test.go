package s3_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
)

// versioning sets the versioning state of a bucket; no operation does that yet.
func (w *world) versioning(bucket string, state core.Versioning) {
	w.t.Helper()
	info, err := w.fs.Bucket(w.t.Context(), bucket)
	require.NoError(w.t, err)
	next := *info
	next.Versioning = state
	_, err = w.writer.Do(w.t.Context(), batch.Write{Change: &core.PutBucket{Info: next}})
	require.NoError(w.t, err)
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "zero")
	w.versioning("bucket", core.VersioningEnabled)
	require.Contains(t, string(w.do("GET", "/bucket?versioning", nil).is(200, "").body), "<Status>Enabled</Status>")
	put := func(body string) string {
		return w.do("PUT", "/bucket/key", []byte(body)).is(200, "").header.Get("X-Amz-Version-Id")
	}
	one, two := put("one"), put("two")
	require.NotEqual(t, one, two)
	for version, body := range map[string]string{"null": "zero", one: "one", two: "two"} {
		a := w.do("GET", "/bucket/key?versionId="+version, nil).is(200, "")
		require.Equal(t, body, string(a.body))
		require.Equal(t, version, a.header.Get("X-Amz-Version-Id"))
	}
	a := w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+one).is(200, "")
	require.Equal(t, one, a.header.Get("X-Amz-Copy-Source-Version-Id"))
	require.NotEmpty(t, a.header.Get("X-Amz-Version-Id"))
	require.Equal(t, "one", w.content("/bucket/copy"))

	// An old version becomes the current one by a copy onto its own key.
	w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+one).is(200, "")
	require.Equal(t, "one", w.content("/bucket/key"))

	a = w.do("DELETE", "/bucket/key", nil).is(204, "")
	marker := a.header.Get("X-Amz-Version-Id")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	require.NotEmpty(t, marker)
	a = w.do("GET", "/bucket/key", nil).is(404, "NoSuchKey")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	require.Equal(t, marker, a.header.Get("X-Amz-Version-Id"))
	a = w.do("HEAD", "/bucket/key", nil).is(404, "")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	a = w.do("GET", "/bucket/key?versionId="+marker, nil).is(405, "MethodNotAllowed")
	require.Equal(t, http.MethodDelete, a.header.Get("Allow"))
	require.NotEmpty(t, a.header.Get("Last-Modified"))
	w.do("PUT", "/bucket/x", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+marker).is(400, "InvalidRequest")
	w.do("PUT", "/bucket/x", nil, "X-Amz-Copy-Source", "/bucket/key").is(404, "NoSuchKey")
	w.do("PUT", "/bucket/key", []byte("x"), "If-Match", "*").is(404, "NoSuchKey")
	require.NotContains(t, listAll(w, "bucket", ""), "key")
	w.do("DELETE", "/bucket", nil).is(409, "BucketNotEmpty")

	body := []byte("<Delete><Object><Key>key</Key><VersionId>" + marker + "</VersionId></Object><Object><Key>copy</Key></Object></Delete>")
	a = w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, "")
	require.Contains(t, string(a.body), "<Key>key</Key><VersionId>"+marker+"</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>"+marker)
	require.Contains(t, string(a.body), "<Key>copy</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>")
	require.Equal(t, "one", w.content("/bucket/key"))

	w.versioning("bucket", core.VersioningSuspended)
	require.Equal(t, "null", put("suspended"))
	require.Equal(t, "suspended", string(w.do("GET", "/bucket/key?versionId=null", nil).is(200, "").body))
	require.Equal(t, "one", string(w.do("GET", "/bucket/key?versionId="+one, nil).is(200, "").body))
	w.do("PUT", "/bucket/key", []byte("x"), "If-None-Match", "*").is(412, "PreconditionFailed")
	up := w.begin("/bucket/key")
	e := up.part(1, []byte("part")).etag()
	require.Equal(t, "null", up.finish(1, e).is(200, "").header.Get("X-Amz-Version-Id"))
}
