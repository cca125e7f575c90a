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
	done []string // a Part element for each part, in the order in which they were sent
	etag []string // the ETags of these parts
}

// begin creates a multipart upload.
func (t *T) begin(key string, headers ...string) *upload {
	t.Helper()
	a := t.post(key+"?uploads", nil, headers...).ok(200).doc("InitiateMultipartUploadResult")
	a.expect(a.text("UploadId") != "", "no UploadId")
	return &upload{t: t, key: key, id: a.text("UploadId")}
}

// ref returns the key and query of the upload, or of a part if number is not 0.
func (u *upload) ref(number int) string {
	if number == 0 {
		return u.key + "?uploadId=" + u.id
	}
	return fmt.Sprintf("%s?partNumber=%d&uploadId=%s", u.key, number, u.id)
}

// part sends a part, which must succeed, and adds it to the parts that complete names.
func (u *upload) part(number int, content string, headers ...string) *response {
	u.t.Helper()
	a := u.t.put(u.ref(number), content, headers...)
	u.take(number, a.etag())
	return a
}

// take adds a part to those that complete names.
func (u *upload) take(number int, etag string, more ...string) {
	u.done = append(u.done, fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>&quot;%s&quot;</ETag>%s</Part>", number, etag, strings.Join(more, "")))
	u.etag = append(u.etag, etag)
}

// completeDoc returns the document of CompleteMultipartUpload with these Part elements.
func completeDoc(parts ...string) string {
	return `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + strings.Join(parts, "") + "</CompleteMultipartUpload>"
}

// complete sends CompleteMultipartUpload with all parts that part and take have added.
func (u *upload) complete(headers ...string) *response {
	u.t.Helper()
	return u.t.post(u.ref(0), completeDoc(u.done...), headers...)
}

// wholeETag returns the ETag of an object of all these parts.
func (u *upload) wholeETag() string {
	var all []byte
	for _, e := range u.etag {
		raw, _ := hex.DecodeString(e)
		all = append(all, raw...)
	}
	sum := md5.Sum(all)
	return fmt.Sprintf("%s-%d", hex.EncodeToString(sum[:]), len(u.etag))
}

// md5OfMD5 returns the ETag of a multipart object with one part.
func md5OfMD5(etag string) string {
	raw, _ := hex.DecodeString(etag)
	return md5Hex(string(raw)) + "-1"
}

// mebibytes5 is the minimum size of a part other than the last.
const mebibytes5 = 5 << 20

// unsigned is the header of a request whose body is not covered by the signature.
const unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD"

var multipart = area{"multipart", []rule{
	{"create", "CreateMultipartUpload returns the bucket, the key and an ID", func(t *T) {
		a := t.post("a/b?uploads", nil).ok(200).doc("InitiateMultipartUploadResult").eq("Bucket", t.bucket()).eq("Key", "a/b")
		a.expect(a.text("UploadId") != "", "no UploadId")
	}},
	{"create-is-no-object", "an upload in progress is not an object", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.gone("key")
		t.get("").ok(200).no("Contents")
	}},
	{"part-etag", "the ETag of a part is the MD5 of its content", func(t *T) {
		t.begin("key").part(1, "content").has("ETag", `"`+md5Hex("content")+`"`)
	}},
	{"complete", "CompleteMultipartUpload creates an object from the parts, ordered by number", func(t *T) {
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
	{"complete-answer", "CompleteMultipartUpload returns Location, Bucket, Key and ETag", func(t *T) {
		u := t.begin("a/b")
		u.part(1, "content")
		a := u.complete().ok(200).doc("CompleteMultipartUploadResult").eq("Bucket", t.bucket()).eq("Key", "a/b").eq("ETag", `"`+u.wholeETag()+`"`)
		a.expect(strings.HasSuffix(a.text("Location"), "/a/b"), "Location %q", a.text("Location"))
	}},
	{"etag", "the ETag of a multipart object is the MD5 of the parts' MD5s, followed by the number of parts", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "end")
		u.complete().ok(200)
		t.head("key").ok(200).has("ETag", `"`+u.wholeETag()+`"`)
		t.get("").eq("Contents/ETag", `"`+u.wholeETag()+`"`)
	}},
	{"one-part", "an upload with one part creates a multipart object, too: its ETag ends with -1", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		a := t.head("key").ok(200)
		a.expect(strings.HasSuffix(a.etag(), "-1"), "%s", a.etag())
	}},
	{"empty-part", "an upload with one empty part creates an empty object", func(t *T) {
		u := t.begin("key")
		u.part(1, "")
		u.complete().ok(200)
		t.holds("key", "")
	}},
	{"part-again", "a part that is sent again replaces the previous one", func(t *T) {
		u := t.begin("key")
		u.part(1, "first")
		u.done, u.etag = nil, nil
		u.part(1, "second")
		u.complete().ok(200)
		t.holds("key", "second")
	}},
	{"replaced-part-is-invalid", "the ETag of a replaced part fails with InvalidPart", func(t *T) {
		u := t.begin("key")
		u.part(1, "first")
		old := u.done
		u.part(1, "second")
		u.done = old
		u.complete().fail(400, "InvalidPart")
	}},
	{"parts-left-out", "parts that CompleteMultipartUpload does not name are omitted", func(t *T) {
		u := t.begin("key")
		u.part(1, "one")
		u.part(2, "two")
		u.done = u.done[1:]
		u.complete().ok(200)
		t.holds("key", "two")
	}},
	{"etag-unquoted", "ETags in the document may omit their quotes", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.done[0] = strings.ReplaceAll(u.done[0], "&quot;", "")
		u.complete().ok(200)
	}},
	{"no-namespace", "the CompleteMultipartUpload document may omit its namespace", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), strings.Replace(completeDoc(u.done...), ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`, "", 1)).ok(200)
	}},
	{"wrong-etag", "a part with a different ETag fails with InvalidPart, and the upload is kept", func(t *T) {
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
	{"missing-part", "a part that was never sent fails with InvalidPart", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.take(2, md5Hex("content"))
		u.complete().fail(400, "InvalidPart")
	}},
	{"wrong-order", "parts that are not in ascending order fail with InvalidPartOrder", func(t *T) {
		u := t.begin("key")
		u.part(2, "two")
		u.part(1, "one")
		u.complete().fail(400, "InvalidPartOrder")
	}},
	{"part-named-twice", "a part that is named twice fails with InvalidPartOrder", func(t *T) {
		u := t.begin("key")
		u.part(1, "one")
		u.done = append(u.done, u.done[0])
		u.complete().fail(400, "InvalidPartOrder")
	}},
	{"gap-with-part-checksums", "an upload with part checksums must have parts 1, 2, 3 and so on: a gap fails with InvalidPartOrder", func(t *T) {
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
	{"small-part", "a part smaller than 5 MiB before the last one fails with EntityTooSmall", func(t *T) {
		u := t.begin("key")
		u.part(1, "small")
		u.part(2, "end")
		u.complete().fail(400, "EntityTooSmall")
		t.gone("key")
	}},
	{"small-by-one-byte", "a part one byte smaller than 5 MiB before the last one fails with EntityTooSmall", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5-1), unsigned)
		u.part(2, "end")
		u.complete().fail(400, "EntityTooSmall")
	}},
	{"no-parts", "CompleteMultipartUpload without a part fails with MalformedXML", func(t *T) {
		t.begin("key").complete().fail(400, "MalformedXML")
	}},
	{"malformed", "CompleteMultipartUpload with a body that is not XML fails with MalformedXML, and the upload is kept", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), "<CompleteMultipartUpload><Part>").fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"empty-body", "CompleteMultipartUpload without a body fails with MalformedXML, and the upload is kept", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), nil).fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"part-number-zero", "a part number below 1 fails with InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.key+"?partNumber=0&uploadId="+u.id, "content").fail(400, "InvalidArgument")
		t.try(u.key+"?partNumber=0&uploadId=nonsense", "content").fail(400, "InvalidArgument")
	}},
	{"part-number-large", "a part number above 10000 fails with InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(10001), "content").fail(400, "InvalidArgument")
	}},
	{"part-number-10000", "the part number 10000 is valid", func(t *T) {
		u := t.begin("key")
		u.part(10000, "content")
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"part-number-nonsense", "a part number that is not a number fails with InvalidArgument", func(t *T) {
		u := t.begin("key")
		t.try(u.key+"?partNumber=one&uploadId="+u.id, "content").fail(400, "InvalidArgument")
	}},
	{"part-number-missing", "UploadPart without a part number fails and does not write an object", func(t *T) {
		u := t.begin("key")
		a := t.try(u.ref(0), "content")
		a.expect(a.status == 400 || a.status == 405, "status %d", a.status)
		t.gone("key")
	}},
	{"part-number-absent", "UploadPart without partNumber fails with MethodNotAllowed", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(0), "content").fail(405, "MethodNotAllowed").eq("ResourceType", "UPLOAD")
	}},
	{"upload-id-missing", "UploadPart without an upload ID fails with InvalidArgument and does not write an object", func(t *T) {
		for _, query := range []string{"partNumber=1", "partNumber=1&uploadId="} {
			t.try("key?"+query, "content").fail(400, "InvalidArgument").eq("ArgumentName", "partNumber")
		}
		t.put("source", "content")
		t.try("key?partNumber=1", nil, t.from("source")).fail(400, "InvalidArgument")
		t.gone("key")
	}},
	{"part-of-unknown-upload", "UploadPart of an upload that does not exist fails with NoSuchUpload", func(t *T) {
		t.try("key?partNumber=1&uploadId=nonsense", "content").fail(404, "NoSuchUpload")
	}},
	{"complete-unknown-upload", "CompleteMultipartUpload of an upload that does not exist fails with NoSuchUpload", func(t *T) {
		t.post("key?uploadId=nonsense", completeDoc("<Part><PartNumber>1</PartNumber><ETag>"+md5Hex("x")+"</ETag></Part>")).fail(404, "NoSuchUpload")
	}},
	{"complete-unknown-upload-first", "CompleteMultipartUpload checks that the upload exists before it checks parts and conditions, and after it parses the document", func(t *T) {
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
	{"abort-unknown-upload", "AbortMultipartUpload of an upload that does not exist fails with NoSuchUpload", func(t *T) {
		t.del("key?uploadId=nonsense").fail(404, "NoSuchUpload")
	}},
	{"id-of-other-key", "an upload ID with another key fails with NoSuchUpload", func(t *T) {
		u := t.begin("key")
		t.try("other?partNumber=1&uploadId="+u.id, "content").fail(404, "NoSuchUpload")
		t.del("other?uploadId="+u.id).fail(404, "NoSuchUpload")
	}},
	{"id-of-other-bucket", "an upload ID in another bucket fails with NoSuchUpload", func(t *T) {
		u := t.begin("key")
		t.try("/"+t.newBucket()+"/key?partNumber=1&uploadId="+u.id, "content").fail(404, "NoSuchUpload")
	}},
	{"abort", "AbortMultipartUpload returns 204, and the upload no longer exists", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.del(u.ref(0)).ok(204)
		t.try(u.ref(1), "content").fail(404, "NoSuchUpload")
		u.complete().fail(404, "NoSuchUpload")
		t.get("?uploads").ok(200).no("Upload")
	}},
	{"abort-keeps-object", "AbortMultipartUpload does not delete an object with the same key", func(t *T) {
		t.put("key", "content")
		u := t.begin("key")
		u.part(1, "other")
		t.del(u.ref(0)).ok(204)
		t.holds("key", "content")
	}},
	{"abort-condition", "AbortMultipartUpload with a different x-amz-if-match-initiated-time fails with 412, and the upload is kept", func(t *T) {
		u := t.begin("key")
		t.del(u.ref(0), "x-amz-if-match-initiated-time: "+past).fail(412, "PreconditionFailed")
		u.part(1, "content")
		u.complete().ok(200)
	}},
	{"complete-ends-upload", "a completed upload accepts no more parts", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.try(u.ref(2), "more").fail(404, "NoSuchUpload")
		t.get("?uploads").ok(200).no("Upload")
	}},
	{"complete-twice", "completing an upload again with the same parts returns the same result, since the first response may have been lost", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		u.complete().ok(200).eq("ETag", `"`+u.wholeETag()+`"`)
		t.holds("key", "content")
	}},
	{"complete-twice-with-checksum", "completing an upload again with the composite checksum of the object returns the same result", func(t *T) {
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
	{"complete-overwrites", "CompleteMultipartUpload replaces the existing object", func(t *T) {
		t.put("key", "old", "x-amz-meta-old: 1")
		u := t.begin("key")
		u.part(1, "new")
		u.complete().ok(200)
		t.holds("key", "new")
		t.head("key").lacks("x-amz-meta-old")
	}},
	{"two-uploads", "two uploads of the same key are independent", func(t *T) {
		u, v := t.begin("key"), t.begin("key")
		t.must(u.id != v.id, "both uploads have the same ID")
		u.part(1, "of u")
		v.part(1, "of v")
		u.complete().ok(200)
		t.holds("key", "of u")
		v.complete().ok(200)
		t.holds("key", "of v")
	}},
	{"metadata-of-create", "a multipart object has the metadata of CreateMultipartUpload", func(t *T) {
		u := t.begin("key", "x-amz-meta-a: 1", "Content-Type: text/plain", "Cache-Control: private", "x-amz-storage-class: STANDARD_IA")
		u.part(1, "content")
		u.complete().ok(200)
		t.head("key").ok(200).has("x-amz-meta-a", "1").has("Content-Type", "text/plain").has("Cache-Control", "private").has("x-amz-storage-class", "STANDARD_IA")
	}},
	{"create-bad-class", "CreateMultipartUpload with an unknown storage class fails with InvalidStorageClass", func(t *T) {
		t.post("key?uploads", nil, "x-amz-storage-class: GOLD").fail(400, "InvalidStorageClass")
	}},
	{"create-metadata-too-large", "CreateMultipartUpload checks the size of metadata", func(t *T) {
		t.post("key?uploads", nil, "x-amz-meta-a: "+strings.Repeat("x", 2048)).fail(400, "MetadataTooLarge")
	}},
	{"create-missing-bucket", "CreateMultipartUpload in a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.post("/"+t.newName()+"/key?uploads", nil).fail(404, "NoSuchBucket")
	}},
	{"part-wrong-md5", "a part with a wrong Content-MD5 fails with BadDigest and is not stored", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(1), "content", contentMD5("else")).fail(400, "BadDigest")
		t.get(u.ref(0)).ok(200).no("Part")
	}},
	{"part-cut-off", "a part whose client disconnects does not replace the previous one", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		conn, _ := t.open("PUT", u.ref(1), 1000, "UNSIGNED-PAYLOAD")
		_, err := conn.Write(make([]byte, 500))
		t.must(err == nil, "write: %v", err)
		conn.Close()
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"range-across-parts", "a range may span parts", func(t *T) {
		u := t.begin("key")
		first := random(8, mebibytes5)
		u.part(1, first, unsigned)
		u.part(2, "0123456789")
		u.complete().ok(200)
		a := t.get("key", fmt.Sprintf("Range: bytes=%d-%d", mebibytes5-3, mebibytes5+2)).ok(206)
		a.expect(a.body == first[mebibytes5-3:]+"012", "wrong bytes")
	}},
	{"part-number-of-get", "GET with partNumber returns that part with 206 and the number of parts", func(t *T) {
		u := t.begin("key")
		u.part(1, random(8, mebibytes5), unsigned)
		u.part(2, "0123456789")
		u.complete().ok(200)
		a := t.get("key?partNumber=2").ok(206).has("x-amz-mp-parts-count", "2").has("Content-Range", fmt.Sprintf("bytes %d-%d/%d", mebibytes5, mebibytes5+9, mebibytes5+10))
		a.expect(a.body == "0123456789", "wrong bytes")
		t.head("key?partNumber=1").ok(206).has("x-amz-mp-parts-count", "2").has("Content-Length", fmt.Sprint(mebibytes5))
	}},
	{"part-number-beyond", "GET with a partNumber above the number of parts fails with 416", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.get("key?partNumber=2").fail(416, "InvalidPartNumber")
	}},
	{"part-number-of-plain", "partNumber 1 of an object that was not uploaded in parts is the whole object", func(t *T) {
		t.put("key", "content")
		a := t.get("key?partNumber=1").ok(206)
		a.expect(a.body == "content", "wrong bytes")
		t.get("key?partNumber=2").fail(416, "InvalidPartNumber")
	}},
	{"part-number-and-range", "partNumber together with Range fails with InvalidRequest", func(t *T) {
		t.put("key", "content")
		t.get("key?partNumber=1", "Range: bytes=0-1").fail(400, "InvalidRequest")
	}},
	{"part-number-of-get-nonsense", "GET with a partNumber of 0 fails with InvalidArgument", func(t *T) {
		t.put("key", "content")
		t.get("key?partNumber=0").fail(400, "InvalidArgument")
	}},
	{"part-number-of-missing", "GET and HEAD with an invalid partNumber fail with 400 even if the key does not exist", func(t *T) {
		for _, number := range []string{"-3", "0", "10001", "x"} {
			t.get("none?partNumber="+number).fail(400, "InvalidArgument")
			t.head("none?partNumber="+number).fail(400, "")
		}
		t.get("none?partNumber=1").fail(404, "NoSuchKey")
	}},
	{"copy-part", "UploadPartCopy creates a part from an object", func(t *T) {
		t.put("from", "content")
		u := t.begin("key")
		a := t.put(u.ref(1), nil, t.from("from")).doc("CopyPartResult").eq("ETag", `"`+md5Hex("content")+`"`)
		_, err := time.Parse(iso8601, a.text("LastModified"))
		a.expect(err == nil, "LastModified %q", a.text("LastModified"))
		u.take(1, md5Hex("content"))
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"copy-part-range", "UploadPartCopy with a range creates a part from exactly those bytes", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.put(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-5").eq("ETag", `"`+md5Hex("2345")+`"`)
		u.take(1, md5Hex("2345"))
		u.complete().ok(200)
		t.holds("key", "2345")
	}},
	{"copy-part-range-outside", "UploadPartCopy with a range that ends after the end of the source is refused", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		a := t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-10")
		a.expect(a.status == 400 && a.text("Code") == "InvalidArgument" || a.status == 416 && a.text("Code") == "InvalidRange", "status %d", a.status)
		t.get(u.ref(0)).ok(200).no("Part")
	}},
	{"copy-part-range-behind", "UploadPartCopy with a range that begins after the end of the source fails with InvalidRequest", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=10-12").fail(400, "InvalidRequest")
	}},
	{"copy-part-range-open", "the range of UploadPartCopy needs both a start and an end", func(t *T) {
		t.put("from", digits)
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-range: bytes=2-").fail(400, "InvalidArgument")
	}},
	{"copy-part-missing", "UploadPartCopy of a key that does not exist fails with NoSuchKey", func(t *T) {
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("none")).fail(404, "NoSuchKey")
	}},
	{"copy-part-condition", "UploadPartCopy supports conditions on the source", func(t *T) {
		t.put("from", "content")
		u := t.begin("key")
		t.try(u.ref(1), nil, t.from("from"), "x-amz-copy-source-if-match: "+other).fail(412, "PreconditionFailed")
		t.put(u.ref(1), nil, t.from("from"), `x-amz-copy-source-if-match: "`+md5Hex("content")+`"`)
	}},
	{"copy-part-unknown-upload", "UploadPartCopy to an upload that does not exist fails with NoSuchUpload", func(t *T) {
		t.put("from", "content")
		t.try("key?partNumber=1&uploadId=nonsense", nil, t.from("from")).fail(404, "NoSuchUpload")
	}},
	{"delete-then-put", "a multipart object can be deleted", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.del("key").ok(204)
		t.gone("key")
	}},
	{"object-size", "CompleteMultipartUpload with the right x-amz-mp-object-size succeeds", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete("x-amz-mp-object-size: 7").ok(200)
	}},
	{"object-size-differs", "CompleteMultipartUpload with a wrong x-amz-mp-object-size fails with InvalidRequest", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete("x-amz-mp-object-size: 8").fail(400, "InvalidRequest")
		t.gone("key")
	}},
	{"many-parts", "an upload of 302 parts with gaps between their numbers becomes an object of the parts that are named", func(t *T) {
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
