package sdk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// TestRedirects: no redirect is followed, so no other host gets a signature, and the error says where the server wanted
// to send the client.
func TestRedirects(t *testing.T) {
	var stolen atomic.Int64
	thief := fake(t, func(http.ResponseWriter, *http.Request) { stolen.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", thief+r.URL.Path)
			switch r.URL.Path {
			case "/b/region":
				w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
				refuse(w, status, "PermanentRedirect")
			case "/b/endpoint":
				w.WriteHeader(status)
				fmt.Fprintf(w, "<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.example.com</Endpoint></Error>")
			default:
				w.WriteHeader(status)
			}
		}))
		_, err := c.Put(t.Context(), "b", "k", strings.NewReader("content"), nil)
		require.ErrorIs(t, err, sdk.ErrRedirect)
		require.ErrorContains(t, err, thief)
		_, err = c.Get(t.Context(), "b", "region", nil)
		require.ErrorIs(t, err, sdk.ErrRedirect)
		require.ErrorContains(t, err, "the bucket is in the region eu-central-1")
		require.Equal(t, "eu-central-1", errorOf(t, err).Region)
		_, err = c.Get(t.Context(), "b", "endpoint", nil)
		require.ErrorIs(t, err, sdk.ErrRedirect)
		require.ErrorContains(t, err, "b.s3.example.com")
		_, err = c.Head(t.Context(), "b", "k", nil)
		require.ErrorIs(t, err, sdk.ErrRedirect)
		res, err := c.Do(t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/b/k"})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, status, res.StatusCode, "the raw mode returns it")
	}
	require.Zero(t, stolen.Load())
}

// TestLyingContent: responses to GetObject that contradict themselves, or the request, are errors.
func TestLyingContent(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		status int
		body   string
		o      *sdk.GetOptions
	}{
		"no length":            {map[string]string{"Transfer-Encoding": "chunked"}, 200, "content", nil},
		"range ignored":        {nil, 200, "content", &sdk.GetOptions{Offset: 2}},
		"another range":        {map[string]string{"Content-Range": "bytes 0-4/7"}, 206, "conte", &sdk.GetOptions{Offset: 2, Length: 5}},
		"no range":             {nil, 206, "ntent", &sdk.GetOptions{Offset: 2}},
		"garbage range":        {map[string]string{"Content-Range": "bytes x"}, 206, "ntent", &sdk.GetOptions{Offset: 2}},
		"range beyond the end": {map[string]string{"Content-Range": "bytes 2-7/7"}, 206, "ntent", &sdk.GetOptions{Offset: 2}},
		"shorter than range":   {map[string]string{"Content-Range": "bytes 2-6/7"}, 206, "nt", &sdk.GetOptions{Offset: 2}},
		"wrong suffix":         {map[string]string{"Content-Range": "bytes 0-1/7"}, 206, "co", &sdk.GetOptions{Suffix: 2}},
		"wrong checksum":       {map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="}, 200, "content", nil},
		"wrong MD5":            {map[string]string{"ETag": `"9dd4e461268c8034f5c8564e155c67a6"`}, 200, "content", nil},
	} {
		client := newClient(t, fake(t, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
			if c.header["Transfer-Encoding"] != "" {
				_ = http.NewResponseController(w).Flush()
			}
		}))
		o, err := client.Get(t.Context(), "b", "k", c.o)
		if err == nil {
			_, err = io.ReadAll(o)
			require.NoError(t, o.Close())
		}
		require.True(t, errors.Is(err, sdk.ErrProtocol) || errors.Is(err, sdk.ErrChecksum), "%s: %v", name, err)
		require.Equal(t, strings.HasPrefix(name, "wrong ") && name != "wrong suffix", errors.Is(err, sdk.ErrChecksum), "%s: %v", name, err)
	}
}

// rawServer reads a request from each connection, and sends something that need not be HTTP.
func rawServer(t testing.TB, send func(net.Conn)) string {
	t.Helper()
	return serveRaw(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 64<<10))
		send(c)
	})
}

