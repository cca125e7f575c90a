package reclaim_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/reclaim"
	"orcas/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// TestReclaimRounds makes random changes and runs rounds. After each round it reads all objects and rebuilds the
// metadata from the blocks.
func TestReclaimRounds(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Reclaim: reclaim.Options{DeadShare: 0.3}})
	for i := range 25 {
		store.Churn(40)
		if i%5 == 0 {
			store.Multipart(fmt.Sprint("multipart-", i%2))
		}
		store.Shift(20)
		store.Extend("multipart-0", storetest.Random(uint64(i), 5000))
		_, err := store.Reclaimer.Round(ctx, i%4 == 3)
		require.NoError(t, err)
		store.Check()
		store.Rebuilds(store.Crashed())
	}
	store.Full()
	report := store.Full()
	require.Empty(t, report.Damaged)
	all, live := store.Used()
	t.Logf("blocks have %d bytes, of which %d are live: %+v", all, live, report)
	require.Less(t, float64(all), 1.15*float64(live)+128<<10)
	store.Check()
	store.Rebuilds(store.Crashed())
	for key := range store.Want {
		store.Delete(key)
	}
	clear(store.Want)
	store.Full()
	store.Full()
	store.Check()
	all, _ = store.Used()
	require.Less(t, all, int64(64<<10), "the store is empty")
	garbage, err := store.Meta.Garbage(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, garbage)
}

// TestReclaimOnDisk does the same with the drivers for disks, and restarts the store between the rounds.
func TestReclaimOnDisk(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]byte{}
	for i := range 8 {
		store := storetest.Open(t, storetest.Options{Dir: dir})
		store.Rand = rand.New(rand.NewPCG(uint64(i), 7))
		store.Want = want
		store.Check()
		store.Churn(150)
		store.Multipart("multipart")
		if i%2 == 0 {
			store.Full()
		} else {
			_, err := store.Reclaimer.Round(ctx, false)
			require.NoError(t, err)
		}
		store.Check()
		store.Rebuilds(store.Blocks)
		want = store.Want
		if i == 7 {
			store.Full()
			all, live := store.Used()
			t.Logf("blocks have %d bytes, of which %d are live", all, live)
			require.Less(t, float64(all), 1.15*float64(live)+512<<10)
		}
		store.Close()
	}
}

// TestOrphansGo checks that unreferenced blocks left by a crash are deleted after the next start, and not before.
func TestOrphansGo(t *testing.T) {
	dir := t.TempDir()
	store := storetest.Open(t, storetest.Options{Dir: dir})
	store.Set("kept", storetest.Filler(1, 300_000))
	large, err := store.Writer.NewLarge(ctx, 300_000, 0, nil)
	require.NoError(t, err)
	body := storetest.Filler(2, 300_000)
	for len(body) > 0 {
		b := batch.NewBuffer(min(len(body), 256<<10))
		n := copy(b.Content(), body)
		require.NoError(t, large.Write(b.B[:n+80]))
		body = body[n:]
		b.Release()
	}
	_, err = large.Commit(ctx)
	require.NoError(t, err)
	require.Less(t, store.Full().BytesFreed, int64(300_000), "a writer may be about to refer to the block")
	store.Close()
	store = storetest.Open(t, storetest.Options{Dir: dir})
	store.Want["kept"] = storetest.Filler(1, 300_000)
	report := store.Full()
	require.GreaterOrEqual(t, report.BlocksFreed, 1)
	require.GreaterOrEqual(t, report.BytesFreed, int64(300_000))
	store.Check()
}

