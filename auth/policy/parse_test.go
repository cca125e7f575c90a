package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// badElements are elements that make the second statement of TestErrors invalid.
var badElements = []struct {
	name, value string // replaces an element of the second statement; "-" removes it
	element     string // of the error
	reason      string // contained in the error
}{
	{"Effect", `"allow"`, "Effect", "expected Allow or Deny"},
	{"Effect", `"-"`, "Effect", "expected Allow or Deny"},
	{"Effect", `-`, "Effect", "expected Allow or Deny"},
	{"Effect", `["Allow"]`, "Effect", "expected a string"},
	{"Sid", `"first"`, "Sid", "another statement"},
	{"Sid", `7`, "Sid", "expected a string"},
	{"effect", `"Allow"`, "effect", "must be written Effect"},
	{"Effect", `"Allow", "Effect": "Deny"`, "Effect", "used twice"},
	{"Effekt", `"Allow"`, "Effekt", "not known"},
	{"Version", `"2012-10-17"`, "Version", "not known"},

	{"Principal", `-`, "Principal", "neither"},
	{"NotPrincipal", `"*"`, "NotPrincipal", "has Principal too"},
	{"Principal", `"arn:aws:iam::111122223333:root"`, "Principal", `expected "*"`},
	{"Principal", `{}`, "Principal", "empty"},
	{"Principal", `[]`, "Principal", "expected an object"},
	{"Principal", `{"aws": "*"}`, "Principal", "expected AWS"},
	{"Principal", `{"AWS": "*", "AWS": "111122223333"}`, "AWS", "used twice"},
	{"Principal", `{"AWS": []}`, "Principal", "empty"},
	{"Principal", `{"AWS": 1}`, "Principal", "expected a string"},
	{"Principal", `{"AWS": "11112222333"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "AIDAALICE"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::111122223333:user/*"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::111122223333:user/a?"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::*:root"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::111122223333:group/g"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::111122223333:user/"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:sts::111122223333:assumed-role/r"}`, "Principal", "unknown principal"},
	{"Principal", `{"AWS": "arn:aws:iam::111122223333:user/gone"}`, "Principal", "unknown principal"},
	{"Principal", `{"CanonicalUser": "abc"}`, "Principal", "unknown principal"},
	{"Principal", `{"CanonicalUser": "*"}`, "Principal", "unknown principal"},
	{"Principal", `{"Federated": "*"}`, "Principal", "unknown principal"},
	{"Principal", `{"Service": "*"}`, "Principal", "unknown principal"},

	{"Action", `-`, "Action", "neither Action nor NotAction"},
	{"NotAction", `"s3:PutObject"`, "NotAction", "has Action too"},
	{"Action", `[]`, "Action", "empty"},
	{"Action", `{}`, "Action", "expected a string"},
	{"Action", `["s3:GetObject", 5]`, "Action", "expected a string"},
	{"Action", `"s3:GetObjekt"`, "Action", `unknown action "s3:GetObjekt"`},
	{"Action", `""`, "Action", "unknown action"},
	{"Action", `"GetObject"`, "Action", "unknown action"},
	{"Action", `"s3*:GetObject"`, "Action", "unknown action"},
	{"Action", `"s3:"`, "Action", "unknown action"},
	{"Action", `"ec2:*"`, "Action", "unknown action"},
	{"Action", `["s3:GetObject", "s3:Foo*"]`, "Action", `"s3:Foo*"`},
	{"Action", `"iam:GetUser"`, "Action", "does not apply to a bucket"},
	{"Action", `"s3:ListAllMyBuckets"`, "Action", "does not apply to a bucket"},
	{"Action", `"s3:ListBucket"`, "Action", "does not apply to any resource"},
	{"Action", `["s3:GetObject", "s3:GetBucket*"]`, "Action", `"s3:GetBucket*" does not apply`},
	{"Resource", `"arn:aws:s3:::b"`, "Action", "does not apply to any resource"},

	{"Resource", `-`, "Resource", "neither Resource nor NotResource"},
	{"NotResource", `"arn:aws:s3:::b/x"`, "NotResource", "has Resource too"},
	{"Resource", `"*"`, "Resource", "not the bucket b"},
	{"Resource", `"arn:aws:s3:::*"`, "Resource", "not the bucket b"},
	{"Resource", `"arn:aws:s3:::c/*"`, "Resource", "not the bucket b"},
	{"Resource", `"arn:aws:s3:::bc/*"`, "Resource", "not the bucket b"},
	{"Resource", `"arn:aws:s3:::b?/*"`, "Resource", "not the bucket b"},
	{"Resource", `["arn:aws:s3:::b/*", "arn:aws:s3:::c/*"]`, "Resource", `"arn:aws:s3:::c/*"`},
	{"Resource", `"arn:aws:s3:::b/${x}"`, "Resource", "not a condition key"},
	{"Resource", `"arn:aws:s3:::b/${aws:username"`, "Resource", "must have the form"},
	{"Resource", `"arn:aws:s3:::b/${aws:username, x}"`, "Resource", "must have the form"},
	{"Resource", `"arn:aws:s3:::b/${aws:username, 'x}"`, "Resource", "must have the form"},
	{"Resource", `"arn:aws:s3:::b/${aws:username, 'x' y}"`, "Resource", "must have the form"},
	{"Resource", `"arn:aws:s3:::b/${aws:TagKeys}"`, "Resource", "several values"},

	{"Condition", `[]`, "Condition", "expected an object"},
	{"Condition", `{"StringEquals": []}`, "Condition", "expected an object"},
	{"Condition", `{"stringEquals": {"aws:Referer": "x"}}`, "Condition", "unknown operator"},
	{"Condition", `{"StringEqualsIfexists": {"aws:Referer": "x"}}`, "Condition", "unknown operator"},
	{"Condition", `{"ForSomeValues:StringEquals": {"aws:Referer": "x"}}`, "Condition", "unknown operator"},
	{"Condition", `{"ForAllValues:ForAnyValue:StringEquals": {"aws:Referer": "x"}}`, "Condition", "unknown operator"},
	{"Condition", `{"NullIfExists": {"aws:Referer": "true"}}`, "Condition", "unknown operator"},
	{"Condition", `{"ForAnyValue:Null": {"aws:Referer": "true"}}`, "Condition", "unknown operator"},
	{"Condition", `{"StringEquals": {"aws:Refferer": "x"}}`, "Condition", "unknown condition key"},
	{"Condition", `{"StringEquals": {"s3:ExistingObjectTag": "x"}}`, "Condition", "unknown condition key"},
	{"Condition", `{"StringEquals": {"s3:ExistingObjectTag/": "x"}}`, "Condition", "unknown condition key"},
	{"Condition", `{"StringEquals": {"aws:Referer/x": "x"}}`, "Condition", "unknown condition key"},
	{"Condition", `{"StringEquals": {"s3:prefix": "x"}}`, "Condition", "does not apply to any action"},
	{"Condition", `{"StringEquals": {"sts:ExternalId": "x"}}`, "Condition", "does not apply to any action"},
	{"Condition", `{"StringEquals": {"aws:Referer": "x", "aws:Referer": "y"}}`, "aws:Referer", "used twice"},
	{"Condition", `{"StringEquals": {"aws:Referer": "x", "AWS:referer": "y"}}`, "Condition", "used twice"},
	{"Condition", `{"StringEquals": {"aws:Referer": "x"}, "StringEquals": {"aws:Referer": "x"}}`, "StringEquals", "used twice"},
	{"Condition", `{"StringEquals": {"aws:Referer": "\ud800"}}`, "", "not valid Unicode"},
}

