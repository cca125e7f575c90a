package mem_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

func TestBlocks(t *testing.T) {
	open := func(*testing.T) core.Blocks { return mem.NewBlocks() }
	coretest.Blocks(t, open)
	coretest.BlocksShared(t, open)
}

func TestCrashKeepsCommittedBytes(t *testing.T) {
	b := mem.NewBlocks()
	write := func(kind core.BlockKind, commit bool) core.Extent {
		w, err := b.Create(t.Context(), core.BlockOptions{Kind: kind})
		require.NoError(t, err)
		e := core.Extent{Block: w.Block(), Offset: w.Offset(), Length: 5}
		_, err = w.Write([]byte("hello"))
		require.NoError(t, err)
		if commit {
			require.NoError(t, w.Commit(t.Context()))
		}
		return e
	}
	kept := write(core.Packed, true)
	lost := []core.Extent{write(core.Packed, false), write(core.Large, false)}
	after := b.Crash()
	r, err := after.Open(t.Context(), kept)
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = r.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
	for _, e := range lost {
		if r, err := after.Open(t.Context(), e); err == nil {
			_, err = r.ReadAt(got, 0)
			require.Error(t, err)
		} else {
			require.True(t, core.Is(err, core.NoSuchData))
		}
	}
	w, err := after.Create(t.Context(), core.BlockOptions{Kind: core.Packed})
	require.NoError(t, err)
	require.Greater(t, w.Block().Generation(), kept.Block.Generation())
}
