package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/core"
	"orcas/gate"
	"orcas/s3"
	"orcas/s3/sigv4"
)

// question is what an authorizer was asked.
type question struct {
	action   auth.Action
	resource auth.Resource
}

// judge is an authorizer that remembers what it was asked, and allows it unless refuse says otherwise.
type judge struct {
	mu      sync.Mutex
	asked   []question
	refuse  func(n int, q question) error // n counts from 0 since the last reset; nil: refuses nothing
	present func(key string, ok bool)     // is told which of keys have a value
	keys    []string
}

func (j *judge) Authorize(_ context.Context, _ *auth.Principal, a auth.Action, r auth.Resource, f auth.Facts) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := question{a, r}
	n := len(j.asked)
	j.asked = append(j.asked, q)
	for _, key := range j.keys {
		_, ok := f.Fact(key)
		j.present(key, ok)
	}
	if j.refuse != nil {
		return j.refuse(n, q)
	}
	return nil
}

// reset forgets what was asked, and returns it.
func (j *judge) reset() []question {
	j.mu.Lock()
	defer j.mu.Unlock()
	asked := j.asked
	j.asked = nil
	return asked
}

func judged(j *judge) setup { return setup{options: func(o *s3.Options) { o.Authorizer = j }} }

// target returns path and query of a request for a route, and the headers that select it.
func target(r *gate.Route) (path string, headers []string) {
	path = [...]string{gate.Service: "/", gate.Bucket: "/bucket", gate.Object: "/bucket/key"}[r.Level]
	path += "?x-id=" + r.Name
	switch r.Sub {
	case "":
	case "uploadId":
		path += "&partNumber=1&uploadId=0000000000000001"
	default:
		path += "&" + r.Sub
	}
	if r.Header != "" {
		headers = []string{r.Header, "/bucket/source"}
	}
	return path, headers
}

// What every route asks the authorizer, before anything else happens: its action, or that for a version, on what the
// request names.
func TestEveryRouteIsAuthorized(t *testing.T) {
	deny := func(int, question) error { return auth.ErrDenied }
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
			want := question{r.Action, auth.Resource{Account: account}}
			if r.Level != gate.Service {
				want.resource.Bucket = "bucket"
			}
			switch {
			case r.Level == gate.Object:
				want.resource.Key = "key"
			case r.Target() == gate.Object:
				want.resource.Scope = auth.AnyKey
			}
			a := w.do(r.Method, path, nil, headers...)
			require.Equal(t, 403, a.status)
			require.Equal(t, []question{want}, j.reset())
			if r.VersionAction != "" && r.Level == gate.Object {
				a := w.do(r.Method, path+"&versionId=null", nil, headers...)
				require.Equal(t, 403, a.status)
				want.action, want.resource.Version = r.VersionAction, "null"
				require.Equal(t, []question{want}, j.reset())
			}
			if r.Level == gate.Bucket && slices.Contains(r.Keys, "s3:prefix") {
				want.resource.Prefix = "a/"
				w.do(r.Method, path+"&prefix=a%2F", nil, headers...).is(403, "AccessDenied")
				require.Equal(t, []question{want}, j.reset())
			}

			// Anonymous requests are asked about too, and get the same answer; forged ones are not.
			require.Equal(t, 403, w.send(w.request(r.Method, path, nil, headers...)).status)
			require.Len(t, j.reset(), 1)
			forged := w.request(r.Method, path, nil, headers...)
			forger := &sigv4.Signer{AccessKey: accessKey, SecretKey: "wrong", Region: "us-east-1"}
			forger.Sign(forged, hash(nil), time.Now())
			require.Equal(t, 403, w.send(forged).status)
			require.Empty(t, j.reset())

			// Where the authorizer cannot find out, nothing is done either.
			j.refuse = func(int, question) error { return errors.New("the policies cannot be read") }
			require.Equal(t, 500, w.do(r.Method, path, nil, headers...).status)
			j.reset()
		})
	}
	j.refuse = nil
	require.Equal(t, "content", w.content("/bucket/key"))
}

