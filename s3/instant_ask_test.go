package s3_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/vfs"
)

const instantLength = "X-Amz-Instant-Length"

// refLevel specifies what a client of the protocol in docs/instant.md asks before it sends content.
type refLevel int

const (
	refOff refLevel = iota
	refFull
	refFast
)

// full and fast return the Content element for body in a FindContent request, with the full hash or with the hash of
// its beginning.
func full(body []byte) string {
	return fmt.Sprintf("<Content><Size>%d</Size><SHA256>%s</SHA256></Content>", len(body), hash(body))
}

func fast(body []byte) string {
	return fmt.Sprintf("<Content><Size>%d</Size><HeadSHA256>%s</HeadSHA256></Content>", len(body), hash(body[:min(len(body), core.HeadSize)]))
}

// ask sends FindContent with these Content elements.
func (w *world) ask(bucket string, contents []string, headers ...string) *response {
	w.t.Helper()
	return w.do("POST", "/"+bucket+"?instant", []byte("<FindContent>"+strings.Join(contents, "")+"</FindContent>"), headers...)
}

// states returns the states in the response to FindContent.
func (w *world) states(bucket string, contents ...string) string {
	w.t.Helper()
	return w.ask(bucket, contents).states()
}

func (a *response) states() string {
	a.t.Helper()
	var result struct {
		Contents []struct{ State string } `xml:"Content"`
	}
	a.is(200, "").parse(&result)
	var states []string
	for _, c := range result.Contents {
		states = append(states, c.State)
	}
	return strings.Join(states, " ")
}

// refer sends a PUT without a body that refers to existing content.
func (w *world) refer(path string, body []byte, headers ...string) *response {
	w.t.Helper()
	r := w.request("PUT", path, nil, append(headers, instantLength, fmt.Sprint(len(body)))...)
	w.signer.Sign(r, hash(body), w.now())
	return w.send(r)
}

// upload puts each of bodies at its path, like a client of the given level, and returns the number of bytes that it had
// to send.
func (w *world) upload(level refLevel, bucket string, bodies map[string][]byte, headers ...string) (sent int) {
	w.t.Helper()
	var paths []string
	for path := range bodies {
		paths = append(paths, path)
	}
	present := map[string]bool{}
	narrow := func(question func([]byte) string, among []string) (left []string) {
		if len(among) == 0 {
			return nil
		}
		var contents []string
		for _, path := range among {
			contents = append(contents, question(bodies[path]))
		}
		for i, state := range strings.Fields(w.states(bucket, contents...)) {
			switch state {
			case "present":
				present[among[i]] = true
			case "perhaps":
				left = append(left, among[i])
			default:
				require.Equal(w.t, "absent", state)
			}
		}
		return left
	}
	switch level {
	case refFull:
		narrow(full, paths)
	case refFast:
		narrow(full, narrow(fast, paths))
	}
	for path, body := range bodies {
		if present[path] {
			if a := w.refer(path, body, headers...); a.status != 404 {
				a.is(200, "")
				continue
			} else {
				a.is(404, "NoSuchContent")
			}
		}
		w.do("PUT", path, body, headers...).is(200, "")
		sent += len(body)
	}
	return sent
}

// blockBytes returns the total size of all blocks.
func (w *world) blockBytes() (n int64) {
	require.NoError(w.t, w.blocks.Walk(w.t.Context(), core.BlockID{}, func(b core.BlockInfo) error {
		n += b.Size
		return nil
	}))
	return n
}

// remove deletes a key without a request.
func (w *world) remove(bucket, key string) {
	b, err := w.fs.Bucket(w.t.Context(), bucket)
	require.NoError(w.t, err)
	for _, r := range w.fs.Delete(w.t.Context(), b, account, []vfs.DeleteRequest{{Key: key}}) {
		require.NoError(w.t, r.Err)
	}
}

