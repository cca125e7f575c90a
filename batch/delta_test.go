package batch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/core/snapshot"
)

// delta extends a snapshot by the changes in the blocks.
func delta(meta core.Meta, blocks core.Blocks, after *snapshot.Info) (*snapshot.Info, error) {
	st, err := meta.State(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot.WriteDelta(ctx, blocks, after, st, func(emit func([]core.Change) error) error {
		return batch.Changes(ctx, blocks, after.State, st.Seq, emit)
	}, snapshot.WriteOptions{})
}

// requireChain requires that a chain restores to the metadata, with the same state.
func requireChain(t *testing.T, meta core.Meta, blocks core.Blocks, info *snapshot.Info) {
	t.Helper()
	fresh := mem.NewMeta()
	require.NoError(t, snapshot.Restore(ctx, blocks, info, fresh))
	want, err := coretest.ReadMeta(ctx, meta)
	require.NoError(t, err)
	got, err := coretest.ReadMeta(ctx, fresh)
	require.NoError(t, err)
	require.Equal(t, want.State, got.State)
	require.Equal(t, want.Comparable(), got.Comparable())
}

// TestDeltaOfRecords writes deltas between batches that are applied, batches that fail, and changes whose condition is
// not met. Afterwards the metadata is rebuilt without the records that the chain covers.
func TestDeltaOfRecords(t *testing.T) {
	for _, o := range []batch.Options{{}, {Alone: true}, {Relaxed: true}} {
		s := newStore(t, o)
		own, ok := core.As[core.Snapshotter](s.meta)
		require.True(t, ok)
		history(t, s, 5)
		info, err := snapshot.Write(ctx, own, s.mem, snapshot.WriteOptions{})
		require.NoError(t, err)
		for i := range 8 {
			require.NoError(t, s.put(fmt.Sprint("kept ", i%3), random(uint64(i), 300)))
			if i%2 == 0 {
				s.meta.failNext(core.NoSpace)
				require.Error(t, s.put("kept 0", []byte("not applied")))
			}
			if i%3 == 0 {
				missed := putting(s.w, s.bucket, "kept 1", []byte("not met"))
				missed.Change.(*core.PutObject).If.NoneMatch = []string{"*"}
				_, err := s.w.Do(ctx, missed)
				require.Equal(t, i > 0, core.Is(err, core.PreconditionFailed), "%v", err)
			}
			_, err := s.w.Do(ctx, batch.Write{Change: &core.DeleteObject{Bucket: s.bucket, Key: "kept 2"}})
			require.NoError(t, err)
			info, err = delta(s.meta, s.mem, info)
			require.NoError(t, err)
			requireChain(t, s.meta, s.mem, info)
		}
		require.NoError(t, s.put("later", []byte("1")))
		require.NoError(t, s.w.Settle(ctx))
		st, err := s.meta.State(ctx)
		require.NoError(t, err)
		require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
			if b.Kind == core.Packed && b.ID.Before(info.ReplayFrom) {
				return s.mem.Delete(ctx, b.ID)
			}
			return nil
		}))
		fresh := mem.NewMeta()
		r, err := batch.Rebuild(ctx, fresh, s.mem.Crash(), discard(), false)
		require.NoError(t, err)
		require.Len(t, r.Snapshot.Deltas, 8)
		require.Equal(t, st.Seq, r.Seq)
		s.rebuildEquals()
	}
}

// TestDeltaAfterATornBatch writes a delta after a start that dropped a write because its content was incomplete. The
// delta lacks that write, even if its content becomes readable again.
func TestDeltaAfterATornBatch(t *testing.T) {
	s := newStore(t, batch.Options{})
	own, ok := core.As[core.Snapshotter](s.meta)
	require.True(t, ok)
	info, err := snapshot.Write(ctx, own, s.mem, snapshot.WriteOptions{})
	require.NoError(t, err)
	e := s.putBatch(t)
	blocks := s.mem.Crash()
	meta := mem.NewMeta()
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: &patched{Blocks: blocks, block: e.Block, at: e.Offset + 500, flip: 1}})
	require.NoError(t, err)
	defer w.Close()
	info, err = delta(meta, blocks, info)
	require.NoError(t, err)
	requireChain(t, meta, blocks, info)
	_, err = meta.Object(ctx, s.bucket, "2", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
}

// TestDamagedDelta rebuilds metadata from a chain with a damaged delta: the beginning of the chain and the records
// replace it as long as these exist, and otherwise the rebuild is refused.
func TestDamagedDelta(t *testing.T) {
	s := newStore(t, batch.Options{Alone: true})
	own, ok := core.As[core.Snapshotter](s.meta)
	require.True(t, ok)
	history(t, s, 9)
	info, err := snapshot.Write(ctx, own, s.mem, snapshot.WriteOptions{})
	require.NoError(t, err)
	var covered []core.BlockID
	for i := range 3 {
		require.NoError(t, s.put(fmt.Sprint("delta ", i), random(uint64(i), 100)))
		info, err = delta(s.meta, s.mem, info)
		require.NoError(t, err)
		covered = append(covered, info.ReplayFrom)
	}
	require.NoError(t, s.put("later", []byte("1")))
	last := info.Deltas[1]
	p := &patched{Blocks: s.mem, block: last.Block, at: last.Size - 1, flip: 1}
	want, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(t, err)
	fresh := mem.NewMeta()
	r, err := batch.Rebuild(ctx, fresh, p, discard(), false)
	require.NoError(t, err)
	require.Len(t, r.Snapshot.Deltas, 1)
	got, err := coretest.ReadMeta(ctx, fresh)
	require.NoError(t, err)
	require.Equal(t, want.Comparable(), got.Comparable())
	require.NoError(t, s.mem.Delete(ctx, covered[1]))
	_, err = batch.Rebuild(ctx, mem.NewMeta(), p, discard(), false)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	r, err = batch.Rebuild(ctx, mem.NewMeta(), s.mem, discard(), false)
	require.NoError(t, err, "the intact chain covers the record")
	require.Len(t, r.Snapshot.Deltas, 3)
}
