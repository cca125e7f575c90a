package s3_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tagging returns the body of PutObjectTagging. tags are alternating keys and values.
func tagging(tags ...string) []byte {
	var b strings.Builder
	b.WriteString("<Tagging><TagSet>")
	for i := 0; i < len(tags); i += 2 {
		b.WriteString("<Tag><Key>" + tags[i] + "</Key><Value>" + tags[i+1] + "</Value></Tag>")
	}
	b.WriteString("</TagSet></Tagging>")
	return []byte(b.String())
}

// tags returns the tags of an object, as key=value.
func (w *world) tags(path string) (list []string) {
	w.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	var doc struct {
		Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	w.do("GET", path+separator+"tagging", nil).is(200, "").parse(&doc)
	for _, t := range doc.Tags {
		list = append(list, t.Key+"="+t.Value)
	}
	return list
}

func TestObjectTagging(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	require.Empty(t, w.tags("/bucket/key"))
	require.Empty(t, w.do("HEAD", "/bucket/key", nil).header.Get("X-Amz-Tagging-Count"))

	before := w.do("HEAD", "/bucket/key", nil).header
	a := w.do("PUT", "/bucket/key?tagging", tagging("project", "orcas", "ключ", "värde +-=._:/@")).is(200, "")
	require.Empty(t, a.body)
	require.Equal(t, []string{"project=orcas", "ключ=värde +-=._:/@"}, w.tags("/bucket/key"))
	head := w.do("HEAD", "/bucket/key", nil).header
	require.Equal(t, "2", head.Get("X-Amz-Tagging-Count"))
	require.Equal(t, before.Get("Last-Modified"), head.Get("Last-Modified"), "setting tags must not create a new version")
	require.Equal(t, before.Get("Etag"), head.Get("Etag"))

	w.do("PUT", "/bucket/key?tagging", tagging("only", "")).is(200, "")
	require.Equal(t, []string{"only="}, w.tags("/bucket/key"))
	w.do("DELETE", "/bucket/key?tagging", nil).is(204, "")
	require.Empty(t, w.tags("/bucket/key"))
	w.do("DELETE", "/bucket/key?tagging", nil).is(204, "")
	w.do("PUT", "/bucket/key?tagging", tagging("a", "b")).is(200, "")
	w.do("PUT", "/bucket/key?tagging", []byte("<Tagging><TagSet/></Tagging>")).is(200, "")
	require.Empty(t, w.tags("/bucket/key"))
	require.Equal(t, "content", w.content("/bucket/key"))

	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.do(method, "/bucket/none?tagging", tagging("a", "b")).is(404, "NoSuchKey")
		w.do(method, "/bucket/key?tagging&versionId="+absentVersion, tagging("a", "b")).is(404, "NoSuchVersion")
		w.do(method, "/bucket/key?tagging&versionId=nonsense", tagging("a", "b")).is(400, "InvalidArgument")
	}
	w.do("PUT", "/bucket/key?tagging", tagging("a", "b"), "Content-Md5", md5Of([]byte("something else"))).is(400, "BadDigest")
	require.Empty(t, w.tags("/bucket/key"))
}

func TestObjectTaggingOfVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	first := w.do("PUT", "/bucket/key", []byte("1"), "X-Amz-Tagging", "n=1").header.Get("X-Amz-Version-Id")
	second := w.do("PUT", "/bucket/key", []byte("2"), "X-Amz-Tagging", "n=2").header.Get("X-Amz-Version-Id")
	require.NotEmpty(t, first)
	require.Equal(t, []string{"n=1"}, w.tags("/bucket/key?versionId="+first))
	a := w.do("PUT", "/bucket/key?tagging&versionId="+first, tagging("n", "one")).is(200, "")
	require.Equal(t, first, a.header.Get("X-Amz-Version-Id"))
	a = w.do("PUT", "/bucket/key?tagging", tagging("n", "two")).is(200, "")
	require.Equal(t, second, a.header.Get("X-Amz-Version-Id"))
	require.Equal(t, []string{"n=one"}, w.tags("/bucket/key?versionId="+first))
	require.Equal(t, []string{"n=two"}, w.tags("/bucket/key"))
	a = w.do("DELETE", "/bucket/key?tagging&versionId="+first, nil).is(204, "")
	require.Equal(t, first, a.header.Get("X-Amz-Version-Id"))
	require.Empty(t, w.tags("/bucket/key?versionId="+first))
	require.Equal(t, second, w.do("GET", "/bucket/key?tagging", nil).header.Get("X-Amz-Version-Id"))

	marker := w.do("DELETE", "/bucket/key", nil).is(204, "").header.Get("X-Amz-Version-Id")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.do(method, "/bucket/key?tagging", tagging("a", "b")).is(405, "MethodNotAllowed")
		a := w.do(method, "/bucket/key?tagging&versionId="+marker, tagging("a", "b")).is(405, "MethodNotAllowed")
		require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	}
	require.Equal(t, []string{"n=two"}, w.tags("/bucket/key?versionId="+second))
}

// elevenTags returns one tag more than allowed.
func elevenTags() (list []string) {
	for i := range 11 {
		list = append(list, fmt.Sprint("key", i), "v")
	}
	return list
}

