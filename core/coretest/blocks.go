package coretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/frame"
)

// Blocks runs the suite that every driver of core.Blocks must pass. Open returns an empty store, which the suite
// closes.
func Blocks(t *testing.T, open func(t *testing.T) core.Blocks) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, b core.Blocks)
	}{
		{"CommittedBytesComeBack", committedBytesComeBack},
		{"PackedWritersFollowEachOther", packedWritersFollowEachOther},
		{"SeveralPackedWriters", severalPackedWriters},
		{"PlacementIsAHint", placementIsAHint},
		{"IdentityIsInTheIDs", identityIsInTheIDs},
		{"BegunBlocksAreListed", begunBlocksAreListed},
		{"SizeHintThatDoesNotFitBeginsABlock", sizeHintBeginsABlock},
		{"AloneAndLargeHaveTheirOwnBlocks", aloneAndLargeHaveTheirOwnBlocks},
		{"AbortKeepsOtherData", abortKeepsOtherData},
		{"EndedWritersReturnErrors", endedWritersReturnErrors},
		{"ReadsAreLimitedToTheExtent", readsAreLimitedToTheExtent},
		{"Spans", spans},
		{"MissingBlocks", missingBlocks},
		{"StatFindsExistingBlocks", statFindsExistingBlocks},
		{"DeletedBytesRemainForReaders", deletedBytesRemainForReaders},
		{"DeleteOfTheOpenBlock", deleteOfTheOpenBlock},
		{"WalkIsInOrder", walkIsInOrder},
		{"BlocksBeginWithAHeader", blocksBeginWithAHeader},
		{"CloseEndsWriters", closeEndsWriters},
		{"ConcurrentUse", concurrentUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			defer func() { require.NoError(t, b.Close()) }()
			c.test(t, b)
		})
	}
}

// The block options used by the suites.
var (
	packed = core.BlockOptions{Kind: core.Packed, SizeHint: 4 << 10}
	alone  = core.BlockOptions{Kind: core.Packed, SizeHint: 4 << 10, Alone: true}
	large  = core.BlockOptions{Kind: core.Large}
)

// put is committed data and its extent.
type put struct {
	extent core.Extent
	data   []byte
}

func random(seed uint64, n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func create(t *testing.T, b core.Blocks, o core.BlockOptions) core.BlockWriter {
	t.Helper()
	w, err := b.Create(t.Context(), o)
	require.NoError(t, err)
	return w
}

// commit writes data in pieces, commits it, and returns it with its extent.
func commit(t *testing.T, b core.Blocks, o core.BlockOptions, data []byte) put {
	t.Helper()
	p, err := tryCommit(t, b, o, data)
	require.NoError(t, err)
	return p
}

func tryCommit(t *testing.T, b core.Blocks, o core.BlockOptions, data []byte) (put, error) {
	w, err := b.Create(t.Context(), o)
	if err != nil {
		return put{}, err
	}
	e := core.Extent{Block: w.Block(), Offset: w.Offset(), Length: int64(len(data))}
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 1000)
		if _, err := w.Write(rest[:n]); err != nil {
			return put{}, errors.Join(err, w.Abort())
		}
		rest = rest[n:]
		if at := e.Offset + e.Length - int64(len(rest)); w.Offset() != at || w.Block() != e.Block {
			return put{}, fmt.Errorf("the writer is at offset %d of block %v: expected offset %d of block %v",
				w.Offset(), w.Block(), at, e.Block)
		}
	}
	if err := w.Commit(t.Context()); err != nil {
		return put{}, err
	}
	return put{e, data}, w.Abort() // Abort does nothing after Commit
}

// check reads the extent and returns an error if the data differs.
func (p put) check(t *testing.T, b core.Blocks) error {
	r, err := b.Open(t.Context(), p.extent)
	if err != nil {
		return err
	}
	got := make([]byte, len(p.data))
	_, err = r.ReadAt(got, 0)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if !bytes.Equal(got, p.data) {
		return fmt.Errorf("extent %+v does not have the bytes that were written", p.extent)
	}
	return nil
}

