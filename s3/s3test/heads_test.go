package s3test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// rawHead sends a request unchanged and returns the response.
func (t *T) rawHead(method, text string) *response {
	t.Helper()
	if t.endpoint.Scheme == "https" && !t.other {
		t.Skip("with TLS, net/http responds to invalid requests")
	}
	conn := t.dial()
	_, err := io.WriteString(conn, text)
	t.must(err == nil, "write: %v", err)
	return t.readResponse(method, bufio.NewReader(conn))
}

var heads = area{"heads", []rule{
	{"bad-escape", "a path with an invalid percent escape returns 400 with an error document", func(t *T) {
		t.rawHead("GET", fmt.Sprintf("GET /%s/%%zz HTTP/1.1\r\nHost: %s\r\n\r\n", t.bucket(), t.endpoint.Host)).ok(400)
	}},
	{"two-lengths", "two different Content-Length headers return 400 with an error document", func(t *T) {
		t.rawHead("PUT", fmt.Sprintf("PUT /%s/key HTTP/1.1\r\nHost: %s\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", t.bucket(), t.endpoint.Host)).ok(400)
		t.gone("key")
	}},
	{"large", "headers of 40 KiB fail with 400 RequestHeaderSectionTooLarge", func(t *T) {
		text := fmt.Sprintf("GET /%s/key HTTP/1.1\r\nHost: %s\r\nX-Fat: %s\r\n\r\n", t.bucket(), t.endpoint.Host, strings.Repeat("x", 40<<10))
		t.rawHead("GET", text).fail(400, "RequestHeaderSectionTooLarge")
	}},
	{"expect-other", "an Expect header that is not 100-continue is ignored", func(t *T) {
		if t.endpoint.Scheme == "https" && !t.other {
			t.Skip("with TLS, net/http responds to invalid requests")
		}
		conn, in := t.open("PUT", "key", 7, "UNSIGNED-PAYLOAD", "Expect: 200-ok")
		_, err := io.WriteString(conn, "content")
		t.must(err == nil, "write: %v", err)
		t.readResponse("PUT", in).ok(200)
		t.holds("key", "content")
	}},
}}
