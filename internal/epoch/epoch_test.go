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

func TestWaitForThoseBeforeOnly(t *testing.T) {
	var r epoch.Readers
	require.NoError(t, r.Wait(t.Context()))
	before := r.Enter()
	done := make(chan error)
	go func() { done <- r.Wait(t.Context()) }()
	require.Never(t, func() bool { return len(done) > 0 }, 20*time.Millisecond, time.Millisecond)
	after := r.Enter() // does not hold the wait up
	before.Leave()
	require.NoError(t, <-done)
	after.Leave()
}

// TestGivenUp: a wait that was given up leaves nothing behind that the next would trip over.
func TestGivenUp(t *testing.T) {
	var r epoch.Readers
	reader := r.Enter()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Wait(ctx), context.Canceled)
	require.ErrorIs(t, r.Wait(ctx), context.Canceled, "the reader of two turns ago is waited for still")
	reader.Leave()
	require.NoError(t, r.Wait(t.Context()))
	require.NoError(t, r.Wait(t.Context()))
}

// TestNothingIsTakenAwayUnderAReader has readers use what a writer takes away after each wait.
func TestNothingIsTakenAwayUnderAReader(t *testing.T) {
	var r epoch.Readers
	var current atomic.Pointer[atomic.Bool] // true: taken away
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
						t.Error("taken away under a reader")
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
