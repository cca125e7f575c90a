package s3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/policy"
	"orcas/gate"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/sigv2"
)

// This file has tests for attacks that let people into other servers. docs/s3.md lists them, with further tests.

// Every way to authenticate a request is checked on every route: the signature of the header and of the query, of both
// versions, and the seed signature of each form of a chunked body. Nothing is authorized for a forged one.
func TestForgedSignatures(t *testing.T) {
	j := &judge{}
	w := newWorld(t, judged(j), acceptV2(sigv2.All))
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	w.put("/bucket/source", "source")
	j.reset()
	v4 := func(key, secret string) *sigv4.Signer {
		return &sigv4.Signer{AccessKey: key, SecretKey: secret, Region: "us-east-1"}
	}
	ways := map[string]func(r *http.Request, key, secret string){
		"header":            func(r *http.Request, key, secret string) { v4(key, secret).Sign(r, sigv4.EmptySHA256, w.now()) },
		"query":             func(r *http.Request, key, secret string) { v4(key, secret).Presign(r, time.Minute, w.now()) },
		"header, version 2": func(r *http.Request, key, secret string) { signV2(r, key, secret, w.now()) },
		"query, version 2":  func(r *http.Request, key, secret string) { presignV2(r, key, secret, w.now().Add(time.Minute)) },
	}
	for _, payload := range []string{
		"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
		"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", "UNSIGNED-PAYLOAD",
	} {
		ways[payload] = func(r *http.Request, key, secret string) {
			r.Header.Set("X-Amz-Decoded-Content-Length", "0")
			r.Header.Set("Content-Encoding", "aws-chunked")
			if strings.HasSuffix(payload, "TRAILER") {
				r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("0\r\n\r\n")), 5
			v4(key, secret).Sign(r, payload, w.now())
		}
	}
	for _, route := range s3.Routes() {
		path, headers := target(route)
		for way, sign := range ways {
			for key, secret := range map[string]string{accessKey: "wrong", "AKIANOBODY": secretKey, "AKIANOBODYELSE": ""} {
				r := w.request(route.Method, path, nil, headers...)
				sign(r, key, secret)
				a := w.send(r)
				require.Contains(t, []int{400, 403, 501}, a.status, "%s, %s, %s: %s", route.Name, way, key, a.body)
				require.Empty(t, j.reset(), "%s, %s, %s", route.Name, way, key)
			}
		}
	}
	require.Equal(t, "content", w.content("/bucket/key"))
}

// authenticatedOnly allows everything to everyone except anonymous callers.
type authenticatedOnly struct{ allowed atomic.Int64 }

func (a *authenticatedOnly) Authorize(_ context.Context, p *auth.Principal, _ auth.Action, _ auth.Resource, _ auth.Facts) error {
	if p.IsAnonymous() {
		return auth.ErrDenied
	}
	a.allowed.Add(1)
	return nil
}

// A part of the credentials of a query does not authenticate a request, and neither do credentials in two places.
func TestPartialCredentials(t *testing.T) {
	j := &authenticatedOnly{}
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Authorizer = j }}, acceptV2(sigv2.All))
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	presigned := func() []string {
		r := w.request("PUT", "/bucket/key", nil)
		w.signer.Presign(r, time.Minute, w.now())
		return strings.Split(r.URL.RawQuery, "&")
	}
	presignedV2 := func() []string {
		return strings.Split(presignV2(w.request("PUT", "/bucket/key", nil), accessKey, secretKey, w.now().Add(time.Minute)).URL.RawQuery, "&")
	}
	refused := func(what, query string, headers ...string) {
		t.Helper()
		before := j.allowed.Load()
		a := w.send(w.request("PUT", "/bucket/key?"+query, []byte("forged"), headers...))
		require.Contains(t, []int{400, 403}, a.status, "%s: %s", what, a.body)
		require.Equal(t, before, j.allowed.Load(), what)
	}
	for _, all := range [][]string{presigned(), presignedV2()} {
		for i, name := range all {
			refused("without "+name, strings.Join(append(append([]string{}, all[:i]...), all[i+1:]...), "&"))
			refused("only "+name, name)
			refused("an Authorization header and "+name, name, "Authorization", "AWS "+accessKey+":")
		}
		for _, header := range []string{"", " ", "AWS", "AWS4-HMAC-SHA256", "Basic YTpi", "Bearer x", "AWS4-HMAC-SHA256 Credential=" + accessKey} {
			refused(fmt.Sprintf("the header %q", header), strings.Join(all, "&"), "Authorization", header, "X-Amz-Date", "x")
		}
	}
	refused("both versions", strings.Join(append(presigned(), presignedV2()...), "&"))
	require.Equal(t, "content", w.content("/bucket/key"))
}

