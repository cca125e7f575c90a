package s3_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// multipart is an upload in progress.
type multipart struct {
	w   *world
	key string // the path of the object
	id  string
}

func (w *world) begin(key string, headers ...string) *multipart {
	w.t.Helper()
	var got struct {
		Bucket, Key string
		UploadID    string `xml:"UploadId"`
	}
	w.do("POST", key+"?uploads", nil, headers...).is(200, "").parse(&got)
	require.NotEmpty(w.t, got.UploadID)
	return &multipart{w, key, got.UploadID}
}

func (m *multipart) path(number int) string {
	return fmt.Sprintf("%s?partNumber=%d&uploadId=%s", m.key, number, m.id)
}

func (m *multipart) part(number int, body []byte, headers ...string) *response {
	m.w.t.Helper()
	return m.w.do("PUT", m.path(number), body, headers...).is(200, "")
}

func (m *multipart) complete(doc []byte, headers ...string) *response {
	m.w.t.Helper()
	return m.w.do("POST", m.key+"?uploadId="+m.id, doc, headers...)
}

// finish completes the upload. parts are alternating numbers and ETags.
func (m *multipart) finish(parts ...any) *response {
	m.w.t.Helper()
	return m.complete(m.doc(parts...))
}

func (m *multipart) doc(parts ...any) []byte {
	var b strings.Builder
	b.WriteString(`<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for i := 0; i < len(parts); i += 2 {
		fmt.Fprintf(&b, "<Part><ETag>&quot;%v&quot;</ETag><PartNumber>%v</PartNumber></Part>", parts[i+1], parts[i])
	}
	b.WriteString("</CompleteMultipartUpload>")
	return []byte(b.String())
}

func multipartETag(etags ...string) string {
	var all []byte
	for _, e := range etags {
		raw, err := hex.DecodeString(e)
		if err != nil {
			panic(err)
		}
		all = append(all, raw...)
	}
	return fmt.Sprintf("%x-%d", md5.Sum(all), len(etags))
}

func TestMultipart(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "before")
	up := w.begin("/bucket/key", "Content-Type", "text/plain", "X-Amz-Meta-One", "1", "X-Amz-Storage-Class", "STANDARD_IA")
	one, two, three := random(1, 5<<20), random(2, 6<<20), random(3, 10)
	up.part(7, []byte("to be replaced"))
	e7 := up.part(7, two).etag()
	e2 := up.part(2, one).etag()
	e9 := up.part(9, three).etag()
	up.part(5, []byte("not used"))
	require.Equal(t, hexMD5(one), e2)
	require.Equal(t, "before", w.content("/bucket/key"))

	var list struct {
		Bucket, Key, StorageClass                        string
		UploadID                                         string `xml:"UploadId"`
		PartNumberMarker, NextPartNumberMarker, MaxParts int
		IsTruncated                                      bool
		Part                                             []struct {
			PartNumber, Size int
			ETag             string
		}
	}
	w.do("GET", "/bucket/key?max-parts=2&uploadId="+up.id, nil).is(200, "").parse(&list)
	require.Equal(t, "STANDARD_IA", list.StorageClass)
	require.True(t, list.IsTruncated)
	require.Equal(t, 5, list.NextPartNumberMarker)
	require.Equal(t, []int{2, 5}, []int{list.Part[0].PartNumber, list.Part[1].PartNumber})
	list.Part = nil
	w.do("GET", "/bucket/key?max-parts=2&part-number-marker=5&uploadId="+up.id, nil).is(200, "").parse(&list)
	require.False(t, list.IsTruncated)
	require.Equal(t, []int{7, 9}, []int{list.Part[0].PartNumber, list.Part[1].PartNumber})
	require.Equal(t, `"`+e7+`"`, list.Part[0].ETag)
	require.Equal(t, len(two), list.Part[0].Size)

	// Invalid requests do not change the key or the upload.
	up.finish(7, e7, 2, e2).is(400, "InvalidPartOrder")
	up.finish(2, e2, 2, e2).is(400, "InvalidPartOrder")
	up.finish(2, e2, 3, e7).is(400, "InvalidPart")
	up.finish(2, e7, 7, e7).is(400, "InvalidPart")
	up.finish(2, e2, 5, hexMD5([]byte("not used")), 7, e7).is(400, "EntityTooSmall")
	up.finish(0, e2).is(400, "InvalidArgument")
	up.finish().is(400, "MalformedXML")
	up.complete([]byte("<CompleteMultipartUpload><Part>")).is(400, "MalformedXML")
	up.complete(nil).is(400, "MalformedXML")
	up.complete(bytes.Repeat([]byte(" "), 2<<20+1)).is(400, "MaxMessageLengthExceeded")
	up.complete(up.doc(2, e2), "If-None-Match", "*").is(412, "PreconditionFailed")
	up.complete(up.doc(2, e2), "If-Match", `"other"`).is(412, "PreconditionFailed")
	require.Equal(t, "before", w.content("/bucket/key"))

	a := up.complete(up.doc(2, e2, 7, e7, 9, e9), "If-Match", hexMD5([]byte("before"))).is(200, "")
	want := multipartETag(e2, e7, e9)
	require.Contains(t, string(a.body), "<ETag>&quot;"+want+"&quot;</ETag>")
	require.Contains(t, string(a.body), "<Location>"+w.url+"/bucket/key</Location>")
	whole := bytes.Join([][]byte{one, two, three}, nil)
	a = w.do("GET", "/bucket/key", nil).is(200, "")
	require.True(t, bytes.Equal(whole, a.body))
	require.Equal(t, want, a.etag())
	require.Equal(t, "text/plain", a.header.Get("Content-Type"))
	require.Equal(t, "1", a.header.Get("X-Amz-Meta-One"))
	a = w.do("GET", "/bucket/key", nil, "Range", fmt.Sprintf("bytes=%d-%d", len(one)-3, len(one)+2)).is(206, "")
	require.Equal(t, whole[len(one)-3:len(one)+3], a.body)

	// Parts are read by their position.
	for i, body := range [][]byte{one, two, three} {
		a := w.do("GET", fmt.Sprintf("/bucket/key?partNumber=%d", i+1), nil).is(206, "")
		require.True(t, bytes.Equal(body, a.body))
		require.Equal(t, "3", a.header.Get("X-Amz-Mp-Parts-Count"))
		require.Equal(t, want, a.etag())
	}
	w.do("GET", "/bucket/key?partNumber=4", nil).is(416, "InvalidPartNumber")

	// The upload no longer exists, but a repeated Complete gets the same response.
	up.finish(2, e2, 7, e7, 9, e9).is(200, "")
	up.finish(2, e2, 7, e7).is(404, "NoSuchUpload")
	w.do("PUT", up.path(1), []byte("x")).is(404, "NoSuchUpload")
	w.do("DELETE", "/bucket/key?uploadId="+up.id, nil).is(404, "NoSuchUpload")
	w.do("GET", "/bucket/key?uploadId="+up.id, nil).is(404, "NoSuchUpload")
	w.put("/bucket/key", "after")
	up.finish(2, e2, 7, e7, 9, e9).is(404, "NoSuchUpload")
}

func TestMultipartErrors(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	up := w.begin("/bucket/key")
	for _, number := range []string{"0", "10001", "x", "-1", ""} {
		w.do("PUT", "/bucket/key?partNumber="+number+"&uploadId="+up.id, []byte("x")).is(400, "InvalidArgument")
	}
	w.do("PUT", "/bucket/key?uploadId="+up.id, []byte("x")).is(405, "MethodNotAllowed")
	w.do("PUT", "/bucket/key?partNumber=1&uploadId=", []byte("x")).is(400, "InvalidArgument")
	for _, id := range []string{"nonsense", absentUpload, "null", ""} {
		if id != "" {
			w.do("PUT", "/bucket/key?partNumber=1&uploadId="+id, []byte("x")).is(404, "NoSuchUpload")
		}
		w.do("POST", "/bucket/key?uploadId="+id, up.doc(1, "x")).is(404, "NoSuchUpload")
		w.do("DELETE", "/bucket/key?uploadId="+id, nil).is(404, "NoSuchUpload")
		w.do("GET", "/bucket/key?uploadId="+id, nil).is(404, "NoSuchUpload")
	}
	w.do("PUT", "/bucket/other?partNumber=1&uploadId="+up.id, []byte("x")).is(404, "NoSuchUpload")
	w.do("POST", "/bucket/key?uploads", nil, "X-Amz-Checksum-Algorithm", "CRC31").is(400, "InvalidRequest")
	w.do("POST", "/bucket/key?uploads", nil, "X-Amz-Storage-Class", "BEST").is(400, "InvalidStorageClass")
	w.do("DELETE", "/bucket/key?uploadId="+up.id, nil).is(204, "")
	w.do("PUT", up.path(1), []byte("x")).is(404, "NoSuchUpload")
	up = w.begin("/bucket/key")
	w.do("DELETE", "/bucket", nil).is(204, "") // a bucket with an upload can be deleted
	w.do("PUT", up.path(1), []byte("x")).is(404, "NoSuchBucket")
}

func TestUploadPartCopy(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	source := random(1, 12<<20)
	w.do("PUT", "/bucket/source", source).is(200, "")
	up := w.begin("/bucket/key")
	copyPart := func(number int, headers ...string) *response {
		return w.do("PUT", up.path(number), nil, append(headers, "X-Amz-Copy-Source", "/bucket/source")...)
	}
	etag := func(a *response) string {
		var got copyResult
		a.is(200, "").parse(&got)
		require.Empty(t, got.ChecksumCRC64NVME, "the upload has no algorithm")
		return strings.Trim(got.ETag, `"`)
	}
	e1 := etag(copyPart(1))
	e2 := etag(copyPart(2, "X-Amz-Copy-Source-Range", "bytes=100-6000099"))
	e3 := etag(copyPart(3, "X-Amz-Copy-Source-Range", "bytes=12582911-12582911"))
	require.Equal(t, hexMD5(source), e1)
	require.Equal(t, hexMD5(source[100:6000100]), e2)
	for _, bad := range []string{"bytes=0-12582912", "bytes=5-", "bytes=-5", "bytes=7-5", "0-5"} {
		copyPart(4, "X-Amz-Copy-Source-Range", bad).is(400, "InvalidArgument")
	}
	w.do("PUT", up.path(4), nil, "X-Amz-Copy-Source", "/bucket/none").is(404, "NoSuchKey")
	w.do("PUT", "/bucket/key?partNumber=4&uploadId="+absentUpload, nil, "X-Amz-Copy-Source", "/bucket/source").is(404, "NoSuchUpload")
	w.do("DELETE", "/bucket/source", nil).is(204, "")
	up.finish(1, e1, 2, e2, 3, e3).is(200, "")
	a := w.do("GET", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
	require.True(t, bytes.Equal(bytes.Join([][]byte{source, source[100:6000100], source[12582911:]}, nil), a.body))
	require.Equal(t, multipartETag(e1, e2, e3), a.etag())
	require.NotEmpty(t, a.header.Get("X-Amz-Checksum-Crc64nvme"))
}

func TestListMultipartUploads(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	type upload struct{ key, id string }
	var all []upload
	for _, key := range []string{"a", "b", "b", "b", "c/1", "c/2", "d%20e"} {
		all = append(all, upload{key, w.begin("/bucket/"+key, "X-Amz-Checksum-Algorithm", "CRC32").id})
	}
	type page struct {
		KeyMarker, NextKeyMarker, Prefix, Delimiter, EncodingType string
		UploadIDMarker                                            string `xml:"UploadIdMarker"`
		NextUploadIDMarker                                        string `xml:"NextUploadIdMarker"`
		MaxUploads                                                int
		IsTruncated                                               bool
		Upload                                                    []struct {
			Key, Initiated, ChecksumAlgorithm, ChecksumType string
			UploadID                                        string `xml:"UploadId"`
		}
		CommonPrefixes []struct{ Prefix string }
	}
	var got []upload
	marker := ""
	for {
		var p page
		w.do("GET", "/bucket?uploads&encoding-type=url&max-uploads=2"+marker, nil).is(200, "").parse(&p)
		for _, u := range p.Upload {
			got = append(got, upload{u.Key, u.UploadID})
			require.Equal(t, "CRC32", u.ChecksumAlgorithm)
			require.Equal(t, "COMPOSITE", u.ChecksumType)
		}
		if !p.IsTruncated {
			break
		}
		marker = "&key-marker=" + p.NextKeyMarker + "&upload-id-marker=" + p.NextUploadIDMarker
	}
	require.Equal(t, all, got)
	var p page
	w.do("GET", "/bucket?uploads&delimiter=/&prefix=c", nil).is(200, "").parse(&p)
	require.Empty(t, p.Upload)
	require.Equal(t, "c/", p.CommonPrefixes[0].Prefix)
	p = page{}
	w.do("GET", "/bucket?uploads&key-marker=b", nil).is(200, "").parse(&p)
	require.Len(t, p.Upload, 3)
	w.do("GET", "/bucket?uploads&key-marker=b&upload-id-marker=x", nil).is(400, "InvalidArgument")
}

// TestManyParts reads parts of an object with more parts than entries in its index.
func TestManyParts(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	source := random(1, 5<<20)
	w.do("PUT", "/bucket/source", source).is(200, "")
	up := w.begin("/bucket/key")
	var parts []any
	etag := hexMD5(source)
	for i := 1; i <= 600; i++ {
		w.do("PUT", up.path(3*i), nil, "X-Amz-Copy-Source", "/bucket/source").is(200, "")
		parts = append(parts, 3*i, etag)
	}
	up.finish(parts...).is(200, "")
	for _, n := range []int{1, 2, 255, 256, 257, 258, 511, 512, 513, 600} {
		a := w.do("HEAD", fmt.Sprintf("/bucket/key?partNumber=%d", n), nil).is(206, "")
		require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", (n-1)*len(source), n*len(source)-1, 600*len(source)), a.header.Get("Content-Range"))
	}
	a := w.do("GET", "/bucket/key?partNumber=513", nil).is(206, "")
	require.True(t, bytes.Equal(source, a.body))
}
