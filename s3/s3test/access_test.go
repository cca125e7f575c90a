package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orcas/s3/sigv4"
)

// presign makes a request whose signature is in its query. The URL is as it will be sent.
func (t *T) presign(method, ref string, body any, life, age time.Duration, headers ...string) *http.Request {
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
	{"get", "a presigned GET needs nothing but its URL", func(t *T) {
		t.put("key", "content")
		a := t.send(t.presign("GET", "key", nil, time.Minute, 0)).ok(200)
		a.expect(a.body == "content", "%q", a.body)
	}},
	{"put", "a presigned PUT takes any body", func(t *T) {
		t.send(t.presign("PUT", "key", "content", time.Minute, 0)).ok(200)
		t.holds("key", "content")
	}},
	{"head", "HEAD can be presigned", func(t *T) {
		t.put("key", "content")
		t.send(t.presign("HEAD", "key", nil, time.Minute, 0)).ok(200).has("Content-Length", "7")
	}},
	{"delete", "DELETE can be presigned", func(t *T) {
		t.put("key", "content")
		t.send(t.presign("DELETE", "key", nil, time.Minute, 0)).ok(204)
		t.gone("key")
	}},
	{"list", "a listing can be presigned, with its parameters", func(t *T) {
		t.fill("a", "b")
		t.send(t.presign("GET", "?list-type=2&prefix=b", nil, time.Minute, 0)).ok(200).eq("Contents/Key", "b")
	}},
	{"part", "UploadPart can be presigned", func(t *T) {
		u := t.begin("key")
		u.take(1, t.send(t.presign("PUT", u.ref(1), "content", time.Minute, 0)).ok(200).etag())
		u.complete().ok(200)
		t.holds("key", "content")
	}},
	{"odd-key", "a key with odd characters can be presigned", func(t *T) {
		t.put(escape("a b+ü/?"), "content")
		t.send(t.presign("GET", escape("a b+ü/?"), nil, time.Minute, 0)).ok(200)
	}},
	{"used-again", "a presigned URL can be used again until it expires", func(t *T) {
		t.put("key", "content")
		r := t.presign("GET", "key", nil, time.Minute, 0)
		t.send(r).ok(200)
		t.send(r).ok(200)
	}},
	{"range", "a presigned GET may have headers that are not signed, such as Range", func(t *T) {
		t.put("key", digits)
		r := t.presign("GET", "key", nil, time.Minute, 0)
		r.Header.Set("Range", "bytes=2-5")
		a := t.send(r).ok(206)
		a.expect(a.body == "2345", "%q", a.body)
	}},
	{"expired", "a presigned URL that has expired is AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.presign("GET", "key", nil, time.Minute, 2*time.Minute)).fail(403, "AccessDenied")
	}},
	{"not-yet", "a presigned URL of the future is AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.presign("GET", "key", nil, time.Minute, -20*time.Minute)).fail(403, "AccessDenied")
	}},
	{"week", "a presigned URL may live for 604800 seconds", func(t *T) {
		t.put("key", "content")
		t.send(t.presign("GET", "key", nil, 7*24*time.Hour, 6*24*time.Hour)).ok(200)
	}},
	{"more-than-a-week", "a presigned URL of more than 604800 seconds is AuthorizationQueryParametersError", func(t *T) {
		t.send(t.presign("GET", "key", nil, 7*24*time.Hour+time.Second, 0)).fail(400, "AuthorizationQueryParametersError")
	}},
	{"no-life", "a presigned URL of 0 seconds is refused", func(t *T) {
		a := t.send(t.presign("GET", "key", nil, 0, 0))
		a.expect(a.status == 400 && a.text("Code") == "AuthorizationQueryParametersError" || a.status == 403 && a.text("Code") == "AccessDenied", "status %d", a.status)
	}},
	{"expires-nonsense", "X-Amz-Expires that is no number is AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(t.presign("GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=x")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"parameter-missing", "a presigned URL without one of its parameters is AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(t.presign("GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "a=b")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"algorithm-nonsense", "a presigned URL with another algorithm is AuthorizationQueryParametersError", func(t *T) {
		t.send(altered(t.presign("GET", "key", nil, time.Minute, 0), "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1")).fail(400, "AuthorizationQueryParametersError")
	}},
	{"life-prolonged", "a presigned URL whose life was prolonged is SignatureDoesNotMatch", func(t *T) {
		t.put("key", "content")
		t.send(altered(t.presign("GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=600")).fail(403, "SignatureDoesNotMatch")
	}},
	{"other-key", "a presigned URL is for its key only", func(t *T) {
		t.put("other", "content")
		r := t.presign("GET", "key", nil, time.Minute, 0)
		r.URL.Path = strings.Replace(r.URL.Path, "/key", "/other", 1)
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"other-method", "a presigned URL is for its method only", func(t *T) {
		t.put("key", "content")
		r := t.presign("GET", "key", nil, time.Minute, 0)
		r.Method = "DELETE"
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.holds("key", "content")
	}},
	{"parameter-added", "a parameter that was added to a presigned URL is SignatureDoesNotMatch", func(t *T) {
		t.put("key", "content")
		r := t.presign("GET", "key", nil, time.Minute, 0)
		r.URL.RawQuery += "&response-content-type=text%2Fhtml"
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-added", "an x-amz-* header that a presigned URL does not sign is AccessDenied", func(t *T) {
		r := t.presign("PUT", "key", "content", time.Minute, 0)
		r.Header.Set("X-Amz-Meta-A", "1")
		t.send(r).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"header-signed", "headers that a presigned URL signs must come as they were signed", func(t *T) {
		r := t.presign("PUT", "key", "content", time.Minute, 0, "x-amz-meta-a: 1")
		t.send(r).ok(200)
		t.head("key").ok(200).has("x-amz-meta-a", "1")
		r = t.presign("PUT", "key", "content", time.Minute, 0, "x-amz-meta-a: 1")
		r.Header.Set("X-Amz-Meta-A", "2")
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-in-query", "x-amz-* parameters in a presigned URL count like headers", func(t *T) {
		t.send(t.presign("PUT", "key?x-amz-storage-class=STANDARD_IA&x-amz-meta-a=1", "content", time.Minute, 0)).ok(200)
		t.head("key").ok(200).has("x-amz-storage-class", "STANDARD_IA").has("x-amz-meta-a", "1")
	}},
	{"query-and-header", "a request that is signed twice, in query and header, is InvalidArgument", func(t *T) {
		r := t.presign("GET", "key", nil, time.Minute, 0)
		r.Header.Set("Authorization", t.sign(t.request("GET", "key", nil), nil).Header.Get("Authorization"))
		t.send(r).fail(400, "InvalidArgument")
	}},
	{"condition", "a presigned PUT may have a condition in a header", func(t *T) {
		t.put("key", "old")
		r := t.presign("PUT", "key", "new", time.Minute, 0)
		r.Header.Set("If-None-Match", "*")
		t.send(r).fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"virtual-host", "a presigned URL may be in virtual-host style", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		t.put("key", "content")
		t.send(t.presign("GET", "/key", nil, time.Minute, 0, "Host: "+t.bucket()+"."+t.domain)).ok(200)
	}},
}}

// authorised changes the Authorization header of a signed GET of an object that is there.
func (t *T) authorised(change func(r *http.Request)) *answer {
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

// signedBy is the rule of what a request by another signer, or at another time, answers.
func (t *T) signedBy(s *sigv4.Signer, late time.Duration) *answer {
	t.Helper()
	t.put("key", "content")
	r := t.request("GET", "key", nil)
	s.Sign(r, sigv4.EmptySHA256, time.Now().Add(late))
	return t.send(r)
}

// signOnly signs a request without a query and without a body over these headers, in their order, whether or not that is enough.
func (t *T) signOnly(r *http.Request, headers ...string) {
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
	{"anonymous-get", "a GET without a signature is AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.request("GET", "key", nil)).fail(403, "AccessDenied")
	}},
	{"anonymous-put", "a PUT without a signature is AccessDenied and stores nothing", func(t *T) {
		t.send(t.request("PUT", "key", "content")).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"anonymous-list", "a listing without a signature is AccessDenied", func(t *T) {
		t.send(t.request("GET", "", nil)).fail(403, "AccessDenied")
	}},
	{"anonymous-buckets", "ListBuckets without a signature is AccessDenied", func(t *T) {
		a := t.send(t.request("GET", "/", nil))
		a.expect(a.status == 403 && a.text("Code") == "AccessDenied" || a.status == 307, "status %d", a.status)
	}},
	{"anonymous-delete", "a DELETE without a signature is AccessDenied and deletes nothing", func(t *T) {
		t.put("key", "content")
		t.send(t.request("DELETE", "key", nil)).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"anonymous-no-bucket", "a request without a signature about a bucket that is not there is NoSuchBucket", func(t *T) {
		for _, ref := range []string{"", "?versions", "/key", "/key?tagging"} {
			t.send(t.request("GET", "/"+t.newName()+ref, nil)).fail(404, "NoSuchBucket")
		}
	}},
	{"anonymous-create", "CreateBucket without a signature is AccessDenied and makes nothing", func(t *T) {
		name := t.newName()
		t.send(t.request("PUT", "/"+name, t.locationBody())).fail(403, "AccessDenied")
		t.head("/"+name).fail(404, "")
	}},
	{"authorization-empty", "a request with an empty Authorization header has no signature: AccessDenied", func(t *T) {
		t.put("key", "content")
		t.send(t.request("GET", "key", nil, "Authorization: ")).fail(403, "AccessDenied")
	}},
	{"unknown-key", "an unknown access key is InvalidAccessKeyId", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: "AKIAUNKNOWNUNKNOWN", SecretKey: t.secretKey, Region: t.region}, 0).fail(403, "InvalidAccessKeyId")
	}},
	{"wrong-secret", "a wrong secret key is SignatureDoesNotMatch", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey + "x", Region: t.region}, 0).fail(403, "SignatureDoesNotMatch")
	}},
	{"signature-not-told", "an error never tells the signature that would have been right", func(t *T) {
		t.put("key", "content")
		r := t.sign(t.request("GET", "key", nil), nil)
		_, right, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
		swap(right, strings.Repeat("0", 64))(r)
		a := t.send(r).fail(403, "SignatureDoesNotMatch")
		a.expect(!strings.Contains(a.body, right), "it is told")
	}},
	{"wrong-region", "a signature for another region is AuthorizationHeaderMalformed and names the right one", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: "mars-north-9"}, 0).fail(400, "AuthorizationHeaderMalformed").eq("Region", t.region)
	}},
	{"wrong-service", "a signature for another service is AuthorizationHeaderMalformed", func(t *T) {
		t.authorised(swap("/s3/", "/ec2/")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"wrong-terminal", "a credential that does not end with aws4_request is AuthorizationHeaderMalformed", func(t *T) {
		t.authorised(swap("/aws4_request", "/aws3_request")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"wrong-day", "a credential of another day than x-amz-date is refused", func(t *T) {
		a := t.authorised(func(r *http.Request) { swap("/"+r.Header.Get("X-Amz-Date")[:8]+"/", "/20200101/")(r) })
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
	}},
	{"credential-short", "a credential of too few parts is AuthorizationHeaderMalformed", func(t *T) {
		t.authorised(swap("/s3/aws4_request", "")).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"signature-missing", "an Authorization header without a signature is AuthorizationHeaderMalformed", func(t *T) {
		t.authorised(func(r *http.Request) {
			before, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
			r.Header.Set("Authorization", before)
		}).fail(400, "AuthorizationHeaderMalformed")
	}},
	{"nonsense", "an Authorization header of another kind is InvalidArgument", func(t *T) {
		t.authorised(func(r *http.Request) { r.Header.Set("Authorization", "Basic dXNlcjpwYXNz") }).fail(400, "InvalidArgument")
	}},
	{"version-2", "a signature of version 2 is refused with a clear error", func(t *T) {
		t.authorised(func(r *http.Request) { r.Header.Set("Authorization", "AWS "+t.accessKey+":c2lnbmF0dXJl") }).fail(400, "InvalidRequest")
	}},
	{"version-2-query", "a presigned URL of version 2 is refused with a clear error", func(t *T) {
		t.send(t.request("GET", "key?AWSAccessKeyId="+t.accessKey+"&Signature=x&Expires=2000000000", nil)).fail(400, "InvalidRequest")
	}},
	{"late", "a request of 16 minutes ago is RequestTimeTooSkewed", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, -16*time.Minute).fail(403, "RequestTimeTooSkewed")
	}},
	{"early", "a request of in 16 minutes is RequestTimeTooSkewed", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, 16*time.Minute).fail(403, "RequestTimeTooSkewed")
	}},
	{"a-little-late", "a request of 14 minutes ago is taken", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, -14*time.Minute).ok(200)
	}},
	{"a-little-early", "a request of in 14 minutes is taken", func(t *T) {
		t.signedBy(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, 14*time.Minute).ok(200)
	}},
	{"date-missing", "a signed request without a date is AccessDenied", func(t *T) {
		t.authorised(func(r *http.Request) { r.Header.Del("X-Amz-Date") }).fail(403, "AccessDenied")
	}},
	{"date-nonsense", "a date that cannot be read is AccessDenied", func(t *T) {
		t.authorised(func(r *http.Request) { r.Header.Set("X-Amz-Date", "yesterday") }).fail(403, "AccessDenied")
	}},
	{"method-changed", "a request whose method was changed is SignatureDoesNotMatch", func(t *T) {
		t.authorised(func(r *http.Request) { r.Method = "DELETE" }).fail(403, "SignatureDoesNotMatch")
		t.holds("key", "content")
	}},
	{"path-changed", "a request whose path was changed is SignatureDoesNotMatch", func(t *T) {
		t.authorised(func(r *http.Request) { r.URL.Path += "2" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"query-changed", "a request whose query was changed is SignatureDoesNotMatch", func(t *T) {
		t.authorised(func(r *http.Request) { r.URL.RawQuery = "versionId=null" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"host-changed", "a request whose Host was changed is SignatureDoesNotMatch", func(t *T) {
		t.authorised(func(r *http.Request) { r.Host = "example.org" }).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-changed", "a signed header that was changed is SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content", "x-amz-meta-a: 1"), "content")
		r.Header.Set("X-Amz-Meta-A", "2")
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"header-removed", "a signed header that was taken away is SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content", "x-amz-meta-a: 1"), "content")
		r.Header.Del("X-Amz-Meta-A")
		t.send(r).fail(403, "SignatureDoesNotMatch")
	}},
	{"header-not-signed", "an x-amz-* header that is not signed is AccessDenied", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Set("X-Amz-Meta-A", "1")
		t.send(r).fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"host-not-signed", "a signature that leaves out host is AccessDenied, however right it is", func(t *T) {
		t.put("key", "content")
		r := t.request("GET", "key", nil)
		t.signOnly(r, "x-amz-content-sha256", "x-amz-date")
		t.send(r).fail(403, "AccessDenied")
		t.signOnly(r, "host", "x-amz-content-sha256", "x-amz-date")
		t.send(r).ok(200)
	}},
	{"two-headers", "two Authorization headers are refused", func(t *T) {
		a := t.authorised(func(r *http.Request) { r.Header["Authorization"] = append(r.Header["Authorization"], "x") })
		a.expect(a.status == 400 || a.status == 403, "status %d", a.status)
	}},
	{"spaces", "the parts of an Authorization header may be separated without spaces", func(t *T) {
		t.authorised(func(r *http.Request) {
			r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), ", ", ","))
		}).ok(200)
	}},
	{"payload-hash-changed", "another x-amz-content-sha256 than was signed is SignatureDoesNotMatch", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		t.send(r).fail(403, "SignatureDoesNotMatch")
		t.gone("key")
	}},
	{"before-existence", "who may not read is not told whether a key is there", func(t *T) {
		t.put("there", "content")
		t.send(t.request("GET", "there", nil)).fail(403, "AccessDenied")
		t.send(t.request("GET", "not-there", nil)).fail(403, "AccessDenied")
	}},
	{"query-order", "the order of the parameters does not matter to the signature", func(t *T) {
		t.fill("a", "b")
		t.get("?prefix=&max-keys=1&list-type=2&delimiter=%2F&a=b&A=c&a=a").ok(200)
	}},
	{"query-space", "a space in the query may come as + or %20", func(t *T) {
		t.fill("a b")
		t.get("?prefix=a+b").ok(200).eq("Contents/Key", "a b")
		t.get("?prefix=a%20b").ok(200).eq("Contents/Key", "a b")
	}},
	{"head-denied", "a HEAD that is denied is 403 without a body", func(t *T) {
		t.send(t.request("HEAD", "key", nil)).fail(403, "")
	}},
}}

