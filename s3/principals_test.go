package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth/identity"
	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/s3"
	"orcas/s3/bucketaccess"
)

// named is a world with identities that bucket policies can name.
type named struct {
	*world
	users *identitiesOf
}

func newNamed(t *testing.T) *named {
	d := newIdentities(t)
	w := newWorld(t, d.lookups(), setup{options: func(o *s3.Options) { o.Principals = d }})
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	return &named{w, d}
}

// again deletes the user alice, and creates another user with this name.
func (n *named) again() identity.Secret {
	ctx := n.t.Context()
	require.NoError(n.t, n.users.DeleteUser(ctx, account, "alice"))
	_, err := n.users.Create(ctx, identity.User, account, "alice")
	require.NoError(n.t, err)
	_, s, err := n.users.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(n.t, err)
	return s
}

// get reads the object, and returns the status.
func (n *named) get(s identity.Secret, token string) int {
	r := n.request("GET", "/bucket/key", nil)
	signer := &sigv4.Signer{AccessKey: s.AccessKey, SecretKey: s.SecretKey, SecurityToken: token, Region: "us-east-1"}
	signer.Sign(r, sigv4.EmptySHA256, time.Now())
	return n.send(r).status
}

// naming returns a policy with one statement about an element with principals, such as "Principal".
func naming(effect, element, principals string) string {
	return `{"Version": "2012-10-17", "Statement": {"Effect": "` + effect + `", "` + element + `": {"AWS": ` + principals + `},
		"Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*", "Condition": {"ArnNotEquals": {"aws:PrincipalArn": "` + aliceARN + `x"}}}}`
}

const aliceARN = "arn:aws:iam::" + account + ":user/alice"

func (n *named) set(document string) *response {
	return n.do("PUT", "/bucket?policy", []byte(document))
}

func (n *named) shown() string { return string(n.do("GET", "/bucket?policy", nil).is(200, "").body) }

// A bucket policy is about the user that had the name when the policy was written, not about one that has it later.
func TestPolicyOfADeletedUser(t *testing.T) {
	n := newNamed(t)
	document := naming("Allow", "Principal", `["`+aliceARN+`", "`+account+`"]`)
	n.set(document).is(204, "")
	require.Equal(t, 200, n.get(n.users.alice, ""))
	require.Equal(t, document, n.shown())
	alice, err := n.users.Get(identity.User, account, "alice")
	require.NoError(t, err)

	second := n.again()
	require.Equal(t, 403, n.get(second, ""))
	gone := strings.Replace(document, `"`+aliceARN+`"`, `"`+alice.ID+`"`, 1)
	require.Equal(t, gone, n.shown(), "a deleted principal is shown by its ID, and nothing else changes")
	n.set(gone).is(400, "MalformedPolicy")
	require.Equal(t, gone, n.shown())

	// Written again, the policy is about the new user.
	n.set(document).is(204, "")
	require.Equal(t, 200, n.get(second, ""))
	require.Equal(t, document, n.shown())
	n.do("DELETE", "/bucket?policy", nil).is(204, "")
	b, err := n.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	require.Empty(t, core.AttrValue(b.Attrs, bucketaccess.PrincipalsAttr))
	require.Equal(t, 403, n.get(second, ""))
}

// NotPrincipal exempts only the user that had the name.
func TestExemptionOfADeletedUser(t *testing.T) {
	n := newNamed(t)
	_, err := n.users.Attach(t.Context(), identity.User, account, "alice", "readonly", true)
	require.NoError(t, err)
	n.set(naming("Deny", "NotPrincipal", `["`+aliceARN+`", "`+account+`"]`)).is(204, "")
	require.Equal(t, 200, n.get(n.users.alice, ""))
	second := n.again()
	_, err = n.users.Attach(t.Context(), identity.User, account, "alice", "readonly", true)
	require.NoError(t, err)
	require.Equal(t, 403, n.get(second, ""))
}

// The same holds for roles, their sessions, and application keys.
func TestPolicyOfADeletedRole(t *testing.T) {
	n := newNamed(t)
	ctx := t.Context()
	create := func() (*identity.Session, identity.Secret) {
		n.users.createRole("plain")
		_, err := n.users.Attach(ctx, identity.Role, account, "plain", "readonly", false)
		require.NoError(t, err)
		grant := &identity.Grant{Bucket: "other", Access: identity.Read}
		_, key, err := n.users.CreateKey(ctx, n.users.Root(), identity.NewKey{Name: "app", Grant: grant})
		require.NoError(t, err)
		return n.users.begin("plain", identity.AssumeRole{}), key
	}
	const iam, sts = "arn:aws:iam::" + account + ":", "arn:aws:sts::" + account + ":"
	for _, c := range []struct {
		arn  string
		role bool
		gone func(role, key string) string
	}{
		{iam + "role/plain", true, func(role, _ string) string { return role }},
		{sts + "assumed-role/plain/today", true, func(role, _ string) string { return role + ":today" }},
		{iam + "key/app", false, func(_, key string) string { return key }},
	} {
		session, key := create()
		status := func() int {
			if c.role {
				return n.get(session.Secret, session.Token)
			}
			return n.get(key, "")
		}
		require.Equal(t, 403, status())
		document := naming("Allow", "Principal", `"`+c.arn+`"`)
		n.set(document).is(204, "")
		require.Equal(t, 200, status(), c.arn)
		role, err := n.users.Get(identity.Role, account, "plain")
		require.NoError(t, err)
		app, err := n.users.Get(identity.Key, account, "app")
		require.NoError(t, err)
		remove := func() {
			require.NoError(t, n.users.DeleteRole(ctx, account, "plain"))
			require.NoError(t, n.users.DeleteKey(ctx, n.users.Root(), "app"))
		}
		remove()
		session, key = create()
		require.Equal(t, 403, status(), c.arn)
		require.Equal(t, strings.Replace(document, `"`+c.arn+`"`, `"`+c.gone(role.ID, app.ID)+`"`, 1), n.shown())
		remove()
		n.do("DELETE", "/bucket?policy", nil).is(204, "")
	}
}

// A policy that was stored without IDs is about whoever has the name. One whose IDs are damaged denies everything.
func TestPolicyWithoutIDs(t *testing.T) {
	n := newNamed(t)
	document := naming("Allow", "Principal", `"`+aliceARN+`"`)
	n.set(document).is(204, "")
	ids := func(value string) {
		_, err := n.fs.UpdateBucket(t.Context(), "bucket", func(b *core.BucketInfo) error {
			b.Attrs = core.SetAttr(b.Attrs, bucketaccess.PrincipalsAttr, value)
			return nil
		})
		require.NoError(t, err)
	}
	second := n.again()
	require.Equal(t, 403, n.get(second, ""))
	ids("")
	require.Equal(t, 200, n.get(second, ""))
	require.Equal(t, document, n.shown())
	ids("{")
	require.Equal(t, 500, n.get(second, ""))
	n.do("GET", "/bucket?policy", nil).is(500, "InternalError")
	n.set(document).is(204, "")
	require.Equal(t, 200, n.get(second, ""))
}
