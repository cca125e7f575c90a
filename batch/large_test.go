package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/internal/procs"
)

// stuckBlocks lets writes to large blocks wait until the channel is closed.
type stuckBlocks struct {
	core.Blocks
	free chan struct{}
}

func (b stuckBlocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	w, err := b.Blocks.Create(ctx, o)
	if err == nil && o.Kind == core.Large {
		w = stuckWriter{w, b.free}
	}
	return w, err
}

type stuckWriter struct {
	core.BlockWriter
	free chan struct{}
}

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.free
	return w.BlockWriter.Write(p)
}

// TestTurns: only so many goroutines hash or encode large content at the same time, so that a processor is left for
// small content; and a goroutine that waits for the drive does not keep its turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := cap(procs.NewTurns())
		meta, blocks := mem.NewMeta(), stuckBlocks{mem.NewBlocks(), make(chan struct{})}
		w, err := batch.Open(t.Context(), batch.Options{Meta: meta, Blocks: blocks})
		require.NoError(t, err)
		written := make(chan error, 3*turns)
		large := func() {
			l, err := w.NewLarge(t.Context(), 10, 0, nil)
			require.NoError(t, err)
			defer l.Abort()
			written <- l.Write(make([]byte, frame.HeaderSize+10))
		}
		for range 2 * turns {
			go large()
		}
		synctest.Wait() // all of them wait for the drive
		hashing, hashed := 0, make(chan struct{})
		for range turns {
			go w.Compute(func() {
				hashing++
				<-hashed
			})
			synctest.Wait()
		}
		require.Equal(t, turns, hashing, "writers that wait for the drive have no turn")
		go w.Compute(func() { hashing++ })
		close(blocks.free)
		for range 2 * turns {
			require.NoError(t, <-written)
		}
		go large()
		synctest.Wait()
		require.Equal(t, turns, hashing)
		require.Empty(t, written, "there is no turn to encode a frame")
		_, err = w.Do(t.Context(), batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "small", Created: time.UnixMilli(1)}}})
		require.NoError(t, err, "small writes need no turn")
		close(hashed)
		require.NoError(t, <-written)
		synctest.Wait()
		require.Equal(t, turns+1, hashing)
		require.NoError(t, w.Close())
	})
}
