package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/content"
	"orcas/core"
	"orcas/core/ids"
	"orcas/gate"
	"orcas/internal/live"
	"orcas/internal/sigv4"
	"orcas/s3"
)

// authCall is a call of an authorizer.
type authCall struct {
	action   auth.Action
	resource auth.Resource
}

// judge is an authorizer that records its calls, and allows everything unless refuse returns an error.
type judge struct {
	mu      sync.Mutex
	calls   []authCall
	refuse  func(n int, q authCall) error // n is the number of calls since the last reset; nil allows everything
	present func(key string, ok bool)     // called for each of keys; ok reports whether the request has a value
	keys    []string
}

func (j *judge) Authorize(_ context.Context, _ *auth.Principal, a auth.Action, r auth.Resource, f auth.Facts) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := authCall{a, r}
	n := len(j.calls)
	j.calls = append(j.calls, q)
	for _, key := range j.keys {
		_, ok := f.Fact(key)
		ok = ok || len(f.(policy.ListFacts).FactList(key)) > 0
		j.present(key, ok)
	}
	if j.refuse != nil {
		return j.refuse(n, q)
	}
	return nil
}

// reset returns the calls since the last reset.
func (j *judge) reset() []authCall {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := j.calls
	j.calls = nil
	return calls
}

func judged(j *judge) setup { return setup{options: func(o *s3.Options) { o.Authorizer = j }} }

// target returns path and query of a request for a route, and the headers that select it.
func target(r *gate.Route) (path string, headers []string) {
	path = [...]string{gate.Service: "/", gate.Bucket: "/bucket", gate.Object: "/bucket/key"}[r.Level]
	path += "?x-id=" + r.Name
	switch r.Sub {
	case "":
	case "uploadId":
		path += "&partNumber=1&uploadId=" + absentUpload
	default:
		path += "&" + r.Sub
	}
	if r.Header != "" {
		headers = []string{r.Header, "/bucket/source"}
	}
	return path, headers
}

// Before anything else, every route asks the authorizer for its action (or its action for versions) on the resource of
// the request.
func TestEveryRouteIsAuthorized(t *testing.T) {
	deny := func(int, authCall) error { return auth.ErrDenied }
	j := &judge{}
	w := newWorld(t, judged(j))
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.put("/bucket/source", "source")
	j.reset()
	for _, r := range s3.Routes() {
		t.Run(r.Name, func(t *testing.T) {
			w := *w
			w.t = t
			j.refuse = deny
			path, headers := target(r)
			want := authCall{r.Action, auth.Resource{Account: account}}
			if r.Level != gate.Service {
				want.resource.Bucket = "bucket"
			}
			switch {
			case r.Level == gate.Object:
				want.resource.Key = "key"
			case r.Target() == gate.Object:
				want.resource.Scope = auth.AnyKey
			case r.AnyAction:
				want.resource.Scope = auth.AnyAction
			}
			wants := []authCall{want}
			if r.Level == gate.Bucket && r.VersionAction != "" {
				wants = append(wants, authCall{r.VersionAction, want.resource})
			}
			anonymous := len(wants)
			if r.Name == "CreateBucket" { // whether a right in the existing bucket shows that it exists
				exists := want
				exists.resource.Scope = auth.AnyAction
				wants = append(wants, exists)
			}
			a := w.do(r.Method, path, nil, headers...)
			require.Equal(t, 403, a.status)
			require.Equal(t, wants, j.reset())
			if r.VersionAction != "" && r.Level == gate.Object {
				a := w.do(r.Method, path+"&versionId=null", nil, headers...)
				require.Equal(t, 403, a.status)
				want.action, want.resource.Version = r.VersionAction, "null"
				require.Equal(t, []authCall{want}, j.reset())
			}
			if r.Level == gate.Bucket && slices.Contains(r.Keys, "s3:prefix") {
				want.resource.Prefix = "a/"
				w.do(r.Method, path+"&prefix=a%2F", nil, headers...).is(403, "AccessDenied")
				require.Equal(t, []authCall{want}, j.reset())
			}

			// Anonymous requests are authorized, too, and get the same response; forged requests are not authorized.
			require.Equal(t, 403, w.send(w.request(r.Method, path, nil, headers...)).status)
			require.Len(t, j.reset(), anonymous)
			forged := w.request(r.Method, path, nil, headers...)
			forger := &sigv4.Signer{AccessKey: accessKey, SecretKey: "wrong", Region: "us-east-1"}
			forger.Sign(forged, hash(nil), time.Now())
			require.Equal(t, 403, w.send(forged).status)
			require.Empty(t, j.reset())

			// If the authorizer cannot decide, the request fails, too.
			j.refuse = func(int, authCall) error { return errors.New("the policies cannot be read") }
			require.Equal(t, 500, w.do(r.Method, path, nil, headers...).status)
			j.reset()
		})
	}
	j.refuse = nil
	require.Equal(t, "content", w.content("/bucket/key"))
}

