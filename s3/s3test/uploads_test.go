package s3test

import (
	"fmt"
	"strings"
	"time"
)

var uploadLists = area{"upload-lists", []rule{
	{"parts", "ListParts returns number, time, ETag and size of each part, in order", func(t *T) {
		u := t.begin("key")
		u.part(2, "two!")
		u.part(1, "one")
		a := t.get(u.ref(0)).ok(200).doc("ListPartsResult").eq("Part/PartNumber", "1", "2").eq("Part/Size", "3", "4").
			eq("Part/ETag", `"`+md5Hex("one")+`"`, `"`+md5Hex("two!")+`"`).eq("IsTruncated", "false")
		for _, when := range a.all("Part/LastModified") {
			_, err := time.Parse(iso8601, when)
			a.expect(err == nil, "LastModified %q", when)
		}
	}},
	{"parts-answer", "ListParts repeats bucket, key and ID, and returns the initiator, the owner and the storage class", func(t *T) {
		u := t.begin("key", "x-amz-storage-class: STANDARD_IA")
		a := t.get(u.ref(0)).ok(200).eq("Bucket", t.bucket()).eq("Key", "key").eq("UploadId", u.id).eq("StorageClass", "STANDARD_IA").eq("MaxParts", "1000")
		a.expect(a.text("Initiator/ID") != "" && a.text("Owner/ID") != "", "no initiator or no owner")
	}},
	{"parts-pages", "ListParts continues after part-number-marker", func(t *T) {
		u := t.begin("key")
		for _, n := range []int{1, 5, 10, 20, 10000} {
			u.part(n, fmt.Sprint(n))
		}
		a := t.get(u.ref(0)+"&max-parts=2").ok(200).eq("Part/PartNumber", "1", "5").eq("IsTruncated", "true").eq("NextPartNumberMarker", "5").eq("MaxParts", "2")
		a = t.get(u.ref(0)+"&max-parts=2&part-number-marker="+a.text("NextPartNumberMarker")).ok(200).eq("Part/PartNumber", "10", "20").eq("PartNumberMarker", "5")
		t.get(u.ref(0)+"&max-parts=2&part-number-marker="+a.text("NextPartNumberMarker")).ok(200).eq("Part/PartNumber", "10000").eq("IsTruncated", "false")
	}},
	{"parts-end", "NextPartNumberMarker of ListParts is the last listed part, even at the end, and 0 if no part is listed", func(t *T) {
		u := t.begin("key")
		t.get(u.ref(0)).ok(200).eq("NextPartNumberMarker", "0").eq("IsTruncated", "false")
		u.part(3, "content")
		t.get(u.ref(0)).ok(200).eq("NextPartNumberMarker", "3").eq("IsTruncated", "false")
		t.get(u.ref(0)+"&part-number-marker=3").ok(200).eq("PartNumberMarker", "3").eq("NextPartNumberMarker", "0").no("Part")
	}},
	{"parts-one-checksum", "a part of an object has only the checksum of the object's algorithm, whatever it was sent with", func(t *T) {
		u := t.begin("key")
		u.part(1, "content", sumHeader("CRC32", "content"))
		u.complete().ok(200)
		a := t.get("key?partNumber=1", "x-amz-checksum-mode: ENABLED").ok(206).has("x-amz-checksum-crc64nvme", sum("CRC64NVME", "content"))
		a.lacks("x-amz-checksum-crc32").has("x-amz-mp-parts-count", "1")
		t.get("key?attributes", "x-amz-object-attributes: ObjectParts").ok(200).eq("ObjectParts/Part/ChecksumCRC64NVME", sum("CRC64NVME", "content")).no("ObjectParts/Part/ChecksumCRC32")
	}},
	{"parts-of-none", "ListParts of an upload without parts returns no parts", func(t *T) {
		t.get(t.begin("key").ref(0)).ok(200).no("Part").eq("IsTruncated", "false")
	}},
	{"parts-unknown-upload", "ListParts of an upload that does not exist fails with NoSuchUpload", func(t *T) {
		t.get("key?uploadId=nonsense").fail(404, "NoSuchUpload")
	}},
	{"parts-of-completed", "ListParts of a completed upload fails with NoSuchUpload", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.complete().ok(200)
		t.get(u.ref(0)).fail(404, "NoSuchUpload")
	}},
	{"parts-bad-max", "ListParts with a max-parts that is not a number fails with InvalidArgument", func(t *T) {
		t.get(t.begin("key").ref(0)+"&max-parts=x").fail(400, "InvalidArgument")
	}},
	{"uploads", "ListMultipartUploads returns key, ID, time and storage class of each upload", func(t *T) {
		u := t.begin("key")
		a := t.get("?uploads").ok(200).doc("ListMultipartUploadsResult").eq("Upload/Key", "key").eq("Upload/UploadId", u.id).eq("Upload/StorageClass", "STANDARD").
			eq("Bucket", t.bucket()).eq("IsTruncated", "false").eq("MaxUploads", "1000")
		_, err := time.Parse(iso8601, a.text("Upload/Initiated"))
		a.expect(err == nil, "Initiated %q", a.text("Upload/Initiated"))
		a.expect(a.text("Upload/Initiator/ID") != "" && a.text("Upload/Owner/ID") != "", "no initiator or no owner")
	}},
	{"uploads-order", "uploads are sorted by key and then by start time", func(t *T) {
		b, a1, a2 := t.begin("b"), t.begin("a"), t.begin("a")
		t.get("?uploads").ok(200).eq("Upload/Key", "a", "a", "b").eq("Upload/UploadId", a1.id, a2.id, b.id)
	}},
	{"uploads-prefix", "ListMultipartUploads supports prefix", func(t *T) {
		t.begin("a/1")
		t.begin("b/1")
		t.get("?uploads&prefix=b").ok(200).eq("Upload/Key", "b/1").eq("Prefix", "b")
	}},
	{"uploads-delimiter", "ListMultipartUploads groups uploads into common prefixes", func(t *T) {
		t.begin("a/1")
		t.begin("a/2")
		t.begin("b")
		t.get("?uploads&delimiter=/").ok(200).eq("Upload/Key", "b").eq("CommonPrefixes/Prefix", "a/").eq("Delimiter", "/")
	}},
	{"uploads-pages", "ListMultipartUploads continues after both markers, and lists every upload once", func(t *T) {
		var want []string
		for _, key := range []string{"a", "a", "a", "b", "c"} {
			want = append(want, t.begin(key).id)
		}
		var got []string
		more := ""
		for range 5 {
			a := t.get("?uploads&max-uploads=2" + more).ok(200)
			got = append(got, a.all("Upload/UploadId")...)
			if a.text("IsTruncated") != "true" {
				break
			}
			more = "&key-marker=" + escape(a.text("NextKeyMarker")) + "&upload-id-marker=" + escape(a.text("NextUploadIdMarker"))
		}
		t.must(strings.Join(got, " ") == strings.Join(want, " "), "%q, want %q", got, want)
	}},
	{"uploads-key-marker", "key-marker alone continues after all uploads of the key", func(t *T) {
		t.begin("a")
		t.begin("a")
		t.begin("b")
		t.get("?uploads&key-marker=a").ok(200).eq("Upload/Key", "b").eq("KeyMarker", "a")
	}},
	{"uploads-marker-beneath-common-prefix", "a key-marker below a common prefix omits that prefix", func(t *T) {
		for _, key := range []string{"a/1", "a/2", "b"} {
			t.begin(key)
		}
		t.get("?uploads&delimiter=/&key-marker=a/1").ok(200).eq("Upload/Key", "b").no("CommonPrefixes")
	}},
	{"uploads-id-marker-alone", "upload-id-marker without key-marker has no effect", func(t *T) {
		t.begin("key")
		t.get("?uploads&upload-id-marker=nonsense").ok(200).eq("Upload/Key", "key").eq("UploadIdMarker", "")
	}},
	{"uploads-encoding", "ListMultipartUploads supports encoding-type=url", func(t *T) {
		t.begin("a%20b")
		a := t.get("?uploads&encoding-type=url").ok(200).eq("EncodingType", "url")
		a.expect(a.text("Upload/Key") != "a b" && unescape(a.text("Upload/Key")) == "a b", "%q", a.text("Upload/Key"))
	}},
	{"uploads-max-zero", "a negative max-uploads fails with InvalidArgument", func(t *T) {
		t.get("?uploads&max-uploads=-1").fail(400, "InvalidArgument")
	}},
	{"uploads-missing-bucket", "ListMultipartUploads of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?uploads").fail(404, "NoSuchBucket")
	}},
	{"uploads-empty", "ListMultipartUploads of a bucket without uploads returns no uploads", func(t *T) {
		t.get("?uploads").ok(200).no("Upload", "CommonPrefixes").eq("IsTruncated", "false")
	}},
}}
