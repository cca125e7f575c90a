package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/vfs"
)

// What Room says is what a Put at that moment would meet, and a Put that has no room leaves nothing behind but garbage.
func TestRoomIsWhatPutsMeet(t *testing.T) {
	w := newWorld(t)
	w.put("old", make([]byte, 30))
	update := func(change func(b *core.BucketInfo)) {
		b, err := w.fs.UpdateBucket(ctx, w.b.Name, func(b *core.BucketInfo) error { change(b); return nil })
		require.NoError(t, err)
		w.b = b
	}
	require.NoError(t, w.fs.Room(ctx, w.b, "new", 1<<60), "without a quota there is room for anything")
	update(func(b *core.BucketInfo) { b.Quota = core.Quota{Bytes: 100_000, Objects: 4} })
	for _, v := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended} {
		update(func(b *core.BucketInfo) { b.Versioning = v })
		for _, key := range []string{"old", "new", "other"} {
			for _, size := range []int{0, 30, 99_930, 99_970, 100_000, 100_001} {
				held, err := w.fs.Usage(ctx, w.b)
				require.NoError(t, err)
				room := w.fs.Room(ctx, w.b, key, int64(size))
				o, err := w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: key, Content: w.content(make([]byte, size))})
				require.Equal(t, room == nil, err == nil, "%v %s %d: %v, %v", v, key, size, room, err)
				if err != nil {
					require.True(t, core.Is(room, core.QuotaExceeded) && core.Is(err, core.QuotaExceeded), "%v, %v", room, err)
					now, err := w.fs.Usage(ctx, w.b)
					require.NoError(t, err)
					require.Equal(t, held, now)
				} else if v == core.VersioningEnabled {
					require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: key, Version: o.Version()}})[0].Err)
				}
			}
		}
	}
}

// A quota that no record could hold is refused before it gets there.
func TestQuotaBelowNothing(t *testing.T) {
	w := newWorld(t)
	_, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: "other", Quota: core.Quota{Bytes: -1}})
	require.True(t, core.Is(err, core.InvalidArgument), err)
	_, err = w.fs.UpdateBucket(ctx, w.b.Name, func(b *core.BucketInfo) error { b.Quota.Objects = -1; return nil })
	require.True(t, core.Is(err, core.InvalidArgument), err)
	b, err := w.fs.Bucket(ctx, w.b.Name)
	require.NoError(t, err)
	require.Zero(t, b.Quota)
}