// The key of which a permission is checked is the key that is read, written and listed, however a request spells it: in
// its path and in the header with a source.
func TestOneSpellingOfKeys(t *testing.T) {
	j := &judge{}
	w := newWorld(t, judged(j))
	w.bucket("bucket")
	for spelling, key := range map[string]string{
		"a/b": "a/b", "a%2Fb": "a/b", "a%2fb": "a/b", "a%252Fb": "a%2Fb", "a%25%32%46b": "a%2Fb", "a//b": "a//b", "a/b/": "a/b/", "a+b": "a+b", "a%2Bb": "a+b",
		"a%20b": "a b", "%61/b": "a/b", "a%3Fb": "a?b", "a%23b": "a#b", "a%26b": "a&b", "a%5Cb": `a\b`, "%C3%BC": "ü", "a;b": "a;b", "a%3Bb": "a;b", "a.": "a.",
	} {
		j.reset()
		w.put("/bucket/"+spelling, "content "+key)
		require.Equal(t, key, j.reset()[0].resource.Key, spelling)
		require.Equal(t, "content "+key, w.content("/bucket/"+spelling))
		require.Equal(t, key, j.reset()[0].resource.Key, spelling)
		var list struct{ Contents []struct{ Key string } }
		w.do("GET", "/bucket?list-type=2", nil).is(200, "").parse(&list)
		require.Len(t, list.Contents, 1, spelling)
		require.Equal(t, key, list.Contents[0].Key)

		for _, header := range []string{"X-Amz-Copy-Source", "X-Amz-Rename-Source"} {
			target, source := "/bucket/target", "/bucket/"+spelling
			if header == "X-Amz-Rename-Source" {
				target += "?renameObject"
			}
			j.reset()
			w.do("PUT", target, nil, header, source).is(200, "")
			var keys []string
			for _, c := range j.reset() {
				keys = append(keys, c.resource.Key)
			}
			require.Contains(t, keys, key, "%s: %s", header, spelling)
			require.Subset(t, []string{key, "target"}, keys, "%s: %s", header, spelling)
			require.Equal(t, "content "+key, w.content("/bucket/target"))
			w.do("DELETE", "/bucket/target", nil).is(204, "")
		}
	}
	// Segments with dots are not resolved.
	for _, spelling := range []string{"../key", "a/../b", "%2E%2E/key", "a/%2e%2e/b", "./a", "a/./b", "..%2Fkey"} {
		literal, err := url.PathUnescape(spelling)
		require.NoError(t, err)
		j.reset()
		for _, source := range []string{"bucket/" + spelling, "/bucket/" + spelling} {
			a := w.do("PUT", "/bucket/target", nil, "X-Amz-Copy-Source", source)
			require.Contains(t, []int{400, 404}, a.status, spelling)
		}
		var list struct{ Contents []struct{ Key string } }
		if a := w.do("PUT", "/bucket/"+spelling, nil); a.status == 200 { // it does not leave the bucket
			w.do("GET", "/bucket?prefix="+url.QueryEscape(literal), nil).is(200, "").parse(&list)
			require.Len(t, list.Contents, 1, spelling)
			w.do("DELETE", "/bucket/"+spelling, nil).is(204, "")
		} else {
			require.Equal(t, 400, a.status, spelling)
		}
		for _, c := range j.reset() { // "" is that of the right to list the bucket
			require.Contains(t, []string{"", "target", literal}, c.resource.Key, spelling)
		}
	}
}

