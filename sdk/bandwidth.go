package sdk

import (
	"context"

	"golang.org/x/time/rate"
)

// Bandwidth limits the bytes per second of the bodies that are sent and received, both directions together. All clients
// that are configured with the same Bandwidth share the limit. It may be used concurrently.
type Bandwidth struct{ limiter *rate.Limiter }

// NewBandwidth returns a limit of bytesPerSecond. A value of zero or less means no limit.
func NewBandwidth(bytesPerSecond int64) *Bandwidth {
	b := &Bandwidth{limiter: rate.NewLimiter(rate.Inf, 0)}
	b.SetLimit(bytesPerSecond)
	return b
}

// SetLimit changes the limit, also of transfers in progress. A value of zero or less means no limit.
func (b *Bandwidth) SetLimit(bytesPerSecond int64) {
	if bytesPerSecond <= 0 {
		b.limiter.SetLimit(rate.Inf)
		return
	}
	b.limiter.SetBurst(int(min(max(bytesPerSecond/bandwidthBursts, 1), bandwidthBurstMax)))
	b.limiter.SetLimit(rate.Limit(bytesPerSecond))
}

// Limit returns the limit in bytes per second, or 0 for none.
func (b *Bandwidth) Limit() int64 {
	if l := b.limiter.Limit(); l != rate.Inf {
		return int64(l)
	}
	return 0
}

const (
	// bandwidthBursts is the number of bursts per second: a burst is what a tenth of a second allows, so that slow links
	// see a steady flow.
	bandwidthBursts = 10

	// bandwidthBurstMax is the largest burst, in bytes. It is about the size of one read or write of a body.
	bandwidthBurstMax = 1 << 20
)

// wait blocks until n bytes may pass, or until ctx ends, and returns the error of ctx in that case. A nil Bandwidth has
// no limit.
func (b *Bandwidth) wait(ctx context.Context, n int) error {
	if b == nil || n <= 0 {
		return nil
	}
	for n > 0 {
		if b.limiter.Limit() == rate.Inf {
			return nil
		}
		step := max(min(n, b.limiter.Burst()), 1)
		// WaitN fails at once if the context would end before the bytes may pass, and if the burst was reduced in the
		// meantime. The first must wait for the end of the context to return its error; the second must be tried again.
		if err := b.limiter.WaitN(ctx, step); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if _, limited := ctx.Deadline(); limited && step <= b.limiter.Burst() {
				<-ctx.Done()
				return ctx.Err()
			}
			continue
		}
		n -= step
	}
	return nil
}
