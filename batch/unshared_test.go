package batch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// copyMeta returns a copy of the metadata.
func copyMeta(t *testing.T, m *mem.Meta) *mem.Meta {
	var rows []*core.Row
	require.NoError(t, m.Snapshot(ctx, func(r *core.Row) error {
		row, err := encoding.DecodeRow(encoding.AppendRow(nil, r))
		rows = append(rows, row)
		return err
	}))
	again := mem.NewMeta()
	require.NoError(t, again.Restore(ctx, func() (row *core.Row, err error) {
		if len(rows) > 0 {
			row, rows = rows[0], rows[1:]
		}
		return row, nil
	}))
	return again
}

// TestBlocksThatCannotBeAppendedTo checks that each batch gets a block of its own, and that a start replays the batches
// that the metadata lacks.
func TestBlocksThatCannotBeAppendedTo(t *testing.T) {
	const writes = 20
	for _, lost := range []int{0, 1, 7, writes} { // the number of writes at the end that the metadata lacks
		inner, meta := mem.NewBlocks(), mem.NewMeta()
		w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: coretest.UnsharedBlocks{Blocks: inner}})
		require.NoError(t, err)
		res, err := w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b"}}})
		require.NoError(t, err)
		bucket := core.BucketID(res.Seq)
		kept := copyMeta(t, meta)
		for i := range writes {
			_, err := w.Do(ctx, putting(w, bucket, fmt.Sprint(i), fmt.Append(nil, "content ", i)))
			require.NoError(t, err)
			if i == writes-lost-1 { // the metadata after the crash
				kept = copyMeta(t, meta)
			}
		}
		require.NoError(t, w.Close())
		count := 0
		require.NoError(t, inner.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { count++; return nil }))
		require.Equal(t, 1+writes, count)

		after := coretest.UnsharedBlocks{Blocks: inner.Crash()}
		r, err := batch.Recover(ctx, kept, after, discard())
		require.NoError(t, err)
		require.Equal(t, 2*lost, r.Applied, "each batch also advances State.ReplayFrom")
		for i := range writes {
			got, err := read(kept, after, bucket, fmt.Sprint(i))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("content ", i), string(got))
		}
	}
}
