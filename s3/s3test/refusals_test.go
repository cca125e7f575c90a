package s3test

import (
	"fmt"
	"net/http"
	"strings"

	"orcas/internal/sigv4"
)

var limits = area{"limits", []rule{
	{"headers-8-kib", "headers of more than 8 KiB in total are refused", func(t *T) {
		a := t.get("", "X-Large: "+strings.Repeat("x", 8200))
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"long-url", "a long URL does not count towards the limit of the headers", func(t *T) {
		t.get("?prefix=" + strings.Repeat("x", 1000) + "&a=" + strings.Repeat("y", 7000)).ok(200)
	}},
	{"put-5-gib", "a PUT with a Content-Length above 5 GiB fails with EntityTooLarge before its body is sent", func(t *T) {
		_, in := t.open("PUT", "key", 5<<30+1, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.readResponse("PUT", in).fail(400, "EntityTooLarge").eq("MaxSizeAllowed", fmt.Sprint(5<<30))
	}},
	{"part-5-gib", "a part with a Content-Length above 5 GiB fails with EntityTooLarge before its body is sent", func(t *T) {
		_, in := t.open("PUT", t.begin("key").ref(1), 5<<30+1, "UNSIGNED-PAYLOAD", "Expect: 100-continue")
		t.readResponse("PUT", in).fail(400, "EntityTooLarge")
	}},
	{"complete-10001", "CompleteMultipartUpload with more than 10000 parts is refused", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		var parts []string
		for i := range 10001 {
			parts = append(parts, fmt.Sprintf("<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, u.etag[0]))
		}
		a := t.post(u.ref(0), completeDoc(parts...))
		a.expect(a.status == 400, "status %d", a.status)
	}},
	{"complete-document-of-10000", "the document of CompleteMultipartUpload may be as large as 10000 parts with checksums require", func(t *T) {
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

// badDocument returns the rule that DeleteObjects with this document fails with MalformedXML and deletes nothing.
func badDocument(named, says, doc string) rule {
	return rule{named, says, func(t *T) {
		t.fill("a")
		t.post("?delete", doc, contentMD5(doc)).fail(400, "MalformedXML")
		t.holds("a", "a")
	}}
}

var documents = area{"xml", []rule{
	badDocument("doctype", "a document type declaration is refused", `<!DOCTYPE d [<!ENTITY e "a">]><Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("doctype-alone", "a document type declaration is refused even if it is empty", `<!DOCTYPE Delete><Delete><Object><Key>a</Key></Object></Delete>`),
	badDocument("unknown-entity", "an entity other than the predefined ones of XML is refused", `<Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("external-entity", "an external entity is refused", `<!DOCTYPE d [<!ENTITY e SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&e;</Key></Object></Delete>`),
	badDocument("not-utf8", "a document that is not UTF-8 is refused", "<Delete><Object><Key>a</Key><X>\xff</X></Object></Delete>"),
	badDocument("two-roots", "a document with two roots is refused", "<Delete><Object><Key>a</Key></Object></Delete><Delete/>"),
	badDocument("text-behind", "text after the root is refused", "<Delete><Object><Key>a</Key></Object></Delete>text"),
	badDocument("wrong-root", "a document with another root is refused", "<Remove><Object><Key>a</Key></Object></Remove>"),
	badDocument("not-closed", "a document that is cut off is refused", "<Delete><Object><Key>a</Key></Object>"),
	badDocument("empty", "an empty document is refused", ""),
	badDocument("json", "JSON is refused", `{"Delete": {"Object": {"Key": "a"}}}`),
	{"deep", "a document nested more than 32 levels deep is refused", func(t *T) {
		deep := strings.Repeat("<x>", 40) + strings.Repeat("</x>", 40)
		doc := "<NotificationConfiguration><EventBridgeConfiguration>" + deep + "</EventBridgeConfiguration></NotificationConfiguration>"
		t.try("?notification", doc, contentMD5(doc)).fail(400, "MalformedXML")
	}},
	{"comment", "comments in a document are ignored", func(t *T) {
		t.fill("a")
		doc := "<!-- one --><Delete><!-- two --><Object><Key>a</Key></Object></Delete><!-- three -->"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "a")
	}},
	{"cdata", "a CDATA section is read as text", func(t *T) {
		t.fill("<&")
		doc := "<Delete><Object><Key><![CDATA[<&]]></Key></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "<&")
	}},
	{"character-reference", "character references are decoded", func(t *T) {
		t.fill("aü")
		doc := "<Delete><Object><Key>&#97;&#xfc;</Key></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "aü")
	}},
}}

var errorResponses = area{"errors", []rule{
	{"no-namespace", "the root of an error document is Error, without a namespace", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(a.root().space == "", "namespace %q", a.root().space)
	}},
	{"declaration", "an error document begins with an XML declaration", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(strings.HasPrefix(a.body, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "%q", a.body[:20])
	}},
	{"resource", "an error names its resource", func(t *T) {
		a := t.get("no/such").fail(404, "NoSuchKey")
		a.expect(a.text("Resource") == "/"+t.bucket()+"/no/such", "%q", a.text("Resource"))
	}},
	{"escaped", "text from the request is escaped in an error", func(t *T) {
		t.get(escape("<a>&b")).fail(404, "NoSuchKey").eq("Key", "<a>&b")
	}},
	{"control-characters", "an error is well-formed XML even if the key has characters that XML does not allow", func(t *T) {
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
	{"range-size", "InvalidRange contains the requested range and the size of the object", func(t *T) {
		t.put("key", digits)
		t.get("key", "Range: bytes=20-30").fail(416, "InvalidRange").eq("RangeRequested", "bytes=20-30").eq("ActualObjectSize", "10").has("Content-Range", "bytes */10")
	}},
	{"method", "MethodNotAllowed names the method", func(t *T) {
		t.post("key", nil).fail(405, "MethodNotAllowed").eq("Method", "POST").eq("ResourceType", "OBJECT")
	}},
	{"upload-id", "NoSuchUpload names the upload", func(t *T) {
		t.get("key?uploadId=nonsense").fail(404, "NoSuchUpload").eq("UploadId", "nonsense")
	}},
	{"messages", "the messages of the most frequent errors are the same as those of S3", func(t *T) {
		t.get("none").fail(404, "NoSuchKey").eq("Message", "The specified key does not exist.")
		t.get("/"+t.newName()).fail(404, "NoSuchBucket").eq("Message", "The specified bucket does not exist")
		t.send(t.request("GET", "key", nil)).fail(403, "AccessDenied").eq("Message", "Access Denied")
	}},
	{"bucket-name", "InvalidBucketName names the bucket", func(t *T) {
		t.try("/No_Such", nil).fail(400, "InvalidBucketName").eq("BucketName", "No_Such")
	}},
	{"host-id", "an error has a HostId that equals x-amz-id-2", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.expect(a.text("HostId") != "" && a.text("HostId") == a.header.Get("x-amz-id-2"), "%q", a.text("HostId"))
	}},
	{"content-length", "an error has a Content-Length", func(t *T) {
		a := t.get("none").fail(404, "NoSuchKey")
		a.has("Content-Length", fmt.Sprint(len(a.body)))
	}},
	{"argument", "InvalidArgument names the argument and its value", func(t *T) {
		t.get("?max-keys=x").fail(400, "InvalidArgument").eq("ArgumentName", "max-keys").eq("ArgumentValue", "x")
	}},
	{"connection-goes-on", "the connection can be used again after an error", func(t *T) {
		t.bucket()
		r := t.sign(t.request("GET", "none", nil), nil)
		conn := t.dial()
		in := newReader(conn)
		for range 3 {
			t.must(r.Write(conn) == nil, "write")
			t.readResponse("GET", in).fail(404, "NoSuchKey")
		}
	}},
	{"after-refused-put", "the connection can be used again after a refused PUT whose body was sent", func(t *T) {
		t.bucket()
		conn := t.dial()
		in := newReader(conn)
		for range 3 {
			body := strings.Repeat("x", 1000)
			r := t.sign(t.request("PUT", "key", body, "x-amz-storage-class: GOLD"), body)
			t.must(r.Write(conn) == nil, "write")
			t.readResponse("PUT", in).fail(400, "InvalidStorageClass")
		}
	}},
	{"large-refused-put", "a client that sends all of a large body receives an error that was returned early", func(t *T) {
		body := random(12, 4<<20)
		t.try("/"+t.newName()+"/key", body, unsigned).fail(404, "NoSuchBucket")
	}},
}}

var responses = area{"answers", []rule{
	{"request-ids-differ", "every response has its own x-amz-request-id", func(t *T) {
		a, b := t.get("").ok(200), t.get("").ok(200)
		t.must(a.set("x-amz-request-id") != b.set("x-amz-request-id"), "both responses have the same x-amz-request-id")
	}},
	{"id-2", "every response has an x-amz-id-2", func(t *T) {
		t.get("").ok(200).set("x-amz-id-2")
		t.get("none").fail(404, "NoSuchKey").set("x-amz-id-2")
	}},
	{"date", "every response has a Date", func(t *T) {
		_, err := http.ParseTime(t.get("").ok(200).set("Date"))
		t.must(err == nil, "%v", err)
	}},
	{"head-request-id", "the response to a failed HEAD has an x-amz-request-id", func(t *T) {
		t.head("none").fail(404, "").set("x-amz-request-id")
	}},
	{"list-region", "a listing names the region of the bucket", func(t *T) {
		t.get("").ok(200).has("x-amz-bucket-region", t.region)
	}},
	{"head-object-type", "HEAD has the Content-Type of the object", func(t *T) {
		t.put("key", "content", "Content-Type: text/plain")
		t.head("key").ok(200).has("Content-Type", "text/plain")
	}},
	{"delete-no-content-type", "the response to DELETE has neither Content-Type nor Content-Length", func(t *T) {
		t.put("key", "content")
		t.del("key").ok(204).lacks("Content-Type", "Content-Length")
	}},
	{"put-content-length", "the response to PUT has a Content-Length of 0", func(t *T) {
		t.put("key", "content").has("Content-Length", "0")
	}},
	{"unknown-method", "an unknown method is refused", func(t *T) {
		a := t.do("PATCH", "key", nil)
		a.expect(a.status == 405 || a.status == 501, "status %d", a.status)
	}},
	{"request-payer", "x-amz-request-payer, which SDKs send, has no effect", func(t *T) {
		t.put("key", "content", "x-amz-request-payer: requester")
		a := t.get("key", "x-amz-request-payer: requester").ok(200)
		a.expect(a.body == "content", "%q", a.body)
	}},
	{"optional-attributes", "x-amz-optional-object-attributes on a listing has no effect", func(t *T) {
		t.fill("a")
		t.get("?list-type=2", "x-amz-optional-object-attributes: RestoreStatus").ok(200).eq("Contents/Key", "a")
	}},
	{"user-agent-headers", "the tracing headers of SDKs have no effect", func(t *T) {
		t.put("key", "content", "amz-sdk-invocation-id: 00000000-0000-4000-8000-000000000000", "amz-sdk-request: attempt=1; max=3", "x-amz-user-agent: test")
		t.holds("key", "content")
	}},
	{"unknown-sub-resource", "an unknown parameter has no effect", func(t *T) {
		t.put("key", "content")
		t.holds("key?unknown=1", "content")
	}},
	{"keep-alive", "a connection can be used for many requests", func(t *T) {
		t.put("key", "content")
		r := t.sign(t.request("GET", "key", nil), nil)
		conn := t.dial()
		in := newReader(conn)
		for range 10 {
			t.must(r.Write(conn) == nil, "write")
			a := t.readResponse("GET", in).ok(200)
			a.expect(a.body == "content", "%q", a.body)
		}
	}},
	{"expect-before-nothing", "Expect: 100-continue with an empty body is accepted", func(t *T) {
		conn, in := t.open("PUT", "key", 0, sigv4.EmptySHA256, "Expect: 100-continue")
		a := t.readResponse("PUT", in)
		if a.status == 100 {
			a = t.readResponse("PUT", in)
		}
		a.ok(200)
		_ = conn
		t.holds("key", "")
	}},
}}
