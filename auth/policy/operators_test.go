package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operatorCase is an operator with values of a policy, and values of a request that match and that do not. For negated
// operators, a request value matches if the condition holds.
type operatorCase struct {
	operator string
	key      string
	values   string // JSON
	match    []string
	mismatch []string
}

const (
	agent = "aws:UserAgent"
	ip    = "aws:SourceIp"
	now   = "aws:CurrentTime"
	size  = "s3:signatureAge"
	arn   = "aws:SourceArn"
	sns   = "arn:aws:sns:eu-west-1:111122223333:topic"
)

var operatorCases = []operatorCase{
	{"StringEquals", agent, `"curl"`, []string{"curl"}, []string{"Curl", "curl/8", "", "cur"}},
	{"StringEquals", agent, `["curl", "wget"]`, []string{"curl", "wget"}, []string{"curlwget", "lynx"}},
	{"StringEquals", agent, `"c*l"`, []string{"c*l"}, []string{"curl", "cl"}},
	{"StringEquals", agent, `"c?l"`, []string{"c?l"}, []string{"cul"}},
	{"StringEquals", agent, `""`, []string{""}, []string{"curl"}},
	{"StringEquals", agent, `5`, []string{"5"}, []string{"5.0"}},
	{"StringNotEquals", agent, `"curl"`, []string{"Curl", "curl/8", ""}, []string{"curl"}},
	{"StringNotEquals", agent, `["curl", "wget"]`, []string{"lynx"}, []string{"curl", "wget"}},
	{"StringEqualsIgnoreCase", agent, `"cURL"`, []string{"curl", "CURL"}, []string{"curl/8"}},
	{"StringEqualsIgnoreCase", agent, `["a", "B"]`, []string{"A", "b"}, []string{"ab"}},
	{"StringNotEqualsIgnoreCase", agent, `"cURL"`, []string{"curl/8"}, []string{"curl", "CURL"}},
	{"StringNotEqualsIgnoreCase", agent, `["a", "B"]`, []string{"c"}, []string{"A", "b"}},
	{"StringLike", agent, `"curl/*"`, []string{"curl/8", "curl/"}, []string{"curl", "Curl/8", "xcurl/8"}},
	{"StringLike", agent, `"a?c"`, []string{"abc", "a*c", "aéc"}, []string{"ac", "abbc"}},
	{"StringLike", agent, `["*x*", "y"]`, []string{"x", "axb", "y"}, []string{"", "yy"}},
	{"StringLike", agent, `"*"`, []string{"", "x"}, nil},
	{"StringLike", agent, `"a*b*c"`, []string{"abc", "aXbYbZc"}, []string{"ab", "acb"}},
	{"StringNotLike", agent, `"curl/*"`, []string{"curl", "wget"}, []string{"curl/8"}},
	{"StringNotLike", agent, `["a*", "b*"]`, []string{"c"}, []string{"a", "bb"}},

	{"NumericEquals", size, `"10"`, []string{"10", "10.0", "1e1", "+10"}, []string{"11", "ten", "", "0xA", "1_0"}},
	{"NumericEquals", size, `10`, []string{"10"}, []string{"9"}},
	{"NumericEquals", size, `["1", "2.5"]`, []string{"1", "2.5", "2.50"}, []string{"2"}},
	{"NumericEquals", size, `"9007199254740993"`, []string{"9007199254740993"}, []string{"9007199254740992"}},
	{"NumericNotEquals", size, `"10"`, []string{"11", "ten"}, []string{"10"}},
	{"NumericNotEquals", size, `["1", "2"]`, []string{"3"}, []string{"1", "2"}},
	{"NumericLessThan", size, `"10"`, []string{"9", "-1", "9.9"}, []string{"10", "11", "x"}},
	{"NumericLessThan", size, `["10", "20"]`, []string{"15"}, []string{"20"}},
	{"NumericLessThanEquals", size, `"10"`, []string{"9", "10"}, []string{"11", "10.1", "x"}},
	{"NumericLessThanEquals", size, `["1", "2"]`, []string{"2"}, []string{"3"}},
	{"NumericGreaterThan", size, `"10"`, []string{"11", "10.1"}, []string{"10", "9", "inf", "NaN", "1e999"}},
	{"NumericGreaterThan", size, `["10", "20"]`, []string{"11"}, []string{"10"}},
	{"NumericGreaterThan", size, `"-10.5"`, []string{"-10", "-1", "0"}, []string{"-11", "-10.5"}},
	{"NumericGreaterThanEquals", size, `"10"`, []string{"10", "11"}, []string{"9"}},
	{"NumericGreaterThanEquals", size, `["10", "20"]`, []string{"10"}, []string{"9"}},

	{"DateEquals", now, `"2026-11-22T18:00:00Z"`, []string{"2026-11-22T18:00:00Z", "2026-11-22T19:00:00+01:00", "2026-11-22T18:00Z", "1795370400"}, []string{"2026-11-22T18:00:01Z", "today"}},
	{"DateEquals", now, `"2026-11-22"`, []string{"2026-11-22T00:00:00Z", "2026-11-22T00:00:00.000Z"}, []string{"2026-11-22T12:00:00Z"}},
	{"DateEquals", now, `["1", "2"]`, []string{"1970-01-01T00:00:02Z"}, []string{"1970-01-01T00:00:03Z"}},
	{"DateNotEquals", now, `"2026-11-22T18:00:00Z"`, []string{"2026-11-22T18:00:01Z", "today"}, []string{"2026-11-22T18:00:00Z"}},
	{"DateNotEquals", now, `["1", "2"]`, []string{"3"}, []string{"1", "2"}},
	{"DateLessThan", now, `"2026-11-22T18:00:00Z"`, []string{"2026-11-22T17:59:59.9Z"}, []string{"2026-11-22T18:00:00Z", "today"}},
	{"DateLessThan", now, `["1", "9"]`, []string{"5"}, []string{"9"}},
	{"DateLessThanEquals", now, `"9"`, []string{"8", "9"}, []string{"10"}},
	{"DateLessThanEquals", now, `["1", "9"]`, []string{"9"}, []string{"10"}},
	{"DateGreaterThan", now, `"2026-11-22T18:00:00Z"`, []string{"2026-11-22T18:00:01Z"}, []string{"2026-11-22T18:00:00Z", "2020-01-01"}},
	{"DateGreaterThan", now, `["1", "9"]`, []string{"2"}, []string{"1"}},
	{"DateGreaterThanEquals", now, `"9"`, []string{"9", "10"}, []string{"8"}},
	{"DateGreaterThanEquals", now, `["1", "9"]`, []string{"1"}, []string{"0"}},

	{"Bool", "aws:SecureTransport", `"true"`, []string{"true", "True"}, []string{"false", "1", ""}},
	{"Bool", "aws:SecureTransport", `false`, []string{"false"}, []string{"true"}},
	{"Bool", "aws:SecureTransport", `["true", "false"]`, []string{"true", "false"}, []string{"maybe"}},
	{"BinaryEquals", agent, `"QmluYXJ5"`, []string{"QmluYXJ5"}, []string{"QmluYXJ6", "Binary", "qmluyxj5"}},
	{"BinaryEquals", agent, `["YQ==", "Yg=="]`, []string{"YQ==", "Yg=="}, []string{"Yw=="}},

	{"IpAddress", ip, `"203.0.113.0/24"`, []string{"203.0.113.0", "203.0.113.255", "::ffff:203.0.113.7"}, []string{"203.0.114.0", "203.0.112.255", "::", "host", ""}},
	{"IpAddress", ip, `"203.0.113.7"`, []string{"203.0.113.7", "::ffff:cb00:7107"}, []string{"203.0.113.8"}},
	{"IpAddress", ip, `"203.0.113.99/24"`, []string{"203.0.113.1"}, []string{"203.0.114.1"}},
	{"IpAddress", ip, `["203.0.113.7/32", "2001:db8::/32"]`, []string{"203.0.113.7", "2001:db8::1", "2001:DB8:0::1"}, []string{"2001:db9::1"}},
	{"IpAddress", ip, `"::ffff:203.0.113.0/120"`, []string{"203.0.113.9", "::ffff:203.0.113.9"}, []string{"203.0.114.9"}},
	{"IpAddress", ip, `"::ffff:203.0.113.7"`, []string{"203.0.113.7"}, []string{"203.0.113.8"}},
	{"IpAddress", ip, `"fe80::/10"`, []string{"fe80::1%eth0", "fe80::1"}, []string{"fec0::1"}},
	{"IpAddress", ip, `"0.0.0.0/0"`, []string{"1.2.3.4"}, []string{"2001:db8::1"}},
	{"IpAddress", ip, `"::/0"`, []string{"2001:db8::1"}, []string{"1.2.3.4", "::ffff:1.2.3.4"}},
	{"NotIpAddress", ip, `"203.0.113.0/24"`, []string{"203.0.114.0", "2001:db8::1"}, []string{"203.0.113.0", "::ffff:203.0.113.7"}},
	{"NotIpAddress", ip, `["203.0.113.7", "2001:db8::/32"]`, []string{"203.0.113.8"}, []string{"203.0.113.7", "2001:db8::1"}},

	{"ArnEquals", arn, quoted(sns), []string{sns}, []string{sns + "2", "arn:aws:sns:eu-west-1:111122223333:Topic", "topic", ""}},
	{"ArnEquals", arn, `["arn:aws:sns:*:111122223333:*", "arn:aws:sqs:::q"]`, []string{sns, "arn:aws:sqs:::q"}, []string{"arn:aws:sqs:eu:1:q"}},
	{"ArnLike", arn, `"arn:aws:sns:*:*:t*"`, []string{sns, sns + ":subscription"}, []string{"arn:aws:sns:eu-west-1:extra:111122223333:topic"}},
	{"ArnLike", arn, `"arn:aws:sns:eu-west-?:111122223333:topic"`, []string{sns}, []string{strings.Replace(sns, "-1", "-10", 1)}},
	{"ArnLike", arn, `["arn:aws:a:::*", "arn:aws:b:::*"]`, []string{"arn:aws:a:::x", "arn:aws:b:::"}, []string{"arn:aws:c:::x"}},
	{"ArnLike", arn, `"arn:*:sns:*:*:*"`, []string{sns}, []string{"arn:aws:sns", "arn:a:b:sns:x:y:z"}},
	{"ArnNotEquals", arn, quoted(sns), []string{sns + "2", "topic"}, []string{sns}},
	{"ArnNotEquals", arn, `["arn:aws:a:::x", "arn:aws:b:::x"]`, []string{sns}, []string{"arn:aws:a:::x", "arn:aws:b:::x"}},
	{"ArnNotLike", arn, `"arn:aws:sns:*:*:t*"`, []string{"arn:aws:sqs:::t"}, []string{sns}},
	{"ArnNotLike", arn, `["arn:aws:a:::*", "arn:aws:b:::*"]`, []string{sns}, []string{"arn:aws:a:::x", "arn:aws:b:::x"}},
}

