// Package bucketaccess reads and writes the policy and the public access block of a bucket. They are attributes of the
// bucket, so they are read together with it, and every decision uses those of the bucket that the request works on.
//
// A policy names users by ARNs, which contain their names. As in AWS, it is about the users that have these names when
// it is written: their unique IDs are stored with it. So a user that is created later under the name of a deleted one
// has no rights from it, and a user that is renamed keeps them. A policy that was stored without IDs, before they were
// introduced, is about whoever has the name, until it is written again.
//
//	attribute            value
//	policy               the document, as the client sent it; none if the bucket has no policy
//	policyPrincipals     the unique IDs of the users, roles and application keys that the policy names as principals, by
//	                     their ARNs, as a JSON object; none if it names none
//	publicAccessBlock    the XML inside PublicAccessBlockConfiguration; "-" if the block was removed; none if it was
//	                     never configured, which blocks all public access
package bucketaccess

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
)

// The names of the attributes: those of the query parameters of S3.
const (
	PolicyAttr     = "policy"
	PrincipalsAttr = "policyPrincipals"
	BlockAttr      = "publicAccessBlock"
)

// Principals are the principals of a store.
type Principals interface {
	// Resolve reports whether a principal exists, which a policy names with a kind such as "AWS", and returns its unique ID,
	// or "" if it has none.
	Resolve(kind, principal string) (id string, exists bool)

	// PresentARN returns the ARN that the principal with an ID has now, which had another ARN before. If the principal was
	// deleted, it returns the ID.
	PresentARN(arn, id string) string
}

// Removed is the value of a public access block that was removed.
const Removed = "-"

// BlocksAll is the value of a public access block with all settings on.
var BlocksAll = EncodeBlock(policy.PublicAccessBlock{
	BlockPublicACLs: true, IgnorePublicACLs: true, BlockPublicPolicy: true, RestrictPublicBuckets: true,
})

// EncodeBlock returns the value of a public access block.
func EncodeBlock(b policy.PublicAccessBlock) string {
	return fmt.Sprintf("<BlockPublicAcls>%t</BlockPublicAcls><IgnorePublicAcls>%t</IgnorePublicAcls>"+
		"<BlockPublicPolicy>%t</BlockPublicPolicy><RestrictPublicBuckets>%t</RestrictPublicBuckets>",
		b.BlockPublicACLs, b.IgnorePublicACLs, b.BlockPublicPolicy, b.RestrictPublicBuckets)
}

// Block returns the public access block of a bucket.
func Block(b *core.BucketInfo) policy.PublicAccessBlock {
	value := cmp.Or(core.AttrValue(b.Attrs, BlockAttr), BlocksAll)
	has := func(name string) bool { return strings.Contains(value, "<"+name+">true</"+name+">") }
	return policy.PublicAccessBlock{
		BlockPublicACLs: has("BlockPublicAcls"), IgnorePublicACLs: has("IgnorePublicAcls"),
		BlockPublicPolicy: has("BlockPublicPolicy"), RestrictPublicBuckets: has("RestrictPublicBuckets"),
	}
}

// Document returns the policy document of a bucket, or "".
func Document(b *core.BucketInfo) string { return core.AttrValue(b.Attrs, PolicyAttr) }

// Parse compiles the policy of a bucket, whose principals need not exist. Every error is a *policy.Error.
func Parse(bucket, document string) (*policy.Policy, error) {
	return policy.Parse([]byte(document), policy.Source{Name: bucket, Bucket: bucket})
}

// New is a policy that a bucket can get: compiled, with the unique IDs of its principals.
type New struct {
	*policy.Policy
	document, principals string
}

// Prepare compiles a new policy of a bucket. All its principals must exist; if who is nil, they do, and have no IDs.
// Every error is a *policy.Error.
func Prepare(bucket, document string, who Principals) (*New, error) {
	from, ids := policy.Source{Name: bucket, Bucket: bucket}, map[string]string{}
	if who != nil {
		from.Known = func(kind, principal string) bool {
			id, exists := who.Resolve(kind, principal)
			ids[principal] = id
			return exists
		}
	}
	p, err := policy.Parse([]byte(document), from)
	if err != nil {
		return nil, err
	}
	named := map[string]string{} // not the accounts: they keep their IDs
	for _, arn := range p.Principals() {
		if ids[arn] != "" {
			named[arn] = ids[arn]
		}
	}
	n := &New{Policy: p, document: document}
	if len(named) > 0 {
		text, _ := json.Marshal(named) // a map of texts can always be encoded
		n.principals = string(text)
	}
	return n, nil
}

// Set makes n the policy of a bucket. The caller stores the bucket.
func (n *New) Set(b *core.BucketInfo) { setDocument(b, n.document, n.principals) }

// Remove removes the policy of a bucket. The caller stores the bucket.
func Remove(b *core.BucketInfo) { setDocument(b, "", "") }

func setDocument(b *core.BucketInfo, document, principals string) {
	b.Attrs = core.SetAttr(core.SetAttr(b.Attrs, PolicyAttr, document), PrincipalsAttr, principals)
}

// Shown returns the policy document of a bucket as GetBucketPolicy shows it, or "": with the present ARNs of its
// principals, and the unique IDs of those that were deleted.
func Shown(b *core.BucketInfo, who Principals) (string, error) {
	document, principals := Document(b), core.AttrValue(b.Attrs, PrincipalsAttr)
	if principals == "" || who == nil {
		return document, nil
	}
	var ids map[string]string
	if err := json.Unmarshal([]byte(principals), &ids); err != nil {
		return "", err
	}
	return policy.ReplacePrincipals(document, func(arn string) string {
		if ids[arn] == "" {
			return arn
		}
		return who.PresentARN(arn, ids[arn])
	})
}

// Resource returns a bucket as the resource of a decision.
func Resource(b *core.BucketInfo) auth.Resource {
	r := auth.Resource{Account: b.Owner, Bucket: b.Name, Policy: Document(b)}
	if r.Policy != "" {
		r.Principals = core.AttrValue(b.Attrs, PrincipalsAttr)
		r.RestrictPublic = Block(b).RestrictPublicBuckets
	}
	return r
}
