package feed

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/coretest"
)

// silent are the kinds of changes that have no events.
var silent = map[core.ChangeKind]bool{
	core.ChangeSetReplayFrom: true, core.ChangeSynced: true, core.ChangeVoid: true,
	core.ChangeFreeGarbage: true, core.ChangeDropParts: true,
}

// TestEveryKindHasItsEvents passes every kind of change to appendEvents, which panics if it does not know the kind.
func TestEveryKindHasItsEvents(t *testing.T) {
	seen := map[core.ChangeKind]bool{}
	check := func(t *rapid.T, c core.Change) {
		seen[c.Kind()] = true
		seq := core.SeqCount(c) + 100
		events := appendEvents(nil, c, seq)
		want := int(core.SeqCount(c))
		if silent[c.Kind()] {
			want = 0
		}
		require.Len(t, events, want, "%T", c)
		for i, e := range events {
			require.Equal(t, seq+core.Seq(i+1-want), e.Seq, "an event for each sequence, in order")
			require.NotZero(t, e.Kind)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 50 { // enough to draw every kind at least once
			check(t, coretest.RandomChange(t))
		}
	})
	for _, kind := range coretest.RandomKinds() {
		require.True(t, seen[kind], "kind %d was never drawn", kind)
	}
}
