package batch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/mem"
)

// cutBlocks is Blocks that end where Cut says.
type cutBlocks struct {
	core.Blocks
	ends map[core.BlockID]int64
}

func (c *cutBlocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return c.Blocks.Walk(ctx, from, func(b core.BlockInfo) error {
		if b.Size = c.ends[b.ID]; b.Size == 0 {
			return nil
		}
		return fn(b)
	})
}

// TestCut: a block that is cut replays to exactly the sequence it was cut at.
func TestCut(t *testing.T) {
	ctx := t.Context()
	blocks, meta := mem.NewBlocks(), mem.NewMeta()
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(t, err)
	var states []core.State
	for i := range 40 {
		_, err := w.Do(ctx, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "k", Key: string(rune('a' + i)), Value: []byte{1}}}, Fresh: i%15 == 14})
		require.NoError(t, err)
		st, err := meta.State(ctx)
		require.NoError(t, err)
		states = append(states, st)
	}
	require.NoError(t, w.Close())
	for _, want := range append([]core.State{{NextData: 1}}, states...) {
		cut := &cutBlocks{blocks, map[core.BlockID]int64{}}
		require.NoError(t, blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
			end, _, err := batch.Cut(ctx, blocks, b, want)
			cut.ends[b.ID] = end
			return err
		}))
		again := mem.NewMeta()
		_, err := batch.Recover(ctx, again, cut, discard())
		require.NoError(t, err)
		got, err := again.State(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
