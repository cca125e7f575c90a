package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// manyStatements returns n statements that are about the action of get, and compare its resource and a condition, but
// do not match.
func manyStatements(n int, more ...string) (list []string) {
	for i := range n {
		effect := []string{"Allow", "Deny"}[i%2]
		elements := append([]string{
			"Action", `["s3:GetObject", "s3:PutObject"]`, "Resource", fmt.Sprintf(`["arn:aws:s3:::b/x%d/*", "arn:aws:s3:::b/home/*"]`, i),
			"Condition", fmt.Sprintf(`{"IpAddress": {"aws:SourceIp": ["198.51.100.%d", "203.0.113.0/24"]}}`, i),
		}, more...)
		list = append(list, statement(effect, elements...))
	}
	return list
}

// fortyStatements returns a request that an identity with 20 statements and a bucket policy with 20 statements allow,
// by the last one.
func fortyStatements(t testing.TB) *Request {
	everything := statement("Allow", "Action", read, "Resource", objects)
	q := get(user(owner, ofIdentity(t, append(manyStatements(19), everything)...)))
	q.Bucket = ofBucket(t, manyStatements(20, "Principal", everyone)...)
	q.Facts = facts{"aws:SourceIp": "192.0.2.1"}
	return q
}

// TestAllocations: a decision about the root allocates nothing, and one about many statements only the resource's ARN.
func TestAllocations(t *testing.T) {
	q := get(root(owner))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if Decide(q).Decision != Allowed {
			t.Fatal("denied")
		}
	}))
	many := fortyStatements(t)
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() {
		if Decide(many).Decision != Allowed {
			t.Fatal("denied")
		}
	}))
}

func BenchmarkRoot(b *testing.B) {
	q := get(root(owner))
	b.ReportAllocs()
	for b.Loop() {
		if Decide(q).Decision != Allowed {
			b.Fatal("denied")
		}
	}
}

// BenchmarkFortyStatements measures 20 statements of the identity and 20 of the bucket, each of which is about the
// action and the resource and has a condition.
func BenchmarkFortyStatements(b *testing.B) {
	q := fortyStatements(b)
	b.ReportAllocs()
	for b.Loop() {
		if Decide(q).Decision != Allowed {
			b.Fatal("denied")
		}
	}
}

// BenchmarkVariable measures a statement with a variable in its resource.
func BenchmarkVariable(b *testing.B) {
	q := get(user(owner, ofIdentity(b, statement("Allow", "Action", read, "Resource", `"arn:aws:s3:::b/home/${aws:username}/*"`))))
	b.ReportAllocs()
	for b.Loop() {
		if Decide(q).Decision != Allowed {
			b.Fatal("denied")
		}
	}
}

func BenchmarkDecideAny(b *testing.B) {
	q := get(user(owner, ofIdentity(b, statement("Allow", "Action", `"s3:PutObject"`, "Resource", `"arn:aws:s3:::b/in/*"`))))
	b.ReportAllocs()
	for b.Loop() {
		if DecideAny(q).Decision != Allowed {
			b.Fatal("denied")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	doc := []byte(document(manyStatements(20)...))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(doc, Source{}); err != nil {
			b.Fatal(err)
		}
	}
}
