package s3test

import (
	"time"
)

// lockable creates the bucket of the case with object lock.
func (t *T) lockable() {
	t.Helper()
	t.must(t.own == "", "the bucket of the case already exists")
	t.own = t.newBucket("x-amz-bucket-object-lock-enabled: true")
}

// until returns a retain-until date relative to the current time.
func until(in time.Duration) string { return time.Now().Add(in).UTC().Format("2006-01-02T15:04:05Z") }

// putSummed sends a PUT with the Content-MD5 that object lock requires.
func (t *T) putSummed(ref, doc string, headers ...string) *response {
	t.Helper()
	return t.try(ref, doc, append(headers, contentMD5(doc))...)
}

func retention(mode, date string) string {
	return `<Retention xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Mode>` + mode + "</Mode><RetainUntilDate>" + date + "</RetainUntilDate></Retention>"
}

func hold(status string) string {
	return `<LegalHold xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>` + status + "</Status></LegalHold>"
}

func lockDoc(rule string) string {
	return `<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><ObjectLockEnabled>Enabled</ObjectLockEnabled>` + rule + "</ObjectLockConfiguration>"
}

func defaultRetention(inside string) string {
	return "<Rule><DefaultRetention>" + inside + "</DefaultRetention></Rule>"
}

// badLockHeaders returns the rule that a PUT with lock headers is refused and stores nothing.
func badLockHeaders(named, says string, headers ...string) rule {
	return rule{named, says, func(t *T) {
		t.lockable()
		a := t.try("key", "content", append(headers, contentMD5("content"))...)
		a.expect(a.status == 400 && (a.text("Code") == "InvalidArgument" || a.text("Code") == "InvalidRequest"), "status %d", a.status)
		t.gone("key")
	}}
}

// lockedPut puts a version with lock headers and returns its ID.
func (t *T) lockedPut(headers ...string) string {
	t.Helper()
	return t.version("key", "content", append(headers, contentMD5("content"))...)
}

const bypass = "x-amz-bypass-governance-retention: true"

