package s3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate"
	"orcas/internal/live"
	"orcas/internal/sigv4"
	"orcas/s3"
)

func TestAnonymousAndForgedRequestsAreDenied(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	paths := []string{
		"/", "/bucket", "/bucket/key", "/bucket?list-type=2", "/bucket?acl", "/bucket?policy", "/bucket/key?uploads", "/Bad_Name",
		"//", "/bucket/../bucket/key",
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"} {
		for _, p := range paths {
			a := w.send(w.request(method, p, nil))
			require.Equal(t, 403, a.status, "%s %s: %s", method, p, a.body)
		}
	}
	// A preflight is not signed. It reports whether the bucket exists, as the other requests do, and has no other
	// effect than its error.
	for _, p := range append(paths, "/bucket/key?X-Amz-Signature=0", "/bucket/key?X-Amz-Expires=x&X-Amz-Algorithm=y") {
		w.send(w.request("OPTIONS", p, nil)).is(400, "BadRequest")
		for _, method := range []string{"GET", "PUT", "DELETE", "nonsense", ""} {
			a := w.send(w.request("OPTIONS", p, []byte("body"), "Origin", "https://example.com", "Access-Control-Request-Method", method))
			a.is(403, "AccessForbidden")
			require.Equal(t, strings.HasPrefix(p, "/bucket"), strings.Contains(string(a.body), "CORS is not enabled for this bucket."), p)
			require.Equal(t, !strings.HasPrefix(p, "/bucket"), strings.Contains(string(a.body), "CORSResponse: Bucket not found<"), p)
			require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
		}
	}
	w.send(w.request("GET", "/bucket/key", nil)).is(403, "AccessDenied")
	// A form contains its signature in a field (form_test.go). Without a bucket in the path, it is handled like any other
	// request.
	form := []string{"Content-Type", "Multipart/Form-Data; boundary=x"}
	w.send(w.request("POST", "/bucket", nil, form...)).is(400, "MalformedPOSTRequest")
	w.send(w.request("POST", "/bucket/", nil, form...)).is(400, "MalformedPOSTRequest")
	w.send(w.request("POST", "/nobody", nil, form...)).is(400, "MalformedPOSTRequest")
	w.send(w.request("POST", "/bucket/key", nil, form...)).is(403, "AccessDenied")
	w.send(w.request("PUT", "/bucket", nil, form...)).is(403, "AccessDenied")
	w.send(w.request("POST", "/", nil, form...)).is(403, "AccessDenied")
	w.send(w.request("GET", "/nobody/knows", nil)).is(404, "NoSuchBucket")
	w.send(w.request("PUT", "/nobody", nil)).is(403, "AccessDenied")

	sign := func(s *sigv4.Signer, at time.Time) *response {
		r := w.request("PUT", "/bucket/key", []byte("forged"))
		s.Sign(r, hash([]byte("forged")), at)
		return w.send(r)
	}
	now := w.now()
	sign(&sigv4.Signer{AccessKey: accessKey, SecretKey: "wrong", Region: "us-east-1"}, now).is(403, "SignatureDoesNotMatch")
	sign(&sigv4.Signer{AccessKey: "AKIANOBODY", SecretKey: secretKey, Region: "us-east-1"}, now).is(403, "InvalidAccessKeyId")
	sign(w.signer, now.Add(-16*time.Minute)).is(403, "RequestTimeTooSkewed")
	sign(w.signer, now.Add(16*time.Minute)).is(403, "RequestTimeTooSkewed")
	sign(&sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "mars-1"}, now).is(400, "AuthorizationHeaderMalformed")
	require.Equal(t, "content", w.content("/bucket/key"))
}

func TestOtherAccountsAreDenied(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	for _, c := range []struct{ method, path string }{
		{"GET", "/bucket/key"}, {"PUT", "/bucket/key"}, {"DELETE", "/bucket/key"}, {"GET", "/bucket"}, {"DELETE", "/bucket"}, {"GET", "/bucket?acl"},
		{"POST", "/bucket/key?uploads"}, {"GET", "/bucket?uploads"}, {"GET", "/bucket?location"},
	} {
		other.do(c.method, c.path, nil).is(403, "AccessDenied")
	}
	other.do("PUT", "/bucket", nil).is(409, "BucketAlreadyExists")
	other.bucket("other")
	other.do("PUT", "/other/copy", nil, "X-Amz-Copy-Source", "/bucket/key").is(403, "AccessDenied")
	require.NotContains(t, string(other.do("GET", "/", nil).body), "<Name>bucket</Name>")
	require.Equal(t, "content", w.content("/bucket/key"))

	w.do("GET", "/bucket/key", nil, "X-Amz-Expected-Bucket-Owner", account).is(200, "")
	w.do("GET", "/bucket/key", nil, "X-Amz-Expected-Bucket-Owner", "999999999999").is(403, "AccessDenied")
	w.do("PUT", "/bucket/key", []byte("x"), "X-Amz-Expected-Bucket-Owner", "999999999999").is(403, "AccessDenied")
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Source-Expected-Bucket-Owner", "9").is(403, "AccessDenied")
}

