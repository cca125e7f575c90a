// Package bucketaccess reads and writes the policy and the public access block of a bucket. They are attributes of the
// bucket, so they are read together with it, and every decision uses those of the bucket that the request works on.
//
//	attribute            value
//	policy               the document, as the client sent it; none if the bucket has no policy
//	publicAccessBlock    the XML inside PublicAccessBlockConfiguration; "-" if the block was removed; none if it was
//	                     never configured, which blocks all public access
package bucketaccess

import (
	"cmp"
	"fmt"
	"strings"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
)

// The names of the attributes: those of the query parameters of S3.
const (
	PolicyAttr = "policy"
	BlockAttr  = "publicAccessBlock"
)

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

// Parse compiles the policy of a bucket. known reports whether a principal exists; if it is nil, all do. Every error is
// a *policy.Error.
func Parse(bucket, document string, known func(kind, principal string) bool) (*policy.Policy, error) {
	return policy.Parse([]byte(document), policy.Source{Name: bucket, Bucket: bucket, Known: known})
}

// Resource returns a bucket as the resource of a decision.
func Resource(b *core.BucketInfo) auth.Resource {
	r := auth.Resource{Account: b.Owner, Bucket: b.Name, Policy: Document(b)}
	if r.Policy != "" {
		r.RestrictPublic = Block(b).RestrictPublicBuckets
	}
	return r
}
