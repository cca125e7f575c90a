package s3

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"strings"

	"orcas/auth"
	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

// maxBuckets is the maximum and default page size of ListBuckets.
const maxBuckets = 10_000

// bucketPage is the minimum number of buckets that are read at a time. Most of them may belong to other accounts.
const bucketPage = 1000

// defaultRegion is the region that S3 represents as an empty location.
const defaultRegion = "us-east-1"

func listBuckets(q *request, x *xmldoc.Writer) error {
	limit, err := q.query.int("max-buckets", maxBuckets)
	if err != nil {
		return err
	}
	if limit < 1 || limit > maxBuckets {
		return apierr.Argument("max-buckets", q.query.value("max-buckets"), "Argument max-buckets must be an integer between 1 and 10000")
	}
	prefix := q.query.value("prefix")
	after, err := parseToken(q.query.value("continuation-token"))
	if err != nil {
		return err
	}
	buckets, more, err := q.ownBuckets(prefix, after, limit)
	if err != nil {
		return err
	}
	x.Begin("ListAllMyBucketsResult")
	x.Owner("Owner", q.caller.Account)
	x.Open("Buckets")
	for i := range buckets {
		b := &buckets[i]
		x.Open("Bucket")
		x.Text("Name", b.Name)
		x.Time("CreationDate", b.Created)
		x.Text("BucketRegion", b.Region)
		x.Close("Bucket")
	}
	x.Close("Buckets")
	x.Optional("Prefix", prefix)
	if more {
		x.Text("ContinuationToken", makeToken(buckets[len(buckets)-1].Name))
	}
	x.Close("ListAllMyBucketsResult")
	return nil
}

