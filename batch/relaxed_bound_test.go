package batch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/mem"
)

// slowSync is a drive whose syncs take as long as the test specifies. A sync makes the writes durable that were
// acknowledged before it began. It also checks the bound of relaxed durability. Its clock is that of a synctest bubble.
type slowSync struct {
	*mem.Blocks
	t      *testing.T
	window time.Duration
	takes  func() time.Duration

	mu      sync.Mutex
	acked   []time.Time // when each write was acknowledged, in order
	durable int         // the number of them that are durable
	ended   time.Time   // when the last sync ended, and how long it took
	took    time.Duration
	begun   time.Time // when the sync in progress began
	syncs   int
	closing bool // Close was called, so the next sync may come early
}

// acknowledge records that a write was acknowledged.
func (s *slowSync) acknowledge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = append(s.acked, time.Now())
}

// count returns the number of syncs.
func (s *slowSync) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncs
}

// close closes a Writer.
func (s *slowSync) close(w *batch.Writer) {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	require.NoError(s.t, w.Close())
}

// Sync implements core.Flusher.
func (s *slowSync) Sync(ctx context.Context) error {
	now := time.Now()
	time.Sleep(time.Nanosecond) // acknowledgments at the same time come first
	s.mu.Lock()
	covers := len(s.acked)
	if s.durable < covers && !s.closing {
		// A sync begins half a window after the oldest waiting write, or when the previous sync ended if that is later.
		due := s.acked[s.durable].Add(s.window / 2)
		if due.Before(s.ended) {
			due = s.ended
		}
		assert.False(s.t, now.After(due), "sync %d begins %v late", s.syncs+1, now.Sub(due))
	}
	s.begun = now
	s.mu.Unlock()
	time.Sleep(s.takes())
	s.check()
	err := s.Blocks.Sync(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable, s.ended = covers, time.Now()
	s.took, s.begun = s.ended.Sub(now), time.Time{}
	s.syncs++
	return err
}

// check checks the bound for a power cut at this moment: the writes that it would lose were acknowledged within the
// window plus the time of the last sync plus the time since the sync in progress began.
func (s *slowSync) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.durable == len(s.acked) {
		return
	}
	bound := s.window + s.took
	if !s.begun.IsZero() {
		bound += time.Since(s.begun)
	}
	assert.LessOrEqual(s.t, time.Since(s.acked[s.durable]), bound, "age of the oldest write that a power cut would lose")
}

// TestRelaxedBound checks, with fast and slow syncs, that a power cut at any time loses no write older than the window
// plus two syncs, and that an overdue sync begins immediately.
func TestRelaxedBound(t *testing.T) {
	const window = time.Second
	for _, takes := range []time.Duration{time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 6 * time.Second, 0} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				s := &slowSync{Blocks: mem.NewBlocks(), t: t, window: window, takes: func() time.Duration {
					if takes == 0 { // random
						return time.Duration(r.Int64N(int64(5 * window)))
					}
					return takes
				}}
				w, err := batch.Open(ctx, batch.Options{Meta: mem.NewMeta(), Blocks: s, Relaxed: true, Window: window})
				require.NoError(t, err)
				for range 300 {
					_, err := w.Do(ctx, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}}})
					require.NoError(t, err)
					s.acknowledge()
					time.Sleep(50 * time.Millisecond)
					s.check()
				}
				syncs := s.count()
				require.GreaterOrEqual(t, syncs, 3)
				if takes > 0 && takes < window {
					require.Less(t, syncs, 50, "writes share syncs")
				}
				s.close(w)
				require.Equal(t, len(s.acked), s.durable)
			})
		})
	}
}

// TestRelaxedLag checks the values of Lag during and after a sync.
func TestRelaxedLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSync{Blocks: mem.NewBlocks(), t: t, window: time.Second, takes: func() time.Duration { return 6 * time.Second }}
		w, err := batch.Open(ctx, batch.Options{Meta: mem.NewMeta(), Blocks: s, Relaxed: true, Window: s.window})
		require.NoError(t, err)
		require.Zero(t, w.Lag())
		_, err = w.Do(ctx, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}}})
		require.NoError(t, err)
		s.acknowledge()
		time.Sleep(2 * time.Second)
		require.Equal(t, batch.Lag{Oldest: 2 * time.Second, RunningSync: 1500 * time.Millisecond}, w.Lag())
		time.Sleep(5 * time.Second)
		require.Equal(t, batch.Lag{LastSync: 6*time.Second + 1}, w.Lag())
		s.close(w)
	})
}
