package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/s3"
)

func TestBucketLifecycle(t *testing.T) {
	w := newWorld(t)
	w.do("HEAD", "/bucket", nil).is(404, "")
	a := w.do("PUT", "/bucket", nil).is(200, "")
	require.Equal(t, "/bucket", a.header.Get("Location"))
	w.do("PUT", "/bucket", nil).is(200, "") // us-east-1
	require.Equal(t, "us-east-1", w.do("HEAD", "/bucket", nil).is(200, "").header.Get("X-Amz-Bucket-Region"))
	w.put("/bucket/key", "x")
	w.do("DELETE", "/bucket", nil).is(409, "BucketNotEmpty")
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	w.do("DELETE", "/bucket", nil).is(204, "")
	for _, c := range [][2]string{
		{"DELETE", "/bucket"}, {"GET", "/bucket"}, {"GET", "/bucket/key"}, {"PUT", "/bucket/key"}, {"DELETE", "/bucket/key"}, {"GET", "/bucket?location"},
		{"GET", "/bucket?uploads"}, {"POST", "/bucket/key?uploads"}, {"GET", "/bucket?versioning"},
	} {
		w.do(c[0], c[1], nil).is(404, "NoSuchBucket")
	}
	for _, bad := range []string{"/Bucket", "/b", "/a..b", "/192.168.1.1", "/bad_name", "/-bucket", "/" + strings.Repeat("b", 64), "//key"} {
		w.do("PUT", bad, nil).is(400, "InvalidBucketName")
		w.do("GET", bad, nil).is(400, "InvalidBucketName")
	}
}

func TestCreateBucketBody(t *testing.T) {
	w := newWorld(t)
	body := func(s string) []byte {
		return []byte("<CreateBucketConfiguration>" + s + "</CreateBucketConfiguration>")
	}
	w.do("PUT", "/one", body("")).is(200, "")
	w.do("PUT", "/two", body("<LocationConstraint>us-east-1</LocationConstraint>")).is(200, "")
	w.do("PUT", "/three", body("<LocationConstraint>mars-1</LocationConstraint>")).is(400, "InvalidLocationConstraint")
	w.do("PUT", "/four", body("<Tags><Tag><Key>a</Key></Tag></Tags>")).is(400, "MalformedXML")
	w.do("PUT", "/five", body("<Bucket><Type>Directory</Type></Bucket>")).is(501, "NotImplemented")
	w.do("PUT", "/six", []byte("<Other/>")).is(400, "MalformedXML")
	w.do("PUT", "/seven", nil, "X-Amz-Bucket-Object-Lock-Enabled", "perhaps").is(400, "InvalidArgument")
	w.do("PUT", "/eight", nil, "X-Amz-Acl", "public-read").is(400, "InvalidBucketAclWithObjectOwnership")
	w.do("PUT", "/eight", nil, "X-Amz-Grant-Write", "id=1").is(400, "InvalidBucketAclWithObjectOwnership")
	w.do("PUT", "/eight", nil, "X-Amz-Acl", "public-read", "X-Amz-Object-Ownership", "ObjectWriter").is(501, "NotImplemented")
	w.do("PUT", "/eight", nil, "X-Amz-Acl", "odd").is(400, "InvalidArgument")
	w.do("PUT", "/nine", nil, "X-Amz-Object-Ownership", "Nobody").is(400, "InvalidArgument")
	var list struct {
		Buckets []struct{ Name string } `xml:"Buckets>Bucket"`
	}
	w.do("GET", "/", nil).is(200, "").parse(&list)
	require.Len(t, list.Buckets, 2)
}

func TestOtherRegions(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Region, o.AnyRegion = "eu-central-1", true }})
	w.bucket("one") // signed for another region
	w.do("PUT", "/one", nil).is(409, "BucketAlreadyOwnedByYou")
	location := func(bucket string) string { return string(w.do("GET", "/"+bucket+"?location", nil).is(200, "").body) }
	require.Contains(t, location("one"), ">eu-central-1</LocationConstraint>")
	w.do("PUT", "/two", []byte("<CreateBucketConfiguration><LocationConstraint>mars-1</LocationConstraint></CreateBucketConfiguration>")).is(200, "")
	require.Contains(t, location("two"), ">mars-1</LocationConstraint>")
	require.Equal(t, "mars-1", w.do("HEAD", "/two", nil).is(200, "").header.Get("X-Amz-Bucket-Region"))
}