func (p put) require(t *testing.T, b core.Blocks) {
	t.Helper()
	require.NoError(t, p.check(t, b))
}

// walk returns all blocks from the given ID on.
func walk(t *testing.T, b core.Blocks, from core.BlockID) (list []core.BlockInfo) {
	t.Helper()
	require.NoError(t, b.Walk(t.Context(), from, func(i core.BlockInfo) error {
		list = append(list, i)
		return nil
	}))
	return list
}

func committedBytesComeBack(t *testing.T, b core.Blocks) {
	var puts []put
	for i, n := range []int{1, 10, 4 << 10, 70_000, 300_000} {
		for _, o := range []core.BlockOptions{packed, alone, large} {
			o.SizeHint = int64(n)
			puts = append(puts, commit(t, b, o, random(uint64(i), n)))
		}
	}
	puts = append(puts, commit(t, b, packed, nil), commit(t, b, large, nil))
	for _, p := range puts {
		p.require(t, b)
	}
}

func sizeHintBeginsABlock(t *testing.T, b core.Blocks) {
	first := commit(t, b, packed, random(1, 100))
	big := packed
	big.SizeHint = 1 << 40
	second := commit(t, b, big, random(2, 100))
	require.NotEqual(t, first.extent.Block, second.extent.Block)
	third := commit(t, b, packed, random(3, 100))
	require.NotEqual(t, first.extent.Block, third.extent.Block)
	for _, p := range []put{first, second, third} {
		p.require(t, b)
	}
}

func aloneAndLargeHaveTheirOwnBlocks(t *testing.T, b core.Blocks) {
	shared := commit(t, b, packed, random(1, 100))
	seen := map[core.BlockID]bool{shared.extent.Block: true}
	for _, o := range []core.BlockOptions{alone, large, alone, large} {
		p := commit(t, b, o, random(2, 100))
		require.EqualValues(t, frame.BlockHeaderSize, p.extent.Offset)
		require.False(t, seen[p.extent.Block])
		seen[p.extent.Block] = true
		again := commit(t, b, packed, random(3, 100))
		requireFollows(t, shared, again)
		require.False(t, seen[again.extent.Block] && again.extent.Block != shared.extent.Block)
		seen[again.extent.Block] = true
		shared = again
	}
	// Open writers do not block each other.
	a, l, s := create(t, b, alone), create(t, b, large), create(t, b, packed)
	for _, w := range []core.BlockWriter{s, l, a} {
		_, err := w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, w.Commit(t.Context()))
	}
}

func abortKeepsOtherData(t *testing.T, b core.Blocks) {
	first := commit(t, b, packed, random(1, 100))
	require.NoError(t, create(t, b, packed).Abort())
	second := commit(t, b, packed, random(2, 100))
	w := create(t, b, packed)
	_, err := w.Write(random(3, 200))
	require.NoError(t, err)
	require.NoError(t, w.Abort())
	third := commit(t, b, packed, random(4, 100))
	require.NotEqual(t, w.Block(), third.extent.Block, "a block with an aborted tail must not be appended to")
	for _, p := range []put{first, second, third} {
		p.require(t, b)
	}
	for _, o := range []core.BlockOptions{large, alone} {
		w := create(t, b, o)
		_, err = w.Write(random(5, 5000))
		require.NoError(t, err)
		require.NoError(t, w.Abort())
		for _, i := range walk(t, b, core.BlockID{}) {
			require.NotEqual(t, w.Block(), i.ID, "an aborted block that is not shared must be deleted")
		}
	}
}

