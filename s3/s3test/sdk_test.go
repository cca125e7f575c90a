package s3test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// newSDK returns an SDK client with the default behavior, except that it does not retry.
func newSDK(t *T, change ...func(*s3.Options)) *s3.Client {
	o := s3.Options{
		BaseEndpoint: aws.String(t.endpoint.String()), Region: t.region, UsePathStyle: true, HTTPClient: t.client,
		Credentials: credentials.NewStaticCredentialsProvider(t.accessKey, t.secretKey, ""), Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}
	return s3.New(o, change...)
}

// sdkFailed checks the code of an SDK error.
func sdkFailed(t *T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	t.must(errors.As(err, &api) && api.ErrorCode() == code, "error %v, want %s", err, code)
}

// done fails the case if err is not nil.
func (t *T) done(err error) {
	t.Helper()
	t.must(err == nil, "%v", err)
}

// readWhole reads a body returned by the SDK, which verifies its checksum.
func readWhole(t *T, body io.ReadCloser) string {
	t.Helper()
	defer body.Close()
	b, err := io.ReadAll(body)
	t.done(err)
	return string(b)
}

var sdk = area{"sdk", []rule{
	{"put-get", "the SDK stores an object with the checksum that it computes by default, and verifies it when reading", func(t *T) {
		c, b, k := newSDK(t), aws.String(t.bucket()), aws.String("a b/ü+%")
		put, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: b, Key: k, Body: strings.NewReader("content"), Metadata: map[string]string{"a": "1"}})
		t.done(err)
		t.must(put.ChecksumCRC32 != nil && *put.ChecksumCRC32 == sum("CRC32", "content"), "no CRC32")
		get, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: b, Key: k})
		t.done(err)
		t.must(readWhole(t, get.Body) == "content" && get.Metadata["a"] == "1", "wrong content")
	}},
	{"old-client", "an SDK that computes no checksums can store objects", func(t *T) {
		c, b, k := newSDK(t, func(o *s3.Options) {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}), aws.String(t.bucket()), aws.String("key")
		_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: b, Key: k, Body: strings.NewReader("content")})
		t.done(err)
		t.holds("key", "content")
	}},
	{"no-such-key", "the SDK maps a failed GET to NoSuchKey and a failed HEAD to NotFound", func(t *T) {
		c, b, k := newSDK(t), aws.String(t.bucket()), aws.String("none")
		_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: b, Key: k})
		var missing *types.NoSuchKey
		t.must(errors.As(err, &missing), "%v", err)
		_, err = c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: b, Key: k})
		var notFound *types.NotFound
		t.must(errors.As(err, &notFound), "%v", err)
	}},
	{"no-such-bucket", "the SDK maps a missing bucket to NoSuchBucket", func(t *T) {
		_, err := newSDK(t).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(t.newName())})
		var missing *types.NoSuchBucket
		t.must(errors.As(err, &missing), "%v", err)
	}},
	{"no-such-upload", "the SDK maps a missing upload to NoSuchUpload", func(t *T) {
		_, err := newSDK(t).AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: aws.String(t.bucket()), Key: aws.String("key"), UploadId: aws.String("none")})
		var missing *types.NoSuchUpload
		t.must(errors.As(err, &missing), "%v", err)
	}},
	{"precondition", "the SDK's conditional PUT fails with PreconditionFailed", func(t *T) {
		t.put("key", "old")
		_, err := newSDK(t).PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("key"), Body: strings.NewReader("new"), IfNoneMatch: aws.String("*")})
		sdkFailed(t, err, "PreconditionFailed")
		t.holds("key", "old")
	}},
	{"not-modified", "the SDK's GET with IfNoneMatch gets 304", func(t *T) {
		etag := t.put("key", "content").header.Get("ETag")
		_, err := newSDK(t).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("key"), IfNoneMatch: &etag})
		var status interface{ HTTPStatusCode() int }
		t.must(errors.As(err, &status) && status.HTTPStatusCode() == 304, "%v", err)
	}},
	{"bucket-exists-waiter", "the SDK's waiters detect that a bucket exists and that it has been deleted", func(t *T) {
		c, b := newSDK(t), aws.String(t.bucket())
		t.done(s3.NewBucketExistsWaiter(c).Wait(t.Context(), &s3.HeadBucketInput{Bucket: b}, time.Minute))
		t.del("").ok(204)
		t.done(s3.NewBucketNotExistsWaiter(c).Wait(t.Context(), &s3.HeadBucketInput{Bucket: b}, time.Minute))
	}},
	{"paginator", "the SDK's paginator returns every key once", func(t *T) {
		t.fill(tree...)
		pages := s3.NewListObjectsV2Paginator(newSDK(t), &s3.ListObjectsV2Input{Bucket: aws.String(t.bucket()), MaxKeys: aws.Int32(3)})
		var keys []string
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			t.done(err)
			for _, o := range page.Contents {
				keys = append(keys, *o.Key)
			}
		}
		t.must(strings.Join(keys, " ") == strings.Join(tree, " "), "%q", keys)
	}},
	{"buckets-paginator", "the SDK's bucket paginator returns every bucket once", func(t *T) {
		base := t.newName()
		for _, end := range []string{"-a", "-b", "-c"} {
			t.removeLater(base + end)
			t.put("/"+base+end, t.locationBody())
		}
		pages := s3.NewListBucketsPaginator(newSDK(t), &s3.ListBucketsInput{Prefix: &base, MaxBuckets: aws.Int32(2)})
		n := 0
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			t.done(err)
			n += len(page.Buckets)
		}
		t.must(n == 3, "%d", n)
	}},
	{"multipart", "the SDK's multipart upload with checksums is stored completely", func(t *T) {
		c, b, k := newSDK(t), aws.String(t.bucket()), aws.String("key")
		up, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: b, Key: k, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
		t.done(err)
		contents, parts := []string{random(8, mebibytes5), "end"}, []types.CompletedPart{}
		for i, content := range contents {
			n := aws.Int32(int32(i + 1))
			p, err := c.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: b, Key: k, UploadId: up.UploadId, PartNumber: n, Body: strings.NewReader(content), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
			t.done(err)
			parts = append(parts, types.CompletedPart{PartNumber: n, ETag: p.ETag, ChecksumCRC32C: p.ChecksumCRC32C})
		}
		_, err = c.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{Bucket: b, Key: k, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
		t.done(err)
		get, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: b, Key: k})
		t.done(err)
		t.must(readWhole(t, get.Body) == contents[0]+contents[1], "wrong content")
	}},
	{"delete-objects", "the SDK's DeleteObjects succeeds with the checksum that it sends", func(t *T) {
		t.fill("a", "b")
		out, err := newSDK(t).DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(t.bucket()), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("b")}}}})
		t.done(err)
		t.must(len(out.Deleted) == 2 && len(out.Errors) == 0, "%v", out)
	}},
	{"copy", "the SDK's CopyObject returns the ETag and the time of the copy", func(t *T) {
		t.put("from", "content")
		out, err := newSDK(t).CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("to"), CopySource: aws.String(t.bucket() + "/from")})
		t.done(err)
		t.must(*out.CopyObjectResult.ETag == `"`+md5Hex("content")+`"` && out.CopyObjectResult.LastModified != nil, "%v", out)
	}},
	{"presigner", "a URL from the SDK's presigner works without the SDK", func(t *T) {
		put, err := s3.NewPresignClient(newSDK(t)).PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("a b")})
		t.done(err)
		r, err := http.NewRequest(put.Method, put.URL, strings.NewReader("content"))
		t.done(err)
		t.send(r).ok(200)
		get, err := s3.NewPresignClient(newSDK(t)).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("a b")})
		t.done(err)
		r, err = http.NewRequest(get.Method, get.URL, nil)
		t.done(err)
		a := t.send(r).ok(200)
		a.expect(a.body == "content", "%q", a.body)
	}},
	{"range", "the SDK reads a range", func(t *T) {
		t.put("key", digits)
		get, err := newSDK(t).GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("key"), Range: aws.String("bytes=2-5")})
		t.done(err)
		t.must(readWhole(t, get.Body) == "2345" && *get.ContentRange == "bytes 2-5/10", "%v", get.ContentRange)
	}},
	{"virtual-host", "the SDK works with virtual-hosted-style requests", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		// The host name need not resolve, since the transport connects to the endpoint.
		base := t.client.Transport
		c := newSDK(t, func(o *s3.Options) {
			o.UsePathStyle = false
			o.BaseEndpoint = aws.String(t.endpoint.Scheme + "://" + t.domain)
			o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Host, r.URL.Host = r.URL.Host, t.endpoint.Host
				return base.RoundTrip(r)
			})}
		})
		_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(t.bucket()), Key: aws.String("a/b"), Body: bytes.NewReader([]byte("content"))})
		t.done(err)
		t.holds("a/b", "content")
	}},
}}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
