package s3test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"orcas/internal/sigv4"
)

// sumRules returns the rules for one checksum algorithm.
func sumRules(alg string) []rule {
	name := strings.ToLower(alg)
	header := "x-amz-checksum-" + name
	return []rule{
		{name, "a PUT with the right " + alg + " is stored, and returns it", func(t *T) {
			t.put("key", "content", sumHeader(alg, "content")).has(header, sum(alg, "content")).has("x-amz-checksum-type", "FULL_OBJECT")
			t.get("key", "x-amz-checksum-mode: ENABLED").ok(200).has(header, sum(alg, "content")).has("x-amz-checksum-type", "FULL_OBJECT")
			t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has(header, sum(alg, "content"))
		}},
		{name + "-wrong", "a PUT with a wrong " + alg + " fails with BadDigest, and the key is unchanged", func(t *T) {
			t.put("key", "old")
			t.try("key", "content", sumHeader(alg, "else")).fail(400, "BadDigest")
			t.holds("key", "old")
		}},
		{name + "-malformed", "a PUT with an invalid " + alg + " fails with InvalidRequest", func(t *T) {
			t.try("key", "content", header+": AAAA").fail(400, "InvalidRequest")
			t.gone("key")
		}},
		{name + "-trailer", "a " + alg + " may be sent in the trailer", func(t *T) {
			v := sum(alg, "content")
			r, _ := t.chunked("key", "content", trailing(sigv4.PayloadUnsignedTrailer, header, v))
			t.send(r).ok(200).has(header, v)
			t.holds("key", "content")
		}},
		{name + "-trailer-wrong", "a wrong " + alg + " in the trailer fails with BadDigest, and the key is unchanged", func(t *T) {
			t.put("key", "old")
			r, _ := t.chunked("key", "content", trailing(sigv4.PayloadUnsignedTrailer, header, sum(alg, "else")))
			t.send(r).fail(400, "BadDigest")
			t.holds("key", "old")
		}},
		{name + "-composite-or-full", "a multipart upload with " + alg + " has a checksum of that algorithm's type", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: "+alg)
			first := random(8, mebibytes5)
			for i, c := range []string{first, "end"} {
				a := u.part(i+1, c, sumHeader(alg, c), unsigned).has(header, sum(alg, c))
				u.done[i] = strings.Replace(u.done[i], "</Part>", "<Checksum"+alg+">"+a.header.Get(header)+"</Checksum"+alg+"></Part>", 1)
			}
			want, kind := composite(alg, first, "end")+"-2", "COMPOSITE"
			if alg == "CRC64NVME" {
				want, kind = sum(alg, first+"end"), "FULL_OBJECT"
			}
			u.complete().ok(200).eq("Checksum"+alg, want).eq("ChecksumType", kind)
			t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has(header, want).has("x-amz-checksum-type", kind)
		}},
	}
}

// trailing returns the settings of a chunked body with one trailer.
func trailing(mode sigv4.PayloadMode, name, value string) sigv4.Chunked {
	return sigv4.Chunked{Mode: mode, Trailers: []sigv4.Trailer{{Name: name, Size: len(value), Value: func() string { return value }}}}
}

// fullRule returns the rule that a multipart upload can have a full-object checksum.
func fullRule(alg string) rule {
	name := strings.ToLower(alg)
	return rule{name + "-full-object", "a multipart upload may have the " + alg + " of the whole object", func(t *T) {
		u := t.begin("key", "x-amz-checksum-algorithm: "+alg, "x-amz-checksum-type: FULL_OBJECT")
		first := random(8, mebibytes5)
		u.part(1, first, unsigned)
		u.part(2, "end")
		whole := sum(alg, first+"end")
		u.complete("x-amz-checksum-type: FULL_OBJECT", "x-amz-checksum-"+name+": "+whole).ok(200).eq("Checksum"+alg, whole).eq("ChecksumType", "FULL_OBJECT")
		t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-"+name, whole)
	}}
}

