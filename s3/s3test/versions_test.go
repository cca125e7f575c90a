package s3test

import (
	"fmt"
	"strings"
	"time"
)

// versioned makes the bucket of the case keep versions.
func (t *T) versioned() {
	t.Helper()
	t.put("?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
}

// suspended makes the bucket of the case keep no more versions.
func (t *T) suspended() {
	t.Helper()
	t.put("?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
}

// version puts a version and returns its id.
func (t *T) version(ref, content string, headers ...string) string {
	t.Helper()
	return t.put(ref, content, headers...).set("x-amz-version-id")
}

// mark deletes a key and returns the id of the delete marker.
func (t *T) mark(ref string) string {
	t.Helper()
	return t.del(ref).ok(204).has("x-amz-delete-marker", "true").set("x-amz-version-id")
}

var versioning = area{"versioning", []rule{
	{"enable", "PutBucketVersioning Enabled comes back from GetBucketVersioning", func(t *T) {
		t.versioned()
		t.get("?versioning").ok(200).doc("VersioningConfiguration").eq("Status", "Enabled")
	}},
	{"suspend", "PutBucketVersioning Suspended comes back from GetBucketVersioning", func(t *T) {
		t.versioned()
		t.suspended()
		t.get("?versioning").ok(200).eq("Status", "Suspended")
	}},
	{"bad-status", "a versioning status other than Enabled and Suspended is MalformedXML", func(t *T) {
		t.try("?versioning", "<VersioningConfiguration><Status>On</Status></VersioningConfiguration>").fail(400, "MalformedXML")
		a := t.get("?versioning").ok(200)
		a.no("Status")
	}},
	{"no-status", "a versioning document without a status is IllegalVersioningConfigurationException", func(t *T) {
		t.try("?versioning", "<VersioningConfiguration/>").fail(400, "IllegalVersioningConfigurationException")
	}},
	{"not-xml", "a versioning document that is no XML is MalformedXML", func(t *T) {
		t.try("?versioning", "Enabled").fail(400, "MalformedXML")
	}},
	{"missing-bucket", "PutBucketVersioning of a bucket that is not there is NoSuchBucket", func(t *T) {
		t.try("/"+t.newName()+"?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>").fail(404, "NoSuchBucket")
	}},
	{"put-id", "each PUT has a version id of its own", func(t *T) {
		t.versioned()
		a, b := t.version("key", "one"), t.version("key", "one")
		t.must(a != b && a != "null", "%s %s", a, b)
	}},
	{"get-current", "GET and HEAD without a version are the current one, and tell its id", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("key", "two")
		t.holds("key", "two")
		t.get("key").ok(200).has("x-amz-version-id", id)
		t.head("key").ok(200).has("x-amz-version-id", id)
	}},
	{"get-old", "GET and HEAD of a version are that version", func(t *T) {
		t.versioned()
		id := t.version("key", "one", "x-amz-meta-a: 1")
		t.version("key", "the second")
		t.holds("key?versionId="+id, "one")
		t.head("key?versionId="+id).ok(200).has("Content-Length", "3").has("x-amz-meta-a", "1").has("x-amz-version-id", id).has("ETag", `"`+md5Hex("one")+`"`)
	}},
	{"range-of-old", "a range of a version is of that version", func(t *T) {
		t.versioned()
		id := t.version("key", digits)
		t.version("key", "else")
		a := t.get("key?versionId="+id, "Range: bytes=2-5").ok(206)
		a.expect(a.body == "2345", "%q", a.body)
	}},
	{"condition-on-old", "a condition on a version is about that version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.get("key?versionId="+id, `If-Match: "`+md5Hex("two")+`"`).fail(412, "PreconditionFailed")
		t.get("key?versionId="+id, `If-None-Match: "`+md5Hex("one")+`"`).ok(304)
	}},
	{"before-enabling", "an object from before versioning is its version null", func(t *T) {
		t.put("key", "old")
		t.versioned()
		t.holds("key?versionId=null", "old")
		t.get("key").ok(200).has("x-amz-version-id", "null")
		t.version("key", "new")
		t.holds("key?versionId=null", "old")
		t.holds("key", "new")
	}},
	{"id-nonsense", "a version id that is none is InvalidArgument", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=nonsense").fail(400, "InvalidArgument")
	}},
	{"id-empty", "an empty version id is InvalidArgument", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=").fail(400, "InvalidArgument")
	}},
	{"id-of-other-key", "the version id of another key is NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("other", "two")
		t.get("key?versionId="+id).fail(404, "NoSuchVersion")
		t.head("key?versionId="+id).fail(404, "")
	}},
	{"null-missing", "the version null of a key that has none is NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=null").fail(404, "NoSuchVersion")
	}},
	{"delete-marks", "DELETE without a version puts a delete marker, and the versions stay", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		marker := t.mark("key")
		t.must(marker != id, "one id")
		t.gone("key")
		t.holds("key?versionId="+id, "one")
		t.get("").ok(200).no("Contents")
	}},
	{"get-of-deleted", "GET and HEAD of a key whose current version is a delete marker are 404 with x-amz-delete-marker", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.get("key").fail(404, "NoSuchKey").has("x-amz-delete-marker", "true").has("x-amz-version-id", marker)
		t.head("key").fail(404, "").has("x-amz-delete-marker", "true")
	}},
	{"get-of-marker", "GET and HEAD of a delete marker by its id are 405 with x-amz-delete-marker and Allow", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		a := t.get("key?versionId="+marker).fail(405, "MethodNotAllowed").has("x-amz-delete-marker", "true").has("Allow", "DELETE")
		a.set("Last-Modified")
		t.head("key?versionId="+marker).fail(405, "").has("x-amz-delete-marker", "true")
	}},
	{"delete-marker-undone", "deleting a delete marker by its id brings the object back", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.del("key?versionId="+marker).ok(204).has("x-amz-delete-marker", "true").has("x-amz-version-id", marker)
		t.holds("key", "one")
	}},
	{"delete-of-nothing", "DELETE of a key that was never there puts a delete marker", func(t *T) {
		t.versioned()
		marker := t.mark("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", marker)
	}},
	{"delete-twice", "DELETE twice puts two delete markers", func(t *T) {
		t.versioned()
		t.version("key", "one")
		a, b := t.mark("key"), t.mark("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", b, a).eq("DeleteMarker/IsLatest", "true", "false")
	}},
	{"delete-version", "DELETE of a version removes it for good, and tells its id", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.del("key?versionId="+id).ok(204).has("x-amz-version-id", id).lacks("x-amz-delete-marker")
		t.get("key?versionId="+id).fail(404, "NoSuchVersion")
		t.holds("key", "two")
	}},
	{"delete-current-version", "after DELETE of the current version by its id the one before is current", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("key", "two")
		t.del("key?versionId=" + id).ok(204)
		t.holds("key", "one")
	}},
	{"delete-last-version", "after DELETE of the only version the key is gone, without a marker", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.del("key?versionId=" + id).ok(204)
		t.get("key").fail(404, "NoSuchKey").lacks("x-amz-delete-marker")
		t.get("?versions").ok(200).no("Version", "DeleteMarker")
	}},
	{"delete-version-twice", "DELETE of a version that is gone is 204", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.del("key?versionId=" + id).ok(204)
		t.del("key?versionId=" + id).ok(204)
	}},
	{"delete-null", "DELETE of the version null leaves the others", func(t *T) {
		t.put("key", "old")
		t.versioned()
		t.version("key", "new")
		t.del("key?versionId=null").ok(204).has("x-amz-version-id", "null")
		t.holds("key", "new")
		t.get("key?versionId=null").fail(404, "NoSuchVersion")
	}},
	{"put-over-marker", "PUT over a delete marker makes the key visible again", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.version("key", "two")
		t.holds("key", "two")
		t.get("").ok(200).eq("Contents/Key", "key")
	}},
	{"none-match-over-marker", "PUT If-None-Match: * over a delete marker is stored", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.put("key", "two", "If-None-Match: *")
		t.holds("key", "two")
	}},
	{"match-over-marker", "PUT If-Match over a delete marker is 404 NoSuchKey", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.try("key", "two", `If-Match: "`+md5Hex("one")+`"`).fail(404, "NoSuchKey")
	}},
	{"suspended-put-is-null", "after suspension a PUT is the version null", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.put("key", "two")
		t.holds("key", "two")
		t.holds("key?versionId=null", "two")
		t.holds("key?versionId="+id, "one")
		t.head("key").ok(200).has("x-amz-version-id", "null")
	}},
	{"suspended-put-replaces-null", "after suspension a PUT replaces the version null, and no other", func(t *T) {
		t.put("key", "zero")
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.put("key", "two")
		t.put("key", "three")
		t.get("?versions").ok(200).eq("Version/VersionId", "null", id)
		t.holds("key", "three")
	}},
	{"suspended-delete", "after suspension a DELETE puts a delete marker null in place of the version null", func(t *T) {
		t.put("key", "zero")
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.del("key").ok(204).has("x-amz-delete-marker", "true").has("x-amz-version-id", "null")
		t.gone("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", "null").eq("Version/VersionId", id)
	}},
	{"enabled-again", "enabled again, a PUT leaves the version null", func(t *T) {
		t.versioned()
		t.suspended()
		t.put("key", "null")
		t.versioned()
		t.version("key", "two")
		t.holds("key?versionId=null", "null")
		t.holds("key", "two")
	}},
	{"copy-ids", "CopyObject tells the version that it made and the one that it copied", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		a := t.put("to", nil, t.from("from")).has("x-amz-copy-source-version-id", id)
		t.head("to").ok(200).has("x-amz-version-id", a.set("x-amz-version-id"))
	}},
	{"copy-of-version", "CopyObject copies the version that the source names", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		t.version("from", "two")
		t.put("to", nil, t.from("from?versionId="+id)).has("x-amz-copy-source-version-id", id)
		t.holds("to", "one")
	}},
	{"copy-restores", "a version copied onto its own key is current again", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.put("key", nil, t.from("key?versionId="+id))
		t.holds("key", "one")
		a := t.get("?versions").ok(200)
		a.expect(len(a.all("Version/VersionId")) == 3, "%q", a.all("Version/VersionId"))
	}},
	{"copy-of-deleted", "a copy of a key whose current version is a delete marker is NoSuchKey", func(t *T) {
		t.versioned()
		t.version("from", "one")
		t.mark("from")
		t.try("to", nil, t.from("from")).fail(404, "NoSuchKey")
	}},
	{"copy-of-marker", "a copy of a delete marker by its id is InvalidRequest", func(t *T) {
		t.versioned()
		t.version("from", "one")
		marker := t.mark("from")
		t.try("to", nil, t.from("from?versionId="+marker)).fail(400, "InvalidRequest")
	}},
	{"copy-of-missing-version", "a copy of a version that is not there is NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("from", "one")
		id := t.version("other", "two")
		t.try("to", nil, t.from("from?versionId="+id)).fail(404, "NoSuchVersion")
	}},
	{"complete-id", "CompleteMultipartUpload tells the version that it made", func(t *T) {
		t.versioned()
		t.version("key", "one")
		u := t.begin("key")
		u.part(1, "two")
		id := u.complete().ok(200).set("x-amz-version-id")
		t.holds("key?versionId="+id, "two")
		a := t.get("?versions").ok(200)
		a.expect(len(a.all("Version/VersionId")) == 2, "%q", a.all("Version/VersionId"))
	}},
	{"part-copy-of-version", "UploadPartCopy copies the version that the source names", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		t.version("from", "two")
		u := t.begin("key")
		t.put(u.ref(1), nil, t.from("from?versionId="+id)).eq("ETag", `"`+md5Hex("one")+`"`)
	}},
	{"delete-objects-marks", "DeleteObjects without versions puts delete markers and tells them", func(t *T) {
		t.versioned()
		t.version("key", "one")
		a := t.deleteAll("key").ok(200).eq("Deleted/Key", "key").eq("Deleted/DeleteMarker", "true")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", a.text("Deleted/DeleteMarkerVersionId"))
	}},
	{"delete-objects-version", "DeleteObjects with a version removes that version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.deleteAll("<Key>key</Key><VersionId>"+id+"</VersionId>").ok(200).eq("Deleted/VersionId", id).no("Deleted/DeleteMarker")
		t.get("key?versionId="+id).fail(404, "NoSuchVersion")
		t.holds("key", "two")
	}},
	{"delete-objects-marker", "DeleteObjects with the id of a delete marker removes it and says so", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.deleteAll("<Key>key</Key><VersionId>"+marker+"</VersionId>").ok(200).eq("Deleted/DeleteMarker", "true").eq("Deleted/DeleteMarkerVersionId", marker)
		t.holds("key", "one")
	}},
	{"delete-objects-same-key", "DeleteObjects takes several versions of a key", func(t *T) {
		t.versioned()
		a, b := t.version("key", "one"), t.version("key", "two")
		t.deleteAll("<Key>key</Key><VersionId>"+a+"</VersionId>", "<Key>key</Key><VersionId>"+b+"</VersionId>").ok(200).no("Error")
		t.get("?versions").ok(200).no("Version", "DeleteMarker")
	}},
	{"bucket-with-versions", "a bucket with noncurrent versions or markers only is BucketNotEmpty", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		marker := t.mark("key")
		t.del("").fail(409, "BucketNotEmpty")
		t.del("key?versionId=" + id).ok(204)
		t.del("").fail(409, "BucketNotEmpty")
		t.del("key?versionId=" + marker).ok(204)
		t.del("").ok(204)
	}},
	{"put-with-version", "PUT with a version id is refused", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		a := t.try("key?versionId="+id, "two")
		a.expect(a.status == 400 || a.status == 405 || a.status == 501, "status %d", a.status)
		t.holds("key", "one")
	}},
	{"acl-of-version", "GetObjectAcl takes a version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.mark("key")
		t.get("key?acl&versionId="+id).ok(200).eq("AccessControlList/Grant/Permission", "FULL_CONTROL")
	}},
	{"order-is-of-writes", "versions written one behind the other at once are in that order", func(t *T) {
		t.versioned()
		var ids []string
		for i := range 20 {
			ids = append([]string{t.version("key", fmt.Sprint(i))}, ids...)
		}
		t.get("?versions").ok(200).eq("Version/VersionId", ids...)
	}},
	{"listing-hides", "ListObjects shows current versions only, each key once", func(t *T) {
		t.versioned()
		for range 3 {
			t.version("a", "x")
		}
		t.version("b", "x")
		t.mark("b")
		t.version("c", "x")
		t.get("?list-type=2&max-keys=2").ok(200).eq("Contents/Key", "a", "c").eq("IsTruncated", "false")
	}},
}}

