package s3test

import (
	"fmt"
	"strings"
	"time"
)

// versioned enables versioning in the bucket of the case.
func (t *T) versioned() {
	t.Helper()
	t.put("?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
}

// suspended suspends versioning in the bucket of the case.
func (t *T) suspended() {
	t.Helper()
	t.put("?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")
}

// version puts a version and returns its ID.
func (t *T) version(ref, content string, headers ...string) string {
	t.Helper()
	return t.put(ref, content, headers...).set("x-amz-version-id")
}

// mark deletes a key and returns the ID of the delete marker.
func (t *T) mark(ref string) string {
	t.Helper()
	return t.del(ref).ok(204).has("x-amz-delete-marker", "true").set("x-amz-version-id")
}

var versioning = area{"versioning", []rule{
	{"enable", "GetBucketVersioning returns Enabled after PutBucketVersioning Enabled", func(t *T) {
		t.versioned()
		t.get("?versioning").ok(200).doc("VersioningConfiguration").eq("Status", "Enabled")
	}},
	{"suspend", "GetBucketVersioning returns Suspended after PutBucketVersioning Suspended", func(t *T) {
		t.versioned()
		t.suspended()
		t.get("?versioning").ok(200).eq("Status", "Suspended")
	}},
	{"bad-status", "a versioning status other than Enabled and Suspended fails with MalformedXML", func(t *T) {
		t.try("?versioning", "<VersioningConfiguration><Status>On</Status></VersioningConfiguration>").fail(400, "MalformedXML")
		a := t.get("?versioning").ok(200)
		a.no("Status")
	}},
	{"no-status", "a versioning document without a status fails with IllegalVersioningConfigurationException", func(t *T) {
		t.try("?versioning", "<VersioningConfiguration/>").fail(400, "IllegalVersioningConfigurationException")
	}},
	{"not-xml", "a versioning document that is not XML fails with MalformedXML", func(t *T) {
		t.try("?versioning", "Enabled").fail(400, "MalformedXML")
	}},
	{"missing-bucket", "PutBucketVersioning of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.try("/"+t.newName()+"?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>").fail(404, "NoSuchBucket")
	}},
	{"put-id", "each PUT has its own version ID", func(t *T) {
		t.versioned()
		a, b := t.version("key", "one"), t.version("key", "one")
		t.must(a != b && a != "null", "%s %s", a, b)
	}},
	{"get-current", "GET and HEAD without a version return the current one and its ID", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("key", "two")
		t.holds("key", "two")
		t.get("key").ok(200).has("x-amz-version-id", id)
		t.head("key").ok(200).has("x-amz-version-id", id)
	}},
	{"get-old", "GET and HEAD of a version return that version", func(t *T) {
		t.versioned()
		id := t.version("key", "one", "x-amz-meta-a: 1")
		t.version("key", "the second")
		t.holds("key?versionId="+id, "one")
		t.head("key?versionId="+id).ok(200).has("Content-Length", "3").has("x-amz-meta-a", "1").has("x-amz-version-id", id).has("ETag", `"`+md5Hex("one")+`"`)
	}},
	{"range-of-old", "a range of a version is taken from that version", func(t *T) {
		t.versioned()
		id := t.version("key", digits)
		t.version("key", "else")
		a := t.get("key?versionId="+id, "Range: bytes=2-5").ok(206)
		a.expect(a.body == "2345", "%q", a.body)
	}},
	{"condition-on-old", "a condition on a version applies to that version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.get("key?versionId="+id, `If-Match: "`+md5Hex("two")+`"`).fail(412, "PreconditionFailed")
		t.get("key?versionId="+id, `If-None-Match: "`+md5Hex("one")+`"`).ok(304)
	}},
	{"before-enabling", "an object from before versioning was enabled has the version ID null", func(t *T) {
		t.put("key", "old")
		t.versioned()
		t.holds("key?versionId=null", "old")
		t.get("key").ok(200).has("x-amz-version-id", "null")
		t.version("key", "new")
		t.holds("key?versionId=null", "old")
		t.holds("key", "new")
	}},
	{"id-nonsense", "an invalid version ID fails with InvalidArgument", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=nonsense").fail(400, "InvalidArgument")
	}},
	{"id-empty", "an empty version ID fails with InvalidArgument", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=").fail(400, "InvalidArgument")
	}},
	{"id-of-other-key", "the version ID of another key fails with NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("other", "two")
		t.get("key?versionId="+id).fail(404, "NoSuchVersion")
		t.head("key?versionId="+id).fail(404, "")
	}},
	{"null-missing", "the version null of a key without one fails with NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.get("key?versionId=null").fail(404, "NoSuchVersion")
	}},
	{"delete-marks", "DELETE without a version creates a delete marker and keeps the versions", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		marker := t.mark("key")
		t.must(marker != id, "the delete marker has the ID of the version")
		t.gone("key")
		t.holds("key?versionId="+id, "one")
		t.get("").ok(200).no("Contents")
	}},
	{"get-of-deleted", "GET and HEAD of a key whose current version is a delete marker return 404 with x-amz-delete-marker", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.get("key").fail(404, "NoSuchKey").has("x-amz-delete-marker", "true").has("x-amz-version-id", marker)
		t.head("key").fail(404, "").has("x-amz-delete-marker", "true")
	}},
	{"get-of-marker", "GET and HEAD of a delete marker by its ID return 405 with x-amz-delete-marker and Allow", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		a := t.get("key?versionId="+marker).fail(405, "MethodNotAllowed").has("x-amz-delete-marker", "true").has("Allow", "DELETE")
		a.set("Last-Modified")
		t.head("key?versionId="+marker).fail(405, "").has("x-amz-delete-marker", "true")
	}},
	{"delete-marker-undone", "deleting a delete marker by its ID restores the object", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.del("key?versionId="+marker).ok(204).has("x-amz-delete-marker", "true").has("x-amz-version-id", marker)
		t.holds("key", "one")
	}},
	{"delete-of-nothing", "DELETE of a key that never existed creates a delete marker", func(t *T) {
		t.versioned()
		marker := t.mark("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", marker)
	}},
	{"delete-twice", "DELETE twice creates two delete markers", func(t *T) {
		t.versioned()
		t.version("key", "one")
		a, b := t.mark("key"), t.mark("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", b, a).eq("DeleteMarker/IsLatest", "true", "false")
	}},
	{"delete-version", "DELETE of a version removes it permanently and returns its ID", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.del("key?versionId="+id).ok(204).has("x-amz-version-id", id).lacks("x-amz-delete-marker")
		t.get("key?versionId="+id).fail(404, "NoSuchVersion")
		t.holds("key", "two")
	}},
	{"delete-current-version", "after DELETE of the current version by its ID, the previous one is current", func(t *T) {
		t.versioned()
		t.version("key", "one")
		id := t.version("key", "two")
		t.del("key?versionId=" + id).ok(204)
		t.holds("key", "one")
	}},
	{"delete-last-version", "after DELETE of the only version, the key no longer exists and has no delete marker", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.del("key?versionId=" + id).ok(204)
		t.get("key").fail(404, "NoSuchKey").lacks("x-amz-delete-marker")
		t.get("?versions").ok(200).no("Version", "DeleteMarker")
	}},
	{"delete-version-twice", "DELETE of a version that no longer exists returns 204", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.del("key?versionId=" + id).ok(204)
		t.del("key?versionId=" + id).ok(204)
	}},
	{"delete-null", "DELETE of the version null keeps the others", func(t *T) {
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
	{"match-over-marker", "PUT If-Match over a delete marker fails with 404 NoSuchKey", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		t.try("key", "two", `If-Match: "`+md5Hex("one")+`"`).fail(404, "NoSuchKey")
	}},
	{"suspended-put-is-null", "a PUT after suspension creates the version null", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.put("key", "two")
		t.holds("key", "two")
		t.holds("key?versionId=null", "two")
		t.holds("key?versionId="+id, "one")
		t.head("key").ok(200).has("x-amz-version-id", "null")
	}},
	{"suspended-put-replaces-null", "a PUT after suspension replaces the version null, and no other", func(t *T) {
		t.put("key", "zero")
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.put("key", "two")
		t.put("key", "three")
		t.get("?versions").ok(200).eq("Version/VersionId", "null", id)
		t.holds("key", "three")
	}},
	{"suspended-delete", "a DELETE after suspension replaces the version null with a delete marker", func(t *T) {
		t.put("key", "zero")
		t.versioned()
		id := t.version("key", "one")
		t.suspended()
		t.del("key").ok(204).has("x-amz-delete-marker", "true").has("x-amz-version-id", "null")
		t.gone("key")
		t.get("?versions").ok(200).eq("DeleteMarker/VersionId", "null").eq("Version/VersionId", id)
	}},
	{"enabled-again", "a PUT after enabling versioning again keeps the version null", func(t *T) {
		t.versioned()
		t.suspended()
		t.put("key", "null")
		t.versioned()
		t.version("key", "two")
		t.holds("key?versionId=null", "null")
		t.holds("key", "two")
	}},
	{"copy-ids", "CopyObject returns the IDs of the new version and of the copied one", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		a := t.put("to", nil, t.from("from")).has("x-amz-copy-source-version-id", id)
		t.head("to").ok(200).has("x-amz-version-id", a.set("x-amz-version-id"))
	}},
	{"copy-of-version", "CopyObject copies the version named by the source", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		t.version("from", "two")
		t.put("to", nil, t.from("from?versionId="+id)).has("x-amz-copy-source-version-id", id)
		t.holds("to", "one")
	}},
	{"copy-restores", "a version copied onto its own key becomes the current version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "two")
		t.put("key", nil, t.from("key?versionId="+id))
		t.holds("key", "one")
		a := t.get("?versions").ok(200)
		a.expect(len(a.all("Version/VersionId")) == 3, "%q", a.all("Version/VersionId"))
	}},
	{"copy-of-deleted", "a copy of a key whose current version is a delete marker fails with NoSuchKey", func(t *T) {
		t.versioned()
		t.version("from", "one")
		t.mark("from")
		t.try("to", nil, t.from("from")).fail(404, "NoSuchKey")
	}},
	{"copy-of-marker", "a copy of a delete marker by its ID fails with InvalidRequest", func(t *T) {
		t.versioned()
		t.version("from", "one")
		marker := t.mark("from")
		t.try("to", nil, t.from("from?versionId="+marker)).fail(400, "InvalidRequest")
	}},
	{"copy-of-missing-version", "a copy of a version that does not exist fails with NoSuchVersion", func(t *T) {
		t.versioned()
		t.version("from", "one")
		id := t.version("other", "two")
		t.try("to", nil, t.from("from?versionId="+id)).fail(404, "NoSuchVersion")
	}},
	{"complete-id", "CompleteMultipartUpload returns the ID of the new version", func(t *T) {
		t.versioned()
		t.version("key", "one")
		u := t.begin("key")
		u.part(1, "two")
		id := u.complete().ok(200).set("x-amz-version-id")
		t.holds("key?versionId="+id, "two")
		a := t.get("?versions").ok(200)
		a.expect(len(a.all("Version/VersionId")) == 2, "%q", a.all("Version/VersionId"))
	}},
	{"part-copy-of-version", "UploadPartCopy copies the version named by the source", func(t *T) {
		t.versioned()
		id := t.version("from", "one")
		t.version("from", "two")
		u := t.begin("key")
		t.put(u.ref(1), nil, t.from("from?versionId="+id)).eq("ETag", `"`+md5Hex("one")+`"`)
	}},
	{"delete-objects-marks", "DeleteObjects without versions creates delete markers and returns them", func(t *T) {
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
	{"delete-objects-marker", "DeleteObjects with the ID of a delete marker removes it and returns its ID", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.deleteAll("<Key>key</Key><VersionId>"+marker+"</VersionId>").ok(200).eq("Deleted/DeleteMarker", "true").eq("Deleted/DeleteMarkerVersionId", marker)
		t.holds("key", "one")
	}},
	{"delete-objects-same-key", "DeleteObjects accepts several versions of a key", func(t *T) {
		t.versioned()
		a, b := t.version("key", "one"), t.version("key", "two")
		t.deleteAll("<Key>key</Key><VersionId>"+a+"</VersionId>", "<Key>key</Key><VersionId>"+b+"</VersionId>").ok(200).no("Error")
		t.get("?versions").ok(200).no("Version", "DeleteMarker")
	}},
	{"bucket-with-versions", "deleting a bucket with only noncurrent versions or delete markers fails with BucketNotEmpty", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		marker := t.mark("key")
		t.del("").fail(409, "BucketNotEmpty")
		t.del("key?versionId=" + id).ok(204)
		t.del("").fail(409, "BucketNotEmpty")
		t.del("key?versionId=" + marker).ok(204)
		t.del("").ok(204)
	}},
	{"put-with-version", "PUT with a version ID is refused", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		a := t.try("key?versionId="+id, "two")
		a.expect(a.status == 400 || a.status == 405 || a.status == 501, "status %d", a.status)
		t.holds("key", "one")
	}},
	{"acl-of-version", "GetObjectAcl accepts a version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.mark("key")
		t.get("key?acl&versionId="+id).ok(200).eq("AccessControlList/Grant/Permission", "FULL_CONTROL")
	}},
	{"order-is-of-writes", "versions written in quick succession are listed in that order", func(t *T) {
		t.versioned()
		var ids []string
		for i := range 20 {
			ids = append([]string{t.version("key", fmt.Sprint(i))}, ids...)
		}
		t.get("?versions").ok(200).eq("Version/VersionId", ids...)
	}},
	{"listing-hides", "ListObjects lists current versions only, each key once", func(t *T) {
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
	{"entries", "ListObjectVersions returns key, ID, time, ETag, size, storage class and owner of a version", func(t *T) {
		t.versioned()
		id := t.version("key", "content")
		a := t.get("?versions").ok(200).doc("ListVersionsResult").eq("Name", t.bucket()).eq("Version/Key", "key").eq("Version/VersionId", id).eq("Version/IsLatest", "true").
			eq("Version/ETag", `"`+md5Hex("content")+`"`).eq("Version/Size", "7").eq("Version/StorageClass", "STANDARD").eq("IsTruncated", "false").eq("MaxKeys", "1000")
		_, err := time.Parse(iso8601, a.text("Version/LastModified"))
		a.expect(err == nil && a.text("Version/Owner/ID") != "", "time or owner")
	}},
	{"markers", "a delete marker has key, ID, time and owner, but neither ETag nor size", func(t *T) {
		t.versioned()
		id := t.mark("key")
		a := t.get("?versions").ok(200).eq("DeleteMarker/Key", "key").eq("DeleteMarker/VersionId", id).eq("DeleteMarker/IsLatest", "true").no("DeleteMarker/ETag", "DeleteMarker/Size", "Version")
		a.expect(a.text("DeleteMarker/Owner/ID") != "" && a.text("DeleteMarker/LastModified") != "", "time or owner")
	}},
	{"order", "versions are sorted by key, the newest of a key first, with delete markers among them", func(t *T) {
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
	{"unversioned", "without versioning every object is listed with the version ID null", func(t *T) {
		t.fill("a", "b")
		t.get("?versions").ok(200).eq("Version/Key", "a", "b").eq("Version/VersionId", "null", "null").eq("Version/IsLatest", "true", "true")
	}},
	{"pages", "ListObjectVersions continues after both markers, and lists every version once", func(t *T) {
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
			t.must(got == strings.Join(want, " "), "by %d: %s, want %q", n, got, want)
		}
	}},
	{"key-marker", "key-marker alone continues after all versions of the key", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.version("a", "2")
		t.version("b", "1")
		t.get("?versions&key-marker=a").ok(200).eq("Version/Key", "b").eq("KeyMarker", "a")
	}},
	{"key-marker-beneath-common-prefix", "ListObjectVersions with a key-marker below a common prefix omits that prefix", func(t *T) {
		t.versioned()
		for _, key := range []string{"a/1", "a/2", "b"} {
			t.version(key, "content")
		}
		t.get("?versions&delimiter=/&key-marker=a/1").ok(200).eq("Version/Key", "b").no("CommonPrefixes")
	}},
	{"version-marker-alone", "version-id-marker without key-marker fails with InvalidArgument", func(t *T) {
		t.versioned()
		id := t.version("a", "1")
		t.get("?versions&version-id-marker="+id).fail(400, "InvalidArgument")
	}},
	{"version-marker-nonsense", "an invalid version-id-marker fails with InvalidArgument", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.get("?versions&key-marker=a&version-id-marker=nonsense").fail(400, "InvalidArgument")
	}},
	{"prefix", "ListObjectVersions supports prefix", func(t *T) {
		t.versioned()
		t.version("a/1", "x")
		t.version("b/1", "x")
		t.get("?versions&prefix=b").ok(200).eq("Version/Key", "b/1").eq("Prefix", "b")
	}},
	{"delimiter", "ListObjectVersions groups versions and delete markers into common prefixes", func(t *T) {
		t.versioned()
		t.version("a/1", "x")
		t.mark("b/1")
		t.version("c", "x")
		t.get("?versions&delimiter=/").ok(200).eq("CommonPrefixes/Prefix", "a/", "b/").eq("Version/Key", "c").eq("Delimiter", "/")
	}},
	{"encoding", "ListObjectVersions supports encoding-type=url", func(t *T) {
		t.versioned()
		t.version("a%20b", "x")
		a := t.get("?versions&encoding-type=url").ok(200).eq("EncodingType", "url")
		a.expect(a.text("Version/Key") != "a b" && unescape(a.text("Version/Key")) == "a b", "%q", a.text("Version/Key"))
	}},
	{"max-keys-zero", "ListObjectVersions with max-keys=0 returns an empty page that is not truncated", func(t *T) {
		t.versioned()
		t.version("a", "x")
		t.get("?versions&max-keys=0").ok(200).eq("IsTruncated", "false").no("Version")
	}},
	{"max-keys-nonsense", "ListObjectVersions with a max-keys that is not a number fails with InvalidArgument", func(t *T) {
		t.get("?versions&max-keys=x").fail(400, "InvalidArgument")
	}},
	{"missing-bucket", "ListObjectVersions of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?versions").fail(404, "NoSuchBucket")
	}},
	{"just-full", "a page of versions that is exactly full is not truncated", func(t *T) {
		t.versioned()
		t.version("a", "1")
		t.version("a", "2")
		t.get("?versions&max-keys=2").ok(200).eq("IsTruncated", "false").no("NextKeyMarker", "NextVersionIdMarker")
	}},
}}