var limits = area{"limits", []rule{
	{"headers-8-kib", "headers of more than 8 KiB in all are refused", func(t *T) {
		a := t.get("", "X-Large: "+strings.Repeat("x", 8200))
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"long-url", "a long URL is no large header", func(t *T) {
		t.get("?prefix=" + strings.Repeat("x", 1000) + "&a=" + strings.Repeat("y", 7000)).ok(200)
	}},
	{"put-5-gib", "a PUT that announces more than 5 GiB is EntityTooLarge, before its body", func(t *T) {
		_, in := t.open("PUT", "key", 5<<30+1, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.reply("PUT", in).fail(400, "EntityTooLarge").eq("MaxSizeAllowed", fmt.Sprint(5<<30))
	}},
	{"part-5-gib", "a part that announces more than 5 GiB is EntityTooLarge, before its body", func(t *T) {
		_, in := t.open("PUT", t.begin("key").ref(1), 5<<30+1, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.reply("PUT", in).fail(400, "EntityTooLarge")
	}},
	{"complete-10001", "CompleteMultipartUpload of more than 10000 parts is refused", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		var parts []string
		for i := range 10001 {
			parts = append(parts, fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, u.etag[0]))
		}
		a := t.post(u.ref(0), completeDoc(parts...))
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"complete-document-of-10000", "the document of CompleteMultipartUpload may be as large as 10000 parts with checksums make it", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		var parts []string
		for i := range 10000 {
			parts = append(parts, fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>&quot;%s&quot;</ETag><ChecksumCRC64NVME>%s</ChecksumCRC64NVME></Part>", i+1, u.etag[0], sum("CRC64NVME", "content")))
		}
		t.post(u.ref(0), completeDoc(parts...)).fail(400, "InvalidPart")
	}},
	{"document-2-mib", "a document of more than 2 MiB is refused", func(t *T) {
		doc := "<Delete>" + strings.Repeat(" ", 2<<20) + "<Object><Key>a</Key></Object></Delete>"
		t.fill("a")
		a := t.post("?delete", doc, contentMD5(doc))
		a.expect(a.status == 400, "status %d", a.status)
		t.holds("a", "a")
	}},
}}

// badDocument is the rule that a document is MalformedXML, and nothing is deleted.
func badDocument(named, says, doc string) rule {
	return rule{named, says, func(t *T) {
		t.fill("a")
		t.post("?delete", doc, contentMD5(doc)).fail(400, "MalformedXML")
		t.holds("a", "a")
	}}
}

var documents = area{"xml", []rule{
	badDocument("doctype", "a document type declaration is refused", `<!DOCTYPE d [<!ENTITY e "a">]><Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("doctype-alone", "a document type declaration is refused even where it declares nothing", `<!DOCTYPE Delete><Delete><Object><Key>a</Key></Object></Delete>`),
	badDocument("unknown-entity", "an entity that is not one of XML's own is refused", `<Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("external-entity", "an external entity is refused", `<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("not-utf8", "a document that is not UTF-8 is refused", "<Delete><Object><Key>a</Key><X>\xff</X></Object></Delete>"),
	badDocument("two-roots", "a document of two roots is refused", "<Delete><Object><Key>a</Key></Object></Delete><Delete/>"),
	badDocument("text-behind", "text behind the root is refused", "<Delete><Object><Key>a</Key></Object></Delete>text"),
	badDocument("wrong-root", "a document with another root is refused", "<Remove><Object><Key>a</Key></Object></Remove>"),
	badDocument("not-closed", "a document that is not closed is refused", "<Delete><Object><Key>a</Key></Object>"),
	badDocument("empty", "an empty document is refused", ""),
	badDocument("json", "JSON is no XML", `{"Delete": {"Object": {"Key": "a"}}}`),
	{"deep", "a document of more than 32 levels is refused", func(t *T) {
		deep := strings.Repeat("<x>", 40) + strings.Repeat("</x>", 40)
		doc := "<NotificationConfiguration><EventBridgeConfiguration>" + deep + "</EventBridgeConfiguration></NotificationConfiguration>"
		t.try("?notification", doc, contentMD5(doc)).fail(400, "MalformedXML")
	}},
	{"comment", "comments in a document change nothing", func(t *T) {
		t.fill("a")
		doc := "<!-- one --><Delete><!-- two --><Object><Key>a</Key></Object></Delete><!-- three -->"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "a")
	}},
	{"cdata", "a CDATA section is text", func(t *T) {
		t.fill("<&")
		doc := "<Delete><Object><Key><![CDATA[<&]]></Key></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "<&")
	}},
	{"character-reference", "character references are characters", func(t *T) {
		t.fill("aü")
		doc := "<Delete><Object><Key>&#97;&#xfc;</Key></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "aü")
	}},
}}

var errorAnswers = area{"errors", []rule{
	{"no-namespace", "an error is an element Error without a name space", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(a.root().space == "", "name space %q", a.root().space)
	}},
	{"declaration", "an error begins with an XML declaration", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(strings.HasPrefix(a.body, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "%q", a.body[:20])
	}},
	{"resource", "an error names its resource", func(t *T) {
		a := t.get("no/such").fail(404, "NoSuchKey")
		a.expect(a.text("Resource") == "/"+t.bucket()+"/no/such", "%q", a.text("Resource"))
	}},
	{"escaped", "what an error repeats of the request is escaped", func(t *T) {
		t.get(escape("<a>&b")).fail(404, "NoSuchKey").eq("Key", "<a>&b")
	}},
	{"control-characters", "an error is XML that can be read even where the key could not stand in it", func(t *T) {
		t.get(escape("a\x01b")).fail(404, "NoSuchKey")
	}},
	{"missing-bucket-name", "NoSuchBucket names the bucket", func(t *T) {
		name := t.newName()
		t.get("/"+name+"/key").fail(404, "NoSuchBucket").eq("BucketName", name)
		t.try("key", nil, "x-amz-copy-source: "+name+"/from").fail(404, "NoSuchBucket").eq("BucketName", name)
	}},
	{"not-empty-bucket-name", "BucketNotEmpty names the bucket", func(t *T) {
		t.put("key", "content")
		t.del("").fail(409, "BucketNotEmpty").eq("BucketName", t.bucket())
	}},
	{"condition", "PreconditionFailed names the condition", func(t *T) {
		etag := t.put("key", "content").etag()
		t.get("key", "If-Match: "+other).fail(412, "PreconditionFailed").eq("Condition", "If-Match")
		t.get("key", "If-Unmodified-Since: "+past).fail(412, "PreconditionFailed").eq("Condition", "If-Unmodified-Since")
		t.try("key", "new", "If-None-Match: *").fail(412, "PreconditionFailed").eq("Condition", "If-None-Match")
		t.try("key", "new", "If-Match: "+other).fail(412, "PreconditionFailed").eq("Condition", "If-Match")
		a := t.try("to", nil, t.from("key"), `x-amz-copy-source-if-none-match: "`+etag+`"`).fail(412, "PreconditionFailed")
		a.expect(strings.EqualFold(a.text("Condition"), "x-amz-copy-source-If-None-Match"), "%q", a.text("Condition"))
	}},
	{"range-size", "InvalidRange tells what was asked for and how large the object is", func(t *T) {
		t.put("key", digits)
		t.get("key", "Range: bytes=20-30").fail(416, "InvalidRange").eq("RangeRequested", "bytes=20-30").eq("ActualObjectSize", "10").has("Content-Range", "bytes */10")
	}},
	{"method", "MethodNotAllowed names the method", func(t *T) {
		t.post("key", nil).fail(405, "MethodNotAllowed").eq("Method", "POST").eq("ResourceType", "OBJECT")
	}},
	{"upload-id", "NoSuchUpload names the upload", func(t *T) {
		t.get("key?uploadId=nonsense").fail(404, "NoSuchUpload").eq("UploadId", "nonsense")
	}},
	{"messages", "the messages of the most frequent errors are those of S3", func(t *T) {
		t.get("none").fail(404, "NoSuchKey").eq("Message", "The specified key does not exist.")
		t.get("/"+t.newName()).fail(404, "NoSuchBucket").eq("Message", "The specified bucket does not exist")
		t.send(t.request("GET", "key", nil)).fail(403, "AccessDenied").eq("Message", "Access Denied")
	}},
	{"bucket-name", "InvalidBucketName names the bucket", func(t *T) {
		t.try("/No_Such", nil).fail(400, "InvalidBucketName").eq("BucketName", "No_Such")
	}},
	{"host-id", "an error has a HostId, which is x-amz-id-2", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(a.text("HostId") != "" && a.text("HostId") == a.header.Get("x-amz-id-2"), "%q", a.text("HostId"))
	}},
	{"content-length", "an error says how long it is", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.has("Content-Length", fmt.Sprint(len(a.body)))
	}},
	{"argument", "InvalidArgument names the argument and its value", func(t *T) {
		t.get("?max-keys=x").fail(400, "InvalidArgument").eq("ArgumentName", "max-keys").eq("ArgumentValue", "x")
	}},
	{"connection-goes-on", "after an error the connection takes the next request", func(t *T) {
		t.bucket()
		r := t.sign(t.request("GET", "none", nil), nil)
		conn := t.dial()
		in := newReader(conn)
		for range 3 {
			t.must(r.Write(conn) == nil, "write")
			t.reply("GET", in).fail(404, "NoSuchKey")
		}
	}},
	{"after-refused-put", "after a PUT that was refused, with its body sent, the connection takes the next request", func(t *T) {
		t.bucket()
		conn := t.dial()
		in := newReader(conn)
		for range 3 {
			body := strings.Repeat("x", 1000)
			r := t.sign(t.request("PUT", "key", body, "x-amz-storage-class: GOLD"), body)
			t.must(r.Write(conn) == nil, "write")
			t.reply("PUT", in).fail(400, "InvalidStorageClass")
		}
	}},
	{"large-refused-put", "a client that sends a large body to its end sees the error that came early", func(t *T) {
		body := random(12, 4<<20)
		t.try("/"+t.newName()+"/key", body, unsigned).fail(404, "NoSuchBucket")
	}},
}}

var answers = area{"answers", []rule{
	{"request-ids-differ", "every answer has an x-amz-request-id of its own", func(t *T) {
		a, b := t.get("").ok(200), t.get("").ok(200)
		t.must(a.set("x-amz-request-id") != b.set("x-amz-request-id"), "one id")
	}},
	{"id-2", "every answer has an x-amz-id-2", func(t *T) {
		t.get("").ok(200).set("x-amz-id-2")
		t.get("none").fail(404, "NoSuchKey").set("x-amz-id-2")
	}},
	{"date", "every answer has a Date", func(t *T) {
		_, err := http.ParseTime(t.get("").ok(200).set("Date"))
		t.must(err == nil, "%v", err)
	}},
	{"head-request-id", "the answer to a HEAD that fails has an x-amz-request-id", func(t *T) {
		t.head("none").fail(404, "").set("x-amz-request-id")
	}},
	{"list-region", "a listing names the region of the bucket", func(t *T) {
		t.get("").ok(200).has("x-amz-bucket-region", t.region)
	}},
	{"head-object-type", "HEAD has the Content-Type of the object", func(t *T) {
		t.put("key", "content", "Content-Type: text/plain")
		t.head("key").ok(200).has("Content-Type", "text/plain")
	}},
	{"delete-no-content-type", "the answer to DELETE has neither a body nor a length of one", func(t *T) {
		t.put("key", "content")
		t.del("key").ok(204).lacks("Content-Type", "Content-Length")
	}},
	{"put-content-length", "the answer to PUT has a Content-Length of 0", func(t *T) {
		t.put("key", "content").has("Content-Length", "0")
	}},
	{"unknown-method", "a method that S3 does not know is refused", func(t *T) {
		a := t.do("PATCH", "key", nil)
		a.expect(a.status == 405 || a.status == 501, "status %d", a.status)
	}},
	{"request-payer", "x-amz-request-payer, which SDKs send, changes nothing", func(t *T) {
		t.put("key", "content", "x-amz-request-payer: requester")
		a := t.get("key", "x-amz-request-payer: requester").ok(200)
		a.expect(a.body == "content", "%q", a.body)
	}},
	{"optional-attributes", "x-amz-optional-object-attributes of a listing changes nothing", func(t *T) {
		t.fill("a")
		t.get("?list-type=2", "x-amz-optional-object-attributes: RestoreStatus").ok(200).eq("Contents/Key", "a")
	}},
	{"user-agent-headers", "headers that SDKs add for themselves change nothing", func(t *T) {
		t.put("key", "content", "amz-sdk-invocation-id: 00000000-0000-4000-8000-000000000000", "amz-sdk-request: attempt=1; max=3", "x-amz-user-agent: test")
		t.holds("key", "content")
	}},
	{"unknown-sub-resource", "a parameter that S3 does not know changes nothing", func(t *T) {
		t.put("key", "content")
		t.holds("key?unknown=1", "content")
	}},
	{"keep-alive", "a connection takes many requests", func(t *T) {
		t.put("key", "content")
		r := t.sign(t.request("GET", "key", nil), nil)
		conn := t.dial()
		in := newReader(conn)
		for range 10 {
			t.must(r.Write(conn) == nil, "write")
			a := t.reply("GET", in).ok(200)
			a.expect(a.body == "content", "%q", a.body)
		}
	}},
	{"expect-before-nothing", "Expect: 100-continue before an empty body does no harm", func(t *T) {
		conn, in := t.open("PUT", "key", 0, sigv4.EmptySHA256, "Expect: 100-continue")
		a := t.reply("PUT", in)
		if a.status == 100 {
			a = t.reply("PUT", in)
		}
		a.ok(200)
		_ = conn
		t.holds("key", "")
	}},
}}
