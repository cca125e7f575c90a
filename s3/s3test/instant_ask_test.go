package s3test

import (
	"fmt"
	"strings"
	"time"
)

// whole returns the Content element of FindContent with the hash of the whole content.
func whole(content string) string { return asked(len(content), "SHA256", sha256Hex([]byte(content))) }

// beginning returns the Content element of FindContent with the hash of the first 64 KiB.
func beginning(content string) string {
	return asked(len(content), "HeadSHA256", sha256Hex([]byte(content[:min(len(content), 65536)])))
}

func asked(size any, name, hash string) string {
	return fmt.Sprintf("<Content><Size>%v</Size><%s>%s</%[2]s></Content>", size, name, hash)
}

// find sends a FindContent request with these Content elements to a bucket; "" is the bucket of the case.
func (t *T) find(bucket string, contents ...string) *response {
	t.Helper()
	return t.post(bucket+"?instant", "<FindContent>"+strings.Join(contents, "")+"</FindContent>")
}

// states checks the states that FindContent returns for these Content elements.
func (t *T) states(contents []string, want ...string) {
	t.Helper()
	t.find("", contents...).ok(200).doc("FindContentResult").eq("Content/State", want...)
}

// refer sends a PUT that refers to content instead of sending it.
func (t *T) refer(ref, content string, headers ...string) *response {
	t.Helper()
	return t.try(ref, nil, append(headers, "x-amz-content-sha256: "+sha256Hex([]byte(content)), instantLength(len(content)))...)
}

func instantLength(n int) string { return fmt.Sprint("x-amz-instant-length: ", n) }

