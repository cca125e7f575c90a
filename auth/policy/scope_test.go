package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// decideScope decides about many keys of the bucket, by statements of an identity.
func decideScope(t *testing.T, scope auth.Scope, action auth.Action, given facts, statements ...string) Decision {
	t.Helper()
	q := get(user(owner, ofIdentity(t, statements...)))
	q.Action, q.Facts = action, given
	q.Resource.Key, q.Resource.Scope = "", scope
	return Decide(q).Decision
}

// TestManyKeys tests decisions about at least one key, and about every key.
func TestManyKeys(t *testing.T) {
	resource := func(effect, arn string, more ...string) string {
		return statement(effect, append([]string{"Action", `"s3:*"`, "Resource", quoted(arn)}, more...)...)
	}
	without := func(effect, arn string) string {
		return statement(effect, "Action", `"s3:*"`, "NotResource", quoted(arn))
	}
	const all = "arn:aws:s3:::b/*"
	tag := []string{"Condition", `{"StringEquals": {"s3:ExistingObjectTag/a": "b"}}`}
	agent := []string{"Condition", `{"StringEquals": {"aws:UserAgent": "curl"}}`}
	for name, c := range map[string]struct {
		statements []string
		any, every Decision
	}{
		"nothing":                     {[]string{resource("Allow", "arn:aws:s3:::c/*")}, ImplicitDeny, ImplicitDeny},
		"all keys":                    {[]string{resource("Allow", all)}, Allowed, Allowed},
		"everything":                  {[]string{resource("Allow", "*")}, Allowed, Allowed},
		"all buckets":                 {[]string{resource("Allow", "arn:aws:s3:::*")}, Allowed, Allowed},
		"all keys, another way":       {[]string{resource("Allow", "arn:aws:s3:::b/?*")}, Allowed, ImplicitDeny},
		"buckets by a pattern":        {[]string{resource("Allow", "arn:aws:s3:::?/*")}, Allowed, Allowed},
		"a prefix":                    {[]string{resource("Allow", "arn:aws:s3:::b/home/*")}, Allowed, ImplicitDeny},
		"one key":                     {[]string{resource("Allow", "arn:aws:s3:::b/x")}, Allowed, ImplicitDeny},
		"keys of one character":       {[]string{resource("Allow", "arn:aws:s3:::b/?")}, Allowed, ImplicitDeny},
		"a suffix":                    {[]string{resource("Allow", "arn:aws:s3:::*.jpg")}, Allowed, ImplicitDeny},
		"the bucket itself":           {[]string{statement("Allow", "Action", `"s3:*"`, "Resource", `"arn:aws:s3:::b"`)}, ImplicitDeny, ImplicitDeny},
		"the empty key":               {[]string{resource("Allow", "arn:aws:s3:::b/")}, ImplicitDeny, ImplicitDeny},
		"another bucket":              {[]string{resource("Allow", "arn:aws:s3:::bb/*")}, ImplicitDeny, ImplicitDeny},
		"a shorter bucket":            {[]string{resource("Allow", "arn:aws:s3:::?")}, ImplicitDeny, ImplicitDeny},
		"halves":                      {[]string{resource("Allow", "arn:aws:s3:::b/a*"), resource("Allow", "arn:aws:s3:::b/b*")}, Allowed, ImplicitDeny},
		"a denied key":                {[]string{resource("Allow", all), resource("Deny", "arn:aws:s3:::b/x")}, Allowed, ExplicitDeny},
		"all keys denied":             {[]string{resource("Allow", all), resource("Deny", all)}, ExplicitDeny, ExplicitDeny},
		"keys of another bucket":      {[]string{resource("Allow", all), resource("Deny", "arn:aws:s3:::c/*")}, Allowed, Allowed},
		"all but a prefix":            {[]string{without("Allow", "arn:aws:s3:::b/secret/*")}, Allowed, ImplicitDeny},
		"all but all":                 {[]string{without("Allow", all)}, ImplicitDeny, ImplicitDeny},
		"all but another bucket":      {[]string{without("Allow", "arn:aws:s3:::c/*")}, Allowed, Allowed},
		"a prefix, others denied":     {[]string{resource("Allow", all), without("Deny", "arn:aws:s3:::b/home/*")}, Allowed, ExplicitDeny},
		"denied but another bucket":   {[]string{resource("Allow", all), without("Deny", "arn:aws:s3:::c/*")}, ExplicitDeny, ExplicitDeny},
		"with a tag":                  {[]string{resource("Allow", all, tag...)}, Allowed, ImplicitDeny},
		"without a tag":               {[]string{resource("Allow", all), resource("Deny", all, tag...)}, Allowed, ExplicitDeny},
		"with an agent":               {[]string{resource("Allow", all, agent...)}, Allowed, Allowed},
		"a prefix with an agent":      {[]string{resource("Allow", "arn:aws:s3:::b/home/*", agent...)}, Allowed, ImplicitDeny},
		"a tag and an agent":          {[]string{resource("Allow", all, "Condition", `{"StringEquals": {"s3:ExistingObjectTag/a": "b", "aws:UserAgent": "curl"}}`)}, Allowed, ImplicitDeny},
		"without an agent":            {[]string{resource("Allow", all), resource("Deny", all, agent...)}, ExplicitDeny, ExplicitDeny},
		"a user's prefix":             {[]string{resource("Allow", "arn:aws:s3:::b/${aws:username}/*")}, Allowed, ImplicitDeny},
		"a user's bucket":             {[]string{resource("Allow", "arn:aws:s3:::${aws:PrincipalTag/x, 'b'}/*")}, Allowed, Allowed},
		"another user's bucket":       {[]string{resource("Allow", "arn:aws:s3:::${aws:username}/*")}, ImplicitDeny, ImplicitDeny},
		"a tag in the resource":       {[]string{resource("Allow", "arn:aws:s3:::b/${s3:ExistingObjectTag/a}*")}, Allowed, ImplicitDeny},
		"an unknown, one missing":     {[]string{resource("Allow", "arn:aws:s3:::b/${s3:ExistingObjectTag/a}${aws:PrincipalTag/x}*")}, ImplicitDeny, ImplicitDeny},
		"a tag in a condition":        {[]string{resource("Allow", all, "Condition", `{"StringLike": {"aws:UserAgent": "${s3:ExistingObjectTag/a}"}}`)}, Allowed, ImplicitDeny},
		"a tag, the key is absent":    {[]string{resource("Allow", all, "Condition", `{"StringLike": {"aws:Referer": "${s3:ExistingObjectTag/a}"}}`)}, ImplicitDeny, ImplicitDeny},
		"a tag, negated, absent":      {[]string{resource("Allow", all, "Condition", `{"StringNotLike": {"aws:Referer": "${s3:ExistingObjectTag/a}"}}`)}, Allowed, ImplicitDeny},
		"null of a tag":               {[]string{resource("Allow", all, "Condition", `{"Null": {"s3:ExistingObjectTag/a": "true"}}`)}, Allowed, ImplicitDeny},
		"a tag that may be absent":    {[]string{resource("Allow", all, "Condition", `{"StringEqualsIfExists": {"s3:ExistingObjectTag/a": "b"}}`)}, Allowed, ImplicitDeny},
		"an unknown, absent variable": {[]string{resource("Allow", all, "Condition", `{"StringEquals": {"s3:ExistingObjectTag/a": "${aws:PrincipalTag/x}"}}`)}, ImplicitDeny, ImplicitDeny},
		"the same with IfExists":      {[]string{resource("Allow", all, "Condition", `{"StringEqualsIfExists": {"s3:ExistingObjectTag/a": "${aws:PrincipalTag/x}"}}`)}, Allowed, ImplicitDeny},
		"a tag and a wrong agent":     {[]string{resource("Allow", all, "Condition", `{"StringEquals": {"s3:ExistingObjectTag/a": "b", "aws:UserAgent": "wget"}}`)}, ImplicitDeny, ImplicitDeny},
		"a wrong agent and a tag":     {[]string{resource("Allow", all, "Condition", `{"StringEquals": {"aws:UserAgent": "wget", "s3:ExistingObjectTag/a": "b"}}`)}, ImplicitDeny, ImplicitDeny},
		"a key of another action":     {[]string{resource("Allow", all, "Condition", `{"StringEquals": {"s3:x-amz-acl": "private"}}`)}, ImplicitDeny, ImplicitDeny},
		"the same action by another":  {[]string{statement("Allow", "Action", `"s3:PutObject"`, "Resource", quoted(all))}, ImplicitDeny, ImplicitDeny},
	} {
		given := facts{"aws:UserAgent": "curl", "s3:ExistingObjectTag/a": "b"}
		require.Equal(t, c.any, decideScope(t, auth.AnyKey, "s3:GetObject", given, c.statements...), "any key: %s", name)
		require.Equal(t, c.every, decideScope(t, auth.EveryKey, "s3:GetObject", given, c.statements...), "every key: %s", name)
	}
}