// Every route allows the owner, and denies other accounts and anonymous requests.
func TestEveryRouteAllowsOnlyOwners(t *testing.T) {
	for _, r := range s3.Routes() {
		t.Run(r.Name, func(t *testing.T) {
			w := newWorld(t)
			w.bucket("bucket")
			w.put("/bucket/key", "content")
			w.put("/bucket/source", "source")
			path, headers := target(r)
			require.Equal(t, 403, w.send(w.request(r.Method, path, nil, headers...)).status, "anonymous")
			other := *w
			other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
			a := other.do(r.Method, path, nil, headers...)
			switch r.Name {
			case "ListBuckets":
				require.NotContains(t, string(a.is(200, "").body), "<Name>bucket</Name>")
			case "CreateBucket":
				a.is(409, "BucketAlreadyExists")
			default:
				require.Equal(t, 403, a.status)
			}
			require.Equal(t, "content", w.content("/bucket/key"))
			require.NotEqual(t, 403, w.do(r.Method, path, nil, headers...).status, "the owner")
		})
	}
}

// keysElsewhere are condition keys of a route that the request of TestConditionKeysAreFacts cannot have, with the reason.
func isMove(r *gate.Route) bool { return r.Name == "RenameObject" || r.Name == "MoveObject" }

func keysElsewhere(r *gate.Route, key string) bool {
	switch {
	case r.Level == gate.Bucket && key == "s3:if-match":
		return true // from the entries of the document
	case strings.HasPrefix(key, "s3:RequestObjectTag"):
		return isMove(r) // from the source
	case isMove(r) && (key == "s3:x-amz-storage-class" || key == "s3:x-amz-website-redirect-location"):
		return true // likewise
	case r.Sub == "uploadId": // from the upload, which cannot have them here
		return strings.HasPrefix(key, "s3:x-amz-grant-") || key == "s3:x-amz-server-side-encryption"
	}
	return false
}

// For every condition key of a route, a request can have a fact.
func TestConditionKeysAreFacts(t *testing.T) {
	j := &judge{}
	w := newWorld(t, judged(j), setup{start: overTLS})
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	put := w.do("PUT", "/bucket/key", []byte("content"), "X-Amz-Tagging", "team=red").is(200, "")
	version := put.header.Get("X-Amz-Version-Id")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	properties := []string{
		"X-Amz-Tagging", "a=b", lockMode, "GOVERNANCE", lockUntil, until, lockHold, "ON", "X-Amz-Storage-Class", "STANDARD_IA",
		"X-Amz-Website-Redirect-Location", "/other",
	}
	var upload struct{ UploadId string }
	w.do("POST", "/bucket/key?uploads", nil, properties...).is(200, "").parse(&upload)
	j.refuse = func(int, authCall) error { return auth.ErrExplicitDeny } // applies to the initiator of the upload, too
	bodies := map[string]string{
		"CreateBucket":     "<CreateBucketConfiguration><LocationConstraint>here</LocationConstraint></CreateBucketConfiguration>",
		"PutObjectTagging": "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
		"PutObjectRetention": "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>" + until +
			"</RetainUntilDate></Retention>",
		"PutObjectLegalHold": "<LegalHold><Status>ON</Status></LegalHold>",
	}
	for _, r := range s3.Routes() {
		path, headers := target(r)
		path = strings.Replace(path, absentUpload, upload.UploadId, 1)
		path += "&prefix=p&delimiter=d&max-keys=7&max-uploads=7"
		if r.VersionAction != "" && r.Level == gate.Object {
			path += "&versionId=" + version
		}
		headers = append(headers, "Referer", "https://example.org/", "User-Agent", "test")
		headers = append(headers, "If-Match", "x", "If-None-Match", "*", "X-Amz-Tagging-Directive", "REPLACE")
		if bodies[r.Name] == "" {
			headers = append(headers, properties...)
		}
		for _, name := range []string{
			"Acl", "Object-Ownership", "Server-Side-Encryption", "Metadata-Directive", "Grant-Full-Control", "Grant-Read",
			"Grant-Read-Acp", "Grant-Write", "Grant-Write-Acp", "Server-Side-Encryption-Aws-Kms-Key-Id",
			"Server-Side-Encryption-Customer-Algorithm",
		} {
			headers = append(headers, "X-Amz-"+name, "value")
		}
		if r.Name == "RenameObject" {
			headers = append(headers, "X-Amz-Rename-Source", "other")
		}
		missing := map[string]bool{}
		j.keys = nil
		for _, key := range r.Keys {
			if keysElsewhere(r, key) {
				continue
			}
			if strings.HasSuffix(key, "/") {
				key += map[string]string{"s3:ExistingObjectTag/": "team", "s3:RequestObjectTag/": "a"}[key]
			}
			j.keys = append(j.keys, key)
		}
		j.present = func(key string, ok bool) { missing[key] = !ok }
		require.Equal(t, 403, w.do(r.Method, path, []byte(bodies[r.Name]), headers...).status, r.Name)
		require.Len(t, missing, len(j.keys), "%s lists a condition key twice", r.Name)
		for key, isMissing := range missing {
			require.False(t, isMissing, "%s: %s", r.Name, key)
		}
	}
	j.keys = []string{
		"s3:nonsense", "aws:nonsense", "s3:x-amz-nonsense", "nonsense", "s3:VersionId", "s3:if-match", "s3:RequestObjectTag/a",
		"s3:RequestObjectTagKeys", "s3:ExistingObjectTag/team", "s3:locationconstraint", "s3:object-lock-mode",
		"s3:object-lock-remaining-retention-days", "s3:x-amz-copy-source",
	}
	j.present = func(key string, ok bool) { require.False(t, ok, key) }
	w.do("GET", "/bucket", nil)
}

