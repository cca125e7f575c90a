package coretest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

// TestWrappedBlocks runs the suite on the wrappers, which must behave like the drivers that they wrap.
func TestWrappedBlocks(t *testing.T) {
	t.Run("Faulty", func(t *testing.T) {
		coretest.Blocks(t, func(*testing.T) core.Blocks { return coretest.NewFaultyBlocks(mem.NewBlocks()) })
	})
	t.Run("Counting", func(t *testing.T) {
		coretest.Blocks(t, func(*testing.T) core.Blocks { return coretest.NewCountingBlocks(mem.NewBlocks()) })
	})
	t.Run("Unshared", func(t *testing.T) {
		coretest.Blocks(t, func(*testing.T) core.Blocks { return coretest.UnsharedBlocks{Blocks: mem.NewBlocks()} })
	})
	t.Run("Mirror", func(t *testing.T) {
		coretest.Blocks(t, func(*testing.T) core.Blocks { return coretest.NewMirror() })
		coretest.BlocksHeal(t, func(*testing.T) (core.Blocks, coretest.Injure) {
			m := coretest.NewMirror()
			return m, m.Injure
		})
	})
}

// script writes four bytes and reads them back. It returns their extent, the bytes that were read, and the first error.
func script(t *testing.T, b core.Blocks) (e core.Extent, got string, err error) {
	w, err := b.Create(t.Context(), core.BlockOptions{Kind: core.Packed})
	if err != nil {
		return e, "", err
	}
	defer func() { _ = w.Abort() }()
	e = core.Extent{Block: w.Block(), Offset: w.Offset(), Length: 4}
	if _, err := w.Write([]byte("abcd")); err != nil {
		return e, "", err
	}
	if err := w.Commit(t.Context()); err != nil {
		return e, "", err
	}
	p := make([]byte, 4)
	r, err := b.Open(t.Context(), e)
	if err != nil {
		return e, "", err
	}
	_, err = r.ReadAt(p, 0)
	return e, string(p), err
}

// TestFaultyBlocksFails makes each call fail in turn, with the call done or not done.
func TestFaultyBlocksFails(t *testing.T) {
	for _, done := range []bool{false, true} {
		for _, call := range []string{"Create", "Write", "Commit", "Abort", "Open", "ReadAt"} {
			inner := mem.NewBlocks()
			b := coretest.NewFaultyBlocks(inner)
			b.Fail(coretest.Fault{Call: call, Nth: 1, Done: done, Kind: core.NoSpace})
			e, got, err := script(t, b)
			require.Equal(t, 1, b.Calls(), call)
			if call == "Abort" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, coretest.ErrInjected)
			require.True(t, core.Is(err, core.NoSpace))
			require.False(t, got == "abcd" && !done, "the failed call took effect")
			if call == "Commit" {
				after := inner.Crash()
				_, err := after.Open(t.Context(), e)
				require.Equal(t, done, err == nil, "done %v; after a crash: %v", done, err)
			}
			_, got, err = script(t, b)
			require.NoError(t, err)
			require.Equal(t, "abcd", got)
		}
	}
}

func TestFaultyBlocksCountsCalls(t *testing.T) {
	b := coretest.NewFaultyBlocks(mem.NewBlocks())
	b.Fail(coretest.Fault{})
	_, _, err := script(t, b)
	require.NoError(t, err)
	require.Equal(t, 6, b.Calls())
	b.Fail(coretest.Fault{Call: "Open", Nth: 2, On: true})
	for i := range 4 {
		_, _, err := script(t, b)
		require.Equal(t, i >= 1, err != nil)
	}
}

func TestCountingBlocksCounts(t *testing.T) {
	b := coretest.NewCountingBlocks(mem.NewBlocks())
	e, _, err := script(t, b)
	require.NoError(t, err)
	require.NoError(t, b.Delete(t.Context(), e.Block))
	require.Equal(t, coretest.BlockCounts{Creates: 1, Writes: 1, Commits: 1, Opens: 1, Reads: 1, Deletes: 1, Written: 4, Read: 4}, b.Counts())
	b.Reset()
	require.Zero(t, b.Counts())
}
