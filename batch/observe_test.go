package batch_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

// figures collects the measurements that an Observer gets.
type figures struct {
	mu        sync.Mutex // guards the fields below
	recovered []*batch.Recovery
	batches   []batch.BatchStats
	syncs     int
}

func (f *figures) observer() batch.Observer {
	return batch.Observer{
		Recovered: func(r *batch.Recovery) { f.recovered = append(f.recovered, r) },
		Batch: func(s batch.BatchStats) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.batches = append(f.batches, s)
		},
		Synced: func(took time.Duration, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.syncs++
		},
	}
}

// take returns the batches since the last call of take. The Writer must be closed, so that all batches have ended.
func (f *figures) take() []batch.BatchStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.batches
	f.batches = nil
	return list
}

// TestObserver compares the measurements of batches with the writes and with the bytes in the block.
func TestObserver(t *testing.T) {
	var f figures
	s := newStore(t, batch.Options{Observer: f.observer()})
	require.Len(t, f.recovered, 1)
	require.Zero(t, f.recovered[0].Applied)

	gate := make(chan struct{})
	s.meta.gate = gate
	writes := []batch.Write{
		putting(s.w, s.bucket, "a", random(1, 1000)), putting(s.w, s.bucket, "b", random(2, 500)), putting(s.w, s.bucket, "c", nil),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, errs := s.w.DoAll(ctx, writes)
		require.Equal(t, make([]error, 3), errs)
	}()
	close(gate)
	<-done
	require.NoError(t, s.w.Close())
	got := f.take()
	require.Len(t, got, 2)
	require.Equal(t, 1, got[0].Writes)
	require.Zero(t, got[0].Blobs)
	stored := got[0].Stored
	last := got[1]
	require.Equal(t, 3, last.Queued)
	require.Equal(t, 3, last.Writes)
	require.Equal(t, 2, last.Blobs)
	require.EqualValues(t, 1500, last.Bytes)
	require.EqualValues(t, s.counts.Counts().Written, stored+last.Stored)
	require.Positive(t, last.Commit)
	require.Positive(t, last.Apply)
	require.NoError(t, last.Err)
	require.Zero(t, f.syncs)

	again, err := batch.Open(ctx, batch.Options{Meta: mem.NewMeta(), Blocks: s.mem.Crash(), Observer: f.observer()})
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.Equal(t, 5, f.recovered[1].Applied, "a start with empty metadata replays all records")
}

// TestObserverOfFailures checks that a batch whose commit or Apply failed is reported with the error.
func TestObserverOfFailures(t *testing.T) {
	var f figures
	s := newStore(t, batch.Options{Observer: f.observer()})
	s.faults.Fail(coretest.Fault{Call: "Commit", Nth: 1, Kind: core.NoSpace})
	require.Error(t, s.put("a", random(1, 10)))
	s.meta.failNext(core.NoSpace)
	require.Error(t, s.put("b", random(1, 10)))
	require.NoError(t, s.put("c", random(1, 10)))
	require.NoError(t, s.w.Close())
	got := f.take()
	require.Len(t, got, 4)
	require.NoError(t, got[0].Err)
	require.True(t, core.Is(got[1].Err, core.NoSpace))
	require.Zero(t, got[1].Apply, "it was not applied")
	require.EqualValues(t, 10, got[1].Bytes)
	require.True(t, core.Is(got[2].Err, core.NoSpace))
	require.Positive(t, got[2].Apply)
	require.NoError(t, got[3].Err)
}

// TestObserverOfSyncs checks that with relaxed durability each sync of the drive is reported.
func TestObserverOfSyncs(t *testing.T) {
	var f figures
	s := newStore(t, batch.Options{Observer: f.observer(), Relaxed: true, Window: time.Hour})
	require.NoError(t, s.put("a", random(1, 10)))
	require.NoError(t, s.w.Flush(ctx))
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, 1, f.syncs)
}