// second is a request whose handler asks for secondary actions.
type second struct {
	route, method, path string
	body                string
	headers             []string
	want                []authCall // after the call for the action of the route
}

// send sends the request. A form is signed in its fields.
func (c *second) send(w *world) *response {
	if c.route == "PostObject" {
		return w.send(w.request(c.method, c.path, []byte(c.body), c.headers...))
	}
	return w.do(c.method, c.path, []byte(c.body), c.headers...)
}

// seconds returns the requests. governed and tagged are the versions of /locked/governed and /locked/tagged.
func seconds(governed, tagged string) []second {
	key := func(bucket, key, version string) auth.Resource {
		return auth.Resource{Account: account, Bucket: bucket, Key: key, Version: version}
	}
	fresh := key("locked", "new", "")
	whole := auth.Resource{Account: account, Bucket: "locked", Scope: auth.EveryKey}
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	tagAndLock := []authCall{
		{"s3:PutObjectTagging", fresh}, {"s3:PutObjectRetention", fresh}, {"s3:PutObjectLegalHold", fresh},
	}
	tagsAndLocks := []string{
		"X-Amz-Tagging", "a=b", lockMode, "GOVERNANCE", lockUntil, until, lockHold, "ON", "Content-MD5", md5Of(nil),
	}
	bypass := []string{"X-Amz-Bypass-Governance-Retention", "true"}
	find := "<FindContent><Content><Size>1</Size><SHA256>" + strings.Repeat("0", 64) +
		"</SHA256></Content></FindContent>"
	deletes := "<Delete><Object><Key>one</Key></Object><Object><Key>governed</Key><VersionId>" + governed +
		"</VersionId></Object></Delete>"
	retention := "<Retention></Retention>"
	const byPass = "s3:BypassGovernanceRetention"
	reads := func(of string, version string) authCall {
		if version != "" {
			return authCall{"s3:GetObjectVersion", key("locked", of, version)}
		}
		return authCall{"s3:GetObject", key("locked", of, "")}
	}
	writesTags := []authCall{{"s3:PutObject", fresh}, {"s3:PutObjectTagging", fresh}}
	readsTags := append([]authCall{{"s3:GetObjectTagging", key("locked", "tagged", "")}}, writesTags...)
	readsVersionTags := append([]authCall{{"s3:GetObjectVersionTagging", key("locked", "tagged", tagged)}}, writesTags...)
	readsAll := []authCall{{"s3:GetObject", whole}, {"s3:GetObjectVersion", whole}}
	to := key("plain", "new", "")
	moves := []authCall{
		{"s3:GetObject", key("plain", "tagged", "")}, {"s3:DeleteObject", key("plain", "tagged", "")},
		{"s3:GetObjectTagging", key("plain", "tagged", "")}, {"s3:PutObject", to}, {"s3:PutObjectTagging", to},
	}
	// lists is the question whether the caller may know that a key does not exist.
	lists := func(bucket, key string) authCall {
		return authCall{"s3:ListBucket", auth.Resource{Account: account, Bucket: bucket, Prefix: key}}
	}
	absent := []authCall{lists("locked", "absent")}
	const etag = `"x"`
	compared := []authCall{{"s3:GetObject", key("locked", "absent", "")}, lists("locked", "absent")}
	object2 := func(sub string) string { return "/locked/absent?" + sub }
	version := "versionId=" + absentVersion
	odd := "<Delete><Object><Key>absent</Key><ETag>x</ETag></Object></Delete>"
	release := "<LegalHold><Status>OFF</Status></LegalHold>"
	tags := "<Tagging><TagSet/></Tagging>"
	created := auth.Resource{Account: account, Bucket: "created"}
	bypasses := authCall{byPass, key("locked", "governed", governed)}
	const object, part, copySource = "/locked/new", "/locked/many?partNumber=1&uploadId=UPLOAD", "X-Amz-Copy-Source"
	plain := []string{copySource, "/locked/plain"}
	current := []string{copySource, "/locked/tagged"}
	versioned := []string{copySource, "/locked/tagged?versionId=" + tagged}
	replaced := append(tagsAndLocks[:8:8], copySource, "/locked/tagged", "X-Amz-Tagging-Directive", "REPLACE")
	instant := []string{"X-Amz-Instant-Length", "7"}
	lockForm := newForm("", "x-amz-tagging", "a=b", lockMode, "GOVERNANCE", lockUntil, until, lockHold, "ON", "Content-MD5", md5Of(nil))
	lockForm.bucket, lockForm.fields[1] = "locked", "new"
	sum := func(body string) []string { return append([]string{"Content-MD5", md5Of([]byte(body))}, bypass...) }
	moved := func(from string) []authCall {
		return []authCall{{"s3:GetObject", key("plain", from, "")}, {"s3:DeleteObject", key("plain", from, "")}}
	}
	complete := "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>PART</ETag></Part></CompleteMultipartUpload>"
	return []second{
		{"PutObject", "PUT", object, "", tagsAndLocks, tagAndLock},
		{"PutObject", "PUT", object, "", instant, readsAll},
		{"CreateMultipartUpload", "POST", object + "?uploads", "", tagsAndLocks, tagAndLock},
		{"PostObject", "POST", "/locked", string(lockForm.body(lockForm.all())), []string{"Content-Type", "multipart/form-data; boundary=B"}, tagAndLock},
		{"FindContent", "POST", "/locked?instant", find, nil, readsAll},
		{"CopyObject", "PUT", object, "", plain, []authCall{reads("plain", "")}},
		{"CopyObject", "PUT", object, "", current, append([]authCall{reads("tagged", "")}, readsTags...)},
		{"CopyObject", "PUT", object, "", versioned, append([]authCall{reads("tagged", tagged)}, readsVersionTags...)},
		{"CopyObject", "PUT", object, "", []string{copySource, "/plain/absent"},
			[]authCall{{"s3:GetObject", key("plain", "absent", "")}, lists("plain", "absent")}},
		{"CopyObject", "PUT", object, "", replaced, append(tagAndLock[:3:3], reads("tagged", ""))},
		{"UploadPartCopy", "PUT", part, "", plain, []authCall{reads("plain", "")}},
		{"UploadPartCopy", "PUT", part, "", versioned, []authCall{reads("tagged", tagged)}},
		{"UploadPart", "PUT", part, "", instant, readsAll},
		{"RenameObject", "PUT", "/plain/new?renameObject", "", []string{"X-Amz-Rename-Source", "tagged"}, moves},
		{"RenameObject", "PUT", "/plain/new?renameObject", "", []string{"X-Amz-Rename-Source", "absent"},
			append(moved("absent"), lists("plain", "absent"))},
		{"MoveObject", "PUT", "/plain/new", "", []string{"X-Amz-Move-Source", "/plain/tagged"}, moves},
		{"MoveObject", "PUT", "/plain/new", "", []string{"X-Amz-Move-Source", "/plain/absent"},
			append(moved("absent"), lists("plain", "absent"))},
		{"UploadPartCopy", "PUT", part, "", []string{copySource, "/plain/absent"},
			[]authCall{{"s3:GetObject", key("plain", "absent", "")}, lists("plain", "absent")}},
		{"CreateBucket", "PUT", "/created", "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></CreateBucketConfiguration>",
			[]string{"X-Amz-Bucket-Object-Lock-Enabled", "true", "X-Amz-Object-Ownership", "BucketOwnerEnforced"}, []authCall{
				{"s3:PutBucketObjectLockConfiguration", created}, {"s3:PutBucketVersioning", created},
				{"s3:PutBucketTagging", created}, {"s3:PutBucketOwnershipControls", created},
			}},
		{"GetObject", "GET", object2(""), "", nil, absent},
		{"HeadObject", "HEAD", object2(""), "", nil, absent},
		{"GetObject", "GET", object2(version), "", nil, absent},
		{"PutObject", "PUT", object2(""), "", []string{"If-Match", etag}, compared},
		{"PutObject", "PUT", object2(""), "", []string{"If-Match", "*"}, absent},
		{"PutObject", "PUT", object2(""), "", []string{"If-Match", "", "If-Match", etag}, compared},
		{"PutObject", "PUT", object2(""), "content", []string{"X-Amz-Write-Offset-Bytes", "1"}, compared[:1]},
		{"RenameObject", "PUT", "/plain/new?renameObject", "",
			[]string{"X-Amz-Rename-Source", "absent", "If-Unmodified-Since", "Mon, 02 Jan 2023 15:04:05 GMT"},
			append(append([]authCall{{"s3:GetObject", to}}, moved("absent")...), lists("plain", "absent"))},
		{"CompleteMultipartUpload", "POST", "/locked/many?uploadId=UPLOAD", complete, []string{"If-Match", etag},
			[]authCall{{"s3:GetObject", key("locked", "many", "")}, lists("locked", "many")}},
		{"PutObjectAcl", "PUT", object2("acl"), "", []string{"X-Amz-Acl", "private"}, absent},
		{"GetObjectAcl", "GET", object2("acl"), "", nil, absent},
		{"GetObjectAttributes", "GET", object2("attributes"), "", []string{"X-Amz-Object-Attributes", "ETag"},
			[]authCall{{"s3:GetObject", key("locked", "absent", "")}, lists("locked", "absent")}},
		{"GetObjectAttributes", "GET", "/locked/tagged?attributes&versionId=" + tagged, "",
			[]string{"X-Amz-Object-Attributes", "ETag"}, []authCall{{"s3:GetObjectVersion", key("locked", "tagged", tagged)}}},
		{"GetObjectTagging", "GET", object2("tagging"), "", nil, absent},
		{"PutObjectTagging", "PUT", object2("tagging"), tags, nil, absent},
		{"DeleteObjectTagging", "DELETE", object2("tagging"), "", nil, absent},
		{"GetObjectRetention", "GET", object2("retention"), "", nil, absent},
		{"GetObjectLegalHold", "GET", object2("legal-hold"), "", nil, absent},
		{"PutObjectRetention", "PUT", object2("retention"), retention, sum(retention)[:2], absent},
		{"PutObjectLegalHold", "PUT", object2("legal-hold"), release, sum(release)[:2], absent},
		{"DeleteObject", "DELETE", object2(""), "", []string{"If-Match", etag}, compared},
		{"DeleteObject", "DELETE", object2(""), "", []string{"If-Match", "", "If-Match", etag}, compared},
		{"DeleteObject", "DELETE", object2(""), "", []string{"X-Amz-If-Match-Size", "1"}, compared[:1]},
		{"DeleteObjects", "POST", "/locked?delete", odd, sum(odd)[:2], []authCall{
			{"s3:DeleteObject", key("locked", "absent", "")}, {"s3:GetObject", key("locked", "absent", "")},
			lists("locked", "absent"),
		}},
		{"DeleteObject", "DELETE", "/locked/governed?versionId=" + governed, "", bypass, []authCall{bypasses}},
		{"DeleteObjects", "POST", "/locked?delete", deletes, sum(deletes), []authCall{
			{"s3:DeleteObject", key("locked", "one", "")}, {byPass, key("locked", "one", "")},
			{"s3:DeleteObjectVersion", key("locked", "governed", governed)}, bypasses,
		}},
		{"PutObjectRetention", "PUT", "/locked/governed?retention&versionId=" + governed, retention, sum(retention),
			[]authCall{bypasses}},
	}
}