var checksums = area{"checksums", concat(
	sumRules("CRC32"), sumRules("CRC32C"), sumRules("CRC64NVME"), sumRules("SHA1"), sumRules("SHA256"), sumRules("SHA512"), sumRules("MD5"),
	sumRules("XXHASH64"), sumRules("XXHASH3"), sumRules("XXHASH128"),
	[]rule{fullRule("CRC32"), fullRule("CRC32C"), fullRule("CRC64NVME")},
	[]rule{
		{"content-md5", "a PUT with the right Content-MD5 is stored", func(t *T) {
			t.put("key", "content", contentMD5("content"))
			t.holds("key", "content")
		}},
		{"content-md5-wrong", "a PUT with a wrong Content-MD5 fails with BadDigest, and the key is unchanged", func(t *T) {
			t.put("key", "old")
			t.try("key", "content", contentMD5("else")).fail(400, "BadDigest")
			t.holds("key", "old")
		}},
		{"content-md5-malformed", "a malformed Content-MD5 fails with InvalidDigest", func(t *T) {
			t.try("key", "content", "Content-MD5: not base64!").fail(400, "InvalidDigest")
			t.gone("key")
		}},
		{"content-md5-short", "a Content-MD5 of the wrong length fails with InvalidDigest", func(t *T) {
			t.try("key", "content", "Content-MD5: "+base64.StdEncoding.EncodeToString([]byte("short"))).fail(400, "InvalidDigest")
		}},
		{"content-md5-empty", "an empty Content-MD5 fails with InvalidDigest", func(t *T) {
			t.try("key", "content", "Content-MD5: ").fail(400, "InvalidDigest")
		}},
		{"default", "an object put without a checksum has a CRC64NVME", func(t *T) {
			t.put("key", "content").has("x-amz-checksum-crc64nvme", sum("CRC64NVME", "content")).has("x-amz-checksum-type", "FULL_OBJECT")
			t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-crc64nvme", sum("CRC64NVME", "content"))
		}},
		{"mode-not-asked", "GET and HEAD return a checksum only if the request asks for it", func(t *T) {
			t.put("key", "content", sumHeader("SHA256", "content"))
			t.get("key").ok(200).lacks("x-amz-checksum-sha256", "x-amz-checksum-type")
			t.head("key").ok(200).lacks("x-amz-checksum-sha256", "x-amz-checksum-type")
		}},
		{"range-of-all", "a range that covers the whole object is returned with its checksum", func(t *T) {
			t.put("key", "content", sumHeader("SHA256", "content"))
			t.get("key", "Range: bytes=0-99", "x-amz-checksum-mode: ENABLED").ok(206).has("x-amz-checksum-sha256", sum("SHA256", "content"))
		}},
		{"upload-any-case", "checksum algorithm and type of CreateMultipartUpload are case-insensitive", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-algorithm: crc32", "x-amz-checksum-type: full_object").ok(200).
				has("x-amz-checksum-algorithm", "CRC32").has("x-amz-checksum-type", "FULL_OBJECT")
		}},
		{"not-of-a-range", "the response to a range does not contain the checksum of the whole object", func(t *T) {
			t.put("key", digits, sumHeader("SHA256", digits))
			t.get("key", "Range: bytes=2-5", "x-amz-checksum-mode: ENABLED").ok(206).lacks("x-amz-checksum-sha256")
		}},
		{"two", "two checksums in one request fail with InvalidRequest", func(t *T) {
			t.try("key", "content", sumHeader("CRC32", "content"), sumHeader("SHA256", "content")).fail(400, "InvalidRequest")
			t.gone("key")
		}},
		{"unknown", "a checksum of an algorithm that does not exist fails with InvalidRequest", func(t *T) {
			t.try("key", "content", "x-amz-checksum-crc9: AAAA").fail(400, "InvalidRequest")
		}},
		{"named-but-missing", "x-amz-sdk-checksum-algorithm without a checksum fails with InvalidRequest", func(t *T) {
			t.try("key", "content", "x-amz-sdk-checksum-algorithm: CRC32").fail(400, "InvalidRequest")
		}},
		{"named-other", "x-amz-sdk-checksum-algorithm with a checksum of another algorithm fails with InvalidRequest", func(t *T) {
			t.try("key", "content", "x-amz-sdk-checksum-algorithm: CRC32C", sumHeader("CRC32", "content")).fail(400, "InvalidRequest")
		}},
		{"named-nonsense", "an unknown x-amz-sdk-checksum-algorithm fails with InvalidRequest", func(t *T) {
			t.try("key", "content", "x-amz-sdk-checksum-algorithm: CRC9", sumHeader("CRC32", "content")).fail(400, "InvalidRequest")
		}},
		{"content-md5-and-checksum", "Content-MD5 and a checksum in one request are both verified", func(t *T) {
			t.put("key", "old")
			t.try("key", "content", contentMD5("content"), sumHeader("SHA256", "else")).fail(400, "BadDigest")
			t.try("key", "content", contentMD5("else"), sumHeader("SHA256", "content")).fail(400, "BadDigest")
			t.holds("key", "old")
		}},
		{"create-names-algorithm", "CreateMultipartUpload, ListMultipartUploads and ListParts return the checksum algorithm and type", func(t *T) {
			a := t.post("key?uploads", nil, "x-amz-checksum-algorithm: SHA256").ok(200).has("x-amz-checksum-algorithm", "SHA256").has("x-amz-checksum-type", "COMPOSITE")
			t.get("?uploads").ok(200).eq("Upload/ChecksumAlgorithm", "SHA256").eq("Upload/ChecksumType", "COMPOSITE")
			t.get("key?uploadId="+a.text("UploadId")).ok(200).eq("ChecksumAlgorithm", "SHA256").eq("ChecksumType", "COMPOSITE")
		}},
		{"create-unknown-algorithm", "CreateMultipartUpload with an algorithm that does not exist fails with InvalidRequest", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-algorithm: CRC9").fail(400, "InvalidRequest")
		}},
		{"sha-is-not-full-object", "SHA checksums cannot be FULL_OBJECT in a multipart upload", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-algorithm: SHA256", "x-amz-checksum-type: FULL_OBJECT").fail(400, "InvalidRequest")
		}},
		{"nvme-is-not-composite", "CRC64NVME cannot be COMPOSITE in a multipart upload", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-algorithm: CRC64NVME", "x-amz-checksum-type: COMPOSITE").fail(400, "InvalidRequest")
		}},
		{"type-nonsense", "a checksum type other than FULL_OBJECT and COMPOSITE fails with InvalidRequest", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: HALF").fail(400, "InvalidRequest")
		}},
		{"type-without-algorithm", "a checksum type without an algorithm fails with InvalidRequest", func(t *T) {
			t.post("key?uploads", nil, "x-amz-checksum-type: FULL_OBJECT").fail(400, "InvalidRequest")
		}},
		{"part-of-other-algorithm", "a part with an algorithm other than the upload's fails with InvalidRequest", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			t.try(u.ref(1), "content", sumHeader("CRC32", "content")).fail(400, "InvalidRequest")
		}},
		{"part-wrong", "a part with a wrong checksum fails with BadDigest", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			t.try(u.ref(1), "content", sumHeader("SHA256", "else")).fail(400, "BadDigest")
			t.get(u.ref(0)).ok(200).no("Part")
		}},
		{"part-listed", "ListParts returns the checksum of each part", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			u.part(1, "content", sumHeader("SHA256", "content"))
			t.get(u.ref(0)).ok(200).eq("Part/ChecksumSHA256", sum("SHA256", "content"))
		}},
		{"complete-wrong-part", "a part with a different checksum in CompleteMultipartUpload fails with InvalidPart", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			a := u.part(1, "content", sumHeader("SHA256", "content"))
			u.done = nil
			u.take(1, a.etag(), "<ChecksumSHA256>"+sum("SHA256", "else")+"</ChecksumSHA256>")
			u.complete().fail(400, "InvalidPart")
			t.gone("key")
		}},
		{"complete-wrong-whole", "a wrong checksum of the object in CompleteMultipartUpload fails with BadDigest", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT")
			u.part(1, "content")
			u.complete("x-amz-checksum-type: FULL_OBJECT", sumHeader("CRC32", "else")).fail(400, "BadDigest")
			t.gone("key")
		}},
		{"complete-other-type", "a checksum type other than the upload's in CompleteMultipartUpload fails with InvalidRequest", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT")
			u.part(1, "content")
			u.complete("x-amz-checksum-type: COMPOSITE").fail(400, "InvalidRequest")
		}},
		{"get-part", "GET with partNumber and checksum mode returns the checksum of the part", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			a := u.part(1, "content", sumHeader("SHA256", "content"))
			u.done = nil
			u.take(1, a.etag(), "<ChecksumSHA256>"+sum("SHA256", "content")+"</ChecksumSHA256>")
			u.complete().ok(200)
			t.get("key?partNumber=1", "x-amz-checksum-mode: ENABLED").ok(206).has("x-amz-checksum-sha256", sum("SHA256", "content"))
		}},
		{"get-part-of-full-object", "GET with partNumber and checksum mode returns no checksum of a part of a FULL_OBJECT object", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT")
			u.part(1, random(8, mebibytes5), unsigned)
			u.part(2, "end")
			u.complete().ok(200)
			t.get("key?partNumber=2", "x-amz-checksum-mode: ENABLED").ok(206).lacks("x-amz-checksum-crc32", "x-amz-checksum-type")
			t.head("key?partNumber=1", "x-amz-checksum-mode: ENABLED").ok(206).lacks("x-amz-checksum-crc32", "x-amz-checksum-type")
			t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-crc32", sum("CRC32", random(8, mebibytes5)+"end"))
		}},
		{"get-only-part-of-full-object", "GET with partNumber of an object with one part returns the checksum of the object", func(t *T) {
			u := t.begin("key", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: FULL_OBJECT")
			u.part(1, "content")
			u.complete().ok(200)
			a := t.get("key?partNumber=1", "x-amz-checksum-mode: ENABLED").ok(206)
			a.has("x-amz-checksum-crc32", sum("CRC32", "content")).has("x-amz-checksum-type", "FULL_OBJECT")
		}},
		{"part-default", "UploadPart without a checksum returns the CRC64NVME of the part", func(t *T) {
			u := t.begin("key")
			u.part(1, "content").has("x-amz-checksum-crc64nvme", sum("CRC64NVME", "content"))
			t.put(u.ref(2), "content", sumHeader("SHA256", "content")).lacks("x-amz-checksum-crc64nvme").has("x-amz-checksum-sha256", sum("SHA256", "content"))
		}},
		{"copy-part-default", "UploadPartCopy to an upload without an algorithm returns no checksum", func(t *T) {
			t.put("from", "content")
			u := t.begin("key")
			t.put(u.ref(1), nil, t.from("from")).no("ChecksumCRC64NVME")
		}},
		{"copy-part", "UploadPartCopy returns the checksum of the part", func(t *T) {
			t.put("from", "content")
			u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
			t.put(u.ref(1), nil, t.from("from")).eq("ChecksumSHA256", sum("SHA256", "content"))
		}},
		{"overwrite", "overwriting an object replaces its checksum", func(t *T) {
			t.put("key", "old", sumHeader("SHA256", "old"))
			t.put("key", "new", sumHeader("CRC32", "new"))
			t.head("key", "x-amz-checksum-mode: ENABLED").ok(200).has("x-amz-checksum-crc32", sum("CRC32", "new")).lacks("x-amz-checksum-sha256")
		}},
	})}

