package s3

import (
	"context"
	"errors"
	"io"
	"time"

	"orcas/gate"
	"orcas/gate/limit"
)

// limited returns the S3 error for an error of package limit.
func limited(err error) error {
	var e *limit.Error
	if !errors.As(err, &e) {
		return err
	}
	return errSlowDown.Say("Please reduce your request rate: "+e.Error()+".").WithHeader("Retry-After", e.RetryAfter())
}

// begun counts a request for the limits of its address.
func (q *request) begun() (err error) {
	if q.s.allowed.Limits == nil {
		return nil
	}
	if q.flow, err = q.s.allowed.Limits.Begin(q.r.RemoteAddr); err != nil {
		q.overLimit, q.reason = true, gate.Rate
		return limited(err)
	}
	q.body.pacer = q.pacer()
	return nil
}

// identified counts a request for the limits of its sender.
func (q *request) identified() error {
	if q.s.allowed.Limits == nil {
		return nil
	}
	if err := q.flow.Identify(q.auth.AccessKey, q.caller); err != nil {
		q.overLimit, q.reason = true, gate.Rate
		return limited(err)
	}
	q.body.pacer = q.pacer()
	return nil
}

// pacer returns what paces the bodies of a request, or nil.
func (q *request) pacer() *pacer {
	if !q.flow.Paced() {
		return nil
	}
	return &pacer{&q.flow, q.ctx}
}

// pacer lets a request wait as long as the bandwidth of its sender demands. The client is not to blame for that time, so
// deadlines are extended before it.
type pacer struct {
	flow *limit.Flow
	ctx  context.Context
}

// wait counts n bytes, and waits until they are paid. extend sets the deadline for what follows.
func (p *pacer) wait(n int, extend func(d time.Duration)) error {
	d := p.flow.Take(n)
	if d <= 0 {
		return nil
	}
	extend(d)
	return limit.Wait(p.ctx, d)
}

// pacedWriter writes a response at the bandwidth of its receiver.
type pacedWriter struct {
	w        io.Writer
	pacer    *pacer
	deadline writeDeadliner // nil if no deadline is set
	patience time.Duration
}

// Write implements io.Writer.
func (w *pacedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		chunk := p[:min(len(p), w.pacer.flow.Chunk())]
		if err = w.pacer.wait(len(chunk), w.extend); err != nil {
			return n, err
		}
		var m int
		m, err = w.w.Write(chunk)
		n += m
		p = p[m:]
	}
	return n, err
}

// extend moves the deadline of the write in progress to after a pause of d. (With HTTP/2, a deadline that passes ends the
// stream, even if nothing is being written.)
func (w *pacedWriter) extend(d time.Duration) {
	if w.deadline != nil && w.patience > 0 {
		_ = w.deadline.SetWriteDeadline(time.Now().Add(d + w.patience)) // the next write reports an error
	}
}

// paced returns w, or a writer that paces what is written to w.
func (q *request) paced(w io.Writer, patience time.Duration) io.Writer {
	p := q.pacer()
	if p == nil {
		return w
	}
	d, _ := q.w.(writeDeadliner)
	return &pacedWriter{w, p, d, patience}
}

// closes reports whether the rest of the body is not worth reading, because it would be read faster than allowed: that
// of a request which is over a limit, which is paced, or which was refused before it counted for the limits.
func (q *request) closes() bool {
	early := q.reason == gate.InFlight || q.reason == gate.Connections
	return q.overLimit || q.body.pacer != nil || early && q.s.allowed.Limits != nil
}