func TestFindContent(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	for _, size := range []int{1, core.HeadSize, core.HeadSize + 1, 300_000, 1 << 20} {
		body := random(byte(size), size)
		tail := bytes.Clone(body)
		tail[size-1]++
		head := bytes.Clone(body)
		head[0]++
		longer := append(bytes.Clone(body), 0)
		require.Equal(t, "absent absent", w.states("bucket", full(body), fast(body)))
		w.put("/bucket/"+fmt.Sprint(size), string(body))
		perhaps, alike := "perhaps", "perhaps"
		if size <= core.HeadSize { // the hash of the beginning is the full hash
			perhaps, alike = "present", "absent"
		}
		require.Equal(t, "present absent absent absent "+perhaps+" "+alike+" absent absent",
			w.states("bucket", full(body), full(tail), full(head), full(longer), fast(body), fast(tail), fast(head), fast(longer)), "%d", size)
		require.Equal(t, "absent absent", w.states("other", full(body), fast(body)))
		require.Equal(t, "present", w.states("bucket", strings.ReplaceAll(full(body), hash(body), " "+strings.ToUpper(hash(body))+"\n")))
	}
	require.Equal(t, "absent absent", w.states("bucket", full(nil), fast(nil)))
	w.do("DELETE", "/bucket/300000", nil).is(204, "")
	body := random(224, 300_000) // 300,000 as a byte
	require.Equal(t, "absent absent", w.states("bucket", full(body), fast(body)))
	many := strings.Repeat(full([]byte("x")), 999)
	require.Equal(t, strings.Repeat("absent ", 999)+"present", w.states("bucket", many, full(random(1, 1))))
}

func TestFindContentLimits(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	one, sum := full([]byte("x")), hash(nil)
	w.ask("bucket", nil).is(400, "MalformedXML")
	w.ask("bucket", []string{strings.Repeat(one, 1000)}).is(200, "")
	w.ask("bucket", []string{strings.Repeat(one, 1001)}).is(400, "MalformedXML")
	w.ask("bucket", []string{strings.Repeat(" ", 2<<20)}).is(400, "MaxMessageLengthExceeded")
	w.do("POST", "/bucket?instant", nil).is(400, "MissingRequestBodyError")
	w.do("POST", "/bucket?instant", []byte("<Delete/>")).is(400, "MalformedXML")
	for _, content := range []string{
		"", "<Size>1</Size>", "<SHA256>" + sum + "</SHA256>", "<Size>1</Size><Size>1</Size><SHA256>" + sum + "</SHA256>",
		"<Size>1</Size><SHA256>" + sum + "</SHA256><SHA256>" + sum + "</SHA256>", "<Size>1</Size><SHA256>" + sum + "</SHA256><Other/>",
		"<Size>1</Size><SHA256>" + sum + "</SHA256><HeadSHA256>" + sum + "</HeadSHA256>",
	} {
		w.ask("bucket", []string{one, "<Content>" + content + "</Content>"}).is(400, "MalformedXML")
	}
	for _, c := range [][3]string{
		{"Size", "-1", sum}, {"Size", "", sum}, {"Size", "1.5", sum}, {"SHA256", "1", ""}, {"SHA256", "1", sum[1:]}, {"SHA256", "1", sum + "00"}, {"SHA256", "1", "x" + sum[1:]},
	} {
		a := w.ask("bucket", []string{one, "<Content><Size>" + c[1] + "</Size><SHA256>" + c[2] + "</SHA256></Content>"}).is(400, "InvalidArgument")
		require.Contains(t, string(a.body), "<ArgumentName>"+c[0]+"</ArgumentName>")
	}
	a := w.ask("bucket", []string{"<Content><Size>1</Size><HeadSHA256>00</HeadSHA256></Content>"}).is(400, "InvalidArgument")
	require.Contains(t, string(a.body), "<ArgumentName>HeadSHA256</ArgumentName><ArgumentValue>00</ArgumentValue>")
	w.do("GET", "/bucket?instant", nil).is(405, "MethodNotAllowed")
	w.do("POST", "/bucket/key?instant", nil).is(501, "NotImplemented")
	w.ask("absent", []string{one}).is(404, "NoSuchBucket")
}

