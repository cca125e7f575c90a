package reclaim_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/core/snapshot"
	"orcas/core/sqlite"
	"orcas/fsck"
	"orcas/reclaim"
	"orcas/storetest"
)

// TestDeltas makes random changes, with compaction, multipart objects and appends, and writes deltas in between. After
// each, the metadata that is rebuilt from the chain and the later records equals that of the store.
func TestDeltas(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprint("relaxed=", relaxed), func(t *testing.T) {
			o := storetest.Options{Reclaim: reclaim.Options{DeadShare: 0.3}, Batch: batch.Options{Relaxed: relaxed}}
			store := storetest.Open(t, o)
			freed := 0
			for i := range 20 {
				store.Churn(40)
				store.Shift(20)
				if i%5 == 0 {
					store.Multipart(fmt.Sprint("multipart-", i%2))
				}
				store.Extend("multipart-0", storetest.Random(uint64(i), 5000))
				if i%8 == 0 {
					require.NoError(t, store.Reclaimer.Snapshot(ctx))
					require.Empty(t, store.Reclaimer.Newest().Deltas)
				} else {
					_, err := store.Reclaimer.Round(ctx, false) // it moves content
					require.NoError(t, err)
					report, err := store.Reclaimer.Delta(ctx)
					require.NoError(t, err)
					require.Len(t, store.Reclaimer.Newest().Deltas, i%8)
					freed += report.BlocksFreed
					require.NoError(t, store.Writer.Settle(ctx))
					store.Rebuilds(store.Crashed())
				}
				store.Churn(10)
				store.Check()
				require.NoError(t, store.Writer.Settle(ctx))
				store.Rebuilds(store.Crashed())
			}
			require.NotZero(t, freed, "deltas must cover the records of blocks that are freed")
		})
	}
}

// TestDeltasOnDisk does the same with the drivers for disks, and restarts the store between the deltas.
func TestDeltasOnDisk(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]byte{}
	for i := range 6 {
		store := storetest.Open(t, storetest.Options{Dir: dir})
		store.Rand = rand.New(rand.NewPCG(uint64(i), 7))
		store.Want = want
		store.Churn(150)
		store.Multipart("multipart")
		if i == 0 {
			require.NoError(t, store.Reclaimer.Snapshot(ctx))
		} else {
			_, err := store.Reclaimer.Round(ctx, false)
			require.NoError(t, err)
			_, err = store.Reclaimer.Delta(ctx)
			require.NoError(t, err)
			require.Len(t, store.Reclaimer.Newest().Deltas, i)
		}
		store.Check()
		store.RequireSound()
		requireRebuilt(t, store)
		want = store.Want
		store.Close()
	}
}

// requireRebuilt rebuilds the database of a store, and requires that the result equals it and that a check finds no
// difference.
func requireRebuilt(t *testing.T, store *storetest.Store) {
	t.Helper()
	again, err := sqlite.Open(filepath.Join(t.TempDir(), "rebuilt.db"), sqlite.Options{Bulk: true})
	require.NoError(t, err)
	r, err := batch.Rebuild(ctx, again, store.Blocks, slog.New(slog.DiscardHandler), false)
	require.NoError(t, err)
	require.Equal(t, store.Reclaimer.Newest().Blocks(), r.Snapshot.Blocks())
	want, err := coretest.ReadMeta(ctx, store.Meta)
	require.NoError(t, err)
	got, err := coretest.ReadMeta(ctx, again)
	require.NoError(t, err)
	require.Equal(t, want.State, got.State)
	require.Equal(t, want.Comparable(), got.Comparable())
	report, err := fsck.Check(ctx, again, store.Blocks, fsck.Options{})
	require.NoError(t, err)
	require.Zero(t, report.Found, "%+v", report)
	require.NoError(t, again.Close())
}