func TestListBuckets(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b-2", "a-1", "b-1", "b-3"} {
		w.bucket(name)
	}
	type result struct {
		Owner   struct{ ID string }
		Buckets []struct {
			Name, BucketRegion string
			CreationDate       time.Time
		} `xml:"Buckets>Bucket"`
		Prefix, ContinuationToken string
	}
	var got []string
	token := ""
	for pages := 0; ; pages++ {
		var page result
		w.do("GET", "/?prefix=b-&max-buckets=2&continuation-token="+token, nil).is(200, "").parse(&page)
		require.Equal(t, canonical, page.Owner.ID)
		require.Equal(t, "b-", page.Prefix)
		for _, b := range page.Buckets {
			got = append(got, b.Name)
			require.Equal(t, "us-east-1", b.BucketRegion)
			require.WithinDuration(t, time.Now(), b.CreationDate, time.Minute)
		}
		if token = page.ContinuationToken; token == "" {
			require.Equal(t, 1, pages)
			break
		}
	}
	require.Equal(t, []string{"b-1", "b-2", "b-3"}, got)
	var none result
	w.do("GET", "/?bucket-region=mars-1", nil).is(200, "").parse(&none)
	require.Empty(t, none.Buckets)
	w.do("GET", "/?max-buckets=0", nil).is(400, "InvalidArgument")
	w.do("GET", "/?max-buckets=x", nil).is(400, "InvalidArgument")
	w.do("GET", "/?continuation-token=x", nil).is(400, "InvalidArgument")
}

func TestKeysAreData(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.EscapingKeys = true }})
	w.bucket("bucket")
	keys := []string{
		"plain", "with space", "a/b/c", "a//b", "/leading", "trailing/", "..", "../up", "a/../b", "a/./b", ".", "plus+plus", "per%cent", "%2F", "a%2fb",
		"emoji \U0001f600", "ünï", "quote\"'<>&", "question?mark=1&x", "hash#", "semi;colon,comma", "back\\slash", "new\nline", "tab\t", "\x01\x7f", "[]{}|^`~!*()$@=:",
		strings.Repeat("k", 1024), strings.Repeat("\u00e9", 512), "bucket/key", "-/health/live",
	}
	for i, key := range keys {
		w.put(path("bucket", key), fmt.Sprint(i))
	}
	for i, key := range keys {
		require.Equal(t, fmt.Sprint(i), w.content(path("bucket", key)), "%q", key)
	}
	for i, key := range keys { // as a client that escapes as little as possible
		u := url.URL{Path: "/bucket/" + key}
		require.Equal(t, fmt.Sprint(i), w.content(u.EscapedPath()), "%q", key)
	}
	seen := map[string]bool{}
	page := listAll(w, "bucket", "")
	for _, key := range page {
		seen[key] = true
	}
	require.Len(t, page, len(keys))
	for _, key := range keys {
		require.True(t, seen[key], "%q", key)
		w.do("DELETE", path("bucket", key), nil).is(204, "")
	}
	w.do("DELETE", "/bucket", nil).is(204, "")
}

