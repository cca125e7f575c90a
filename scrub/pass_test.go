package scrub_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/scrub"
	"orcas/storetest"
)

// gatedBlocks counts how often each block is opened, and may delay the next one.
type gatedBlocks struct {
	core.Blocks
	mu     sync.Mutex // guards the fields below
	opened map[core.BlockID]int
	gate   func(n int) // called with the number of blocks that have been opened before
}

func (b *gatedBlocks) Unwrap() core.Blocks { return b.Blocks }

func (b *gatedBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	b.mu.Lock()
	n, gate := len(b.opened), b.gate
	b.opened[e.Block]++
	b.mu.Unlock()
	if gate != nil {
		gate(n)
	}
	return b.Blocks.Open(ctx, e)
}

// slowScrubber returns a Scrubber over 20 large blocks, whose background passes read one byte per second.
func slowScrubber(t *testing.T) (s *scrub.Scrubber, blocks *gatedBlocks) {
	store := newScrubbed(t, t.TempDir())
	for i := range 20 {
		store.Set(fmt.Sprint(i), storetest.Filler(uint64(i), 70_000))
	}
	blocks = &gatedBlocks{Blocks: store.Blocks, opened: map[core.BlockID]int{}}
	return store.NewScrubber(scrub.Options{Blocks: blocks, Period: 1 << 60, BytesPerSecond: 1}), blocks
}

// background runs a scrubber in the background, and returns when its first pass has begun.
func background(t *testing.T, s *scrub.Scrubber) {
	runs, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(runs)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	require.Eventually(t, func() bool { st := s.Status(); return st.Running && st.BytesDone > 0 }, time.Minute, time.Millisecond)
	require.False(t, s.Status().Asked)
	require.EqualValues(t, 1, s.Status().BytesPerSecond)
}

// TestTakesOver checks that a requested pass takes over the background pass, and completes it at its own rate.
func TestTakesOver(t *testing.T) {
	s, blocks := slowScrubber(t)
	background(t, s)
	started := s.Status().PassStarted
	require.NoError(t, s.Now(ctx, scrub.PassOptions{}))
	st := s.Status()
	require.Equal(t, started, st.PassStarted)
	require.Equal(t, 1, st.Passes)
	require.Equal(t, st.BytesTotal, st.BytesDone)
	require.True(t, st.Asked)
	require.Empty(t, st.Error)
	require.Zero(t, st.BytesPerSecond)
	for id := range blocks.opened {
		at, err := s.Verified(ctx, id)
		require.NoError(t, err)
		require.False(t, at.IsZero())
	}
	require.NoError(t, s.Now(ctx, scrub.PassOptions{BytesPerSecond: 1 << 40}))
	require.Equal(t, 2, s.Status().Passes, "the previous pass had ended, so a new pass must begin")
	require.EqualValues(t, 1<<40, s.Status().BytesPerSecond)
}

// TestRestarts checks that blocks that the current pass has already read are read again only if Restart is set.
func TestRestarts(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s, blocks := slowScrubber(t)
		stopped, cancel := context.WithCancel(ctx)
		blocks.gate = func(n int) {
			if n == 10 {
				cancel()
			}
		}
		require.Error(t, s.Now(stopped, scrub.PassOptions{}))
		blocks.gate = nil
		before := map[core.BlockID]int{}
		for id, n := range blocks.opened {
			before[id] = n
		}
		require.NoError(t, s.Now(ctx, scrub.PassOptions{Restart: restart}))
		again := 0
		for id, n := range before {
			if blocks.opened[id] > n {
				again++
			}
		}
		if restart {
			require.Len(t, before, again)
		} else {
			require.LessOrEqual(t, again, 2, "only the block at which the pass was interrupted may be read again")
		}
	}
}

// TestIsSharedByCommands checks that a second request during a requested pass changes its rate, and waits for its end.
func TestIsSharedByCommands(t *testing.T) {
	s, _ := slowScrubber(t)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- s.Now(ctx, scrub.PassOptions{BytesPerSecond: 1}) }()
	require.Eventually(t, func() bool { return s.Status().Running }, time.Minute, time.Millisecond)
	impatient, cancel := context.WithCancel(ctx)
	cancel()
	require.True(t, core.Is(s.Now(impatient, scrub.PassOptions{BytesPerSecond: 2}), core.Canceled))
	require.EqualValues(t, 2, s.Status().BytesPerSecond)
	go func() { second <- s.Now(ctx, scrub.PassOptions{}) }()
	require.NoError(t, <-first)
	require.NoError(t, <-second)
	require.LessOrEqual(t, s.Status().Passes, 2)
}