// secondWorld returns a server with the buckets and objects that the requests of seconds need, and these requests.
func secondWorld(t *testing.T, j *judge) (w *world, cases []second) {
	w = newWorld(t, judged(j))
	w.bucket("plain")
	w.do("PUT", "/locked", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	w.put("/plain/plain", "content")
	w.put("/plain/tagged", "content", "X-Amz-Tagging", "a=b")
	w.put("/locked/plain", "content")
	w.put("/locked/one", "content")
	put := w.do("PUT", "/locked/tagged", []byte("content"), "X-Amz-Tagging", "a=b").is(200, "")
	tagged := put.header.Get("X-Amz-Version-Id")
	governed := w.do("PUT", "/locked/governed", nil, "Content-MD5", md5Of(nil), lockMode, "GOVERNANCE", lockUntil,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).is(200, "").header.Get("X-Amz-Version-Id")
	var upload struct{ UploadId string }
	w.do("POST", "/locked/many?uploads", nil).is(200, "").parse(&upload)
	part := w.put("/locked/many?partNumber=1&uploadId="+upload.UploadId, "content")
	cases = seconds(governed, tagged)
	for i := range cases {
		cases[i].path = strings.Replace(cases[i].path, "UPLOAD", upload.UploadId, 1)
		cases[i].body = strings.Replace(cases[i].body, "PART", part, 1)
	}
	j.reset()
	return w, cases
}

// Every secondary action that a handler asks for is declared by its route, and has the right resource. If the action is
// denied, the request fails.
func TestSecondaryActions(t *testing.T) {
	declared, requested := map[string][]auth.Action{}, map[string][]auth.Action{}
	for _, r := range s3.Routes() {
		list := slices.DeleteFunc(slices.Clone(r.Secondary), func(a auth.Action) bool { return isForHeaders(r, a) })
		if len(list) > 0 {
			declared[r.Name] = slices.Sorted(slices.Values(list))
		}
	}
	j := &judge{}
	_, cases := secondWorld(t, j)
	for i, c := range cases {
		t.Run(fmt.Sprint(i, c.route), func(t *testing.T) {
			j := &judge{}
			w, cases := secondWorld(t, j)
			c := cases[i]
			c.send(w)
			got := j.reset()
			require.NotEmpty(t, got)
			require.Equal(t, c.want, got[1:])
			for n := range c.want {
				w, cases := secondWorld(t, j)
				c := cases[i]
				j.refuse = func(i int, _ authCall) error {
					if i == n+1 {
						return auth.ErrDenied
					}
					return nil
				}
				a := c.send(w)
				j.refuse = nil
				if c.method != "HEAD" {
					require.Contains(t, string(a.body), "<Code>AccessDenied</Code>", "%v", c.want[n])
				}
				if c.route != "DeleteObjects" { // DeleteObjects continues with the next key
					require.Equal(t, 403, a.status)
					require.Len(t, j.reset(), n+2)
				}
				j.reset()
				require.Equal(t, "(none)", w.content("/locked/new"))
				require.Equal(t, "content", w.content("/plain/plain"))
			}
		})
		for _, q := range c.want {
			r, list := routeNamed(c.route), requested[c.route]
			if q.action != r.Action && q.action != r.VersionAction && !slices.Contains(list, q.action) {
				requested[c.route] = append(requested[c.route], q.action)
			}
		}
	}
	for _, list := range requested {
		slices.Sort(list)
	}
	require.Equal(t, declared, requested, "every secondary action must be used, and have a request in this test")
}

// isForHeaders reports whether an action is only needed for headers of the response, which are omitted if it is denied
// (TestHeadersOfReaders).
func isForHeaders(r *gate.Route, a auth.Action) bool {
	switch a {
	case "s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:GetObjectRetention", "s3:GetObjectLegalHold":
		return r.Name == "GetObject" || r.Name == "HeadObject"
	}
	return false
}

func routeNamed(name string) *gate.Route {
	for _, r := range s3.Routes() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// The access key of a request is looked up once, and once more when its body has arrived, or when
// a bucket has been created.
func TestOneLookup(t *testing.T) {
	lookups := 0
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			lookups++
			return lookup(ctx, key, token)
		}
	}})
	w.bucket("bucket")
	require.Equal(t, 2, lookups)
	w.put("/bucket/key", "content", "X-Amz-Tagging", "a=b")
	require.Equal(t, 4, lookups)
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key").is(200, "")
	require.Equal(t, 5, lookups)
	w.send(w.request("GET", "/bucket/key", nil)).is(403, "AccessDenied")
	require.Equal(t, 5, lookups, "an anonymous request has no key to look up")
}

