package server

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"orcas/admin"
)

const (
	logTailLines  = 1000 // lines that are kept
	logTailQueue  = 256  // lines that wait for a reader; further ones are dropped
	logTailMost   = 16   // readers
	logTailFields = 4096 // bytes of a text; longer ones are cut
)

// logTail keeps the last lines of the log, for people who look at it in the console. The access lines that package s3
// writes itself are not among them: the trace has those requests.
type logTail struct {
	mu      sync.Mutex // guards the fields below
	lines   []admin.LogLine
	next    int // the position of the oldest line, when there are logTailLines
	readers map[*logReader]struct{}
}

// logReader receives new lines.
type logReader struct {
	least   slog.Level
	lines   chan admin.LogLine
	dropped int64 // since the last line that was received; guarded by logTail.mu
}

// add adds a line.
func (t *logTail) add(l admin.LogLine, level slog.Level) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < logTailLines {
		t.lines = append(t.lines, l)
	} else {
		t.lines[t.next] = l
		t.next = (t.next + 1) % logTailLines
	}
	for r := range t.readers {
		if level < r.least {
			continue
		}
		l.Dropped = r.dropped
		select {
		case r.lines <- l:
			r.dropped = 0
		default:
			r.dropped++
		}
	}
}

// read returns the last n lines of a level and above, and a channel with the lines that follow. The caller calls stop when
// it has finished. There is no channel if there are too many readers.
func (t *logTail) read(least slog.Level, n int) (last []admin.LogLine, next <-chan admin.LogLine, stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.readers) >= logTailMost {
		return nil, nil, nil
	}
	for i := len(t.lines) - 1; i >= 0 && len(last) < n; i-- {
		l := t.lines[(t.next+i)%len(t.lines)]
		var level slog.Level
		if level.UnmarshalText([]byte(l.Level)) == nil && level >= least {
			last = append(last, l)
		}
	}
	slices.Reverse(last)
	r := &logReader{least: least, lines: make(chan admin.LogLine, logTailQueue)}
	if t.readers == nil {
		t.readers = map[*logReader]struct{}{}
	}
	t.readers[r] = struct{}{}
	return last, r.lines, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.readers, r)
	}
}

// tailed is a slog.Handler that also adds its records to a logTail.
type tailed struct {
	slog.Handler
	tail   *logTail
	fields []slog.Attr // of WithAttrs, with their prefixes
	prefix string      // of WithGroup
}

// Handle implements slog.Handler.
func (h tailed) Handle(ctx context.Context, r slog.Record) error {
	level := r.Level
	if level == levelNotice {
		level = slog.LevelInfo
	}
	l := admin.LogLine{Time: r.Time.UTC(), Level: level.String(), Message: cut(r.Message), Attributes: map[string]any{}}
	for _, a := range h.fields {
		l.Attributes[a.Key] = attribute(a.Value)
	}
	r.Attrs(func(a slog.Attr) bool {
		l.Attributes[h.prefix+a.Key] = attribute(a.Value)
		return true
	})
	h.tail.add(l, level)
	return h.Handler.Handle(ctx, r)
}

// attribute returns a value that can be encoded, and that does not refer to anything which may change.
func attribute(v slog.Value) any {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool:
		return v.Any()
	}
	return cut(v.String())
}

// cut returns a text of limited length.
func cut(s string) string {
	if len(s) > logTailFields {
		return s[:logTailFields] + "..."
	}
	return s
}

// WithAttrs implements slog.Handler.
func (h tailed) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := slices.Clip(h.fields)
	for _, a := range attrs {
		fields = append(fields, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
	}
	return tailed{h.Handler.WithAttrs(attrs), h.tail, fields, h.prefix}
}

// WithGroup implements slog.Handler.
func (h tailed) WithGroup(name string) slog.Handler {
	return tailed{h.Handler.WithGroup(name), h.tail, h.fields, h.prefix + name + "."}
}
