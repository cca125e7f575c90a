package identity

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/gate"
)

// assume begins a session that must be allowed.
func (b *bench) assume(by *auth.Principal, in AssumeRole) *Session {
	s, err := b.AssumeRole(b.ctx(), by, in)
	require.NoError(b.t, err)
	return s
}

// caller returns the caller of a session, whose credentials must be accepted.
func (b *bench) caller(s *Session) *policy.Caller {
	c, err := b.Lookup(b.ctx(), s.AccessKey, s.Token)
	require.NoError(b.t, err)
	require.Equal(b.t, s.SecretKey, c.SecretKey)
	require.Equal(b.t, s.Token, c.Token)
	return b.Caller(c.Principal)
}

// ended checks that a session may do nothing any longer, neither in new requests nor in those that are being handled.
func (b *bench) ended(s *Session, err error) {
	c, got := b.Lookup(b.ctx(), s.AccessKey, s.Token)
	require.Equal(b.t, err, got)
	require.Zero(b.t, c)
	require.Nil(b.t, b.Caller(s.Principal))
}

// sessionBench is a bench with the user alice, who may assume the role reader.
type sessionBench struct {
	*bench
	account string
	alice   *auth.Principal
	role    *Identity
}

func openSessions(t *testing.T) *sessionBench {
	b := open(t)
	i, secret := b.createUser("alice")
	return &sessionBench{b, b.Root().Account, b.holder(secret), b.createRole("Reader", i.ARN())}
}

func (b *sessionBench) begin(d time.Duration) *Session {
	return b.assume(b.alice, AssumeRole{Role: b.role.ARN(), Session: "today", Duration: d})
}

