package coretest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/frame"
)

// BlocksReopen runs the suite for drivers whose stores survive a restart. Place returns a function that opens a store,
// which is empty at first. The function is called again only after the store has been closed.
func BlocksReopen(t *testing.T, place func(t *testing.T) func() core.Blocks) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open func() core.Blocks)
	}{
		{"CommittedBytesSurviveARestart", committedBytesSurviveARestart},
		{"EarlierBlocksAreNeverAppendedTo", earlierBlocksAreNeverAppendedTo},
		{"DeletedBlocksRemainDeleted", deletedBlocksRemainDeleted},
		{"UnfinishedWritersKeepOtherData", unfinishedWritersKeepOtherData},
		{"IdentitySurvivesARestart", identitySurvivesARestart},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
}

func committedBytesSurviveARestart(t *testing.T, open func() core.Blocks) {
	var puts []put
	for range 3 {
		b := open()
		for i := range 5 {
			for _, o := range []core.BlockOptions{packed, alone, large} {
				puts = append(puts, commit(t, b, o, random(uint64(i), 1000*i)))
			}
		}
		for _, p := range puts {
			p.require(t, b)
		}
		require.NoError(t, b.Close())
	}
	b := open()
	last := core.BlockID{}
	for _, i := range walk(t, b, core.BlockID{}) {
		require.Negative(t, bytes.Compare(last[:], i.ID[:]), "a walk must be in the order of generations")
		last = i.ID
	}
	for _, p := range puts {
		p.require(t, b)
	}
	require.NoError(t, b.Close())
}

func earlierBlocksAreNeverAppendedTo(t *testing.T, open func() core.Blocks) {
	var last core.BlockID
	for range 4 {
		b := open()
		for _, o := range []core.BlockOptions{packed, alone, large} {
			p := commit(t, b, o, random(1, 10))
			require.EqualValues(t, frame.BlockHeaderSize, p.extent.Offset)
			require.Positive(t, bytes.Compare(p.extent.Block[:], last[:]), "an ID was reused")
			last = p.extent.Block
		}
		require.NoError(t, b.Close())
	}
}

func deletedBlocksRemainDeleted(t *testing.T, open func() core.Blocks) {
	b := open()
	p, q := commit(t, b, large, random(1, 10)), commit(t, b, large, random(2, 10))
	require.NoError(t, b.Delete(t.Context(), p.extent.Block))
	require.NoError(t, b.Close())
	b = open()
	require.True(t, core.Is(p.check(t, b), core.NoSuchData))
	q.require(t, b)
	require.Len(t, walk(t, b, core.BlockID{}), 1)
	require.NoError(t, b.Close())
}

func unfinishedWritersKeepOtherData(t *testing.T, open func() core.Blocks) {
	b := open()
	p := commit(t, b, packed, random(1, 500))
	for _, o := range []core.BlockOptions{packed, large} {
		_, err := create(t, b, o).Write(random(2, 300))
		require.NoError(t, err)
	}
	require.NoError(t, b.Close())
	b = open()
	p.require(t, b)
	commit(t, b, packed, random(3, 500)).require(t, b)
	require.NoError(t, b.Close())
}