func endedWritersReturnErrors(t *testing.T, b core.Blocks) {
	for _, o := range []core.BlockOptions{packed, alone, large} {
		w := create(t, b, o)
		_, err := w.Write([]byte("kept"))
		require.NoError(t, err)
		p := put{core.Extent{Block: w.Block(), Offset: w.Offset() - 4, Length: 4}, []byte("kept")}
		require.NoError(t, w.Commit(t.Context()))
		_, err = w.Write([]byte("more"))
		require.Error(t, err)
		require.Error(t, w.Commit(t.Context()))
		require.NoError(t, w.Abort())
		p.require(t, b)

		w = create(t, b, o)
		require.NoError(t, w.Abort())
		require.NoError(t, w.Abort())
		_, err = w.Write([]byte("more"))
		require.Error(t, err)
		require.Error(t, w.Commit(t.Context()))
		p.require(t, b)
	}
}

func readsAreLimitedToTheExtent(t *testing.T, b core.Blocks) {
	before := commit(t, b, packed, random(1, 100))
	p := commit(t, b, packed, random(2, 1000))
	commit(t, b, packed, random(3, 100)).require(t, b)
	r, err := b.Open(t.Context(), p.extent)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for _, c := range []struct {
		off  int64
		len  int
		want int
		err  error
	}{
		{0, 10, 10, nil}, {0, 1000, 1000, nil}, {990, 10, 10, nil}, {500, 0, 0, nil},
		{990, 11, 10, io.EOF}, {0, 1001, 1000, io.EOF}, {1000, 1, 0, io.EOF}, {5000, 1, 0, io.EOF},
	} {
		got := make([]byte, c.len)
		n, err := r.ReadAt(got, c.off)
		require.Equal(t, c.want, n, "%+v", c)
		require.ErrorIs(t, err, c.err, "%+v", c)
		if n > 0 {
			require.Equal(t, p.data[c.off:][:n], got[:n])
		}
	}
	n, err := r.ReadAt(make([]byte, 1), -1)
	require.Zero(t, n)
	require.Error(t, err)

	// A read beyond the end of the block must fail, and must not return padding.
	wide := core.Extent{Block: before.extent.Block, Offset: 1 << 40, Length: 10}
	w, err := b.Open(t.Context(), wide)
	require.NoError(t, err)
	n, err = w.ReadAt(make([]byte, 10), 0)
	require.Zero(t, n)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	require.NoError(t, w.Close())
	for _, bad := range []core.Extent{{Offset: -1, Length: 5}, {Offset: 5, Length: -1}, {Offset: 1<<63 - 1, Length: 5}} {
		bad.Block = before.extent.Block
		_, err := b.Open(t.Context(), bad)
		require.True(t, core.Is(err, core.InvalidArgument), "%v", err)
	}
}

func spans(t *testing.T, b core.Blocks) {
	p := commit(t, b, large, random(1, 300_000))
	r, err := b.Open(t.Context(), p.extent)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for _, c := range []struct{ off, n int64 }{{0, 300_000}, {0, 0}, {100_000, 150_000}, {299_999, 1}, {300_000, 0}} {
		s, err := core.ReadSpan(t.Context(), r, c.off, c.n)
		require.NoError(t, err)
		var got []byte
		for piece := make([]byte, 70_000); ; { // the span need not be a multiple of this size
			n, err := s.Read(piece)
			got = append(got, piece[:n]...)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			at := make([]byte, 10) // ReadAt still works while a span is read
			_, err = r.ReadAt(at, 5)
			require.NoError(t, err)
			require.Equal(t, p.data[5:15], at)
		}
		require.True(t, bytes.Equal(p.data[c.off:c.off+c.n], got), "%+v", c)
		require.NoError(t, s.Close())
	}
	s, err := core.ReadSpan(t.Context(), r, 299_000, 2000)
	require.NoError(t, err)
	_, err = io.ReadAll(s)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, s.Close())

	ctx, cancel := context.WithCancel(t.Context())
	s, err = core.ReadSpan(ctx, r, 0, 300_000)
	require.NoError(t, err)
	_, err = io.ReadFull(s, make([]byte, 1000))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(s)
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	require.NoError(t, s.Close())
}

