package pins_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/epoch"
	"orcas/internal/pins"
)

func TestPinsCount(t *testing.T) {
	var table pins.Table[string]
	var a, b pins.Reader[string]
	before := time.Now()
	a.Pin(&table, "x", "y", "x")
	between := time.Now()
	b.Pin(&table, "x")
	readers, since := table.Oldest()
	require.Equal(t, 2, readers)
	require.False(t, since.Before(before) || since.After(between), "a is the oldest")
	a.Unpin("x")
	b.Unpin("x")
	require.True(t, table.Pinned("x"), "a pinned it twice")
	readers, since = table.Oldest()
	require.Equal(t, 1, readers)
	require.False(t, since.After(between), "and still reads y")
	a.Unpin("x")
	require.False(t, table.Pinned("x"))
	require.True(t, table.Pinned("y"))
	a.Unpin("y")
	readers, since = table.Oldest()
	require.Zero(t, readers)
	require.True(t, since.IsZero())
	a.Pin(&table, "z") // a reader may begin again
	require.True(t, table.Pinned("z"))
	a.Pin(&table)
	a.Unpin()
	a.Unpin("z")
	require.False(t, table.Pinned("z"))
}

// TestNothingPinnedIsTakenAway runs the protocol: readers find a thing, pin it, leave the epoch and use it, while a
// collector replaces things and takes away the old ones. It must neither take away a thing in use nor wait for those
// who use it.
func TestNothingPinnedIsTakenAway(t *testing.T) {
	type thing struct {
		id   int
		gone atomic.Bool
	}
	var epochs epoch.Readers
	var table pins.Table[int]
	var current atomic.Pointer[thing]
	current.Store(&thing{})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			var r pins.Reader[int]
			for {
				select {
				case <-stop:
					return
				default:
				}
				e := epochs.Enter()
				found := current.Load()
				r.Pin(&table, found.id)
				e.Leave()
				for range random.IntN(100) {
					if found.gone.Load() {
						t.Error("taken away while it was pinned")
					}
				}
				r.Unpin(found.id)
			}
		})
	}
	var slow pins.Reader[int] // stays on the first thing until the end
	slow.Pin(&table, 0)
	var left []*thing
	taken := 0
	for id := 1; id <= 200; id++ {
		left = append(left, current.Swap(&thing{id: id}))
		require.NoError(t, epochs.Wait(t.Context()))
		kept := left[:0]
		for _, old := range left {
			if table.Pinned(old.id) {
				kept = append(kept, old)
				continue
			}
			require.NotZero(t, old.id)
			old.gone.Store(true)
			taken++
		}
		left = kept
	}
	close(stop)
	all.Wait()
	require.GreaterOrEqual(t, taken, 100)
	require.True(t, table.Pinned(0))
	slow.Unpin(0)
	readers, _ := table.Oldest()
	require.Zero(t, readers)
}

// BenchmarkPin pins and unpins one thing, by 64 goroutines.
func BenchmarkPin(b *testing.B) {
	var table pins.Table[[24]byte]
	var next atomic.Uint32
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		var r pins.Reader[[24]byte]
		key := [24]byte{byte(next.Add(1))}
		for p.Next() {
			r.Pin(&table, key)
			r.Unpin(key)
		}
	})
}
