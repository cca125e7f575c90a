package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"strings"
)

// customerKey returns the SSE-C headers for a key. between is "copy-source-" for the key of a copy's source, otherwise
// empty.
func customerKey(seed byte, between string) []string {
	key := random(seed, 32)
	sum := md5.Sum([]byte(key))
	p := "x-amz-" + between + "server-side-encryption-customer-"
	return []string{p + "algorithm: AES256", p + "key: " + base64.StdEncoding.EncodeToString([]byte(key)), p + "key-MD5: " + base64.StdEncoding.EncodeToString(sum[:])}
}

const sseS3 = "x-amz-server-side-encryption: AES256"

// encrypts skips the case if the server has no keys, which must result in a client error or NotImplemented.
func (t *T) encrypts() {
	t.Helper()
	if a := t.try("probe", "x", sseS3); a.status != 200 {
		a.expect(a.status == 501 || a.status == 400, "status %d", a.status)
		t.gone("probe")
		t.Skip("the server has no master key: " + a.text("Message"))
	}
	t.del("probe").ok(204)
}

// encryptsForCustomers skips the case if the server does not accept customer keys over this connection.
func (t *T) encryptsForCustomers() {
	t.Helper()
	if a := t.try("probe", "x", customerKey(1, "")...); a.status != 200 {
		a.fail(400, "InvalidRequest")
		t.gone("probe")
		t.Skip("the server accepts no customer keys: " + a.text("Message"))
	}
	t.del("probe").ok(204)
}

// badCustomerKey returns the rule that SSE-C headers are refused. The error names x-amz-server-side-encryption,
// whichever of them is wrong.
func badCustomerKey(named, says, code string, change func(h []string) []string) rule {
	return rule{named, says, func(t *T) {
		t.encryptsForCustomers()
		t.try("key", "content", change(customerKey(1, ""))...).fail(400, code).eq("ArgumentName", "x-amz-server-side-encryption")
		t.gone("key")
	}}
}

// shortKey replaces the key in headers returned by customerKey with one of 10 bytes.
func shortKey(h []string) []string {
	key := []byte("0123456789")
	sum := md5.Sum(key)
	with := func(header string, value []byte) string {
		name, _, _ := strings.Cut(header, ": ")
		return name + ": " + base64.StdEncoding.EncodeToString(value)
	}
	return []string{h[0], with(h[1], key), with(h[2], sum[:])}
}

