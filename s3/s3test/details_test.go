package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orcas/internal/sigv4"
)

// tells returns the rule that an error has additional elements, each given as "Name: value".
func tells(named, says string, provoke func(t *T) *response, status int, code string, elements ...string) rule {
	return rule{named, says, func(t *T) {
		a := provoke(t).fail(status, code)
		for _, e := range elements {
			name, value, _ := strings.Cut(e, ": ")
			value = strings.ReplaceAll(value, "{bucket}", t.bucket())
			a.expect(len(a.all(name)) == 1, "%d elements %s", len(a.all(name)), name)
			a.eq(name, value)
		}
	}}
}

// mismatch sends a request with a wrong signature.
func (t *T) mismatch(headers ...string) *response {
	r := t.sign(t.request("GET", "key", nil, headers...), nil)
	_, right, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
	swap(right, strings.Repeat("0", 64))(r)
	return t.send(r).fail(403, "SignatureDoesNotMatch")
}

func (a *response) hexOf(name string) string {
	a.t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(a.text(name), " ", ""))
	a.expect(err == nil, "%s is not a list of hexadecimal bytes: %v", name, err)
	return string(raw)
}

var errorDetails = area{"error-details", []rule{
	{"access-key", "InvalidAccessKeyId names the access key", func(t *T) {
		signedBy(t, &sigv4.Signer{AccessKey: "AKIAUNKNOWNUNKNOWN", SecretKey: t.secretKey, Region: t.region}, 0).
			fail(403, "InvalidAccessKeyId").eq("AWSAccessKeyId", "AKIAUNKNOWNUNKNOWN")
	}},
	{"signature", "SignatureDoesNotMatch contains the string to sign and the canonical request, as text and as bytes", func(t *T) {
		a := t.mismatch("x-amz-meta-a: 1")
		a.eq("AWSAccessKeyId", t.accessKey).eq("SignatureProvided", strings.Repeat("0", 64))
		canonical := a.text("CanonicalRequest")
		a.expect(strings.HasPrefix(canonical, "GET\n/"+t.bucket()+"/key\n\n") && strings.Contains(canonical, "\nx-amz-meta-a:1\n"), "%q", canonical)
		a.expect(strings.HasPrefix(a.text("StringToSign"), "AWS4-HMAC-SHA256\n") && strings.HasSuffix(a.text("StringToSign"), "\n"+sha256Hex([]byte(canonical))), "%q", a.text("StringToSign"))
		a.expect(a.hexOf("CanonicalRequestBytes") == canonical && a.hexOf("StringToSignBytes") == a.text("StringToSign"), "the bytes differ from the text")
	}},
	{"signature-presigned", "SignatureDoesNotMatch for a presigned URL contains its query without the signature", func(t *T) {
		r := altered(presign(t, "GET", "key", nil, time.Minute, 0), "X-Amz-Expires=60", "X-Amz-Expires=61")
		a := t.send(r).fail(403, "SignatureDoesNotMatch")
		a.expect(strings.Contains(a.text("CanonicalRequest"), "&X-Amz-Expires=61&") && !strings.Contains(a.text("CanonicalRequest"), "Signature="), "%q", a.text("CanonicalRequest"))
	}},
	{"signature-customer-key", "SignatureDoesNotMatch never contains a customer key", func(t *T) {
		key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
		for _, prefix := range []string{"x-amz-server-side-encryption-customer-key: ", "x-amz-copy-source-server-side-encryption-customer-key: "} {
			a := t.mismatch(prefix + key)
			a.expect(!strings.Contains(a.body, key) && !strings.Contains(a.body, strings.TrimSpace(fmt.Sprintf("% x", key))), "the error contains the key")
		}
	}},
	{"skew", "RequestTimeTooSkewed contains both times and the allowed difference", func(t *T) {
		a := signedBy(t, &sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region}, -16*time.Minute).fail(403, "RequestTimeTooSkewed")
		sent, err := time.Parse("20060102T150405Z", a.text("RequestTime"))
		a.expect(err == nil, "%v", err)
		now, err := time.Parse(time.RFC3339, a.text("ServerTime"))
		a.expect(err == nil && now.Sub(sent) > 15*time.Minute, "%s and %s", sent, now)
		a.eq("MaxAllowedSkewMilliseconds", "900000")
	}},
	{"expired", "the error for an expired presigned URL contains the expiry and the current time", func(t *T) {
		a := t.send(presign(t, "GET", "key", nil, time.Minute, 2*time.Minute)).fail(403, "AccessDenied").eq("X-Amz-Expires", "60").eq("Message", "Request has expired")
		end, err := time.Parse(time.RFC3339, a.text("Expires"))
		a.expect(err == nil, "%v", err)
		now, err := time.Parse(time.RFC3339, a.text("ServerTime"))
		a.expect(err == nil && now.After(end), "%s and %s", end, now)
	}},
	{"not-signed", "AccessDenied for unsigned headers names them", func(t *T) {
		r := t.sign(t.request("PUT", "key", "content"), "content")
		r.Header.Set("X-Amz-Meta-B", "1")
		r.Header.Set("X-Amz-Acl", "private")
		t.send(r).fail(403, "AccessDenied").eq("HeadersNotSigned", "x-amz-acl, x-amz-meta-b")
	}},
	{"token-header", "a request with an unknown session token fails with InvalidToken", func(t *T) {
		r := t.request("GET", "", nil)
		(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region, SecurityToken: "a token"}).Sign(r, sigv4.EmptySHA256, time.Now())
		t.send(r).fail(400, "InvalidToken").eq("Message", "The provided token is malformed or otherwise invalid.")
	}},
	{"token-presigned", "a presigned URL with an unknown session token fails with InvalidToken", func(t *T) {
		r := t.request("GET", "", nil)
		(&sigv4.Signer{AccessKey: t.accessKey, SecretKey: t.secretKey, Region: t.region, SecurityToken: "a token"}).Presign(r, time.Minute, time.Now())
		t.must(strings.Contains(r.URL.RawQuery, "X-Amz-Security-Token="), "%s", r.URL.RawQuery)
		t.send(r).fail(400, "InvalidToken")
	}},
	tells("payload-hash", "XAmzContentSHA256Mismatch contains both hashes", func(t *T) *response {
		return t.try("key", "content", "x-amz-content-sha256: "+sha256Hex([]byte("other")))
	}, 400, "XAmzContentSHA256Mismatch", "ClientComputedContentSHA256: "+sha256Hex([]byte("other")), "S3ComputedContentSHA256: "+sha256Hex([]byte("content"))),
	tells("payload-mode", "an unknown payload mode fails with InvalidArgument, which contains its name", func(t *T) *response {
		return t.try("key", "content", "x-amz-content-sha256: STREAMING-NONSENSE")
	}, 400, "InvalidArgument", "ArgumentName: x-amz-content-sha256", "ArgumentValue: STREAMING-NONSENSE"),
	{"other-length", "IncompleteBody contains the announced and the received number of bytes", func(t *T) {
		r, wire := t.chunked("key", "content", sigv4.Chunked{Mode: sigv4.PayloadUnsignedTrailer}, "x-amz-decoded-content-length: 9")
		r.Header.Set("X-Amz-Decoded-Content-Length", "9")
		r.Header.Del("Authorization")
		t.signer.Sign(r, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", time.Now())
		t.send(rebody(r, wire)).fail(400, "IncompleteBody").eq("NumberBytesExpected", "9").eq("NumberBytesProvided", "7")
	}},
	{"md5", "BadDigest contains the expected MD5 in hexadecimal and the computed one in base64", func(t *T) {
		want, got := md5.Sum([]byte("other")), md5.Sum([]byte("content"))
		t.try("key", "content", contentMD5("other")).fail(400, "BadDigest").
			eq("ExpectedDigest", hex.EncodeToString(want[:])).eq("CalculatedDigest", base64.StdEncoding.EncodeToString(got[:]))
	}},
	tells("md5-malformed", "InvalidDigest contains the Content-MD5", func(t *T) *response {
		return t.try("key", "content", "Content-MD5: nonsense")
	}, 400, "InvalidDigest", "Content-MD5: nonsense"),
	tells("key", "NoSuchKey names the key", func(t *T) *response { return t.get("a/b") }, 404, "NoSuchKey", "Key: a/b", "Resource: /{bucket}/a/b"),
	tells("key-of-tags", "NoSuchKey names the key for a sub-resource, too", func(t *T) *response { return t.get("a/b?tagging") }, 404, "NoSuchKey", "Key: a/b"),
	tells("key-of-source", "NoSuchKey of a copy names the key of the source", func(t *T) *response {
		return t.try("to", nil, t.from("no/such"))
	}, 404, "NoSuchKey", "Key: no/such"),
	{"version", "NoSuchVersion names the key and the version", func(t *T) {
		t.versioned()
		id := t.version("key", "content")
		t.del("key?versionId=" + id).ok(204)
		t.get("key?versionId="+id).fail(404, "NoSuchVersion").eq("Key", "key").eq("VersionId", id)
		t.try("to", nil, t.from("key")+"?versionId="+id).fail(404, "NoSuchVersion").eq("Key", "key").eq("VersionId", id)
	}},
	tells("marker", "MethodNotAllowed for a delete marker has the resource type DeleteMarker", func(t *T) *response {
		t.versioned()
		t.put("key", "content")
		return t.get("key?versionId=" + t.mark("key"))
	}, 405, "MethodNotAllowed", "Method: GET", "ResourceType: DeleteMarker"),
	tells("method-bucket", "MethodNotAllowed contains the resource type", func(t *T) *response {
		return t.do("PATCH", "", nil)
	}, 405, "MethodNotAllowed", "Method: PATCH", "ResourceType: BUCKET"),
	tells("method-sub-resource", "a method that a sub-resource does not support fails with MethodNotAllowed, which names the sub-resource", func(t *T) *response {
		t.put("key", "content")
		t.post("key?tagging", "x").fail(405, "MethodNotAllowed").eq("ResourceType", "TAGGING")
		t.del("key?retention").fail(405, "MethodNotAllowed").eq("Method", "DELETE")
		t.holds("key", "content")
		return t.del("?acl")
	}, 405, "MethodNotAllowed", "Method: DELETE", "ResourceType: ACL"),
	tells("no-configuration", "the error for a bucket without a configuration names the bucket", func(t *T) *response {
		return t.get("?lifecycle")
	}, 404, "NoSuchLifecycleConfiguration", "BucketName: {bucket}"),
	tells("no-tags", "NoSuchTagSet names the bucket", func(t *T) *response { return t.get("?tagging") }, 404, "NoSuchTagSet", "BucketName: {bucket}"),
	{"upload", "NoSuchUpload names the aborted upload", func(t *T) {
		u := t.begin("key")
		t.del(u.ref(0)).ok(204)
		t.try(u.ref(1), "content").fail(404, "NoSuchUpload").eq("UploadId", u.id)
		t.get(u.ref(0)).fail(404, "NoSuchUpload").eq("UploadId", u.id)
	}},
	{"part", "InvalidPart names the upload, the part and the ETag", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), completeDoc("<Part><PartNumber>1</PartNumber><ETag>"+other+"</ETag></Part>")).fail(400, "InvalidPart").
			eq("UploadId", u.id).eq("PartNumber", "1").eq("ETag", strings.Trim(other, `"`))
	}},
	{"small", "EntityTooSmall contains the part number, its size and the minimum size", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		u.part(2, "content")
		u.complete().fail(400, "EntityTooSmall").eq("ProposedSize", "7").eq("MinSizeAllowed", fmt.Sprint(5<<20)).eq("PartNumber", "1").eq("ETag", u.etag[0])
	}},
	{"large", "EntityTooLarge contains both sizes", func(t *T) {
		_, in := t.open("PUT", "key", 5<<30+1, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.readResponse("PUT", in).fail(400, "EntityTooLarge").eq("ProposedSize", fmt.Sprint(5<<30+1)).eq("MaxSizeAllowed", fmt.Sprint(5<<30))
	}},
	tells("metadata", "MetadataTooLarge contains both sizes", func(t *T) *response {
		return t.try("key", "content", "x-amz-meta-a: "+strings.Repeat("x", 2048))
	}, 400, "MetadataTooLarge", "Size: 2049", "MaxSizeAllowed: 2048"),
	tells("long-key", "KeyTooLongError contains both sizes", func(t *T) *response {
		return t.try(strings.Repeat("k", 1025), "content")
	}, 400, "KeyTooLongError", "Size: 1025", "MaxSizeAllowed: 1024"),
	tells("tag", "InvalidTag names the tag", func(t *T) *response {
		return t.try("key", "content", "x-amz-tagging: aws%3Aa=b")
	}, 400, "InvalidTag", "TagKey: aws:a"),
	tells("tag-value", "InvalidTag contains the invalid value", func(t *T) *response {
		return t.try("key", "content", "x-amz-tagging: a=b%26")
	}, 400, "InvalidTag", "TagKey: a", "TagValue: b&"),
	tells("header", "NotImplemented names the header", func(t *T) *response {
		return t.try("key", "content", "x-amz-mfa: serial 123456")
	}, 501, "NotImplemented", "Header: x-amz-mfa"),
	tells("part-number", "InvalidPartNumber contains the requested part number and the number of parts", func(t *T) *response {
		t.put("key", "content")
		return t.get("key?partNumber=2")
	}, 416, "InvalidPartNumber", "PartNumberRequested: 2", "ActualPartCount: 1"),
	tells("version-id", "InvalidArgument names the version ID", func(t *T) *response {
		return t.get("key?versionId=nonsense!")
	}, 400, "InvalidArgument", "ArgumentName: versionId", "ArgumentValue: nonsense!"),
	tells("lifecycle", "InvalidArgument names the invalid element of a lifecycle", func(t *T) *response {
		doc := "<LifecycleConfiguration><Rule><ID>a</ID><Filter><Prefix/></Filter><Status>Enabled</Status><Expiration><Days>0</Days></Expiration></Rule></LifecycleConfiguration>"
		return t.try("?lifecycle", doc, contentMD5(doc))
	}, 400, "InvalidArgument", "ArgumentName: Days", "ArgumentValue: 0"),
	{"length-missing", "a PUT without a length fails with MissingContentLength", func(t *T) {
		conn, in := t.open("PUT", "key", -1, "UNSIGNED-PAYLOAD", "Transfer-Encoding: chunked")
		_, err := conn.Write([]byte("0\r\n\r\n"))
		t.must(err == nil, "%v", err)
		t.readResponse("PUT", in).fail(http.StatusLengthRequired, "MissingContentLength")
	}},
}}