// TestReadersKeepTheirBlocks reads objects while all objects are overwritten and reclaimed: each read must return one
// complete version.
func TestReadersKeepTheirBlocks(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Dir: t.TempDir(), Reclaim: reclaim.Options{DeadShare: 0.01}})
	body := func(key, version int) []byte { return storetest.Filler(uint64(1000*key+version), 20_000) }
	for k := range 20 {
		store.Put(fmt.Sprint(k), body(k, 0))
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				k := r.IntN(20)
				got, err := store.Read(fmt.Sprint(k), 0, 20_000)
				if err != nil {
					t.Errorf("key %d: %v", k, err)
					return
				}
				whole := false
				for v := range 40 {
					whole = whole || slices.Equal(got, body(k, v))
				}
				if !whole {
					t.Errorf("the content of key %d is not one of the versions that were written", k)
					return
				}
			}
		})
	}
	freed := 0
	for v := 1; v < 40; v++ {
		for k := range 20 {
			store.Put(fmt.Sprint(k), body(k, v))
		}
		report, err := store.Reclaimer.Round(ctx, v%5 == 0)
		require.NoError(t, err)
		freed += report.BlocksFreed
	}
	close(stop)
	all.Wait()
	require.NotZero(t, freed)
	t.Logf("%d blocks freed", freed)
}

// TestDeletedWhileItMoves deletes and overwrites content while reclaim moves it, at each step of a round.
func TestDeletedWhileItMoves(t *testing.T) {
	for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSnapshot, reclaim.HookSwitched, reclaim.HookUnlinked} {
		t.Run(place, func(t *testing.T) {
			store := storetest.Open(t, storetest.Options{})
			store.Churn(200)
			hits := 0
			store.Hook = func(at string) {
				if at == place && hits < 20 {
					hits++
					store.Churn(5)
				}
			}
			store.Full()
			store.Hook = nil
			require.NotZero(t, hits)
			store.Check()
			store.Rebuilds(store.Crashed())
			store.Full()
			store.Check()
		})
	}
}

// TestAbortedUploads checks that aborting an upload frees the space of its parts.
func TestAbortedUploads(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	id := store.Upload("k", core.UploadInfo{})
	store.Part("k", id, 1, storetest.Filler(1, 6<<20))
	store.Full()
	all, _ := store.Used()
	require.Greater(t, all, int64(6<<20))
	require.NoError(t, store.FS.AbortUpload(ctx, store.Bucket, "k", id))
	store.Full()
	all, _ = store.Used()
	require.Less(t, all, int64(1<<20))
}

// TestErrorsDeleteNothing makes each call of the block store in a round fail in turn: once or permanently, and with the
// operation done or not done. No content may be lost, and the next round must continue.
func TestErrorsDeleteNothing(t *testing.T) {
	for _, fault := range []coretest.Fault{{}, {On: true}, {Done: true}} {
		points := 1 << 20 // the first run has no failures, and counts the calls
		for n := 0; n <= points; n += 1 + n/40 {
			base := mem.NewBlocks()
			faulty := coretest.NewFaultyBlocks(base)
			store := storetest.Open(t, storetest.Options{Blocks: faulty, Meta: mem.NewMeta()})
			store.Churn(60)
			fault.Nth = n
			faulty.Fail(fault)
			_, err := store.Reclaimer.Round(ctx, true)
			if n == 0 {
				points = faulty.Calls()
				require.NoError(t, err)
			}
			faulty.Fail(coretest.Fault{})
			store.Set("after", storetest.Filler(1, 100)) // its record voids the failed changes
			store.Check()
			store.Rebuilds(base.Crash())
			store.Full()
			store.Check()
			store.Close()
		}
		require.Greater(t, points, 50)
		t.Logf("%d calls", points)
	}
}

// syncedMeta calls a function after each sync.
type syncedMeta struct {
	*mem.Meta
	onSync func()
}

func (m *syncedMeta) Sync(ctx context.Context) (core.State, error) {
	st, err := m.Meta.Sync(ctx)
	m.onSync()
	return st, err
}