var objectLock = area{"object-lock", []rule{
	{"create-bucket", "a bucket created with object lock has versioning and object lock enabled", func(t *T) {
		t.lockable()
		t.get("?versioning").ok(200).eq("Status", "Enabled")
		t.get("?object-lock").ok(200).doc("ObjectLockConfiguration").eq("ObjectLockEnabled", "Enabled").no("Rule")
	}},
	{"not-configured", "GetObjectLockConfiguration of a bucket without object lock fails with ObjectLockConfigurationNotFoundError", func(t *T) {
		t.get("?object-lock").fail(404, "ObjectLockConfigurationNotFoundError")
	}},
	{"needs-versioning", "PutObjectLockConfiguration of a bucket without versioning fails with InvalidBucketState", func(t *T) {
		t.putSummed("?object-lock", lockDoc("")).fail(409, "InvalidBucketState")
	}},
	{"enable-later", "object lock can be enabled for an existing bucket with versioning", func(t *T) {
		t.versioned()
		t.putSummed("?object-lock", lockDoc("")).ok(200)
		t.get("?object-lock").ok(200).eq("ObjectLockEnabled", "Enabled")
	}},
	{"keeps-versioning", "suspending versioning of a bucket with object lock fails with InvalidBucketState", func(t *T) {
		t.lockable()
		t.try("?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>").fail(409, "InvalidBucketState")
		t.get("?versioning").ok(200).eq("Status", "Enabled")
	}},
	{"default-comes-back", "GetObjectLockConfiguration returns the default retention", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Days>3</Days>"))).ok(200)
		t.get("?object-lock").ok(200).eq("Rule/DefaultRetention/Mode", "GOVERNANCE").eq("Rule/DefaultRetention/Days", "3").no("Rule/DefaultRetention/Years")
	}},
	{"default-applies", "the default retention applies to versions put without one", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Days>3</Days>"))).ok(200)
		t.put("key", "content", contentMD5("content"))
		a := t.head("key").ok(200).has("x-amz-object-lock-mode", "GOVERNANCE")
		when, err := time.Parse(time.RFC3339, a.set("x-amz-object-lock-retain-until-date"))
		a.expect(err == nil && time.Until(when) > 2*24*time.Hour && time.Until(when) < 4*24*time.Hour, "%v", when)
	}},
	{"default-years", "a default retention may be in years", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Years>1</Years>"))).ok(200)
		t.put("key", "content", contentMD5("content"))
		a := t.head("key").ok(200)
		when, err := time.Parse(time.RFC3339, a.set("x-amz-object-lock-retain-until-date"))
		a.expect(err == nil && time.Until(when) > 360*24*time.Hour && time.Until(when) < 370*24*time.Hour, "%v", when)
	}},
	{"default-does-not-beat", "the lock headers of a request take precedence over the default retention", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Days>30</Days>"))).ok(200)
		when := until(48 * time.Hour)
		t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+when)
		a := t.head("key").ok(200)
		got, err := time.Parse(time.RFC3339, a.set("x-amz-object-lock-retain-until-date"))
		a.expect(err == nil && time.Until(got) < 3*24*time.Hour, "%v", got)
	}},
	{"default-both", "a default retention with both days and years fails with MalformedXML", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Days>3</Days><Years>1</Years>"))).fail(400, "MalformedXML")
	}},
	{"default-neither", "a default retention with neither days nor years fails with MalformedXML", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode>"))).fail(400, "MalformedXML")
	}},
	{"default-zero-days", "a default retention of 0 days fails with InvalidArgument", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>GOVERNANCE</Mode><Days>0</Days>"))).fail(400, "InvalidArgument")
	}},
	{"default-bad-mode", "a default retention with an unknown mode fails with MalformedXML", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", lockDoc(defaultRetention("<Mode>STRICT</Mode><Days>3</Days>"))).fail(400, "MalformedXML")
	}},
	{"not-enabled-status", "an ObjectLockEnabled other than Enabled fails with MalformedXML", func(t *T) {
		t.lockable()
		t.putSummed("?object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Disabled</ObjectLockEnabled></ObjectLockConfiguration>").fail(400, "MalformedXML")
	}},
	{"headers", "GET and HEAD return the lock headers of a PUT", func(t *T) {
		t.lockable()
		when := until(48 * time.Hour)
		t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+when, "x-amz-object-lock-legal-hold: ON")
		for _, a := range []*response{t.get("key").ok(200), t.head("key").ok(200)} {
			a.has("x-amz-object-lock-mode", "GOVERNANCE").has("x-amz-object-lock-legal-hold", "ON")
			got, err := time.Parse(time.RFC3339, a.set("x-amz-object-lock-retain-until-date"))
			want, _ := time.Parse(time.RFC3339, when)
			a.expect(err == nil && got.Equal(want), "%v", got)
		}
	}},
	{"headers-of-upload", "lock headers of CreateMultipartUpload apply to the object", func(t *T) {
		t.lockable()
		u := t.begin("key", "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(48*time.Hour))
		u.part(1, "content", contentMD5("content"))
		u.complete().ok(200)
		t.head("key").ok(200).has("x-amz-object-lock-mode", "GOVERNANCE")
	}},
	{"headers-of-copy", "lock headers of CopyObject apply to the copy, and the lock of the source is not copied", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.put("a", nil, t.from("key"))
		t.head("a").ok(200).lacks("x-amz-object-lock-legal-hold")
		t.put("b", nil, t.from("key"), "x-amz-object-lock-legal-hold: ON")
		t.head("b").ok(200).has("x-amz-object-lock-legal-hold", "ON")
	}},
	badLockHeaders("mode-alone", "a lock mode without a date is refused", "x-amz-object-lock-mode: GOVERNANCE"),
	badLockHeaders("date-alone", "a retain-until date without a mode is refused", "x-amz-object-lock-retain-until-date: 2099-01-01T00:00:00Z"),
	badLockHeaders("date-past", "a retain-until date in the past is refused", "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: 2015-01-01T00:00:00Z"),
	badLockHeaders("date-nonsense", "an invalid retain-until date is refused", "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: tomorrow"),
	badLockHeaders("mode-nonsense", "an unknown lock mode is refused", "x-amz-object-lock-mode: STRICT", "x-amz-object-lock-retain-until-date: 2099-01-01T00:00:00Z"),
	badLockHeaders("hold-nonsense", "a legal hold other than ON and OFF is refused", "x-amz-object-lock-legal-hold: MAYBE"),
	{"headers-without-lock", "lock headers in a bucket without object lock fail with InvalidRequest", func(t *T) {
		t.try("key", "content", "x-amz-object-lock-legal-hold: ON", contentMD5("content")).fail(400, "InvalidRequest")
		t.gone("key")
	}},
	{"governance-keeps", "DELETE of a version under governance fails with AccessDenied, and the version is kept", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(time.Hour))
		t.del("key?versionId="+id).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"governance-bypass", "DELETE of a version under governance with the bypass header deletes the version", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(time.Hour))
		t.del("key?versionId="+id, bypass).ok(204)
		t.get("?versions").ok(200).no("Version")
	}},
	{"bypass-without-lock", "the bypass header has no effect in a bucket without object lock", func(t *T) {
		t.put("key", "content")
		t.del("key", bypass).ok(204)
		t.gone("key")
		t.fill("a")
		t.post("?delete", deleteDoc("a"), contentMD5(deleteDoc("a")), bypass).ok(200).eq("Deleted/Key", "a")
	}},
	{"empty-document", "an empty object lock, retention or legal hold document fails with MissingRequestBodyError", func(t *T) {
		t.lockable()
		t.put("key", "content", contentMD5("content"))
		for _, ref := range []string{"?object-lock", "key?retention", "key?legal-hold"} {
			t.putSummed(ref, "").fail(400, "MissingRequestBodyError")
			t.try(ref, "", sumHeader("CRC32", "")).fail(400, "MissingRequestBodyError")
		}
	}},
	{"compliance-keeps", "DELETE of a version under compliance fails with AccessDenied, with or without the bypass header", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-mode: COMPLIANCE", "x-amz-object-lock-retain-until-date: "+until(time.Minute))
		t.del("key?versionId="+id).fail(403, "AccessDenied")
		t.del("key?versionId="+id, bypass).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"hold-keeps", "DELETE of a version under legal hold fails with AccessDenied, even with the bypass header, until the hold is off", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.del("key?versionId="+id).fail(403, "AccessDenied")
		t.del("key?versionId="+id, bypass).fail(403, "AccessDenied")
		t.putSummed("key?legal-hold", hold("OFF")).ok(200)
		t.del("key?versionId=" + id).ok(204)
	}},
	{"marker-is-allowed", "DELETE without a version creates a delete marker over a locked version, which is kept", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.mark("key")
		t.holds("key?versionId="+id, "content")
	}},
	{"overwrite-is-allowed", "PUT over a locked version creates a new one, and the locked one is kept", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.put("key", "new", contentMD5("new"))
		t.holds("key", "new")
		t.holds("key?versionId="+id, "content")
	}},
	{"delete-objects", "DeleteObjects of a locked version results in an Error AccessDenied in a 200 response, and succeeds with the bypass header", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(time.Hour))
		doc := deleteDoc("<Key>key</Key><VersionId>" + id + "</VersionId>")
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Error/Code", "AccessDenied").no("Deleted")
		t.holds("key", "content")
		t.post("?delete", doc, contentMD5(doc), bypass).ok(200).eq("Deleted/Key", "key").no("Error")
	}},
	{"put-retention", "GetObjectRetention returns what PutObjectRetention has set", func(t *T) {
		t.lockable()
		t.lockedPut()
		when := until(time.Hour)
		t.putSummed("key?retention", retention("GOVERNANCE", when)).ok(200)
		a := t.get("key?retention").ok(200).doc("Retention").eq("Mode", "GOVERNANCE")
		got, err := time.Parse(time.RFC3339, a.text("RetainUntilDate"))
		want, _ := time.Parse(time.RFC3339, when)
		a.expect(err == nil && got.Equal(want), "%v", got)
	}},
	{"get-retention-none", "GetObjectRetention of a version without retention fails with NoSuchObjectLockConfiguration", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.get("key?retention").fail(404, "NoSuchObjectLockConfiguration")
	}},
	{"retention-extended", "retention can be extended", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(time.Hour))
		t.putSummed("key?retention", retention("GOVERNANCE", until(2*time.Hour))).ok(200)
	}},
	{"governance-shortened", "governance cannot be shortened without the bypass header", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(2*time.Hour))
		t.putSummed("key?retention", retention("GOVERNANCE", until(time.Hour))).fail(403, "AccessDenied")
		t.putSummed("key?retention", retention("GOVERNANCE", until(time.Hour)), bypass).ok(200)
	}},
	{"compliance-shortened", "compliance cannot be shortened, even with the bypass header", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-mode: COMPLIANCE", "x-amz-object-lock-retain-until-date: "+until(2*time.Minute))
		t.putSummed("key?retention", retention("COMPLIANCE", until(time.Minute))).fail(403, "AccessDenied")
		t.putSummed("key?retention", retention("COMPLIANCE", until(time.Minute)), bypass).fail(403, "AccessDenied")
	}},
	{"compliance-to-governance", "compliance cannot be changed to governance, even with the bypass header", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-mode: COMPLIANCE", "x-amz-object-lock-retain-until-date: "+until(time.Minute))
		t.putSummed("key?retention", retention("GOVERNANCE", until(time.Hour)), bypass).fail(403, "AccessDenied")
	}},
	{"retention-past", "PutObjectRetention with a date in the past fails with InvalidArgument", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.putSummed("key?retention", retention("GOVERNANCE", until(-time.Hour))).fail(400, "InvalidArgument")
	}},
	{"retention-bad-mode", "PutObjectRetention with an unknown mode fails with MalformedXML", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.putSummed("key?retention", retention("STRICT", until(time.Hour))).fail(400, "MalformedXML")
	}},
	{"retention-without-lock", "PutObjectRetention in a bucket without object lock fails with InvalidRequest", func(t *T) {
		t.put("key", "content")
		t.putSummed("key?retention", retention("GOVERNANCE", until(time.Hour))).fail(400, "InvalidRequest")
		t.get("key?retention").fail(400, "InvalidRequest")
	}},
	{"retention-missing-key", "PutObjectRetention and GetObjectRetention of a key that does not exist fail with NoSuchKey", func(t *T) {
		t.lockable()
		t.putSummed("key?retention", retention("GOVERNANCE", until(time.Hour))).fail(404, "NoSuchKey")
		t.get("key?retention").fail(404, "NoSuchKey")
	}},
	{"retention-of-version", "the retention of a version does not apply to other versions", func(t *T) {
		t.lockable()
		id := t.lockedPut()
		t.lockedPut()
		t.putSummed("key?retention&versionId="+id, retention("GOVERNANCE", until(time.Hour))).ok(200)
		t.get("key?retention").fail(404, "NoSuchObjectLockConfiguration")
		t.get("key?retention&versionId="+id).ok(200).eq("Mode", "GOVERNANCE")
	}},
	{"put-hold", "GetObjectLegalHold returns what PutObjectLegalHold has set", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.putSummed("key?legal-hold", hold("ON")).ok(200)
		t.get("key?legal-hold").ok(200).doc("LegalHold").eq("Status", "ON")
		t.putSummed("key?legal-hold", hold("OFF")).ok(200)
		t.get("key?legal-hold").ok(200).eq("Status", "OFF")
	}},
	{"get-hold-none", "GetObjectLegalHold of a version without one fails with NoSuchObjectLockConfiguration", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.get("key?legal-hold").fail(404, "NoSuchObjectLockConfiguration")
	}},
	{"hold-bad-status", "PutObjectLegalHold with an unknown status fails with MalformedXML", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.putSummed("key?legal-hold", hold("MAYBE")).fail(400, "MalformedXML")
	}},
	{"hold-without-lock", "PutObjectLegalHold in a bucket without object lock fails with InvalidRequest", func(t *T) {
		t.put("key", "content")
		t.putSummed("key?legal-hold", hold("ON")).fail(400, "InvalidRequest")
	}},
	{"hold-and-retention", "legal hold and retention are independent", func(t *T) {
		t.lockable()
		id := t.lockedPut("x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until(time.Hour), "x-amz-object-lock-legal-hold: ON")
		t.del("key?versionId="+id, bypass).fail(403, "AccessDenied")
		t.putSummed("key?legal-hold", hold("OFF")).ok(200)
		t.get("key?retention").ok(200).eq("Mode", "GOVERNANCE")
		t.del("key?versionId="+id).fail(403, "AccessDenied")
	}},
	{"put-needs-integrity", "a PUT with a lock needs Content-MD5 or a checksum", func(t *T) {
		t.lockable()
		t.try("key", "content", "x-amz-object-lock-legal-hold: ON").fail(400, "InvalidRequest")
		t.put("key", "content", "x-amz-object-lock-legal-hold: ON", sumHeader("CRC32", "content"))
	}},
	{"documents-need-integrity", "PutObjectRetention and PutObjectLegalHold need Content-MD5 or a checksum", func(t *T) {
		t.lockable()
		t.lockedPut()
		t.try("key?retention", retention("GOVERNANCE", until(time.Hour))).fail(400, "InvalidRequest")
		t.try("key?legal-hold", hold("ON")).fail(400, "InvalidRequest")
	}},
	{"bucket-stays", "a bucket with a locked version cannot be deleted", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.del("").fail(409, "BucketNotEmpty")
		t.putSummed("key?legal-hold", hold("OFF")).ok(200)
	}},
	{"tags-of-locked", "the tags of a locked version can be changed", func(t *T) {
		t.lockable()
		t.lockedPut("x-amz-object-lock-legal-hold: ON")
		t.tags("key", "a=1").ok(200)
		t.putSummed("key?legal-hold", hold("OFF")).ok(200)
	}},
}}