// serveRaw starts a server whose connections are served by a function.
func serveRaw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestEndlessBodies: bodies end at the length that was announced, documents at their limit, and headers too.
func TestEndlessBodies(t *testing.T) {
	endless := func(header, body string) string {
		return rawServer(t, func(c net.Conn) {
			_, err := io.WriteString(c, header)
			for piece := []byte(strings.Repeat(body, 1000)); err == nil; {
				_, err = c.Write(piece)
			}
		})
	}
	c := newClient(t, endless("HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"x\"\r\nContent-Length: 10\r\n\r\n", "x"))
	require.Equal(t, "xxxxxxxxxx", readAll(t, c, "b", "k", nil))

	once := func(c *sdk.Config) { c.Retry.Attempts = 1 }
	c = newClient(t, endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n"), once)
	for _, err := range c.List(t.Context(), "b", nil) {
		require.ErrorIs(t, err, sdk.ErrProtocol)
		require.ErrorContains(t, err, "more than 8388608 bytes")
	}
	c = newClient(t, endless("HTTP/1.1 403 Forbidden\r\n\r\n", "<Error>"), once)
	_, err := c.Get(t.Context(), "b", "k", nil)
	require.ErrorContains(t, err, "more than 1048576 bytes")
	require.Less(t, c.Stats().BytesReceived, int64(2<<20))
	c = newClient(t, endless("HTTP/1.1 200 OK\r\n", "X-A: y\r\n"), once)
	_, err = c.Get(t.Context(), "b", "k", nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	c = newClient(t, endless("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "x"), once)
	for _, err := range c.Buckets(t.Context(), "") {
		require.ErrorIs(t, err, sdk.ErrProtocol)
	}
	require.Zero(t, c.Stats().BytesReceived, "the length alone is reason enough")
	c = newClient(t, rawServer(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n") }), once)
	_, err = c.Get(t.Context(), "b", "k", nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
}

// TestCompressedBomb: documents are not decompressed, whatever the server claims.
func TestCompressedBomb(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 64<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			refuse(w, 400, "Asked")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(bomb.Len()))
		_, _ = w.Write(bomb.Bytes())
	}))
	for _, err := range c.List(t.Context(), "b", nil) {
		require.ErrorIs(t, err, sdk.ErrProtocol)
	}
	require.Equal(t, bomb.String(), readAll(t, c, "b", "k", nil), "content is returned as it is stored")
}

// TestLyingListings: circles, gaps and garbage end a listing with an error.
func TestLyingListings(t *testing.T) {
	page := func(token string) string {
		return `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>` + token +
			`</NextContinuationToken><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>`
	}
	next := map[string]string{"": "a", "a": "b", "b": "c", "c": "a"} // a circle of three
	var requests atomic.Int64
	for name, answer := range map[string]func(token string) string{
		"circle":        func(token string) string { return page(next[token]) },
		"same token":    func(string) string { return page("a") },
		"no token":      func(string) string { return page("") },
		"garbage":       func(string) string { return "garbage" },
		"no XML at all": func(string) string { return "" },
		"empty pages": func(string) string {
			return `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>` + strconv.FormatInt(requests.Load(), 10) + `</NextContinuationToken></ListBucketResult>`
		},
		"another document": func(string) string { return `<CopyObjectResult/>` },
	} {
		c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			_, _ = io.WriteString(w, answer(r.URL.Query().Get("continuation-token")))
		}))
		var last error
		entries := 0
		for _, err := range c.List(t.Context(), "b", nil) {
			last = err
			entries++
			require.Less(t, entries, 100, name)
		}
		require.ErrorIs(t, last, sdk.ErrProtocol, name)
	}
	for _, err := range newClient(t, shared).List(t.Context(), "bucket", &sdk.ListOptions{PageSize: 1001}) {
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
}

// TestLyingResults: a success without the document or the values that belong to it is an error.
func TestLyingResults(t *testing.T) {
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/b/put":
			w.Header().Set("X-Amz-Checksum-Crc64nvme", "AAAAAAAAAAA=")
		case r.URL.Path == "/b/md5":
			w.Header().Set("ETag", `"9dd4e461268c8034f5c8564e155c67a6"`)
		case r.URL.Path == "/b/empty":
			_, _ = io.WriteString(w, "\n  <CopyObjectResult></CopyObjectResult>")
		case r.URL.Path == "/b/late":
			_, _ = io.WriteString(w, "<?xml version=\"1.0\"?>\n   <Error><Code>AccessDenied</Code></Error>")
		case r.URL.RawQuery == "delete=":
			_, _ = io.WriteString(w, "<DeleteResult><Deleted><Key>a</Key></Deleted><Deleted><Key>never asked</Key></Deleted></DeleteResult>")
		}
	}))
	_, err := c.Put(t.Context(), "b", "put", strings.NewReader("content"), nil)
	require.ErrorIs(t, err, sdk.ErrChecksum)
	required := newClient(t, c.Endpoint(), func(c *sdk.Config) { c.ChecksumsWhenRequired = true })
	_, err = required.Put(t.Context(), "b", "md5", strings.NewReader("content"), nil)
	require.ErrorIs(t, err, sdk.ErrChecksum)
	from := sdk.Source{Bucket: "b", Key: "from"}
	_, err = c.Copy(t.Context(), from, "b", "empty", nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	_, err = c.Copy(t.Context(), from, "b", "late", nil)
	require.ErrorIs(t, err, sdk.ErrAccessDenied, "an error in a response with the status 200")
	_, err = c.Copy(t.Context(), from, "b", "nothing", nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	var results []sdk.Deleted
	for d, err := range c.DeleteAll(t.Context(), "b", slices.Values([]sdk.ObjectID{{Key: "a"}, {Key: "b"}}), nil) {
		require.NoError(t, err)
		results = append(results, d)
	}
	require.Len(t, results, 2)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, sdk.ErrProtocol)
	require.Equal(t, "b", results[1].Key)
	_, err = c.Append(t.Context(), "b", "append", 5, strings.NewReader("x"), nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	require.ErrorContains(t, err, "cannot append")
	_, err = c.Attributes(t.Context(), "b", "k", nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	_, err = c.Tags(t.Context(), "b", sdk.ObjectID{Key: "k"})
	require.ErrorIs(t, err, sdk.ErrProtocol)
}

// TestDeleteAllRetries: objects that fail for a moment are deleted again, and only they.
func TestDeleteAllRetries(t *testing.T) {
	var asked [][]byte
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, body)
		if len(asked) == 1 {
			_, _ = io.WriteString(w, "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>InternalError</Code></Error><Error><Key>c</Key><Code>AccessDenied</Code></Error></DeleteResult>")
			return
		}
		_, _ = io.WriteString(w, "<DeleteResult><Deleted><Key>b</Key></Deleted></DeleteResult>")
	}))
	failed := map[string]bool{}
	for d, err := range c.DeleteAll(t.Context(), "b", slices.Values([]sdk.ObjectID{{Key: "a"}, {Key: "b"}, {Key: "c"}}), nil) {
		require.NoError(t, err)
		failed[d.Key] = d.Err != nil
	}
	require.Equal(t, map[string]bool{"a": false, "b": false, "c": true}, failed)
	require.Len(t, asked, 2)
	require.NotContains(t, string(asked[1]), "<Key>a</Key>")
}

