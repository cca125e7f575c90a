package s3_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/s3"
)

const corsDocument = "<CORSConfiguration><CORSRule><AllowedOrigin>https://*.example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod>" +
	"<AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds>" +
	"</CORSRule><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod></CORSRule></CORSConfiguration>"

// corsHeaders returns the CORS headers of a response, and its Vary header.
func corsHeaders(a *response) map[string]string {
	found := map[string]string{}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
			found[name] = a.header.Get(name)
		}
	}
	return found
}

const vary = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"

// Every operation sends the CORS headers, to the owner and to everyone else, with errors and without; and it sends none
// without Origin, for another origin, and for a method that no rule allows.
func TestEveryRouteSendsCORSHeaders(t *testing.T) {
	allowed := map[string]string{
		"Access-Control-Allow-Origin": "https://www.example.com", "Access-Control-Allow-Credentials": "true",
		"Access-Control-Allow-Methods": "GET, PUT", "Access-Control-Expose-Headers": "ETag", "Access-Control-Max-Age": "60", "Vary": vary,
	}
	w := newWorld(t)
	for _, r := range s3.Routes() {
		w.do("PUT", "/bucket", nil)
		w.put("/bucket/key", "content")
		w.put("/bucket/source", "content")
		w.do("PUT", "/bucket?cors", []byte(corsDocument)).is(200, "")
		path, headers := target(r)
		from := func(origin string) []string { return append(headers[:len(headers):len(headers)], "Origin", origin) }
		var want map[string]string
		switch {
		case path[:2] == "/?": // the service has no configuration
			want = map[string]string{}
		case r.Method == "GET" || r.Method == "PUT":
			want = allowed
		case r.Method == "HEAD":
			want = map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "HEAD", "Vary": vary}
		default:
			want = map[string]string{"Vary": vary}
		}
		const origin = "https://www.example.com"
		require.Equal(t, want, corsHeaders(w.send(w.request(r.Method, path, nil, from(origin)...))), "%s, anonymous", r.Name)
		forged := w.request(r.Method, path, nil, append(from(origin), "Authorization", "AWS4-HMAC-SHA256 x")...)
		require.Equal(t, want, corsHeaders(w.send(forged)), "%s, forged", r.Name)
		if r.Method == "GET" || r.Method == "PUT" {
			other := w.send(w.request(r.Method, path, nil, from("https://example.org")...))
			require.Empty(t, other.header.Get("Access-Control-Allow-Origin"), r.Name)
		}
		require.Empty(t, corsHeaders(w.send(w.request(r.Method, path, nil, headers...))), "%s without Origin", r.Name)
		require.Equal(t, want, corsHeaders(w.do(r.Method, path, nil, from(origin)...)), "%s, the owner", r.Name)
	}
}

// A preflight reveals the rules that apply to its origin, and nothing else.
func TestPreflight(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.do("PUT", "/bucket?cors", []byte(corsDocument)).is(200, "")
	ask := func(path string, headers ...string) *response {
		return w.send(w.request("OPTIONS", path, nil, headers...))
	}
	for _, path := range []string{"/bucket", "/bucket/key", "/bucket/key?X-Amz-Signature=0", "/bucket?cors"} {
		a := ask(path, "Origin", "https://a.example.com", "Access-Control-Request-Method", "PUT",
			"Access-Control-Request-Headers", "X-Amz-Date,x-amz-meta-a , ").is(200, "")
		require.Equal(t, map[string]string{
			"Access-Control-Allow-Origin": "https://a.example.com", "Access-Control-Allow-Credentials": "true",
			"Access-Control-Allow-Methods": "GET, PUT", "Access-Control-Allow-Headers": "x-amz-date, x-amz-meta-a",
			"Access-Control-Expose-Headers": "ETag", "Access-Control-Max-Age": "60", "Vary": vary,
		}, corsHeaders(a))
		require.Empty(t, a.body)
	}
	a := ask("/bucket/key", "Origin", "https://a.org", "Access-Control-Request-Method", "HEAD").is(200, "")
	require.Equal(t, map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "HEAD", "Vary": vary}, corsHeaders(a))
	for _, headers := range [][]string{
		{"Origin", "https://a.org", "Access-Control-Request-Method", "GET"},
		{"Origin", "https://a.example.com", "Access-Control-Request-Method", "DELETE"},
		{"Origin", "https://a.example.com", "Access-Control-Request-Method", "get"},
		{"Origin", "https://a.example.com", "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization"},
		{"Origin", "https://a.org", "Access-Control-Request-Method", "HEAD", "Access-Control-Request-Headers", "range"},
	} {
		a := ask("/bucket/key", headers...).is(403, "AccessForbidden")
		require.Contains(t, string(a.body), "CORSResponse: This CORS request is not allowed.")
		require.Contains(t, string(a.body), "<ResourceType>OBJECT</ResourceType>")
		require.Equal(t, map[string]string{"Vary": vary}, corsHeaders(a))
	}
	ask("/bucket/key", "Origin", "https://a.example.com").is(400, "BadRequest")
	ask("/bucket/key", "Access-Control-Request-Method", "GET").is(400, "BadRequest")
	ask("/other/key", "Origin", "https://a.example.com", "Access-Control-Request-Method", "GET").is(403, "AccessForbidden")

	w.do("PUT", "/bucket?cors", []byte(strings.ReplaceAll(corsDocument, ">GET<", ">DELETE<"))).is(200, "")
	ask("/bucket/key", "Origin", "https://a.example.com", "Access-Control-Request-Method", "DELETE").is(200, "")
	ask("/bucket/key", "Origin", "https://a.example.com", "Access-Control-Request-Method", "GET").is(403, "AccessForbidden")
	w.do("DELETE", "/bucket?cors", nil).is(204, "")
	a = ask("/bucket/key", "Origin", "https://a.example.com", "Access-Control-Request-Method", "DELETE").is(403, "AccessForbidden")
	require.Contains(t, string(a.body), "CORS is not enabled for this bucket.")
	w.do("GET", "/bucket?cors", nil).is(404, "NoSuchCORSConfiguration")
}

// The default of the server applies to buckets without a configuration, and to buckets that do not exist, so that it
// does not reveal which exist.
func TestDefaultCORS(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.CORSOrigins = []string{"https://console.example.org"} }})
	w.bucket("bucket")
	w.bucket("other")
	w.do("PUT", "/other?cors", []byte(corsDocument)).is(200, "")
	ask := func(path, origin, method string) *response {
		return w.send(w.request("OPTIONS", path, nil, "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "authorization,x-amz-date"))
	}
	for _, path := range []string{"/", "/bucket", "/bucket/key", "/absent/key", "/No_Bucket"} {
		a := ask(path, "https://console.example.org", "DELETE").is(200, "")
		require.Equal(t, "https://console.example.org", a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "authorization, x-amz-date", a.header.Get("Access-Control-Allow-Headers"))
		a = w.send(w.request("GET", path, nil, "Origin", "https://console.example.org"))
		require.Equal(t, "https://console.example.org", a.header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "ETag")
		ask(path, "https://example.org", "GET").is(403, "AccessForbidden")
	}
	ask("/other/key", "https://console.example.org", "GET").is(403, "AccessForbidden")
	require.Equal(t, http.StatusOK, w.do("GET", "/", nil, "Origin", "https://console.example.org").status)
}