// decideWith decides about a request with facts, by one statement with an effect and a condition. It reports whether
// the statement matched.
func decideWith(t *testing.T, effect, operator, key, values string, given listFacts) bool {
	t.Helper()
	list := []string{statement(effect, "Principal", everyone, "Action", `"s3:*"`, "Resource", objects,
		"Condition", `{"`+operator+`": {"`+key+`": `+values+`}}`)}
	if effect == "Deny" {
		list = append(list, statement("Allow", "Principal", everyone, "Action", `"s3:*"`, "Resource", objects))
	}
	q := with(get(user(owner)), ofBucket(t, list...))
	q.Action = "s3:PutObject"
	q.Facts = given
	d := Decide(q).Decision
	if effect == "Deny" {
		require.Contains(t, []Decision{Allowed, ExplicitDeny}, d)
		return d == ExplicitDeny
	}
	require.Contains(t, []Decision{Allowed, ImplicitDeny}, d)
	return d == Allowed
}

// TestOperators tests each operator with values that match and that do not, without the key, with IfExists, and with
// each prefix, in statements that allow and that deny.
func TestOperators(t *testing.T) {
	tested := map[string]bool{"Null": true} // TestNull
	several := map[string]bool{}
	for _, c := range operatorCases {
		tested[c.operator] = true
		several[c.operator] = several[c.operator] || c.values[0] == '['
		op := operators[c.operator]
		for _, effect := range []string{"Allow", "Deny"} {
			name := strings.Join([]string{effect, c.operator, c.key, c.values}, " ")
			holds := func(operator string, values ...string) bool {
				return decideWith(t, effect, operator, c.key, c.values, listFacts{c.key: values})
			}
			for _, v := range c.match {
				for _, operator := range []string{"", "ForAnyValue:", "ForAllValues:"} {
					require.True(t, holds(operator+c.operator, v), "%s %s: %q", operator, name, v)
					require.True(t, holds(operator+c.operator+"IfExists", v), "%s %s: %q", operator, name, v)
				}
			}
			for _, v := range c.mismatch {
				for _, operator := range []string{"", "ForAnyValue:", "ForAllValues:"} {
					require.False(t, holds(operator+c.operator, v), "%s %s: %q", operator, name, v)
					require.False(t, holds(operator+c.operator+"IfExists", v), "%s %s: %q", operator, name, v)
				}
			}
			require.Equal(t, op.negated, holds(c.operator), "%s, key absent", name)
			require.True(t, holds("ForAllValues:"+c.operator), "%s, key absent", name)
			require.False(t, holds("ForAnyValue:"+c.operator), "%s, key absent", name)
			for _, operator := range []string{"", "ForAnyValue:", "ForAllValues:"} {
				require.True(t, holds(operator+c.operator+"IfExists"), "%s %s, key absent", operator, name)
			}
		}
	}
	for name := range operators {
		require.True(t, tested[name], name)
		require.True(t, name == "Null" || name == "Bool" || several[name], "%s with several values", name)
	}
}

