package s3test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"orcas/internal/sigv4"
)

// T is a running case.
type T struct {
	*testing.T
	*target
	rule string
	own  string // the bucket of the case; "": not created yet
}

// must fails the case unless ok.
func (t *T) must(ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("%s\nrule: %s", fmt.Sprintf(format, args...), t.rule)
	}
}

// newName returns a bucket name that no other case uses.
func (t *T) newName() string { return fmt.Sprintf("s3test-%s-%05d", run, created.Add(1)) }

// newBucket creates a bucket, which is removed when the case ends.
func (t *T) newBucket(headers ...string) string {
	t.Helper()
	name := t.newName()
	t.removeLater(name)
	t.do("PUT", "/"+name, t.locationBody(), headers...).ok(200)
	return name
}

// locationBody returns a body for CreateBucket that is valid in the target's region.
func (t *T) locationBody() any {
	if t.region == "us-east-1" {
		return nil
	}
	return "<CreateBucketConfiguration><LocationConstraint>" + t.region + "</LocationConstraint></CreateBucketConfiguration>"
}

// bucket returns the bucket of the case; the first call creates it.
func (t *T) bucket() string {
	t.Helper()
	if t.own == "" {
		t.own = t.newBucket()
	}
	return t.own
}

// removeLater removes a bucket of this case and everything in it when the case ends. It does nothing if the suite
// started the server, since all data of that server is deleted at the end.
func (t *T) removeLater(bucket string) {
	if !t.foreign {
		return
	}
	t.Cleanup(func() {
		locks := t.do("GET", "/"+bucket+"?object-lock", nil).status == 200
		for {
			a := t.do("GET", "/"+bucket+"?versions&encoding-type=url", nil)
			if a.status != 200 || !t.remove(bucket, a, locks) || a.text("IsTruncated") != "true" {
				break
			}
		}
		t.do("DELETE", "/"+bucket, nil)
	})
}

// remove deletes the versions on a page of a listing, and reports whether to continue with the next page: locks may
// keep some versions from being deleted.
func (t *T) remove(bucket string, page *response, locks bool) bool {
	var doc strings.Builder
	doc.WriteString("<Delete><Quiet>true</Quiet>")
	for _, kind := range []string{"Version", "DeleteMarker"} {
		ids, keys := page.all(kind+"/VersionId"), page.all(kind+"/Key")
		for i, key := range keys {
			ref := "/" + bucket + "/" + escape(unescape(key)) + "?versionId=" + ids[i]
			switch {
			case locks:
				off := hold("OFF")
				t.do("PUT", strings.Replace(ref, "?", "?legal-hold&", 1), off, contentMD5(off))
				t.do("DELETE", ref, nil, bypass)
			case len(keys) < 100:
				t.do("DELETE", ref, nil)
			default:
				doc.WriteString("<Object><Key>" + unescape(key) + "</Key><VersionId>" + ids[i] + "</VersionId></Object>")
			}
		}
	}
	if !strings.Contains(doc.String(), "<Object>") {
		return !locks
	}
	doc.WriteString("</Delete>")
	a := t.do("POST", "/"+bucket+"?delete", doc.String(), contentMD5(doc.String()))
	return a.status == 200 && len(a.all("Error")) == 0
}

// escape returns a key in the form in which it appears in a path.
func escape(key string) string {
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// path returns the path and query of ref. If ref begins with "/", that is ref itself; otherwise ref is a key, a
// sub-resource, or both, in the bucket of the case.
func (t *T) path(ref string) string {
	t.Helper()
	switch {
	case strings.HasPrefix(ref, "/"):
		return ref
	case ref == "" || strings.HasPrefix(ref, "?"):
		return "/" + t.bucket() + ref
	}
	return "/" + t.bucket() + "/" + ref
}

// bytesOf returns the bytes of a body, which is nil, a string or a []byte.
func bytesOf(body any) []byte {
	switch b := body.(type) {
	case string:
		return []byte(b)
	case []byte:
		return b
	}
	return nil
}

// request returns an unsigned request. headers have the form "Name: value"; a name may be repeated.
func (t *T) request(method, ref string, body any, headers ...string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(bytesOf(body))
	}
	r, err := http.NewRequest(method, t.endpoint.Scheme+"://"+t.endpoint.Host+t.path(ref), reader)
	t.must(err == nil, "%s %s: %v", method, ref, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		r.Header[name] = append(r.Header[name], value)
	}
	return r
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sign signs r for its body. If r already has an x-amz-content-sha256 header, that is the payload hash that is signed.
func (t *T) sign(r *http.Request, body any) *http.Request {
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		payload = sha256Hex(bytesOf(body))
	}
	t.signer.Sign(r, payload, time.Now())
	return r
}

// send sends a request unchanged, and checks the rules that apply to every response.
func (t *T) send(r *http.Request) *response {
	t.Helper()
	res, err := t.client.Do(r)
	t.must(err == nil, "%s %s: %v", r.Method, r.URL, err)
	return t.read(r.Method, r.URL.RequestURI(), res)
}