// TestPerhapsAndBelow tests the questions of pages: about a key, about the keys below a prefix, and about new buckets.
func TestPerhapsAndBelow(t *testing.T) {
	tagged := []string{"Condition", `{"StringEquals": {"s3:ExistingObjectTag/a": "b"}}`}
	allow := func(arn string, more ...string) string {
		return statement("Allow", append([]string{"Action", `"s3:*"`, "Resource", quoted(arn)}, more...)...)
	}
	deny := func(arn string, more ...string) string {
		return statement("Deny", append([]string{"Action", `"s3:*"`, "Resource", quoted(arn)}, more...)...)
	}
	const all, one, own = "arn:aws:s3:::b/*", "arn:aws:s3:::b/own/x", "arn:aws:s3:::b/own/*"
	for name, c := range map[string]struct {
		statements                    []string
		key, below, elsewhere, bucket Decision // b/own/x, b/own/..., b/other/..., any new bucket
	}{
		"nothing":               {[]string{allow("arn:aws:s3:::c/*")}, ImplicitDeny, ImplicitDeny, ImplicitDeny, ImplicitDeny},
		"everything":            {[]string{allow("*")}, Allowed, Allowed, Allowed, Allowed},
		"all of the bucket":     {[]string{allow(all)}, Allowed, Allowed, Allowed, ImplicitDeny},
		"a prefix":              {[]string{allow(own)}, Allowed, Allowed, ImplicitDeny, ImplicitDeny},
		"a longer prefix":       {[]string{allow("arn:aws:s3:::b/own/a/*")}, ImplicitDeny, Allowed, ImplicitDeny, ImplicitDeny},
		"one key":               {[]string{allow(one)}, Allowed, Allowed, ImplicitDeny, ImplicitDeny},
		"longer keys":           {[]string{allow(one + "?")}, ImplicitDeny, Allowed, ImplicitDeny, ImplicitDeny},
		"all but the key":       {[]string{allow("*"), deny(one)}, ExplicitDeny, Allowed, Allowed, Allowed},
		"all but the prefix":    {[]string{allow("*"), deny(own)}, ExplicitDeny, ExplicitDeny, Allowed, Allowed},
		"with a tag":            {[]string{allow("*", tagged...)}, Allowed, Allowed, Allowed, ImplicitDeny},
		"without a tag":         {[]string{allow("*"), deny("*", tagged...)}, Allowed, Allowed, Allowed, Allowed},
		"buckets with a name":   {[]string{allow("arn:aws:s3:::team-*")}, ImplicitDeny, ImplicitDeny, ImplicitDeny, Allowed},
		"no buckets with it":    {[]string{allow("*"), deny("arn:aws:s3:::team-*")}, Allowed, Allowed, Allowed, Allowed},
		"no buckets":            {[]string{allow("*"), deny("arn:aws:s3:::*")}, ExplicitDeny, ExplicitDeny, ExplicitDeny, ExplicitDeny},
		"the bucket, not a key": {[]string{allow("arn:aws:s3:::b")}, ImplicitDeny, ImplicitDeny, ImplicitDeny, Allowed},
	} {
		decide := func(action auth.Action, bucket, key string, scope auth.Scope) Decision {
			q := get(user(owner, ofIdentity(t, c.statements...)))
			q.Action, q.Resource.Bucket, q.Resource.Key, q.Resource.Scope = action, bucket, key, scope
			return Decide(q).Decision
		}
		require.Equal(t, c.key, decide("s3:GetObject", "b", "own/x", auth.Perhaps), "key: %s", name)
		require.Equal(t, c.below, decide("s3:GetObject", "b", "own/", auth.Below), "below: %s", name)
		require.Equal(t, c.elsewhere, decide("s3:GetObject", "b", "other/", auth.Below), "elsewhere: %s", name)
		require.Equal(t, c.bucket, decide("s3:CreateBucket", "", "", auth.Below), "bucket: %s", name)
		require.Equal(t, ImplicitDeny, decide("s3:GetObject", "", "", auth.Below), "a key needs a bucket: %s", name)
		require.Equal(t, ImplicitDeny, decide("s3:GetObject", "b", "", auth.Perhaps), "there is no key: %s", name)
		require.Equal(t, ImplicitDeny, decide("s3:CreateBucket", "", "", auth.Perhaps), "there is no bucket: %s", name)
		for _, scope := range []auth.Scope{auth.Perhaps, auth.Below} {
			require.Equal(t, decide("s3:DeleteBucket", "b", "", auth.OneKey), decide("s3:DeleteBucket", "b", "", scope), "a bucket with a name: %s", name)
		}
	}
	list := statement("Allow", "Action", `"s3:ListBucket"`, "Resource", `"arn:aws:s3:::b"`, "Condition", `{"StringLike": {"s3:prefix": "home/*"}}`)
	require.Equal(t, Allowed, decideScope(t, auth.Perhaps, "s3:ListBucket", facts{}, list))
	require.Equal(t, Allowed, decideScope(t, auth.Below, "s3:ListBucket", facts{}, list))
}

