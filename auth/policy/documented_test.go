package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// try is a request about the bucket of an example, and the decision that the documentation states.
type try struct {
	caller *Caller
	action auth.Action
	key    string
	facts  facts
	want   Decision
}

// documented are examples of the documentation of AWS: "Examples of Amazon S3 bucket policies", "Bucket policy examples
// using condition keys", "User policy examples" (all in the Amazon S3 User Guide), and "Policy elements: Variables and
// tags" (IAM User Guide). Names of buckets and accounts are shortened.
var documented = []struct {
	name     string
	bucket   string // statements of a bucket policy
	identity string // statements of the policies of the identity "alice" of the owner
	tries    []try
}{
	{"Requiring SSE: deny uploads without AES256", `
		{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*"},
		{"Sid": "DenyIncorrect", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}},
		{"Sid": "DenyMissing", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"Null": {"s3:x-amz-server-side-encryption": "true"}}}`, "", []try{
		{root(owner), "s3:PutObject", "x", facts{"s3:x-amz-server-side-encryption": "AES256"}, Allowed},
		{root(owner), "s3:PutObject", "x", facts{"s3:x-amz-server-side-encryption": "aws:kms"}, ExplicitDeny},
		{root(owner), "s3:PutObject", "x", nil, ExplicitDeny},
		{root(owner), "s3:GetObject", "x", nil, Allowed},
	}},
	{"Granting permissions to multiple accounts with a canned ACL", `
		{"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam::111122223333:root", "arn:aws:iam::444455556666:root"]},
		 "Action": ["s3:PutObject", "s3:PutObjectAcl"], "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringEquals": {"s3:x-amz-acl": ["public-read"]}}}`, "", []try{
		{root(stranger), "s3:PutObject", "x", facts{"s3:x-amz-acl": "public-read"}, Allowed},
		{root(stranger), "s3:PutObject", "x", facts{"s3:x-amz-acl": "private"}, ImplicitDeny},
		{root(stranger), "s3:PutObject", "x", nil, ImplicitDeny},
		{user(stranger), "s3:PutObject", "x", facts{"s3:x-amz-acl": "public-read"}, ImplicitDeny},
		{user(stranger, BuiltIn("writeonly")), "s3:PutObject", "x", facts{"s3:x-amz-acl": "public-read"}, Allowed},
	}},
	{"Granting read-only permission to a public anonymous user", `
		{"Sid": "PublicRead", "Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion"],
		 "Resource": ["arn:aws:s3:::b/*"]}`, "", []try{
		{nobody, "s3:GetObject", "x", nil, Allowed},
		{nobody, "s3:PutObject", "x", nil, ImplicitDeny},
		{nobody, "s3:ListBucket", "", nil, ImplicitDeny},
	}},
	{"Requiring HTTPS", `
		{"Sid": "RestrictToTLSRequestsOnly", "Action": "s3:*", "Effect": "Deny",
		 "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}},
		 "Principal": "*"}`, "", []try{
		{root(owner), "s3:GetObject", "x", facts{"aws:SecureTransport": "false"}, ExplicitDeny},
		{root(owner), "s3:GetObject", "x", facts{"aws:SecureTransport": "true"}, Allowed},
		{root(owner), "s3:PutBucketPolicy", "", facts{"aws:SecureTransport": "false"}, Allowed},
	}},
	{"Restricting access to specific IP addresses", `
		{"Sid": "IPAllow", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
		 "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
		 "Condition": {"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}`, "", []try{
		{root(owner), "s3:GetObject", "x", facts{"aws:SourceIp": "192.0.2.9"}, Allowed},
		{root(owner), "s3:GetObject", "x", facts{"aws:SourceIp": "198.51.100.9"}, ExplicitDeny},
		{root(owner), "s3:GetObject", "x", nil, ExplicitDeny},
	}},
	{"Allowing both IPv4 and IPv6 addresses, except one range", `
		{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
		 "Condition": {"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:DB8:1234:5678::/64"]},
		               "NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:DB8:1234:5678:ABCD::/80"]}}}`, "", []try{
		{nobody, "s3:GetObject", "x", facts{"aws:SourceIp": "2001:db8:1234:5678::1"}, Allowed},
		{nobody, "s3:GetObject", "x", facts{"aws:SourceIp": "2001:db8:1234:5678:abcd::1"}, ImplicitDeny},
		{nobody, "s3:GetObject", "x", facts{"aws:SourceIp": "192.0.2.1"}, Allowed},
		{nobody, "s3:GetObject", "x", facts{"aws:SourceIp": "203.0.113.1"}, ImplicitDeny},
	}},
	{"Restricting access to a specific HTTP referer", `
		{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringLike": {"aws:Referer": ["http://www.example.com/*", "http://example.com/*"]}}}`, "", []try{
		{nobody, "s3:GetObject", "x", facts{"aws:Referer": "http://example.com/page"}, Allowed},
		{nobody, "s3:GetObject", "x", facts{"aws:Referer": "http://evil.example.net/http://example.com/"}, ImplicitDeny},
		{nobody, "s3:GetObject", "x", nil, ImplicitDeny},
	}},
	{"Bucket owner granting cross-account permission with full control", `
		{"Sid": "PolicyForAllowUploadWithACL", "Effect": "Allow", "Principal": {"AWS": "444455556666"},
		 "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}}`, "", []try{
		{root(stranger), "s3:PutObject", "x", facts{"s3:x-amz-acl": "bucket-owner-full-control"}, Allowed},
		{root(stranger), "s3:PutObject", "x", nil, ImplicitDeny},
	}},
	{"Requiring MFA", `
		{"Sid": "Deny", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b/tax/*",
		 "Condition": {"Null": {"aws:MultiFactorAuthAge": true}}},
		{"Sid": "Allow", "Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/*"}`, "", []try{
		{user(owner), "s3:GetObject", "tax/x", nil, ExplicitDeny},
		{user(owner), "s3:GetObject", "tax/x", facts{"aws:MultiFactorAuthAge": "5"}, Allowed},
		{user(owner), "s3:GetObject", "x", nil, Allowed},
	}},
	{"Allowing a user to read only objects with a tag", `
		{"Principal": {"AWS": "arn:aws:iam::111122223333:user/staff/alice"}, "Effect": "Allow",
		 "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringEquals": {"s3:ExistingObjectTag/environment": "production"}}}`, "", []try{
		{user(owner), "s3:GetObject", "x", facts{"s3:ExistingObjectTag/environment": "production"}, Allowed},
		{user(owner), "s3:GetObject", "x", facts{"s3:ExistingObjectTag/environment": "test"}, ImplicitDeny},
		{user(owner), "s3:GetObject", "x", facts{"s3:ExistingObjectTag/Environment": "production"}, ImplicitDeny},
	}},
	{"Requiring a certain tag on upload", `
		{"Principal": {"AWS": ["arn:aws:iam::111122223333:user/staff/alice"]}, "Effect": "Allow", "Action": ["s3:PutObject"],
		 "Resource": ["arn:aws:s3:::b/*"], "Condition": {"StringEquals": {"s3:RequestObjectTag/Department": "Finance"}}}`, "", []try{
		{user(owner), "s3:PutObject", "x", facts{"s3:RequestObjectTag/Department": "Finance"}, Allowed},
		{user(owner), "s3:PutObject", "x", nil, ImplicitDeny},
	}},
	{"Restricting the keys of tags", `
		{"Principal": {"AWS": ["arn:aws:iam::111122223333:role/reader"]}, "Effect": "Allow",
		 "Action": ["s3:PutObjectTagging", "s3:PutObjectVersionTagging"], "Resource": ["arn:aws:s3:::b/*"],
		 "Condition": {"ForAllValues:StringLike": {"s3:RequestObjectTagKeys": ["Owner", "CreationDate"]}}}`, "", []try{
		{session(), "s3:PutObjectTagging", "x", facts{"s3:RequestObjectTagKeys": "Owner"}, Allowed},
		{session(), "s3:PutObjectTagging", "x", facts{"s3:RequestObjectTagKeys": "Cost"}, ImplicitDeny},
		{session(), "s3:PutObjectTagging", "x", nil, Allowed},
	}},
	{"Granting access to listings of a prefix", `
		{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:user/staff/alice"}, "Action": "s3:ListBucket",
		 "Resource": "arn:aws:s3:::b", "Condition": {"StringEquals": {"s3:prefix": "projects"}}},
		{"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::111122223333:user/staff/alice"}, "Action": "s3:ListBucket",
		 "Resource": "arn:aws:s3:::b", "Condition": {"StringNotEquals": {"s3:prefix": "projects"}}}`, "", []try{
		{user(owner), "s3:ListBucket", "", facts{"s3:prefix": "projects"}, Allowed},
		{user(owner), "s3:ListBucket", "", facts{"s3:prefix": "other"}, ExplicitDeny},
		{user(owner), "s3:ListBucket", "", nil, ExplicitDeny},
	}},
	{"Limiting max-keys", `
		{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::444455556666:root"}, "Action": "s3:ListBucket",
		 "Resource": "arn:aws:s3:::b", "Condition": {"NumericLessThanEquals": {"s3:max-keys": "10"}}}`, "", []try{
		{root(stranger), "s3:ListBucket", "", facts{"s3:max-keys": "10"}, Allowed},
		{root(stranger), "s3:ListBucket", "", facts{"s3:max-keys": "11"}, ImplicitDeny},
		{root(stranger), "s3:ListBucket", "", nil, ImplicitDeny},
	}},
	{"Requiring a TLS version", `
		{"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::b/*"],
		 "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}}}`, "", []try{
		{root(owner), "s3:PutObject", "x", facts{"s3:TlsVersion": "1.1"}, ExplicitDeny},
		{root(owner), "s3:PutObject", "x", facts{"s3:TlsVersion": "1.2"}, Allowed},
		{root(owner), "s3:PutObject", "x", facts{"s3:TlsVersion": "1.3"}, Allowed},
	}},
	{"Restricting the source of copies", `
		{"Effect": "Allow", "Principal": {"AWS": "444455556666"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*"},
		{"Effect": "Deny", "Principal": {"AWS": "444455556666"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"Null": {"s3:x-amz-copy-source": "false"}}},
		{"Effect": "Deny", "Principal": {"AWS": "444455556666"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"StringNotLike": {"s3:x-amz-copy-source": "source/public/*"}}}`, "", []try{
		{root(stranger), "s3:PutObject", "x", nil, ExplicitDeny},
		{root(stranger), "s3:PutObject", "x", facts{"s3:x-amz-copy-source": "source/public/x"}, ExplicitDeny},
	}},
	{"Restricting the age of signatures", `
		{"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:*", "Resource": "arn:aws:s3:::b/*",
		 "Condition": {"NumericGreaterThan": {"s3:signatureAge": "600000"}}}`, "", []try{
		{root(owner), "s3:GetObject", "x", facts{"s3:signatureAge": "600001"}, ExplicitDeny},
		{root(owner), "s3:GetObject", "x", facts{"s3:signatureAge": "600000"}, Allowed},
	}},
	{"Limiting the retention period", `
		{"Sid": "SetRetentionLimits", "Effect": "Deny", "Principal": "*", "Action": ["s3:PutObjectRetention"],
		 "Resource": "arn:aws:s3:::b/*", "Condition": {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}}}`, "", []try{
		{root(owner), "s3:PutObjectRetention", "x", facts{"s3:object-lock-remaining-retention-days": "11"}, ExplicitDeny},
		{root(owner), "s3:PutObjectRetention", "x", facts{"s3:object-lock-remaining-retention-days": "10"}, Allowed},
	}},
	{"Requiring conditional writes", `
		{"Sid": "AllowConditionalPut", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:user/staff/alice"},
		 "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*", "Condition": {"Null": {"s3:if-none-match": "false"}}},
		{"Sid": "AllowMultipart", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:user/staff/alice"},
		 "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*", "Condition": {"Bool": {"s3:ObjectCreationOperation": "false"}}}`, "", []try{
		{user(owner), "s3:PutObject", "x", facts{"s3:if-none-match": "*", "s3:ObjectCreationOperation": "true"}, Allowed},
		{user(owner), "s3:PutObject", "x", facts{"s3:ObjectCreationOperation": "true"}, ImplicitDeny},
		{user(owner), "s3:PutObject", "x", facts{"s3:ObjectCreationOperation": "false"}, Allowed},
	}},
	{"NotPrincipal with Deny", `
		{"Effect": "Deny", "NotPrincipal": {"AWS": ["arn:aws:iam::111122223333:user/staff/alice", "arn:aws:iam::111122223333:root"]},
		 "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]}`,
		`{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}`, []try{
			{user(owner), "s3:GetObject", "x", nil, Allowed},
			{root(owner), "s3:GetObject", "x", nil, Allowed},
			{session(BuiltIn("readonly")), "s3:GetObject", "x", nil, ExplicitDeny},
			{nobody, "s3:GetObject", "x", nil, ExplicitDeny},
		}},
	{"Allowing a user access to a folder in a bucket, with variables", "", `
		{"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::b"],
		 "Condition": {"StringLike": {"s3:prefix": ["${aws:username}/*"]}}},
		{"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": ["arn:aws:s3:::b/${aws:username}/*"]}`, []try{
		{user(owner), "s3:ListBucket", "", facts{"s3:prefix": "alice/"}, Allowed},
		{user(owner), "s3:ListBucket", "", facts{"s3:prefix": "bob/"}, ImplicitDeny},
		{user(owner), "s3:ListBucket", "", nil, ImplicitDeny},
		{user(owner), "s3:GetObject", "alice/x", nil, Allowed},
		{user(owner), "s3:GetObject", "bob/x", nil, ImplicitDeny},
		{user(owner), "s3:DeleteObject", "alice/x", nil, ImplicitDeny},
	}},
	{"Default values of variables", "", `
		{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/${aws:PrincipalTag/team, 'company-wide'}/*"}`, []try{
		{user(owner), "s3:GetObject", "company-wide/x", nil, Allowed},
		{user(owner), "s3:GetObject", "red/x", nil, ImplicitDeny},
	}},
	{"Allowing a user to list buckets and read one", "", `
		{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "arn:aws:s3:::*"},
		{"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetBucketLocation"], "Resource": "arn:aws:s3:::b"},
		{"Effect": "Allow", "Action": ["s3:PutObject", "s3:PutObjectAcl", "s3:GetObject", "s3:GetObjectAcl", "s3:DeleteObject"],
		 "Resource": "arn:aws:s3:::b/*"}`, []try{
		{user(owner), "s3:ListAllMyBuckets", "", nil, Allowed},
		{user(owner), "s3:GetBucketLocation", "", nil, Allowed},
		{user(owner), "s3:DeleteObject", "x", nil, Allowed},
		{user(owner), "s3:DeleteBucket", "", nil, ImplicitDeny},
	}},
	{"Everything except IAM", "", `{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}`, []try{
		{user(owner), "s3:DeleteBucket", "", nil, Allowed},
		{user(owner), "orcas:StartScrub", "", nil, Allowed},
		{user(owner), "iam:ListUsers", "", nil, ImplicitDeny},
	}},
	{"Between two dates", "", `
		{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", "Condition": {
		 "DateGreaterThan": {"aws:CurrentTime": "2020-04-01T00:00:00Z"}, "DateLessThan": {"aws:CurrentTime": "2020-06-30T23:59:59Z"}}}`, []try{
		{user(owner), "s3:GetObject", "x", facts{"aws:CurrentTime": "2020-05-01T00:00:00Z"}, Allowed},
		{user(owner), "s3:GetObject", "x", facts{"aws:CurrentTime": "2020-07-01T00:00:00Z"}, ImplicitDeny},
	}},
}

