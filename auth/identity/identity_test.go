package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/batch"
	"orcas/core"
	"orcas/gate"
	"orcas/storetest"
)

var testKey = bytes.Repeat([]byte{7}, KeySize)

// bench is a directory in a store, with a clock.
type bench struct {
	*Directory
	store *storetest.Store
	clock *atomic.Int64 // in seconds
	t     require.TestingT
}

// open returns a directory in a new store in memory. Its clock stands still.
func open(t testing.TB) *bench {
	b := &bench{store: storetest.Open(t, storetest.Options{Bare: true}), clock: &atomic.Int64{}, t: t}
	b.clock.Store(1_800_000_000)
	b.reopen()
	return b
}

func (b *bench) options() Options {
	return Options{
		Meta: b.store.Meta, Writer: b.store.Writer, Account: AccountID(17), Key: testKey, Now: func() time.Time { return time.Unix(b.clock.Load(), 0) },
	}
}

// reopen opens the directory again, as a restart does.
func (b *bench) reopen() {
	var err error
	b.Directory, err = Open(context.Background(), b.options())
	require.NoError(b.t, err)
}

func (b *bench) ctx() context.Context { return context.Background() }

func (b *bench) pass(d time.Duration) { b.clock.Add(int64(d / time.Second)) }

// create creates a key with access to a bucket, and returns its principal.
func (b *bench) create(by *auth.Principal, name string) (*auth.Principal, Secret) {
	_, secret, err := b.CreateKey(context.Background(), by, NewKey{Name: name, Grant: &Grant{Bucket: "bucket", Access: ReadWrite}})
	require.NoError(b.t, err)
	return b.holder(secret), secret
}

// holder returns the principal of an access key, which must be accepted.
func (b *bench) holder(s Secret) *auth.Principal {
	c := b.lookup(s.AccessKey)
	require.Equal(b.t, s.SecretKey, c.SecretKey)
	return c.Principal
}

func (b *bench) lookup(accessKey string) gate.Credential {
	c, err := b.Lookup(context.Background(), accessKey, "")
	require.NoError(b.t, err)
	return c
}

func (b *bench) refused(s Secret) { require.Zero(b.t, b.lookup(s.AccessKey)) }

// knows reports whether a policy can name a principal.
func (b *bench) knows(principal string) bool {
	_, exists := b.Resolve("AWS", principal)
	return exists
}

func codeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func allows(c *policy.Caller, a auth.Action, key string) bool {
	r := auth.Resource{Account: c.Principal.Account, Bucket: "bucket", Key: key}
	return policy.Decide(&policy.Request{Caller: c, Action: a, Resource: r}).Decision == policy.Allowed
}

func TestDefaultAccount(t *testing.T) {
	b := open(t)
	root := b.Root()
	require.Equal(t, "517897756073", root.Account, "the ID of an account never changes")
	for n := range uint64(100) {
		require.Regexp(t, "^[1-9][0-9]{11}$", AccountID(n))
	}
	require.Equal(t, &auth.Principal{Account: root.Account, ARN: auth.RootARN(root.Account), ID: root.Account}, root)
	c := b.Caller(root)
	require.Same(t, root, c.Principal)
	require.Regexp(t, "^[0-9a-f]{64}$", c.Canonical)
	require.True(t, allows(c, "s3:DeleteObject", "key"))
	require.Nil(t, b.Caller(&auth.Principal{Account: root.Account, ARN: root.ARN + "x", ID: root.ID}))
	require.Nil(t, b.Caller(&auth.Principal{Account: "111122223333", ARN: auth.RootARN("111122223333"), ID: "111122223333"}))
	require.True(t, b.Caller(auth.Anonymous).Principal.IsAnonymous())
	for _, known := range []string{root.ARN, root.Account, c.Canonical} {
		require.True(t, b.knows(known), known)
	}
	require.False(t, b.knows("111122223333"))
	b.reopen()
	require.Equal(t, root, b.Root(), "a restart keeps the account")
}