// TestMovesElsewhere: a server that does not know moves and renames sees a PUT of an empty object that it must refuse.
func TestMovesElsewhere(t *testing.T) {
	direct, bucket := newBucket(t)
	write(t, direct, bucket, "target", "content")
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		q := &sdk.Request{Method: r.Method, Path: r.URL.Path, Header: http.Header{"Content-Md5": r.Header["Content-Md5"]}}
		res, err := direct.Fetch(r.Context(), q) // what such a server understands
		if err != nil {
			panic(err)
		}
		w.WriteHeader(res.Status)
		_, _ = w.Write(res.Body)
	}))
	require.ErrorIs(t, c.Rename(t.Context(), bucket, "from", "target", nil), sdk.ErrNotImplemented)
	_, err := c.Move(t.Context(), sdk.Source{Bucket: bucket, Key: "from"}, bucket, "target", nil)
	require.ErrorIs(t, err, sdk.ErrNotImplemented)
	require.Equal(t, "content", readAll(t, direct, bucket, "target", nil))
}

// TestErrorKinds: each code is of its kind, and so is each status of a response without a document.
func TestErrorKinds(t *testing.T) {
	kinds := map[string]error{
		"NoSuchKey": sdk.ErrNoSuchKey, "NoSuchBucket": sdk.ErrNoSuchBucket, "NoSuchVersion": sdk.ErrNoSuchVersion, "NoSuchUpload": sdk.ErrNoSuchUpload,
		"NoSuchContent": sdk.ErrNoSuchContent, "NoSuchTagSet": sdk.ErrNoSuchConfiguration, "AccessDenied": sdk.ErrAccessDenied,
		"SignatureDoesNotMatch": sdk.ErrSignature, "InvalidAccessKeyId": sdk.ErrInvalidAccessKey, "ExpiredToken": sdk.ErrInvalidToken,
		"RequestTimeTooSkewed": sdk.ErrClockSkew, "PreconditionFailed": sdk.ErrPreconditionFailed, "BucketAlreadyExists": sdk.ErrBucketExists,
		"BucketAlreadyOwnedByYou": sdk.ErrBucketExists, "BucketNotEmpty": sdk.ErrBucketNotEmpty, "QuotaExceeded": sdk.ErrQuotaExceeded,
		"InsufficientStorage": sdk.ErrInsufficientStorage, "InvalidRange": sdk.ErrInvalidRange, "InvalidWriteOffset": sdk.ErrInvalidOffset,
		"InvalidArgument": sdk.ErrInvalidArgument, "InvalidPart": sdk.ErrInvalidPart, "NotImplemented": sdk.ErrNotImplemented, "SlowDown": sdk.ErrSlowDown,
		"PermanentRedirect": sdk.ErrRedirect, "BadDigest": sdk.ErrChecksum,
	}
	c := newClient(t, fake(t, func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Base(r.URL.Path)
		if status, err := strconv.Atoi(name); err == nil {
			w.WriteHeader(status)
			return
		}
		refuse(w, 400, name)
	}), func(c *sdk.Config) { c.Retry.Attempts = 1 })
	for code, kind := range kinds {
		_, err := c.Get(t.Context(), "b", code, nil)
		require.ErrorIs(t, err, kind)
		for other, k := range kinds {
			if k != kind {
				require.NotErrorIs(t, err, k, "%s is not %s", code, other)
			}
		}
		require.Contains(t, kind.Error(), "sdk: ")
	}
	for status, kind := range map[string]error{"304": sdk.ErrNotModified, "403": sdk.ErrAccessDenied, "404": sdk.ErrNoSuchKey, "405": sdk.ErrNotImplemented,
		"412": sdk.ErrPreconditionFailed, "416": sdk.ErrInvalidRange, "501": sdk.ErrNotImplemented, "503": sdk.ErrSlowDown, "507": sdk.ErrInsufficientStorage} {
		_, err := c.Head(t.Context(), "b", status, nil)
		require.ErrorIs(t, err, kind, status)
	}
	_, err := c.HeadBucket(t.Context(), "404")
	require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
}