// TestReclaimBesideRelaxedWrites simulates a power failure after relaxed writes, with rounds of reclaim between them.
// The recovered store must be in one of its earlier states, not from before the last sync, and all content must be
// intact.
func TestReclaimBesideRelaxedWrites(t *testing.T) {
	type moment struct {
		want map[string][]byte
		rows [][]byte
	}
	lost, freed := 0, 0
	for seed := range uint64(80) {
		blocks := mem.NewBlocks()
		meta := &syncedMeta{Meta: mem.NewMeta()}
		var moments []moment
		synced := 0
		meta.onSync = func() { synced = len(moments) - 1 }
		store := storetest.Open(t, storetest.Options{
			Meta: meta, Blocks: blocks, Batch: batch.Options{Relaxed: true, Window: time.Hour}, Reclaim: reclaim.Options{DeadShare: 0.05},
		})
		store.Rand = rand.New(rand.NewPCG(seed, 9))
		note := func() {
			rows, err := coretest.Rows(ctx, meta.Meta)
			require.NoError(t, err)
			moments = append(moments, moment{maps.Clone(store.Want), rows})
		}
		require.NoError(t, store.Writer.Flush(ctx))
		note()
		safe := 0
		for range 20 + store.Rand.IntN(80) {
			store.Churn(1)
			note()
			switch store.Rand.IntN(8) {
			case 0:
				require.NoError(t, store.Writer.Flush(ctx))
				safe = len(moments) - 1
			case 1:
				report, err := store.Reclaimer.Round(ctx, store.Rand.IntN(2) == 0)
				require.NoError(t, err)
				if report.BlocksFreed > 0 {
					safe = len(moments) - 1
					freed += report.BlocksFreed
				}
				note()
			}
		}
		after := blocks.PowerCut(func(_ core.BlockID, doubtful []byte) int {
			for at := 0; at < len(doubtful); at += 512 {
				if store.Rand.IntN(200) == 0 {
					clear(doubtful[at:min(at+512, len(doubtful))])
				}
			}
			return store.Rand.IntN(len(doubtful) + 1)
		})
		again := mem.NewMeta()
		require.NoError(t, again.Restore(ctx, coretest.NextOf(moments[synced+store.Rand.IntN(len(moments)-synced)].rows)))
		store.Close()
		recovered := storetest.Open(t, storetest.Options{Blocks: after, Meta: again})
		found := map[string][]byte{}
		for n := range 60 {
			key := fmt.Sprint("key-", n)
			o, err := recovered.FS.Stat(ctx, recovered.Bucket, key, core.Current)
			if core.Is(err, core.NoSuchKey) {
				continue
			}
			require.NoError(t, err)
			found[key], err = recovered.Read(key, 0, o.Size)
			require.NoError(t, err, "seed %d key %s", seed, key)
		}
		at := len(moments) - 1
		for at >= 0 && !assert.ObjectsAreEqual(moments[at].want, found) {
			at--
		}
		require.GreaterOrEqual(t, at, safe, "seed %d: moment %d of %d", seed, at, len(moments)-1)
		if at < len(moments)-1 {
			lost++
		}
		recovered.Want = moments[at].want
		recovered.Full()
		recovered.Check()
		recovered.Close()
	}
	require.NotZero(t, lost)
	require.NotZero(t, freed)
	t.Logf("%d power failures lost writes, %d blocks were freed", lost, freed)

}

// TestPause checks that no round runs during a pause.
func TestPause(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Churn(50)
	var round sync.WaitGroup
	done := make(chan struct{})
	require.NoError(t, store.Reclaimer.Pause(ctx, func() error {
		round.Go(func() {
			store.Full()
			close(done)
		})
		before, _ := store.Used()
		for range 100 {
			runtime.Gosched()
			select {
			case <-done:
				t.Error("a round ran during the pause")
			default:
			}
		}
		after, _ := store.Used()
		require.Equal(t, before, after)
		return nil
	}))
	round.Wait()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.True(t, core.Is(store.Reclaimer.Pause(canceled, func() error { return nil }), core.Canceled))
}
