package s3_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/vfs"
)

// finding is metadata that calls found once, after equal content has been found and before it is used.
type finding struct {
	*mem.Meta
	found func()
	fails atomic.Bool            // lookups of objects fail
	after atomic.Pointer[func()] // called once, after a lookup of an object
}

// Object implements core.Meta.
func (f *finding) Object(ctx context.Context, b core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	if f.fails.Load() {
		return nil, core.E("test", core.Damaged, nil)
	}
	if then := f.after.Swap(nil); then != nil {
		defer (*then)()
	}
	return f.Meta.Object(ctx, b, key, v)
}

// FindData implements core.Meta.
func (f *finding) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	d, err := f.Meta.FindData(ctx, k)
	if then := f.found; err == nil && then != nil {
		f.found = nil
		then()
	}
	return d, err
}

// sendHead sends the head of a PUT with Expect: 100-continue. It returns the connection, a reader of it, and the status
// of the first response.
func (w *world) sendHead(path string, length int, payload string, headers ...string) (net.Conn, *bufio.Reader, string) {
	w.t.Helper()
	conn := w.raw("PUT", path, length, payload, append(headers, "Expect", "100-continue")...)
	reader := bufio.NewReader(conn)
	line, err := reader.Peek(len("HTTP/1.1 200"))
	require.NoError(w.t, err)
	return conn, reader, string(line[len("HTTP/1.1 "):])
}

// putAfterContinue checks that the server responds with 100 Continue, sends the body, and returns the final response.
func (w *world) putAfterContinue(body []byte, path, payload string, headers ...string) *response {
	w.t.Helper()
	conn, reader, first := w.sendHead(path, len(body), payload, headers...)
	require.Equal(w.t, "100", first, "the server must ask for the body")
	for range 2 {
		_, err := reader.ReadString('\n')
		require.NoError(w.t, err)
	}
	_, err := conn.Write(body)
	require.NoError(w.t, err)
	a, _ := w.final(reader)
	return a
}

// final reads a response, and reports whether the connection is closed after it.
func (w *world) final(reader *bufio.Reader) (*response, bool) {
	w.t.Helper()
	res, err := http.ReadResponse(reader, nil)
	require.NoError(w.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return &response{w.t, res.StatusCode, res.Header, body}, res.Close
}

// putWithoutBody checks that the server sends the final response instead of 100 Continue, and returns it.
func (w *world) putWithoutBody(length int, path, payload string, headers ...string) *response {
	w.t.Helper()
	_, reader, first := w.sendHead(path, length, payload, headers...)
	require.NotEqual(w.t, "100", first, "the server must not ask for the body")
	a, closed := w.final(reader)
	require.True(w.t, closed, "the connection must be closed, because the client may still send the body")
	return a
}

// A PUT of content that the bucket has gets the final response without sending its body. Otherwise it is like any other
// PUT.
func TestResponseInsteadOfContinue(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{1, 4096, 300_000} {
		body := random(byte(size), size)
		first := w.do("PUT", "/bucket/first", body).is(200, "")
		a := w.putWithoutBody(size, "/bucket/second", hash(body), "Content-Type", "text/x-test", "Content-Md5", md5Of(body)).is(200, "")
		for _, name := range []string{"Etag", "X-Amz-Checksum-Crc64nvme", "X-Amz-Checksum-Type"} {
			require.NotEmpty(t, a.header.Get(name))
			require.Equal(t, first.header.Get(name), a.header.Get(name), name)
		}
		got := w.do("GET", "/bucket/second", nil).is(200, "")
		require.Equal(t, body, got.body)
		require.Equal(t, "text/x-test", got.header.Get("Content-Type"))

		w.putWithoutBody(size, "/bucket/second", hash(body), "If-None-Match", "*").is(412, "PreconditionFailed")
		w.putWithoutBody(size, "/bucket/second", hash(body), "If-Match", `"`+first.etag()+`"`).is(200, "")
		w.putWithoutBody(size, "/bucket/third", sigv4.UnsignedPayload, "X-Amz-Checksum-Sha256", base64SHA256(body)).is(200, "")
		require.Equal(t, body, w.do("GET", "/bucket/third", nil).is(200, "").body)
	}
}

func TestResponseInsteadOfContinueForPart(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5<<20)
	w.put("/bucket/object", string(body))
	var upload struct {
		UploadID string `xml:"UploadId"`
	}
	w.do("POST", "/bucket/key?uploads", nil).is(200, "").parse(&upload)
	part := func(n int) string { return fmt.Sprintf("/bucket/key?partNumber=%d&uploadId=%s", n, upload.UploadID) }
	var list strings.Builder
	for n := 1; n <= 3; n++ {
		etag := w.putWithoutBody(len(body), part(n), hash(body)).is(200, "").etag()
		fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", n, etag)
	}
	w.do("POST", "/bucket/key?uploadId="+upload.UploadID, []byte("<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>")).is(200, "")
	require.Equal(t, strings.Repeat(string(body), 3), w.content("/bucket/key"))
}

