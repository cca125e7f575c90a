package reclaim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/reclaim"
)

// shared is a block store that contains the blocks of two stores. New blocks belong to own.
type shared struct{ own, other *mem.Blocks }

func (s *shared) of(id core.BlockID) core.Blocks {
	if id.Store() == storeOf(s.own) {
		return s.own
	}
	return s.other
}

func (s *shared) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	return s.own.Create(ctx, o)
}

func (s *shared) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	return s.of(e.Block).Open(ctx, e)
}

func (s *shared) Delete(ctx context.Context, id core.BlockID) error { return s.of(id).Delete(ctx, id) }

func (s *shared) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	for _, b := range []*mem.Blocks{s.other, s.own} { // in the order of their IDs (see newShared)
		if err := b.Walk(ctx, from, fn); err != nil {
			return err
		}
	}
	return nil
}

func (s *shared) Close() error { return nil }

// storeOf returns the store number in the block IDs of b. To find it, it creates a block and aborts it.
func storeOf(b *mem.Blocks) uint64 {
	w, err := b.Create(context.Background(), core.BlockOptions{Kind: core.Large})
	if err != nil {
		panic(err)
	}
	defer w.Abort()
	return w.Block().Store()
}

// newShared returns a block store in which the blocks of other have lower IDs and an earlier generation than those of
// own. If they belonged to own, they would be garbage.
func newShared() *shared {
	for {
		s := &shared{own: mem.NewBlocks().Crash(), other: mem.NewBlocks()}
		if storeOf(s.other) < storeOf(s.own) {
			return s
		}
	}
}

func blocksOf(t *testing.T, b core.Blocks) (list []core.BlockInfo) {
	require.NoError(t, b.Walk(t.Context(), core.BlockID{}, func(i core.BlockInfo) error {
		list = append(list, i)
		return nil
	}))
	return list
}

// TestBlocksOfOthersStay checks that a round does not touch the blocks and the snapshot of another store in the same
// place, although the metadata does not refer to them.
func TestBlocksOfOthersStay(t *testing.T) {
	ctx := t.Context()
	blocks, meta := newShared(), mem.NewMeta()
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: blocks})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	r, err := reclaim.New(ctx, reclaim.Options{Meta: meta, Blocks: blocks, Writer: w})
	require.NoError(t, err)

	for _, kind := range []core.BlockKind{core.Packed, core.Large, core.Snapshot} {
		bw, err := blocks.other.Create(ctx, core.BlockOptions{Kind: kind})
		require.NoError(t, err)
		_, err = bw.Write(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, bw.Commit(ctx))
	}
	others := blocksOf(t, blocks.other)

	res, err := w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b"}}})
	require.NoError(t, err)
	for i := range 100 {
		_, err := w.Do(ctx, putting(w, core.BucketID(res.Seq), fmt.Sprint("key", i%2), make([]byte, 32<<10)))
		require.NoError(t, err)
	}
	report, err := r.Round(ctx, true)
	require.NoError(t, err)
	require.Positive(t, report.BlocksFreed, "dead blocks of this store were not freed")
	require.NoError(t, r.Snapshot(ctx))
	require.NoError(t, r.Snapshot(ctx))
	require.Equal(t, others, blocksOf(t, blocks.other))
	snapshots := 0
	for _, b := range blocksOf(t, blocks.own) {
		if b.Kind == core.Snapshot {
			snapshots++
		}
	}
	require.Equal(t, 1, snapshots, "the old snapshot of this store still exists")
}

// putting returns the write of an object.
func putting(w *batch.Writer, bucket core.BucketID, key string, content []byte) batch.Write {
	info := &core.DataInfo{ID: w.NewData(), Size: int64(len(content)), ChunkSize: frame.MaxPlain}
	o := core.ObjectInfo{Bucket: bucket, Key: key, Modified: time.UnixMilli(5).UTC(), Size: info.Size, ETag: "e"}
	o.Segments = []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}
	return batch.Write{Change: &core.PutObject{Object: o}, Info: info, Content: content}
}
