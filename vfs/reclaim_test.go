package vfs_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/core/reclaim"
	"orcas/vfs"
)

// reclaimWriter gives reclaim the write buffer of a yard.
type reclaimWriter struct{ y *yard }

func (w reclaimWriter) DoAll(ctx context.Context, writes []reclaim.Write) ([]core.Result, []error) {
	list := make([]batch.Write, len(writes))
	for i, x := range writes {
		list[i] = batch.Write{Change: x.Change, Moved: x.Moved, Fresh: x.Fresh}
	}
	if w.y.refuse != nil && w.y.refuse(writes[0].Change) {
		_, errs := w.y.writer.DoAll(ctx, list[1:])
		return make([]core.Result, len(list)), append([]error{core.E("test", core.Conflict, coretest.ErrInjected)}, errs...)
	}
	return w.y.writer.DoAll(ctx, list)
}

// yard is a store with a Reclaimer, and what should be in it.
type yard struct {
	*world
	blocks core.Blocks
	meta   reclaim.Meta
	writer *batch.Writer
	r      *reclaim.Reclaimer
	rand   *rand.Rand
	want   map[string][]byte
	hook   func(place string)

	quiet  func()                       // called before reclaim waits for readers
	refuse func(first core.Change) bool // whether the first of several writes of reclaim is to be refused as a conflict
}

func newYard(t *testing.T, blocks core.Blocks, meta reclaim.Meta, o reclaim.Options) *yard {
	return newYardOver(t, batch.Options{Meta: meta, Blocks: blocks}, meta, o)
}

func newYardOver(t *testing.T, w batch.Options, meta reclaim.Meta, o reclaim.Options) *yard {
	blocks := w.Blocks
	y := &yard{world: &world{t: t}, blocks: blocks, meta: meta, rand: rand.New(rand.NewPCG(3, 3)), want: map[string][]byte{}}
	var err error
	y.writer, err = batch.Open(ctx, w)
	require.NoError(t, err)
	options := vfs.Options{Meta: meta, Blocks: blocks, Writer: y.writer, Compression: compression(), Instant: true}
	encrypted(&options)
	y.fs, err = vfs.New(options)
	require.NoError(t, err)
	o.Meta, o.Blocks, o.Writer = meta, blocks, reclaimWriter{y}
	o.Quiet = func(ctx context.Context) error {
		if y.quiet != nil {
			y.quiet()
		}
		return y.fs.Quiet(ctx)
	}
	o.Settle = y.writer.Settle
	o.Hook = func(place string) {
		if y.hook != nil {
			y.hook(place)
		}
	}
	y.r, err = reclaim.New(ctx, o)
	require.NoError(t, err)
	if y.b, err = y.fs.CreateBucket(ctx, core.BucketInfo{Name: "bucket"}); core.Is(err, core.BucketExists) {
		y.b, err = y.fs.Bucket(ctx, "bucket")
	}
	require.NoError(t, err)
	return y
}

// unshared makes the yard one that stores equal content as often as it comes.
func (y *yard) unshared() {
	var err error
	y.fs, err = vfs.New(vfs.Options{Meta: y.meta, Blocks: y.blocks, Writer: y.writer})
	require.NoError(y.t, err)
}

func memoryYard(t *testing.T, o reclaim.Options) *yard {
	y := newYard(t, mem.NewBlocks(), mem.NewMeta(), o)
	t.Cleanup(func() { y.writer.Close() })
	return y
}

// diskYard opens the store in dir; what it returns closes it.
func diskYard(t *testing.T, dir string, o reclaim.Options) (*yard, func()) {
	blocks, meta, done := openDisk(t, dir)
	y := newYard(t, blocks, meta, o)
	return y, func() {
		require.NoError(t, y.writer.Close())
		done()
	}
}

// churn makes some random writes.
func (y *yard) churn(n int) {
	for range n {
		key := fmt.Sprint("key-", y.rand.IntN(60))
		switch y.rand.IntN(12) {
		default:
			y.set(key, filler(y.rand.Uint64(), 1+y.rand.IntN(40_000)))
		case 0:
			y.set(key, filler(y.rand.Uint64(), 70_000+y.rand.IntN(600_000)))
		case 1, 2:
			y.fs.Delete(ctx, y.b, "", []vfs.DeleteRequest{{Key: key}})
			delete(y.want, key)
		case 3:
			keys := slices.Sorted(maps.Keys(y.want))
			if len(keys) == 0 {
				continue
			}
			from := keys[y.rand.IntN(len(keys))]
			o, err := y.fs.Stat(ctx, y.b, from, core.Current)
			require.NoError(y.t, err)
			_, err = y.fs.Copy(ctx, vfs.CopyRequest{SourceBucket: y.b, Source: o, Bucket: y.b, Key: key})
			require.NoError(y.t, err)
			y.want[key] = y.want[from]
		}
	}
}

