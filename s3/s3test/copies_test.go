package s3test

import (
	"fmt"
	"strings"
	"time"
)

// from returns the header that names a key in the bucket of the case as the source of a copy.
func (t *T) from(ref string) string {
	t.Helper()
	return "x-amz-copy-source: /" + t.bucket() + "/" + ref
}

// copyCond returns the rule that a copy with conditions on its source, as defined in about, returns a status.
func copyCond(named, says string, status int, conditions ...string) rule {
	return rule{named, says, func(t *T) {
		t.put("from", "content")
		a := t.try("to", nil, append(t.about("from", "x-amz-copy-source-", conditions), t.from("from"))...)
		if status == 200 {
			a.ok(200)
			t.holds("to", "content")
			return
		}
		a.fail(status, "PreconditionFailed")
		t.gone("to")
	}}
}

var copies = area{"copy", []rule{
	{"source-of-no-copy", "x-amz-copy-source in a request that is not a PUT fails with InvalidArgument", func(t *T) {
		t.put("from", "content")
		t.get("from", t.from("from")).fail(400, "InvalidArgument").eq("ArgumentName", "x-amz-copy-source")
		t.del("from", t.from("from")).fail(400, "InvalidArgument")
		t.post("to?uploads", nil, t.from("from")).fail(400, "InvalidArgument")
		t.holds("from", "content")
	}},
	{"content", "CopyObject copies the content", func(t *T) {
		t.put("from", random(6, 100_000))
		t.put("to", nil, t.from("from"))
		t.holds("to", random(6, 100_000))
	}},
	{"answer", "CopyObject returns a document with ETag and LastModified", func(t *T) {
		t.put("from", "content")
		a := t.put("to", nil, t.from("from")).doc("CopyObjectResult").eq("ETag", `"`+md5Hex("content")+`"`)
		_, err := time.Parse(iso8601, a.text("LastModified"))
		a.expect(err == nil, "LastModified %q", a.text("LastModified"))
	}},
	{"source-stays", "a copy does not change its source", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1")
		t.put("to", nil, t.from("from"))
		t.holds("from", "content")
		t.head("from").has("x-amz-meta-a", "1")
	}},
	{"is-independent", "a copy remains when its source is overwritten and deleted", func(t *T) {
		t.put("from", "content")
		t.put("to", nil, t.from("from"))
		t.put("from", "other")
		t.holds("to", "content")
		t.del("from").ok(204)
		t.holds("to", "content")
	}},
	{"other-bucket", "a copy may go to another bucket", func(t *T) {
		t.put("from", "content")
		to := t.newBucket()
		t.put("/"+to+"/to", nil, t.from("from"))
		t.holds("/"+to+"/to", "content")
	}},
	{"source-without-slash", "the source may omit the leading slash", func(t *T) {
		t.put("from", "content")
		t.put("to", nil, "x-amz-copy-source: "+t.bucket()+"/from")
		t.holds("to", "content")
	}},
	{"source-escaped", "the source is percent-encoded", func(t *T) {
		t.put(escape("a b/ü?+%"), "content")
		t.put("to", nil, t.from(escape("a b/ü?+%")))
		t.holds("to", "content")
	}},
	{"source-version-null", "a copy may name the version null of a source without versioning", func(t *T) {
		t.put("from", "content")
		t.put("to", nil, t.from("from?versionId=null"))
		t.holds("to", "content")
	}},
	{"source-plus", "a plus sign in the source stands for itself", func(t *T) {
		t.put("a+b", "content")
		t.put("to", nil, t.from("a+b"))
		t.holds("to", "content")
	}},
	{"source-slash-escaped", "the slash between bucket and key may be escaped", func(t *T) {
		t.put("from", "content")
		t.put("to", nil, "x-amz-copy-source: "+t.bucket()+"%2Ffrom")
		t.holds("to", "content")
	}},
	{"source-missing", "a copy of a key that does not exist fails with NoSuchKey", func(t *T) {
		t.try("to", nil, t.from("none")).fail(404, "NoSuchKey")
		t.gone("to")
	}},
	{"source-bucket-missing", "a copy from a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.try("to", nil, "x-amz-copy-source: "+t.newName()+"/from").fail(404, "NoSuchBucket")
	}},
	{"source-nonsense", "a source without a key fails with InvalidArgument", func(t *T) {
		t.try("to", nil, "x-amz-copy-source: "+t.bucket()).fail(400, "InvalidArgument")
	}},
	{"target-bucket-missing", "a copy to a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.put("from", "content")
		t.try("/"+t.newName()+"/to", nil, t.from("from")).fail(404, "NoSuchBucket")
	}},
	{"metadata-kept", "without a directive a copy has the metadata of the source", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private")
		t.put("to", nil, t.from("from"))
		t.head("to").ok(200).has("x-amz-meta-a", "1").has("Content-Type", "text/plain").has("Cache-Control", "private")
	}},
	{"metadata-copy-ignores-request", "with the directive COPY the metadata of the request is ignored", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1", "Content-Type: text/plain")
		t.put("to", nil, t.from("from"), "x-amz-metadata-directive: COPY", "x-amz-meta-a: 2", "Content-Type: a/b")
		t.head("to").ok(200).has("x-amz-meta-a", "1").has("Content-Type", "text/plain")
	}},
	{"metadata-replace", "with the directive REPLACE a copy has only the metadata of the request", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private")
		t.put("to", nil, t.from("from"), "x-amz-metadata-directive: REPLACE", "x-amz-meta-b: 2")
		t.head("to").ok(200).has("x-amz-meta-b", "2").lacks("x-amz-meta-a", "Cache-Control").has("Content-Type", "binary/octet-stream")
	}},
	{"metadata-directive-nonsense", "a metadata directive other than COPY and REPLACE fails with InvalidArgument", func(t *T) {
		t.put("from", "content")
		t.try("to", nil, t.from("from"), "x-amz-metadata-directive: MERGE").fail(400, "InvalidArgument")
		t.gone("to")
	}},
	{"onto-itself", "a copy onto itself that changes nothing fails with InvalidRequest", func(t *T) {
		t.put("key", "content")
		t.try("key", nil, t.from("key")).fail(400, "InvalidRequest")
		t.holds("key", "content")
	}},
	{"onto-itself-class", "a copy onto itself may change the storage class", func(t *T) {
		t.put("key", "content", "x-amz-meta-a: 1")
		t.put("key", nil, t.from("key"), "x-amz-storage-class: STANDARD_IA")
		t.head("key").ok(200).has("x-amz-storage-class", "STANDARD_IA").has("x-amz-meta-a", "1")
	}},
	{"class-not-taken-over", "the storage class of a copy is STANDARD unless the request names one, whatever that of the source is", func(t *T) {
		t.put("from", "content", "x-amz-storage-class: STANDARD_IA")
		t.put("to", nil, t.from("from"))
		t.head("to").ok(200).lacks("x-amz-storage-class")
	}},
	{"redirect-not-taken-over", "a copy does not have the redirect of its source", func(t *T) {
		t.put("from", "content", "x-amz-website-redirect-location: /x")
		t.put("to", nil, t.from("from"))
		t.head("to").ok(200).lacks("x-amz-website-redirect-location")
	}},
	{"overwrites", "a copy replaces the object at the target", func(t *T) {
		t.put("from", "content")
		t.put("to", "old", "x-amz-meta-old: 1")
		t.put("to", nil, t.from("from"))
		t.holds("to", "content")
		t.head("to").lacks("x-amz-meta-old")
	}},
	{"empty-source", "an empty object can be copied", func(t *T) {
		t.put("from", "")
		t.put("to", nil, t.from("from"))
		t.holds("to", "")
	}},
	{"multipart-becomes-one", "a copy of a multipart object has the same content and is not a multipart object", func(t *T) {
		u := t.begin("from")
		u.part(1, random(7, 5<<20))
		u.part(2, "end")
		u.complete().ok(200)
		whole := random(7, 5<<20) + "end"
		t.put("to", nil, t.from("from")).eq("ETag", `"`+md5Hex(whole)+`"`).eq("ChecksumType", "FULL_OBJECT")
		t.holds("to", whole)
		t.head("to?partNumber=1").ok(206).lacks("x-amz-mp-parts-count").has("ETag", `"`+md5Hex(whole)+`"`).has("Content-Length", fmt.Sprint(len(whole)))
		t.get("to?partNumber=2").fail(416, "InvalidPartNumber")
		t.get("to?attributes", "x-amz-object-attributes: ObjectParts,ETag").ok(200).no("ObjectParts")
	}},
	{"composite-becomes-full", "a copy of an object with a composite checksum has a full-object checksum of the same algorithm", func(t *T) {
		u := t.begin("from", "x-amz-checksum-algorithm: SHA256")
		for i, c := range []string{random(8, 5<<20), "end"} {
			u.part(i+1, c, sumHeader("SHA256", c), unsigned)
			u.done[i] = strings.Replace(u.done[i], "</Part>", "<ChecksumSHA256>"+sum("SHA256", c)+"</ChecksumSHA256></Part>", 1)
		}
		u.complete().ok(200).eq("ChecksumType", "COMPOSITE")
		want := sum("SHA256", random(8, 5<<20)+"end")
		t.put("to", nil, t.from("from")).eq("ChecksumSHA256", want).eq("ChecksumType", "FULL_OBJECT")
		t.head("to", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-sha256", want).has("x-amz-checksum-type", "FULL_OBJECT")
		t.put("from", nil, t.from("from"), "x-amz-metadata-directive: REPLACE").eq("ChecksumSHA256", want)
	}},
	{"appended-becomes-one", "the ETag of a copy of an appended object is the MD5 of the whole content", func(t *T) {
		t.put("from", "one")
		t.put("from", "two", "x-amz-write-offset-bytes: 3")
		t.put("to", nil, t.from("from")).eq("ETag", `"`+md5Hex("onetwo")+`"`)
		t.put("to", "three", "x-amz-write-offset-bytes: 6")
		t.holds("to", "onetwothree")
	}},
	{"checksum-kept", "a copy keeps the checksum of the source", func(t *T) {
		t.put("from", "content", sumHeader("SHA256", "content"))
		t.put("to", nil, t.from("from")).eq("ChecksumSHA256", sum("SHA256", "content"))
		t.head("to", "x-amz-checksum-mode: ENABLED").has("x-amz-checksum-sha256", sum("SHA256", "content"))
	}},
	{"checksum-other", "x-amz-checksum-algorithm on a copy computes that checksum", func(t *T) {
		t.put("from", "content", sumHeader("SHA256", "content"))
		t.put("to", nil, t.from("from"), "x-amz-checksum-algorithm: CRC32C").eq("ChecksumCRC32C", sum("CRC32C", "content"))
		t.head("to", "x-amz-checksum-mode: ENABLED").has("x-amz-checksum-crc32c", sum("CRC32C", "content"))
	}},
	{"checksum-unknown", "a copy with a checksum algorithm that does not exist fails with InvalidRequest", func(t *T) {
		t.put("from", "content")
		t.try("to", nil, t.from("from"), "x-amz-checksum-algorithm: CRC9").fail(400, "InvalidRequest")
	}},
	{"source-owner", "a wrong x-amz-source-expected-bucket-owner fails with AccessDenied", func(t *T) {
		t.put("from", "content")
		t.try("to", nil, t.from("from"), "x-amz-source-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
		t.gone("to")
	}},
	{"last-modified-is-new", "the Last-Modified of a copy is the time of the copy", func(t *T) {
		t.put("from", "content")
		before := time.Now().Add(-15 * time.Minute)
		t.put("to", nil, t.from("from"))
		when, err := time.Parse(time.RFC1123, t.head("to").header.Get("Last-Modified"))
		t.must(err == nil && when.After(before), "%v", when)
	}},
	{"source-bucket-name", "a copy, also of a part, from a source with an invalid bucket name fails with InvalidArgument", func(t *T) {
		t.try("to", nil, "x-amz-copy-source: 192.168.1.1/key").fail(400, "InvalidArgument").eq("ArgumentName", "x-amz-copy-source")
		t.try(t.begin("to").ref(1), nil, "x-amz-copy-source: B/key").fail(400, "InvalidArgument").eq("ArgumentName", "x-amz-copy-source")
		t.gone("to")
	}},
	copyCond("if-match", "a copy If-Match with the ETag of the source succeeds", 200, `if-match: "ETAG"`),
	copyCond("if-match-differs", "a copy If-Match with a different ETag fails with 412", 412, "if-match: "+other),
	copyCond("if-none-match", "a copy If-None-Match with the ETag of the source fails with 412", 412, `if-none-match: "ETAG"`),
	copyCond("if-none-match-differs", "a copy If-None-Match with a different ETag succeeds", 200, "if-none-match: "+other),
	copyCond("if-modified-since", "a copy If-Modified-Since with an older date succeeds", 200, "if-modified-since: "+past),
	copyCond("if-modified-since-itself", "a copy If-Modified-Since with the Last-Modified of the source fails with 412", 412, "if-modified-since: MODIFIED"),
	copyCond("if-modified-since-future", "a copy If-Modified-Since with a date in the future ignores that date", 200, "if-modified-since: "+future),
	copyCond("if-unmodified-since", "a copy If-Unmodified-Since with a later date succeeds", 200, "if-unmodified-since: "+future),
	copyCond("if-unmodified-since-past", "a copy If-Unmodified-Since with an older date fails with 412", 412, "if-unmodified-since: "+past),
	copyCond("match-beats-unmodified", "for a source, an If-Match that holds takes precedence over an If-Unmodified-Since that fails", 200, `if-match: "ETAG"`, "if-unmodified-since: "+past),
	copyCond("none-match-beats-modified", "for a source, an If-None-Match that fails takes precedence over an If-Modified-Since that holds", 412, `if-none-match: "ETAG"`, "if-modified-since: "+past),
}}
