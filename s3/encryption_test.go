package s3_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/encoding"
	"orcas/s3"
)

const (
	sse       = "X-Amz-Server-Side-Encryption"
	sseSource = "X-Amz-Copy-Source-Server-Side-Encryption"
)

// withKeys gives the store a master key.
func withKeys(t *testing.T) setup {
	keys, err := codec.ParseKeys("1:" + strings.Repeat("ab", 32))
	require.NoError(t, err)
	return setup{store: func(o *content.Options) { o.Keys = keys }}
}

// withAll makes the store encrypt all content.
func withAll() setup { return setup{store: func(o *content.Options) { o.EncryptAll = true }} }

// customerKey returns the headers with a customer key. Their names begin with prefix.
func customerKey(prefix string, seed byte) []string {
	key := bytes.Repeat([]byte{seed}, 32)
	sum := md5.Sum(key)
	return []string{
		prefix + "-Customer-Algorithm", "AES256", prefix + "-Customer-Key", base64.StdEncoding.EncodeToString(key),
		prefix + "-Customer-Key-MD5", base64.StdEncoding.EncodeToString(sum[:]),
	}
}

// stored returns all bytes of the blocks and of the metadata.
func (w *world) stored() string {
	var all bytes.Buffer
	ctx := context.Background()
	require.NoError(w.t, w.blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		r, err := w.blocks.Open(ctx, core.Extent{Block: b.ID, Length: b.Size})
		require.NoError(w.t, err)
		defer r.Close()
		_, err = io.Copy(&all, io.NewSectionReader(r, 0, b.Size))
		return err
	}))
	require.NoError(w.t, w.meta.Snapshot(ctx, func(r *core.Row) error {
		all.Write(encoding.AppendRow(nil, r))
		return nil
	}))
	return all.String()
}

// contents returns content for every way of storing it: empty, packed, one frame, several frames, several chunks.
func contents() map[string][]byte {
	return map[string][]byte{
		"empty": {}, "small": []byte("a small secret"), "packed": bytes.Repeat([]byte("a packed secret."), 4000), "large": random(1, 300_000), "chunks": random(2, 9<<20+5),
	}
}

func TestStoreEncryption(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	for name, body := range contents() {
		a := w.do("PUT", "/bucket/"+name, body, sse, "AES256").is(200, "")
		require.Equal(t, "AES256", a.header.Get(sse), name)
		require.Equal(t, hexMD5(body), a.etag())
		for _, method := range []string{"GET", "HEAD"} {
			a = w.do(method, "/bucket/"+name, nil).is(200, "")
			require.Equal(t, "AES256", a.header.Get(sse))
			require.Equal(t, hexMD5(body), a.etag())
			require.Equal(t, fmt.Sprint(len(body)), a.header.Get("Content-Length"))
		}
		require.True(t, bytes.Equal(body, w.do("GET", "/bucket/"+name, nil).body))
		for _, r := range [][2]int{{0, 1}, {3, 7}, {262_140, 262_150}, {4<<20 - 1, 4<<20 + 1}, {8 << 20, 9 << 20}} {
			if r[1] < len(body) {
				a = w.do("GET", "/bucket/"+name, nil, "Range", fmt.Sprintf("bytes=%d-%d", r[0], r[1])).is(206, "")
				require.True(t, bytes.Equal(body[r[0]:r[1]+1], a.body))
			}
		}
		w.do("GET", "/bucket/"+name, nil, sse, "AES256").is(400, "InvalidArgument")
		require.Equal(t, 400, w.do("HEAD", "/bucket/"+name, nil, sse, "AES256").status)
	}
	stored := w.stored()
	require.NotContains(t, stored, "secret")
	require.NotContains(t, stored, string(random(1, 64)))
	require.NotContains(t, stored, strings.Repeat("\xab", 32))
	w.put("/bucket/plain", "nothing secret")
	require.Empty(t, w.do("GET", "/bucket/plain", nil).header.Get(sse))
	require.Contains(t, w.stored(), "nothing secret", "plain content must be visible, or the checks above prove nothing")
}