// instantAsk is the protocol of clients that ask for content before they send it.
var instantAsk = area{"instant-ask", []rule{
	{"present", "FindContent returns present for content that the bucket stores, and absent for other content", func(t *T) {
		content := random(30, 300_000)
		t.put("key", content)
		t.states(l(whole(content), whole(content+"x")), "present", "absent")
	}},
	{"perhaps", "FindContent with the hash of the first 64 KiB returns perhaps, or present if the content is no longer than that", func(t *T) {
		large, small := random(31, 300_000), random(32, 1000)
		t.put("large", large)
		t.put("small", small)
		t.states(l(beginning(large), beginning(small), beginning(random(33, 300_000)), whole(small)), "perhaps", "present", "absent", "present")
	}},
	{"perhaps-only", "content that shares only its beginning with stored content is perhaps by its first 64 KiB and absent by its full hash", func(t *T) {
		content := random(34, 300_000)
		t.put("key", content)
		t.states(l(beginning(content[:299_999]+"x"), whole(content[:299_999]+"x")), "perhaps", "absent")
	}},
	{"size-counts", "a known hash with a different size is absent", func(t *T) {
		content := random(35, 300_000)
		t.put("key", content)
		t.states(l(asked(len(content)+1, "SHA256", sha256Hex([]byte(content))), asked(299_999, "HeadSHA256", sha256Hex([]byte(content[:65536])))), "absent", "absent")
	}},
	{"part-is-content", "the content of a part is found like that of an object", func(t *T) {
		content := random(36, 300_000)
		t.begin("key").part(1, content)
		t.states(l(whole(content)), "present")
	}},
	{"deleted-is-absent", "content is present as long as one object has it, and then absent", func(t *T) {
		content := random(37, 300_000)
		t.put("a", content)
		t.put("b", content)
		t.del("a").ok(204)
		t.states(l(whole(content)), "present")
		t.del("b").ok(204)
		t.states(l(whole(content)), "absent")
	}},
	{"find-other-bucket", "content stored in another bucket is absent", func(t *T) {
		content := random(38, 300_000)
		t.put("/"+t.newBucket()+"/key", content)
		t.states(l(whole(content), beginning(content)), "absent", "absent")
	}},
	{"find-thousand", "FindContent accepts at most 1000 Content elements and returns the results in their order", func(t *T) {
		content := random(39, 1000)
		t.put("key", content)
		var contents, want []string
		for i := range 1000 {
			contents, want = append(contents, whole(fmt.Sprint("absent ", i))), append(want, "absent")
		}
		contents[500], want[500] = whole(content), "present"
		t.states(contents, want...)
		t.find("", append(contents, whole(content))...).fail(400, "MalformedXML")
	}},
	{"find-malformed", "FindContent without a Content element, or with one that lacks a size or exactly one hash, fails with MalformedXML", func(t *T) {
		hash := sha256Hex(nil)
		for _, content := range []string{
			"", "<Content><Size>1</Size></Content>", "<Content><SHA256>" + hash + "</SHA256></Content>", "<Content/>", "<Other/>",
			"<Content><Size>1</Size><SHA256>" + hash + "</SHA256><HeadSHA256>" + hash + "</HeadSHA256></Content>",
			"<Content><Size>1</Size><Size>1</Size><SHA256>" + hash + "</SHA256></Content>",
			"<Content><Size>1</Size><SHA256>" + hash + "</SHA256><MD5>" + hash + "</MD5></Content>",
		} {
			t.find("", content).fail(400, "MalformedXML")
		}
	}},
	{"find-bad-value", "an invalid size or hash fails with InvalidArgument, which names the element", func(t *T) {
		hash := sha256Hex(nil)
		t.find("", asked(-1, "SHA256", hash)).fail(400, "InvalidArgument").eq("ArgumentName", "Size")
		t.find("", asked("many", "SHA256", hash)).fail(400, "InvalidArgument").eq("ArgumentName", "Size")
		t.find("", asked(1, "SHA256", hash[1:])).fail(400, "InvalidArgument").eq("ArgumentName", "SHA256")
		t.find("", asked(1, "HeadSHA256", "x"+hash[1:])).fail(400, "InvalidArgument").eq("ArgumentName", "HeadSHA256")
	}},
	{"find-missing-bucket", "FindContent of a bucket that does not exist fails with NoSuchBucket, and it is not implemented for a key", func(t *T) {
		t.find("/"+t.newName(), whole("x")).fail(404, "NoSuchBucket")
		t.put("key", "content")
		t.post("key?instant", "<FindContent>"+whole("content")+"</FindContent>").fail(501, "NotImplemented")
		t.get("?instant").fail(405, "MethodNotAllowed")
	}},
	{"find-presigned", "a presigned URL can neither find content nor refer to it", func(t *T) {
		content := random(40, 1000)
		t.put("key", content)
		t.send(presign(t, "POST", "?instant", "<FindContent>"+whole(content)+"</FindContent>", time.Minute, 0)).fail(403, "AccessDenied")
		t.send(presign(t, "PUT", "copy", nil, time.Minute, 0, instantLength(len(content)), sumHeader("SHA256", content))).fail(403, "AccessDenied")
		t.gone("copy")
	}},
	{"refer", "a PUT that refers to content in the bucket creates an object with that content and the headers of the PUT", func(t *T) {
		for i, size := range []int{6, 65_536, 300_000} {
			content, key := random(41+byte(i), size), fmt.Sprint("copy", i)
			t.put("key", content)
			t.refer(key, content, "Content-Type: text/plain", "x-amz-meta-a: 1", "x-amz-tagging: b=2").ok(200).has("ETag", `"`+md5Hex(content)+`"`)
			t.put("key", "else")
			t.holds(key, content)
			t.head(key).ok(200).has("Content-Type", "text/plain").has("x-amz-meta-a", "1").has("ETag", `"`+md5Hex(content)+`"`)
			t.tagged(key+"?tagging", "b=2")
		}
	}},
	{"refer-unsigned", "with an unsigned payload the hash is that of x-amz-checksum-sha256, which is stored", func(t *T) {
		content := random(44, 1000)
		t.put("key", content)
		t.try("copy", nil, unsigned, instantLength(len(content)), sumHeader("SHA256", content)).ok(200)
		t.holds("copy", content)
		t.head("copy", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-sha256", sum("SHA256", content))
	}},
	{"refer-absent", "a reference to content that is not in the bucket, or has another length, fails with NoSuchContent, and the key is unchanged", func(t *T) {
		content := random(45, 1000)
		t.put("key", "old")
		t.put("/"+t.newBucket()+"/key", content)
		t.refer("key", content).fail(404, "NoSuchContent")
		t.try("key", nil, "x-amz-content-sha256: "+sha256Hex([]byte("old")), instantLength(4)).fail(404, "NoSuchContent")
		t.holds("key", "old")
		t.refer("new", content).fail(404, "NoSuchContent")
		t.gone("new")
	}},
	{"refer-empty", "empty content is not found and cannot be referred to", func(t *T) {
		t.put("key", "")
		t.states(l(whole("")), "absent")
		t.refer("copy", "").fail(404, "NoSuchContent")
		t.gone("copy")
	}},
	{"refer-condition", "conditions apply to a reference", func(t *T) {
		content := random(46, 1000)
		t.put("key", content)
		t.put("copy", "old")
		t.refer("copy", content, "If-None-Match: *").fail(412, "PreconditionFailed")
		t.refer("copy", content, "If-Match: "+other).fail(412, "PreconditionFailed")
		t.holds("copy", "old")
		t.refer("copy", content, `If-Match: "`+md5Hex("old")+`"`).ok(200)
		t.holds("copy", content)
	}},
	{"refer-wrong-sum", "a checksum or a Content-MD5 that does not match the content fails with BadDigest", func(t *T) {
		content := random(47, 1000)
		t.put("key", content, sumHeader("CRC32", content))
		t.refer("copy", content, contentMD5("else"), sumHeader("CRC32", content)).fail(400, "BadDigest")
		t.refer("copy", content, sumHeader("CRC32", "else")).fail(400, "BadDigest")
		t.gone("copy")
		t.refer("copy", content, contentMD5(content), sumHeader("CRC32", content)).ok(200)
	}},
	{"refer-other-sum", "a reference with a checksum algorithm that was not used when the content was stored fails with NoSuchContent", func(t *T) {
		content := random(53, 1000)
		t.put("key", content, sumHeader("CRC32", content))
		t.refer("copy", content, sumHeader("SHA1", content)).fail(404, "NoSuchContent")
		t.gone("copy")
	}},
	{"refer-with-body", "a reference with a body fails with InvalidRequest", func(t *T) {
		content := random(48, 1000)
		t.put("key", content)
		t.try("copy", content, instantLength(len(content))).fail(400, "InvalidRequest")
		t.gone("copy")
	}},
	{"refer-without-hash", "a reference without a hash fails with InvalidRequest, and one with an invalid length with InvalidArgument", func(t *T) {
		content := random(49, 1000)
		t.put("key", content)
		t.try("copy", nil, unsigned, instantLength(len(content))).fail(400, "InvalidRequest")
		for _, n := range []string{"-1", "x", ""} {
			t.try("copy", nil, "x-amz-content-sha256: "+sha256Hex([]byte(content)), "x-amz-instant-length: "+n).fail(400, "InvalidArgument").
				eq("ArgumentName", "x-amz-instant-length")
		}
		t.gone("copy")
	}},
	{"refer-large", "a reference to more than 5 GiB fails with EntityTooLarge", func(t *T) {
		t.try("copy", nil, "x-amz-content-sha256: "+sha256Hex([]byte("x")), instantLength(5<<30+1)).fail(400, "EntityTooLarge")
	}},
	{"refer-of-part", "a part can refer to content, even to that of an object", func(t *T) {
		content := random(50, mebibytes5)
		t.put("key", content)
		u := t.begin("copy")
		u.take(1, t.refer(u.ref(1), content).ok(200).etag())
		u.part(2, "end")
		u.complete().ok(200)
		t.holds("copy", content+"end")
	}},
	{"refer-elsewhere", "an operation that does not support references refuses one", func(t *T) {
		content := random(51, 1000)
		t.put("key", content)
		t.try("copy", nil, t.from("key"), instantLength(len(content))).fail(501, "NotImplemented")
		t.refer("key", content, "x-amz-write-offset-bytes: 1000").fail(400, "InvalidRequest")
		t.gone("copy")
		t.holds("key", content)
	}},
	{"refer-versions", "in a versioned bucket a reference creates a version", func(t *T) {
		t.versioned()
		content := random(52, 1000)
		id := t.version("key", content)
		t.must(t.refer("key", content).ok(200).set("x-amz-version-id") != id, "the version ID is unchanged")
		t.holds("key?versionId="+id, content)
	}},
}}
