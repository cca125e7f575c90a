package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orcas/internal/sigv4"
)

// presign returns a presigned request that expires after life and was signed age ago.
func presign(t *T, method, ref string, body any, life, age time.Duration, headers ...string) *http.Request {
	t.Helper()
	r := t.request(method, ref, body, headers...)
	t.signer.Presign(r, life, time.Now().Add(-age))
	return r
}

// altered changes the query of a presigned request.
func altered(r *http.Request, old, with string) *http.Request {
	r.URL.RawQuery = strings.Replace(r.URL.RawQuery, old, with, 1)
	return r
}

var presigned = area{"presigned", []rule{
	{"get", "a presigned GET needs only its URL", func(t *T) {
		t.put("key", "content")
		a := t.send(presign(t, "GET", "key", nil, time.Minute, 0)).ok(200)
		a.expect(a.body == "content", "%q", a.body)
	}},
	{"put", "a presigned PUT accepts any body", func(t *T) {
		t.send(presign(t, "PUT", "key", "content", time.Minute, 0)).ok(200)
		t.holds("key", "content")
	}},
	{"head", "HEAD can be presigned", func(t *T) {
		t.put("key", "content")
		t.send(presign(t, "HEAD", "key", nil, time.Minute, 0)).ok(200).has("Content-Length", "7")
	}},
	{"delete", "DELETE can be presigned", func(t *T) {
		t.put("key", "content")
		t.send(presign(t, "DELETE", "key", nil, time.Minute, 0)).ok(204)
		t.gone("key")
	}},
	{"list", "a listing can be presigned, with its parameters", func(t *T) {
		t.fill("a", "b")
		t.send(presign(t, "GET", "?list-type=2&prefix=b", nil, time.Minute, 0)).ok(200).eq("Contents/Key", "b")
	}},
	{"part", "UploadPart can be presigned", func(t *T) {
		u := t.begin("key")
		u.take(1, t.send(presign(t, "PUT", u.ref(1), "content", time.Minute, 0)).ok(200).etag())
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"odd-key", "a key with odd characters can be presigned", func(t *T) {
		t.put(escape("a b+ü/?"), "content")
		t.send(presign(t, "GET", escape("a b+ü/?"), nil, time.Minute, 0)).ok(200)
	}},
	{"used-again", "a presigned URL can be used again until it expires", func(t *T) {
		t.put("key", "content")
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		t.send(r).ok(200)
		t.send(r).ok(200)
	}},
	{"range", "a presigned GET may have headers that are not signed, such as Range", func(t *T) {
		t.put("key", digits)
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.Header.Set("Range", "bytes=2-5")
		a := t.send(r).ok(206)
		a.expect(a.body == "2345", "%q", a.body)
	}},
	{"expired", "an expired presigned URL fails with AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(presign(t, "GET", "key", nil, time.Minute, 2*time.Minute)).fail(403, "AccessDenied")
	}},
	{"not-yet", "a presigned URL dated in the future fails with AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(presign(t, "GET", "key", nil, time.Minute, -20*time.Minute)).fail(403, "AccessDenied")
	}},
	{"week", "a presigned URL may be valid for 604800 seconds", func(t *T) {
		t.put("key", "content")
		t.send(presign(t, "GET", "key", nil, 7*24*time.Hour, 6*24*time.Hour)).ok(200)
	}},
	{"more-than-a-week", "a presigned URL valid for more than 604800 seconds fails with AuthorizationQueryParametersError", func(t *T) {
		t.send(presign(t, "GET", "key", nil, 7*24*time.Hour+time.Second, 0)).fail(400, "AuthorizationQueryParametersError")
	}},
	{"no-life", "a presigned URL valid for 0 seconds is refused", func(t *T) {
		a := t.send(presign(t, "GET", "key", nil, 0, 0))
		a.expect(a.status == 400 && a.text("Code") == "AuthorizationQueryParametersError" || a.status == 403 && a.text("Code") == "AccessDenied", "status %d", a.status)
	}},
	{"expires-nonsense", "an X-Amz-Expires that is not a number fails with AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(presign(t, "GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=x")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"expires-with-sign", "an X-Amz-Expires with a plus sign fails with AuthorizationQueryParametersError", func(t *T) {
		r := altered(presign(t, "GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=%2B60")
		t.send(r).fail(400, "AuthorizationQueryParametersError")
	}},
	{"parameter-missing", "a presigned URL without one of its parameters fails with AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(presign(t, "GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "a=b")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"algorithm-nonsense", "a presigned URL with an unknown algorithm fails with AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(presign(t, "GET", "key", nil, time.Minute, 0), "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"life-prolonged", "a presigned URL with a changed X-Amz-Expires fails with SignatureDoesNotMatch", func(t *T) {
		t.put("key", "content")
		t.send(altered(presign(t, "GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=600")).fail(403, "SignatureDoesNotMatch")
	}},
	{"other-key", "a presigned URL is valid for its key only", func(t *T) {
		t.put("other", "content")
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.URL.Path = strings.Replace(r.URL.Path, "/key", "/other", 1)
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"other-method", "a presigned URL is valid for its method only", func(t *T) {
		t.put("key", "content")
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.Method = "DELETE"
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.holds("key", "content")
	}},
	{"parameter-added", "a parameter added to a presigned URL fails with SignatureDoesNotMatch", func(t *T) {
		t.put("key", "content")
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.URL.RawQuery += "&response-content-type=text%2Fhtml"
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-added", "an x-amz-* header that is not signed by the presigned URL fails with AccessDenied", func(t *T) {
		r := presign(t, "PUT", "key", "content", time.Minute, 0)
		r.Header.Set("X-Amz-Meta-A", "1")
		t.send(r).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"header-signed", "a header that a presigned URL signs must have the signed value", func(t *T) {
		r := presign(t, "PUT", "key", "content", time.Minute, 0, "x-amz-meta-a: 1")
		t.send(r).ok(200)
		t.head("key").ok(200).has("x-amz-meta-a", "1")
		r = presign(t, "PUT", "key", "content", time.Minute, 0, "x-amz-meta-a: 1")
		r.Header.Set("X-Amz-Meta-A", "2")
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-in-query", "x-amz-* parameters in a presigned URL work like headers", func(t *T) {
		t.send(presign(t, "PUT", "key?x-amz-storage-class=STANDARD_IA&x-amz-meta-a=1", "content", time.Minute, 0)).ok(200)
		t.head("key").ok(200).has("x-amz-storage-class", "STANDARD_IA").has("x-amz-meta-a", "1")
	}},
	{"query-and-header", "a request signed both in the query and in a header fails with InvalidArgument", func(t *T) {
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.Header.Set("Authorization", t.sign(t.request("GET", "key", nil), nil).Header.Get("Authorization"))
		t.send(r).fail(400, "InvalidArgument")
	}},
	{"condition", "a presigned PUT may have a condition in an unsigned header", func(t *T) {
		t.put("key", "old")
		r := presign(t, "PUT", "key", "new", time.Minute, 0)
		r.Header.Set("If-None-Match", "*")
		t.send(r).fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"virtual-host", "a presigned URL may be in virtual-host style", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		t.put("key", "content")
		t.send(presign(t, "GET", "/key", nil, time.Minute, 0, "Host: "+t.bucket()+"."+t.domain)).ok(200)
	}},
}}

// authorized sends a signed GET of an existing object after change has changed it, usually in its Authorization header.
func authorized(t *T, change func(r *http.Request)) *response {
	t.Helper()
	t.put("key", "content")
	r := t.sign(t.request("GET", "key", nil), nil)
	change(r)
	return t.send(r)
}

// swap replaces text in the Authorization header.
func swap(old, with string) func(r *http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, with, 1))
	}
}

