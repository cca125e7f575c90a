package s3test

import (
	"fmt"
	"strings"
	"sync"
)

// rename renames a key in the bucket of the case.
func (t *T) rename(from, to string, headers ...string) *response {
	t.Helper()
	return t.try(to+"?renameObject", nil, append(headers, "x-amz-rename-source: /"+t.bucket()+"/"+from)...)
}

// renameCond returns the rule that a rename with conditions on its source, as defined in about, returns a status.
func renameCond(named, says string, status int, conditions ...string) rule {
	return rule{named, says, func(t *T) {
		t.put("from", "content")
		a := t.rename("from", "to", t.about("from", "x-amz-rename-source-", conditions)...)
		if status == 200 {
			a.ok(200)
			t.holds("to", "content")
			t.gone("from")
			return
		}
		a.fail(status, "PreconditionFailed")
		t.holds("from", "content")
		t.gone("to")
	}}
}

var renaming = area{"rename", []rule{
	{"rename", "RenameObject gives an object a new key, and the old one no longer exists", func(t *T) {
		t.put("from", "content")
		a := t.rename("from", "to").ok(200)
		a.expect(a.body == "", "unexpected body")
		t.holds("to", "content")
		t.gone("from")
		t.get("").ok(200).eq("Contents/Key", "to")
	}},
	{"source-without-bucket", "the source may be given without the bucket", func(t *T) {
		t.put("dir/from", "content")
		t.try("to?renameObject", nil, "x-amz-rename-source: dir/from").ok(200)
		t.holds("to", "content")
		t.gone("dir/from")
	}},
	{"source-escaped", "the source of a rename is percent-encoded", func(t *T) {
		t.put(escape("a b+ü%/c"), "content")
		t.rename(escape("a b+ü%/c"), "to").ok(200)
		t.holds("to", "content")
	}},
	{"metadata", "RenameObject keeps metadata, tags, checksum and ETag", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1", "Content-Type: text/plain", "x-amz-tagging: b=2", sumHeader("SHA256", "content"))
		t.rename("from", "to").ok(200)
		t.head("to", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-meta-a", "1").has("Content-Type", "text/plain").
			has("x-amz-checksum-sha256", sum("SHA256", "content")).has("ETag", `"`+md5Hex("content")+`"`)
		t.tagged("to?tagging", "b=2")
	}},
	{"replaces", "RenameObject replaces the object at the target", func(t *T) {
		t.put("from", "content")
		t.put("to", "old")
		t.rename("from", "to").ok(200)
		t.holds("to", "content")
	}},
	{"missing", "RenameObject of a key that does not exist fails with NoSuchKey", func(t *T) {
		t.put("to", "old")
		t.rename("from", "to").fail(404, "NoSuchKey")
		t.holds("to", "old")
	}},
	{"source-missing", "RenameObject without a source is refused", func(t *T) {
		a := t.try("to?renameObject", nil)
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"multipart", "a multipart object can be renamed", func(t *T) {
		u := t.begin("from")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "end")
		u.complete().ok(200)
		t.rename("from", "to").ok(200).lacks("x-amz-version-id")
		t.holds("to", random(8, mebibytes5)+"end")
		t.head("to").ok(200).has("ETag", `"`+u.wholeETag()+`"`)
		t.head("to?partNumber=2").ok(206).has("x-amz-mp-parts-count", "2")
	}},
	{"if-none-match", "RenameObject If-None-Match: * onto a key that exists fails with 412", func(t *T) {
		t.put("from", "content")
		t.put("to", "old")
		t.rename("from", "to", "If-None-Match: *").fail(412, "PreconditionFailed")
		t.holds("from", "content")
		t.holds("to", "old")
	}},
	{"if-none-match-free", "RenameObject If-None-Match: * to a free key succeeds", func(t *T) {
		t.put("from", "content")
		t.rename("from", "to", "If-None-Match: *").ok(200)
		t.holds("to", "content")
	}},
	{"if-match", "RenameObject If-Match applies to the target: it succeeds with the target's ETag, and a different ETag fails with 412", func(t *T) {
		t.put("from", "content")
		etag := t.put("to", "old").etag()
		t.rename("from", "to", "If-Match: "+other).fail(412, "PreconditionFailed")
		t.holds("to", "old")
		t.rename("from", "to", `If-Match: "`+etag+`"`).ok(200)
		t.holds("to", "content")
	}},
	renameCond("source-if-match", "a rename If-Match with the ETag of the source succeeds", 200, `if-match: "ETAG"`),
	renameCond("source-if-match-differs", "a rename If-Match with a different ETag than the source's fails with 412", 412, "if-match: "+other),
	renameCond("source-if-none-match", "a rename If-None-Match with the ETag of the source fails with 412", 412, `if-none-match: "ETAG"`),
	renameCond("source-if-modified-since", "a rename If-Modified-Since with the Last-Modified of the source fails with 412", 412, "if-modified-since: MODIFIED"),
	renameCond("source-if-unmodified-since", "a rename If-Unmodified-Since with an older date fails with 412", 412, "if-unmodified-since: "+past),
	{"token", "RenameObject with a client token can be repeated", func(t *T) {
		t.put("from", "content")
		t.rename("from", "to", "x-amz-client-token: token-1").ok(200)
		t.rename("from", "to", "x-amz-client-token: token-1").ok(200)
		t.holds("to", "content")
	}},
	{"no-token", "repeating RenameObject without a client token fails with NoSuchKey", func(t *T) {
		t.put("from", "content")
		t.rename("from", "to").ok(200)
		t.rename("from", "to").fail(404, "NoSuchKey")
	}},
	{"versions", "in a versioned bucket a rename creates a version at the target and a delete marker at the source", func(t *T) {
		t.versioned()
		id := t.version("from", "content")
		t.rename("from", "to").ok(200)
		t.holds("to", "content")
		t.get("from").fail(404, "NoSuchKey").has("x-amz-delete-marker", "true")
		t.holds("from?versionId="+id, "content")
	}},
	{"locked", "a locked version cannot be renamed", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.rename("key", "to").fail(403, "AccessDenied")
		t.holds("key?versionId="+id, "content")
		t.gone("to")
		t.putSummed("key?legal-hold&versionId="+id, hold("OFF")).ok(200)
	}},
	{"other-bucket", "RenameObject cannot rename to another bucket", func(t *T) {
		from := t.newBucket()
		t.put("/"+from+"/from", "content")
		a := t.try("to?renameObject", nil, "x-amz-rename-source: /"+from+"/from")
		a.expect(a.status == 400 || a.status == 404, "status %d", a.status)
		t.holds("/"+from+"/from", "content")
	}},
	{"race", "of two concurrent renames of a key, one succeeds", func(t *T) {
		for range 5 {
			t.put("from", "content")
			t.del("a")
			t.del("b")
			results := make([]*response, 2)
			var all sync.WaitGroup
			for i, to := range []string{"a", "b"} {
				all.Go(func() { results[i] = t.rename("from", to) })
			}
			all.Wait()
			won := 0
			for _, a := range results {
				if a.status == 200 {
					won++
				} else {
					a.fail(404, "NoSuchKey")
				}
			}
			t.must(won == 1, "%d requests succeeded, want 1", won)
		}
	}},
}}