// TestDocumentedExamples decides the examples of the documentation as it states. A caller without policies of its own
// that is the user "alice" of the owner has the policy of the example.
func TestDocumentedExamples(t *testing.T) {
	for _, c := range documented {
		t.Run(c.name, func(t *testing.T) {
			var bucket, identity *Policy
			if c.bucket != "" {
				bucket = ofBucket(t, c.bucket)
			}
			if c.identity != "" {
				identity = ofIdentity(t, c.identity)
			}
			for _, try := range c.tries {
				caller := *try.caller
				if caller.Principal.ARN == user(owner).Principal.ARN && identity != nil {
					caller.Identity = []*Policy{identity}
				}
				q := &Request{
					Caller: &caller, Action: try.action, Facts: try.facts, Bucket: bucket,
					Resource: auth.Resource{Account: owner, Bucket: "b", Key: try.key},
				}
				require.Equal(t, try.want, Decide(q).Decision, "%s %s %s %v", caller.Principal.ARN, try.action, try.key, try.facts)
			}
		})
	}
}

// TestBuiltIn tests what the built-in policies allow.
func TestBuiltIn(t *testing.T) {
	for action, allowed := range map[auth.Action]string{
		"s3:GetObject": "readonly readwrite admin", "s3:ListBucket": "readonly readwrite admin",
		"s3:ListAllMyBuckets": "readonly readwrite admin", "s3:GetBucketLocation": "readonly readwrite writeonly admin",
		"s3:PutObject": "readwrite writeonly admin", "s3:AbortMultipartUpload": "readwrite writeonly admin",
		"s3:DeleteObject": "readwrite admin", "s3:DeleteObjectVersion": "readwrite admin",
		"s3:PutBucketPolicy": "admin", "s3:PutObjectAcl": "admin", "s3:DeleteBucket": "admin", "s3:CreateBucket": "admin",
		"s3:BypassGovernanceRetention": "admin", "s3:PutBucketPublicAccessBlock": "admin", "orcas:StartScrub": "admin",
		"iam:ListUsers": "admin", "sts:GetSessionToken": "admin",
	} {
		for _, name := range []string{"readonly", "readwrite", "writeonly", "admin"} {
			p := BuiltIn(name)
			require.Equal(t, name, p.Name())
			q := get(user(owner, p))
			q.Action = action
			want := ImplicitDeny
			for _, a := range strings.Fields(allowed) {
				if a == name {
					want = Allowed
				}
			}
			require.Equal(t, want, Decide(q).Decision, "%s %s", name, action)
			q.Resource.Account = stranger
			require.Equal(t, ImplicitDeny, Decide(q).Decision, "%s %s in another account", name, action)
			again, err := Parse([]byte(BuiltInDocument(name)), Source{Name: name})
			require.NoError(t, err)
			require.Len(t, again.statements, len(p.statements))
		}
	}
	require.Nil(t, BuiltIn("Admin"))
	require.Empty(t, BuiltInDocument("none"))
}
