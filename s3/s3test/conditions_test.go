package s3test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// digits is the content of the objects in the range cases.
const digits = "0123456789"

// rangeRule returns the rule that a range of digits returns the given content and Content-Range.
func rangeRule(named, says, ask, content, contentRange string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", digits)
		a := t.get("key", "Range: "+ask).ok(206).has("Content-Range", contentRange).has("Content-Length", fmt.Sprint(len(content)))
		a.expect(a.body == content, "%q, want %q", a.body, content)
	}}
}

// rangeIgnored returns the rule that a Range header is ignored.
func rangeIgnored(named, says, ask string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", digits)
		a := t.get("key", "Range: "+ask).ok(200).lacks("Content-Range")
		a.expect(a.body == digits, "%q", a.body)
	}}
}

// rangeOutside returns the rule that a range is not satisfiable.
func rangeOutside(named, says, content, ask string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", content)
		t.get("key", "Range: "+ask).fail(416, "InvalidRange").eq("ActualObjectSize", fmt.Sprint(len(content)))
	}}
}

var ranges = area{"ranges", []rule{
	rangeRule("middle", "a range includes its first and its last byte", "bytes=2-5", "2345", "bytes 2-5/10"),
	rangeRule("first-byte", "a range may be one byte", "bytes=0-0", "0", "bytes 0-0/10"),
	rangeRule("open", "a range without an end extends to the end of the object", "bytes=7-", "789", "bytes 7-9/10"),
	rangeRule("suffix", "a suffix range returns the last bytes", "bytes=-3", "789", "bytes 7-9/10"),
	rangeRule("suffix-longer", "a suffix range longer than the object returns all of it, with 206", "bytes=-100", digits, "bytes 0-9/10"),
	rangeRule("end-beyond", "a range that ends after the end of the object is cut off there", "bytes=8-100", "89", "bytes 8-9/10"),
	rangeRule("whole", "a range that covers all bytes returns 206", "bytes=0-9", digits, "bytes 0-9/10"),
	rangeRule("huge-end", "the end of a range may be a number of any size", "bytes=9-99999999999999999999999", "9", "bytes 9-9/10"),
	rangeOutside("start-at-end", "a range that begins at the end of the object fails with 416 InvalidRange, which contains the size", digits, "bytes=10-"),
	rangeOutside("start-beyond", "a range that begins after the end of the object fails with 416 InvalidRange", digits, "bytes=11-20"),
	rangeOutside("suffix-zero", "a suffix range of no bytes fails with 416 InvalidRange", digits, "bytes=-0"),
	rangeOutside("of-empty", "a range of an empty object fails with 416 InvalidRange", "", "bytes=0-0"),
	rangeIgnored("other-unit", "a range in a unit other than bytes is ignored", "lines=0-1"),
	rangeIgnored("backwards", "a range that ends before it begins is ignored", "bytes=5-2"),
	rangeIgnored("nonsense", "an invalid range is ignored", "bytes=a-b"),
	rangeIgnored("several", "several ranges in one request are ignored", "bytes=0-1,3-4"),
	{"head", "HEAD supports a range", func(t *T) {
		t.put("key", digits)
		t.head("key", "Range: bytes=2-5").ok(206).has("Content-Range", "bytes 2-5/10").has("Content-Length", "4")
	}},
	{"head-outside", "HEAD with a range outside the object fails with 416", func(t *T) {
		t.put("key", digits)
		t.head("key", "Range: bytes=20-").fail(416, "")
	}},
	{"etag-is-of-the-whole", "a range is returned with the ETag of the whole object", func(t *T) {
		t.put("key", digits)
		t.get("key", "Range: bytes=2-5").ok(206).has("ETag", `"`+md5Hex(digits)+`"`)
	}},
	{"if-range-etag", "If-Range with the ETag returns the range", func(t *T) {
		etag := t.put("key", digits).etag()
		t.get("key", "Range: bytes=2-5", `If-Range: "`+etag+`"`).ok(206)
	}},
	{"if-range-other-etag", "If-Range with a different ETag returns the whole object", func(t *T) {
		t.put("key", digits)
		a := t.get("key", "Range: bytes=2-5", `If-Range: "0123456789abcdef0123456789abcdef"`).ok(200)
		a.expect(a.body == digits, "not all of it")
	}},
	{"if-range-date", "If-Range with the Last-Modified returns the range", func(t *T) {
		t.put("key", digits)
		t.get("key", "Range: bytes=2-5", "If-Range: "+t.head("key").header.Get("Last-Modified")).ok(206)
	}},
	{"if-range-older-date", "If-Range with an older date returns the whole object", func(t *T) {
		t.put("key", digits)
		t.get("key", "Range: bytes=2-5", "If-Range: Thu, 01 Jan 2015 00:00:00 GMT").ok(200)
	}},
	{"large-object", "a range anywhere in a large object returns exactly those bytes", func(t *T) {
		content := random(5, 3<<20)
		t.put("key", content)
		for _, at := range [][2]int{{0, 1}, {262143, 262145}, {1<<20 - 1, 2<<20 + 1}, {3<<20 - 5, 3 << 20}} {
			a := t.get("key", fmt.Sprintf("Range: bytes=%d-%d", at[0], at[1]-1)).ok(206)
			a.expect(a.body == content[at[0]:at[1]], "wrong bytes at %d", at[0])
		}
	}},
	{"with-condition", "a condition is evaluated before a range", func(t *T) {
		etag := t.put("key", digits).etag()
		t.get("key", "Range: bytes=100-", `If-None-Match: "`+etag+`"`).ok(304)
	}},
}}

