package s3

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"time"
)

// logAccess writes the line of this request. It holds no query, so no credentials. What is the server's fault goes through the logger,
// which may treat errors in a way of its own.
func (q *request) logAccess() {
	if q.faulty || q.s.accessLog == nil {
		q.logSlow()
		return
	}
	line := q.s.document()
	defer q.s.release(line)
	line.b = q.appendAccess(line.b[:0], q.s.now())
	_, _ = q.s.accessLog.Write(line.b) // a log that cannot be written must not fail a request that is done
}

// operation names the operation, "" where none was found.
func (q *request) operation() string {
	if q.route == nil {
		return ""
	}
	return q.route.name
}

// appendAccess renders the line in the form that slog.JSONHandler gives it, in a quarter of the time: there is one for each request.
func (q *request) appendAccess(b []byte, now time.Time) []byte {
	b = append(b, `{"time":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request"`...)
	b = appendField(b, "id", q.id)
	b = appendField(b, "method", q.r.Method)
	b = appendField(b, "operation", q.operation())
	b = appendField(b, "bucket", q.bucketName)
	b = appendField(b, "key", q.key)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(q.status), 10)
	b = strconv.AppendInt(append(b, `,"in":`...), q.body.count, 10)
	b = strconv.AppendInt(append(b, `,"out":`...), q.out, 10)
	b = strconv.AppendInt(append(b, `,"took_us":`...), now.Sub(q.start).Microseconds(), 10)
	b = appendField(b, "remote", q.r.RemoteAddr)
	b = appendField(b, "access_key", q.caller.accessKey)
	if q.code != "" || q.cause != nil {
		b = appendField(b, "code", q.code)
	}
	if q.cause != nil {
		b = appendField(b, "error", q.cause.Error())
	}
	return append(b, "}\n"...)
}

// appendField appends a name and a string as JSON has them.
func appendField(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(value) // no string fails
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), value...), '"')
}

// logSlow writes the line through the logger.
func (q *request) logSlow() {
	level := slog.LevelInfo
	if q.faulty {
		level = slog.LevelError
	}
	if !q.s.log.Enabled(q.ctx, level) {
		return
	}
	attrs := [...]slog.Attr{
		slog.String("id", q.id),
		slog.String("method", q.r.Method),
		slog.String("operation", q.operation()),
		slog.String("bucket", q.bucketName),
		slog.String("key", q.key),
		slog.Int("status", q.status),
		slog.Int64("in", q.body.count),
		slog.Int64("out", q.out),
		slog.Int64("took_us", q.s.now().Sub(q.start).Microseconds()),
		slog.String("remote", q.r.RemoteAddr),
		slog.String("access_key", q.caller.accessKey),
		slog.String("code", q.code),
		slog.Any("error", q.cause),
	}
	n := len(attrs)
	if q.cause == nil {
		n--
		if q.code == "" {
			n--
		}
	}
	q.s.log.LogAttrs(q.ctx, level, "request", attrs[:n]...)
}
