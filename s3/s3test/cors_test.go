package s3test

import (
	"net/http"
	"time"
)

const origin = "Origin: https://www.example.com"

// preflight sends an unsigned CORS preflight request.
func (t *T) preflight(ref string, headers ...string) *response {
	t.Helper()
	return t.send(t.request("OPTIONS", ref, nil, headers...))
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
