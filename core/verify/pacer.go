package verify

import (
	"context"
	"sync/atomic"
	"time"

	"orcas/core"
)

// Pacer limits the rate of reads. Only one goroutine may call Wait; any goroutine may call the other methods.
type Pacer struct {
	perSecond atomic.Int64  // 0 for no limit
	changed   chan struct{} // contains a token after perSecond has changed
	last      time.Time
	owed      time.Duration // delay that Wait has not slept yet
}

// NewPacer returns a Pacer for a rate in bytes per second, 0 for no limit.
func NewPacer(perSecond int64) *Pacer {
	p := &Pacer{changed: make(chan struct{}, 1)}
	p.perSecond.Store(perSecond)
	return p
}

// Rate returns the current rate in bytes per second, or 0 if there is no limit.
func (p *Pacer) Rate() int64 { return p.perSecond.Load() }

// SetRate changes the rate. A Wait in progress returns immediately.
func (p *Pacer) SetRate(perSecond int64) {
	p.perSecond.Store(perSecond)
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// sleepMin is the shortest delay that Wait sleeps. It accumulates shorter ones, because the system would round them up.
const sleepMin = 10 * time.Millisecond

// Wait must be called after n bytes were read. It sleeps until more bytes may be read.
func (p *Pacer) Wait(ctx context.Context, n int) error {
	perSecond := p.Rate()
	if perSecond <= 0 {
		p.owed = 0
		return nil
	}
	now := time.Now()
	if !p.last.IsZero() {
		p.owed = max(0, p.owed-now.Sub(p.last))
	}
	p.last = now
	p.owed += time.Duration(float64(n) / float64(perSecond) * float64(time.Second))
	if p.owed < sleepMin {
		return nil
	}
	timer := time.NewTimer(p.owed)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return core.E("verify.Wait", core.Canceled, ctx.Err())
	case <-p.changed:
		p.owed = 0 // it was computed with the old rate
	case <-timer.C:
	}
	return nil
}
