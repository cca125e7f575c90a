package s3_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/vfs"
)

// raw sends the head of a signed request over a new connection, with the given Content-Length.
func (w *world) raw(method, path string, length int, payload string, headers ...string) net.Conn {
	w.t.Helper()
	r := w.request(method, path, nil, headers...)
	r.ContentLength = int64(length)
	w.signer.Sign(r, payload, w.now())
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, path, r.Host, length)
	require.NoError(w.t, err)
	require.NoError(w.t, r.Header.Write(conn))
	_, err = io.WriteString(conn, "\r\n")
	require.NoError(w.t, err)
	return conn
}

// readResponse reads one response.
func (w *world) readResponse(conn net.Conn) (*response, *http.Response) {
	w.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(w.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return &response{w.t, res.StatusCode, res.Header, body}, res
}

func TestTruncatedBodyChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "before")
	var upload struct {
		UploadID string `xml:"UploadId"`
	}
	w.do("POST", "/bucket/key?uploads", nil).is(200, "").parse(&upload)
	for _, size := range []int{10, 4096, 300_000, 9 << 20} {
		body := random(1, size)
		for _, sent := range []int{0, 1, size / 2, size - 1} {
			for _, p := range []string{"/bucket/key", "/bucket/new", "/bucket/key?partNumber=1&uploadId=" + upload.UploadID} {
				conn := w.raw("PUT", p, size, hash(body))
				_, err := conn.Write(body[:sent])
				require.NoError(t, err)
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
				a, _ := w.readResponse(conn)
				a.is(400, "IncompleteBody")
			}
		}
	}
	require.Equal(t, "before", w.content("/bucket/key"))
	require.Equal(t, "(none)", w.content("/bucket/new"))
	require.NotContains(t, string(w.do("GET", "/bucket/key?uploadId="+upload.UploadID, nil).is(200, "").body), "<Part>")
}

func TestExpectContinue(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	etag := w.put("/bucket/key", "before")
	body := "after"
	expect := []string{"Expect", "100-continue"}

	// An error that the headers cause is sent instead of 100 Continue.
	for _, c := range []struct {
		status int
		code   string
		path   string
		length int
		header []string
	}{
		{404, "NoSuchBucket", "/nowhere/key", 5, nil},
		{412, "PreconditionFailed", "/bucket/key", 5, []string{"If-None-Match", "*"}},
		{412, "PreconditionFailed", "/bucket/key", 5, []string{"If-Match", `"other"`}},
		{404, "NoSuchKey", "/bucket/none", 5, []string{"If-Match", `"other"`}},
		{400, "EntityTooLarge", "/bucket/key", 5<<30 + 1, nil},
		{400, "KeyTooLongError", "/bucket/" + strings.Repeat("k", 1025), 5, nil},
		{404, "NoSuchUpload", "/bucket/key?partNumber=1&uploadId=" + absentUpload, 5, nil},
		{400, "InvalidDigest", "/bucket/key", 5, []string{"Content-Md5", "nonsense"}},
	} {
		conn := w.raw("PUT", c.path, c.length, sigv4.UnsignedPayload, append(expect, c.header...)...)
		a, res := w.readResponse(conn)
		a.is(c.status, c.code)
		require.True(t, res.Close, "the connection must be closed: %s", c.code)
	}
	w.setFree(0)
	conn := w.raw("PUT", "/bucket/key", 5, sigv4.UnsignedPayload, expect...)
	a, _ := w.readResponse(conn)
	a.is(507, "InsufficientStorage")
	w.setFree(1 << 39)

	// Otherwise the server sends 100 Continue.
	conn = w.raw("PUT", "/bucket/key", len(body), hash([]byte(body)), append(expect, "If-Match", `"`+etag+`"`)...)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = reader.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	res, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, body, w.content("/bucket/key"))
}

// A client that waits for 100 Continue before an empty body gets it, and the connection can be reused.
func TestExpectContinueEmptyBody(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	conn := w.raw("PUT", "/bucket/empty", 0, sigv4.EmptySHA256, "Expect", "100-continue")
	reader := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	res, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	require.False(t, res.Close)
	require.Equal(t, "", w.content("/bucket/empty"))
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "before")
	var upload struct {
		UploadID string `xml:"UploadId"`
	}
	w.do("POST", "/bucket/key?uploads", nil).is(200, "").parse(&upload)
	w.setFree(1)
	for _, size := range []int{4, 300_000, 20 << 20} { // sent in full before the response is read
		body := random(1, size)
		for _, p := range []string{"/bucket/key", "/bucket/key?partNumber=1&uploadId=" + upload.UploadID} {
			for _, header := range [][]string{nil, {"Expect", "100-continue"}} { // the client does not wait
				conn := w.raw("PUT", p, size, hash(body), header...)
				_, err := conn.Write(body)
				require.NoError(t, err)
				a, _ := w.readResponse(conn)
				a.is(507, "InsufficientStorage")
			}
		}
	}
	require.Equal(t, "before", w.content("/bucket/key"))
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	require.Equal(t, "(none)", w.content("/bucket/key"))
	w.setFree(1 << 39)
	w.put("/bucket/key", "after")
}

