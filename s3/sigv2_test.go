package s3_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/gate"
	"orcas/s3"
	"orcas/s3/sigv2"
)

func acceptV2(mode sigv2.Mode) setup {
	return setup{options: func(o *s3.Options) { o.SignatureV2 = mode }}
}

// macV2 returns the signature of version 2 of a request. Its headers do not repeat, and its query has no value that
// needs to be encoded.
func macV2(r *http.Request, secret, date string) string {
	var headers, params []string
	for name, values := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") {
			headers = append(headers, name+":"+values[0]+"\n")
		}
	}
	for _, p := range strings.Split(r.URL.RawQuery, "&") {
		name, _, _ := strings.Cut(p, "=")
		if name != "" && name != "x-id" && name != "list-type" && !strings.HasPrefix(name, "AWS") && name != "Expires" {
			params = append(params, p)
		}
	}
	slices.SortFunc(headers, func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, ':')], b[:strings.IndexByte(b, ':')])
	})
	slices.Sort(params)
	resource := r.URL.EscapedPath()
	if len(params) > 0 {
		resource += "?" + strings.Join(params, "&")
	}
	h := hmac.New(sha1.New, []byte(secret))
	fmt.Fprintf(h, "%s\n%s\n%s\n%s\n%s%s", r.Method, r.Header.Get("Content-Md5"), r.Header.Get("Content-Type"), date,
		strings.Join(headers, ""), resource)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// presignV2 signs a request with version 2 in its query.
func presignV2(r *http.Request, key, secret string, expires time.Time) *http.Request {
	date := fmt.Sprint(expires.Unix())
	signature := macV2(r, secret, date)
	if r.URL.RawQuery != "" {
		r.URL.RawQuery += "&"
	}
	r.URL.RawQuery += "AWSAccessKeyId=" + key + "&Expires=" + date + "&Signature=" + url.QueryEscape(signature)
	return r
}

// signV2 signs a request with version 2 in its header.
func signV2(r *http.Request, key, secret string, at time.Time) *http.Request {
	r.Header.Set("Date", at.UTC().Format(http.TimeFormat))
	r.Header.Set("Authorization", "AWS "+key+":"+macV2(r, secret, r.Header.Get("Date")))
	return r
}

// A signature of version 2 passes the same gate as one of version 4, on every route: the same action is authorized on
// the same resource, and requests that are forged, expired, changed or not accepted are not authorized at all.
func TestEveryRouteWithSignatureV2(t *testing.T) {
	j := &judge{}
	worlds := map[sigv2.Mode]*world{}
	for _, mode := range []sigv2.Mode{"", sigv2.Off, sigv2.Presigned, sigv2.All} {
		worlds[mode] = newWorld(t, judged(j), acceptV2(mode))
		worlds[mode].bucket("bucket")
		worlds[mode].put("/bucket/key", "content")
		worlds[mode].put("/bucket/source", "source")
	}
	j.reset()
	j.refuse = func(int, authCall) error { return auth.ErrDenied }
	soon := time.Now().Add(time.Hour)
	for _, route := range s3.Routes() {
		path, headers := target(route)
		worlds[sigv2.All].do(route.Method, path, nil, headers...)
		want := j.reset()
		require.NotEmpty(t, want, route.Name)
		for mode, w := range worlds {
			for _, place := range []string{"query", "header"} {
				what := fmt.Sprintf("%s, %s, %q", route.Name, place, mode)
				request := func(key, secret string) *http.Request {
					r := w.request(route.Method, path, nil, headers...)
					if place == "query" {
						return presignV2(r, key, secret, soon)
					}
					return signV2(r, key, secret, time.Now())
				}
				refused := func(r *http.Request, status int) {
					require.Equal(t, status, w.send(r).status, what)
					require.Empty(t, j.reset(), what)
				}
				if accepted := mode == sigv2.All || mode == sigv2.Presigned && place == "query"; !accepted {
					refused(request(accessKey, secretKey), 400)
					continue
				}
				require.Equal(t, 403, w.send(request(accessKey, secretKey)).status, what)
				require.Equal(t, want, j.reset(), what)
				refused(request(accessKey, "wrong"), 403)
				refused(request("AKIANOBODY", secretKey), 403)
				refused(request("AKIANOBODY", ""), 403)
				r := request(accessKey, secretKey)
				r.Method = map[bool]string{true: "GET", false: "DELETE"}[r.Method == "DELETE"]
				refused(r, 403)
				r = request(accessKey, secretKey)
				r.URL.Path += "x"
				refused(r, 403)
				r = request(accessKey, secretKey)
				r.Header.Set("X-Amz-Meta-More", "x")
				refused(r, 403)
				r = w.request(route.Method, path, nil, append(headers, "X-Amz-Security-Token", "token")...)
				if place == "query" {
					r = presignV2(r, accessKey, secretKey, soon)
				} else {
					r = signV2(r, accessKey, secretKey, time.Now())
				}
				refused(r, 400)
			}
		}
		w := worlds[sigv2.All]
		refused := func(what string, r *http.Request) {
			require.Contains(t, []int{400, 403}, w.send(r).status, "%s: %s", route.Name, what)
			require.Empty(t, j.reset(), "%s: %s", route.Name, what)
		}
		refused("expired", presignV2(w.request(route.Method, path, nil, headers...), accessKey, secretKey, time.Now().Add(-time.Hour)))
		refused("too long", presignV2(w.request(route.Method, path, nil, headers...), accessKey, secretKey, time.Now().Add(8*24*time.Hour)))
		refused("old", signV2(w.request(route.Method, path, nil, headers...), accessKey, secretKey, time.Now().Add(-16*time.Minute)))
		refused("early", signV2(w.request(route.Method, path, nil, headers...), accessKey, secretKey, time.Now().Add(16*time.Minute)))

		// A signature for the bucket or the key cannot be turned into one for another operation on it.
		plain := [...]string{gate.Service: "/", gate.Bucket: "/bucket", gate.Object: "/bucket/key"}[route.Level]
		if route.Sub != "" && route.Sub != "list-type" {
			r := presignV2(w.request(route.Method, plain, nil, headers...), accessKey, secretKey, soon)
			r.URL.RawQuery += "&" + route.Sub
			refused("sub-resource", r)
			r = presignV2(w.request(route.Method, plain, nil, headers...), accessKey, secretKey, soon)
			r.URL.RawQuery = route.Sub + "=1&" + r.URL.RawQuery
			refused("sub-resource", r)
		}
		if route.Header != "" {
			r := presignV2(w.request(route.Method, plain, nil), accessKey, secretKey, soon)
			r.URL.RawQuery += "&" + strings.ToLower(route.Header) + "=%2Fbucket%2Fsource"
			refused("header in the query", r)
		}
		if route.VersionAction != "" {
			r := presignV2(w.request(route.Method, path, nil, headers...), accessKey, secretKey, soon)
			r.URL.RawQuery += "&versionId=null"
			refused("version", r)
		}
	}
}

