package declared

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/admin"
)

// TestApplyStops: the result has the changes that were made and the one that failed, and its error; later ones are not
// tried.
func TestApplyStops(t *testing.T) {
	broken := errors.New("broken")
	key := &admin.AppliedKey{AccessKey: "AKIA"}
	change := func(name string, key *admin.AppliedKey, err error) step {
		return step{admin.AppliedChange{Action: "create", Kind: "user", Name: name}, func(context.Context) (*admin.AppliedKey, error) { return key, err }}
	}
	keep := func(*admin.AppliedKey) error { return nil }
	p := &Plan{[]step{change("a", key, nil), change("b", nil, broken), change("c", nil, nil)}}
	done := p.Apply(t.Context(), keep)
	require.Equal(t, p.Changes()[:1], done.Changes)
	require.Equal(t, &p.Changes()[1], done.Refused)
	require.ErrorIs(t, done.Err, broken)
	require.Equal(t, "user b: broken", done.Failed)

	done = p.Apply(t.Context(), func(*admin.AppliedKey) error { return broken })
	require.Equal(t, p.Changes()[:1], done.Changes, "the change was made")
	require.Nil(t, done.Refused)
	require.ErrorIs(t, done.Err, broken)

	done = (&Plan{p.steps[2:]}).Apply(t.Context(), keep)
	require.Len(t, done.Changes, 1)
	require.NoError(t, done.Err)
	require.Nil(t, done.Refused)
	require.Empty(t, done.Failed)
}