// TestErrors tests what is refused, and that an error names the statement, the element and the line. The documents are
// bucket policies of the bucket "b" whose second statement is on line 4.
func TestErrors(t *testing.T) {
	const head = "{\"Version\": \"2012-10-17\", \"Id\": \"x\",\n \"Statement\": [\n" +
		`{"Sid": "first", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b"},` + "\n"
	parts := map[string]string{
		"Sid": `"second"`, "Effect": `"Allow"`, "Principal": `"*"`, "Action": `"s3:GetObject"`, "Resource": `"arn:aws:s3:::b/*"`,
	}
	for i, c := range badElements {
		var list []string
		for _, name := range []string{"Sid", "Effect", "Principal", "Action", "Resource"} {
			value := parts[name]
			if strings.EqualFold(name, c.name) || c.name == "Effekt" && name == "Effect" {
				if name, value = c.name, c.value; value == "-" {
					continue
				}
			}
			list = append(list, fmt.Sprintf("%q: %s", name, value))
		}
		if parts[c.name] == "" && !strings.EqualFold(c.name, "Effect") && c.name != "Effekt" {
			list = append(list, fmt.Sprintf("%q: %s", c.name, c.value))
		}
		known := func(_, principal string) bool { return !strings.HasSuffix(principal, "/gone") }
		_, err := Parse([]byte(head+"{"+strings.Join(list, ", ")+"}\n]}"), Source{Bucket: "b", Known: known})
		var bad *Error
		require.ErrorAs(t, err, &bad, "%d: %s: %s", i, c.name, c.value)
		require.Contains(t, bad.Reason, c.reason, "%d: %s: %s", i, c.name, c.value)
		require.Equal(t, c.element, bad.Element, "%d: %s: %s", i, c.name, c.value)
		require.Equal(t, 4, bad.Line, "%d: %s: %s", i, c.name, c.value)
		if c.element != "" {
			require.Equal(t, 2, bad.Statement)
			if c.name != "Sid" {
				require.Equal(t, "second", bad.Sid)
				require.Contains(t, bad.Error(), "statement 2 (second), element "+c.element+", line 4: ")
			}
		}
	}
}