var encryption = area{"encryption", []rule{
	{"sse-s3", "a PUT with AES256 returns it, as do GET and HEAD", func(t *T) {
		t.encrypts()
		t.put("key", "content", sseS3).has("x-amz-server-side-encryption", "AES256")
		t.get("key").ok(200).has("x-amz-server-side-encryption", "AES256")
		t.head("key").ok(200).has("x-amz-server-side-encryption", "AES256")
		t.holds("key", "content")
	}},
	{"sse-s3-etag", "the ETag of an object encrypted with SSE-S3 is the MD5 of its content", func(t *T) {
		t.encrypts()
		t.put("key", "content", sseS3).has("ETag", `"`+md5Hex("content")+`"`)
	}},
	{"sse-s3-range", "a range of an encrypted object returns exactly those bytes", func(t *T) {
		t.encrypts()
		content := random(13, 700_000)
		t.put("key", content, sseS3)
		a := t.get("key", "Range: bytes=262100-600000").ok(206)
		a.expect(a.body == content[262100:600001], "wrong bytes")
	}},
	{"sse-s3-copy", "a copy with AES256 returns it", func(t *T) {
		t.encrypts()
		t.put("from", "content")
		t.put("to", nil, t.from("from"), sseS3).has("x-amz-server-side-encryption", "AES256")
		t.head("to").ok(200).has("x-amz-server-side-encryption", "AES256")
		t.holds("to", "content")
	}},
	{"sse-s3-multipart", "every request of an upload with AES256 returns it", func(t *T) {
		t.encrypts()
		a := t.post("key?uploads", nil, sseS3).ok(200).has("x-amz-server-side-encryption", "AES256")
		u := &upload{t: t, key: "key", id: a.text("UploadId")}
		u.part(1, "content").has("x-amz-server-side-encryption", "AES256")
		u.complete().ok(200).has("x-amz-server-side-encryption", "AES256")
		t.head("key").ok(200).has("x-amz-server-side-encryption", "AES256")
		t.holds("key", "content")
	}},
	{"sse-s3-multipart-named-again", "parts and completion may repeat the encryption of the upload, as minio-go does, but not name a different one", func(t *T) {
		if t.other {
			t.Skip("AWS refuses the header there")
		}
		t.put("from", "content")
		u := t.begin("key", sseS3)
		u.part(1, "content", sseS3).has("x-amz-server-side-encryption", "AES256")
		t.put(u.ref(1), nil, t.from("from"), sseS3).has("x-amz-server-side-encryption", "AES256")
		u.complete(sseS3).ok(200).has("x-amz-server-side-encryption", "AES256")
		t.holds("key", "content")
		plain := t.begin("plain")
		t.try(plain.ref(1), "content", sseS3).fail(400, "InvalidRequest")
		t.try(plain.ref(1), nil, t.from("from"), sseS3).fail(400, "InvalidRequest")
		plain.part(1, "content")
		plain.complete(sseS3).fail(400, "InvalidRequest")
		t.gone("plain")
	}},
	{"algorithm-nonsense", "an unknown encryption algorithm is refused and stores nothing", func(t *T) {
		a := t.try("key", "content", "x-amz-server-side-encryption: ROT13")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidArgument" || a.text("Code") == "InvalidEncryptionAlgorithmError"), "status %d", a.status)
		t.gone("key")
	}},
	{"on-get", "x-amz-server-side-encryption is refused on a GET", func(t *T) {
		t.put("key", "content")
		a := t.get("key", sseS3)
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"kms", "SSE-KMS is refused, not ignored", func(t *T) {
		t.try("key", "content", "x-amz-server-side-encryption: aws:kms").fail(501, "NotImplemented")
		t.gone("key")
	}},
	{"kms-dsse", "DSSE-KMS is refused, not ignored", func(t *T) {
		t.try("key", "content", "x-amz-server-side-encryption: aws:kms:dsse").fail(501, "NotImplemented")
		t.gone("key")
	}},
	{"kms-key", "a KMS key is refused, not ignored", func(t *T) {
		a := t.try("key", "content", "x-amz-server-side-encryption-aws-kms-key-id: k")
		a.expect(a.status == 501 || a.status == 400, "status %d", a.status)
		t.gone("key")
	}},
	{"sse-c", "an object encrypted with a customer key can be read only with the key", func(t *T) {
		t.encryptsForCustomers()
		a := t.put("key", "content", customerKey(1, "")...).has("x-amz-server-side-encryption-customer-algorithm", "AES256")
		a.set("x-amz-server-side-encryption-customer-key-MD5")
		b := t.get("key", customerKey(1, "")...).ok(200).has("x-amz-server-side-encryption-customer-algorithm", "AES256")
		b.expect(b.body == "content", "wrong content")
		t.head("key", customerKey(1, "")...).ok(200)
	}},
	{"sse-c-without-key", "reading an object encrypted with a customer key without the key fails with InvalidRequest", func(t *T) {
		t.encryptsForCustomers()
		t.put("key", "content", customerKey(1, "")...)
		t.get("key").fail(400, "InvalidRequest")
		t.head("key").fail(400, "")
	}},
	{"sse-c-wrong-key", "reading an object encrypted with a customer key with another key fails with AccessDenied", func(t *T) {
		t.encryptsForCustomers()
		t.put("key", "content", customerKey(1, "")...)
		t.get("key", customerKey(2, "")...).fail(403, "AccessDenied")
	}},
	{"sse-c-short-key-of-get", "reading an object encrypted with a customer key with a key of the wrong length fails with AccessDenied", func(t *T) {
		t.encryptsForCustomers()
		t.put("key", "content", customerKey(1, "")...)
		t.get("key", shortKey(customerKey(1, ""))...).fail(403, "AccessDenied")
	}},
	{"sse-c-and-sse-s3", "a PUT with both a customer key and AES256 fails with InvalidArgument, even if the key is invalid", func(t *T) {
		t.encryptsForCustomers()
		t.try("key", "content", append(customerKey(1, ""), sseS3)...).fail(400, "InvalidArgument").eq("ArgumentValue", "AES256")
		t.try("key", "content", append(shortKey(customerKey(1, "")), sseS3)...).fail(400, "InvalidArgument").eq("ArgumentValue", "AES256")
		t.gone("key")
	}},
	badCustomerKey("sse-c-short-key", "a customer key that does not have 256 bits fails with InvalidArgument", "InvalidArgument", shortKey),
	{"sse-c-of-plain", "reading an unencrypted object with a customer key fails with InvalidRequest", func(t *T) {
		t.encryptsForCustomers()
		t.put("key", "content")
		t.get("key", customerKey(1, "")...).fail(400, "InvalidRequest")
	}},
	badCustomerKey("sse-c-wrong-md5", "a customer key with the MD5 of another key is refused", "InvalidArgument", func(h []string) []string { return []string{h[0], h[1], customerKey(2, "")[2]} }),
	badCustomerKey("sse-c-no-md5", "a customer key without its MD5 is refused", "InvalidArgument", func(h []string) []string { return h[:2] }),
	badCustomerKey("sse-c-no-key", "a customer algorithm without a key is refused", "InvalidArgument", func(h []string) []string { return h[:1] }),
	badCustomerKey("sse-c-no-algorithm", "a customer key without an algorithm is refused", "InvalidArgument", func(h []string) []string { return h[1:] }),
	badCustomerKey("sse-c-algorithm-nonsense", "a customer algorithm other than AES256 is refused", "InvalidEncryptionAlgorithmError", func(h []string) []string {
		return []string{strings.Replace(h[0], "AES256", "AES128", 1), h[1], h[2]}
	}),
	{"sse-c-copy", "a copy reads its source with one customer key and encrypts with another", func(t *T) {
		t.encryptsForCustomers()
		t.put("from", "content", customerKey(1, "")...)
		t.try("to", nil, t.from("from")).fail(400, "InvalidRequest")
		t.put("to", nil, append(append(customerKey(1, "copy-source-"), customerKey(2, "")...), t.from("from"))...)
		a := t.get("to", customerKey(2, "")...).ok(200)
		a.expect(a.body == "content", "wrong content")
		t.get("to", customerKey(1, "")...).fail(403, "AccessDenied")
		t.put("plain", nil, append(customerKey(1, "copy-source-"), t.from("from"))...)
		t.holds("plain", "content")
	}},
	{"sse-c-multipart", "an upload with a customer key needs the key with each part", func(t *T) {
		t.encryptsForCustomers()
		u := t.begin("key", customerKey(1, "")...)
		t.try(u.ref(1), "content").fail(400, "InvalidRequest")
		a := t.try(u.ref(1), "content", customerKey(2, "")...)
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
		u.part(1, "content", customerKey(1, "")...)
		u.complete().ok(200)
		b := t.get("key", customerKey(1, "")...).ok(200)
		b.expect(b.body == "content", "wrong content")
		t.get("key").fail(400, "InvalidRequest")
	}},
	{"bucket", "the encryption of a bucket applies to objects put without an encryption header", func(t *T) {
		t.encrypts()
		doc := "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
		t.try("?encryption", doc, contentMD5(doc)).ok(200)
		t.get("?encryption").ok(200).doc("ServerSideEncryptionConfiguration").eq("Rule/ApplyServerSideEncryptionByDefault/SSEAlgorithm", "AES256")
		t.put("key", "content").has("x-amz-server-side-encryption", "AES256")
		t.holds("key", "content")
		t.del("?encryption").ok(204)
	}},
	{"bucket-kms", "bucket encryption with KMS is refused, because it would have no effect", func(t *T) {
		doc := "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
		t.try("?encryption", doc, contentMD5(doc)).fail(501, "NotImplemented")
	}},
	{"bucket-malformed", "a bucket encryption that is not XML fails with MalformedXML", func(t *T) {
		t.try("?encryption", "<x", contentMD5("<x")).fail(400, "MalformedXML")
	}},
	{"bucket-missing", "the encryption of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?encryption").fail(404, "NoSuchBucket")
	}},
}}
