package access

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/policy"
)

const (
	owner = "111122223333"
	other = "444455556666"
)

var (
	root     = &auth.Principal{Account: owner, ARN: auth.RootARN(owner)}
	stranger = &auth.Principal{Account: other, ARN: auth.RootARN(other)}
	alice    = &auth.Principal{Account: owner, ARN: "arn:aws:iam::" + owner + ":user/alice"}
)

// users knows alice, who may read the bucket b.
func users(t testing.TB) func(*auth.Principal) *policy.Caller {
	reads := compile(t, `{"Version": "2012-10-17", "Statement": {
		"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}}`)
	caller := &policy.Caller{Principal: alice, Identity: []*policy.Policy{reads}}
	return func(p *auth.Principal) *policy.Caller {
		if p.ARN == alice.ARN {
			return caller
		}
		return nil
	}
}

func compile(t testing.TB, document string) *policy.Policy {
	p, err := policy.Parse([]byte(document), policy.Source{Name: "test"})
	require.NoError(t, err)
	return p
}

// statement returns a policy of the bucket b with one statement about everyone.
func statement(effect, action, resource string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {
		"Effect": %q, "Principal": "*", "Action": %q, "Resource": "arn:aws:s3:::b%s"}}`, effect, action, resource)
}

// key is a key in the bucket b, which has a policy.
func key(document string) auth.Resource {
	return auth.Resource{Account: owner, Bucket: "b", Key: "key", Policy: document}
}

func decide(t testing.TB, a *Authorizer, p *auth.Principal, action auth.Action, r auth.Resource) error {
	return a.Authorize(t.Context(), p, action, r, nil)
}

func TestCallers(t *testing.T) {
	for _, a := range []*Authorizer{New(nil), New(users(t))} {
		require.NoError(t, decide(t, a, root, "s3:GetObject", key("")))
		require.NoError(t, decide(t, a, root, "s3:PutObject", key("")))
		require.NoError(t, decide(t, a, root, "orcas:StartScrub", auth.Resource{Account: owner}))
		require.Equal(t, auth.ErrDenied, decide(t, a, root, "", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, root, "s3:Unknown", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, stranger, "s3:GetObject", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, auth.Anonymous, "s3:GetObject", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, &auth.Principal{}, "s3:GetObject", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, nil, "s3:GetObject", key("")))
		require.Equal(t, auth.ErrDenied, decide(t, a, nil, "s3:GetObject", key(statement("Allow", "s3:*", "/*"))))
	}
	require.NoError(t, decide(t, New(users(t)), alice, "s3:GetObject", key("")))
	require.Equal(t, auth.ErrDenied, decide(t, New(users(t)), alice, "s3:PutObject", key("")))
}

// Nobody but the root of an account is taken for the root, and principals that are not known have no rights, even if a
// policy allows an action to everyone.
func TestUnknownPrincipals(t *testing.T) {
	disabled := &auth.Principal{Account: owner, ARN: auth.RootARN(owner), ID: owner}
	require.ErrorIs(t, decide(t, New(users(t)), disabled, "s3:GetObject", key("")), auth.ErrDenied, "the account was disabled")
	require.NoError(t, decide(t, New(nil), disabled, "s3:GetObject", key("")))
	for _, p := range []*auth.Principal{
		alice,
		{Account: owner},
		{Account: owner, ARN: auth.RootARN(other)},
		{Account: owner, ARN: auth.RootARN("")},
		{Account: owner, ARN: auth.RootARN(owner) + "/"},
		{Account: owner, ARN: "arn:aws:iam::" + owner + ":user/root"},
	} {
		for _, document := range []string{"", statement("Allow", "s3:*", "/*")} {
			require.Equal(t, auth.ErrDenied, decide(t, New(nil), p, "s3:GetObject", key(document)), p)
		}
	}
}

func TestBucketPolicy(t *testing.T) {
	a := New(users(t))
	public := key(statement("Allow", "s3:GetObject", "/*"))
	require.NoError(t, decide(t, a, auth.Anonymous, "s3:GetObject", public))
	require.NoError(t, decide(t, a, &auth.Principal{}, "s3:GetObject", public))
	require.Equal(t, auth.ErrDenied, decide(t, a, auth.Anonymous, "s3:PutObject", public))
	require.NoError(t, decide(t, a, stranger, "s3:GetObject", public))
	public.RestrictPublic = true
	require.Equal(t, auth.ErrDenied, decide(t, a, auth.Anonymous, "s3:GetObject", public))
	require.Equal(t, auth.ErrDenied, decide(t, a, stranger, "s3:GetObject", public))
	require.NoError(t, decide(t, a, alice, "s3:GetObject", public))

	private := key(statement("Deny", "s3:*", "/*"))
	for _, p := range []*auth.Principal{root, stranger, alice, auth.Anonymous} {
		err := decide(t, a, p, "s3:GetObject", private)
		require.Equal(t, auth.ErrExplicitDeny, err)
		require.ErrorIs(t, err, auth.ErrDenied)
	}
}

// The root can always read, replace and delete the policies of its own buckets, even one that cannot be compiled.
// Nothing else is possible in a bucket with such a policy.
func TestNoLockout(t *testing.T) {
	a := New(users(t))
	for _, document := range []string{statement("Deny", "s3:*", ""), "{", statement("Deny", "s3:Unknown", "")} {
		r := auth.Resource{Account: owner, Bucket: "b", Policy: document}
		for _, action := range []auth.Action{"s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"} {
			require.NoError(t, decide(t, a, root, action, r))
			for _, p := range []*auth.Principal{stranger, alice, auth.Anonymous} {
				require.Error(t, decide(t, a, p, action, r))
			}
			foreign := r
			foreign.Account = other
			require.Error(t, decide(t, a, root, action, foreign))
		}
		for _, p := range []*auth.Principal{root, stranger, alice, auth.Anonymous} {
			require.Error(t, decide(t, a, p, "s3:ListBucket", r))
		}
	}
	err := decide(t, a, root, "s3:GetObject", key("{"))
	require.NotErrorIs(t, err, auth.ErrDenied)
	var malformed *policy.Error
	require.ErrorAs(t, err, &malformed)
	require.ErrorContains(t, err, "the bucket b")
}

func TestAnyAction(t *testing.T) {
	a := New(users(t))
	bucket := func(name, document string) auth.Resource {
		return auth.Resource{Account: owner, Bucket: name, Scope: auth.AnyAction, Policy: document}
	}
	require.NoError(t, decide(t, a, root, "s3:ListBucket", bucket("b", "")))
	require.NoError(t, decide(t, a, alice, "s3:ListBucket", bucket("b", "")))
	require.Error(t, decide(t, a, alice, "s3:ListBucket", bucket("c", "")))
	require.Error(t, decide(t, a, alice, "s3:ListBucket", bucket("b", statement("Deny", "s3:*", "/*"))))
	require.Error(t, decide(t, a, stranger, "s3:ListBucket", bucket("b", "")))
	require.NoError(t, decide(t, a, stranger, "s3:ListBucket", bucket("b", statement("Allow", "s3:PutObject", "/in/*"))))
	// The scope of a bucket does not help with a key.
	one := bucket("b", "")
	one.Scope = auth.OneKey
	require.Error(t, decide(t, a, alice, "s3:ListBucket", one))
}

// Each decision uses the policy that the request has read with the bucket, whatever policies other requests have read.
func TestDecisionsUseTheDocumentOfTheRequest(t *testing.T) {
	a := New(nil)
	documents := []string{"", statement("Allow", "s3:GetObject", "/*"), statement("Deny", "s3:GetObject", "/*")}
	want := []error{auth.ErrDenied, nil, auth.ErrExplicitDeny}
	for range 2 {
		for i, document := range documents {
			require.Equal(t, want[i], decide(t, a, stranger, "s3:GetObject", key(document)))
		}
	}
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for i := range 500 {
				at := (n + i) % len(documents)
				if got := decide(t, a, stranger, "s3:GetObject", key(documents[at])); got != want[at] { //nolint:errorlint // not wrapped
					t.Errorf("expected %v, found %v", want[at], got)
					return
				}
			}
		})
	}
	group.Wait()
}

// The cache has a bound, and a bucket has one entry.
func TestCache(t *testing.T) {
	c := cache{most: 2000}
	document := func(bucket string, n int) string {
		return fmt.Sprintf(`{"Statement": {"Sid": "%s", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
			"Resource": "arn:aws:s3:::%s/*"}}`, strings.Repeat("x", n), bucket)
	}
	first := document("b0", 0)
	p, err := c.policy("b0", first, "")
	require.NoError(t, err)
	again, err := c.policy("b0", first, "")
	require.NoError(t, err)
	require.Same(t, p, again)
	require.Equal(t, len(first), c.size)
	changed, err := c.policy("b0", document("b0", 1), "")
	require.NoError(t, err)
	require.NotSame(t, p, changed)
	require.Equal(t, len(first)+1, c.size)
	for i := range 100 {
		bucket := fmt.Sprint("b", i)
		_, err := c.policy(bucket, document(bucket, i), "")
		require.NoError(t, err)
		require.Contains(t, c.compiled, bucket)
		total := 0
		for _, v := range c.compiled {
			total += len(v.document)
		}
		require.Equal(t, total, c.size)
		require.LessOrEqual(t, c.size, c.most)
	}
	_, err = c.policy("large", document("large", 3000), "")
	require.NoError(t, err)
	require.NotContains(t, c.compiled, "large")
	_, err = c.policy("b1", "{", "")
	require.Error(t, err)
	_, again2 := c.policy("b1", "{", "")
	require.Equal(t, err, again2)
}

// manyStatements returns a document of 20 statements about the action, the last of which may allow it.
func manyStatements(last string) string {
	list := make([]string, 0, 20)
	for i := range 19 {
		list = append(list, fmt.Sprintf(`{"Effect": %q, %s "Action": ["s3:GetObject", "s3:PutObject"],
			"Resource": ["arn:aws:s3:::b/x%d/*", "arn:aws:s3:::b/home/*"],
			"Condition": {"IpAddress": {"aws:SourceIp": ["198.51.100.%d", "203.0.113.0/24"]}}}`,
			[]string{"Allow", "Deny"}[i%2], last, i, i))
	}
	list = append(list, `{"Effect": "Allow", `+last+` "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}`)
	return `{"Version": "2012-10-17", "Statement": [` + strings.Join(list, ",") + `]}`
}