// TestUnknownResources: the policy of an identity has only resources that exist here, also beside others.
func TestUnknownResources(t *testing.T) {
	for _, resource := range []string{"arn:aws:ec2:::instance/*", "arn:aws:sqs:us-east-1:111122223333:queue", "bucket/*", "arn:aws:s3", ""} {
		for _, element := range []string{"Resource", "NotResource"} {
			for _, value := range []string{fmt.Sprintf("%q", resource), fmt.Sprintf(`["arn:aws:s3:::b/*", %q]`, resource)} {
				_, err := Parse([]byte(document(statement("Allow", "Action", `"s3:GetObject"`, element, value))), Source{Name: "test"})
				var bad *Error
				require.ErrorAs(t, err, &bad, value)
				require.Equal(t, element, bad.Element)
				require.Contains(t, bad.Reason, fmt.Sprintf("unknown resource %q", resource))
			}
		}
	}
}

// TestLines: an error names the line of the element, not only that of the statement.
func TestLines(t *testing.T) {
	lines := []string{
		`{"Statement": [{"Sid": "a", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b"}, {`,
		`  "Sid": "b",`,
		`  "Effect": "Allow",`,
		`  "Principal": {`,
		`    "AWS": ["*",`,
		`      "111122223333"]},`,
		`  "Action": ["s3:GetObject",`,
		`    "s3:PutObject"],`,
		`  "Resource": ["arn:aws:s3:::b/x",`,
		`    "arn:aws:s3:::b/*"],`,
		`  "Condition": {`,
		`    "IpAddress": {`,
		`      "aws:SourceIp": ["203.0.113.7",`,
		`         "203.0.113.8"]}}`,
		`}]}`,
	}
	document := strings.Join(lines, "\n")
	_, err := Parse([]byte(document), Source{Bucket: "b"})
	require.NoError(t, err)
	for _, c := range []struct {
		old, with string
		line      int
	}{
		{`"Sid": "b"`, `"Sid": "a"`, 2}, {`"Allow"`, `"allow"`, 3}, {`"Effect": "Allow"`, `"effect": "Allow"`, 3}, {`"AWS"`, `"aws"`, 5},
		{`"111122223333"`, `"x"`, 6}, {`s3:GetObject`, `s3:Get`, 7}, {`"Action": [`, `"NotAction": "s3:*", "Action": [`, 7},
		{`s3:PutObject`, `s3:Put`, 8}, {`s3:PutObject`, `s3:ListBucket`, 8}, {`b/*`, `c/*`, 10},
		{`"Resource": [`, `"NotResource": "arn:aws:s3:::b",` + "\n" + `"Resource": [`, 9}, {`"IpAddress"`, `"Ipaddress"`, 12},
		{`aws:SourceIp`, `aws:Source`, 13}, {`203.0.113.8`, `203.0.113`, 14},
	} {
		_, err := Parse([]byte(strings.Replace(document, c.old, c.with, 1)), Source{Bucket: "b"})
		var bad *Error
		require.ErrorAs(t, err, &bad, c.with)
		require.Equal(t, c.line, bad.Line, "%s: %v", c.with, err)
		require.Equal(t, 2, bad.Statement)
	}
	_, err = Parse([]byte("{\n\"Statement\": [\n{\n\"Action\": \"s3:*\"}]}"), Source{})
	require.ErrorContains(t, err, "line 3: expected Allow or Deny", "the line of the statement if the element is missing")
}

