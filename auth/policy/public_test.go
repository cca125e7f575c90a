package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPublic tests which policies are public.
func TestPublic(t *testing.T) {
	on := func(operator, key, value string) []string {
		return []string{"Condition", `{"` + operator + `": {"` + key + `": ` + value + `}}`}
	}
	for name, c := range map[string]struct {
		principal string
		condition []string
		public    bool
	}{
		"everyone":                         {everyone, nil, true},
		"everyone as AWS":                  {aws("*"), nil, true},
		"everyone among others":            {`{"AWS": ["111122223333", "*"]}`, nil, true},
		"an account":                       {aws(owner), nil, false},
		"a user":                           {aws("arn:aws:iam::" + owner + ":user/alice"), nil, false},
		"a service":                        {`{"Service": "logging.s3.amazonaws.com"}`, nil, false},
		"federated":                        {`{"Federated": "accounts.example.com"}`, nil, false},
		"addresses":                        {everyone, on("IpAddress", "aws:SourceIp", `"203.0.113.0/24"`), false},
		"one address":                      {everyone, on("IpAddress", "aws:SourceIp", `"203.0.113.7"`), false},
		"several ranges":                   {everyone, on("IpAddress", "aws:SourceIp", `["10.0.0.0/8", "2001:db8::/32"]`), false},
		"all of IPv4":                      {everyone, on("IpAddress", "aws:SourceIp", `"0.0.0.0/0"`), true},
		"half of IPv4":                     {everyone, on("IpAddress", "aws:SourceIp", `"0.0.0.0/1"`), true},
		"a range of 7 bits":                {everyone, on("IpAddress", "aws:SourceIp", `"10.0.0.0/7"`), true},
		"all of IPv6":                      {everyone, on("IpAddress", "aws:SourceIp", `"::/0"`), true},
		"a range of 31 bits":               {everyone, on("IpAddress", "aws:SourceIp", `"2001:db8::/31"`), true},
		"all of IPv4, mapped":              {everyone, on("IpAddress", "aws:SourceIp", `"::ffff:0.0.0.0/96"`), true},
		"one broad range":                  {everyone, on("IpAddress", "aws:SourceIp", `["203.0.113.0/24", "0.0.0.0/0"]`), true},
		"a broad range and a narrow one":   {everyone, []string{"Condition", `{"ForAnyValue:IpAddress": {"aws:SourceIp": "203.0.113.0/24"}, "IpAddress": {"aws:SourceIp": "0.0.0.0/1"}}`}, false},
		"NotIpAddress":                     {everyone, on("NotIpAddress", "aws:SourceIp", `"203.0.113.0/24"`), true},
		"IpAddressIfExists":                {everyone, on("IpAddressIfExists", "aws:SourceIp", `"203.0.113.0/24"`), true},
		"ForAllValues":                     {everyone, on("ForAllValues:IpAddress", "aws:SourceIp", `"203.0.113.0/24"`), true},
		"ForAnyValue":                      {everyone, on("ForAnyValue:IpAddress", "aws:SourceIp", `"203.0.113.0/24"`), false},
		"IpAddress of another key":         {everyone, on("IpAddress", "aws:VpcSourceIp", `"203.0.113.0/24"`), true},
		"addresses as text":                {everyone, on("StringLike", "aws:SourceIp", `"203.*"`), true},
		"a VPC":                            {everyone, on("StringEquals", "aws:SourceVpc", `"vpc-91237329"`), false},
		"VPCs by a wildcard":               {everyone, on("StringLike", "aws:SourceVpc", `"vpc-*"`), true},
		"a VPC with StringLike":            {everyone, on("StringLike", "aws:SourceVpc", `"vpc-91237329"`), false},
		"not a VPC":                        {everyone, on("StringNotEquals", "aws:SourceVpc", `"vpc-91237329"`), true},
		"a VPC, null":                      {everyone, on("Null", "aws:SourceVpc", `"false"`), true},
		"a VPC endpoint":                   {everyone, on("StringEqualsIgnoreCase", "aws:SourceVpce", `"vpce-1"`), false},
		"an organization":                  {everyone, on("StringEquals", "aws:PrincipalOrgID", `"o-1"`), false},
		"an organization by a variable":    {everyone, on("StringEquals", "aws:PrincipalOrgID", `"${aws:ResourceOrgID}"`), true},
		"one variable among values":        {everyone, on("StringEquals", "aws:PrincipalOrgID", `["o-1", "${aws:ResourceOrgID}"]`), true},
		"an account as a condition":        {everyone, on("StringEquals", "aws:PrincipalAccount", `"111122223333"`), false},
		"a source account":                 {everyone, on("StringEquals", "AWS:sourceaccount", `"111122223333"`), false},
		"a source owner":                   {everyone, on("StringEquals", "aws:SourceOwner", `"111122223333"`), false},
		"a source":                         {everyone, on("ArnEquals", "aws:SourceArn", quoted(sns)), false},
		"sources by a wildcard":            {everyone, on("ArnLike", "aws:SourceArn", `"arn:aws:sns:*:111122223333:*"`), true},
		"a principal":                      {everyone, on("ArnLike", "aws:PrincipalArn", `"arn:aws:iam::111122223333:role/r"`), false},
		"a user ID":                        {everyone, on("StringLike", "aws:userid", `"AIDAALICE"`), false},
		"the ID of anonymous callers":      {everyone, on("StringEqualsIgnoreCase", "aws:userid", `"Anonymous"`), true},
		"an empty value":                   {everyone, on("StringEquals", "aws:SourceVpc", `""`), true},
		"sessions of a role":               {everyone, on("StringLike", "aws:userid", `"AROAREADER:*"`), true},
		"an access point":                  {everyone, on("StringEquals", "s3:DataAccessPointAccount", `"111122223333"`), false},
		"any access point of an account":   {everyone, on("ArnLike", "s3:DataAccessPointArn", `"arn:aws:s3:*:111122223333:accesspoint/*"`), false},
		"any access point of any account":  {everyone, on("ArnLike", "s3:DataAccessPointArn", `"arn:aws:s3:eu:*:accesspoint/x"`), true},
		"any access point of no account":   {everyone, on("ArnLike", "s3:DataAccessPointArn", `"arn:aws:s3:eu::*"`), true},
		"an access point as text":          {everyone, on("StringLike", "s3:DataAccessPointArn", `"arn:aws:s3:*:111122223333:*"`), true},
		"a referrer":                       {everyone, on("StringEquals", "aws:Referer", `"https://example.com/"`), true},
		"a user agent and addresses":       {everyone, []string{"Condition", `{"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}, "StringLike": {"aws:UserAgent": "*"}}`}, false},
		"two broad conditions":             {everyone, []string{"Condition", `{"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}, "StringLike": {"aws:SourceVpc": "*"}}`}, true},
		"TLS":                              {everyone, on("Bool", "aws:SecureTransport", `"true"`), true},
		"a source account, not comparable": {everyone, on("NumericEquals", "aws:SourceAccount", `"111122223333"`), true},
	} {
		elements := append([]string{"Principal", c.principal, "Action", read, "Resource", objects}, c.condition...)
		p := ofBucket(t, statement("Allow", elements...))
		require.Equal(t, c.public, p.IsPublic(), name)
		require.Equal(t, c.public, PublicAccessBlock{BlockPublicPolicy: true}.Refuses(p), name)
		require.False(t, PublicAccessBlock{true, true, false, true}.Refuses(p), name)
		require.False(t, ofBucket(t, statement("Deny", elements...)).IsPublic(), name)
		require.Equal(t, c.public, ofBucket(t, denying(everyone), allowing(aws(owner)), statement("Allow", elements...)).IsPublic(), name)
	}
	require.True(t, ofBucket(t, statement("Allow", "NotPrincipal", aws(owner), "Action", read, "Resource", objects)).IsPublic())
	require.False(t, ofBucket(t, statement("Deny", "NotPrincipal", aws(owner), "Action", read, "Resource", objects)).IsPublic())
}

