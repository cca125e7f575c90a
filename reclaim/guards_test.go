package reclaim_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
	"orcas/reclaim"
	"orcas/storetest"
)

// Each test in this file protects one guard of reclaim. Without the guard, data is lost (see the mutants in package
// faults).

// TestUnlinkWaitsForReaders checks that a reader that has looked up an object, but has not yet read or pinned any of
// it, can read it to its end after it was overwritten.
func TestUnlinkWaitsForReaders(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	body := map[string][]byte{"packed": storetest.Filler(1, 20_000), "large": storetest.Filler(2, 300_000)}
	for key := range body {
		store.Put(key, body[key])
	}
	var read atomic.Bool
	waits, unlinked, done := make(chan struct{}, 8), make(chan struct{}, 8), make(chan error, 1)
	store.Quiet = func() { waits <- struct{}{} }
	store.Hook = func(place string) {
		if place == reclaim.HookUnlinked {
			unlinked <- struct{}{}
			if !read.Load() {
				t.Error("a block was deleted while a lookup that may need it was in progress")
			}
		}
	}
	for key := range body {
		read.Store(false)
		o, err := store.FS.Open(ctx, store.Bucket, key, core.Current)
		require.NoError(t, err)
		store.Set(key, storetest.Filler(3, 100))
		go func() {
			_, err := store.Reclaimer.Round(ctx, true)
			done <- err
		}()
		select {
		case <-waits:
		case <-unlinked: // too early
		case err := <-done:
			t.Fatalf("the round ended without freeing anything: %v", err)
		}
		read.Store(true)
		s, err := o.Range(ctx, 0, o.Info.Size)
		require.NoError(t, err, key)
		require.NoError(t, <-done, "the round must wait only for the lookup")
		var got bytes.Buffer
		_, err = s.WriteTo(&got)
		require.NoError(t, err)
		s.Close()
		require.True(t, bytes.Equal(body[key], got.Bytes()), key)
		for len(waits)+len(unlinked) > 0 {
			select {
			case <-waits:
			case <-unlinked:
			}
		}
	}
	store.Check()
}

// lagging is metadata that loses everything since the last call of save in a power failure.
type lagging struct {
	*mem.Meta
	saved [][]byte // rows
}

// Sync implements core.Syncer.
func (l *lagging) Sync(ctx context.Context) (core.State, error) {
	if err := l.save(ctx); err != nil {
		return core.State{}, err
	}
	return l.Meta.Sync(ctx)
}

func (l *lagging) save(ctx context.Context) error {
	l.saved = nil
	return l.Snapshot(ctx, func(r *core.Row) error {
		l.saved = append(l.saved, encoding.AppendRow(nil, r))
		return nil
	})
}

// crash returns the metadata after a power failure.
func (l *lagging) crash(t *testing.T) *mem.Meta {
	after := mem.NewMeta()
	if l.saved == nil {
		return after
	}
	i := 0
	require.NoError(t, after.Restore(ctx, func() (*core.Row, error) {
		if i == len(l.saved) {
			return nil, nil
		}
		row, err := encoding.DecodeRow(l.saved[i])
		i++
		return row, err
	}))
	return after
}