func concat(lists ...[]rule) (all []rule) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// modes maps the prefixes of rule names to chunked payload modes.
var modes = map[string]sigv4.PayloadMode{
	"signed": sigv4.PayloadSigned, "signed-trailer": sigv4.PayloadSignedTrailer, "unsigned-trailer": sigv4.PayloadUnsignedTrailer,
}

// crcChunked returns the settings of a chunked body in a mode, with the CRC32 of the content if the mode has a trailer.
func crcChunked(mode sigv4.PayloadMode, content string) sigv4.Chunked {
	if !mode.Trailer() {
		return sigv4.Chunked{Mode: mode}
	}
	return trailing(mode, "x-amz-checksum-crc32", sum("CRC32", content))
}

// damaged returns the rule that a changed chunked body is refused with one of the codes, and the key is unchanged.
func damaged(named, says, mode string, change func(wire []byte) []byte, codes ...string) rule {
	return rule{named, says, func(t *T) {
		t.put("key", "old")
		c := crcChunked(modes[mode], "content")
		r, wire := t.chunked("key", "content", c)
		changed := change(bytes.Clone(wire))
		t.must(!bytes.Equal(wire, changed), "the body is unchanged")
		a := t.send(rebody(r, changed))
		found := false
		for _, code := range codes {
			found = found || a.text("Code") == code
		}
		want := 400
		if codes[0] == "SignatureDoesNotMatch" {
			want = 403
		}
		a.expect(a.status == want && found, "status %d, code %s", a.status, a.text("Code"))
		t.holds("key", "old")
	}}
}

