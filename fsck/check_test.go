package fsck_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/core"
	"orcas/core/mem"
	"orcas/fsck"
	"orcas/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// TestCheckFindsNothing checks that a store has no differences after all kinds of writes, reclaim and restarts, in
// memory and on disk.
func TestCheckFindsNothing(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Versioned("versioned")
	store.Churn(200)
	store.Multipart("multipart")
	store.Extend("multipart", storetest.Random(6, 3000))
	store.Shift(60)
	id := store.Upload("unfinished", core.UploadInfo{})
	store.Part("unfinished", id, 1, storetest.Filler(5, 6<<20))
	store.RequireSound()
	store.Full()
	store.RequireSound()

	dir := t.TempDir()
	want := map[string][]byte{}
	for i := range 3 {
		store := storetest.Open(t, storetest.Options{Dir: dir})
		store.Rand, store.Want = rand.New(rand.NewPCG(uint64(i), 1)), want
		store.Versioned(fmt.Sprint("versioned-", i))
		store.Churn(150)
		store.Multipart("multipart")
		store.Extend("multipart", storetest.Random(6, 3000))
		store.Shift(60)
		id := store.Upload("unfinished", core.UploadInfo{})
		store.Part("unfinished", id, 1, storetest.Filler(5, 6<<20))
		report := store.RequireSound()
		require.NotZero(t, report.BytesRead)
		require.NotZero(t, report.GarbageBytes)
		store.Full()
		store.RequireSound()
		t.Logf("%+v", *report)
		want = store.Want
		store.Close()
	}
}

// TestCheckWhileInUse checks a store in use: there must be no differences.
func TestCheckWhileInUse(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	store.Versioned("versioned")
	require.NotZero(t, store.WhileInUse(40, func() { store.RequireSound() }))
	store.RequireSound()
}

// spoiler is metadata that stores a wrong DataInfo.Head for content of one size.
type spoiler struct {
	storetest.Meta
	size int64
}

func (s *spoiler) Unwrap() core.Meta { return s.Meta }

func (s *spoiler) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	for i, c := range changes {
		p, ok := c.(*core.PutObject)
		if !ok || p.Object.Size != s.size {
			continue
		}
		other, info := *p, *p.Object.Segments[0].Info
		info.Head[7] ^= 1
		other.Object.Segments = []core.Segment{p.Object.Segments[0]}
		other.Object.Segments[0].Info = &info
		changes[i] = &other
	}
	return s.Meta.Apply(ctx, changes)
}

// TestCheckOfHeads checks that a wrong checksum of the beginning of content, in an intact row, is found if Check reads
// the content.
func TestCheckOfHeads(t *testing.T) {
	const frame = 256 << 10
	for _, spoiled := range []int64{0, core.HeadSize + 1, frame, frame + 1, 5 << 20} {
		t.Run(fmt.Sprint(spoiled), func(t *testing.T) {
			meta := mem.NewMeta()
			store := storetest.Open(t, storetest.Options{
				Meta: meta, Batch: batch.Options{Meta: &spoiler{meta, spoiled}}, FS: storetest.Plain(),
			})
			for i, size := range []int{1, core.HeadSize - 1, core.HeadSize, core.HeadSize + 1, frame, frame + 1, 5 << 20} {
				store.Put(fmt.Sprint("key-", size), storetest.Random(uint64(i), size))
			}
			if spoiled == 0 {
				store.RequireSound()
				return
			}
			report, err := fsck.Check(ctx, meta, store.Blocks, fsck.Options{})
			require.NoError(t, err)
			require.Zero(t, report.Found, "only reading the content can find the difference")
			report, err = fsck.Check(ctx, meta, store.Blocks, fsck.Options{Content: true})
			require.NoError(t, err)
			require.Len(t, report.Differences, 1)
			d := report.Differences[0]
			require.Equal(t, fsck.KindContent, d.Kind)
			require.Contains(t, d.Where, fmt.Sprint("key-", spoiled))
			require.Contains(t, d.Text, "the SHA-256 of its first 65536 bytes does not match")
		})
	}
}

// TestCheckFindsAChainWithoutItsBeginning deletes a part of a snapshot: the deltas after it are useless.
func TestCheckFindsAChainWithoutItsBeginning(t *testing.T) {
	for part := range 3 {
		store := storetest.Open(t, storetest.Options{})
		var blocks []core.BlockID
		for range 3 {
			store.Churn(20)
			blocks = store.Delta().Blocks()
		}
		store.RequireSound()
		require.NoError(t, store.Blocks.Delete(ctx, blocks[part]))
		report, err := fsck.Check(ctx, store.Meta, store.Blocks, fsck.Options{Content: true})
		require.NoError(t, err)
		require.Equal(t, 2-part, report.Found)
		for _, d := range report.Differences {
			require.Equal(t, fsck.KindSnapshot, d.Kind)
		}
	}
}