// signedBy sends a GET of an existing object, signed by s with a date that is late after the current time.
func signedBy(t *T, s *sigv4.Signer, late time.Duration) *response {
	t.Helper()
	t.put("key", "content")
	r := t.request("GET", "key", nil)
	s.Sign(r, sigv4.EmptySHA256, time.Now().Add(late))
	return t.send(r)
}

// signOnly signs a request without a query or a body, covering only these headers, in this order, even if others must
// be signed, too.
func signOnly(t *T, r *http.Request, headers ...string) {
	now := time.Now().UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", now)
	r.Header.Set("X-Amz-Content-Sha256", sigv4.EmptySHA256)
	canonical := r.Method + "\n" + escape(r.URL.Path) + "\n\n"
	for _, h := range headers {
		v := r.Header.Get(h)
		if h == "host" {
			v = r.Host
		}
		canonical += h + ":" + v + "\n"
	}
	canonical += "\n" + strings.Join(headers, ";") + "\n" + sigv4.EmptySHA256
	key := []byte("AWS4" + t.secretKey)
	scope := []string{now[:8], t.region, "s3", "aws4_request"}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	for _, s := range scope {
		key = mac(s)
	}
	where := strings.Join(scope, "/")
	signature := mac("AWS4-HMAC-SHA256\n" + now + "\n" + where + "\n" + sha256Hex([]byte(canonical)))
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x",
		t.accessKey, where, strings.Join(headers, ";"), signature))
}