func TestUnsupportedRequests(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	for _, sub := range []string{
		"session", "torrent", "restore", "select&select-type=2",
		"append&position=7", "events=s3:ObjectCreated:*&ping=10", "metadataTable", "metadataConfiguration", "metadataAnnotationTable", "abac", "annotation",
	} {
		for _, p := range []string{"/bucket", "/bucket/key"} {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				w.do(method, p+"?"+sub, []byte("body")).is(501, "NotImplemented")
			}
			require.Equal(t, 501, w.do("HEAD", p+"?"+sub, nil).status)
		}
	}
	for _, missing := range []string{
		"GET /bucket/key?quota", "PUT /bucket/key?quota", "GET /bucket/key?object-lock", "PUT /bucket/key?object-lock", "GET /bucket?retention", "PUT /bucket?renameObject",
		"GET /bucket?legal-hold", "PUT /bucket?versions",
	} {
		method, path, _ := strings.Cut(missing, " ")
		w.do(method, path, []byte("body")).is(501, "NotImplemented")
	}
	for _, other := range []string{
		"POST /", "POST /bucket?quota", "POST /bucket/key?tagging", "DELETE /bucket?object-lock", "GET /bucket/key?renameObject", "DELETE /bucket/key?retention", "DELETE /bucket/key?legal-hold",
		"DELETE /bucket/key?acl", "DELETE /bucket/key?uploads", "GET /bucket?delete", "DELETE /bucket?location", "POST /bucket?versioning", "PATCH /bucket?cors",
	} {
		method, path, _ := strings.Cut(other, " ")
		w.do(method, path, []byte("body")).is(405, "MethodNotAllowed")
	}
	w.do("POST", "/bucket", []byte("form")).is(412, "PreconditionFailed")
	w.do("POST", "/bucket/key", nil).is(405, "MethodNotAllowed")
	w.do("PATCH", "/bucket/key", nil).is(405, "MethodNotAllowed")
	w.do("GET", "/bucket?acl&policy", nil).is(400, "InvalidArgument")
	w.do("PUT", "/bucket/key?versionId=null", nil).is(400, "InvalidArgument")
	w.do("PUT", "/bucket/key?partNumber=1&uploadId=", []byte("x")).is(400, "InvalidArgument")
	w.do("GET", "/bucket/key?uploads", nil).is(400, "InvalidRequest")
	w.do("GET", "/bucket/key?versions", nil).is(400, "InvalidRequest")

	for _, c := range [][3]string{
		{"PUT", "X-Amz-Server-Side-Encryption", "AES256"},
		{"PUT", "X-Amz-Server-Side-Encryption", "aws:kms"},
		{"GET", "X-Amz-Tagging", "a=b"},
		{"DELETE", "X-Amz-Object-Lock-Mode", "COMPLIANCE"},
		{"GET", "X-Amz-Object-Lock-Legal-Hold", "ON"},
		{"PUT", "X-Amz-Object-Lock-Event-Hold", "ON"},
		{"GET", "X-Amz-Write-Offset-Bytes", "7"},
		{"DELETE", "X-Amz-Mfa", "serial 123"},
		{"PUT", "X-Amz-Bypass-Governance-Retention", "true"},
		{"PUT", "X-Amz-If-Match-Size", "7"},
		{"DELETE", "If-None-Match", "*"},
		{"DELETE", "If-Unmodified-Since", time.Now().Format(http.TimeFormat)},
		{"PUT", "If-Modified-Since", time.Now().Format(http.TimeFormat)},
		{"PUT", "If-None-Match", `"etag"`},
	} {
		w.do(c[0], "/bucket/key", nil, c[1], c[2]).is(501, "NotImplemented")
	}
	w.do("POST", "/bucket/key?uploads", nil, "If-None-Match", "*").is(501, "NotImplemented")
	w.do("GET", "/bucket", nil, "If-Match", `"etag"`).is(501, "NotImplemented")
	w.do("PUT", "/bucket/key", nil, "X-Amz-Acl", "mine").is(400, "InvalidArgument")
	w.do("GET", "/?events=s3:BucketCreated:*", nil).is(501, "NotImplemented")
	for _, header := range [][]string{
		{"X-Amz-Grant-Read", "id=1"}, {"X-Amz-Grant-Full-Control", "id=" + account}, {"X-Amz-Acl", "public-read"}, {"X-Amz-Acl", "public-read-write"},
		{"X-Amz-Acl", "authenticated-read"}, {"X-Amz-Acl", "aws-exec-read"}, {"X-Amz-Acl", "bucket-owner-read"}, {"X-Amz-Acl", "log-delivery-write"},
	} {
		for _, request := range []string{"PUT /bucket/key", "PUT /bucket/key?acl", "PUT /bucket?acl", "POST /bucket/key?uploads", "GET /bucket/key"} {
			method, path, _ := strings.Cut(request, " ")
			w.do(method, path, []byte("x"), header...).is(400, "AccessControlListNotSupported")
		}
		w.do("PUT", "/bucket/key", nil, append(header, "X-Amz-Copy-Source", "/bucket/key")...).is(400, "AccessControlListNotSupported")
	}
	require.Equal(t, "content", w.content("/bucket/key"))
}

