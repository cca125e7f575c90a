package s3test

import (
	"fmt"
	"strings"
	"time"
)

// lifeDoc returns a lifecycle document with these rules.
func lifeDoc(rules ...string) string {
	return `<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + strings.Join(rules, "") + "</LifecycleConfiguration>"
}

// life returns a lifecycle rule.
func life(id, filter, actions string) string {
	return "<Rule><ID>" + id + "</ID><Status>Enabled</Status>" + filter + actions + "</Rule>"
}

const (
	everything = "<Filter><Prefix></Prefix></Filter>"
	threeDays  = "<Expiration><Days>3</Days></Expiration>"
)

// lifecycleOf sets the lifecycle of the bucket of the case.
func (t *T) lifecycleOf(rules ...string) *response {
	t.Helper()
	doc := lifeDoc(rules...)
	return t.try("?lifecycle", doc, contentMD5(doc))
}

// badLife returns the rule that a lifecycle is refused; code lists the allowed codes, separated by spaces.
func badLife(named, says, code string, rules ...string) rule {
	return rule{named, says, func(t *T) {
		a := t.lifecycleOf(rules...)
		a.expect(a.status == 400, "status %d", a.status)
		found := false
		for c := range strings.SplitSeq(code, " ") {
			found = found || a.text("Code") == c
		}
		a.expect(found, "code %s, want %s", a.text("Code"), code)
		t.get("?lifecycle").fail(404, "NoSuchLifecycleConfiguration")
	}}
}

// lifeComesBack returns the rule that a lifecycle is returned with these elements, each given as path=text.
func lifeComesBack(named, says, doc string, paths ...string) rule {
	return rule{named, says, func(t *T) {
		t.lifecycleOf(doc).ok(200)
		a := t.get("?lifecycle").ok(200).doc("LifecycleConfiguration")
		for _, p := range paths {
			path, want, _ := strings.Cut(p, "=")
			a.eq(path, want)
		}
	}}
}

var lifecycle = area{"lifecycle", []rule{
	{"never", "?lifecycle of a bucket without a configuration fails with NoSuchLifecycleConfiguration", func(t *T) {
		t.get("?lifecycle").fail(404, "NoSuchLifecycleConfiguration")
	}},
	{"delete", "DELETE ?lifecycle returns 204 and deletes the configuration", func(t *T) {
		t.lifecycleOf(life("a", everything, threeDays)).ok(200)
		t.del("?lifecycle").ok(204)
		t.get("?lifecycle").fail(404, "NoSuchLifecycleConfiguration")
		t.del("?lifecycle").ok(204)
	}},
	lifeComesBack("days", "expiration in days is returned", life("a", everything, threeDays), "Rule/ID=a", "Rule/Status=Enabled", "Rule/Expiration/Days=3", "Rule/Filter/Prefix="),
	lifeComesBack("date", "expiration at a date is returned", life("a", everything, "<Expiration><Date>2099-01-01T00:00:00Z</Date></Expiration>"), "Rule/Expiration/Date=2099-01-01T00:00:00.000Z"),
	lifeComesBack("marker", "the expiration of delete markers is returned", life("a", everything, "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"), "Rule/Expiration/ExpiredObjectDeleteMarker=true"),
	lifeComesBack("noncurrent", "the expiration of noncurrent versions is returned", life("a", everything, "<NoncurrentVersionExpiration><NoncurrentDays>5</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>"),
		"Rule/NoncurrentVersionExpiration/NoncurrentDays=5", "Rule/NoncurrentVersionExpiration/NewerNoncurrentVersions=2"),
	lifeComesBack("abort", "a rule that only aborts uploads is valid and is returned", life("a", everything, "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>"),
		"Rule/AbortIncompleteMultipartUpload/DaysAfterInitiation=7"),
	lifeComesBack("tag", "a filter by a tag is returned", life("a", "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>", threeDays), "Rule/Filter/Tag/Key=k", "Rule/Filter/Tag/Value=v"),
	lifeComesBack("size", "a filter by size is returned", life("a", "<Filter><ObjectSizeGreaterThan>100</ObjectSizeGreaterThan></Filter>", threeDays), "Rule/Filter/ObjectSizeGreaterThan=100"),
	lifeComesBack("and", "a filter with several criteria is returned", life("a", "<Filter><And><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>", threeDays),
		"Rule/Filter/And/Prefix=p/", "Rule/Filter/And/Tag/Key=k", "Rule/Filter/And/ObjectSizeGreaterThan=1", "Rule/Filter/And/ObjectSizeLessThan=9"),
	lifeComesBack("legacy-prefix", "a rule with the older Prefix is returned", "<Rule><ID>a</ID><Prefix>p/</Prefix><Status>Enabled</Status>"+threeDays+"</Rule>", "Rule/Prefix=p/"),
	lifeComesBack("disabled", "a disabled rule is returned", strings.Replace(life("a", everything, threeDays), "Enabled", "Disabled", 1), "Rule/Status=Disabled"),
	{"id-made", "a rule without an ID gets one", func(t *T) {
		t.lifecycleOf("<Rule><Status>Enabled</Status>" + everything + threeDays + "</Rule>").ok(200)
		a := t.get("?lifecycle").ok(200)
		a.expect(a.text("Rule/ID") != "", "no ID")
	}},
	{"replaces", "PutBucketLifecycleConfiguration replaces all rules", func(t *T) {
		t.lifecycleOf(life("a", everything, threeDays), life("b", "<Filter><Prefix>x</Prefix></Filter>", threeDays)).ok(200)
		t.lifecycleOf(life("c", everything, threeDays)).ok(200)
		t.get("?lifecycle").ok(200).eq("Rule/ID", "c")
	}},
	{"needs-integrity", "a lifecycle with a wrong Content-MD5 fails with BadDigest", func(t *T) {
		t.try("?lifecycle", lifeDoc(life("a", everything, threeDays)), contentMD5("else")).fail(400, "BadDigest")
	}},
	badLife("no-action", "a rule without an action is refused", "InvalidRequest", life("a", everything, "")),
	badLife("no-rules", "a lifecycle without a rule fails with MalformedXML", "MalformedXML"),
	badLife("zero-days", "expiration after 0 days fails with InvalidArgument", "InvalidArgument", life("a", everything, "<Expiration><Days>0</Days></Expiration>")),
	badLife("negative-days", "expiration after a negative number of days fails with InvalidArgument", "InvalidArgument", life("a", everything, "<Expiration><Days>-1</Days></Expiration>")),
	badLife("days-and-date", "expiration both after days and at a date fails with MalformedXML", "MalformedXML", life("a", everything, "<Expiration><Days>1</Days><Date>2099-01-01T00:00:00Z</Date></Expiration>")),
	badLife("date-not-midnight", "expiration at a date that is not midnight fails with InvalidArgument", "InvalidArgument", life("a", everything, "<Expiration><Date>2099-01-01T12:00:00Z</Date></Expiration>")),
	badLife("same-id", "two rules with the same ID are refused", "InvalidArgument", life("a", everything, threeDays), life("a", "<Filter><Prefix>x</Prefix></Filter>", threeDays)),
	badLife("long-id", "an ID of more than 255 characters fails with InvalidArgument", "InvalidArgument", life(strings.Repeat("i", 256), everything, threeDays)),
	badLife("bad-status", "a status other than Enabled and Disabled fails with MalformedXML", "MalformedXML", strings.Replace(life("a", everything, threeDays), "Enabled", "On", 1)),
	badLife("abort-with-tag", "aborting uploads by a tag fails with InvalidRequest", "InvalidRequest", life("a", "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>", "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>")),
	badLife("prefix-and-filter", "a rule with both Prefix and Filter fails with MalformedXML", "MalformedXML InvalidRequest", "<Rule><ID>a</ID><Prefix>p</Prefix>"+everything+"<Status>Enabled</Status>"+threeDays+"</Rule>"),
	badLife("not-xml", "a lifecycle that is not XML fails with MalformedXML", "MalformedXML", "<Rule>"),
	{"thousand-and-one", "more than 1000 rules are refused", func(t *T) {
		var rules []string
		for i := range 1001 {
			rules = append(rules, life(fmt.Sprint(i), fmt.Sprintf("<Filter><Prefix>%d/</Prefix></Filter>", i), threeDays))
		}
		a := t.lifecycleOf(rules...)
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"transition", "a transition is refused, because it would have no effect", func(t *T) {
		a := t.lifecycleOf(life("a", everything, "<Transition><Days>30</Days><StorageClass>GLACIER</StorageClass></Transition>"))
		a.expect(a.status == 501 || a.status == 400, "status %d", a.status)
		t.get("?lifecycle").fail(404, "NoSuchLifecycleConfiguration")
	}},
	{"missing-bucket", "?lifecycle of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?lifecycle").fail(404, "NoSuchBucket")
	}},
	{"expiration-header", "GET, HEAD and PUT return when an object expires, which is at midnight, and by which rule", func(t *T) {
		t.lifecycleOf(life("the rule", "<Filter><Prefix>logs/</Prefix></Filter>", threeDays)).ok(200)
		for _, a := range []*response{t.put("logs/a", "content"), t.head("logs/a").ok(200), t.get("logs/a").ok(200)} {
			v := a.set("x-amz-expiration")
			a.expect(strings.Contains(v, `rule-id="the rule"`) || strings.Contains(v, `rule-id="the%20rule"`), "%s", v)
			_, date, _ := strings.Cut(v, `expiry-date="`)
			date, _, _ = strings.Cut(date, `"`)
			when, err := time.Parse(time.RFC1123, date)
			a.expect(err == nil && when.Hour() == 0 && when.Minute() == 0 && time.Until(when) > 71*time.Hour && time.Until(when) <= 96*time.Hour, "%s", v)
		}
	}},
	{"expiration-in-real-days", "x-amz-expiration and x-amz-abort-date count days of 24 hours, whatever ORCAS_LIFECYCLE_DAY_SEC is", func(t *T) {
		t.lifecycleOf(life("i", "<Filter></Filter>", threeDays+"<AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation></AbortIncompleteMultipartUpload>")).ok(200)
		_, date, _ := strings.Cut(t.put("key", "content").set("x-amz-expiration"), `expiry-date="`)
		date, _, _ = strings.Cut(date, `"`)
		for _, date := range []string{date, t.post("key?uploads", nil).ok(200).set("x-amz-abort-date")} {
			when, err := time.Parse(time.RFC1123, date)
			t.must(err == nil && time.Until(when) > 71*time.Hour && time.Until(when) <= 96*time.Hour, "%q %v", date, err)
		}
	}},
	{"expiration-of-others", "an object that matches no rule has no x-amz-expiration", func(t *T) {
		t.lifecycleOf(life("a", "<Filter><Prefix>logs/</Prefix></Filter>", threeDays)).ok(200)
		t.put("other", "content").lacks("x-amz-expiration")
		t.head("other").ok(200).lacks("x-amz-expiration")
	}},
	{"expiration-by-tag", "x-amz-expiration depends on tags", func(t *T) {
		t.lifecycleOf(life("a", "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>", threeDays)).ok(200)
		t.put("yes", "content", "x-amz-tagging: k=v")
		t.put("no", "content", "x-amz-tagging: k=w")
		t.head("yes").ok(200).set("x-amz-expiration")
		t.head("no").ok(200).lacks("x-amz-expiration")
	}},
	{"expiration-by-size", "x-amz-expiration depends on the size", func(t *T) {
		t.lifecycleOf(life("a", "<Filter><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></Filter>", threeDays)).ok(200)
		t.put("large", "123456")
		t.put("small", "12345")
		t.head("large").ok(200).set("x-amz-expiration")
		t.head("small").ok(200).lacks("x-amz-expiration")
	}},
	{"expiration-disabled", "a disabled rule does not result in x-amz-expiration", func(t *T) {
		t.lifecycleOf(strings.Replace(life("a", everything, threeDays), "Enabled", "Disabled", 1)).ok(200)
		t.put("key", "content").lacks("x-amz-expiration")
	}},
}}
