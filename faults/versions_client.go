package faults

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"orcas/sdk"
)

// In returns a client of another bucket that shares the connections of c.
func (c *Client) In(bucket string) *Client {
	d := *c
	d.bucket = bucket
	return &d
}

// Names of locks. If a version has two, they are joined by "+".
const (
	lockGovernance = "governance"
	lockCompliance = "compliance"
	lockHold       = "hold"
)

// lockUntil is the end of every retention period.
var lockUntil = time.Date(2099, time.December, 31, 0, 0, 0, 0, time.UTC)

// lockOf names the locks of a version.
func lockOf(mode types.ObjectLockMode, until *time.Time, hold types.ObjectLockLegalHoldStatus) string {
	var list []string
	if mode != "" {
		name := strings.ToLower(string(mode))
		if until == nil || !until.Equal(lockUntil) {
			name += " until an unexpected time"
		}
		list = append(list, name)
	}
	if hold == types.ObjectLockLegalHoldStatusOn {
		list = append(list, lockHold)
	}
	return strings.Join(list, "+")
}

// MakeLockedBucket creates a bucket with object lock and waits until it exists.
func (c *Client) MakeLockedBucket(ctx context.Context) error {
	_, err := c.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &c.bucket, ObjectLockEnabledForBucket: aws.Bool(true)})
	if err != nil {
		return err
	}
	return c.CreateBucket(ctx)
}

// SetVersioning sets versioning to "Enabled" or "Suspended".
func (c *Client) SetVersioning(ctx context.Context, status string) error {
	_, err := c.s3.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: &c.bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatus(status)}})
	return err
}

// Versioning returns the versioning state, or "" if versioning was never enabled.
func (c *Client) Versioning(ctx context.Context) (string, error) {
	out, err := c.s3.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &c.bucket})
	if err != nil {
		return "", err
	}
	return string(out.Status), nil
}

// SetRules sets the lifecycle rules of the bucket.
func (c *Client) SetRules(ctx context.Context, rules []types.LifecycleRule) error {
	_, err := c.s3.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{Bucket: &c.bucket,
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}})
	return err
}

// Rules returns the lifecycle rules of the bucket.
func (c *Client) Rules(ctx context.Context) ([]types.LifecycleRule, error) {
	out, err := c.s3.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &c.bucket})
	if err != nil {
		return nil, err
	}
	return out.Rules, nil
}

// PutVersion writes an object with a lock ("" for none) and returns its ETag and version ID, which is "" if the
// response has none.
func (c *Client) PutVersion(ctx context.Context, key string, body []byte, lock string) (tag, id string, err error) {
	in := &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: bytes.NewReader(body)}
	if lock != "" { // S3 requires a checksum for locked objects
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	switch lock {
	case "":
	case lockHold:
		in.ObjectLockLegalHoldStatus = types.ObjectLockLegalHoldStatusOn
	default:
		in.ObjectLockMode, in.ObjectLockRetainUntilDate = types.ObjectLockMode(strings.ToUpper(lock)), &lockUntil
	}
	out, err := c.s3.PutObject(ctx, in)
	if err != nil {
		return "", "", err
	}
	return etag(out.ETag), aws.ToString(out.VersionId), nil
}

// AppendVersion appends content to an object of size bytes, and returns the same as PutVersion.
func (c *Client) AppendVersion(ctx context.Context, key string, size int64, body []byte) (tag, id string, err error) {
	out, err := c.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: bytes.NewReader(body), WriteOffsetBytes: &size})
	if err != nil {
		return "", "", err
	}
	return etag(out.ETag), aws.ToString(out.VersionId), nil
}

// CopyVersion copies a version within the bucket, and returns the same as PutVersion.
func (c *Client) CopyVersion(ctx context.Context, from, id, to string) (tag, made string, err error) {
	out, err := c.s3.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &c.bucket, Key: &to,
		CopySource: aws.String(c.bucket + "/" + from + "?versionId=" + id)})
	if err != nil {
		return "", "", err
	}
	if out.CopyObjectResult == nil {
		return "", "", errors.New("the response to CopyObject has no CopyObjectResult")
	}
	return etag(out.CopyObjectResult.ETag), aws.ToString(out.VersionId), nil
}

// RenameVersion moves the newest version to another key, and returns the ID of the version there.
func (c *Client) RenameVersion(ctx context.Context, from, to string) (id string, err error) {
	out, err := c.s3.RenameObject(ctx, &s3.RenameObjectInput{Bucket: &c.bucket, Key: &to,
		RenameSource: aws.String("/" + c.bucket + "/" + url.PathEscape(from))})
	if err != nil {
		return "", err
	}
	if raw, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		id = raw.Header.Get("x-amz-version-id")
	}
	return id, nil
}

// CompleteVersion completes an upload and returns the same as PutVersion.
func (c *Client) CompleteVersion(ctx context.Context, n Name, parts []*Value) (tag, id string, err error) {
	out, err := c.s3.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &c.bucket, Key: &n.Key,
		UploadId: &n.Upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: completed(parts)}})
	if err != nil {
		return "", "", err
	}
	return etag(out.ETag), aws.ToString(out.VersionId), nil
}

// DeleteVersion deletes a version permanently or, if id is "", does a plain delete; then it returns the ID of the
// delete marker, if there is one. bypass overrides governance.
func (c *Client) DeleteVersion(ctx context.Context, key, id string, bypass bool) (made string, err error) {
	in := &s3.DeleteObjectInput{Bucket: &c.bucket, Key: &key}
	if id != "" {
		in.VersionId = &id
	}
	if bypass {
		in.BypassGovernanceRetention = &bypass
	}
	out, err := c.s3.DeleteObject(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.VersionId), nil
}

