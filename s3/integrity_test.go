package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

// TestPayloadModes sends content in every payload mode, over HTTP, HTTPS and HTTP/2.
func TestPayloadModes(t *testing.T) {
	for name, start := range map[string]setup{"http": {}, "https": {start: overTLS}, "http2": {start: overHTTP2}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start)
			w.bucket("bucket")
			sizes := []int{0, 1, 4096, 65_537, 5 << 20}
			if testing.Short() {
				sizes = []int{0, 4096, 300_000}
			}
			for _, size := range sizes {
				body := random(byte(size), size)
				etag := hexMD5(body)
				for _, alg := range []checksum.Algorithm{checksum.CRC32, checksum.CRC64NVME, checksum.SHA256} {
					for mode := sigv4.PayloadSHA256; mode <= sigv4.PayloadUnsignedTrailer; mode++ {
						key := fmt.Sprintf("/bucket/%d-%v-%d", size, alg, mode)
						a := w.send(w.signed(key, body, mode, alg)).is(200, "")
						sum := checksum.Encode(checksum.Sum(alg, body))
						require.Equal(t, sum, a.header.Get(alg.HeaderKey()))
						require.Equal(t, "FULL_OBJECT", a.header.Get("X-Amz-Checksum-Type"))
						require.Equal(t, etag, a.etag())
						a = w.do("GET", key, nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
						require.True(t, bytes.Equal(body, a.body), key)
						require.Equal(t, sum, a.header.Get(alg.HeaderKey()))
						require.Empty(t, a.header.Get("Content-Encoding"))
					}
				}
			}
			// Presigned requests, with and without signed headers.
			r := w.request("PUT", "/bucket/presigned", []byte("content"))
			r.Header.Set("X-Amz-Meta-One", "1")
			w.signer.Presign(r, time.Minute, w.now())
			w.send(r).is(200, "")
			r = w.request("GET", "/bucket/presigned?response-content-type=text/x", nil)
			w.signer.Presign(r, time.Minute, w.now())
			a := w.send(r).is(200, "")
			require.Equal(t, "content", string(a.body))
			require.Equal(t, "1", a.header.Get("X-Amz-Meta-One"))
			require.Equal(t, "text/x", a.header.Get("Content-Type"))
			r = w.request("GET", "/bucket/presigned", nil)
			w.signer.Presign(r, time.Minute, w.now().Add(-2*time.Minute))
			w.send(r).is(403, "AccessDenied")
		})
	}
}

// signed returns a signed PUT in a payload mode, with a checksum in the trailer if the mode has one, else in a header.
func (w *world) signed(key string, body []byte, mode sigv4.PayloadMode, alg checksum.Algorithm) *http.Request {
	w.t.Helper()
	r := w.request("PUT", key, body)
	sum := checksum.Encode(checksum.Sum(alg, body))
	if !mode.Trailer() {
		r.Header.Set(alg.HeaderKey(), sum)
	}
	switch {
	case mode == sigv4.PayloadSHA256:
		w.signer.Sign(r, hash(body), w.now())
	case mode == sigv4.PayloadUnsigned:
		w.signer.Sign(r, sigv4.UnsignedPayload, w.now())
	default:
		c := sigv4.Chunked{Mode: mode, Length: int64(len(body))}
		if mode.Trailer() {
			c.Trailers = []sigv4.Trailer{{Name: alg.Header(), Size: len(sum), Value: func() string { return sum }}}
		}
		w.signer.SignChunked(r, bytes.NewReader(body), c, w.now())
	}
	return r
}

// TestHoistedHeaders sends x-amz-* headers in the query of a presigned URL, where SDKs put them.
func TestHoistedHeaders(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	presigned := func(method, p string, body string) *response {
		r := w.request(method, p, []byte(body))
		w.signer.Presign(r, time.Minute, w.now())
		return w.send(r)
	}
	presigned("PUT", "/bucket/key?x-amz-storage-class=STANDARD_IA&x-amz-acl=private&X-Amz-Meta-A=1", "content").is(200, "")
	a := presigned("HEAD", "/bucket/key?X-Amz-Checksum-Mode=ENABLED", "").is(200, "")
	require.Equal(t, "STANDARD_IA", a.header.Get("X-Amz-Storage-Class"))
	require.Equal(t, "1", a.header.Get("X-Amz-Meta-A"))
	require.NotEmpty(t, a.header.Get("X-Amz-Checksum-Crc64nvme"))
	presigned("PUT", "/bucket/key?x-amz-acl=public-read", "other").is(400, "AccessControlListNotSupported")
	presigned("PUT", "/bucket/key?x-amz-server-side-encryption=AES256", "other").is(501, "NotImplemented")
	presigned("GET", "/bucket/key?x-amz-expected-bucket-owner=9", "").is(403, "AccessDenied")
	require.Equal(t, "content", w.content("/bucket/key"))
	// SDKs sign the checksum of the empty body that they have at that time. It must not be compared with the body that
	// is sent.
	presigned("PUT", "/bucket/key?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32", "sent later").is(200, "")
	require.Equal(t, "sent later", w.content("/bucket/key"))
}