// TestDocumentErrors tests errors outside of the statements.
func TestDocumentErrors(t *testing.T) {
	const ok = `{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}`
	for _, c := range []struct {
		document, element, reason string
		line                      int
	}{
		{"", "", "not valid JSON", 1},
		{"{", "", "not valid JSON", 1},
		{"{\n\n\"Version\" 1}", "", "not valid JSON", 3},
		{`{"Version": "2012-10-17", "Statement": ` + ok + `} {}`, "", "not valid JSON", 1},
		{`{"Version": "2012-10-17", "Statement": ` + ok + `,}`, "", "not valid JSON", 1},
		{"[]", "", "expected an object", 1},
		{"null", "", "expected an object", 1},
		{`"x"`, "", "expected an object", 1},
		{"{}", "Statement", "no statement", 1},
		{`{"Statement": []}`, "Statement", "no statement", 1},
		{`{"Statement": "x"}`, "Statement", "expected an object", 1},
		{"{\"Statement\": [\n" + ok + ",\n[]]}", "Statement", "expected an object", 3},
		{`{"Version": "2012-10-17", "statement": ` + ok + `}`, "statement", "must be written Statement", 1},
		{`{"Version": "2012-10-17", "Statement": ` + ok + `, "Extra": 1}`, "Extra", "not known", 1},
		{"{\"Version\": \"2012-10-17\",\n\"Version\": \"2008-10-17\",\n\"Statement\": " + ok + "}", "Version", "used twice", 2},
		{"{\n\"Version\": \"2012-10-18\", \"Statement\": " + ok + "}", "Version", "found \"2012-10-18\"", 2},
		{`{"Version": 2012, "Statement": ` + ok + `}`, "Version", "expected a string", 1},
		{`{"Id": {}, "Statement": ` + ok + `}`, "Id", "expected a string", 1},
		{"{\"Id\": \"\xff\", \"Statement\": " + ok + `}`, "", "not valid UTF-8", 1},
		{`{"Id": "` + strings.Repeat("x", maxBytes) + `", "Statement": ` + ok + `}`, "", "at most 20480", 1},
		{`{"\ud800": 1}`, "", "not valid Unicode", 1},
	} {
		_, err := Parse([]byte(c.document), Source{})
		var bad *Error
		require.ErrorAs(t, err, &bad, c.document)
		require.Contains(t, bad.Reason, c.reason)
		require.Equal(t, c.element, bad.Element, c.document)
		require.Equal(t, c.line, bad.Line, c.document)
	}
	full := document(ok)
	full += strings.Repeat(" ", maxBytes-len(full))
	_, err := Parse([]byte(full), Source{})
	require.NoError(t, err, "20 KiB are allowed")
	_, err = Parse([]byte(full+" "), Source{})
	require.Error(t, err)
}