// TestTLS: certificates are verified, an error of one is not tried again, and customers' keys are sent only over TLS.
func TestTLS(t *testing.T) {
	s, stop, err := open(t.TempDir(), true, "ORCAS_BUCKETS=secure")
	require.NoError(t, err)
	t.Cleanup(stop)
	c := newClient(t, s.Endpoint())
	_, err = c.Put(t.Context(), "secure", "k", strings.NewReader("content"), nil)
	var certificate *tls.CertificateVerificationError
	require.ErrorAs(t, err, &certificate)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.Equal(t, 1, errorOf(t, err).Attempts)
	require.False(t, errorOf(t, err).Uncertain)

	c = newClient(t, s.Endpoint(), func(c *sdk.Config) { c.TLS = &tls.Config{RootCAs: roots(t, s.Endpoint()), ServerName: "localhost"} })
	key := bytes.Repeat([]byte{7}, 32)
	_, err = c.Put(t.Context(), "secure", "k", strings.NewReader("content"), &sdk.PutOptions{Properties: sdk.Properties{Encryption: sdk.Encryption{CustomerKey: key}}})
	require.NoError(t, err)
	_, err = c.Get(t.Context(), "secure", "k", nil)
	require.Error(t, err)
	require.Equal(t, "content", readAll(t, c, "secure", "k", &sdk.GetOptions{CustomerKey: key}))
	_, err = c.Copy(t.Context(), sdk.Source{Bucket: "secure", Key: "k"}, "secure", "copy", &sdk.CopyOptions{SourceCustomerKey: key})
	require.NoError(t, err)
	require.Equal(t, "content", readAll(t, c, "secure", "copy", nil))

	plain := "http://" + strings.TrimPrefix(s.Endpoint(), "https://")
	_, err = newClient(t, plain).Head(t.Context(), "secure", "k", nil)
	require.Error(t, err, "an https server at an http endpoint")
	_, err = newClient(t, "https://"+strings.TrimPrefix(shared, "http://")).Head(t.Context(), "bucket", "k", nil)
	require.ErrorIs(t, err, sdk.ErrNetwork)
	require.Equal(t, 1, errorOf(t, err).Attempts, "an http server at an https endpoint stays one")
}

