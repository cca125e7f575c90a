package server

import (
	"context"
	"io"
	"log/slog"
	"time"

	"orcas/internal/bytesize"
	"orcas/s3"
)

// LogMode determines how much a server logs.
type LogMode string

// The modes. Each also logs what the previous ones log, except that LogRequests has no summary.
const (
	LogOff      LogMode = "off"
	LogErrors   LogMode = "errors"   // warnings and errors
	LogSummary  LogMode = "summary"  // shutdowns, and one line per minute that summarizes the requests
	LogRequests LogMode = "requests" // each request, and other activity of the server
)

// LogFormat is the format of a log.
type LogFormat string

// The log formats: text for people, JSON for programs.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// levelNotice is the level of lines that LogSummary adds, between Info and Warn.
const levelNotice = slog.LevelInfo + 2

// level returns the lowest level that is logged.
func (m LogMode) level() slog.Level {
	switch m {
	case LogOff:
		return slog.LevelError + 100
	case LogErrors:
		return slog.LevelWarn
	case LogSummary:
		return levelNotice
	default:
		return slog.LevelInfo
	}
}

// urgent is a slog.Handler that flushes after a notice, a warning or an error.
type urgent struct {
	slog.Handler
	buffer *logBuffer
}

// Handle writes the record.
func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	flush := r.Level >= levelNotice
	if r.Level == levelNotice {
		r.Level = slog.LevelInfo
	}
	err := u.Handler.Handle(ctx, r)
	if flush {
		u.buffer.Flush()
	}
	return err
}

// WithAttrs returns a handler that flushes in the same cases.
func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.buffer}
}

// WithGroup returns a handler that flushes in the same cases.
func (u urgent) WithGroup(name string) slog.Handler {
	return urgent{u.Handler.WithGroup(name), u.buffer}
}

// newLogger returns a logger that writes lines of a level and above to b.
func newLogger(b *logBuffer, level slog.Leveler, format LogFormat) *slog.Logger {
	return slog.New(urgent{newHandler(b, level, format), b})
}

// newHandler returns a handler that writes lines of a level and above to out.
func newHandler(out io.Writer, level slog.Leveler, format LogFormat) slog.Handler {
	if format == LogText {
		return newTextHandler(out, level)
	}
	return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})
}

// logging returns the mode and the format of the log: from the settings, or by default for the destination of the log.
func (c *Config) logging() (LogMode, LogFormat) {
	mode, format := c.Settings.Log, c.Settings.LogFormat
	if mode == "" {
		mode = LogRequests
		if c.Terminal {
			mode = LogSummary
		}
	}
	if format == "" {
		format = LogJSON
		if c.Terminal {
			format = LogText
		}
	}
	return mode, format
}

// summaryEvery is the interval between two summaries of the requests.
const summaryEvery = time.Minute

// summarize logs a summary of the requests at regular intervals, and one more when ctx ends. It logs nothing for an
// interval without requests.
func summarize(ctx context.Context, log *slog.Logger, tally *s3.Tally, every time.Duration, format LogFormat) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	since := time.Now()
	for ended := false; !ended; since = time.Now() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		if c := tally.Take(); c.Requests > 0 {
			log.LogAttrs(context.Background(), levelNotice, "requests", summaryOf(c, time.Since(since), format)...)
		}
	}
}

// summaryOf returns the fields of a summary: with units in text, without in JSON.
func summaryOf(c *s3.Counts, took time.Duration, format LogFormat) []slog.Attr {
	half, most := c.Quantile(0.5), c.Quantile(0.99)
	if format == LogText {
		return []slog.Attr{
			slog.Int64("requests", c.Requests), slog.Int64("refused", c.ClientErrors), slog.Int64("failed", c.ServerErrors),
			slog.String("in", bytesize.Round(c.In)), slog.String("out", bytesize.Round(c.Out)),
			slog.Duration("p50", half), slog.Duration("p99", most), slog.Duration("over", took.Round(time.Second)),
		}
	}
	return []slog.Attr{
		slog.Int64("requests", c.Requests), slog.Int64("client_errors", c.ClientErrors), slog.Int64("server_errors", c.ServerErrors),
		slog.Int64("in", c.In), slog.Int64("out", c.Out),
		slog.Int64("p50_us", half.Microseconds()), slog.Int64("p99_us", most.Microseconds()), slog.Float64("seconds", took.Seconds()),
	}
}
