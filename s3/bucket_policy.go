package s3

import (
	"errors"

	"orcas/auth/policy"
	"orcas/core"
	"orcas/s3/bucketaccess"
	"orcas/s3/xmldoc"
)

const (
	policySub      = bucketaccess.PolicyAttr
	publicBlockSub = bucketaccess.BlockAttr
)

// WithoutPublicAccessBlock returns the attribute of a new bucket that has no public access block.
func WithoutPublicAccessBlock() core.Attr { return core.Attr{Name: publicBlockSub, Value: removed} }

// parsePolicy compiles a new policy of the bucket that the request addresses.
func (q *request) parsePolicy(doc []byte) (*bucketaccess.New, error) {
	p, err := bucketaccess.Prepare(q.bucket.Name, string(doc), q.s.principals)
	var malformed *policy.Error
	if errors.As(err, &malformed) {
		return nil, errMalformedPolicy.Say(malformed.Error())
	}
	return p, err
}

// checkOwnAccount refuses requests of other accounts for the policy of a bucket, as S3 does, even if a policy allows
// them.
func checkOwnAccount(q *request) error {
	if q.caller.Account != q.bucket.Owner {
		return errMethodNotAllowed
	}
	return nil
}

func getPolicy(q *request) error {
	if err := checkOwnAccount(q); err != nil {
		return err
	}
	doc, err := bucketaccess.Shown(q.bucket, q.s.principals)
	if err != nil {
		return errInternal.Because(err)
	}
	if doc == "" {
		return errNoPolicy
	}
	q.sendJSON(doc)
	return nil
}

// putPolicy stores the policy of a bucket. Whether its public access block refuses the policy is decided together with
// the change, so that a block that is set at the same time either refuses the policy or is set after it.
func putPolicy(q *request) error {
	if err := checkOwnAccount(q); err != nil {
		return err
	}
	doc, err := readConfiguration(q)
	if err != nil {
		return err
	}
	p, err := q.parsePolicy(doc)
	if err != nil {
		return err
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		if bucketaccess.Block(b).Refuses(p.Policy) {
			return errAccessDenied.Say("Access Denied: the policy makes the bucket public, and the BlockPublicPolicy setting " +
				"of the bucket's public access block prevents public policies.")
		}
		p.Set(b)
		return nil
	})
}

func deletePolicy(q *request) error {
	if err := checkOwnAccount(q); err != nil {
		return err
	}
	return updateBucket(q, func(b *core.BucketInfo) error {
		bucketaccess.Remove(b)
		return nil
	})
}

func getPolicyStatus(q *request, x *xmldoc.Writer) error {
	doc := core.AttrValue(q.bucket.Attrs, policySub)
	if doc == "" {
		return errNoPolicy
	}
	p, err := bucketaccess.Parse(q.bucket.Name, doc)
	if err != nil {
		return errInternal.Because(err)
	}
	x.Begin("PolicyStatus")
	x.Bool("IsPublic", p.IsPublic())
	x.Close("PolicyStatus")
	return nil
}
