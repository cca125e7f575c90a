package s3test

import (
	"net/http"
	"strings"
	"time"
)

const origin = "Origin: https://www.example.com"

// preflight sends an unsigned CORS preflight request.
func (t *T) preflight(ref string, headers ...string) *response {
	t.Helper()
	return t.send(t.request("OPTIONS", ref, nil, headers...))
}

// corsRules are two rules: the first is for origin, the second for all origins.
const corsRules = "<CORSRule><ID>first</ID><AllowedOrigin>https://*.example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod>" +
	"<AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds>" +
	"</CORSRule><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>"

// putCORS stores the CORS configuration with these rules.
func (t *T) putCORS(rules string) {
	t.Helper()
	doc := "<CORSConfiguration>" + rules + "</CORSConfiguration>"
	t.try("?cors", doc, contentMD5(doc)).ok(200)
}

var cors = area{"cors", []rule{
	{"not-enabled", "a preflight to a bucket without CORS fails with AccessForbidden, which names the method", func(t *T) {
		for _, ref := range []string{"", "key", "?list-type=2"} {
			a := t.preflight(ref, origin, "Access-Control-Request-Method: PUT").fail(403, "AccessForbidden")
			a.eq("Message", "CORSResponse: CORS is not enabled for this bucket.").eq("Method", "PUT").eq("ResourceType", "BUCKET")
			a.lacks("Access-Control-Allow-Origin")
		}
	}},
	{"without-method", "a preflight without a method is treated as one for OPTIONS", func(t *T) {
		a := t.preflight("key", origin).fail(403, "AccessForbidden")
		a.eq("Message", "CORSResponse: CORS is not enabled for this bucket.").eq("Method", "OPTIONS")
	}},
	{"without-origin", "OPTIONS without an Origin fails with BadRequest, signed, presigned or not", func(t *T) {
		const message = "Insufficient information. Origin request header needed."
		t.preflight("key").fail(400, "BadRequest").eq("Message", message)
		t.preflight("key", "Access-Control-Request-Method: GET").fail(400, "BadRequest").eq("Message", message)
		t.do("OPTIONS", "key", nil).fail(400, "BadRequest").eq("Message", message)
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.Method = http.MethodOptions
		t.send(r).fail(400, "BadRequest").eq("Message", message)
	}},
	{"presigned", "a preflight to a presigned URL does not fail as a request with a wrong signature", func(t *T) {
		r := presign(t, "GET", "key", nil, time.Minute, 0)
		r.Method = http.MethodOptions
		r.Header.Set("Origin", "https://www.example.com")
		r.Header.Set("Access-Control-Request-Method", "GET")
		t.send(r).fail(403, "AccessForbidden").eq("Message", "CORSResponse: CORS is not enabled for this bucket.")
	}},
	{"missing-bucket", "a preflight to a bucket that does not exist fails with AccessForbidden and a message that says so", func(t *T) {
		a := t.preflight("/"+t.newName()+"/key", origin, "Access-Control-Request-Method: GET").fail(403, "AccessForbidden")
		a.eq("Message", "CORSResponse: Bucket not found")
		t.preflight("/No_Such_Bucket/key", origin).fail(403, "AccessForbidden")
	}},
	{"put-get", "a CORS configuration is stored with all its elements, and deleted", func(t *T) {
		t.putCORS(corsRules)
		a := t.get("?cors").ok(200).doc("CORSConfiguration")
		a.eq("CORSRule/ID", "first").eq("CORSRule/ExposeHeader", "ETag").eq("CORSRule/AllowedOrigin", "https://*.example.com", "*")
		a.eq("CORSRule/MaxAgeSeconds", "60")
		t.del("?cors").ok(204)
		t.get("?cors").fail(404, "NoSuchCORSConfiguration")
	}},
	{"put-invalid", "an invalid CORS configuration fails with MalformedXML or InvalidRequest and is not stored", func(t *T) {
		const any = "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
		for inside, code := range map[string]string{
			"<AllowedOrigin>*</AllowedOrigin>":            "MalformedXML",
			"<AllowedMethod>GET</AllowedMethod>":          "MalformedXML",
			any + "<AllowedMethod>PATCH</AllowedMethod>":  "InvalidRequest",
			any + "<AllowedOrigin>h*://*</AllowedOrigin>": "InvalidRequest",
			any + "<AllowedHeader>**</AllowedHeader>":     "InvalidRequest",
			any + "<ExposeHeader>*</ExposeHeader>":        "InvalidRequest",
		} {
			doc := "<CORSConfiguration><CORSRule>" + inside + "</CORSRule></CORSConfiguration>"
			t.try("?cors", doc, contentMD5(doc)).fail(400, code)
		}
		doc := "<CORSConfiguration>" + strings.Repeat("<CORSRule>"+any+"</CORSRule>", 101) + "</CORSConfiguration>"
		a := t.try("?cors", doc, contentMD5(doc))
		a.expect(a.status == 400, "status %d", a.status)
		t.get("?cors").fail(404, "NoSuchCORSConfiguration")
		t.putCORS(strings.Repeat("<CORSRule>"+any+"</CORSRule>", 100))
	}},
	{"first-rule", "the first rule that matches origin and method answers a preflight", func(t *T) {
		t.putCORS(corsRules)
		a := t.preflight("key", origin, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: x-amz-date").ok(200)
		a.has("Access-Control-Allow-Origin", "https://www.example.com").has("Access-Control-Allow-Headers", "x-amz-date")
		a.has("Access-Control-Max-Age", "60").has("Access-Control-Allow-Methods", "GET, PUT")
		a = t.preflight("key", origin, "Access-Control-Request-Method: GET").ok(200)
		a.has("Access-Control-Allow-Origin", "https://www.example.com")
		t.preflight("key", "Origin: https://elsewhere.org", "Access-Control-Request-Method: GET").ok(200).has("Access-Control-Allow-Origin", "*")
	}},
	{"headers-refused", "a preflight for a method or a header that no rule allows fails with AccessForbidden", func(t *T) {
		t.putCORS(corsRules)
		for _, h := range [][]string{
			{origin, "Access-Control-Request-Method: DELETE"},
			{"Origin: https://elsewhere.org", "Access-Control-Request-Method: PUT"},
			{origin, "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"},
		} {
			a := t.preflight("key", h...).fail(403, "AccessForbidden").lacks("Access-Control-Allow-Origin")
			a.expect(strings.HasPrefix(a.text("Message"), "CORSResponse: This CORS request is not allowed."), "%s", a.text("Message"))
		}
	}},
	{"error-has-headers", "a response to a request with an Origin has CORS headers, even an error", func(t *T) {
		t.putCORS(corsRules)
		t.put("key", "content")
		for ref, status := range map[string]int{"key": 200, "none": 404} {
			a := t.get(ref, origin)
			a.expect(a.status == status, "status %d", a.status)
			a.has("Access-Control-Allow-Origin", "https://www.example.com").has("Access-Control-Expose-Headers", "ETag")
		}
		a := t.send(t.request("GET", "key", nil, origin)).fail(403, "AccessDenied")
		a.has("Access-Control-Allow-Origin", "https://www.example.com")
		t.get("key").ok(200).lacks("Access-Control-Allow-Origin")
	}},
	{"actual-request", "a request with an Origin succeeds, and the response has no CORS header", func(t *T) {
		t.put("key", "content", origin)
		a := t.get("key", origin).ok(200).lacks("Access-Control-Allow-Origin")
		a.expect(a.body == "content", "%q", a.body)
	}},
}}

// dialects are requests of MinIO clients that are not part of S3. They must not be mistaken for other requests.
var dialects = area{"dialects", []rule{
	{"listen", "ListenBucketNotification and ListenNotification fail with NotImplemented and do not return a listing", func(t *T) {
		t.get("?events=s3:ObjectCreated:*&prefix=&suffix=&ping=10").fail(501, "NotImplemented")
		t.get("/?events=s3:BucketCreated:*").fail(501, "NotImplemented")
	}},
	{"fan-out", "a fan-out upload, which is a form, fails with NotImplemented and not AccessDenied", func(t *T) {
		body := "--x\r\nContent-Disposition: form-data; name=\"x-minio-fanout-list\"\r\n\r\n{\"key\":\"a\"}\r\n--x--\r\n"
		r := t.request("POST", "/"+t.bucket()+"/", body, "Content-Type: multipart/form-data; boundary=x")
		t.send(r).fail(501, "NotImplemented")
		t.gone("a")
	}},
}}
