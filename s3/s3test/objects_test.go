package s3test

import (
	"crypto/md5"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orcas/s3/sigv4"
)

// random returns n bytes that are the same for the same seed.
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
	{"put-get", "what was put comes back byte for byte", func(t *T) {
		t.put("key", random(1, 5000))
		t.holds("key", random(1, 5000))
	}},
	{"put-etag", "the ETag of an object is the MD5 of its content in quotes, on PUT, GET and HEAD", func(t *T) {
		want := `"` + md5Hex("content") + `"`
		t.put("key", "content").has("ETag", want)
		t.get("key").ok(200).has("ETag", want)
		t.head("key").ok(200).has("ETag", want)
	}},
	{"put-answer-empty", "PutObject answers without a body", func(t *T) {
		a := t.put("key", "content")
		a.expect(a.body == "", "a body")
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
	{"one-mebibyte", "an object of a mebibyte comes back whole", func(t *T) {
		t.put("key", random(2, 1<<20))
		t.holds("key", random(2, 1<<20))
	}},
	{"nine-mebibytes", "an object of several chunks, with an odd end, comes back whole", func(t *T) {
		t.put("key", random(3, 9<<20+77), "x-amz-content-sha256: UNSIGNED-PAYLOAD")
		t.holds("key", random(3, 9<<20+77))
	}},
	{"sizes-around-64-kib", "objects just below, at and above 64 KiB come back whole", func(t *T) {
		for _, n := range []int{65535, 65536, 65537} {
			key := strconv.Itoa(n)
			t.put(key, random(4, n))
			t.holds(key, random(4, n))
		}
	}},
	{"get-missing", "GET of a key that is not there is 404 NoSuchKey and names the key", func(t *T) {
		t.get("no/such").fail(404, "NoSuchKey").eq("Key", "no/such")
	}},
	{"head-missing", "HEAD of a key that is not there is 404 without a body", func(t *T) {
		t.head("no/such").fail(404, "")
	}},
	{"head-length", "HEAD tells the length of the content and sends none", func(t *T) {
		t.put("key", "content")
		t.head("key").ok(200).has("Content-Length", "7")
	}},
	{"accept-ranges", "GET and HEAD say Accept-Ranges: bytes", func(t *T) {
		t.put("key", "content")
		t.get("key").ok(200).has("Accept-Ranges", "bytes")
		t.head("key").ok(200).has("Accept-Ranges", "bytes")
	}},
	{"last-modified", "Last-Modified is the time of the PUT, in the form of HTTP", func(t *T) {
		t.put("key", "content")
		a := t.head("key").ok(200)
		when, err := time.Parse(http.TimeFormat, a.header.Get("Last-Modified"))
		a.expect(err == nil && time.Since(when).Abs() < 15*time.Minute, "Last-Modified %q", a.header.Get("Last-Modified"))
	}},
	{"get-head-alike", "HEAD answers the headers of GET", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: no-store")
		g, h := t.get("key").ok(200), t.head("key").ok(200)
		for name := range g.header {
			if name != "X-Amz-Request-Id" && name != "Date" && name != "X-Amz-Id-2" {
				h.expect(h.header.Get(name) == g.header.Get(name), "%s is %q, with GET %q", name, h.header.Get(name), g.header.Get(name))
			}
		}
	}},
	{"read-your-write", "a GET after the answer to a PUT sees it, every time", func(t *T) {
		for i := range 20 {
			v := strconv.Itoa(i)
			t.put("key", v)
			t.holds("key", v)
		}
	}},
	{"list-after-write", "a listing after the answer to a PUT shows the key", func(t *T) {
		for i := range 5 {
			t.put("key"+strconv.Itoa(i), "x")
			a := t.get("?list-type=2").ok(200)
			a.expect(len(a.all("Contents/Key")) == i+1, "%d keys", len(a.all("Contents/Key")))
		}
	}},
	{"put-length-required", "a PUT that does not say how long it is is 411 MissingContentLength", func(t *T) {
		_, in := t.open("PUT", "key", -1, "UNSIGNED-PAYLOAD", "Transfer-Encoding: chunked")
		t.reply("PUT", in).fail(411, "MissingContentLength")
		t.gone("key")
	}},
	{"put-length-missing", "PutObject and UploadPart with neither Content-Length nor Transfer-Encoding are 411 MissingContentLength", func(t *T) {
		t.put("key", "old")
		_, in := t.open("PUT", "key", -1, "UNSIGNED-PAYLOAD")
		t.reply("PUT", in).fail(411, "MissingContentLength")
		t.holds("key", "old")
		u := t.begin("part")
		_, in = t.open("PUT", u.ref(1), -1, "UNSIGNED-PAYLOAD")
		t.reply("PUT", in).fail(411, "MissingContentLength")
	}},
	{"length-needless", "CreateBucket, copies and requests for an ACL need no Content-Length", func(t *T) {
		t.put("key", "content")
		name := t.newName()
		t.removeLater(name)
		if t.region == "us-east-1" {
			_, in := t.open("PUT", "/"+name, -1, sigv4.EmptySHA256)
			t.reply("PUT", in).ok(200)
		}
		for _, ref := range []string{"?acl", "key?acl"} {
			_, in := t.open("PUT", ref, -1, sigv4.EmptySHA256, "x-amz-acl: private")
			t.reply("PUT", in).ok(200)
		}
		_, in := t.open("PUT", "copy", -1, sigv4.EmptySHA256, t.from("key"))
		t.reply("PUT", in).ok(200)
		t.holds("copy", "content")
		u := t.begin("part")
		_, in = t.open("PUT", u.ref(1), -1, sigv4.EmptySHA256, t.from("key"))
		t.reply("PUT", in).ok(200)
	}},
	{"put-cut-off", "a PUT whose client goes away in the middle leaves the key as it was", func(t *T) {
		t.put("key", "old")
		conn, _ := t.open("PUT", "key", 1000, "UNSIGNED-PAYLOAD")
		_, err := conn.Write(make([]byte, 999))
		t.must(err == nil, "write: %v", err)
		conn.Close()
		t.holds("key", "old")
	}},
	{"put-cut-off-new", "a PUT of a new key whose client goes away at once leaves no key", func(t *T) {
		conn, _ := t.open("PUT", "key", 10, "UNSIGNED-PAYLOAD")
		conn.Close()
		t.get("").ok(200).no("Contents")
	}},
	{"delete", "DELETE answers 204, and the object is gone", func(t *T) {
		t.put("key", "content")
		a := t.del("key").ok(204)
		a.lacks("x-amz-delete-marker", "x-amz-version-id")
		t.gone("key")
		t.get("").ok(200).no("Contents")
	}},
	{"delete-missing", "DELETE of a key that is not there is 204", func(t *T) {
		t.del("key").ok(204)
	}},
	{"unversioned-no-version-id", "without versioning no answer names a version", func(t *T) {
		t.put("key", "content").lacks("x-amz-version-id")
		t.get("key").ok(200).lacks("x-amz-version-id")
		t.head("key").ok(200).lacks("x-amz-version-id")
	}},
	{"version-null-of-unversioned", "without versioning an object is its version null", func(t *T) {
		t.put("key", "content")
		t.holds("key?versionId=null", "content")
	}},
	{"x-id", "the parameter x-id, which SDKs send, changes nothing", func(t *T) {
		t.put("key?x-id=PutObject", "content")
		t.holds("key?x-id=GetObject", "content")
		t.del("key?x-id=DeleteObject").ok(204)
	}},
	{"post-object", "POST on an object without a sub-resource is MethodNotAllowed", func(t *T) {
		t.put("key", "content")
		t.post("key", "x").fail(405, "MethodNotAllowed")
	}},
	{"acl", "GetObjectAcl says that the owner has FULL_CONTROL", func(t *T) {
		t.put("key", "content")
		a := t.get("key?acl").ok(200).doc("AccessControlPolicy").eq("AccessControlList/Grant/Permission", "FULL_CONTROL")
		a.eq("AccessControlList/Grant/Grantee/ID", a.text("Owner/ID"))
	}},
	{"acl-missing", "GetObjectAcl of a key that is not there is NoSuchKey", func(t *T) {
		t.get("key?acl").fail(404, "NoSuchKey")
	}},
	{"acl-private", "PutObject accepts the canned ACLs private and bucket-owner-full-control", func(t *T) {
		t.put("a", "content", "x-amz-acl: private")
		t.put("b", "content", "x-amz-acl: bucket-owner-full-control")
	}},
	{"acl-nonsense", "PutObject with a canned ACL that does not exist is InvalidArgument and stores nothing", func(t *T) {
		t.try("key", "content", "x-amz-acl: everybody").fail(400, "InvalidArgument")
		t.gone("key")
	}},
	{"acl-public", "a canned ACL that grants something to others is AccessControlListNotSupported, and so is a grant", func(t *T) {
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
	{"select", "SelectObjectContent is not supported and says so", func(t *T) {
		t.put("key", "content")
		t.post("key?select&select-type=2", "<SelectObjectContentRequest/>").fail(501, "NotImplemented")
	}},
	{"expect-continue", "a PUT with Expect: 100-continue is told to go on, and is stored", func(t *T) {
		conn, in := t.open("PUT", "key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.reply("PUT", in).ok(100)
		_, err := conn.Write([]byte("content"))
		t.must(err == nil, "write: %v", err)
		t.reply("PUT", in).ok(200)
		t.holds("key", "content")
	}},
	{"expect-continue-no-bucket", "with Expect: 100-continue NoSuchBucket comes before the body", func(t *T) {
		_, in := t.open("PUT", "/"+t.newName()+"/key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.reply("PUT", in).fail(404, "NoSuchBucket")
	}},
	{"expect-continue-precondition", "with Expect: 100-continue a condition that fails already comes before the body", func(t *T) {
		t.put("key", "content")
		_, in := t.open("PUT", "key", 7, "UNSIGNED-PAYLOAD", "Expect: 100-continue", "If-None-Match: *")
		t.reply("PUT", in).fail(412, "PreconditionFailed")
	}},
	{"expect-continue-signature", "with Expect: 100-continue a wrong signature comes before the body", func(t *T) {
		r := t.sign(t.request("PUT", "key", nil), nil)
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		conn := t.dial()
		_, _ = conn.Write([]byte("PUT " + r.URL.RequestURI() + " HTTP/1.1\r\nHost: " + r.Host + "\r\nContent-Length: 7\r\nExpect: 100-continue\r\n" +
			"Authorization: " + r.Header.Get("Authorization") + "\r\nX-Amz-Date: " + r.Header.Get("X-Amz-Date") + "\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n\r\n"))
		t.reply("PUT", newReader(conn)).fail(403, "SignatureDoesNotMatch")
	}},
	{"response-headers", "response-content-type and its like replace the headers of a GET", func(t *T) {
		t.put("key", "content", "Content-Type: text/plain", "Cache-Control: private")
		a := t.get("key?response-content-type=a%2Fb&response-cache-control=no-store&response-content-disposition=attachment&response-content-encoding=identity&response-content-language=de&response-expires=Thu%2C%2001%20Jan%202032%2000%3A00%3A00%20GMT").ok(200)
		a.has("Content-Type", "a/b").has("Cache-Control", "no-store").has("Content-Disposition", "attachment")
		a.has("Content-Encoding", "identity").has("Content-Language", "de").has("Expires", "Thu, 01 Jan 2032 00:00:00 GMT")
		t.get("key").ok(200).has("Content-Type", "text/plain").has("Cache-Control", "private")
	}},
	{"storage-class", "a storage class is kept, and told by GET, HEAD and the listing", func(t *T) {
		t.put("key", "content", "x-amz-storage-class: STANDARD_IA")
		t.get("key").ok(200).has("x-amz-storage-class", "STANDARD_IA")
		t.head("key").ok(200).has("x-amz-storage-class", "STANDARD_IA")
		t.get("").ok(200).eq("Contents/StorageClass", "STANDARD_IA")
	}},
	{"storage-class-standard", "the storage class STANDARD is not told by GET, but by the listing", func(t *T) {
		t.put("key", "content", "x-amz-storage-class: STANDARD")
		t.get("key").ok(200).lacks("x-amz-storage-class")
		t.get("").ok(200).eq("Contents/StorageClass", "STANDARD")
	}},
	{"storage-class-nonsense", "a storage class that does not exist is InvalidStorageClass and stores nothing", func(t *T) {
		t.try("key", "content", "x-amz-storage-class: GOLD").fail(400, "InvalidStorageClass")
		t.gone("key")
	}},
	{"redirect", "x-amz-website-redirect-location is kept and comes back", func(t *T) {
		t.put("key", "content", "x-amz-website-redirect-location: /other")
		t.get("key").ok(200).has("x-amz-website-redirect-location", "/other")
	}},
	{"redirect-nonsense", "a redirect that is neither a path nor http nor https is InvalidRedirectLocation", func(t *T) {
		t.try("key", "content", "x-amz-website-redirect-location: ftp://x").fail(400, "InvalidRedirectLocation")
	}},
	{"concurrent-overwrites", "a GET while the key is overwritten is one of the contents, whole, with its own ETag", func(t *T) {
		contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 70_000), strings.Repeat("c", 10)}
		t.put("key", contents[0])
		done := make(chan bool)
		go func() {
			defer close(done)
			for i := range 30 {
				t.do("PUT", "key", contents[i%3])
			}
		}()
		for going := true; going; {
			select {
			case <-done:
				going = false
			default:
			}
			a := t.get("key").ok(200)
			a.expect(a.etag() == md5Hex(a.body), "a mixture")
		}
	}},
}}

// metaRule is the rule that a header given to PUT comes back from GET and HEAD as it was.
func metaRule(named, says, header, value string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", "content", header+": "+value)
		t.get("key").ok(200).has(header, value)
		t.head("key").ok(200).has(header, value)
	}}
}

