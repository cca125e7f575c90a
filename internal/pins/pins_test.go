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
	require.False(t, since.After(between), "a still pins y")
	a.Unpin("x")
	require.False(t, table.Pinned("x"))
	require.True(t, table.Pinned("y"))
	a.Unpin("y")
	readers, since = table.Oldest()
	require.Zero(t, readers)
	require.True(t, since.IsZero())
	a.Pin(&table, "z") // a reader can be reused
	require.True(t, table.Pinned("z"))
	a.Pin(&table)
	a.Unpin()
	a.Unpin("z")
	require.False(t, table.Pinned("z"))
}

// TestPinnedThingsAreKept runs the protocol: readers find a thing, pin it, leave the epoch and use it, while a
// collector replaces things and deletes the old ones. The collector must neither delete a pinned thing nor wait until
// it is unpinned.
func TestPinnedThingsAreKept(t *testing.T) {
	type thing struct {
		id      int
		deleted atomic.Bool
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
					if found.deleted.Load() {
						t.Error("a thing was deleted while it was pinned")
					}
				}
				r.Unpin(found.id)
			}
		})
	}
	var slow pins.Reader[int] // pins the first thing until the end
	slow.Pin(&table, 0)
	var garbage []*thing
	deleted := 0
	for id := 1; id <= 200; id++ {
		garbage = append(garbage, current.Swap(&thing{id: id}))
		require.NoError(t, epochs.Wait(t.Context()))
		kept := garbage[:0]
		for _, old := range garbage {
			if table.Pinned(old.id) {
				kept = append(kept, old)
				continue
			}
			require.NotZero(t, old.id)
			old.deleted.Store(true)
			deleted++
		}
		garbage = kept
	}
	close(stop)
	all.Wait()
	require.GreaterOrEqual(t, deleted, 100)
	require.True(t, table.Pinned(0))
	slow.Unpin(0)
	readers, _ := table.Oldest()
	require.Zero(t, readers)
}

// BenchmarkPin pins and unpins one thing per goroutine, in 32 goroutines per processor.
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
