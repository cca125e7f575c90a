package sdk

import (
	"context"
	"encoding/xml"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Bucket is a bucket of the caller.
type Bucket struct {
	Name    string
	Region  string // "" if the server does not list regions
	Created time.Time
}

// BucketOptions are the options of CreateBucket.
type BucketOptions struct {
	Region     string            // the location constraint; "" is the region of the client
	ObjectLock bool              // enable object lock, and with it versioning
	Tags       map[string]string // of the bucket
}

// Buckets returns the buckets of the caller whose names begin with prefix, in byte order.
func (c *Client) Buckets(ctx context.Context, prefix string) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		var loop loopCheck
		empty := 0 // pages, one after another
		for token := ""; ; {
			q := &call{op: "Buckets", method: http.MethodGet,
				query: new(query).set("prefix", prefix).set("continuation-token", token).String()}
			var doc struct {
				XMLName xml.Name `xml:"ListAllMyBucketsResult"`
				Buckets []struct {
					Name         string
					BucketRegion string
					CreationDate time.Time
				} `xml:"Buckets>Bucket"`
				ContinuationToken string
			}
			err := c.w.read(ctx, q, &doc)
			if empty++; len(doc.Buckets) > 0 {
				empty = 0
			}
			if err == nil && doc.ContinuationToken != "" {
				if wrong := loop.check(cursor{token: doc.ContinuationToken}, empty); wrong != nil {
					err = q.localError(wrong)
				}
			}
			if err != nil {
				yield(Bucket{}, err)
				return
			}
			for _, b := range doc.Buckets {
				// Servers that do not know the parameter return all buckets.
				if strings.HasPrefix(b.Name, prefix) && !yield(Bucket{b.Name, b.BucketRegion, b.CreationDate}, nil) {
					return
				}
			}
			if token = doc.ContinuationToken; token == "" {
				return
			}
		}
	}
}

// CreateBucket creates a bucket. If it exists, the error is ErrBucketExists, except that some servers, and AWS in
// us-east-1, accept a bucket that the caller already has.
func (c *Client) CreateBucket(ctx context.Context, bucket string, o *BucketOptions) error {
	if o == nil {
		o = &BucketOptions{}
	}
	q := &call{op: "CreateBucket", method: http.MethodPut, bucket: bucket, write: true, header: make(http.Header, 4)}
	if o.ObjectLock {
		set(q.header, "X-Amz-Bucket-Object-Lock-Enabled", "true")
	}
	region := o.Region
	if region == "" && c.w.config.Region != DefaultRegion {
		region = c.w.config.Region
	}
	if region == DefaultRegion { // which S3 does not accept as a constraint
		region = ""
	}
	if region == "" && len(o.Tags) == 0 {
		_, err := c.w.do(ctx, q)
		return err
	}
	return c.w.write(ctx, q, struct {
		XMLName            xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CreateBucketConfiguration"`
		LocationConstraint string   `xml:",omitempty"`
		Tags               []tag    `xml:"Tags>Tag,omitempty"`
	}{LocationConstraint: region, Tags: sortedTags(o.Tags)})
}

// DeleteBucket deletes an empty bucket. If it is not empty, the error is ErrBucketNotEmpty.
func (c *Client) DeleteBucket(ctx context.Context, bucket string) error {
	_, err := c.w.do(ctx, &call{op: "DeleteBucket", method: http.MethodDelete, bucket: bucket, write: true})
	return err
}

// HeadBucket returns the region of a bucket. It shows whether the bucket exists and the caller has a right in it.
func (c *Client) HeadBucket(ctx context.Context, bucket string) (region string, err error) {
	r, err := c.w.do(ctx, &call{op: "HeadBucket", method: http.MethodHead, bucket: bucket})
	if err != nil {
		return "", err
	}
	return first(r.header, "X-Amz-Bucket-Region"), nil
}

// Location returns the region of a bucket.
func (c *Client) Location(ctx context.Context, bucket string) (region string, err error) {
	var doc struct {
		XMLName xml.Name `xml:"LocationConstraint"`
		Region  string   `xml:",chardata"`
	}
	q := &call{op: "Location", method: http.MethodGet, bucket: bucket, query: new(query).flag("location").String()}
	if err := c.w.read(ctx, q, &doc); err != nil {
		return "", err
	}
	switch doc.Region {
	case "":
		return DefaultRegion, nil
	case "EU": // of buckets from before 2008
		return "eu-west-1", nil
	}
	return doc.Region, nil
}

// Versioning returns Enabled, Suspended, or "" if versioning was never enabled on the bucket.
func (c *Client) Versioning(ctx context.Context, bucket string) (status string, err error) {
	var doc struct {
		XMLName xml.Name `xml:"VersioningConfiguration"`
		Status  string
	}
	q := &call{op: "Versioning", method: http.MethodGet, bucket: bucket, query: new(query).flag("versioning").String()}
	err = c.w.read(ctx, q, &doc)
	return doc.Status, err
}

// SetVersioning sets the versioning of a bucket: Enabled or Suspended.
func (c *Client) SetVersioning(ctx context.Context, bucket, status string) error {
	if status != "Enabled" && status != "Suspended" {
		return argument("SetVersioning", bucket, "", "the status is %q, expected Enabled or Suspended", status)
	}
	q := &call{op: "SetVersioning", method: http.MethodPut, bucket: bucket, write: true, query: new(query).flag("versioning").String()}
	return c.w.write(ctx, q, struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ VersioningConfiguration"`
		Status  string
	}{Status: status})
}

// Document returns a document of a bucket as the server sends it: sub is the name of the sub-resource in S3, such as
// policy, lifecycle, cors or encryption. If there is none, the error is ErrNoSuchConfiguration.
func (c *Client) Document(ctx context.Context, bucket, sub string) ([]byte, error) {
	q, err := documentCall("Document", http.MethodGet, bucket, sub)
	if err != nil {
		return nil, err
	}
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	return r.body, nil
}

// SetDocument writes a document of a bucket; see Document.
func (c *Client) SetDocument(ctx context.Context, bucket, sub string, document []byte) error {
	q, err := documentCall("SetDocument", http.MethodPut, bucket, sub)
	if err != nil {
		return err
	}
	return c.w.writeBytes(ctx, q, document)
}

// DeleteDocument deletes a document of a bucket; see Document.
func (c *Client) DeleteDocument(ctx context.Context, bucket, sub string) error {
	q, err := documentCall("DeleteDocument", http.MethodDelete, bucket, sub)
	if err != nil {
		return err
	}
	_, err = c.w.do(ctx, q)
	return err
}

// documentCall returns a call for a document of a bucket. Without the name of one it would be for the bucket itself: a
// DELETE would delete it.
func documentCall(op, method, bucket, sub string) (*call, error) {
	bad := func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' }
	if sub == "" || strings.IndexFunc(sub, bad) >= 0 {
		return nil, argument(op, bucket, "", "%q is not the name of a document of a bucket", sub)
	}
	return &call{op: op, method: method, bucket: bucket, write: method != http.MethodGet, query: new(query).flag(sub).String()}, nil
}
