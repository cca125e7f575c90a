package s3_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

// append sends a PUT that appends body at offset.
func (w *world) append(path string, offset int, body string, headers ...string) *response {
	w.t.Helper()
	return w.do("PUT", path, []byte(body), append(headers, "X-Amz-Write-Offset-Bytes", fmt.Sprint(offset))...)
}

func TestAppend(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	a := w.append("/bucket/log", 0, "one", "X-Amz-Meta-A", "b", "Content-Type", "text/x").is(200, "")
	require.Equal(t, hexMD5([]byte("one")), a.etag())
	require.Equal(t, "3", a.header.Get("X-Amz-Object-Size"))
	a = w.append("/bucket/log", 3, "two", "Content-Md5", md5Of([]byte("two"))).is(200, "")
	require.Equal(t, "6", a.header.Get("X-Amz-Object-Size"))
	require.True(t, strings.HasSuffix(a.etag(), "-2"), a.etag())
	require.Equal(t, checksum.Encode(checksum.Sum(checksum.CRC64NVME, []byte("onetwo"))), a.header.Get("X-Amz-Checksum-Crc64nvme"))
	require.Equal(t, "FULL_OBJECT", a.header.Get("X-Amz-Checksum-Type"))
	got := w.do("GET", "/bucket/log", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.Equal(t, "onetwo", string(got.body))
	require.Equal(t, a.header.Get("ETag"), got.header.Get("ETag"))
	require.Equal(t, a.header.Get("X-Amz-Checksum-Crc64nvme"), got.header.Get("X-Amz-Checksum-Crc64nvme"))
	require.Equal(t, "b", got.header.Get("X-Amz-Meta-A"))
	require.Equal(t, "text/x", got.header.Get("Content-Type"))
	require.Equal(t, "etwo", string(w.do("GET", "/bucket/log", nil, "Range", "bytes=2-").is(206, "").body))
	require.Equal(t, "onetwo", string(w.do("GET", "/bucket/log?partNumber=1", nil).is(206, "").body))
	w.do("GET", "/bucket/log?partNumber=2", nil).is(416, "InvalidPartNumber")

	for _, offset := range []int{0, 3, 5, 7} {
		w.append("/bucket/log", offset, "x").is(400, "InvalidWriteOffset")
	}
	w.append("/bucket/none", 1, "x").is(400, "InvalidWriteOffset")
	w.append("/bucket/log", 6, "").is(400, "InvalidRequest")
	w.append("/bucket/none", 0, "").is(400, "InvalidRequest")
	w.append("/bucket/log", 6, "x", "X-Amz-Meta-A", "b").is(400, "InvalidRequest")
	w.append("/bucket/log", 6, "x", "X-Amz-Tagging", "a=b").is(400, "InvalidRequest")
	w.append("/bucket/log", 6, "x", "Content-Md5", md5Of([]byte("y"))).is(400, "BadDigest")
	w.append("/bucket/log", 6, "x", "If-None-Match", "*").is(412, "PreconditionFailed")
	w.append("/bucket/log", 6, "x", "If-Match", hexMD5([]byte("one"))).is(412, "PreconditionFailed")
	w.append("/bucket/log", 6, "x", "X-Amz-Checksum-Crc32", "AAAAAA==").is(400, "InvalidRequest")
	for _, bad := range []string{"-1", "x", "1.5", ""} {
		w.do("PUT", "/bucket/log", []byte("x"), "X-Amz-Write-Offset-Bytes", bad).is(400, "InvalidArgument")
	}
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/log", "X-Amz-Write-Offset-Bytes", "0").is(501, "NotImplemented")
	require.Equal(t, "onetwo", w.content("/bucket/log"))
	w.append("/bucket/log", 6, "!", "If-Match", a.etag()).is(200, "")
	require.Equal(t, "onetwo!", w.content("/bucket/log"))
}

// TestAppendChecksums appends to objects with a checksum of every kind.
func TestAppendChecksums(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	sum := func(a checksum.Algorithm, body string) []string {
		return []string{a.Header(), checksum.Encode(checksum.Sum(a, []byte(body)))}
	}
	for _, a := range []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME, checksum.SHA1, checksum.SHA256} {
		key := "/bucket/" + a.Name()
		w.put(key, "one", sum(a, "one")...)
		kept := a
		if !a.CanCombine() {
			kept = checksum.CRC64NVME
		}
		whole := "one"
		for _, piece := range []string{"two", "three", "four"} {
			headers := sum(a, piece)
			if piece == "three" {
				headers = nil
			}
			got := w.append(key, len(whole), piece, headers...).is(200, "")
			whole += piece
			require.Equal(t, sum(kept, whole)[1], got.header.Get(kept.Header()), a)
		}
		w.append(key, len(whole), "x", a.Header(), sum(a, "y")[1]).is(400, "BadDigest")
		require.Equal(t, whole, w.content(key))
	}
	w.put("/bucket/sha", "one", sum(checksum.SHA1, "one")...)
	a := w.append("/bucket/sha", 3, "x", sum(checksum.CRC32C, "x")...).is(400, "InvalidRequest")
	require.Contains(t, string(a.body), "Checksum Type mismatch occurred, expected checksum Type: sha1, actual checksum Type: crc32c")
}

