package s3_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
	"orcas/s3"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// finding is metadata in which something happens once between finding equal content and what is done with it.
type finding struct {
	*mem.Meta
	found func()
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

// asks sends the head of a PUT that asks before it sends its body, and returns how the first answer begins.
func (w *world) asks(path string, length int, payload string, headers ...string) (net.Conn, *bufio.Reader, string) {
	w.t.Helper()
	conn := w.raw("PUT", path, length, payload, append(headers, "Expect", "100-continue")...)
	reader := bufio.NewReader(conn)
	line, err := reader.Peek(len("HTTP/1.1 200"))
	require.NoError(w.t, err)
	return conn, reader, string(line[len("HTTP/1.1 "):])
}

// wanted demands that the body is asked for, sends it, and returns the answer.
func (w *world) wanted(body []byte, path, payload string, headers ...string) *answer {
	w.t.Helper()
	conn, reader, first := w.asks(path, len(body), payload, headers...)
	require.Equal(w.t, "100", first, "the body is asked for")
	for range 2 {
		_, err := reader.ReadString('\n')
		require.NoError(w.t, err)
	}
	_, err := conn.Write(body)
	require.NoError(w.t, err)
	a, _ := w.final(reader)
	return a
}

// final reads an answer and reports whether the connection ends with it.
func (w *world) final(reader *bufio.Reader) (*answer, bool) {
	w.t.Helper()
	res, err := http.ReadResponse(reader, nil)
	require.NoError(w.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return &answer{w.t, res.StatusCode, res.Header, body}, res.Close
}

// unread demands an answer instead of 100 Continue.
func (w *world) unread(length int, path, payload string, headers ...string) *answer {
	w.t.Helper()
	_, reader, first := w.asks(path, length, payload, headers...)
	require.NotEqual(w.t, "100", first, "the body is not asked for")
	a, closed := w.final(reader)
	require.True(w.t, closed, "whether a body comes is not known")
	return a
}

// A PUT of content that the bucket has is answered without its body, and is like any other PUT in all else.
func TestAnswerInsteadOfTheBody(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{1, 4096, 300_000} {
		body := random(byte(size), size)
		first := w.do("PUT", "/bucket/first", body).is(200, "")
		a := w.unread(size, "/bucket/second", hash(body), "Content-Type", "text/x-test", "Content-Md5", md5Of(body)).is(200, "")
		for _, name := range []string{"Etag", "X-Amz-Checksum-Crc64nvme", "X-Amz-Checksum-Type"} {
			require.NotEmpty(t, a.header.Get(name))
			require.Equal(t, first.header.Get(name), a.header.Get(name), name)
		}
		got := w.do("GET", "/bucket/second", nil).is(200, "")
		require.Equal(t, body, got.body)
		require.Equal(t, "text/x-test", got.header.Get("Content-Type"))

		w.unread(size, "/bucket/second", hash(body), "If-None-Match", "*").is(412, "PreconditionFailed")
		w.unread(size, "/bucket/second", hash(body), "If-Match", `"`+first.etag()+`"`).is(200, "")
		w.unread(size, "/bucket/third", sigv4.UnsignedPayload, "X-Amz-Checksum-Sha256", base64SHA256(body)).is(200, "")
		require.Equal(t, body, w.do("GET", "/bucket/third", nil).is(200, "").body)
	}
}

func TestAnswerInsteadOfThePart(t *testing.T) {
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
		etag := w.unread(len(body), part(n), hash(body)).is(200, "").etag()
		fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", n, etag)
	}
	w.do("POST", "/bucket/key?uploadId="+upload.UploadID, []byte("<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>")).is(200, "")
	require.Equal(t, strings.Repeat(string(body), 3), w.content("/bucket/key"))
}

// A client that says that it waits and does not is answered too.
func TestAnswerToWhoDoesNotWait(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	for _, size := range []int{5, 300_000, 20 << 20} {
		body := random(byte(size), size)
		w.put("/bucket/first", string(body))
		for range 3 {
			conn := w.raw("PUT", "/bucket/second", size, hash(body), "Expect", "100-continue")
			_, err := conn.Write(body)
			require.NoError(t, err)
			a, _ := w.reply(conn)
			a.is(200, "")
		}
		require.Equal(t, string(body), w.content("/bucket/second"))
	}
}

// Where anything is not as it must be, the body is asked for, and the answer is that of any PUT.
func TestTheBodyIsAskedFor(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))

	w.wanted(random(2, 5000), "/bucket/new", hash(random(2, 5000))).is(200, "")
	w.wanted(body, "/other/key", hash(body)).is(200, "") // another bucket has it
	require.Equal(t, string(body), w.content("/other/key"))
	w.wanted(body, "/bucket/new", sigv4.UnsignedPayload).is(200, "")
	w.wanted(body, "/bucket/new", hash(body), "X-Amz-Checksum-Sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=").is(400, "BadDigest")
	w.wanted(body, "/bucket/new", hash(body), "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	w.wanted(body, "/bucket/new", hash(body), "X-Amz-Checksum-Crc64nvme", "AAAAAAAAAAA=").is(400, "BadDigest")
	w.wanted(body, "/bucket/new", hash(body), "X-Amz-Checksum-Sha256", base64SHA256([]byte("other"))).is(400, "BadDigest")
	w.wanted(body[:4999], "/bucket/new", hash(body)).is(400, "XAmzContentSHA256Mismatch")

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
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "who has a presigned URL is not who signed it")
}

// A hash that is not that of the body is refused, although the bucket has content of that hash.
func TestAnotherBodyThanItsHash(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", "before")
	w.put("/bucket/held", string(body))
	r := w.request("PUT", "/bucket/key", random(2, 5000))
	w.signer.Sign(r, hash(body), w.now())
	w.send(r).is(400, "XAmzContentSHA256Mismatch")
	require.Equal(t, "before", w.content("/bucket/key"))
}

// Content that goes after it was found must be sent.
func TestTheBodyIsAskedForInTheEnd(t *testing.T) {
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
	w.wanted(body, "/bucket/new", hash(body)).is(200, "")
	require.Nil(t, w.meta.found)
	require.Equal(t, string(body), w.content("/bucket/new"))
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

// Content is shared under one key only: what is encrypted and what is not, and what customers' keys encrypt, is stored
// apart.
func TestContentUnderAnotherKeyIsNotShared(t *testing.T) {
	w := newWorld(t, withKeys(t), setup{options: func(o *s3.Options) { o.CustomerKeysOverHTTP = true }})
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/plain", string(body))
	w.wanted(body, "/bucket/encrypted", hash(body), sse, "AES256").is(200, "")
	a := w.unread(len(body), "/bucket/again", hash(body), sse, "AES256").is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	require.Equal(t, "AES256", w.do("GET", "/bucket/again", nil).is(200, "").header.Get(sse))
	w.unread(len(body), "/bucket/plain2", hash(body)).is(200, "")
	require.Empty(t, w.do("GET", "/bucket/plain2", nil).is(200, "").header.Get(sse))
	for range 2 {
		key := customerKey(sse, 7)
		w.wanted(body, "/bucket/customer", hash(body), key...).is(200, "")
		require.Equal(t, body, w.do("GET", "/bucket/customer", nil, key...).is(200, "").body)
		w.do("GET", "/bucket/customer", nil).is(400, "InvalidRequest")
	}
}
