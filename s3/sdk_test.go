package s3_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
)

// sdk returns a client with the usual configuration of an application, except for the endpoint.
func (w *world) sdk() *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: aws.String(w.url), Region: "us-east-1", UsePathStyle: true, HTTPClient: w.client,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		Retryer:     aws.NopRetryer{},
		// The defaults of the SDK's configuration.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	})
}

// TestSDK tests the server with an SDK, over HTTP and over HTTPS. Over HTTPS the SDK sends checksums in trailers.
func TestSDK(t *testing.T) {
	for name, start := range map[string]setup{"http": {}, "https": {start: overTLS}, "http2": {start: overHTTP2}} {
		t.Run(name, func(t *testing.T) { testSDK(t, newWorld(t, start)) })
	}
}

func testSDK(t *testing.T, w *world) {
	ctx, c := t.Context(), w.sdk()
	bucket, key := aws.String("bucket"), aws.String("dir/a b+c%d/ü")
	_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: bucket})
	require.NoError(t, err)
	body := random(1, 3<<20)
	put, err := c.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: bucket, Key: key, Body: bytes.NewReader(body), Metadata: map[string]string{"one": "1"}, ContentType: aws.String("text/plain"),
		IfNoneMatch: aws.String("*"),
	})
	require.NoError(t, err)
	require.NotNil(t, put.ChecksumCRC32)
	get, err := c.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: key, ChecksumMode: types.ChecksumModeEnabled})
	require.NoError(t, err)
	got, err := io.ReadAll(get.Body) // the SDK verifies the checksum
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
	require.Equal(t, "1", get.Metadata["one"])
	require.Equal(t, put.ChecksumCRC32, get.ChecksumCRC32)

	_, err = c.PutObject(ctx, &awss3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, "PreconditionFailed", api.ErrorCode())
	_, err = c.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: aws.String("none")})
	var missing *types.NoSuchKey
	require.ErrorAs(t, err, &missing)
	_, err = c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: bucket, Key: aws.String("none")})
	var notFound *types.NotFound
	require.ErrorAs(t, err, &notFound)

	up, err := c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("big"), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
	require.NoError(t, err)
	var parts []types.CompletedPart
	for i, size := range []int{5 << 20, 1000} {
		n := aws.Int32(int32(i + 1))
		p, err := c.UploadPart(ctx, &awss3.UploadPartInput{
			Bucket: bucket, Key: aws.String("big"), UploadId: up.UploadId, PartNumber: n, Body: bytes.NewReader(random(byte(i), size)),
		})
		require.NoError(t, err)
		parts = append(parts, types.CompletedPart{ETag: p.ETag, PartNumber: n, ChecksumCRC32: p.ChecksumCRC32})
	}
	_, err = c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: bucket, Key: aws.String("big"), UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	require.NoError(t, err)
	_, err = c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String("bucket/big")})
	require.NoError(t, err)
	big, err := c.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: aws.String("copy")})
	require.NoError(t, err)
	got, err = io.ReadAll(big.Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(random(0, 5<<20), random(1, 1000)...), got))

	var keys []types.ObjectIdentifier
	pages := awss3.NewListObjectsV2Paginator(c, &awss3.ListObjectsV2Input{Bucket: bucket, MaxKeys: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		require.NoError(t, err)
		for _, o := range page.Contents {
			keys = append(keys, types.ObjectIdentifier{Key: o.Key})
		}
	}
	require.Len(t, keys, 3)
	deleted, err := c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: keys}})
	require.NoError(t, err)
	require.Len(t, deleted.Deleted, 3)
	require.Empty(t, deleted.Errors)
	_, err = c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: bucket})
	require.NoError(t, err)
	_, err = c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: bucket})
	require.True(t, errors.As(err, &notFound))
	_, err = c.GetBucketAbac(ctx, &awss3.GetBucketAbacInput{Bucket: aws.String("none")})
	require.ErrorAs(t, err, &api)
	require.Equal(t, "NotImplemented", api.ErrorCode())
}