// A condition of a request is decided after its authorization: the response to a caller without permission tells nothing
// about the object.
func TestConditionsAfterAuthorization(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := w.put("/bucket/key", "content")
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	past, future := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	requests := []struct {
		method, path string
		headers      []string
		conditions   []string
	}{
		{"GET", "/bucket/key", nil, []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Range"}},
		{"HEAD", "/bucket/key", nil, []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Range"}},
		{"PUT", "/bucket/key", nil, []string{"If-Match", "If-None-Match"}},
		{"DELETE", "/bucket/key", nil, []string{"If-Match"}},
		{"PUT", "/bucket/copy", []string{"X-Amz-Copy-Source", "/bucket/key"}, []string{"X-Amz-Copy-Source-If-Match",
			"X-Amz-Copy-Source-If-None-Match", "X-Amz-Copy-Source-If-Modified-Since", "X-Amz-Copy-Source-If-Unmodified-Since"}},
	}
	for _, q := range requests {
		for _, c := range q.conditions {
			values := []string{`"` + etag + `"`, `"0"`, "*"}
			switch {
			case strings.HasSuffix(c, "Since"):
				values = []string{past, future}
			case c == "Range":
				values = []string{"bytes=0-1", "bytes=100-200"}
			}
			for _, v := range values {
				headers := append(append([]string{}, q.headers...), c, v)
				for who, a := range map[string]*response{
					"nobody": w.send(w.request(q.method, q.path, nil, headers...)), "a stranger": other.do(q.method, q.path, nil, headers...),
				} {
					require.Equal(t, 403, a.status, "%s %s by %s with %s: %s", q.method, q.path, who, c, v)
					for _, header := range []string{"Etag", "Last-Modified", "Content-Range"} {
						require.Empty(t, a.header.Get(header), "%s %s by %s with %s: %s", q.method, q.path, who, c, v)
					}
				}
			}
		}
	}
	require.Equal(t, "content", w.content("/bucket/key"))
}

// A part that is copied needs the permission to read its source, also if the caller may write to the destination.
func TestSourceOfParts(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	other.bucket("other")
	var upload struct{ UploadId string }
	other.do("POST", "/other/many?uploads", nil).is(200, "").parse(&upload)
	for _, source := range []string{"/bucket/key", "bucket/key", "/bucket/key?versionId=null", "%2Fbucket%2Fkey", "/bucket/%6Bey", "/bucket/none"} {
		for _, more := range [][]string{nil, {"X-Amz-Copy-Source-Range", "bytes=0-3"}} {
			headers := append([]string{"X-Amz-Copy-Source", source}, more...)
			other.do("PUT", "/other/many?partNumber=1&uploadId="+upload.UploadId, nil, headers...).is(403, "AccessDenied")
		}
		other.do("PUT", "/other/copy", nil, "X-Amz-Copy-Source", source).is(403, "AccessDenied")
	}
	require.NotContains(t, string(other.do("GET", "/other/many?uploadId="+upload.UploadId, nil).is(200, "").body), "<PartNumber>")
}

// The permission to list objects is not one to list versions or uploads, and no combination of parameters reaches
// another listing.
func TestListingsAreSeparate(t *testing.T) {
	j := &judge{refuse: func(_ int, q authCall) error {
		if q.action == "s3:ListBucket" {
			return nil
		}
		return auth.ErrDenied
	}}
	allow := j.refuse
	j.refuse = nil
	w := newWorld(t, judged(j))
	w.do("PUT", "/bucket", nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
	for range 2 {
		w.put("/bucket/key", "content")
	}
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	w.do("POST", "/bucket/many?uploads", nil).is(200, "")
	j.refuse = allow
	for _, query := range []string{"", "list-type=2", "prefix=k", "delimiter=/"} {
		require.NotContains(t, string(w.do("GET", "/bucket?"+query, nil).is(200, "").body), "key")
	}
	for _, query := range []string{
		"versions", "versions=", "versions&list-type=2", "list-type=2&versions", "versions&prefix=k", "versions&max-keys=1", "uploads", "uploads&list-type=2",
		"%76ersions", "versions&x-id=ListObjectsV2", "x-id=ListObjectVersions&versions",
	} {
		a := w.do("GET", "/bucket?"+query, nil)
		require.Contains(t, []int{400, 403}, a.status, query)
		require.NotContains(t, string(a.body), "<Key>", query)
	}
	for _, query := range []string{"Versions", "VERSIONS", "x-id=ListObjectVersions", "list-type=2&x-id=ListObjectVersions", "version-id-marker=x"} {
		require.NotContains(t, string(w.do("GET", "/bucket?"+query, nil).body), "<Key>", query)
	}
}

// Headers by which other servers talk to themselves have no effect on a request, whoever sends them.
func TestInternalHeaders(t *testing.T) {
	internal := []string{
		"X-Minio-Internal-Actual-Size", "1", "X-Minio-Source-Etag", "0", "X-Minio-Source-Mtime", "2020-01-01T00:00:00Z", "X-Minio-Source-Replication-Request", "true",
		"X-Minio-Replication-Actual-Object-Size", "1", "X-Minio-Internal-Server-Side-Encryption-Iv", "x", "X-Minio-Force-Delete", "true", "X-Minio-Extract", "true",
		"X-Amz-Meta-Snowball-Auto-Extract", "true", "Seaweed-Owner", "x", "X-Seaweedfs-Server-Side-Encryption", "x", "X-Rgw-Effective-Uid", "root",
		"X-Forwarded-User", "root", "X-Remote-User", "root", "X-Original-Url", "/bucket/other", "X-Rewrite-Url", "/bucket/other", "X-Http-Method-Override", "DELETE",
		"X-Amz-Replication-Status", "REPLICA", "X-Orcas-Internal", "true", "X-Forwarded-Host", "other.s3.example.org",
	}
	w := newWorld(t)
	w.bucket("bucket")
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
		require.Equal(t, 403, w.send(w.request(method, "/bucket/key", nil, internal...)).status, method)
	}
	sum := hexMD5([]byte("content"))
	require.Equal(t, sum, w.put("/bucket/key", "content", internal...))
	for _, headers := range [][]string{nil, internal} {
		a := w.do("GET", "/bucket/key", nil, headers...).is(200, "")
		require.Equal(t, "content", string(a.body))
		require.Equal(t, sum, a.etag())
		require.NotContains(t, a.header.Get("Last-Modified"), "2020")
		for name := range a.header {
			for _, prefix := range []string{"X-Minio", "Seaweed", "X-Rgw", "X-Orcas", "X-Amz-Replication", "X-Amz-Server-Side"} {
				require.False(t, strings.HasPrefix(name, prefix), name)
			}
		}
	}
	var list struct{ Contents []struct{ Key string } }
	w.do("GET", "/bucket?list-type=2", nil, internal...).is(200, "").parse(&list)
	require.Len(t, list.Contents, 1)
}

// A request without valid credentials is refused before its body is read.
func TestBodiesAreReadAfterAuthentication(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	forged := &sigv4.Signer{AccessKey: accessKey, SecretKey: "wrong", Region: "us-east-1"}
	for _, c := range []struct{ method, path string }{
		{"PUT", "/bucket/key"}, {"PUT", "/bucket?policy"}, {"POST", "/bucket?delete"}, {"PUT", "/bucket?lifecycle"}, {"POST", "/bucket/key?uploadId=" + absentUpload},
		{"PUT", "/bucket/key?partNumber=1&uploadId=" + absentUpload}, {"POST", "/bucket?instant"}, {"PUT", "/bucket/key?tagging"}, {"PUT", "/other"},
	} {
		for who, sign := range map[string]func(*http.Request){
			"nobody": func(*http.Request) {}, "a forger": func(r *http.Request) { forged.Sign(r, sigv4.UnsignedPayload, w.now()) },
		} {
			body := &unreadBody{}
			r := w.request(c.method, c.path, nil)
			r.Body, r.ContentLength = body, 1<<40
			r.Header.Set("Expect", "100-continue")
			sign(r)
			transport := w.client.Transport.(*http.Transport).Clone()
			transport.ExpectContinueTimeout = time.Hour // the body is sent only if the server asks for it
			response, err := transport.RoundTrip(r)
			require.NoError(t, err)
			require.Contains(t, []int{400, 403}, response.StatusCode, "%s %s by %s", c.method, c.path, who)
			require.NoError(t, response.Body.Close())
			require.False(t, body.read, "%s %s by %s", c.method, c.path, who)
			transport.CloseIdleConnections()
		}
	}
}

// unreadBody is a body that must not be read.
type unreadBody struct{ read bool }

func (b *unreadBody) Read([]byte) (int, error) { b.read = true; return 0, io.ErrUnexpectedEOF }
func (b *unreadBody) Close() error             { return nil }

// The ID of a request comes from the server, and no part of a request makes another line or another field of the log.
func TestLogInjection(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) }})
	w.bucket("bucket")
	const evil = `evil","status":200,"access_key":"root`
	for _, header := range []string{"X-Amz-Request-Id", "X-Request-Id", "X-Amz-Id-2", "X-Correlation-Id", "Traceparent", "User-Agent", "Referer"} {
		a := w.do("GET", "/bucket/none", nil, header, evil).is(404, "NoSuchKey")
		require.NotContains(t, a.header.Get("X-Amz-Request-Id"), "evil", header)
		require.NotContains(t, string(a.body), "evil", header)
	}
	const path = "/bucket/x%0A%7B%22status%22:200%7D%0D%0A%1B%5B31m%22,%22status%22:200,%22a%22:%22"
	w.send(w.request("GET", path, nil)).is(403, "AccessDenied")
	forged := w.request("GET", "/bucket/none", nil)
	(&sigv4.Signer{AccessKey: "AKIA" + evil, SecretKey: "x", Region: "us-east-1"}).Sign(forged, sigv4.EmptySHA256, w.now())
	w.send(forged)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 1+7+1+1)
	for _, line := range lines[1:] {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		require.GreaterOrEqual(t, fields["status"], 400.0, line)
		require.NotEqual(t, "root", fields["access_key"], line)
		require.NotContains(t, fmt.Sprint(fields["id"]), "evil")
	}
}

