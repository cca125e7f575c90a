package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"orcas/sdk"
)

// Credentials are the credentials of the root user of a server.
type Credentials struct{ AccessKey, SecretKey string }

// NewCredentials returns random credentials, different for each run. Ports are reused, so a request of one run may
// reach the server of another run, which must refuse it.
func NewCredentials() Credentials { return Credentials{"FAULTS" + rand.Text()[:14], rand.Text()} }

// requestTimeout is the time after which a request counts as hung.
const requestTimeout = 30 * time.Second

// Client uses one bucket of a server, without retries, because a second attempt would hide the result of the first one.
// It uses the AWS SDK on purpose: package sdk, which other tools use, shares the code of signatures and checksums with the
// server, and would not show an error in it.
type Client struct {
	s3        *s3.Client
	raw       *sdk.Client // for requests that the SDK does not support
	admin     *sdk.Client // of the admin API; nil without one (see WithAdmin)
	root      Credentials
	endpoint  string
	bucket    string
	transport *http.Transport
	http      *http.Client
}

// NewClient returns a client of a bucket at endpoint (http://host:port), for up to conns requests at a time.
func NewClient(endpoint string, root Credentials, bucket string, conns int) *Client {
	t := &http.Transport{MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true}
	h := &http.Client{Transport: t, Timeout: requestTimeout}
	return &Client{endpoint: endpoint, root: root, bucket: bucket, transport: t, http: h, raw: root.raw(endpoint, t, requestTimeout), s3: s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider(root.AccessKey, root.SecretKey, ""),
		UsePathStyle: true,
		HTTPClient:   h,
		Retryer:      aws.NopRetryer{},
		DisableLogOutputChecksumValidationSkipped: true,
	})}
}

// of returns a client of the bucket of n.
func (c *Client) of(n Name) *Client {
	if n.Bucket == "" {
		return c
	}
	return c.In(n.Bucket)
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// status returns the HTTP status and the S3 code of err. The status is 0 if the request got no response.
func status(err error) (int, string) {
	var code string
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if re := (*awshttp.ResponseError)(nil); errors.As(err, &re) {
		return re.HTTPStatusCode(), code
	}
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.status, code
	}
	return 0, code
}

// etag returns an ETag without its quotes.
func etag(s *string) string { return strings.Trim(aws.ToString(s), `"`) }

// CreateBucket creates the bucket, unless it exists, and waits until it exists.
func (c *Client) CreateBucket(ctx context.Context) error {
	_, err := c.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &c.bucket})
	if s, _ := status(err); err != nil && s != http.StatusConflict {
		return err
	}
	wait := s3.NewBucketExistsWaiter(c.s3, func(o *s3.BucketExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Millisecond, 10*time.Millisecond
	})
	return wait.Wait(ctx, &s3.HeadBucketInput{Bucket: &c.bucket}, requestTimeout)
}

// Put writes an object and returns its ETag. ifMatch and ifNoneMatch are sent unless they are empty.
func (c *Client) Put(ctx context.Context, key string, body []byte, ifMatch, ifNoneMatch string) (string, error) {
	in := &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: bytes.NewReader(body)}
	if ifMatch != "" {
		in.IfMatch = aws.String(`"` + ifMatch + `"`)
	}
	if ifNoneMatch != "" {
		in.IfNoneMatch = &ifNoneMatch
	}
	out, err := c.s3.PutObject(ctx, in)
	if err != nil {
		return "", err
	}
	return etag(out.ETag), nil
}

// Get reads a whole object, with its ETag and the number of its tags.
func (c *Client) Get(ctx context.Context, key string) (body []byte, tag string, tags int, err error) {
	out, err := c.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &c.bucket, Key: &key})
	if err != nil {
		return nil, "", 0, err
	}
	defer out.Body.Close()
	body = make([]byte, 0, aws.ToInt64(out.ContentLength)+bytes.MinRead)
	buf := bytes.NewBuffer(body)
	_, err = buf.ReadFrom(out.Body)
	return buf.Bytes(), etag(out.ETag), int(aws.ToInt32(out.TagCount)), err
}

// labelKey is the key of the one tag that objects have.
const labelKey = "label"