// The owner is let through by every route, and another account and nobody by none.
func TestEveryRouteKnowsOwners(t *testing.T) {
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

// Every condition key that a row has is a fact that the gate can tell.
func TestConditionKeysAreFacts(t *testing.T) {
	j := &judge{refuse: func(int, question) error { return auth.ErrDenied }}
	w := newWorld(t, judged(j))
	j.refuse = nil
	w.bucket("bucket")
	j.refuse = func(int, question) error { return auth.ErrDenied }
	for _, r := range s3.Routes() {
		path, headers := target(r)
		path += "&prefix=p&delimiter=d&max-keys=7"
		if r.VersionAction != "" && r.Level == gate.Object {
			path += "&versionId=null"
		}
		headers = append(headers, "Referer", "https://example.org/", "User-Agent", "test")
		headers = append(headers, "If-Match", "x", "If-None-Match", "*")
		for _, name := range []string{
			"Acl", "Object-Ownership", "Object-Lock-Legal-Hold", "Object-Lock-Mode", "Object-Lock-Retain-Until-Date",
			"Server-Side-Encryption", "Storage-Class", "Metadata-Directive",
		} {
			headers = append(headers, "X-Amz-"+name, "value")
		}
		missing := map[string]bool{}
		j.keys, j.present = r.Keys, func(key string, ok bool) { missing[key] = !ok }
		require.Equal(t, 403, w.do(r.Method, path, nil, headers...).status, r.Name)
		require.Len(t, missing, len(r.Keys), "%s has a condition key twice", r.Name)
		require.NotContains(t, mapValues(missing), true, "%s: %v", r.Name, missing)
	}
	j.keys = []string{"s3:nonsense", "aws:nonsense", "s3:x-amz-nonsense", "nonsense", "s3:VersionId"}
	j.present = func(key string, ok bool) { require.False(t, ok, key) }
	w.do("GET", "/bucket", nil)
}

func mapValues(m map[string]bool) (values []bool) {
	for _, v := range m {
		values = append(values, v)
	}
	return values
}

// second is a request whose handler asks for more than the action of its route.
type second struct {
	route, method, path string
	body                string
	headers             []string
	want                []question // after that of the route
}

// seconds returns the requests. versions are those of /locked/governed and /locked/tagged.
func seconds(governed, tagged string) []second {
	key := func(bucket, key, version string) auth.Resource {
		return auth.Resource{Account: account, Bucket: bucket, Key: key, Version: version}
	}
	fresh := key("locked", "new", "")
	whole := auth.Resource{Account: account, Bucket: "locked", Scope: auth.EveryKey}
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	tagAndLock := []question{
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
	reads := func(of string, version string) question {
		if version != "" {
			return question{"s3:GetObjectVersion", key("locked", of, version)}
		}
		return question{"s3:GetObject", key("locked", of, "")}
	}
	readsTags := question{"s3:GetObjectTagging", key("locked", "tagged", "")}
	readsVersionTags := question{"s3:GetObjectVersionTagging", key("locked", "tagged", tagged)}
	readsAll := []question{{"s3:GetObject", whole}}
	moves := []question{{"s3:GetObject", key("plain", "plain", "")}, {"s3:DeleteObject", key("plain", "plain", "")}}
	bypasses := question{byPass, key("locked", "governed", governed)}
	const object, part, copySource = "/locked/new", "/locked/many?partNumber=1&uploadId=UPLOAD", "X-Amz-Copy-Source"
	plain := []string{copySource, "/locked/plain"}
	current := []string{copySource, "/locked/tagged"}
	versioned := []string{copySource, "/locked/tagged?versionId=" + tagged}
	replaced := append(tagsAndLocks[:8:8], copySource, "/locked/tagged", "X-Amz-Tagging-Directive", "REPLACE")
	instant := []string{"X-Amz-Instant-Length", "7"}
	sum := func(body string) []string { return append([]string{"Content-MD5", md5Of([]byte(body))}, bypass...) }
	return []second{
		{"PutObject", "PUT", object, "", tagsAndLocks, tagAndLock},
		{"PutObject", "PUT", object, "", instant, readsAll},
		{"CreateMultipartUpload", "POST", object + "?uploads", "", tagsAndLocks, tagAndLock},
		{"FindContent", "POST", "/locked?instant", find, nil, readsAll},
		{"CopyObject", "PUT", object, "", plain, []question{reads("plain", "")}},
		{"CopyObject", "PUT", object, "", current, []question{reads("tagged", ""), readsTags}},
		{"CopyObject", "PUT", object, "", versioned, []question{reads("tagged", tagged), readsVersionTags}},
		{"CopyObject", "PUT", object, "", replaced, append(tagAndLock[:3:3], reads("tagged", ""))},
		{"UploadPartCopy", "PUT", part, "", plain, []question{reads("plain", "")}},
		{"UploadPartCopy", "PUT", part, "", versioned, []question{reads("tagged", tagged)}},
		{"UploadPart", "PUT", part, "", instant, readsAll},
		{"RenameObject", "PUT", "/plain/new?renameObject", "", []string{"X-Amz-Rename-Source", "plain"}, moves},
		{"MoveObject", "PUT", "/plain/new", "", []string{"X-Amz-Move-Source", "/plain/plain"}, moves},
		{"DeleteObject", "DELETE", "/locked/governed?versionId=" + governed, "", bypass, []question{bypasses}},
		{"DeleteObjects", "POST", "/locked?delete", deletes, sum(deletes), []question{
			{"s3:DeleteObject", key("locked", "one", "")}, {byPass, key("locked", "one", "")},
			{"s3:DeleteObjectVersion", key("locked", "governed", governed)}, bypasses,
		}},
		{"PutObjectRetention", "PUT", "/locked/governed?retention&versionId=" + governed, retention, sum(retention),
			[]question{bypasses}},
	}
}

// secondWorld has what the requests of seconds need.
func secondWorld(t *testing.T, j *judge) (w *world, cases []second) {
	w = newWorld(t, judged(j))
	w.bucket("plain")
	w.do("PUT", "/locked", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	w.put("/plain/plain", "content")
	w.put("/locked/plain", "content")
	w.put("/locked/one", "content")
	put := w.do("PUT", "/locked/tagged", []byte("content"), "X-Amz-Tagging", "a=b").is(200, "")
	tagged := put.header.Get("X-Amz-Version-Id")
	governed := w.do("PUT", "/locked/governed", nil, "Content-MD5", md5Of(nil), lockMode, "GOVERNANCE", lockUntil,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).is(200, "").header.Get("X-Amz-Version-Id")
	var upload struct{ UploadId string }
	w.do("POST", "/locked/many?uploads", nil).is(200, "").parse(&upload)
	cases = seconds(governed, tagged)
	for i := range cases {
		cases[i].path = strings.Replace(cases[i].path, "UPLOAD", upload.UploadId, 1)
	}
	j.reset()
	return w, cases
}

// Whatever a handler asks for besides the action of its route is declared in the row, names its resource, and is not
// done when it is refused.
func TestSecondaryActions(t *testing.T) {
	declared, asked := map[string][]auth.Action{}, map[string][]auth.Action{}
	for _, r := range s3.Routes() {
		if len(r.Secondary) > 0 {
			declared[r.Name] = slices.Sorted(slices.Values(r.Secondary))
		}
	}
	j := &judge{}
	_, cases := secondWorld(t, j)
	for i, c := range cases {
		t.Run(fmt.Sprint(i, c.route), func(t *testing.T) {
			j := &judge{}
			w, cases := secondWorld(t, j)
			c := cases[i]
			w.do(c.method, c.path, []byte(c.body), c.headers...)
			got := j.reset()
			require.NotEmpty(t, got)
			require.Equal(t, c.want, got[1:])
			for n := range c.want {
				w, cases := secondWorld(t, j)
				c := cases[i]
				j.refuse = func(asked int, _ question) error {
					if asked == n+1 {
						return auth.ErrDenied
					}
					return nil
				}
				a := w.do(c.method, c.path, []byte(c.body), c.headers...)
				j.refuse = nil
				require.Contains(t, string(a.body), "<Code>AccessDenied</Code>", "%v", c.want[n])
				if c.route != "DeleteObjects" { // which goes on with the next key
					require.Equal(t, 403, a.status)
					require.Len(t, j.reset(), n+2)
				}
				j.reset()
				require.Equal(t, "(none)", w.content("/locked/new"))
				require.Equal(t, "content", w.content("/plain/plain"))
			}
		})
		for _, q := range c.want {
			r, list := routeNamed(c.route), asked[c.route]
			if q.action != r.Action && q.action != r.VersionAction && !slices.Contains(list, q.action) {
				asked[c.route] = append(asked[c.route], q.action)
			}
		}
	}
	for _, list := range asked {
		slices.Sort(list)
	}
	require.Equal(t, declared, asked, "a secondary action is never asked for, or has no request in this test")
}

func routeNamed(name string) *gate.Route {
	for _, r := range s3.Routes() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// The keys of a request are looked up once.
func TestOneLookup(t *testing.T) {
	lookups := 0
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key string) (gate.Credential, error) {
			lookups++
			return lookup(ctx, key)
		}
	}})
	w.bucket("bucket")
	require.Equal(t, 1, lookups)
	w.put("/bucket/key", "content", "X-Amz-Tagging", "a=b")
	require.Equal(t, 2, lookups)
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key").is(200, "")
	require.Equal(t, 3, lookups)
	w.send(w.request("GET", "/bucket/key", nil)).is(403, "AccessDenied")
	require.Equal(t, 3, lookups, "nobody to look up")
}