// TestSeveralValues tests keys with several values in the request.
func TestSeveralValues(t *testing.T) {
	const keys = "s3:RequestObjectTagKeys"
	for _, effect := range []string{"Allow", "Deny"} {
		for _, c := range []struct {
			operator string
			given    string
			holds    bool
		}{
			{"StringEquals", "a", true}, {"StringEquals", "a b", true}, {"StringEquals", "a x", true},
			{"StringEquals", "x a", true}, {"StringEquals", "x y", false},
			{"StringNotEquals", "a", false}, {"StringNotEquals", "a x", false}, {"StringNotEquals", "x a", false},
			{"StringNotEquals", "x y", true},
			{"ForAnyValue:StringEquals", "a x", true}, {"ForAnyValue:StringEquals", "x b", true},
			{"ForAnyValue:StringEquals", "x y", false},
			{"ForAnyValue:StringNotEquals", "a b", false}, {"ForAnyValue:StringNotEquals", "a x", true},
			{"ForAnyValue:StringNotEquals", "x y", true},
			{"ForAllValues:StringEquals", "a b", true}, {"ForAllValues:StringEquals", "a x", false},
			{"ForAllValues:StringEquals", "x b", false}, {"ForAllValues:StringEquals", "x y", false},
			{"ForAllValues:StringNotEquals", "a b", false}, {"ForAllValues:StringNotEquals", "a x", false},
			{"ForAllValues:StringNotEquals", "x a", false}, {"ForAllValues:StringNotEquals", "x y", true},
		} {
			given := listFacts{keys: strings.Fields(c.given)}
			require.Equal(t, c.holds, decideWith(t, effect, c.operator, keys, `["a", "b"]`, given), "%s %v", effect, c)
		}
	}
	require.False(t, decideWith(t, "Allow", "StringEquals", agent, `"b"`, listFacts{agent: {"a", "b"}}),
		"the key has one value, even if the facts could return more")
}

