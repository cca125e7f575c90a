package scrub

import (
	"context"
	"errors"

	"orcas/core"
	"orcas/core/verify"
)

// PassOptions configure a pass that a command requested.
type PassOptions struct {
	BytesPerSecond int64 // maximum rate; 0 means no limit
	Restart        bool  // begin a new pass instead of continuing the current one
}

// askedPass is a pass that a command requested.
type askedPass struct {
	pace *verify.Pacer
	done chan struct{} // closed at the end of the pass
	err  error         // valid once done is closed
}

// errTakenOver ends a background pass that a requested pass continues.
var errTakenOver = errors.New("a requested pass has taken over the background pass")

// Pass makes a background pass: it reads every block once, or completes an interrupted pass, at a low rate. It returns
// errTakenOver if a call of Now takes over the pass, or is already making one.
func (s *Scrubber) Pass(ctx context.Context) error {
	s.passing.Lock()
	defer s.passing.Unlock()
	return s.backgroundPass(ctx)
}

// backgroundPass is like Pass, but the caller must hold s.passing.
func (s *Scrubber) backgroundPass(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	taken := s.asked != nil
	if !taken {
		s.interrupt = cancel
	}
	s.mu.Unlock()
	if taken {
		return errTakenOver
	}
	err := s.pass(ctx, nil, false)
	s.mu.Lock()
	s.interrupt = nil
	s.mu.Unlock()
	if err != nil && context.Cause(ctx) == errTakenOver {
		return errTakenOver
	}
	return s.ended(err)
}

// Now makes a pass immediately, or completes the current pass, taking it over from the background. If another call of
// Now is in progress, its pass continues at the new rate, and both calls return at its end. If o.Restart is set, Now
// instead makes a new pass after it.
func (s *Scrubber) Now(ctx context.Context, o PassOptions) error {
	for {
		s.mu.Lock()
		other := s.asked
		if other == nil {
			break
		}
		other.pace.SetRate(o.BytesPerSecond)
		s.status.BytesPerSecond = o.BytesPerSecond
		s.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return core.E("scrub.Pass", core.Canceled, ctx.Err())
		}
		if !o.Restart {
			return other.err
		}
	}
	mine := &askedPass{pace: verify.NewPacer(o.BytesPerSecond), done: make(chan struct{})}
	s.asked = mine
	if s.interrupt != nil {
		s.interrupt(errTakenOver)
	}
	s.mu.Unlock()

	s.passing.Lock()
	mine.err = s.ended(s.pass(ctx, mine.pace, o.Restart))
	s.mu.Lock()
	s.asked = nil
	s.mu.Unlock()
	s.passing.Unlock()
	close(mine.done)
	return mine.err
}

// ended records the result of a pass in the status.
func (s *Scrubber) ended(err error) error {
	s.note(func(st *Status) {
		st.Running = false
		if st.Error = ""; err != nil {
			st.Error = core.Text(err)
		}
	})
	if err != nil {
		return core.E("scrub.Pass", core.Internal, err)
	}
	return nil
}