func missingBlocks(t *testing.T, b core.Blocks) {
	p := commit(t, b, packed, random(1, 100))
	id := p.extent.Block
	for _, no := range []core.BlockID{
		{}, core.MakeBlockID(id.Store()+1, id.Generation(), id.Number()),
		core.MakeBlockID(id.Store(), id.Generation(), id.Number()+1000), core.MakeBlockID(id.Store(), id.Generation()+1, id.Number()),
	} {
		_, err := b.Open(t.Context(), core.Extent{Block: no, Offset: 64, Length: 10})
		require.True(t, core.Is(err, core.NoSuchData), "%v", err)
		require.NoError(t, b.Delete(t.Context(), no))
	}
	p.require(t, b)
}

// statFindsExistingBlocks tests drivers that implement core.Stater.
func statFindsExistingBlocks(t *testing.T, b core.Blocks) {
	s, ok := core.As[core.Stater](b)
	if !ok {
		return
	}
	stat := func(p put, o core.BlockOptions) core.BlockStat {
		got, err := s.Stat(t.Context(), p.extent.Block)
		require.NoError(t, err)
		require.Equal(t, p.extent.Block, got.ID)
		require.Equal(t, o.Kind, got.Kind)
		require.GreaterOrEqual(t, got.Size, p.extent.Offset+p.extent.Length)
		return got
	}
	begun := time.Now().Add(-time.Second) // a file system may round times
	for _, o := range []core.BlockOptions{packed, alone, large} {
		p := commit(t, b, o, random(1, 5000))
		p.require(t, b) // a driver may keep the file open
		first := stat(p, o)
		require.False(t, first.Modified.Before(begun), "%v is before %v", first.Modified, begun)
		require.False(t, first.Modified.After(time.Now().Add(time.Second)))
		if o == packed {
			q := commit(t, b, o, random(2, 5000))
			require.False(t, stat(q, o).Modified.Before(first.Modified))
		} else {
			require.Equal(t, first, stat(p, o), "the block has not been written to since")
		}
		r, err := b.Open(t.Context(), p.extent)
		require.NoError(t, err)
		require.NoError(t, b.Delete(t.Context(), p.extent.Block))
		_, err = s.Stat(t.Context(), p.extent.Block)
		require.True(t, core.Is(err, core.NoSuchData), "%v", err)
		require.NoError(t, r.Close())
	}
	_, err := s.Stat(t.Context(), core.MakeBlockID(1, 2, 3))
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
}

func deletedBytesRemainForReaders(t *testing.T, b core.Blocks) {
	for _, o := range []core.BlockOptions{large, alone} {
		p := commit(t, b, o, random(1, 9000))
		r, err := b.Open(t.Context(), p.extent)
		require.NoError(t, err)
		require.NoError(t, b.Delete(t.Context(), p.extent.Block))
		require.NoError(t, b.Delete(t.Context(), p.extent.Block))
		require.True(t, core.Is(p.check(t, b), core.NoSuchData))
		require.Empty(t, walk(t, b, core.BlockID{}))
		got := make([]byte, 9000)
		_, err = r.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, p.data, got)
		require.NoError(t, r.Close())
	}
}

func deleteOfTheOpenBlock(t *testing.T, b core.Blocks) {
	p := commit(t, b, packed, random(1, 100))
	require.NoError(t, b.Delete(t.Context(), p.extent.Block))
	q := commit(t, b, packed, random(2, 100))
	require.NotEqual(t, p.extent.Block, q.extent.Block)
	q.require(t, b)
	require.True(t, core.Is(p.check(t, b), core.NoSuchData))
}

