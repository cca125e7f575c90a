package sigv4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

const (
	access = "AKIDINTEROP"
	secret = "a secret with / and + that is longer than sixty-four bytes, so that HMAC hashes its key"
	region = "eu-central-1"
)

func lookup(_ context.Context, accessKey, _ string) (sigv4.Credential, error) {
	if accessKey != access {
		return sigv4.Credential{}, nil
	}
	return sigv4.Credential{SecretKey: secret}, nil
}

// seen is a request as the server decoded it.
type seen struct {
	path     string
	mode     sigv4.PayloadMode
	content  string
	trailers map[string]string
	err      error
}

// serve starts a server that verifies requests, reads their bodies, and responds with 200 or 403.
func serve(t *testing.T, start func(*httptest.Server)) (*httptest.Server, func() seen) {
	results := make(chan seen, 100)
	v := &sigv4.Verifier{Region: region, Lookup: lookup}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got seen
		got.path, _ = sigv4.Path(r)
		a, err := v.Verify(r)
		if err == nil {
			got.mode = a.Mode
			var b *sigv4.Body
			if b, err = a.Body(r); err == nil {
				var content []byte
				content, err = io.ReadAll(b)
				got.content, got.trailers = string(content), map[string]string{}
				for _, name := range b.Announced() {
					got.trailers[name] = b.Trailer(name)
				}
			}
		}
		if got.err = err; err != nil {
			w.WriteHeader(http.StatusForbidden)
		}
		results <- got
	}))
	start(srv)
	t.Cleanup(srv.Close)
	return srv, func() seen { return <-results }
}

var oddKeys = []string{
	"plain", "with space", "a+b", "100%", "%41", "%2F", "a//b", "//a", "/", "a/../b", "..", "../..", ".", "./a", "a/", "a/./",
	"ключ", "日本語/😀", "e\u0301", "tab\there", "new\nline", "quote\"'`", "a&b=c?d#e", "semi;colon:at@", "~-._!*'()", "$,[]{}|\\^<>",
	"C:\\x", strings.Repeat("k", 1024), strings.Repeat("ü", 512), strings.Repeat("/", 100),
}

// escape encodes a path as AWS clients do.
func escape(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(path), "+", "%20"), "%2F", "/")
}

func request(t *testing.T, method, base, key, query string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, base+"/bucket/"+escape(key)+query, body)
	require.NoError(t, err)
	return r
}

