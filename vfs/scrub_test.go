package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/frame"
	"orcas/core/reclaim"
	"orcas/core/snapshot"
)

// garden is a yard on disk with a Scrubber.
type garden struct {
	*yard
	dir       string
	s         *reclaim.Scrubber
	snapshots int
}

func newGarden(t *testing.T, dir string) (*garden, func()) {
	y, done := diskYard(t, dir, reclaim.Options{})
	g := &garden{yard: y, dir: dir}
	g.s = reclaim.NewScrubber(reclaim.ScrubOptions{
		Meta: y.meta, Blocks: y.blocks, Writer: reclaimWriter{y}, Period: time.Nanosecond, Hold: y.r.Hold,
		NewSnapshot: func(ctx context.Context) error {
			g.snapshots++
			return y.r.Snapshot(ctx)
		},
	})
	return g, done
}

func (g *garden) pass() reclaim.ScrubStatus {
	g.t.Helper()
	require.NoError(g.t, g.s.Pass(ctx))
	st := g.s.Status()
	require.False(g.t, st.Running)
	require.Equal(g.t, st.BlocksTotal, st.BlocksDone)
	require.Equal(g.t, st.BytesTotal, st.BytesDone)
	return st
}

// data returns the content of a key that has one segment.
func (g *garden) data(key string) core.DataInfo {
	o, err := g.meta.Object(ctx, g.b.ID, key, core.Current)
	require.NoError(g.t, err)
	require.Len(g.t, o.Segments, 1)
	return *o.Segments[0].Info
}

// flip turns a bit in the file of a block.
func (g *garden) flip(id core.BlockID, at int64) {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(g.dir, "blocks", fmt.Sprintf("%08x", id.Generation()), "*", fmt.Sprintf("%08x.*", id.Number())))
	require.NoError(g.t, err)
	require.Len(g.t, files, 1)
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	require.NoError(g.t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(g.t, err)
	b[0] ^= 16
	_, err = f.WriteAt(b[:], at)
	require.NoError(g.t, err)
}

