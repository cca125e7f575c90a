package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/lease"
)

// leases runs the test suite for all implementations of Leases.
func leases(t *testing.T, open func(t *testing.T) lease.Leases) {
	ctx := context.Background()
	t.Run("one at a time", func(t *testing.T) {
		l := open(t)
		inside, most, runs := 0, 0, 0
		var mu sync.Mutex // guards most
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				err := l.Do(ctx, lease.Scrub, func(context.Context) error {
					inside++ // if the lease excluded nobody, the race detector would report this
					mu.Lock()
					most = max(most, inside)
					mu.Unlock()
					runs++
					inside--
					return nil
				})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 1, most)
		require.Equal(t, 20, runs)
	})
	t.Run("names are independent", func(t *testing.T) {
		l := open(t)
		require.NoError(t, l.Do(ctx, lease.Scrub, func(ctx context.Context) error {
			return l.Do(ctx, lease.Reclaim, func(context.Context) error { return nil })
		}))
	})
	t.Run("an error ends the lease", func(t *testing.T) {
		l := open(t)
		mine := errors.New("mine")
		require.ErrorIs(t, l.Do(ctx, lease.Scrub, func(context.Context) error { return mine }), mine)
		require.NoError(t, l.Do(ctx, lease.Scrub, func(context.Context) error { return nil }))
	})
	t.Run("a panic ends the lease", func(t *testing.T) {
		l := open(t)
		require.Panics(t, func() { _ = l.Do(ctx, lease.Scrub, func(context.Context) error { panic("mine") }) })
		require.NoError(t, l.Do(ctx, lease.Scrub, func(context.Context) error { return nil }))
	})
	t.Run("waiting ends with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			release, ended := make(chan struct{}), make(chan error)
			go func() { _ = l.Do(ctx, lease.Scrub, func(context.Context) error { <-release; return nil }) }()
			synctest.Wait()
			waiting, cancel := context.WithCancel(ctx)
			go func() { ended <- l.Do(waiting, lease.Scrub, func(context.Context) error { panic("held by another") }) }()
			synctest.Wait()
			cancel()
			require.True(t, core.Is(<-ended, core.Canceled))
			close(release)
			require.True(t, core.Is(l.Do(waiting, lease.Scrub, func(context.Context) error { panic("too late") }), core.Canceled))
		})
	})
	t.Run("the context of the work ends with that of the caller", func(t *testing.T) {
		l := open(t)
		mine, cancel := context.WithCancel(ctx)
		require.ErrorIs(t, l.Do(mine, lease.Scrub, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}), context.Canceled)
	})
}

func TestLocal(t *testing.T) {
	leases(t, func(*testing.T) lease.Leases { return &lease.Local{} })
}