// move moves a key in the bucket of the case to ref.
func (t *T) move(from, ref string, headers ...string) *response {
	t.Helper()
	return t.try(ref, nil, append(headers, "x-amz-move-source: /"+t.bucket()+"/"+from)...)
}

// moving is an extension that AWS does not have.
var moving = area{"move", []rule{
	{"other-bucket", "a PUT with x-amz-move-source moves an object to another bucket and returns the same document as a copy", func(t *T) {
		t.put("from", "content", "x-amz-meta-a: 1")
		to := "/" + t.newBucket() + "/to"
		t.move("from", to).ok(200).doc("CopyObjectResult").eq("ETag", `"`+md5Hex("content")+`"`)
		t.holds(to, "content")
		t.head(to).ok(200).has("x-amz-meta-a", "1")
		t.gone("from")
	}},
	{"same-bucket", "a move within a bucket is possible", func(t *T) {
		t.put("from", "content")
		t.move("from", "to").ok(200)
		t.holds("to", "content")
		t.gone("from")
	}},
	{"missing", "a move of a key that does not exist fails with NoSuchKey", func(t *T) {
		t.move("from", "to").fail(404, "NoSuchKey")
	}},
	{"target-bucket-missing", "a move to a bucket that does not exist fails with NoSuchBucket, and the source is kept", func(t *T) {
		t.put("from", "content")
		t.move("from", "/"+t.newName()+"/to").fail(404, "NoSuchBucket")
		t.holds("from", "content")
	}},
	{"source-bucket-missing", "a move from a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.try("to", nil, "x-amz-move-source: /"+t.newName()+"/from").fail(404, "NoSuchBucket")
	}},
	{"if-none-match", "a move If-None-Match: * onto a key that exists fails with 412, and both objects are kept", func(t *T) {
		t.put("from", "content")
		t.put("to", "old")
		t.move("from", "to", "If-None-Match: *").fail(412, "PreconditionFailed")
		t.holds("from", "content")
		t.holds("to", "old")
	}},
	{"source-if-match", "a move If-Match with a different ETag than the source's fails with 412", func(t *T) {
		t.put("from", "content")
		t.move("from", "to", "x-amz-move-source-if-match: "+other).fail(412, "PreconditionFailed")
		t.holds("from", "content")
		t.gone("to")
	}},
	{"copy-and-move", "a request with both a copy source and a move source is refused", func(t *T) {
		t.put("from", "content")
		a := t.move("from", "to", t.from("from"))
		a.expect(a.status == 400 || a.status == 501, "status %d", a.status)
		t.holds("from", "content")
	}},
	{"versions", "a move out of a versioned bucket leaves a delete marker and the version", func(t *T) {
		t.versioned()
		id := t.version("from", "content")
		to := "/" + t.newBucket() + "/to"
		t.move("from", to).ok(200)
		t.holds(to, "content")
		t.gone("from")
		t.holds("from?versionId="+id, "content")
	}},
	{"into-versions", "a move into a versioned bucket creates a version and returns its ID", func(t *T) {
		from := t.newBucket()
		t.put("/"+from+"/from", "content")
		t.versioned()
		t.version("to", "old")
		a := t.try("to", nil, "x-amz-move-source: /"+from+"/from").ok(200)
		t.holds("to?versionId="+a.set("x-amz-version-id"), "content")
		t.gone("/" + from + "/from")
	}},
}}