func (t *T) read(method, what string, res *http.Response) *response {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a := &response{t: t, what: method + " " + what, method: method, status: res.StatusCode, header: res.Header, body: string(body), err: err}
	a.expect(a.header.Get("X-Amz-Request-Id") != "", "response without x-amz-request-id")
	if a.status >= 300 && a.status != 304 && method != "HEAD" {
		a.expect(a.header.Get("Content-Type") == "application/xml", "an error with Content-Type %q", a.header.Get("Content-Type"))
		a.expect(a.root().name == "Error" && a.text("Code") != "" && a.text("Message") != "" && a.text("Resource") != "", "an error without Code, Message or Resource")
		a.expect(a.text("RequestId") == a.header.Get("X-Amz-Request-Id"), "RequestId differs from x-amz-request-id")
	}
	if method == "HEAD" || a.status == 304 || a.status == 204 {
		a.expect(a.body == "", "unexpected body")
	}
	return a
}

// do signs and sends a request.
func (t *T) do(method, ref string, body any, headers ...string) *response {
	t.Helper()
	return t.send(t.sign(t.request(method, ref, body, headers...), body))
}

func (t *T) get(ref string, headers ...string) *response {
	t.Helper()
	return t.do("GET", ref, nil, headers...)
}
func (t *T) head(ref string, headers ...string) *response {
	t.Helper()
	return t.do("HEAD", ref, nil, headers...)
}
func (t *T) del(ref string, headers ...string) *response {
	t.Helper()
	return t.do("DELETE", ref, nil, headers...)
}

func (t *T) post(ref string, body any, headers ...string) *response {
	t.Helper()
	return t.do("POST", ref, body, headers...)
}

// try sends a PUT that may fail.
func (t *T) try(ref string, body any, headers ...string) *response {
	t.Helper()
	return t.do("PUT", ref, body, headers...)
}

// put sends a PUT that must not fail.
func (t *T) put(ref string, body any, headers ...string) *response {
	t.Helper()
	return t.try(ref, body, headers...).ok(200)
}

// holds checks the content of an object.
func (t *T) holds(ref, content string) {
	t.Helper()
	a := t.get(ref).ok(200)
	a.expect(a.body == content, "the object has the wrong content: %d bytes, want %d", len(a.body), len(content))
}

// gone checks that an object does not exist.
func (t *T) gone(ref string) {
	t.Helper()
	t.get(ref).fail(404, "NoSuchKey")
}

// dial opens a connection for requests that net/http would not send.
func (t *T) dial() net.Conn {
	t.Helper()
	var conn net.Conn
	var err error
	host := t.endpoint.Host
	if t.endpoint.Port() == "" {
		host = net.JoinHostPort(host, map[string]string{"http": "80", "https": "443"}[t.endpoint.Scheme])
	}
	if t.endpoint.Scheme == "https" {
		conn, err = tls.Dial("tcp", host, t.client.Transport.(*http.Transport).TLSClientConfig)
	} else {
		conn, err = net.Dial("tcp", host)
	}
	t.must(err == nil, "dial: %v", err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// open sends a signed request without its body. payload is the x-amz-content-sha256 header and length the
// Content-Length; -1 omits it.
func (t *T) open(method, ref string, length int, payload string, headers ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	r := t.request(method, ref, nil, headers...)
	t.signer.Sign(r, payload, time.Now())
	conn := t.dial()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, r.URL.RequestURI(), r.Host)
	if length >= 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", length)
	}
	_ = r.Header.Write(&b)
	b.WriteString("\r\n")
	_, err := conn.Write(b.Bytes())
	t.must(err == nil, "write: %v", err)
	return conn, bufio.NewReader(conn)
}

// readResponse reads the next response from a connection.
func (t *T) readResponse(method string, from *bufio.Reader) *response {
	t.Helper()
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	t.must(err == nil, "no response: %v", err)
	if res.StatusCode == http.StatusContinue {
		return &response{t: t, what: "100", status: res.StatusCode, header: res.Header}
	}
	return t.read(method, "(raw)", res)
}

// chunked returns a signed PUT in one of the chunked payload modes, and its encoded body.
func (t *T) chunked(ref, content string, c sigv4.Chunked, headers ...string) (*http.Request, []byte) {
	t.Helper()
	r := t.request("PUT", ref, nil, headers...)
	c.Length = int64(len(content))
	t.signer.SignChunked(r, strings.NewReader(content), c, time.Now())
	wire, err := io.ReadAll(r.Body)
	t.must(err == nil, "reading the body: %v", err)
	return rebody(r, wire), wire
}

// rebody replaces the body of a request without signing it again.
func rebody(r *http.Request, wire []byte) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(wire)), int64(len(wire))
	r.GetBody = nil
	return r
}

// sorted reports whether keys are in byte order.
func sorted(keys []string) bool { return slices.IsSorted(keys) }

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
