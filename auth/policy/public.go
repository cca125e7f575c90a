package policy

import (
	"math"
	"net/netip"
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
// one of the keys in trustedKeys. Unlike AWS, which looks at each range of addresses alone, it also is if the ranges of
// the policy together are too broad, since the whole address space can be listed in pieces.
func (p *Policy) IsPublic() bool { return p.public }

func isPublic(statements []*Statement) bool {
	var ranges []netip.Prefix
	for _, s := range statements {
		if s.Effect == Deny || !s.principals.everyone && !s.notPrincipal {
			continue
		}
		c := s.trusted()
		if c == nil {
			return true
		}
		for i := range c.operands {
			if c.op.class == classIP {
				ranges = append(ranges, c.operands[i].network)
			}
		}
	}
	return areBroad(ranges)
}

// trusted returns a condition that limits the statement to known callers, or nil if there is none. It prefers one that
// is not about addresses.
func (s *Statement) trusted() (found *condition) {
	for i := range s.conditions {
		if c := &s.conditions[i]; c.trusts() && (found == nil || found.op.class == classIP) {
			found = c
		}
	}
	return found
}

// The bits of the prefix of the broadest range of addresses, and of the broadest set of ranges. A list of IPv6 ranges may
// be broader than one range: networks of companies have several ranges of 32 bits, and a policy can list only a tiny part
// of all of them.
const (
	broadest4, broadestSet4 = 8, 8
	broadest6, broadestSet6 = 32, 24
)

// private are the addresses that are not used on the Internet, so that they do not count in a set of ranges.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// areBroad reports whether ranges of addresses together are broader than those that known callers have.
func areBroad(ranges []netip.Prefix) bool {
	slices.SortFunc(ranges, netip.Prefix.Compare)
	var sum4, sum6 float64 // in units of the broadest set
	last := netip.Prefix{}
	for _, r := range ranges {
		within := func(p netip.Prefix) bool { return p.IsValid() && p.Bits() <= r.Bits() && p.Contains(r.Addr()) }
		switch {
		case within(last), slices.ContainsFunc(private, within):
			continue // ranges are disjoint, or one contains the other
		case r.Addr().Is4():
			sum4 += math.Ldexp(1, broadestSet4-r.Bits())
		default:
			sum6 += math.Ldexp(1, broadestSet6-r.Bits())
		}
		last = r
	}
	return sum4 > 1 || sum6 > 1
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

// trustsOperand reports whether a value is fixed. A range of addresses must not be broader than those that one owner can
// have.
func (c *condition) trustsOperand(o *operand) bool {
	switch c.op.class {
	case classIP:
		if o.network.Addr().Is4() {
			return o.network.Bits() >= broadest4
		}
		return o.network.Bits() >= broadest6
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