// No parameter makes the server send a request: a source is a bucket and a key.
func TestSourcesAreNotFetched(t *testing.T) {
	seen := &watcher{}
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Observers = []gate.Observer{seen} }})
	w.bucket("bucket")
	seen.take(t)
	for _, source := range []string{
		w.url + "/bucket/key", "//" + strings.TrimPrefix(w.url, "http://") + "/bucket/key", "http://169.254.169.254/latest/meta-data", "file:///etc/passwd",
	} {
		for _, header := range []string{"X-Amz-Copy-Source", "X-Amz-Move-Source"} {
			a := w.do("PUT", "/bucket/copy", nil, header, source)
			require.Contains(t, []int{400, 403, 404}, a.status, "%s: %s", header, source)
			seen.take(t) // exactly one request: the server has not sent another one to itself
		}
	}
	require.Equal(t, "(none)", w.content("/bucket/copy"))
}

// The address of a client is that of its connection. Headers in which proxies put it are not believed.
func TestForwardedAddresses(t *testing.T) {
	users := map[string]*policy.Caller{}
	arn := "arn:aws:iam::" + account + ":user/user"
	p, err := policy.Parse([]byte(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*",
		"Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}}`), policy.Source{Name: "test"})
	require.NoError(t, err)
	users[arn] = &policy.Caller{Principal: &auth.Principal{Account: account, ARN: arn}, Identity: []*policy.Policy{p}}
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.Authorizer = access.New(func(p *auth.Principal) *policy.Caller { return users[p.ARN] })
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if key == aUser {
				return gate.Credential{SecretKey: secretKey, Principal: users[arn].Principal}, nil
			}
			return lookup(ctx, key, token)
		}
	}})
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	user := *w
	user.signer = &sigv4.Signer{AccessKey: aUser, SecretKey: secretKey, Region: "us-east-1"}
	for _, header := range []string{
		"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "Client-Ip",
	} {
		for _, value := range []string{"192.0.2.1", "for=192.0.2.1", "192.0.2.1, 127.0.0.1", "127.0.0.1, 192.0.2.1"} {
			user.do("GET", "/bucket/key", nil, header, value).is(403, "AccessDenied")
		}
	}
}