// TestNull tests the operator Null.
func TestNull(t *testing.T) {
	for _, effect := range []string{"Allow", "Deny"} {
		for _, c := range []struct {
			values  string
			present bool
			holds   bool
		}{
			{`"true"`, false, true}, {`"true"`, true, false}, {`"false"`, false, false}, {`"false"`, true, true},
			{`true`, false, true}, {`["true", "false"]`, true, true}, {`["true", "false"]`, false, true},
		} {
			given := listFacts{}
			if c.present {
				given[agent] = []string{""}
			}
			require.Equal(t, c.holds, decideWith(t, effect, "Null", agent, c.values, given), "%s %v", effect, c)
		}
	}
}

// TestSeveralConditions: all conditions of a statement must hold.
func TestSeveralConditions(t *testing.T) {
	p := ofIdentity(t, statement("Allow", "Action", read, "Resource", objects, "Condition",
		`{"StringEquals": {"aws:UserAgent": "curl", "aws:Referer": "here"}, "Bool": {"AWS:securetransport": "true"}}`))
	all := facts{"aws:UserAgent": "curl", "aws:Referer": "here", "aws:SecureTransport": "true"}
	q := get(user(owner, p))
	q.Facts = all
	require.Equal(t, Allowed, Decide(q).Decision)
	for name := range all {
		without := facts{}
		for k, v := range all {
			if k != name {
				without[k] = v
			}
		}
		q.Facts = without
		require.Equal(t, ImplicitDeny, Decide(q).Decision, name)
	}
}

