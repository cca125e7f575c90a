package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

const (
	owner    = "111122223333" // the account that owns the bucket "b"
	stranger = "444455556666"
)

// facts are the facts of a request.
type facts map[string]string

func (f facts) Fact(key string) (string, bool) {
	v, ok := f[key]
	return v, ok
}

// listFacts are facts with keys that have several values.
type listFacts map[string][]string

func (f listFacts) Fact(key string) (string, bool) {
	if len(f[key]) == 0 {
		return "", false
	}
	return f[key][0], true
}

func (f listFacts) FactList(key string) []string { return f[key] }

func root(account string) *Caller {
	return &Caller{Principal: &auth.Principal{Account: account, ARN: auth.RootARN(account)}}
}

// user returns the user "alice" of an account, with policies.
func user(account string, policies ...*Policy) *Caller {
	p := &auth.Principal{Account: account, ARN: "arn:aws:iam::" + account + ":user/staff/alice"}
	return &Caller{Principal: p, ID: "AIDAALICE", Identity: policies}
}

// session returns a session of the role "reader" of the owner, with policies of the role.
func session(policies ...*Policy) *Caller {
	const arn = "arn:aws:sts::" + owner + ":assumed-role/reader/today"
	p := &auth.Principal{Account: owner, ARN: arn, Session: "today"}
	return &Caller{Principal: p, Role: "arn:aws:iam::" + owner + ":role/reader", Identity: policies}
}

// key returns an application key with policies.
func key(creator *Caller, policies ...*Policy) *Caller {
	p := &auth.Principal{Account: owner, ARN: "arn:aws:iam::" + owner + ":key/backup"}
	return &Caller{Principal: p, Identity: policies, Creator: creator}
}

var nobody = &Caller{Principal: auth.Anonymous}

// statement returns the JSON of a statement: the elements are pairs of a name and JSON.
func statement(effect string, elements ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"Effect": %q`, effect)
	for i := 0; i < len(elements); i += 2 {
		fmt.Fprintf(&b, ", %q: %s", elements[i], elements[i+1])
	}
	return b.String() + "}"
}

func document(statements ...string) string {
	return `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ",\n") + "]}"
}

// ofBucket compiles a policy of the bucket "b".
func ofBucket(t testing.TB, statements ...string) *Policy {
	t.Helper()
	p, err := Parse([]byte(document(statements...)), Source{Name: "bucket", Bucket: "b"})
	require.NoError(t, err)
	return p
}

// ofIdentity compiles a policy of an identity.
func ofIdentity(t testing.TB, statements ...string) *Policy {
	t.Helper()
	p, err := Parse([]byte(document(statements...)), Source{Name: "identity"})
	require.NoError(t, err)
	return p
}

// get returns a request of a caller to read the object "home/alice/x" of the bucket "b".
func get(c *Caller) *Request {
	return &Request{
		Caller: c, Action: "s3:GetObject", Facts: facts{},
		Resource: auth.Resource{Account: owner, Bucket: "b", Key: "home/alice/x"},
	}
}

// with returns a copy of a request with the policy of the bucket.
func with(q *Request, p *Policy) *Request {
	changed := *q
	changed.Bucket = p
	return &changed
}

// Elements that many statements have.
const (
	everyone = `"*"`
	objects  = `"arn:aws:s3:::b/*"`
	read     = `"s3:GetObject"`
)

func quoted(s string) string { return fmt.Sprintf("%q", s) }

func aws(principal string) string { return fmt.Sprintf(`{"AWS": %q}`, principal) }
