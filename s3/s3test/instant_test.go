package s3test

import "io"

// offer sends the headers of a PUT with the SHA-256 of its body and Expect: 100-continue. It returns the response, a
// writer for the body, and a function that reads the next response.
func (t *T) offer(ref, content string, headers ...string) (*response, io.Writer, func() *response) {
	t.Helper()
	conn, in := t.open("PUT", ref, len(content), sha256Hex([]byte(content)), append(headers, "Expect: 100-continue")...)
	return t.readResponse("PUT", in), conn, func() *response { return t.readResponse("PUT", in) }
}

// instant is an extension of S3 that works with any S3 client.
var instant = area{"instant", []rule{
	{"hit", "a PUT of content in the bucket, announced by its SHA-256, succeeds without the body", func(t *T) {
		content := random(20, 300_000)
		t.put("first", content)
		a, _, _ := t.offer("second", content, "x-amz-meta-a: 1")
		a.ok(200).has("ETag", `"`+md5Hex(content)+`"`)
		t.holds("second", content)
		t.head("second").ok(200).has("x-amz-meta-a", "1")
	}},
	{"is-independent", "an object remains when another object with the same content is overwritten and deleted", func(t *T) {
		content := random(21, 300_000)
		t.put("first", content)
		a, _, _ := t.offer("second", content)
		a.ok(200)
		t.put("first", "else")
		t.del("first").ok(204)
		t.holds("second", content)
	}},
	{"miss", "a PUT of content that is not in the bucket gets 100 Continue", func(t *T) {
		content := random(22, 300_000)
		a, body, rest := t.offer("key", content)
		a.ok(100)
		_, err := io.WriteString(body, content)
		t.done(err)
		rest().ok(200)
		t.holds("key", content)
	}},
	{"other-bucket", "content in another bucket is not used: the server asks for the body", func(t *T) {
		content := random(23, 300_000)
		t.put("/"+t.newBucket()+"/first", content)
		a, _, _ := t.offer("key", content)
		a.ok(100)
		t.gone("key")
	}},
	{"other-length", "a known SHA-256 with a different length is not used", func(t *T) {
		content := random(24, 300_000)
		t.put("first", content)
		conn, in := t.open("PUT", "key", len(content)+1, sha256Hex([]byte(content)), "Expect: 100-continue")
		t.readResponse("PUT", in).ok(100)
		_, err := io.WriteString(conn, content+"x")
		t.done(err)
		t.readResponse("PUT", in).fail(400, "XAmzContentSHA256Mismatch")
		t.gone("key")
	}},
	{"condition", "conditions apply to content in the bucket", func(t *T) {
		content := random(25, 300_000)
		t.put("first", content)
		t.put("key", "old")
		a, _, _ := t.offer("key", content, "If-None-Match: *")
		a.fail(412, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"wrong-checksum", "a checksum that does not match the content fails with BadDigest", func(t *T) {
		content := random(26, 300_000)
		t.put("first", content, sumHeader("CRC32", content))
		a, body, rest := t.offer("key", content, sumHeader("CRC32", "else"))
		if a.status == 100 {
			_, err := io.WriteString(body, content)
			t.done(err)
			a = rest()
		}
		a.fail(400, "BadDigest")
		t.gone("key")
	}},
	{"part", "a part with content in the bucket succeeds without the body", func(t *T) {
		content := random(27, 300_000)
		t.put("first", content)
		u := t.begin("key")
		a, _, _ := t.offer(u.ref(1), content)
		u.take(1, a.ok(200).etag())
		u.complete().ok(200)
		t.holds("key", content)
	}},
	{"versions", "in a versioned bucket, content in the bucket becomes a new version", func(t *T) {
		t.versioned()
		content := random(28, 300_000)
		id := t.version("key", content)
		a, _, _ := t.offer("key", content)
		t.must(a.ok(200).set("x-amz-version-id") != id, "the version ID is unchanged")
		t.holds("key?versionId="+id, content)
	}},
	{"forged-signature", "a request without a signature cannot use content in the bucket", func(t *T) {
		content := random(29, 300_000)
		t.put("first", content)
		r := t.request("PUT", "key", nil, "Expect: 100-continue")
		r.Header.Set("X-Amz-Content-Sha256", sha256Hex([]byte(content)))
		r.ContentLength = int64(len(content))
		r.Body = io.NopCloser(io.LimitReader(zeros{}, int64(len(content))))
		t.send(r).fail(403, "AccessDenied")
		t.gone("key")
	}},
}}

// zeros is an endless reader.
type zeros struct{}

// Read fills p with zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