// DeleteVersions permanently deletes versions in one request. keysAndIDs alternates keys and version IDs. It is an
// error if one of them was not deleted. bypass overrides governance.
func (c *Client) DeleteVersions(ctx context.Context, bypass bool, keysAndIDs ...string) error {
	var ids []types.ObjectIdentifier
	for i := 0; i < len(keysAndIDs); i += 2 {
		ids = append(ids, types.ObjectIdentifier{Key: &keysAndIDs[i], VersionId: &keysAndIDs[i+1]})
	}
	in := &s3.DeleteObjectsInput{Bucket: &c.bucket, Delete: &types.Delete{Objects: ids}}
	if bypass {
		in.BypassGovernanceRetention = &bypass
	}
	out, err := c.s3.DeleteObjects(ctx, in)
	if err == nil && len(out.Deleted) < len(ids) {
		err = fmt.Errorf("deleted %d of %d versions", len(out.Deleted), len(ids))
	}
	return err
}

// HoldVersion sets or removes the legal hold of a version.
func (c *Client) HoldVersion(ctx context.Context, key, id string, on bool) error {
	status := types.ObjectLockLegalHoldStatusOff
	if on {
		status = types.ObjectLockLegalHoldStatusOn
	}
	_, err := c.s3.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{Bucket: &c.bucket, Key: &key, VersionId: &id,
		LegalHold: &types.ObjectLockLegalHold{Status: status}})
	return err
}

// LabelVersion replaces the tags of a version with one tag.
func (c *Client) LabelVersion(ctx context.Context, key, id, label string) error {
	_, err := c.s3.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: &c.bucket, Key: &key, VersionId: &id,
		Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String(labelKey), Value: &label}}}})
	return err
}

// held is a version as the server returns it.
type held struct {
	id     string
	marker bool
	latest bool
	size   int64
	etag   string

	read  bool // the following fields were read
	body  []byte
	label string
	lock  string
}

// GetVersion reads a whole version, or the newest one if id is "".
func (c *Client) GetVersion(ctx context.Context, key, id string) (v held, err error) {
	in := &s3.GetObjectInput{Bucket: &c.bucket, Key: &key}
	if id != "" {
		in.VersionId = &id
	}
	out, err := c.s3.GetObject(ctx, in)
	if err != nil {
		return v, err
	}
	defer out.Body.Close()
	v = held{id: aws.ToString(out.VersionId), size: aws.ToInt64(out.ContentLength), etag: etag(out.ETag), read: true,
		lock: lockOf(out.ObjectLockMode, out.ObjectLockRetainUntilDate, out.ObjectLockLegalHoldStatus)}
	if v.body, err = io.ReadAll(out.Body); err != nil || aws.ToInt32(out.TagCount) == 0 {
		return v, err
	}
	in2 := &s3.GetObjectTaggingInput{Bucket: &c.bucket, Key: &key, VersionId: in.VersionId}
	tags, err := c.s3.GetObjectTagging(ctx, in2)
	if err == nil && len(tags.TagSet) > 0 {
		v.label = aws.ToString(tags.TagSet[0].Value)
	}
	return v, err
}

// versionsPage is a page of ListObjectVersions. It is parsed here because the SDK separates versions from delete
// markers, which loses their order.
type versionsPage struct {
	IsTruncated         bool
	NextKeyMarker       string
	NextVersionIDMarker string `xml:"NextVersionIdMarker"`
	Entries             []struct {
		XMLName   xml.Name
		Key       string
		VersionID string `xml:"VersionId"`
		IsLatest  bool
		ETag      string
		Size      int64
	} `xml:",any"`
}

// Newest returns the ETag and the ID of the newest version.
func (c *Client) Newest(ctx context.Context, key string) (tag, id string, err error) {
	out, err := c.s3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &c.bucket, Key: &key})
	if err != nil {
		return "", "", err
	}
	return etag(out.ETag), aws.ToString(out.VersionId), nil
}

// ListVersions calls fn for each version and delete marker of the keys with a prefix, in the order of the listing.
func (c *Client) ListVersions(ctx context.Context, prefix string, pageSize int32, fn func(key string, v held)) error {
	query := url.Values{"versions": {""}, "prefix": {prefix}, "max-keys": {strconv.Itoa(int(pageSize))}}
	for {
		page, err := c.versionsPage(ctx, query)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if e.XMLName.Local == "Version" || e.XMLName.Local == "DeleteMarker" {
				fn(e.Key, held{id: e.VersionID, marker: e.XMLName.Local == "DeleteMarker", latest: e.IsLatest, size: e.Size, etag: strings.Trim(e.ETag, `"`)})
			}
		}
		if !page.IsTruncated {
			return nil
		}
		if page.NextKeyMarker == "" {
			return errors.New("a truncated page of versions has no key marker")
		}
		query.Set("key-marker", page.NextKeyMarker)
		query.Set("version-id-marker", page.NextVersionIDMarker)
	}
}

func (c *Client) versionsPage(ctx context.Context, query url.Values) (page versionsPage, err error) {
	response, err := c.raw.Fetch(ctx, &sdk.Request{Method: http.MethodGet, Path: "/" + c.bucket, Query: query.Encode()})
	if err == nil && response.Status != http.StatusOK {
		err = fmt.Errorf("list versions: status %d: %s", response.Status, response.Body)
	}
	if err == nil {
		err = xml.Unmarshal(response.Body, &page)
	}
	return page, err
}

// missing reports whether an error means that an object does not exist, or is a delete marker.
func missing(err error) bool {
	code, _ := status(err)
	return code == http.StatusNotFound || code == http.StatusMethodNotAllowed
}
