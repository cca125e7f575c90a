package s3_test

import (
	"encoding/xml"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
)

// sums holds the elements of a document that have no field of their own.
type sums struct {
	Elements []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

// sum returns the text of an element, or "".
func (s *sums) sum(name string) string {
	for _, e := range s.Elements {
		if e.XMLName.Local == name {
			return e.Text
		}
	}
	return ""
}

type attributes struct {
	XMLName      xml.Name `xml:"GetObjectAttributesResponse"`
	ETag         string
	Checksum     *sums
	StorageClass string
	ObjectSize   *int64
	ObjectParts  *struct {
		PartsCount, PartNumberMarker, NextPartNumberMarker, MaxParts int
		IsTruncated                                                  bool
		Part                                                         []struct {
			PartNumber int
			Size       int64
			sums
		}
	}
}

func (w *world) attributes(key, names string, headers ...string) (got attributes) {
	w.t.Helper()
	w.do("GET", key+"?attributes", nil, append(headers, "X-Amz-Object-Attributes", names)...).is(200, "").parse(&got)
	return got
}

// hasMessage checks the message of an error.
func (a *response) hasMessage(message string) *response {
	a.t.Helper()
	var e struct{ Message string }
	require.NoError(a.t, xml.Unmarshal(a.body, &e))
	require.Equal(a.t, message, e.Message)
	return a
}

func TestObjectAttributes(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content", "X-Amz-Storage-Class", "STANDARD_IA")
	got := w.attributes("/bucket/key", "ETag, Checksum,ObjectParts", "X-Amz-Object-Attributes", "StorageClass,ObjectSize")
	require.Equal(t, hexMD5([]byte("content")), got.ETag, "without quotes")
	require.Equal(t, sumOf(checksum.CRC64NVME, []byte("content")), got.Checksum.sum("ChecksumCRC64NVME"))
	require.Equal(t, "FULL_OBJECT", got.Checksum.sum("ChecksumType"))
	require.Nil(t, got.ObjectParts)
	require.Equal(t, "STANDARD_IA", got.StorageClass)
	require.Equal(t, int64(7), *got.ObjectSize)
	require.Equal(t, attributes{XMLName: got.XMLName, ETag: got.ETag}, w.attributes("/bucket/key", "ETag"))
	w.put("/bucket/empty", "")
	got = w.attributes("/bucket/empty", "ObjectSize,StorageClass")
	require.Equal(t, int64(0), *got.ObjectSize)
	require.Equal(t, "STANDARD", got.StorageClass)

	ask := func(key string, headers ...string) *response { return w.do("GET", key, nil, headers...) }
	ask("/bucket/key?attributes").is(400, "InvalidRequest").
		hasMessage("The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	ask("/bucket/key?attributes", "X-Amz-Object-Attributes", " , ").is(400, "InvalidRequest")
	a := ask("/bucket/key?attributes", "X-Amz-Object-Attributes", "ETag,etag").is(400, "InvalidArgument").hasMessage("Invalid attribute name specified.")
	require.Contains(t, string(a.body), "<ArgumentName>x-amz-object-attributes</ArgumentName><ArgumentValue>etag</ArgumentValue>")
	ask("/bucket/none?attributes", "X-Amz-Object-Attributes", "ETag").is(404, "NoSuchKey")
	ask("/none/key?attributes", "X-Amz-Object-Attributes", "ETag").is(404, "NoSuchBucket")
	ask("/bucket/key?attributes&versionId="+absentVersion, "X-Amz-Object-Attributes", "ETag").is(404, "NoSuchVersion")
	ask("/bucket?attributes", "X-Amz-Object-Attributes", "ETag").is(501, "NotImplemented")
	ask("/bucket/key", "X-Amz-Object-Attributes", "ETag").is(501, "NotImplemented")
	w.do("HEAD", "/bucket/key?attributes", nil, "X-Amz-Object-Attributes", "ETag").is(501, "")
	w.do("PUT", "/bucket/key?attributes", nil).is(501, "NotImplemented")
}

// The attributes of an object that is encrypted with a customer key are not readable without the key.
func TestObjectAttributesUnderCustomerKey(t *testing.T) {
	w := newWorld(t, setup{start: overTLS})
	w.bucket("bucket")
	w.put("/bucket/key", "content", customerKey(sse, 'K')...)
	w.put("/bucket/plain", "content")
	ask := func(key string, headers ...string) *response {
		return w.do("GET", key+"?attributes", nil, append(headers, "X-Amz-Object-Attributes", "ObjectSize")...)
	}
	ask("/bucket/key").is(400, "InvalidRequest")
	ask("/bucket/key", customerKey(sse, 'O')...).is(403, "AccessDenied")
	ask("/bucket/key", customerKey(sse, 'K')...).is(200, "")
	ask("/bucket/plain").is(200, "")
	ask("/bucket/plain", customerKey(sse, 'K')...).is(400, "InvalidRequest")
}

func TestObjectAttributesOfVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	one := w.do("PUT", "/bucket/key", []byte("one")).is(200, "").header.Get("X-Amz-Version-Id")
	w.put("/bucket/key", "second")
	a := w.do("GET", "/bucket/key?attributes&versionId="+one, nil, "X-Amz-Object-Attributes", "ObjectSize").is(200, "")
	require.Equal(t, one, a.header.Get("X-Amz-Version-Id"))
	require.NotEmpty(t, a.header.Get("Last-Modified"))
	require.Contains(t, string(a.body), "<ObjectSize>3</ObjectSize>")
	require.Equal(t, int64(6), *w.attributes("/bucket/key", "ObjectSize").ObjectSize)
	marker := w.do("DELETE", "/bucket/key", nil).is(204, "").header.Get("X-Amz-Version-Id")
	a = w.do("GET", "/bucket/key?attributes", nil, "X-Amz-Object-Attributes", "ObjectSize").is(404, "NoSuchKey")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	a = w.do("GET", "/bucket/key?attributes&versionId="+marker, nil, "X-Amz-Object-Attributes", "ObjectSize").is(405, "MethodNotAllowed")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
}

// TestPartsPages reads the parts of an upload, and of the object that it becomes, in pages of every size.
func TestPartsPages(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	source := random(1, 5<<20)
	w.do("PUT", "/bucket/source", source).is(200, "")
	up := w.begin("/bucket/key")
	const count = 530 // so that the index has two entries
	var refs []any
	for i := 1; i <= count; i++ {
		w.do("PUT", up.path(2*i), nil, "X-Amz-Copy-Source", "/bucket/source").is(200, "")
		refs = append(refs, 2*i, hexMD5(source))
	}
	type page struct {
		PartNumberMarker, NextPartNumberMarker, MaxParts int
		IsTruncated                                      bool
		Part                                             []struct{ PartNumber int }
	}
	for _, limit := range []int{7, 256, 1000, 5000} {
		var seen []int
		for after := 0; ; {
			var p page
			w.do("GET", fmt.Sprintf("/bucket/key?uploadId=%s&max-parts=%d&part-number-marker=%d", up.id, limit, after), nil).is(200, "").parse(&p)
			require.Equal(t, after, p.PartNumberMarker)
			require.Equal(t, min(limit, 1000), p.MaxParts)
			require.LessOrEqual(t, len(p.Part), p.MaxParts)
			for _, part := range p.Part {
				require.Greater(t, part.PartNumber, after)
				seen = append(seen, part.PartNumber)
			}
			if !p.IsTruncated {
				break
			}
			require.Len(t, p.Part, limit)
			after = p.NextPartNumberMarker
		}
		require.Len(t, seen, count)
		for i, n := range seen {
			require.Equal(t, 2*(i+1), n)
		}
	}
	up.finish(refs...).is(200, "")
	for _, limit := range []int{1, 100, 255, 256, 257, 1000, 5000} {
		seen := 0
		for after := 0; ; {
			parts := w.attributes("/bucket/key", "ObjectParts", "X-Amz-Max-Parts", fmt.Sprint(limit), "X-Amz-Part-Number-Marker", fmt.Sprint(after)).ObjectParts
			require.Equal(t, count, parts.PartsCount)
			require.Equal(t, after, parts.PartNumberMarker)
			require.Equal(t, min(limit, 1000), parts.MaxParts)
			for _, p := range parts.Part {
				seen++
				require.Equal(t, seen, p.PartNumber)
				require.Equal(t, int64(len(source)), p.Size)
			}
			require.Equal(t, seen, parts.NextPartNumberMarker)
			if !parts.IsTruncated {
				break
			}
			require.Len(t, parts.Part, limit)
			after = parts.NextPartNumberMarker
		}
		require.Equal(t, count, seen)
	}
	for _, h := range [][2]string{{"X-Amz-Max-Parts", "many"}, {"X-Amz-Max-Parts", "-1"}, {"X-Amz-Part-Number-Marker", "x"}} {
		require.Len(t, w.attributes("/bucket/key", "ObjectParts", h[0], h[1]).ObjectParts.Part, count, "S3 ignores invalid numbers in these headers")
	}
	empty := w.attributes("/bucket/key", "ObjectParts", "X-Amz-Part-Number-Marker", "9999").ObjectParts
	require.Empty(t, empty.Part)
	require.False(t, empty.IsTruncated)
	empty = w.attributes("/bucket/key", "ObjectParts", "X-Amz-Max-Parts", "0").ObjectParts
	require.Empty(t, empty.Part)
	require.False(t, empty.IsTruncated)

	// Invalid values of partNumber in GET and HEAD.
	for _, n := range []string{"0", "10001", "x", "-1", ""} {
		w.do("GET", "/bucket/key?partNumber="+n, nil).is(400, "InvalidArgument")
	}
	w.do("GET", fmt.Sprintf("/bucket/key?partNumber=%d", count+1), nil).is(416, "InvalidPartNumber")
	w.do("HEAD", fmt.Sprintf("/bucket/key?partNumber=%d", count+1), nil).is(416, "")
	w.do("GET", "/bucket/source?partNumber=2", nil).is(416, "InvalidPartNumber")
	w.do("GET", "/bucket/key?partNumber=1", nil, "Range", "bytes=0-1").is(400, "InvalidRequest").
		hasMessage("Cannot specify both Range header and partNumber query parameter")
	w.do("GET", "/bucket/source?partNumber=1", nil).is(206, "")
}
