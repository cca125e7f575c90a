package s3

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"
)

type readDeadliner interface{ SetReadDeadline(time.Time) error }

type writeDeadliner interface{ SetWriteDeadline(time.Time) error }

// renewEvery returns the minimum interval between extensions of a deadline while bytes flow. It is long enough that the
// cost is negligible.
func renewEvery(patience time.Duration) time.Duration { return min(time.Second, patience/4) }

// bodyReader counts the bytes read from a request body. If the client sends nothing for too long, Read returns
// os.ErrDeadlineExceeded. Progress extends the deadline, so a slow client may take as long as it likes.
type bodyReader struct {
	rc       io.ReadCloser
	deadline readDeadliner // nil if no deadline can be set
	patience time.Duration // longest wait for bytes; unlimited if not positive
	until    time.Time     // when reading must have ended, if it is not zero
	renewed  time.Time
	count    int64
	pacer    *pacer // nil if the body is not paced
	ended    bool   // Read has returned io.EOF
	broken   bool   // Read has failed, so no more can be read
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	if !b.until.IsZero() && time.Now().After(b.until) {
		b.broken = true
		return 0, os.ErrDeadlineExceeded
	}
	if b.deadline != nil && b.patience > 0 {
		if now := time.Now(); now.Sub(b.renewed) >= renewEvery(b.patience) {
			by := now.Add(b.patience)
			if !b.until.IsZero() && b.until.Before(by) {
				by = b.until
			}
			if err := b.deadline.SetReadDeadline(by); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return 0, err
			}
			b.renewed = now
		}
	}
	if b.pacer != nil {
		p = p[:min(len(p), b.pacer.flow.Chunk())]
	}
	n, err := b.rc.Read(p)
	b.count += int64(n)
	if b.pacer != nil && (err == nil || err == io.EOF) {
		if late := b.pace(n); late != nil {
			err = late
		}
	}
	switch {
	case err == io.EOF:
		b.ended = true
		if b.deadline != nil && !b.renewed.IsZero() {
			// The deadline was for the body only: net/http keeps reading, to detect a client that disconnects.
			_ = b.deadline.SetReadDeadline(time.Time{})
		}
	case err != nil:
		b.broken = true
	}
	return n, err
}

// pace waits as long as the bandwidth of the sender demands. The fields of a form are only counted, because they must
// arrive within a limited time.
func (b *bodyReader) pace(n int) error {
	if !b.until.IsZero() {
		b.pacer.flow.Take(n)
		return nil
	}
	return b.pacer.wait(n, func(d time.Duration) {
		if b.deadline != nil && b.patience > 0 {
			b.renewed = time.Now().Add(d)
			_ = b.deadline.SetReadDeadline(b.renewed.Add(b.patience)) // the next read reports an error
		}
	})
}

// Close implements io.Closer.
func (b *bodyReader) Close() error { return b.rc.Close() }

// patientBytes is the minimum size of a response that is written under a deadline. A smaller one fits into the buffers
// of the connection.
const patientBytes = 64 << 10

// patient returns a writer for a response of length bytes, and a function to call after the last write.
func (q *request) patient(length int64) (io.Writer, func() error) {
	d, ok := q.w.(writeDeadliner)
	limits := q.s.live.Load()
	if length < patientBytes || limits.BodyTimeout <= 0 || !ok {
		return q.paced(q.w, 0), func() error { return nil }
	}
	p := &patientWriter{
		w: q.w, deadline: d, patience: limits.BodyTimeout, pace: pace{rate: limits.MinRate, window: q.s.times.rateWindow},
		most: math.MaxInt,
	}
	if q.r.ProtoMajor > 1 {
		p.most = streamBytes
	}
	return q.paced(p, p.patience), p.done
}

// streamBytes is the size of a single write to an HTTP/2 stream. The deadline of a stream applies to a whole write, so
// a larger one that makes progress could not be distinguished from one that is stuck.
const streamBytes = 64 << 10

// Abort is the write deadline that ends a write immediately. A connection may extend any other deadline for as long as
// the client keeps reading.
var Abort = time.Unix(1, 0)