// TestFailingLookup: if the keys cannot be looked up, the request fails because of the server, whatever kind of error that is.
func TestFailingLookup(t *testing.T) {
	cause := error(nil)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key string) (gate.Credential, error) {
			if cause != nil {
				return gate.Credential{}, cause
			}
			return lookup(ctx, key)
		}
	}})
	w.bucket("bucket")
	for _, cause = range []error{core.E("iam.Key", core.NoSuchKey, nil), core.E("iam.Key", core.Canceled, nil), errors.New("disk I/O error")} {
		a := w.do("GET", "/bucket/key", nil).is(500, "InternalError")
		require.NotContains(t, string(a.body), "iam")
		require.NotContains(t, string(a.body), "disk")
	}
}

// TestVersionsHaveOneName: a permission is asked for by the canonical ID of a version, however the request writes it.
func TestVersionsHaveOneName(t *testing.T) {
	j := &judge{keys: []string{"s3:VersionId"}, present: func(string, bool) {}}
	w := newWorld(t, judged(j))
	w.bucket("bucket")
	const upper, canonical = "00000000000000AB", "00000000000000ab"
	j.reset()
	w.do("GET", "/bucket/key?versionId="+upper, nil)
	require.Equal(t, canonical, j.reset()[0].resource.Version)
	w.summed("POST", "/bucket?delete", "<Delete><Object><Key>key</Key><VersionId>"+upper+"</VersionId></Object></Delete>").is(200, "")
	asked := j.reset()
	require.Equal(t, canonical, asked[len(asked)-1].resource.Version)
}

