package s3_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	lifecycleRoot = `<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`
	day           = 24 * time.Hour
)

// lifecycleDoc returns a lifecycle document. Each of rules is the XML inside a Rule element.
func lifecycleDoc(rules ...string) []byte {
	doc := lifecycleRoot
	for _, r := range rules {
		doc += "<Rule>" + r + "</Rule>"
	}
	return []byte(doc + "</LifecycleConfiguration>")
}

const (
	on      = "<Status>Enabled</Status>"
	all     = "<Filter/>" + on
	oneDay  = "<Expiration><Days>1</Days></Expiration>"
	minimum = "X-Amz-Transition-Default-Minimum-Object-Size"
)

// TestLifecycleDocument checks that GET returns every field that PUT accepts.
func TestLifecycleDocument(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	a := w.do("GET", "/bucket?lifecycle", nil).is(404, "NoSuchLifecycleConfiguration").hasMessage("The lifecycle configuration does not exist")
	require.Contains(t, string(a.body), "<BucketName>bucket</BucketName>")
	w.do("DELETE", "/bucket?lifecycle", nil).is(204, "")
	w.do("GET", "/absent?lifecycle", nil).is(404, "NoSuchBucket")
	tag := "<Tag><Key>a</Key><Value>1</Value></Tag>"
	for _, rules := range [][]string{
		{
			"<ID>days</ID><Filter></Filter>" + on + "<Expiration><Days>3650</Days></Expiration>",
			"<ID>date</ID><Filter><Prefix>a&amp;b/</Prefix></Filter><Status>Disabled</Status><Expiration><Date>2030-01-31T00:00:00.000Z</Date></Expiration>",
			"<ID>marker</ID><Filter><Prefix></Prefix></Filter>" + on + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
			"<ID>no marker</ID><Filter></Filter>" + on + "<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>",
			"<ID>tag</ID><Filter>" + tag + "</Filter>" + on + oneDay,
			"<ID>large</ID><Filter><ObjectSizeGreaterThan>0</ObjectSizeGreaterThan></Filter>" + on + oneDay,
			"<ID>small</ID><Filter><ObjectSizeLessThan>1099511627776000</ObjectSizeLessThan></Filter>" + on + oneDay,
			"<ID>and</ID><Filter><And><Prefix>p</Prefix>" + tag + "<Tag><Key>b</Key><Value></Value></Tag><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>6</ObjectSizeLessThan></And></Filter>" + on + oneDay,
			"<ID>noncurrent</ID><Filter></Filter>" + on + "<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays><NewerNoncurrentVersions>100</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
			"<ID>abort</ID><Filter></Filter>" + on + "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
			"<ID>" + strings.Repeat("é", 255) + "</ID><Filter></Filter>" + on + oneDay + "<NoncurrentVersionExpiration><NoncurrentDays>2147483647</NoncurrentDays></NoncurrentVersionExpiration><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
		},
		{
			"<ID>old</ID><Prefix></Prefix>" + on + oneDay,
			"<ID>older</ID><Prefix>x/</Prefix>" + on + "<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>",
		},
	} {
		a := w.do("PUT", "/bucket?lifecycle", lifecycleDoc(rules...)).is(200, "")
		require.Empty(t, a.body)
		require.Equal(t, "all_storage_classes_128K", a.header.Get(minimum))
		a = w.do("GET", "/bucket?lifecycle", nil).is(200, "")
		require.Equal(t, "all_storage_classes_128K", a.header.Get(minimum))
		require.Contains(t, string(a.body), string(lifecycleDoc(rules...)))
	}
	// Elements in another order, a date without a time, a generated ID, and a minimum size.
	a = w.do("PUT", "/bucket?lifecycle", lifecycleDoc("<Expiration><Date>2030-01-31</Date></Expiration>"+on+"<Filter/>"), minimum, "varies_by_storage_class").is(200, "")
	require.Equal(t, "varies_by_storage_class", a.header.Get(minimum))
	a = w.do("GET", "/bucket?lifecycle", nil).is(200, "")
	require.Equal(t, "varies_by_storage_class", a.header.Get(minimum))
	require.Regexp(t, `<ID>[A-Za-z0-9]{48}</ID><Filter></Filter><Status>Enabled</Status><Expiration><Date>2030-01-31T00:00:00.000Z</Date></Expiration></Rule></Life`, string(a.body))
	w.do("PUT", "/bucket?lifecycle", lifecycleDoc(all+oneDay), minimum, "value").is(400, "InvalidRequest").hasMessage("Invalid TransitionDefaultMinimumObjectSize found: value")

	rules := make([]string, 1000)
	for i := range rules {
		rules[i] = fmt.Sprintf("<ID>%d</ID>%s%s", i, all, oneDay)
	}
	w.do("PUT", "/bucket?lifecycle", lifecycleDoc(rules...)).is(200, "")
	w.do("PUT", "/bucket?lifecycle", lifecycleDoc(append(rules, all+oneDay)...)).is(400, "MalformedXML")
	require.Equal(t, 1000, strings.Count(string(w.do("GET", "/bucket?lifecycle", nil).is(200, "").body), "<Rule>"))
	for range 2 {
		w.do("DELETE", "/bucket?lifecycle", nil).is(204, "")
		w.do("GET", "/bucket?lifecycle", nil).is(404, "NoSuchLifecycleConfiguration")
	}
	w.do("POST", "/bucket?lifecycle", nil).is(405, "MethodNotAllowed")
	w.do("GET", "/bucket/key?lifecycle", nil).is(501, "NotImplemented")
}