func TestStoreEncryptionOfUploadsAndCopies(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	m := w.begin("/bucket/multi", sse, "AES256")
	one, two := random(1, 5<<20), bytes.Repeat([]byte("secret"), 100)
	p1 := m.part(1, one).is(200, "")
	require.Equal(t, "AES256", p1.header.Get(sse))
	w.put("/bucket/source", string(two))
	p2 := w.do("PUT", m.path(2), nil, "X-Amz-Copy-Source", "/bucket/source").is(200, "")
	require.Equal(t, "AES256", p2.header.Get(sse))
	w.do("DELETE", "/bucket/source", nil)
	done := m.finish(1, p1.etag(), 2, hexMD5(two)).is(200, "")
	require.Equal(t, "AES256", done.header.Get(sse))
	got := w.do("GET", "/bucket/multi", nil).is(200, "")
	require.True(t, bytes.Equal(append(one, two...), got.body))
	require.Equal(t, "AES256", got.header.Get(sse))

	w.put("/bucket/plain", "plain")
	for _, c := range []struct {
		from    string
		headers []string
		want    string
		etag    string
	}{
		{"multi", nil, "AES256", done.etag()}, // a copy of encrypted content is encrypted
		{"multi", []string{sse, "AES256"}, "AES256", got.etag()},
		{"plain", nil, "", hexMD5([]byte("plain"))},
		{"plain", []string{sse, "AES256"}, "AES256", hexMD5([]byte("plain"))},
	} {
		before := w.do("GET", "/bucket/"+c.from, nil)
		a := w.do("PUT", "/bucket/copy", nil, append(c.headers, "X-Amz-Copy-Source", "/bucket/"+c.from)...).is(200, "")
		require.Equal(t, c.want, a.header.Get(sse), "%+v", c)
		after := w.do("GET", "/bucket/copy", nil).is(200, "")
		require.Equal(t, c.want, after.header.Get(sse))
		require.True(t, bytes.Equal(before.body, after.body))
	}
	// An object may be copied onto itself if the copy encrypts it.
	w.do("PUT", "/bucket/plain", nil, "X-Amz-Copy-Source", "/bucket/plain").is(400, "InvalidRequest")
	w.do("PUT", "/bucket/plain", nil, "X-Amz-Copy-Source", "/bucket/plain", sse, "AES256").is(200, "")
	require.Equal(t, "AES256", w.do("HEAD", "/bucket/plain", nil).header.Get(sse))
	require.Equal(t, "plain", w.content("/bucket/plain"))
}