// past is before, and future after, the Last-Modified of every object of the suite.
const (
	past   = "Thu, 01 Jan 2015 00:00:00 GMT"
	future = "Thu, 01 Jan 2032 00:00:00 GMT"
	other  = `"0123456789abcdef0123456789abcdef"` // an ETag that no object has
)

// about returns the headers of conditions, with prefix before their names, and with ETAG and MODIFIED replaced by the
// ETag and the Last-Modified of the object.
func (t *T) about(ref, prefix string, conditions []string) []string {
	t.Helper()
	a := t.head(ref).ok(200)
	own := strings.NewReplacer("ETAG", a.etag(), "MODIFIED", a.header.Get("Last-Modified"))
	var headers []string
	for _, c := range conditions {
		headers = append(headers, prefix+own.Replace(c))
	}
	return headers
}

// condRule returns the rule that GET and HEAD with conditions, as defined in about, return a status.
func condRule(named, says string, status int, headers ...string) rule {
	return rule{named, says, func(t *T) {
		etag := t.put("key", "content", "Cache-Control: private").etag()
		given := t.about("key", "", headers)
		a := t.get("key", given...)
		switch status {
		case 412:
			a.fail(412, "PreconditionFailed")
		case 304:
			a.ok(304).has("ETag", `"`+etag+`"`)
		default:
			a.ok(status)
			a.expect(a.body == "content", "%q", a.body)
		}
		t.head("key", given...).ok(status)
	}}
}

