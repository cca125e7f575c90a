package s3test

import (
	"fmt"
	"strings"
	"sync"
)

// limit gives a bucket a quota.
func (t *T) limit(inside string) *answer {
	t.Helper()
	doc := "<QuotaConfiguration>" + inside + "</QuotaConfiguration>"
	return t.try("?quota", doc, contentMD5(doc))
}

func maxBytes(n int) string   { return fmt.Sprintf("<MaxBytes>%d</MaxBytes>", n) }
func maxObjects(n int) string { return fmt.Sprintf("<MaxObjects>%d</MaxObjects>", n) }

// used demands what a bucket with a quota says that it holds.
func (t *T) used(bytes, objects int) {
	t.Helper()
	t.get("?quota").ok(200).doc("QuotaConfiguration").eq("Usage/Bytes", fmt.Sprint(bytes)).eq("Usage/Objects", fmt.Sprint(objects))
}

// badQuota is the rule that a quota is refused, and the one before stays.
func badQuota(named, says, code, inside string) rule {
	return rule{named, says, func(t *T) {
		t.limit(maxBytes(9)).ok(200)
		t.limit(inside).fail(400, code)
		t.get("?quota").ok(200).eq("MaxBytes", "9").no("MaxObjects")
	}}
}

// quota is no part of AWS's S3: it is an extension.
var quota = area{"quota", []rule{
	notConfigured("quota", "NoSuchQuotaConfiguration"),
	deletesNothing("quota"), missingBucket("quota"), malformed("quota"),
	{"document", "the quota of a bucket comes back with what the bucket holds, and can be taken away", func(t *T) {
		t.put("key", "content")
		a := t.limit(maxBytes(100) + maxObjects(3)).ok(200)
		a.expect(a.body == "", "a body")
		t.get("?quota").ok(200).doc("QuotaConfiguration").eq("MaxBytes", "100").eq("MaxObjects", "3").eq("Usage/Bytes", "7").eq("Usage/Objects", "1")
		t.limit(maxObjects(2)).ok(200)
		t.get("?quota").ok(200).no("MaxBytes").eq("MaxObjects", "2")
		t.del("?quota").ok(204)
		t.get("?quota").fail(404, "NoSuchQuotaConfiguration")
	}},
	schema("schema", "PUT", "QuotaConfiguration", maxBytes(1)+maxObjects(1), maxBytes(1), place("?quota")),
	badQuota("empty", "a quota of nothing is MalformedXML", "MalformedXML", ""),
	badQuota("zero", "a bound of 0 is InvalidArgument", "InvalidArgument", maxObjects(0)),
	badQuota("negative", "a bound below 0 is InvalidArgument", "InvalidArgument", maxBytes(-1)),
	badQuota("no-number", "a bound that is no number is MalformedXML", "MalformedXML", "<MaxBytes>1 GiB</MaxBytes>"),
	badQuota("with-usage", "what a bucket holds cannot be set", "MalformedXML", maxBytes(1)+"<Usage><Bytes>0</Bytes><Objects>0</Objects></Usage>"),
	{"bytes", "a write beyond the bytes of a quota is QuotaExceeded and changes nothing; one up to the last byte is stored", func(t *T) {
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
	{"objects", "a write beyond the objects of a quota is QuotaExceeded; an overwrite is none", func(t *T) {
		t.limit(maxObjects(1)).ok(200)
		t.put("a", "one")
		t.try("b", "").fail(403, "QuotaExceeded")
		t.put("a", "another")
		t.used(7, 1)
	}},
	{"overwrite", "an overwrite counts what it adds", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.put("key", "0123456789")
		t.put("key", "9876543210")
		t.try("key", "0123456789x").fail(403, "QuotaExceeded")
		t.holds("key", "9876543210")
		t.used(10, 1)
	}},
	{"delete", "what is deleted makes room", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.put("a", "0123456789")
		t.del("a").ok(204)
		t.put("b", "0123456789")
	}},
	{"above", "a bucket above its quota takes what makes it no larger", func(t *T) {
		t.fill("a", "b")
		t.put("large", "0123456789")
		t.limit(maxBytes(1) + maxObjects(1)).ok(200)
		t.try("c", "").fail(403, "QuotaExceeded")
		t.put("large", "012345678x")
		t.put("large", "short")
		t.del("a").ok(204)
	}},
	{"versions", "with versions all of them count, and delete markers do not", func(t *T) {
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
	{"copy", "copies count in full", func(t *T) {
		t.put("from", "01234")
		t.limit(maxBytes(9)).ok(200)
		t.try("to", nil, t.from("from")).fail(403, "QuotaExceeded")
		t.limit(maxBytes(10)).ok(200)
		t.put("to", nil, t.from("from"))
		t.used(10, 2)
	}},
	{"append", "an append counts what it adds", func(t *T) {
		t.put("key", "01234")
		t.limit(maxBytes(10)).ok(200)
		t.try("key", "567890", "x-amz-write-offset-bytes: 5").fail(403, "QuotaExceeded")
		t.try("key", "56789", "x-amz-write-offset-bytes: 5").ok(200)
		t.used(10, 1)
	}},
	{"multipart", "parts count before they are an object, and an aborted upload no more", func(t *T) {
		t.limit(maxBytes(10) + maxObjects(1)).ok(200)
		u := t.begin("key")
		u.part(1, "01234")
		t.used(5, 0)
		t.try(u.ref(2), "012345").fail(403, "QuotaExceeded")
		u.complete().ok(200)
		t.used(5, 1)
		gone := t.begin("gone")
		gone.part(1, "01234")
		gone.complete().fail(403, "QuotaExceeded") // a second object
		t.del(gone.ref(0)).ok(204)
		t.used(5, 1)
	}},
	{"before-body", "what the headers tell to be too much is answered before the body", func(t *T) {
		t.limit(maxBytes(300_000)).ok(200)
		a, _, _ := t.offer("key", random(30, 300_001))
		a.fail(403, "QuotaExceeded")
		a, _, _ = t.offer("key", random(31, 300_000))
		a.ok(100)
	}},
	{"race", "of many writers just those write for whom there is room", func(t *T) {
		t.limit(maxBytes(59)).ok(200)
		var all sync.WaitGroup
		answers := make([]*answer, 64)
		for i := range answers {
			all.Go(func() { answers[i] = t.try(fmt.Sprint(i), "0123456789") })
		}
		all.Wait()
		stored := 0
		for _, a := range answers {
			t.must(a != nil, "no answer")
			if a.status == 200 {
				stored++
			} else {
				a.fail(403, "QuotaExceeded")
			}
		}
		t.must(stored == 5, "%d writes were stored", stored)
		t.used(50, 5)
	}},
	{"versioning", "what else is set for a bucket leaves its quota", func(t *T) {
		t.limit(maxBytes(10)).ok(200)
		t.versioned()
		t.get("?quota").ok(200).eq("MaxBytes", "10")
	}},
}}
