package identity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// tenant creates an account, and returns its root.
func (b *bench) tenant(name string) (*auth.Principal, Secret) {
	_, secret, err := b.CreateAccount(b.ctx(), name)
	require.NoError(b.t, err)
	return b.holder(secret), secret
}

// TestAccounts creates accounts with identities of the same names, and reads them again after restarts.
func TestAccounts(t *testing.T) {
	b, ctx := open(t), t.Context()
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	i, secret, err := b.CreateAccount(ctx, "Tenant")
	require.NoError(t, err)
	require.Regexp(t, "^[1-9][0-9]{11}$", i.ID)
	require.NotEqual(t, b.Root().Account, i.ID)
	root := b.holder(secret)
	require.Equal(t, &auth.Principal{Account: i.ID, ARN: auth.RootARN(i.ID), ID: i.ID}, root)
	require.Equal(t, auth.RootARN(i.ID), i.ARN())
	second, _ := b.tenant("second")
	for range 2 {
		c := b.Caller(root)
		require.Equal(t, root, c.Principal)
		require.Equal(t, auth.CanonicalID(i.ID), c.Canonical)
		require.True(t, allows(c, "s3:GetObject", "key"))
		for _, known := range []string{root.ARN, root.Account, c.Canonical} {
			require.True(t, b.knows(known), known)
		}
		require.Len(t, b.Accounts(), 2)
		require.Equal(t, "second", b.Accounts()[0].Name)
		b.reopen()
	}

	// Names are unique in an account only.
	for _, account := range []string{b.Root().Account, root.Account, second.Account} {
		must(b.Create(ctx, User, account, "alice"))
		must(b.Create(ctx, Group, account, "team"))
		must(b.SetMember(ctx, account, "alice", "team", true))
		must(b.CreatePolicy(ctx, account, "mine", document("Allow", "s3:GetObject"), ""))
		must(b.CreateRole(ctx, account, "role", RoleChange{Trust: trusting(root.Account)}))
		require.Len(t, b.List(User, account), 1)
		require.Len(t, b.Policies(account), 1)
	}
	must(b.CreatePolicy(ctx, second.Account, "other", document("Allow", "s3:GetObject"), ""))
	_, err = b.Attach(ctx, User, root.Account, "alice", "other", true)
	require.Equal(t, NoSuchEntity, codeOf(err), "a policy of another account")
	must(b.Create(ctx, Group, second.Account, "others"))
	_, err = b.SetMember(ctx, root.Account, "alice", "others", true)
	require.Equal(t, NoSuchEntity, codeOf(err), "a group of another account")
	for _, account := range []string{i.ID[:11] + "x", "", "tenant"} {
		_, err = b.Create(ctx, User, account, "alice")
		require.Equal(t, NoSuchEntity, codeOf(err), account)
	}
	key, keySecret := b.create(root, "app")
	require.Equal(t, i.ID, key.Account)
	require.Empty(t, b.Keys(second))
	require.Empty(t, b.Keys(b.Root()))
	_, _, err = b.RotateKey(ctx, b.Root(), "", "app", 0)
	require.Equal(t, NoSuchEntity, codeOf(err))
	b.reopen()
	b.holder(keySecret)
	require.Equal(t, auth.RootARN(i.ID), b.Caller(key).Creator.Principal.ARN)

	// The access key of the root can be replaced.
	_, next, err := b.RotateAccountKey(ctx, "TENANT", time.Hour)
	require.NoError(t, err)
	b.holder(secret)
	require.Equal(t, root, b.holder(next))
	b.pass(time.Hour)
	b.refused(secret)
	_, last, err := b.RotateAccountKey(ctx, "tenant", 0)
	require.NoError(t, err)
	b.refused(next)
	b.reopen()
	b.refused(next)
	b.holder(last)
	b.holder(keySecret)

	_, _, err = b.CreateAccount(ctx, "TENANT")
	require.Equal(t, Exists, codeOf(err))
	_, _, err = b.CreateAccount(ctx, "a/b")
	require.Equal(t, Invalid, codeOf(err))
	_, _, err = b.RotateAccountKey(ctx, "none", 0)
	require.Equal(t, NoSuchEntity, codeOf(err))
	_, _, err = b.RotateAccountKey(ctx, "tenant", -1)
	require.Equal(t, Invalid, codeOf(err))
}