func walkIsInOrder(t *testing.T, b core.Blocks) {
	require.Empty(t, walk(t, b, core.BlockID{}))
	var ids []core.BlockID
	kinds := map[core.BlockID]core.BlockKind{}
	size := map[core.BlockID]int64{}
	for i := range 30 {
		o := []core.BlockOptions{alone, large}[i%2]
		p := commit(t, b, o, random(uint64(i), 100*i))
		ids = append(ids, p.extent.Block)
		kinds[p.extent.Block], size[p.extent.Block] = o.Kind, p.extent.Offset+p.extent.Length
	}
	list := walk(t, b, core.BlockID{})
	require.Len(t, list, len(ids))
	for i, info := range list {
		require.Equal(t, ids[i], info.ID, "IDs must be in the order of creation")
		require.Equal(t, kinds[info.ID], info.Kind)
		require.GreaterOrEqual(t, info.Size, size[info.ID])
	}
	require.Equal(t, list[17:], walk(t, b, ids[17]), "the walk must begin with from")
	require.NoError(t, b.Delete(t.Context(), ids[17]))
	require.Equal(t, list[18:], walk(t, b, ids[17]), "from need not exist")

	stop := errors.New("enough")
	calls := 0
	require.Equal(t, stop, b.Walk(t.Context(), ids[3], func(core.BlockInfo) error {
		if calls++; calls == 2 {
			return stop
		}
		return nil
	}))
	require.Equal(t, 2, calls)
	// fn may delete the block that it is called with.
	require.NoError(t, b.Walk(t.Context(), core.BlockID{}, func(i core.BlockInfo) error { return b.Delete(t.Context(), i.ID) }))
	require.Empty(t, walk(t, b, core.BlockID{}))
}

func blocksBeginWithAHeader(t *testing.T, b core.Blocks) {
	for _, o := range []core.BlockOptions{packed, alone, large} {
		p := commit(t, b, o, random(1, 100))
		r, err := b.Open(t.Context(), core.Extent{Block: p.extent.Block, Length: frame.BlockHeaderSize})
		require.NoError(t, err)
		h := make([]byte, frame.BlockHeaderSize)
		_, err = r.ReadAt(h, 0)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		id, kind, err := frame.DecodeBlockHeader(h)
		require.NoError(t, err)
		require.Equal(t, p.extent.Block, core.BlockID(id))
		require.Equal(t, o.Kind, core.BlockKind(kind))
	}
}

func closeEndsWriters(t *testing.T, b core.Blocks) {
	for _, o := range []core.BlockOptions{packed, large} {
		w := create(t, b, o)
		_, err := w.Write([]byte("half"))
		require.NoError(t, err)
		defer func() {
			_, err := w.Write([]byte("done"))
			require.Error(t, err)
			require.Error(t, w.Commit(t.Context()))
			require.NoError(t, w.Abort())
		}()
	}
	require.NoError(t, b.Close())
	for _, o := range []core.BlockOptions{packed, alone, large} {
		_, err := b.Create(t.Context(), o)
		require.Error(t, err)
	}
}

// concurrentUse writes and reads in 64 goroutines. Only one of them at a time uses the shared block.
func concurrentUse(t *testing.T, b core.Blocks) {
	var all sync.WaitGroup
	var shared sync.Mutex
	failed := make(chan error, 64)
	for g := range 64 {
		all.Go(func() {
			var puts []put
			for i := range 12 {
				o := []core.BlockOptions{packed, packed, packed, large, alone, packed}[i%6]
				data := random(uint64(g*100+i), (g*977+i*131)%6000)
				if !o.Alone && o.Kind == core.Packed {
					shared.Lock()
				}
				p, err := tryCommit(t, b, o, data)
				if !o.Alone && o.Kind == core.Packed {
					shared.Unlock()
				}
				if err != nil {
					failed <- err
					return
				}
				puts = append(puts, p)
				if o.Kind == core.Large && i%2 == 1 && g%2 == 0 {
					err = b.Delete(t.Context(), p.extent.Block)
					puts = puts[:len(puts)-1]
				}
				for _, p := range puts {
					err = errors.Join(err, p.check(t, b))
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}
