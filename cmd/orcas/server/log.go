package server

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logBuffer takes many lines to their writer at once: each second, when it is full, on Flush and on Close.
type logBuffer struct {
	mu   sync.Mutex // guards buf and the use of out
	buf  []byte
	out  io.Writer
	stop chan struct{}
	done chan struct{}
}

const (
	logBufferBytes = 64 << 10
	logFlushEvery  = time.Second
)

func newLogBuffer(out io.Writer) *logBuffer {
	b := &logBuffer{out: out, stop: make(chan struct{}), done: make(chan struct{})}
	go b.flushEach(logFlushEvery)
	return b
}

func (b *logBuffer) flushEach(d time.Duration) {
	defer close(b.done)
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.Flush()
		case <-b.stop:
			b.Flush()
			return
		}
	}
}

// Write takes a line. It never fails.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if len(b.buf) >= logBufferBytes {
		b.flush()
	}
	return len(p), nil
}

// Flush takes everything to the writer below.
func (b *logBuffer) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}

// flush drops what the writer below refuses: a log that cannot be written must not stop the server.
func (b *logBuffer) flush() {
	if len(b.buf) > 0 {
		_, _ = b.out.Write(b.buf)
		b.buf = b.buf[:0]
	}
}

// Close flushes, and ends the flushing of each second. Lines that come later wait for a Flush.
func (b *logBuffer) Close() {
	close(b.stop)
	<-b.done
}

// urgent is a slog.Handler that flushes after a warning or an error.
type urgent struct {
	slog.Handler
	buffer *logBuffer
}

// Handle writes the record.
func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	err := u.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		u.buffer.Flush()
	}
	return err
}

// WithAttrs keeps the handler urgent.
func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.buffer}
}

// WithGroup keeps the handler urgent.
func (u urgent) WithGroup(name string) slog.Handler {
	return urgent{u.Handler.WithGroup(name), u.buffer}
}

// newLogger writes JSON lines into b.
func newLogger(b *logBuffer) *slog.Logger {
	return slog.New(urgent{slog.NewJSONHandler(b, nil), b})
}
