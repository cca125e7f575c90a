package admin

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"orcas/core"
)

// LogLine is a line of the response to GET /-/admin/log/stream: a line of the log, or the end of the response.
type LogLine struct {
	Time       time.Time      `json:"time,omitzero"`
	Level      string         `json:"level,omitempty"` // DEBUG, INFO, WARN or ERROR
	Message    string         `json:"message,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Dropped    int64          `json:"dropped_before,omitempty"` // lines that were left out before, because the client was too slow
	End        string         `json:"end,omitempty"`            // why the response has ended; in the last line
}

// LogTail returns the last n lines of the log that have a level or a higher one, and a channel with the lines that
// follow, until stop is called. The channel is nil if there are too many readers.
type LogTail func(least slog.Level, n int) (last []LogLine, next <-chan LogLine, stop func())

const maxLogLines = 1000

// readLog sends the last lines of the log, and then new ones.
func (s *Store) readLog(r *http.Request) (any, error) {
	const op = "admin.log"
	q, n, least := r.URL.Query(), 100, slog.LevelDebug
	if v := q.Get("level"); v != "" && least.UnmarshalText([]byte(v)) != nil {
		return nil, invalid(op, "level must be debug, info, warn or error, not %q", v)
	}
	if v := q.Get("lines"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 0 || n > maxLogLines {
			return nil, invalid(op, "lines must be a number from 0 to %d, not %q", maxLogLines, v)
		}
	}
	last, next, stop := s.Tools.LogTail(least, n)
	if next == nil {
		return nil, core.E(op, core.Overloaded, errTooManyReaders)
	}
	return live(func(to *lines) {
		defer stop()
		for _, l := range last {
			if to.emit(l) != nil {
				return
			}
		}
		end := follow(s, r, to, to.flush, next, func(l LogLine) error { return to.emit(l) })
		_ = to.emit(LogLine{End: end}) // an error means that the client has disconnected
		_ = to.flush()
	}), nil
}