// Writes to a key that climbs above the root of its bucket are refused, unless the server is configured to accept them.
// An existing object with such a key can be read, listed, copied, moved to another key, and deleted.
func TestEscapingKeys(t *testing.T) {
	var permissive http.Handler
	w := newWorld(t, setup{options: func(o *s3.Options) {
		other := *o
		other.EscapingKeys = true
		var err error
		permissive, err = s3.New(other)
		require.NoError(t, err)
	}})
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	older := *w
	server := httptest.NewServer(permissive)
	t.Cleanup(server.Close)
	older.url, older.client = server.URL, server.Client()
	for _, key := range []string{"..", "../a", "a/../../b", "a/../..", "/../a", "a//../../b", "./../a", "..//../a"} {
		at := path("bucket", key)
		older.put(at, "old content")
		up := older.begin(at)
		for _, request := range [][]string{
			{"PUT", at}, {"PUT", at, "X-Amz-Copy-Source", "/bucket/key"}, {"PUT", at, "X-Amz-Move-Source", "/bucket/key"},
			{"PUT", at + "?renameObject", "X-Amz-Rename-Source", "key"}, {"PUT", at, "X-Amz-Write-Offset-Bytes", "5"}, {"POST", at + "?uploads"},
			{"PUT", at + "?uploadId=" + up.id + "&partNumber=1"}, {"PUT", at + "?uploadId=" + up.id + "&partNumber=1", "X-Amz-Copy-Source", "/bucket/key"},
			{"POST", at + "?uploadId=" + up.id},
		} {
			a := w.do(request[0], request[1], []byte("x"), request[2:]...).is(400, "InvalidURI")
			require.Contains(t, string(a.body), "above the root", "%q", request)
		}
		require.Equal(t, "old content", w.content(at))
		require.Contains(t, listAll(w, "bucket", ""), key)
		w.do("PUT", at+"?tagging", []byte("<Tagging><TagSet/></Tagging>")).is(200, "")
		w.do("GET", at+"?uploadId="+up.id, nil).is(200, "")
		w.do("DELETE", at+"?uploadId="+up.id, nil).is(204, "")
		w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", at).is(200, "")
		w.do("PUT", "/bucket/moved", nil, "X-Amz-Move-Source", at).is(200, "")
		older.put(at, "old content")
		w.do("DELETE", at, nil).is(204, "")
		require.Equal(t, "(none)", w.content(at))
	}
	for _, key := range []string{"a/..", "a/../b", "a/b/../..", "...", "..a/b", "a../b", ".", "./a", "a/./..", "/a/../b"} {
		w.put(path("bucket", key), "content")
	}
}

func TestBadKeys(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for bad, code := range map[string]string{
		"/bucket/" + strings.Repeat("k", 1025): "KeyTooLongError", "/bucket/%FF": "InvalidURI", "/bucket/a%00b": "InvalidArgument",
	} {
		w.do("PUT", bad, []byte("x")).is(400, code)
		w.do("GET", bad, nil).is(400, code)
		w.do("DELETE", bad, nil).is(400, code)
	}
	require.Empty(t, listAll(w, "bucket", ""))
}

func TestStoredHeaders(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	sent := map[string]string{
		"Cache-Control": "max-age=5", "Content-Disposition": `attachment; filename="a.txt"`, "Content-Language": "de", "Content-Type": "text/plain; charset=utf-8",
		"Expires": "Thu, 01 Dec 2033 16:00:00 GMT", "X-Amz-Website-Redirect-Location": "/there", "X-Amz-Meta-One": "1", "X-Amz-Meta-With-Dash": "two words",
		"X-Amz-Storage-Class": "STANDARD_IA",
	}
	headers := []string{"Content-Encoding", "aws-chunked,gzip"}
	for name, v := range sent {
		headers = append(headers, name, v)
	}
	before := time.Now().Add(-2 * time.Second)
	etag := w.put("/bucket/key", "content", headers...)
	require.Equal(t, hexMD5([]byte("content")), etag)
	for _, method := range []string{"GET", "HEAD"} {
		a := w.do(method, "/bucket/key", nil).is(200, "")
		for name, v := range sent {
			require.Equal(t, v, a.header.Get(name), name)
		}
		require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
		require.Equal(t, "7", a.header.Get("Content-Length"))
		require.Equal(t, `"`+etag+`"`, a.header.Get("ETag"))
		require.Equal(t, "bytes", a.header.Get("Accept-Ranges"))
		require.Empty(t, a.header.Get("X-Amz-Checksum-Crc64nvme"))
		modified, err := http.ParseTime(a.header.Get("Last-Modified"))
		require.NoError(t, err)
		require.True(t, modified.After(before))
		if method == "GET" {
			require.Equal(t, "content", string(a.body))
		}
	}
	a := w.do("GET", "/bucket/key?response-content-type=text%2Fhtml&response-cache-control=no-cache&response-expires=now&response-content-language=fr"+
		"&response-content-encoding=identity&response-content-disposition=inline%0D%0AEvil:+1", nil).is(200, "")
	require.Equal(t, "text/html", a.header.Get("Content-Type"))
	require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
	require.Equal(t, "fr", a.header.Get("Content-Language"))
	require.Empty(t, a.header.Get("Evil"))
	w.put("/bucket/bare", "")
	a = w.do("GET", "/bucket/bare", nil).is(200, "")
	require.Equal(t, "binary/octet-stream", a.header.Get("Content-Type"))
	require.Equal(t, "0", a.header.Get("Content-Length"))
	require.Empty(t, a.header.Get("X-Amz-Storage-Class"))
	w.do("PUT", "/bucket/key", nil, "X-Amz-Meta-A", strings.Repeat("x", 1024), "X-Amz-Meta-B", strings.Repeat("x", 1024)).is(400, "MetadataTooLarge")
	w.do("GET", "/bucket/none", nil).is(404, "NoSuchKey")
	w.do("HEAD", "/bucket/none", nil).is(404, "")
	w.do("GET", "/bucket/key?versionId="+absentVersion, nil).is(404, "NoSuchVersion")
	w.do("GET", "/bucket/key?versionId=nonsense", nil).is(400, "InvalidArgument")
	w.do("GET", "/bucket/key?versionId=null", nil).is(200, "")
}