// shift appends to keys and moves keys, n times.
func (y *yard) shift(n int) {
	for range n {
		key, other := fmt.Sprint("key-", y.rand.IntN(60)), fmt.Sprint("key-", y.rand.IntN(60))
		if y.rand.IntN(3) > 0 {
			y.append(key, random(y.rand.Uint64(), 1+y.rand.IntN(80_000)))
		} else {
			y.move(key, other)
		}
	}
}

// append puts content behind a key, where there is one.
func (y *yard) append(key string, body []byte) {
	if _, ok := y.want[key]; !ok {
		return
	}
	_, err := y.world.append(key, body)
	require.NoError(y.t, err)
	y.want[key] = append(slices.Clip(y.want[key]), body...)
}

// move gives a key, where there is one, another name.
func (y *yard) move(from, to string) {
	if _, ok := y.want[from]; !ok || from == to {
		return
	}
	o, err := y.fs.Stat(ctx, y.b, from, core.Current)
	require.NoError(y.t, err)
	_, err = y.fs.Move(ctx, vfs.MoveRequest{Source: o, Bucket: y.b, Key: to})
	require.NoError(y.t, err)
	y.want[to] = y.want[from]
	delete(y.want, from)
}

func (y *yard) set(key string, body []byte) {
	y.put(key, body)
	y.want[key] = body
}

// multipart writes an object of two parts, the first of them large.
func (y *yard) multipart(key string) {
	id := y.upload(key, core.UploadInfo{})
	first, second := filler(y.rand.Uint64(), 5<<20), filler(y.rand.Uint64(), 3000)
	parts := []vfs.CompletedPart{y.part(key, id, 1, first), y.part(key, id, 2, second)}
	_, err := y.fs.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: y.b, Key: key, Upload: id, Parts: parts, Size: -1})
	require.NoError(y.t, err)
	y.want[key] = append(first, second...)
}

func (y *yard) full() reclaim.Report {
	report, err := y.r.Round(ctx, true)
	require.NoError(y.t, err)
	return report
}

// check reads everything back.
func (y *yard) check() {
	y.t.Helper()
	for key, body := range y.want {
		y.requireContent(key, body)
	}
	state, err := coretest.ReadMeta(ctx, y.meta)
	require.NoError(y.t, err)
	state.Check(y.t)
	keys := 0
	for _, b := range state.Buckets {
		keys += len(b.Current)
	}
	require.Len(y.t, y.want, keys)
}

// rebuilds makes the metadata again from what a power cut would leave and compares.
func (y *yard) rebuilds(crashed core.Blocks) {
	y.t.Helper()
	again := mem.NewMeta()
	_, err := batch.Recover(ctx, again, crashed, slog.New(slog.DiscardHandler))
	require.NoError(y.t, err)
	want, err := coretest.ReadMeta(ctx, y.meta)
	require.NoError(y.t, err)
	got, err := coretest.ReadMeta(ctx, again)
	require.NoError(y.t, err)
	require.Equal(y.t, want.Comparable(), got.Comparable())
}

// used returns the bytes in all blocks, and those of live frames.
func (y *yard) used() (all, live int64) {
	require.NoError(y.t, y.blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		all += b.Size
		return nil
	}))
	require.NoError(y.t, y.meta.Snapshot(ctx, func(r *core.Row) error {
		infos := []*core.DataInfo{r.Data}
		if r.Object != nil {
			for _, s := range r.Object.Segments {
				infos = append(infos, s.Info)
			}
		}
		for _, d := range infos {
			if d != nil {
				for _, e := range d.Extents {
					live += e.Length
				}
			}
		}
		return nil
	}))
	return all, live
}

// TestReclaimRounds churns, reclaims, and after each round reads everything back and rebuilds the metadata from the blocks.
func TestReclaimRounds(t *testing.T) {
	y := memoryYard(t, reclaim.Options{DeadShare: 0.3})
	for i := range 25 {
		y.churn(40)
		if i%5 == 0 {
			y.multipart(fmt.Sprint("multipart-", i%2))
		}
		y.shift(20)
		y.append("multipart-0", random(uint64(i), 5000))
		_, err := y.r.Round(ctx, i%4 == 3)
		require.NoError(t, err)
		y.check()
		y.rebuilds(y.blocks.(*mem.Blocks).Crash())
	}
	y.full()
	report := y.full()
	require.Empty(t, report.Damaged)
	all, live := y.used()
	t.Logf("%d bytes in blocks, %d of them live: %+v", all, live, report)
	require.Less(t, float64(all), 1.15*float64(live)+128<<10)
	y.check()
	y.rebuilds(y.blocks.(*mem.Blocks).Crash())
	for key := range y.want {
		y.fs.Delete(ctx, y.b, "", []vfs.DeleteRequest{{Key: key}})
	}
	clear(y.want)
	y.full()
	y.full()
	y.check()
	all, _ = y.used()
	require.Less(t, all, int64(64<<10), "an empty store")
	garbage, err := y.meta.Garbage(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, garbage)
}

