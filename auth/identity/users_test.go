package identity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/core"
)

// document returns a policy about all keys of the bucket.
func document(effect, action string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": %q, "Action": %q, "Resource": "arn:aws:s3:::bucket/*"}]}`, effect, action)
}

// TestUsers gives rights to a user in every way, and takes them away again.
func TestUsers(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	alice, err := b.Create(ctx, User, account, "Alice")
	require.NoError(t, err)
	require.Regexp(t, "^AIDA[A-Z2-7]{17}$", alice.ID)
	_, secret, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	p := b.holder(secret)
	require.Equal(t, "arn:aws:iam::"+account+":user/Alice", p.ARN)
	ok := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	may := func(want bool) {
		t.Helper()
		require.Equal(t, want, allows(b.Caller(p), "s3:GetObject", "key"))
		b.reopen()
		require.Equal(t, want, allows(b.Caller(p), "s3:GetObject", "key"))
	}
	may(false)
	ok(b.PutInlinePolicy(ctx, User, account, "alice", "read", document("Allow", "s3:GetObject")))
	may(true)
	ok(b.PutInlinePolicy(ctx, User, account, "alice", "READ", document("Allow", "s3:PutObject")))
	may(false)
	ok(b.DeleteInlinePolicy(ctx, User, account, "alice", "read"))

	ok(b.CreatePolicy(ctx, account, "reader", document("Allow", "s3:GetObject"), ""))
	ok(b.Attach(ctx, User, account, "alice", "READER", true))
	may(true)
	require.Equal(t, InUse, codeOf(b.DeletePolicy(ctx, account, "reader")))
	ok(b.UpdatePolicy(ctx, account, "reader", document("Allow", "s3:PutObject")))
	may(false)
	ok(b.Attach(ctx, User, account, "alice", "reader", false))
	require.NoError(t, b.DeletePolicy(ctx, account, "Reader"))
	ok(b.Attach(ctx, User, account, "alice", "readonly", true))
	may(true)

	group, err := b.Create(ctx, Group, account, "Team")
	require.NoError(t, err)
	ok(b.PutInlinePolicy(ctx, Group, account, "team", "no", document("Deny", "s3:GetObject")))
	ok(b.SetMember(ctx, account, "alice", "team", true))
	may(false)
	require.Equal(t, []string{"Team"}, b.Caller(p).Principal.Groups)
	require.Equal(t, InUse, codeOf(b.DeleteGroup(ctx, account, "team")))
	ok(b.DeleteInlinePolicy(ctx, Group, account, "team", "no"))
	may(true)
	ok(b.Attach(ctx, User, account, "alice", "readonly", false))
	may(false)
	ok(b.Attach(ctx, Group, account, "team", "readwrite", true))
	may(true)
	require.Equal(t, []*Identity{mustGet(t, b, Group, "team")}, b.GroupsOf(mustGet(t, b, User, "alice")))
	ok(b.SetMember(ctx, account, "alice", "team", false))
	may(false)
	require.NoError(t, b.DeleteGroup(ctx, account, "team"))
	again, err := b.Create(ctx, Group, account, "team")
	require.NoError(t, err)
	require.NotEqual(t, group.ID, again.ID)

	ok(b.SetTags(ctx, User, account, "alice", map[string]string{"Team": "red"}))
	require.Equal(t, map[string]string{"Team": "red"}, b.Caller(p).Principal.Tags)
	ok(b.Attach(ctx, User, account, "alice", "readwrite", true))

	// The user's application key can do what its policy and the user can do.
	_, appSecret, err := b.CreateKey(ctx, p, NewKey{Name: "app", Grant: &Grant{Bucket: "bucket", Access: ReadWrite}})
	require.NoError(t, err)
	app := b.holder(appSecret)
	require.True(t, allows(b.Caller(app), "s3:GetObject", "key"))
	ok(b.Attach(ctx, User, account, "alice", "readwrite", false))
	require.False(t, allows(b.Caller(app), "s3:GetObject", "key"))
	require.Len(t, b.Keys(p), 1)

	// Access keys.
	_, second, err := b.CreateAccessKey(ctx, account, "alice", time.Minute)
	require.NoError(t, err)
	require.Equal(t, b.holder(secret), b.holder(second))
	b.pass(time.Minute)
	b.refused(second)
	ok(b.EnableAccessKey(ctx, account, "alice", secret.AccessKey, false))
	b.refused(secret)
	ok(b.EnableAccessKey(ctx, account, "alice", secret.AccessKey, true))
	b.holder(secret)
	ok(b.DeleteAccessKey(ctx, account, "alice", secret.AccessKey))
	b.refused(secret)
	b.reopen()
	b.refused(secret)
	require.Len(t, mustGet(t, b, User, "alice").Keys, 1)
	require.NoError(t, b.DeleteUser(ctx, account, "ALICE"))
	b.refused(appSecret)
	require.Nil(t, b.Caller(p))
	ok(b.Create(ctx, User, account, "alice"))
	require.Nil(t, b.Caller(p), "the new user has the name only")
	b.refused(appSecret)
}

func mustGet(t *testing.T, b *bench, kind Kind, name string) *Identity {
	i, err := b.Get(kind, b.Root().Account, name)
	require.NoError(t, err)
	return i
}

// TestErrors checks the code of each error of the methods for users, groups and policies.
func TestErrors(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	must(b.Create(ctx, User, account, "alice"))
	must(b.Create(ctx, Group, account, "team"))
	must(b.CreatePolicy(ctx, account, "policy", document("Allow", "s3:GetObject"), ""))
	b.create(b.Root(), "key")
	allow := document("Allow", "s3:GetObject")
	is := func(want Code) func(any, error) {
		return func(_ any, err error) { t.Helper(); require.Equal(t, want, codeOf(err), "%v", err) }
	}
	only := func(err error) (any, error) { return nil, err }
	is(Exists)(b.Create(ctx, User, account, "ALICE"))
	is(Invalid)(b.Create(ctx, User, account, "alice/bob"))
	is(NoSuchEntity)(b.Create(ctx, User, "111122223333", "bob"))
	is(NoSuchEntity)(b.Get(User, account, "bob"))
	is(NoSuchEntity)(only(b.DeleteUser(ctx, account, "team")))
	is(NoSuchEntity)(only(b.DeleteGroup(ctx, account, "alice")))
	is(NoSuchEntity)(b.SetMember(ctx, account, "alice", "none", true))
	is(NoSuchEntity)(b.SetMember(ctx, account, "none", "team", true))
	is(Invalid)(b.SetTags(ctx, User, account, "alice", map[string]string{"": "x"}))
	is(Invalid)(b.SetTags(ctx, User, account, "alice", map[string]string{"a": "x", "A": "y"}))
	tags := map[string]string{}
	for n := range maxTags + 1 {
		tags[fmt.Sprint(n)] = ""
	}
	is(TooMany)(b.SetTags(ctx, User, account, "alice", tags))
	is(NoSuchEntity)(b.EnableAccessKey(ctx, account, "alice", "AKIANONE", true))
	is(NoSuchEntity)(b.DeleteAccessKey(ctx, account, "none", "AKIANONE"))
	is(MalformedPolicy)(b.PutInlinePolicy(ctx, User, account, "alice", "p", "{}"))
	is(Invalid)(b.PutInlinePolicy(ctx, User, account, "alice", "p/q", allow))
	is(NoSuchEntity)(b.PutInlinePolicy(ctx, User, account, "none", "p", allow))
	is(Unmodifiable)(b.PutInlinePolicy(ctx, Key, account, "key", "p", allow))
	is(NoSuchEntity)(b.DeleteInlinePolicy(ctx, User, account, "alice", "p"))
	is(Unmodifiable)(b.DeleteInlinePolicy(ctx, Key, account, "key", "key"))
	is(Unmodifiable)(b.Attach(ctx, Key, account, "key", "readonly", true))
	is(NoSuchEntity)(b.Attach(ctx, User, account, "alice", "none", true))
	is(Exists)(b.CreatePolicy(ctx, account, "Policy", allow, ""))
	is(Exists)(b.CreatePolicy(ctx, account, "ReadOnly", allow, ""))
	is(MalformedPolicy)(b.CreatePolicy(ctx, account, "other", "x", ""))
	is(NoSuchEntity)(b.UpdatePolicy(ctx, account, "other", allow))
	is(Unmodifiable)(b.UpdatePolicy(ctx, account, "readonly", allow))
	is(Unmodifiable)(only(b.DeletePolicy(ctx, account, "admin")))
	for n := range maxInline {
		must(b.PutInlinePolicy(ctx, User, account, "alice", fmt.Sprint("p", n), allow))
	}
	is(TooMany)(b.PutInlinePolicy(ctx, User, account, "alice", "q", allow))
	must(b.PutInlinePolicy(ctx, User, account, "alice", "P3", allow))
	for range MaxUserKeys {
		_, _, err := b.CreateAccessKey(ctx, account, "alice", 0)
		require.NoError(t, err)
	}
	_, _, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.Equal(t, TooMany, codeOf(err))
	for n := range maxGroups + 1 {
		must(b.Create(ctx, Group, account, fmt.Sprint("g", n)))
		if _, err := b.SetMember(ctx, account, "alice", fmt.Sprint("g", n), true); n == maxGroups {
			require.Equal(t, TooMany, codeOf(err))
		}
	}
	b.reopen()
	require.Len(t, b.List(Group, account), maxGroups+2)
	require.Len(t, b.Policies(account), 1)
	require.Equal(t, "policy", b.PolicyName(b.Policies(account)[0].ID))
	require.Empty(t, b.List(User, "111122223333"))
}

// TestLostReferences checks that a user is refused if a policy of it is gone, because that policy might have denied
// something. Another process can delete it at the same time as it is attached.
func TestLostReferences(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	for _, kind := range []string{policyRecords, groupRecords} {
		name := strings.TrimPrefix(kind, "iam-")
		_, err := b.Create(ctx, User, account, name)
		require.NoError(t, err)
		_, secret, err := b.CreateAccessKey(ctx, account, name, 0)
		require.NoError(t, err)
		if kind == policyRecords {
			_, err = b.CreatePolicy(ctx, account, "lost", document("Deny", "s3:GetObject"), "")
			require.NoError(t, err)
			_, err = b.Attach(ctx, User, account, name, "lost", true)
		} else {
			_, err = b.Create(ctx, Group, account, "lost")
			require.NoError(t, err)
			_, err = b.SetMember(ctx, account, name, "lost", true)
		}
		require.NoError(t, err)
		p := b.holder(secret)
		require.NoError(t, b.change(ctx, func(*state) (*core.Record, error) {
			at := placeOf(kind, account, "lost")
			return &core.Record{Kind: at.kind, Key: at.key}, nil
		}))
		b.refused(secret)
		require.Nil(t, b.Caller(p))
	}
	require.NotNil(t, b.Caller(auth.Anonymous))
}

// TestAdministration: what the API of IAM needs in addition.
func TestAdministration(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	ok := func(i *Identity, err error) *Identity { t.Helper(); require.NoError(t, err); return i }
	is := func(code Code, err error) { t.Helper(); require.Equal(t, code, codeOf(err), "%v", err) }
	second := func(_ any, err error) error { return err }

	tags := map[string]string{"Team": "red", "site": "north"}
	require.Equal(t, tags, ok(b.CreateUser(ctx, account, "alice", tags)).Tags)
	is(Invalid, second(b.CreateUser(ctx, account, "bob", map[string]string{"a": "", "A": ""})))
	is(NoSuchEntity, second(b.Get(User, account, "bob")))
	b.reopen()
	got := ok(b.ChangeTags(ctx, User, account, "alice", map[string]string{"TEAM": "blue", "new": "1"}, []string{"SITE", "none"}))
	require.Equal(t, map[string]string{"TEAM": "blue", "new": "1"}, got.Tags)
	require.Equal(t, map[string]string{"Team": "red", "site": "north"}, tags)
	many := map[string]string{}
	for n := range maxTags - 1 {
		many[fmt.Sprint("tag", n)] = ""
	}
	is(TooMany, second(b.ChangeTags(ctx, User, account, "alice", many, nil)))
	require.Len(t, ok(b.ChangeTags(ctx, User, account, "alice", many, []string{"new"})).Tags, maxTags)
	is(NoSuchEntity, second(b.ChangeTags(ctx, User, account, "nobody", nil, nil)))

	// A user and a group are deleted only if nothing is left of them.
	_, secret, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	require.Equal(t, "alice", b.UserOf(secret.AccessKey).Name)
	require.Nil(t, b.UserOf("AKIAUNKNOWN"))
	ok(b.Create(ctx, Group, account, "team"))
	ok(b.SetMember(ctx, account, "alice", "team", true))
	p, err := b.CreatePolicy(ctx, account, "policy", document("Allow", "s3:GetObject"), "What it is for.")
	require.NoError(t, err)
	for _, kind := range []Kind{User, Group} {
		name := map[Kind]string{User: "alice", Group: "team"}[kind]
		ok(b.PutInlinePolicy(ctx, kind, account, name, "inline", document("Allow", "s3:GetObject")))
		ok(b.Attach(ctx, kind, account, name, "policy", true))
	}
	ok(b.Attach(ctx, User, account, "alice", "readonly", true))
	list := b.AttachedTo(account, p.ID)
	require.Len(t, list, 2)
	require.Equal(t, []string{"team", "alice"}, []string{list[0].Name, list[1].Name})
	require.Len(t, b.AttachedTo(account, "readonly"), 1)
	require.Empty(t, b.AttachedTo("111122223333", p.ID))
	deleted := func() error { return b.DeleteEmptyUser(ctx, account, "alice") }
	is(InUse, deleted())
	ok(b.DeleteAccessKey(ctx, account, "alice", secret.AccessKey))
	is(InUse, deleted())
	is(InUse, b.DeleteEmptyGroup(ctx, account, "team"))
	ok(b.SetMember(ctx, account, "alice", "team", false))
	is(InUse, deleted())
	is(InUse, b.DeleteEmptyGroup(ctx, account, "team"))
	for _, kind := range []Kind{User, Group} {
		name := map[Kind]string{User: "alice", Group: "team"}[kind]
		ok(b.DeleteInlinePolicy(ctx, kind, account, name, "inline"))
		is(InUse, map[Kind]func() error{User: deleted, Group: func() error { return b.DeleteEmptyGroup(ctx, account, "team") }}[kind]())
		ok(b.Attach(ctx, kind, account, name, "policy", false))
	}
	require.NoError(t, b.DeleteEmptyGroup(ctx, account, "team"))
	is(InUse, deleted())
	ok(b.Attach(ctx, User, account, "alice", "readonly", false))
	require.NoError(t, deleted())
	is(NoSuchEntity, deleted())

	// A policy counts how often its document was replaced, and keeps its description.
	for n := range 3 {
		found, err := b.Policy(account, "POLICY")
		require.NoError(t, err)
		require.Equal(t, []any{n, "What it is for."}, []any{found.Replaced, found.Description})
		_, err = b.PutPolicy(ctx, account, "policy", document("Allow", "s3:PutObject"))
		require.NoError(t, err)
		b.reopen()
	}
	_, err = b.CreatePolicyWithTags(ctx, account, "tagged", document("Allow", "s3:GetObject"), "", map[string]string{"Team": "red", "a": ""})
	require.NoError(t, err)
	require.NoError(t, b.ChangePolicyTags(ctx, account, "Tagged", map[string]string{"team": "blue"}, []string{"A"}))
	b.reopen()
	tagged, err := b.Policy(account, "tagged")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "blue"}, tagged.Tags)
	require.Zero(t, tagged.Replaced)
	is(Invalid, b.ChangePolicyTags(ctx, account, "tagged", map[string]string{"": ""}, nil))
	is(NoSuchEntity, b.ChangePolicyTags(ctx, account, "none", nil, nil))
	is(Unmodifiable, b.ChangePolicyTags(ctx, account, "readonly", nil, nil))
	is(Invalid, second(b.CreatePolicyWithTags(ctx, account, "wrong", document("Allow", "s3:GetObject"), "", map[string]string{"": ""})))
	is(NoSuchEntity, second(b.Policy(account, "none")))
	is(Unmodifiable, second(b.Policy(account, "readonly")))
	is(Invalid, second(b.CreatePolicy(ctx, account, "other", document("Allow", "s3:GetObject"), strings.Repeat("x", maxDescription+1))))
}