// TestConditionsOfOneClass: conditions that compare different values in the same way, or the same value in different
// ways, do not affect each other.
func TestConditionsOfOneClass(t *testing.T) {
	for _, condition := range []string{
		`{"NumericLessThan": {"s3:signatureAge": "10", "s3:TlsVersion": "2"}, "NumericGreaterThan": {"s3:signatureAge": "4"}}`,
		`{"NumericEquals": {"aws:EpochTime": "5"}, "DateEquals": {"aws:EpochTime": "1970-01-01T00:00:05Z"}}`,
		`{"DateEquals": {"aws:EpochTime": "1970-01-01T00:00:05Z"}, "NumericEquals": {"aws:EpochTime": "5"}}`,
	} {
		q := get(user(owner, ofIdentity(t, statement("Allow", "Action", read, "Resource", objects, "Condition", condition))))
		q.Facts = facts{"s3:signatureAge": "5", "s3:TlsVersion": "1.2", "aws:EpochTime": "5"}
		require.Equal(t, Allowed, Decide(q).Decision, condition)
	}
}

// TestTagKeysKeepTheirCase: the name of a condition key has no case, but the key of an object tag has.
func TestTagKeysKeepTheirCase(t *testing.T) {
	given := listFacts{"s3:RequestObjectTag/Team": {"red"}}
	require.True(t, decideWith(t, "Allow", "StringEquals", "S3:requestobjecttag/Team", `"red"`, given))
	require.False(t, decideWith(t, "Allow", "StringEquals", "s3:RequestObjectTag/team", `"red"`, given))
	given = listFacts{"s3:RequestObjectTag/a/b": {"red"}}
	require.True(t, decideWith(t, "Allow", "StringEquals", "s3:RequestObjectTag/a/b", `"red"`, given))
}