// A PUT that refers to content has the same effect as any other PUT, but no content is sent or written.
func TestReferToContent(t *testing.T) {
	const record = 2048
	for name, start := range map[string]setup{"http": {}, "http2": {start: overHTTP2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start)
			w.bucket("bucket")
			for _, size := range []int{4096, 300_000} {
				body := random(byte(size), size)
				w.refer("/bucket/second", body).is(404, "NoSuchContent")
				first := w.do("PUT", "/bucket/first", body).is(200, "")
				before := w.blockBytes()
				a := w.refer("/bucket/second", body, "Content-Type", "text/x-test", "X-Amz-Meta-A", "b", "X-Amz-Tagging", "c=d", "Content-Md5", md5Of(body)).is(200, "")
				require.Less(t, w.blockBytes()-before, int64(record))
				for _, name := range []string{"Etag", "X-Amz-Checksum-Crc64nvme", "X-Amz-Checksum-Type"} {
					require.NotEmpty(t, a.header.Get(name))
					require.Equal(t, first.header.Get(name), a.header.Get(name), name)
				}
				got := w.do("GET", "/bucket/second", nil).is(200, "")
				require.Equal(t, body, got.body)
				require.Equal(t, "text/x-test", got.header.Get("Content-Type"))
				require.Equal(t, "b", got.header.Get("X-Amz-Meta-A"))
				require.Equal(t, "1", got.header.Get("X-Amz-Tagging-Count"))

				w.refer("/bucket/second", body, "If-None-Match", "*").is(412, "PreconditionFailed")
				w.refer("/bucket/second", body, "If-Match", `"00000000000000000000000000000000"`).is(412, "PreconditionFailed")
				w.refer("/bucket/second", body, "If-Match", `"`+first.etag()+`"`).is(200, "")

				r := w.request("PUT", "/bucket/third", nil, instantLength, fmt.Sprint(size), "X-Amz-Checksum-Sha256", base64SHA256(body))
				w.signer.Sign(r, sigv4.UnsignedPayload, w.now())
				w.send(r).is(200, "")
				require.Equal(t, string(body), w.content("/bucket/third"))

				// Servers that do not know the header refuse the request instead of storing an empty object.
				r = w.request("PUT", "/bucket/third", nil)
				w.signer.Sign(r, hash(body), w.now())
				w.send(r).is(400, "XAmzContentSHA256Mismatch")
				r = w.request("PUT", "/bucket/third", nil, "X-Amz-Checksum-Sha256", base64SHA256(body))
				w.signer.Sign(r, sigv4.UnsignedPayload, w.now())
				w.send(r).is(400, "BadDigest")
				require.Equal(t, string(body), w.content("/bucket/third"))
			}
		})
	}
}

// The checksums of a request that refers to content must be stored with the content, and equal.
func TestReferWithChecksums(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))
	w.put("/bucket/new", "before")
	w.refer("/bucket/new", body, "Content-Md5", md5Of([]byte("other"))).is(400, "BadDigest")
	w.refer("/bucket/new", body, "X-Amz-Checksum-Crc64nvme", "AAAAAAAAAAA=").is(400, "BadDigest")
	w.refer("/bucket/new", body, "X-Amz-Checksum-Sha256", base64SHA256([]byte("other"))).is(400, "BadDigest")
	w.refer("/bucket/new", body, "X-Amz-Checksum-Crc32", crc32Of(body)).is(404, "NoSuchContent")
	w.refer("/bucket/new", append(bytes.Clone(body), 0)).is(404, "NoSuchContent")
	require.Equal(t, "before", w.content("/bucket/new"))
	w.do("PUT", "/bucket/new", body, "X-Amz-Checksum-Crc32", crc32Of(body)).is(200, "")
	a := w.refer("/bucket/again", body, "X-Amz-Checksum-Crc32", crc32Of(body)).is(200, "")
	require.Equal(t, crc32Of(body), a.header.Get("X-Amz-Checksum-Crc32"))
}

