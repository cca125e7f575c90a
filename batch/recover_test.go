package batch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/core/snapshot"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// patched is Blocks in which one block was damaged or truncated.
type patched struct {
	core.Blocks
	block core.BlockID
	at    int64
	flip  byte
	size  int64 // the size of block that Walk reports; 0: the actual size
}

func (p *patched) Unwrap() core.Blocks { return p.Blocks }

func (p *patched) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := p.Blocks.Open(ctx, e)
	if err != nil || e.Block != p.block {
		return r, err
	}
	return &patchedReader{r, p, e.Offset}, nil
}

func (p *patched) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return p.Blocks.Walk(ctx, from, func(i core.BlockInfo) error {
		if i.ID == p.block && p.size > 0 {
			i.Size = p.size
		}
		return fn(i)
	})
}

type patchedReader struct {
	core.BlockReader
	p    *patched
	from int64
}

func (r *patchedReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.BlockReader.ReadAt(b, off)
	if i := r.p.at - r.from - off; r.p.flip != 0 && i >= 0 && i < int64(n) {
		b[i] ^= r.p.flip
	}
	return n, err
}

// history writes objects, deletes and overwrites, and returns the state after each write.
func history(t *testing.T, s *store, n int) []*coretest.MetaState {
	var states []*coretest.MetaState
	note := func() {
		st, err := coretest.ReadMeta(ctx, s.meta)
		require.NoError(t, err)
		st.State = core.State{}
		states = append(states, st.Comparable())
	}
	note()
	for i := range n {
		switch i % 5 {
		case 4:
			from, err := s.meta.Object(ctx, s.bucket, fmt.Sprint(i-4), core.Current)
			require.NoError(t, err)
			_, err = s.w.Do(ctx, batch.Write{Change: &core.MoveObject{
				From: core.Source{Bucket: s.bucket, Key: from.Key, Seq: from.Seq}, Bucket: s.bucket, Key: fmt.Sprint(i),
			}})
			require.NoError(t, err)
		case 3:
			_, err := s.w.Do(ctx, batch.Write{Change: &core.DeleteObject{Bucket: s.bucket, Key: fmt.Sprint(i - 2)}})
			require.NoError(t, err)
		case 2:
			require.NoError(t, s.put(fmt.Sprint(i-2), random(uint64(i), 300)))
		default:
			require.NoError(t, s.put(fmt.Sprint(i), random(uint64(i), 200+i)))
		}
		note()
	}
	return states
}

// onlyBlock returns the only block of s.
func onlyBlock(t *testing.T, s *store) core.BlockInfo {
	var only core.BlockInfo
	n := 0
	require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(i core.BlockInfo) error {
		only = i
		n++
		return nil
	}))
	require.Equal(t, 1, n)
	return only
}

// TestEveryCutIsAPrefix cuts the block after every byte. The recovered state is always the state after some write, and
// includes every complete batch before the cut.
func TestEveryCutIsAPrefix(t *testing.T) {
	s := newStore(t, batch.Options{})
	states := history(t, s, 8)
	b := onlyBlock(t, s)
	least := 0
	for size := int64(frame.BlockHeaderSize); size <= b.Size; size++ {
		meta := mem.NewMeta()
		_, err := batch.Recover(ctx, meta, &patched{Blocks: s.mem, block: b.ID, size: size}, discard())
		require.NoError(t, err)
		got, err := coretest.ReadMeta(ctx, meta)
		require.NoError(t, err)
		got.State = core.State{}
		if len(got.Buckets) == 0 {
			require.Zero(t, least)
			continue
		}
		found := -1
		for i := least; i < len(states); i++ {
			if assert.ObjectsAreEqual(states[i], got.Comparable()) {
				found = i
				break
			}
		}
		require.GreaterOrEqual(t, found, least, "cut at %d", size)
		least = found
	}
	require.Equal(t, len(states)-1, least)
}