func TestApplicationKey(t *testing.T) {
	b, ctx := open(t), t.Context()
	root := b.Root()
	i, secret, err := b.CreateKey(ctx, root, NewKey{
		Name: "Backup", Grant: &Grant{Bucket: "bucket", Prefix: "a/", Access: Read}, Expires: time.Hour,
	})
	require.NoError(t, err)
	require.Regexp(t, "^AKIA[A-Z2-7]{16}$", secret.AccessKey)
	require.Regexp(t, "^[A-Z2-7]{40}$", secret.SecretKey)
	p := b.holder(secret)
	require.Equal(t, &auth.Principal{Account: root.Account, ARN: "arn:aws:iam::" + root.Account + ":key/Backup", ID: i.ID}, p)
	c := b.Caller(p)
	require.Equal(t, root, c.Creator.Principal)
	require.True(t, allows(c, "s3:GetObject", "a/b"))
	require.False(t, allows(c, "s3:GetObject", "b"))
	require.True(t, b.knows(p.ARN))

	_, _, err = b.CreateKey(ctx, root, NewKey{Name: "backup", Grant: &Grant{Bucket: "other", Access: Read}})
	require.Equal(t, Exists, codeOf(err), "names are compared without case")
	for wrong, n := range map[string]NewKey{
		"is not valid":        {Name: "a/b", Grant: &Grant{Bucket: "bucket", Access: Read}},
		"name of a bucket":    {Name: "k", Grant: &Grant{Bucket: "b*", Access: Read}},
		"must be read, write": {Name: "k", Grant: &Grant{Bucket: "bucket", Access: "all"}},
		"nothing to leave":    {Name: "k", Grant: &Grant{Bucket: "bucket", Access: Read, NoDelete: true}},
		"begins with a slash": {Name: "k", Grant: &Grant{Bucket: "bucket", Prefix: "/a", Access: Read}},
		"without NUL":         {Name: "k", Grant: &Grant{Bucket: "bucket", Prefix: "a\x00", Access: Read}},
		"line 1":              {Name: "k", Policy: "{}"},
		"must be positive":    {Name: "k", Grant: &Grant{Bucket: "bucket", Access: Read}, Expires: -1},
	} {
		_, _, err := b.CreateKey(ctx, root, n)
		require.ErrorContains(t, err, wrong)
		require.Contains(t, []Code{Invalid, MalformedPolicy}, codeOf(err))
	}

	b.pass(time.Hour - time.Second)
	require.Same(t, p, b.holder(secret))
	require.NotNil(t, b.Caller(p))
	b.pass(time.Second)
	b.refused(secret)
	require.Nil(t, b.Caller(p), "a key that expires during a request can do nothing more")
	require.NoError(t, b.DeleteKey(ctx, root, "BACKUP"))
	require.Equal(t, NoSuchEntity, codeOf(b.DeleteKey(ctx, root, "backup")))
	require.Empty(t, b.Keys(root))
}

func TestRevoke(t *testing.T) {
	b, ctx := open(t), t.Context()
	root := b.Root()
	for name, revoke := range map[string]func() error{
		"delete":  func() error { return b.DeleteKey(ctx, root, "parent") },
		"disable": func() error { _, err := b.EnableKey(ctx, root, "parent", false); return err },
	} {
		parent, secret := b.create(root, "parent")
		child, childSecret := b.create(parent, name+"-child")
		grandchild, grandchildSecret := b.create(child, name+"-grandchild")
		require.Equal(t, parent.ID, b.Caller(grandchild).Creator.Creator.ID)
		require.NoError(t, revoke())
		for _, s := range []Secret{secret, childSecret, grandchildSecret} {
			b.refused(s)
		}
		for _, p := range []*auth.Principal{parent, child, grandchild} {
			require.Nil(t, b.Caller(p), name)
		}
		_, _, err := b.CreateKey(ctx, child, NewKey{Name: "late", Grant: &Grant{Bucket: "bucket", Access: Read}})
		require.Equal(t, Denied, codeOf(err))
		if name == "disable" {
			_, err := b.EnableKey(ctx, root, "parent", true)
			require.NoError(t, err)
			b.holder(grandchildSecret)
			require.NoError(t, b.DeleteKey(ctx, root, "parent"))
		}
		again, _ := b.create(root, "parent")
		b.refused(childSecret) // the new key of the same name did not create it
		require.Nil(t, b.Caller(parent), "the new key has its name only")
		require.NotNil(t, b.Caller(again))
		require.NoError(t, b.DeleteKey(ctx, root, "parent"))
	}
}

func TestExpirationOfCreators(t *testing.T) {
	b, ctx := open(t), t.Context()
	create := func(by *auth.Principal, name string, expires time.Duration) (*auth.Principal, *Identity) {
		i, secret, err := b.CreateKey(ctx, by, NewKey{Name: name, Grant: &Grant{Bucket: "bucket", Access: Read}, Expires: expires})
		require.NoError(t, err)
		return b.holder(secret), i
	}
	parent, _ := create(b.Root(), "parent", time.Hour)
	_, forever := create(parent, "forever", 0)
	_, short := create(parent, "short", time.Minute)
	for i, want := range map[*Identity]time.Duration{forever: time.Hour, short: time.Minute} {
		at, works := b.Expiration(i)
		require.Equal(t, b.time().Add(want), at)
		require.True(t, works)
	}
	b.pass(time.Minute)
	_, works := b.Expiration(short)
	require.False(t, works)
	require.NotZero(t, b.lookup(forever.Keys[0].ID))
	b.pass(time.Hour)
	require.Zero(t, b.lookup(forever.Keys[0].ID))
	_, works = b.Expiration(&Identity{ID: "KEYAUNKNOWN"})
	require.False(t, works)
}

