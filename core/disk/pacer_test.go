package disk_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/disk"
	"orcas/internal/durable"
)

// mib is the length of a range, and so the smallest length of a commit that is not small.
const mib = 1 << 20

// TestWriteOutError: the kernel reports an error of a write-back only once. If the write-out of a range returns it, the
// sync succeeds, and the commit must fail anyway.
func TestWriteOutError(t *testing.T) {
	for bad := range int64(5) {
		c := &counter{}
		s := open(t, t.TempDir(), disk.Options{Hook: c.hook})
		c.set(func(step durable.Step, do func() error) error {
			if step.Op == durable.WriteOut && step.Offset == bad*mib {
				return errors.Join(do(), unix.EIO)
			}
			return do()
		})
		e, err := write(t, s, large, strings.Repeat("x", 9*mib/2))
		require.ErrorIs(t, err, unix.EIO, "range %d", bad)
		require.NoFileExists(t, s.BlockFile(core.BlockInfo{ID: e.Block, Kind: core.Large}))
		c.set(nil)
		requireRead(t, s, mustWrite(t, s, large, "later"), "later")
	}
}

// gate is a hook that lets write-outs end only when the test says so, and syncs too while held is set.
type gate struct {
	mu     sync.Mutex     // guards the fields below, except end and synced
	outs   map[string]int // write-outs in progress, by file
	begun  int            // write-outs begun
	most   int            // the maximum number of write-outs that were in progress
	held   bool
	syncs  int
	early  int           // syncs of a file with a write-out in progress
	end    chan struct{} // ends a write-out
	synced chan struct{} // ends a sync
}

func newGate() *gate {
	return &gate{outs: map[string]int{}, end: make(chan struct{}), synced: make(chan struct{})}
}

func (g *gate) hook(s durable.Step, do func() error) error {
	switch s.Op {
	case durable.WriteOut:
		g.mu.Lock()
		g.begun++
		g.outs[s.Path]++
		g.most = max(g.most, g.now())
		g.mu.Unlock()
		<-g.end
		g.mu.Lock()
		g.outs[s.Path]--
		g.mu.Unlock()
	case durable.DataSync:
		g.mu.Lock()
		held := g.held
		g.syncs++
		if g.outs[s.Path] > 0 {
			g.early++
		}
		g.mu.Unlock()
		if held {
			<-g.synced
		}
	}
	return do()
}

// now returns the number of write-outs in progress.
func (g *gate) now() (n int) {
	for _, k := range g.outs {
		n += k
	}
	return n
}

// requireState waits until nothing proceeds, and checks the numbers of write-outs that have begun and that are in
// progress.
func (g *gate) requireState(t *testing.T, begun, now int, why string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Equal(t, begun, g.begun, why)
	require.Equal(t, now, g.now(), why)
}

func (g *gate) hold(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
}

// writers writes a number of large blocks concurrently, each of pieces quarters of a range. Written counts the pieces.
func writers(t *testing.T, s *disk.Store, n, pieces int) (done *sync.WaitGroup, written []atomic.Int32) {
	done, written = &sync.WaitGroup{}, make([]atomic.Int32, n)
	for i := range n {
		done.Go(func() {
			w, err := s.Create(t.Context(), large)
			require.NoError(t, err)
			for range pieces {
				_, err = w.Write(make([]byte, mib/4))
				require.NoError(t, err)
				written[i].Add(1)
			}
			require.NoError(t, w.Commit(t.Context()))
		})
	}
	return done, written
}

// TestWritersArePaced: a large writer stops when two of its ranges are not on the drive. All writers together are
// writing out at most two ranges, until there was no small commit during 32 ranges. A block is synced after all of its
// ranges were written out.
func TestWritersArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s, err := disk.Open(t.TempDir(), disk.Options{Hook: g.hook})
		require.NoError(t, err)
		const n, pieces = 10, 32
		done, written := writers(t, s, n, pieces)
		g.requireState(t, 2, 2, "all writers together")
		for i := range written {
			require.EqualValues(t, 3*4, written[i].Load()+1, "two ranges that wait, and a third that is complete but for the piece in Write")
		}
		for i := range 30 {
			g.end <- struct{}{}
			if i < 29 {
				g.requireState(t, 3+i, 2, "one range begins when another one ends")
			}
		}
		g.requireState(t, 30+16, 16, "the large writers are alone")
		_, err = write(t, s, packed, "small")
		require.NoError(t, err)
		for i := range 14 {
			g.end <- struct{}{}
			g.requireState(t, 30+16, 15-i, "there was a small commit")
		}
		g.end <- struct{}{}
		g.requireState(t, 30+16+1, 2, "two ranges remain")
		for range n*(pieces/4+1) - 30 - 15 { // the last range of a block is as long as its header
			g.end <- struct{}{}
			synctest.Wait()
		}
		done.Wait()
		require.Equal(t, 16, g.most)
		require.Equal(t, n+1, g.syncs)
		require.Zero(t, g.early)
		require.NoError(t, s.Close())
	})
}

// TestSmallCommitsFirst: while a small commit syncs, no range begins, except for the eight that the end of another small
// commit lets pass.
func TestSmallCommitsFirst(t *testing.T) {
	for _, small := range []core.BlockOptions{packed, alone, large} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			s, err := disk.Open(t.TempDir(), disk.Options{Hook: g.hook})
			require.NoError(t, err)
			g.hold(true)
			var commits sync.WaitGroup
			for range 2 {
				commits.Go(func() {
					_, err := write(t, s, small, "small")
					require.NoError(t, err)
				})
			}
			synctest.Wait()
			require.Equal(t, 2, g.syncs)
			done, _ := writers(t, s, 6, 32) // nine ranges each
			g.requireState(t, 0, 0, "two small commits are syncing")
			g.synced <- struct{}{}
			for i := range 8 {
				g.requireState(t, min(2+i, 8), min(2, 8-i), "one of them has ended, so eight ranges may begin")
				g.end <- struct{}{}
			}
			g.requireState(t, 8, 0, "the other one is still syncing")
			g.hold(false)
			g.synced <- struct{}{}
			g.requireState(t, 10, 2, "no small commit is left")
			for range 6*9 - 8 {
				g.end <- struct{}{}
				synctest.Wait()
			}
			done.Wait()
			commits.Wait()
			require.Zero(t, g.early)
			require.NoError(t, s.Close())
		})
	}
}

// TestAbortWaits: the file of an aborted block is closed only after its ranges were written out.
func TestAbortWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s, err := disk.Open(t.TempDir(), disk.Options{Hook: g.hook})
		require.NoError(t, err)
		w, err := s.Create(t.Context(), large)
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 2*mib))
		require.NoError(t, err)
		var aborted atomic.Bool
		go func() {
			require.NoError(t, w.Abort())
			aborted.Store(true)
		}()
		for range 2 {
			synctest.Wait()
			require.False(t, aborted.Load())
			g.end <- struct{}{}
		}
		synctest.Wait()
		require.True(t, aborted.Load())
		require.NoError(t, s.Close())
	})
}
