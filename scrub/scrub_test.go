package scrub_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/fsck"
	"orcas/scrub"
	"orcas/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// scrubbed is a store on disk with a Scrubber. It counts the snapshots that the Scrubber requests.
type scrubbed struct {
	*storetest.Store
	snapshots int
}

func newScrubbed(t *testing.T, dir string) *scrubbed {
	s := &scrubbed{Store: storetest.Open(t, storetest.Options{Dir: dir})}
	s.Scrubber = s.NewScrubber(scrub.Options{NewSnapshot: func(ctx context.Context) error {
		s.snapshots++
		return s.Reclaimer.Snapshot(ctx)
	}})
	return s
}

// keysOf returns the keys of damaged objects, sorted.
func keysOf(st scrub.Status) []string {
	keys := map[string]bool{}
	for _, d := range st.Damaged {
		for _, o := range d.Objects {
			keys[o.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// TestFindsAndRepairs flips bits in various frames. All damage must be found and reported with its objects, and content
// with an intact copy must be repaired.
func TestFindsAndRepairs(t *testing.T) {
	storetest.NeedsPlain(t)
	store := newScrubbed(t, t.TempDir())
	store.Unshared()
	for i := range 40 {
		store.Set(fmt.Sprint("single-", i), storetest.Filler(uint64(1000+i), 1+store.Rand.IntN(30_000)))
	}
	for i := range 6 { // the same bytes under two DataIDs
		store.Set(fmt.Sprint("twin-", i), storetest.Filler(uint64(i), 20_000))
		store.Set(fmt.Sprint("twin-of-", i), storetest.Filler(uint64(i), 20_000))
	}
	store.Set("large", storetest.Filler(77, 600_000))
	store.Multipart("multipart")
	store.Copy("single-1", "copy")
	store.Set("last", storetest.Filler(88, 5000))
	st := store.Pass()
	require.Empty(t, st.Damaged)

	body, head := int64(frame.HeaderSize+7), int64(20)
	store.Flip(at(store.Data("twin-0"), body))
	store.Flip(at(store.Data("twin-1"), head))
	store.Flip(at(store.Data("twin-of-2"), 0))
	store.Flip(at(store.Data("twin-3"), body)) // both copies
	store.Flip(at(store.Data("twin-of-3"), body))
	store.Flip(at(store.Data("single-1"), body))
	store.Flip(at(store.Data("single-2"), head))
	store.Flip(at(store.Data("single-3"), 48)) // the length in the header
	store.Flip(at(store.Data("large"), 100_000))
	store.Flip(at(store.Data("last"), head)) // the record of the batch follows
	multipart, err := store.FS.Stat(ctx, store.Bucket, "multipart", core.Current)
	require.NoError(t, err)
	parts, err := store.Meta.Parts(ctx, multipart.List, 0, 10, core.WithContent)
	require.NoError(t, err)
	store.Flip(at(*parts[0].Segments[0].Info, 1_000_000))

	lost := []string{"copy", "large", "last", "multipart", "single-1", "single-2", "single-3", "twin-3", "twin-of-3"}
	st = store.Pass()
	require.Equal(t, lost, keysOf(st), "%+v", st)
	require.Equal(t, 3, st.Repaired)
	require.Equal(t, 8, st.Found) // single-1 and copy share their content
	for _, d := range st.Damaged {
		require.NotEmpty(t, d.Text)
		require.NotEmpty(t, d.Block)
	}
	for key, want := range store.Want {
		got, err := store.Read(key, 0, -1)
		if slices.Contains(lost, key) {
			require.Error(t, err, key)
			continue
		}
		require.NoError(t, err, key)
		require.True(t, slices.Equal(want, got), key)
	}
	require.Equal(t, 1, store.snapshots, "a frame with a damaged header may have been a record")

	store.Set("large", storetest.Filler(78, 100)) // overwrite or delete three of the damaged objects
	store.Remove("single-2")
	store.Set("single-3", storetest.Filler(79, 100))
	st = store.Pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
	require.Equal(t, 3, st.Repaired)
	store.Full()
	st = store.Pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
}

// at returns a position in the first extent of d.
func at(d core.DataInfo, off int64) (core.BlockID, int64) {
	return d.Extents[0].Block, d.Extents[0].Offset + off
}

// TestRepairsFromGarbage damages content that reclaim has moved, while its old block still exists.
func TestRepairsFromGarbage(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	for i := range 50 {
		store.Set(fmt.Sprint(i), storetest.Random(uint64(i), 30_000))
	}
	was := map[string]core.DataInfo{}
	for i := range 50 {
		was[fmt.Sprint(i)] = store.Data(fmt.Sprint(i))
		if i%5 != 0 {
			store.Remove(fmt.Sprint(i))
		}
	}
	_, err := store.Reclaimer.Round(ctx, false)
	require.NoError(t, err)
	moved := 0
	for key := range store.Want {
		if now := store.Data(key); now.Extents[0] != was[key].Extents[0] {
			store.Flip(at(now, frame.HeaderSize+100))
			moved++
		}
	}
	require.Greater(t, moved, 3)
	st := store.Pass()
	require.Empty(t, st.Damaged)
	require.Equal(t, moved, st.Repaired)
	store.Check()
	store.RequireSound()
	store.Full()
	store.Check()
	store.Rebuilds(store.Blocks)
}

// TestOfRecordsAndSnapshots checks that damage in records and snapshots, which a rebuild would need, causes a new
// snapshot.
func TestOfRecordsAndSnapshots(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	store.Churn(100)
	info, err := snapshot.Write(ctx, store.Meta, store.Blocks, snapshot.WriteOptions{})
	require.NoError(t, err)
	require.Empty(t, store.Pass().Damaged)
	require.Zero(t, store.snapshots)
	store.Flip(info.Block, info.Size-10)
	require.Empty(t, store.Pass().Damaged)
	require.Equal(t, 1, store.snapshots)
	require.Empty(t, store.Pass().Damaged)
	require.Equal(t, 1, store.snapshots, "the damaged snapshot still exists")
	list, err := snapshot.List(ctx, store.Blocks)
	require.NoError(t, err)
	require.Len(t, list, 1)
	store.Flip(list[0].Block, frame.BlockHeaderSize+20)
	require.Empty(t, store.Pass().Damaged)
	require.Equal(t, 2, store.snapshots, "a snapshot with a damaged beginning must be replaced")
	store.Set("a", storetest.Filler(1, 100))
	d := store.Data("a")
	store.Set("b", storetest.Filler(1, 100))
	store.Flip(d.Extents[0].Block, d.Extents[0].Offset+d.Extents[0].Length+frame.HeaderSize+3) // the record of its batch
	st := store.Pass()
	require.Empty(t, st.Damaged)
	require.Equal(t, 3, store.snapshots)
	require.Equal(t, 3, st.Snapshots)
	require.Equal(t, 2, st.BadSnapshots)
	require.Equal(t, 1, st.BadRecords)
	store.Rebuilds(store.Blocks) // without the record
}

// TestResumes checks that an interrupted pass continues after a restart, and that the next pass reads the least
// recently verified blocks first.
func TestResumes(t *testing.T) {
	dir := t.TempDir()
	store := newScrubbed(t, dir)
	for i := range 300 {
		store.Set(fmt.Sprint(i), storetest.Filler(uint64(i), 70_000)) // a block each
	}
	stopped, cancel := context.WithCancel(ctx)
	counting := &countedBlocks{Blocks: store.Blocks, after: 280, then: cancel}
	require.Error(t, store.NewScrubber(scrub.Options{Blocks: counting}).Pass(stopped))
	store.Close()

	store = newScrubbed(t, dir)
	require.NoError(t, store.Scrubber.Pass(ctx))
	records, err := store.Meta.Records(ctx, "scrub", "", 100)
	require.NoError(t, err)
	require.Less(t, len(records), 10)
	counting = &countedBlocks{Blocks: store.Blocks, after: 1 << 30}
	require.NoError(t, store.NewScrubber(scrub.Options{Blocks: counting}).Pass(ctx))
	require.GreaterOrEqual(t, len(counting.opened), 300, "a new pass must read every block")
	old := counting.opened[:40] // blocks that the interrupted pass had not reached were verified last
	for _, id := range old {
		require.Less(t, id.Number(), uint32(290))
	}
	for key := range store.Want {
		store.Delete(key)
	}
	store.Full()
	store.Full()
	require.NoError(t, store.Scrubber.Pass(ctx))
	records, err = store.Meta.Records(ctx, "scrub", "", 100)
	require.NoError(t, err)
	require.LessOrEqual(t, len(records), 4, "records of deleted blocks remain")
}

// countedBlocks records which blocks are opened, and calls then after a number of blocks.
type countedBlocks struct {
	core.Blocks
	opened []core.BlockID
	after  int
	then   func()
}

func (b *countedBlocks) Unwrap() core.Blocks { return b.Blocks }

func (b *countedBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	if len(b.opened) == 0 || b.opened[len(b.opened)-1] != e.Block {
		b.opened = append(b.opened, e.Block)
	}
	if len(b.opened) > b.after {
		b.then()
	}
	return b.Blocks.Open(ctx, e)
}

// TestWhileInUse checks that scrubbing a store in use finds no damage.
func TestWhileInUse(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	store.WhileInUse(25, func() {
		st := store.Pass()
		require.Empty(t, st.Damaged)
		require.Zero(t, st.Repaired)
	})
	store.Check()
}

// TestRandomFlips flips random bits of random blocks. The scrub must repair or report all damaged content, and no other
// content.
func TestRandomFlips(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			store := newScrubbed(t, t.TempDir())
			store.Rand = rand.New(rand.NewPCG(seed, 3))
			store.Churn(150)
			_, err := store.Reclaimer.Round(ctx, false)
			require.NoError(t, err)
			var blocks []core.BlockInfo
			require.NoError(t, store.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
				blocks = append(blocks, b)
				return nil
			}))
			for range 30 {
				b := blocks[store.Rand.IntN(len(blocks))]
				store.Flip(b.ID, frame.BlockHeaderSize+store.Rand.Int64N(b.Size-frame.BlockHeaderSize))
			}
			broken := map[string]bool{}
			for key := range store.Want {
				if _, err := store.Read(key, 0, -1); err != nil {
					broken[key] = true
				}
			}
			st := store.Pass()
			still := map[string]bool{}
			for key, want := range store.Want {
				if got, err := store.Read(key, 0, -1); err != nil {
					still[key] = true
				} else {
					require.Equal(t, want, got)
				}
			}
			require.Equal(t, slices.Sorted(maps.Keys(still)), keysOf(st))
			t.Logf("%d keys could not be read, %d repairs were made, %d keys still cannot be read", len(broken), st.Repaired, len(still))
			report, err := fsck.Check(ctx, store.Meta, store.Blocks, fsck.Options{Content: true})
			require.NoError(t, err)
			require.Equal(t, len(st.Damaged), report.ByKind[fsck.KindContent])
		})
	}
}