// TestReclaimOnDisk does the same on real drivers, with restarts and losses of the database between the rounds.
func TestReclaimOnDisk(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]byte{}
	for i := range 8 {
		y, done := diskYard(t, dir, reclaim.Options{})
		y.rand = rand.New(rand.NewPCG(uint64(i), 7))
		y.want = want
		y.check()
		y.churn(150)
		y.multipart("multipart")
		if i%2 == 0 {
			y.full()
		} else {
			_, err := y.r.Round(ctx, false)
			require.NoError(t, err)
		}
		y.check()
		y.rebuilds(y.blocks)
		want = y.want
		if i == 7 {
			y.full()
			all, live := y.used()
			t.Logf("%d bytes in blocks, %d of them live", all, live)
			require.Less(t, float64(all), 1.15*float64(live)+512<<10)
		}
		done()
	}
}

// TestOrphansGo: blocks that a crash left without a name are found by the next start, and by no earlier one.
func TestOrphansGo(t *testing.T) {
	dir := t.TempDir()
	y, done := diskYard(t, dir, reclaim.Options{})
	y.set("kept", filler(1, 300_000))
	large, err := y.writer.NewLarge(ctx, 300_000, 0, nil)
	require.NoError(t, err)
	body := filler(2, 300_000)
	for len(body) > 0 {
		b := batch.NewBuffer(min(len(body), 256<<10))
		n := copy(b.Content(), body)
		require.NoError(t, large.Write(b.B[:n+80]))
		body = body[n:]
		b.Release()
	}
	_, err = large.Commit(ctx)
	require.NoError(t, err)
	require.Less(t, y.full().BytesFreed, int64(300_000), "somebody may be about to name it")
	done()
	y, done = diskYard(t, dir, reclaim.Options{})
	defer done()
	y.want["kept"] = filler(1, 300_000)
	report := y.full()
	require.GreaterOrEqual(t, report.BlocksFreed, 1)
	require.GreaterOrEqual(t, report.BytesFreed, int64(300_000))
	y.check()
}

// TestReadersKeepTheirBlocks reads while everything around is overwritten and reclaimed: each body is whole.
func TestReadersKeepTheirBlocks(t *testing.T) {
	y, done := diskYard(t, t.TempDir(), reclaim.Options{DeadShare: 0.01})
	defer done()
	body := func(key, version int) []byte { return filler(uint64(1000*key+version), 20_000) }
	for k := range 20 {
		y.put(fmt.Sprint(k), body(k, 0))
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
				got, err := y.read(fmt.Sprint(k), 0, 20_000)
				if err != nil {
					t.Errorf("key %d: %v", k, err)
					return
				}
				whole := false
				for v := range 40 {
					whole = whole || slices.Equal(got, body(k, v))
				}
				if !whole {
					t.Errorf("key %d reads as nothing that was written", k)
					return
				}
			}
		})
	}
	freed := 0
	for v := 1; v < 40; v++ {
		for k := range 20 {
			y.put(fmt.Sprint(k), body(k, v))
		}
		report, err := y.r.Round(ctx, v%5 == 0)
		require.NoError(t, err)
		freed += report.BlocksFreed
	}
	close(stop)
	all.Wait()
	require.NotZero(t, freed)
	t.Logf("%d blocks freed", freed)
}

// TestDeletedWhileItMoves deletes and overwrites content between its copy and the switch, and at every other place.
func TestDeletedWhileItMoves(t *testing.T) {
	for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSnapshot, reclaim.HookSwitched, reclaim.HookUnlinked} {
		t.Run(place, func(t *testing.T) {
			y := memoryYard(t, reclaim.Options{})
			y.churn(200)
			hits := 0
			y.hook = func(at string) {
				if at == place && hits < 20 {
					hits++
					y.churn(5)
				}
			}
			y.full()
			y.hook = nil
			require.NotZero(t, hits)
			y.check()
			y.rebuilds(y.blocks.(*mem.Blocks).Crash())
			y.full()
			y.check()
		})
	}
}