// TestRolesOfOtherAccounts: across accounts, the trust policy and a policy of the user must both allow it.
func TestRolesOfOtherAccounts(t *testing.T) {
	b, ctx := open(t), t.Context()
	tenant, _ := b.tenant("tenant")
	_, err := b.Create(ctx, User, tenant.Account, "bob")
	require.NoError(t, err)
	_, secret, err := b.CreateAccessKey(ctx, tenant.Account, "bob", 0)
	require.NoError(t, err)
	bob := b.holder(secret)
	role := b.createRole("reader", bob.ARN)
	in := AssumeRole{Role: role.ARN(), Session: "today"}
	try := func(want bool) {
		t.Helper()
		s, err := b.AssumeRole(ctx, bob, in)
		if !want {
			require.Equal(t, Denied, codeOf(err))
			return
		}
		require.NoError(t, err)
		require.Equal(t, b.Root().Account, b.caller(s).Principal.Account, "the session belongs to the account of the role")
	}
	try(false)
	may := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "` + role.ARN() + `"}}`
	_, err = b.PutInlinePolicy(ctx, User, tenant.Account, "bob", "may", may)
	require.NoError(t, err)
	try(true)
	_, err = b.UpdateRole(ctx, b.Root().Account, "reader", RoleChange{Trust: trusting(tenant.Account)})
	require.NoError(t, err)
	try(true)
	_, err = b.UpdateRole(ctx, b.Root().Account, "reader", RoleChange{Trust: trusting(b.Root().Account)})
	require.NoError(t, err)
	try(false)
	_, err = b.AssumeRole(ctx, tenant, in)
	require.EqualError(t, err, "Roles may not be assumed by root accounts.")
	in.PolicyARNs = []string{"arn:aws:iam::" + tenant.Account + ":policy/p"}
	_, err = b.CreatePolicy(ctx, tenant.Account, "p", may, "")
	require.NoError(t, err)
	_, err = b.UpdateRole(ctx, b.Root().Account, "reader", RoleChange{Trust: trusting(tenant.Account)})
	require.NoError(t, err)
	_, err = b.AssumeRole(ctx, bob, in)
	require.Equal(t, NoSuchEntity, codeOf(err), "a session policy belongs to the account of the role")
}

// TestDisabledAccount: nothing that belongs to a disabled account works, and nothing is lost.
func TestDisabledAccount(t *testing.T) {
	b, ctx := open(t), t.Context()
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	root, rootSecret := b.tenant("tenant")
	must(b.Create(ctx, User, root.Account, "alice"))
	_, aliceSecret, err := b.CreateAccessKey(ctx, root.Account, "alice", 0)
	require.NoError(t, err)
	alice := b.holder(aliceSecret)
	_, keySecret := b.create(root, "app")
	must(b.CreateRole(ctx, root.Account, "role", RoleChange{Trust: trusting(alice.ARN)}))
	session, err := b.AssumeRole(ctx, alice, AssumeRole{Role: "arn:aws:iam::" + root.Account + ":role/role", Session: "session"})
	require.NoError(t, err)
	other, otherSecret := b.tenant("other")

	check := func(works bool) {
		t.Helper()
		for range 2 {
			for _, secret := range []Secret{rootSecret, aliceSecret, keySecret} {
				if works {
					b.holder(secret)
				} else {
					b.refused(secret)
				}
			}
			credential, err := b.Lookup(ctx, session.AccessKey, session.Token)
			require.NoError(t, err)
			require.Equal(t, works, credential.SecretKey != "")
			for _, p := range []*auth.Principal{root, alice, session.Principal} {
				require.Equal(t, works, b.Caller(p) != nil, p.ARN)
			}
			require.True(t, b.knows(root.ARN), "policies can still name it")
			require.True(t, b.knows(alice.ARN))
			require.NotNil(t, b.Caller(b.holder(otherSecret)))
			require.NotNil(t, b.Caller(b.Root()))
			b.reopen()
		}
	}
	check(true)
	i, err := b.EnableAccount(ctx, "TENANT", false)
	require.NoError(t, err)
	require.True(t, i.Disabled)
	check(false)
	_, err = b.Create(ctx, User, root.Account, "bob")
	require.Equal(t, NoSuchEntity, codeOf(err))
	_, secret, err := b.RotateAccountKey(ctx, "tenant", time.Hour)
	require.NoError(t, err)
	b.refused(secret)
	check(false)
	must(b.EnableAccount(ctx, "tenant", true))
	check(true)
	b.holder(secret)

	// A deletion that fails enables the account again only if it has disabled it, and nobody else has.
	for _, c := range []struct {
		before, works bool
		during        []bool
	}{
		{true, true, nil}, {false, false, nil}, {true, false, []bool{false}}, {true, true, []bool{true}},
		{true, false, []bool{true, false}}, {false, true, []bool{true}},
	} {
		must(b.EnableAccount(ctx, "tenant", c.before))
		reopen, err := b.CloseAccount(ctx, "tenant")
		require.NoError(t, err)
		b.refused(rootSecret)
		for _, enabled := range c.during {
			must(b.EnableAccount(ctx, "tenant", enabled))
		}
		require.NoError(t, reopen(ctx))
		check(c.works)
	}
	must(b.EnableAccount(ctx, "tenant", true))

	// Deletion.
	left := func(says string) {
		t.Helper()
		err := b.DeleteAccount(ctx, "tenant")
		require.Equal(t, InUse, codeOf(err))
		require.EqualError(t, err, says)
	}
	left("the account tenant is enabled: disable it first")
	must(b.CreatePolicy(ctx, root.Account, "p1", document("Allow", "s3:GetObject"), ""))
	must(b.CreatePolicy(ctx, root.Account, "p2", document("Allow", "s3:GetObject"), ""))
	must(b.Create(ctx, Group, root.Account, "team"))
	for _, name := range []string{"u1", "u2", "u3", "u4", "u5"} {
		must(b.Create(ctx, User, root.Account, name))
	}
	must(b.EnableAccount(ctx, "tenant", false))
	left("the account tenant has 6 users (alice, u1, u2, u3, u4, ...), 1 group (team), 1 role (role), 2 policies (p1, p2), " +
		"1 key (app): delete them first")
	require.Empty(t, b.Contents(other.Account))
	must(b.EnableAccount(ctx, "other", false))
	require.NoError(t, b.DeleteAccount(ctx, "other"))
	b.refused(otherSecret)
	require.Nil(t, b.Caller(other))
	require.False(t, b.knows(other.ARN))
	b.reopen()
	require.Len(t, b.Accounts(), 1)

	for _, name := range []string{"other", "none"} {
		require.Equal(t, NoSuchEntity, codeOf(b.DeleteAccount(ctx, name)))
		_, err = b.EnableAccount(ctx, name, false)
		require.Equal(t, NoSuchEntity, codeOf(err))
	}
	require.Equal(t, Unmodifiable, codeOf(b.DeleteAccount(ctx, b.Root().Account)))
	_, err = b.EnableAccount(ctx, b.Root().Account, false)
	require.Equal(t, Unmodifiable, codeOf(err))
}