// TestSession checks who a session is and what it may do, also after a restart.
func TestSession(t *testing.T) {
	b := openSessions(t)
	_, err := b.SetTags(t.Context(), Role, b.account, "reader", map[string]string{"team": "red"})
	require.NoError(t, err)
	s := b.begin(0)
	require.Regexp(t, "^ASIA[A-Z2-7]{16}$", s.AccessKey)
	require.Regexp(t, "^[A-Z2-7]{40}$", s.SecretKey)
	require.Equal(t, b.time().Add(time.Hour), s.Expires)
	require.Zero(t, s.PackedSize)
	for range 2 {
		c := b.caller(s)
		require.Equal(t, "arn:aws:sts::"+b.account+":assumed-role/Reader/today", c.Principal.ARN)
		require.Equal(t, b.account, c.Principal.Account)
		require.Equal(t, b.role.ID+":today", c.Principal.ID)
		require.Equal(t, "today", c.Principal.Session)
		require.Equal(t, map[string]string{"team": "red"}, c.Principal.Tags)
		require.Equal(t, b.role.ARN(), c.Role)
		require.Equal(t, b.role.ID+":today", c.ID)
		require.Equal(t, b.time(), c.Issued.UTC())
		require.Equal(t, b.Caller(b.Root()).Canonical, c.Canonical)
		require.True(t, allows(c, "s3:GetObject", "key"))
		require.False(t, allows(c, "s3:PutObject", "key"))
		require.NotEqual(t, s.AccessKey, b.begin(0).AccessKey)
		b.reopen()
	}
	_, _, err = b.CreateKey(t.Context(), s.Principal, NewKey{Name: "k", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.Equal(t, Denied, codeOf(err))
	require.ErrorContains(t, err, "outlast")
	_, _, err = b.RotateKey(t.Context(), s.Principal, "", "k", 0)
	require.Equal(t, NoSuchEntity, codeOf(err))
	require.Empty(t, b.Keys(s.Principal))
}

func TestTemporaryKeyWithoutItsToken(t *testing.T) {
	b := openSessions(t)
	s := b.begin(0)
	c, err := b.Lookup(t.Context(), s.AccessKey, "")
	require.NoError(t, err)
	require.Zero(t, c, "the key alone is unknown")
	c, err = b.Lookup(t.Context(), "ASIA"+strings.Repeat("A", 16), "")
	require.NoError(t, err)
	require.Zero(t, c)
}

func TestTokenOfAnotherKey(t *testing.T) {
	b := openSessions(t)
	_, permanent := b.createUser("bob")
	one, two := b.begin(0), b.begin(0)
	for _, key := range []string{two.AccessKey, "ASIA" + strings.Repeat("A", 16), strings.ToLower(one.AccessKey)} {
		c, err := b.Lookup(t.Context(), key, one.Token)
		if strings.HasPrefix(key, temporaryPrefix) {
			require.Equal(t, gate.ErrToken, err, key)
		}
		require.Zero(t, c, key)
	}
	// An access key of a user has no token. Package gate refuses a request that presents one with it.
	c, err := b.Lookup(t.Context(), permanent.AccessKey, one.Token)
	require.NoError(t, err)
	require.Empty(t, c.Token)
}

// TestForgedToken changes every character of a token, and seals tokens with other keys.
func TestForgedToken(t *testing.T) {
	b := openSessions(t)
	s := b.begin(0)
	refused := func(token string) {
		t.Helper()
		c, err := b.Lookup(t.Context(), s.AccessKey, token)
		require.Equal(t, gate.ErrToken, err, token)
		require.Zero(t, c)
	}
	for i := range s.Token {
		other := byte('A')
		if s.Token[i] == 'A' {
			other = 'B'
		}
		if raw, _ := base64.RawURLEncoding.DecodeString(s.Token); i == len(s.Token)-1 && len(raw)%3 != 0 {
			continue // not all bits of the last character are used
		}
		refused(s.Token[:i] + string(other) + s.Token[i+1:])
	}
	for n := range s.Token {
		if n > 0 {
			refused(s.Token[:n])
		}
	}
	for _, token := range []string{"x", "AAAA", s.Token + "A", s.Token + s.Token, " " + s.Token, strings.Repeat("A", 10_000)} {
		refused(token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(s.Token)
	require.NoError(t, err)
	for _, secret := range []string{s.SecretKey, s.AccessKey, b.role.ID, "today"} {
		require.NotContains(t, string(raw), secret)
	}
	// The secret of an access key, which is encrypted with the key of the directory, is not a token.
	records, err := b.store.Meta.Records(t.Context(), userRecords, "", 10)
	require.NoError(t, err)
	e, err := b.vault.read(records[0])
	require.NoError(t, err)
	refused(base64.RawURLEncoding.EncodeToString(append([]byte{tokenVersion}, e.Keys[0].Secret...)))
	// A field that this version does not know could be a restriction.
	aead := *b.tokens.Load()
	nonce := make([]byte, aead.NonceSize())
	sealed := aead.Seal(append([]byte{tokenVersion}, nonce...), nonce, []byte(`{"k": "`+s.AccessKey+`", "limit": 1}`), tokenData)
	refused(base64.RawURLEncoding.EncodeToString(sealed))

	// Without the key, or with another one, no token is valid.
	for _, key := range [][]byte{nil, []byte(strings.Repeat("k", KeySize))} {
		o := b.options()
		o.Key, o.NewKey = key, nil
		d, err := Open(t.Context(), o)
		require.NoError(t, err)
		_, err = d.Lookup(t.Context(), s.AccessKey, s.Token)
		require.Equal(t, gate.ErrToken, err)
	}
	b.caller(s)
}

func TestExpiredToken(t *testing.T) {
	b := openSessions(t)
	s := b.begin(15 * time.Minute)
	b.pass(15*time.Minute - time.Second)
	b.caller(s)
	b.pass(time.Second)
	b.ended(s, gate.ErrExpired)
	b.reopen()
	b.ended(s, gate.ErrExpired)
}

func TestTokenAfterTheRoleWasDeleted(t *testing.T) {
	b := openSessions(t)
	s := b.begin(0)
	b.caller(s)
	require.NoError(t, b.DeleteRole(t.Context(), b.account, "reader"))
	b.ended(s, nil)
	b.createRole("Reader", b.alice.ARN)
	b.ended(s, nil) // the new role has the name only
	b.reopen()
	b.ended(s, nil)
}

func TestTokenAfterPoliciesChanged(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	s := b.begin(0)
	may := func(read, write bool) {
		t.Helper()
		c := b.caller(s)
		require.Equal(t, read, allows(c, "s3:GetObject", "key"))
		require.Equal(t, write, allows(c, "s3:PutObject", "key"))
	}
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	may(true, false)
	must(b.PutInlinePolicy(ctx, Role, b.account, "reader", "read", document("Allow", "s3:PutObject")))
	may(false, true)
	must(b.CreatePolicy(ctx, b.account, "no", document("Deny", "s3:PutObject"), ""))
	must(b.Attach(ctx, Role, b.account, "reader", "no", true))
	may(false, false)
	must(b.UpdatePolicy(ctx, b.account, "no", document("Deny", "s3:GetObject")))
	may(false, true)
	must(b.SetTags(ctx, Role, b.account, "reader", map[string]string{"team": "blue"}))
	require.Equal(t, map[string]string{"team": "blue"}, b.caller(s).Principal.Tags)
	must(b.UpdateRole(ctx, b.account, "reader", RoleChange{Trust: trusting(b.account)}))
	may(false, true) // the trust policy is about new sessions
	_, err := b.AssumeRole(ctx, b.alice, AssumeRole{Role: b.role.ARN(), Session: "today"})
	require.Equal(t, Denied, codeOf(err))
}

// TestTokenAfterTheUserWasDeleted: a session ends with the user that began it, unlike in AWS.
func TestTokenAfterTheUserWasDeleted(t *testing.T) {
	b := openSessions(t)
	b.createRole("next", b.role.ARN())
	s := b.begin(0)
	next := b.assume(s.Principal, AssumeRole{Role: "arn:aws:iam::" + b.account + ":role/next", Session: "today"})
	b.caller(next)
	require.NoError(t, b.DeleteUser(t.Context(), b.account, "alice"))
	b.ended(s, nil)
	b.ended(next, nil)
	b.createUser("alice")
	b.ended(next, nil)
	b.reopen()
	b.ended(next, nil)
}

// TestWhoMayAssume: whoever may assume a role has all rights of the role.
func TestWhoMayAssume(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	arn := b.role.ARN()
	deniedTo := func(by *auth.Principal, role string) {
		t.Helper()
		_, err := b.AssumeRole(ctx, by, AssumeRole{Role: role, Session: "today"})
		require.Equal(t, Denied, codeOf(err), "%v", err)
		require.EqualError(t, err, fmt.Sprintf("User: %s is not authorized to perform: sts:AssumeRole on resource: %s", by.ARN, role))
	}
	_, secret := b.createUser("bob")
	bob := b.holder(secret)
	key, _ := b.create(b.Root(), "key")
	deniedTo(bob, arn)
	_, err := b.Attach(ctx, User, b.account, "bob", "admin", true)
	require.NoError(t, err)
	deniedTo(bob, arn) // the role does not trust bob
	deniedTo(key, arn)
	deniedTo(auth.Anonymous, arn)
	deniedTo(&auth.Principal{Account: "111122223333", ARN: b.alice.ARN, ID: b.alice.ID + "x"}, arn)
	for _, role := range []string{
		"arn:aws:iam::" + b.account + ":role/none", "arn:aws:iam::111122223333:role/Reader", b.alice.ARN, b.account, "", "Reader",
		"arn:aws:sts::" + b.account + ":assumed-role/Reader/today", "arn:aws:iam::" + b.account + ":role/reader",
	} {
		deniedTo(b.alice, role)
	}
	_, err = b.UpdateRole(ctx, b.account, "reader", RoleChange{Trust: trusting(b.account)})
	require.NoError(t, err)
	deniedTo(b.alice, arn)
	deniedTo(key, arn)
	b.assume(bob, AssumeRole{Role: arn, Session: "today"}) // the role trusts the account, and the account trusts bob
	_, err = b.UpdateRole(ctx, b.account, "reader", RoleChange{Trust: trusting("*")})
	require.NoError(t, err)
	b.assume(b.alice, AssumeRole{Role: arn, Session: "today"})
	deniedTo(key, arn)
	deniedTo(auth.Anonymous, arn)
	require.NoError(t, b.DeleteUser(ctx, b.account, "alice"))
	deniedTo(b.alice, arn)
}

func TestRootCannotAssumeRoles(t *testing.T) {
	b := openSessions(t)
	_, err := b.UpdateRole(t.Context(), b.account, "reader", RoleChange{Trust: trusting("*", b.account)})
	require.NoError(t, err)
	_, err = b.AssumeRole(t.Context(), b.Root(), AssumeRole{Role: b.role.ARN(), Session: "today"})
	require.Equal(t, Denied, codeOf(err))
	require.EqualError(t, err, "Roles may not be assumed by root accounts.")
}

// TestConditionsOfTrust: conditions of the trust policy see the parameters, the request, the caller and the role.
func TestConditionsOfTrust(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	try := func(condition string, in AssumeRole) bool {
		trust := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": %q}, "Action": "sts:AssumeRole",
			"Condition": {"StringEquals": {%s}}}}`, b.alice.ARN, condition)
		_, err := b.UpdateRole(ctx, b.account, "reader", RoleChange{Trust: &trust})
		require.NoError(t, err)
		in.Role, in.Facts = b.role.ARN(), facts{"aws:UserAgent": "test", "sts:ExternalId": "forged", "aws:username": "bob", "iam:ResourceTag/team": "x"}
		_, err = b.AssumeRole(ctx, b.alice, in)
		return err == nil
	}
	_, err := b.SetTags(ctx, Role, b.account, "reader", map[string]string{"Team": "red"})
	require.NoError(t, err)
	today, external := AssumeRole{Session: "today"}, AssumeRole{Session: "today", ExternalID: "x-1"}
	require.True(t, try(`"sts:ExternalId": "x-1"`, external))
	require.False(t, try(`"sts:ExternalId": "x-2"`, external))
	require.False(t, try(`"sts:ExternalId": "forged"`, external))
	require.False(t, try(`"sts:ExternalId": "forged"`, today))
	require.True(t, try(`"sts:RoleSessionName": "${aws:username}y"`, AssumeRole{Session: "alicey"}))
	require.False(t, try(`"sts:RoleSessionName": "${aws:username}y"`, today))
	require.True(t, try(`"aws:UserAgent": "test"`, today))
	require.False(t, try(`"aws:username": "bob"`, today))
	require.True(t, try(`"iam:ResourceTag/team": "red"`, today))
	require.True(t, try(`"aws:ResourceTag/team": "red"`, today))
	require.False(t, try(`"iam:ResourceTag/team": "x"`, today))
	require.False(t, try(`"iam:ResourceTag/other": "x"`, today))
}

// TestParameters checks the limits of the parameters.
func TestParameters(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	hours := 2 * time.Hour
	_, err := b.UpdateRole(ctx, b.account, "reader", RoleChange{MaxSession: &hours})
	require.NoError(t, err)
	allow := document("Allow", "s3:GetObject")
	for name, c := range map[string]struct {
		change func(in *AssumeRole)
		want   Code
	}{
		"nothing":               {func(*AssumeRole) {}, ""},
		"no session":            {func(in *AssumeRole) { in.Session = "" }, Validation},
		"a short session":       {func(in *AssumeRole) { in.Session = "a" }, Validation},
		"two characters":        {func(in *AssumeRole) { in.Session = "a@" }, ""},
		"64 characters":         {func(in *AssumeRole) { in.Session = strings.Repeat("a", 64) }, ""},
		"65 characters":         {func(in *AssumeRole) { in.Session = strings.Repeat("a", 65) }, Validation},
		"a slash":               {func(in *AssumeRole) { in.Session = "a/b" }, Validation},
		"a colon":               {func(in *AssumeRole) { in.Session = "a:b" }, Validation},
		"a line break":          {func(in *AssumeRole) { in.Session = "ab\n" }, Validation},
		"900 seconds":           {func(in *AssumeRole) { in.Duration = 900 * time.Second }, ""},
		"899 seconds":           {func(in *AssumeRole) { in.Duration = 899 * time.Second }, Validation},
		"negative":              {func(in *AssumeRole) { in.Duration = -900 * time.Second }, Validation},
		"the maximum":           {func(in *AssumeRole) { in.Duration = hours }, ""},
		"more than the maximum": {func(in *AssumeRole) { in.Duration = hours + time.Second }, Validation},
		"a fraction":            {func(in *AssumeRole) { in.Duration = time.Hour + 1 }, Validation},
		"an external ID":        {func(in *AssumeRole) { in.ExternalID = "a:b/c" }, ""},
		"a bad external ID":     {func(in *AssumeRole) { in.ExternalID = "a b" }, Validation},
		"a policy":              {func(in *AssumeRole) { in.Policy = allow }, ""},
		"a bad policy":          {func(in *AssumeRole) { in.Policy = "{}" }, MalformedPolicy},
		"a long policy":         {func(in *AssumeRole) { in.Policy = allow + strings.Repeat(" ", maxPolicy) }, Validation},
		"the longest policy":    {func(in *AssumeRole) { in.Policy = allow + strings.Repeat(" ", maxPolicy-len(allow)) }, ""},
		"a built-in policy":     {func(in *AssumeRole) { in.PolicyARNs = []string{"arn:aws:iam::aws:policy/readonly"} }, ""},
		"no such built-in":      {func(in *AssumeRole) { in.PolicyARNs = []string{"arn:aws:iam::aws:policy/all"} }, NoSuchEntity},
		"no such policy":        {func(in *AssumeRole) { in.PolicyARNs = []string{"arn:aws:iam::" + b.account + ":policy/none"} }, NoSuchEntity},
		"not an ARN":            {func(in *AssumeRole) { in.PolicyARNs = []string{"readonly"} }, NoSuchEntity},
		"eleven policies": {func(in *AssumeRole) {
			for range maxPolicyARNs + 1 {
				in.PolicyARNs = append(in.PolicyARNs, "arn:aws:iam::aws:policy/readonly")
			}
		}, Validation},
	} {
		in := AssumeRole{Role: b.role.ARN(), Session: "today"}
		c.change(&in)
		s, err := b.AssumeRole(ctx, b.alice, in)
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
		if c.want == "" {
			require.NoError(t, err, name)
			b.caller(s)
			require.Equal(t, in.Policy != "" || in.PolicyARNs != nil, s.PackedSize > 0)
			require.LessOrEqual(t, s.PackedSize, 100)
		}
	}
}

// TestSessionPolicies: a session can do only what its policies allow, too.
func TestSessionPolicies(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	must(b.Attach(ctx, Role, b.account, "reader", "readwrite", true))
	must(b.CreatePolicy(ctx, b.account, "Putter", document("Allow", "s3:PutObject"), ""))
	putter := "arn:aws:iam::" + b.account + ":policy/Putter"
	begin := func(document string, arns ...string) *Session {
		return b.assume(b.alice, AssumeRole{Role: b.role.ARN(), Session: "today", Policy: document, PolicyARNs: arns})
	}
	may := func(s *Session, read, write, remove bool) {
		t.Helper()
		for range 2 {
			c := b.caller(s)
			require.Equal(t, read, allows(c, "s3:GetObject", "key"))
			require.Equal(t, write, allows(c, "s3:PutObject", "key"))
			require.Equal(t, remove, allows(c, "s3:DeleteObject", "key"))
			require.False(t, allows(c, "s3:PutBucketPolicy", ""))
			b.reopen()
		}
	}
	may(begin(""), true, true, true)
	may(begin(document("Allow", "s3:GetObject")), true, false, false)
	may(begin(document("Allow", "s3:*")), true, true, true)
	may(begin(document("Allow", "s3:GetObjectAcl")), false, false, false)
	may(begin("", "arn:aws:iam::aws:policy/readonly"), true, false, false)
	both := begin(document("Allow", "s3:DeleteObject"), putter)
	may(both, false, true, true)
	may(begin(document("Deny", "s3:GetObject"), "arn:aws:iam::aws:policy/readwrite"), false, true, true)
	must(b.UpdatePolicy(ctx, b.account, "putter", document("Allow", "s3:GetObject")))
	may(both, true, false, true)
	require.NoError(t, b.DeletePolicy(ctx, b.account, "putter"))
	b.ended(both, nil) // it would have fewer limits
	_, err := b.AssumeRole(ctx, b.alice, AssumeRole{Role: b.role.ARN(), Session: "today", PolicyARNs: []string{strings.ToLower(putter)}})
	require.Equal(t, NoSuchEntity, codeOf(err))
}

// TestChainsOfRoles: a session that was begun with another session takes at most an hour.
func TestChainsOfRoles(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	hours := 12 * time.Hour
	arn := func(name string) string { return "arn:aws:iam::" + b.account + ":role/" + name }
	b.createRole("next", b.role.ARN())
	b.createRole("last", arn("next"), "arn:aws:sts::"+b.account+":assumed-role/next/named")
	for _, name := range []string{"reader", "next", "last"} {
		_, err := b.UpdateRole(ctx, b.account, name, RoleChange{MaxSession: &hours})
		require.NoError(t, err)
	}
	first := b.begin(hours)
	require.Equal(t, b.time().Add(hours), first.Expires)
	_, err := b.AssumeRole(ctx, first.Principal, AssumeRole{Role: arn("next"), Session: "two", Duration: time.Hour + time.Second})
	require.Equal(t, Validation, codeOf(err))
	require.ErrorContains(t, err, "1 hour session limit for roles assumed by role chaining")
	second := b.assume(first.Principal, AssumeRole{Role: arn("next"), Session: "two", Duration: time.Hour})
	require.Equal(t, "arn:aws:sts::"+b.account+":assumed-role/next/two", second.Principal.ARN)
	third := b.assume(second.Principal, AssumeRole{Role: arn("last"), Session: "three"})
	require.Equal(t, b.time().Add(time.Hour), third.Expires)
	_, err = b.AssumeRole(ctx, third.Principal, AssumeRole{Role: b.role.ARN(), Session: "four"})
	require.Equal(t, Denied, codeOf(err))

	// A session that its policies limit cannot get rid of them with another role, nor with the same one.
	limited := b.assume(b.alice, AssumeRole{Role: b.role.ARN(), Session: "one", Policy: document("Allow", "s3:GetObject")})
	_, err = b.AssumeRole(ctx, limited.Principal, AssumeRole{Role: arn("next"), Session: "two"})
	require.Equal(t, Denied, codeOf(err))
	_, err = b.AssumeRole(ctx, limited.Principal, AssumeRole{Role: b.role.ARN(), Session: "one"})
	require.Equal(t, Denied, codeOf(err))

	b.reopen()
	b.caller(third)
	require.NoError(t, b.DeleteRole(ctx, b.account, "next"))
	b.ended(second, nil)
	b.ended(third, nil) // a role in between was deleted
	b.caller(first)
	b.pass(hours)
	_, err = b.AssumeRole(ctx, first.Principal, AssumeRole{Role: arn("last"), Session: "late"})
	require.Equal(t, Denied, codeOf(err), "an expired session can begin no other")
}

// TestLongChains: two roles that trust each other have short tokens for ever; many roles do not make a long token.
func TestLongChains(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	arn := func(n int) string { return fmt.Sprintf("arn:aws:iam::%s:role/r%d", b.account, n) }
	for n := range maxOrigins + 1 {
		b.createRole(fmt.Sprint("r", n), "*")
	}
	s := b.begin(0)
	for n := range 3 * maxOrigins {
		s = b.assume(s.Principal, AssumeRole{Role: arn(n % 2), Session: "today"})
	}
	require.Less(t, len(s.Token), 500)
	s = b.begin(0)
	for n := range maxOrigins - 1 {
		s = b.assume(s.Principal, AssumeRole{Role: arn(n), Session: "today"})
	}
	_, err := b.AssumeRole(ctx, s.Principal, AssumeRole{Role: arn(maxOrigins), Session: "today"})
	require.Equal(t, Validation, codeOf(err))
}

// TestManySessions: tokens that are no longer in memory are opened again.
func TestManySessions(t *testing.T) {
	b := openSessions(t)
	first := b.begin(0)
	const size = 1000
	filler := &session{token: strings.Repeat("x", maxSessions-size)}
	b.sessions.put(filler)
	require.NotNil(t, b.sessions.get(filler.token))
	var all []*Session
	for range 5 {
		all = append(all, b.begin(0))
	}
	require.Nil(t, b.sessions.get(filler.token))
	require.LessOrEqual(t, b.sessions.size, 5*size)
	for _, s := range append(all, first) {
		b.caller(s)
	}
}

// TestSessionsNeedAKey: sessions need a key, like the secrets of access keys.
func TestSessionsNeedAKey(t *testing.T) {
	b := openSessions(t)
	o := b.options()
	o.Key, o.NewKey = nil, nil
	d, err := Open(t.Context(), o)
	require.NoError(t, err)
	_, err = d.AssumeRole(t.Context(), b.alice, AssumeRole{Role: b.role.ARN(), Session: "today"})
	require.ErrorContains(t, err, "there is no key that encrypts secrets")
}

func TestSessionsDoNotAllocate(t *testing.T) {
	b, ctx := openSessions(t), t.Context()
	s := b.begin(0)
	p := b.caller(s).Principal
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = b.Lookup(ctx, s.AccessKey, s.Token)
		_ = b.Caller(p)
	}))
}