// TestAnyListing: for an action on the bucket, AnyKey leaves out the conditions on the listing.
func TestAnyListing(t *testing.T) {
	list := statement("Allow", "Action", `"s3:ListBucket"`, "Resource", `"arn:aws:s3:::b"`,
		"Condition", `{"StringLike": {"s3:prefix": "home/*"}}`)
	require.Equal(t, Allowed, decideScope(t, auth.AnyKey, "s3:ListBucket", facts{}, list))
	require.Equal(t, ImplicitDeny, decideScope(t, auth.OneKey, "s3:ListBucket", facts{}, list))
	require.Equal(t, ImplicitDeny, decideScope(t, auth.EveryKey, "s3:ListBucket", facts{"s3:prefix": "home/"}, list))
	require.Equal(t, Allowed, decideScope(t, auth.OneKey, "s3:ListBucket", facts{"s3:prefix": "home/"}, list))
}

// TestManyKeysOfTheRoot: the root needs no policy, but a bucket policy can deny.
func TestManyKeysOfTheRoot(t *testing.T) {
	one := ofBucket(t, statement("Deny", "Principal", everyone, "Action", read, "Resource", `"arn:aws:s3:::b/secret"`))
	all := ofBucket(t, denying(everyone))
	for scope, want := range map[auth.Scope][3]Decision{
		auth.AnyKey: {Allowed, Allowed, ExplicitDeny}, auth.EveryKey: {Allowed, ExplicitDeny, ExplicitDeny},
	} {
		for i, p := range []*Policy{nil, one, all} {
			q := with(get(root(owner)), p)
			q.Resource.Scope, q.Resource.Key = scope, "ignored"
			require.Equal(t, want[i], Decide(q).Decision)
		}
	}
}

