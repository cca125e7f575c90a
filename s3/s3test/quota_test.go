package s3test

import (
	"fmt"
	"strings"
	"sync"
)

// limit sets the quota of the bucket of the case.
func (t *T) limit(inside string) *response {
	t.Helper()
	doc := "<QuotaConfiguration>" + inside + "</QuotaConfiguration>"
	return t.try("?quota", doc, contentMD5(doc))
}

func maxBytes(n int) string   { return fmt.Sprintf("<MaxBytes>%d</MaxBytes>", n) }
func maxObjects(n int) string { return fmt.Sprintf("<MaxObjects>%d</MaxObjects>", n) }

// used checks the usage that GET ?quota returns.
func (t *T) used(bytes, objects int) {
	t.Helper()
	t.get("?quota").ok(200).doc("QuotaConfiguration").eq("Usage/Bytes", fmt.Sprint(bytes)).eq("Usage/Objects", fmt.Sprint(objects))
}

// badQuota returns the rule that a quota is refused and the previous one is kept.
func badQuota(named, says, code, inside string) rule {
	return rule{named, says, func(t *T) {
		t.limit(maxBytes(9)).ok(200)
		t.limit(inside).fail(400, code)
		t.get("?quota").ok(200).eq("MaxBytes", "9").no("MaxObjects")
	}}
}