// roots returns the certificate of a server, as if it had been installed.
func roots(t testing.TB, endpoint string) *x509.CertPool {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(endpoint, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec
	require.NoError(t, err)
	defer conn.Close()
	pool := x509.NewCertPool()
	for _, c := range conn.ConnectionState().PeerCertificates {
		pool.AddCert(c)
	}
	return pool
}

// recorder is a transport that records requests and answers them with 200.
type recorder struct{ requests []*http.Request }

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	r.requests = append(r.requests, q)
	w := httptest.NewRecorder()
	w.Header().Set("ETag", `"a"`)
	w.WriteHeader(200)
	return w.Result(), nil
}

// TestAddresses: the bucket is in the path, or in the host name where it may be.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		config            sdk.Config
		bucket, key       string
		host, requestPath string
	}{
		{sdk.Config{Endpoint: "http://h:1"}, "b", "k/ä", "h:1", "/b/k/%C3%A4"},
		{sdk.Config{Endpoint: "http://h:80"}, "b", "a//b/../c", "h", "/b/a//b/../c"},
		{sdk.Config{Endpoint: "http://h", VirtualHost: true}, "b.c", "+?#", "b.c.h", "/%2B%3F%23"},
		{sdk.Config{Endpoint: "https://h", VirtualHost: true}, "b.c", "/k", "h", "/b.c//k"},
		{sdk.Config{Endpoint: "http://h", VirtualHost: true}, "UPPER_CASE", "k", "h", "/UPPER_CASE/k"},
		{sdk.Config{}, "b", "k", "b.s3.us-east-1.amazonaws.com", "/k"},
		{sdk.Config{Region: "eu-west-1"}, "b", "k", "b.s3.eu-west-1.amazonaws.com", "/k"},
		{sdk.Config{Endpoint: "http://[::1]:9000/"}, "b", "k", "[::1]:9000", "/b/k"},
	} {
		var r recorder
		c.config.Transport = &r
		client, err := sdk.New(c.config)
		require.NoError(t, err)
		_, err = client.Put(t.Context(), c.bucket, c.key, nil, nil)
		require.NoError(t, err)
		require.Equal(t, c.host, r.requests[0].Host)
		require.Equal(t, c.requestPath, r.requests[0].URL.RequestURI())
		require.Equal(t, c.config.Transport, &r)
	}
	for _, endpoint := range []string{"localhost:9000", "ftp://h", "http://", "http://user:password@h", "http://h/path", "http://h?a=b", "http://h h"} {
		_, err := sdk.New(sdk.Config{Endpoint: endpoint})
		require.ErrorContains(t, err, "Config.Endpoint", endpoint)
	}
	_, err := sdk.New(sdk.Config{Region: "a/b"})
	require.ErrorContains(t, err, "Config.Region")
	_, err = sdk.New(sdk.Config{Connections: -1})
	require.ErrorContains(t, err, "Config.Connections")
}

