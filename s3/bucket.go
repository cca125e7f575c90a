package s3

import (
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"strings"

	"orcas/core"
)

// maxBuckets is the longest page of ListBuckets, and its default.
const maxBuckets = 10_000

// defaultRegion is the region that S3 writes as an empty location.
const defaultRegion = "us-east-1"

func (q *request) listBuckets() error {
	limit, err := q.query.int("max-buckets", maxBuckets)
	if err != nil {
		return err
	}
	if limit < 1 || limit > maxBuckets {
		return argument("max-buckets", q.query.value("max-buckets"), "Argument max-buckets must be an integer between 1 and 10000")
	}
	prefix := q.query.value("prefix")
	after, err := parseToken(q.query.value("continuation-token"))
	if err != nil {
		return err
	}
	var buckets []core.BucketInfo
	more := false
	region := q.query.value("bucket-region")
	if buckets, more, err = q.s.fs.Buckets(q.ctx, prefix, after, limit); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListAllMyBucketsResult")
	x.owner("Owner", q.caller.account)
	x.open("Buckets")
	for i := range buckets {
		b := &buckets[i]
		if region != "" && region != b.Region || q.s.authorise(q.caller, q.route.action, b) != nil {
			continue
		}
		x.open("Bucket")
		x.text("Name", b.Name)
		x.time("CreationDate", b.Created)
		x.text("BucketRegion", b.Region)
		x.close("Bucket")
	}
	x.close("Buckets")
	x.optional("Prefix", prefix)
	if more {
		x.text("ContinuationToken", makeToken(buckets[len(buckets)-1].Name))
	}
	x.close("ListAllMyBucketsResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// makeToken turns a place in a listing into a token that clients do not look into.
func makeToken(place string) string { return "1" + base64.RawURLEncoding.EncodeToString([]byte(place)) }

func parseToken(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	place, err := base64.RawURLEncoding.DecodeString(token[1:])
	if token[0] != '1' || err != nil || len(place) == 0 {
		return "", errInvalidArgument.say("The continuation token provided is incorrect").
			with("ArgumentName", "continuation-token").with("ArgumentValue", token)
	}
	return string(place), nil
}

// createBucketRequest is the body of CreateBucket, where there is one.
type createBucketRequest struct {
	XMLName  xml.Name  `xml:"CreateBucketConfiguration"`
	Location string    `xml:"LocationConstraint"`
	Place    *struct{} `xml:"Location"`
	Kind     *struct{} `xml:"Bucket"`
	Tags     *tagSet   `xml:"Tags"`
}

func (q *request) createBucket() error {
	doc, _, err := q.readBody()
	if err != nil {
		return err
	}
	info := core.BucketInfo{Name: q.bucketName, Owner: q.caller.account, Region: q.s.region}
	if len(doc) > 0 {
		if err := q.configureNew(&info, doc); err != nil {
			return err
		}
	}
	switch v := q.r.Header["X-Amz-Object-Ownership"]; {
	case len(v) == 0, v[0] == "BucketOwnerEnforced":
	case v[0] == "BucketOwnerPreferred", v[0] == "ObjectWriter":
		return notImplementedHeader("X-Amz-Object-Ownership")
	default:
		return argument("x-amz-object-ownership", v[0], "Invalid x-amz-object-ownership header: "+v[0])
	}
	if err := q.lockNew(&info); err != nil {
		return err
	}
	_, err = q.s.fs.CreateBucket(q.ctx, info)
	if core.Is(err, core.BucketExists) {
		err = q.bucketThere()
	}
	if err != nil {
		return err
	}
	q.set("Location", "/"+q.bucketName)
	q.sendEmpty(http.StatusOK)
	return nil
}

// configureNew takes the properties of a new bucket from the document of its creation.
func (q *request) configureNew(info *core.BucketInfo, doc []byte) error {
	var body createBucketRequest
	err := parseXML(doc, &body)
	if err != nil {
		return err
	}
	if body.Place != nil || body.Kind != nil {
		return notServed("A directory bucket")
	}
	if body.Tags != nil {
		tags, err := bucketTags(body.Tags)
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

// bucketThere answers the creation of a bucket that is there already. In us-east-1 an owner who creates a bucket again is told
// that all is well.
func (q *request) bucketThere() error {
	b, err := q.s.fs.Bucket(q.ctx, q.bucketName)
	switch {
	case core.Is(err, core.NoSuchBucket):
		return errConflict // it was deleted this very moment
	case err != nil:
		return err
	case b.Owner != q.caller.account:
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
	return "", errLocation.with("LocationConstraint", constraint)
}

func (q *request) headBucket() error {
	q.set("X-Amz-Bucket-Region", q.bucket.Region)
	q.set("X-Amz-Access-Point-Alias", "false")
	q.set("Content-Type", "application/xml")
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) deleteBucket() error {
	err := q.s.fs.DeleteBucket(q.ctx, q.bucket)
	if core.Is(err, core.BucketNotEmpty) && q.bucket.Versioning != core.VersioningOff {
		err = errBucketNotEmpty.say("The bucket you tried to delete is not empty. You must delete all versions in the bucket.")
	}
	if err != nil {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

func (q *request) getLocation() error {
	x := q.s.document()
	defer q.s.release(x)
	x.begin("LocationConstraint")
	if q.bucket.Region != defaultRegion {
		x.b = appendXML(x.b, q.bucket.Region)
	}
	x.close("LocationConstraint")
	q.sendXML(http.StatusOK, x)
	return nil
}
