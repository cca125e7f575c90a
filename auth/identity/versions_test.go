package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// TestVersions: the default version applies, also after a restart, and no number is used twice.
func TestVersions(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	_, err := b.Create(ctx, User, account, "alice")
	require.NoError(t, err)
	_, secret, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	put, get := document("Allow", "s3:PutObject"), document("Allow", "s3:GetObject")
	first, err := b.CreatePolicy(ctx, account, "policy", put, "")
	require.NoError(t, err)
	_, err = b.Attach(ctx, User, account, "alice", "policy", true)
	require.NoError(t, err)

	check := func(want string, reads bool) {
		t.Helper()
		for range 2 {
			p, err := b.Policy(account, "policy")
			require.NoError(t, err)
			got := ""
			for _, v := range p.Versions() {
				mark := ""
				if v.Number == p.Version {
					mark = "*"
					require.Equal(t, v, p.Default())
				}
				got += fmt.Sprintf(" %s%s", v.ID(), mark)
			}
			require.Equal(t, want, got)
			require.Equal(t, first.ID, p.ID)
			require.Equal(t, first.Created, p.Created)
			require.Equal(t, reads, allows(b.Caller(b.holder(secret)), "s3:GetObject", "key"))
			require.Equal(t, !reads, allows(b.Caller(b.holder(secret)), "s3:PutObject", "key"))
			b.reopen()
		}
	}
	add := func(document string, isDefault bool) {
		t.Helper()
		_, _, err := b.CreatePolicyVersion(ctx, account, "policy", document, isDefault)
		require.NoError(t, err)
	}
	choose := func(n int) error { return b.SetDefaultPolicyVersion(ctx, account, "policy", n) }
	remove := func(n int) error { return b.DeletePolicyVersion(ctx, account, "policy", n) }
	check(" v1*", false)
	b.pass(time.Minute)
	add(get, false)
	check(" v1* v2", false)
	add(get, true)
	check(" v1 v2 v3*", true)
	require.NoError(t, choose(1))
	check(" v1* v2 v3", false)
	require.NoError(t, choose(1))
	check(" v1* v2 v3", false)
	p, err := b.Policy(account, "policy")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{0, time.Minute, time.Minute}, []time.Duration{
		p.Versions()[0].Created.Sub(p.Created), p.Versions()[1].Created.Sub(p.Created), p.Updated.Sub(p.Created),
	})
	require.NoError(t, choose(2))
	require.Equal(t, InUse, codeOf(remove(2)))
	require.NoError(t, remove(3))
	require.Equal(t, NoSuchEntity, codeOf(remove(3)))
	require.Equal(t, NoSuchEntity, codeOf(choose(3)))
	check(" v1 v2*", true)
	add(put, false)
	check(" v1 v2* v4", true)

	// UpdatePolicy replaces the default version.
	_, err = b.UpdatePolicy(ctx, account, "policy", put)
	require.NoError(t, err)
	check(" v1 v4 v5*", false)
	add(get, true)
	add(put, false)
	_, _, err = b.CreatePolicyVersion(ctx, account, "policy", put, true)
	require.Equal(t, TooMany, codeOf(err))
	_, err = b.UpdatePolicy(ctx, account, "policy", get)
	require.NoError(t, err)
	check(" v1 v4 v5 v7 v8*", true)
	_, _, err = b.CreatePolicyVersion(ctx, account, "policy", "{}", true)
	require.Equal(t, MalformedPolicy, codeOf(err))
	_, _, err = b.CreatePolicyVersion(ctx, account, "readonly", put, true)
	require.Equal(t, Unmodifiable, codeOf(err))
	require.Equal(t, NoSuchEntity, codeOf(b.SetDefaultPolicyVersion(ctx, account, "none", 1)))

	_, err = b.Attach(ctx, User, account, "alice", "policy", false)
	require.NoError(t, err)
	require.Equal(t, InUse, codeOf(b.DeleteSinglePolicy(ctx, account, "policy")))
	require.NoError(t, b.DeletePolicy(ctx, account, "policy"))

	// A record from before there were several versions has one, whose number is that of its replacements.
	value := fmt.Sprintf(`{"name":"old","id":"ANPAOLD","created":"2026-01-02T03:04:05Z","updated":"2026-02-02T03:04:05Z","document":%q,"replaced":2}`, get)
	require.NoError(t, b.change(ctx, func(*state) (*core.Record, error) {
		return &core.Record{Kind: policyRecords, Key: account + "/old", Value: []byte(value)}, nil
	}))
	old, err := b.Policy(account, "old")
	require.NoError(t, err)
	require.Equal(t, []PolicyVersion{{3, old.Updated, get}}, old.Versions())
	_, v, err := b.CreatePolicyVersion(ctx, account, "old", put, true)
	require.NoError(t, err)
	require.Equal(t, "v4", v.ID())
	b.reopen()
	old, err = b.Policy(account, "old")
	require.NoError(t, err)
	require.Equal(t, []int{3, 4, 4}, []int{old.Versions()[0].Number, old.Versions()[1].Number, old.Version})
	require.Equal(t, time.February, old.Versions()[0].Created.Month())
}
