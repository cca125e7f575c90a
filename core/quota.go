package core

import (
	"errors"
	"fmt"
)

// Quota bounds what a bucket may hold (see Usage), each bound for itself; 0 is none. Apply decides: a change after which a bucket would hold more
// than before, and more than its bound, is QuotaExceeded, with OverQuota as the cause. What makes a bucket smaller, or no larger, always passes, also
// in one that holds more than its quota, which may be set below what is there.
type Quota struct {
	Bytes   int64
	Objects int64
}

// Usage is what a bucket with a quota holds. Bytes are the sizes of all versions, noncurrent ones too, and of the parts of uploads in
// progress: plain bytes, as clients count them. Content that is shared counts in full wherever it is referred to; what waits to be freed does not count.
// Objects are all versions. Delete markers count as nothing.
type Usage struct {
	Bytes   int64
	Objects int64
}

// UsageOf returns what a version counts as; nil is no version.
func UsageOf(o *ObjectInfo) Usage {
	if o == nil || o.Marker {
		return Usage{}
	}
	return Usage{Bytes: o.Size, Objects: 1}
}

// Plus returns the sum of both.
func (u Usage) Plus(v Usage) Usage { return Usage{u.Bytes + v.Bytes, u.Objects + v.Objects} }

// Minus returns u without v.
func (u Usage) Minus(v Usage) Usage { return Usage{u.Bytes - v.Bytes, u.Objects - v.Objects} }

// IsZero says whether q bounds nothing.
func (q Quota) IsZero() bool { return q == Quota{} }

// Check says InvalidArgument where q is no quota.
func (q Quota) Check() error {
	if q.Bytes < 0 || q.Objects < 0 {
		return E("core.Quota", InvalidArgument, errors.New("a quota below nothing"))
	}
	return nil
}

// Admit says whether a bucket that holds held may come to hold more, which is negative where it comes to hold less: nil or QuotaExceeded.
func (q Quota) Admit(held, more Usage) error {
	if over(q.Bytes, held.Bytes, more.Bytes) || over(q.Objects, held.Objects, more.Objects) {
		return E("core.Quota", QuotaExceeded, &OverQuota{Quota: q, Held: held, More: more})
	}
	return nil
}

func over(bound, held, more int64) bool { return bound > 0 && more > 0 && more > bound-held }

// OverQuota is the cause of QuotaExceeded: the quota, what the bucket holds, and what the change would have added.
type OverQuota struct {
	Quota Quota
	Held  Usage
	More  Usage
}

// Error names the bounds that are exceeded, with what is there and what was to come.
func (e *OverQuota) Error() string {
	text := ""
	if over(e.Quota.Bytes, e.Held.Bytes, e.More.Bytes) {
		text = fmt.Sprintf("of %d bytes, %d are in use and %d more were to be written", e.Quota.Bytes, e.Held.Bytes, e.More.Bytes)
	}
	if over(e.Quota.Objects, e.Held.Objects, e.More.Objects) {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("of %d objects, %d are there and %d more were to be written", e.Quota.Objects, e.Held.Objects, e.More.Objects)
	}
	return text
}
