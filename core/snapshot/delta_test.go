package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/mem"
)

// store is an engine, and the changes that were applied to it.
type store struct {
	t       *testing.T
	meta    *mem.Meta
	blocks  core.Blocks
	changes []core.Change
	seq     core.Seq
}

func newStore(t *testing.T) *store { return &store{t: t, meta: mem.NewMeta(), blocks: mem.NewBlocks()} }

// write applies n changes of records.
func (s *store) write(n int) {
	s.t.Helper()
	for i := range n {
		s.apply(&core.PutRecord{Record: core.Record{Kind: "test", Key: fmt.Sprint(i), Value: fmt.Append(nil, s.seq)}})
	}
}

func (s *store) apply(c core.Change) {
	s.t.Helper()
	s.seq++
	c.SetStamp(s.seq)
	_, err := s.meta.Apply(context.Background(), []core.Change{c})
	require.NoError(s.t, err)
	s.changes = append(s.changes, c)
}

func (s *store) state() core.State {
	s.t.Helper()
	st, err := s.meta.State(context.Background())
	require.NoError(s.t, err)
	return st
}

// since passes on the changes after a snapshot, a few at a time.
func (s *store) since(after *Info) func(func([]core.Change) error) error {
	return func(emit func([]core.Change) error) error {
		for _, c := range s.changes {
			if c.Stamp() > after.Seq {
				if err := emit([]core.Change{c}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (s *store) complete() *Info {
	s.t.Helper()
	info, err := Write(context.Background(), s.meta, s.blocks, WriteOptions{})
	require.NoError(s.t, err)
	return info
}

func (s *store) delta(after *Info) *Info {
	s.t.Helper()
	info, err := WriteDelta(context.Background(), s.blocks, after, s.state(), s.since(after), WriteOptions{})
	require.NoError(s.t, err)
	require.NoError(s.t, ReadDelta(context.Background(), s.blocks, info))
	return info
}

// restores requires that a snapshot restores to the given metadata.
func (s *store) restores(info Info, want *coretest.MetaState) {
	s.t.Helper()
	ctx, meta := context.Background(), mem.NewMeta()
	require.NoError(s.t, Read(ctx, s.blocks, &info, func(*core.Row) error { return nil }))
	require.NoError(s.t, Restore(ctx, s.blocks, &info, meta))
	got, err := coretest.ReadMeta(ctx, meta)
	require.NoError(s.t, err)
	require.Equal(s.t, want.State, got.State)
	require.Equal(s.t, want.Comparable(), got.Comparable())
}

// chain returns a chain with some deltas, and the metadata at the end of each beginning of it.
func (s *store) chain(deltas int) (*Info, []*coretest.MetaState) {
	s.t.Helper()
	var states []*coretest.MetaState
	var info *Info
	for i := range deltas + 1 {
		s.write(700)
		if i == 0 {
			info = s.complete()
		} else {
			info = s.delta(info)
		}
		state, err := coretest.ReadMeta(context.Background(), s.meta)
		require.NoError(s.t, err)
		states = append(states, state)
	}
	return info, states
}

// TestChain writes deltas, and restores each beginning of the chain.
func TestChain(t *testing.T) {
	s := newStore(t)
	info, states := s.chain(3)
	list, err := List(context.Background(), s.blocks)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, info.Blocks(), list[0].Blocks())
	require.Equal(t, info.State, list[0].State)
	for i := range list {
		require.Len(t, list[i].Deltas, 3-i)
		s.restores(list[i], states[3-i])
	}
	s.write(10)
	empty := s.delta(s.delta(info)) // without any change
	require.Len(t, empty.Deltas, 5)
}

// TestBrokenChain damages or deletes each block of a chain: the beginning up to that block is intact, and the rest is
// useless.
func TestBrokenChain(t *testing.T) {
	ctx := context.Background()
	for broken := range 4 {
		for _, harm := range []string{"missing", "damaged", "cut off"} {
			s := newStore(t)
			info, states := s.chain(3)
			id := info.Blocks()[broken]
			switch harm {
			case "missing":
				require.NoError(t, s.blocks.Delete(ctx, id))
			case "damaged":
				s.blocks = &harmed{s.blocks, id, 0}
			default:
				s.blocks = &harmed{s.blocks, id, 1}
			}
			list, err := List(ctx, s.blocks)
			require.NoError(t, err)
			intact := 0
			for i := range list {
				meta := mem.NewMeta()
				err := Restore(ctx, s.blocks, &list[i], meta)
				if err == nil {
					s.restores(list[i], states[len(list[i].Deltas)])
					intact++
					continue
				}
				require.True(t, core.Is(err, core.Damaged), "%s %d: %v", harm, broken, err)
				st, err := meta.State(ctx)
				require.NoError(t, err)
				require.Zero(t, st.Seq, "the engine must be empty")
			}
			require.Equal(t, broken, intact, "%s", harm)
			newest, err := Newest(ctx, s.blocks, list)
			require.NoError(t, err)
			require.Equal(t, broken > 0, newest != nil)
			if newest != nil {
				require.Len(t, newest.Deltas, broken-1)
			}
		}
	}
}

// harmed damages a block.
type harmed struct {
	core.Blocks
	block core.BlockID
	cut   int64 // the bytes that are missing at its end; with none, a byte at its end is wrong
}

func (h *harmed) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	return h.Blocks.Walk(ctx, from, func(b core.BlockInfo) error {
		if b.ID == h.block {
			b.Size -= h.cut
		}
		return fn(b)
	})
}

func (h *harmed) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := h.Blocks.Open(ctx, e)
	if err != nil || e.Block != h.block || h.cut > 0 {
		return r, err
	}
	return &flipped{r, e.Length - 2}, nil
}

// flipped is a reader with a wrong byte.
type flipped struct {
	core.BlockReader
	at int64
}

func (f *flipped) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.BlockReader.ReadAt(p, off)
	if i := f.at - off; i >= 0 && i < int64(n) {
		p[i] ^= 1
	}
	return n, err
}

// TestDeltaLacksNoChange checks that a delta is refused if a change is missing, unless it was voided, if changes are in
// the wrong order, and if they end before or after the state. A delta with such changes that was written all the same is
// damaged.
func TestDeltaLacksNoChange(t *testing.T) {
	ctx := context.Background()
	put := func(seq core.Seq) core.Change {
		return &core.PutRecord{Stamped: core.Stamped{Seq: seq}, Record: core.Record{Kind: "test", Key: "k", Value: []byte{1}}}
	}
	void := func(seq, from, to core.Seq) core.Change {
		return &core.Void{Stamped: core.Stamped{Seq: seq}, From: from, To: to}
	}
	for name, c := range map[string]struct {
		changes []core.Change
		good    bool
	}{
		"all":             {[]core.Change{put(11), put(12), put(13), put(14)}, true},
		"voided":          {[]core.Change{put(11), void(14, 12, 13)}, true},
		"voided twice":    {[]core.Change{put(11), void(13, 12, 12), void(14, 12, 12)}, true},
		"voided first":    {[]core.Change{put(12), put(13), void(14, 11, 11)}, true},
		"first missing":   {[]core.Change{put(12), put(13), put(14)}, false},
		"missing":         {[]core.Change{put(11), put(13), put(14)}, false},
		"partly voided":   {[]core.Change{put(11), void(14, 12, 12)}, false},
		"an empty void":   {[]core.Change{put(11), put(12), void(14, 0, 0)}, false},
		"last missing":    {[]core.Change{put(11), put(12), put(13)}, false},
		"one more":        {[]core.Change{put(11), put(12), put(13), put(14), put(15)}, false},
		"one before":      {[]core.Change{put(10), put(11), put(12), put(13), put(14)}, false},
		"twice":           {[]core.Change{put(11), put(11), put(12), put(13), put(14)}, false},
		"the wrong order": {[]core.Change{put(12), put(11), put(13), put(14)}, false},
		"none":            {nil, false},
	} {
		s := newStore(t)
		s.write(10)
		base := s.complete()
		st := s.state()
		st.Seq = 14
		_, err := WriteDelta(ctx, s.blocks, base, st, func(emit func([]core.Change) error) error { return emit(c.changes) }, WriteOptions{})
		require.Equal(t, c.good, err == nil, "%s: %v", name, err)
		list, err := List(ctx, s.blocks)
		require.NoError(t, err)
		if c.good {
			require.Len(t, list, 2, name)
			continue
		}
		require.Len(t, list, 1, name)
		s.written(st, link{base.Block, base.Seq}, c.changes)
		list, err = List(ctx, s.blocks)
		require.NoError(t, err)
		require.Len(t, list, 2, name)
		err = Read(ctx, s.blocks, &list[0], func(*core.Row) error { return nil })
		require.True(t, core.Is(err, core.Damaged), "%s: %v", name, err)
	}
}

// written writes a delta without checking its changes.
func (s *store) written(st core.State, after link, changes []core.Change) {
	s.t.Helper()
	s.stream(st.Seq, func(put func([]byte)) {
		put(encoding.AppendRow(nil, &core.Row{State: &st}))
		put(binary.AppendUvarint(append([]byte{rowLink}, after.block[:]...), uint64(after.seq)))
		if len(changes) > 0 {
			put(encoding.AppendChanges([]byte{rowChanges}, changes))
		}
	})
}

// stream writes a snapshot that consists of any rows.
func (s *store) stream(seq core.Seq, fill func(put func(row []byte))) core.BlockID {
	s.t.Helper()
	ctx := context.Background()
	bw, err := s.blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
	require.NoError(s.t, err)
	w := &writer{w: bw, seq: seq}
	require.NoError(s.t, w.finish(ctx, WriteOptions{}, func() error {
		fill(func(row []byte) { require.NoError(s.t, w.put(row)) })
		return nil
	}))
	return bw.Block()
}

// TestDeltaOfAnotherSnapshot checks that a delta is ignored unless its predecessor exists and has the expected
// sequence.
func TestDeltaOfAnotherSnapshot(t *testing.T) {
	ctx := context.Background()
	for name, wrong := range map[string]func(l *link){
		"sequence": func(l *link) { l.seq-- },
		"block":    func(l *link) { l.block[15]++ },
		"store":    func(l *link) { l.block[0]++ },
	} {
		s := newStore(t)
		s.write(10)
		base := s.complete()
		l := link{base.Block, base.Seq}
		wrong(&l)
		s.write(5)
		s.written(s.state(), l, s.changes[10:])
		list, err := List(ctx, s.blocks)
		require.NoError(t, err)
		require.Len(t, list, 1, "the wrong %s", name)
		require.Equal(t, base.Block, list[0].Block)
	}
}

// TestOldVersionsRefuseDeltas checks that a version without deltas, for which each row is a noun, cannot read them.
func TestOldVersionsRefuseDeltas(t *testing.T) {
	for _, kind := range []byte{rowLink, rowChanges} {
		_, err := encoding.DecodeRow([]byte{kind, 0})
		require.True(t, core.Is(err, core.Unsupported), "%v", err)
	}
}

// FuzzSnapshot reads arbitrary streams of rows, which follow an intact snapshot.
func FuzzSnapshot(f *testing.F) {
	state := encoding.AppendRow(nil, &core.Row{State: &core.State{Seq: 14}})
	row := func(b, row []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(row))), row...) }
	f.Add(row(nil, state))
	delta := row(row(nil, state), append([]byte{rowLink}, make([]byte, 17)...))
	f.Add(delta)
	f.Add(append(row(row(nil, state), nil), rowLink)) // an empty row before the next
	f.Add(row(delta, encoding.AppendChanges([]byte{rowChanges}, []core.Change{&core.Void{Stamped: core.Stamped{Seq: 14}, From: 1, To: 13}})))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) == 0 || len(stream) > frame.MaxPlain {
			return
		}
		ctx, blocks := context.Background(), mem.NewBlocks()
		_, err := Write(ctx, rows{lengths: []int{1}}, blocks, WriteOptions{})
		require.NoError(t, err)
		bw, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
		require.NoError(t, err)
		w := &writer{w: bw, seq: 14}
		w.zip, err = zstd.NewWriter(nil)
		require.NoError(t, err)
		require.NoError(t, w.frame(stream, true))
		require.NoError(t, bw.Commit(ctx))
		list, err := List(ctx, blocks)
		if err != nil {
			return
		}
		for i := range list {
			_ = Restore(ctx, blocks, &list[i], mem.NewMeta()) // it must not panic
		}
	})
}