// TestInvalidOperands: values that an operator cannot compare are refused.
func TestInvalidOperands(t *testing.T) {
	for _, c := range [][3]string{
		{"NumericEquals", size, `"ten"`}, {"NumericEquals", size, `"0x10"`}, {"NumericEquals", size, `"Inf"`},
		{"NumericEquals", size, `""`}, {"NumericLessThan", size, `"${s3:max-keys}"`}, {"NumericEquals", size, `"1e999"`},
		{"DateEquals", now, `"today"`}, {"DateEquals", now, `"2026-13-01"`}, {"DateEquals", now, `"2026-11-22T18:00:00"`},
		{"Bool", now, `"yes"`}, {"Bool", now, `1`}, {"Null", now, `"null"`}, {"BinaryEquals", agent, `"?"`},
		{"IpAddress", ip, `"203.0.113"`}, {"IpAddress", ip, `"203.0.113.0/33"`}, {"IpAddress", ip, `"host"`},
		{"IpAddress", ip, `"::ffff:1.2.3.4/64"`}, {"IpAddress", ip, `"fe80::1%eth0"`}, {"IpAddress", ip, `"*"`},
		{"ArnEquals", arn, `"topic"`}, {"ArnLike", arn, `"*"`}, {"ArnLike", arn, `"arn:aws:sns:*"`},
		{"StringEquals", agent, `"${aws:username"`}, {"StringEquals", agent, `"${nothing}"`},
		{"StringEquals", agent, `null`}, {"StringEquals", agent, `{}`}, {"StringEquals", agent, `[]`},
		{"StringEquals", agent, `[["a"]]`},
	} {
		require.True(t, json.Valid([]byte(c[2])), c[2])
		_, err := Parse([]byte(document(statement("Allow", "Principal", everyone, "Action", `"s3:*"`, "Resource", objects,
			"Condition", `{"`+c[0]+`": {"`+c[1]+`": `+c[2]+`}}`))), Source{Bucket: "b"})
		var bad *Error
		require.ErrorAs(t, err, &bad, "%v", c)
		require.Equal(t, "Condition", bad.Element)
	}
}

// TestVariables tests policy variables in resources and in conditions.
func TestVariables(t *testing.T) {
	alice := user(owner)
	alice.Principal.Tags = map[string]string{"team": "red", "wild": "*", "slash": "a/b", "colon": "x:y"}
	for name, c := range map[string]struct {
		caller   *Caller
		resource string // after "arn:aws:s3:::b/"
		key      string
		matches  bool
	}{
		"value":                    {alice, "home/${aws:username}/*", "home/alice/x", true},
		"other value":              {alice, "home/${aws:username}/*", "home/bob/x", false},
		"case of the key":          {alice, "home/${AWS:UserName}/*", "home/alice/x", true},
		"several":                  {alice, "${aws:username}/${aws:PrincipalTag/team}", "alice/red", true},
		"no value":                 {root(owner), "home/${aws:username}/*", "home//x", false},
		"no value, any name":       {root(owner), "*${aws:username}*", "alice", false},
		"default, value":           {alice, "${aws:username, 'nobody'}", "alice", true},
		"default, no value":        {session(), "${aws:username, 'nobody'}", "nobody", true},
		"default without space":    {session(), "${aws:username,'no body' }", "no body", true},
		"default is a literal":     {session(), "${aws:username, '*'}", "x", false},
		"default is a literal 2":   {session(), "${aws:username, '*'}", "*", true},
		"empty default":            {session(), "a${aws:username, ''}b", "ab", true},
		"default with a brace":     {session(), "${aws:username, 'a}b'}", "a}b", true},
		"value is a literal":       {alice, "${aws:PrincipalTag/wild}", "x", false},
		"value is a literal 2":     {alice, "${aws:PrincipalTag/wild}", "*", true},
		"value with a slash":       {alice, "${aws:PrincipalTag/slash}/c", "a/b/c", true},
		"star":                     {alice, "a${*}b", "a*b", true},
		"star is no wildcard":      {alice, "a${*}b", "axb", false},
		"question mark":            {alice, "a${?}b", "a?b", true},
		"question mark, no wild":   {alice, "a${?}b", "axb", false},
		"dollar":                   {alice, "a${$}{b}", "a${b}", true},
		"a dollar alone":           {alice, "a$b", "a$b", true},
		"wildcard beside":          {alice, "*/${aws:username}", "x/y/alice", true},
		"wildcard beside mismatch": {alice, "*/${aws:username}", "x/y/alice2", false},
		"beginning of a name":      {alice, "${aws:username}*", "alicex", true},
	} {
		for _, effect := range []string{"Allow", "Deny"} {
			q := get(c.caller)
			q.Resource.Key = c.key
			q.Bucket = ofBucket(t, statement(effect, "Principal", everyone, "Action", read,
				"Resource", quoted("arn:aws:s3:::b/"+c.resource)))
			e := &evaluation{q: q, caller: q.Caller, action: table().byName["s3:GetObject"]}
			require.Equal(t, truthOf(c.matches), e.matches(q.Bucket.statements[0]), "%s %s", effect, name)
		}
	}
}

