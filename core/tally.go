package core

import (
	"context"
	"fmt"
	"math"
)

// Tally is what a bucket holds, as numbers. Bytes are counted like those of Usage: the sizes of objects and parts before
// compression, each reference to shared content in full, and no garbage.
//
// Sums wrap around, so that an addition and the subtraction that undoes it are exact even if the sum in between is too
// large for an int64. Clamped returns what can be shown.
type Tally struct {
	Versions           int64 // versions, without delete markers
	Bytes              int64 // their sizes
	NoncurrentVersions int64 // versions of which a newer version or a delete marker exists
	NoncurrentBytes    int64
	DeleteMarkers      int64
	Uploads            int64 // uploads in progress
	UploadBytes        int64 // the sizes of their parts
}

// TallyOf returns what a version adds to the tally of its bucket. Current reports whether it is the newest version of its
// key.
func TallyOf(o *ObjectInfo, current bool) Tally {
	switch {
	case o.Marker:
		return Tally{DeleteMarkers: 1}
	case current:
		return Tally{Versions: 1, Bytes: o.Size}
	}
	return Tally{Versions: 1, Bytes: o.Size, NoncurrentVersions: 1, NoncurrentBytes: o.Size}
}

// Objects is the number of keys that a listing of objects shows.
func (t Tally) Objects() int64 { return t.Versions - t.NoncurrentVersions }

// Usage returns the part of the tally that quotas limit.
func (t Tally) Usage() Usage {
	return Usage{Bytes: clamp(t.Bytes + t.UploadBytes), Objects: clamp(t.Versions)}
}

// Plus returns the sum of t and u.
func (t Tally) Plus(u Tally) Tally {
	return Tally{
		t.Versions + u.Versions, t.Bytes + u.Bytes, t.NoncurrentVersions + u.NoncurrentVersions, t.NoncurrentBytes + u.NoncurrentBytes,
		t.DeleteMarkers + u.DeleteMarkers, t.Uploads + u.Uploads, t.UploadBytes + u.UploadBytes,
	}
}

// Minus returns the difference of t and u.
func (t Tally) Minus(u Tally) Tally {
	return Tally{
		t.Versions - u.Versions, t.Bytes - u.Bytes, t.NoncurrentVersions - u.NoncurrentVersions, t.NoncurrentBytes - u.NoncurrentBytes,
		t.DeleteMarkers - u.DeleteMarkers, t.Uploads - u.Uploads, t.UploadBytes - u.UploadBytes,
	}
}

// Clamped returns t with the largest int64 for sums that are too large, and with 0 for negative ones, which follow from
// damaged rows.
func (t Tally) Clamped() Tally {
	return Tally{
		clamp(t.Versions), clamp(t.Bytes), clamp(t.NoncurrentVersions), clamp(t.NoncurrentBytes),
		clamp(t.DeleteMarkers), clamp(t.Uploads), clamp(t.UploadBytes),
	}
}

// clamp takes a very negative sum for one that has wrapped around.
func clamp(n int64) int64 {
	switch {
	case n >= 0:
		return n
	case n < math.MinInt64/2:
		return math.MaxInt64
	}
	return 0
}

// String lists the numbers, for reports and messages.
func (t Tally) String() string {
	return fmt.Sprintf("%d versions with %d bytes, %d noncurrent versions with %d bytes, %d delete markers, and %d uploads with %d bytes",
		t.Versions, t.Bytes, t.NoncurrentVersions, t.NoncurrentBytes, t.DeleteMarkers, t.Uploads, t.UploadBytes)
}

// BucketTally is the tally of a bucket.
type BucketTally struct {
	Bucket BucketID
	Tally
}

// Tallier is implemented by a Meta that keeps an exact tally of every bucket, and so can tell what a bucket holds without
// reading its versions.
type Tallier interface {
	// Tallies returns the tallies of up to limit buckets with IDs above after, in the order of their IDs. They show one
	// moment between two changes.
	Tallies(ctx context.Context, after BucketID, limit int) ([]BucketTally, error)
}