// Label replaces the tags of an object with one tag, or with none if label is empty.
func (c *Client) Label(ctx context.Context, key, label string) error {
	if label == "" {
		_, err := c.s3.DeleteObjectTagging(ctx, &s3.DeleteObjectTaggingInput{Bucket: &c.bucket, Key: &key})
		return err
	}
	_, err := c.s3.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: &c.bucket, Key: &key,
		Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String(labelKey), Value: &label}}}})
	return err
}

// LabelOf returns the value of the only tag of an object. It returns an error if there are several tags or a different
// one.
func (c *Client) LabelOf(ctx context.Context, key string) (string, error) {
	out, err := c.s3.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: &c.bucket, Key: &key})
	if err != nil {
		return "", err
	}
	if len(out.TagSet) != 1 || aws.ToString(out.TagSet[0].Key) != labelKey {
		return "", fmt.Errorf("expected one tag with the key %q, found %d tags", labelKey, len(out.TagSet))
	}
	return aws.ToString(out.TagSet[0].Value), nil
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &c.bucket, Key: &key})
	return err
}

// DeleteMany deletes objects in one request and returns those whose deletion was acknowledged.
func (c *Client) DeleteMany(ctx context.Context, keys []string) (deleted []string, err error) {
	ids := make([]types.ObjectIdentifier, len(keys))
	for i := range keys {
		ids[i].Key = &keys[i]
	}
	out, err := c.s3.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &c.bucket, Delete: &types.Delete{Objects: ids}})
	if err != nil {
		return nil, err
	}
	for _, d := range out.Deleted {
		deleted = append(deleted, aws.ToString(d.Key))
	}
	return deleted, nil
}

// Copy copies an object within the bucket and returns the copy's ETag. A copy onto itself replaces the metadata.
func (c *Client) Copy(ctx context.Context, from, to string) (string, error) {
	in := &s3.CopyObjectInput{Bucket: &c.bucket, Key: &to, CopySource: aws.String(c.bucket + "/" + from)}
	if from == to {
		in.MetadataDirective = types.MetadataDirectiveReplace
	}
	out, err := c.s3.CopyObject(ctx, in)
	if err != nil {
		return "", err
	}
	if out.CopyObjectResult == nil {
		return "", errors.New("the response to CopyObject has no CopyObjectResult")
	}
	return etag(out.CopyObjectResult.ETag), nil
}

// Rename moves an object to another key.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	_, err := c.s3.RenameObject(ctx, &s3.RenameObjectInput{Bucket: &c.bucket, Key: &to, RenameSource: aws.String("/" + c.bucket + "/" + url.PathEscape(from))})
	return err
}

// Append appends content to an object of size bytes and returns the ETag of the object.
func (c *Client) Append(ctx context.Context, key string, size int64, body []byte) (string, error) {
	out, err := c.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: bytes.NewReader(body), WriteOffsetBytes: &size})
	if err != nil {
		return "", err
	}
	return etag(out.ETag), nil
}

// CreateUpload begins an upload and returns its ID.
func (c *Client) CreateUpload(ctx context.Context, key string) (string, error) {
	out, err := c.s3.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &c.bucket, Key: &key})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.UploadId), nil
}

// PutPart uploads a part and returns its ETag.
func (c *Client) PutPart(ctx context.Context, n Name, body []byte) (string, error) {
	out, err := c.s3.UploadPart(ctx, &s3.UploadPartInput{Bucket: &c.bucket, Key: &n.Key, UploadId: &n.Upload,
		PartNumber: aws.Int32(int32(n.Part)), Body: bytes.NewReader(body)})
	if err != nil {
		return "", err
	}
	return etag(out.ETag), nil
}

// CopyPart writes a part from length bytes of an object, beginning at byte first, and returns its ETag.
func (c *Client) CopyPart(ctx context.Context, n Name, from string, first, length int64) (string, error) {
	out, err := c.s3.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: &c.bucket, Key: &n.Key, UploadId: &n.Upload,
		PartNumber: aws.Int32(int32(n.Part)), CopySource: aws.String(c.bucket + "/" + from),
		CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", first, first+length-1))})
	if err != nil {
		return "", err
	}
	if out.CopyPartResult == nil {
		return "", errors.New("the response to UploadPartCopy has no CopyPartResult")
	}
	return etag(out.CopyPartResult.ETag), nil
}