func TestRanges(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	small, large := []byte("0123456789"), random(1, 9<<20)
	w.do("PUT", "/bucket/small", small).is(200, "")
	w.do("PUT", "/bucket/large", large).is(200, "")
	w.put("/bucket/empty", "")
	for header, want := range map[string]string{
		"bytes=0-0": "0", "bytes=2-5": "2345", "bytes=7-": "789", "bytes=-2": "89", "bytes=5-999": "56789", "bytes=-999": "0123456789",
	} {
		a := w.do("GET", "/bucket/small", nil, "Range", header).is(206, "")
		require.Equal(t, want, string(a.body), header)
		from := strings.Index(string(small), want)
		require.Equal(t, fmt.Sprintf("bytes %d-%d/10", from, from+len(want)-1), a.header.Get("Content-Range"))
		a = w.do("HEAD", "/bucket/small", nil, "Range", header).is(206, "")
		require.Equal(t, fmt.Sprint(len(want)), a.header.Get("Content-Length"))
	}
	for _, header := range []string{"bytes=0-1,3-4", "bytes=5-2", "items=0-1", "bytes=x-y", "nonsense"} {
		require.Equal(t, small, w.do("GET", "/bucket/small", nil, "Range", header).is(200, "").body, header)
	}
	for _, header := range []string{"bytes=10-", "bytes=10-11", "bytes=-0"} {
		a := w.do("GET", "/bucket/small", nil, "Range", header).is(416, "InvalidRange")
		require.Equal(t, "bytes */10", a.header.Get("Content-Range"))
		require.Contains(t, string(a.body), "<ActualObjectSize>10</ActualObjectSize>")
		require.Empty(t, w.do("HEAD", "/bucket/small", nil, "Range", header).is(416, "").body)
	}
	w.do("GET", "/bucket/empty", nil, "Range", "bytes=0-").is(416, "InvalidRange")
	for _, r := range [][2]int{{0, 1}, {262143, 262145}, {4<<20 - 1, 4<<20 + 1}, {1 << 20, 8 << 20}, {9<<20 - 1, 9<<20 - 1}} {
		a := w.do("GET", "/bucket/large", nil, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[1])).is(206, "")
		require.Equal(t, large[r[0]:r[1]+1], a.body)
	}
	// If-Range.
	a := w.do("HEAD", "/bucket/small", nil)
	etag, modified := a.header.Get("ETag"), a.header.Get("Last-Modified")
	for v, status := range map[string]int{etag: 206, modified: 206, `"other"`: 200, "Thu, 01 Dec 2033 16:00:00 GMT": 200} {
		w.do("GET", "/bucket/small", nil, "Range", "bytes=0-1", "If-Range", v).is(status, "")
	}
	// partNumber of an object without parts.
	a = w.do("GET", "/bucket/small?partNumber=1", nil).is(206, "")
	require.Equal(t, "bytes 0-9/10", a.header.Get("Content-Range"))
	w.do("GET", "/bucket/empty?partNumber=1", nil).is(200, "")
	w.do("GET", "/bucket/small?partNumber=2", nil).is(416, "InvalidPartNumber")
	w.do("GET", "/bucket/small?partNumber=0", nil).is(400, "InvalidArgument")
	w.do("GET", "/bucket/small?partNumber=1", nil, "Range", "bytes=0-1").is(400, "InvalidRequest")
}