// TestPublicInPieces tests lists of ranges of addresses, none of which is too broad alone.
func TestPublicInPieces(t *testing.T) {
	list := func(format string, from, to int) (ranges []string) {
		for i := from; i < to; i++ {
			ranges = append(ranges, fmt.Sprintf(format, i))
		}
		return ranges
	}
	for name, c := range map[string]struct {
		ranges []string
		public bool
	}{
		"all of IPv4":                  {list("%d.0.0.0/8", 0, 256), true},
		"all of IPv4, mapped":          {list("::ffff:%d.0.0.0/104", 0, 256), true},
		"half of IPv4":                 {list("%d.0.0.0/8", 0, 128), true},
		"most of IPv4 in 4 ranges":     {[]string{"1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8", "4.0.0.0/8"}, true},
		"a range of 8 bits":            {[]string{"203.0.0.0/8"}, false},
		"and one more address":         {[]string{"203.0.0.0/8", "198.51.100.7"}, true},
		"the same range in pieces":     {list("203.%d.0.0/16", 0, 256), false},
		"and the range":                {append(list("203.%d.0.0/16", 0, 256), "203.0.0.0/8", "203.0.113.7"), false},
		"two ranges of 9 bits":         {[]string{"20.0.0.0/9", "40.0.0.0/9"}, false},
		"three ranges of 9 bits":       {[]string{"20.0.0.0/9", "40.0.0.0/9", "60.0.0.0/9"}, true},
		"private ranges":               {[]string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "203.0.113.0/24"}, false},
		"offices":                      {append(list("198.51.%d.0/24", 0, 256), list("203.0.113.%d", 0, 256)...), false},
		"offices with IPv6":            {append(list("2001:db8:%x::/48", 0, 100), "203.0.113.0/24", "2400:cb00::/32", "2606:4700::/32", "2803:f800::/32"), false},
		"256 ranges of IPv6":           {list("2001:%x::/32", 0x1000, 0x1100), false},
		"257 ranges of IPv6":           {list("2001:%x::/32", 0x1000, 0x1101), true},
		"private ranges of IPv6":       {append(list("fd00:%x::/32", 0, 500), "fe80::/32"), false},
		"overlapping ranges of 8 bits": {[]string{"203.0.0.0/8", "203.0.0.0/8", "203.0.0.0/9"}, false},
	} {
		condition := func(ranges []string) string {
			return statement("Allow", "Principal", everyone, "Action", read, "Resource", objects,
				"Condition", `{"IpAddress": {"aws:SourceIp": ["`+strings.Join(ranges, `", "`)+`"]}}`)
		}
		require.Equal(t, c.public, ofBucket(t, condition(c.ranges)).IsPublic(), name)
		if n := len(c.ranges); n > 1 { // in several statements
			split := ofBucket(t, condition(c.ranges[:n/2]), condition(c.ranges[n/2:]))
			require.Equal(t, c.public, split.IsPublic(), name)
		}
		// A condition that trusts known callers makes the ranges irrelevant.
		known := statement("Allow", "Principal", everyone, "Action", read, "Resource", objects,
			"Condition", `{"IpAddress": {"aws:SourceIp": ["`+strings.Join(c.ranges, `", "`)+`"]}, "StringEquals": {"aws:PrincipalAccount": "`+owner+`"}}`)
		require.False(t, ofBucket(t, known).IsPublic(), name)
	}
}
