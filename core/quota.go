package core

import "fmt"

// Quota limits the usage of a bucket, in bytes and in objects; 0 means no limit. Apply enforces it: a change that
// increases the usage above a limit fails with QuotaExceeded, with OverQuota as the cause. A change that does not
// increase the usage is always allowed, even in a bucket above its quota, because a quota can be set below the current
// usage.
type Quota struct {
	Bytes   int64
	Objects int64
}

// Usage is the part of a Tally that quotas limit: the amount stored in a bucket. Bytes are the sizes of all versions, including noncurrent ones,
// and of the parts of uploads in progress, before compression. Deduplicated content counts in full for every reference;
// garbage does not count. Objects is the number of versions, without delete markers.
type Usage struct {
	Bytes   int64
	Objects int64
}

// UsageOf returns the usage of a version; nil means no version.
func UsageOf(o *ObjectInfo) Usage {
	if o == nil || o.Marker {
		return Usage{}
	}
	return Usage{Bytes: o.Size, Objects: 1}
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage { return Usage{u.Bytes + v.Bytes, u.Objects + v.Objects} }

// Minus returns the difference of u and v.
func (u Usage) Minus(v Usage) Usage { return Usage{u.Bytes - v.Bytes, u.Objects - v.Objects} }

// IsZero reports whether q has no limit.
func (q Quota) IsZero() bool { return q == Quota{} }

// Check returns InvalidArgument if a limit is negative.
func (q Quota) Check() error {
	if q.Bytes < 0 || q.Objects < 0 {
		return E("core.Quota", InvalidArgument, fmt.Errorf("a quota must not be negative: %d bytes, %d objects", q.Bytes, q.Objects))
	}
	return nil
}

// Admit returns QuotaExceeded if more, which can be negative, must not be added to the current usage.
//
// One process: Apply decides exactly, using one tally per bucket. With several servers, the row of that tally would be
// a bottleneck, so each server would need a share of the quota.
func (q Quota) Admit(held, more Usage) error {
	if over(q.Bytes, held.Bytes, more.Bytes) || over(q.Objects, held.Objects, more.Objects) {
		return E("core.Quota", QuotaExceeded, &OverQuota{Quota: q, Held: held, More: more})
	}
	return nil
}

func over(bound, held, more int64) bool { return bound > 0 && more > 0 && more > bound-held }

// OverQuota is the cause of QuotaExceeded: the quota, the current usage, and the usage that the change would have
// added.
type OverQuota struct {
	Quota Quota
	Held  Usage
	More  Usage
}

// Error names the exceeded limits, with the current usage and the addition.
func (e *OverQuota) Error() string {
	text := ""
	if over(e.Quota.Bytes, e.Held.Bytes, e.More.Bytes) {
		text = fmt.Sprintf("%d of %d bytes are in use, and the request adds %d", e.Held.Bytes, e.Quota.Bytes, e.More.Bytes)
	}
	if over(e.Quota.Objects, e.Held.Objects, e.More.Objects) {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%d of %d objects are in use, and the request adds %d", e.Held.Objects, e.Quota.Objects, e.More.Objects)
	}
	return text
}
