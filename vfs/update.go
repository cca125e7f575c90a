package vfs

import (
	"context"
	"time"

	"orcas/batch"
	"orcas/core"
)

// Now returns the present by the clock of the store, which is the one that retention is held against.
func (f *FS) Now() time.Time { return f.time() }

// Update changes what may change of a version of c.Key in b (see core.UpdateObject) and returns which version that is. Bucket and Time of c
// are its to set.
func (f *FS) Update(ctx context.Context, b *core.BucketInfo, c core.UpdateObject) (core.Version, error) {
	c.Bucket, c.Time = b.ID, f.time()
	res, err := f.writer.Do(ctx, batch.Write{Change: &c})
	return res.Version, err
}

// lockOf returns the lock of a version that is written to b at a time: the one asked for, with the bucket's retention where it has none.
func lockOf(b *core.BucketInfo, asked core.Lock, at time.Time) core.Lock {
	if asked.Mode == core.LockNone && b.Retention.Mode != core.LockNone {
		hold := asked.Hold
		asked = b.Retention.From(at)
		asked.Hold = hold
	}
	return asked
}