func TestEveryAlgorithm(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	body := random(7, 100_000)
	for _, alg := range checksum.All() {
		sum := checksum.Encode(checksum.Sum(alg, body))
		a := w.do("PUT", "/bucket/key", body, alg.HeaderKey(), sum, "X-Amz-Sdk-Checksum-Algorithm", alg.Name()).is(200, "")
		require.Equal(t, sum, a.header.Get(alg.HeaderKey()), alg)
		a = w.do("HEAD", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED").is(200, "")
		require.Equal(t, sum, a.header.Get(alg.HeaderKey()), alg)
		require.Empty(t, w.do("GET", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED", "Range", "bytes=0-9").is(206, "").header.Get(alg.HeaderKey()))
		wrong := checksum.Encode(checksum.Sum(alg, []byte("other")))
		w.do("PUT", "/bucket/key", []byte("damaged"), alg.HeaderKey(), wrong).is(400, "BadDigest")
		w.do("PUT", "/bucket/key", []byte("damaged"), alg.HeaderKey(), sum[1:]).is(400, "InvalidRequest")
		require.Equal(t, string(body), w.content("/bucket/key"))
	}
	// If the client does not send a checksum, the server computes one.
	w.put("/bucket/key", "content")
	a := w.do("GET", "/bucket/key", nil, "X-Amz-Checksum-Mode", "ENABLED")
	require.Equal(t, checksum.Encode(checksum.Sum(checksum.CRC64NVME, []byte("content"))), a.header.Get("X-Amz-Checksum-Crc64nvme"))
}

// TestSpoiltContent checks that every kind of damaged content is refused with its code, and does not change the key.
func TestSpoiltContent(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "before")
	var upload struct {
		UploadID string `xml:"UploadId"`
	}
	w.do("POST", "/bucket/key?uploads", nil).is(200, "").parse(&upload)
	for _, target := range []string{"/bucket/key", "/bucket/new", "/bucket/key?partNumber=1&uploadId=" + upload.UploadID} {
		for _, size := range []int{10, 300_000} {
			body := random(1, size)
			other := bytes.Clone(body)
			other[size/2] ^= 1
			w.do("PUT", target, body, "Content-Md5", md5Of(other)).is(400, "BadDigest")
			w.do("PUT", target, body, "Content-Md5", "short").is(400, "InvalidDigest")
			w.do("PUT", target, body, "X-Amz-Checksum-Crc32", checksum.Encode(checksum.Sum(checksum.CRC32, other))).is(400, "BadDigest")
			w.do("PUT", target, body, "X-Amz-Checksum-Crc33", "AAAAAA==").is(400, "InvalidRequest")
			w.do("PUT", target, body, "X-Amz-Sdk-Checksum-Algorithm", "CRC32").is(400, "InvalidRequest")

			r := w.request("PUT", target, body)
			w.signer.Sign(r, hash(other), w.now())
			w.send(r).is(400, "XAmzContentSHA256Mismatch")

			// Signed chunks that are changed in transit.
			r = w.signed(target, body, sigv4.PayloadSigned, checksum.CRC32)
			r.Body = &flipper{ReadCloser: r.Body, at: 90} // after the header of the first chunk
			w.send(r).is(403, "SignatureDoesNotMatch")
			// A trailer with a wrong checksum, or without a checksum.
			for mode := sigv4.PayloadSignedTrailer; mode <= sigv4.PayloadUnsignedTrailer; mode++ {
				for value, code := range map[string]string{checksum.Encode(checksum.Sum(checksum.CRC32, other)): "BadDigest", "nonsense": "InvalidRequest"} {
					r := w.request("PUT", target, nil)
					w.signer.SignChunked(r, bytes.NewReader(body), sigv4.Chunked{Mode: mode, Length: int64(size), Trailers: []sigv4.Trailer{
						{Name: "x-amz-checksum-crc32", Size: len(value), Value: func() string { return value }},
					}}, w.now())
					if a := w.send(r).is(400, code); code == "InvalidRequest" {
						a.hasMessage("Value for x-amz-checksum-crc32 trailing header is invalid.")
					}
				}
				r := w.request("PUT", target, nil, "X-Amz-Trailer", "x-amz-checksum-crc32")
				w.signer.SignChunked(r, bytes.NewReader(body), sigv4.Chunked{Mode: mode, Length: int64(size)}, w.now())
				r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
				a := w.send(r)
				require.GreaterOrEqual(t, a.status, 400)
			}
		}
	}
	require.Equal(t, "before", w.content("/bucket/key"))
	require.Equal(t, "(none)", w.content("/bucket/new"))
	require.NotContains(t, string(w.do("GET", "/bucket/key?uploadId="+upload.UploadID, nil).is(200, "").body), "<Part>")
}

// flipper is a reader that flips one bit.
type flipper struct {
	io.ReadCloser
	at, seen int64
}

func (f *flipper) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if i := f.at - f.seen; i >= 0 && i < int64(n) {
		p[i] ^= 1
	}
	f.seen += int64(n)
	return n, err
}