func TestAppendToMultipart(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5<<20)
	up := w.begin("/bucket/key")
	up.finish(1, up.part(1, body).etag(), 2, up.part(2, []byte("tail")).etag()).is(200, "")
	whole := append(bytes.Clone(body), "tail"...)
	for i := range 12 {
		piece := random(byte(i), 1000*(i+1))
		a := w.append("/bucket/key", len(whole), string(piece)).is(200, "")
		require.True(t, strings.HasSuffix(a.etag(), fmt.Sprint("-", i+3)), a.etag())
		whole = append(whole, piece...)
		require.Equal(t, checksum.Encode(checksum.Sum(checksum.CRC64NVME, whole)), a.header.Get("X-Amz-Checksum-Crc64nvme"))
	}
	require.Equal(t, string(whole), w.content("/bucket/key"))
	require.Equal(t, string(whole[5<<20-10:5<<20+3000]), string(w.do("GET", "/bucket/key", nil, "Range", fmt.Sprintf("bytes=%d-%d", 5<<20-10, 5<<20+2999)).is(206, "").body))
}

func TestAppendWithVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	versions := map[string]string{}
	whole := ""
	for _, piece := range []string{"one", "two", "three"} {
		v := w.append("/bucket/log", len(whole), piece).is(200, "").header.Get("X-Amz-Version-Id")
		whole += piece
		versions[v] = whole
	}
	require.Len(t, versions, 3)
	for v, body := range versions {
		require.Equal(t, body, string(w.do("GET", "/bucket/log?versionId="+v, nil).is(200, "").body))
	}
	w.do("DELETE", "/bucket/log", nil).is(204, "")
	w.append("/bucket/log", len(whole), "x").is(400, "InvalidWriteOffset")
	w.append("/bucket/log", 0, "x").is(200, "")
	require.Equal(t, "x", w.content("/bucket/log"))
}

func TestTooManyAppends(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/log", "0")
	info, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	o, err := w.fs.Stat(t.Context(), info, "log", core.Current)
	require.NoError(t, err)
	w.rewrite(o, func(o *core.ObjectInfo) { o.ETag += "-9999" })
	w.append("/bucket/log", 1, "1").is(200, "")
	w.append("/bucket/log", 2, "2").is(400, "TooManyParts")
	require.Equal(t, "01", w.content("/bucket/log"))
}

// TestRacingAppends sends several appends with the same offset concurrently: one succeeds, and the others fail because
// the size has changed.
func TestRacingAppends(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{10, 70_000} {
		whole := ""
		for range 5 {
			responses := make([]*response, 6)
			var wg sync.WaitGroup
			for i := range responses {
				wg.Go(func() { responses[i] = w.append("/bucket/log", len(whole), strings.Repeat(fmt.Sprint(i), size)) })
			}
			wg.Wait()
			won := -1
			for i, a := range responses {
				if a.status == http.StatusOK {
					require.Negative(t, won)
					won = i
				} else {
					a.is(400, "InvalidWriteOffset")
				}
			}
			whole += strings.Repeat(fmt.Sprint(won), size)
			require.Equal(t, whole, w.content("/bucket/log"))
		}
		w.do("DELETE", "/bucket/log", nil).is(204, "")
	}
}
