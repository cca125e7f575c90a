package server

import (
	"context"
	"log/slog"
	"time"

	"orcas/internal/live"
)

// requestLines passes access lines that package s3 writes itself to the log, unless the level was changed since the
// start.
type requestLines struct{ s *Server }

// Write implements io.Writer.
func (l requestLines) Write(line []byte) (int, error) {
	if l.s.live.Level() > slog.LevelInfo {
		return len(line), nil
	}
	return l.s.logBuffer.Write(line)
}

// logLevel returns the name of the level of the log.
func (s *Server) logLevel() string {
	level := s.live.Level()
	for _, m := range []LogMode{LogRequests, LogSummary, LogErrors} {
		if level <= m.level() {
			return string(m)
		}
	}
	return string(LogOff)
}

// setLogLevel changes the level of the log, until the server stops.
func (s *Server) setLogLevel(name string) error {
	var mode LogMode
	if err := parseWord(&mode, name, LogOff, LogErrors, LogSummary, LogRequests); err != nil {
		return err
	}
	before := s.logLevel()
	s.live.Update(func(v *live.Settings) { v.LogLevel = min(v.LogLevel, levelNotice) })
	s.log.Log(context.Background(), levelNotice, "the log level changes", "from", before, "to", name)
	s.live.Update(func(v *live.Settings) { v.LogLevel = mode.level() })
	return nil
}

// summarizeRequests logs a summary of the requests at regular intervals while the level of the log is LogSummary. The
// requests of other times are not in it.
func (s *Server) summarizeRequests(ctx context.Context) {
	_, format := s.config.logging()
	log := slog.New(only{s.log.Handler(), s.live})
	summarize(ctx, log, &s.tally, summaryEvery, format)
}

// only is a handler that is enabled while the level of the log is that of summaries.
type only struct {
	slog.Handler
	live *live.Value
}

// Enabled implements slog.Handler.
func (o only) Enabled(context.Context, slog.Level) bool { return o.live.Level() == levelNotice }

// streamPatience is the time that traces have to end when the server stops.
const streamPatience = 2 * time.Second
