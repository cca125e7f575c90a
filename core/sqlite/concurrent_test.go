package sqlite

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// While keys are overwritten, deleted, and put again, a reader gets either a consistent version, with the content that
// it was written with, or no key. A listing has each key once, and shows the two keys that each batch writes together
// in the same state.
func TestReadersSeeWholeChanges(t *testing.T) {
	for _, versioning := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended} {
		f := feed(t, openAt(t, t.TempDir(), Options{Readers: 3, CheckpointBytes: 1 << 18}), versioning)
		done := make(chan struct{})
		var readers sync.WaitGroup
		for i := range 4 {
			readers.Go(func() { readWhole(t, f.m, f.bucket, i, done) })
		}
		random := rand.New(rand.NewPCG(5, 6))
		for range 400 {
			n := random.IntN(20)
			var batch []core.Change
			for _, key := range []string{benchKey(n), benchKey(n) + "-twin"} {
				switch n % 4 {
				case 0:
					batch = append(batch, &core.DeleteObject{Bucket: f.bucket, Key: key})
				default:
					c := f.put(key)
					c.Object.Size = int64(f.data)
					c.Object.Segments[0].Info.Size = int64(f.data)
					batch = append(batch, c)
				}
			}
			f.apply(batch...)
			if n%4 == 0 {
				continue
			}
			f.apply(&core.DeleteObject{Bucket: f.bucket, Key: benchKey(n)}, &core.DeleteObject{Bucket: f.bucket, Key: benchKey(n) + "-twin"})
		}
		close(done)
		readers.Wait()
		require.NoError(t, f.m.Close())
	}
}

func readWhole(t *testing.T, m *Meta, bucket core.BucketID, seed int, done chan struct{}) {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	ctx := context.Background()
	for {
		select {
		case <-done:
			return
		default:
		}
		o, err := m.Object(ctx, bucket, benchKey(random.IntN(20)), core.Current)
		switch {
		case core.Is(err, core.NoSuchKey):
		case err != nil:
			t.Error(err)
			return
		case !o.Marker && (o.Segments[0].Info == nil || o.Segments[0].Info.Size != o.Size || o.Segments[0].Info.ID != o.Segments[0].Data):
			t.Errorf("the object does not match its content: %+v", o)
			return
		}
		page, err := m.List(ctx, core.ListQuery{Bucket: bucket, Limit: 100})
		if err != nil {
			t.Error(err)
			return
		}
		if len(page.Objects)%2 != 0 {
			t.Errorf("the listing has %d keys, an odd number: it shows half of a batch", len(page.Objects))
			return
		}
	}
}