// A client that sends Expect: 100-continue but does not wait gets a response, too.
func TestResponseToClientThatDoesNotWait(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{5, 300_000, 20 << 20} {
		body := random(byte(size), size)
		w.put("/bucket/first", string(body))
		for range 3 {
			conn := w.raw("PUT", "/bucket/second", size, hash(body), "Expect", "100-continue")
			_, err := conn.Write(body)
			require.NoError(t, err)
			a, _ := w.readResponse(conn)
			a.is(200, "")
		}
		require.Equal(t, string(body), w.content("/bucket/second"))
	}
}

// If the content or a checksum is not found, or the caller may not learn it, the server asks for the body and responds
// as to any other PUT.
func TestContinueIsSent(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))

	w.putAfterContinue(random(2, 5000), "/bucket/new", hash(random(2, 5000))).is(200, "")
	w.putAfterContinue(body, "/other/key", hash(body)).is(200, "") // another bucket has it
	require.Equal(t, string(body), w.content("/other/key"))
	w.putAfterContinue(body, "/bucket/new", sigv4.UnsignedPayload).is(200, "")
	w.putAfterContinue(body, "/bucket/new", hash(body), "X-Amz-Checksum-Sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=").is(400, "BadDigest")
	w.putAfterContinue(body, "/bucket/new", hash(body), "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	w.putAfterContinue(body, "/bucket/new", hash(body), "X-Amz-Checksum-Crc64nvme", "AAAAAAAAAAA=").is(400, "BadDigest")
	w.putAfterContinue(body, "/bucket/new", hash(body), "X-Amz-Checksum-Sha256", base64SHA256([]byte("other"))).is(400, "BadDigest")
	w.putAfterContinue(body[:4999], "/bucket/new", hash(body)).is(400, "XAmzContentSHA256Mismatch")

	r := w.request("PUT", "/bucket/new", nil, "X-Amz-Content-Sha256", hash(body), "Expect", "100-continue")
	w.signer.Presign(r, time.Minute, w.now())
	conn, err := net.Dial("tcp", r.URL.Host)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.URL.RequestURI(), r.URL.Host, len(body))
	require.NoError(t, err)
	require.NoError(t, r.Header.Write(conn))
	_, err = io.WriteString(conn, "\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "the user of a presigned URL is not its signer")
}

// A body that does not have the announced hash is refused, even if the bucket has content with that hash.
func TestBodyDiffersFromHash(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", "before")
	w.put("/bucket/other", string(body))
	r := w.request("PUT", "/bucket/key", random(2, 5000))
	w.signer.Sign(r, hash(body), w.now())
	w.send(r).is(400, "XAmzContentSHA256Mismatch")
	require.Equal(t, "before", w.content("/bucket/key"))
}

// Content that is deleted after it was found must be sent.
func TestContinueAfterContentIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))
	w.meta.found = func() {
		b, err := w.fs.Bucket(t.Context(), "bucket")
		require.NoError(t, err)
		for _, r := range w.fs.Delete(t.Context(), b, account, []vfs.DeleteRequest{{Key: "key"}}) {
			require.NoError(t, r.Err)
		}
	}
	w.putAfterContinue(body, "/bucket/new", hash(body)).is(200, "")
	require.Nil(t, w.meta.found)
	require.Equal(t, string(body), w.content("/bucket/new"))
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

// Content is shared only within one kind of encryption: plain content, content encrypted by the store, and content
// encrypted with customer keys are stored separately.
func TestContentUnderAnotherKeyIsNotShared(t *testing.T) {
	w := newWorld(t, withKeys(t), setup{options: func(o *s3.Options) { o.CustomerKeysOverHTTP = true }})
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/plain", string(body))
	w.putAfterContinue(body, "/bucket/encrypted", hash(body), sse, "AES256").is(200, "")
	a := w.putWithoutBody(len(body), "/bucket/again", hash(body), sse, "AES256").is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	require.Equal(t, "AES256", w.do("GET", "/bucket/again", nil).is(200, "").header.Get(sse))
	w.putWithoutBody(len(body), "/bucket/plain2", hash(body)).is(200, "")
	require.Empty(t, w.do("GET", "/bucket/plain2", nil).is(200, "").header.Get(sse))
	for range 2 {
		key := customerKey(sse, 7)
		w.putAfterContinue(body, "/bucket/customer", hash(body), key...).is(200, "")
		require.Equal(t, body, w.do("GET", "/bucket/customer", nil, key...).is(200, "").body)
		w.do("GET", "/bucket/customer", nil).is(400, "InvalidRequest")
	}
}