// If the access key cannot be looked up, the response is an InternalError, whatever the kind of the error.
func TestFailingLookup(t *testing.T) {
	cause := error(nil)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if cause != nil {
				return gate.Credential{}, cause
			}
			return lookup(ctx, key, token)
		}
	}})
	w.bucket("bucket")
	for _, cause = range []error{core.E("iam.Key", core.NoSuchKey, nil), core.E("iam.Key", core.Canceled, nil), errors.New("disk I/O error")} {
		a := w.do("GET", "/bucket/key", nil).is(500, "InternalError")
		require.NotContains(t, string(a.body), "iam")
		require.NotContains(t, string(a.body), "disk")
	}
}

// Permissions are checked for the canonical ID of a version, even if the request has another form of the ID.
func TestCanonicalVersionIDs(t *testing.T) {
	j := &judge{keys: []string{"s3:VersionId"}, present: func(string, bool) {}}
	w := newWorld(t, judged(j), setup{options: func(o *s3.Options) { o.IDs = ids.New([16]byte{}, 0xff) }})
	w.bucket("bucket")
	const upper, canonical = "00000000000000AB", "00000000000000ab"
	j.reset()
	w.do("GET", "/bucket/key?versionId="+upper, nil)
	require.Equal(t, canonical, j.reset()[0].resource.Version)
	w.summed("POST", "/bucket?delete", "<Delete><Object><Key>key</Key><VersionId>"+upper+"</VersionId></Object></Delete>").is(200, "")
	calls := j.reset()
	require.Equal(t, canonical, calls[len(calls)-1].resource.Version)
}