func do(t *testing.T, c *http.Client, r *http.Request) int {
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// Requests with odd keys and queries are accepted, whether they are signed by the SDK or by the Signer, in the header
// or in the query, and sent over HTTP/1.1 or HTTP/2.
func TestOddKeys(t *testing.T) {
	queries := []string{"", "?uploads", "?versionId=null&x-id=GetObject", "?prefix=a%2Fb+c%20d&delimiter=%2F&marker=", "?b=2&b=1&a-b=3&a=4&a=&%C3%BC=%E2%82%AC", "?list-type=2&continuation-token=1%2Bx%3D%3D&&"}
	ours := &sigv4.Signer{AccessKey: access, SecretKey: secret, Region: region}
	theirs := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	creds := aws.Credentials{AccessKeyID: access, SecretAccessKey: secret}
	for name, start := range map[string]func(*httptest.Server){
		"http/1.1": (*httptest.Server).Start,
		"http/2":   func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		srv, result := serve(t, start)
		check := func(r *http.Request, key, how string) {
			status := do(t, srv.Client(), r)
			got := result()
			require.NoError(t, got.err, "%s, %s: %q %s", name, how, key, r.URL.RawQuery)
			require.Equal(t, 200, status)
			require.Equal(t, "/bucket/"+key, got.path)
			bucket, k := sigv4.Split(got.path)
			require.Equal(t, "bucket", bucket)
			require.Equal(t, key, k)
		}
		for i, key := range oddKeys {
			query := queries[i%len(queries)]
			require.Equal(t, escape(key), sigv4.Escape(key))
			require.Equal(t, strings.ReplaceAll(escape(key), "/", "%2F"), sigv4.EscapeQuery(key))
			r := request(t, "GET", srv.URL, key, query, nil)
			ours.Sign(r, sigv4.EmptySHA256, time.Now())
			check(r, key, "ours")

			r = request(t, "GET", srv.URL, key, query, nil)
			ours.Presign(r, time.Hour, time.Now())
			check(r, key, "ours, presigned")

			r = request(t, "GET", srv.URL, key, query, nil)
			r.Header.Set("X-Amz-Content-Sha256", sigv4.EmptySHA256)
			r.Header.Set("X-Amz-Meta-Text", "  several   spaces,  and a comma ")
			require.NoError(t, theirs.SignHTTP(context.Background(), creds, r, sigv4.EmptySHA256, "s3", region, time.Now()))
			check(r, key, "theirs")

			r = request(t, "GET", srv.URL, key, query, nil)
			q := r.URL.Query()
			q.Set("X-Amz-Expires", "60")
			r.URL.RawQuery = q.Encode()
			signed, _, err := theirs.PresignHTTP(context.Background(), creds, r, sigv4.UnsignedPayload, "s3", region, time.Now())
			require.NoError(t, err)
			r, err = http.NewRequest("GET", signed, nil)
			require.NoError(t, err)
			check(r, key, "theirs, presigned")
		}
	}
}

// Uploads by the client of the SDK, over plain HTTP and over TLS.
func TestSDKUploads(t *testing.T) {
	for _, secure := range []bool{false, true} {
		srv, result := serve(t, func(s *httptest.Server) {
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
		})
		client := s3.New(s3.Options{
			Region: region, BaseEndpoint: aws.String(srv.URL), UsePathStyle: true, HTTPClient: srv.Client(),
			RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
			Credentials:                credentials.NewStaticCredentialsProvider(access, secret, ""),
		})
		for _, size := range []int{0, 1, 65536, 200000} {
			content := bytes.Repeat([]byte("x"), size)
			for _, algorithm := range []types.ChecksumAlgorithm{"", types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmSha256} {
				_, err := client.PutObject(context.Background(), &s3.PutObjectInput{
					Bucket: aws.String("bucket"), Key: aws.String("a key/ü+%"), Body: bytes.NewReader(content), ChecksumAlgorithm: algorithm,
					ContentEncoding: aws.String("gzip"), Metadata: map[string]string{"name": "some  value"},
				})
				require.NoError(t, err)
				got := result()
				require.NoError(t, got.err)
				require.Equal(t, "/bucket/a key/ü+%", got.path)
				require.Equal(t, string(content), got.content)
				want := sigv4.PayloadSHA256
				if secure && size > 0 {
					want = sigv4.PayloadUnsignedTrailer
					require.Len(t, got.trailers, 1)
				} else if secure {
					want = sigv4.PayloadUnsigned
				}
				require.Equal(t, want, got.mode)
				for name, value := range got.trailers {
					a, ok := checksum.FromHeader(name)
					require.True(t, ok)
					require.Equal(t, checksum.Encode(checksum.Sum(a, content)), value)
				}
			}
		}
	}
}

// The Signer sends bodies in every mode over real connections.
func TestModesOverConnections(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"http/1.1": (*httptest.Server).Start,
		"http/2":   func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		srv, result := serve(t, start)
		signer := &sigv4.Signer{AccessKey: access, SecretKey: secret, Region: region, SecurityToken: "a token"}
		for _, size := range []int{0, 1, 1000, 65535, 65536, 65537, 300000} {
			content := strings.Repeat("0123456789", size/10+1)[:size]
			sum := sha256.Sum256([]byte(content))
			for _, hash := range []string{hex.EncodeToString(sum[:]), sigv4.UnsignedPayload} {
				r := request(t, "PUT", srv.URL, "key", "", strings.NewReader(content))
				signer.Sign(r, hash, time.Now())
				require.Equal(t, 200, do(t, srv.Client(), r), name)
				require.Equal(t, content, result().content)
			}
			for _, mode := range []sigv4.PayloadMode{sigv4.PayloadSigned, sigv4.PayloadSignedTrailer, sigv4.PayloadUnsignedTrailer} {
				c := sigv4.Chunked{Mode: mode, Length: int64(size), ChunkSize: 8192}
				crc := checksum.Encode(checksum.Sum(checksum.CRC32, []byte(content)))
				if mode.Trailer() {
					c.Trailers = []sigv4.Trailer{{Name: "x-amz-checksum-crc32", Size: len(crc), Value: func() string { return crc }}}
				}
				r := request(t, "PUT", srv.URL, "key", "?partNumber=1&uploadId=x", nil)
				signer.SignChunked(r, strings.NewReader(content), c, time.Now())
				require.Equal(t, 200, do(t, srv.Client(), r), "%s %s %d", name, mode, size)
				got := result()
				require.Equal(t, mode, got.mode)
				require.Equal(t, content, got.content)
				if mode.Trailer() {
					require.Equal(t, crc, got.trailers["x-amz-checksum-crc32"])
				}
			}
		}
	}
}

// If a client disconnects in the middle of a body, reading the body returns an error, never io.EOF.
func TestClientDisconnects(t *testing.T) {
	srv, result := serve(t, (*httptest.Server).Start)
	signer := &sigv4.Signer{AccessKey: access, SecretKey: secret, Region: region}
	for _, mode := range []sigv4.PayloadMode{sigv4.PayloadUnsigned, sigv4.PayloadSigned, sigv4.PayloadUnsignedTrailer} {
		r := request(t, "PUT", srv.URL, "key", "", nil)
		short := io.MultiReader(strings.NewReader(strings.Repeat("x", 70000)), &failing{})
		if mode.Chunked() {
			signer.SignChunked(r, short, sigv4.Chunked{Mode: mode, Length: 100000}, time.Now())
		} else {
			r.Body, r.ContentLength = io.NopCloser(short), 100000
			signer.Sign(r, sigv4.UnsignedPayload, time.Now())
		}
		_, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{}, DisableKeepAlives: true}}).Do(r)
		require.Error(t, err)
		got := result()
		var e *sigv4.Error
		require.ErrorAs(t, got.err, &e)
		require.Equal(t, sigv4.IncompleteBody, e.Code)
		require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
		require.Less(t, len(got.content), 100000)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("the client disconnects") }