// minio-go specifies the encryption of an upload in every request of the upload.
func TestEncryptionRepeatedForParts(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	w.put("/bucket/source", "content")
	m := w.begin("/bucket/key", sse, "AES256")
	a := w.do("PUT", m.path(1), []byte("content"), sse, "AES256").is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	doc := []byte("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + a.etag() + "</ETag></Part></CompleteMultipartUpload>")
	a = w.do("PUT", m.path(1), nil, "X-Amz-Copy-Source", "/bucket/source", sse, "AES256").is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	w.do("PUT", m.path(1), []byte("content"), sse, "aws:kms").is(501, "NotImplemented")
	w.do("PUT", m.path(1), []byte("content"), sse, "ROT13").is(400, "InvalidArgument")
	w.do("PUT", m.path(1), []byte("content"), sse, "").is(400, "InvalidArgument")
	w.do("PUT", m.path(1), []byte("content"), sse+"-Aws-Kms-Key-Id", "key").is(400, "InvalidArgument")
	w.do("GET", "/bucket/key?uploadId="+m.id, nil, sse, "AES256").is(400, "InvalidArgument")
	for range 2 { // the second time, the upload is already completed
		require.Equal(t, "AES256", m.complete(doc, sse, "AES256").is(200, "").header.Get(sse))
	}
	require.Equal(t, "content", w.content("/bucket/key"))

	// The encryption of an upload cannot be added later, so a request that specifies encryption must fail.
	plain := w.begin("/bucket/plain")
	w.do("PUT", plain.path(1), []byte("content"), sse, "AES256").is(400, "InvalidRequest")
	w.do("PUT", plain.path(1), nil, "X-Amz-Copy-Source", "/bucket/source", sse, "AES256").is(400, "InvalidRequest")
	plain.part(1, []byte("content")).is(200, "")
	plain.complete(doc, sse, "AES256").is(400, "InvalidRequest")
	require.Equal(t, "(none)", w.content("/bucket/plain"))
	plain.complete(doc).is(200, "")
	plain.complete(doc, sse, "AES256").is(404, "NoSuchUpload")
}

func TestUnsupportedEncryption(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	for _, v := range []string{"aws:kms", "aws:kms:dsse", "aws:fsx", "aws:backup"} {
		w.do("PUT", "/bucket/key", nil, sse, v).is(501, "NotImplemented")
	}
	for _, h := range []string{"-Aws-Kms-Key-Id", "-Context", "-Bucket-Key-Enabled"} {
		w.do("PUT", "/bucket/key", nil, sse+h, "true").is(501, "NotImplemented")
		w.do("POST", "/bucket/key?uploads", nil, sse, "AES256", sse+h, "true").is(501, "NotImplemented")
	}
	for _, v := range []string{"AES128", "aes256", "none"} {
		w.do("PUT", "/bucket/key", nil, sse, v).is(400, "InvalidArgument")
	}
	for _, method := range []string{"GET", "DELETE"} {
		w.do(method, "/bucket/key", nil, sse, "AES256").is(400, "InvalidArgument")
		w.do(method, "/bucket?tagging", nil, sse+"-Customer-Algorithm", "AES256").is(400, "InvalidArgument")
	}
	w.do("PUT", "/bucket/key", nil, sseSource+"-Customer-Algorithm", "AES256").is(400, "InvalidArgument")
	require.Equal(t, "(none)", w.content("/bucket/key"))

	bare := newWorld(t)
	bare.bucket("bucket")
	for _, a := range []*response{
		bare.do("PUT", "/bucket/key", []byte("x"), sse, "AES256"), bare.do("POST", "/bucket/key?uploads", nil, sse, "AES256"),
		bare.do("PUT", "/bucket?encryption", []byte(encryptionRule("AES256", ""))),
	} {
		a.is(501, "NotImplemented")
		require.Contains(t, string(a.body), "ORCAS_MASTER_KEY")
	}
}

func encryptionRule(algorithm, more string) string {
	return "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>" + algorithm +
		"</SSEAlgorithm>" + more + "</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"
}

func TestBucketEncryption(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	const path, root = "/bucket?encryption", "ServerSideEncryptionConfiguration"
	w.do("GET", path, nil).is(404, "ServerSideEncryptionConfigurationNotFoundError")
	w.do("GET", "/absent?encryption", nil).is(404, "NoSuchBucket")
	w.put("/bucket/before", "before")

	for body, want := range map[string]struct {
		status int
		code   string
	}{
		"":                                     {400, "MissingRequestBodyError"},
		"<Nonsense/>":                          {400, "MalformedXML"},
		"<" + root + "/>":                      {400, "MalformedXML"},
		"<" + root + "><Rule/></" + root + ">": {400, "MalformedXML"},
		encryptionRule("AES128", ""):           {400, "MalformedXML"},
		encryptionRule("aws:kms", ""):          {501, "NotImplemented"},
		encryptionRule("aws:kms:dsse", ""):     {501, "NotImplemented"},
		encryptionRule("AES256", "<KMSMasterKeyID>k</KMSMasterKeyID>"):                {400, "InvalidArgument"},
		encryptionRule("AES256", "<Other/>"):                                          {400, "MalformedXML"},
		strings.Replace(encryptionRule("AES256", ""), "</Rule>", "</Rule><Rule/>", 1): {400, "MalformedXML"},
		strings.Replace(encryptionRule("AES256", ""), "</Rule>", "<BlockedEncryptionTypes><EncryptionType>KMS</EncryptionType></BlockedEncryptionTypes></Rule>", 1): {400, "MalformedXML"},
	} {
		w.do("PUT", path, []byte(body)).is(want.status, want.code)
	}
	w.do("GET", path, nil).is(404, "ServerSideEncryptionConfigurationNotFoundError")

	w.do("PUT", path, []byte(encryptionRule("AES256", ""))).is(200, "")
	require.Equal(t, "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>",
		inside(t, w.do("GET", path, nil).is(200, ""), root))
	a := w.do("PUT", "/bucket/after", []byte("after, a secret")).is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	require.Equal(t, "AES256", w.begin("/bucket/multi").part(1, []byte("a secret part")).is(200, "").header.Get(sse))
	a = w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/before").is(200, "")
	require.Equal(t, "AES256", a.header.Get(sse))
	require.Equal(t, "before", w.content("/bucket/copy"))
	require.Equal(t, "after, a secret", w.content("/bucket/after"))
	require.NotContains(t, w.stored(), "secret")

	w.do("DELETE", path, nil).is(204, "")
	w.do("DELETE", path, nil).is(204, "")
	w.do("GET", path, nil).is(404, "ServerSideEncryptionConfigurationNotFoundError")
	require.Empty(t, w.do("PUT", "/bucket/plain", []byte("plain again")).is(200, "").header.Get(sse))
	require.Contains(t, w.stored(), "plain again")
	require.Equal(t, "after, a secret", w.content("/bucket/after"))

	all := newWorld(t, withKeys(t), withAll())
	all.bucket("bucket")
	require.Contains(t, inside(t, all.do("GET", path, nil).is(200, ""), root), "AES256")
	require.Equal(t, "AES256", all.do("PUT", "/bucket/key", []byte("a secret")).is(200, "").header.Get(sse))
	require.NotContains(t, all.stored(), "a secret")
}

func TestCustomerEncryption(t *testing.T) {
	w := newWorld(t, setup{start: overTLS})
	w.bucket("bucket")
	mine, other := customerKey(sse, 'K'), customerKey(sse, 'O')
	for name, body := range contents() {
		path := "/bucket/" + name
		a := w.do("PUT", path, body, mine...).is(200, "")
		require.Equal(t, "AES256", a.header.Get(sse+"-Customer-Algorithm"), name)
		require.Equal(t, mine[5], a.header.Get(sse+"-Customer-Key-Md5"))
		for _, method := range []string{"GET", "HEAD"} {
			a = w.do(method, path, nil, mine...).is(200, "")
			require.Equal(t, "AES256", a.header.Get(sse+"-Customer-Algorithm"))
			require.Equal(t, mine[5], a.header.Get(sse+"-Customer-Key-Md5"))
			require.Empty(t, a.header.Get(sse))
			for h := range a.header {
				require.NotContains(t, strings.ToLower(h), "orcas")
			}
			require.Equal(t, 400, w.do(method, path, nil).status)
			require.Equal(t, 403, w.do(method, path, nil, other...).status)
			require.Equal(t, 400, w.do(method, path, nil, "If-None-Match", "*").status, "conditions must not be evaluated without the key")
		}
		w.do("GET", path, nil).is(400, "InvalidRequest")
		w.do("GET", path, nil, other...).is(403, "AccessDenied")
		require.True(t, bytes.Equal(body, w.do("GET", path, nil, mine...).body))
		w.do("GET", path+"?attributes", nil, "X-Amz-Object-Attributes", "ObjectSize").is(400, "InvalidRequest")
		w.do("GET", path+"?attributes", nil, append(mine, "X-Amz-Object-Attributes", "ObjectSize")...).is(200, "")
	}
	stored := w.stored()
	require.NotContains(t, stored, "secret")
	require.NotContains(t, stored, strings.Repeat("K", 32))
	require.NotContains(t, stored, mine[3])
	require.NotContains(t, stored, mine[5], "the MD5 must not be stored: it would allow guessing the key")
	w.put("/bucket/plain", "plain")
	w.do("GET", "/bucket/plain", nil, mine...).is(400, "InvalidRequest")
	w.do("DELETE", "/bucket/small", nil).is(204, "")
}

func TestInvalidCustomerKeys(t *testing.T) {
	w := newWorld(t, setup{start: overTLS}, withKeys(t))
	w.bucket("bucket")
	mine, other := customerKey(sse, 'K'), customerKey(sse, 'O')
	with := func(at int, v string) []string {
		h := append([]string(nil), mine...)
		h[at] = v
		return h
	}
	short := bytes.Repeat([]byte("K"), 16)
	sum := md5.Sum(short)
	for name, c := range map[string]struct {
		code    string
		headers []string
	}{
		"no algorithm":    {"InvalidArgument", mine[2:]},
		"no key":          {"InvalidArgument", append(append([]string(nil), mine[:2]...), mine[4:]...)},
		"no MD5":          {"InvalidArgument", mine[:4]},
		"other algorithm": {"InvalidEncryptionAlgorithmError", with(1, "AES128")},
		"not base64":      {"InvalidArgument", with(3, "***")},
		"short key":       {"InvalidArgument", []string{mine[0], mine[1], mine[2], base64.StdEncoding.EncodeToString(short), mine[4], base64.StdEncoding.EncodeToString(sum[:])}},
		"zeros":           {"InvalidArgument", customerKey(sse, 0)},
		"other MD5":       {"InvalidArgument", with(5, other[5])},
		"malformed MD5":   {"InvalidArgument", with(5, "nonsense")},
		"with AES256":     {"InvalidArgument", append(append([]string(nil), mine...), sse, "AES256")},
	} {
		for _, a := range []*response{w.do("PUT", "/bucket/key", []byte("x"), c.headers...), w.do("POST", "/bucket/key?uploads", nil, c.headers...)} {
			require.Equal(t, c.code, a.code(), name)
			a.is(400, "")
			require.NotContains(t, string(a.body), mine[3], "the response must not contain the key")
		}
	}
	require.Equal(t, "(none)", w.content("/bucket/key"))

	plain := newWorld(t)
	plain.bucket("bucket")
	plain.do("PUT", "/bucket/key", []byte("x"), mine...).is(400, "InvalidRequest")
	plain.do("GET", "/bucket/key", nil, mine...).is(404, "NoSuchKey")
	proxied := newWorld(t, setup{options: func(o *s3.Options) { o.CustomerKeysOverHTTP = true }})
	proxied.bucket("bucket")
	proxied.do("PUT", "/bucket/key", []byte("x"), mine...).is(200, "")

	w.do("PUT", "/bucket?encryption", []byte("<ServerSideEncryptionConfiguration><Rule><BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>")).is(200, "")
	w.do("PUT", "/bucket/key", []byte("x"), mine...).is(403, "AccessDenied")
	require.Empty(t, w.do("PUT", "/bucket/key", []byte("x")).is(200, "").header.Get(sse))
}

func TestCustomerEncryptionOfUploads(t *testing.T) {
	w := newWorld(t, setup{start: overTLS}, withKeys(t))
	w.bucket("bucket")
	mine, other := customerKey(sse, 'K'), customerKey(sse, 'O')
	m := w.begin("/bucket/multi", mine...)
	one, two := random(1, 5<<20), []byte("a secret end")
	w.do("PUT", m.path(1), one).is(400, "InvalidRequest")
	w.do("PUT", m.path(1), one, other...).is(400, "InvalidRequest")
	p1 := m.part(1, one, mine...)
	require.Equal(t, mine[5], p1.header.Get(sse+"-Customer-Key-Md5"))
	p2 := m.part(2, two, mine...)
	w.do("GET", "/bucket/multi?uploadId="+m.id, nil).is(200, "")
	w.do("GET", "/bucket/multi?uploadId="+m.id, nil, other...).is(400, "InvalidRequest")
	doc := m.doc(1, p1.etag(), 2, p2.etag())
	m.complete(doc, other...).is(400, "InvalidRequest")
	m.complete(doc).is(200, "")
	w.do("GET", "/bucket/multi", nil).is(400, "InvalidRequest")
	w.do("GET", "/bucket/multi", nil, other...).is(403, "AccessDenied")
	whole := append(append([]byte(nil), one...), two...)
	require.True(t, bytes.Equal(whole, w.do("GET", "/bucket/multi", nil, mine...).is(200, "").body))
	require.Equal(t, string(two), string(w.do("GET", "/bucket/multi?partNumber=2", nil, mine...).is(206, "").body))

	// Parts that are copied from content with the same or with other encryption.
	w.do("PUT", "/bucket/plain", two).is(200, "")
	for i, c := range []struct {
		name         string
		begin, parts []string
		source       string
	}{
		{"other to mine", mine, append(customerKey(sseSource, 'O'), mine...), "others"},
		{"mine to mine", mine, append(customerKey(sseSource, 'K'), mine...), "mine"},
		{"plain to mine", mine, mine, "plain"},
		{"mine to plain", nil, customerKey(sseSource, 'K'), "mine"},
		{"mine to the store's", []string{sse, "AES256"}, customerKey(sseSource, 'K'), "mine"},
	} {
		w.do("PUT", "/bucket/mine", two, mine...).is(200, "")
		w.do("PUT", "/bucket/others", two, other...).is(200, "")
		m := w.begin(fmt.Sprintf("/bucket/copied%d", i), c.begin...)
		a := w.do("PUT", m.path(1), nil, append(c.parts, "X-Amz-Copy-Source", "/bucket/"+c.source, "X-Amz-Copy-Source-Range", "bytes=2-7")...).is(200, "")
		require.Contains(t, string(a.body), hexMD5(two[2:8]))
		m.finish(1, hexMD5(two[2:8])).is(200, "")
		var read []string
		if len(c.begin) > 2 {
			read = c.begin
		}
		require.Equal(t, string(two[2:8]), string(w.do("GET", m.key, nil, read...).is(200, "").body), c.name)
	}
}

func TestCustomerEncryptionOfCopies(t *testing.T) {
	w := newWorld(t, setup{start: overTLS}, withKeys(t))
	w.bucket("bucket")
	mine, other := customerKey(sse, 'K'), customerKey(sse, 'O')
	fromMine := customerKey(sseSource, 'K')
	body := string(random(3, 700_000))
	w.do("PUT", "/bucket/mine", []byte(body), mine...).is(200, "")
	w.do("PUT", "/bucket/plain", []byte(body)).is(200, "")
	source := []string{"X-Amz-Copy-Source", "/bucket/mine"}
	w.do("PUT", "/bucket/copy", nil, source...).is(400, "InvalidRequest")
	w.do("PUT", "/bucket/copy", nil, append(customerKey(sseSource, 'O'), source...)...).is(403, "AccessDenied")
	w.do("PUT", "/bucket/copy", nil, append(customerKey(sseSource, 'O'), "X-Amz-Copy-Source", "/bucket/plain")...).is(400, "InvalidRequest")
	require.Equal(t, "(none)", w.content("/bucket/copy"))

	for name, c := range map[string]struct {
		headers, read []string
	}{
		"same key":   {append(append(fromMine, mine...), source...), mine},
		"other key":  {append(append(fromMine, other...), source...), other},
		"to plain":   {append(fromMine, source...), nil},
		"to store":   {append(append(fromMine, sse, "AES256"), source...), nil},
		"from plain": {append(append([]string(nil), mine...), "X-Amz-Copy-Source", "/bucket/plain"), mine},
		"with a sum": {append(append(append(fromMine, other...), "X-Amz-Checksum-Algorithm", "SHA256"), source...), other},
	} {
		a := w.do("PUT", "/bucket/copy", nil, c.headers...).is(200, "")
		require.Contains(t, string(a.body), hexMD5([]byte(body)), name)
		if c.read != nil {
			require.Equal(t, c.read[5], a.header.Get(sse+"-Customer-Key-Md5"), name)
			w.do("GET", "/bucket/copy", nil).is(400, "InvalidRequest")
		}
		got := w.do("GET", "/bucket/copy", nil, append([]string{"X-Amz-Checksum-Mode", "ENABLED"}, c.read...)...).is(200, "")
		require.Equal(t, body, string(got.body), name)
		if name == "with a sum" {
			require.Equal(t, base64SHA256([]byte(body)), got.header.Get("X-Amz-Checksum-Sha256"))
		}
	}
	// Changing the key of an object by copying it onto itself.
	w.do("PUT", "/bucket/mine", nil, append(append(fromMine, other...), source...)...).is(200, "")
	w.do("GET", "/bucket/mine", nil, mine...).is(403, "AccessDenied")
	require.Equal(t, body, string(w.do("GET", "/bucket/mine", nil, other...).is(200, "").body))
}

// Damaged encrypted content causes an error, and none of it is sent.
func TestDamagedEncryption(t *testing.T) {
	w := newWorld(t, withKeys(t), withAll())
	w.bucket("bucket")
	body := random(1, 300_000)
	w.do("PUT", "/bucket/key", body).is(200, "")
	b, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	o, err := w.fs.Stat(t.Context(), b, "key", core.Current)
	require.NoError(t, err)
	e := o.Segments[0].Info.Extents[0]
	for _, at := range []int64{0, 40, 100, 5000} { // magic, number, content
		w.blocks.bad.Store(place{e.Block, e.Offset + at}, nil)
		w.do("GET", "/bucket/key", nil).is(500, "InternalError")
		w.blocks.bad.Delete(place{e.Block, e.Offset + at})
	}
	require.True(t, bytes.Equal(body, w.do("GET", "/bucket/key", nil).is(200, "").body))
}

func TestPresignedEncryption(t *testing.T) {
	w := newWorld(t, withKeys(t))
	w.bucket("bucket")
	r := w.request("PUT", "/bucket/key?x-amz-server-side-encryption=AES256", []byte("a secret"))
	w.signer.Presign(r, time.Minute, w.now())
	require.Equal(t, "AES256", w.send(r).is(200, "").header.Get(sse))
	require.Equal(t, http.StatusOK, w.do("GET", "/bucket/key", nil).status)
	require.NotContains(t, w.stored(), "a secret")
}

// Appended content is encrypted like the object it is appended to, also when segments are merged.
func TestEncryptionOfAppends(t *testing.T) {
	w := newWorld(t, setup{start: overTLS}, withKeys(t))
	w.bucket("bucket")
	mine, other := customerKey(sse, 'K'), customerKey(sse, 'O')
	for name, headers := range map[string][]string{"mine": mine, "store": {sse, "AES256"}} {
		path := "/bucket/" + name
		w.do("PUT", path, []byte("a secret, "), headers...).is(200, "")
		all := "a secret, "
		for i := range 20 {
			piece := fmt.Sprintf("secret %d, ", i)
			if i == 7 {
				piece = string(random(7, 100_000))
			}
			with := append([]string{"X-Amz-Write-Offset-Bytes", fmt.Sprint(len(all))}, headers...)
			if name == "store" && i%2 == 0 {
				with = with[:2] // by default, like the current content
			}
			a := w.do("PUT", path, []byte(piece), with...).is(200, "")
			require.True(t, a.header.Get(sse) == "AES256" || a.header.Get(sse+"-Customer-Key-Md5") == mine[5])
			all += piece
		}
		if name == "mine" {
			for _, bad := range [][]string{nil, other, {sse, "AES256"}} {
				require.GreaterOrEqual(t, w.do("PUT", path, []byte("x"), append([]string{"X-Amz-Write-Offset-Bytes", fmt.Sprint(len(all))}, bad...)...).status, 400)
			}
			w.do("GET", path, nil).is(400, "InvalidRequest")
			require.Equal(t, all, string(w.do("GET", path, nil, mine...).is(200, "").body))
		} else {
			require.Equal(t, all, w.content(path))
		}
	}
	require.NotContains(t, w.stored(), "secret")
	w.put("/bucket/plain", "plain")
	w.do("PUT", "/bucket/plain", []byte("x"), "X-Amz-Write-Offset-Bytes", "5", sse, "AES256").is(400, "InvalidRequest")
	w.do("PUT", "/bucket/plain", []byte("x"), append([]string{"X-Amz-Write-Offset-Bytes", "5"}, mine...)...).is(400, "InvalidRequest")
	require.Equal(t, "plain", w.content("/bucket/plain"))
}

// A move does not change the encryption of an object. A plain object cannot be moved to a bucket with encryption.
func TestEncryptionOfMoves(t *testing.T) {
	w := newWorld(t, setup{start: overTLS}, withKeys(t))
	w.bucket("bucket")
	w.bucket("encrypts")
	w.do("PUT", "/encrypts?encryption", []byte(encryptionRule("AES256", ""))).is(200, "")
	mine := customerKey(sse, 'K')
	w.put("/bucket/plain", "plain")
	w.put("/bucket/store", "store", sse, "AES256")
	w.put("/bucket/mine", "mine", mine...)
	w.do("PUT", "/encrypts/plain", nil, "X-Amz-Move-Source", "/bucket/plain").is(501, "NotImplemented")
	require.Equal(t, "plain", w.content("/bucket/plain"))
	w.do("PUT", "/encrypts/store", nil, "X-Amz-Move-Source", "/bucket/store").is(200, "")
	w.do("PUT", "/encrypts/mine", nil, "X-Amz-Move-Source", "/bucket/mine").is(200, "")
	require.Equal(t, "AES256", w.do("GET", "/encrypts/store", nil).is(200, "").header.Get(sse))
	w.do("GET", "/encrypts/mine", nil).is(400, "InvalidRequest")
	require.Equal(t, "mine", string(w.do("GET", "/encrypts/mine", nil, mine...).is(200, "").body))
}