// chunkModeRules returns the rules for a chunked payload mode.
func chunkModeRules(name string) []rule {
	mode := modes[name]
	return []rule{
		{name, "a body in the mode " + mode.String() + " is stored without its chunk framing", func(t *T) {
			r, _ := t.chunked("key", "content", crcChunked(mode, "content"))
			t.send(r).ok(200)
			t.holds("key", "content")
			t.head("key").has("Content-Length", "7").lacks("Content-Encoding")
		}},
		{name + "-many", "a body of many chunks in the mode " + mode.String() + " is stored", func(t *T) {
			content := random(11, 300_000)
			c := crcChunked(mode, content)
			c.ChunkSize = 8192
			r, _ := t.chunked("key", content, c)
			t.send(r).ok(200)
			t.holds("key", content)
		}},
		{name + "-empty", "an empty body in the mode " + mode.String() + " creates an empty object", func(t *T) {
			r, _ := t.chunked("key", "", crcChunked(mode, ""))
			t.send(r).ok(200)
			t.holds("key", "")
		}},
		{name + "-part", "UploadPart accepts the mode " + mode.String(), func(t *T) {
			u := t.begin("key")
			r, _ := t.chunked(u.ref(1), "content", crcChunked(mode, "content"))
			u.take(1, t.send(r).ok(200).etag())
			u.complete().ok(200)
			t.holds("key", "content")
		}},
	}
}

