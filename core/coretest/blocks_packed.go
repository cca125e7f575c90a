package coretest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/frame"
)

// BlocksShared runs the suite for drivers that append to packed blocks, so that small writes share a block.
func BlocksShared(t *testing.T, open func(t *testing.T) core.Blocks) {
	b := open(t)
	defer func() { require.NoError(t, b.Close()) }()
	first := commit(t, b, packed, random(1, 100))
	require.EqualValues(t, frame.BlockHeaderSize, first.extent.Offset)
	last := first
	for i := range 20 {
		commit(t, b, []core.BlockOptions{alone, large}[i%2], random(2, 100)) // these are not in the shared block
		next := commit(t, b, packed, random(uint64(i), 50+i))
		require.Equal(t, first.extent.Block, next.extent.Block)
		last.require(t, b)
		last = next
	}
	require.Len(t, walk(t, b, core.BlockID{}), 21)
}

// requireFollows checks the position of a packed writer that was created after the commit of another writer: it must be
// directly after the other data, or at the beginning of a newer block.
func requireFollows(t *testing.T, before, after put) {
	t.Helper()
	if before.extent.Block == after.extent.Block {
		require.Equal(t, before.extent.Offset+before.extent.Length, after.extent.Offset)
		return
	}
	require.EqualValues(t, frame.BlockHeaderSize, after.extent.Offset)
	require.Negative(t, bytes.Compare(before.extent.Block[:], after.extent.Block[:]), "blocks of packed writers must be in the order of creation")
}

func packedWritersFollowEachOther(t *testing.T, b core.Blocks) {
	last := commit(t, b, packed, random(1, 100))
	require.EqualValues(t, frame.BlockHeaderSize, last.extent.Offset)
	for i := range 20 {
		next := commit(t, b, packed, random(uint64(i), 50+i))
		requireFollows(t, last, next)
		last.require(t, b)
		last = next
	}
}

// severalPackedWriters tests two concurrent packed writers. They end in either order, with two commits or with an abort
// and a commit.
func severalPackedWriters(t *testing.T, b core.Blocks) {
	last := commit(t, b, packed, random(1, 100))
	puts := []put{last}
	for _, end := range []struct{ laterFirst, abort bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		var two []core.BlockWriter
		var pair []put
		for i := range 2 {
			w := create(t, b, packed)
			p := put{core.Extent{Block: w.Block(), Offset: w.Offset(), Length: 300}, random(uint64(i), 300)}
			requireFollows(t, last, p)
			two, pair = append(two, w), append(pair, p)
		}
		require.NotEqual(t, two[0].Block(), two[1].Block())
		for i, w := range two {
			_, err := w.Write(pair[i].data)
			require.NoError(t, err)
		}
		order := []int{0, 1}
		if end.laterFirst {
			order = []int{1, 0}
		}
		for n, i := range order {
			if end.abort && n == 0 {
				require.NoError(t, two[i].Abort())
				continue
			}
			require.NoError(t, two[i].Commit(t.Context()))
			puts = append(puts, pair[i])
			if bytes.Compare(pair[i].extent.Block[:], last.extent.Block[:]) >= 0 {
				last = pair[i]
			}
		}
		next := commit(t, b, packed, random(9, 10))
		requireFollows(t, last, next)
		last, puts = next, append(puts, next)
		for _, p := range puts {
			p.require(t, b)
		}
	}
}

// placementIsAHint tests that a driver accepts any placement.
func placementIsAHint(t *testing.T, b core.Blocks) {
	for _, o := range []core.BlockOptions{packed, alone, large} {
		o.Placement = "no such pool"
		commit(t, b, o, random(1, 5000)).require(t, b)
	}
}

// identityIsInTheIDs tests drivers that implement core.Identifier.
func identityIsInTheIDs(t *testing.T, b core.Blocks) {
	i, ok := core.As[core.Identifier](b)
	if !ok {
		return
	}
	store, generation := i.Identity()
	require.NotZero(t, store)
	for _, o := range []core.BlockOptions{packed, alone, large} {
		id := commit(t, b, o, random(1, 10)).extent.Block
		require.Equal(t, store, id.Store())
		require.Equal(t, generation, id.Generation())
	}
}

// begunBlocksAreListed tests drivers that implement core.WriterLister.
func begunBlocksAreListed(t *testing.T, b core.Blocks) {
	l, ok := core.As[core.WriterLister](b)
	if !ok {
		return
	}
	for _, abort := range []bool{false, true} {
		before := commit(t, b, large, random(1, 10)).extent.Block
		begun, newest := l.Begun()
		require.Empty(t, begun)
		require.Equal(t, before, newest)
		w := create(t, b, large)
		begun, newest = l.Begun()
		require.Equal(t, map[core.BlockID]bool{w.Block(): true}, begun)
		require.Equal(t, w.Block(), newest)
		if abort {
			require.NoError(t, w.Abort())
		} else {
			require.NoError(t, w.Commit(t.Context()))
		}
		begun, _ = l.Begun()
		require.Empty(t, begun)
	}
}

// identitySurvivesARestart tests drivers that implement core.Identifier: a restart must keep the number of the store,
// and increase its generation.
func identitySurvivesARestart(t *testing.T, open func() core.Blocks) {
	var store uint64
	var last uint32
	for n := range 3 {
		b := open()
		i, ok := core.As[core.Identifier](b)
		if ok {
			number, generation := i.Identity()
			require.Greater(t, generation, last)
			require.True(t, n == 0 || number == store)
			store, last = number, generation
		}
		require.NoError(t, b.Close())
	}
}

// UnsharedBlocks is a core.Blocks that cannot append to existing blocks, like an object store: each writer creates a
// new block.
type UnsharedBlocks struct{ core.Blocks }

// Create implements core.Blocks.
func (u UnsharedBlocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	o.Alone = o.Kind == core.Packed
	return u.Blocks.Create(ctx, o)
}

// Unwrap returns the wrapped Blocks, for core.As.
func (u UnsharedBlocks) Unwrap() core.Blocks { return u.Blocks }
