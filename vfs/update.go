package vfs

import (
	"context"
	"time"

	"orcas/batch"
	"orcas/core"
)

// Now returns the time of the store's clock, which decides when retention ends.
func (f *FS) Now() time.Time { return f.time() }

// Update changes the tags or the lock of a version of c.Key in b (see core.UpdateObject) and returns that version. It
// sets c.Bucket and c.Time.
func (f *FS) Update(ctx context.Context, b *core.BucketInfo, c core.UpdateObject) (core.Version, error) {
	c.Bucket, c.Time = b.ID, f.time()
	res, err := f.writer.Do(ctx, batch.Write{Change: &c})
	return res.Version, err
}

// lockOf returns the lock of a version that is written to b at a time: the requested lock, with the bucket's default
// retention if the request has no retention.
func lockOf(b *core.BucketInfo, requested core.Lock, at time.Time) core.Lock {
	lock := requested
	if requested.Mode == core.LockNone && b.Retention.Mode != core.LockNone {
		lock = b.Retention.From(at)
		lock.Hold = requested.Hold
	}
	return lock
}