// patientWriter writes a large response. It gives up if the client does not read any data for too long, or if its
// average rate is too low.
type patientWriter struct {
	w        http.ResponseWriter
	deadline writeDeadliner
	patience time.Duration
	renewed  time.Time
	pace     pace
	most     int // maximum bytes in a single write

	limit *time.Timer // runs during a write; nil before the first one
	mu    sync.Mutex  // guards the fields below
	until time.Time   // when the write in progress must have ended; zero if none is in progress
	late  bool        // a write has taken too long
}

// Write implements io.Writer.
func (p *patientWriter) Write(b []byte) (n int, err error) {
	for len(b) > p.most && err == nil {
		var m int
		m, err = p.write(b[:p.most])
		n += m
		b = b[m:]
	}
	if err == nil {
		var m int
		m, err = p.write(b)
		n += m
	}
	return n, err
}

func (p *patientWriter) write(b []byte) (int, error) {
	now := time.Now()
	if now.Sub(p.renewed) >= renewEvery(p.patience) {
		if err := p.deadline.SetWriteDeadline(now.Add(p.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return 0, err
		}
		p.renewed = now
	}
	p.begin(now, len(b))
	n, err := p.w.Write(b)
	if p.end() {
		return n, p.pace.tooSlow(n, time.Since(now))
	}
	if err == nil {
		err = p.pace.took(n, time.Since(now))
	}
	return n, err
}

// begin limits the time of a write of n bytes to what the pace allows.
func (p *patientWriter) begin(now time.Time, n int) {
	if p.pace.rate <= 0 {
		return
	}
	d := p.pace.limit(n)
	p.mu.Lock()
	p.until = now.Add(d)
	p.mu.Unlock()
	if p.limit == nil {
		p.limit = time.AfterFunc(d, p.expire)
	} else {
		p.limit.Reset(d)
	}
}

// end stops the timer that begin started, and reports whether the write has taken too long.
func (p *patientWriter) end() bool {
	if p.pace.rate <= 0 {
		return false
	}
	p.limit.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	return p.late
}

// expire aborts the write in progress, unless the timer was set for an earlier write.
func (p *patientWriter) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.IsZero() && !time.Now().Before(p.until) {
		p.late = true
		_ = p.deadline.SetWriteDeadline(Abort) // it fails only if the connection is closed
	}
}

// done flushes buffered data under the last deadline, and then clears the deadline so that it does not affect the next
// request on the connection.
func (p *patientWriter) done() error {
	err := http.NewResponseController(p.w).Flush()
	_ = p.deadline.SetWriteDeadline(time.Time{})
	return err
}

// pace checks the average rate at which a client reads a response, over windows of time. Only the time that the server
// spends waiting for the client counts: a slow drive, or work before the response, is not the client's fault.
type pace struct {
	rate   int64 // minimum bytes per second; not checked if 0
	window time.Duration

	bytes  int64 // bytes read by the client in this window
	waited time.Duration
}

// took records that the client read n bytes while the server waited for d. At the end of a window it returns an error
// if the average rate was too low.
func (p *pace) took(n int, d time.Duration) error {
	if p.rate <= 0 {
		return nil
	}
	p.bytes += int64(n)
	if p.waited += d; p.waited < p.window {
		return nil
	}
	if float64(p.bytes) < float64(p.rate)*p.waited.Seconds() {
		return p.tooSlow(0, 0)
	}
	p.bytes, p.waited = 0, 0
	return nil
}

// limit returns the longest time that the client may take for the next n bytes. If it takes longer, took will return an
// error.
func (p *pace) limit(n int) time.Duration {
	allowed := time.Duration(float64(p.bytes+int64(n)) / float64(p.rate) * float64(time.Second))
	return max(p.window, allowed) - p.waited
}

// tooSlow returns the error for a client whose average rate is too low after it has read n more bytes in d.
func (p *pace) tooSlow(n int, d time.Duration) error {
	return fmt.Errorf("the client read %d bytes in %.3f s: expected at least %d bytes per second on average",
		p.bytes+int64(n), (p.waited + d).Seconds(), p.rate)
}