// TestLifecycleErrors checks that invalid documents are refused with the messages of S3, and are not stored.
func TestLifecycleErrors(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	const argument, request, malformed, notImplemented = "InvalidArgument", "InvalidRequest", "MalformedXML", "NotImplemented"
	filtered := func(filter string) string { return "<Filter>" + filter + "</Filter>" + on }
	const tag, size = "<Tag><Key>a</Key><Value>1</Value></Tag>", "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>"
	const noncurrent, abort = "<NoncurrentVersionExpiration><NoncurrentDays>%v</NoncurrentDays>%s</NoncurrentVersionExpiration>", "<AbortIncompleteMultipartUpload><DaysAfterInitiation>%v</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
	expire := func(inside string) string { return all + "<Expiration>" + inside + "</Expiration>" }
	newer := func(n string) string { return "<NewerNoncurrentVersions>" + n + "</NewerNoncurrentVersions>" }
	for _, c := range []struct {
		code, message string
		rules         []string
	}{
		{malformed, "", nil},
		{malformed, "", []string{"<Filter/>" + oneDay}},
		{malformed, "", []string{"<Filter/><Status>enabled</Status>" + oneDay}},
		{malformed, "", []string{on + oneDay}},
		{malformed, "", []string{"<Prefix>a</Prefix>" + all + oneDay}},
		{malformed, "", []string{all + "<Filter/>" + oneDay}},
		{malformed, "", []string{all + oneDay + "<Surprise/>"}},
		{malformed, "", []string{filtered("<Surprise/>") + oneDay}},
		{malformed, "", []string{filtered("<And><Prefix>a</Prefix>"+tag+"<Surprise/></And>") + oneDay}},
		{malformed, "", []string{expire("<Days>1</Days><Surprise/>")}},
		{malformed, "", []string{expire("")}},
		{malformed, "", []string{expire("<Days>x</Days>")}},
		{malformed, "", []string{expire("<Days>2147483648</Days>")}},
		{malformed, "", []string{expire("<Days>1</Days><Date>2030-01-31T00:00:00Z</Date>")}},
		{malformed, "", []string{expire("<Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>")}},
		{malformed, "", []string{expire("<ExpiredObjectDeleteMarker>perhaps</ExpiredObjectDeleteMarker>")}},
		{malformed, "", []string{expire("<Date>Fri, 01 Jan 2030 00:00:00 GMT</Date>")}},
		{argument, "'Date' must be at midnight GMT", []string{expire("<Date>2030-01-31T01:00:00Z</Date>")}},
		{argument, "'Date' must be at midnight GMT", []string{expire("<Date>2030-01-31T00:00:00+01:00</Date>")}},
		{argument, "'Days' for Expiration action must be a positive integer", []string{expire("<Days>0</Days>")}},
		{argument, "'Days' for Expiration action must be a positive integer", []string{expire("<Days>-1</Days>")}},
		{malformed, "", []string{all + "<NoncurrentVersionExpiration/>"}},
		{malformed, "", []string{all + "<NoncurrentVersionExpiration>" + newer("1") + "</NoncurrentVersionExpiration>"}},
		{argument, "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer", []string{all + fmt.Sprintf(noncurrent, 0, "")}},
		{argument, "", []string{all + fmt.Sprintf(noncurrent, 1, newer("0"))}},
		{argument, "", []string{all + fmt.Sprintf(noncurrent, 1, newer("101"))}},
		{request, "NewerNoncurrentVersions element can only be used in Lifecycle V2.", []string{"<Prefix/>" + on + fmt.Sprintf(noncurrent, 1, newer("1"))}},
		{malformed, "", []string{all + "<AbortIncompleteMultipartUpload/>"}},
		{argument, "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer", []string{all + fmt.Sprintf(abort, 0)}},
		{request, "AbortIncompleteMultipartUpload cannot be specified with Tags.", []string{filtered(tag) + fmt.Sprintf(abort, 1)}},
		{request, "AbortIncompleteMultipartUpload cannot be specified with Object Size.", []string{filtered(size) + fmt.Sprintf(abort, 1)}},
		{request, "ExpiredObjectDeleteMarker cannot be specified with Tags.", []string{filtered(tag) + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"}},
		{request, "ExpiredObjectDeleteMarker cannot be specified with Object Size.", []string{filtered(size) + "<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>"}},
		{request, "At least one action needs to be specified in a rule", []string{all}},
		{malformed, "", []string{filtered(tag+tag) + oneDay}},
		{malformed, "", []string{filtered("<Prefix>a</Prefix>"+size) + oneDay}},
		{malformed, "", []string{filtered("<Prefix>a</Prefix><And>"+tag+size+"</And>") + oneDay}},
		{malformed, "", []string{filtered("<And><Prefix>a</Prefix></And>") + oneDay}},
		{malformed, "", []string{filtered("<Tag><Key>a</Key></Tag>") + oneDay}},
		{request, "Duplicate Tag Keys are not allowed.", []string{filtered("<And>"+tag+tag+"</And>") + oneDay}},
		{request, "A Tag's Key must be a length between 1 and 128.", []string{filtered("<Tag><Key/><Value/></Tag>") + oneDay}},
		{request, "A Tag's Value must be a length between 0 and 256.", []string{filtered("<Tag><Key>a</Key><Value>"+strings.Repeat("v", 257)+"</Value></Tag>") + oneDay}},
		{request, "The maximum size of a prefix is 1024.", []string{filtered("<Prefix>"+strings.Repeat("p", 1025)+"</Prefix>") + oneDay}},
		{request, "'ObjectSizeLessThan' should be between 1 and 1099511627776000.", []string{filtered("<ObjectSizeLessThan>0</ObjectSizeLessThan>") + oneDay}},
		{request, "'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.", []string{filtered("<ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan>") + oneDay}},
		{request, "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.", []string{filtered("<And>"+size+"<ObjectSizeLessThan>5</ObjectSizeLessThan></And>") + oneDay}},
		{argument, "ID length should not exceed allowed limit of 255", []string{"<ID>" + strings.Repeat("i", 256) + "</ID>" + all + oneDay}},
		{argument, "Rule ID must be unique. Found same ID for more than one rule", []string{"<ID>i</ID>" + all + oneDay, "<ID>i</ID>" + all + oneDay}},
		{request, "Filter element can only be used in Lifecycle V2.", []string{"<Prefix/>" + on + oneDay, all + oneDay}},
		{request, "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the Filter.", []string{all + oneDay, "<Prefix/>" + on + oneDay}},
		{malformed, "", []string{all + "<Transition><Days>1</Days><StorageClass>SHELF</StorageClass></Transition>"}},
		{notImplemented, "", []string{all + oneDay + "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"}},
		{notImplemented, "", []string{all + oneDay + "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>STANDARD_IA</StorageClass></NoncurrentVersionTransition>"}},
	} {
		a := w.do("PUT", "/bucket?lifecycle", lifecycleDoc(c.rules...))
		require.Equal(t, c.code, a.code(), "%v: %s", c.rules, a.body)
		require.Equal(t, map[bool]int{true: 501, false: 400}[c.code == notImplemented], a.status)
		if c.message != "" {
			a.hasMessage(c.message)
		}
	}
	w.do("PUT", "/bucket?lifecycle", []byte("<Other/>")).is(400, "MalformedXML")
	w.do("PUT", "/bucket?lifecycle", nil).is(400, "MissingRequestBodyError")
	w.do("PUT", "/bucket?lifecycle", lifecycleDoc(all+oneDay), "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	w.do("GET", "/bucket?lifecycle", nil).is(404, "NoSuchLifecycleConfiguration")
}

// midnight returns the end of the day that is days after at.
func midnight(at time.Time, days int) string {
	end := at.UTC().AddDate(0, 0, days)
	return end.Truncate(day).Add(day).Format(http.TimeFormat)
}

// TestExpirationHeader checks the headers with the times at which a current version expires and an upload is aborted.
func TestExpirationHeader(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/before", "x")
	const name = "X-Amz-Expiration"
	put := func(rules ...string) {
		t.Helper()
		w.do("PUT", "/bucket?lifecycle", lifecycleDoc(rules...)).is(200, "")
	}
	put("<ID>seven</ID><Filter><Prefix>k</Prefix></Filter>"+on+"<Expiration><Days>7</Days></Expiration>",
		"<ID>Delete after 2 \"days\" ü</ID><Filter><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></Filter>"+on+"<Expiration><Days>2</Days></Expiration>",
		"<ID>off</ID><Filter/><Status>Disabled</Status>"+oneDay)
	now := time.Now()
	seven := `expiry-date="` + midnight(now, 7) + `", rule-id="seven"`
	two := `expiry-date="` + midnight(now, 2) + `", rule-id="Delete after 2 %22days%22 %C3%BC"`
	require.Equal(t, seven, w.do("PUT", "/bucket/key", []byte("x")).is(200, "").header.Get(name))
	require.Equal(t, two, w.do("PUT", "/bucket/key", []byte("longer")).is(200, "").header.Get(name))
	for _, method := range []string{"GET", "HEAD"} {
		require.Equal(t, two, w.do(method, "/bucket/key", nil).is(200, "").header.Get(name))
		require.Empty(t, w.do(method, "/bucket/before", nil).is(200, "").header.Get(name))
		require.Empty(t, w.do(method, "/bucket/key?versionId=null", nil).is(200, "").header.Get(name))
	}
	require.Equal(t, seven, w.do("PUT", "/bucket/k2", nil, "X-Amz-Copy-Source", "/bucket/before").is(200, "").header.Get(name))
	up := w.begin("/bucket/key")
	etag := up.part(1, []byte("x")).etag()
	require.Equal(t, seven, up.finish(1, etag).is(200, "").header.Get(name))
	require.Empty(t, w.do("POST", "/bucket/key?uploads", nil).is(200, "").header.Get("X-Amz-Abort-Date"))

	// The tags at the time of the request count, and all tags of a conjunction must match.
	tags := func(set string) {
		t.Helper()
		w.do("PUT", "/bucket/before?tagging", []byte("<Tagging><TagSet>"+set+"</TagSet></Tagging>")).is(200, "")
	}
	const one, other = "<Tag><Key>a</Key><Value>1</Value></Tag>", "<Tag><Key>b</Key><Value>2</Value></Tag>"
	put("<ID>tags</ID><Filter><And>" + one + other + "</And></Filter>" + on + "<Expiration><Days>7</Days></Expiration>")
	tagged := strings.Replace(seven, "seven", "tags", 1)
	for set, want := range map[string]string{one + other: tagged, one: "", other + one: tagged, strings.Replace(one, "1", "3", 1) + other: ""} {
		tags(set)
		require.Equal(t, want, w.do("HEAD", "/bucket/before", nil).is(200, "").header.Get(name), set)
	}
	require.Equal(t, tagged, w.do("PUT", "/bucket/tagged", []byte("x"), "X-Amz-Tagging", "a=1&b=2&c=3").is(200, "").header.Get(name))

	put("<ID>a date</ID><Filter/>"+on+"<Expiration><Date>2020-02-29</Date></Expiration>",
		"<ID>marker</ID><Filter/>"+on+"<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
		"<ID>three</ID><Filter><Prefix>up/</Prefix></Filter>"+on+"<AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
		"<ID>four</ID><Filter/>"+on+"<AbortIncompleteMultipartUpload><DaysAfterInitiation>4</DaysAfterInitiation></AbortIncompleteMultipartUpload>")
	require.Equal(t, `expiry-date="Sat, 29 Feb 2020 00:00:00 GMT", rule-id="a date"`, w.do("HEAD", "/bucket/key", nil).is(200, "").header.Get(name))
	for key, days := range map[string]int{"up/a": 3, "other": 4} {
		a := w.do("POST", "/bucket/"+key+"?uploads", nil).is(200, "")
		require.Equal(t, midnight(now, days), a.header.Get("X-Amz-Abort-Date"))
		require.Equal(t, map[int]string{3: "three", 4: "four"}[days], a.header.Get("X-Amz-Abort-Rule-Id"))
		var got struct {
			UploadID string `xml:"UploadId"`
		}
		a.parse(&got)
		a = w.do("GET", "/bucket/"+key+"?uploadId="+got.UploadID, nil).is(200, "")
		require.Equal(t, midnight(now, days), a.header.Get("X-Amz-Abort-Date"))
	}
	w.do("DELETE", "/bucket?lifecycle", nil).is(204, "")
	require.Empty(t, w.do("HEAD", "/bucket/key", nil).is(200, "").header.Get(name))
}