// TestBackgroundDeltas checks when a background round writes a delta, that blocks are freed with it, and that a chain is
// folded when its deltas exceed a third of its complete snapshot.
func TestBackgroundDeltas(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Reclaim: reclaim.Options{DeadShare: 0.95}}) // it moves nothing
	for i := range 4000 {
		store.Set(fmt.Sprint("small", i), fmt.Append(nil, i))
	}
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	base := store.Reclaimer.Newest()
	require.NotNil(t, base)
	deltas, folded, freed := 0, 0, 0
	for round := range 20 {
		for i := range 150 { // 9 MB
			store.Set(fmt.Sprint("large", i), storetest.Random(uint64(1000*round+i), 60_000))
		}
		was := store.Reclaimer.Newest()
		for range 3 {
			report, err := store.Reclaimer.Round(ctx, false)
			require.NoError(t, err)
			freed += report.BlocksFreed
		}
		now := store.Reclaimer.Newest()
		switch {
		case len(now.Deltas) > len(was.Deltas):
			deltas++
			require.LessOrEqual(t, 3*was.DeltaSize(), was.Size)
		case now.Block != was.Block:
			folded++
		}
		if round%4 == 0 {
			store.Rebuilds(store.Crashed())
		}
	}
	t.Logf("%d deltas, %d complete snapshots, %d blocks freed", deltas, folded, freed)
	require.NotZero(t, deltas)
	require.NotZero(t, folded)
	require.NotZero(t, freed)
	store.Check()
}

// TestFailedDelta checks that after an error the next snapshot is complete, and that the blocks are kept until then.
func TestFailedDelta(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Churn(100)
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	store.Churn(100)
	refuse := true
	store.Refuse = func(first core.Change) bool { return refuse }
	_, err := store.Reclaimer.Delta(ctx)
	require.Error(t, err)
	require.Empty(t, store.Reclaimer.Newest().Deltas)
	refuse = false
	store.Rebuilds(store.Crashed())
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	_, err = store.Reclaimer.Delta(ctx)
	require.NoError(t, err)
	store.Rebuilds(store.Crashed())
}

// TestDeltaOfMissingRecords deletes a block whose records no snapshot covers: there is no delta, and nothing is freed.
func TestDeltaOfMissingRecords(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Batch: batch.Options{Alone: true}}) // a block for each change
	store.Churn(20)
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	st, err := store.Meta.State(ctx)
	require.NoError(t, err)
	store.Set("missing", []byte("1"))
	store.Set("after", []byte("2"))
	var later []core.BlockID
	require.NoError(t, store.Blocks.Walk(ctx, st.ReplayFrom, func(b core.BlockInfo) error {
		if b.Kind == core.Packed && b.ID != st.ReplayFrom {
			later = append(later, b.ID)
		}
		return nil
	}))
	require.NoError(t, store.Blocks.Delete(ctx, later[0]))
	was := store.Reclaimer.Newest()
	_, err = store.Reclaimer.Delta(ctx)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	require.Equal(t, was, store.Reclaimer.Newest())
	list, err := snapshot.List(ctx, store.Blocks)
	require.NoError(t, err)
	require.Len(t, list, 1, "the delta must be deleted")
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	again := mem.NewMeta()
	_, err = batch.Rebuild(ctx, again, store.Crashed(), slog.New(slog.DiscardHandler), false)
	require.NoError(t, err, "the complete snapshot covers the missing record")
}

// spoiled damages the snapshots that are written while it is on.
type spoiled struct {
	*mem.Blocks
	on bool
}

func (s *spoiled) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	w, err := s.Blocks.Create(ctx, o)
	if err == nil && s.on && o.Kind == core.Snapshot {
		w = spoiling{w}
	}
	return w, err
}

type spoiling struct{ core.BlockWriter }

func (s spoiling) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	p[len(p)-1] ^= 1
	return s.BlockWriter.Write(p)
}

// TestDamagedDeltaCoversNothing writes a delta that is damaged on its way to the drive: it is deleted, and no block is
// freed.
func TestDamagedDeltaCoversNothing(t *testing.T) {
	blocks := &spoiled{Blocks: mem.NewBlocks()}
	store := storetest.Open(t, storetest.Options{Blocks: blocks})
	store.Churn(100)
	require.NoError(t, store.Reclaimer.Snapshot(ctx))
	was := store.Reclaimer.Newest()
	store.Churn(100)
	blocks.on = true
	_, err := store.Reclaimer.Delta(ctx)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	require.Equal(t, was, store.Reclaimer.Newest())
	store.Rebuilds(blocks.Crash())
	list, err := snapshot.List(ctx, blocks)
	require.NoError(t, err)
	require.Len(t, list, 1)
}
