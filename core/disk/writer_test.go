package disk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// Content that will probably be dropped is not written to the drive before its commit, unless it is large.
func TestDefer(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	defer s.Close()
	for _, deferred := range []bool{false, true} {
		bw, err := s.Create(context.Background(), core.BlockOptions{Kind: core.Large})
		require.NoError(t, err)
		w := bw.(*writer)
		if deferred {
			deferrer, ok := core.As[core.Deferrer](bw)
			require.True(t, ok)
			deferrer.Defer()
		}
		chunk := make([]byte, 1<<20)
		for n := int64(1); n <= 36; n++ {
			_, err := bw.Write(chunk)
			require.NoError(t, err)
			if deferred && w.pos <= maxDeferred {
				require.Zero(t, w.begun)
			} else if n >= 3 {
				require.GreaterOrEqual(t, w.begun, w.pos-paceSize)
			}
		}
		require.NoError(t, bw.Commit(context.Background()))
	}
}
