package vfs

import (
	"context"

	"orcas/core"
)

// Usage returns the usage of a bucket with a quota. It returns BucketState if the bucket has none.
func (f *FS) Usage(ctx context.Context, b *core.BucketInfo) (core.Usage, error) {
	return f.meta.Usage(ctx, b.ID)
}

// Room returns QuotaExceeded if, at this moment, the quota of a bucket does not allow a version of a key of size
// bytes. It avoids receiving content in vain; core.Meta.Apply decides.
func (f *FS) Room(ctx context.Context, b *core.BucketInfo, key string, size int64) error {
	return f.room(ctx, b, core.Usage{Bytes: size, Objects: 1}, func() (gone core.Usage, err error) {
		if b.Versioning == core.VersioningEnabled {
			return gone, nil
		}
		o, err := f.meta.Object(ctx, b.ID, key, core.Null)
		if core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion) {
			return gone, nil
		}
		return core.UsageOf(o), err
	})
}

// RoomForPart is Room for a part of an upload.
func (f *FS) RoomForPart(ctx context.Context, b *core.BucketInfo, id core.UploadID, number int, size int64) error {
	return f.room(ctx, b, core.Usage{Bytes: size}, func() (gone core.Usage, err error) {
		parts, err := f.meta.Parts(ctx, id, number-1, 1, core.WithoutContent)
		if err == nil && len(parts) > 0 && parts[0].Number == number {
			gone.Bytes = parts[0].Size
		}
		return gone, err
	})
}

// room returns QuotaExceeded if a bucket may not contain more. It calls goes, which returns the usage of what the
// write replaces, only if the quota does not allow the write without that.
func (f *FS) room(ctx context.Context, b *core.BucketInfo, more core.Usage, goes func() (core.Usage, error)) error {
	if b.Quota.IsZero() {
		return nil
	}
	held, err := f.meta.Usage(ctx, b.ID)
	switch {
	case core.Is(err, core.BucketState), core.Is(err, core.NoSuchBucket): // removed in the meantime
		return nil
	case err != nil:
		return err
	}
	if b.Quota.Admit(held, more) == nil {
		return nil
	}
	gone, err := goes()
	if err != nil {
		return err
	}
	return b.Quota.Admit(held, more.Minus(gone))
}
