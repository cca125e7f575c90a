package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/core"
	"orcas/lifecycle"
	"orcas/watch"
)

// Tools show and change what a running server does. All fields except Recheck are required.
type Tools struct {
	Watch       *watch.Hub
	Operations  []string // the names of the operations of all APIs
	Status      func(*http.Request) (*Status, error)
	LogLevel    func() string        // off, errors, summary or requests
	SetLogLevel func(string) error   // returns an error for an unknown level
	FlushCache  func() (freed int64) // drops the caches; returns about how many bytes that freed
	Load        func() Load          // what the server is doing at this moment
	History     func() *History      // what requests did recently
	LogTail     LogTail
	Usage       func(bucket string) *Usage // of a bucket, or of all if it is ""

	ParseLifecycle func(document []byte) (*lifecycle.Config, error)
	FormatVersion  func(core.Version) string // the ID of a version for clients

	LoginLink LoginLinks    // makes links to the console; nil without a console
	Recheck   time.Duration // the interval at which live responses are authorized again; default 15 s
}

// TraceLine is a line of the response to GET /-/admin/trace: a request or, from time to time and at the end, the number
// of requests that were left out because the client did not read fast enough.
type TraceLine struct {
	*watch.Event
	Dropped int64  `json:"dropped,omitempty"`
	End     string `json:"end,omitempty"` // why the trace has ended; in the last line
}

// Load is what a server is doing at one moment.
type Load struct {
	InFlight    int64 `json:"requests_in_flight"`
	Connections int   `json:"connections"`
	Queue       int   `json:"write_queue"` // writes that wait for a batch
}

// TopLine is a line of the response to GET /-/admin/top.
type TopLine struct {
	*watch.Rates
	*Load
	Time *time.Time `json:"time,omitempty"`
	End  string     `json:"end,omitempty"` // why it has ended; in the last line
}

// trace lists requests as they end.
func (s *Store) trace(r *http.Request) (any, error) {
	q := r.URL.Query()
	f := watch.Filter{Operation: q.Get("operation"), Bucket: q.Get("bucket"), Key: q.Get("key"), Status: q.Get("status")}
	var err error
	if f.Errors, err = flag(r, "errors"); err != nil {
		return nil, err
	}
	if f.Least, err = durationOf(q, "min-duration", 0); err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, invalid("admin.trace", "%w", err)
	}
	named := func(name string) bool { return strings.EqualFold(name, f.Operation) }
	if f.Operation != "" && !slices.ContainsFunc(s.Tools.Operations, named) {
		return nil, invalid("admin.trace", "there is no operation %q: expected a name such as PutObject or CreateUser", f.Operation)
	}
	t, err := s.Tools.Watch.Trace(f)
	if err != nil {
		return nil, watchError(err)
	}
	return live(func(to *lines) {
		defer t.Close()
		end := follow(s, r, to, func() error { return to.emit(TraceLine{Dropped: t.Dropped()}) }, t.Events(), func(e *watch.Event) error {
			return to.emit(TraceLine{Event: e})
		})
		_ = to.emit(TraceLine{Dropped: t.Dropped(), End: end}) // an error means that the client has disconnected
		_ = to.flush()
	}), nil
}

// top measures requests, and sends the result at regular intervals.
func (s *Store) top(r *http.Request) (any, error) {
	every, err := durationOf(r.URL.Query(), "interval", 2*time.Second)
	if err == nil && (every < 100*time.Millisecond || every > time.Hour) {
		err = invalid("admin.top", "interval must be from 100ms to 1h, not %s", every)
	}
	if err != nil {
		return nil, err
	}
	m, err := s.Tools.Watch.Meter()
	if err != nil {
		return nil, watchError(err)
	}
	return live(func(to *lines) {
		defer m.Close()
		tick := time.NewTicker(every)
		defer tick.Stop()
		end := follow(s, r, to, to.flush, tick.C, func(now time.Time) error {
			load := s.Tools.Load()
			return to.emit(TopLine{Rates: m.Take(), Load: &load, Time: &now})
		})
		_ = to.emit(TopLine{End: end}) // an error means that the client has disconnected
		_ = to.flush()
	}), nil
}

// follow calls show for each event until the client disconnects, the server stops, or the rights of the caller end. It
// returns the reason. At regular intervals it calls alive, so that a client that is gone is noticed.
func follow[E any](s *Store, r *http.Request, to *lines, alive func() error, events <-chan E, show func(E) error) string {
	check := time.NewTicker(cmp.Or(s.Tools.Recheck, stillEvery))
	defer check.Stop()
	err := to.flush() // the header
	for err == nil {
		select {
		case <-r.Context().Done():
			return "the client has disconnected"
		case <-s.Tools.Watch.Done():
			return watch.ErrClosed.Error()
		case <-check.C:
			if err := stillAllowed(r); err != nil {
				return "the permission has ended: " + text(err)
			}
			if err = alive(); err == nil {
				err = to.flush()
			}
		case e := <-events:
			if err = show(e); err == nil && len(events) == 0 {
				err = to.flush()
			}
		}
	}
	return "the client has disconnected"
}

// watchError returns the error for a watcher that was not admitted.
func watchError(err error) error {
	if errors.Is(err, watch.ErrTooMany) {
		return core.E("admin.watch", core.Overloaded, err)
	}
	return core.E("admin.watch", core.Unavailable, err)
}

// durationOf parses a parameter that is a duration, such as 10ms.
func durationOf(q url.Values, name string, def time.Duration) (time.Duration, error) {
	v := q.Get(name)
	if v == "" {
		return def, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, invalid("admin", "%s must be a duration such as 100ms, not %q", name, v)
	}
	return d, nil
}

// LogLevel is the response to GET and POST /-/admin/log.
type LogLevel struct {
	Level string `json:"level"`
}

func (s *Store) logLevel(*http.Request) (any, error) { return LogLevel{s.Tools.LogLevel()}, nil }

// setLogLevel changes what is logged, until the server stops.
func (s *Store) setLogLevel(r *http.Request) (any, error) {
	if err := s.Tools.SetLogLevel(r.URL.Query().Get("level")); err != nil {
		return nil, invalid("admin.log", "level: %w", err)
	}
	return s.logLevel(r)
}

// Flushed is the response to POST /-/admin/cache/flush.
type Flushed struct {
	Freed int64 `json:"bytes_freed"` // of the memory of the process, approximately
}

// flushCache drops the caches of the metadata.
func (s *Store) flushCache(*http.Request) (any, error) { return Flushed{s.Tools.FlushCache()}, nil }

func (s *Store) status(r *http.Request) (any, error) { return s.Tools.Status(r) }

// seconds returns a parameter that is a number of seconds.
func seconds(q url.Values, def, most int) (time.Duration, error) {
	v := q.Get("seconds")
	if v == "" {
		return time.Duration(def) * time.Second, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return 0, invalid("admin.profile", "seconds must be a number from 1 to %d, not %q", most, v)
	}
	return time.Duration(n) * time.Second, nil
}

// unknownProfile returns the error for a profile that does not exist.
func unknownProfile(name string) error {
	return &refusal{http.StatusNotFound, fmt.Errorf("there is no profile %q: expected cpu, or one of %s", name, profileNames())}
}