// A request that is authenticated by another scheme has the permissions of its principal.
func TestSchemes(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Schemes = []gate.Scheme{session{}} }})
	w.bucket("bucket")
	w.send(w.request("PUT", "/bucket/key", []byte("content"), "Cookie", accessKey)).is(200, "")
	a := w.send(w.request("GET", "/bucket/key", nil, "Cookie", accessKey)).is(200, "")
	require.Equal(t, "content", string(a.body))
	w.send(w.request("GET", "/bucket/key", nil, "Cookie", stranger)).is(403, "AccessDenied")
	w.send(w.request("GET", "/bucket/key", nil, "Cookie", "nobody")).is(403, "AccessDenied")
	w.send(w.request("GET", "/bucket/key", nil)).is(403, "AccessDenied")
	require.Equal(t, "content", w.content("/bucket/key"))
}

// session is a scheme that authenticates requests by an access key alone.
type session struct{}

func (session) Authenticate(r *http.Request) (gate.Identity, error) {
	key := r.Header.Get("Cookie")
	if key == "" {
		return gate.Identity{Principal: auth.Anonymous}, nil
	}
	p := holders[key].Principal
	if p == nil {
		return gate.Identity{}, auth.ErrDenied
	}
	return gate.Identity{Auth: &sigv4.Auth{AccessKey: key, Mode: sigv4.PayloadUnsigned}, Principal: p}, nil
}