var authentication = area{"authentication", []rule{
	{"anonymous-get", "a GET without a signature fails with AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.request("GET", "key", nil)).fail(403, "AccessDenied")
	}},
	{"anonymous-put", "a PUT without a signature fails with AccessDenied and stores nothing", func(t *T) {
		t.send(t.request("PUT", "key", "content")).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"anonymous-list", "a listing without a signature fails with AccessDenied", func(t *T) {
		t.send(t.request("GET", "", nil)).fail(403, "AccessDenied")
	}},
	{"anonymous-buckets", "ListBuckets without a signature fails with AccessDenied", func(t *T) {
		a := t.send(t.request("GET", "/", nil))
		a.expect(a.status == 403 && a.text("Code") == "AccessDenied" || a.status == 307, "status %d", a.status)
	}},
	{"anonymous-delete", "a DELETE without a signature fails with AccessDenied and deletes nothing", func(t *T) {
		t.put("key", "content")
		t.send(t.request("DELETE", "key", nil)).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"anonymous-no-bucket", "a request without a signature for a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		for _, ref := range []string{"", "?versions", "/key", "/key?tagging"} {
			t.send(t.request("GET", "/"+t.newName()+ref, nil)).fail(404, "NoSuchBucket")
		}
	}},
	{"anonymous-create", "CreateBucket without a signature fails with AccessDenied and creates nothing", func(t *T) {
		name := t.newName()
		t.send(t.request("PUT", "/"+name, t.locationBody())).fail(403, "AccessDenied")
		t.head("/"+name).fail(404, "")
	}},
	{"authorization-empty", "an empty Authorization header counts as no signature and fails with AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.request("GET", "key", nil, "Authorization: ")).fail(403, "AccessDenied")
	}},
	{"unknown-key", "an unknown access key fails with InvalidAccessKeyId", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: "AKIAUNKNOWNUNKNOWN", SecretKey: t.secretKey, Region: t.region}, 0).fail(403, "InvalidAccessKeyId")
	}},
	{"wrong-secret", "a wrong secret key fails with SignatureDoesNotMatch", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey + "x", Region: t.region}, 0).fail(403, "SignatureDoesNotMatch")
	}},
	{"signature-not-told", "an error never contains the correct signature", func(t *T) {
		t.put("key", "content")
		r := t.sign(t.request("GET", "key", nil), nil)
		_, right, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
		swap(right, strings.Repeat("0", 64))(r)
		a := t.send(r).fail(403, "SignatureDoesNotMatch")
		a.expect(!strings.Contains(a.body, right), "the error contains the correct signature")
	}},
	{"wrong-region", "a signature for another region fails with AuthorizationHeaderMalformed, which names the right region", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: "mars-north-9"}, 0).fail(400, "AuthorizationHeaderMalformed").eq("Region", t.region)
	}},
	{"wrong-service", "a signature for another service fails with AuthorizationHeaderMalformed", func(t *T) {
		authorized(t, swap("/s3/", "/ec2/")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"wrong-terminal", "a credential that does not end with aws4_request fails with AuthorizationHeaderMalformed", func(t *T) {
		authorized(t, swap("/aws4_request", "/aws3_request")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"wrong-day", "a credential with a date other than that of x-amz-date is refused", func(t *T) {
		a := authorized(t, func(r *http.Request) { swap("/"+r.Header.Get("X-Amz-Date")[:8]+"/", "/20200101/")(r) })
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
	}},
	{"credential-short", "a credential with too few parts fails with AuthorizationHeaderMalformed", func(t *T) {
		authorized(t, swap("/s3/aws4_request", "")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"signature-missing", "an Authorization header without a signature fails with AuthorizationHeaderMalformed", func(t *T) {
		authorized(t, func(r *http.Request) {
			before, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
			r.Header.Set("Authorization", before)
		}).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"nonsense", "an Authorization header of another scheme fails with InvalidArgument", func(t *T) {
		authorized(t, func(r *http.Request) { r.Header.Set("Authorization", "Basic dXNlcjpwYXNz") }).fail(400, "InvalidArgument")
	}},
	{"version-2", "a header with a version 2 signature is refused with a clear error", func(t *T) {
		authorized(t, func(r *http.Request) { r.Header.Set("Authorization", "AWS "+t.accessKey+":c2lnbmF0dXJl") }).fail(400, "InvalidRequest")
	}},
	{"version-2-query", "a URL with a wrong version 2 signature is refused, whether version 2 is supported or not", func(t *T) {
		t.put("key", "content")
		expires := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
		a := t.send(t.request("GET", "key?AWSAccessKeyId="+t.accessKey+"&Signature=x&Expires="+expires, nil))
		code := a.text("Code")
		a.expect(a.status == 403 && code == "SignatureDoesNotMatch" || a.status == 400 && code == "InvalidRequest", "%d %s", a.status, code)
	}},
	{"late", "a request dated 16 minutes in the past fails with RequestTimeTooSkewed", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, -16*time.Minute).fail(403, "RequestTimeTooSkewed")
	}},
	{"early", "a request dated 16 minutes in the future fails with RequestTimeTooSkewed", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, 16*time.Minute).fail(403, "RequestTimeTooSkewed")
	}},
	{"a-little-late", "a request dated 14 minutes in the past is accepted", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, -14*time.Minute).ok(200)
	}},
	{"a-little-early", "a request dated 14 minutes in the future is accepted", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, 14*time.Minute).ok(200)
	}},
	{"date-missing", "a signed request without a date fails with AccessDenied", func(t *T) {
		authorized(t, func(r *http.Request) { r.Header.Del("X-Amz-Date") }).fail(403, "AccessDenied")
	}},
	{"date-nonsense", "an invalid date fails with AccessDenied", func(t *T) {
		authorized(t, func(r *http.Request) { r.Header.Set("X-Amz-Date", "yesterday") }).fail(403, "AccessDenied")
	}},
	{"method-changed", "a changed method fails with SignatureDoesNotMatch", func(t *T) {
		authorized(t, func(r *http.Request) { r.Method = "DELETE" }).fail(403, "SignatureDoesNotMatch")
		t.holds("key", "content")
	}},
	{"path-changed", "a changed path fails with SignatureDoesNotMatch", func(t *T) {
		authorized(t, func(r *http.Request) { r.URL.Path += "2" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"query-changed", "a changed query fails with SignatureDoesNotMatch", func(t *T) {
		authorized(t, func(r *http.Request) { r.URL.RawQuery = "versionId=null" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"host-changed", "a changed Host fails with SignatureDoesNotMatch", func(t *T) {
		authorized(t, func(r *http.Request) { r.Host = "example.org" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-changed", "a changed signed header fails with SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content", "x-amz-meta-a: 1"), "content")
		r.Header.Set("X-Amz-Meta-A", "2")
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"header-removed", "a missing signed header fails with SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content", "x-amz-meta-a: 1"), "content")
		r.Header.Del("X-Amz-Meta-A")
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-not-signed", "an unsigned x-amz-* header fails with AccessDenied", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Set("X-Amz-Meta-A", "1")
		t.send(r).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"host-not-signed", "a valid signature that does not cover host fails with AccessDenied", func(t *T) {
		t.put("key", "content")
		r := t.request("GET", "key", nil)
		signOnly(t, r, "x-amz-content-sha256", "x-amz-date")
		t.send(r).fail(403, "AccessDenied")
		signOnly(t, r, "host", "x-amz-content-sha256", "x-amz-date")
		t.send(r).ok(200)
	}},
	{"two-headers", "two Authorization headers are refused", func(t *T) {
		a := authorized(t, func(r *http.Request) { r.Header["Authorization"] = append(r.Header["Authorization"], "x") })
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
	}},
	{"spaces", "the parts of an Authorization header may be separated without spaces", func(t *T) {
		authorized(t, func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), ", ", ","))
		}).ok(200)
	}},
	{"payload-hash-changed", "an x-amz-content-sha256 other than the signed one fails with SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"before-existence", "a caller without permission to read cannot find out whether a key exists", func(t *T) {
		t.put("there", "content")
		t.send(t.request("GET", "there", nil)).fail(403, "AccessDenied")
		t.send(t.request("GET", "not-there", nil)).fail(403, "AccessDenied")
	}},
	{"query-order", "the order of query parameters does not affect the signature", func(t *T) {
		t.fill("a", "b")
		t.get("?prefix=&max-keys=1&list-type=2&delimiter=%2F&a=b&A=c&a=a").ok(200)
	}},
	{"query-space", "a space in the query may be sent as + or %20", func(t *T) {
		t.fill("a b")
		t.get("?prefix=a+b").ok(200).eq("Contents/Key", "a b")
		t.get("?prefix=a%20b").ok(200).eq("Contents/Key", "a b")
	}},
	{"head-denied", "a HEAD that is denied fails with 403 without a body", func(t *T) {
		t.send(t.request("HEAD", "key", nil)).fail(403, "")
	}},
}}