// TestFlipsNeverReturnWrongContent flips a bit of each byte of the block. Recovery succeeds, and a read of every
// recovered object returns content that its key once had, or an error.
func TestFlipsNeverReturnWrongContent(t *testing.T) {
	s := newStore(t, batch.Options{})
	contents := map[string][][]byte{}
	for i := range 12 {
		key := fmt.Sprint(i % 5)
		c := random(uint64(i), 150)
		contents[key] = append(contents[key], c)
		require.NoError(t, s.put(key, c))
	}
	b := onlyBlock(t, s)
	r := rand.New(rand.NewPCG(7, 7))
	missing, refused := 0, 0
	for at := int64(frame.BlockHeaderSize); at < b.Size; at++ {
		p := &patched{Blocks: s.mem, block: b.ID, at: at, flip: 1 << r.IntN(8)}
		meta := mem.NewMeta()
		_, err := batch.Recover(ctx, meta, p, discard())
		if err != nil { // a record is damaged: its changes are missing, and the others are not affected
			require.True(t, core.Is(err, core.Damaged), "%v", err)
			st, stateErr := meta.State(ctx)
			require.NoError(t, stateErr)
			require.Zero(t, st.Seq)
			rebuilt, lossyErr := batch.Rebuild(ctx, meta, p, discard(), true)
			require.NoError(t, lossyErr)
			require.NotEmpty(t, rebuilt.Missing)
			refused++
		}
		if _, err := meta.Bucket(ctx, "b"); err != nil {
			continue // the first record is damaged
		}
		for key, list := range contents {
			got, err := read(meta, p, s.bucket, key)
			if err != nil {
				missing++
				continue
			}
			require.Contains(t, list, got)
		}
	}
	require.NotZero(t, missing)
	require.NotZero(t, refused)
}

// TestOnlyNewerRecordsAreApplied recovers metadata from different points of the history.
func TestOnlyNewerRecordsAreApplied(t *testing.T) {
	s := newStore(t, batch.Options{})
	states := history(t, s, 8)
	b := onlyBlock(t, s)
	for size := int64(frame.BlockHeaderSize) + 200; size < b.Size; size += 300 {
		meta := mem.NewMeta()
		_, err := batch.Recover(ctx, meta, &patched{Blocks: s.mem, block: b.ID, size: size}, discard())
		require.NoError(t, err)
		_, err = batch.Recover(ctx, meta, s.mem, discard())
		require.NoError(t, err)
		got, err := coretest.ReadMeta(ctx, meta)
		require.NoError(t, err)
		got.State = core.State{}
		require.Equal(t, states[len(states)-1], got.Comparable())
	}
}

// TestOldMetadataBehindASnapshot restores an old copy of the metadata after blocks were deleted whose records a
// snapshot covers. The start rebuilds the metadata from the snapshot. If the snapshot is damaged, the metadata is kept,
// and the log reports the missing changes.
func TestOldMetadataBehindASnapshot(t *testing.T) {
	s := newStore(t, batch.Options{Alone: true}) // a block for each change
	history(t, s, 9)
	var blocks []core.BlockID
	require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		blocks = append(blocks, b.ID)
		return nil
	}))
	early := coretest.NewFaultyBlocks(s.mem.Crash())
	for _, id := range blocks[4:] {
		require.NoError(t, early.Delete(ctx, id))
	}
	own, ok := core.As[core.Snapshotter](s.meta)
	require.True(t, ok)
	info, err := snapshot.Write(ctx, own, s.mem, snapshot.WriteOptions{})
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, s.put(fmt.Sprint("behind ", i), random(uint64(i), 100)))
	}
	for _, id := range blocks[3:6] { // recovery does not need their content
		require.NoError(t, s.mem.Delete(ctx, id))
	}
	now, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(t, err)
	now.State = core.State{}
	for name, c := range map[string]struct {
		blocks core.Blocks
		whole  bool
	}{
		"intact":  {s.mem, true},
		"damaged": {&patched{Blocks: s.mem, block: info.Block, at: info.Size - 1, flip: 1}, false},
	} {
		var log strings.Builder
		meta := mem.NewMeta()
		_, err = batch.Recover(ctx, meta, early, discard())
		require.NoError(t, err, name)
		was, err := meta.State(ctx)
		require.NoError(t, err, name)
		require.Less(t, was.Seq, info.Seq, name)
		_, err = batch.Recover(ctx, meta, c.blocks, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err, name)
		got, err := coretest.ReadMeta(ctx, meta)
		require.NoError(t, err, name)
		got.State = core.State{}
		require.Equal(t, c.whole, assert.ObjectsAreEqual(now.Comparable(), got.Comparable()), name)
		require.Equal(t, !c.whole, strings.Contains(log.String(), "are missing from the blocks"), name)
	}
}

// checkpointing counts checkpoints.
type checkpointing struct {
	core.Meta
	n int
}

func (c *checkpointing) Unwrap() core.Meta { return c.Meta }

func (c *checkpointing) Checkpoint(context.Context) error { c.n++; return nil }

// TestRecoveryIsDurable checks that a recovery ends with a checkpoint, so that the next start does not apply the same
// changes again.
func TestRecoveryIsDurable(t *testing.T) {
	s := newStore(t, batch.Options{})
	history(t, s, 4)
	meta := &checkpointing{Meta: mem.NewMeta()}
	for _, want := range []int{1, 1} {
		_, err := batch.Recover(ctx, meta, s.mem.Crash(), discard())
		require.NoError(t, err)
		require.Equal(t, want, meta.n)
	}
}