// APIs that share the listener are found before the bucket is looked up. All other requests are handled by S3 as usual.
func TestOtherAPIs(t *testing.T) {
	iam := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("IAM")) })
	apis := []gate.API{{Name: "iam", Method: "POST", Path: "/", Handler: iam}}
	w := newWorld(t, setup{options: func(o *s3.Options) { o.APIs = apis }})
	w.bucket("bucket")
	require.Equal(t, "IAM", string(w.send(w.request("POST", "/", nil)).body))
	require.Equal(t, "IAM", string(w.send(w.request("POST", "/?Action=ListUsers", nil)).body))
	w.do("GET", "/", nil).is(200, "")
	w.do("POST", "/bucket", nil).is(412, "PreconditionFailed")
	w.do("POST", "/", nil, "Host", "bucket.s3.example.org").is(412, "PreconditionFailed")
	w.send(w.request("POST", "/nobody", nil)).is(404, "NoSuchBucket")

	w = newWorld(t)
	w.do("POST", "/", nil).is(405, "MethodNotAllowed")
	w.send(w.request("POST", "/", nil)).is(403, "AccessDenied")
}

// watcher is an observer that records events.
type watcher struct {
	mu   sync.Mutex
	seen []gate.Event
}

func (o *watcher) Observe(_ context.Context, e *gate.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, *e)
}

// take returns the only event since the last call.
func (o *watcher) take(t *testing.T) gate.Event {
	t.Helper()
	require.Eventually(t, func() bool { // the client may have the response before the request has ended
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.seen) > 0
	}, 10*time.Second, time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Len(t, o.seen, 1)
	e := o.seen[0]
	o.seen = nil
	return e
}

