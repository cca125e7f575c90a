package core_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

type (
	engine struct {
		core.Meta
		name string
	}
	wrapper     struct{ core.Meta }
	checkpoints struct{ wrapper }
	opaque      struct{ core.Meta }

	store  struct{ core.Blocks }
	around struct{ core.Blocks }

	file  struct{ core.BlockWriter }
	lined struct{ core.BlockWriter }
)

func (engine) Verify(context.Context) ([]string, error) { return nil, nil }
func (engine) Checkpoint(context.Context) error         { return nil }
func (w wrapper) Unwrap() core.Meta                     { return w.Meta }
func (checkpoints) Checkpoint(context.Context) error    { return nil }
func (store) Sync(context.Context) error                { return nil }
func (a around) Unwrap() core.Blocks                    { return a.Blocks }
func (file) Defer()                                     {}
func (l lined) Unwrap() core.BlockWriter                { return l.BlockWriter }

// TestAs checks that As finds abilities through any number of wrappers, and returns the outermost implementation.
func TestAs(t *testing.T) {
	bottom := engine{name: "bottom"}
	verifier, ok := core.As[core.Verifier](bottom)
	require.True(t, ok)
	require.Equal(t, bottom, verifier)
	own := checkpoints{wrapper{bottom}}
	verifier, ok = core.As[core.Verifier](wrapper{wrapper{own}})
	require.True(t, ok, "through three wrappers")
	require.Equal(t, bottom, verifier)
	checkpointer, ok := core.As[core.Checkpointer](wrapper{own})
	require.True(t, ok)
	require.Equal(t, own, checkpointer, "a wrapper that implements the ability comes before the engine")
	_, ok = core.As[core.Syncer](wrapper{bottom})
	require.False(t, ok, "no layer implements it")
	_, ok = core.As[core.Verifier](opaque{bottom})
	require.False(t, ok, "no Unwrap")
	_, ok = core.As[core.Verifier](nil)
	require.False(t, ok)
	_, ok = core.As[core.Verifier](wrapper{})
	require.False(t, ok)

	flusher, ok := core.As[core.Flusher](around{around{store{}}})
	require.True(t, ok)
	require.Equal(t, store{}, flusher)
	deferrer, ok := core.As[core.Deferrer](lined{file{}})
	require.True(t, ok)
	require.Equal(t, file{}, deferrer)
}
