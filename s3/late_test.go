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

// lateWorld keeps clients waiting at once, and has an object of two parts.
func lateWorld(t *testing.T) (*world, []byte) {
	w := newWorld(t, setup{options: func(o *s3.Options) { o.KeepAlive = time.Millisecond }})
	w.bucket("bucket")
	parts := [][]byte{random(1, 5<<20), random(2, 1000)}
	up := w.begin("/bucket/from")
	up.finish(1, up.part(1, parts[0]).etag(), 2, up.part(2, parts[1]).etag()).is(200, "")
	return w, append(parts[0], parts[1]...)
}

// slowly sends a copy while content cannot be read, waits for the beginning of its answer, and lets it go on after
// meanwhile.
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
	require.Equal(w.t, declaration+"   ", string(head), "white space comes while nothing can be read")
	if meanwhile != nil {
		meanwhile()
	}
	w.blocks.gate.Store(nil)
	close(gate)
	body, err := io.ReadAll(in)
	require.NoError(w.t, err)
	return res, string(body)
}

// A copy that takes long says 200 and sends white space until it is done, so that nobody gives up on it.
func TestLateCopy(t *testing.T) {
	w, whole := lateWorld(t)
	res, body := w.slowly("/bucket/to", nil, "X-Amz-Copy-Source", "/bucket/from")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/xml", res.Header.Get("Content-Type"))
	require.NotEmpty(t, res.Header.Get("X-Amz-Request-Id"))
	var got copyResult
	(&answer{t, 200, res.Header, []byte(body)}).parse(&got)
	require.Equal(t, `"`+hexMD5(whole)+`"`, got.ETag)
	require.Equal(t, 1, strings.Count(body, "<?xml"))
	require.Equal(t, string(whole), w.content("/bucket/to"))

	up := w.begin("/bucket/parts")
	_, body = w.slowly(up.path(1), nil, "X-Amz-Copy-Source", "/bucket/from", "X-Amz-Copy-Source-Range", "bytes=1-5242879")
	require.Contains(t, body, "<ETag>&quot;"+hexMD5(whole[1:5<<20])+"&quot;</ETag>")
	up.finish(1, hexMD5(whole[1:5<<20])).is(200, "")
	require.Equal(t, string(whole[1:5<<20]), w.content("/bucket/parts"))
}

// A copy that fails late is an error in an answer that says 200, as S3 has it, and the key is as it was.
func TestLateCopyFails(t *testing.T) {
	w, _ := lateWorld(t)
	w.put("/bucket/to", "old")
	res, body := w.slowly("/bucket/to", func() {
		w.do("PUT", "/bucket/to", []byte("new"), "If-Match", hexMD5([]byte("old"))).is(200, "")
	}, "X-Amz-Copy-Source", "/bucket/from", "If-Match", hexMD5([]byte("old")))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "PreconditionFailed", (&answer{t, 200, res.Header, []byte(body)}).code())
	require.Equal(t, "new", w.content("/bucket/to"))

	// The source is overwritten meanwhile: what is there now is copied.
	_, body = w.slowly("/bucket/to", func() { w.put("/bucket/from", "another") }, "X-Amz-Copy-Source", "/bucket/from")
	require.Contains(t, body, "<ETag>&quot;"+hexMD5([]byte("another"))+"&quot;</ETag>")
	require.Equal(t, "another", w.content("/bucket/to"))
}

// The copy refers to the content of its source: it takes no room.
func TestCopyOfPartsTakesNoRoom(t *testing.T) {
	w, whole := lateWorld(t)
	before := w.segments("from")
	w.do("PUT", "/bucket/to", nil, "X-Amz-Copy-Source", "/bucket/from").is(200, "")
	require.Equal(t, before, w.segments("to"))
	w.do("DELETE", "/bucket/from", nil).is(204, "")
	require.Equal(t, string(whole), w.content("/bucket/to"))
}

// segments returns what content a key refers to.
func (w *world) segments(key string) core.UploadID {
	w.t.Helper()
	b, err := w.fs.Bucket(w.t.Context(), "bucket")
	require.NoError(w.t, err)
	o, err := w.fs.Stat(w.t.Context(), b, key, core.Current)
	require.NoError(w.t, err)
	require.Empty(w.t, o.Segments)
	return o.List
}
