package epoch_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/epoch"
)

func TestWaitsOnlyForEarlierReaders(t *testing.T) {
	var r epoch.Readers
	require.NoError(t, r.Wait(t.Context()))
	before := r.Enter()
	done := make(chan error)
	go func() { done <- r.Wait(t.Context()) }()
	require.Never(t, func() bool { return len(done) > 0 }, 20*time.Millisecond, time.Millisecond)
	after := r.Enter() // must not delay the wait
	before.Leave()
	require.NoError(t, <-done)
	after.Leave()
}

// TestCanceledWait: the wait after a canceled one works as usual.
func TestCanceledWait(t *testing.T) {
	var r epoch.Readers
	reader := r.Enter()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Wait(ctx), context.Canceled)
	require.ErrorIs(t, r.Wait(ctx), context.Canceled, "the second wait must still wait for the reader")
	reader.Leave()
	require.NoError(t, r.Wait(t.Context()))
	require.NoError(t, r.Wait(t.Context()))
}

// TestNothingIsDeletedUnderAReader: readers use a value that a writer replaces, and marks as deleted after a wait.
func TestNothingIsDeletedUnderAReader(t *testing.T) {
	var r epoch.Readers
	var current atomic.Pointer[atomic.Bool] // true: deleted
	current.Store(new(atomic.Bool))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				reader := r.Enter()
				held := current.Load()
				for range 10 {
					if held.Load() {
						t.Error("a value was deleted while a reader used it")
					}
				}
				reader.Leave()
			}
		})
	}
	for range 300 {
		old := current.Swap(new(atomic.Bool))
		require.NoError(t, r.Wait(t.Context()))
		old.Store(true)
	}
	close(stop)
	all.Wait()
}