// TestChainsEnd creates keys with keys until that is refused.
func TestChainsEnd(t *testing.T) {
	b := open(t)
	by := b.Root()
	for n := range maxCreators {
		by, _ = b.create(by, fmt.Sprint("key", n))
	}
	require.True(t, allows(b.Caller(by), "s3:GetObject", "key"))
	_, _, err := b.CreateKey(t.Context(), by, NewKey{Name: "last", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.Equal(t, TooMany, codeOf(err))
	b.reopen()
	require.True(t, allows(b.Caller(by), "s3:GetObject", "key"))
}

func TestRotation(t *testing.T) {
	b, ctx := open(t), t.Context()
	root := b.Root()
	p, first := b.create(root, "key")
	_, second, err := b.RotateKey(ctx, root, "", "key", time.Hour)
	require.NoError(t, err)
	require.Equal(t, p, b.holder(first))
	require.Equal(t, p, b.holder(second))
	i, third, err := b.RotateKey(ctx, root, "", "key", 2*time.Hour)
	require.NoError(t, err)
	require.Len(t, i.Keys, 2)
	b.refused(first)
	b.holder(second)
	_, _, err = b.RotateKey(ctx, root, "", "key", -1)
	require.Equal(t, Invalid, codeOf(err))
	b.pass(2 * time.Hour)
	b.refused(second)
	b.holder(third)
	i, fourth, err := b.RotateKey(ctx, root, "", "key", 0)
	require.NoError(t, err)
	require.Len(t, i.Keys, 1)
	b.refused(third)
	b.holder(fourth)
	require.NotEqual(t, third.SecretKey, fourth.SecretKey)
	_, _, err = b.RotateKey(ctx, root, "", "none", 0)
	require.Equal(t, NoSuchEntity, codeOf(err))
}

// TestKeysAndAccessKeysOfTheirCreators: an application key does not depend on the access key with which it was created, but
// it expires with it at the latest, and ends with its creator.
func TestKeysAndAccessKeysOfTheirCreators(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	ok := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	ok(b.Create(ctx, User, account, "alice"))
	ok(b.Attach(ctx, User, account, "alice", "admin", true))
	with := func(lifetime time.Duration) Secret {
		_, s, err := b.CreateAccessKey(ctx, account, "alice", lifetime)
		require.NoError(t, err)
		return s
	}
	create := func(by Secret, name string, lifetime time.Duration) (*Identity, Secret, error) {
		n := NewKey{Name: name, Grant: &Grant{Bucket: "bucket", Access: Read}, Expires: lifetime, With: by.AccessKey}
		return b.CreateKey(ctx, b.holder(by), n)
	}
	lasting, expiring := with(0), with(24*time.Hour)
	now := time.Unix(b.clock.Load(), 0).UTC()
	for name, c := range map[string]struct {
		by       Secret
		lifetime time.Duration
		expires  time.Time
	}{
		"never":           {lasting, 0, time.Time{}},
		"later":           {lasting, 48 * time.Hour, now.Add(48 * time.Hour)},
		"capped":          {expiring, 0, now.Add(24 * time.Hour)},
		"capped-later":    {expiring, 48 * time.Hour, now.Add(24 * time.Hour)},
		"earlier-than-it": {expiring, time.Hour, now.Add(time.Hour)},
	} {
		i, _, err := create(c.by, name, c.lifetime)
		require.NoError(t, err)
		require.Equal(t, c.expires, i.Expires, name)
		require.Equal(t, c.by.AccessKey, i.With)
		at, works := b.Expiration(i)
		require.Equal(t, c.expires, at, name)
		require.True(t, works)
	}

	// What the expiring one obtains otherwise expires with it too.
	_, _, err := create(lasting, "lasting", 0)
	require.NoError(t, err)
	rotated, secret, err := b.RotateKey(ctx, b.holder(expiring), expiring.AccessKey, "lasting", 0)
	require.NoError(t, err)
	at, works := b.Expiration(rotated)
	require.Equal(t, now.Add(24*time.Hour), at)
	require.True(t, works)
	more := []Secret{secret}
	for _, lifetime := range []time.Duration{0, time.Hour, 48 * time.Hour} {
		i, secret, err := b.CreateAccessKeyWith(ctx, b.holder(expiring), expiring.AccessKey, "alice", lifetime)
		require.NoError(t, err)
		expires := now.Add(24 * time.Hour)
		if lifetime == time.Hour {
			expires = now.Add(time.Hour)
		}
		require.Equal(t, expires, i.Keys[len(i.Keys)-1].Expires)
		more = append(more, secret)
	}
	i, secret, err := b.CreateAccessKeyWith(ctx, b.holder(lasting), lasting.AccessKey, "alice", 0)
	require.NoError(t, err)
	require.Zero(t, i.Keys[len(i.Keys)-1].Expires)
	b.pass(24 * time.Hour)
	for _, s := range append(more, expiring) {
		b.refused(s)
	}
	b.holder(secret)
	at, works = b.Expiration(rotated)
	require.Equal(t, now.Add(24*time.Hour), at)
	require.False(t, works)
	_, secret, err = b.RotateKey(ctx, b.holder(lasting), lasting.AccessKey, "lasting", 0)
	require.NoError(t, err)
	b.pass(48 * time.Hour)
	b.holder(secret)
	_, _, err = b.RotateKey(ctx, b.holder(lasting), "AKIANONE", "lasting", 0)
	require.Equal(t, Denied, codeOf(err))
	_, _, err = b.CreateAccessKeyWith(ctx, b.holder(lasting), "AKIANONE", "alice", 0)
	require.Equal(t, Denied, codeOf(err))

	// A rotation of the access key, and everything else that ends it, leaves the key.
	first, second := with(0), with(0)
	_, key, err := create(first, "kept", 0)
	require.NoError(t, err)
	_, disabled, err := create(second, "kept-too", 0)
	require.NoError(t, err)
	ok(b.DeleteAccessKey(ctx, account, "alice", first.AccessKey))
	ok(b.EnableAccessKey(ctx, account, "alice", second.AccessKey, false))
	_, below, err := b.CreateKey(ctx, b.holder(key), NewKey{Name: "below", Grant: &Grant{Bucket: "bucket", Access: Read}, With: key.AccessKey})
	require.NoError(t, err)
	b.reopen()
	for _, s := range []Secret{key, disabled, below} {
		require.True(t, allows(b.Caller(b.holder(s)), "s3:GetObject", "key"))
	}

	// An access key that has ended since the request was authenticated creates nothing, nor does that of somebody else.
	alice := b.holder(lasting)
	for _, other := range []string{first.AccessKey, second.AccessKey, key.AccessKey, "AKIANONE"} {
		_, _, err = b.CreateKey(ctx, alice, NewKey{Name: "new", Grant: &Grant{Bucket: "bucket", Access: Read}, With: other})
		require.Equal(t, Denied, codeOf(err), other)
	}

	// The key never exceeds its creator, and ends with it.
	ok(b.Attach(ctx, User, account, "alice", "admin", false))
	require.False(t, allows(b.Caller(b.holder(key)), "s3:GetObject", "key"))
	require.NoError(t, b.DeleteUser(ctx, account, "alice"))
	for _, s := range []Secret{key, disabled, below} {
		b.refused(s)
	}
	ok(b.Create(ctx, User, account, "alice"))
	b.refused(key)
}

// TestPrincipalsChangeWithTheirRights: a lookup returns a new principal after each change that applies to it, and after
// others the same rights.
func TestPrincipalsChangeWithTheirRights(t *testing.T) {
	b, ctx := open(t), t.Context()
	account := b.Root().Account
	ok := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	ok(b.Create(ctx, User, account, "alice"))
	ok(b.Create(ctx, Group, account, "staff"))
	_, secret, err := b.CreateAccessKey(ctx, account, "alice", 0)
	require.NoError(t, err)
	_, key, err := b.CreateKey(ctx, b.holder(secret), NewKey{Name: "app", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.NoError(t, err)
	for name, change := range map[string]func(){
		"attach":       func() { ok(b.Attach(ctx, User, account, "alice", "readonly", true)) },
		"inline":       func() { ok(b.PutInlinePolicy(ctx, User, account, "alice", "own", Reads)) },
		"tags":         func() { ok(b.SetTags(ctx, User, account, "alice", map[string]string{"a": "b"})) },
		"group":        func() { ok(b.SetMember(ctx, account, "alice", "staff", true)) },
		"group policy": func() { ok(b.PutInlinePolicy(ctx, Group, account, "staff", "own", Reads)) },
	} {
		user, app := b.holder(secret), b.holder(key)
		require.Same(t, user, b.holder(secret))
		require.Same(t, app, b.holder(key))
		change()
		require.NotSame(t, user, b.holder(secret), name)
		require.NotSame(t, app, b.holder(key), name)
	}
}

// Reads is a policy.
const Reads = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}`

// TestOnlyCreatorsManage checks that a key can neither obtain a secret of a key that can do more than itself, nor
// disable it, nor see it.
func TestOnlyCreatorsManage(t *testing.T) {
	b, ctx := open(t), t.Context()
	parent, _ := b.create(b.Root(), "parent")
	other, _ := b.create(b.Root(), "other")
	child, _ := b.create(parent, "child")
	grandchild, secret := b.create(child, "grandchild")
	stranger := &auth.Principal{Account: "111122223333", ARN: auth.RootARN("111122223333"), ID: "111122223333"}
	try := func(by *auth.Principal) (failed int) {
		_, enable := b.EnableKey(ctx, by, "grandchild", true)
		_, _, rotate := b.RotateKey(ctx, by, "", "grandchild", time.Hour)
		for _, err := range []error{enable, rotate} {
			if err != nil {
				require.Equal(t, NoSuchEntity, codeOf(err))
				failed++
			}
		}
		return failed
	}
	names := func(by *auth.Principal) (list []string) {
		for _, i := range b.Keys(by) {
			list = append(list, i.Name)
		}
		return list
	}
	for _, by := range []*auth.Principal{other, grandchild, stranger, auth.Anonymous} {
		require.Equal(t, 2, try(by), by)
		require.Error(t, b.DeleteKey(ctx, by, "grandchild"))
		require.Empty(t, names(by))
	}
	for _, by := range []*auth.Principal{b.Root(), parent, child} {
		require.Zero(t, try(by), by)
	}
	require.Equal(t, []string{"child", "grandchild", "other", "parent"}, names(b.Root()))
	require.Equal(t, []string{"child", "grandchild"}, names(parent))
	b.refused(secret) // it was rotated three times
	require.NoError(t, b.DeleteKey(ctx, parent, "grandchild"))
}

// TestGrants compares what a grant allows with what it should.
func TestGrants(t *testing.T) {
	const wild = "a*?$[${aws:username}/"
	b, ctx := open(t), t.Context()
	for _, prefix := range []string{"", "photos/", "a*/", wild} {
		for _, access := range []Access{Read, Write, ReadWrite} {
			for _, noDelete := range []bool{false, true} {
				if noDelete && access == Read {
					continue
				}
				g := Grant{Bucket: "bucket", Prefix: prefix, Access: access, NoDelete: noDelete}
				_, secret, err := b.CreateKey(ctx, b.Root(), NewKey{Name: "key", Grant: &g})
				require.NoError(t, err)
				c := b.Caller(b.holder(secret))
				reads, writes := access != Write, access != Read
				for a, want := range map[auth.Action]bool{
					"s3:GetObject": reads, "s3:GetObjectVersion": reads, "s3:GetObjectTagging": reads,
					"s3:PutObject": writes, "s3:AbortMultipartUpload": writes, "s3:PutObjectTagging": writes,
					"s3:DeleteObject": writes && !noDelete, "s3:DeleteObjectVersion": writes && !noDelete,
					"s3:BypassGovernanceRetention": false, "s3:PutObjectRetention": false, "s3:PutObjectAcl": false,
				} {
					require.Equal(t, want, allows(c, a, prefix+"x/y"), "%s with %+v", a, g)
					for _, outside := range []string{"x", "photo", "a", "abcd", "ab/x", "a*b$[x/y", "a*?$[key/y"} {
						require.Equal(t, want && prefix == "", allows(c, a, outside), "%s of %s with %+v", a, outside, g)
					}
				}
				inBucket := func(a auth.Action, facts facts) bool {
					r := auth.Resource{Account: c.Principal.Account, Bucket: "bucket"}
					return policy.Decide(&policy.Request{Caller: c, Action: a, Resource: r, Facts: facts}).Decision == policy.Allowed
				}
				for a, want := range map[auth.Action]bool{
					"s3:ListBucket": reads, "s3:ListBucketVersions": reads, "s3:ListBucketMultipartUploads": writes,
				} {
					require.Equal(t, want, inBucket(a, facts{"s3:prefix": prefix}), "%s with %+v", a, g)
					require.Equal(t, want, inBucket(a, facts{"s3:prefix": prefix + "x", "s3:delimiter": "/"}), "%s with %+v", a, g)
					for _, f := range []facts{nil, {"s3:prefix": ""}, {"s3:prefix": "photo"}, {"s3:prefix": "photos", "s3:delimiter": "/"}} {
						require.Equal(t, want && prefix == "", inBucket(a, f), "%s of %v with %+v", a, f, g)
					}
				}
				require.True(t, inBucket("s3:GetBucketLocation", nil))
				for _, a := range []auth.Action{"s3:DeleteBucket", "s3:PutBucketPolicy", "s3:PutLifecycleConfiguration", "s3:ListAllMyBuckets", "orcas:CreateKey"} {
					require.False(t, inBucket(a, nil), a)
				}
				require.NoError(t, b.DeleteKey(ctx, b.Root(), "key"))
			}
		}
	}
}

// facts are facts of a request.
type facts map[string]string

func (f facts) Fact(key string) (string, bool) {
	v, ok := f[key]
	return v, ok
}

// TestNoKey checks that no secret is stored under a second key while others need the first.
func TestNoKey(t *testing.T) {
	b, ctx := open(t), t.Context()
	_, secret := b.create(b.Root(), "key")
	made := 0
	reopen := func(key []byte) {
		o := b.options()
		o.Key, o.NewKey = key, func() ([]byte, error) { made++; return testKey, nil }
		var err error
		b.Directory, err = Open(ctx, o)
		require.NoError(t, err)
	}
	for name, key := range map[string][]byte{"missing": nil, "of another store": bytes.Repeat([]byte{8}, KeySize)} {
		reopen(key)
		b.refused(secret)
		_, _, err := b.CreateKey(ctx, b.Root(), NewKey{Name: "more", Grant: &Grant{Bucket: "bucket", Access: Read}})
		require.True(t, core.Is(err, core.NoKey), "%s: %v", name, err)
		_, _, err = b.RotateKey(ctx, b.Root(), "", "key", 0)
		require.True(t, core.Is(err, core.NoKey), "%s: %v", name, err)
	}
	require.Zero(t, made)
	reopen(testKey)
	b.holder(secret) // the file is back
	reopen(nil)
	require.NoError(t, b.DeleteKey(ctx, b.Root(), "key"))
	b.create(b.Root(), "key") // no secret needs the lost key
	require.Equal(t, 1, made)
	require.NoError(t, b.DeleteKey(ctx, b.Root(), "key"))
	reopen(nil)
	require.Equal(t, 2, made, "a start without secrets makes a key")
}

// TestSecretsAreEncrypted looks for secrets in everything that is stored, and moves one to another access key.
func TestSecretsAreEncrypted(t *testing.T) {
	b, ctx := open(t), t.Context()
	_, one := b.create(b.Root(), "one")
	_, two := b.create(b.Root(), "two")
	records, err := b.store.Meta.Records(ctx, keyRecords, "", 10)
	require.NoError(t, err)
	require.Len(t, records, 2)
	var stored [2]*entry
	for n, r := range records {
		require.NotContains(t, string(r.Value), one.SecretKey)
		require.NotContains(t, string(r.Value), two.SecretKey)
		stored[n], err = b.vault.read(r)
		require.NoError(t, err)
	}
	b.put2(records[0], stored[0].Identity, stored[1].Keys[0].Secret)
	b.reopen()
	b.refused(one)
	b.holder(two)
}

// put2 writes a record of an identity with another secret, as an attacker with access to the metadata could.
func (b *bench) put2(r core.Record, i *Identity, secret []byte) {
	changed := *i
	changed.Keys = slices.Clone(i.Keys)
	changed.Keys[0].Secret = secret
	again, err := encode(r.Kind, r.Key, &changed)
	require.NoError(b.t, err)
	_, err = b.store.Writer.Do(context.Background(), batch.Write{Change: &core.PutRecord{Record: *again}})
	require.NoError(b.t, err)
}

// TestUnknownRecords checks that records of newer versions, and wrong ones, are refused.
func TestUnknownRecords(t *testing.T) {
	for value, kind := range map[string]core.Kind{
		`{"name": "x", "id": "KEYA", "created": "2026-11-23T00:00:00Z", "boundary": "ANPA"}`: core.Unsupported,
		`{"name": "y", "id": "KEYA", "created": "2026-11-23T00:00:00Z"}`:                     core.Damaged,
		`x`: core.Unsupported,
	} {
		b := open(t)
		r := core.Record{Kind: keyRecords, Key: b.Root().Account + "/x", Value: []byte(value)}
		_, err := b.store.Writer.Do(t.Context(), batch.Write{Change: &core.PutRecord{Record: r}})
		require.NoError(t, err)
		_, err = Open(t.Context(), b.options())
		require.True(t, core.Is(err, kind), "%s: %v", value, err)
	}
}

// TestUnreadablePolicy checks that an identity is refused if one of its policies cannot be read: it might deny
// something.
func TestUnreadablePolicy(t *testing.T) {
	b := open(t)
	p, secret := b.create(b.Root(), "key")
	records, err := b.store.Meta.Records(t.Context(), keyRecords, "", 10)
	require.NoError(t, err)
	r := records[0]
	r.Value = []byte(strings.Replace(string(r.Value), "s3:GetBucketLocation", "s3:GetBucketLocatiom", 1))
	_, err = b.store.Writer.Do(t.Context(), batch.Write{Change: &core.PutRecord{Record: r}})
	require.NoError(t, err)
	b.reopen()
	b.refused(secret)
	require.Nil(t, b.Caller(p))
	require.NoError(t, b.DeleteKey(t.Context(), b.Root(), "key"))
}

// TestOtherProcess changes the same records with two directories.
func TestOtherProcess(t *testing.T) {
	b := open(t)
	other := *b
	other.reopen()
	_, secret := b.create(b.Root(), "key")
	_, _, err := other.CreateKey(t.Context(), b.Root(), NewKey{Name: "key", Grant: &Grant{Bucket: "bucket", Access: Read}})
	require.Equal(t, Exists, codeOf(err), "the other directory reads the record again")
	other.holder(secret)
	_, err = b.EnableKey(t.Context(), b.Root(), "key", false)
	require.NoError(t, err)
	_, _, err = other.RotateKey(t.Context(), b.Root(), "", "key", time.Hour)
	require.NoError(t, err)
	other.refused(secret)
	b.reopen()
	require.Equal(t, b.Keys(b.Root()), other.Keys(b.Root()))
	require.True(t, b.Keys(b.Root())[0].Disabled, "the rotation must not enable the key again")
}

// TestFailedChange makes a change fail.
func TestFailedChange(t *testing.T) {
	b := open(t)
	p, secret := b.create(b.Root(), "key")
	broken := errors.New("the drive is gone")
	b.store.Writer.Refuse(broken)
	require.Error(t, b.DeleteKey(t.Context(), b.Root(), "key"))
	require.Same(t, b.holder(secret), b.Caller(p).Principal)
}

func TestLookupDoesNotAllocate(t *testing.T) {
	b, ctx := open(t), t.Context()
	p, secret := b.create(b.Root(), "key")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = b.Lookup(ctx, secret.AccessKey, "")
		_ = b.Caller(p)
		_ = b.Caller(auth.Anonymous)
	}))
}

// TestConcurrentUse looks access keys up while they are disabled and enabled: while a key is certainly disabled, it
// must be refused.
func TestConcurrentUse(t *testing.T) {
	b, ctx := open(t), t.Context()
	const keys = 4
	var phases [keys]atomic.Int64 // odd while the key is certainly disabled
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for n := range keys {
		name, phase := fmt.Sprint("key", n), &phases[n]
		_, secret := b.create(b.Root(), name)
		writers.Go(func() {
			for range 15 {
				_, err := b.EnableKey(ctx, b.Root(), name, false)
				assert.NoError(t, err)
				phase.Add(1)
				runtime.Gosched()
				phase.Add(1)
				_, err = b.EnableKey(ctx, b.Root(), name, true)
				assert.NoError(t, err)
			}
			_, err := b.EnableKey(ctx, b.Root(), name, false)
			assert.NoError(t, err)
			assert.Zero(t, b.lookup(secret.AccessKey))
		})
		readers.Go(func() {
			for !done.Load() {
				runtime.Gosched()
				before := phase.Load()
				c := b.lookup(secret.AccessKey)
				if c.Principal == nil {
					continue
				}
				assert.Equal(t, secret.SecretKey, c.SecretKey)
				assert.False(t, before%2 == 1 && phase.Load() == before, "a disabled key was accepted")
				_ = b.Caller(c.Principal)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
}

// TestModel runs random operations on application keys, and compares the directory with a simple model after each of
// them and after restarts.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := open(t)
		b.t = rt
		m := &model{b: b, keys: map[string]*modelKey{}}
		rt.Repeat(map[string]func(*rapid.T){
			"create": m.create, "delete": m.delete, "enable": m.enable, "rotate": m.rotate,
			"pass":    func(rt *rapid.T) { b.pass(time.Duration(rapid.IntRange(1, 100).Draw(rt, "minutes")) * time.Minute) },
			"restart": func(*rapid.T) { b.reopen() },
			"":        m.check,
		})
	})
}

// model is what should be in a directory.
type model struct {
	b    *bench
	keys map[string]*modelKey // by name
	all  []*modelSecret       // of all keys that ever were
}

type modelKey struct {
	name     string
	creator  *modelKey // nil: the root
	deleted  bool
	disabled bool
	expires  int64 // 0: never
}

type modelSecret struct {
	Secret
	of      *modelKey
	expires int64 // 0: never
	ended   bool
}

func (m *model) works(k *modelKey) bool {
	return k == nil || !k.deleted && !k.disabled && (k.expires == 0 || m.b.clock.Load() < k.expires) && m.works(k.creator)
}

func (m *model) accepts(s *modelSecret) bool {
	return !s.ended && m.works(s.of) && (s.expires == 0 || m.b.clock.Load() < s.expires)
}

var modelNames = []string{"a", "B", "c", "D"}

func (m *model) create(rt *rapid.T) {
	name, creator := rapid.SampledFrom(modelNames).Draw(rt, "name"), m.b.Root()
	var by *modelKey
	if n := rapid.IntRange(0, len(m.all)).Draw(rt, "by"); n < len(m.all) && m.accepts(m.all[n]) {
		creator, by = m.b.holder(m.all[n].Secret), m.all[n].of
	}
	minutes := rapid.IntRange(0, 100).Draw(rt, "expires")
	depth := 0
	for k := by; k != nil; k = k.creator {
		depth++
	}
	_, secret, err := m.b.CreateKey(context.Background(), creator, NewKey{
		Name: name, Grant: &Grant{Bucket: "bucket", Access: Read}, Expires: time.Duration(minutes) * time.Minute,
	})
	if m.keys[strings.ToLower(name)] != nil || depth+1 > maxCreators {
		require.Error(rt, err)
		return
	}
	require.NoError(rt, err)
	k := &modelKey{name: name, creator: by}
	if minutes > 0 {
		k.expires = m.b.clock.Load() + int64(minutes)*60
	}
	m.keys[strings.ToLower(name)] = k
	m.all = append(m.all, &modelSecret{Secret: secret, of: k})
}

// pick returns a key that exists, or nil, and its name.
func (m *model) pick(rt *rapid.T) (*modelKey, string) {
	name := rapid.SampledFrom(modelNames).Draw(rt, "name")
	return m.keys[strings.ToLower(name)], strings.ToUpper(name)
}

func (m *model) delete(rt *rapid.T) {
	k, name := m.pick(rt)
	if err := m.b.DeleteKey(context.Background(), m.b.Root(), name); k == nil {
		require.Equal(rt, NoSuchEntity, codeOf(err))
		return
	}
	k.deleted = true
	delete(m.keys, strings.ToLower(name))
}

func (m *model) enable(rt *rapid.T) {
	k, name := m.pick(rt)
	enabled := rapid.Bool().Draw(rt, "enabled")
	if _, err := m.b.EnableKey(context.Background(), m.b.Root(), name, enabled); k == nil {
		require.Equal(rt, NoSuchEntity, codeOf(err))
		return
	}
	k.disabled = !enabled
}

func (m *model) rotate(rt *rapid.T) {
	k, name := m.pick(rt)
	keep := int64(rapid.IntRange(0, 3).Draw(rt, "keep")) * 600
	_, secret, err := m.b.RotateKey(context.Background(), m.b.Root(), "", name, time.Duration(keep)*time.Second)
	if k == nil {
		require.Equal(rt, NoSuchEntity, codeOf(err))
		return
	}
	newest := true
	for _, s := range slices.Backward(m.all) {
		if s.of != k {
			continue
		}
		until := m.b.clock.Load() + keep
		switch {
		case keep == 0 || !newest:
			s.ended = true
		case s.expires == 0 || until < s.expires:
			s.expires = until
		}
		newest = false
	}
	m.all = append(m.all, &modelSecret{Secret: secret, of: k})
}

func (m *model) check(rt *rapid.T) {
	list := m.b.Keys(m.b.Root())
	require.Len(rt, list, len(m.keys))
	for _, i := range list {
		k := m.keys[strings.ToLower(i.Name)]
		require.Equal(rt, k.name, i.Name)
		require.Equal(rt, k.disabled, i.Disabled)
		_, works := m.b.Expiration(i)
		require.Equal(rt, m.works(k), works)
	}
	for _, s := range m.all {
		c := m.b.lookup(s.AccessKey)
		require.Equal(rt, m.accepts(s), c.Principal != nil)
		if c.Principal == nil {
			continue
		}
		require.Equal(rt, s.SecretKey, c.SecretKey)
		k, chain := s.of, m.b.Caller(c.Principal)
		for ; k != nil; k, chain = k.creator, chain.Creator {
			require.Equal(rt, m.b.Root().Account, chain.Principal.Account)
			require.True(rt, strings.HasSuffix(chain.Principal.ARN, ":key/"+k.name))
		}
		require.Same(rt, m.b.Root(), chain.Principal)
	}
}