// ownBuckets returns a page of the buckets that the sender may list, and reports whether there are more. A position in
// the listing is always one of these buckets, because the name of another account's bucket is not for the sender.
func (q *request) ownBuckets(prefix, after string, limit int) (list []core.BucketInfo, more bool, err error) {
	region := q.query.value("bucket-region")
	for further := true; further && len(list) <= limit; {
		var page []core.BucketInfo
		if page, further, err = q.s.fs.Buckets(q.ctx, prefix, after, max(limit, bucketPage)); err != nil {
			return nil, false, err
		}
		for i := range page {
			b := &page[i]
			after = b.Name
			shown := auth.Resource{Account: b.Owner, Bucket: b.Name} // without its policy, which cannot be about this action
			if (region == "" || region == b.Region) && q.authorize(q.route.Action, shown) == nil {
				list = append(list, *b)
			}
		}
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}

// makeToken encodes a position in a listing as an opaque token.
func makeToken(position string) string {
	return "1" + base64.RawURLEncoding.EncodeToString([]byte(position))
}

// parseToken is the inverse of makeToken.
func parseToken(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	position, err := base64.RawURLEncoding.DecodeString(token[1:])
	if token[0] != '1' || err != nil || len(position) == 0 {
		return "", apierr.Argument("continuation-token", token, "The continuation token provided is incorrect")
	}
	return string(position), nil
}

// createBucketRequest is the optional body of CreateBucket.
type createBucketRequest struct {
	XMLName  xml.Name     `xml:"CreateBucketConfiguration"`
	Location string       `xml:"LocationConstraint"`
	Place    *struct{}    `xml:"Location"`
	Kind     *struct{}    `xml:"Bucket"`
	Tags     *tagging.Set `xml:"Tags"`
}

func createBucket(q *request) error {
	doc, _, err := readBody(q)
	if err != nil {
		return err
	}
	info := core.BucketInfo{Name: q.bucketName, Owner: q.caller.Account, Region: q.s.region}
	if q.s.allowed.OpenBuckets {
		info.Attrs = append(info.Attrs, WithoutPublicAccessBlock())
	}
	if len(doc) > 0 {
		if err := configureNew(q, &info, doc); err != nil {
			return err
		}
	}
	if err := checkOwnership(q.r.Header); err != nil {
		return err
	}
	if err := lockNew(q, &info); err != nil {
		return err
	}
	if err := mayConfigureNew(q, &info); err != nil {
		return err
	}
	b, err := q.s.fs.CreateBucket(q.ctx, info)
	switch {
	case core.Is(err, core.BucketExists):
		err = existingBucket(q)
	case err == nil:
		err = keepNew(q, b)
	}
	if err != nil {
		return err
	}
	q.set("Location", "/"+q.bucketName)
	return nil
}

// keepNew deletes a new bucket if the access key was revoked after the request was authorized, since its account may have
// been deleted in between. DeleteAccount disables the account before it looks for buckets, so either it finds the new
// bucket, or this lookup finds the account disabled.
func keepNew(q *request, b *core.BucketInfo) error {
	_, _, err := q.sender.Again(q.ctx)
	if err == nil {
		return nil
	}
	if failed := q.s.fs.DeleteBucket(context.WithoutCancel(q.ctx), b); failed != nil {
		return failed
	}
	return authenticationError(err)
}

// mayConfigureNew checks that the caller may perform the actions that set the properties of a new bucket.
func mayConfigureNew(q *request, info *core.BucketInfo) error {
	var actions []auth.Action
	if info.ObjectLock {
		actions = append(actions, "s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning")
	}
	if core.AttrValue(info.Attrs, "tagging") != "" {
		actions = append(actions, "s3:PutBucketTagging")
	}
	if len(q.r.Header[ownershipName]) > 0 {
		actions = append(actions, "s3:PutBucketOwnershipControls")
	}
	for _, a := range actions {
		if err := q.authorize(a, q.resource()); err != nil {
			return err
		}
	}
	return nil
}

// configureNew reads the properties of a new bucket from the body of CreateBucket.
func configureNew(q *request, info *core.BucketInfo, doc []byte) error {
	var body createBucketRequest
	err := xmldoc.Parse(doc, &body)
	if err != nil {
		return err
	}
	if body.Place != nil || body.Kind != nil {
		return apierr.Unserved("A directory bucket")
	}
	if body.Tags != nil {
		tags, err := body.Tags.OfBucket()
		if err != nil {
			return err
		}
		if tags != "" {
			info.Attrs = append(info.Attrs, core.Attr{Name: "tagging", Value: tags})
		}
	}
	info.Region, err = q.s.location(body.Location)
	return err
}

// existingBucket returns the error for creating a bucket that already exists. In us-east-1 the owner may create a
// bucket again.
func existingBucket(q *request) error {
	b, err := q.s.fs.Bucket(q.ctx, q.bucketName)
	switch {
	case core.Is(err, core.NoSuchBucket):
		return errConflict // the bucket was deleted in the meantime
	case err != nil:
		return err
	case b.Owner != q.caller.Account:
		return errBucketExists
	case q.s.region == defaultRegion:
		return nil
	}
	return errBucketOwned
}

// location returns the region of a new bucket for a LocationConstraint.
func (s *Server) location(constraint string) (string, error) {
	switch {
	case constraint == "" || constraint == s.region || constraint == "EU" && s.region == "eu-west-1":
		return s.region, nil
	case s.anyRegion && len(constraint) <= 63 && !strings.ContainsAny(constraint, " \t\r\n/<>&\""):
		return constraint, nil
	}
	return "", errLocation.With("LocationConstraint", constraint)
}

func headBucket(q *request) error {
	q.set("X-Amz-Bucket-Region", q.bucket.Region)
	q.set("X-Amz-Access-Point-Alias", "false")
	q.set("Content-Type", "application/xml")
	return nil
}

func deleteBucket(q *request) error {
	err := q.s.fs.DeleteBucket(q.ctx, q.bucket)
	if core.Is(err, core.BucketNotEmpty) && q.bucket.Versioning != core.VersioningOff {
		err = errBucketNotEmpty.Say("The bucket you tried to delete is not empty. You must delete all versions in the bucket.")
	}
	return err
}

func getLocation(q *request, x *xmldoc.Writer) error {
	x.Begin("LocationConstraint")
	if q.bucket.Region != defaultRegion {
		x.Buf = xmldoc.AppendText(x.Buf, q.bucket.Region)
	}
	x.Close("LocationConstraint")
	return nil
}