func TestObjectTaggingRules(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	wide := "𝒜" // two UTF-16 code units
	w.do("PUT", "/bucket/key?tagging", tagging(elevenTags()[:20]...)).is(200, "")
	w.do("PUT", "/bucket/key?tagging", tagging(strings.Repeat("k", 128), strings.Repeat("v", 256))).is(200, "")
	w.do("PUT", "/bucket/key?tagging", tagging(strings.Repeat(wide, 64), strings.Repeat(wide, 128))).is(200, "")
	want := w.tags("/bucket/key")
	for _, c := range []struct {
		code string
		body []byte
	}{
		{"BadRequest", tagging(elevenTags()...)},
		{"InvalidTag", tagging(strings.Repeat("k", 129), "v")},
		{"InvalidTag", tagging("k", strings.Repeat("v", 257))},
		{"InvalidTag", tagging(strings.Repeat(wide, 65), "v")},
		{"InvalidTag", tagging("k", strings.Repeat(wide, 129))},
		{"InvalidTag", tagging("", "v")},
		{"InvalidTag", tagging("a", "1", "a", "2")},
		{"InvalidTag", tagging("a?", "1")},
		{"InvalidTag", tagging("a", "x*y")},
		{"InvalidTag", tagging("a,b", "1")},
		{"InvalidTag", tagging("a", "tab\tnot")},
		{"InvalidTag", tagging("aws:created", "1")},
		{"MissingRequestBodyError", nil},
		{"MalformedXML", []byte("<Tagging></Tagging>")},
		{"MalformedXML", []byte("<Other><TagSet/></Other>")},
		{"MalformedXML", []byte("<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>")},
		{"MalformedXML", []byte("<Tagging><TagSet><Tag><Value>a</Value></Tag></TagSet></Tagging>")},
		{"MalformedXML", []byte("<Tagging><TagSet>")},
	} {
		w.do("PUT", "/bucket/key?tagging", c.body).is(400, c.code)
	}
	require.Equal(t, want, w.tags("/bucket/key"), "refused requests must not change the tags")
}

func TestTaggingHeader(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	put := func(tags string) *response {
		return w.do("PUT", "/bucket/key", []byte("content"), "X-Amz-Tagging", tags)
	}
	put("b=2%3D&a=x+y&c&%D0%BA=%2B").is(200, "")
	require.Equal(t, []string{"a=x y", "b=2=", "c=", "к=+"}, w.tags("/bucket/key"))
	require.Equal(t, "4", w.do("GET", "/bucket/key", nil).header.Get("X-Amz-Tagging-Count"))
	put("").is(200, "")
	require.Empty(t, w.tags("/bucket/key"))
	put("a=1").is(200, "")
	var eleven []string
	for i := range 11 {
		eleven = append(eleven, fmt.Sprintf("k%d=v", i))
	}
	for tags, code := range map[string]string{
		"a=1&a=2":                       "InvalidArgument",
		"TagSet=[{Key=a,Value=b}]":      "InvalidArgument",
		"a=%zz":                         "InvalidArgument",
		"a=%ff":                         "InvalidArgument",
		"%ff=a":                         "InvalidArgument",
		"=1":                            "InvalidArgument",
		"TagSet%3D%5B%7BKey%3Da%7D%5D":  "InvalidTag",
		"a=%26":                         "InvalidTag",
		"aws:a=1":                       "InvalidTag",
		strings.Repeat("k", 129):        "InvalidTag",
		"k=" + strings.Repeat("v", 257): "InvalidTag",
		strings.Join(eleven, "&"):       "BadRequest",
	} {
		put(tags).is(400, code)
		w.do("POST", "/bucket/key?uploads", nil, "X-Amz-Tagging", tags).is(400, code)
		w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Tagging", tags, "X-Amz-Tagging-Directive", "REPLACE").is(400, code)
	}
	require.Equal(t, []string{"a=1"}, w.tags("/bucket/key"))

	// In a presigned URL, the header is in the query.
	r := w.request("PUT", "/bucket/presigned?x-amz-tagging="+url.QueryEscape("a=b&c=d"), []byte("x"))
	w.signer.Presign(r, time.Minute, w.now())
	w.send(r).is(200, "")
	require.Equal(t, []string{"a=b", "c=d"}, w.tags("/bucket/presigned"))
}

func TestTagsOfCopies(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content", "X-Amz-Tagging", "a=1&b=2")
	copied := func(headers ...string) []string {
		w.do("PUT", "/bucket/copy", nil, append(headers, "X-Amz-Copy-Source", "/bucket/key")...).is(200, "")
		return w.tags("/bucket/copy")
	}
	require.Equal(t, []string{"a=1", "b=2"}, copied())
	require.Equal(t, []string{"a=1", "b=2"}, copied("X-Amz-Tagging-Directive", "COPY"))
	require.Equal(t, []string{"c=3"}, copied("X-Amz-Tagging-Directive", "REPLACE", "X-Amz-Tagging", "c=3"))
	require.Empty(t, copied("X-Amz-Tagging-Directive", "REPLACE"))
	require.Equal(t, []string{"a=1", "b=2"}, copied("X-Amz-Metadata-Directive", "REPLACE"))
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Tagging-Directive", "MOVE").is(400, "InvalidArgument")
	w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Tagging-Directive", "REPLACE", "X-Amz-Tagging", "c=3").is(400, "InvalidRequest")
	require.Equal(t, []string{"a=1", "b=2"}, w.tags("/bucket/key"))
}

func TestTagsOfUploads(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	var begun struct{ UploadId string }
	w.do("POST", "/bucket/key?uploads", nil, "X-Amz-Tagging", "a=1&b=2").is(200, "").parse(&begun)
	etag := w.put("/bucket/key?partNumber=1&uploadId="+begun.UploadId, "content")
	w.do("POST", "/bucket/key?uploadId="+begun.UploadId, []byte("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+etag+"</ETag></Part></CompleteMultipartUpload>")).is(200, "")
	require.Equal(t, []string{"a=1", "b=2"}, w.tags("/bucket/key"))
	w.do("PUT", "/bucket/key?tagging", tagging("c", "3")).is(200, "")
	require.Equal(t, []string{"c=3"}, w.tags("/bucket/key"))
	require.Equal(t, "content", w.content("/bucket/key"))
}
