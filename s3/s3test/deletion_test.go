package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strings"
)

func contentMD5(body string) string {
	s := md5.Sum([]byte(body))
	return "Content-MD5: " + base64.StdEncoding.EncodeToString(s[:])
}

// deleteDoc returns a DeleteObjects document. An entry is a key, or XML elements if it begins with "<".
func deleteDoc(entries ...string) string {
	var b strings.Builder
	b.WriteString(`<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for _, e := range entries {
		if strings.HasPrefix(e, "<Quiet>") {
			b.WriteString(e)
			continue
		}
		if !strings.HasPrefix(e, "<") {
			e = "<Key>" + e + "</Key>"
		}
		b.WriteString("<Object>" + e + "</Object>")
	}
	b.WriteString("</Delete>")
	return b.String()
}

// deleteAll sends a DeleteObjects request.
func (t *T) deleteAll(entries ...string) *response {
	t.Helper()
	doc := deleteDoc(entries...)
	return t.post("?delete", doc, contentMD5(doc))
}

var deletion = area{"delete-objects", []rule{
	{"some", "DeleteObjects deletes only the keys that it names", func(t *T) {
		t.fill("a", "b", "c")
		t.deleteAll("a", "c").ok(200).doc("DeleteResult").eq("Deleted/Key", "a", "c").no("Error")
		t.get("").ok(200).eq("Contents/Key", "b")
	}},
	{"missing-key", "a key that does not exist is reported as deleted", func(t *T) {
		t.deleteAll("none").ok(200).eq("Deleted/Key", "none").no("Error")
	}},
	{"quiet", "Quiet omits the deleted keys", func(t *T) {
		t.fill("a")
		t.deleteAll("<Quiet>true</Quiet>", "a").ok(200).doc("DeleteResult").no("Deleted", "Error")
		t.gone("a")
	}},
	{"quiet-tells-errors", "Quiet does not omit errors", func(t *T) {
		t.fill("a")
		t.deleteAll("<Quiet>true</Quiet>", "<Key>a</Key><ETag>"+strings.Trim(other, `"`)+"</ETag>").ok(200).eq("Error/Key", "a")
	}},
	{"needs-integrity", "DeleteObjects without Content-MD5 and without a checksum is refused", func(t *T) {
		t.fill("a")
		t.post("?delete", deleteDoc("a")).fail(400, "InvalidRequest")
		t.holds("a", "a")
	}},
	{"takes-checksum", "DeleteObjects accepts any x-amz-checksum-* instead of Content-MD5", func(t *T) {
		t.fill("a", "b", "c", "d", "e")
		for i, alg := range []string{"CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"} {
			doc := deleteDoc(string(rune('a' + i)))
			t.post("?delete", doc, "x-amz-sdk-checksum-algorithm: "+alg, sumHeader(alg, doc)).ok(200)
		}
		t.get("").ok(200).no("Contents")
	}},
	{"wrong-md5", "DeleteObjects with a wrong Content-MD5 fails with BadDigest and deletes nothing", func(t *T) {
		t.fill("a")
		t.post("?delete", deleteDoc("a"), contentMD5("else")).fail(400, "BadDigest")
		t.holds("a", "a")
	}},
	{"wrong-checksum", "DeleteObjects with a wrong checksum fails with BadDigest and deletes nothing", func(t *T) {
		t.fill("a")
		t.post("?delete", deleteDoc("a"), sumHeader("CRC32", "else")).fail(400, "BadDigest")
		t.holds("a", "a")
	}},
	{"malformed", "DeleteObjects with a body that is not XML fails with MalformedXML", func(t *T) {
		doc := "<Delete><Object><Key>a</Key></Delete>"
		t.post("?delete", doc, contentMD5(doc)).fail(400, "MalformedXML")
	}},
	{"no-keys", "DeleteObjects without a key fails with MalformedXML", func(t *T) {
		t.deleteAll().fail(400, "MalformedXML")
	}},
	{"thousand", "DeleteObjects accepts 1000 keys", func(t *T) {
		var keys []string
		for i := range 1000 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		a := t.deleteAll(keys...).ok(200)
		a.expect(len(a.all("Deleted/Key")) == 1000, "%d", len(a.all("Deleted/Key")))
	}},
	{"thousand-and-one", "DeleteObjects of 1001 keys fails with MalformedXML and deletes nothing", func(t *T) {
		keys := []string{"a"}
		t.fill("a")
		for i := range 1000 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		t.deleteAll(keys...).fail(400, "MalformedXML")
		t.holds("a", "a")
	}},
	{"twice", "a key named twice is deleted, and reported twice", func(t *T) {
		t.fill("a")
		t.deleteAll("a", "a").ok(200).eq("Deleted/Key", "a", "a")
	}},
	{"escaped", "keys with XML special characters are deleted and reported", func(t *T) {
		t.fill("<&>")
		t.deleteAll("<Key>&lt;&amp;&gt;</Key>").ok(200).eq("Deleted/Key", "<&>")
		t.get("").ok(200).no("Contents")
	}},
	{"white-space", "white space around elements has no effect", func(t *T) {
		t.fill("a")
		doc := "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete>\n  <Object>\n    <Key>a</Key>\n  </Object>\n</Delete>\n"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "a")
	}},
	{"no-namespace", "the Delete document may omit its namespace", func(t *T) {
		t.fill("a")
		doc := "<Delete><Object><Key>a</Key></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "a")
	}},
	{"etag-matches", "an entry with the ETag of the object is deleted", func(t *T) {
		etag := t.put("a", "content").etag()
		t.deleteAll("<Key>a</Key><ETag>&quot;"+etag+"&quot;</ETag>").ok(200).eq("Deleted/Key", "a")
		t.gone("a")
	}},
	{"etag-differs", "an entry with a different ETag results in an Error PreconditionFailed in a 200 response, and the others are deleted", func(t *T) {
		t.fill("a", "b")
		a := t.deleteAll("<Key>a</Key><ETag>"+strings.Trim(other, `"`)+"</ETag>", "b").ok(200)
		a.eq("Error/Key", "a").eq("Error/Code", "PreconditionFailed").eq("Deleted/Key", "b")
		t.holds("a", "a")
		t.gone("b")
	}},
	{"size-differs", "an entry with a different Size results in an Error PreconditionFailed in a 200 response", func(t *T) {
		t.fill("a", "b")
		t.deleteAll("<Key>a</Key><Size>99</Size>", "<Key>b</Key><Size>1</Size>").ok(200).eq("Error/Key", "a").eq("Error/Code", "PreconditionFailed").eq("Deleted/Key", "b")
		t.holds("a", "a")
	}},
	{"time-differs", "an entry with a different LastModifiedTime results in an Error PreconditionFailed in a 200 response", func(t *T) {
		t.fill("a", "b")
		when := t.head("b").header.Get("Last-Modified")
		t.deleteAll("<Key>a</Key><LastModifiedTime>"+past+"</LastModifiedTime>", "<Key>b</Key><LastModifiedTime>"+when+"</LastModifiedTime>").ok(200).
			eq("Error/Key", "a").eq("Error/Code", "PreconditionFailed").eq("Deleted/Key", "b")
		t.holds("a", "a")
	}},
	{"etag-of-missing", "an entry with an ETag for a key that does not exist results in an Error in a 200 response", func(t *T) {
		t.deleteAll("<Key>none</Key><ETag>"+strings.Trim(other, `"`)+"</ETag>").ok(200).eq("Error/Key", "none").no("Deleted")
	}},
	{"key-too-long", "a key that is too long results in an Error in a 200 response", func(t *T) {
		t.fill("a")
		t.deleteAll(strings.Repeat("k", 1025), "a").ok(200).eq("Error/Code", "KeyTooLongError").eq("Deleted/Key", "a")
	}},
	{"missing-bucket", "DeleteObjects in a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		doc := deleteDoc("a")
		t.post("/"+t.newName()+"?delete", doc, contentMD5(doc)).fail(404, "NoSuchBucket")
	}},
	{"version-null", "an entry may name the version null of a bucket without versioning", func(t *T) {
		t.fill("a")
		t.deleteAll("<Key>a</Key><VersionId>null</VersionId>").ok(200).eq("Deleted/Key", "a").eq("Deleted/VersionId", "null")
		t.gone("a")
	}},
	{"unversioned-no-marker", "without versioning an entry does not mention delete markers", func(t *T) {
		t.fill("a")
		t.deleteAll("a").ok(200).no("Deleted/DeleteMarker", "Deleted/DeleteMarkerVersionId", "Deleted/VersionId")
	}},
	{"put-is-no-post", "PUT ?delete deletes nothing", func(t *T) {
		t.fill("a")
		doc := deleteDoc("a")
		a := t.try("?delete", doc, contentMD5(doc))
		a.expect(a.status >= 400, "status %d", a.status)
		t.holds("a", "a")
	}},
}}