// What can authenticate in another way has the rights of its principal.
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

// session is a scheme that takes an access key for proof.
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

// APIs that share the listener are found before anybody looks at a bucket; what they do not take is S3's, as ever.
func TestOtherAPIs(t *testing.T) {
	iam := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("IAM")) })
	apis := []gate.API{{Name: "iam", Method: "POST", Path: "/", Handler: iam}}
	w := newWorld(t, setup{options: func(o *s3.Options) { o.APIs = apis }})
	w.bucket("bucket")
	require.Equal(t, "IAM", string(w.send(w.request("POST", "/", nil)).body))
	require.Equal(t, "IAM", string(w.send(w.request("POST", "/?Action=ListUsers", nil)).body))
	w.do("GET", "/", nil).is(200, "")
	w.do("POST", "/bucket", nil).is(501, "NotImplemented")
	w.do("POST", "/", nil, "Host", "bucket.s3.example.org").is(501, "NotImplemented")
	w.send(w.request("POST", "/nobody", nil)).is(404, "NoSuchBucket")

	w = newWorld(t)
	w.do("POST", "/", nil).is(405, "MethodNotAllowed")
	w.send(w.request("POST", "/", nil)).is(403, "AccessDenied")
}

// watcher is an observer that remembers.
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
	require.Eventually(t, func() bool { // a client has its answer before the request has ended
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
	broken := errors.New("the keys cannot be read")
	var server *s3.Server
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.Observers = []gate.Observer{first, second}
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key string) (gate.Credential, error) {
			if key == "AKIABROKEN" {
				return gate.Credential{}, broken
			}
			return lookup(ctx, key)
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
		e.ID, e.Start, e.FirstByte, e.Took, e.Remote, e.Cause = "", time.Time{}, 0, 0, "", nil
		require.Equal(t, want, e)
		return got
	}
	root := holders[accessKey].Principal
	event := func(operation, method, path, key string, status int) gate.Event {
		return gate.Event{
			Operation: operation, Method: method, Path: path, Bucket: "bucket", Key: key, Status: status,
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
	n := len(w.do("GET", "/bucket/none", nil).is(404, "NoSuchKey").body)
	e = event("GetObject", "GET", "/bucket/none", "none", 404)
	e.Code, e.Out = "NoSuchKey", int64(n)
	check(e)
	n = len(w.send(w.request("GET", "/bucket/a/key", nil)).is(403, "AccessDenied").body)
	e = event("GetObject", "GET", "/bucket/a/key", "a/key", 403)
	e.Code, e.Out, e.AccessKey, e.Principal = "AccessDenied", int64(n), "", auth.Anonymous
	check(e)
	r := w.request("GET", "/bucket/a/key", nil)
	(&sigv4.Signer{AccessKey: "AKIABROKEN", SecretKey: "x", Region: "us-east-1"}).Sign(r, hash(nil), w.now())
	n = len(w.send(r).is(500, "InternalError").body)
	e = event("", "GET", "/bucket/a/key", "a/key", 500)
	e.Code, e.Out, e.Fault, e.AccessKey, e.Principal = "InternalError", int64(n), true, "", nil
	require.ErrorIs(t, check(e).Cause, broken)

	n = len(server.RefuseHead(431, "", "192.0.2.1:77"))
	got := first.take(t)
	require.Equal(t, 400, got.Status)
	require.Equal(t, "192.0.2.1:77", got.Remote)
	require.Less(t, got.Out, int64(n))
}
