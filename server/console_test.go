package server

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/gate/session"
)

// page is a browser with the console of a server.
type page struct {
	t      *testing.T
	base   string
	client *http.Client
	cookie *http.Cookie
	second string
}

// consoleOf starts a server with a console.
func consoleOf(t *testing.T, settings ...string) (*Server, *page) {
	config := testConfig(t)
	var err error
	config.Settings, err = ReadSettings(append(settings, "ORCAS_MIN_FREE=0"))
	require.NoError(t, err)
	config.Admin = "127.0.0.1:0"
	s, _ := running(t, config)
	client := httpClient(t, s)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, &page{t: t, base: s.AdminEndpoint(), client: client}
}

// signIn signs in.
func (p *page) signIn(access, secret string) *page {
	body, err := json.Marshal(session.SignInRequest{AccessKey: access, SecretKey: secret})
	require.NoError(p.t, err)
	response, text := p.send("POST", session.Path, string(body), "Content-Type", "application/json")
	require.Equal(p.t, 200, response.StatusCode, text)
	var d session.Document
	require.NoError(p.t, json.Unmarshal([]byte(text), &d))
	p.cookie, p.second = response.Cookies()[0], d.Token
	return p
}

// send sends a request with the cookie and the second token, if it has them. Headers replace others; "" removes one.
func (p *page) send(method, path, body string, headers ...string) (*http.Response, string) {
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	require.NoError(p.t, err)
	if p.cookie != nil {
		r.AddCookie(p.cookie)
		r.Header.Set(session.Header, p.second)
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := p.client.Do(r)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response, string(text)
}

// status sends a request and returns the status.
func (p *page) status(method, path, body string, headers ...string) int {
	p.t.Helper()
	response, _ := p.send(method, path, body, headers...)
	return response.StatusCode
}

func TestConsolePage(t *testing.T) {
	_, p := consoleOf(t)
	response, _ := p.send("GET", "/", "")
	require.Equal(t, 302, response.StatusCode)
	require.Equal(t, "console/", response.Header.Get("Location"), "relative, for proxies with a base path")
	for path, want := range map[string]int{
		"/console/": 200, "/console/app.js": 200, "/console/vendor/preact.mjs": 200, "/console/nothing": 404, "/console/../server.go": 404, "/console": 302,
		"/-/s3/": 401, "/-/s3/bucket": 401, "/-/admin/session": 401, "/-/admin/status": 403,
	} {
		response, _ := p.send("GET", path, "")
		require.Equal(t, want, response.StatusCode, path)
		if strings.HasPrefix(path, "/console/") && want == 200 {
			h := response.Header
			require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe")
			require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			require.Equal(t, "DENY", h.Get("X-Frame-Options"))
			require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
			packed, _ := p.send("GET", path, "", "Accept-Encoding", "gzip, br")
			require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
			require.Equal(t, 304, p.status("GET", path, "", "If-None-Match", packed.Header.Get("ETag"), "Accept-Encoding", "gzip"), path)
		}
	}
	require.Equal(t, 405, p.status("POST", "/console/", ""))
	require.Equal(t, 405, p.status("GET", "/-/console/zip", ""))
}

// TestConsoleHosts: a page that has pointed its own name at this machine (DNS rebinding) gets nothing.
func TestConsoleHosts(t *testing.T) {
	s, p := consoleOf(t, "ORCAS_CONSOLE_URL=https://console.example.com/orcas")
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	require.Equal(t, "__Host-", p.cookie.Name[:7])
	require.True(t, p.cookie.Secure)
	for _, path := range []string{"/console/", "/", session.Path, "/-/s3/", "/-/admin/status"} {
		require.Equal(t, 421, p.status("GET", path, "", "Host", "evil.example.com"), path)
		require.NotEqual(t, 421, p.status("GET", path, "", "Host", "console.example.com"), path)
		require.NotEqual(t, 421, p.status("GET", path, "", "Host", "localhost:1234"), path)
	}
	_, link, err := s.console.loginLink(t.Context(), s.Credentials().AccessKey, "")
	require.NoError(t, err)
	require.NotZero(t, link)
}

// TestConsoleOff: without the console, the listener serves what it served before.
func TestConsoleOff(t *testing.T) {
	s, p := consoleOf(t, "ORCAS_CONSOLE=off")
	for _, path := range []string{"/", "/console/", session.Path, "/-/s3/"} {
		require.Equal(t, 403, p.status("GET", path, ""), path)
	}
	status, text, _ := ask(t, s, s.Credentials().SecretKey, "POST", "/-/admin/login-link", "")
	require.Equal(t, 400, status, "%s", text)
	require.Contains(t, string(text), "ORCAS_CONSOLE=off")
}

// TestConsoleMount: S3 below /-/s3/ accepts sessions only, and browsers show nothing dangerous.
func TestConsoleMount(t *testing.T) {
	s, p := consoleOf(t)
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket", ""))
	put := func(key, kind, body string) {
		require.Equal(t, 200, p.status("PUT", "/-/s3/bucket/"+key, body, "Content-Type", kind), key)
	}
	put("a%2Fb%20c.txt", "text/plain", "text")
	put("page.html", "text/html", "<script>alert(1)</script>")
	put("picture.svg", "image/svg+xml", "<svg onload='alert(1)'/>")
	put("picture.png", "image/png", "x")
	put("paper.pdf", "application/pdf", "x")
	put("odd", "text/html; charset=\"", "x")
	put("x", "image/png, text/html", "x")

	for key, shown := range map[string]bool{
		"a/b%20c.txt": true, "picture.png": true, "paper.pdf": true, "page.html": false, "picture.svg": false, "odd": false, "x": false,
		"picture.png?x-orcas-download=1": false, "picture.png?response-content-type=text%2Fhtml": false,
		"page.html?response-content-disposition=inline": false,
	} {
		response, _ := p.send("GET", "/-/s3/bucket/"+key, "", session.Header, "", "Sec-Fetch-Site", "same-origin")
		require.Equal(t, 200, response.StatusCode, key)
		h := response.Header
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
		require.Equal(t, "DENY", h.Get("X-Frame-Options"))
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", key)
		require.Equal(t, shown, h.Get("Content-Disposition") == "inline", "%s: %s", key, h.Get("Content-Disposition"))
		require.Equal(t, strings.HasPrefix(key, "paper"), !strings.Contains(h.Get("Content-Security-Policy"), "sandbox"), key)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
	// Keys that browsers would change in a path.
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket?x-orcas-key="+url.QueryEscape("x/./y"), "dots"))
	_, text := p.send("GET", "/-/s3/bucket?x-orcas-key="+url.QueryEscape("x/./y"), "")
	require.Equal(t, "dots", text)
	require.Equal(t, 400, p.status("GET", "/-/s3/bucket/key?x-orcas-key=y", ""))
	require.Equal(t, 400, p.status("GET", "/-/s3/?x-orcas-key=y", ""))

	for name, headers := range map[string][]string{
		"another port":    {session.Header, "", "Sec-Fetch-Site", "same-site"},
		"another site":    {session.Header, "", "Sec-Fetch-Site", "cross-site"},
		"another token":   {session.Header, "x"},
		"a signature too": {"Authorization", "AWS4-HMAC-SHA256 x"},
	} {
		require.Equal(t, 403, p.status("GET", "/-/s3/bucket/page.html", "", headers...), name)
	}
	require.Equal(t, 403, p.status("DELETE", "/-/s3/bucket/page.html", "", session.Header, "", "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, 403, p.status("DELETE", "/-/s3/bucket/page.html", "", "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, 403, p.status("DELETE", "/-/s3/bucket/page.html", "", "Origin", "http://127.0.0.1:1"))
	require.Equal(t, 403, p.status("OPTIONS", "/-/s3/bucket/page.html", ""))
	anonymous := &page{t: t, base: p.base, client: p.client}
	require.Equal(t, 401, anonymous.status("GET", "/-/s3/bucket/page.html", ""))
	require.Equal(t, 401, anonymous.status("GET", "/-/s3/bucket/page.html?X-Amz-Signature=x", ""))
	require.Equal(t, 200, p.status("DELETE", session.Path, ""))
	require.Equal(t, 401, p.status("GET", "/-/s3/bucket/page.html", ""))
}

// TestConsoleZip: the archive has what the caller may read, and names what it has not.
func TestConsoleZip(t *testing.T) {
	s, p := consoleOf(t)
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket", ""))
	large := strings.Repeat("0123456789abcdef", 70<<10)
	for key, body := range map[string]string{"f/a": "a", "f/b": large, "f/../c": "c", "other": "o"} {
		require.Equal(t, 200, p.status("PUT", "/-/s3/bucket?x-orcas-key="+url.QueryEscape(key), body), key)
	}
	form := url.Values{"session": {p.second}, "bucket": {"bucket"}, "base": {"f/"}, "name": {"x.zip"}, "key": {"other", "missing"}, "prefix": {"f%2F"}}
	kind := []string{"Content-Type", "application/x-www-form-urlencoded", session.Header, ""}
	response, text := p.send("POST", "/-/console/zip", form.Encode(), kind...)
	require.Equal(t, 200, response.StatusCode, text)
	require.Equal(t, "attachment; filename=x.zip", response.Header.Get("Content-Disposition"))
	archive, err := zip.NewReader(bytes.NewReader([]byte(text)), int64(len(text)))
	require.NoError(t, err)
	found := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		found[f.Name] = string(content)
	}
	require.Len(t, found, 5)
	require.Equal(t, "a", found["a"])
	require.Equal(t, large, found["b"])
	require.Equal(t, "o", found["other"])
	require.Contains(t, found["ERRORS.txt"], `"missing": NoSuchKey`)

	form.Set("session", "wrong")
	require.Equal(t, 403, p.status("POST", "/-/console/zip", form.Encode(), kind...))
	form.Set("session", p.second)
	require.Equal(t, 403, p.status("POST", "/-/console/zip", form.Encode(), append(kind, "Sec-Fetch-Site", "same-site")...), "a form on another port")
	form.Del("key")
	form.Del("prefix")
	require.Equal(t, 400, p.status("POST", "/-/console/zip", form.Encode(), kind...))
}

// TestConsoleFunctions: links and tests of keys.
func TestConsoleFunctions(t *testing.T) {
	s, p := consoleOf(t)
	root := s.Credentials()
	p.signIn(root.AccessKey, root.SecretKey)
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket", ""))
	key := "a b/ü+%?.txt"
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket?x-orcas-key="+url.QueryEscape(key), "shared"))
	ask := func(path string, in any) (int, string) {
		body, err := json.Marshal(in)
		require.NoError(t, err)
		response, text := p.send("POST", path, string(body), "Content-Type", "application/json")
		return response.StatusCode, text
	}
	link := map[string]any{"bucket": "bucket", "key": key, "seconds": 60, "method": "GET"}
	status, text := ask("/-/console/presign", link)
	require.Equal(t, 200, status, text)
	var made struct{ URL string }
	require.NoError(t, json.Unmarshal([]byte(text), &made))
	response, err := http.Get(made.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "shared", string(content))
	require.Contains(t, response.Header.Get("Content-Disposition"), "attachment; filename")
	for name, value := range map[string]any{"seconds": 604801, "method": "DELETE", "key": "", "bucket": "a/b"} {
		bad := map[string]any{"bucket": "bucket", "key": key, "seconds": 60, "method": "GET"}
		bad[name] = value
		status, _ := ask("/-/console/presign", bad)
		require.Equal(t, 400, status, name)
	}
	test := map[string]any{"access_key": root.AccessKey, "secret_key": root.SecretKey, "bucket": "bucket", "prefix": "p/"}
	status, text = ask("/-/console/test-key", test)
	require.Equal(t, 200, status)
	require.NotContains(t, text, "error")
	require.Equal(t, 3, strings.Count(text, "seconds"))
	test["secret_key"] = "wrong"
	_, text = ask("/-/console/test-key", test)
	require.Contains(t, text, "SignatureDoesNotMatch")
	p.second = ""
	status, _ = ask("/-/console/presign", link)
	require.Equal(t, 403, status)
}

// TestConsoleAdmin: the admin API accepts a session with the second token, and cannot make sessions live longer.
func TestConsoleAdmin(t *testing.T) {
	s, p := consoleOf(t)
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	for path, want := range map[string]string{
		"/-/admin/status": `"saved"`, "/-/admin/history": `"points"`, "/-/admin/usage": `"points"`, "/-/admin/backup?dir=/nowhere": `"backups": []`,
	} {
		response, text := p.send("GET", path, "")
		require.Equal(t, 200, response.StatusCode, "%s: %s", path, text)
		require.Contains(t, text, want, path)
	}
	require.Equal(t, 403, p.status("POST", "/-/admin/login-link", ""))
	require.Equal(t, 403, p.status("GET", "/-/admin/status", "", session.Header, "", "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, 403, p.status("POST", "/-/admin/reclaim", "", "Sec-Fetch-Site", "same-site"))
	require.Equal(t, 403, p.status("POST", "/-/admin/reclaim", "", "Origin", s.Endpoint()), "an HTML object on the port of S3")

	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket", ""))
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket/old", "content"))
	rules := `<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>`
	response, text := p.send("POST", "/-/admin/lifecycle/preview?bucket=bucket", rules)
	require.Equal(t, 200, response.StatusCode, text)
	require.Contains(t, text, `"versions": 1`)
	require.Contains(t, text, `"key": "old"`)
	require.Equal(t, 200, p.status("GET", "/-/s3/bucket/old", ""), "a preview deletes nothing")
	require.Equal(t, 400, p.status("POST", "/-/admin/lifecycle/preview?bucket=bucket", "<x/>"))
	require.Equal(t, 404, p.status("POST", "/-/admin/lifecycle/preview?bucket=none", rules))
	draft := `{"bucket_policy": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}]}}`
	path := "/-/admin/policy/simulate?anonymous=true&action=s3:GetObject&resource=arn:aws:s3:::bucket/old"
	_, text = p.send("POST", path, draft)
	require.Contains(t, text, `"decision": "allow"`)
	_, text = p.send("GET", path, "")
	require.Contains(t, text, `"decision": "implicitDeny"`)
	require.Equal(t, 400, p.status("POST", path, "{}"))
}

// TestConsoleBehindProxy: a proxy that terminates TLS and adds a base path needs one setting.
func TestConsoleBehindProxy(t *testing.T) {
	s, direct := consoleOf(t, "ORCAS_CONSOLE_URL=https://console.example.com/orcas/console/")
	inner, err := url.Parse(direct.base)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(inner)
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/orcas")
		r.Out.URL.RawPath = ""
		r.Out.Host = "console.example.com"
	}}
	outer := httptest.NewServer(proxy)
	defer outer.Close()
	p := &page{t: t, base: outer.URL + "/orcas", client: direct.client}
	response, _ := p.send("GET", "/", "")
	require.Equal(t, "console/", response.Header.Get("Location"))
	require.Equal(t, 200, p.status("GET", "/console/", ""))
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	origin := []string{"Origin", "https://console.example.com", "Sec-Fetch-Site", "same-origin"}
	require.Equal(t, 200, p.status("PUT", "/-/s3/bucket", "", origin...))
	require.Equal(t, 200, p.status("POST", "/-/admin/cache/flush", "", origin...))
	require.Equal(t, 403, p.status("POST", "/-/admin/cache/flush", "", "Origin", "https://other.example.com"))
	link, _, err := s.console.loginLink(t.Context(), s.Credentials().AccessKey, "")
	require.NoError(t, err)
	require.Regexp(t, `^https://console\.example\.com/orcas/console/#link=[\w-]{43}$`, link)
}

// TestConsoleSettings: wrong addresses are errors that name the variable.
func TestConsoleSettings(t *testing.T) {
	for _, wrong := range []string{
		"ORCAS_CONSOLE=yes", "ORCAS_CONSOLE_URL=console.example.com", "ORCAS_CONSOLE_URL=https://user:secret@example.com", "ORCAS_CONSOLE_URL=https://example.com/?a=b",
		"ORCAS_PUBLIC_URL=ftp://example.com", "ORCAS_PUBLIC_URL=https://example.com/base",
	} {
		_, err := ReadSettings([]string{wrong})
		name, _, _ := strings.Cut(wrong, "=")
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "secret")
	}
	s, err := ReadSettings([]string{"ORCAS_PUBLIC_URL=https://s3.example.com/", "ORCAS_CONSOLE_URL=https://example.com"})
	require.NoError(t, err)
	require.Equal(t, "https://s3.example.com", s.PublicURL)
	require.Equal(t, "https://example.com/", s.ConsoleURL.String())
}

// TestConsoleBanner: the banner has a link to sign in only if it is for a terminal. Sign-ins are in the audit log.
func TestConsoleBanner(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		config := testConfig(t)
		config.Admin, config.Secrets = "127.0.0.1:0", terminal
		config.Settings.AuditFile = filepath.Join(t.TempDir(), "audit.log")
		var banner bytes.Buffer
		config.Banner = &banner
		s, stop := running(t, config)
		require.Contains(t, banner.String(), "\n  console      "+s.AdminEndpoint()+"/console/\n")
		found := regexp.MustCompile(`#link=([\w-]+)`).FindStringSubmatch(banner.String())
		require.Equal(t, terminal, found != nil, banner.String())
		p := &page{t: t, base: s.AdminEndpoint(), client: httpClient(t, s)}
		if terminal {
			require.Equal(t, 200, p.status("POST", session.Path, `{"link":"`+found[1]+`"}`, "Content-Type", "application/json"))
		}
		require.Equal(t, 403, p.status("POST", session.Path, `{"access_key":"nobody","secret_key":"hidden"}`, "Content-Type", "application/json"))
		require.NoError(t, stop())
		text, err := os.ReadFile(config.Settings.AuditFile)
		require.NoError(t, err)
		require.Equal(t, terminal, strings.Contains(string(text), s.Credentials().AccessKey))
		require.Contains(t, string(text), `"SignIn"`)
		require.NotContains(t, string(text), "hidden")
	}
}

