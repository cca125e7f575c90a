package admin

import (
	"net/http"
	"time"
)

// History is what the requests to S3 did recently, in intervals of equal length, the oldest first.
type History struct {
	Interval float64        `json:"interval_seconds"`
	Points   []HistoryPoint `json:"points"`
}

// HistoryPoint is an interval of a History.
type HistoryPoint struct {
	Time     time.Time `json:"time"`     // its end
	Requests uint64    `json:"requests"` // that have ended
	Errors   uint64    `json:"errors"`   // with a status of 400 or more, or without a response
	In       int64     `json:"bytes_in"` // of the bodies
	Out      int64     `json:"bytes_out"`
	Half     float64   `json:"p50_seconds"` // upper bound; 0 without requests
	Most     float64   `json:"p99_seconds"` // upper bound; 0 without requests
}

// history returns the traffic of the last hour.
func (s *Store) history(*http.Request) (any, error) { return s.Tools.History(), nil }