// keysOf returns the keys of what is damaged.
func keysOf(st reclaim.ScrubStatus) []string {
	keys := map[string]bool{}
	for _, d := range st.Damaged {
		for _, o := range d.Objects {
			keys[o.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// TestScrubFindsAndMends flips bits of frames of every kind: all are found and named, and those of which there is a good copy are mended.
func TestScrubFindsAndMends(t *testing.T) {
	needsPlain(t)
	g, done := newGarden(t, t.TempDir())
	defer done()
	g.unshared()
	for i := range 40 {
		g.set(fmt.Sprint("single-", i), filler(uint64(1000+i), 1+g.rand.IntN(30_000)))
	}
	for i := range 6 { // the same bytes under two numbers
		g.set(fmt.Sprint("twin-", i), filler(uint64(i), 20_000))
		g.set(fmt.Sprint("twin-of-", i), filler(uint64(i), 20_000))
	}
	g.set("large", filler(77, 600_000))
	g.multipart("multipart")
	o, err := g.fs.Stat(ctx, g.b, "single-1", core.Current)
	require.NoError(t, err)
	_, err = g.fs.Copy(ctx, copyOf(g.b, o, "copy"))
	require.NoError(t, err)
	g.set("last", filler(88, 5000))
	st := g.pass()
	require.Empty(t, st.Damaged)

	body, head := int64(frame.HeaderSize+7), int64(20)
	g.flip(at(g.data("twin-0"), body))
	g.flip(at(g.data("twin-1"), head))
	g.flip(at(g.data("twin-of-2"), 0))
	g.flip(at(g.data("twin-3"), body)) // both of them
	g.flip(at(g.data("twin-of-3"), body))
	g.flip(at(g.data("single-1"), body))
	g.flip(at(g.data("single-2"), head))
	g.flip(at(g.data("single-3"), 48)) // its length
	g.flip(at(g.data("large"), 100_000))
	g.flip(at(g.data("last"), head)) // whatever follows is the record
	parts, err := g.meta.Parts(ctx, mustObject(t, g, "multipart").List, 0, 10)
	require.NoError(t, err)
	g.flip(at(*parts[0].Segments[0].Info, 1_000_000))

	lost := []string{"copy", "large", "last", "multipart", "single-1", "single-2", "single-3", "twin-3", "twin-of-3"}
	st = g.pass()
	require.Equal(t, lost, keysOf(st), "%+v", st)
	require.Equal(t, 3, st.Mended)
	require.Equal(t, 8, st.Found) // a content and its copy are one
	for _, d := range st.Damaged {
		require.NotEmpty(t, d.Text)
		require.NotEmpty(t, d.Block)
	}
	for key, want := range g.want {
		got, err := g.read(key, 0, -1)
		if slices.Contains(lost, key) {
			require.Error(t, err, key)
			continue
		}
		require.NoError(t, err, key)
		require.True(t, slices.Equal(want, got), key)
	}
	require.Equal(t, 1, g.snapshots, "where a header is damaged, a record may have stood")

	g.set("large", filler(78, 100)) // overwritten, deleted, written again
	g.deleteKey("single-2")
	g.set("single-3", filler(79, 100))
	delete(g.want, "single-2")
	st = g.pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
	require.Equal(t, 3, st.Mended)
	g.full()
	st = g.pass()
	require.Equal(t, []string{"copy", "last", "multipart", "single-1", "twin-3", "twin-of-3"}, keysOf(st))
}

func mustObject(t *testing.T, g *garden, key string) *core.ObjectInfo {
	o, err := g.meta.Object(ctx, g.b.ID, key, core.Current)
	require.NoError(t, err)
	return o
}

// at is a place in the first extent of a content.
func at(d core.DataInfo, off int64) (core.BlockID, int64) {
	return d.Extents[0].Block, d.Extents[0].Offset + off
}

// TestScrubMendsFromGarbage damages content that reclaim has moved, while the block that it stood in is there still.
func TestScrubMendsFromGarbage(t *testing.T) {
	g, done := newGarden(t, t.TempDir())
	defer done()
	for i := range 50 {
		g.set(fmt.Sprint(i), random(uint64(i), 30_000))
	}
	was := map[string]core.DataInfo{}
	for i := range 50 {
		was[fmt.Sprint(i)] = g.data(fmt.Sprint(i))
		if i%5 != 0 {
			g.deleteKey(fmt.Sprint(i))
			delete(g.want, fmt.Sprint(i))
		}
	}
	_, err := g.r.Round(ctx, false)
	require.NoError(t, err)
	moved := 0
	for key := range g.want {
		if now := g.data(key); now.Extents[0] != was[key].Extents[0] {
			g.flip(at(now, frame.HeaderSize+100))
			moved++
		}
	}
	require.Greater(t, moved, 3)
	st := g.pass()
	require.Empty(t, st.Damaged)
	require.Equal(t, moved, st.Mended)
	g.check()
	g.requireSound()
	g.full()
	g.check()
	g.rebuilds(g.blocks)
}

// TestScrubOfRecordsAndSnapshots: damage in what a rebuild needs asks for a new snapshot.
func TestScrubOfRecordsAndSnapshots(t *testing.T) {
	g, done := newGarden(t, t.TempDir())
	defer done()
	g.churn(100)
	info, err := snapshot.Write(ctx, g.meta, g.blocks, snapshot.WriteOptions{})
	require.NoError(t, err)
	require.Empty(t, g.pass().Damaged)
	require.Zero(t, g.snapshots)
	g.flip(info.Block, info.Size-10)
	require.Empty(t, g.pass().Damaged)
	require.Equal(t, 1, g.snapshots)
	require.Empty(t, g.pass().Damaged)
	require.Equal(t, 1, g.snapshots, "the damaged one is gone")
	list, err := snapshot.List(ctx, g.blocks)
	require.NoError(t, err)
	require.Len(t, list, 1)
	g.flip(list[0].Block, frame.BlockHeaderSize+20)
	require.Empty(t, g.pass().Damaged)
	require.Equal(t, 2, g.snapshots, "a snapshot without an end")
	g.set("a", filler(1, 100))
	d := g.data("a")
	g.set("b", filler(1, 100))
	g.flip(d.Extents[0].Block, d.Extents[0].Offset+d.Extents[0].Length+frame.HeaderSize+3) // the record of its batch
	st := g.pass()
	require.Empty(t, st.Damaged)
	require.Equal(t, 3, g.snapshots)
	require.Equal(t, 3, st.Snapshots)
	g.rebuilds(g.blocks) // without the record
}

// TestScrubGoesOn: a pass that was cut goes on after a restart where it was, and reads what was verified the longest time ago first.
func TestScrubGoesOn(t *testing.T) {
	dir := t.TempDir()
	g, done := newGarden(t, dir)
	for i := range 300 {
		g.set(fmt.Sprint(i), filler(uint64(i), 70_000)) // a block each
	}
	stopped, cancel := context.WithCancel(ctx)
	counting := &countedBlocks{Blocks: g.blocks, after: 280, then: cancel}
	o := reclaim.ScrubOptions{Meta: g.meta, Blocks: counting, Writer: reclaimWriter{g.yard}, Period: time.Nanosecond}
	require.Error(t, reclaim.NewScrubber(o).Pass(stopped))
	done()

	g, done = newGarden(t, dir)
	defer done()
	require.NoError(t, g.s.Pass(ctx))
	records, err := g.meta.Records(ctx, "scrub", "", 100)
	require.NoError(t, err)
	require.Less(t, len(records), 10)
	counting = &countedBlocks{Blocks: g.blocks, after: 1 << 30}
	o.Meta, o.Blocks, o.Writer = g.meta, counting, reclaimWriter{g.yard}
	require.NoError(t, reclaim.NewScrubber(o).Pass(ctx))
	require.GreaterOrEqual(t, len(counting.opened), 300, "a new pass reads everything")
	old := counting.opened[:40] // those that the cut pass had not come to were verified last
	for _, id := range old {
		require.Less(t, id.Number(), uint32(290))
	}
	for key := range g.want {
		g.deleteKey(key)
	}
	g.full()
	g.full()
	require.NoError(t, g.s.Pass(ctx))
	records, err = g.meta.Records(ctx, "scrub", "", 100)
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

func (b *countedBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	if len(b.opened) == 0 || b.opened[len(b.opened)-1] != e.Block {
		b.opened = append(b.opened, e.Block)
	}
	if len(b.opened) > b.after {
		b.then()
	}
	return b.Blocks.Open(ctx, e)
}

// TestScrubWhileInUse scrubs again and again while everything is overwritten and reclaimed: nothing is reported.
func TestScrubWhileInUse(t *testing.T) {
	g, done := newGarden(t, t.TempDir())
	defer done()
	ended := make(chan error)
	go func() {
		for i := range 25 {
			g.churn(40)
			if _, err := g.r.Round(ctx, i%5 == 0); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for passes := 1; ; passes++ {
		st := g.pass()
		require.Empty(t, st.Damaged)
		require.Zero(t, st.Mended)
		select {
		case err := <-ended:
			require.NoError(t, err)
			t.Logf("%d passes", passes)
			g.check()
			return
		default:
		}
	}
}

// TestScrubRandomFlips turns random bits of random blocks: each content that is not whole afterwards is reported or mended, and nothing else.
func TestScrubRandomFlips(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g, done := newGarden(t, t.TempDir())
			defer done()
			g.rand = rand.New(rand.NewPCG(seed, 3))
			g.churn(150)
			_, err := g.r.Round(ctx, false)
			require.NoError(t, err)
			var blocks []core.BlockInfo
			require.NoError(t, g.blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
				blocks = append(blocks, b)
				return nil
			}))
			for range 30 {
				b := blocks[g.rand.IntN(len(blocks))]
				g.flip(b.ID, frame.BlockHeaderSize+g.rand.Int64N(b.Size-frame.BlockHeaderSize))
			}
			broken := map[string]bool{}
			for key := range g.want {
				if _, err := g.read(key, 0, -1); err != nil {
					broken[key] = true
				}
			}
			st := g.pass()
			still := map[string]bool{}
			for key, want := range g.want {
				if got, err := g.read(key, 0, -1); err != nil {
					still[key] = true
				} else {
					require.Equal(t, want, got)
				}
			}
			require.Equal(t, slices.Sorted(maps.Keys(still)), keysOf(st))
			t.Logf("%d keys were broken, %d contents mended, %d keys are left", len(broken), st.Mended, len(still))
			report, err := reclaim.Check(ctx, g.meta, g.blocks, reclaim.CheckOptions{Content: true})
			require.NoError(t, err)
			require.Equal(t, len(st.Damaged), report.ByKind[reclaim.KindContent])
		})
	}
}

// TestScrubProgressFails: where the progress cannot be kept, the pass goes on all the same.
func TestScrubProgressFails(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	y.churn(50)
	s := reclaim.NewScrubber(reclaim.ScrubOptions{Meta: y.meta, Blocks: y.blocks, Writer: refusing{}, Period: time.Nanosecond})
	require.NoError(t, s.Pass(ctx))
	require.Equal(t, 1, s.Status().Passes)
}

type refusing struct{}

func (refusing) DoAll(_ context.Context, writes []reclaim.Write) ([]core.Result, []error) {
	errs := make([]error, len(writes))
	for i := range errs {
		errs[i] = core.E("test", core.NoSpace, errors.New("full"))
	}
	return make([]core.Result, len(writes)), errs
}

// TestScrubOfSickDrive: what the drive does not give is damaged as well, and the rest of its block is read by the contents in it.
func TestScrubOfSickDrive(t *testing.T) {
	g, done := newGarden(t, t.TempDir())
	defer done()
	for i := range 20 {
		g.set(fmt.Sprint(i), filler(uint64(i), 20_000))
	}
	d := g.data("7")
	sick := sickBlocks{g.blocks, d.Extents[0]}
	s := reclaim.NewScrubber(reclaim.ScrubOptions{Meta: g.meta, Blocks: sick, Writer: reclaimWriter{g.yard}, Period: time.Nanosecond})
	require.NoError(t, s.Pass(ctx))
	st := s.Status()
	require.Equal(t, []string{"7"}, keysOf(st))
	require.Equal(t, reclaim.KindRecord, st.Damaged[0].Kind, "nobody makes a snapshot")
	require.Contains(t, st.Damaged[1].Text, "input/output error")
	report, err := reclaim.Check(ctx, g.meta, sick, reclaim.CheckOptions{Content: true})
	require.NoError(t, err)
	require.Equal(t, map[string]int{reclaim.KindContent: 1}, report.ByKind)
}

// sickBlocks cannot read the bytes of an extent.
type sickBlocks struct {
	core.Blocks
	bad core.Extent
}

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

// TestScrubRuns by itself, and waits for the next period.
func TestScrubRuns(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	y.churn(50)
	s := reclaim.NewScrubber(reclaim.ScrubOptions{Meta: y.meta, Blocks: y.blocks, Writer: reclaimWriter{y}, BytesPerSecond: 1 << 40})
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
