package faults

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// The additional buckets for versioning and lifecycle tests; each worker also has a bucket of its own, see ownBucket.
const (
	lockBucket = bucket + "-lock" // with object lock
	lifeBucket = bucket + "-life" // versioned, with a lifecycle
	goneBucket = bucket + "-gone" // unversioned, with a lifecycle
)

// The states of versioning; "" means never enabled.
const (
	enabled   = "Enabled"
	suspended = "Suspended"
)

// lifeDay is the length of a lifecycle day.
const lifeDay = time.Second

// lifeSettings are environment variables (NAME=value) of the servers that the test bench starts.
var lifeSettings = []string{"ORCAS_LIFECYCLE_DAY_SEC=1"}

// rule is a lifecycle rule for the keys with a prefix. Each number is in days; 0 means never.
type rule struct {
	prefix     string
	expire     int
	noncurrent int
	marker     bool // remove delete markers without other versions
	abort      int
}

// rules returns the lifecycle of a bucket.
func rules(bucket string) []rule {
	switch bucket {
	case lifeBucket:
		return []rule{{prefix: "e/", expire: 3, noncurrent: 2}, {prefix: "m/", noncurrent: 2, marker: true}, {prefix: "u/", abort: 3}}
	case goneBucket:
		return []rule{{prefix: "e/", expire: 3}}
	}
	return nil
}

// ruleOf returns the rule that applies to a key.
func ruleOf(n Name) rule {
	for _, r := range rules(n.Bucket) {
		if strings.HasPrefix(n.Key, r.prefix) {
			return r
		}
	}
	return rule{}
}

// lifecycleOf encodes rules as an S3 lifecycle configuration.
func lifecycleOf(list []rule) (out []types.LifecycleRule) {
	for _, r := range list {
		x := types.LifecycleRule{ID: aws.String(r.prefix), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String(r.prefix)}}
		if r.expire > 0 {
			x.Expiration = &types.LifecycleExpiration{Days: aws.Int32(int32(r.expire))}
		}
		if r.marker {
			x.Expiration = &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)}
		}
		if r.noncurrent > 0 {
			x.NoncurrentVersionExpiration = &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(int32(r.noncurrent))}
		}
		if r.abort > 0 {
			x.AbortIncompleteMultipartUpload = &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(int32(r.abort))}
		}
		out = append(out, x)
	}
	return out
}

// after returns the time that is a number of lifecycle days after t, in nanoseconds since 1970.
func after(t int64, days int) int64 { return t + int64(days)*int64(lifeDay) }

// reader compares the versions that a server returns for a key with one possible history, in which the lifecycle may
// have deleted expired versions.
type reader struct {
	rule
	off  bool // the bucket is unversioned
	now  int64
	want []Version
	got  []held
}

// read matches got to the versions of the history, and returns these, newest first, with everything known about them.
// It returns false if the history cannot lead to got.
func (r *reader) read() ([]Version, bool) {
	return r.from(0, 0, false)
}

// from does the same for got[i:] and want[j:]. covered means that a delete marker that the lifecycle created is on top
// of want[j].
func (r *reader) from(i, j int, covered bool) ([]Version, bool) {
	if j == len(r.want) {
		return nil, i == len(r.got)
	}
	w := r.want[j]
	if i < len(r.got) && r.fits(w, r.got[i]) {
		if rest, ok := r.from(i+1, j+1, false); ok {
			w.ID = r.got[i].id
			if covered {
				w.Under = r.since(w)
			}
			return append([]Version{w}, rest...), true
		}
	}
	if i < len(r.got) && !covered && !r.off && r.expired(w) && r.got[i].marker && r.unknown(r.got[i].id) {
		if rest, ok := r.from(i+1, j, true); ok {
			at := after(w.Written, r.expire)
			m := Version{ID: r.got[i].id, Written: at, Placed: at}
			if j > 0 {
				m.Under = w.Under
			}
			return append([]Version{m}, rest...), true
		}
	}
	if w.Dropped || r.mayLack(i, j, covered) {
		return r.from(i, j+1, false)
	}
	return nil, false
}

// unknown reports whether no version of the history has the given ID.
func (r *reader) unknown(id string) bool {
	return !slices.ContainsFunc(r.want, func(v Version) bool { return v.ID == id })
}

// fits reports whether a version is the one that the server returned.
func (r *reader) fits(w Version, g held) bool {
	if w.Dropped || w.ID != g.id && !(w.unnamed() && r.unknown(g.id)) || (w.Value == nil) != g.marker {
		return false
	}
	return g.marker || w.Value.Size == g.size && w.Value.ETag == g.etag && (!g.read || w.Lock == g.lock && w.Value.is(g.body, g.label))
}

// expired reports whether a version expired while it was the newest.
func (r *reader) expired(w Version) bool {
	return w.Value != nil && r.expire > 0 && r.now >= after(w.Written, r.expire)
}

// since returns the earliest time at which a version stopped being the newest, or 0 if it still is.
func (r *reader) since(w Version) int64 {
	at := w.Under
	if expired := after(w.Written, r.expire); r.expired(w) && (at == 0 || expired < at) {
		at = expired
	}
	return at
}

// mayLack reports whether the lifecycle may have deleted want[j], if everything in got[i:] is older than want[j].
func (r *reader) mayLack(i, j int, covered bool) bool {
	w, left := r.want[j], len(r.got)-i
	if r.off {
		return r.expired(w)
	}
	since := r.since(w)
	noncurrent := r.noncurrent > 0 && since > 0 && r.now >= after(since, r.noncurrent)
	if w.Value == nil { // delete markers also expire as the only version of their key
		return noncurrent || left == 0 && (r.marker || r.expire > 0 && r.now >= after(w.Placed, r.expire))
	}
	if j == 0 && !covered && w.Under == 0 { // the marker on top of it must have been deleted, too
		return noncurrent && len(r.got) == 0 && r.now >= after(since, r.expire)
	}
	return noncurrent
}

// explain finds the histories that can lead to the versions that the server returned for a key, and returns the
// resulting versions.
func (h history) explain(n Name, got []held, now time.Time) (versions []Version, courses []branch) {
	for _, b := range h.all {
		r := reader{rule: ruleOf(n), off: n.Bucket == goneBucket, now: now.UnixNano(), want: b.versions, got: got}
		if list, ok := r.read(); ok {
			versions, courses = list, append(courses, b)
		}
	}
	return versions, courses
}