// A client that is still sending its body can read the response.
func TestErrorsBeforeALargeBody(t *testing.T) {
	for name, start := range map[string]setup{"http": {}, "https": {start: overTLS}, "http2": {start: overHTTP2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start)
			w.bucket("bucket")
			w.put("/bucket/key", "before")
			body := random(1, 20<<20)
			for range 3 {
				w.do("PUT", "/nowhere/key", body).is(404, "NoSuchBucket")
				w.do("PUT", "/bucket/key", body, "If-None-Match", "*").is(412, "PreconditionFailed")
				w.do("PUT", "/bucket/key?torrent", body).is(501, "NotImplemented")
				w.do("POST", "/bucket?delete", body).is(400, "MaxMessageLengthExceeded")
				w.send(w.request("PUT", "/bucket/key", body)).is(403, "AccessDenied")
			}
			require.Equal(t, "before", w.content("/bucket/key"))
		})
	}
}

func TestClientThatStopsSending(t *testing.T) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.BodyTimeout = 10 * time.Millisecond }})
	w.bucket("bucket")
	conn := w.raw("PUT", "/bucket/key", 5, sigv4.UnsignedPayload)
	_, err := io.WriteString(conn, "hal")
	require.NoError(t, err)
	a, _ := w.readResponse(conn)
	a.is(400, "RequestTimeout")
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

func TestBodyOfUnknownLength(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	r := w.request("PUT", "/bucket/key", nil)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("content")), -1
	w.signer.Sign(r, sigv4.UnsignedPayload, w.now())
	w.send(r).is(411, "MissingContentLength")
	require.Equal(t, "(none)", w.content("/bucket/key"))
}

// lines is a log that sends its lines to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestClientThatStopsReading(t *testing.T) {
	log := make(lines, 100)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.BodyTimeout = 50 * time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	w.bucket("bucket")
	<-log
	body := w.putDirectly("/bucket/key", 32<<20)
	conn := w.raw("GET", "/bucket/key", 0, hash(nil))
	line := <-log
	require.Contains(t, line, "code=RequestTimeout")
	require.Contains(t, line, "level=INFO")
	got, err := io.ReadAll(conn)
	require.Less(t, len(got), len(body), "%v", err)
}

// putDirectly stores random content of n bytes without a request, and returns it.
func (w *world) putDirectly(path string, n int) []byte {
	w.t.Helper()
	name, key, _ := strings.Cut(path[1:], "/")
	body := random(1, n)
	bucket, err := w.fs.Bucket(w.t.Context(), name)
	require.NoError(w.t, err)
	content, err := w.fs.NewContent(w.t.Context(), bucket, int64(len(body)))
	require.NoError(w.t, err)
	_, err = content.ReadFrom(bytes.NewReader(body))
	require.NoError(w.t, err)
	_, err = w.fs.Put(w.t.Context(), vfs.PutRequest{Bucket: bucket, Key: key, Content: content})
	require.NoError(w.t, err)
	return body
}

// A client is disconnected if, and only if, it reads more slowly than the minimum rate. No client reads one tebibyte
// per second.
func TestClientThatReadsTooSlowly(t *testing.T) {
	for _, c := range []struct {
		rate int64
		cut  bool
	}{{0, false}, {1, false}, {1 << 40, true}} {
		log := make(lines, 100)
		w := newWorld(t, setup{options: func(o *s3.Options) {
			o.MinRate, o.RateWindow = c.rate, time.Microsecond
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
		}})
		w.bucket("bucket")
		<-log
		body := w.putDirectly("/bucket/key", 32<<20)
		conn := w.raw("GET", "/bucket/key", 0, hash(nil))
		var got []byte
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil { // the client may be disconnected before it gets the headers
			got, err = io.ReadAll(response.Body)
		}
		line := <-log
		if !c.cut {
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got))
			require.NotContains(t, line, "RequestTimeout")
			continue
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.True(t, bytes.HasPrefix(body, got))
		require.Contains(t, line, "code=RequestTimeout")
		require.Contains(t, line, "expected at least 1099511627776 bytes per second")
	}
}

// The minimum rate ends a write in progress long before the timeout for a client that does not read.
func TestClientThatReadsNothingIsTooSlow(t *testing.T) {
	log := make(lines, 100)
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.BodyTimeout, o.MinRate, o.RateWindow = time.Hour, 1<<40, time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	w.bucket("bucket")
	<-log
	body := w.putDirectly("/bucket/key", 32<<20)
	conn := w.raw("GET", "/bucket/key", 0, hash(nil))
	line := <-log
	require.Contains(t, line, "code=RequestTimeout")
	require.Contains(t, line, "expected at least 1099511627776 bytes per second")
	got, _ := io.ReadAll(conn)
	require.Less(t, len(got), len(body))
}

// TestDamageIsNeverSent damages stored bytes. In the first frame this causes an error response; in a later frame the
// connection is aborted.
func TestDamageIsNeverSent(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 1<<20)
	w.do("PUT", "/bucket/key", body).is(200, "")
	bucket, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	o, err := w.fs.Stat(t.Context(), bucket, "key", core.Current)
	require.NoError(t, err)
	e := o.Segments[0].Info.Extents[0]

	w.blocks.bad.Store(place{e.Block, e.Offset + e.Length - 100}, true)
	r := w.request("GET", "/bucket/key", nil)
	w.signer.Sign(r, hash(nil), w.now())
	res, err := w.client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.Error(t, err)
	require.True(t, errors.Is(err, io.ErrUnexpectedEOF), err)
	require.Less(t, len(got), len(body))
	require.Equal(t, body[:len(got)], got)

	w.blocks.bad.Store(place{e.Block, e.Offset + 100}, true)
	w.do("GET", "/bucket/key", nil).is(500, "InternalError")
	w.do("GET", "/bucket/key", nil, "Range", "bytes=-10").is(500, "InternalError")
	a := w.do("GET", "/bucket/key", nil, "Range", "bytes=400000-400009").is(206, "")
	require.Equal(t, body[400000:400010], a.body)
}
