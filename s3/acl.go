package s3

import (
	"encoding/xml"
	"net/http"

	"orcas/core"
)

func (q *request) getBucketACL() error {
	q.sendACL(q.bucket.Owner)
	return nil
}

func (q *request) getObjectACL() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	o, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, v)
	if err != nil {
		return q.missing(err, v, o)
	}
	q.setVersion(o.Version())
	q.sendACL(q.bucket.Owner)
	return nil
}

// sendACL answers with the one ACL that there is: the owner may everything.
func (q *request) sendACL(owner string) {
	x := q.s.document()
	defer q.s.release(x)
	x.begin("AccessControlPolicy")
	x.owner("Owner", owner)
	x.open("AccessControlList")
	x.open("Grant")
	x.b = append(x.b, `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">`...)
	x.text("ID", owner)
	x.text("DisplayName", owner)
	x.close("Grantee")
	x.text("Permission", "FULL_CONTROL")
	x.close("Grant")
	x.close("AccessControlList")
	x.close("AccessControlPolicy")
	q.sendXML(http.StatusOK, x)
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

// check accepts the list that says what holds anyway.
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
			return notServed("A grant to others than the owner")
		}
		full = full || g.Permission == "FULL_CONTROL"
	}
	if !full {
		return notServed("An access control list that does not give the owner full control")
	}
	return nil
}

// checkNewACL accepts the access control lists that say what holds anyway. Canned ones were checked with the headers.
func (q *request) checkNewACL() error {
	doc, _, err := q.readBody()
	if err != nil {
		return err
	}
	canned := first(q.r.Header, "X-Amz-Acl") != ""
	switch {
	case canned && len(doc) > 0:
		return errUnexpectedContent
	case canned:
		return nil
	case len(doc) == 0:
		return errMissingHeader.with("MissingHeaderName", "x-amz-acl")
	}
	var body aclRequest
	if err := parseXML(doc, &body); err != nil {
		return err
	}
	return body.check(q.bucket.Owner)
}

func (q *request) putBucketACL() error {
	if err := q.checkNewACL(); err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) putObjectACL() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	if err := q.checkNewACL(); err != nil {
		return err
	}
	var o *core.ObjectInfo
	if o, err = q.s.fs.Stat(q.ctx, q.bucket, q.key, v); err != nil {
		return q.missing(err, v, o)
	}
	q.setVersion(o.Version())
	q.sendEmpty(http.StatusOK)
	return nil
}
