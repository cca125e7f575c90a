package vfs_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/reclaim"
	"orcas/vfs"
)

// requireSound checks the store, content included.
func (y *yard) requireSound() *reclaim.CheckReport {
	y.t.Helper()
	report, err := reclaim.Check(ctx, y.meta, y.blocks, reclaim.CheckOptions{Content: true})
	require.NoError(y.t, err)
	var text bytes.Buffer
	require.NoError(y.t, report.WriteText(&text))
	require.Zero(y.t, report.Found, text.String())
	return report
}

// versioned makes versions, null versions and delete markers in a bucket of its own.
func (y *yard) versioned(name string) {
	b, err := y.fs.CreateBucket(ctx, core.BucketInfo{Name: name})
	require.NoError(y.t, err)
	was := y.b
	y.b = b
	defer func() { y.b = was }()
	for i, v := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended, core.VersioningEnabled} {
		changed := *y.b
		changed.Versioning = v
		if i > 0 {
			_, err = y.writer.Do(ctx, putBucket(&changed))
			require.NoError(y.t, err)
		}
		for k := range 8 {
			y.put(fmt.Sprint("k", k), filler(y.rand.Uint64(), 1+y.rand.IntN(5000)))
		}
		y.put("empty", nil)
		y.deleteKey("k1")
		if i == 3 {
			y.deleteKey("k2")
			y.put("k3", filler(1, 100_000))
		}
	}
}

// TestCheckFindsNothing: a store that was used in every way, reclaimed and restarted, is sound, in memory and on disk.
func TestCheckFindsNothing(t *testing.T) {
	y := memoryYard(t, reclaim.Options{})
	y.versioned("versioned")
	y.churn(200)
	y.multipart("multipart")
	y.append("multipart", random(6, 3000))
	y.shift(60)
	id := y.upload("unfinished", core.UploadInfo{})
	y.part("unfinished", id, 1, filler(5, 6<<20))
	y.requireSound()
	y.full()
	y.requireSound()

	dir := t.TempDir()
	want := map[string][]byte{}
	for i := range 3 {
		y, done := diskYard(t, dir, reclaim.Options{})
		y.rand, y.want = rand.New(rand.NewPCG(uint64(i), 1)), want
		y.versioned(fmt.Sprint("versioned-", i))
		y.churn(150)
		y.multipart("multipart")
		y.append("multipart", random(6, 3000))
		y.shift(60)
		id := y.upload("unfinished", core.UploadInfo{})
		y.part("unfinished", id, 1, filler(5, 6<<20))
		report := y.requireSound()
		require.NotZero(t, report.BytesRead)
		require.NotZero(t, report.GarbageBytes)
		y.full()
		y.requireSound()
		t.Logf("%+v", *report)
		want = y.want
		done()
	}
}

// TestCheckWhileInUse checks again and again while everything is overwritten and reclaimed: nothing is reported.
func TestCheckWhileInUse(t *testing.T) {
	y, done := diskYard(t, t.TempDir(), reclaim.Options{DeadShare: 0.01})
	defer done()
	y.versioned("versioned")
	ended := make(chan int)
	go func() {
		freed := 0
		for i := range 40 {
			y.churn(40)
			report, err := y.r.Round(ctx, i%5 == 0)
			if err != nil {
				t.Error(err)
			}
			freed += report.BlocksFreed
		}
		ended <- freed
	}()
	for checks := 1; ; checks++ {
		y.requireSound()
		select {
		case freed := <-ended:
			t.Logf("%d checks, %d blocks freed meanwhile", checks, freed)
			require.NotZero(t, freed)
			y.requireSound()
			return
		default:
		}
	}
}

// spoiler is metadata that hands on another Head than it was given, of content of one size.
type spoiler struct {
	reclaim.Meta
	size int64
}

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

// TestCheckOfHeads: a row that is whole, but says of content that it begins otherwise than it does, is found where the content is read.
func TestCheckOfHeads(t *testing.T) {
	const frame = 256 << 10
	for _, spoilt := range []int64{0, core.HeadSize + 1, frame, frame + 1, 5 << 20} {
		t.Run(fmt.Sprint(spoilt), func(t *testing.T) {
			blocks, meta, done := openDisk(t, t.TempDir())
			defer done()
			y := newYardOver(t, batch.Options{Meta: &spoiler{meta, spoilt}, Blocks: blocks}, meta, reclaim.Options{})
			defer y.writer.Close()
			var err error
			y.fs, err = vfs.New(vfs.Options{Meta: meta, Blocks: blocks, Writer: y.writer, Instant: true}) // neither compressed nor encrypted
			require.NoError(t, err)
			for i, size := range []int{1, core.HeadSize - 1, core.HeadSize, core.HeadSize + 1, frame, frame + 1, 5 << 20} {
				y.put(fmt.Sprint("key-", size), random(uint64(i), size))
			}
			if spoilt == 0 {
				y.requireSound()
				return
			}
			report, err := reclaim.Check(ctx, meta, blocks, reclaim.CheckOptions{})
			require.NoError(t, err)
			require.Zero(t, report.Found, "without the content nobody can tell")
			report, err = reclaim.Check(ctx, meta, blocks, reclaim.CheckOptions{Content: true})
			require.NoError(t, err)
			require.Len(t, report.Differences, 1)
			d := report.Differences[0]
			require.Equal(t, reclaim.KindContent, d.Kind)
			require.Contains(t, d.Where, fmt.Sprint("key-", spoilt))
			require.Contains(t, d.Text, "the SHA-256 of its first 65536 bytes is another")
		})
	}
}

func putBucket(info *core.BucketInfo) batch.Write {
	return batch.Write{Change: &core.PutBucket{Info: *info}}
}

func (y *yard) deleteKey(key string) {
	y.fs.Delete(ctx, y.b, "", []vfs.DeleteRequest{{Key: key}})
}

func copyOf(b *core.BucketInfo, source *core.ObjectInfo, key string) vfs.CopyRequest {
	return vfs.CopyRequest{SourceBucket: b, Source: source, Bucket: b, Key: key}
}
