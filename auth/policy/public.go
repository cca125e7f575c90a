package policy

import (
	"slices"
	"strings"
)

// PublicAccessBlock is the public access block of a bucket, combined with that of its account.
type PublicAccessBlock struct {
	BlockPublicACLs       bool // for access control lists, which do not exist yet
	IgnorePublicACLs      bool // for access control lists, which do not exist yet
	BlockPublicPolicy     bool // a public bucket policy is refused
	RestrictPublicBuckets bool // a public bucket policy allows nothing to callers of other accounts
}

// Refuses reports whether the policy must not become the policy of the bucket.
func (b PublicAccessBlock) Refuses(p *Policy) bool { return b.BlockPublicPolicy && p.public }

// cancels reports whether what the policy allows does not apply to callers outside of the bucket's account.
func (b PublicAccessBlock) cancels(p *Policy) bool { return b.RestrictPublicBuckets && p.public }

// IsPublic reports whether a bucket policy is public, by the rules of AWS ("The meaning of public", in
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html): it is, unless each
// statement that allows something allows it only to fixed principals, or under a condition that has fixed values for
// one of the keys in trustedKeys.
func (p *Policy) IsPublic() bool { return p.public }

func isPublic(statements []*Statement) bool {
	return slices.ContainsFunc(statements, (*Statement).isPublic)
}

func (s *Statement) isPublic() bool {
	if s.Effect == Deny || !s.principals.everyone && !s.notPrincipal {
		return false
	}
	return !slices.ContainsFunc(s.conditions, func(c condition) bool { return c.trusts() })
}

// trustedKeys are the condition keys that somebody owns: with fixed values, they limit a policy to known callers.
var trustedKeys = []string{
	"aws:PrincipalAccount", "aws:PrincipalArn", "aws:PrincipalOrgID", "aws:SourceAccount", "aws:SourceArn",
	"aws:SourceIp", "aws:SourceOwner", "aws:SourceVpc", "aws:SourceVpce", "aws:userid", "s3:DataAccessPointAccount",
	"s3:DataAccessPointArn",
}

// trusts reports whether a condition limits a statement to known callers. It does not if it also holds when the key is
// absent, or for everything except its values.
func (c *condition) trusts() bool {
	if c.ifExists || c.set == allValues || c.op.negated || !slices.Contains(trustedKeys, c.key.name) {
		return false
	}
	for i := range c.operands {
		if !c.trustsOperand(&c.operands[i]) {
			return false
		}
	}
	return true
}

// trustsOperand reports whether a value is fixed. Ranges of addresses must not be broader than those that one owner can
// have: 8 bits of IPv4, 32 bits of IPv6.
func (c *condition) trustsOperand(o *operand) bool {
	switch c.op.class {
	case classIP:
		least := 32
		if o.network.Addr().Is4() {
			least = 8
		}
		return o.network.Bits() >= least
	case classString, classFold, classLike, classARN:
		if c.key.name == "s3:DataAccessPointArn" && c.op.class == classARN {
			return len(o.parts[4]) == 1 && isLiteral(o.parts[4]) // the name of the access point need not be fixed
		}
		return len(o.tokens) == 1 && isLiteral(o.tokens) && !c.isAnonymous(o.tokens[0].text)
	}
	return false
}

// isAnonymous reports whether a value is the ID that all anonymous callers have.
func (c *condition) isAnonymous(value string) bool {
	return c.key.name == "aws:userid" && strings.EqualFold(value, anonymousID)
}
