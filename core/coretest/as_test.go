package coretest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
)

// TestWrappersHideNothing checks that the optional abilities of a wrapped driver can be reached, and that the abilities
// that a Fault can affect go through the wrapper.
func TestWrappersHideNothing(t *testing.T) {
	ctx := context.Background()
	for name, m := range map[string]core.Meta{"counting": NewCountingMeta(mem.NewMeta()), "faulty": NewFaultyMeta(mem.NewMeta())} {
		_, ok := core.As[core.SingleWriter](m)
		require.True(t, ok, name)
		_, ok = core.As[core.Guesser](m)
		require.True(t, ok, name)
		_, ok = core.As[core.Snapshotter](m)
		require.True(t, ok, name)
		_, ok = core.As[core.Syncer](m)
		require.True(t, ok, name)
		_, ok = core.As[core.Verifier](m)
		require.False(t, ok, "mem does not implement core.Verifier")
	}
	for name, b := range map[string]core.Blocks{"counting": NewCountingBlocks(mem.NewBlocks()), "faulty": NewFaultyBlocks(mem.NewBlocks())} {
		_, ok := core.As[core.Flusher](b)
		require.True(t, ok, name)
	}

	m := NewFaultyMeta(mem.NewMeta())
	syncer, _ := core.As[core.Syncer](m)
	m.Fail(Fault{Call: "Sync", Nth: 1})
	_, err := syncer.Sync(ctx)
	require.ErrorIs(t, err, ErrInjected)
	_, err = syncer.Sync(ctx)
	require.NoError(t, err)
	own, _ := core.As[core.Snapshotter](m)
	emit := func(*core.Row) error { return nil }
	m.Fail(Fault{Call: "Snapshot", Nth: 1})
	require.ErrorIs(t, own.Snapshot(ctx, emit), ErrInjected)
	require.NoError(t, own.Snapshot(ctx, emit))
	own, _ = core.As[core.Snapshotter](NewFaultyMeta(struct{ core.Meta }{mem.NewMeta()}))
	require.True(t, core.Is(own.Snapshot(ctx, emit), core.Unsupported), "the wrapped engine has no snapshots")

	b := NewFaultyBlocks(mem.NewBlocks())
	flusher, _ := core.As[core.Flusher](b)
	b.Fail(Fault{Call: "Sync", Nth: 1})
	require.ErrorIs(t, flusher.Sync(ctx), ErrInjected)
	require.NoError(t, flusher.Sync(ctx))
}
