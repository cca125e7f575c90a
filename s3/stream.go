package s3

import (
	"errors"
	"io"
	"net/http"
	"time"
)

type readDeadliner interface{ SetReadDeadline(time.Time) error }

type writeDeadliner interface{ SetWriteDeadline(time.Time) error }

// renewEvery is how often a deadline is moved while bytes flow: often enough, and rare enough to cost nothing.
func renewEvery(patience time.Duration) time.Duration { return min(time.Second, patience/4) }

// bodyReader counts what is read of a request's body, and gives up on a client that sends nothing for a while: it then
// returns os.ErrDeadlineExceeded. Bytes that flow move the deadline on, so a slow client may take as long as it likes.
type bodyReader struct {
	rc       io.ReadCloser
	deadline readDeadliner // nil: there is none to set
	patience time.Duration // at most 0: for ever
	renewed  time.Time
	count    int64
	ended    bool // the end was seen
	broken   bool // an error was seen: there is nothing more to read
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.deadline != nil && b.patience > 0 {
		if now := time.Now(); now.Sub(b.renewed) >= renewEvery(b.patience) {
			if err := b.deadline.SetReadDeadline(now.Add(b.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return 0, err
			}
			b.renewed = now
		}
	}
	n, err := b.rc.Read(p)
	b.count += int64(n)
	switch {
	case err == io.EOF:
		b.ended = true
		if b.deadline != nil && !b.renewed.IsZero() {
			// net/http goes on reading, to notice a client that leaves: the deadline was for the body only.
			_ = b.deadline.SetReadDeadline(time.Time{})
		}
	case err != nil:
		b.broken = true
	}
	return n, err
}

// Close implements io.Closer.
func (b *bodyReader) Close() error { return b.rc.Close() }

// patientBytes is the size from which an answer is written under a deadline; less fits into the buffers of the connection.
const patientBytes = 64 << 10

// patient returns where to write an answer of length bytes, and what to call behind it.
func (q *request) patient(length int64) (io.Writer, func() error) {
	d, ok := q.w.(writeDeadliner)
	if length < patientBytes || q.s.bodyTimeout <= 0 || !ok {
		return q.w, func() error { return nil }
	}
	p := &patientWriter{w: q.w, deadline: d, patience: q.s.bodyTimeout}
	return p, p.done
}

// patientWriter writes a large answer and gives up on a client that takes nothing for a while.
type patientWriter struct {
	w        http.ResponseWriter
	deadline writeDeadliner
	patience time.Duration
	renewed  time.Time
}

// Write implements io.Writer.
func (p *patientWriter) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(p.renewed) >= renewEvery(p.patience) {
		if err := p.deadline.SetWriteDeadline(now.Add(p.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return 0, err
		}
		p.renewed = now
	}
	return p.w.Write(b)
}

// done flushes what is buffered under the last deadline and takes it away, so that it does not hit the next request of
// the connection.
func (p *patientWriter) done() error {
	err := http.NewResponseController(p.w).Flush()
	_ = p.deadline.SetWriteDeadline(time.Time{})
	return err
}
