package s3_test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
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

// form is an HTML form for tests.
type form struct {
	bucket       string
	fields       []string // names and values
	conditions   []string // besides those that cover fields; if more is set, of the fields only those of the signature
	bare         bool     // conditions has all conditions
	file, name   string
	after        []string // fields after the file
	key, secret  string
	signed       time.Time
	expires      time.Time
	region       string
	v2, unsigned bool
	headers      []string // of the request
}

// newForm returns a form that stores content under the key "key" of the bucket "bucket".
func newForm(content string, fields ...string) *form {
	return &form{
		bucket: "bucket", fields: append([]string{"key", "key"}, fields...), file: content, name: "name.txt", key: accessKey, secret: secretKey,
		signed: time.Now(), expires: time.Now().Add(time.Hour), region: "us-east-1",
	}
}

func (f *form) all() []string {
	fields := slices.Clone(f.fields)
	day := f.signed.UTC().Format("20060102")
	if !f.v2 && !f.unsigned {
		fields = append(fields, "x-amz-algorithm", "AWS4-HMAC-SHA256", "x-amz-date", f.signed.UTC().Format("20060102T150405Z"),
			"x-amz-credential", f.key+"/"+day+"/"+f.region+"/s3/aws4_request")
	}
	if f.unsigned {
		return fields
	}
	conditions := slices.Clone(f.conditions)
	if !f.bare {
		conditions = append(conditions, `{"bucket": "`+f.bucket+`"}`)
	}
	for i := 0; i < len(fields); i += 2 {
		if !f.bare || strings.HasPrefix(fields[i], "x-amz-") && !strings.HasPrefix(fields[i], "x-amz-meta") {
			conditions = append(conditions, fmt.Sprintf("[%q, %q, %q]", "eq", "$"+fields[i], strings.ReplaceAll(fields[i+1], "${filename}", f.name)))
		}
	}
	policy := base64.StdEncoding.EncodeToString([]byte(
		`{"expiration": "` + f.expires.UTC().Format(time.RFC3339) + `", "conditions": [` + strings.Join(conditions, ", ") + `]}`))
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	if f.v2 {
		h := hmac.New(sha1.New, []byte(f.secret))
		h.Write([]byte(policy))
		return append(fields, "AWSAccessKeyId", f.key, "policy", policy, "signature", base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	key := []byte("AWS4" + f.secret)
	for _, part := range []string{day, f.region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	return append(fields, "policy", policy, "x-amz-signature", fmt.Sprintf("%x", mac(key, policy)))
}

// body returns the body of the form, with these fields before the file.
func (f *form) body(fields []string) []byte {
	var b bytes.Buffer
	write := func(pairs []string) {
		for i := 0; i < len(pairs); i += 2 {
			fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", pairs[i], pairs[i+1])
		}
	}
	write(fields)
	fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\nContent-Type: text/plain\r\n\r\n%s\r\n", f.name, f.file)
	write(f.after)
	b.WriteString("--B--\r\n")
	return b.Bytes()
}

func (f *form) send(w *world) *response { return f.sendFields(w, f.all()) }

func (f *form) sendFields(w *world, fields []string) *response {
	w.t.Helper()
	return w.send(w.request("POST", "/"+f.bucket, f.body(fields), append(f.headers, "Content-Type", "multipart/form-data; boundary=B")...))
}

// gone checks that nothing was stored.
func gone(t *testing.T, w *world, what string) {
	t.Helper()
	require.Equal(t, "(none)", w.content("/bucket/key"), what)
}

func TestForms(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{0, 1, 70_000, 200_000, 3_000_000} {
		for _, after := range [][]string{nil, {"submit", "Upload"}, {"x", strings.Repeat("x", 10_000), "y", ""}} {
			f := newForm(string(random(byte(size), size)), "Content-Type", "text/x-mine", "x-amz-meta-name", "ü", "x-ignore-this", "x",
				"Cache-Control", "no-store", "tagging", "<Tagging><TagSet><Tag><Key>a b</Key><Value>c+d</Value></Tag></TagSet></Tagging>")
			f.after = after
			a := f.send(w).is(204, "")
			require.Equal(t, w.url+"/bucket/key", a.header.Get("Location"))
			require.Equal(t, hexMD5([]byte(f.file)), a.etag())
			require.Equal(t, f.file, w.content("/bucket/key"))
			head := w.do("HEAD", "/bucket/key", nil)
			require.Equal(t, []string{"text/x-mine", "no-store", "1"}, []string{
				head.header.Get("Content-Type"), head.header.Get("Cache-Control"), head.header.Get("X-Amz-Tagging-Count")})
			require.Equal(t, "ü", head.header.Get("X-Amz-Meta-Name"))
		}
	}
	w.do("DELETE", "/bucket/key", nil).is(204, "")

	f := newForm("x", "success_action_status", "201")
	f.fields[1] = "a b/${filename}"
	f.name = `dir\n<ä>.txt`
	a := f.send(w)
	a.is(403, "AccessDenied") // the expanded key differs from the one that was signed
	f.bare, f.conditions = true, []string{`{"bucket": "bucket"}`, `["starts-with", "$key", "a b/"]`, `{"success_action_status": "201"}`}
	var post struct{ Location, Bucket, Key, ETag string }
	a = f.send(w).is(201, "")
	a.parse(&post)
	require.Equal(t, w.url+"/bucket/a%20b/n%3C%C3%A4%3E.txt", post.Location)
	require.Equal(t, []string{"bucket", "a b/n<ä>.txt", `"` + a.etag() + `"`}, []string{post.Bucket, post.Key, post.ETag})
	require.Equal(t, "x", w.content("/bucket/a%20b/n%3C%C3%A4%3E.txt"))

	require.Equal(t, 200, newForm("x", "success_action_status", "200").send(w).status)
	require.Equal(t, 204, newForm("x", "success_action_status", "300").send(w).status)
	client := *w.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	f = newForm("x", "success_action_redirect", "https://example.com/done?a=b", "success_action_status", "201")
	r := w.request("POST", "/bucket", f.body(f.all()), "Content-Type", "multipart/form-data; boundary=B")
	redirected, err := client.Do(r)
	require.NoError(t, err)
	redirected.Body.Close()
	require.Equal(t, 303, redirected.StatusCode)
	require.Equal(t, "https://example.com/done?a=b&bucket=bucket&key=key&etag="+url.QueryEscape(`"`+hexMD5([]byte("x"))+`"`), redirected.Header.Get("Location"))
	for _, invalid := range []string{"javascript:alert(1)", "/relative", "//host", "%zz"} {
		require.Equal(t, 204, newForm("x", "success_action_redirect", invalid).send(w).status)
	}

	sum := base64SHA256([]byte("x"))
	require.Equal(t, sum, newForm("x", "x-amz-checksum-sha256", sum).send(w).is(204, "").header.Get("X-Amz-Checksum-Sha256"))
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	newForm("y", "x-amz-checksum-sha256", sum).send(w).is(400, "BadDigest")
	newForm("y", "Content-MD5", md5Of([]byte("x"))).send(w).is(400, "BadDigest")
	gone(t, w, "a wrong checksum")
}

// Nothing is stored if the policy does not allow the form, or if the form is invalid.
func TestFormsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	for name, c := range map[string]struct {
		status int
		code   string
		change func(f *form)
	}{
		"wrong secret":       {403, "SignatureDoesNotMatch", func(f *form) { f.secret = "wrong" }},
		"unknown key":        {403, "InvalidAccessKeyId", func(f *form) { f.key = "AKIANOBODY" }},
		"unknown, no secret": {403, "InvalidAccessKeyId", func(f *form) { f.key, f.secret = "AKIANOBODY", "" }},
		"other account":      {403, "AccessDenied", func(f *form) { f.key = stranger }},
		"other region":       {400, "AuthorizationQueryParametersError", func(f *form) { f.region = "mars-1" }},
		"expired":            {403, "AccessDenied", func(f *form) { f.expires = time.Now().Add(-time.Second) }},
		"signed long ago":    {403, "AccessDenied", func(f *form) { f.signed = time.Now().Add(-8 * 24 * time.Hour) }},
		"signed later":       {403, "AccessDenied", func(f *form) { f.signed = time.Now().Add(time.Hour) }},
		"version 2 is off":   {400, "InvalidRequest", func(f *form) { f.v2 = true }},
		"not signed":         {403, "AccessDenied", func(f *form) { f.unsigned = true }},
		"policy, not signed": {400, "InvalidArgument", func(f *form) { f.unsigned, f.fields = true, append(f.fields, "policy", "e30=") }},
		"other bucket":       {400, "InvalidArgument", func(f *form) { f.fields = append(f.fields, "bucket", "other") }},
		"no such bucket":     {404, "NoSuchBucket", func(f *form) { f.bucket = "nobody" }},
		"no key":             {400, "InvalidArgument", func(f *form) { f.fields = nil }},
		"empty key":          {400, "InvalidArgument", func(f *form) { f.fields[1] = "" }},
		"long key":           {400, "KeyTooLongError", func(f *form) { f.fields[1] = strings.Repeat("k", 1025) }},
		"escaping key":       {400, "InvalidURI", func(f *form) { f.fields[1] = "../key" }},
		"field, uncovered": {403, "AccessDenied", func(f *form) {
			f.bare, f.conditions = true, []string{`{"bucket": "bucket"}`, `{"key": "key"}`}
			f.fields = append(f.fields, "acl", "private")
		}},
		"metadata, uncovered": {403, "AccessDenied", func(f *form) {
			f.bare, f.conditions = true, []string{`{"bucket": "bucket"}`, `{"key": "key"}`}
			f.fields = append(f.fields, "x-amz-meta-a", "b")
		}},
		"key, uncovered":      {403, "AccessDenied", func(f *form) { f.bare, f.conditions = true, []string{`{"bucket": "bucket"}`} }},
		"bucket, uncovered":   {403, "AccessDenied", func(f *form) { f.bare, f.conditions = true, []string{`{"key": "key"}`} }},
		"condition on bucket": {403, "AccessDenied", func(f *form) { f.conditions = []string{`{"bucket": "other"}`} }},
		"other key":           {403, "AccessDenied", func(f *form) { f.conditions = []string{`["starts-with", "$key", "user/"]`} }},
		"missing field":       {403, "AccessDenied", func(f *form) { f.conditions = []string{`{"x-amz-meta-a": "b"}`} }},
		"too large":           {400, "EntityTooLarge", func(f *form) { f.conditions = []string{`["content-length-range", 0, 6]`} }},
		"too small":           {400, "EntityTooSmall", func(f *form) { f.conditions = []string{`["content-length-range", 8, 99]`} }},
		"much too large": {400, "EntityTooLarge", func(f *form) {
			f.file, f.conditions = strings.Repeat("x", 300_000), []string{`["content-length-range", 0, 9]`}
		}},
		"one byte too large": {400, "EntityTooLarge", func(f *form) {
			f.file, f.conditions = strings.Repeat("x", 300_001), []string{`["content-length-range", 0, 300000]`}
		}},
		"much too small":     {400, "EntityTooSmall", func(f *form) { f.conditions = []string{`["content-length-range", 1000000, 2000000]`} }},
		"header, unsigned":   {403, "AccessDenied", func(f *form) { f.headers = []string{"X-Amz-Meta-A", "b"} }},
		"If-None-Match":      {501, "NotImplemented", func(f *form) { f.headers = []string{"If-None-Match", "*"} }},
		"token":              {400, "InvalidToken", func(f *form) { f.fields = append(f.fields, "x-amz-security-token", "t") }},
		"two headers":        {400, "InvalidArgument", func(f *form) { f.fields = append(f.fields, "acl", "private", "x-amz-acl", "private") }},
		"line break":         {400, "InvalidArgument", func(f *form) { f.fields = append(f.fields, "Content-Type", "a\r\nb") }},
		"copy source":        {501, "NotImplemented", func(f *form) { f.fields = append(f.fields, "x-amz-copy-source", "/bucket/a") }},
		"instant":            {501, "NotImplemented", func(f *form) { f.fields = append(f.fields, "x-amz-instant-length", "1") }},
		"acl":                {400, "AccessControlListNotSupported", func(f *form) { f.fields = append(f.fields, "acl", "public-read") }},
		"storage class":      {400, "InvalidStorageClass", func(f *form) { f.fields = append(f.fields, "x-amz-storage-class", "BEST") }},
		"tags":               {400, "MalformedXML", func(f *form) { f.fields = append(f.fields, "tagging", "a=b") }},
		"second file":        {400, "InvalidArgument", func(f *form) { f.after = []string{"file", "x"} }},
		"large fields":       {400, "MaxPostPreDataLengthExceeded", func(f *form) { f.fields = append(f.fields, "x-ignore-a", strings.Repeat("x", 20<<10)) }},
		"repeated field":     {400, "InvalidArgument", func(f *form) { f.fields = append(f.fields, "KEY", "other") }},
		"fan-out":            {501, "NotImplemented", func(f *form) { f.fields = append(f.fields, "x-minio-fanout-list", "{}") }},
		"metadata too large": {400, "MetadataTooLarge", func(f *form) { f.fields = append(f.fields, "x-amz-meta-a", strings.Repeat("x", 3000)) }},
	} {
		f := newForm("content")
		c.change(f)
		a := f.send(w)
		require.Equal(t, c.status, a.status, "%s: %s", name, a.body)
		require.Equal(t, c.code, a.code(), "%s: %s", name, a.body)
		gone(t, w, name)
	}
	// A change of any field after signing is refused.
	f := newForm("content", "x-amz-meta-a", "b", "x-ignore-a", "b")
	fields := f.all()
	for i := 1; i < len(fields); i += 2 {
		changed := slices.Clone(fields)
		changed[i] += "x"
		if strings.HasPrefix(fields[i-1], "x-ignore") {
			continue
		}
		require.GreaterOrEqual(t, f.sendFields(w, changed).status, 400, fields[i-1])
		gone(t, w, fields[i-1])
		if name := fields[i-1]; name != "x-amz-meta-a" {
			require.GreaterOrEqual(t, f.sendFields(w, slices.Delete(slices.Clone(fields), i-1, i+1)).status, 400, name)
		}
	}
	// Only one mechanism, and only the bucket of the path.
	for _, path := range []string{"/bucket/key", "/", "/bucket?uploads", "/bucket?delete"} {
		a := w.send(w.request("POST", path, f.body(fields), "Content-Type", "multipart/form-data; boundary=B"))
		require.GreaterOrEqual(t, a.status, 400, path)
	}
	w.do("POST", "/bucket", f.body(fields), "Content-Type", "multipart/form-data; boundary=B").is(400, "InvalidArgument")
	w.do("POST", "/bucket", []byte("x")).is(412, "PreconditionFailed")
	gone(t, w, "other paths")
	chunked := w.request("POST", "/bucket", f.body(fields), "Content-Type", "multipart/form-data; boundary=B")
	chunked.ContentLength = -1
	w.send(chunked).is(411, "MissingContentLength")
	f.sendFields(w, fields).is(204, "")
}

// A form passes the same gate as other requests: its key is authorized, and with a denial nothing is stored.
func TestFormsAreAuthorized(t *testing.T) {
	j := &judge{}
	var got map[string]string
	w := newWorld(t, judged(j), acceptV2(sigv2.All))
	w.bucket("bucket")
	j.reset()
	resource := auth.Resource{Account: account, Bucket: "bucket", Key: "key"}
	for _, v2 := range []bool{false, true} {
		f := newForm("content", "tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>")
		f.v2 = v2
		f.send(w).is(204, "")
		require.Equal(t, []authCall{{"s3:PutObject", resource}, {"s3:PutObjectTagging", resource}}, j.reset())
		w.do("DELETE", "/bucket/key", nil).is(204, "")
		j.reset()
		for n := range 2 {
			j.refuse = func(i int, _ authCall) error {
				if i == n {
					return auth.ErrDenied
				}
				return nil
			}
			f.send(w).is(403, "AccessDenied")
			j.refuse = nil
			gone(t, w, "denied")
			j.reset()
		}
		f.secret = "wrong"
		f.send(w).is(403, "SignatureDoesNotMatch")
		require.Empty(t, j.reset(), "a forged form is not authorized")
	}
	unsigned := newForm("content")
	unsigned.unsigned = true
	unsigned.send(w).is(204, "") // the authorizer allows everyone everything
	require.Equal(t, []authCall{{"s3:PutObject", resource}}, j.reset())

	w = newWorld(t, acceptV2(sigv2.All), setup{options: func(o *s3.Options) {
		o.Authorizer = factsOf{&got, []string{"s3:authType", "s3:signatureversion", "s3:x-amz-acl"}}
	}})
	w.bucket("bucket")
	f := newForm("content", "acl", "private")
	f.send(w).is(204, "")
	require.Equal(t, map[string]string{"s3:authType": "POST", "s3:signatureversion": "AWS4-HMAC-SHA256", "s3:x-amz-acl": "private"}, got)
	f.v2 = true
	f.send(w).is(204, "")
	require.Equal(t, map[string]string{"s3:authType": "POST", "s3:signatureversion": "AWS", "s3:x-amz-acl": "private"}, got)
	require.Equal(t, "PostObject", routeNamed("PostObject").Name)
	require.Equal(t, gate.Object, routeNamed("PostObject").Target())
}

// Forms whose fields have not arrived occupy only a part of the requests in flight.
func TestSlowForms(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.MaxInFlight = 4 }})
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	done := make(chan int, 2)
	for range 2 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /bucket HTTP/1.1\r\nHost: %s\r\nContent-Type: multipart/form-data; boundary=B\r\n"+
			"Content-Length: 60000\r\n\r\n--B\r\n", conn.RemoteAddr())
		require.NoError(t, err)
		go func() {
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				done <- res.StatusCode
			}
		}()
	}
	require.Equal(t, 503, <-done, "one of two forms is refused")
	w.do("GET", "/bucket/key", nil).is(200, "")
}

// A form whose connection breaks stores nothing.
func TestBrokenForm(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	f := newForm(string(random(1, 300_000)))
	whole := f.body(f.all())
	for _, n := range []int{10, 1000, 5000, 100_000, len(whole) - 20} {
		r := w.request("POST", "/bucket", whole[:n], "Content-Type", "multipart/form-data; boundary=B")
		r.Header.Set("Expect", "")
		r.Header.Del("Expect")
		r.ContentLength = int64(n)
		a := w.send(r)
		require.GreaterOrEqual(t, a.status, 400, n)
		gone(t, w, fmt.Sprint(n))
	}
	f.send(w).is(204, "")
}