// TestAbortedUploads: the parts of an upload that was aborted give their room back.
func TestAbortedUploads(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	id := y.upload("k", core.UploadInfo{})
	y.part("k", id, 1, filler(1, 6<<20))
	y.full()
	all, _ := y.used()
	require.Greater(t, all, int64(6<<20))
	require.NoError(t, y.fs.AbortUpload(ctx, y.b, "k", id))
	y.full()
	all, _ = y.used()
	require.Less(t, all, int64(1<<20))
}

// TestErrorsDeleteNothing makes every call of the blocks in a round fail in turn, once and for ever, done and not done: whatever happens,
// nothing is lost, and the next round goes on.
func TestErrorsDeleteNothing(t *testing.T) {
	for _, fault := range []coretest.Fault{{}, {On: true}, {Done: true}} {
		points := 1 << 20 // until a run without failures has counted them
		for n := 0; n <= points; n += 1 + n/40 {
			base := mem.NewBlocks()
			faulty := coretest.NewFaultyBlocks(base)
			y := newYard(t, faulty, mem.NewMeta(), reclaim.Options{})
			y.churn(60)
			fault.Nth = n
			faulty.Fail(fault)
			_, err := y.r.Round(ctx, true)
			if n == 0 {
				points = faulty.Calls()
				require.NoError(t, err)
			}
			faulty.Fail(coretest.Fault{})
			y.set("after", filler(1, 100)) // its record says which changes were reported as failed
			y.check()
			y.rebuilds(base.Crash())
			y.full()
			y.check()
			require.NoError(t, y.writer.Close())
		}
		require.Greater(t, points, 50)
		t.Logf("%d points", points)
	}
}

// syncedMeta notes when it is synced.
type syncedMeta struct {
	*mem.Meta
	onSync func()
}

func (m *syncedMeta) Sync(ctx context.Context) (core.State, error) {
	st, err := m.Meta.Sync(ctx)
	m.onSync()
	return st, err
}

// TestReclaimBesideRelaxedWrites cuts the power after writes that were answered before they were durable, and rounds of reclaim between them: the store
// is in one of the states that it was in, none from before the last sync, and all content is whole.
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
		y := newYardOver(t, batch.Options{Meta: meta, Blocks: blocks, Relaxed: true, Window: time.Hour}, meta, reclaim.Options{DeadShare: 0.05})
		y.rand = rand.New(rand.NewPCG(seed, 9))
		note := func() {
			rows, err := coretest.Rows(ctx, meta.Meta)
			require.NoError(t, err)
			moments = append(moments, moment{maps.Clone(y.want), rows})
		}
		require.NoError(t, y.writer.Flush(ctx))
		note()
		safe := 0
		for range 20 + y.rand.IntN(80) {
			y.churn(1)
			note()
			switch y.rand.IntN(8) {
			case 0:
				require.NoError(t, y.writer.Flush(ctx))
				safe = len(moments) - 1
			case 1:
				report, err := y.r.Round(ctx, y.rand.IntN(2) == 0)
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
				if y.rand.IntN(200) == 0 {
					clear(doubtful[at:min(at+512, len(doubtful))])
				}
			}
			return y.rand.IntN(len(doubtful) + 1)
		})
		again := mem.NewMeta()
		require.NoError(t, again.Restore(ctx, coretest.NextOf(moments[synced+y.rand.IntN(len(moments)-synced)].rows)))
		require.NoError(t, y.writer.Close())
		z := newYard(t, after, again, reclaim.Options{})
		found := map[string][]byte{}
		for n := range 60 {
			key := fmt.Sprint("key-", n)
			o, err := z.fs.Stat(ctx, z.b, key, core.Current)
			if core.Is(err, core.NoSuchKey) {
				continue
			}
			require.NoError(t, err)
			found[key], err = z.read(key, 0, o.Size)
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
		z.want = moments[at].want
		z.full()
		z.check()
		require.NoError(t, z.writer.Close())
	}
	require.NotZero(t, lost)
	require.NotZero(t, freed)
	t.Logf("writes were lost %d times, %d blocks were freed", lost, freed)

}

// TestHold: while somebody holds it, no round runs.
func TestHold(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	y.churn(50)
	var round sync.WaitGroup
	done := make(chan struct{})
	require.NoError(t, y.r.Hold(ctx, func() error {
		round.Go(func() {
			y.full()
			close(done)
		})
		before, _ := y.used()
		for range 100 {
			runtime.Gosched()
			select {
			case <-done:
				t.Error("a round ran")
			default:
			}
		}
		after, _ := y.used()
		require.Equal(t, before, after)
		return nil
	}))
	round.Wait()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.True(t, core.Is(y.r.Hold(canceled, func() error { return nil }), core.Canceled))
}
