package s3_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/s3"
)

// everyone returns a statement of a policy of the bucket "bucket" about everyone. more is inserted before its end.
func everyone(effect, action, resource, more string) string {
	return fmt.Sprintf(`{"Effect": %q, "Principal": "*", "Action": %q, "Resource": "arn:aws:s3:::bucket%s"%s}`,
		effect, action, resource, more)
}

func policyOf(statements ...string) string {
	return `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ",") + `]}`
}

// public is a policy that allows everyone to read the objects of the bucket.
var public = policyOf(everyone("Allow", "s3:GetObject", "/*", ""))

// open removes the public access block of the bucket, and sets its policy.
func (w *world) open(document string) {
	w.t.Helper()
	w.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
	w.setPolicy(document)
}

func (w *world) setPolicy(document string) {
	w.t.Helper()
	w.do("PUT", "/bucket?policy", []byte(document)).is(204, "")
}

// anonymous sends a request without a signature.
func (w *world) anonymous(method, path string, body []byte, headers ...string) *response {
	w.t.Helper()
	return w.send(w.request(method, path, body, headers...))
}

func block(name string) []byte {
	return []byte("<PublicAccessBlockConfiguration><" + name + ">true</" + name + "></PublicAccessBlockConfiguration>")
}

func TestBucketPolicy(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.do("GET", "/bucket?policy", nil).is(404, "NoSuchBucketPolicy")
	w.do("GET", "/bucket?policyStatus", nil).is(404, "NoSuchBucketPolicy")
	w.anonymous("GET", "/bucket/key", nil).is(403, "AccessDenied")

	w.open(public)
	a := w.do("GET", "/bucket?policy", nil).is(200, "")
	require.Equal(t, public, string(a.body))
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, "<IsPublic>true</IsPublic>", inside(t, w.do("GET", "/bucket?policyStatus", nil).is(200, ""), "PolicyStatus"))
	require.Equal(t, "content", string(w.anonymous("GET", "/bucket/key", nil).is(200, "").body))
	w.anonymous("HEAD", "/bucket/key", nil).is(200, "")
	w.anonymous("PUT", "/bucket/key", []byte("other")).is(403, "AccessDenied")
	w.anonymous("DELETE", "/bucket/key", nil).is(403, "AccessDenied")
	w.anonymous("GET", "/bucket", nil).is(403, "AccessDenied")

	private := policyOf(everyone("Deny", "s3:GetObject", "/*", ""))
	w.setPolicy(private)
	require.Equal(t, "<IsPublic>false</IsPublic>", inside(t, w.do("GET", "/bucket?policyStatus", nil).is(200, ""), "PolicyStatus"))
	w.anonymous("GET", "/bucket/key", nil).is(403, "AccessDenied")
	w.do("GET", "/bucket/key", nil).is(403, "AccessDenied")
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	w.do("GET", "/bucket?policy", nil).is(404, "NoSuchBucketPolicy")
	w.do("GET", "/bucket/key", nil).is(200, "")

	// A policy is deleted with its bucket.
	w.setPolicy(public)
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	w.do("DELETE", "/bucket", nil).is(204, "")
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.do("GET", "/bucket?policy", nil).is(404, "NoSuchBucketPolicy")
	w.anonymous("GET", "/bucket/key", nil).is(403, "AccessDenied")
}

// onlyAccount is bucketaccess.Principals without any except the account of the tests.
type onlyAccount struct{}

func (onlyAccount) Resolve(kind, name string) (string, bool) {
	return "", kind == "AWS" && name == account
}

func (onlyAccount) PresentARN(arn, _ string) string { return arn }

func TestMalformedPolicies(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Principals = onlyAccount{} }})
	w.bucket("bucket")
	named := func(principal string) string {
		return strings.Replace(public, `"Principal": "*"`, `"Principal": `+principal, 1)
	}
	w.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
	for document, message := range map[string]string{
		"{":  "",
		"[]": "",
		policyOf(everyone("Allow", "s3:GetObject", "/*", `, "Effect": "Deny"`)):       "Effect",
		policyOf(everyone("Allow", "s3:Nothing", "/*", "")):                           "Action",
		policyOf(everyone("Allow", "iam:CreateUser", "/*", "")):                       "Action",
		policyOf(everyone("Allow", "s3:ListBucket", "/*", "")):                        "Action",
		strings.ReplaceAll(public, ":::bucket", ":::other"):                           "Resource",
		named(`{"AWS": "444455556666"}`):                                              "Principal",
		named(`{"AWS": "arn:aws:iam::111122223333:user/nobody"}`):                     "Principal",
		policyOf(everyone("Allow", "s3:GetObject", "/*", `, "Condition": {"A": {}}`)): "Condition",
		strings.Replace(public, `{`, `{`+strings.Repeat(" ", 20<<10), 1):              "",
	} {
		a := w.do("PUT", "/bucket?policy", []byte(document)).is(400, "MalformedPolicy")
		require.Contains(t, string(a.body), message)
		if message != "" {
			require.Contains(t, string(a.body), "line")
		}
	}
	w.do("PUT", "/bucket?policy", nil).is(400, "MissingRequestBodyError")
	w.do("PUT", "/bucket?policy", []byte(public), "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	w.do("GET", "/bucket?policy", nil).is(404, "NoSuchBucketPolicy")
	w.setPolicy(named(`{"AWS": "` + account + `"}`))
}

func TestPublicAccessBlock(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	refused := func() {
		t.Helper()
		a := w.do("PUT", "/bucket?policy", []byte(public)).is(403, "AccessDenied")
		require.Contains(t, string(a.body), "BlockPublicPolicy")
		w.do("GET", "/bucket?policy", nil).is(404, "NoSuchBucketPolicy")
	}
	refused() // a new bucket blocks all public access
	w.do("PUT", "/bucket?publicAccessBlock", block("BlockPublicPolicy")).is(200, "")
	refused()
	w.setPolicy(policyOf(everyone("Deny", "s3:GetObject", "/secret", ""))) // is not public
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	for _, name := range []string{"BlockPublicAcls", "IgnorePublicAcls"} {
		w.do("PUT", "/bucket?publicAccessBlock", block(name)).is(200, "")
		w.setPolicy(public)
		w.anonymous("GET", "/bucket/key", nil).is(200, "")
	}
	// BlockPublicPolicy refuses only new policies.
	w.do("PUT", "/bucket?publicAccessBlock", block("BlockPublicPolicy")).is(200, "")
	w.anonymous("GET", "/bucket/key", nil).is(200, "")
	w.do("PUT", "/bucket?policy", []byte(public)).is(403, "AccessDenied")

	// RestrictPublicBuckets cancels what a public policy allows to others.
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	other.do("GET", "/bucket/key", nil).is(200, "")
	w.do("PUT", "/bucket?publicAccessBlock", block("RestrictPublicBuckets")).is(200, "")
	w.anonymous("GET", "/bucket/key", nil).is(403, "AccessDenied")
	other.do("GET", "/bucket/key", nil).is(403, "AccessDenied")
	w.do("GET", "/bucket/key", nil).is(200, "")
	w.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
	w.anonymous("GET", "/bucket/key", nil).is(200, "")
	w.do("PUT", "/bucket?publicAccessBlock", []byte("<PublicAccessBlockConfiguration/>")).is(200, "")
	w.anonymous("GET", "/bucket/key", nil).is(200, "")
}

// With OpenBuckets, new buckets have no public access block. Existing buckets keep theirs.
func TestOpenBuckets(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.OpenBuckets = true }})
	_, err := w.fs.CreateBucket(t.Context(), core.BucketInfo{Name: "bucket", Owner: account})
	require.NoError(t, err)
	w.do("PUT", "/bucket?policy", []byte(public)).is(403, "AccessDenied")
	w.bucket("new")
	w.do("GET", "/new?publicAccessBlock", nil).is(404, "NoSuchPublicAccessBlockConfiguration")
	w.do("PUT", "/new?policy", []byte(strings.ReplaceAll(public, ":::bucket", ":::new"))).is(204, "")
	w.do("PUT", "/new?publicAccessBlock", block("BlockPublicPolicy")).is(200, "")
	w.do("DELETE", "/new", nil).is(204, "")
}

// Other accounts cannot see or change the policy of a bucket, even if it allows that, but everything else that a policy
// allows them.
func TestPolicyOfAnotherAccount(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.open(policyOf(
		fmt.Sprintf(`{"Effect": "Allow", "Principal": {"AWS": "444455556666"}, "Action": "s3:*", "Resource": [%q, %q]}`,
			"arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*")))
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	require.Equal(t, "content", other.content("/bucket/key"))
	other.put("/bucket/key", "other")
	other.do("GET", "/bucket?policyStatus", nil).is(200, "")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		other.do(method, "/bucket?policy", []byte(public)).is(405, "MethodNotAllowed")
	}
	require.Equal(t, "other", w.content("/bucket/key"))
	w.anonymous("GET", "/bucket/key", nil).is(403, "AccessDenied")
	list := string(other.do("GET", "/", nil).is(200, "").body)
	require.NotContains(t, list, "<Name>bucket</Name>")
	other.do("GET", "/bucket/key", nil, "X-Amz-Expected-Bucket-Owner", "444455556666").is(403, "AccessDenied")
}

// The root is not locked out of the policy of its bucket, and only of that.
func TestNoLockout(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.setPolicy(policyOf(everyone("Deny", "s3:*", "", ""), everyone("Deny", "s3:*", "/*", "")))
	w.do("GET", "/bucket", nil).is(403, "AccessDenied")
	w.do("PUT", "/bucket/key", []byte("content")).is(403, "AccessDenied")
	w.do("PUT", "/bucket?publicAccessBlock", block("BlockPublicPolicy")).is(403, "AccessDenied")
	w.do("DELETE", "/bucket", nil).is(403, "AccessDenied")
	w.do("GET", "/bucket?policy", nil).is(200, "")
	w.setPolicy(policyOf(everyone("Deny", "s3:*", "", "")))
	w.put("/bucket/key", "content")
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	w.do("GET", "/bucket", nil).is(200, "")
}

// A stored policy that cannot be read denies everything, except that the root can replace it.
func TestDamagedPolicy(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	_, err := w.fs.UpdateBucket(t.Context(), "bucket", func(b *core.BucketInfo) error {
		b.Attrs = core.SetAttr(b.Attrs, "policy", "{")
		return nil
	})
	require.NoError(t, err)
	w.do("GET", "/bucket", nil).is(500, "InternalError")
	w.do("PUT", "/bucket/key", nil).is(500, "InternalError")
	w.anonymous("GET", "/bucket", nil).is(500, "InternalError")
	w.do("GET", "/bucket?policyStatus", nil).is(500, "InternalError")
	require.Equal(t, "{", string(w.do("GET", "/bucket?policy", nil).is(200, "").body))
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	w.do("GET", "/bucket", nil).is(200, "")
}

// What anonymous callers cannot do, even if the policy of a bucket allows everything to everyone.
func TestAnonymousLimits(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.open(policyOf(everyone("Allow", "s3:*", "", ""), everyone("Allow", "s3:*", "/*", "")))
	w.anonymous("PUT", "/bucket/new", []byte("new")).is(200, "")
	require.Equal(t, "new", w.content("/bucket/new"))
	w.anonymous("GET", "/bucket?list-type=2", nil).is(200, "")
	w.anonymous("HEAD", "/bucket", nil).is(200, "")
	w.anonymous("DELETE", "/bucket/new", nil).is(204, "")
	a := w.anonymous("POST", "/bucket/new?uploads", nil).is(403, "AccessDenied")
	require.Contains(t, string(a.body), "Anonymous users cannot initiate multipart uploads")
	for _, name := range []string{"content-type", "content-disposition", "expires"} {
		w.anonymous("GET", "/bucket/key?response-"+name+"=x", nil).is(400, "InvalidRequest")
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.anonymous(method, "/bucket?policy", []byte(public)).is(405, "MethodNotAllowed")
	}
	w.anonymous("PUT", "/created", nil).is(403, "AccessDenied")
	w.anonymous("GET", "/", nil).is(403, "AccessDenied")
	w.anonymous("PUT", "/bucket/new", nil, "X-Amz-Instant-Length", "7", "X-Amz-Content-Sha256", hash([]byte("content"))).
		is(403, "AccessDenied")
	find := "<FindContent><Content><Size>7</Size><SHA256>" + hash([]byte("content")) + "</SHA256></Content></FindContent>"
	w.anonymous("POST", "/bucket?instant", []byte(find)).is(403, "AccessDenied")
	require.Equal(t, "content", w.content("/bucket/key"))
}

// An object that does not exist looks like one that may not be read, to callers that may not list it.
func TestAbsenceIsConcealed(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.do("PUT", "/bucket?versioning", []byte(documentBodies["versioning"])).is(200, "")
	w.put("/bucket/deleted", "content")
	w.do("DELETE", "/bucket/deleted", nil).is(204, "")
	list := func(condition string) string {
		return policyOf(everyone("Allow", "s3:GetObject", "/*", ""), everyone("Allow", "s3:GetObjectVersion", "/*", ""),
			everyone("Allow", "s3:GetObjectTagging", "/*", ""), everyone("Allow", "s3:ListBucket", "", condition))
	}
	w.open(list(""))
	for _, key := range []string{"absent", "deleted"} {
		require.Equal(t, 404, w.anonymous("GET", "/bucket/"+key, nil).status)
		w.anonymous("HEAD", "/bucket/"+key, nil).is(404, "")
	}
	for _, policy := range []string{
		strings.Replace(list(""), ","+everyone("Allow", "s3:ListBucket", "", ""), "", 1),
		strings.Replace(list(""), everyone("Allow", "s3:ListBucket", "", ""), everyone("Deny", "s3:ListBucket", "", ""), 1),
		list(`, "Condition": {"StringEquals": {"s3:prefix": "other"}}`),
		list(`, "Condition": {"StringLike": {"s3:prefix": "home/*"}}`),
		list(`, "Condition": {"NumericEquals": {"s3:max-keys": "2"}}`),
		list(`, "Condition": {"StringEquals": {"s3:delimiter": "/"}}`),
	} {
		w.setPolicy(policy)
		for _, key := range []string{"absent", "deleted", "absent?versionId=" + absentVersion} {
			a := w.anonymous("GET", "/bucket/"+key, nil).is(403, "AccessDenied")
			require.Empty(t, a.header.Get("X-Amz-Delete-Marker"))
			require.Empty(t, a.header.Get("X-Amz-Version-Id"))
			require.NotContains(t, string(a.body), "NoSuch")
			require.Equal(t, 403, w.anonymous("HEAD", "/bucket/"+key, nil).status)
			tags := strings.Replace(key+"?tagging", "?versionId="+absentVersion+"?", "?", 1)
			w.anonymous("GET", "/bucket/"+tags, nil).is(403, "AccessDenied")
		}
	}
	for _, condition := range []string{
		`{"StringLike": {"s3:prefix": "home/*"}}`, `{"NumericLessThanEquals": {"s3:max-keys": "10"}}`,
		`{"StringEquals": {"s3:prefix": "home/absent"}}`,
	} {
		w.setPolicy(list(`, "Condition": ` + condition))
		w.anonymous("GET", "/bucket/home/absent", nil).is(404, "NoSuchKey")
		w.anonymous("GET", "/bucket/home/absent?prefix=other", nil).is(404, "NoSuchKey")
	}
}

// Conditions of policies see the values that the operation uses.
func TestFactsOfRequests(t *testing.T) {
	w := newWorld(t, setup{start: overTLS, options: func(o *s3.Options) { o.IDs = nil }}) // IDs in hexadecimal, in either case
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	w.put("/bucket/red", "content", "X-Amz-Tagging", "team=red")
	w.put("/bucket/blue", "content", "X-Amz-Tagging", "team=blue&x=y")
	w.put("/bucket/green", "content", "X-Amz-Tagging", "team=green")
	w.put("/bucket/plain", "content")
	until := func(days int) string { return time.Now().AddDate(0, 0, days).UTC().Format(time.RFC3339) }
	one := w.do("PUT", "/bucket/two", []byte("one")).header.Get("X-Amz-Version-Id")
	two := w.do("PUT", "/bucket/two", []byte("two")).header.Get("X-Amz-Version-Id")
	type request struct {
		method, path, body string
		headers            []string
	}
	put := func(headers ...string) request { return request{"PUT", "/bucket/new", "content", headers} }
	copyOf := func(source string, headers ...string) request {
		return request{"PUT", "/bucket/new", "", append([]string{"X-Amz-Copy-Source", source}, headers...)}
	}
	tagging := func(value string) request {
		return request{"PUT", "/bucket/plain?tagging", "<Tagging><TagSet><Tag><Key>team</Key><Value>" + value + "</Value></Tag></TagSet></Tagging>", nil}
	}
	deletes := func(version, etag string) request {
		return request{"POST", "/bucket?delete", "<Delete><Object><Key>two</Key><VersionId>" + version + "</VersionId>" + etag + "</Object></Delete>", nil}
	}
	lock := func(days int) request {
		return put(lockMode, "GOVERNANCE", lockUntil, until(days), "Content-Md5", md5Of([]byte("content")))
	}
	retention := func(mode string, days int) request {
		return request{"PUT", "/bucket/plain?retention", "<Retention><Mode>" + mode + "</Mode><RetainUntilDate>" + until(days) + "</RetainUntilDate></Retention>",
			nil}
	}
	hold := func(status string) request {
		return request{"PUT", "/bucket/plain?legal-hold", "<LegalHold><Status>" + status + "</Status></LegalHold>", nil}
	}
	get := func(path string) request { return request{"GET", path, "", nil} }
	head := func(path string) request { return request{"HEAD", path, "", nil} }
	const tls, object = "s3:TlsVersion", "/*"
	for _, c := range []struct {
		action, resource, condition string
		denied, allowed             request
	}{
		{"s3:GetObject", object, `{"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`, get("/bucket/red"), get("/bucket/blue")},
		{"s3:GetObject", object, `{"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`, head("/bucket/red"), get("/bucket/plain")},
		{"s3:GetObject", object, `{"Null": {"s3:ExistingObjectTag/Team": "true"}}`, get("/bucket/red"), request{}},
		{"s3:GetObject", object, `{"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`, copyOf("/bucket/red"), copyOf("/bucket/blue")},
		{"s3:GetObjectVersion", object, `{"StringEquals": {"s3:VersionId": "` + one + `"}}`,
			get("/bucket/two?versionId=" + strings.ToUpper(one)), get("/bucket/two?versionId=" + two)},
		{"s3:GetObjectVersion", object, `{"StringEquals": {"s3:VersionId": "` + one + `"}}`,
			copyOf("/bucket/two?versionId=" + one), copyOf("/bucket/two?versionId=" + two)},
		{"s3:GetObjectVersion", object, `{"StringEquals": {"s3:VersionId": "` + one + `"}}`,
			copyOf("/bucket/two?versionId=" + strings.ToUpper(one)), copyOf("/bucket/two")},
		{"s3:DeleteObjectVersion", object, `{"StringEquals": {"s3:VersionId": "` + one + `"}}`, deletes(one, ""), deletes(two, "")},
		{"s3:PutObject", object, `{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`, put("X-Amz-Tagging", "team=red"), put("X-Amz-Tagging", "team=blue")},
		{"s3:PutObject", object, `{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`, copyOf("/bucket/red"), copyOf("/bucket/blue")},
		{"s3:PutObject", object, `{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`,
			copyOf("/bucket/red", "X-Amz-Tagging", "team=blue"), copyOf("/bucket/red", "X-Amz-Tagging", "team=blue", "X-Amz-Tagging-Directive", "REPLACE")},
		{"s3:PutObject", object, `{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`,
			request{"PUT", "/bucket/moved", "", []string{"X-Amz-Move-Source", "/bucket/red"}},
			request{"PUT", "/bucket/moved", "", []string{"X-Amz-Move-Source", "/bucket/green"}}},
		{"s3:PutObject", object, `{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["x"]}}`,
			put("X-Amz-Tagging", "a=b&x=y"), put("X-Amz-Tagging", "a=b&c=d")},
		{"s3:PutObjectTagging", object, `{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`, tagging("red"), tagging("blue")},
		{"s3:PutObjectTagging", object, `{"ForAnyValue:StringNotEquals": {"s3:RequestObjectTagKeys": ["a"]}}`, tagging("red"), put("X-Amz-Tagging", "a=b")},
		{"s3:PutObject", object, `{"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}}`, lock(11), lock(10)},
		{"s3:PutObjectRetention", object, `{"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}}`,
			retention("GOVERNANCE", 12), retention("GOVERNANCE", 9)},
		{"s3:PutObjectRetention", object, `{"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}}`, retention("COMPLIANCE", 12), retention("GOVERNANCE", 12)},
		{"s3:PutObjectLegalHold", object, `{"StringEquals": {"s3:object-lock-legal-hold": "ON"}}`, hold("ON"), hold("OFF")},
		{"s3:PutObject", object, `{"StringLike": {"s3:x-amz-copy-source": "bucket/r*"}}`, copyOf("bucket/%72ed"), copyOf("/bucket/blue")},
		{"s3:PutObject", object, `{"StringLike": {"s3:x-amz-copy-source": "bucket/r*"}}`, copyOf("/bucket/red"), put()},
		{"s3:PutObject", object, `{"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}`,
			put(), request{"PUT", "/bucket/other", "", []string{"If-None-Match", "*"}}},
		{"s3:PutObject", object, `{"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}`,
			copyOf("/bucket/red"), request{"POST", "/bucket/new?uploads", "", nil}},
		{"s3:GetObject", object, `{"StringEquals": {"` + tls + `": "1.3"}}`, get("/bucket/red"), request{}},
		{"s3:GetObject", object, `{"NumericLessThan": {"` + tls + `": "1.2"}}`, request{}, get("/bucket/red")},
		{"s3:GetObject", object, `{"StringEquals": {"s3:authType": "REST-HEADER"}}`, get("/bucket/red"), request{}},
		{"s3:GetObject", object, `{"StringEquals": {"s3:ResourceAccount": "` + account + `"}}`, get("/bucket/red"), request{}},
		{"s3:ListBucket", "", `{"StringEquals": {"s3:prefix": "r"}}`, get("/bucket?prefix=r"), get("/bucket?prefix=b")},
		{"s3:ListBucketMultipartUploads", "", `{"NumericEquals": {"s3:max-keys": "3"}}`,
			get("/bucket?uploads&max-uploads=3&max-keys=4"), get("/bucket?uploads&max-uploads=4&max-keys=3")},
		// A parameter or header that the operation ignores does not matter.
		{"s3:GetObject", object, `{"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}`, request{}, get("/bucket/red?x-amz-acl=private")},
	} {
		w.setPolicy(policyOf(everyone("Deny", c.action, c.resource, `, "Condition": `+c.condition)))
		send := func(r request) *response {
			headers := r.headers
			if r.body != "" && r.body != "content" {
				headers = append(headers, "Content-Md5", md5Of([]byte(r.body)))
			}
			return w.do(r.method, r.path, []byte(r.body), headers...)
		}
		if c.denied.method != "" {
			a := send(c.denied)
			require.True(t, outcomeOf(a).code == "AccessDenied" || c.denied.method == "HEAD" && a.status == 403, "%s %s %v: %d %s", c.condition, c.denied.path, c.denied.headers, a.status, a.body)
		}
		if c.allowed.method != "" {
			a := send(c.allowed)
			require.Less(t, a.status, 400, "%s %s %v: %s", c.condition, c.allowed.path, c.allowed.headers, a.body)
			require.Empty(t, outcomeOf(a).code)
		}
	}
}

// The properties of an upload are facts about its parts and its completion.
func TestFactsOfUploads(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	begin := func(headers ...string) string {
		var u struct{ UploadId string }
		w.do("POST", "/bucket/key?uploads", nil, headers...).is(200, "").parse(&u)
		return u.UploadId
	}
	cold, plain := begin("X-Amz-Storage-Class", "STANDARD_IA", "X-Amz-Tagging", "a=b"), begin()
	for _, condition := range []string{
		`{"StringEquals": {"s3:x-amz-storage-class": "STANDARD_IA"}}`, `{"StringEquals": {"s3:RequestObjectTag/a": "b"}}`,
	} {
		w.setPolicy(policyOf(everyone("Deny", "s3:PutObject", "/*", `, "Condition": `+condition)))
		w.do("PUT", "/bucket/key?partNumber=1&uploadId="+cold, nil).is(403, "AccessDenied")
		w.do("PUT", "/bucket/key?partNumber=1&uploadId="+plain, nil, "X-Amz-Storage-Class", "STANDARD_IA").is(200, "")
		w.do("PUT", "/bucket/key?partNumber=1&uploadId="+absentUpload, nil).is(404, "NoSuchUpload")
	}
	w.setPolicy(policyOf(everyone("Deny", "s3:PutObject", "/*", `, "Condition": {"StringNotEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}`)))
	w.do("PUT", "/bucket/key?partNumber=1&uploadId="+plain, nil).is(200, "")
	w.do("PUT", "/bucket/key", nil).is(403, "AccessDenied")
	w.put("/bucket/key", "content", "X-Amz-Acl", "bucket-owner-full-control")
}

// The headers that describe the tags and the lock of an object are sent only to callers that may read them.
func TestHeadersOfReaders(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	version := w.do("PUT", "/bucket/key", []byte("content"), "X-Amz-Tagging", "a=b", lockMode, "GOVERNANCE", lockUntil, until, lockHold, "ON",
		"Content-Md5", md5Of([]byte("content"))).is(200, "").header.Get("X-Amz-Version-Id")
	w.do("DELETE", "/bucket?publicAccessBlock", nil).is(204, "")
	plain, named := "/bucket/key", "/bucket/key?versionId="+version
	for _, c := range []struct {
		path, read string
		rights     map[string][]string // the headers that need them
	}{
		{plain, "s3:GetObject", map[string][]string{"s3:GetObjectTagging": {"X-Amz-Tagging-Count"}}},
		{named, "s3:GetObjectVersion", map[string][]string{"s3:GetObjectVersionTagging": {"X-Amz-Tagging-Count"}}},
		{plain, "s3:GetObject", map[string][]string{"s3:GetObjectRetention": {lockMode, lockUntil}, "s3:GetObjectLegalHold": {lockHold}}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w.setPolicy(policyOf(everyone("Allow", c.read, "/*", "")))
			a := w.anonymous(method, c.path, nil).is(200, "")
			for action, headers := range c.rights {
				for _, h := range headers {
					require.NotContains(t, a.header, h)
				}
				w.setPolicy(policyOf(everyone("Allow", c.read, "/*", ""), everyone("Allow", action, "/*", "")))
				allowed := w.anonymous(method, c.path, nil).is(200, "")
				for _, h := range headers {
					require.Contains(t, allowed.header, h)
				}
			}
		}
	}
}

// Whoever began an upload may list its parts and abort it, unless a policy denies that.
func TestInitiator(t *testing.T) {
	writes := []need{{"s3:PutObject", "bucket/*"}}
	ids := identities{user: writes, key: writes, creator: writes}
	w := newWorld(t, ids.callers(t, nil))
	w.bucket("bucket")
	as := func(key, method, path string) *response {
		r := w.request(method, path, nil)
		(&sigv4.Signer{AccessKey: key, SecretKey: secretKey, Region: "us-east-1"}).Sign(r, hash(nil), time.Now())
		return w.send(r)
	}
	begin := func(key string) string {
		var u struct{ UploadId string }
		as(key, "POST", "/bucket/key?uploads").is(200, "").parse(&u)
		return "/bucket/key?uploadId=" + u.UploadId
	}
	mine, others := begin(aUser), begin(aKey)
	list := string(as(aUser, "GET", mine).is(200, "").body)
	require.Contains(t, list, "<Initiator><ID>arn:aws:iam::"+account+":user/user</ID>")
	for _, upload := range []string{others, begin(accessKey), "/bucket/key?uploadId=" + absentUpload} {
		as(aUser, "GET", upload).is(403, "AccessDenied")
		as(aUser, "DELETE", upload).is(403, "AccessDenied")
	}
	as(aUser, "GET", strings.Replace(mine, "/key", "/other", 1)).is(403, "AccessDenied")
	w.setPolicy(policyOf(everyone("Deny", "s3:AbortMultipartUpload", "/*", ""), everyone("Deny", "s3:ListMultipartUploadParts", "/*", "")))
	as(aUser, "GET", mine).is(403, "AccessDenied")
	as(aUser, "DELETE", mine).is(403, "AccessDenied")
	w.do("DELETE", "/bucket?policy", nil).is(204, "")
	as(aUser, "DELETE", mine).is(204, "")
	as(accessKey, "DELETE", others).is(204, "")
}

// DeleteObjects decides about each key, and continues with the next one.
func TestDeleteObjectsDecidesPerKey(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, key := range []string{"in/a", "in/b", "out/a"} {
		w.put("/bucket/"+key, "content")
	}
	w.open(policyOf(everyone("Allow", "s3:DeleteObject", "/in/*", ""), everyone("Deny", "s3:DeleteObject", "/in/b", "")))
	var entries string
	for _, key := range []string{"in/a", "in/b", "out/a", "in/absent"} {
		entries += "<Object><Key>" + key + "</Key></Object>"
	}
	body := []byte("<Delete>" + entries + "</Delete>")
	var result struct {
		Deleted []struct{ Key string }
		Error   []struct{ Key, Code string }
	}
	w.anonymous("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, "").parse(&result)
	require.Equal(t, []struct{ Key string }{{"in/a"}, {"in/absent"}}, result.Deleted)
	require.Equal(t, []struct{ Key, Code string }{{"in/b", "AccessDenied"}, {"out/a", "AccessDenied"}}, result.Error)
	require.Equal(t, "(none)", w.content("/bucket/in/a"))
	require.Equal(t, "content", w.content("/bucket/in/b"))
	require.Equal(t, "content", w.content("/bucket/out/a"))
	w.setPolicy(policyOf(everyone("Allow", "s3:GetObject", "/*", "")))
	w.anonymous("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(403, "AccessDenied")
}

// If an object is replaced while a decision by its tags is made, the decision is made again about the new object.
func TestTagsChangeAfterTheDecision(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.setPolicy(policyOf(everyone("Deny", "s3:GetObject", "/key",
		`, "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`)))
	for _, send := range []func() *response{
		func() *response { return w.do("GET", "/bucket/key", nil) },
		func() *response { return w.do("HEAD", "/bucket/key", nil) },
		func() *response { return w.do("GET", "/bucket/key?attributes", nil, "X-Amz-Object-Attributes", "ETag") },
		func() *response { return w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key") },
		func() *response { return w.do("PUT", "/bucket/moved", nil, "X-Amz-Move-Source", "/bucket/key") },
	} {
		w.put("/bucket/key", "content", "X-Amz-Tagging", "team=blue")
		secret := func() { w.put("/bucket/key", "secret", "X-Amz-Tagging", "team=red") }
		w.meta.after.Store(&secret)
		a := send()
		require.Equal(t, 403, a.status, "%s", a.body)
		require.Nil(t, w.meta.after.Load())
	}
	w.put("/bucket/key", "content", "X-Amz-Tagging", "team=blue")
	w.do("GET", "/bucket/key", nil).is(200, "")
}

// The same holds if the tags of another object have been looked up since the decision: those of the target of a move,
// whose source is then replaced.
func TestTagsChangeBeforeTheSecondAttempt(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.setPolicy(policyOf(everyone("Deny", "s3:GetObject", "/key", `, "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`),
		everyone("Deny", "s3:PutObjectTagging", "/moved", `, "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "none"}}`)))
	w.put("/bucket/key", "content", "X-Amz-Tagging", "team=blue")
	secret := func() { w.put("/bucket/key", "secret", "X-Amz-Tagging", "team=red") }
	lookups := 0
	var count func()
	count = func() {
		if lookups++; lookups == 3 { // of the source, for the decision and for the move, then of the target
			secret()
			return
		}
		w.meta.after.Store(&count)
	}
	w.meta.after.Store(&count)
	w.do("PUT", "/bucket/moved", nil, "X-Amz-Move-Source", "/bucket/key").is(403, "AccessDenied")
	require.Equal(t, 3, lookups)
	w.do("GET", "/bucket/moved", nil).is(404, "NoSuchKey")
}

// A condition about If-Match applies to all headers with this name.
func TestRepeatedConditionalHeaders(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := w.put("/bucket/key", "content")
	w.setPolicy(policyOf(everyone("Deny", "s3:PutObject", "/*", `, "Condition": {"StringNotEquals": {"s3:if-match": "known"}}`)))
	w.do("PUT", "/bucket/key", nil, "If-Match", "known", "If-Match", etag).is(403, "AccessDenied")
	w.do("PUT", "/bucket/key", nil, "If-Match", "known").is(412, "PreconditionFailed")
}

// If the tags of an object cannot be looked up, a decision that depends on them fails.
func TestFailingFacts(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content", "X-Amz-Tagging", "team=red")
	w.setPolicy(policyOf(everyone("Deny", "s3:GetObject", "/*", `, "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`)))
	w.do("GET", "/bucket/key", nil).is(403, "AccessDenied")
	w.meta.fails.Store(true)
	a := w.do("GET", "/bucket/key", nil)
	w.meta.fails.Store(false)
	require.Equal(t, http.StatusInternalServerError, a.status)
}

// A move is subject to the conditions of a copy: about its source, and about the properties that the new version has.
func TestFactsOfMoves(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	move := func(from, to string) *response {
		return w.do("PUT", "/bucket/"+to, nil, "X-Amz-Move-Source", "/bucket/"+from)
	}
	rename := func(from, to string) *response {
		return w.do("PUT", "/bucket/"+to+"?renameObject", nil, "X-Amz-Rename-Source", from)
	}
	for i, do := range []func(from, to string) *response{move, rename} {
		from, cold, to := fmt.Sprint("private/", i), fmt.Sprint("cold/", i), fmt.Sprint("to/", i)
		w.put("/bucket/"+from, "content")
		w.put("/bucket/"+cold, "content", "X-Amz-Storage-Class", "GLACIER")
		w.setPolicy(policyOf(everyone("Deny", "s3:PutObject", "/to/*", `, "Condition": {"StringLike": {"s3:x-amz-copy-source": "bucket/private/*"}}`)))
		do(from, to).is(403, "AccessDenied")
		do(cold, to).is(200, "")
		w.do("PUT", "/bucket?policy", []byte(policyOf(everyone("Deny", "s3:PutObject", "/next/*", `, "Condition": {"StringEquals": {"s3:x-amz-storage-class": "GLACIER"}}`)))).is(204, "")
		do(to, fmt.Sprint("next/", i)).is(403, "AccessDenied")
		do(from, fmt.Sprint("next/", i)).is(200, "")
	}
}

// An empty header or parameter, which the operation takes for an absent one, is not a fact.
func TestEmptyIsAbsent(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	for _, key := range []string{"object-lock-mode", "x-amz-storage-class", "x-amz-acl"} {
		header := "X-Amz-" + strings.TrimPrefix(key, "x-amz-")
		w.setPolicy(policyOf(everyone("Deny", "s3:PutObject", "/*", `, "Condition": {"Null": {"s3:`+key+`": "true"}}`)))
		w.do("PUT", "/bucket/key", nil).is(403, "AccessDenied")
		w.do("PUT", "/bucket/key", nil, header, "").is(403, "AccessDenied")
	}
	w.setPolicy(policyOf(everyone("Deny", "s3:ListBucket", "", `, "Condition": {"Null": {"s3:max-keys": "true"}}`)))
	w.do("GET", "/bucket?max-keys=", nil).is(403, "AccessDenied")
	w.do("GET", "/bucket?max-keys=1", nil).is(200, "")
}
