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

// scrubbed is a store on disk with a Scrubber that counts the snapshots it requests.
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

// keysOf returns the keys of what is damaged.
func keysOf(st scrub.Status) []string {
	keys := map[string]bool{}
	for _, d := range st.Damaged {
		for _, o := range d.Objects {
			keys[o.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// TestFindsAndRepairs flips bits of frames of every kind: all are found and named, and those with a good copy are
// repaired.
func TestFindsAndRepairs(t *testing.T) {
	storetest.NeedsPlain(t)
	store := newScrubbed(t, t.TempDir())
	store.Unshared()
	for i := range 40 {
		store.Set(fmt.Sprint("single-", i), storetest.Filler(uint64(1000+i), 1+store.Rand.IntN(30_000)))
	}
	for i := range 6 { // the same bytes under two numbers
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
	store.Flip(at(store.Data("twin-3"), body)) // both of them
	store.Flip(at(store.Data("twin-of-3"), body))
	store.Flip(at(store.Data("single-1"), body))
	store.Flip(at(store.Data("single-2"), head))
	store.Flip(at(store.Data("single-3"), 48)) // its length
	store.Flip(at(store.Data("large"), 100_000))
	store.Flip(at(store.Data("last"), head)) // whatever follows is the record
	multipart, err := store.FS.Stat(ctx, store.Bucket, "multipart", core.Current)
	require.NoError(t, err)
	parts, err := store.Meta.Parts(ctx, multipart.List, 0, 10, core.WithContent)
	require.NoError(t, err)
	store.Flip(at(*parts[0].Segments[0].Info, 1_000_000))

	lost := []string{"copy", "large", "last", "multipart", "single-1", "single-2", "single-3", "twin-3", "twin-of-3"}
	st = store.Pass()
	require.Equal(t, lost, keysOf(st), "%+v", st)
	require.Equal(t, 3, st.Repaired)
	require.Equal(t, 8, st.Found) // a content and its copy are one
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
	require.Equal(t, 1, store.snapshots, "where a header is damaged, a record may have stood")

	store.Set("large", storetest.Filler(78, 100)) // overwritten, deleted, written again
	store.Remove("single-2")
	store.Set("single-3", storetest.Filler(79, 100))
	st = store.Pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
	require.Equal(t, 3, st.Repaired)
	store.Full()
	st = store.Pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
}

// at returns a position in the first extent of a content.
func at(d core.DataInfo, off int64) (core.BlockID, int64) {
	return d.Extents[0].Block, d.Extents[0].Offset + off
}

// TestRepairsFromGarbage damages content that reclaim has moved, while the block that it stood in is there still.
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

// TestOfRecordsAndSnapshots: damage in what a rebuild needs asks for a new snapshot.
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
	require.Equal(t, 1, store.snapshots, "the damaged one is gone")
	list, err := snapshot.List(ctx, store.Blocks)
	require.NoError(t, err)
	require.Len(t, list, 1)
	store.Flip(list[0].Block, frame.BlockHeaderSize+20)
	require.Empty(t, store.Pass().Damaged)
	require.Equal(t, 2, store.snapshots, "a snapshot without an end")
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

// TestGoesOn: a pass that was cut goes on after a restart where it was, and reads what was verified the longest time
// ago first.
func TestGoesOn(t *testing.T) {
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
	require.GreaterOrEqual(t, len(counting.opened), 300, "a new pass reads everything")
	old := counting.opened[:40] // those that the cut pass had not come to were verified last
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
	require.LessOrEqual(t, len(records), 4, "blocks that are gone are forgotten")
}

// countedBlocks notes what is opened, and stops after so many.
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

// TestWhileInUse: a scrub of a store in use reports nothing.
func TestWhileInUse(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	store.WhileInUse(25, func() {
		st := store.Pass()
		require.Empty(t, st.Damaged)
		require.Zero(t, st.Repaired)
	})
	store.Check()
}

// TestRandomFlips turns random bits of random blocks: each content that is not whole afterwards is reported or
// repaired, and nothing else.
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
			t.Logf("%d keys were broken, %d contents repaired, %d keys are left", len(broken), st.Repaired, len(still))
			report, err := fsck.Check(ctx, store.Meta, store.Blocks, fsck.Options{Content: true})
			require.NoError(t, err)
			require.Equal(t, len(st.Damaged), report.ByKind[fsck.KindContent])
		})
	}
}

// TestProgressFails: where the progress cannot be kept, the pass goes on all the same.
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

// TestOfSickDrive: what the drive does not give is damaged as well, and the rest of its block is read by the contents
// in it.
func TestOfSickDrive(t *testing.T) {
	store := newScrubbed(t, t.TempDir())
	for i := range 20 {
		store.Set(fmt.Sprint(i), storetest.Filler(uint64(i), 20_000))
	}
	d := store.Data("7")
	sick := sickBlocks{store.Blocks, d.Extents[0]}
	s := store.NewScrubber(scrub.Options{Blocks: sick})
	require.NoError(t, s.Pass(ctx))
	st := s.Status()
	require.Equal(t, []string{"7"}, keysOf(st))
	require.Equal(t, scrub.KindRecord, st.Damaged[0].Kind, "nobody makes a snapshot")
	require.Contains(t, st.Damaged[1].Text, "input/output error")
	require.False(t, store.Data("7").Damaged, "that is not proven")
	at, err := s.Verified(ctx, d.Extents[0].Block)
	require.NoError(t, err)
	require.True(t, at.IsZero(), "a block that cannot be read counts as verified")
	report, err := fsck.Check(ctx, store.Meta, sick, fsck.Options{Content: true})
	require.NoError(t, err)
	require.Equal(t, map[string]int{fsck.KindContent: 1}, report.ByKind)
}

// sickBlocks cannot read the bytes of an extent.
type sickBlocks struct {
	core.Blocks
	bad core.Extent
}

func (b sickBlocks) Unwrap() core.Blocks { return b.Blocks }

func (b sickBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	return sickReader{r, e, b.bad}, err
}

type sickReader struct {
	core.BlockReader
	e, bad core.Extent
}

func (r sickReader) ReadAt(p []byte, off int64) (int, error) {
	at := r.e.Offset + off
	if r.e.Block == r.bad.Block && at < r.bad.Offset+r.bad.Length && r.bad.Offset < at+int64(len(p)) {
		return 0, core.E("test", core.Internal, syscall.EIO)
	}
	return r.BlockReader.ReadAt(p, off)
}

// TestRuns by itself, and waits for the next period.
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
