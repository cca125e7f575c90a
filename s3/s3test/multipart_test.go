package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// upload is a multipart upload in progress.
type upload struct {
	t    *T
	key  string
	id   string
	done []string // an element Part of each part, in the order in which they were sent
	etag []string
}

// begin begins a multipart upload.
func (t *T) begin(key string, headers ...string) *upload {
	t.Helper()
	a := t.post(key+"?uploads", nil, headers...).ok(200).doc("InitiateMultipartUploadResult")
	a.expect(a.text("UploadId") != "", "no UploadId")
	return &upload{t: t, key: key, id: a.text("UploadId")}
}

// ref names the upload, or a part of it.
func (u *upload) ref(number int) string {
	if number == 0 {
		return u.key + "?uploadId=" + u.id
	}
	return fmt.Sprintf("%s?partNumber=%d&uploadId=%s", u.key, number, u.id)
}

// part sends a part, which must not fail.
func (u *upload) part(number int, content string, headers ...string) *answer {
	u.t.Helper()
	a := u.t.put(u.ref(number), content, headers...)
	u.take(number, a.etag())
	return a
}

// take notes a part for complete.
func (u *upload) take(number int, etag string, more ...string) {
	u.done = append(u.done, fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>&quot;%s&quot;</ETag>%s</Part>", number, etag, strings.Join(more, "")))
	u.etag = append(u.etag, etag)
}

// doc is the document that completes the upload of these parts.
func completeDoc(parts ...string) string {
	return `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + strings.Join(parts, "") + "</CompleteMultipartUpload>"
}

// complete completes the upload with all parts that were sent.
func (u *upload) complete(headers ...string) *answer {
	u.t.Helper()
	return u.t.post(u.ref(0), completeDoc(u.done...), headers...)
}

// wholeETag is the ETag of the object made of all parts.
func (u *upload) wholeETag() string {
	var all []byte
	for _, e := range u.etag {
		raw, _ := hex.DecodeString(e)
		all = append(all, raw...)
	}
	sum := md5.Sum(all)
	return fmt.Sprintf("%s-%d", hex.EncodeToString(sum[:]), len(u.etag))
}

// md5OfMD5 is the ETag of a multipart object of one part.
func md5OfMD5(etag string) string {
	raw, _ := hex.DecodeString(etag)
	return md5Hex(string(raw)) + "-1"
}

// mebibytes5 is the smallest size of a part that is not the last.
const mebibytes5 = 5 << 20

// unsigned says that a body is not to be hashed.
const unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD"

var multipart = area{"multipart", []rule{
	{"create", "CreateMultipartUpload answers bucket, key and an id", func(t *T) {
		a := t.post("a/b?uploads", nil).ok(200).doc("InitiateMultipartUploadResult").eq("Bucket", t.bucket()).eq("Key", "a/b")
		a.expect(a.text("UploadId") != "", "no id")
	}},
	{"create-is-no-object", "an upload in progress is no object", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.gone("key")
		t.get("").ok(200).no("Contents")
	}},
	{"part-etag", "the ETag of a part is the MD5 of its content", func(t *T) {
		t.begin("key").part(1, "content").has("ETag", `"`+md5Hex("content")+`"`)
	}},
	{"complete", "CompleteMultipartUpload makes an object of the parts in the order of their numbers", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, random(9, mebibytes5), unsigned)
		u.part(3, "end")
		u.complete().ok(200)
		t.holds("key", random(8, mebibytes5)+random(9, mebibytes5)+"end")
	}},
	{"sent-out-of-order", "parts may be sent in any order", func(t *T) {
		u := t.begin("key")
		u.part(7, "end")
		u.part(3, random(8, mebibytes5), unsigned)
		u.done[0], u.done[1] = u.done[1], u.done[0]
		u.complete().ok(200)
		t.holds("key", random(8, mebibytes5)+"end")
	}},
	{"complete-answer", "CompleteMultipartUpload answers Location, bucket, key and ETag", func(t *T) {
		u := t.begin("a/b")
		u.part(1, "content")
		a := u.complete().ok(200).doc("CompleteMultipartUploadResult").eq("Bucket", t.bucket()).eq("Key", "a/b").eq("ETag", `"`+u.wholeETag()+`"`)
		a.expect(strings.HasSuffix(a.text("Location"), "/a/b"), "Location %q", a.text("Location"))
	}},
	{"etag", "the ETag of a multipart object is the MD5 of the MD5s, with the number of parts", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "end")
		u.complete().ok(200)
		t.head("key").ok(200).has("ETag", `"`+u.wholeETag()+`"`)
		t.get("").eq("Contents/ETag", `"`+u.wholeETag()+`"`)
	}},
	{"one-part", "an upload of one part is a multipart object too: its ETag ends with -1", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		a := t.head("key").ok(200)
		a.expect(strings.HasSuffix(a.etag(), "-1"), "%s", a.etag())
	}},
	{"empty-part", "an upload of one empty part is an empty object", func(t *T) {
		u := t.begin("key")
		u.part(1, "")
		u.complete().ok(200)
		t.holds("key", "")
	}},
	{"part-again", "a part that is sent again replaces the one before", func(t *T) {
		u := t.begin("key")
		u.part(1, "first")
		u.done, u.etag = nil, nil
		u.part(1, "second")
		u.complete().ok(200)
		t.holds("key", "second")
	}},
	{"replaced-part-is-invalid", "the ETag of a part that was replaced is InvalidPart", func(t *T) {
		u := t.begin("key")
		u.part(1, "first")
		old := u.done
		u.part(1, "second")
		u.done = old
		u.complete().fail(400, "InvalidPart")
	}},
	{"parts-left-out", "parts that complete does not name are left out", func(t *T) {
		u := t.begin("key")
		u.part(1, "one")
		u.part(2, "two")
		u.done = u.done[1:]
		u.complete().ok(200)
		t.holds("key", "two")
	}},
	{"etag-unquoted", "ETags in the document may come without quotes", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.done[0] = strings.ReplaceAll(u.done[0], "&quot;", "")
		u.complete().ok(200)
	}},
	{"no-namespace", "the document may come without its name space", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), strings.Replace(completeDoc(u.done...), ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`, "", 1)).ok(200)
	}},
	{"wrong-etag", "a part with another ETag is InvalidPart, and the upload stays", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		good := u.done
		u.done = nil
		u.take(1, strings.Trim(other, `"`))
		u.complete().fail(400, "InvalidPart")
		t.gone("key")
		u.done = good
		u.complete().ok(200)
	}},
	{"missing-part", "a part that was never sent is InvalidPart", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.take(2, md5Hex("content"))
		u.complete().fail(400, "InvalidPart")
	}},
	{"wrong-order", "parts that are not in ascending order are InvalidPartOrder", func(t *T) {
		u := t.begin("key")
		u.part(2, "two")
		u.part(1, "one")
		u.complete().fail(400, "InvalidPartOrder")
	}},
	{"part-named-twice", "a part that is named twice is InvalidPartOrder", func(t *T) {
		u := t.begin("key")
		u.part(1, "one")
		u.done = append(u.done, u.done[0])
		u.complete().fail(400, "InvalidPartOrder")
	}},
	{"gap-with-part-checksums", "an upload with a checksum of each part has parts 1, 2, 3 and so on: a gap is InvalidPartOrder", func(t *T) {
		u := t.begin("key", "x-amz-checksum-algorithm: CRC32", "x-amz-checksum-type: COMPOSITE")
		for _, n := range []int{2, 3} {
			a := t.put(u.ref(n), "content", sumHeader("CRC32", "content"))
			u.take(n, a.etag(), "<ChecksumCRC32>"+sum("CRC32", "content")+"</ChecksumCRC32>")
		}
		u.done = u.done[:1]
		u.complete().fail(400, "InvalidPartOrder")
		a := t.put(u.ref(1), "content", sumHeader("CRC32", "content"))
		u.done = nil
		u.take(1, a.etag(), "<ChecksumCRC32>"+sum("CRC32", "content")+"</ChecksumCRC32>")
		u.complete().ok(200)
	}},
	{"small-part", "a part below 5 MiB that is not the last is EntityTooSmall", func(t *T) {
		u := t.begin("key")
		u.part(1, "small")
		u.part(2, "end")
		u.complete().fail(400, "EntityTooSmall")
		t.gone("key")
	}},
	{"small-by-one-byte", "a part of one byte less than 5 MiB that is not the last is EntityTooSmall", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5-1), unsigned)
		u.part(2, "end")
		u.complete().fail(400, "EntityTooSmall")
	}},
	{"no-parts", "CompleteMultipartUpload without a part is MalformedXML", func(t *T) {
		t.begin("key").complete().fail(400, "MalformedXML")
	}},
	{"malformed", "CompleteMultipartUpload with a body that is no XML is MalformedXML, and the upload stays", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), "<CompleteMultipartUpload><Part>").fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"empty-body", "CompleteMultipartUpload without a body is MalformedXML, and the upload stays", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), nil).fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"part-number-zero", "a part number below 1 is InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.key+"?partNumber=0&uploadId="+u.id, "content").fail(400, "InvalidArgument")
		t.try(u.key+"?partNumber=0&uploadId=nonsense", "content").fail(400, "InvalidArgument")
	}},
	{"part-number-large", "a part number above 10000 is InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(10001), "content").fail(400, "InvalidArgument")
	}},
	{"part-number-10000", "a part number may be 10000", func(t *T) {
		u := t.begin("key")
		u.part(10000, "content")
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"part-number-nonsense", "a part number that is no number is InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.key+"?partNumber=one&uploadId="+u.id, "content").fail(400, "InvalidArgument")
	}},
	{"part-number-missing", "UploadPart without a part number is no success and writes no object", func(t *T) {
		u := t.begin("key")
		a := t.try(u.ref(0), "content")
		a.expect(a.status == 400 || a.status == 405, "status %d", a.status)
		t.gone("key")
	}},
	{"part-number-absent", "UploadPart without partNumber is MethodNotAllowed: an upload is not written itself", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(0), "content").fail(405, "MethodNotAllowed").eq("ResourceType", "UPLOAD")
	}},
	{"upload-id-missing", "UploadPart without an upload is InvalidArgument and writes no object", func(t *T) {
		for _, query := range []string{"partNumber=1", "partNumber=1&uploadId="} {
			t.try("key?"+query, "content").fail(400, "InvalidArgument").eq("ArgumentName", "partNumber")
		}
		t.put("source", "content")
		t.try("key?partNumber=1", nil, t.from("source")).fail(400, "InvalidArgument")
		t.gone("key")
	}},
	{"part-of-unknown-upload", "UploadPart of an upload that is not there is NoSuchUpload", func(t *T) {
		t.try("key?partNumber=1&uploadId=nonsense", "content").fail(404, "NoSuchUpload")
	}},
	{"complete-unknown-upload", "CompleteMultipartUpload of an upload that is not there is NoSuchUpload", func(t *T) {
		t.post("key?uploadId=nonsense", completeDoc("<Part><PartNumber>1</PartNumber><ETag>"+md5Hex("x")+"</ETag></Part>")).fail(404, "NoSuchUpload")
	}},
	{"complete-unknown-upload-first", "that there is no such upload is said before what is wrong with parts and conditions, and after what is no document", func(t *T) {
		t.put("key", "old")
		u := t.begin("key")
		u.part(2, "two")
		u.part(1, "one")
		t.del(u.ref(0)).ok(204)
		u.complete().fail(404, "NoSuchUpload")
		u.complete("If-None-Match: *").fail(404, "NoSuchUpload")
		u.complete("If-None-Match: "+other).fail(404, "NoSuchUpload")
		u.complete("x-amz-mp-object-size: 1").fail(404, "NoSuchUpload")
		t.post(u.ref(0), "<CompleteMultipartUpload><Part>").fail(400, "MalformedXML")
	}},
	{"abort-unknown-upload", "AbortMultipartUpload of an upload that is not there is NoSuchUpload", func(t *T) {
		t.del("key?uploadId=nonsense").fail(404, "NoSuchUpload")
	}},
	{"id-of-other-key", "an upload belongs to its key: with another one it is NoSuchUpload", func(t *T) {
		u := t.begin("key")
		t.try("other?partNumber=1&uploadId="+u.id, "content").fail(404, "NoSuchUpload")
		t.del("other?uploadId="+u.id).fail(404, "NoSuchUpload")
	}},
	{"id-of-other-bucket", "an upload belongs to its bucket: with another one it is NoSuchUpload", func(t *T) {
		u := t.begin("key")
		t.try("/"+t.newBucket()+"/key?partNumber=1&uploadId="+u.id, "content").fail(404, "NoSuchUpload")
	}},
	{"abort", "AbortMultipartUpload answers 204, and the upload is gone", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.del(u.ref(0)).ok(204)
		t.try(u.ref(1), "content").fail(404, "NoSuchUpload")
		u.complete().fail(404, "NoSuchUpload")
		t.get("?uploads").ok(200).no("Upload")
	}},
	{"abort-keeps-object", "AbortMultipartUpload leaves an object with the same key", func(t *T) {
		t.put("key", "content")
		u := t.begin("key")
		u.part(1, "other")
		t.del(u.ref(0)).ok(204)
		t.holds("key", "content")
	}},
	{"abort-condition", "AbortMultipartUpload with another x-amz-if-match-initiated-time is 412, and the upload stays", func(t *T) {
		u := t.begin("key")
		t.del(u.ref(0), "x-amz-if-match-initiated-time: "+past).fail(412, "PreconditionFailed")
		u.part(1, "content")
		u.complete().ok(200)
	}},
	{"complete-ends-upload", "an upload that was completed takes no more parts", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.try(u.ref(2), "more").fail(404, "NoSuchUpload")
		t.get("?uploads").ok(200).no("Upload")
	}},
	{"complete-twice", "completing again with the same parts answers as before, since the first answer may have been lost", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		u.complete().ok(200).eq("ETag", `"`+u.wholeETag()+`"`)
		t.holds("key", "content")
	}},
	{"complete-twice-with-checksum", "completing again with the composite checksum of the object answers as before", func(t *T) {
		u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
		a := u.part(1, "content", sumHeader("SHA256", "content"))
		u.done = nil
		u.take(1, a.etag(), "<ChecksumSHA256>"+sum("SHA256", "content")+"</ChecksumSHA256>")
		raw, err := base64.StdEncoding.DecodeString(sum("SHA256", "content"))
		t.must(err == nil, "%v", err)
		whole := sum("SHA256", string(raw)) + "-1"
		for range 2 {
			u.complete("x-amz-checksum-sha256: "+whole).ok(200).eq("ETag", `"`+md5OfMD5(a.etag())+`"`).eq("ChecksumSHA256", whole)
		}
		t.holds("key", "content")
	}},
	{"complete-overwrites", "CompleteMultipartUpload replaces what was there", func(t *T) {
		t.put("key", "old", "x-amz-meta-old: 1")
		u := t.begin("key")
		u.part(1, "new")
		u.complete().ok(200)
		t.holds("key", "new")
		t.head("key").lacks("x-amz-meta-old")
	}},
	{"two-uploads", "two uploads of a key do not know one another", func(t *T) {
		u, v := t.begin("key"), t.begin("key")
		t.must(u.id != v.id, "one id")
		u.part(1, "of u")
		v.part(1, "of v")
		u.complete().ok(200)
		t.holds("key", "of u")
		v.complete().ok(200)
		t.holds("key", "of v")
	}},
	{"metadata-of-create", "metadata comes from CreateMultipartUpload", func(t *T) {
		u := t.begin("key", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private", "x-amz-storage-class: STANDARD_IA")
		u.part(1, "content")
		u.complete().ok(200)
		t.head("key").ok(200).has("x-amz-meta-a", "1").has("Content-Type", "text/plain").has("Cache-Control", "private").has("x-amz-storage-class", "STANDARD_IA")
	}},
	{"create-bad-class", "CreateMultipartUpload with a storage class that does not exist is InvalidStorageClass", func(t *T) {
		t.post("key?uploads", nil, "x-amz-storage-class: GOLD").fail(400, "InvalidStorageClass")
	}},
	{"create-metadata-too-large", "CreateMultipartUpload checks the size of metadata", func(t *T) {
		t.post("key?uploads", nil, "x-amz-meta-a: "+strings.Repeat("x", 2048)).fail(400, "MetadataTooLarge")
	}},
	{"create-missing-bucket", "CreateMultipartUpload in a bucket that is not there is NoSuchBucket", func(t *T) {
		t.post("/"+t.newName()+"/key?uploads", nil).fail(404, "NoSuchBucket")
	}},
	{"part-wrong-md5", "a part with a wrong Content-MD5 is BadDigest, and is not there", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(1), "content", contentMD5("else")).fail(400, "BadDigest")
		t.get(u.ref(0)).ok(200).no("Part")
	}},
	{"part-cut-off", "a part whose client goes away leaves the part before", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		conn, _ := t.open("PUT", u.ref(1), 1000, "UNSIGNED-PAYLOAD")
		_, err := conn.Write(make([]byte, 500))
		t.must(err == nil, "write: %v", err)
		conn.Close()
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"range-across-parts", "a range may go across parts", func(t *T) {
		u := t.begin("key")
		first := random(8, mebibytes5)
		u.part(1, first, unsigned)
		u.part(2, "0123456789")
		u.complete().ok(200)
		a := t.get("key", fmt.Sprintf("Range: bytes=%d-%d", mebibytes5-3, mebibytes5+2)).ok(206)
		a.expect(a.body == first[mebibytes5-3:]+"012", "other bytes")
	}},
	{"part-number-of-get", "GET with partNumber is that part, 206, and tells how many there are", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "0123456789")
		u.complete().ok(200)
		a := t.get("key?partNumber=2").ok(206).has("x-amz-mp-parts-count", "2").has("Content-Range", fmt.Sprintf("bytes %d-%d/%d", mebibytes5, mebibytes5+9, mebibytes5+10))
		a.expect(a.body == "0123456789", "other bytes")
		t.head("key?partNumber=1").ok(206).has("x-amz-mp-parts-count", "2").has("Content-Length", fmt.Sprint(mebibytes5))
	}},
	{"part-number-beyond", "GET with a partNumber that the object has not is 416", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.get("key?partNumber=2").fail(416, "InvalidPartNumber")
	}},
	{"part-number-of-plain", "an object that is no multipart one is its part 1", func(t *T) {
		t.put("key", "content")
		a := t.get("key?partNumber=1").ok(206)
		a.expect(a.body == "content", "other bytes")
		t.get("key?partNumber=2").fail(416, "InvalidPartNumber")
	}},
	{"part-number-and-range", "partNumber together with Range is InvalidRequest", func(t *T) {
		t.put("key", "content")
		t.get("key?partNumber=1", "Range: bytes=0-1").fail(400, "InvalidRequest")
	}},
	{"part-number-of-get-nonsense", "GET with a partNumber of 0 is InvalidArgument", func(t *T) {
		t.put("key", "content")
		t.get("key?partNumber=0").fail(400, "InvalidArgument")
	}},
	{"part-number-of-missing", "GET and HEAD with a partNumber that cannot be one are 400, although there is no such key", func(t *T) {
		for _, number := range []string{"-3", "0", "10001", "x"} {
			t.get("none?partNumber="+number).fail(400, "InvalidArgument")
			t.head("none?partNumber="+number).fail(400, "")
		}
		t.get("none?partNumber=1").fail(404, "NoSuchKey")
	}},
	{"copy-part", "UploadPartCopy makes a part of an object", func(t *T) {
		t.put("from", "content")
		u := t.begin("key")
		a := t.put(u.ref(1), nil, t.from("from")).doc("CopyPartResult").eq("ETag", `"`+md5Hex("content")+`"`)
		_, err := time.Parse(iso8601, a.text("LastModified"))
		a.expect(err == nil, "LastModified %q", a.text("LastModified"))
		u.take(1, md5Hex("content"))
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"copy-part-range", "UploadPartCopy with a range makes a part of just those bytes", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.put(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-5").eq("ETag", `"`+md5Hex("2345")+`"`)
		u.take(1, md5Hex("2345"))
		u.complete().ok(200)
		t.holds("key", "2345")
	}},
	{"copy-part-range-outside", "UploadPartCopy with a range that ends behind the source is refused", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		a := t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-10")
		a.expect(a.status == 400 && a.text("Code") == "InvalidArgument" || a.status == 416 && a.text("Code") == "InvalidRange", "status %d", a.status)
		t.get(u.ref(0)).ok(200).no("Part")
	}},
	{"copy-part-range-behind", "UploadPartCopy with a range that begins behind the source is InvalidRequest", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=10-12").fail(400, "InvalidRequest")
	}},
	{"copy-part-range-open", "the range of UploadPartCopy must have both ends", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-").fail(400, "InvalidArgument")
	}},
	{"copy-part-missing", "UploadPartCopy of a key that is not there is NoSuchKey", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("none")).fail(404, "NoSuchKey")
	}},
	{"copy-part-condition", "UploadPartCopy heeds the conditions on the source", func(t *T) {
		t.put("from", "content")
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-if-match: "+other).fail(412, "PreconditionFailed")
		t.put(u.ref(1), nil, t.from("from"), `x-amz-copy-source-if-match: "`+md5Hex("content")+`"`)
	}},
	{"copy-part-unknown-upload", "UploadPartCopy to an upload that is not there is NoSuchUpload", func(t *T) {
		t.put("from", "content")
		t.try("key?partNumber=1&uploadId=nonsense", nil, t.from("from")).fail(404, "NoSuchUpload")
	}},
	{"delete-then-put", "a multipart object is deleted like any other", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.del("key").ok(204)
		t.gone("key")
	}},
	{"object-size", "x-amz-mp-object-size that is the size completes", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete("x-amz-mp-object-size: 7").ok(200)
	}},
	{"object-size-differs", "x-amz-mp-object-size that is not the size is InvalidRequest", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete("x-amz-mp-object-size: 8").fail(400, "InvalidRequest")
		t.gone("key")
	}},
	{"many-parts", "an upload of 300 parts whose numbers have gaps becomes an object of those that are named", func(t *T) {
		u := t.begin("key")
		u.part(1, random(10, mebibytes5), unsigned)
		for i := range 300 {
			t.put(u.ref(2+3*i), "x")
		}
		u.part(9999, "the last")
		u.complete().ok(200)
		t.head("key").ok(200).has("Content-Length", fmt.Sprint(mebibytes5+8))
	}},
}}