func replaceAll(old, with string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(with), 1) }
}

// flipSignature returns a function that changes the first digit after name.
func flipSignature(name string) func([]byte) []byte {
	return func(b []byte) []byte {
		i := bytes.Index(b, []byte(name)) + len(name)
		b[i] = "0123456789abcdef1"[strings.IndexByte("0123456789abcdef", b[i])+1]
		return b
	}
}

func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

var payloads = area{"payloads", concat(chunkModeRules("signed"), chunkModeRules("signed-trailer"), chunkModeRules("unsigned-trailer"), []rule{
	{"hash", "a body that matches its signed SHA-256 is stored", func(t *T) {
		t.put("key", "content", "x-amz-content-sha256: "+sha256Hex([]byte("content")))
		t.holds("key", "content")
	}},
	{"hash-differs", "a body that does not match its signed SHA-256 fails with XAmzContentSHA256Mismatch, and the key is unchanged", func(t *T) {
		t.put("key", "old")
		t.try("key", "content", "x-amz-content-sha256: "+sha256Hex([]byte("else"))).fail(400, "XAmzContentSHA256Mismatch")
		t.holds("key", "old")
	}},
	{"hash-nonsense", "an invalid SHA-256 in x-amz-content-sha256 fails with InvalidArgument", func(t *T) {
		t.try("key", "content", "x-amz-content-sha256: nonsense").fail(400, "InvalidArgument")
		t.gone("key")
	}},
	{"hash-missing", "a signed request without x-amz-content-sha256 is refused", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Del("X-Amz-Content-Sha256")
		a := t.send(r)
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
		t.gone("key")
	}},
	{"hash-of-document", "the SHA-256 of a document is verified like that of an object", func(t *T) {
		t.fill("a")
		doc := deleteDoc("a")
		t.post("?delete", doc, contentMD5(doc), "x-amz-content-sha256: "+sha256Hex([]byte("else"))).fail(400, "XAmzContentSHA256Mismatch")
		t.holds("a", "a")
	}},
	{"unsigned", "UNSIGNED-PAYLOAD accepts any body", func(t *T) {
		t.put("key", "content", unsigned)
		t.holds("key", "content")
	}},
	{"mode-is-of-the-header", "x-amz-content-sha256 selects the payload mode, not Content-Encoding", func(t *T) {
		t.put("key", "7\r\ncontent\r\n0\r\n\r\n", "Content-Encoding: aws-chunked", unsigned)
		t.holds("key", "7\r\ncontent\r\n0\r\n\r\n")
	}},
	{"encoding-behind-aws-chunked", "a Content-Encoding next to aws-chunked is stored, but aws-chunked is not", func(t *T) {
		r, _ := t.chunked("key", "content", crcChunked(sigv4.PayloadSigned, ""), "Content-Encoding: gzip")
		t.send(r).ok(200)
		t.head("key").ok(200).has("Content-Encoding", "gzip")
	}},
	{"ecdsa", "chunks signed with ECDSA fail with NotImplemented", func(t *T) {
		t.try("key", "content", "x-amz-content-sha256: STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD").fail(501, "NotImplemented")
	}},
	{"decoded-length-missing", "a chunked body without x-amz-decoded-content-length fails with 411 MissingContentLength", func(t *T) {
		t.try("key", "0\r\n\r\n", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER").fail(411, "MissingContentLength")
	}},
	{"decoded-length-nonsense", "an invalid x-amz-decoded-content-length fails with 411 MissingContentLength", func(t *T) {
		t.try("key", "0\r\n\r\n", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length: x").fail(411, "MissingContentLength")
	}},
	{"decoded-length-more", "chunks with less content than x-amz-decoded-content-length fail with IncompleteBody", func(t *T) {
		t.put("key", "old")
		t.try("key", "7\r\ncontent\r\n0\r\n\r\n", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length: 8").fail(400, "IncompleteBody")
		t.holds("key", "old")
	}},
	{"decoded-length-less", "chunks with more content than x-amz-decoded-content-length fail with IncompleteBody", func(t *T) {
		t.put("key", "old")
		t.try("key", "7\r\ncontent\r\n0\r\n\r\n", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length: 6").fail(400, "IncompleteBody")
		t.holds("key", "old")
	}},
	{"trailer-in-plain-mode", "an announced trailer in a mode without one fails with InvalidRequest", func(t *T) {
		t.try("key", "content", "x-amz-trailer: x-amz-checksum-crc32").fail(400, "InvalidRequest")
	}},
	{"trailer-unknown", "a trailer other than a checksum fails with InvalidRequest", func(t *T) {
		t.try("key", "7\r\ncontent\r\n0\r\nx-other:1\r\n\r\n", "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length: 7", "x-amz-trailer: x-other").fail(400, "InvalidRequest")
	}},
	damaged("signed-content-changed", "changed content fails with SignatureDoesNotMatch", "signed", replaceAll("content", "cOntent"), "SignatureDoesNotMatch"),
	damaged("signed-signature-changed", "a changed chunk signature fails with SignatureDoesNotMatch", "signed", flipSignature("7;chunk-signature="), "SignatureDoesNotMatch"),
	damaged("signed-last-signature-changed", "a changed signature of the last, empty chunk fails with SignatureDoesNotMatch", "signed", flipSignature("0;chunk-signature="), "SignatureDoesNotMatch"),
	damaged("signed-signature-missing", "a chunk without a signature fails with IncompleteBody", "signed", func(b []byte) []byte {
		i := bytes.IndexByte(b, ';')
		return append(b[:i:i], b[bytes.Index(b, []byte("\r\n")):]...)
	}, "IncompleteBody"),
	damaged("signed-trailer-content-changed", "with a signed trailer, changed content fails with SignatureDoesNotMatch", "signed-trailer", replaceAll("content", "cOntent"), "SignatureDoesNotMatch"),
	damaged("signed-trailer-changed", "a changed signed trailer fails with SignatureDoesNotMatch", "signed-trailer", replaceAll("x-amz-checksum-crc32:"+sum("CRC32", "content"), "x-amz-checksum-crc32:"+sum("CRC32", "cOntent")), "SignatureDoesNotMatch"),
	damaged("signed-trailer-signature-changed", "a changed signature of the trailer fails with SignatureDoesNotMatch", "signed-trailer", flipSignature("x-amz-trailer-signature:"), "SignatureDoesNotMatch"),
	damaged("signed-trailer-signature-missing", "a signed trailer without its signature is refused", "signed-trailer", func(b []byte) []byte {
		i := bytes.Index(b, []byte("x-amz-trailer-signature:"))
		return append(b[:i:i], "\r\n"...)
	}, "MalformedTrailerError", "IncompleteBody"),
	damaged("trailer-missing", "an announced trailer that is missing is refused", "unsigned-trailer", func(b []byte) []byte {
		i := bytes.Index(b, []byte("x-amz-checksum-crc32:"))
		return append(b[:i:i], "\r\n"...)
	}, "MalformedTrailerError"),
	damaged("unsigned-content-changed", "with an unsigned trailer, changed content fails with BadDigest", "unsigned-trailer", replaceAll("content", "cOntent"), "BadDigest"),
	damaged("cut-off", "a chunked body that ends in the middle fails with IncompleteBody", "unsigned-trailer", func(b []byte) []byte { return b[:5] }, "IncompleteBody"),
	damaged("last-chunk-missing", "a chunked body without its last chunk fails with IncompleteBody", "unsigned-trailer", func(b []byte) []byte { return b[:len("7\r\ncontent\r\n")] }, "IncompleteBody"),
	damaged("end-missing", "a chunked body without its last line fails with IncompleteBody", "unsigned-trailer", cut(2), "IncompleteBody", "MalformedTrailerError"),
	damaged("size-nonsense", "a chunk whose size is not a number fails with IncompleteBody", "unsigned-trailer", replaceAll("7\r\n", "x\r\n"), "IncompleteBody"),
	damaged("size-too-large", "a chunk shorter than its announced size fails with IncompleteBody", "unsigned-trailer", replaceAll("7\r\n", "9\r\n"), "IncompleteBody"),
	damaged("size-too-small", "a chunk longer than its announced size fails with IncompleteBody", "unsigned-trailer", replaceAll("7\r\n", "6\r\n"), "IncompleteBody"),
	damaged("something-behind", "data after the end of a chunked body fails with IncompleteBody", "unsigned-trailer", func(b []byte) []byte { return append(b, "more"...) }, "IncompleteBody"),
	{"chunk-size-upper-case", "the size of a chunk may be in upper case", func(t *T) {
		content := strings.Repeat("x", 0xab)
		r, wire := t.chunked("key", content, crcChunked(sigv4.PayloadUnsignedTrailer, content))
		t.send(rebody(r, bytes.Replace(wire, []byte("ab\r\n"), []byte("AB\r\n"), 1))).ok(200)
		t.holds("key", content)
	}},
	{"chunks-out-of-order", "signed chunks in the wrong order fail with SignatureDoesNotMatch", func(t *T) {
		content := strings.Repeat("a", 8192) + strings.Repeat("b", 8192)
		r, wire := t.chunked("key", content, sigv4.Chunked{Mode: sigv4.PayloadSigned, ChunkSize: 8192})
		head := len(fmt.Sprintf("2000;chunk-signature=%064d\r\n", 0))
		size := head + 8192 + 2
		swapped := append(append(append([]byte{}, wire[size:2*size]...), wire[:size]...), wire[2*size:]...)
		t.send(rebody(r, swapped)).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"chunk-below-8-kib", "a chunk of less than 8 KiB before the last one fails with InvalidChunkSizeError, and the key is unchanged", func(t *T) {
		t.put("key", "old")
		for name, mode := range modes {
			c := crcChunked(mode, strings.Repeat(name[:1], 16_000))
			c.ChunkSize = 8191
			r, _ := t.chunked("key", strings.Repeat(name[:1], 16_000), c)
			t.send(r).fail(403, "InvalidChunkSizeError").eq("Chunk", "2").eq("BadChunkSize", "8191")
		}
		t.holds("key", "old")
	}},
	{"last-chunk-below-8-kib", "the last chunk may have less than 8 KiB", func(t *T) {
		content := random(13, 8192+1)
		c := crcChunked(sigv4.PayloadSignedTrailer, content)
		c.ChunkSize = 8192
		r, _ := t.chunked("key", content, c)
		t.send(r).ok(200)
		t.holds("key", content)
	}},
	{"chunk-of-other-request", "a chunk of another request fails with SignatureDoesNotMatch", func(t *T) {
		_, wire := t.chunked("other", "content", sigv4.Chunked{Mode: sigv4.PayloadSigned})
		r, _ := t.chunked("key", "content", sigv4.Chunked{Mode: sigv4.PayloadSigned})
		t.send(rebody(r, wire)).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"shorter-than-announced", "a body shorter than its Content-Length leaves the object unchanged", func(t *T) {
		t.put("key", "old")
		conn, in := t.open("PUT", "key", 100, "UNSIGNED-PAYLOAD")
		_, err := conn.Write(make([]byte, 50))
		t.must(err == nil, "write: %v", err)
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			t.must(c.CloseWrite() == nil, "close")
			_ = in
		}
		t.holds("key", "old")
	}},
})}
