package identity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
)

// TestRename: everything that a user and a group have stays with them, and nothing passes to those that get their names.
func TestRename(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	ok := func(i *Identity, err error) *Identity { t.Helper(); require.NoError(t, err); return i }
	is := func(code Code, _ any, err error) { t.Helper(); require.Equal(t, code, codeOf(err), "%v", err) }
	rename := func(kind Kind, from, to string) *Identity {
		t.Helper()
		return ok(b.Rename(ctx, kind, account, from, to))
	}
	alice, team := ok(b.Create(ctx, User, account, "alice")), ok(b.Create(ctx, Group, account, "team"))
	_, secret, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	ok(b.PutInlinePolicy(ctx, User, account, "alice", "read", document("Allow", "s3:GetObject")))
	ok(b.PutInlinePolicy(ctx, Group, account, "team", "write", document("Allow", "s3:PutObject")))
	ok(b.Attach(ctx, Group, account, "team", "readonly", true))
	ok(b.SetMember(ctx, account, "alice", "team", true))
	before := b.holder(secret)
	_, appSecret, err := b.CreateKey(ctx, before, NewKey{Name: "app", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.NoError(t, err)
	trust := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "` + alice.ARN() + `"}, "Action": "sts:AssumeRole"}}`
	ok(b.CreateRole(ctx, account, "role", RoleChange{Trust: &trust}))
	session, err := b.AssumeRole(ctx, before, AssumeRole{Role: "arn:aws:iam::" + account + ":role/role", Session: "session"})
	require.NoError(t, err)

	require.Equal(t, alice.ID, rename(User, "Alice", "bob").ID)
	require.Equal(t, team.ID, rename(Group, "team", "Crew").ID)
	check := func(name, group string) {
		t.Helper()
		for range 2 {
			p := b.holder(secret)
			require.Equal(t, "arn:aws:iam::"+account+":user/"+name, p.ARN)
			require.True(t, allows(b.Caller(p), "s3:GetObject", "key"))
			require.True(t, allows(b.Caller(p), "s3:PutObject", "key"))
			require.Equal(t, []string{group}, b.Caller(p).Principal.Groups)
			require.Equal(t, p.ARN, b.Caller(before).Principal.ARN, "a request that is in progress")
			require.True(t, allows(b.Caller(b.holder(appSecret)), "s3:GetObject", "key"))
			credential, err := b.Lookup(ctx, session.AccessKey, session.Token)
			require.NoError(t, err)
			require.NotNil(t, credential.Principal)
			_, err = b.AssumeRole(ctx, p, AssumeRole{Role: "arn:aws:iam::" + account + ":role/role", Session: "session"})
			require.NoError(t, err, "a trust policy that named it still does")
			require.Contains(t, b.TrustOf(mustGet(t, b, Role, "role")), `"`+p.ARN+`"`)
			require.Equal(t, "read", mustGet(t, b, User, name).Inline[0].Name)
			require.Equal(t, []*Identity{mustGet(t, b, User, name)}, b.MembersOf(mustGet(t, b, Group, group)))
			require.Equal(t, alice.Created, mustGet(t, b, User, name).Created)
			b.reopen()
		}
	}
	check("bob", "Crew")
	_, err = b.Get(User, account, "alice")
	require.Equal(t, NoSuchEntity, codeOf(err))

	// Others get the names.
	second := ok(b.Create(ctx, User, account, "ALICE"))
	require.NotEqual(t, alice.ID, second.ID)
	require.Empty(t, second.Groups)
	ok(b.Create(ctx, Group, account, "team"))
	require.Empty(t, b.MembersOf(mustGet(t, b, Group, "team")))
	check("bob", "Crew")
	_, theirs, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	require.False(t, allows(b.Caller(b.holder(theirs)), "s3:GetObject", "key"))
	_, err = b.AssumeRole(ctx, b.holder(theirs), AssumeRole{Role: "arn:aws:iam::" + account + ":role/role", Session: "session"})
	require.Equal(t, Denied, codeOf(err), "the trust policy does not name who got the name")

	// Errors change nothing.
	{
		i, err := b.Rename(ctx, User, account, "bob", "alice")
		is(Exists, i, err)
		i, err = b.Rename(ctx, User, account, "none", "carol")
		is(NoSuchEntity, i, err)
		i, err = b.Rename(ctx, Group, account, "crew", "TEAM")
		is(Exists, i, err)
		i, err = b.Rename(ctx, User, account, "bob", "a/b")
		is(Invalid, i, err)
		i, err = b.Rename(ctx, Role, account, "role", "other")
		is(Unmodifiable, i, err)
	}
	check("bob", "Crew")

	// Names circulate, also those that differ only in case.
	rename(User, "bob", "Bob")
	check("Bob", "Crew")
	rename(User, "bob", "carol")
	rename(User, "alice", "bob")
	rename(User, "carol", "alice")
	check("alice", "Crew")
	require.Equal(t, second.ID, mustGet(t, b, User, "bob").ID)
	require.Len(t, b.List(User, account), 2)
	require.NoError(t, b.DeleteUser(ctx, account, "bob"))
	check("alice", "Crew")
	ok(b.Create(ctx, User, account, "bob"))
	require.NoError(t, b.DeleteUser(ctx, account, "alice"))
	b.refused(secret)
	b.refused(appSecret)
	b.reopen()
	require.Len(t, b.List(User, account), 1)
}

// TestNameOfTwoIdentities: a rebuild has lost that a user and a group were renamed, so others have the same names. The
// store starts, refuses all of them, and works again when one of them is deleted or renamed.
func TestNameOfTwoIdentities(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	ok := func(i *Identity, err error) *Identity { t.Helper(); require.NoError(t, err); return i }
	lose := func(kind Kind) (older, newer *Identity) {
		t.Helper()
		older = mustGet(t, b, kind, "x")
		r, err := encode(recordsOf(kind), account+"/x", older)
		require.NoError(t, err)
		ok(b.Rename(ctx, kind, account, "x", "y"))
		newer = ok(b.Create(ctx, kind, account, "x"))
		_, err = b.store.Writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: *r}})
		require.NoError(t, err)
		b.reopen()
		return older, newer
	}
	key := func(user string) Secret {
		t.Helper()
		_, s, err := b.CreateAccessKey(ctx, account, user, 0)
		require.NoError(t, err)
		return s
	}
	ok(b.Create(ctx, User, account, "x"))
	first := key("x")
	_, app, err := b.CreateKey(ctx, b.holder(first), NewKey{Name: "app", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.NoError(t, err)
	role := ok(b.CreateRole(ctx, account, "role", RoleChange{Trust: trusting(b.holder(first).ARN)}))
	session, err := b.AssumeRole(ctx, b.holder(first), AssumeRole{Role: role.ARN(), Session: "session"})
	require.NoError(t, err)
	ok(b.Create(ctx, User, account, "member"))
	member := key("member")
	works := func(secrets ...Secret) {
		t.Helper()
		for _, s := range secrets {
			require.NotNil(t, b.Caller(b.holder(s)))
		}
	}
	refused := func(secrets ...Secret) {
		t.Helper()
		for _, s := range secrets {
			b.refused(s)
		}
		require.Len(t, b.now.Load().broken, 1)
		require.ErrorContains(t, b.now.Load().broken[0], "have the name x")
	}

	older, _ := lose(User)
	refused(first, app)
	works(member)
	credential, err := b.Lookup(ctx, session.AccessKey, session.Token)
	require.NoError(t, err)
	require.Empty(t, credential.SecretKey)
	require.Len(t, b.List(User, account), 3)
	require.False(t, b.knows(older.ARN()), "nobody can tell whom a new policy would name")
	_, err = b.Create(ctx, User, account, "X")
	require.Equal(t, Exists, codeOf(err))
	_, _, err = b.CreateAccessKey(ctx, account, "x", 0)
	require.Equal(t, InUse, codeOf(err), "it could be an access key of either")
	_, err = b.Attach(ctx, User, account, "x", "admin", true)
	require.Equal(t, InUse, codeOf(err))

	// The name leads to the newer one.
	require.NoError(t, b.DeleteUser(ctx, account, "x"))
	require.Equal(t, older.ID, mustGet(t, b, User, "x").ID)
	works(first, app, member)
	b.reopen()
	works(first, app, member)
	require.Empty(t, b.now.Load().broken)

	// Both stay if it is renamed.
	_, newer := lose(User)
	refused(first, app)
	require.Equal(t, newer.ID, ok(b.Rename(ctx, User, account, "x", "z")).ID)
	works(first, app, key("z"))

	// The members of the groups are refused with them.
	ok(b.Create(ctx, Group, account, "x"))
	ok(b.SetMember(ctx, account, "member", "x", true))
	lose(Group)
	b.refused(member)
	works(first, app)
	require.NoError(t, b.DeleteGroup(ctx, account, "x"))
	works(first, app, member)
}
