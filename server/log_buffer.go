package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logBuffer collects lines, which a goroutine writes to out together: every second, when there are many, on Flush and on
// Close. Requests never wait for a log that cannot be written: out may be a pipe whose reader has stopped, or a file on
// a full drive. Lines for which the buffer has no space, and those of a failed write, are lost and counted; a line says
// so when out can be written again.
type logBuffer struct {
	out  io.Writer
	note slog.Handler // writes to out, for the goroutine
	max  int          // the size, in bytes, of the lines that wait or are being written
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	torn bool // out ends within a line; only the goroutine uses this

	mu       sync.Mutex // guards the fields below
	buf      []byte
	writing  int           // the size of the lines that are being written
	began    time.Time     // when the goroutine began to write; zero if it does not
	added    int64         // the size of all lines that were ever in buf
	handled  int64         // the size of those that were written or lost
	progress chan struct{} // closed when handled grows
	late     bool          // a Flush has given up, and the goroutine has not proceeded since
	closed   bool
	err      error // of the last write; nil if it succeeded
	lost     int64 // lines
	noted    int64 // the lost lines that the log mentions
	lostAt   time.Time
}

const (
	logBufferBytes = 64 << 10 // lines of this size are written at once
	logBufferMax   = 8 << 20
	logSpareMax    = 1 << 20 // the size of the largest buffer that is used again
	logFlushEvery  = time.Second
	logPatience    = time.Second      // how long a Flush waits
	logLastAttempt = 2 * time.Second  // how long Close waits
	logBlocked     = 10 * time.Second // the duration from which on a write is a problem
	logRecent      = time.Minute      // how long lost lines are one
)

// newLogBuffer returns a buffer that writes nothing until run is called. Its own lines have a level and a format.
func newLogBuffer(out io.Writer, level slog.Leveler, format LogFormat) *logBuffer {
	b := &logBuffer{
		out: out, max: logBufferMax, progress: make(chan struct{}),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	b.note = newHandler(direct{b}, level, format)
	return b
}

// run writes lines until Close is called.
func (b *logBuffer) run(every time.Duration) {
	defer close(b.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var spare []byte
	for stopping := false; !stopping; {
		select {
		case <-ticker.C:
		case <-b.wake:
		case <-b.stop:
			stopping = true
		}
		spare = b.proceed(spare)
	}
}

// proceed writes all lines of the buffer, and a note if some were lost before it. It returns memory for the next call.
func (b *logBuffer) proceed(spare []byte) []byte {
	b.mu.Lock()
	lines, lost, noted := b.buf, b.lost, b.noted
	b.buf, b.writing, b.began = spare[:0], len(lines), time.Now()
	b.mu.Unlock()
	n, err := direct{b}.Write(lines)
	if err == nil && lost > noted {
		if err = b.writeNote(lost-noted, lost); err == nil {
			noted = lost
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lose(int64(bytes.Count(lines[n:], []byte("\n"))))
	b.writing, b.began, b.late, b.err, b.noted = 0, time.Time{}, false, err, noted
	b.handled += int64(len(lines))
	close(b.progress)
	b.progress = make(chan struct{})
	if cap(lines) > logSpareMax {
		return nil
	}
	return lines
}

// lose counts lost lines. The caller holds b.mu.
func (b *logBuffer) lose(lines int64) {
	if lines > 0 {
		b.lost, b.lostAt = b.lost+lines, time.Now()
	}
}

// writeNote writes that lines were lost.
func (b *logBuffer) writeNote(lost, total int64) error {
	ctx := context.Background()
	if !b.note.Enabled(ctx, slog.LevelWarn) {
		return nil
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of this log were lost, because it could not be written", 0)
	r.AddAttrs(slog.Int64("lost", lost), slog.Int64("total", total))
	return b.note.Handle(ctx, r)
}

// direct writes to the output of a buffer. If a write has ended within a line, the next one begins a new line.
type direct struct{ *logBuffer }

// Write implements io.Writer.
func (d direct) Write(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if d.torn {
		if _, err := d.out.Write([]byte("\n")); err != nil {
			return 0, err
		}
	}
	n, err = d.out.Write(p)
	d.torn = n > 0 && p[n-1] != '\n'
	return n, err
}

// Write adds a line to the buffer. It never waits and never fails.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	switch {
	case b.closed:
	case len(b.buf)+b.writing+len(line) > b.max:
		b.lose(1)
	default:
		b.buf = append(b.buf, line...)
		b.added += int64(len(line))
	}
	full := len(b.buf) >= logBufferBytes
	b.mu.Unlock()
	if full {
		b.proceedSoon()
	}
	return len(line), nil
}

// proceedSoon makes the goroutine write what is in the buffer now.
func (b *logBuffer) proceedSoon() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Flush waits until the lines so far are written, or for a second if that takes longer. It does not wait while a write
// is known to take longer.
func (b *logBuffer) Flush() {
	b.proceedSoon()
	patience := time.After(logPatience)
	b.mu.Lock()
	defer b.mu.Unlock()
	for target := b.added; b.handled < target && !b.late && !b.closed; {
		progress := b.progress
		b.mu.Unlock()
		select {
		case <-progress:
			b.mu.Lock()
		case <-patience:
			b.mu.Lock()
			b.late = b.handled < target
		}
	}
}

// Close flushes the buffer, for at most two seconds. Later lines are discarded.
func (b *logBuffer) Close() {
	close(b.stop)
	select {
	case <-b.done:
	case <-time.After(logLastAttempt):
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Lost returns the number of lines that were lost.
func (b *logBuffer) Lost() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// Problem returns what is wrong with the log at present, or "".
func (b *logBuffer) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	problem := ""
	switch {
	case !b.began.IsZero() && time.Since(b.began) > logBlocked:
		problem = fmt.Sprintf("the log cannot be written: nothing has read it for %.0f s", time.Since(b.began).Seconds())
	case b.err != nil:
		problem = "the log cannot be written: " + b.err.Error()
	case b.lost > b.noted || !b.lostAt.IsZero() && time.Since(b.lostAt) < logRecent:
		problem = "the log could not be written fast enough"
	default:
		return ""
	}
	return problem + "; lines lost since the start: " + fmt.Sprint(b.lost)
}
