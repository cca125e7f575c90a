package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/vfs"
)

// TestRoomAgreesWithPut checks that Room predicts the result of a Put, and that a Put that exceeds the quota does not
// change the usage.
func TestRoomAgreesWithPut(t *testing.T) {
	w := newWorld(t)
	w.Put("old", make([]byte, 30))
	update := func(change func(b *core.BucketInfo)) {
		b, err := w.FS.UpdateBucket(ctx, w.Bucket.Name, func(b *core.BucketInfo) error { change(b); return nil })
		require.NoError(t, err)
		w.Bucket = b
	}
	require.NoError(t, w.FS.Room(ctx, w.Bucket, "new", 1<<60), "the bucket has no quota")
	update(func(b *core.BucketInfo) { b.Quota = core.Quota{Bytes: 100_000, Objects: 4} })
	for _, v := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended} {
		update(func(b *core.BucketInfo) { b.Versioning = v })
		for _, key := range []string{"old", "new", "other"} {
			for _, size := range []int{0, 30, 99_930, 99_970, 100_000, 100_001} {
				before, err := w.FS.Usage(ctx, w.Bucket)
				require.NoError(t, err)
				room := w.FS.Room(ctx, w.Bucket, key, int64(size))
				o, err := w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: key, Content: w.Content(make([]byte, size))})
				require.Equal(t, room == nil, err == nil, "%v %s %d: %v, %v", v, key, size, room, err)
				if err != nil {
					require.True(t, core.Is(room, core.QuotaExceeded) && core.Is(err, core.QuotaExceeded), "%v, %v", room, err)
					now, err := w.FS.Usage(ctx, w.Bucket)
					require.NoError(t, err)
					require.Equal(t, before, now)
				} else if v == core.VersioningEnabled {
					require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: key, Version: o.Version()}})[0].Err)
				}
			}
		}
	}
}

// TestNegativeQuota checks that a negative quota, which cannot be recorded, is refused.
func TestNegativeQuota(t *testing.T) {
	w := newWorld(t)
	_, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "other", Quota: core.Quota{Bytes: -1}})
	require.True(t, core.Is(err, core.InvalidArgument), err)
	_, err = w.FS.UpdateBucket(ctx, w.Bucket.Name, func(b *core.BucketInfo) error { b.Quota.Objects = -1; return nil })
	require.True(t, core.Is(err, core.InvalidArgument), err)
	b, err := w.FS.Bucket(ctx, w.Bucket.Name)
	require.NoError(t, err)
	require.Zero(t, b.Quota)
}
