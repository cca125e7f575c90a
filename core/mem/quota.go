package mem

import (
	"context"

	"orcas/core"
)

// Usage implements core.Meta. It counts on every call, so that there is no counter that could be wrong.
func (m *Meta) Usage(ctx context.Context, bucket core.BucketID) (core.Usage, error) {
	const op = "mem.Usage"
	end, err := m.begin(ctx, op)
	if err != nil {
		return core.Usage{}, err
	}
	defer end()
	b := m.buckets[bucket]
	switch {
	case b == nil:
		return core.Usage{}, core.E(op, core.NoSuchBucket, nil)
	case b.info.Quota.IsZero():
		return core.Usage{}, core.E(op, core.BucketState, nil)
	}
	return m.tally(b).Usage(), nil
}

// held computes the usage of the parts of an upload in progress.
func (l *list) held() (u core.Usage) {
	for _, p := range l.parts {
		u.Bytes += p.Size
	}
	return u
}

// replaced returns the usage that a new version or delete marker of a key replaces.
func (b *bucket) replaced(key string) core.Usage {
	if b.info.Versioning == core.VersioningEnabled {
		return core.Usage{}
	}
	return core.UsageOf(b.find(key, core.Null))
}

// admit returns an error if the quota of a bucket does not allow more.
func (m *Meta) admit(b *bucket, more core.Usage) error {
	if b.info.Quota.IsZero() {
		return nil
	}
	return b.info.Quota.Admit(m.tally(b).Usage(), more)
}