func TestReferInVersionsAndLocks(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("locked")
	body := random(1, 100_000)
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	first := w.do("PUT", "/locked/key", body).is(200, "").header.Get("X-Amz-Version-Id")
	lock := []string{lockMode, "COMPLIANCE", lockUntil, until}
	w.refer("/locked/key", body, lock...).is(400, "InvalidRequest")
	second := w.refer("/locked/key", body, append(lock, "Content-Md5", md5Of(body))...).is(200, "").header.Get("X-Amz-Version-Id")
	require.NotEmpty(t, second)
	require.NotEqual(t, first, second)
	require.Equal(t, "COMPLIANCE", w.do("HEAD", "/locked/key", nil).is(200, "").header.Get(lockMode))
	w.do("DELETE", "/locked/key?versionId="+second, nil).is(403, "AccessDenied")
	third := w.refer("/locked/key", body).is(200, "").header.Get("X-Amz-Version-Id")
	w.do("DELETE", "/locked/key?versionId="+first, nil).is(204, "")
	w.do("DELETE", "/locked/key?versionId="+third, nil).is(204, "")
	require.Equal(t, string(body), w.content("/locked/key?versionId="+second))
}

// Content that is deleted after FindContent, or during the request that refers to it, must be sent.
func TestReferToDeletedContent(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		for _, size := range []int{5000, 300_000} {
			w := newWorld(t)
			w.bucket("bucket")
			body := random(1, size)
			w.put("/bucket/key", string(body))
			require.Equal(t, "present", w.states("bucket", full(body)))
			if meanwhile {
				w.meta.found = func() { w.remove("bucket", "key") }
			} else {
				w.remove("bucket", "key")
			}
			w.refer("/bucket/new", body).is(404, "NoSuchContent")
			require.Nil(t, w.meta.found)
			require.Equal(t, "(none)", w.content("/bucket/new"))
			w.do("PUT", "/bucket/new", body).is(200, "")
			require.Equal(t, string(body), w.content("/bucket/new"))
			w.refer("/bucket/newer", body).is(200, "")
		}
	}
}

// A request cannot find content of other buckets, or content that is encrypted with another key.
func TestReferScope(t *testing.T) {
	w := newWorld(t, withKeys(t), setup{options: func(o *s3.Options) { o.CustomerKeysOverHTTP = true }})
	w.bucket("bucket")
	w.bucket("other")
	w.bucket("encrypted")
	w.do("PUT", "/encrypted?encryption", []byte("<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"+
		"<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>")).is(200, "")
	body := random(1, 100_000)
	w.put("/bucket/key", string(body))
	w.refer("/other/key", body).is(404, "NoSuchContent")
	require.Equal(t, "absent absent", w.states("other", full(body), fast(body)))

	require.Equal(t, "absent absent", w.ask("bucket", []string{full(body), fast(body)}, sse, "AES256").states())
	w.refer("/bucket/e", body, sse, "AES256").is(404, "NoSuchContent")
	w.do("PUT", "/bucket/e", body, sse, "AES256").is(200, "")
	require.Equal(t, "present perhaps", w.ask("bucket", []string{full(body), fast(body)}, sse, "AES256").states())
	require.Equal(t, "AES256", w.refer("/bucket/f", body, sse, "AES256").is(200, "").header.Get(sse))

	require.Equal(t, "absent absent", w.states("encrypted", full(body), fast(body)))
	w.put("/encrypted/key", string(body))
	require.Equal(t, "present perhaps", w.states("encrypted", full(body), fast(body)))
	require.Equal(t, "AES256", w.refer("/encrypted/again", body).is(200, "").header.Get(sse))
	require.Equal(t, string(body), w.content("/encrypted/again"))

	secret := random(2, 100_000)
	w.do("PUT", "/bucket/customer", secret, customerKey(sse, 7)...).is(200, "")
	require.Equal(t, "absent absent", w.states("bucket", full(secret), fast(secret)))
	w.refer("/bucket/customer2", secret, customerKey(sse, 7)...).is(404, "NoSuchContent")
	w.refer("/bucket/customer2", body, customerKey(sse, 7)...).is(404, "NoSuchContent")
	w.ask("bucket", []string{full(secret)}, customerKey(sse, 7)...).is(400, "InvalidArgument")

	w.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	w.ask("bucket", []string{full(body)}).is(403, "AccessDenied")
	w.refer("/bucket/key", body).is(403, "AccessDenied")
}

