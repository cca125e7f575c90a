package bucketaccess

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth/policy"
	"orcas/core"
)

// The statements of the tests: one that is public, and one that is not.
const (
	writes  = `{"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::b/*"}`
	deletes = `{"Sid": "Old", "Effect": "Deny", "Principal": "*", "Action": ["s3:DeleteObject"], "Resource": "arn:aws:s3:::b/old/*"}`
	ours    = `{"Action":"s3:GetObject","Effect":"Allow","Principal":"*","Resource":"arn:aws:s3:::b/*","Sid":"OrcasPublicRead"}`
)

// bucket returns a bucket with a policy document and a public access block, either of which may be "".
func bucket(document, block string) *core.BucketInfo {
	b := &core.BucketInfo{Name: "b", Owner: "111122223333"}
	b.Attrs = core.SetAttr(b.Attrs, PolicyAttr, document)
	b.Attrs = core.SetAttr(b.Attrs, BlockAttr, block)
	return b
}

func TestBlock(t *testing.T) {
	all := policy.PublicAccessBlock{BlockPublicACLs: true, IgnorePublicACLs: true, BlockPublicPolicy: true, RestrictPublicBuckets: true}
	require.Equal(t, all, Block(bucket("", "")))
	require.Equal(t, all, Block(bucket("", BlocksAll)))
	require.Zero(t, Block(bucket("", Removed)))
	for i := range 16 {
		b := policy.PublicAccessBlock{
			BlockPublicACLs: i&1 > 0, IgnorePublicACLs: i&2 > 0, BlockPublicPolicy: i&4 > 0, RestrictPublicBuckets: i&8 > 0,
		}
		require.Equal(t, b, Block(bucket("", EncodeBlock(b))))
	}
}

func TestSetPublic(t *testing.T) {
	closed, half := "", EncodeBlock(policy.PublicAccessBlock{RestrictPublicBuckets: true})
	opened := EncodeBlock(policy.PublicAccessBlock{BlockPublicACLs: true, IgnorePublicACLs: true})
	one := func(statement string) string { return `{"Version": "2012-10-17", "Statement": ` + statement + `}` }
	out := func(statements ...string) string {
		return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
	}
	for name, c := range map[string]struct {
		document, block string
		before          Public
		to              Public
		want, wantBlock string
		after           Public
		fails           string
	}{
		"open":                   {"", closed, PublicNone, PublicRead, out(ours), opened, PublicRead, ""},
		"open without a block":   {"", Removed, PublicNone, PublicRead, out(ours), EncodeBlock(policy.PublicAccessBlock{}), PublicRead, ""},
		"open twice":             {out(ours), opened, PublicRead, PublicRead, out(ours), opened, PublicRead, ""},
		"close":                  {out(ours), opened, PublicRead, PublicNone, "", BlocksAll, PublicNone, ""},
		"close what was closed":  {"", closed, PublicNone, PublicNone, "", BlocksAll, PublicNone, ""},
		"keep others, open":      {one("[" + deletes + "]"), closed, PublicNone, PublicRead, out(deletes, ours), opened, PublicRead, ""},
		"keep one other, open":   {one(deletes), closed, PublicNone, PublicRead, out(deletes, ours), opened, PublicRead, ""},
		"keep others, close":     {out(ours, deletes), opened, PublicRead, PublicNone, out(deletes), BlocksAll, PublicNone, ""},
		"public ones, closed":    {one(writes), closed, PublicNone, PublicRead, "", "", "", "has other statements that are public"},
		"public ones, half open": {one(writes), half, PublicNone, PublicRead, "", "", "", "has other statements that are public"},
		"public ones, open":      {one(writes), Removed, PublicCustom, PublicRead, out(writes, ours), EncodeBlock(policy.PublicAccessBlock{}), PublicCustom, ""},
		"public ones, to close":  {out(writes, ours), opened, PublicCustom, PublicNone, out(writes), BlocksAll, PublicNone, ""},
		"ours, but blocked":      {out(ours), closed, PublicNone, PublicRead, out(ours), opened, PublicRead, ""},
		"damaged":                {`{"Statement": 1}`, closed, PublicNone, PublicRead, "", "", "", "cannot be read, so replace or delete it first"},
		"custom":                 {one(writes), closed, PublicNone, PublicCustom, out(writes), opened, PublicCustom, ""},
		"custom, from read":      {out(ours, deletes), opened, PublicRead, PublicCustom, out(deletes), opened, PublicNone, ""},
		"unknown":                {"", closed, PublicNone, "all", "", "", "", "expected read, none or custom"},
	} {
		b := bucket(c.document, c.block)
		require.Equal(t, c.before, PublicOf(b), name)
		err := SetPublic(b, c.to)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails, name)
			require.Equal(t, bucket(c.document, c.block), b, "%s: nothing may change", name)
			continue
		}
		require.NoError(t, err, name)
		if c.want == "" {
			require.Empty(t, Document(b), name)
		} else {
			require.JSONEq(t, c.want, Document(b), name)
		}
		require.Equal(t, c.wantBlock, core.AttrValue(b.Attrs, BlockAttr), name)
		require.Equal(t, c.after, PublicOf(b), name)
	}

	// The text of other statements, the Id and the version stay; a policy that would be too large is refused.
	b := bucket(`{"Id": "mine", "Statement": `+deletes+`}`, "")
	require.NoError(t, SetPublic(b, PublicRead))
	require.Contains(t, Document(b), `"Id":"mine"`)
	require.NotContains(t, Document(b), "Version")
	large := bucket(one(strings.Replace(deletes, "old/*", "old/*"+strings.Repeat("x", 20<<10-len(one(deletes))), 1)), "")
	require.ErrorContains(t, SetPublic(large, PublicRead), "would not be valid")
}

// TestSetPolicy: the statement that opens a bucket survives a new policy, and cannot be a part of one.
func TestSetPolicy(t *testing.T) {
	document := `{"Statement":[` + deletes + `]}`
	closed := bucket("", "")
	require.NoError(t, SetPolicy(closed, document, nil))
	require.Equal(t, document, Document(closed))
	open := bucket("", "")
	require.NoError(t, SetPublic(open, PublicRead))
	for range 2 {
		require.NoError(t, SetPolicy(open, document, nil))
		require.JSONEq(t, `{"Statement":[`+deletes+`,`+ours+`]}`, Document(open))
		require.Equal(t, PublicRead, PublicOf(open))
	}
	require.ErrorContains(t, SetPolicy(open, `{"Statement":`+ours+`}`, nil), "is reserved")
	damaged := bucket("damaged", "")
	require.NoError(t, SetPolicy(damaged, document, nil))
	require.Equal(t, document, Document(damaged))
}