func TestConditionsOfReads(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := `"` + w.put("/bucket/key", "content", "Cache-Control", "max-age=5") + `"`
	past, now, future := "Thu, 01 Dec 1994 16:00:00 GMT", time.Now().UTC().Format(http.TimeFormat), "Thu, 01 Dec 2033 16:00:00 GMT"
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{200, []string{"If-Match", etag}},
		{412, []string{"If-Match", `"other"`}},
		{304, []string{"If-None-Match", etag}},
		{200, []string{"If-None-Match", `"other"`}},
		{304, []string{"If-Modified-Since", now}},
		{200, []string{"If-Modified-Since", future}},
		{200, []string{"If-Modified-Since", past}},
		{412, []string{"If-Unmodified-Since", past}},
		{200, []string{"If-Unmodified-Since", future}},
		{200, []string{"If-Match", etag, "If-Unmodified-Since", past}},
		{200, []string{"If-None-Match", `"other"`, "If-Modified-Since", future}},
		{304, []string{"If-None-Match", etag, "If-Modified-Since", past}},
	} {
		code := ""
		if c.status == 412 {
			code = "PreconditionFailed"
		}
		a := w.do("GET", "/bucket/key", nil, c.headers...).is(c.status, code)
		w.do("HEAD", "/bucket/key", nil, c.headers...).is(c.status, "")
		if c.status == 304 {
			require.Empty(t, a.body)
			require.Equal(t, etag, a.header.Get("ETag"))
			require.Equal(t, "max-age=5", a.header.Get("Cache-Control"))
		}
	}
}