var conditions = area{"conditions", []rule{
	condRule("if-match", "GET If-Match with the ETag returns 200", 200, `If-Match: "ETAG"`),
	condRule("if-match-differs", "GET If-Match with a different ETag fails with 412", 412, "If-Match: "+other),
	condRule("if-match-unquoted", "an ETag in If-Match may come without quotes", 200, "If-Match: ETAG"),
	condRule("if-match-star", "GET If-Match: * of a key that exists returns 200", 200, "If-Match: *"),
	condRule("if-match-list", "If-Match may be a list", 200, "If-Match: "+other+`, "ETAG"`),
	condRule("if-none-match", "GET If-None-Match with the ETag returns 304", 304, `If-None-Match: "ETAG"`),
	condRule("if-none-match-differs", "GET If-None-Match with a different ETag returns 200", 200, "If-None-Match: "+other),
	condRule("if-none-match-unquoted", "an ETag in If-None-Match may come without quotes", 304, "If-None-Match: ETAG"),
	condRule("if-none-match-star", "GET If-None-Match: * of a key that exists returns 304", 304, "If-None-Match: *"),
	condRule("if-none-match-list", "If-None-Match may be a list", 304, "If-None-Match: "+other+`, "ETAG"`),
	condRule("if-none-match-weak", "a weak ETag in If-None-Match matches", 304, `If-None-Match: W/"ETAG"`),
	condRule("if-modified-since-past", "GET If-Modified-Since with an older date returns 200", 200, "If-Modified-Since: "+past),
	condRule("if-modified-since-future", "GET If-Modified-Since with a date in the future is ignored", 200, "If-Modified-Since: "+future),
	condRule("if-unmodified-since-past", "GET If-Unmodified-Since with an older date fails with 412", 412, "If-Unmodified-Since: "+past),
	condRule("if-unmodified-since-future", "GET If-Unmodified-Since with a later date returns 200", 200, "If-Unmodified-Since: "+future),
	condRule("match-beats-unmodified", "an If-Match that holds takes precedence over an If-Unmodified-Since that fails", 200, `If-Match: "ETAG"`, "If-Unmodified-Since: "+past),
	condRule("match-fails-unmodified-holds", "an If-Match that fails takes precedence over an If-Unmodified-Since that holds", 412, "If-Match: "+other, "If-Unmodified-Since: "+future),
	condRule("none-match-beats-modified", "an If-None-Match that fails takes precedence over an If-Modified-Since that holds", 304, `If-None-Match: "ETAG"`, "If-Modified-Since: "+past),
	condRule("none-match-holds-modified-fails", "an If-None-Match that holds takes precedence over an If-Modified-Since that fails", 200, "If-None-Match: "+other, "If-Modified-Since: MODIFIED"),
	condRule("match-before-none-match", "a failing If-Match returns 412 regardless of If-None-Match", 412, "If-Match: "+other, `If-None-Match: "ETAG"`),
	condRule("bad-date", "an invalid date is ignored", 200, "If-Modified-Since: yesterday", "If-Unmodified-Since: yesterday"),
	condRule("modified-since-itself", "If-Modified-Since with the Last-Modified returns 304", 304, "If-Modified-Since: MODIFIED"),
	condRule("unmodified-since-itself", "If-Unmodified-Since with the Last-Modified returns 200", 200, "If-Unmodified-Since: MODIFIED"),
	{"missing-key", "a condition on a key that does not exist fails with NoSuchKey", func(t *T) {
		t.get("key", "If-Match: *").fail(404, "NoSuchKey")
		t.get("key", "If-None-Match: *").fail(404, "NoSuchKey")
	}},
	{"304-headers", "304 includes ETag, Last-Modified and Cache-Control, and has no body", func(t *T) {
		etag := t.put("key", "content", "Cache-Control: private").etag()
		a := t.get("key", `If-None-Match: "`+etag+`"`).ok(304).has("Cache-Control", "private")
		a.set("Last-Modified")
	}},
	{"after-authorisation", "a condition reveals nothing to a caller without permission to read", func(t *T) {
		etag := t.put("key", "content").etag()
		t.send(t.request("GET", "key", nil, `If-None-Match: "`+etag+`"`)).fail(403, "AccessDenied")
	}},
}}

// writers runs n concurrent writes of one key, and checks that exactly one succeeds and the others get 412.
func (t *T) writers(n int, write func(i int) *response) {
	t.Helper()
	var won atomic.Int32
	var all sync.WaitGroup
	responses := make([]*response, n)
	for i := range n {
		all.Go(func() {
			if responses[i] = write(i); responses[i].status == 200 {
				won.Add(1)
			}
		})
	}
	all.Wait()
	for _, a := range responses {
		t.must(a != nil, "no response")
		if a.status != 200 {
			a.fail(412, "PreconditionFailed")
		}
	}
	t.must(won.Load() == 1, "%d writes succeeded, want 1", won.Load())
}