var metadata = area{"metadata", []rule{
	metaRule("content-type", "Content-Type is kept", "Content-Type", "text/plain; charset=utf-8"),
	metaRule("cache-control", "Cache-Control is kept", "Cache-Control", "max-age=60, private"),
	metaRule("content-disposition", "Content-Disposition is kept", "Content-Disposition", `attachment; filename="a b.txt"`),
	metaRule("content-encoding", "Content-Encoding is kept", "Content-Encoding", "gzip"),
	metaRule("content-language", "Content-Language is kept", "Content-Language", "de, en"),
	metaRule("expires", "Expires is kept", "Expires", "Thu, 01 Jan 2032 00:00:00 GMT"),
	metaRule("expires-any-text", "Expires is kept even if it is no date", "Expires", "never"),
	metaRule("user", "user metadata is kept", "x-amz-meta-color", "blue green"),
	metaRule("user-odd-name", "the name of user metadata may have digits, dots and hyphens", "x-amz-meta-a.1-b_2", "v"),
	{"default-type", "an object without a Content-Type is binary/octet-stream", func(t *T) {
		t.put("key", "content")
		t.get("key").ok(200).has("Content-Type", "binary/octet-stream")
	}},
	{"user-name-lower-case", "names of user metadata do not keep their case", func(t *T) {
		t.put("key", "content", "X-Amz-Meta-UPPER: Value")
		t.get("key").ok(200).has("x-amz-meta-upper", "Value")
	}},
	{"user-empty-value", "the value of user metadata may be empty", func(t *T) {
		t.put("key", "content", "x-amz-meta-empty: ")
		a := t.head("key").ok(200)
		a.expect(len(a.header["X-Amz-Meta-Empty"]) == 1, "it is not there")
	}},
	{"user-several", "several user metadata are kept, each with its value", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "x-amz-meta-b: 2", "x-amz-meta-c: 3")
		t.head("key").ok(200).has("x-amz-meta-a", "1").has("x-amz-meta-b", "2").has("x-amz-meta-c", "3")
	}},
	{"user-repeated", "the same user metadata given twice is one, joined with a comma", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "x-amz-meta-a: 2")
		t.head("key").ok(200).has("x-amz-meta-a", "1,2")
	}},
	{"user-utf8", "user metadata in bytes above ASCII comes back as it was", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: grün")
		a := t.head("key").ok(200)
		v := a.header.Get("x-amz-meta-a")
		a.expect(v == "grün" || strings.HasPrefix(strings.ToUpper(v), "=?UTF-8?"), "%q", v)
	}},
	{"user-2048", "user metadata may have 2048 bytes in all, names and values", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 2047))
		a := t.head("key").ok(200)
		a.expect(len(a.header.Get("x-amz-meta-a")) == 2047, "cut")
	}},
	{"user-2049", "more than 2048 bytes of user metadata are MetadataTooLarge and store nothing", func(t *T) {
		t.try("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 2048)).fail(400, "MetadataTooLarge")
		t.gone("key")
	}},
	{"user-sum", "the limit of user metadata counts all of them together", func(t *T) {
		t.try("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 1024), "x-amz-meta-b: "+strings.Repeat("x", 1024)).fail(400, "MetadataTooLarge")
	}},
	{"overwrite-replaces", "a PUT replaces all metadata of the object before", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private")
		t.put("key", "content", "x-amz-meta-b: 2")
		t.head("key").ok(200).lacks("x-amz-meta-a", "Cache-Control").has("x-amz-meta-b", "2").has("Content-Type", "binary/octet-stream")
	}},
	{"unknown-header", "headers that S3 does not know are not kept", func(t *T) {
		t.put("key", "content", "X-Something: 1")
		t.head("key").ok(200).lacks("X-Something")
	}},
	{"aws-chunked-stripped", "aws-chunked is no Content-Encoding of the object", func(t *T) {
		t.put("key", "content", "Content-Encoding: aws-chunked")
		t.head("key").ok(200).lacks("Content-Encoding")
	}},
	{"aws-chunked-among-others", "aws-chunked is taken out of a list of codings, and the rest is kept", func(t *T) {
		t.put("key", "content", "Content-Encoding: aws-chunked,gzip")
		t.head("key").ok(200).has("Content-Encoding", "gzip")
	}},
	{"aws-chunked-keeps-the-rest", "when aws-chunked is removed, the other codings stay as they were written", func(t *T) {
		t.put("key", "content", "Content-Encoding: deflate, gzip,aws-chunked")
		t.head("key").ok(200).has("Content-Encoding", "deflate, gzip")
		t.put("key", "content", "Content-Encoding: gzip, aws-chunked, br")
		t.head("key").ok(200).has("Content-Encoding", "gzip, br")
	}},
	{"encoding-not-decoded", "content with a Content-Encoding is sent back as it came", func(t *T) {
		t.put("key", "this is not gzip", "Content-Encoding: gzip")
		t.holds("key", "this is not gzip")
	}},
	{"replaced-by-copy-onto-itself", "metadata is changed by a copy onto itself with REPLACE", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1")
		t.put("key", nil, "x-amz-copy-source: "+t.bucket()+"/key", "x-amz-metadata-directive: REPLACE", "x-amz-meta-b: 2")
		t.head("key").ok(200).lacks("x-amz-meta-a").has("x-amz-meta-b", "2")
		t.holds("key", "content")
	}},
}}
