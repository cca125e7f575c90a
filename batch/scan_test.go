package batch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

// cutBlocks wraps Blocks, and ends each block at the offset that Cut returned for it.
type cutBlocks struct {
	core.Blocks
	ends map[core.BlockID]int64
}

func (c *cutBlocks) Unwrap() core.Blocks { return c.Blocks }

func (c *cutBlocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return c.Blocks.Walk(ctx, from, func(b core.BlockInfo) error {
		if b.Size = c.ends[b.ID]; b.Size == 0 {
			return nil
		}
		return fn(b)
	})
}

// TestCut cuts the blocks at each state, and checks that a replay of the cut blocks ends at exactly that state.
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

// TestCutOfATornBatch checks that recovery of a store that ends with a torn batch and replay of a copy of it have the
// same result: both apply those writes of the batch whose content is complete.
func TestCutOfATornBatch(t *testing.T) {
	s := newStore(t, batch.Options{})
	require.NoError(t, s.put("before", []byte("1")))
	var writes []batch.Write
	for _, key := range []string{"a", "b", "c"} {
		writes = append(writes, putting(s.w, s.bucket, key, []byte("content of "+key)))
	}
	results, errs := s.w.DoAll(ctx, writes)
	for i, err := range errs {
		require.NoError(t, err)
		require.NotZero(t, results[i].Seq)
	}
	e := writes[2].Info.Extents[0]
	torn := &patched{Blocks: s.mem, block: e.Block, at: e.Offset + e.Length - 1, flip: 1}
	recovered := mem.NewMeta()
	_, err := batch.Recover(ctx, recovered, torn, discard())
	require.NoError(t, err)
	st, err := recovered.State(ctx)
	require.NoError(t, err)
	require.Equal(t, results[1].Seq, st.Seq)
	cut := &cutBlocks{torn, map[core.BlockID]int64{}}
	require.NoError(t, torn.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		cut.ends[b.ID], _, err = batch.Cut(ctx, torn, b, st)
		return err
	}))
	again := mem.NewMeta()
	_, err = batch.Recover(ctx, again, cut, discard())
	require.NoError(t, err)
	want, err := coretest.ReadMeta(ctx, recovered)
	require.NoError(t, err)
	got, err := coretest.ReadMeta(ctx, again)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
