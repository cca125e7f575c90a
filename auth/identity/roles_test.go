package identity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth/policy"
)

// trusting returns a trust policy for principals, which are ARNs, IDs of accounts, or "*".
func trusting(principals ...string) *string {
	document := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["%s"]}, "Action": "sts:AssumeRole"}]}`,
		strings.Join(principals, `", "`))
	return &document
}

// createUser creates a user with an access key, and returns it.
func (b *bench) createUser(name string) (*Identity, Secret) {
	account := b.Root().Account
	_, err := b.Create(b.ctx(), User, account, name)
	require.NoError(b.t, err)
	i, secret, err := b.CreateAccessKey(b.ctx(), account, name, 0)
	require.NoError(b.t, err)
	return i, secret
}

// createRole creates a role that may read objects of the bucket.
func (b *bench) createRole(name string, trusted ...string) *Identity {
	account := b.Root().Account
	_, err := b.CreateRole(b.ctx(), account, name, RoleChange{Trust: trusting(trusted...)})
	require.NoError(b.t, err)
	i, err := b.PutInlinePolicy(b.ctx(), Role, account, name, "read", document("Allow", "s3:GetObject"))
	require.NoError(b.t, err)
	return i
}

// TestRoles creates and changes a role, and reads it again after restarts.
func TestRoles(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	alice, _ := b.createUser("alice")
	i, err := b.CreateRole(ctx, account, "Reader", RoleChange{Trust: trusting(alice.ARN(), account)})
	require.NoError(t, err)
	require.Regexp(t, "^AROA[A-Z2-7]{17}$", i.ID)
	require.Equal(t, "arn:aws:iam::"+account+":role/Reader", i.ARN())
	require.Equal(t, 3600, i.MaxSession)
	require.Equal(t, map[string]string{alice.ARN(): alice.ID}, i.Trusted)
	ok := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	may := func(want bool) {
		t.Helper()
		require.Equal(t, want, allows(b.now.Load().roles[i.ID].Caller, "s3:GetObject", "key"))
		b.reopen()
		require.Equal(t, want, allows(b.now.Load().roles[i.ID].Caller, "s3:GetObject", "key"))
	}
	may(false)
	ok(b.PutInlinePolicy(ctx, Role, account, "reader", "read", document("Allow", "s3:GetObject")))
	may(true)
	ok(b.DeleteInlinePolicy(ctx, Role, account, "reader", "read"))
	ok(b.Attach(ctx, Role, account, "reader", "readonly", true))
	may(true)
	ok(b.CreatePolicy(ctx, account, "none", document("Deny", "s3:GetObject"), ""))
	ok(b.Attach(ctx, Role, account, "reader", "none", true))
	may(false)
	require.Equal(t, InUse, codeOf(b.DeletePolicy(ctx, account, "none")))
	ok(b.Attach(ctx, Role, account, "reader", "none", false))
	hours, text := 12*time.Hour, "reads"
	ok(b.UpdateRole(ctx, account, "reader", RoleChange{MaxSession: &hours, Description: &text}))
	ok(b.SetTags(ctx, Role, account, "reader", map[string]string{"team": "red"}))
	b.reopen()
	i, err = b.Get(Role, account, "reader")
	require.NoError(t, err)
	require.Equal(t, 12*3600, i.MaxSession)
	require.Equal(t, "reads", i.Description)
	require.Equal(t, *trusting(alice.ARN(), account), i.Trust)
	require.Equal(t, map[string]string{"team": "red"}, b.now.Load().roles[i.ID].Principal.Tags)
	require.Equal(t, []*Identity{i}, b.List(Role, account))

	// Bucket policies can name the role and its sessions.
	session := "arn:aws:sts::" + account + ":assumed-role/Reader/"
	for principal, known := range map[string]bool{
		i.ARN(): true, session + "today": true, session: false, session + "a": false, session + "a/b": false,
		"arn:aws:sts::" + account + ":assumed-role/Other/today": false, "arn:aws:sts::" + account + ":federated-user/Reader/today": false,
		"arn:aws:sts::111122223333:assumed-role/Reader/today": false, "arn:aws:iam::" + account + ":role/reader": false,
	} {
		require.Equal(t, known, b.knows(principal), principal)
	}
	require.Nil(t, b.Caller(b.now.Load().roles[i.ID].Principal), "the role itself is no caller: only its sessions are")

	require.NoError(t, b.DeleteRole(ctx, account, "READER"))
	require.Empty(t, b.now.Load().roles)
	require.False(t, b.knows(i.ARN()))
	b.reopen()
	require.Empty(t, b.List(Role, account))
}

// TestErrorsOfRoles checks the code of each error of the methods for roles.
func TestErrorsOfRoles(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	b.createRole("reader", account)
	is := func(want Code, text string) func(any, error) {
		return func(_ any, err error) {
			t.Helper()
			require.Equal(t, want, codeOf(err), "%v", err)
			require.ErrorContains(t, err, text)
		}
	}
	only := func(err error) (any, error) { return nil, err }
	is(Exists, "already a role reader")(b.CreateRole(ctx, account, "READER", RoleChange{Trust: trusting(account)}))
	is(Invalid, "needs a trust policy")(b.CreateRole(ctx, account, "r", RoleChange{}))
	is(Invalid, "is not valid")(b.CreateRole(ctx, account, "a/b", RoleChange{Trust: trusting(account)}))
	is(NoSuchEntity, "no account")(b.CreateRole(ctx, "111122223333", "r", RoleChange{Trust: trusting(account)}))
	for _, d := range []time.Duration{0, time.Hour - time.Second, 12*time.Hour + time.Second, 90*time.Minute + 1} {
		is(Invalid, "from 1 to 12 hours")(b.CreateRole(ctx, account, "r", RoleChange{Trust: trusting(account), MaxSession: &d}))
	}
	for _, text := range []string{"\xff", strings.Repeat("a", maxDescription+1)} {
		is(Invalid, "the description")(b.UpdateRole(ctx, account, "reader", RoleChange{Description: &text}))
	}
	for reason, document := range map[string]string{
		"unknown principal": *trusting("arn:aws:iam::" + account + ":user/nobody"),
		"statement 1":       *trusting("arn:aws:iam::111122223333:root"),
		"line 1":            "{}",
		"element Principal": document("Allow", "sts:AssumeRole"),
	} {
		is(MalformedPolicy, reason)(b.UpdateRole(ctx, account, "reader", RoleChange{Trust: &document}))
		is(MalformedPolicy, reason)(b.CreateRole(ctx, account, "r", RoleChange{Trust: &document}))
	}
	is(NoSuchEntity, "no role none")(b.UpdateRole(ctx, account, "none", RoleChange{}))
	is(NoSuchEntity, "no role none")(only(b.DeleteRole(ctx, account, "none")))
	is(NoSuchEntity, "no role none")(b.PutInlinePolicy(ctx, Role, account, "none", "p", document("Allow", "s3:GetObject")))
	is(NoSuchEntity, "no role none")(b.Attach(ctx, Role, account, "none", "readonly", true))
	is(NoSuchEntity, "no role none")(b.SetTags(ctx, Role, account, "none", nil))
	is(NoSuchEntity, "no user reader")(b.SetMember(ctx, account, "reader", "reader", true))
	require.Equal(t, *trusting(account), mustGet(t, b, Role, "reader").Trust)
}

// TestFormerNames: a role that trusts a user does not trust another user who gets its name later.
func TestFormerNames(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	alice, secret := b.createUser("alice")
	b.createRole("reader", alice.ARN())
	trusts := func(secret Secret) bool {
		e := b.now.Load().roles[mustGet(t, b, Role, "reader").ID].entry
		q := &policy.Request{Caller: b.Caller(b.holder(secret)), Action: "sts:AssumeRole", ARN: e.ARN()}
		q.Resource.Account = account
		return policy.DecideTrust(q, e.trust).Decision == policy.Allowed
	}
	require.True(t, trusts(secret))
	require.NoError(t, b.DeleteUser(ctx, account, "alice"))
	_, secret = b.createUser("alice")
	require.False(t, trusts(secret))
	b.reopen()
	require.False(t, trusts(secret))
	_, err := b.UpdateRole(ctx, account, "reader", RoleChange{Trust: trusting(alice.ARN())})
	require.NoError(t, err)
	require.True(t, trusts(secret), "the policy was written for the new user")
}
