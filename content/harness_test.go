package content_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/content"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// world is the store of a test. It has a namespace, because content is easier to store and find by key.
type world struct{ *storetest.Store }

func newWorld(t *testing.T) *world { return worldOver(t, mem.NewBlocks()) }

func worldOver(t *testing.T, blocks core.Blocks) *world {
	return &world{storetest.Open(t, storetest.Options{Blocks: blocks})}
}

func worldWith(t *testing.T, blocks core.Blocks, set func(*content.Options)) *world {
	o := storetest.Defaults()
	set(&o)
	return &world{storetest.Open(t, storetest.Options{Blocks: blocks, FS: &o})}
}

var sizes = []int{
	0, 1, 4096, 65535, 65536, 65537, frame.MaxPlain, frame.MaxPlain + 1, 4<<20 - 1, 4 << 20, 4<<20 + 1, 9<<20 + 12345,
}

func (w *world) blockCount() (n int) {
	require.NoError(w.T, w.Blocks.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { n++; return nil }))
	return n
}