// TestDecideAny: whether a caller has any right in the bucket.
func TestDecideAny(t *testing.T) {
	for name, c := range map[string]struct {
		statement string
		want      Decision
	}{
		"write a prefix": {statement("Allow", "Action", `"s3:PutObject"`, "Resource", `"arn:aws:s3:::b/in/*"`), Allowed},
		"list a prefix": {statement("Allow", "Action", `"s3:ListBucket"`, "Resource", `"arn:aws:s3:::b"`,
			"Condition", `{"StringLike": {"s3:prefix": "home/*"}}`), Allowed},
		"another bucket": {statement("Allow", "Action", `"s3:*"`, "Resource", `["arn:aws:s3:::c", "arn:aws:s3:::c/*"]`), ImplicitDeny},
		"the service":    {statement("Allow", "Action", `["s3:ListAllMyBuckets", "iam:*", "orcas:*"]`, "Resource", `"*"`), ImplicitDeny},
	} {
		q := get(user(owner, ofIdentity(t, c.statement)))
		q.Action, q.Resource.Key = "", ""
		require.Equal(t, c.want, DecideAny(q).Decision, name)
		require.Equal(t, auth.OneKey, q.Resource.Scope, "the request is not changed")
		q.Resource.Bucket = ""
		require.Equal(t, ImplicitDeny, DecideAny(q).Decision, name)
	}
	require.Equal(t, ImplicitDeny, DecideAny(get(nil)).Decision)
	require.Equal(t, Allowed, DecideAny(get(root(owner))).Decision)
	require.Equal(t, ImplicitDeny, DecideAny(get(root(stranger))).Decision)
}

// TestMatch tests wildcards.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		matches       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"**", "abc", true}, {"?", "", false},
		{"?", "é", true}, {"?", "\xff", true}, {"??", "é", false}, {"a*", "a", true}, {"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false},
		{"*ab", "aab", true}, {"*aab", "aaab", true}, {"a?*", "a", false}, {"a?*", "ab", true}, {"*?b", "b", false},
		{"*?b", "ab", true}, {"a\\*", "a\\x", true}, {"[a]", "a", false}, {"a.c", "abc", false}, {"*\n*", "a\nb", true},
	} {
		tokens, err := parsePattern(c.pattern, wildcards)
		require.NoError(t, err)
		require.Equal(t, c.matches, match(tokens, c.text), "%q %q", c.pattern, c.text)
	}
}
