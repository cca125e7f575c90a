package s3_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/s3"
)

const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// lateWorld returns a server that sends white space immediately during a copy, and the content of the object
// /bucket/from, which has two parts.
func lateWorld(t *testing.T) (*world, []byte) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.KeepAlive = time.Millisecond }})
	w.bucket("bucket")
	parts := [][]byte{random(1, 5<<20), random(2, 1000)}
	up := w.begin("/bucket/from")
	up.finish(1, up.part(1, parts[0]).etag(), 2, up.part(2, parts[1]).etag()).is(200, "")
	return w, append(parts[0], parts[1]...)
}

// slowly sends a copy while reads of content are blocked, waits for the beginning of the response, calls meanwhile, and
// unblocks the reads. It returns the response and its body.
func (w *world) slowly(path string, meanwhile func(), headers ...string) (*http.Response, string) {
	w.t.Helper()
	gate := make(chan struct{})
	w.blocks.gate.Store(&gate)
	r := w.request("PUT", path, nil, headers...)
	w.signer.Sign(r, hash(nil), w.now())
	res, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	head, err := in.Peek(len(declaration) + 3)
	require.NoError(w.t, err)
	require.Equal(w.t, declaration+"   ", string(head), "the server must send white space while reads are blocked")
	if meanwhile != nil {
		meanwhile()
	}
	w.blocks.gate.Store(nil)
	close(gate)
	body, err := io.ReadAll(in)
	require.NoError(w.t, err)
	return res, string(body)
}

// A long copy sends status 200 and then white space until it is done, so that clients do not time out.
func TestLateCopy(t *testing.T) {
	w, whole := lateWorld(t)
	res, body := w.slowly("/bucket/to", nil, "X-Amz-Copy-Source", "/bucket/from")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/xml", res.Header.Get("Content-Type"))
	require.NotEmpty(t, res.Header.Get("X-Amz-Request-Id"))
	var got copyResult
	(&response{t, 200, res.Header, []byte(body)}).parse(&got)
	require.Equal(t, `"`+hexMD5(whole)+`"`, got.ETag)
	require.Equal(t, 1, strings.Count(body, "<?xml"))
	require.Equal(t, string(whole), w.content("/bucket/to"))

	up := w.begin("/bucket/parts")
	_, body = w.slowly(up.path(1), nil, "X-Amz-Copy-Source", "/bucket/from", "X-Amz-Copy-Source-Range", "bytes=1-5242879")
	require.Contains(t, body, "<ETag>&quot;"+hexMD5(whole[1:5<<20])+"&quot;</ETag>")
	up.finish(1, hexMD5(whole[1:5<<20])).is(200, "")
	require.Equal(t, string(whole[1:5<<20]), w.content("/bucket/parts"))
}

// If a copy fails after status 200 has been sent, the response contains the error, as in S3, and the key is unchanged.
func TestLateCopyFails(t *testing.T) {
	w, _ := lateWorld(t)
	w.put("/bucket/to", "old")
	res, body := w.slowly("/bucket/to", func() {
		w.do("PUT", "/bucket/to", []byte("new"), "If-Match", hexMD5([]byte("old"))).is(200, "")
	}, "X-Amz-Copy-Source", "/bucket/from", "If-Match", hexMD5([]byte("old")))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "PreconditionFailed", (&response{t, 200, res.Header, []byte(body)}).code())
	require.Equal(t, "new", w.content("/bucket/to"))

	// If the source is overwritten during the copy, the new content is copied.
	_, body = w.slowly("/bucket/to", func() { w.put("/bucket/from", "another") }, "X-Amz-Copy-Source", "/bucket/from")
	require.Contains(t, body, "<ETag>&quot;"+hexMD5([]byte("another"))+"&quot;</ETag>")
	require.Equal(t, "another", w.content("/bucket/to"))
}

// A copy refers to the content of its source and does not take additional space.
func TestCopyOfPartsSharesContent(t *testing.T) {
	w, whole := lateWorld(t)
	before := w.segments("from")
	w.do("PUT", "/bucket/to", nil, "X-Amz-Copy-Source", "/bucket/from").is(200, "")
	require.Equal(t, before, w.segments("to"))
	w.do("DELETE", "/bucket/from", nil).is(204, "")
	require.Equal(t, string(whole), w.content("/bucket/to"))
}

// segments returns the segment list of a multipart object.
func (w *world) segments(key string) core.UploadID {
	w.t.Helper()
	b, err := w.fs.Bucket(w.t.Context(), "bucket")
	require.NoError(w.t, err)
	o, err := w.fs.Stat(w.t.Context(), b, key, core.Current)
	require.NoError(w.t, err)
	require.Empty(w.t, o.Segments)
	return o.List
}