type facts map[string]string

func (f facts) Fact(name string) (string, bool) {
	v, ok := f[name]
	return v, ok
}

// benchmarks returns the requests whose cost has a limit.
func benchmarks(t testing.TB) map[string]func() error {
	user := &policy.Caller{Principal: alice, Identity: []*policy.Policy{compile(t, manyStatements(""))}}
	a := New(func(p *auth.Principal) *policy.Caller {
		if p == alice {
			return user
		}
		return nil
	})
	var from auth.Facts = facts{"aws:SourceIp": "192.0.2.1"}
	plain, many := key(""), key(manyStatements(`"Principal": "*",`))
	ctx := t.Context()
	return map[string]func() error{
		"root":           func() error { return a.Authorize(ctx, root, "s3:GetObject", plain, from) },
		"statements=40":  func() error { return a.Authorize(ctx, alice, "s3:GetObject", many, from) },
		"root+20":        func() error { return a.Authorize(ctx, root, "s3:GetObject", many, from) },
		"anonymous+20":   func() error { return a.Authorize(ctx, auth.Anonymous, "s3:GetObject", many, from) },
		"user,no-bucket": func() error { return a.Authorize(ctx, alice, "s3:GetObject", plain, from) },
	}
}

// TestAllocations: a decision about the root without a policy allocates nothing, and one with policies only the ARN of
// the resource.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for name, decide := range benchmarks(t) {
		want := 1.0
		if name == "root" {
			want = 0
		}
		require.NoError(t, decide())
		require.LessOrEqual(t, testing.AllocsPerRun(200, func() { _ = decide() }), want, name)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	for name, decide := range benchmarks(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decide(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