// TestConsoleAllowed: what the page shows as allowed is what S3 allows, for keys that may only read, or write one prefix.
func TestConsoleAllowed(t *testing.T) {
	s, p := consoleOf(t)
	p.signIn(s.Credentials().AccessKey, s.Credentials().SecretKey)
	for _, path := range []string{"bucket", "bucket/own/x", "bucket/other/x", "bucket/own/kept"} {
		require.Equal(t, 200, p.status("PUT", "/-/s3/"+path, ""), path)
	}
	kept := `{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::bucket/own/kept"}]}`
	require.Equal(t, 204, p.status("PUT", "/-/s3/bucket?policy", kept))
	key := func(query string) *page {
		response, text := p.send("POST", "/-/admin/key?"+query, "")
		require.Equal(t, 200, response.StatusCode, text)
		var made struct {
			AccessKey string `json:"access_key"`
			SecretKey string `json:"secret_key"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &made))
		return (&page{t: t, base: p.base, client: p.client}).signIn(made.AccessKey, made.SecretKey)
	}
	ask := func(of *page, where map[string]any, actions ...string) (map[string]string, int) {
		where["actions"] = actions
		body, err := json.Marshal(where)
		require.NoError(t, err)
		response, text := of.send("POST", "/-/console/allowed", string(body), "Content-Type", "application/json")
		var out struct{ Decisions map[string]string }
		require.NoError(t, json.Unmarshal([]byte(text), &out), text)
		return out.Decisions, response.StatusCode
	}
	reader, writer := key("name=reader&bucket=bucket&access=read"), key("name=writer&bucket=bucket&access=readwrite&prefix=own/")

	requests := []struct{ action, key, method, path, body string }{
		{"s3:GetObject", "own/x", "GET", "bucket/own/x", ""}, {"s3:GetObject", "other/x", "GET", "bucket/other/x", ""},
		{"s3:PutObject", "own/x", "PUT", "bucket/own/x", "y"}, {"s3:PutObject", "other/x", "PUT", "bucket/other/x", "y"},
		{"s3:DeleteObject", "own/kept", "DELETE", "bucket/own/kept", ""}, {"s3:DeleteObject", "other/x", "DELETE", "bucket/other/x", ""},
		{"s3:PutObjectTagging", "own/x", "PUT", "bucket/own/x?tagging", "<Tagging><TagSet/></Tagging>"},
		{"s3:GetBucketPolicy", "", "GET", "bucket?policy", ""}, {"s3:PutBucketPolicy", "", "PUT", "bucket?policy", kept},
		{"s3:GetBucketVersioning", "", "GET", "bucket?versioning", ""},
		{"s3:PutBucketVersioning", "", "PUT", "bucket?versioning", "<VersioningConfiguration/>"},
		{"s3:GetBucketTagging", "", "GET", "bucket?tagging", ""}, {"s3:PutBucketTagging", "", "DELETE", "bucket?tagging", ""},
		{"s3:PutLifecycleConfiguration", "", "DELETE", "bucket?lifecycle", ""}, {"s3:DeleteBucket", "", "DELETE", "bucket", ""},
		{"s3:ListAllMyBuckets", "", "GET", "", ""},
	}
	for who, of := range map[string]*page{"root": p, "reader": reader, "writer": writer} {
		answers := map[bool]int{}
		for _, r := range requests {
			where := map[string]any{"bucket": "bucket", "key": r.key}
			got, status := ask(of, where, r.action)
			require.Equal(t, 200, status)
			allowed := got[r.action] == "allow"
			require.Equal(t, of.status(r.method, "/-/s3/"+r.path, r.body) != 403, allowed, "%s: %s on %q", who, r.action, r.key)
			answers[allowed]++
		}
		require.Greater(t, min(answers[true], answers[false]), 0, "%s: both answers occur", who)
	}
	below := func(of *page, prefix string) string {
		got, _ := ask(of, map[string]any{"bucket": "bucket", "prefix": prefix}, "s3:PutObject")
		return got["s3:PutObject"]
	}
	require.Equal(t, []string{"allow", "allow", "implicitDeny"}, []string{below(writer, ""), below(writer, "own/"), below(writer, "other/")})
	require.Equal(t, "implicitDeny", below(reader, ""))
	got, _ := ask(writer, map[string]any{"bucket": "bucket", "key": "own/kept"}, "s3:DeleteObject", "s3:PutObject")
	require.Equal(t, map[string]string{"s3:DeleteObject": "explicitDeny", "s3:PutObject": "allow"}, got)
	for want, of := range map[string]*page{"allow": p, "implicitDeny": reader} {
		got, _ := ask(of, map[string]any{}, "s3:CreateBucket")
		require.Equal(t, map[string]string{"s3:CreateBucket": want}, got)
	}

	for name, bad := range map[string]map[string]any{
		"a key without a bucket": {"key": "x"}, "a prefix without a bucket": {"prefix": "x"}, "both": {"bucket": "bucket", "key": "x", "prefix": "x"}, "two names": {"bucket": "a/b"},
	} {
		_, status := ask(p, bad, "s3:GetObject")
		require.Equal(t, 400, status, name)
	}
	for name, actions := range map[string][]string{
		"none": {}, "too many": make([]string, 65), "of the server": {"orcas:GetStatus"}, "a pattern": {"s3:*"}, "another case": {"s3:getobject"},
	} {
		_, status := ask(p, map[string]any{"bucket": "bucket"}, actions...)
		require.Equal(t, 400, status, name)
	}
	require.Equal(t, 403, reader.status("POST", "/-/console/allowed", "{}", session.Header, ""), "a page of another port")
	require.Equal(t, 401, (&page{t: t, base: p.base, client: p.client}).status("POST", "/-/console/allowed", "{}"))
}
