package vfs

import (
	"context"

	"orcas/core"
)

// Usage returns the usage of a bucket with a quota. It returns BucketState if the bucket has none.
func (f *FS) Usage(ctx context.Context, b *core.BucketInfo) (core.Usage, error) {
	return f.meta.Usage(ctx, b.ID)
}

// Tally returns what a bucket holds.
func (f *FS) Tally(ctx context.Context, b *core.BucketInfo) (core.Tally, error) {
	const op = "vfs.Tally"
	t, ok := core.As[core.Tallier](f.meta)
	if !ok {
		return core.Tally{}, core.E(op, core.Unsupported, nil)
	}
	list, err := t.Tallies(ctx, b.ID-1, 1)
	switch {
	case err != nil:
		return core.Tally{}, err
	case len(list) == 0 || list[0].Bucket != b.ID:
		return core.Tally{}, core.E(op, core.NoSuchBucket, nil)
	}
	return list[0].Clamped(), nil
}

// Room returns QuotaExceeded if the quota of a bucket does not allow another version of a key, of size bytes. It is an
// early check, so that content is not received in vain; core.Meta.Apply makes the decision.
func (f *FS) Room(ctx context.Context, b *core.BucketInfo, key string, size int64) error {
	return f.room(ctx, b, core.Usage{Bytes: size, Objects: 1}, func() (replaced core.Usage, err error) {
		if b.Versioning == core.VersioningEnabled {
			return replaced, nil
		}
		o, err := f.meta.Object(ctx, b.ID, key, core.Null)
		if core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion) {
			return replaced, nil
		}
		return core.UsageOf(o), err
	})
}

// RoomForPart is Room for a part of an upload.
func (f *FS) RoomForPart(ctx context.Context, b *core.BucketInfo, id core.UploadID, number int, size int64) error {
	return f.room(ctx, b, core.Usage{Bytes: size}, func() (replaced core.Usage, err error) {
		parts, err := f.meta.Parts(ctx, id, number-1, 1, core.WithoutContent)
		if err == nil && len(parts) > 0 && parts[0].Number == number {
			replaced.Bytes = parts[0].Size
		}
		return replaced, err
	})
}

// room returns QuotaExceeded if the quota of a bucket does not allow more usage. The function replaced returns the
// usage of the version or part that the write replaces. It is called only if the quota would otherwise be exceeded.
func (f *FS) room(ctx context.Context, b *core.BucketInfo, more core.Usage, replaced func() (core.Usage, error)) error {
	if b.Quota.IsZero() {
		return nil
	}
	used, err := f.meta.Usage(ctx, b.ID)
	switch {
	case core.Is(err, core.BucketState), core.Is(err, core.NoSuchBucket): // quota or bucket deleted in the meantime
		return nil
	case err != nil:
		return err
	}
	if b.Quota.Admit(used, more) == nil {
		return nil
	}
	freed, err := replaced()
	if err != nil {
		return err
	}
	return b.Quota.Admit(used, more.Minus(freed))
}
