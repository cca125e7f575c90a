package s3_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type copyResult struct {
	LastModified, ETag, ChecksumCRC64NVME, ChecksumSHA256, ChecksumType string
}

func TestCopy(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	etag := w.put("/bucket/a%20b", "content", "Content-Type", "text/plain", "X-Amz-Meta-One", "1", "X-Amz-Storage-Class", "STANDARD_IA",
		"X-Amz-Website-Redirect-Location", "/x")
	var got copyResult
	w.do("PUT", "/other/copy", nil, "X-Amz-Copy-Source", "bucket/a%20b").is(200, "").parse(&got)
	require.Equal(t, `"`+etag+`"`, got.ETag)
	require.NotEmpty(t, got.ChecksumCRC64NVME)
	a := w.do("GET", "/other/copy", nil).is(200, "")
	require.Equal(t, "content", string(a.body))
	require.Equal(t, "text/plain", a.header.Get("Content-Type"))
	require.Equal(t, "1", a.header.Get("X-Amz-Meta-One"))
	require.Empty(t, a.header.Get("X-Amz-Storage-Class"))
	require.Empty(t, a.header.Get("X-Amz-Website-Redirect-Location"))

	// A copy with other metadata, whose source is then deleted.
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/other/copy?versionId=null", "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Meta-Two", "2",
		"X-Amz-Storage-Class", "GLACIER", "X-Amz-Checksum-Algorithm", "SHA256").is(200, "").parse(&got)
	require.Equal(t, base64SHA256([]byte("content")), got.ChecksumSHA256)
	w.do("DELETE", "/other/copy", nil).is(204, "")
	w.do("DELETE", "/bucket/a%20b", nil).is(204, "")
	a = w.do("GET", "/bucket/copy", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.Equal(t, "content", string(a.body))
	require.Equal(t, "2", a.header.Get("X-Amz-Meta-Two"))
	require.Empty(t, a.header.Get("X-Amz-Meta-One"))
	require.Equal(t, "binary/octet-stream", a.header.Get("Content-Type"))
	require.Equal(t, "GLACIER", a.header.Get("X-Amz-Storage-Class"))
	require.Equal(t, base64SHA256([]byte("content")), a.header.Get("X-Amz-Checksum-Sha256"))

	// Copies onto itself.
	self := []string{"X-Amz-Copy-Source", "/bucket/copy"}
	w.do("PUT", "/bucket/copy", nil, append(self, "X-Amz-Storage-Class", "GLACIER")...).is(400, "InvalidRequest")
	w.do("PUT", "/bucket/copy", nil, append(self, "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Meta-Three", "3")...).is(200, "")
	require.Equal(t, "3", w.do("HEAD", "/bucket/copy", nil).header.Get("X-Amz-Meta-Three"))
	require.Equal(t, "content", w.content("/bucket/copy"))

	for source, code := range map[string]string{
		"/bucket/none": "NoSuchKey", "/nowhere/key": "NoSuchBucket", "bucket": "InvalidArgument", "/bucket/": "InvalidArgument", "/Bad/key": "InvalidArgument",
		"/bucket/copy?versionId=" + absentVersion: "NoSuchVersion", "/bucket/copy?versionId=x": "InvalidArgument",
	} {
		require.Equal(t, code, w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", source).code(), source)
	}
	w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", "/bucket/copy", "X-Amz-Metadata-Directive", "MERGE").is(400, "InvalidArgument")
	w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", "/bucket/copy", "X-Amz-Checksum-Algorithm", "CRC31").is(400, "InvalidRequest")
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

func TestCopySourceConditions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := `"` + w.put("/bucket/source", "content") + `"`
	past, future := "Thu, 01 Dec 1994 16:00:00 GMT", "Thu, 01 Dec 2033 16:00:00 GMT"
	const p = "X-Amz-Copy-Source-If-"
	var upload struct {
		UploadID string `xml:"UploadId"`
	}
	w.do("POST", "/bucket/big?uploads", nil).is(200, "").parse(&upload)
	for i, c := range []struct {
		status  int
		headers []string
	}{
		{200, []string{p + "Match", etag}},
		{412, []string{p + "Match", `"other"`}},
		{412, []string{p + "None-Match", etag}},
		{200, []string{p + "None-Match", `"other"`}},
		{412, []string{p + "Modified-Since", w.do("HEAD", "/bucket/source", nil).header.Get("Last-Modified")}},
		{200, []string{p + "Modified-Since", future}},
		{200, []string{p + "Modified-Since", past}},
		{412, []string{p + "Unmodified-Since", past}},
		{200, []string{p + "Unmodified-Since", future}},
		{200, []string{p + "Match", etag, p + "Unmodified-Since", past}},
		{412, []string{p + "None-Match", etag, p + "Modified-Since", past}},
	} {
		code := ""
		if c.status == 412 {
			code = "PreconditionFailed"
		}
		headers := append(c.headers, "X-Amz-Copy-Source", "/bucket/source")
		target := fmt.Sprintf("/bucket/copy%d", i)
		w.do("PUT", target, nil, headers...).is(c.status, code)
		require.Equal(t, c.status == 200, w.content(target) == "content")
		w.do("PUT", "/bucket/big?partNumber=1&uploadId="+upload.UploadID, nil, headers...).is(c.status, code)
	}
}

// TestCopyOfChangingSource copies a key that is continuously overwritten: the copy is always one complete version.
func TestCopyOfChangingSource(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/source", "version 0")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			body := fmt.Appendf(nil, "version %d", i)
			r := w.request("PUT", "/bucket/source", body)
			w.signer.Sign(r, hash(body), time.Now())
			if res, err := w.client.Do(r); err == nil {
				res.Body.Close()
			}
		}
	})
	for range 200 {
		var got copyResult
		w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/source").is(200, "").parse(&got)
		a := w.do("GET", "/bucket/copy", nil).is(200, "")
		require.Equal(t, got.ETag, `"`+hexMD5(a.body)+`"`)
	}
	close(stop)
	group.Wait()
}