// TestIdentityPolicies tests what only the policies of identities may contain.
func TestIdentityPolicies(t *testing.T) {
	parse := func(elements ...string) error {
		_, err := Parse([]byte(document(statement("Allow", elements...))), Source{})
		return err
	}
	for _, ok := range [][]string{
		{"Action", `"*"`, "Resource", `"*"`},
		{"Action", `"S3:getOBJECT"`, "Resource", `"arn:aws:s3:::*"`},
		{"Action", `["iam:*", "sts:*", "orcas:*"]`, "Resource", `"*"`},
		{"Action", `"s3:ListAllMyBuckets"`, "Resource", `"arn:aws:s3:::*"`},
		{"Action", `"s3:ListBucket"`, "Resource", `"arn:aws:s3:::b*"`},
		{"Action", `"s3:GetObject"`, "Resource", `"arn:aws:s3:::b*"`},
		{"Action", `["s3:ListBucket", "s3:GetObject"]`, "Resource", `"arn:aws:s3:::${aws:PrincipalTag/a/b}"`},
		{"Action", `"iam:GetUser"`, "Resource", `"arn:aws:iam::111122223333:user/${aws:username}"`},
		{"Action", `"iam:GetUser"`, "Resource", `"arn:aws:iam::${aws:PrincipalAccount}:user/x"`},
		{"Action", `["iam:GetUser", "iam:GetRole"]`, "Resource", `"arn:aws:iam::*:*"`},
		{"Action", `"sts:AssumeRole"`, "Resource", `"arn:aws:iam::*:role/x"`},
		{"NotAction", `"iam:*"`, "Resource", `"*"`},
		{"Action", `"s3:*"`, "NotResource", `"arn:aws:s3:::b/*"`},
		{"Action", `"s3:ListBucket"`, "NotResource", `"arn:aws:s3:::b/*"`},
	} {
		require.NoError(t, parse(ok...), "%v", ok)
	}
	for _, bad := range [][]string{
		{"Action", `"*"`, "Resource", `"*"`, "Principal", `"*"`},
		{"Action", `"*"`, "Resource", `"*"`, "NotPrincipal", `"*"`},
		{"Action", `"s3:ListAllMyBuckets"`, "Resource", `"arn:aws:s3:::b*"`},
		{"Action", `"s3:ListAllMyBuckets"`, "Resource", `"arn:aws:s3:::b/*"`},
		{"Action", `"s3:ListBucket"`, "Resource", `"arn:aws:s3:::b/*"`},
		{"Action", `"s3:GetObject"`, "Resource", `"arn:aws:s3:::b"`},
		{"Action", `"orcas:*"`, "Resource", `"arn:aws:s3:::*"`},
		{"Action", `"s3:*"`, "Resource", `"arn:aws:s3:::b/*"`, "Condition", `{"StringLike": {"s3:prefix": "x"}}`},
		{"Action", `"iam:GetUser"`, "Resource", `"arn:aws:iam::111122223333:role/x"`},
		{"Action", `"iam:GetUser"`, "Resource", `"arn:aws:iam::111122223333:users/x"`},
		{"Action", `"*"`, "Resource", `"arn:aws:iam::x"`},
		{"Action", `"*"`, "Resource", `"arn:aws:ec2:::x"`},
		{"Action", `"*"`, "Resource", `"arn:aws:s3:eu:111122223333:accesspoint/x"`},
		{"Action", `"*"`, "Resource", `"arn:aws:s3::111122223333:b"`},
		{"Action", `"*"`, "Resource", `"arn:aws:s3:eu::b"`},
		{"Action", `"*"`, "Resource", `"arn:aws:iam:eu:111122223333:user/x"`},
		{"Action", `"*"`, "Resource", `"arn:aws:s3:::"`},
		{"Action", `"*"`, "Resource", `"arn:aws:s3:::/x"`},
		{"Action", `"*"`, "Resource", `"arn:*:s3:::b"`},
		{"Action", `"*"`, "Resource", `"arn:aws-cn:s3:::b"`},
		{"Action", `"*"`, "Resource", `"ARN:aws:s3:::b"`},
		{"Action", `"*"`, "Resource", `"b/*"`},
		{"Action", `"*"`, "Resource", `""`},
		{"Action", `"*"`, "Resource", `"**x"`},
	} {
		var e *Error
		require.True(t, errors.As(parse(bad...), &e), "%v", bad)
		require.Equal(t, 1, e.Statement)
	}
}