// tack appends content to an object at an offset.
func (t *T) tack(ref string, offset int, content string, headers ...string) *response {
	t.Helper()
	return t.try(ref, content, append(headers, fmt.Sprint("x-amz-write-offset-bytes: ", offset))...)
}

var appending = area{"append", []rule{
	{"creates", "an append at offset 0 to a key that does not exist creates the object", func(t *T) {
		t.tack("key", 0, "content").ok(200)
		t.holds("key", "content")
	}},
	{"grows", "an append at the end extends the object and returns its size", func(t *T) {
		t.put("key", "one")
		t.tack("key", 3, " and two").ok(200).has("x-amz-object-size", "11")
		t.holds("key", "one and two")
		t.head("key").ok(200).has("Content-Length", "11")
	}},
	{"etag", "an append changes the ETag, which contains the number of pieces", func(t *T) {
		old := t.put("key", "one").etag()
		a := t.tack("key", 3, "two").ok(200)
		a.expect(a.etag() != old && strings.Contains(a.etag(), "-"), "%s", a.etag())
		t.head("key").ok(200).has("ETag", `"`+a.etag()+`"`)
	}},
	{"wrong-offset", "an append at an offset other than the end fails with InvalidWriteOffset", func(t *T) {
		t.put("key", "one")
		for _, at := range []int{0, 2, 4} {
			t.tack("key", at, "two").fail(400, "InvalidWriteOffset")
		}
		t.holds("key", "one")
	}},
	{"offset-of-missing", "an append at an offset other than 0 to a key that does not exist is refused", func(t *T) {
		a := t.tack("key", 3, "two")
		a.expect(a.status == 400 && a.text("Code") == "InvalidWriteOffset" || a.status == 404 && a.text("Code") == "NoSuchKey", "status %d", a.status)
		t.gone("key")
	}},
	{"offset-nonsense", "an offset that is not a number is refused", func(t *T) {
		t.put("key", "one")
		for _, at := range []string{"x", "-1", ""} {
			a := t.try("key", "two", "x-amz-write-offset-bytes: "+at)
			a.expect(a.status == 400, "status %d with %q", a.status, at)
		}
		t.holds("key", "one")
	}},
	{"many", "many appends result in one object", func(t *T) {
		whole := ""
		for i := range 40 {
			piece := fmt.Sprintf("piece %d\n", i)
			t.tack("key", len(whole), piece).ok(200)
			whole += piece
		}
		t.holds("key", whole)
		a := t.get("key", "Range: bytes=100-199").ok(206)
		a.expect(a.body == whole[100:200], "wrong bytes")
	}},
	{"checksum", "the checksum after an append covers the whole content", func(t *T) {
		t.put("key", "one", sumHeader("CRC32", "one"))
		t.tack("key", 3, "two", sumHeader("CRC32", "two")).ok(200)
		t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-crc32", sum("CRC32", "onetwo"))
	}},
	{"checksum-wrong", "an append with a wrong checksum fails with BadDigest, and the object is unchanged", func(t *T) {
		t.put("key", "one", sumHeader("CRC32", "one"))
		t.tack("key", 3, "two", sumHeader("CRC32", "else")).fail(400, "BadDigest")
		t.holds("key", "one")
	}},
	{"multipart", "an append to a multipart object succeeds", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "end")
		u.complete().ok(200)
		t.tack("key", mebibytes5+3, " and more").ok(200)
		t.holds("key", random(8, mebibytes5)+"end and more")
	}},
	{"versions", "in a versioned bucket an append creates a version, and the previous one is kept", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.tack("key", 3, "two").ok(200)
		t.holds("key", "onetwo")
		t.holds("key?versionId="+id, "one")
	}},
	{"race", "of concurrent appends at the same offset, one succeeds", func(t *T) {
		whole := "start"
		t.put("key", whole)
		for range 5 {
			responses := make([]*response, 6)
			var all sync.WaitGroup
			for i := range responses {
				all.Go(func() { responses[i] = t.tack("key", len(whole), fmt.Sprintf("[%d]", i)) })
			}
			all.Wait()
			won := 0
			for i, a := range responses {
				if a.status == 200 {
					won++
					whole += fmt.Sprintf("[%d]", i)
				} else {
					a.expect(a.status == 400 && a.text("Code") == "InvalidWriteOffset" || a.status == 409 || a.status == 412, "status %d", a.status)
				}
			}
			t.must(won == 1, "%d requests succeeded, want 1", won)
			t.holds("key", whole)
		}
	}},
	{"copy-is-independent", "an append does not change an earlier copy", func(t *T) {
		t.put("key", "one")
		t.put("copy", nil, t.from("key"))
		t.tack("key", 3, "two").ok(200)
		t.holds("copy", "one")
	}},
}}