// TestPayloads: small bodies over http are signed, all others have a checksum.
func TestPayloads(t *testing.T) {
	hashes := func(endpoint string, size int) (string, string) {
		var r recorder
		c := newClient(t, endpoint, func(c *sdk.Config) { c.Transport = &r })
		_, err := c.Put(t.Context(), "b", "k", bytes.NewReader(make([]byte, size)), nil)
		require.NoError(t, err)
		h := r.requests[0].Header
		return h.Get("X-Amz-Content-Sha256"), h.Get("X-Amz-Checksum-Crc64nvme")
	}
	hash, sum := hashes("http://h", 1<<20)
	require.Len(t, hash, 64)
	require.NotEmpty(t, sum)
	for _, c := range []struct {
		endpoint string
		size     int
	}{{"http://h", 1<<20 + 1}, {"https://h", 1}} {
		hash, sum = hashes(c.endpoint, c.size)
		require.Equal(t, "UNSIGNED-PAYLOAD", hash)
		require.NotEmpty(t, sum)
	}
}

// changing are credentials that are replaced, and that fail.
type changing struct {
	keys sdk.Keys
	err  error
}

func (c *changing) Get(context.Context) (sdk.Keys, error) { return c.keys, c.err }

// TestCredentials: keys may change at any time, anonymous requests are not signed, and a failure of the source of keys
// is reported.
func TestCredentials(t *testing.T) {
	_, bucket := newBucket(t)
	keys := &changing{keys: sdk.Keys{AccessKey: "x", SecretKey: "y"}}
	c := newClient(t, shared, func(c *sdk.Config) { c.Credentials = keys })
	_, err := c.Put(t.Context(), bucket, "k", nil, nil)
	require.ErrorIs(t, err, sdk.ErrInvalidAccessKey)
	keys.keys = sdk.Keys{AccessKey: access, SecretKey: "wrong"}
	_, err = c.Put(t.Context(), bucket, "k", nil, nil)
	require.ErrorIs(t, err, sdk.ErrSignature)
	keys.keys = sdk.Keys{AccessKey: access, SecretKey: secret, SessionToken: "token"}
	_, err = c.Put(t.Context(), bucket, "k", nil, nil)
	require.ErrorIs(t, err, sdk.ErrInvalidToken)
	keys.keys.SessionToken = ""
	_, err = c.Put(t.Context(), bucket, "k", nil, nil)
	require.NoError(t, err)
	keys.keys = sdk.Keys{}
	_, err = c.Put(t.Context(), bucket, "k", nil, nil)
	require.ErrorIs(t, err, sdk.ErrAccessDenied, "anonymous")
	keys.err = os.ErrPermission
	_, err = c.Put(t.Context(), bucket, "k", nil, nil)
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "credentials")
	_, err = c.PresignGet(bucket, "k", time.Minute, nil)
	require.ErrorIs(t, err, os.ErrPermission)
}
