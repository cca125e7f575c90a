package s3test

import (
	"fmt"
	"slices"
	"strings"
)

// tagDoc returns a Tagging document; tags are of the form key=value.
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

// tags sets the tags of ref; DeleteObjectTagging and the like have no document.
func (t *T) tags(ref string, tags ...string) *answer {
	t.Helper()
	doc := tagDoc(tags...)
	return t.try(ref+"?tagging", doc, contentMD5(doc))
}

// tagged demands the tags of ref, in any order.
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
	a.expect(len(a.root().find("TagSet")) == 1 && slices.Equal(got, want), "%q and not %q", got, want)
}

// some returns n tags.
func someTags(n int) (tags []string) {
	for i := range n {
		tags = append(tags, fmt.Sprintf("k%d=v%d", i, i))
	}
	return tags
}

// badTag is the rule that tags are refused, and the object keeps those that it has.
func badTag(named, says, code string, tags ...string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", "content", "x-amz-tagging: old=1")
		t.tags("key", tags...).fail(400, code)
		t.tagged("key?tagging", "old=1")
	}}
}

var tagging = area{"tagging", []rule{
	{"empty-document", "PutObjectTagging and PutBucketTagging without a document are MissingRequestBodyError", func(t *T) {
		t.put("key", "content")
		t.try("key?tagging", "", sumHeader("CRC32", "")).fail(400, "MissingRequestBodyError")
		t.try("?tagging", "", contentMD5("")).fail(400, "MissingRequestBodyError")
	}},
	{"put-get", "the tags of an object come back", func(t *T) {
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
	{"delete", "DeleteObjectTagging answers 204 and removes all tags", func(t *T) {
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
	{"changes-nothing-else", "PutObjectTagging leaves content, ETag and Last-Modified", func(t *T) {
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
	{"count", "GET and HEAD return the number of tags, and no header if there are none", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1&b=2")
		t.get("key").ok(200).has("x-amz-tagging-count", "2")
		t.head("key").ok(200).has("x-amz-tagging-count", "2")
		t.put("key", "content")
		t.head("key").ok(200).lacks("x-amz-tagging-count")
	}},
	{"overwrite-drops", "a PUT without tags drops those of the object before", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=1")
		t.put("key", "content")
		t.tagged("key?tagging")
	}},
	{"missing-key", "tags of a key that is not there are NoSuchKey", func(t *T) {
		t.get("key?tagging").fail(404, "NoSuchKey")
		t.tags("key", "a=1").fail(404, "NoSuchKey")
		t.del("key?tagging").fail(404, "NoSuchKey")
	}},
	{"ten", "an object may have 10 tags", func(t *T) {
		t.put("key", "content")
		t.tags("key", someTags(10)...).ok(200)
		t.tagged("key?tagging", someTags(10)...)
	}},
	badTag("eleven", "11 tags of an object are BadRequest", "BadRequest", someTags(11)...),
	badTag("key-too-long", "a tag key of more than 128 characters is InvalidTag", "InvalidTag", strings.Repeat("k", 129)+"=v"),
	badTag("value-too-long", "a tag value of more than 256 characters is InvalidTag", "InvalidTag", "k="+strings.Repeat("v", 257)),
	badTag("key-empty", "an empty tag key is InvalidTag", "InvalidTag", "=v"),
	badTag("twice", "the same tag key twice is InvalidTag", "InvalidTag", "a=1", "a=2"),
	badTag("aws-prefix", "a tag key that begins with aws: is InvalidTag", "InvalidTag", "aws:a=1"),
	badTag("characters", "a tag with characters that tags do not have is InvalidTag", "InvalidTag", "a=*|*"),
	{"longest", "a tag key may have 128 characters and a value 256, whatever their bytes", func(t *T) {
		t.put("key", "content")
		long := strings.Repeat("é", 128) + "=" + strings.Repeat("é", 256)
		t.tags("key", long).ok(200)
		t.tagged("key?tagging", long)
	}},
	{"case", "tag keys that differ in case are two", func(t *T) {
		t.put("key", "content")
		t.tags("key", "a=1", "A=2").ok(200)
		t.tagged("key?tagging", "a=1", "A=2")
	}},
	{"malformed", "a Tagging document that is none is MalformedXML", func(t *T) {
		t.put("key", "content")
		t.try("key?tagging", "<Tagging><TagSet>", contentMD5("<Tagging><TagSet>")).fail(400, "MalformedXML")
	}},
	{"header-eleven", "11 tags in x-amz-tagging are BadRequest and store nothing", func(t *T) {
		t.try("key", "content", "x-amz-tagging: "+strings.Join(someTags(11), "&")).fail(400, "BadRequest")
		t.gone("key")
	}},
	{"header-twice", "the same tag key twice in x-amz-tagging is refused", func(t *T) {
		a := t.try("key", "content", "x-amz-tagging: a=1&a=2")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidTag" || a.text("Code") == "InvalidArgument"), "status %d", a.status)
		t.gone("key")
	}},
	{"header-bad-tag", "a tag in x-amz-tagging that no tag can be is refused", func(t *T) {
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
	{"copy-replace-with-none", "a copy with REPLACE and without tags has none", func(t *T) {
		t.put("from", "content", "x-amz-tagging: a=1")
		t.put("to", nil, t.from("from"), "x-amz-tagging-directive: REPLACE")
		t.tagged("to?tagging")
	}},
	{"copy-directive-nonsense", "a tagging directive other than COPY and REPLACE is InvalidArgument", func(t *T) {
		t.put("from", "content")
		t.try("to", nil, t.from("from"), "x-amz-tagging-directive: MERGE").fail(400, "InvalidArgument")
	}},
	{"metadata-replace-keeps-tags", "the metadata directive REPLACE says nothing of tags", func(t *T) {
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
	{"versions", "each version has tags of its own, and the answers name the version", func(t *T) {
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
	{"of-marker", "a delete marker has no tags: MethodNotAllowed", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.get("key?tagging&versionId="+marker).fail(405, "MethodNotAllowed")
	}},
	{"of-deleted", "tags of a key whose current version is a delete marker are MethodNotAllowed", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.get("key?tagging").fail(405, "MethodNotAllowed").eq("ResourceType", "DeleteMarker")
		doc := tagDoc("a=1")
		t.try("key?tagging", doc, contentMD5(doc)).fail(405, "MethodNotAllowed")
		t.del("key?tagging").fail(405, "MethodNotAllowed")
	}},
	{"header-empty-key", "x-amz-tagging with a tag that has no key is InvalidArgument", func(t *T) {
		t.try("key", "content", "x-amz-tagging: a=1&=2").fail(400, "InvalidArgument").eq("ArgumentName", "x-amz-tagging")
		t.gone("key")
	}},
	{"missing-version", "tags of a version that is not there are NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("other", "two")
		t.get("key?tagging&versionId="+id).fail(404, "NoSuchVersion")
	}},
}}
