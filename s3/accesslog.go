package s3

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"orcas/gate"
)

// accessLog is the observer that writes a line for each request. A line does not contain the query, so it has no
// credentials. Server failures go through the logger, which may handle errors differently.
type accessLog struct {
	log   *slog.Logger
	out   io.Writer // receives the other lines; if nil, the logger receives them, too
	lines sync.Pool // of *[]byte
}

func newAccessLog(log *slog.Logger, out io.Writer) *accessLog {
	return &accessLog{log: log, out: out, lines: sync.Pool{New: func() any { return new([]byte) }}}
}

// AccessLog returns an observer that writes the access lines of other APIs, as Options.Logger and Options.AccessLog
// define for S3. out may be nil.
func AccessLog(log *slog.Logger, out io.Writer) gate.Observer { return newAccessLog(log, out) }

// Observe implements gate.Observer.
func (l *accessLog) Observe(ctx context.Context, e *gate.Event) {
	if e.Fault || l.out == nil {
		l.throughLogger(ctx, e)
		return
	}
	line := l.lines.Get().(*[]byte)
	*line = appendAccess((*line)[:0], e)
	_, _ = l.out.Write(*line) // the request is complete, so it must not fail if the log cannot be written
	l.lines.Put(line)
}

// appendAccess appends the line that slog.JSONHandler would write. It takes a quarter of the time, which matters
// because every request is logged.
func appendAccess(b []byte, e *gate.Event) []byte {
	b = append(b, `{"time":"`...)
	b = e.Start.Add(e.Took).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request"`...)
	b = appendField(b, "id", e.ID)
	b = appendField(b, "method", e.Method)
	b = appendField(b, "operation", e.Operation)
	b = appendField(b, "bucket", e.Bucket)
	b = appendField(b, "key", e.Key)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(e.Status), 10)
	b = strconv.AppendInt(append(b, `,"in":`...), e.In, 10)
	b = strconv.AppendInt(append(b, `,"out":`...), e.Out, 10)
	b = strconv.AppendInt(append(b, `,"took_us":`...), e.Took.Microseconds(), 10)
	b = appendField(b, "remote", e.Remote)
	b = appendField(b, "access_key", e.AccessKey)
	if e.Code != "" || e.Cause != nil {
		b = appendField(b, "code", e.Code)
	}
	if e.Cause != nil {
		b = appendField(b, "error", e.Cause.Error())
	}
	return append(b, "}\n"...)
}

// appendField appends a name and a string value as JSON.
func appendField(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(value) // it never fails for a string
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), value...), '"')
}

// throughLogger writes the line through the logger.
func (l *accessLog) throughLogger(ctx context.Context, e *gate.Event) {
	level := slog.LevelInfo
	if e.Fault {
		level = slog.LevelError
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	attrs := [...]slog.Attr{
		slog.String("id", e.ID),
		slog.String("method", e.Method),
		slog.String("operation", e.Operation),
		slog.String("bucket", e.Bucket),
		slog.String("key", e.Key),
		slog.Int("status", e.Status),
		slog.Int64("in", e.In),
		slog.Int64("out", e.Out),
		slog.Int64("took_us", e.Took.Microseconds()),
		slog.String("remote", e.Remote),
		slog.String("access_key", e.AccessKey),
		slog.String("code", e.Code),
		slog.Any("error", e.Cause),
	}
	n := len(attrs)
	if e.Cause == nil {
		n--
		if e.Code == "" {
			n--
		}
	}
	l.log.LogAttrs(ctx, level, "request", attrs[:n]...)
}
