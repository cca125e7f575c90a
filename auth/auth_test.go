package auth

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwners(t *testing.T) {
	const mine, other = "111122223333", "444455556666"
	root := &Principal{Account: mine, ARN: RootARN(mine)}
	for name, c := range map[string]struct {
		p       *Principal
		a       Action
		r       Resource
		allowed bool
	}{
		"owner":                     {root, "s3:GetObject", Resource{Account: mine, Bucket: "b", Key: "k"}, true},
		"owner, whole bucket":       {root, "s3:GetObject", Resource{Account: mine, Scope: EveryKey}, true},
		"another account":           {root, "s3:GetObject", Resource{Account: other, Bucket: "b", Key: "k"}, false},
		"anonymous":                 {Anonymous, "s3:GetObject", Resource{Account: mine, Bucket: "b"}, false},
		"anonymous, no owner":       {Anonymous, "s3:GetObject", Resource{Bucket: "b"}, false},
		"no owner":                  {root, "s3:GetObject", Resource{Bucket: "b"}, false},
		"no action":                 {root, "", Resource{Account: mine}, false},
		"an ARN without an account": {&Principal{ARN: RootARN(mine)}, "s3:GetObject", Resource{Account: mine}, false},
	} {
		err := Owners{}.Authorize(t.Context(), c.p, c.a, c.r, nil)
		if c.allowed {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, ErrDenied, name)
		}
	}
	require.Equal(t, "arn:aws:iam::111122223333:root", RootARN(mine))
}

func TestCanonicalID(t *testing.T) {
	// The ID of an account never changes: clients store it in access control lists.
	require.Equal(t, "6558834d78eb666ffa0c86f04c6885fcacea0d12a0eb523adb09a35a92056614", CanonicalID("111122223333"))
	require.NotEqual(t, CanonicalID("111122223333"), CanonicalID("444455556666"))
}

// BenchmarkOwners measures a decision for the owner, which almost every request needs.
func BenchmarkOwners(b *testing.B) {
	var rule Authorizer = Owners{}
	p, r := &Principal{Account: "111122223333"}, Resource{Account: "111122223333", Bucket: "b", Key: "k"}
	b.ReportAllocs()
	for b.Loop() {
		if rule.Authorize(context.Background(), p, "s3:GetObject", r, nil) != nil {
			b.Fatal("denied")
		}
	}
}
