package vfs_test

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
	"orcas/core/codec"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/core/reclaim"
)

// The tests of this file hold one guard of reclaim each: without it (see the mutants of package faults) something is lost.

// TestUnlinkWaitsForReaders: a reader that has opened an object reads it to its end, whatever happened to it meanwhile.
func TestUnlinkWaitsForReaders(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	body := map[string][]byte{"packed": filler(1, 20_000), "large": filler(2, 300_000)}
	for key := range body {
		y.put(key, body[key])
	}
	var closed atomic.Bool
	waits, unlinked, done := make(chan struct{}, 8), make(chan struct{}, 8), make(chan error, 1)
	y.quiet = func() { waits <- struct{}{} }
	y.hook = func(place string) {
		if place == reclaim.HookUnlinked {
			unlinked <- struct{}{}
			if !closed.Load() {
				t.Error("a block was unlinked that somebody may be about to read")
			}
		}
	}
	for key := range body {
		closed.Store(false)
		o, err := y.fs.Open(ctx, y.b, key, core.Current)
		require.NoError(t, err)
		y.set(key, filler(3, 100))
		go func() {
			_, err := y.r.Round(ctx, true)
			done <- err
		}()
		select {
		case <-waits:
		case <-unlinked: // too early
		case err := <-done:
			t.Fatalf("the round ended with %v, and freed nothing", err)
		}
		s, err := o.Range(ctx, 0, o.Info.Size)
		require.NoError(t, err, key)
		var got bytes.Buffer
		_, err = s.WriteTo(&got)
		require.NoError(t, err)
		s.Close()
		require.True(t, bytes.Equal(body[key], got.Bytes()), key)
		closed.Store(true)
		o.Close()
		require.NoError(t, <-done)
		for len(waits)+len(unlinked) > 0 {
			select {
			case <-waits:
			case <-unlinked:
			}
		}
	}
	y.check()
}

// lagging is metadata of which a power cut leaves what was kept last.
type lagging struct {
	*mem.Meta
	kept [][]byte // rows
}

// Sync implements core.Syncer.
func (l *lagging) Sync(ctx context.Context) (core.State, error) {
	if err := l.keep(ctx); err != nil {
		return core.State{}, err
	}
	return l.Meta.Sync(ctx)
}

func (l *lagging) keep(ctx context.Context) error {
	l.kept = nil
	return l.Snapshot(ctx, func(r *core.Row) error {
		l.kept = append(l.kept, core.AppendRow(nil, r))
		return nil
	})
}

// cut returns what a power cut leaves.
func (l *lagging) cut(t *testing.T) *mem.Meta {
	after := mem.NewMeta()
	if l.kept == nil {
		return after
	}
	i := 0
	require.NoError(t, after.Restore(ctx, func() (*core.Row, error) {
		if i == len(l.kept) {
			return nil, nil
		}
		row, err := core.DecodeRow(l.kept[i])
		i++
		return row, err
	}))
	return after
}

