package sdk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// The benchmarks compare this package with aws-sdk-go-v2 at the same server, which is in the same process. The figures
// include the server: it does the same for both, except that aws-sdk-go-v2 sends an aws-chunked body with a trailer over
// https, and a checksum in the header over http. BenchmarkClient has a server that does nothing, so its figures are
// nearly those of the clients alone.
//
//	go test -run ^$ -bench 'Put|Get|List|Client' -benchmem ./sdk

// store is what the benchmarks do.
type store struct {
	put  func(ctx context.Context, key string, content []byte) error
	get  func(ctx context.Context, key string, buf []byte) error
	list func(ctx context.Context) (int, error)
}

// stores returns a store for each SDK, with the bucket at an endpoint.
func stores(b *testing.B, endpoint, bucket string) map[string]store {
	own := newClient(b, endpoint)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	b.Cleanup(transport.CloseIdleConnections)
	amazon := s3.New(s3.Options{BaseEndpoint: aws.String(endpoint), Region: "us-east-1", UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, "")})
	return map[string]store{
		"orcas": {
			put: func(ctx context.Context, key string, content []byte) error {
				_, err := own.Put(ctx, bucket, key, bytes.NewReader(content), nil)
				return err
			},
			get: func(ctx context.Context, key string, buf []byte) error {
				o, err := own.Get(ctx, bucket, key, nil)
				if err != nil {
					return err
				}
				defer o.Close()
				return readFull(o, buf)
			},
			list: func(ctx context.Context) (n int, err error) {
				for _, err := range own.List(ctx, bucket, &sdk.ListOptions{Prefix: "list/"}) {
					if err != nil {
						return n, err
					}
					n++
				}
				return n, nil
			},
		},
		"aws-sdk-go-v2": {
			put: func(ctx context.Context, key string, content []byte) error {
				_, err := amazon.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(content)})
				return err
			},
			get: func(ctx context.Context, key string, buf []byte) error {
				o, err := amazon.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
				if err != nil {
					return err
				}
				defer o.Body.Close()
				return readFull(o.Body, buf)
			},
			list: func(ctx context.Context) (n int, err error) {
				pages := s3.NewListObjectsV2Paginator(amazon, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String("list/")})
				for pages.HasMorePages() {
					page, err := pages.NextPage(ctx)
					if err != nil {
						return n, err
					}
					n += len(page.Contents)
				}
				return n, nil
			},
		},
	}
}

// readFull reads exactly the bytes of buf, and then the end.
func readFull(r io.Reader, buf []byte) error {
	if _, err := io.ReadFull(r, buf); err != nil {
		return err
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("expected the end, found %d bytes and %w", n, err)
	}
	return nil
}

// each runs a benchmark for each SDK.
func each(b *testing.B, endpoint, bucket string, run func(b *testing.B, s store)) {
	all := stores(b, endpoint, bucket)
	for _, name := range []string{"orcas", "aws-sdk-go-v2"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, all[name])
		})
	}
}

func newBenchBucket(b *testing.B) string {
	_, bucket := newBucket(b)
	return bucket
}

// BenchmarkPut writes objects of 4 KiB, one after another.
func BenchmarkPut(b *testing.B) {
	content := noise(4096)
	each(b, shared, newBenchBucket(b), func(b *testing.B, s store) {
		for i := 0; b.Loop(); i++ {
			require.NoError(b, s.put(b.Context(), fmt.Sprintf("put/%d", i), content))
		}
	})
}

// BenchmarkGet reads an object of 4 KiB.
func BenchmarkGet(b *testing.B) {
	bucket := newBenchBucket(b)
	write(b, newClient(b, shared), bucket, "get", string(noise(4096)))
	buf := make([]byte, 4096)
	each(b, shared, bucket, func(b *testing.B, s store) {
		for b.Loop() {
			require.NoError(b, s.get(b.Context(), "get", buf))
		}
	})
}

// BenchmarkList lists 1,000 keys.
func BenchmarkList(b *testing.B) {
	bucket := newBenchBucket(b)
	c := newClient(b, shared)
	for i := range 1000 {
		write(b, c, bucket, fmt.Sprintf("list/%06d", i), "x")
	}
	each(b, shared, bucket, func(b *testing.B, s store) {
		for b.Loop() {
			n, err := s.list(b.Context())
			require.NoError(b, err)
			require.Equal(b, 1000, n)
		}
	})
}

// BenchmarkClient puts and gets 4 KiB at a server that allocates nothing, so the figures are those of the client,
// including net/http.
func BenchmarkClient(b *testing.B) {
	content := noise(4096)
	each(b, constant(b, content), "bucket", func(b *testing.B, s store) {
		buf := make([]byte, len(content))
		b.Run("put", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, s.put(b.Context(), "key", content))
			}
		})
		b.Run("get", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, s.get(b.Context(), "key", buf))
			}
		})
	})
}

// TestAllocations: Put and Get of 4 KiB need fewer than 60 allocations, including those of net/http.
func TestAllocations(t *testing.T) {
	content := noise(4096)
	c := newClient(t, constant(t, content))
	buf := make([]byte, len(content))
	put := testing.AllocsPerRun(200, func() {
		_, err := c.Put(t.Context(), "bucket", "key", bytes.NewReader(content), nil)
		require.NoError(t, err)
	})
	get := testing.AllocsPerRun(200, func() {
		o, err := c.Get(t.Context(), "bucket", "key", nil)
		require.NoError(t, err)
		require.NoError(t, readFull(o, buf))
		require.NoError(t, o.Close())
	})
	t.Log(put, get)
	require.Less(t, put, 60.0+poolsDrop)
	require.Less(t, get, 60.0+poolsDrop)
}

// constant starts a server that reads requests, of which a PUT has a body as long as content, and writes the same
// responses again and again, without an allocation.
func constant(t testing.TB, content []byte) string {
	headers := "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nLast-Modified: Tue, 24 Nov 2026 12:00:00 GMT\r\n"
	stored := []byte(headers + "Content-Length: 0\r\n\r\n")
	object := append([]byte(headers+"Content-Length: 4096\r\n\r\n"), content...)
	require.Len(t, content, 4096)
	return serveRaw(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for n := 0; ; {
			end := bytes.Index(buf[:n], []byte("\r\n\r\n"))
			response := object
			if size := end + 4 + len(content); end >= 0 && buf[0] == 'P' {
				response = stored
				if end = size; n < size {
					end = -1
				}
			} else if end >= 0 {
				end += 4
			}
			if end >= 0 {
				n = copy(buf, buf[end:n])
				if _, err := c.Write(response); err != nil {
					return
				}
				continue
			}
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
		}
	})
}