var versionList = area{"versions-list", []rule{
	{"entries", "ListObjectVersions has key, id, time, ETag, size, class and owner of a version", func(t *T) {
		t.versioned()
		id := t.version("key", "content")
		a := t.get("?versions").ok(200).doc("ListVersionsResult").eq("Name", t.bucket()).eq("Version/Key", "key").eq("Version/VersionId", id).eq("Version/IsLatest", "true").
			eq("Version/ETag", `"`+md5Hex("content")+`"`).eq("Version/Size", "7").eq("Version/StorageClass", "STANDARD").eq("IsTruncated", "false").eq("MaxKeys", "1000")
		_, err := time.Parse(iso8601, a.text("Version/LastModified"))
		a.expect(err == nil && a.text("Version/Owner/ID") != "", "time or owner")
	}},
	{"markers", "a delete marker has key, id, time and owner, and neither ETag nor size", func(t *T) {
		t.versioned()
		id := t.mark("key")
		a := t.get("?versions").ok(200).eq("DeleteMarker/Key", "key").eq("DeleteMarker/VersionId", id).eq("DeleteMarker/IsLatest", "true").no("DeleteMarker/ETag", "DeleteMarker/Size", "Version")
		a.expect(a.text("DeleteMarker/Owner/ID") != "" && a.text("DeleteMarker/LastModified") != "", "time or owner")
	}},
	{"order", "versions are in the order of keys, the newest of a key first, and markers stand among them", func(t *T) {
		t.versioned()
		a1, b1 := t.version("a", "1"), t.version("b", "1")
		am := t.mark("a")
		a2 := t.version("a", "2")
		a := t.get("?versions").ok(200)
		var got []string
		for _, k := range a.root().kids {
			if k.name == "Version" || k.name == "DeleteMarker" {
				got = append(got, k.find("VersionId")[0].text)
			}
		}
		a.expect(strings.Join(got, " ") == strings.Join([]string{a2, am, a1, b1}, " "), "%q", got)
		a.eq("Version/IsLatest", "true", "false", "true").eq("DeleteMarker/IsLatest", "false")
	}},
	{"unversioned", "without versioning every object is listed as its version null", func(t *T) {
		t.fill("a", "b")
		t.get("?versions").ok(200).eq("Version/Key", "a", "b").eq("Version/VersionId", "null", "null").eq("Version/IsLatest", "true", "true")
	}},
	{"pages", "ListObjectVersions goes on behind both markers, and every version comes once", func(t *T) {
		t.put("b", "null")
		t.versioned()
		for range 3 {
			t.version("a", "x")
			t.version("b", "x")
		}
		t.mark("a")
		want := append(t.get("?versions").ok(200).all("Version/VersionId"), t.get("?versions").all("DeleteMarker/VersionId")...)
		t.must(len(want) == 8, "%q", want)
		for _, n := range []int{1, 2, 3} {
			var versions, markers []string
			more := ""
			for range 10 {
				a := t.get(fmt.Sprintf("?versions&max-keys=%d%s", n, more)).ok(200)
				versions, markers = append(versions, a.all("Version/VersionId")...), append(markers, a.all("DeleteMarker/VersionId")...)
				if a.text("IsTruncated") != "true" {
					break
				}
				a.expect(len(a.all("Version/Key"))+len(a.all("DeleteMarker/Key")) == n, "a short page in the middle")
				more = "&key-marker=" + escape(a.text("NextKeyMarker")) + "&version-id-marker=" + escape(a.text("NextVersionIdMarker"))
			}
			got := strings.Join(append(versions, markers...), " ")
			t.must(got == strings.Join(want, " "), "by %d: %s and not %q", n, got, want)
		}
	}},
	{"key-marker", "key-marker alone begins behind all versions of the key", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.version("a", "2")
		t.version("b", "1")
		t.get("?versions&key-marker=a").ok(200).eq("Version/Key", "b").eq("KeyMarker", "a")
	}},
	{"key-marker-beneath-common-prefix", "ListObjectVersions leaves out a common prefix that key-marker lies beneath", func(t *T) {
		t.versioned()
		for _, key := range []string{"a/1", "a/2", "b"} {
			t.version(key, "content")
		}
		t.get("?versions&delimiter=/&key-marker=a/1").ok(200).eq("Version/Key", "b").no("CommonPrefixes")
	}},
	{"version-marker-alone", "version-id-marker without key-marker is InvalidArgument", func(t *T) {
		t.versioned()
		id := t.version("a", "1")
		t.get("?versions&version-id-marker="+id).fail(400, "InvalidArgument")
	}},
	{"version-marker-nonsense", "a version-id-marker that is no version id is InvalidArgument", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.get("?versions&key-marker=a&version-id-marker=nonsense").fail(400, "InvalidArgument")
	}},
	{"prefix", "ListObjectVersions heeds prefix", func(t *T) {
		t.versioned()
		t.version("a/1", "x")
		t.version("b/1", "x")
		t.get("?versions&prefix=b").ok(200).eq("Version/Key", "b/1").eq("Prefix", "b")
	}},
	{"delimiter", "ListObjectVersions rolls up common prefixes, of delete markers too", func(t *T) {
		t.versioned()
		t.version("a/1", "x")
		t.mark("b/1")
		t.version("c", "x")
		t.get("?versions&delimiter=/").ok(200).eq("CommonPrefixes/Prefix", "a/", "b/").eq("Version/Key", "c").eq("Delimiter", "/")
	}},
	{"encoding", "ListObjectVersions heeds encoding-type=url", func(t *T) {
		t.versioned()
		t.version("a%20b", "x")
		a := t.get("?versions&encoding-type=url").ok(200).eq("EncodingType", "url")
		a.expect(a.text("Version/Key") != "a b" && unescape(a.text("Version/Key")) == "a b", "%q", a.text("Version/Key"))
	}},
	{"max-keys-zero", "ListObjectVersions with max-keys=0 is an empty page that is not truncated", func(t *T) {
		t.versioned()
		t.version("a", "x")
		t.get("?versions&max-keys=0").ok(200).eq("IsTruncated", "false").no("Version")
	}},
	{"max-keys-nonsense", "ListObjectVersions with a max-keys that is no number is InvalidArgument", func(t *T) {
		t.get("?versions&max-keys=x").fail(400, "InvalidArgument")
	}},
	{"missing-bucket", "ListObjectVersions of a bucket that is not there is NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?versions").fail(404, "NoSuchBucket")
	}},
	{"just-full", "a page of versions that is just full is not truncated", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.version("a", "2")
		t.get("?versions&max-keys=2").ok(200).eq("IsTruncated", "false").no("NextKeyMarker", "NextVersionIdMarker")
	}},
}}
