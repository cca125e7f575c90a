package s3

import (
	"encoding/xml"
	"net/http"
	"strings"

	"orcas/auth"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

const (
	aclName       = "X-Amz-Acl"
	grantPrefix   = "X-Amz-Grant-"
	ownershipName = "X-Amz-Object-Ownership"
)

// checkACLHeader accepts the canned ACLs that have no effect: the owner has full control, and no other account has
// access. All others, and grants, are refused, as in an S3 bucket whose object ownership is BucketOwnerEnforced.
func (q *request) checkACLHeader(name, value string) error {
	if name == aclName {
		switch value {
		case "private", "bucket-owner-full-control", "":
			return nil
		case "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read", "log-delivery-write":
		default:
			return errACLArgument.With("ArgumentName", "x-amz-acl").With("ArgumentValue", value)
		}
	}
	if q.route.Name != "CreateBucket" {
		return errNoACLs
	}
	if err := checkOwnership(q.r.Header); err != nil {
		return err
	}
	return errNoBucketACLs
}

// checkOwnership accepts only the object ownership that every bucket has.
func checkOwnership(h http.Header) error {
	switch v := h[ownershipName]; {
	case len(v) == 0, v[0] == "BucketOwnerEnforced":
		return nil
	case v[0] == "BucketOwnerPreferred", v[0] == "ObjectWriter":
		return apierr.UnservedHeader(ownershipName)
	default:
		return apierr.Argument(strings.ToLower(ownershipName), v[0], "Invalid x-amz-object-ownership header: "+v[0])
	}
}

func getBucketACL(q *request, x *xmldoc.Writer) error {
	writeACL(x, q.bucket.Owner)
	return nil
}

func getObjectACL(q *request, x *xmldoc.Writer) error {
	o, err := statVersion(q)
	if err != nil {
		return err
	}
	q.setVersion(o.Version())
	writeACL(x, q.bucket.Owner)
	return nil
}

// writeACL writes the ACL that every bucket and object has: full control for the owner.
func writeACL(x *xmldoc.Writer, owner string) {
	x.Begin("AccessControlPolicy")
	x.Owner("Owner", owner)
	x.Open("AccessControlList")
	x.Open("Grant")
	x.Buf = append(x.Buf, `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">`...)
	x.CanonicalUser(owner)
	x.Close("Grantee")
	x.Text("Permission", "FULL_CONTROL")
	x.Close("Grant")
	x.Close("AccessControlList")
	x.Close("AccessControlPolicy")
}

// aclRequest is the body of PutBucketAcl and PutObjectAcl.
type aclRequest struct {
	XMLName xml.Name `xml:"AccessControlPolicy"`
	Owner   *struct {
		ID   string `xml:"ID"`
		Name string `xml:"DisplayName"`
	} `xml:"Owner"`
	List *struct {
		Grants []struct {
			Grantee struct {
				ID    string `xml:"ID"`
				Name  string `xml:"DisplayName"`
				URI   string `xml:"URI"`
				Email string `xml:"EmailAddress"`
			} `xml:"Grantee"`
			Permission string `xml:"Permission"`
		} `xml:"Grant"`
	} `xml:"AccessControlList"`
}

// check accepts only the ACL that has no effect: full control for the owner, given by its canonical ID, and no access for
// other accounts.
func (r *aclRequest) check(owner string) error {
	switch {
	case r.List == nil:
		return errMalformedXML
	case r.Owner == nil || r.Owner.ID != owner:
		return errAccessDenied
	}
	full := false
	for _, g := range r.List.Grants {
		switch g.Permission {
		case "FULL_CONTROL", "READ", "WRITE", "READ_ACP", "WRITE_ACP":
		default:
			return errMalformedXML
		}
		if g.Grantee.ID != owner || g.Grantee.URI != "" || g.Grantee.Email != "" {
			return errNoACLs
		}
		full = full || g.Permission == "FULL_CONTROL"
	}
	if !full {
		return errNoACLs
	}
	return nil
}

// putBucketACL accepts only ACLs that have no effect. Canned ACLs have already been checked with the headers.
func putBucketACL(q *request) error {
	doc, _, err := readBody(q)
	if err != nil {
		return err
	}
	canned := first(q.r.Header, aclName) != ""
	switch {
	case canned && len(doc) > 0:
		return errUnexpectedContent
	case canned:
		return nil
	case len(doc) == 0:
		return errMissingHeader.With("MissingHeaderName", "x-amz-acl")
	}
	var body aclRequest
	if err := xmldoc.Parse(doc, &body); err != nil {
		return err
	}
	return body.check(auth.CanonicalID(q.bucket.Owner))
}

func putObjectACL(q *request) error {
	if _, err := q.version(); err != nil {
		return err
	}
	if err := putBucketACL(q); err != nil {
		return err
	}
	o, err := statVersion(q)
	if err != nil {
		return err
	}
	q.setVersion(o.Version())
	return nil
}