// An invalid reference is refused, and never stores an empty object.
func TestReferRefused(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))
	n := fmt.Sprint(len(body))
	w.do("PUT", "/bucket/new", body, instantLength, n).is(400, "InvalidRequest")
	r := w.request("PUT", "/bucket/new", nil, instantLength, n)
	w.signer.Sign(r, sigv4.UnsignedPayload, w.now())
	w.send(r).is(400, "InvalidRequest")
	w.refer("/bucket/key", body, "X-Amz-Write-Offset-Bytes", n).is(400, "InvalidRequest")
	for _, bad := range []string{"", "-1", "x", n + ", " + n} {
		r := w.request("PUT", "/bucket/new", nil, instantLength, bad)
		w.signer.Sign(r, hash(body), w.now())
		a := w.send(r).is(400, "InvalidArgument")
		require.Contains(t, string(a.body), "<ArgumentName>x-amz-instant-length</ArgumentName>")
	}
	for size, code := range map[int64]string{5 << 30: "NoSuchContent", 5<<30 + 1: "EntityTooLarge", 0: "NoSuchContent"} {
		r := w.request("PUT", "/bucket/new", nil, instantLength, fmt.Sprint(size))
		w.signer.Sign(r, hash(body), w.now())
		require.Equal(t, code, w.send(r).code())
	}
	w.do("PUT", "/bucket/new", nil, instantLength, n, "X-Amz-Copy-Source", "/bucket/key").is(501, "NotImplemented")
	w.do("GET", "/bucket/key", nil, instantLength, n).is(501, "NotImplemented")

	for _, header := range []bool{true, false} { // in a header, or in the presigned URL
		path := "/bucket/new"
		r = w.request("PUT", path, nil, "X-Amz-Content-Sha256", hash(body), instantLength, n)
		if !header {
			r = w.request("PUT", path+"?X-Amz-Instant-Length="+n, nil, "X-Amz-Content-Sha256", hash(body))
		}
		w.signer.Presign(r, time.Minute, w.now())
		w.send(r).is(403, "AccessDenied")
	}
	doc := []byte("<FindContent>" + full(body) + "</FindContent>")
	r = w.request("POST", "/bucket?instant", doc)
	w.signer.Presign(r, time.Minute, w.now())
	w.send(r).is(403, "AccessDenied")
	require.Equal(t, "(none)", w.content("/bucket/new"))
}

// If instant upload is disabled, clients get NotImplemented.
func TestInstantUploadDisabled(t *testing.T) {
	w := newWorld(t, setup{store: func(o *content.Options) { o.Instant = false }})
	w.bucket("bucket")
	body := random(1, 5000)
	w.put("/bucket/key", string(body))
	w.ask("bucket", []string{full(body)}).is(501, "NotImplemented")
	w.refer("/bucket/new", body).is(501, "NotImplemented")
}