func TestCommonClientRequests(t *testing.T) {
	w := newWorld(t)
	w.do("PUT", "/bucket", nil, "X-Amz-Acl", "private", "X-Amz-Object-Ownership", "BucketOwnerEnforced", "X-Amz-Bucket-Object-Lock-Enabled", "false").is(200, "")
	w.put("/bucket/key?x-id=PutObject", "content", "X-Amz-Acl", "bucket-owner-full-control", "X-Amz-Storage-Class", "GLACIER_IR",
		"X-Amz-Request-Payer", "requester")
	a := w.do("GET", "/bucket/key?x-id=GetObject&unknown=1", nil).is(200, "")
	require.Equal(t, "GLACIER_IR", a.header.Get("X-Amz-Storage-Class"))
	require.Empty(t, a.header.Get("X-Amz-Version-Id"))
	w.do("PUT", "/bucket/key", nil, "X-Amz-Storage-Class", "BEST").is(400, "InvalidStorageClass")

	var versioning struct{ Status string }
	w.do("GET", "/bucket?versioning", nil).is(200, "").parse(&versioning)
	require.Empty(t, versioning.Status)
	location := w.do("GET", "/bucket?location", nil).is(200, "")
	require.Contains(t, string(location.body), `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	for _, p := range []string{"/bucket?acl", "/bucket/key?acl"} {
		var acl struct {
			Owner struct{ ID string }
			List  []struct {
				Grantee    struct{ ID string }
				Permission string
			} `xml:"AccessControlList>Grant"`
		}
		w.do("GET", p, nil).is(200, "").parse(&acl)
		require.Equal(t, canonical, acl.Owner.ID)
		require.Len(t, acl.List, 1)
		require.Equal(t, "FULL_CONTROL", acl.List[0].Permission)
	}
	w.do("GET", "/bucket/none?acl", nil).is(404, "NoSuchKey")
}

func TestVirtualHostStyle(t *testing.T) {
	w := newWorld(t)
	host := []string{"Host", "my.bucket.S3.example.org:9000"}
	w.do("PUT", "/", nil, host...).is(200, "")
	w.do("PUT", "/dir//key", []byte("content"), host...).is(200, "")
	require.Equal(t, "content", w.content("/my.bucket/dir//key"))
	w.do("PUT", "/-/health/live", []byte("an object"), host...).is(200, "")
	require.Equal(t, "an object", w.content("/my.bucket/-/health/live"))
	require.Contains(t, string(w.do("GET", "/?list-type=2", nil, host...).is(200, "").body), "<Key>dir//key</Key>")
	w.do("GET", "/", nil, "Host", "s3.example.org").is(200, "").parse(new(struct {
		XMLName struct{} `xml:"ListAllMyBucketsResult"`
	}))
	w.do("DELETE", "/dir//key", nil, host...).is(204, "")
	require.Equal(t, "(none)", w.content("/my.bucket/dir//key"))
}

func TestSystemPathsAreNotBuckets(t *testing.T) {
	system := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = rw.Write([]byte("fine: " + r.URL.Path)) })
	w := newWorld(t, setup{options: func(o *s3.Options) { o.APIs = []gate.API{{Name: "system", Path: "/-/*", Handler: system}} }})
	a := w.send(w.request("GET", "/-/health/live", nil))
	require.Equal(t, "fine: /-/health/live", string(a.body))
	w.do("GET", "/-", nil).is(400, "InvalidBucketName")
}

func TestTooManyConcurrentRequests(t *testing.T) {
	seen := make(chan struct{}, 100)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.MaxInFlight, o.Lookup = 1, func(ctx context.Context, key, token string) (gate.Credential, error) {
			seen <- struct{}{}
			return lookup(ctx, key, token)
		}
	}})
	w.bucket("bucket")
	for len(seen) > 0 {
		<-seen
	}
	conn := w.raw("PUT", "/bucket/key", 4, sigv4.UnsignedPayload)
	<-seen // the request is in flight and waits for its body
	a := w.do("GET", "/bucket/other", nil)
	a.is(503, "SlowDown")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	_, err := io.WriteString(conn, "body")
	require.NoError(t, err)
	done, _ := w.readResponse(conn)
	done.is(200, "")
	require.Equal(t, "body", w.content("/bucket/key"))
}

// A limit that is changed while requests are in flight applies to the next request.
func TestLimitsChangeWhileServing(t *testing.T) {
	limits := live.New(live.Settings{MaxInFlight: 1, BodyTimeout: time.Minute})
	seen := make(chan struct{}, 100)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Live, o.Lookup = limits, func(ctx context.Context, key, token string) (gate.Credential, error) {
			seen <- struct{}{}
			return lookup(ctx, key, token)
		}
	}})
	w.bucket("bucket")
	for len(seen) > 0 {
		<-seen
	}
	conn := w.raw("PUT", "/bucket/key", 4, sigv4.UnsignedPayload)
	<-seen // the request is in flight and waits for its body
	w.do("GET", "/bucket/other", nil).is(503, "SlowDown")
	limits.Update(func(s *live.Settings) { s.MaxInFlight = 2 })
	w.do("GET", "/bucket/other", nil).is(404, "NoSuchKey")
	_, err := io.WriteString(conn, "body")
	require.NoError(t, err)
	done, _ := w.readResponse(conn)
	done.is(200, "")
}

func TestHeaderSection(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.do("GET", "/bucket?prefix="+strings.Repeat("p", 9000), nil, "X-Fat", strings.Repeat("v", 7000)).is(200, "")
	w.do("GET", "/bucket", nil, "X-Fat", strings.Repeat("v", 4500), "X-Fat", strings.Repeat("v", 4500)).is(400, "RequestHeaderSectionTooLarge")
}

func TestPanicsBecomeResponses(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, setup{options: func(o *s3.Options) {
		lookup := o.Lookup
		o.Lookup = func(ctx context.Context, key, token string) (gate.Credential, error) {
			if key == "AKIAPANIC" {
				panic("out of order")
			}
			return lookup(ctx, key, token)
		}
		o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	}})
	r := w.request("GET", "/bucket/key", nil)
	(&sigv4.Signer{AccessKey: "AKIAPANIC", SecretKey: "x", Region: "us-east-1"}).Sign(r, hash(nil), w.now())
	a := w.send(r).is(500, "InternalError")
	require.NotContains(t, string(a.body), "out of order")
	require.Equal(t, 1, strings.Count(log.String(), "out of order"))
	require.Contains(t, log.String(), a.header.Get("X-Amz-Request-Id"))
	w.bucket("bucket")
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		n := byte('0')
		o.RequestID = func() string { n++; return "ID" + string(n) }
	}})
	w.bucket("bucket")
	w.put("/bucket/a%0Ab", "content")
	presigned := w.request("GET", "/bucket/a%0Ab", nil)
	w.signer.Presign(presigned, time.Minute, w.now())
	require.Equal(t, "content", string(w.send(presigned).is(200, "").body))
	w.do("GET", "/bucket/none", nil).is(404, "NoSuchKey")
	var lines []map[string]any
	for d := json.NewDecoder(&log); d.More(); {
		var line map[string]any
		require.NoError(t, d.Decode(&line))
		lines = append(lines, line)
	}
	require.Len(t, lines, 4)
	put, get, missing := lines[1], lines[2], lines[3]
	require.Equal(t, "PutObject", put["operation"])
	require.Equal(t, "a\nb", put["key"])
	require.EqualValues(t, 7, put["in"])
	require.EqualValues(t, 7, get["out"])
	require.Equal(t, accessKey, get["access_key"])
	require.Equal(t, "NoSuchKey", missing["code"])
	require.EqualValues(t, 404, missing["status"])
	require.Equal(t, "ID4", missing["id"])
	require.NotContains(t, log.String(), "Signature")
}
