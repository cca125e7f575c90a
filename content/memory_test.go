package content

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// TestBudget: bytes are given in the order of arrival, a share of more than everything takes everything, and a waiter
// that leaves does not block those behind it.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBudget(100), t.Context()
		all, err := b.acquire(ctx, 1000)
		require.NoError(t, err)
		require.EqualValues(t, 100, all)
		require.False(t, b.try(1))
		require.Zero(t, b.queue())
		leaving, leave := context.WithCancel(ctx)
		got := make(chan int64, 3)
		wait := func(ctx context.Context, n int64) {
			go func() {
				taken, err := b.acquire(ctx, n)
				if err != nil {
					taken = -1
				}
				got <- taken
			}()
			synctest.Wait()
		}
		wait(leaving, 90)
		wait(ctx, 60)
		wait(ctx, 30)
		require.Empty(t, got)
		b.release(all)
		synctest.Wait()
		require.EqualValues(t, 90, <-got)
		require.Empty(t, got, "60 do not fit beside 90, and 30 came later")
		b.release(90)
		synctest.Wait()
		require.EqualValues(t, 90, <-got+<-got)
		wait(leaving, 50)
		wait(ctx, 10)
		require.Empty(t, got, "10 came after 50")
		require.False(t, b.try(10))
		require.Equal(t, 2, b.queue())
		leave()
		synctest.Wait()
		require.EqualValues(t, 9, <-got+<-got, "50 has left, so 10 fits")
		require.EqualValues(t, 100, b.used)
	})
}

// TestBudgetPatience: whoever waits for memory for too long gets Overloaded, and those who do not wait exceed it.
func TestBudgetPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		require.True(t, b.try(10))
		_, err := b.acquire(t.Context(), 1)
		require.True(t, core.Is(err, core.Overloaded), "%v", err)
		require.ErrorIs(t, err, ErrNoMemory)
		require.EqualValues(t, 5, b.take(5))
		require.EqualValues(t, 15, b.used)
		n, err := b.acquire(t.Context(), 0)
		require.NoError(t, err, "empty content needs no memory")
		require.Zero(t, n)
	})
}

// TestNoBudget: without a bound nothing is counted.
func TestNoBudget(t *testing.T) {
	b := newBudget(0)
	n, err := b.acquire(t.Context(), 1<<40)
	require.NoError(t, err)
	require.Zero(t, n)
	require.True(t, b.try(1<<40))
	require.Zero(t, b.queue())
	require.Zero(t, b.take(1))
	b.release(n)
}
