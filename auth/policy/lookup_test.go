package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	for name, want := range map[string]ActionInfo{
		"s3:getobject":        {"s3:GetObject", "object"},
		"S3:ListBucket":       {"s3:ListBucket", "bucket"},
		"s3:ListAllMyBuckets": {"s3:ListAllMyBuckets", "service"},
		"orcas:CreateKey":     {"orcas:CreateKey", "none"},
		"iam:CreateUser":      {"iam:CreateUser", "user"},
		"sts:AssumeRole":      {"sts:AssumeRole", "role"},
		"s3:GetObjec":         {},
		"s3:*":                {},
		"":                    {},
		"\u017f3:GetObject":   {}, // a letter that is an S without regard to case
	} {
		got, known := LookupAction(name)
		require.Equal(t, want, got, name)
		require.Equal(t, want.Name != "", known, name)
	}
	for name, want := range map[string]KeyInfo{
		"aws:sourceip":                 {Name: "aws:SourceIp"},
		"S3:RequestObjectTagKeys":      {Name: "s3:RequestObjectTagKeys", List: true},
		"AWS:UserName":                 {Name: "aws:username", OfCaller: true},
		"aws:principaltag/Team":        {Name: "aws:PrincipalTag/Team", OfCaller: true},
		"s3:existingobjecttag/Team":    {Name: "s3:ExistingObjectTag/Team"},
		"aws:ResourceAccount":          {Name: "aws:ResourceAccount", OfCaller: true},
		"s3:ExistingObjectTag/":        {},
		"s3:ExistingObjectTagging/abc": {},
		"":                             {},
	} {
		got, known := LookupKey(name)
		require.Equal(t, want, got, name)
		require.Equal(t, want.Name != "", known, name)
	}
}