// completed lists parts 1 to len(parts) for a CompleteMultipartUpload.
func completed(parts []*Value) []types.CompletedPart {
	list := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		list[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: aws.String(`"` + p.ETag + `"`)}
	}
	return list
}

// CompleteUpload completes an upload of parts 1 to len(parts) and returns the ETag of the object.
func (c *Client) CompleteUpload(ctx context.Context, n Name, parts []*Value) (string, error) {
	out, err := c.s3.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &c.bucket, Key: &n.Key,
		UploadId: &n.Upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: completed(parts)}})
	if err != nil {
		return "", err
	}
	return etag(out.ETag), nil
}

// AbortUpload aborts an upload.
func (c *Client) AbortUpload(ctx context.Context, n Name) error {
	_, err := c.s3.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &c.bucket, Key: &n.Key, UploadId: &n.Upload})
	return err
}

// List calls fn for each object of the bucket, as the listing shows it, page by page.
func (c *Client) List(ctx context.Context, pageSize int32, fn func(key string, v Value)) error {
	in := &s3.ListObjectsV2Input{Bucket: &c.bucket, MaxKeys: &pageSize}
	for {
		out, err := c.s3.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		for _, o := range out.Contents {
			fn(aws.ToString(o.Key), Value{Size: aws.ToInt64(o.Size), ETag: etag(o.ETag)})
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		if aws.ToString(out.NextContinuationToken) == "" {
			return errors.New("a truncated page of objects has no continuation token")
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

// Directories calls fn for each common prefix of the bucket with the delimiter "/", and for each key without a slash.
func (c *Client) Directories(ctx context.Context, pageSize int32, fn func(prefix string)) error {
	in := &s3.ListObjectsV2Input{Bucket: &c.bucket, MaxKeys: &pageSize, Delimiter: aws.String("/")}
	for {
		out, err := c.s3.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		for _, p := range out.CommonPrefixes {
			fn(aws.ToString(p.Prefix))
		}
		for _, o := range out.Contents {
			fn(aws.ToString(o.Key))
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		if aws.ToString(out.NextContinuationToken) == "" {
			return errors.New("a truncated page of prefixes has no continuation token")
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

// MakeBucket creates a bucket, which must not exist.
func (c *Client) MakeBucket(ctx context.Context, name string) error {
	_, err := c.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	return err
}

// RemoveBucket deletes an empty bucket.
func (c *Client) RemoveBucket(ctx context.Context, name string) error {
	_, err := c.s3.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
	return err
}

// Buckets returns the names of all buckets except that of the client.
func (c *Client) Buckets(ctx context.Context) (map[string]bool, error) {
	out, err := c.s3.ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, b := range out.Buckets {
		if name := aws.ToString(b.Name); name != c.bucket {
			names[name] = true
		}
	}
	return names, nil
}

// Uploads calls fn for each upload in progress.
func (c *Client) Uploads(ctx context.Context, pageSize int32, fn func(Name)) error {
	in := &s3.ListMultipartUploadsInput{Bucket: &c.bucket, MaxUploads: &pageSize}
	for {
		out, err := c.s3.ListMultipartUploads(ctx, in)
		if err != nil {
			return err
		}
		for _, u := range out.Uploads {
			fn(Name{Key: aws.ToString(u.Key), Upload: aws.ToString(u.UploadId)})
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

// Parts returns the parts of an upload.
func (c *Client) Parts(ctx context.Context, n Name) (map[int]Value, error) {
	parts := map[int]Value{}
	in := &s3.ListPartsInput{Bucket: &c.bucket, Key: &n.Key, UploadId: &n.Upload}
	for {
		out, err := c.s3.ListParts(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, p := range out.Parts {
			parts[int(aws.ToInt32(p.PartNumber))] = Value{Size: aws.ToInt64(p.Size), ETag: etag(p.ETag)}
		}
		if !aws.ToBool(out.IsTruncated) {
			return parts, nil
		}
		in.PartNumberMarker = out.NextPartNumberMarker
	}
}

// ready reports whether the server is ready, according to its health API.
func ready(ctx context.Context, client *http.Client, endpoint string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/-/health/ready", nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}
