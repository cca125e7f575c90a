package s3

import (
	"context"
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"

	"orcas/gate"
)

// Tally is an observer that counts requests. Counting one takes two or three atomic additions.
type Tally struct {
	times                  [tallyTimes]atomic.Int64 // number of requests by duration; see timeIndex
	in, out                atomic.Int64
	clientErrors, failures atomic.Int64
}

// Counts holds the counts of a Tally.
type Counts struct {
	Requests     int64
	ClientErrors int64 // responses with status 400 to 499
	ServerErrors int64 // responses with status 500 or higher
	In, Out      int64 // bytes of request and response bodies

	times [tallyTimes]int64
}

// Request durations are counted in microseconds, with four classes for each power of two.
const (
	timeBits   = 2
	tallyTimes = 64 << timeBits
)

// timeIndex returns the class of a duration.
func timeIndex(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 1<<timeBits {
		return int(us)
	}
	power := bits.Len64(us) - 1 - timeBits
	return power<<timeBits + int(us>>power) // the highest bit of us>>power adds one more power
}

// timeOf returns the longest duration of a class.
func timeOf(index int) time.Duration {
	if index < 1<<timeBits {
		return time.Duration(index) * time.Microsecond
	}
	power := index>>timeBits - 1
	class := uint64(index&(1<<timeBits-1) | 1<<timeBits)
	return time.Duration((class+1)<<power-1) * time.Microsecond
}

// Observe implements gate.Observer.
func (t *Tally) Observe(_ context.Context, e *gate.Event) {
	t.times[timeIndex(e.Took)].Add(1)
	if e.In > 0 {
		t.in.Add(e.In)
	}
	if e.Out > 0 {
		t.out.Add(e.Out)
	}
	switch {
	case e.Status >= http.StatusInternalServerError:
		t.failures.Add(1)
	case e.Status >= http.StatusBadRequest:
		t.clientErrors.Add(1)
	}
}

// Take returns the counts since the last call, and resets them.
func (t *Tally) Take() *Counts {
	c := &Counts{
		ClientErrors: t.clientErrors.Swap(0), ServerErrors: t.failures.Swap(0), In: t.in.Swap(0), Out: t.out.Swap(0),
	}
	for i := range t.times {
		c.times[i] = t.times[i].Swap(0)
		c.Requests += c.times[i]
	}
	return c
}

// Quantile returns the duration within which a share of the requests, from 0 to 1, ended. It overestimates by up to a
// quarter.
func (c *Counts) Quantile(share float64) time.Duration {
	left := int64(share * float64(c.Requests))
	for i, n := range c.times {
		if left -= n; left < 0 {
			return timeOf(i)
		}
	}
	for i := len(c.times) - 1; i > 0; i-- {
		if c.times[i] > 0 {
			return timeOf(i)
		}
	}
	return 0
}
