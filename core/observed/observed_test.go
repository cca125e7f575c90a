package observed_test

import (
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/mem"
	"orcas/core/observed"
	"orcas/core/sqlite"
)

// calls collects the calls that an observer gets.
type calls struct {
	mu   sync.Mutex // guards list
	list []observed.Call
}

func (c *calls) observe(call observed.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call)
}

// take returns the calls since the last call of take.
func (c *calls) take() []observed.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

func ignore(observed.Call) {}

func openSQLite(t *testing.T, dir string) core.Meta {
	m, err := sqlite.Open(filepath.Join(dir, "meta.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func openDisk(t *testing.T, dir string) core.Blocks {
	b, err := disk.Open(dir, disk.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestMeta(t *testing.T) {
	coretest.Meta(t, func(*testing.T) core.Meta { return observed.Meta(mem.NewMeta(), ignore) })
}

func TestMetaReopen(t *testing.T) {
	coretest.MetaReopen(t, func(t *testing.T, dir string) core.Meta { return observed.Meta(openSQLite(t, dir), ignore) })
}

func TestMetaModel(t *testing.T) {
	coretest.MetaModel(t, func(*testing.T) core.Meta { return observed.Meta(mem.NewMeta(), ignore) })
}

func TestBlocks(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) core.Blocks{
		"mem":  func(*testing.T) core.Blocks { return mem.NewBlocks() },
		"disk": func(t *testing.T) core.Blocks { return openDisk(t, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			coretest.Blocks(t, func(t *testing.T) core.Blocks { return observed.Blocks(open(t), ignore) })
		})
	}
}

// TestMetaCalls checks that each call is reported once, with its operation and its error.
func TestMetaCalls(t *testing.T) {
	var seen calls
	ctx := t.Context()
	engine := coretest.NewFaultyMeta(mem.NewMeta())
	m := observed.Meta(engine, seen.observe)
	do := []func() error{
		observed.MetaState:    func() error { _, err := m.State(ctx); return err },
		observed.MetaBucket:   func() error { _, err := m.Bucket(ctx, "b"); return err },
		observed.MetaBuckets:  func() error { _, err := m.Buckets(ctx, "", "", 1); return err },
		observed.MetaObject:   func() error { _, err := m.Object(ctx, 1, "k", core.Current); return err },
		observed.MetaList:     func() error { _, err := m.List(ctx, core.ListQuery{Bucket: 1, Limit: 1}); return err },
		observed.MetaUpload:   func() error { _, err := m.Upload(ctx, 1, "k", 1); return err },
		observed.MetaParts:    func() error { _, err := m.Parts(ctx, 1, 0, 1, core.WithContent); return err },
		observed.MetaData:     func() error { _, err := m.Data(ctx, []core.DataID{1}); return err },
		observed.MetaFindData: func() error { _, err := m.FindData(ctx, core.ContentKey{}); return err },
		observed.MetaGarbage:  func() error { _, err := m.Garbage(ctx, 0, 1); return err },
		observed.MetaRecords:  func() error { _, err := m.Records(ctx, "kind", "", 1); return err },
		observed.MetaUsage:    func() error { _, err := m.Usage(ctx, 1); return err },
		observed.MetaApply:    func() error { _, err := m.Apply(ctx, nil); return err },
		observed.MetaClose:    func() error { return m.Close() },
	}
	for i, call := range do {
		err := call()
		got := seen.take()
		require.Len(t, got, 1, "%v", observed.Op(i))
		require.Equal(t, observed.Op(i), got[0].Op)
		require.Equal(t, err, got[0].Err, "%v", observed.Op(i))
		require.GreaterOrEqual(t, got[0].Duration, time.Duration(0))
	}

	m = observed.Meta(engine, seen.observe)
	engine.Fail(coretest.Fault{Call: "Apply", Nth: 1, Kind: core.NoSpace})
	_, err := m.Apply(ctx, nil)
	require.ErrorIs(t, err, coretest.ErrInjected)
	require.Equal(t, core.NoSpace, core.KindOf(seen.take()[0].Err))
}

// TestBlocksCalls checks the operations, bytes and errors of a block's life.
func TestBlocksCalls(t *testing.T) {
	var seen calls
	ctx := t.Context()
	store := coretest.NewFaultyBlocks(mem.NewBlocks())
	b := observed.Blocks(store, seen.observe)
	w, err := b.Create(ctx, core.BlockOptions{Kind: core.Packed})
	require.NoError(t, err)
	e := core.Extent{Block: w.Block(), Offset: w.Offset(), Length: 4}
	_, err = w.Write([]byte("abcd"))
	require.NoError(t, err)
	require.NoError(t, w.Commit(ctx))
	require.NoError(t, w.Abort())
	r, err := b.Open(ctx, e)
	require.NoError(t, err)
	p := make([]byte, 5)
	n, err := r.ReadAt(p, 0)
	require.Equal(t, 4, n)
	require.Error(t, err, "io.EOF, because five bytes were requested")
	s, err := core.ReadSpan(ctx, r, 0, 4)
	require.NoError(t, err)
	_, err = io.ReadFull(s, p[:4])
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, r.Close())
	require.NoError(t, b.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { return nil }))
	f, ok := core.As[core.Flusher](b)
	require.True(t, ok)
	require.NoError(t, f.Sync(ctx))
	require.NoError(t, b.Delete(ctx, e.Block))
	require.NoError(t, b.Close())
	var ops []observed.Op
	for _, c := range seen.take() {
		require.NoError(t, c.Err, "%v", c.Op)
		ops = append(ops, c.Op)
		switch c.Op {
		case observed.BlockWrite, observed.BlockReadAt:
			require.EqualValues(t, 4, c.Bytes, "%v", c.Op)
		default:
			require.Zero(t, c.Bytes, "%v", c.Op)
		}
	}
	require.Equal(t, []observed.Op{
		observed.BlockCreate, observed.BlockWrite, observed.BlockCommit, observed.BlockAbort, observed.BlockOpen, observed.BlockReadAt,
		observed.BlockReadAt, observed.BlockWalk, observed.BlockSync, observed.BlockDelete, observed.BlockClose,
	}, ops)

	for _, call := range []struct {
		name string
		op   observed.Op
		do   func(b core.Blocks) error
	}{
		{"Create", observed.BlockCreate, func(b core.Blocks) error { _, err := b.Create(ctx, core.BlockOptions{}); return err }},
		{"Open", observed.BlockOpen, func(b core.Blocks) error { _, err := b.Open(ctx, e); return err }},
		{"Delete", observed.BlockDelete, func(b core.Blocks) error { return b.Delete(ctx, e.Block) }},
	} {
		store := coretest.NewFaultyBlocks(mem.NewBlocks())
		store.Fail(coretest.Fault{Call: call.name, Nth: 1, Kind: core.NoSpace})
		require.ErrorIs(t, call.do(observed.Blocks(store, seen.observe)), coretest.ErrInjected)
		got := seen.take()
		require.Len(t, got, 1)
		require.Equal(t, call.op, got[0].Op)
		require.Equal(t, core.NoSpace, core.KindOf(got[0].Err))
	}
}

// TestAbilities checks that a wrapper has the abilities of the driver that it wraps, and no others.
func TestAbilities(t *testing.T) {
	m := observed.Meta(openSQLite(t, t.TempDir()), ignore)
	for name, found := range map[string]bool{
		"SingleWriter": has[core.SingleWriter](m), "Guesser": has[core.Guesser](m), "Verifier": has[core.Verifier](m),
		"Checkpointer": has[core.Checkpointer](m), "Snapshotter": has[core.Snapshotter](m), "Salvager": has[core.Salvager](m),
		"Syncer": has[core.Syncer](m), "Placer": has[core.Placer](m),
	} {
		require.True(t, found, name)
	}
	b := observed.Blocks(openDisk(t, t.TempDir()), ignore)
	require.True(t, has[core.Flusher](b))
	require.True(t, has[core.Stater](b))
	require.True(t, has[core.Spacer](b))
	w, err := b.Create(t.Context(), core.BlockOptions{Kind: core.Large})
	require.NoError(t, err)
	require.True(t, has[core.Deferrer](w))
	require.NoError(t, w.Abort())

	strict := struct{ core.Blocks }{mem.NewBlocks()} // hides all optional abilities
	require.False(t, has[core.Flusher](observed.Blocks(strict, ignore)), "every commit is durable")
}

func has[T any](x any) bool {
	_, ok := core.As[T](x)
	return ok
}

// TestNoAllocations checks that an observer that only counts causes no allocations in reads.
func TestNoAllocations(t *testing.T) {
	ctx := t.Context()
	engine := mem.NewMeta()
	var counts [observed.Ops]int64
	m := observed.Meta(engine, func(c observed.Call) { counts[c.Op]++ })
	plain := testing.AllocsPerRun(100, func() { _, _ = engine.State(ctx) })
	require.Equal(t, plain, testing.AllocsPerRun(100, func() { _, _ = m.State(ctx) }))
	require.NotZero(t, counts[observed.MetaState])
}

// TestNames checks that each operation has a unique name.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for op := range observed.Ops {
		require.NotEmpty(t, op.String())
		names[op.String()] = true
	}
	require.Len(t, names, int(observed.Ops))
}

// BenchmarkState measures the cost of observing a call.
func BenchmarkState(b *testing.B) {
	ctx := b.Context()
	engine := mem.NewMeta()
	for name, m := range map[string]core.Meta{"plain": engine, "observed": observed.Meta(engine, ignore)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := m.State(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