// TestActions tests the actions that a statement is about.
func TestActions(t *testing.T) {
	count := func(p *Policy) (n int) {
		for _, a := range table().actions {
			if p.statements[0].actions.has(a.id) {
				n++
			}
		}
		return n
	}
	const whole = `["arn:aws:s3:::b", "arn:aws:s3:::b/*"]`
	all := count(ofBucket(t, statement("Allow", "Principal", everyone, "Action", `"*"`, "Resource", whole)))
	require.Greater(t, all, 90)
	for action, n := range map[string]int{
		`"s3:*"`: all, `"S3:*"`: all, `"s3:GetObject"`: 1, `"s3:getobject"`: 1, `"s3:GetObject*"`: 13, `"s3:?etObject"`: 1,
		`["s3:GetObject", "s3:PutObject", "s3:GetObject"]`: 2,
	} {
		p := ofBucket(t, statement("Allow", "Principal", everyone, "Action", action, "Resource", whole))
		require.Equal(t, n, count(p), action)
		p = ofBucket(t, statement("Allow", "Principal", everyone, "NotAction", action, "Resource", whole))
		require.Equal(t, all-n, count(p), "not %s", action)
	}
	identity := count(ofIdentity(t, statement("Allow", "Action", `"*"`, "Resource", `"*"`)))
	require.Equal(t, len(table().actions), identity)
}

// TestTable tests the table of actions, and the errors of its parser.
func TestTable(t *testing.T) {
	parsed, err := parseTable(actionsFile)
	require.NoError(t, err)
	require.Greater(t, len(parsed.actions), 180)
	for name, want := range map[string]bool{
		"s3:GetObject s3:ExistingObjectTag/x": true, "s3:GetObject s3:prefix": false, "s3:ListBucket S3:PREFIX": true,
		"s3:GetObject aws:SourceIp": true, "s3:GetObject nothing": false, "s3:PutObject s3:x-amz-grant-read-acp": true,
		"s3:GetObjectVersion s3:VersionId": true, "s3:GetObject s3:VersionId": false,
	} {
		action, key, _ := strings.Cut(name, " ")
		known, applies := Supports(auth.Action(action), key)
		require.True(t, known)
		require.Equal(t, want, applies, name)
	}
	for name, want := range map[string]string{
		"AWS:SOURCEIP": "aws:SourceIp", "s3:versionid": "s3:VersionId", "s3:existingobjecttag/A/b": "s3:ExistingObjectTag/A/b", "x": "",
	} {
		canonical, known := CanonicalKey(name)
		require.Equal(t, want, canonical)
		require.Equal(t, want != "", known)
	}
	known, applies := Supports("s3:Nothing", "aws:SourceIp")
	require.False(t, known || applies)
	require.True(t, IsOfObjects("s3:GetObject"))
	require.False(t, IsOfObjects("s3:ListBucket") || IsOfObjects("s3:Nothing"))
	for wrong, reason := range map[string]string{
		"key":                            "at least two words",
		"key aws:a big":                  "list or varies",
		"key aws:a\nkey AWS:A":           "exists already",
		"set a s3:b":                     "a key or a set",
		"key aws:a\nset a AWS:A":         "a key or a set",
		"s3:A object s3:b":               "a key or a set",
		"s3:A thing":                     "type of a resource",
		"s3:A object\n+ s3:A object":     "exists already",
		"\n# comment\ns3:A object x\n":   "line 3: ",
		strings.Repeat("s3:A none\n", 2): "line 2: ",
		numbered("key x:%d\n", 129):      "more than 128 keys",
		numbered("s3:A%d none\n", 256+1): "more than 256 actions",
	} {
		_, err := parseTable(wrong)
		require.ErrorContains(t, err, reason)
	}
}

// numbered repeats a format with numbers.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
