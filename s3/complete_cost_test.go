package s3_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/vfs"
)

// TestPartsCost counts reads of metadata: completing an upload reads the upload once and each part once, and only
// requests that read bytes read the content rows of parts.
func TestPartsCost(t *testing.T) {
	const parts = 2500 // three pages
	var meta *coretest.CountingMeta
	w := newWorld(t, setup{store: func(o *content.Options) {
		meta = coretest.NewCountingMeta(o.Meta)
		o.Meta = meta
	}})
	w.bucket("bucket")
	w.put("/bucket/source", string(random(1, vfs.MinPartSize)))
	b, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	source, err := w.fs.Stat(t.Context(), b, "source", core.Current)
	require.NoError(t, err)
	m := w.begin("/bucket/many")
	upload, valid := testIDs.ParseUpload(m.id)
	require.True(t, valid)
	var named []any
	for n := range parts {
		p, err := w.fs.CopyPart(t.Context(), vfs.CopyPartRequest{
			Source: source, Length: source.Size, Bucket: b, Key: "many", Upload: upload, Number: n + 1,
		})
		require.NoError(t, err)
		named = append(named, n+1, p.ETag)
	}
	cost := func(status int, method, path string, body []byte, headers ...string) coretest.MetaCounts {
		meta.Reset()
		w.do(method, path, body, headers...).is(status, "")
		return meta.Counts()
	}
	onUpload := "/bucket/many?uploadId=" + m.id
	got := cost(200, "GET", onUpload, nil)
	require.Equal(t, []int64{1, 1001, 0}, []int64{got.Parts, got.PartRows, got.PartContents}, "ListParts")
	got = cost(200, "POST", onUpload, m.doc(named...))
	require.Equal(t, []int64{1, 3, parts, 0}, []int64{got.Upload, got.Parts, got.PartRows, got.PartContents}, "Complete")
	got = cost(206, "HEAD", "/bucket/many?partNumber=600", nil)
	require.Equal(t, []int64{1, 88, 0}, []int64{got.Parts, got.PartRows, got.PartContents}, "HEAD of a part")
	got = cost(200, "GET", "/bucket/many?attributes", nil, "X-Amz-Object-Attributes", "ObjectParts")
	require.Equal(t, []int64{1, 1000, 0}, []int64{got.Parts, got.PartRows, got.PartContents}, "GetObjectAttributes")

	object, err := w.fs.Stat(t.Context(), b, "many", core.Current)
	require.NoError(t, err)
	got = cost(206, "GET", "/bucket/many", nil, "Range", fmt.Sprintf("bytes=%d-%d", object.Size-3, object.Size-1))
	require.NotZero(t, got.PartContents, "GET needs content")
}