// The three levels of a client: it sends everything; it sends only missing content; or it also avoids hashing most of
// the missing content.
func TestRefLevels(t *testing.T) {
	bodies := map[string][]byte{
		"/bucket/a": random(1, 10), "/bucket/b": random(2, core.HeadSize), "/bucket/c": random(3, 300_000), "/bucket/d": random(4, 1<<20),
	}
	total := 0
	for _, b := range bodies {
		total += len(b)
	}
	alike := bytes.Clone(bodies["/bucket/c"]) // differs only at the end
	alike[len(alike)-1]++
	for level := refOff; level <= refFast; level++ {
		w := newWorld(t)
		w.bucket("bucket")
		require.Equal(t, total, w.upload(level, "bucket", bodies))
		before, want := w.blockBytes(), 0
		if level == refOff {
			want = total
		}
		require.Equal(t, want, w.upload(level, "bucket", bodies))
		require.Eventually(t, func() bool { return w.blockBytes()-before < 8192 }, time.Minute, time.Millisecond, "unused content must be freed eventually")
		want += len(alike)
		if level == refOff {
			want = len(alike)
		}
		require.Equal(t, want, w.upload(level, "bucket", map[string][]byte{"/bucket/c": alike}))
		bodies["/bucket/c"] = alike
		for path, body := range bodies {
			require.Equal(t, string(body), w.content(path))
		}
		alike = random(byte(10+level), len(alike))
		copy(alike, bodies["/bucket/c"][:core.HeadSize])
	}
}

// Of a large object, a client sends only the missing parts.
func TestReferToParts(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	bodies := make([][]byte, 4)
	for i := range bodies {
		bodies[i] = random(byte(i), 5<<20)
	}
	store := func(key string, bodies ...[]byte) (sent int) {
		var upload struct {
			UploadID string `xml:"UploadId"`
		}
		w.do("POST", "/bucket/"+key+"?uploads", nil).is(200, "").parse(&upload)
		parts := map[string][]byte{}
		part := func(i int) string {
			return fmt.Sprintf("/bucket/%s?partNumber=%d&uploadId=%s", key, i+1, upload.UploadID)
		}
		for i, b := range bodies {
			parts[part(i)] = b
		}
		sent = w.upload(refFast, "bucket", parts)
		var list strings.Builder
		for i, b := range bodies {
			fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, hexMD5(b))
		}
		w.do("POST", "/bucket/"+key+"?uploadId="+upload.UploadID, []byte("<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>")).is(200, "")
		require.Equal(t, string(bytes.Join(bodies, nil)), w.content("/bucket/"+key))
		return sent
	}
	require.Equal(t, 3*5<<20, store("first", bodies[:3]...))
	require.Equal(t, 5<<20, store("second", bodies[0], bodies[3], bodies[2], bodies[1]))
	require.Zero(t, store("third", bodies...))
	w.refer("/bucket/none?partNumber=1&uploadId=1", bodies[0]).is(404, "NoSuchUpload")
}

func crc32Of(body []byte) string { return checksum.Encode(checksum.Sum(checksum.CRC32, body)) }

// The server responds to the example request in docs/instant.md with the example response.
func TestDocsExample(t *testing.T) {
	text, err := os.ReadFile("../docs/instant.md")
	require.NoError(t, err)
	var documents []string
	for i, part := range strings.Split(string(text), "```") {
		if doc, ok := strings.CutPrefix(part, "xml\n"); ok && i%2 == 1 {
			documents = append(documents, doc)
		}
	}
	require.Len(t, documents, 2)
	tight := func(doc string) string {
		return regexp.MustCompile(`>\s+<`).ReplaceAllString(strings.TrimSpace(doc), "><")
	}
	w := newWorld(t)
	w.bucket("bucket")
	zeros := make([]byte, 10<<20)
	etag := w.put("/bucket/disk", string(zeros))
	a := w.do("POST", "/bucket?instant", []byte(documents[0])).is(200, "")
	require.Equal(t, tight(documents[1]), tight(string(a.body)))
	require.Contains(t, string(text), "\nx-amz-content-sha256: "+hash(zeros)+"\n")
	require.Equal(t, etag, w.refer("/bucket/copy", zeros, "If-None-Match", "*").is(200, "").etag())
	require.Contains(t, string(text), "\nETag: \""+etag+"\"\n")
}