func TestConditionsOfWrites(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.do("PUT", "/bucket/key", []byte("x"), "If-Match", `"any"`).is(404, "NoSuchKey")
	etag := `"` + w.put("/bucket/key", "one", "If-None-Match", "*") + `"`
	w.do("PUT", "/bucket/key", []byte("x"), "If-None-Match", "*").is(412, "PreconditionFailed")
	w.do("PUT", "/bucket/key", []byte("x"), "If-Match", `"other"`).is(412, "PreconditionFailed")
	require.Equal(t, "one", w.content("/bucket/key"))
	etag = `"` + w.put("/bucket/key", "two", "If-Match", etag) + `"`
	w.put("/bucket/key", "two", "If-Match", "*")

	w.do("DELETE", "/bucket/none", nil, "If-Match", etag).is(404, "NoSuchKey")
	w.do("DELETE", "/bucket/key", nil, "If-Match", `"other"`).is(412, "PreconditionFailed")
	require.Equal(t, "two", w.content("/bucket/key"))

	w.put("/bucket/source", "source")
	copying := []string{"X-Amz-Copy-Source", "/bucket/source"}
	w.do("PUT", "/bucket/key", nil, append(copying, "If-None-Match", "*")...).is(412, "PreconditionFailed")
	w.do("PUT", "/bucket/key", nil, append(copying, "If-Match", `"other"`)...).is(412, "PreconditionFailed")
	w.do("PUT", "/bucket/none", nil, append(copying, "If-Match", etag)...).is(404, "NoSuchKey")
	require.Equal(t, "two", w.content("/bucket/key"))
	w.do("PUT", "/bucket/key", nil, append(copying, "If-Match", etag)...).is(200, "")
	require.Equal(t, "source", w.content("/bucket/key"))
	w.do("DELETE", "/bucket/key", nil, "If-Match", `"`+hexMD5([]byte("source"))+`"`).is(204, "")
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

func TestRacingConditionalWriters(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	race := func(headers ...string) {
		t.Helper()
		var group sync.WaitGroup
		status := make([]int, 16)
		for i := range status {
			r := w.request("PUT", "/bucket/key", fmt.Appendf(nil, "%s %d", headers[1], i), headers...)
			w.signer.Sign(r, hash(fmt.Appendf(nil, "%s %d", headers[1], i)), w.now())
			group.Go(func() {
				res, err := w.client.Do(r)
				if err == nil {
					res.Body.Close()
					status[i] = res.StatusCode
				}
			})
		}
		group.Wait()
		won := -1
		for i, s := range status {
			if s == 200 {
				require.Equal(t, -1, won, "two winners")
				won = i
				continue
			}
			require.Equal(t, 412, s)
		}
		require.NotEqual(t, -1, won)
		require.Equal(t, fmt.Sprintf("%s %d", headers[1], won), w.content("/bucket/key"))
	}
	race("If-None-Match", "*")
	for range 5 {
		race("If-Match", w.do("HEAD", "/bucket/key", nil).header.Get("ETag"))
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.do("DELETE", "/bucket/key?versionId="+absentVersion, nil).is(204, "")
	require.Equal(t, "content", w.content("/bucket/key"))
	w.do("DELETE", "/bucket/key?versionId=null", nil).is(204, "")
	require.Equal(t, "(none)", w.content("/bucket/key"))
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	w.do("DELETE", "/bucket/key?versionId=x", nil).is(400, "InvalidArgument")
}

func TestDeleteObjects(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	type result struct {
		Deleted []struct{ Key, VersionId string }
		Error   []struct{ Key, Code string }
	}
	send := func(body string, headers ...string) *response {
		return w.do("POST", "/bucket?delete", []byte(body), append(headers, "Content-Md5", md5Of([]byte(body)))...)
	}
	one := w.put("/bucket/one", "1")
	w.put("/bucket/two", "2")
	w.put("/bucket/a&b%20c", "3")
	w.put("/bucket/four", "4")
	w.put("/bucket/five", "5")
	var got result
	send(`<Delete><Object><Key>one</Key><ETag>"`+one+`"</ETag></Object><Object><Key>two</Key><ETag>other</ETag></Object><Object><Key>none</Key></Object>`+
		`<Object><Key>a&amp;b c</Key></Object><Object><Key>missing</Key><ETag>*</ETag></Object><Object><Key>`+strings.Repeat("k", 1025)+`</Key></Object>`+
		`<Object><Key>four</Key><VersionId>null</VersionId></Object><Object><Key>five</Key><Size>2</Size></Object></Delete>`).is(200, "").parse(&got)
	require.Len(t, got.Deleted, 4)
	require.Equal(t, "one", got.Deleted[0].Key)
	require.Equal(t, "none", got.Deleted[1].Key)
	require.Equal(t, "a&b c", got.Deleted[2].Key)
	require.Equal(t, "null", got.Deleted[3].VersionId)
	require.Len(t, got.Error, 4)
	for i, code := range []string{"PreconditionFailed", "NoSuchKey", "KeyTooLongError", "PreconditionFailed"} {
		require.Equal(t, code, got.Error[i].Code)
	}
	require.Equal(t, []string{"five", "two"}, listAll(w, "bucket", ""))

	got = result{}
	send(`<Delete><Quiet>true</Quiet><Object><Key>two</Key></Object><Object><Key></Key></Object></Delete>`).is(200, "").parse(&got)
	require.Empty(t, got.Deleted)
	require.Len(t, got.Error, 1)

	// A checksum is required, and any of the checksum headers is accepted.
	body := []byte(`<Delete><Object><Key>five</Key></Object></Delete>`)
	w.do("POST", "/bucket?delete", body).is(400, "InvalidRequest")
	w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of([]byte("x"))).is(400, "BadDigest")
	w.do("POST", "/bucket?delete", body, "X-Amz-Checksum-Crc32", "AAAAAA==").is(400, "BadDigest")
	require.Equal(t, "5", w.content("/bucket/five"))
	w.do("POST", "/bucket?delete", body, "X-Amz-Checksum-Sha256", base64SHA256(body), "X-Amz-Sdk-Checksum-Algorithm", "SHA256").is(200, "")
	require.Equal(t, "(none)", w.content("/bucket/five"))

	for _, bad := range []string{
		"", "x", "<Delete/>", "<Delete>" + strings.Repeat("<Object><Key>k</Key></Object>", 1001) + "</Delete>", "<!DOCTYPE x><Delete><Object><Key>k</Key></Object></Delete>",
		"<Delete>" + strings.Repeat("<x>", 40) + strings.Repeat("</x>", 40) + "</Delete>",
	} {
		send(bad).is(400, "MalformedXML")
	}
	send("<Delete>"+strings.Repeat(" ", 2<<20)+"</Delete>").is(400, "MaxMessageLengthExceeded")
}