// TestPowerCutAfterEachRound checks that the store can be recovered after a power failure. The database on the drive
// lacks all changes since the last sync, so the blocks must still have the records of these changes.
func TestPowerCutAfterEachRound(t *testing.T) {
	meta := &lagging{Meta: mem.NewMeta()}
	blocks := mem.NewBlocks()
	store := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: meta})
	freed := 0
	for i := range 12 {
		store.Churn(20)
		require.NoError(t, meta.save(ctx)) // the engine may write to the drive at any time
		store.Churn(20)
		report, err := store.Reclaimer.Round(ctx, i%3 != 2)
		require.NoError(t, err)
		freed += report.BlocksFreed
		after := meta.crash(t)
		recovery, err := batch.Recover(ctx, after, blocks.Crash(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Empty(t, recovery.Missing)
		require.Nil(t, recovery.Snapshot, "a database that was synced must be recovered from records, not rebuilt")
		want, err := coretest.ReadMeta(ctx, meta)
		require.NoError(t, err)
		got, err := coretest.ReadMeta(ctx, after)
		require.NoError(t, err)
		require.Equal(t, want.Comparable(), got.Comparable())
	}
	require.Greater(t, freed, 12)
}

// TestWhatDidNotMoveStays checks that content whose move failed its check is kept, because the failure does not prove
// that the content is dead. Once moves succeed again, one round must empty the block, and the next must free it, with a
// snapshot.
func TestWhatDidNotMoveStays(t *testing.T) {
	const refusals = 3
	for seed := range uint64(12) {
		store := storetest.Open(t, storetest.Options{})
		store.Rand = rand.New(rand.NewPCG(seed, 3))
		store.Churn(100)
		refused := 0
		store.Refuse = func(first core.Change) bool {
			if _, ok := first.(*core.MoveData); ok && refused < refusals {
				refused++
				return true
			}
			return false
		}
		store.Full()
		require.NotZero(t, refused, "seed %d", seed)
		store.Check()
		for range refusals + 1 {
			store.Full()
		}
		store.Check()
		if all, live := store.Used(); storetest.Compression() == core.CompressionOff { // compressed content is smaller, but records are not
			require.Less(t, float64(all), 1.15*float64(live)+32<<10, "seed %d", seed)
		}
	}
}

// TestGarbageOutlivesAFailedUnlink checks that a block that could not be deleted is found again by the next round,
// without a mark.
func TestGarbageOutlivesAFailedUnlink(t *testing.T) {
	faulty := coretest.NewFaultyBlocks(mem.NewBlocks())
	store := storetest.Open(t, storetest.Options{Blocks: faulty, Meta: mem.NewMeta()})
	store.Put("large", storetest.Filler(1, 300_000))
	store.Set("large", storetest.Filler(2, 300_000))
	faulty.Fail(coretest.Fault{Call: "Delete", Nth: 1, On: true})
	_, err := store.Reclaimer.Round(ctx, false)
	require.ErrorIs(t, err, coretest.ErrInjected)
	faulty.Fail(coretest.Fault{})
	report, err := store.Reclaimer.Round(ctx, false)
	require.NoError(t, err)
	require.Equal(t, 1, report.BlocksFreed)
	garbage, err := store.Meta.Garbage(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, garbage)
	store.Check()
}

// TestErrorEndsWithTheNextRound checks that a failure is no longer the last outcome after a round that had nothing to do.
func TestErrorEndsWithTheNextRound(t *testing.T) {
	faulty := coretest.NewFaultyBlocks(mem.NewBlocks())
	store := storetest.Open(t, storetest.Options{Blocks: faulty, Meta: mem.NewMeta()})
	faulty.Fail(coretest.Fault{Call: "Walk", Nth: 1, On: true})
	_, err := store.Reclaimer.Round(ctx, false)
	require.ErrorIs(t, err, coretest.ErrInjected)
	require.NotEmpty(t, store.Reclaimer.Status().Last.Error)
	require.Zero(t, store.Reclaimer.Status().LastSuccess)
	faulty.Fail(coretest.Fault{})
	report, err := store.Reclaimer.Round(ctx, false)
	require.NoError(t, err)
	require.Zero(t, report.BlocksFreed+report.BlocksMoved+report.Snapshots)
	require.Empty(t, store.Reclaimer.Status().Last.Error)
	require.False(t, store.Reclaimer.Status().LastSuccess.IsZero())
}

// TestManyBlocksAreLookedUpTogether checks that the number of Walk calls does not grow with the number of freed blocks.
func TestManyBlocksAreLookedUpTogether(t *testing.T) {
	counting := coretest.NewFaultyBlocks(mem.NewBlocks())
	store := storetest.Open(t, storetest.Options{Blocks: counting, Meta: mem.NewMeta()})
	for i := range 200 {
		store.Put("k", storetest.Filler(uint64(i), 100))
		_, errs := store.Writer.DoAll(ctx, []batch.Write{{Change: &core.Void{}, Fresh: true}})
		require.NoError(t, errs[0])
	}
	store.Set("k", storetest.Filler(200, 100))
	counting.Fail(coretest.Fault{Call: "Walk"})
	report := store.Full()
	require.Greater(t, report.BlocksFreed, 200)
	require.LessOrEqual(t, counting.Calls(), 8)
	store.Check()
}

// TestEmptyBlocksAreDeleted checks that reclaim deletes empty files, which a crash between the creation of a block and
// its first write leaves.
func TestEmptyBlocksAreDeleted(t *testing.T) {
	dir := t.TempDir()
	store := storetest.Open(t, storetest.Options{Dir: dir})
	store.Set("k", storetest.Filler(1, 1000))
	store.Close()
	sub := filepath.Join(dir, "blocks", "00000001", "00000")
	require.NoError(t, os.WriteFile(filepath.Join(sub, "000000ff.packed"), nil, 0o600))
	want := store.Want
	store = storetest.Open(t, storetest.Options{Dir: dir})
	store.Want = want
	store.Churn(20)
	store.Full()
	store.Full()
	store.Check()
	require.NoFileExists(t, filepath.Join(sub, "000000ff.packed"))
}

// TestDamageIsNotMoved checks that damaged content is not moved, because with a new checksum its wrong bytes would look
// intact. Its block must be kept, and the other content of the block must remain readable.
func TestDamageIsNotMoved(t *testing.T) {
	storetest.NeedsPlain(t)
	dir := t.TempDir()
	store := storetest.Open(t, storetest.Options{Dir: dir})
	hurt := storetest.Random(1, 30_000)
	store.Put("hurt", hurt)
	store.Set("whole", storetest.Filler(2, 30_000))
	store.Put("dead", storetest.Filler(3, 60_000))
	store.Set("dead", nil)
	flipped := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".packed" {
			return err
		}
		b, err := os.ReadFile(path)
		at := bytes.Index(b, hurt[:100])
		if err != nil || at < 0 {
			return err
		}
		flipped++
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{b[at+50] ^ 1}, int64(at)+50)
		return errors.Join(err, f.Close())
	}))
	require.Equal(t, 1, flipped)
	for i := range 2 {
		require.Len(t, store.Full().Damaged, 1-i, "damage must be reported once")
		_, err := store.Read("hurt", 0, -1)
		require.True(t, core.Is(err, core.Damaged), "%v", err)
		store.RequireContent("whole", store.Want["whole"])
	}
}