// quota is an extension that AWS does not have.
var quota = area{"quota", []rule{
	notConfigured("quota", "NoSuchQuotaConfiguration"),
	deletesNothing("quota"), missingBucket("quota"), malformed("quota"),
	{"document", "GET ?quota returns the quota and the usage, and the quota can be deleted", func(t *T) {
		t.put("key", "content")
		a := t.limit(maxBytes(100) + maxObjects(3)).ok(200)
		a.expect(a.body == "", "unexpected body")
		t.get("?quota").ok(200).doc("QuotaConfiguration").eq("MaxBytes", "100").eq("MaxObjects", "3").eq("Usage/Bytes", "7").eq("Usage/Objects", "1")
		t.limit(maxObjects(2)).ok(200)
		t.get("?quota").ok(200).no("MaxBytes").eq("MaxObjects", "2")
		t.del("?quota").ok(204)
		t.get("?quota").fail(404, "NoSuchQuotaConfiguration")
	}},
	schema("schema", "PUT", "QuotaConfiguration", maxBytes(1)+maxObjects(1), maxBytes(1), place("?quota")),
	badQuota("empty", "an empty quota fails with MalformedXML", "MalformedXML", ""),
	badQuota("zero", "a limit of 0 fails with InvalidArgument", "InvalidArgument", maxObjects(0)),
	badQuota("negative", "a negative limit fails with InvalidArgument", "InvalidArgument", maxBytes(-1)),
	badQuota("no-number", "a limit that is not a number fails with MalformedXML", "MalformedXML", "<MaxBytes>1 GiB</MaxBytes>"),
	badQuota("with-usage", "the usage of a bucket cannot be set", "MalformedXML", maxBytes(1)+"<Usage><Bytes>0</Bytes><Objects>0</Objects></Usage>"),
	{"bytes", "a write that exceeds the byte limit fails with QuotaExceeded and changes nothing; one that reaches it exactly is stored", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.put("a", "0123")
		a := t.try("b", "0123456").fail(403, "QuotaExceeded")
		a.expect(strings.Contains(a.text("Message"), "4 of 10 bytes are in use"), "the message is %q", a.text("Message"))
		t.gone("b")
		t.put("b", "012345")
		t.try("c", "x").fail(403, "QuotaExceeded")
		t.put("c", "")
		t.used(10, 3)
	}},
	{"objects", "a write that exceeds the object limit fails with QuotaExceeded; an overwrite does not", func(t *T) {
		t.limit(maxObjects(1)).ok(200)
		t.put("a", "one")
		t.try("b", "").fail(403, "QuotaExceeded")
		t.put("a", "another")
		t.used(7, 1)
	}},
	{"overwrite", "an overwrite counts only the bytes that it adds", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.put("key", "0123456789")
		t.put("key", "9876543210")
		t.try("key", "0123456789x").fail(403, "QuotaExceeded")
		t.holds("key", "9876543210")
		t.used(10, 1)
	}},
	{"delete", "deleting an object frees its share of the quota", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.put("a", "0123456789")
		t.del("a").ok(204)
		t.put("b", "0123456789")
	}},
	{"above", "a bucket above its quota accepts a write that does not increase its usage", func(t *T) {
		t.fill("a", "b")
		t.put("large", "0123456789")
		t.limit(maxBytes(1) + maxObjects(1)).ok(200)
		t.try("c", "").fail(403, "QuotaExceeded")
		t.put("large", "012345678x")
		t.put("large", "short")
		t.del("a").ok(204)
	}},
	{"versions", "with versioning all versions count, and delete markers do not", func(t *T) {
		t.versioned()
		t.limit(maxBytes(10)).ok(200)
		id := t.version("key", "01234")
		t.version("key", "56789")
		t.mark("key")
		t.used(10, 2)
		t.try("key", "x").fail(403, "QuotaExceeded")
		t.del("key?versionId=" + id).ok(204)
		t.version("key", "01234")
	}},
	{"copy", "a copy counts in full", func(t *T) {
		t.put("from", "01234")
		t.limit(maxBytes(9)).ok(200)
		t.try("to", nil, t.from("from")).fail(403, "QuotaExceeded")
		t.limit(maxBytes(10)).ok(200)
		t.put("to", nil, t.from("from"))
		t.used(10, 2)
	}},
	{"append", "an append counts only the bytes that it adds", func(t *T) {
		t.put("key", "01234")
		t.limit(maxBytes(10)).ok(200)
		t.try("key", "567890", "x-amz-write-offset-bytes: 5").fail(403, "QuotaExceeded")
		t.try("key", "56789", "x-amz-write-offset-bytes: 5").ok(200)
		t.used(10, 1)
	}},
	{"multipart", "parts count before the upload is completed, and no longer once it is aborted", func(t *T) {
		t.limit(maxBytes(10) + maxObjects(1)).ok(200)
		u := t.begin("key")
		u.part(1, "01234")
		t.used(5, 0)
		t.try(u.ref(2), "012345").fail(403, "QuotaExceeded")
		u.complete().ok(200)
		t.used(5, 1)
		aborted := t.begin("aborted")
		aborted.part(1, "01234")
		aborted.complete().fail(403, "QuotaExceeded") // would be a second object
		t.del(aborted.ref(0)).ok(204)
		t.used(5, 1)
	}},
	{"before-body", "a Content-Length that exceeds the quota fails before the body is sent", func(t *T) {
		t.limit(maxBytes(300_000)).ok(200)
		a, _, _ := t.offer("key", random(30, 300_001))
		a.fail(403, "QuotaExceeded")
		a, _, _ = t.offer("key", random(31, 300_000))
		a.ok(100)
	}},
	{"race", "of concurrent writes, only those that fit into the quota succeed", func(t *T) {
		t.limit(maxBytes(59)).ok(200)
		var all sync.WaitGroup
		responses := make([]*response, 64)
		for i := range responses {
			all.Go(func() { responses[i] = t.try(fmt.Sprint(i), "0123456789") })
		}
		all.Wait()
		stored := 0
		for _, a := range responses {
			t.must(a != nil, "no response")
			if a.status == 200 {
				stored++
			} else {
				a.fail(403, "QuotaExceeded")
			}
		}
		t.must(stored == 5, "%d writes succeeded, want 5", stored)
		t.used(50, 5)
	}},
	{"versioning", "another configuration of a bucket does not change its quota", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.versioned()
		t.get("?quota").ok(200).eq("MaxBytes", "10")
	}},
}}