// TestVariablesInConditions tests variables in the values of conditions.
func TestVariablesInConditions(t *testing.T) {
	matches := func(c *Caller, condition string, given facts) bool {
		p := ofIdentity(t, statement("Deny", "Action", read, "Resource", objects, "Condition", condition))
		q := get(c)
		q.Facts = given
		e := &evaluation{q: q, caller: q.Caller, action: table().byName["s3:GetObject"]}
		return e.matches(p.statements[0]) == yes
	}
	alice, here := user(owner), facts{"aws:UserAgent": "alice", "aws:SourceArn": "arn:aws:iam::1:user/alice"}
	require.True(t, matches(alice, `{"StringEquals": {"aws:UserAgent": "${aws:username}"}}`, here))
	require.True(t, matches(alice, `{"StringEquals": {"aws:UserAgent": ["x", "${aws:username}"]}}`, here))
	require.True(t, matches(alice, `{"StringEqualsIgnoreCase": {"aws:UserAgent": "A${aws:PrincipalTag/x, 'LI'}ce"}}`, here))
	require.True(t, matches(alice, `{"StringLike": {"aws:UserAgent": "*${aws:username}*"}}`, here))
	require.False(t, matches(alice, `{"StringNotEquals": {"aws:UserAgent": "${aws:username}"}}`, here))
	require.True(t, matches(alice, `{"ArnLike": {"aws:SourceArn": "arn:*:iam::?:user/${aws:username}"}}`, here))
	require.False(t, matches(alice, `{"ArnLike": {"aws:SourceArn": "arn:*:iam::?:role/${aws:username}"}}`, here))

	// A variable without a value: the statement does not match, unless IfExists makes the values irrelevant.
	anyone := session()
	for _, operator := range []string{
		"StringEquals", "StringNotEquals", "ForAllValues:StringNotEquals", "ForAnyValue:StringNotLike", "StringNotLikeIfExists",
	} {
		require.False(t, matches(anyone, `{"`+operator+`": {"aws:UserAgent": "${aws:username}"}}`, here), operator)
		require.False(t, matches(anyone, `{"`+operator+`": {"aws:UserAgent": ["x", "${aws:username}"]}}`, here), operator)
	}
	require.False(t, matches(anyone, `{"StringNotEquals": {"aws:Referer": "${aws:username}"}}`, here))
	require.True(t, matches(anyone, `{"StringNotEqualsIfExists": {"aws:Referer": "${aws:username}"}}`, here))
	require.True(t, matches(anyone, `{"StringEqualsIfExists": {"aws:Referer": "${aws:username}"}}`, here))

	// NotResource: the variable without a value does not exclude nothing.
	p := ofIdentity(t, statement("Allow", "Action", read, "NotResource", `"arn:aws:s3:::b/${aws:username}/*"`))
	require.Equal(t, ImplicitDeny, Decide(get(session(p))).Decision)
	require.Equal(t, Allowed, Decide(get(user(owner, p))).Decision)
}

// TestOldVersion: documents of version 2008-10-17 have no variables.
func TestOldVersion(t *testing.T) {
	for _, version := range []string{`"Version": "2008-10-17",`, ""} {
		p, err := Parse([]byte(`{`+version+` "Statement": {"Effect": "Allow", "Action": "s3:GetObject",
			"Resource": "arn:aws:s3:::b/${aws:username}/${*}", "Condition": {"StringLike": {"aws:UserAgent": "${nothing}"}}}}`), Source{})
		require.NoError(t, err)
		q := get(user(owner, p))
		q.Facts = facts{"aws:UserAgent": "${nothing}"}
		require.Equal(t, ImplicitDeny, Decide(q).Decision)
		q.Resource.Key = "${aws:username}/${x}"
		require.Equal(t, Allowed, Decide(q).Decision)
	}
}