// putBatch writes the keys "0" to "4" in one batch, closes the writer, and returns the extent of "2".
func (s *store) putBatch(t *testing.T) core.Extent {
	writes := make([]batch.Write, 5)
	for i := range writes {
		writes[i] = putting(s.w, s.bucket, fmt.Sprint(i), random(uint64(i), 1000))
	}
	_, errs := s.w.DoAll(ctx, writes)
	require.NoError(t, errs[0])
	require.NoError(t, s.w.Close())
	o, err := s.meta.Object(ctx, s.bucket, "2", core.Current)
	require.NoError(t, err)
	return o.Segments[0].Info.Extents[0]
}

// TestTornLastBatch recovers a batch whose record is intact, but not all of its content. The writes with intact content
// are recovered, the torn write is not, and no sequence is assigned twice afterwards.
func TestTornLastBatch(t *testing.T) {
	s := newStore(t, batch.Options{})
	e := s.putBatch(t)
	p := &patched{Blocks: s.mem.Crash(), block: e.Block, at: e.Offset + 500, flip: 1}
	meta := mem.NewMeta()
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: p})
	require.NoError(t, err)
	for i := range 5 {
		got, err := read(meta, p, s.bucket, fmt.Sprint(i))
		if i == 2 {
			require.Equal(t, core.NoSuchKey, core.KindOf(err))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, random(uint64(i), 1000), got)
	}
	before, err := s.meta.State(ctx)
	require.NoError(t, err)
	res, err := w.Do(ctx, putting(w, s.bucket, "new", []byte("x")))
	require.NoError(t, err)
	require.Greater(t, res.Seq, before.Seq)
	require.NoError(t, w.Close())
	// The torn write remains voided, even if its content becomes readable again.
	fresh := mem.NewMeta()
	_, err = batch.Recover(ctx, fresh, p.Blocks, discard())
	require.NoError(t, err)
	_, err = fresh.Object(ctx, s.bucket, "2", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	_, err = fresh.Object(ctx, s.bucket, "new", core.Current)
	require.NoError(t, err)
}

// TestTornLastBatchAndRestarts checks that the torn write remains voided even if nothing is written between several
// starts: the first start must record the void, since later ones do not check the batch again.
func TestTornLastBatchAndRestarts(t *testing.T) {
	s := newStore(t, batch.Options{})
	require.NoError(t, s.put("torn", random(1, 1000)))
	_, errs := s.w.DoAll(ctx, []batch.Write{
		putting(s.w, s.bucket, "torn", random(2, 1000)), putting(s.w, s.bucket, "whole", random(3, 1000)),
	})
	require.NoError(t, errs[0])
	require.NoError(t, s.w.Close())
	o, err := s.meta.Object(ctx, s.bucket, "torn", core.Current)
	require.NoError(t, err)
	e := o.Segments[0].Info.Extents[0]
	meta := mem.NewMeta()
	p := &patched{Blocks: s.mem.Crash(), block: e.Block, at: e.Offset + 500, flip: 1}
	for range 2 {
		w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: p})
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	w, err := batch.Open(ctx, batch.Options{Meta: meta, Blocks: p})
	require.NoError(t, err)
	_, err = w.Do(ctx, putting(w, s.bucket, "new", []byte("x")))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	fresh := mem.NewMeta()
	_, err = batch.Recover(ctx, fresh, p, discard())
	require.NoError(t, err)
	got, err := read(fresh, p, s.bucket, "torn")
	require.NoError(t, err)
	require.Equal(t, random(1, 1000), got)
}

// TestRecordsInManyBlocks recovers a store without packing, in which each write has a block and a replay start of its
// own.
func TestRecordsInManyBlocks(t *testing.T) {
	s := newStore(t, batch.Options{Alone: true})
	for i := range 20 {
		require.NoError(t, s.put(fmt.Sprint(i%7), random(uint64(i), 100)))
	}
	st, err := s.meta.State(ctx)
	require.NoError(t, err)
	require.False(t, st.ReplayFrom.IsZero())
	s.rebuildEquals()
}

// TestRecordLargerThanAFrame recovers a record of several frames, with long keys and attributes.
func TestRecordLargerThanAFrame(t *testing.T) {
	s := newStore(t, batch.Options{})
	writes := make([]batch.Write, 400)
	for i := range writes {
		writes[i] = putting(s.w, s.bucket, fmt.Sprintf("%01000d", i), []byte("x"))
		writes[i].Change.(*core.PutObject).Object.Attrs = []core.Attr{{Name: "x-amz-meta-a", Value: fmt.Sprintf("%02000d", i)}}
	}
	_, errs := s.w.DoAll(ctx, writes)
	require.NoError(t, errs[399])
	s.rebuildEquals()
}