var writeConditions = area{"write-conditions", []rule{
	{"none-match-new", "PUT If-None-Match: * of a new key is stored", func(t *T) {
		t.put("key", "content", "If-None-Match: *")
		t.holds("key", "content")
	}},
	{"none-match-there", "PUT If-None-Match: * of a key that exists fails with 412, and the key is unchanged", func(t *T) {
		t.put("key", "old")
		t.try("key", "new", "If-None-Match: *").fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"none-match-etag", "PUT If-None-Match with an ETag is not ignored but fails with NotImplemented", func(t *T) {
		t.put("key", "old")
		t.try("key", "new", "If-None-Match: "+other).fail(501, "NotImplemented")
		t.holds("key", "old")
	}},
	{"none-match-after-delete", "PUT If-None-Match: * of a deleted key is stored", func(t *T) {
		t.put("key", "old")
		t.del("key").ok(204)
		t.put("key", "new", "If-None-Match: *")
	}},
	{"match", "PUT If-Match with the ETag is stored", func(t *T) {
		etag := t.put("key", "old").etag()
		t.put("key", "new", `If-Match: "`+etag+`"`)
		t.holds("key", "new")
	}},
	{"match-unquoted", "an ETag in If-Match of a PUT may come without quotes", func(t *T) {
		etag := t.put("key", "old").etag()
		t.put("key", "new", "If-Match: "+etag)
	}},
	{"match-differs", "PUT If-Match with a different ETag fails with 412, and the key is unchanged", func(t *T) {
		t.put("key", "old")
		t.try("key", "new", "If-Match: "+other).fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"match-missing", "PUT If-Match of a key that does not exist fails with 404 NoSuchKey", func(t *T) {
		t.try("key", "new", "If-Match: "+other).fail(404, "NoSuchKey")
		t.gone("key")
	}},
	{"match-and-none-match", "a write with both If-Match and If-None-Match fails with NotImplemented, whether or not they hold", func(t *T) {
		etag := t.put("key", "old").etag()
		both := []string{`If-Match: "` + etag + `"`, "If-None-Match: *"}
		t.try("key", "new", both...).fail(501, "NotImplemented")
		t.try("key", "new", `If-Match: "`+etag+`"`, "If-None-Match: "+other).fail(501, "NotImplemented")
		t.try("key", nil, append(both, t.from("key"))...).fail(501, "NotImplemented")
		u := t.begin("key")
		u.part(1, "new")
		u.complete(both...).fail(501, "NotImplemented")
		t.holds("key", "old")
	}},
	{"modified-since", "PUT If-Modified-Since is not ignored", func(t *T) {
		t.put("key", "old")
		a := t.try("key", "new", "If-Modified-Since: "+future)
		a.expect(a.status == 501 || a.status == 412, "status %d", a.status)
		t.holds("key", "old")
	}},
	{"unmodified-since", "PUT If-Unmodified-Since is not ignored", func(t *T) {
		t.put("key", "old")
		a := t.try("key", "new", "If-Unmodified-Since: "+past)
		a.expect(a.status == 501 || a.status == 412, "status %d", a.status)
		t.holds("key", "old")
	}},
	{"race-to-create", "of concurrent writers with If-None-Match: *, one succeeds and the others get 412", func(t *T) {
		for round := range 5 {
			key := fmt.Sprint("key", round)
			t.bucket()
			t.writers(12, func(i int) *response { return t.try(key, fmt.Sprint("writer ", i), "If-None-Match: *") })
		}
	}},
	{"race-to-replace", "of concurrent writers with If-Match, one succeeds and the others get 412", func(t *T) {
		etag := t.put("key", "old").etag()
		for range 5 {
			t.writers(12, func(i int) *response {
				return t.try("key", fmt.Sprint("writer ", i, " of ", etag), `If-Match: "`+etag+`"`)
			})
			etag = t.head("key").ok(200).etag()
		}
	}},
	{"delete-match", "DELETE If-Match with the ETag deletes the object", func(t *T) {
		etag := t.put("key", "content").etag()
		t.del("key", `If-Match: "`+etag+`"`).ok(204)
		t.gone("key")
	}},
	{"delete-match-star", "DELETE If-Match: * of a key that exists deletes the object", func(t *T) {
		t.put("key", "content")
		t.del("key", "If-Match: *").ok(204)
		t.gone("key")
	}},
	{"delete-match-differs", "DELETE If-Match with a different ETag fails with 412, and the key is unchanged", func(t *T) {
		t.put("key", "content")
		t.del("key", "If-Match: "+other).fail(412, "PreconditionFailed")
		t.holds("key", "content")
	}},
	{"delete-match-missing", "DELETE If-Match of a key that does not exist fails with 404 NoSuchKey", func(t *T) {
		t.del("key", "If-Match: "+other).fail(404, "NoSuchKey")
	}},
	{"delete-none-match", "DELETE If-None-Match is not ignored", func(t *T) {
		t.put("key", "content")
		a := t.del("key", "If-None-Match: *")
		a.expect(a.status == 501 || a.status == 412, "status %d", a.status)
		t.holds("key", "content")
	}},
	{"delete-size", "DELETE with the right x-amz-if-match-size deletes the object", func(t *T) {
		t.put("key", "content")
		t.del("key", "x-amz-if-match-size: 7").ok(204)
		t.gone("key")
	}},
	{"delete-size-differs", "DELETE with a wrong x-amz-if-match-size fails with 412", func(t *T) {
		t.put("key", "content")
		t.del("key", "x-amz-if-match-size: 8").fail(412, "PreconditionFailed")
		t.holds("key", "content")
	}},
	{"delete-time", "DELETE with the right x-amz-if-match-last-modified-time deletes the object", func(t *T) {
		t.put("key", "content")
		t.del("key", "x-amz-if-match-last-modified-time: "+t.head("key").header.Get("Last-Modified")).ok(204)
		t.gone("key")
	}},
	{"delete-time-differs", "DELETE with a wrong x-amz-if-match-last-modified-time fails with 412", func(t *T) {
		t.put("key", "content")
		t.del("key", "x-amz-if-match-last-modified-time: "+past).fail(412, "PreconditionFailed")
		t.holds("key", "content")
	}},
	{"delete-size-nonsense", "DELETE with an x-amz-if-match-size that is not a number is refused", func(t *T) {
		t.put("key", "content")
		a := t.del("key", "x-amz-if-match-size: x")
		a.expect(a.status == 400, "status %d", a.status)
		t.holds("key", "content")
	}},
	{"match-of-part-of-etag", "the ETag in If-Match must match completely, not only its beginning", func(t *T) {
		etag := t.put("key", "old").etag()
		t.try("key", "new", `If-Match: "`+etag[:31]+`"`).fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"match-after-aba", "If-Match compares the content, so it holds again once the object has the same ETag again", func(t *T) {
		etag := t.put("key", "a").etag()
		t.put("key", "b")
		t.put("key", "a")
		t.put("key", "c", `If-Match: "`+etag+`"`)
		t.holds("key", "c")
	}},
	{"copy-none-match-there", "CopyObject If-None-Match: * onto a key that exists fails with 412", func(t *T) {
		t.put("from", "new")
		t.put("to", "old")
		t.try("to", nil, "x-amz-copy-source: "+t.bucket()+"/from", "If-None-Match: *").fail(412, "PreconditionFailed")
		t.holds("to", "old")
	}},
	{"copy-none-match-new", "CopyObject If-None-Match: * to a new key succeeds", func(t *T) {
		t.put("from", "new")
		t.put("to", nil, "x-amz-copy-source: "+t.bucket()+"/from", "If-None-Match: *")
		t.holds("to", "new")
	}},
	{"copy-match", "CopyObject If-Match applies to the target and succeeds with the target's ETag", func(t *T) {
		t.put("from", "new")
		etag := t.put("to", "old").etag()
		t.put("to", nil, "x-amz-copy-source: "+t.bucket()+"/from", `If-Match: "`+etag+`"`)
		t.holds("to", "new")
	}},
	{"copy-match-differs", "CopyObject If-Match with an ETag other than the target's fails with 412", func(t *T) {
		etag := t.put("from", "new").etag()
		t.put("to", "old")
		t.try("to", nil, "x-amz-copy-source: "+t.bucket()+"/from", `If-Match: "`+etag+`"`).fail(412, "PreconditionFailed")
		t.holds("to", "old")
	}},
	{"copy-match-missing", "CopyObject If-Match to a key that does not exist fails with 404 NoSuchKey", func(t *T) {
		etag := t.put("from", "new").etag()
		t.try("to", nil, "x-amz-copy-source: "+t.bucket()+"/from", `If-Match: "`+etag+`"`).fail(404, "NoSuchKey")
	}},
	{"complete-none-match-there", "CompleteMultipartUpload If-None-Match: * onto a key that exists fails with 412, and the upload is kept", func(t *T) {
		u := t.begin("key")
		u.part(1, "new")
		t.put("key", "old")
		u.complete("If-None-Match: *").fail(412, "PreconditionFailed")
		t.holds("key", "old")
		u.complete().ok(200)
		t.holds("key", "new")
	}},
	{"complete-none-match-new", "CompleteMultipartUpload If-None-Match: * of a new key succeeds", func(t *T) {
		u := t.begin("key")
		u.part(1, "new")
		u.complete("If-None-Match: *").ok(200)
		t.holds("key", "new")
	}},
	{"complete-match", "CompleteMultipartUpload If-Match with the ETag succeeds", func(t *T) {
		etag := t.put("key", "old").etag()
		u := t.begin("key")
		u.part(1, "new")
		u.complete(`If-Match: "` + etag + `"`).ok(200)
		t.holds("key", "new")
	}},
	{"complete-match-differs", "CompleteMultipartUpload If-Match with a different ETag fails with 412", func(t *T) {
		t.put("key", "old")
		u := t.begin("key")
		u.part(1, "new")
		u.complete("If-Match: "+other).fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"complete-match-missing", "CompleteMultipartUpload If-Match of a key that does not exist fails with 404 NoSuchKey", func(t *T) {
		u := t.begin("key")
		u.part(1, "new")
		u.complete("If-Match: "+other).fail(404, "NoSuchKey")
		t.gone("key")
	}},
	{"complete-condition-before-parts", "CompleteMultipartUpload evaluates conditions before it checks the parts", func(t *T) {
		t.put("key", "old")
		u := t.begin("key")
		u.part(1, "new")
		u.take(2, md5Hex("never sent"))
		u.complete("If-None-Match: *").fail(412, "PreconditionFailed")
		u.complete(`If-Match: "`+md5Hex("old")+`"`).fail(400, "InvalidPart")
		t.holds("key", "old")
	}},
	{"complete-match-written-since", "CompleteMultipartUpload If-Match of an object written since the upload began fails with 409 ConditionalRequestConflict", func(t *T) {
		etag := t.put("key", "old").etag()
		u := t.begin("key")
		u.part(1, "new")
		now := t.put("key", "else").etag()
		u.complete(`If-Match: "`+etag+`"`).fail(412, "PreconditionFailed")
		u.complete(`If-Match: "`+now+`"`).fail(409, "ConditionalRequestConflict").eq("Condition", "If-Match").eq("Key", "key")
		t.put("key", "old")
		u.complete(`If-Match: "`+etag+`"`).fail(409, "ConditionalRequestConflict")
		t.holds("key", "old")
		u.complete().ok(200)
		t.holds("key", "new")
	}},
	{"complete-match-deleted-since", "CompleteMultipartUpload If-Match of a key deleted since the upload began fails with 404 NoSuchKey", func(t *T) {
		etag := t.put("key", "old").etag()
		u := t.begin("key")
		u.part(1, "new")
		t.del("key").ok(204)
		u.complete(`If-Match: "`+etag+`"`).fail(404, "NoSuchKey")
		t.gone("key")
	}},
	{"put-while-none-match", "a condition is evaluated when the body has arrived, not when the request begins", func(t *T) {
		t.bucket()
		conn, in := t.open("PUT", "key", 3, "UNSIGNED-PAYLOAD", "If-None-Match: *", "Expect: 100-continue")
		t.readResponse("PUT", in).ok(100)
		t.put("key", "first")
		_, err := conn.Write([]byte("new"))
		t.must(err == nil, "write: %v", err)
		t.readResponse("PUT", in).fail(412, "PreconditionFailed")
		t.holds("key", "first")
	}},
}}
