package s3test

import (
	"crypto/md5"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orcas/internal/sigv4"
)

// random returns n pseudorandom bytes that depend only on the seed.
func random(seed byte, n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return string(b)
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

var objects = area{"objects", []rule{
	{"put-get", "GET returns the content of a PUT unchanged", func(t *T) {
		t.put("key", random(1, 5000))
		t.holds("key", random(1, 5000))
	}},
	{"put-etag", "the ETag of an object is the MD5 of its content in quotes, on PUT, GET and HEAD", func(t *T) {
		want := `"` + md5Hex("content") + `"`
		t.put("key", "content").has("ETag", want)
		t.get("key").ok(200).has("ETag", want)
		t.head("key").ok(200).has("ETag", want)
	}},
	{"put-answer-empty", "PutObject returns no body", func(t *T) {
		a := t.put("key", "content")
		a.expect(a.body == "", "unexpected body")
	}},
	{"empty", "an object may be empty", func(t *T) {
		t.put("key", "").has("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
		t.get("key").ok(200).has("Content-Length", "0").has("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
	}},
	{"overwrite", "a second PUT replaces the content and the ETag", func(t *T) {
		t.put("key", "first")
		t.put("key", "the second")
		t.holds("key", "the second")
		t.head("key").ok(200).has("Content-Length", "10").has("ETag", `"`+md5Hex("the second")+`"`)
	}},
	{"one-mebibyte", "an object of 1 MiB is returned completely", func(t *T) {
		t.put("key", random(2, 1<<20))
		t.holds("key", random(2, 1<<20))
	}},
	{"nine-mebibytes", "an object of several chunks with an odd size is returned completely", func(t *T) {
		t.put("key", random(3, 9<<20+77), "x-amz-content-sha256: UNSIGNED-PAYLOAD")
		t.holds("key", random(3, 9<<20+77))
	}},
	{"sizes-around-64-kib", "objects just below, at and above 64 KiB are returned completely", func(t *T) {
		for _, n := range []int{65535, 65536, 65537} {
			key := strconv.Itoa(n)
			t.put(key, random(4, n))
			t.holds(key, random(4, n))
		}
	}},
	{"get-missing", "GET of a key that does not exist fails with 404 NoSuchKey, which names the key", func(t *T) {
		t.get("no/such").fail(404, "NoSuchKey").eq("Key", "no/such")
	}},
	{"head-missing", "HEAD of a key that does not exist fails with 404 without a body", func(t *T) {
		t.head("no/such").fail(404, "")
	}},
	{"head-length", "HEAD returns the length of the content and no body", func(t *T) {
		t.put("key", "content")
		t.head("key").ok(200).has("Content-Length", "7")
	}},
	{"accept-ranges", "GET and HEAD return Accept-Ranges: bytes", func(t *T) {
		t.put("key", "content")
		t.get("key").ok(200).has("Accept-Ranges", "bytes")
		t.head("key").ok(200).has("Accept-Ranges", "bytes")
	}},
	{"last-modified", "Last-Modified is the time of the PUT in the HTTP date format", func(t *T) {
		t.put("key", "content")
		a := t.head("key").ok(200)
		when, err := time.Parse(http.TimeFormat, a.header.Get("Last-Modified"))
		a.expect(err == nil && time.Since(when).Abs() < 15*time.Minute, "Last-Modified %q", a.header.Get("Last-Modified"))
	}},
	{"get-head-alike", "HEAD returns the same headers as GET", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: no-store")
		g, h := t.get("key").ok(200), t.head("key").ok(200)
		for name := range g.header {
			if name != "X-Amz-Request-Id" && name != "Date" && name != "X-Amz-Id-2" {
				h.expect(h.header.Get(name) == g.header.Get(name), "%s is %q, with GET %q", name, h.header.Get(name), g.header.Get(name))
			}
		}
	}},
	{"read-your-write", "a GET after the response to a PUT always returns the new content", func(t *T) {
		for i := range 20 {
			v := strconv.Itoa(i)
			t.put("key", v)
			t.holds("key", v)
		}
	}},
	{"list-after-write", "a listing after the response to a PUT contains the key", func(t *T) {
		for i := range 5 {
			t.put("key"+strconv.Itoa(i), "x")
			a := t.get("?list-type=2").ok(200)
			a.expect(len(a.all("Contents/Key")) == i+1, "%d keys", len(a.all("Contents/Key")))
		}
	}},
	{"put-length-required", "a PUT without a length fails with 411 MissingContentLength", func(t *T) {
		_, in := t.open("PUT", "key", -1, "UNSIGNED-PAYLOAD", "Transfer-Encoding: chunked")
		t.readResponse("PUT", in).fail(411, "MissingContentLength")
		t.gone("key")
	}},
	{"put-length-missing", "PutObject and UploadPart with neither Content-Length nor Transfer-Encoding fail with 411 MissingContentLength", func(t *T) {
		t.put("key", "old")
		_, in := t.open("PUT", "key", -1, "UNSIGNED-PAYLOAD")
		t.readResponse("PUT", in).fail(411, "MissingContentLength")
		t.holds("key", "old")
		u := t.begin("part")
		_, in = t.open("PUT", u.ref(1), -1, "UNSIGNED-PAYLOAD")
		t.readResponse("PUT", in).fail(411, "MissingContentLength")
	}},
	{"length-needless", "CreateBucket, copies and PutObjectAcl need no Content-Length", func(t *T) {
		t.put("key", "content")
		name := t.newName()
		t.removeLater(name)
		if t.region == "us-east-1" {
			_, in := t.open("PUT", "/"+name, -1, sigv4.EmptySHA256)
			t.readResponse("PUT", in).ok(200)
		}
		for _, ref := range []string{"?acl", "key?acl"} {
			_, in := t.open("PUT", ref, -1, sigv4.EmptySHA256, "x-amz-acl: private")
			t.readResponse("PUT", in).ok(200)
		}
		_, in := t.open("PUT", "copy", -1, sigv4.EmptySHA256, t.from("key"))
		t.readResponse("PUT", in).ok(200)
		t.holds("copy", "content")
		u := t.begin("part")
		_, in = t.open("PUT", u.ref(1), -1, sigv4.EmptySHA256, t.from("key"))
		t.readResponse("PUT", in).ok(200)
	}},
	{"put-cut-off", "a PUT whose client disconnects before the end leaves the key unchanged", func(t *T) {
		t.put("key", "old")
		conn, _ := t.open("PUT", "key", 1000, "UNSIGNED-PAYLOAD")
		_, err := conn.Write(make([]byte, 999))
		t.must(err == nil, "write: %v", err)
		conn.Close()
		t.holds("key", "old")
	}},
	{"put-cut-off-new", "a PUT of a new key whose client disconnects immediately creates no key", func(t *T) {
		conn, _ := t.open("PUT", "key", 10, "UNSIGNED-PAYLOAD")
		conn.Close()
		t.get("").ok(200).no("Contents")
	}},
	{"delete", "DELETE returns 204, and the object no longer exists", func(t *T) {
		t.put("key", "content")
		a := t.del("key").ok(204)
		a.lacks("x-amz-delete-marker", "x-amz-version-id")
		t.gone("key")
		t.get("").ok(200).no("Contents")
	}},
	{"delete-missing", "DELETE of a key that does not exist returns 204", func(t *T) {
		t.del("key").ok(204)
	}},
	{"unversioned-no-version-id", "without versioning responses contain no version ID", func(t *T) {
		t.put("key", "content").lacks("x-amz-version-id")
		t.get("key").ok(200).lacks("x-amz-version-id")
		t.head("key").ok(200).lacks("x-amz-version-id")
	}},
	{"version-null-of-unversioned", "without versioning an object has the version ID null", func(t *T) {
		t.put("key", "content")
		t.holds("key?versionId=null", "content")
	}},
	{"x-id", "the parameter x-id, which SDKs send, has no effect", func(t *T) {
		t.put("key?x-id=PutObject", "content")
		t.holds("key?x-id=GetObject", "content")
		t.del("key?x-id=DeleteObject").ok(204)
	}},
	{"post-object", "POST on an object without a sub-resource fails with MethodNotAllowed", func(t *T) {
		t.put("key", "content")
		t.post("key", "x").fail(405, "MethodNotAllowed")
	}},
	{"acl", "GetObjectAcl returns FULL_CONTROL for the owner", func(t *T) {
		t.put("key", "content")
		a := t.get("key?acl").ok(200).doc("AccessControlPolicy").eq("AccessControlList/Grant/Permission", "FULL_CONTROL")
		a.eq("AccessControlList/Grant/Grantee/ID", a.text("Owner/ID"))
	}},
	{"acl-missing", "GetObjectAcl of a key that does not exist fails with NoSuchKey", func(t *T) {
		t.get("key?acl").fail(404, "NoSuchKey")
	}},
	{"acl-private", "PutObject accepts the canned ACLs private and bucket-owner-full-control", func(t *T) {
		t.put("a", "content", "x-amz-acl: private")
		t.put("b", "content", "x-amz-acl: bucket-owner-full-control")
	}},
	{"acl-nonsense", "PutObject with a canned ACL that does not exist fails with InvalidArgument and stores nothing", func(t *T) {
		t.try("key", "content", "x-amz-acl: everybody").fail(400, "InvalidArgument")
		t.gone("key")
	}},
	{"acl-public", "a canned ACL or a grant that gives access to others fails with AccessControlListNotSupported", func(t *T) {
		t.put("from", "content")
		for _, acl := range []string{"x-amz-acl: public-read", "x-amz-acl: authenticated-read", "x-amz-grant-read: id=somebody"} {
			t.try("key", "content", acl).fail(400, "AccessControlListNotSupported").eq("Message", "The bucket does not allow ACLs")
			t.try("key", nil, acl, t.from("from")).fail(400, "AccessControlListNotSupported")
			t.post("key?uploads", nil, acl).fail(400, "AccessControlListNotSupported")
			t.try("from?acl", nil, acl).fail(400, "AccessControlListNotSupported")
			t.try("?acl", nil, acl).fail(400, "AccessControlListNotSupported")
		}
		t.gone("key")
	}},
	{"select", "SelectObjectContent fails with NotImplemented", func(t *T) {
		t.put("key", "content")
		t.post("key?select&select-type=2", "<SelectObjectContentRequest/>").fail(501, "NotImplemented")
	}},
	{"expect-continue", "a PUT with Expect: 100-continue gets 100 Continue and is stored", func(t *T) {
		conn, in := t.open("PUT", "key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.readResponse("PUT", in).ok(100)
		_, err := conn.Write([]byte("content"))
		t.must(err == nil, "write: %v", err)
		t.readResponse("PUT", in).ok(200)
		t.holds("key", "content")
	}},
	{"expect-continue-no-bucket", "with Expect: 100-continue, NoSuchBucket is returned before the body is sent", func(t *T) {
		_, in := t.open("PUT", "/"+t.newName()+"/key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.readResponse("PUT", in).fail(404, "NoSuchBucket")
	}},
	{"expect-continue-precondition", "with Expect: 100-continue, a failing condition is returned before the body is sent", func(t *T) {
		t.put("key", "content")
		_, in := t.open("PUT", "key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue", "If-None-Match: *")
		t.readResponse("PUT", in).fail(412, "PreconditionFailed")
	}},
	{"expect-continue-signature", "with Expect: 100-continue, a wrong signature fails before the body is sent", func(t *T) {
		r := t.sign(t.request("PUT", "key", nil), nil)
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		conn := t.dial()
		_, _ = conn.Write([]byte("PUT " + r.URL.RequestURI() + " HTTP/1.1\r\nHost: " + r.Host + "\r\nContent-Length: 7\r\nExpect: 100-continue\r\n" +
			"Authorization: " + r.Header.Get("Authorization") + "\r\nX-Amz-Date: " + r.Header.Get("X-Amz-Date") + "\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n\r\n"))
		t.readResponse("PUT", newReader(conn)).fail(403, "SignatureDoesNotMatch")
	}},
	{"response-headers", "response-content-type and similar parameters replace the headers of a GET", func(t *T) {
		t.put("key", "content", "Content-Type: text/plain", "Cache-Control: private")
		a := t.get("key?response-content-type=a%2Fb&response-cache-control=no-store&response-content-disposition=attachment&response-content-encoding=identity&response-content-language=de&response-expires=Thu%2C%2001%20Jan%202032%2000%3A00%3A00%20GMT").ok(200)
		a.has("Content-Type", "a/b").has("Cache-Control", "no-store").has("Content-Disposition", "attachment")
		a.has("Content-Encoding", "identity").has("Content-Language", "de").has("Expires", "Thu, 01 Jan 2032 00:00:00 GMT")
		t.get("key").ok(200).has("Content-Type", "text/plain").has("Cache-Control", "private")
	}},
	{"storage-class", "a storage class is stored, and returned by GET, HEAD and the listing", func(t *T) {
		t.put("key", "content", "x-amz-storage-class: STANDARD_IA")
		t.get("key").ok(200).has("x-amz-storage-class", "STANDARD_IA")
		t.head("key").ok(200).has("x-amz-storage-class", "STANDARD_IA")
		t.get("").ok(200).eq("Contents/StorageClass", "STANDARD_IA")
	}},
	{"storage-class-standard", "the storage class STANDARD is returned by the listing, but not by GET", func(t *T) {
		t.put("key", "content", "x-amz-storage-class: STANDARD")
		t.get("key").ok(200).lacks("x-amz-storage-class")
		t.get("").ok(200).eq("Contents/StorageClass", "STANDARD")
	}},
	{"storage-class-nonsense", "an unknown storage class fails with InvalidStorageClass and stores nothing", func(t *T) {
		t.try("key", "content", "x-amz-storage-class: GOLD").fail(400, "InvalidStorageClass")
		t.gone("key")
	}},
	{"redirect", "x-amz-website-redirect-location is stored and returned", func(t *T) {
		t.put("key", "content", "x-amz-website-redirect-location: /other")
		t.get("key").ok(200).has("x-amz-website-redirect-location", "/other")
	}},
	{"redirect-nonsense", "a redirect that is neither a path nor an http or https URL fails with InvalidRedirectLocation", func(t *T) {
		t.try("key", "content", "x-amz-website-redirect-location: ftp://x").fail(400, "InvalidRedirectLocation")
	}},
	{"concurrent-overwrites", "a GET while the key is overwritten returns the complete content of one PUT, with its ETag", func(t *T) {
		contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 70_000), strings.Repeat("c", 10)}
		t.put("key", contents[0])
		done := make(chan bool)
		go func() {
			defer close(done)
			for i := range 30 {
				t.do("PUT", "key", contents[i%3])
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			a := t.get("key").ok(200)
			a.expect(a.etag() == md5Hex(a.body), "the ETag does not match the content")
		}
	}},
}}

// metaRule returns the rule that GET and HEAD return a header of a PUT unchanged.
func metaRule(named, says, header, value string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", "content", header+": "+value)
		t.get("key").ok(200).has(header, value)
		t.head("key").ok(200).has(header, value)
	}}
}

var metadata = area{"metadata", []rule{
	metaRule("content-type", "Content-Type is stored", "Content-Type", "text/plain; charset=utf-8"),
	metaRule("cache-control", "Cache-Control is stored", "Cache-Control", "max-age=60, private"),
	metaRule("content-disposition", "Content-Disposition is stored", "Content-Disposition", `attachment; filename="a b.txt"`),
	metaRule("content-encoding", "Content-Encoding is stored", "Content-Encoding", "gzip"),
	metaRule("content-language", "Content-Language is stored", "Content-Language", "de, en"),
	metaRule("expires", "Expires is stored", "Expires", "Thu, 01 Jan 2032 00:00:00 GMT"),
	metaRule("expires-any-text", "Expires is stored even if it is not a date", "Expires", "never"),
	metaRule("user", "user metadata is stored", "x-amz-meta-color", "blue green"),
	metaRule("user-odd-name", "the name of user metadata may contain digits, dots and hyphens", "x-amz-meta-a.1-b_2", "v"),
	{"default-type", "the default Content-Type is binary/octet-stream", func(t *T) {
		t.put("key", "content")
		t.get("key").ok(200).has("Content-Type", "binary/octet-stream")
	}},
	{"user-name-lower-case", "names of user metadata are case-insensitive", func(t *T) {
		t.put("key", "content", "X-Amz-Meta-UPPER: Value")
		t.get("key").ok(200).has("x-amz-meta-upper", "Value")
	}},
	{"user-empty-value", "the value of user metadata may be empty", func(t *T) {
		t.put("key", "content", "x-amz-meta-empty: ")
		a := t.head("key").ok(200)
		a.expect(len(a.header["X-Amz-Meta-Empty"]) == 1, "the header is missing")
	}},
	{"user-several", "several headers of user metadata are stored, each with its value", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "x-amz-meta-b: 2", "x-amz-meta-c: 3")
		t.head("key").ok(200).has("x-amz-meta-a", "1").has("x-amz-meta-b", "2").has("x-amz-meta-c", "3")
	}},
	{"user-repeated", "values of user metadata with the same name are joined with a comma", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "x-amz-meta-a: 2")
		t.head("key").ok(200).has("x-amz-meta-a", "1,2")
	}},
	{"user-utf8", "non-ASCII user metadata is returned unchanged", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: grün")
		a := t.head("key").ok(200)
		v := a.header.Get("x-amz-meta-a")
		a.expect(v == "grün" || strings.HasPrefix(strings.ToUpper(v), "=?UTF-8?"), "%q", v)
	}},
	{"user-2048", "user metadata may have 2048 bytes in total, names and values", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 2047))
		a := t.head("key").ok(200)
		a.expect(len(a.header.Get("x-amz-meta-a")) == 2047, "the value is %d bytes long", len(a.header.Get("x-amz-meta-a")))
	}},
	{"user-2049", "more than 2048 bytes of user metadata fail with MetadataTooLarge and store nothing", func(t *T) {
		t.try("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 2048)).fail(400, "MetadataTooLarge")
		t.gone("key")
	}},
	{"user-sum", "the limit of user metadata applies to the sum of all headers", func(t *T) {
		t.try("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 1024), "x-amz-meta-b: "+strings.Repeat("x", 1024)).fail(400, "MetadataTooLarge")
	}},
	{"overwrite-replaces", "a PUT replaces all metadata of the previous object", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private")
		t.put("key", "content", "x-amz-meta-b: 2")
		t.head("key").ok(200).lacks("x-amz-meta-a", "Cache-Control").has("x-amz-meta-b", "2").has("Content-Type", "binary/octet-stream")
	}},
	{"unknown-header", "unknown headers are not stored", func(t *T) {
		t.put("key", "content", "X-Something: 1")
		t.head("key").ok(200).lacks("X-Something")
	}},
	{"aws-chunked-stripped", "aws-chunked is not stored as the Content-Encoding", func(t *T) {
		t.put("key", "content", "Content-Encoding: aws-chunked")
		t.head("key").ok(200).lacks("Content-Encoding")
	}},
	{"aws-chunked-among-others", "aws-chunked is removed from a list of encodings, and the rest is stored", func(t *T) {
		t.put("key", "content", "Content-Encoding: aws-chunked,gzip")
		t.head("key").ok(200).has("Content-Encoding", "gzip")
	}},
	{"aws-chunked-keeps-the-rest", "when aws-chunked is removed, the other encodings stay as they were written", func(t *T) {
		t.put("key", "content", "Content-Encoding: deflate, gzip,aws-chunked")
		t.head("key").ok(200).has("Content-Encoding", "deflate, gzip")
		t.put("key", "content", "Content-Encoding: gzip, aws-chunked, br")
		t.head("key").ok(200).has("Content-Encoding", "gzip, br")
	}},
	{"encoding-not-decoded", "an object with a Content-Encoding is returned as it was sent", func(t *T) {
		t.put("key", "this is not gzip", "Content-Encoding: gzip")
		t.holds("key", "this is not gzip")
	}},
	{"replaced-by-copy-onto-itself", "a copy onto itself with REPLACE changes the metadata", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1")
		t.put("key", nil, "x-amz-copy-source: "+t.bucket()+"/key", "x-amz-metadata-directive: REPLACE", "x-amz-meta-b: 2")
		t.head("key").ok(200).lacks("x-amz-meta-a").has("x-amz-meta-b", "2")
		t.holds("key", "content")
	}},
}}