func BenchmarkPutMemory(b *testing.B) {
	meta, blocks := mem.NewMeta(), mem.NewBlocks()
	w, err := batch.Open(ctx, batch.Options{Meta: nothing{meta}, Blocks: blocks})
	require.NoError(b, err)
	defer w.Close()
	content := random(1, 4096)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.Do(ctx, putting(w, 1, "key", content)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// nothing is a Meta whose Apply does nothing, so that a benchmark measures only the write buffer.
type nothing struct{ core.Meta }

func (nothing) Apply(_ context.Context, changes []core.Change) ([]core.Result, error) {
	return make([]core.Result, len(changes)), nil
}

// groups is a Meta that keeps the number of changes of each Apply, and fails at one of them.
type groups struct {
	core.Meta
	sizes  []int
	failAt int
}

var errGroup = errors.New("the group failed")

func (g *groups) Unwrap() core.Meta { return g.Meta }

func (g *groups) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	g.sizes = append(g.sizes, len(changes))
	if len(g.sizes) == g.failAt {
		return nil, errGroup
	}
	return g.Meta.Apply(ctx, changes)
}

// A replay applies the changes of many records together, in order. If Apply fails, nothing is applied after it.
func TestReplayInGroups(t *testing.T) {
	s := newStore(t, batch.Options{})
	const all = 45_000
	var writes []batch.Write
	for n := range all {
		writes = append(writes, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "kind", Key: fmt.Sprint(n % 1000), Value: []byte(fmt.Sprint(n))}}})
		if len(writes) == 1500 {
			_, errs := s.w.DoAll(ctx, writes)
			for _, err := range errs {
				require.NoError(t, err)
			}
			writes = writes[:0]
		}
	}
	want, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(t, err)

	g := &groups{Meta: mem.NewMeta()}
	r, err := batch.Rebuild(ctx, g, s.mem, discard(), false)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Applied, all)
	require.Len(t, g.sizes, 3)
	for _, n := range g.sizes[:2] {
		require.GreaterOrEqual(t, n, 20_000)
		require.Less(t, n, 20_000+2048)
	}
	got, err := coretest.ReadMeta(ctx, g)
	require.NoError(t, err)
	require.Equal(t, want.Comparable(), got.Comparable())

	for failAt := 1; failAt <= 3; failAt++ {
		g := &groups{Meta: mem.NewMeta(), failAt: failAt}
		_, err := batch.Rebuild(ctx, g, s.mem, discard(), false)
		require.ErrorIs(t, err, errGroup)
		require.Len(t, g.sizes, failAt)
	}
}

// Blocks are scanned concurrently. A damaged block, or one that cannot be read, has the same effect wherever it is.
func TestManyBlocksAreScanned(t *testing.T) {
	s := newStore(t, batch.Options{Alone: true}) // each write has a block of its own
	for n := range 200 {
		require.NoError(t, s.put(fmt.Sprint(n), random(uint64(n), 50)))
	}
	var all []core.BlockInfo
	require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(i core.BlockInfo) error {
		all = append(all, i)
		return nil
	}))
	require.Len(t, all, 201)
	for _, at := range []int{1, 100, 199} {
		_, err := batch.Rebuild(ctx, mem.NewMeta(), &patched{Blocks: s.mem, block: all[at].ID, at: 70, flip: 1}, discard(), false)
		require.NoError(t, err, "damaged content is no reason to stop")
		_, err = batch.Rebuild(ctx, mem.NewMeta(), &patched{Blocks: s.mem, block: all[at].ID, at: all[at].Size - 5, flip: 1}, discard(), false)
		require.ErrorContains(t, err, fmt.Sprintf("changes %d to %d are neither", 2*at+1, 2*at+2)) // each batch has two changes
		_, err = batch.Rebuild(ctx, mem.NewMeta(), &unopened{s.mem, all[at].ID}, discard(), false)
		require.ErrorIs(t, err, errUnopened)
	}
	meta := mem.NewMeta()
	r, err := batch.Rebuild(ctx, meta, s.mem, discard(), false)
	require.NoError(t, err)
	require.EqualValues(t, r.Seq, r.Applied)
	for n := range 200 {
		content, err := read(meta, s.mem, s.bucket, fmt.Sprint(n))
		require.NoError(t, err)
		require.Equal(t, random(uint64(n), 50), content)
	}
}

// unopened is Blocks with a block that cannot be opened.
type unopened struct {
	core.Blocks
	block core.BlockID
}

var errUnopened = errors.New("cannot open the block")

func (u *unopened) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	if e.Block == u.block {
		return nil, errUnopened
	}
	return u.Blocks.Open(ctx, e)
}