// TestProgressFails checks that a pass continues if its progress cannot be saved.
func TestProgressFails(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Churn(50)
	s := store.NewScrubber(scrub.Options{Writer: refusing{}})
	require.NoError(t, s.Pass(ctx))
	require.Equal(t, 1, s.Status().Passes)
}

type refusing struct{}

func (refusing) DoAll(_ context.Context, writes []batch.Write) ([]core.Result, []error) {
	errs := make([]error, len(writes))
	for i := range errs {
		errs[i] = core.E("test", core.NoSpace, errors.New("full"))
	}
	return make([]core.Result, len(writes)), errs
}

// TestOfFailingDrive checks that content that the drive cannot read is reported as damaged, and that the other content
// of its block is not.
func TestOfFailingDrive(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	for i := range 20 {
		store.Set(fmt.Sprint(i), storetest.Filler(uint64(i), 20_000))
	}
	d := store.Data("7")
	bad := d.Extents[0]
	failing := &coretest.HookedBlocks{Blocks: store.Blocks, Read: func(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error) {
		at := e.Offset + off
		if e.Block == bad.Block && at < bad.Offset+bad.Length && bad.Offset < at+int64(len(p)) {
			return 0, core.E("test", core.Internal, syscall.EIO)
		}
		return r.ReadAt(p, off)
	}}
	s := store.NewScrubber(scrub.Options{Blocks: failing})
	require.NoError(t, s.Pass(ctx))
	st := s.Status()
	require.Equal(t, []string{"7"}, keysOf(st))
	require.Equal(t, scrub.KindRecord, st.Damaged[0].Kind, "this Scrubber cannot write snapshots")
	require.Contains(t, st.Damaged[1].Text, "input/output error")
	require.False(t, store.Data("7").Damaged, "a read error does not prove damage")
	at, err := s.Verified(ctx, d.Extents[0].Block)
	require.NoError(t, err)
	require.True(t, at.IsZero(), "a block that cannot be read counts as verified")
	report, err := fsck.Check(ctx, store.Meta, failing, fsck.Options{Content: true})
	require.NoError(t, err)
	require.Equal(t, map[string]int{fsck.KindContent: 1}, report.ByKind)
}

// TestRuns checks that Run makes a pass immediately, and the next one only in the next period.
func TestRuns(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Churn(50)
	s := store.NewScrubber(scrub.Options{Period: 7 * 24 * time.Hour, BytesPerSecond: 1 << 40})
	stopped, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		s.Run(stopped)
		close(ended)
	}()
	require.Eventually(t, func() bool { return s.Status().Passes == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	<-ended
	require.Equal(t, 1, s.Status().Passes)
}
