package s3test

import (
	"fmt"
	"slices"
	"strings"
)

// tagDoc returns a Tagging document. tags have the form key=value.
func tagDoc(tags ...string) string {
	var b strings.Builder
	b.WriteString(`<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>`)
	for _, tag := range tags {
		k, v, _ := strings.Cut(tag, "=")
		b.WriteString("<Tag><Key>" + k + "</Key><Value>" + v + "</Value></Tag>")
	}
	b.WriteString("</TagSet></Tagging>")
	return b.String()
}

// tags sets the tags of an object.
func (t *T) tags(ref string, tags ...string) *response {
	t.Helper()
	doc := tagDoc(tags...)
	return t.try(ref+"?tagging", doc, contentMD5(doc))
}

// tagged checks the tags of ref, in any order.
func (t *T) tagged(ref string, want ...string) {
	t.Helper()
	a := t.get(ref).ok(200).doc("Tagging")
	var got []string
	values := a.all("TagSet/Tag/Value")
	for i, k := range a.all("TagSet/Tag/Key") {
		got = append(got, k+"="+values[i])
	}
	slices.Sort(got)
	slices.Sort(want)
	a.expect(len(a.root().find("TagSet")) == 1 && slices.Equal(got, want), "%q, want %q", got, want)
}

// someTags returns n tags.
func someTags(n int) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprintf("k%d=v%d", i, i))
	}
	return tags
}

// badTag returns the rule that tags are refused and the object keeps its previous ones.
func badTag(named, says, code string, tags ...string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", "content", "x-amz-tagging: old=1")
		t.tags("key", tags...).fail(400, code)
		t.tagged("key?tagging", "old=1")
	}}
}