func TestObservers(t *testing.T) {
	first, second := &watcher{}, &watcher{}
	settings := live.New(live.Settings{MaxInFlight: 100, BodyTimeout: time.Minute})
	broken := errors.New("the keys cannot be read")
	var server *s3.Server
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.Observers, o.Live = []gate.Observer{first, second}, settings
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if key == "AKIABROKEN" {
				return gate.Credential{}, broken
			}
			return lookup(ctx, key, token)
		}
		var err error
		server, err = s3.New(*o)
		require.NoError(t, err)
	}})
	check := func(want gate.Event) gate.Event {
		t.Helper()
		got := first.take(t)
		require.Equal(t, got, second.take(t))
		e := got
		require.NotEmpty(t, e.ID)
		require.False(t, e.Start.IsZero())
		require.Positive(t, e.FirstByte)
		require.GreaterOrEqual(t, e.Took, e.FirstByte)
		e.ID, e.Start, e.FirstByte, e.Took, e.Remote, e.UserAgent, e.Cause = "", time.Time{}, 0, 0, "", "", nil
		require.Equal(t, want, e)
		return got
	}
	root := holders[accessKey].Principal
	effects := map[string]gate.Effect{"CreateBucket": gate.Settings, "PutObject": gate.Write, "GetObject": gate.Read}
	event := func(operation, method, path, key string, status int) gate.Event {
		return gate.Event{
			Operation: operation, Effect: effects[operation], Method: method, Path: path, Bucket: "bucket", Key: key, Status: status,
			AccessKey: accessKey, Principal: root,
		}
	}
	w.bucket("bucket")
	check(event("CreateBucket", "PUT", "/bucket", "", 200))
	w.put("/bucket/a%2Fkey", "content")
	e := event("PutObject", "PUT", "/bucket/a/key", "a/key", 200)
	e.In = 7
	check(e)
	w.content("/bucket/a/key")
	e = event("GetObject", "GET", "/bucket/a/key", "a/key", 200)
	e.Out = 7
	check(e)
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/a%2Fkey", "User-Agent", "copier").is(200, "")
	copied := first.take(t)
	require.Equal(t, second.take(t), copied)
	require.Equal(t, "/bucket/a%2Fkey", copied.Target)
	require.Equal(t, "copier", copied.UserAgent)
	require.Equal(t, gate.Write, copied.Effect)
	for source, target := range map[string]string{
		"/bucket/a%2Fkey?versionId=null":                        "/bucket/a%2Fkey?versionId=null",
		"/bucket/a%2Fkey?X-Amz-Signature=s":                     "/bucket/a%2Fkey",
		"/bucket/a%2Fkey?versionId=null&X-Amz-Security-Token=s": "/bucket/a%2Fkey",
	} {
		w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", source)
		require.Equal(t, target, first.take(t).Target)
		second.take(t)
	}
	w.do("GET", "/bucket/a%2Fkey?versionId=null", nil).is(200, "")
	require.Equal(t, "null", first.take(t).Version)
	second.take(t)
	n := len(w.do("GET", "/bucket/none", nil).is(404, "NoSuchKey").body)
	e = event("GetObject", "GET", "/bucket/none", "none", 404)
	e.Code, e.Out = "NoSuchKey", int64(n)
	check(e)
	n = len(w.send(w.request("GET", "/bucket/a/key", nil)).is(403, "AccessDenied").body)
	e = event("GetObject", "GET", "/bucket/a/key", "a/key", 403)
	e.Code, e.Out, e.AccessKey, e.Principal = "AccessDenied", int64(n), "", auth.Anonymous
	e.Reason = gate.Authorization
	check(e)
	r := w.request("GET", "/bucket/a/key", nil)
	(&sigv4.Signer{AccessKey: "AKIABROKEN", SecretKey: "x", Region: "us-east-1"}).Sign(r, hash(nil), w.now())
	n = len(w.send(r).is(500, "InternalError").body)
	e = event("", "GET", "/bucket/a/key", "a/key", 500)
	e.Code, e.Out, e.Fault, e.AccessKey, e.Principal = "InternalError", int64(n), true, "", nil
	require.ErrorIs(t, check(e).Cause, broken)
	r = w.request("GET", "/bucket/a/key", nil)
	(&sigv4.Signer{AccessKey: accessKey, SecretKey: "a wrong secret", Region: "us-east-1"}).Sign(r, hash(nil), w.now())
	n = len(w.send(r).is(403, "SignatureDoesNotMatch").body)
	e = event("", "GET", "/bucket/a/key", "a/key", 403)
	e.Code, e.Out, e.Reason, e.AccessKey, e.Principal = "SignatureDoesNotMatch", int64(n), gate.Authentication, "", nil
	check(e)

	r = w.request("PUT", "/bucket/a/key", nil)
	r.Body = io.NopCloser(iotest.ErrReader(core.E("test", core.Overloaded, content.ErrNoMemory)))
	r.ContentLength = 1
	(&sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}).Sign(r, sigv4.UnsignedPayload, w.now())
	response := httptest.NewRecorder()
	server.ServeHTTP(response, r)
	require.Equal(t, 503, response.Code)
	require.Equal(t, gate.Memory, first.take(t).Reason)
	server.Busy(httptest.NewRecorder(), httptest.NewRequest("GET", "/bucket/a/key", nil))
	require.Equal(t, gate.Connections, first.take(t).Reason)
	settings.Update(func(l *live.Settings) { l.MaxInFlight = 0 })
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/bucket/a/key", nil))
	require.Equal(t, gate.InFlight, first.take(t).Reason)
	second.seen = nil

	n = len(server.RefuseHead(431, "", "192.0.2.1:77"))
	got := first.take(t)
	require.Equal(t, 400, got.Status)
	require.Equal(t, "192.0.2.1:77", got.Remote)
	require.Less(t, got.Out, int64(n))
}