// Facts about signatures of version 2, as AWS defines them.
func TestSignatureV2Facts(t *testing.T) {
	var got map[string]string
	w := newWorld(t, acceptV2(sigv2.All), setup{options: func(o *s3.Options) {
		o.Authorizer = factsOf{&got, []string{"s3:authType", "s3:signatureversion", "s3:signatureAge"}}
	}})
	w.send(presignV2(w.request("GET", "/", nil), accessKey, secretKey, time.Now().Add(time.Hour))).is(200, "")
	require.Equal(t, map[string]string{"s3:authType": "REST-QUERY-STRING", "s3:signatureversion": "AWS"}, got)
	w.send(signV2(w.request("GET", "/", nil), accessKey, secretKey, time.Now())).is(200, "")
	require.NotEmpty(t, got["s3:signatureAge"])
	delete(got, "s3:signatureAge")
	require.Equal(t, map[string]string{"s3:authType": "REST-HEADER", "s3:signatureversion": "AWS"}, got)
	w.do("GET", "/", nil).is(200, "")
	require.NotEmpty(t, got["s3:signatureAge"])
	require.Equal(t, "AWS4-HMAC-SHA256", got["s3:signatureversion"])
}

// Parameters that stand for headers have the effect of these headers.
func TestSignatureV2Parameters(t *testing.T) {
	w := newWorld(t, acceptV2(sigv2.Presigned))
	w.bucket("bucket")
	soon := time.Now().Add(time.Hour)
	inQuery := func(r *http.Request, names ...string) *http.Request {
		presignV2(r, accessKey, secretKey, soon)
		for _, name := range names {
			r.URL.RawQuery += "&" + strings.ToLower(name) + "=" + url.QueryEscape(r.Header.Get(name))
			r.Header.Del(name)
		}
		return r
	}
	r := w.request("PUT", "/bucket/key", []byte("content"), "Content-Type", "text/x-mine", "X-Amz-Meta-Name", "a b", "Content-Md5", md5Of([]byte("content")))
	w.send(inQuery(r, "Content-Type", "X-Amz-Meta-Name", "Content-Md5")).is(200, "")
	a := w.do("HEAD", "/bucket/key", nil)
	require.Equal(t, "text/x-mine", a.header.Get("Content-Type"))
	require.Equal(t, "a b", a.header.Get("X-Amz-Meta-Name"))
	r = w.request("PUT", "/bucket/key", []byte("other"), "Content-Md5", md5Of([]byte("content")))
	w.send(inQuery(r, "Content-Md5")).is(400, "BadDigest")
	w.send(inQuery(w.request("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key"), "X-Amz-Copy-Source")).is(200, "")
	require.Equal(t, "content", w.content("/bucket/copy"))
	require.Equal(t, "content", string(w.send(inQuery(w.request("GET", "/bucket/key", nil))).is(200, "").body))

	host := *w
	r = host.request("GET", "/key", nil)
	r.Host = "bucket.s3.example.org"
	signed := w.request("GET", "/bucket/key", nil)
	presignV2(signed, accessKey, secretKey, soon)
	r.URL.RawQuery = signed.URL.RawQuery
	require.Equal(t, "content", string(w.send(r).is(200, "").body))
}

// factsOf is an authorizer that allows everything and records facts of the last request.
type factsOf struct {
	facts *map[string]string
	keys  []string
}

func (a factsOf) Authorize(_ context.Context, _ *auth.Principal, _ auth.Action, _ auth.Resource, f auth.Facts) error {
	*a.facts = map[string]string{}
	for _, key := range a.keys {
		if v, ok := f.Fact(key); ok {
			(*a.facts)[key] = v
		}
	}
	return nil
}