var tagging = area{"tagging", []rule{
	{"empty-document", "PutObjectTagging and PutBucketTagging without a document fail with MissingRequestBodyError", func(t *T) {
		t.put("key", "content")
		t.try("key?tagging", "", sumHeader("CRC32", "")).fail(400, "MissingRequestBodyError")
		t.try("?tagging", "", contentMD5("")).fail(400, "MissingRequestBodyError")
	}},
	{"put-get", "the tags of an object are returned", func(t *T) {
		t.put("key", "content")
		t.tags("key", "a=1", "b=two").ok(200)
		t.tagged("key?tagging", "a=1", "b=two")
	}},
	{"none", "an object without tags has an empty TagSet", func(t *T) {
		t.put("key", "content")
		t.tagged("key?tagging")
	}},
	{"replaces", "PutObjectTagging replaces all tags", func(t *T) {
		t.put("key", "content")
		t.tags("key", "a=1", "b=2").ok(200)
		t.tags("key", "c=3").ok(200)
		t.tagged("key?tagging", "c=3")
	}},
	{"delete", "DeleteObjectTagging returns 204 and removes all tags", func(t *T) {
		t.put("key", "content")
		t.tags("key", "a=1").ok(200)
		t.del("key?tagging").ok(204)
		t.tagged("key?tagging")
		t.holds("key", "content")
	}},
	{"empty-set", "PutObjectTagging with an empty TagSet removes all tags", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1")
		t.tags("key").ok(200)
		t.tagged("key?tagging")
	}},
	{"changes-nothing-else", "PutObjectTagging does not change content, ETag and Last-Modified", func(t *T) {
		t.put("key", "content")
		before := t.head("key").ok(200)
		t.tags("key", "a=1").ok(200)
		t.head("key").ok(200).has("ETag", before.header.Get("ETag")).has("Last-Modified", before.header.Get("Last-Modified"))
		t.holds("key", "content")
	}},
	{"header", "x-amz-tagging of a PUT tags the object", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1&b=two%20words&c=")
		t.tagged("key?tagging", "a=1", "b=two words", "c=")
	}},
	{"count", "GET and HEAD return the number of tags, or no header if there are none", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1&b=2")
		t.get("key").ok(200).has("x-amz-tagging-count", "2")
		t.head("key").ok(200).has("x-amz-tagging-count", "2")
		t.put("key", "content")
		t.head("key").ok(200).lacks("x-amz-tagging-count")
	}},
	{"overwrite-drops", "a PUT without tags removes those of the previous object", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1")
		t.put("key", "content")
		t.tagged("key?tagging")
	}},
	{"missing-key", "requests for the tags of a key that does not exist fail with NoSuchKey", func(t *T) {
		t.get("key?tagging").fail(404, "NoSuchKey")
		t.tags("key", "a=1").fail(404, "NoSuchKey")
		t.del("key?tagging").fail(404, "NoSuchKey")
	}},
	{"ten", "an object may have 10 tags", func(t *T) {
		t.put("key", "content")
		t.tags("key", someTags(10)...).ok(200)
		t.tagged("key?tagging", someTags(10)...)
	}},
	badTag("eleven", "11 tags for an object fail with BadRequest", "BadRequest", someTags(11)...),
	badTag("key-too-long", "a tag key with more than 128 characters fails with InvalidTag", "InvalidTag", strings.Repeat("k", 129)+"=v"),
	badTag("value-too-long", "a tag value with more than 256 characters fails with InvalidTag", "InvalidTag", "k="+strings.Repeat("v", 257)),
	badTag("key-empty", "an empty tag key fails with InvalidTag", "InvalidTag", "=v"),
	badTag("twice", "a duplicate tag key fails with InvalidTag", "InvalidTag", "a=1", "a=2"),
	badTag("aws-prefix", "a tag key that begins with aws: fails with InvalidTag", "InvalidTag", "aws:a=1"),
	badTag("characters", "a tag with invalid characters fails with InvalidTag", "InvalidTag", "a=*|*"),
	{"longest", "a tag key may have 128 characters and a value 256, however many bytes these are", func(t *T) {
		t.put("key", "content")
		long := strings.Repeat("é", 128) + "=" + strings.Repeat("é", 256)
		t.tags("key", long).ok(200)
		t.tagged("key?tagging", long)
	}},
	{"case", "tag keys are case-sensitive", func(t *T) {
		t.put("key", "content")
		t.tags("key", "a=1", "A=2").ok(200)
		t.tagged("key?tagging", "a=1", "A=2")
	}},
	{"malformed", "an invalid Tagging document fails with MalformedXML", func(t *T) {
		t.put("key", "content")
		t.try("key?tagging", "<Tagging><TagSet>", contentMD5("<Tagging><TagSet>")).fail(400, "MalformedXML")
	}},
	{"header-eleven", "11 tags in x-amz-tagging fail with BadRequest and store nothing", func(t *T) {
		t.try("key", "content", "x-amz-tagging: "+strings.Join(someTags(11), "&")).fail(400, "BadRequest")
		t.gone("key")
	}},
	{"header-twice", "a duplicate tag key in x-amz-tagging is refused", func(t *T) {
		a := t.try("key", "content", "x-amz-tagging: a=1&a=2")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidTag" || a.text("Code") == "InvalidArgument"), "status %d", a.status)
		t.gone("key")
	}},
	{"header-bad-tag", "an invalid tag in x-amz-tagging is refused", func(t *T) {
		a := t.try("key", "content", "x-amz-tagging: aws%3Aa=1")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidTag" || a.text("Code") == "InvalidArgument"), "status %d", a.status)
		t.gone("key")
	}},
	{"copy-keeps", "a copy has the tags of the source", func(t *T) {
		t.put("from", "content", "x-amz-tagging: a=1")
		t.put("to", nil, t.from("from"))
		t.tagged("to?tagging", "a=1")
	}},
	{"copy-replace", "a copy with the tagging directive REPLACE has the tags of the request", func(t *T) {
		t.put("from", "content", "x-amz-tagging: a=1")
		t.put("to", nil, t.from("from"), "x-amz-tagging-directive: REPLACE", "x-amz-tagging: b=2")
		t.tagged("to?tagging", "b=2")
	}},
	{"copy-replace-with-none", "a copy with the tagging directive REPLACE and without tags has none", func(t *T) {
		t.put("from", "content", "x-amz-tagging: a=1")
		t.put("to", nil, t.from("from"), "x-amz-tagging-directive: REPLACE")
		t.tagged("to?tagging")
	}},
	{"copy-directive-nonsense", "a tagging directive other than COPY and REPLACE fails with InvalidArgument", func(t *T) {
		t.put("from", "content")
		t.try("to", nil, t.from("from"), "x-amz-tagging-directive: MERGE").fail(400, "InvalidArgument")
	}},
	{"metadata-replace-keeps-tags", "the metadata directive REPLACE does not replace tags", func(t *T) {
		t.put("from", "content", "x-amz-tagging: a=1")
		t.put("to", nil, t.from("from"), "x-amz-metadata-directive: REPLACE")
		t.tagged("to?tagging", "a=1")
	}},
	{"multipart", "x-amz-tagging of CreateMultipartUpload tags the object", func(t *T) {
		u := t.begin("key", "x-amz-tagging: a=1")
		u.part(1, "content")
		u.complete().ok(200)
		t.tagged("key?tagging", "a=1")
	}},
	{"versions", "each version has its own tags, and the responses contain the version ID", func(t *T) {
		t.versioned()
		old := t.version("key", "one", "x-amz-tagging: a=1")
		now := t.version("key", "two", "x-amz-tagging: b=2")
		t.tagged("key?tagging&versionId="+old, "a=1")
		t.tagged("key?tagging", "b=2")
		doc := tagDoc("c=3")
		t.put("key?tagging&versionId="+old, doc, contentMD5(doc)).has("x-amz-version-id", old)
		t.tagged("key?tagging&versionId="+old, "c=3")
		t.tagged("key?tagging&versionId="+now, "b=2")
		t.get("key?tagging").ok(200).has("x-amz-version-id", now)
		t.del("key?tagging&versionId="+old).ok(204).has("x-amz-version-id", old)
		t.tagged("key?tagging&versionId=" + old)
	}},
	{"of-marker", "GetObjectTagging of a delete marker fails with MethodNotAllowed", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.get("key?tagging&versionId="+marker).fail(405, "MethodNotAllowed")
	}},
	{"of-deleted", "requests for the tags of a key whose current version is a delete marker fail with MethodNotAllowed", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.get("key?tagging").fail(405, "MethodNotAllowed").eq("ResourceType", "DeleteMarker")
		doc := tagDoc("a=1")
		t.try("key?tagging", doc, contentMD5(doc)).fail(405, "MethodNotAllowed")
		t.del("key?tagging").fail(405, "MethodNotAllowed")
	}},
	{"header-empty-key", "x-amz-tagging with an empty tag key fails with InvalidArgument", func(t *T) {
		t.try("key", "content", "x-amz-tagging: a=1&=2").fail(400, "InvalidArgument").eq("ArgumentName", "x-amz-tagging")
		t.gone("key")
	}},
	{"missing-version", "GetObjectTagging of a version that does not exist fails with NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("other", "two")
		t.get("key?tagging&versionId="+id).fail(404, "NoSuchVersion")
	}},
}}