// TestPowerCutAfterEachRound: the database on the drive is older than what was applied, by as much as nobody synced. What a start needs beyond
// it must be in blocks.
func TestPowerCutAfterEachRound(t *testing.T) {
	meta := &lagging{Meta: mem.NewMeta()}
	blocks := mem.NewBlocks()
	y := newYard(t, blocks, meta, reclaim.Options{})
	t.Cleanup(func() { y.writer.Close() })
	freed := 0
	for i := range 12 {
		y.churn(20)
		require.NoError(t, meta.keep(ctx)) // at a moment of the engine's choice
		y.churn(20)
		report, err := y.r.Round(ctx, i%3 != 2)
		require.NoError(t, err)
		freed += report.BlocksFreed
		after := meta.cut(t)
		recovery, err := batch.Recover(ctx, after, blocks.Crash(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Empty(t, recovery.Missing)
		require.Nil(t, recovery.Snapshot, "the records suffice: a database that was synced is never made anew")
		want, err := coretest.ReadMeta(ctx, meta)
		require.NoError(t, err)
		got, err := coretest.ReadMeta(ctx, after)
		require.NoError(t, err)
		require.Equal(t, want.Comparable(), got.Comparable())
	}
	require.Greater(t, freed, 12)
}

// TestWhatDidNotMoveStays: a move that failed its check is no proof that its content is dead. It costs the block of it a round at most: once nothing is
// refused any more, one round empties what is left, and the next one lets it go, with a snapshot.
func TestWhatDidNotMoveStays(t *testing.T) {
	const refusals = 3
	for seed := range uint64(12) {
		y := memoryYard(t, reclaim.Options{})
		y.rand = rand.New(rand.NewPCG(seed, 3))
		y.churn(100)
		refused := 0
		y.refuse = func(first core.Change) bool {
			if _, ok := first.(*core.MoveData); ok && refused < refusals {
				refused++
				return true
			}
			return false
		}
		y.full()
		require.NotZero(t, refused, "seed %d", seed)
		y.check()
		for range refusals + 1 {
			y.full()
		}
		y.check()
		if all, live := y.used(); compression() == codec.Off { // else there is less content, and as many records
			require.Less(t, float64(all), 1.15*float64(live)+32<<10, "seed %d", seed)
		}
	}
}

// TestGarbageOutlivesAFailedUnlink: what could not be unlinked is found again by the next round, which needs no mark for it.
func TestGarbageOutlivesAFailedUnlink(t *testing.T) {
	faulty := coretest.NewFaultyBlocks(mem.NewBlocks())
	y := newYard(t, faulty, mem.NewMeta(), reclaim.Options{})
	t.Cleanup(func() { y.writer.Close() })
	y.put("large", filler(1, 300_000))
	y.set("large", filler(2, 300_000))
	faulty.Fail(coretest.Fault{Call: "Delete", Nth: 1, On: true})
	_, err := y.r.Round(ctx, false)
	require.ErrorIs(t, err, coretest.ErrInjected)
	faulty.Fail(coretest.Fault{})
	report, err := y.r.Round(ctx, false)
	require.NoError(t, err)
	require.Equal(t, 1, report.BlocksFreed)
	garbage, err := y.meta.Garbage(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, garbage)
	y.check()
}

// TestManyBlocksAreLookedUpTogether: what a round asks of the directories does not grow with the blocks that it frees.
func TestManyBlocksAreLookedUpTogether(t *testing.T) {
	counting := coretest.NewFaultyBlocks(mem.NewBlocks())
	y := newYard(t, counting, mem.NewMeta(), reclaim.Options{})
	t.Cleanup(func() { y.writer.Close() })
	for i := range 200 {
		y.put("k", filler(uint64(i), 100))
		_, errs := y.writer.DoAll(ctx, []batch.Write{{Change: &core.Void{}, Fresh: true}})
		require.NoError(t, errs[0])
	}
	y.set("k", filler(200, 100))
	counting.Fail(coretest.Fault{Call: "Walk"})
	report := y.full()
	require.Greater(t, report.BlocksFreed, 200)
	require.LessOrEqual(t, counting.Calls(), 8)
	y.check()
}

// TestBlocksOfNothingGo: a crash between making a block and its first write leaves an empty file.
func TestBlocksOfNothingGo(t *testing.T) {
	dir := t.TempDir()
	y, done := diskYard(t, dir, reclaim.Options{})
	y.set("k", filler(1, 1000))
	done()
	sub := filepath.Join(dir, "blocks", "00000001", "00000")
	require.NoError(t, os.WriteFile(filepath.Join(sub, "000000ff.packed"), nil, 0o600))
	want := y.want
	y, done = diskYard(t, dir, reclaim.Options{})
	defer done()
	y.want = want
	y.churn(20)
	y.full()
	y.full()
	y.check()
	require.NoFileExists(t, filepath.Join(sub, "000000ff.packed"))
}

// TestDamageIsNotMoved: content that is damaged would be whole again under a new checksum, with wrong bytes. Its block stays, and what is
// around it can be read.
func TestDamageIsNotMoved(t *testing.T) {
	needsPlain(t)
	dir := t.TempDir()
	y, done := diskYard(t, dir, reclaim.Options{})
	defer done()
	hurt := random(1, 30_000)
	y.put("hurt", hurt)
	y.set("whole", filler(2, 30_000))
	y.put("dead", filler(3, 60_000))
	y.set("dead", nil)
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
		require.Len(t, y.full().Damaged, 1-i, "it is told once")
		_, err := y.read("hurt", 0, -1)
		require.True(t, core.Is(err, core.Damaged), "%v", err)
		y.requireContent("whole", y.want["whole"])
	}
}
