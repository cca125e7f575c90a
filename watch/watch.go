// Package watch shows operators the requests of a running server: each request when it ends (Trace), and rates and
// latencies (Meter). A Hub is the observer of all APIs. While nobody watches, a request costs one atomic load.
//
// Requests never wait for a watcher. Each trace has a queue of bounded length; when the queue is full, requests are
// counted instead of shown. The queue holds copies of bounded length, so it does not keep the memory of requests alive.
package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"orcas/gate"
)

const (
	maxWatchers = 16
	queueLength = 512 // events per trace, of 4 KiB at most
)

// ErrTooMany is returned if the maximum number of watchers is reached.
var ErrTooMany = errors.New("too many traces and tops are running")

// ErrClosed is returned when the server stops.
var ErrClosed = errors.New("the server is stopping")

// Hub passes requests that have ended to all who watch. The zero value is ready to use.
type Hub struct {
	watchers atomic.Pointer[[]watcher] // nil while nobody watches; replaced, never modified

	mu     sync.Mutex // guards the fields below, and changes of watchers
	closed chan struct{}
	ended  bool
	active sync.WaitGroup
}

// watcher is a Trace or a Meter.
type watcher interface {
	observe(api string, e *gate.Event)
}

// For returns the observer for the requests of an API, whose name is in the events.
func (h *Hub) For(api string) gate.Observer { return observer{h, api} }

type observer struct {
	hub *Hub
	api string
}

// Observe implements gate.Observer.
func (o observer) Observe(_ context.Context, e *gate.Event) {
	list := o.hub.watchers.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		w.observe(o.api, e)
	}
}

// add adds a watcher.
func (h *Hub) add(w watcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []watcher
	if old := h.watchers.Load(); old != nil {
		list = slices.Clone(*old)
	}
	switch {
	case h.ended:
		return ErrClosed
	case len(list) >= maxWatchers:
		return ErrTooMany
	}
	list = append(list, w)
	h.watchers.Store(&list)
	h.active.Add(1)
	return nil
}

// remove removes a watcher.
func (h *Hub) remove(w watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.watchers.Load()
	if old == nil || !slices.Contains(*old, w) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(other watcher) bool { return other == w })
	if len(list) == 0 {
		h.watchers.Store(nil)
	} else {
		h.watchers.Store(&list)
	}
	h.active.Done()
}

// Done is closed when the server stops.
func (h *Hub) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done()
}

// done returns the channel of Done. The caller holds h.mu.
func (h *Hub) done() chan struct{} {
	if h.closed == nil {
		h.closed = make(chan struct{})
	}
	return h.closed
}

// Close tells all who watch that the server stops, and waits until they have ended, but not longer than patience.
func (h *Hub) Close(patience time.Duration) {
	h.mu.Lock()
	if !h.ended {
		h.ended = true
		close(h.done())
	}
	h.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		h.active.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(patience):
	}
}

// Event is a request that has ended, as a line of a trace. Texts are cut; see Cut. Fields that do not apply are absent.
type Event struct {
	Time      time.Time `json:"time"` // of the end
	ID        string    `json:"id"`
	API       string    `json:"api"`
	Method    string    `json:"method"`
	Operation string    `json:"operation,omitempty"`
	Bucket    string    `json:"bucket,omitempty"`
	Key       string    `json:"key,omitempty"`
	Version   string    `json:"version,omitempty"`
	Target    string    `json:"target,omitempty"`
	Status    int       `json:"status"` // 0 if no response was sent
	Code      string    `json:"code,omitempty"`
	Reason    string    `json:"reason,omitempty"` // why a rule of the server refused the request; see gate.Reason
	In        int64     `json:"in"`               // bytes of the bodies
	Out       int64     `json:"out"`
	FirstByte int64     `json:"first_byte_us"` // microseconds
	Took      int64     `json:"took_us"`
	Address   string    `json:"address"`
	Principal string    `json:"principal,omitempty"`
	AccessKey string    `json:"access_key,omitempty"`
	UserAgent string    `json:"user_agent,omitempty"`
	Cut       bool      `json:"cut,omitempty"` // a text was too long, and ends with "..."
}

// Filter selects requests. The zero value selects all.
type Filter struct {
	Operation string        // without regard to case
	Bucket    string        // the whole name
	Key       string        // the beginning of the key
	Status    string        // a status, or a class such as 4xx
	Least     time.Duration // the shortest duration
	Errors    bool          // only requests with a status of 400 or more, or without a response
}

// Check returns an error if the filter cannot select anything.
func (f *Filter) Check() error {
	s := f.Status
	switch {
	case f.Least < 0:
		return errors.New("the duration must not be negative")
	case s == "":
		return nil
	case len(s) != 3 || s[0] < '0' || s[0] > '5':
	case s[1:] == "xx", s == "000":
		return nil
	case strings.Trim(s, "0123456789") == "" && s[0] != '0':
		return nil
	}
	return errors.New("expected a status such as 404, or a class such as 4xx; 000 means that no response was sent")
}

// selects reports whether the filter selects a request.
func (f *Filter) selects(e *gate.Event) bool {
	return (f.Operation == "" || strings.EqualFold(f.Operation, e.Operation)) &&
		(f.Bucket == "" || f.Bucket == e.Bucket) &&
		strings.HasPrefix(e.Key, f.Key) &&
		e.Took >= f.Least &&
		(!f.Errors || failed(e.Status)) &&
		(f.Status == "" || f.hasStatus(e.Status))
}

func (f *Filter) hasStatus(status int) bool {
	if f.Status[1:] == "xx" {
		return status/100 == int(f.Status[0]-'0')
	}
	return status == int(f.Status[0]-'0')*100+int(f.Status[1]-'0')*10+int(f.Status[2]-'0')
}

// failed reports whether a request counts as an error.
func failed(status int) bool { return status >= 400 || status == 0 }

// Trace receives the requests that a filter selects.
type Trace struct {
	hub     *Hub
	filter  Filter
	events  chan *Event
	dropped atomic.Int64
}

// Trace begins a trace, which the caller closes.
func (h *Hub) Trace(f Filter) (*Trace, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	t := &Trace{hub: h, filter: f, events: make(chan *Event, queueLength)}
	return t, h.add(t)
}

// Events returns the channel with the requests.
func (t *Trace) Events() <-chan *Event { return t.events }

// Dropped returns the number of requests for which there was no space in the queue.
func (t *Trace) Dropped() int64 { return t.dropped.Load() }

// Close ends the trace. It may be called more than once.
func (t *Trace) Close() { t.hub.remove(t) }

func (t *Trace) observe(api string, e *gate.Event) {
	switch {
	case !t.filter.selects(e):
	case len(t.events) == cap(t.events):
		t.dropped.Add(1)
	default:
		select {
		case t.events <- eventOf(api, e):
		default:
			t.dropped.Add(1)
		}
	}
}

// The maximum lengths of texts that clients choose, in bytes. A valid key has at most 1024 bytes.
const (
	maxKey  = 1024
	maxText = 256
)

// eventOf returns a copy of an event that shares no memory with the request.
func eventOf(api string, e *gate.Event) *Event {
	c := &Event{
		Time: e.Start.Add(e.Took).UTC(), API: api, Status: e.Status, Reason: string(e.Reason), In: e.In, Out: e.Out,
		FirstByte: e.FirstByte.Microseconds(), Took: e.Took.Microseconds(),
	}
	c.ID, c.Method, c.Operation = c.copied(e.ID, maxText), c.copied(e.Method, maxText), c.copied(e.Operation, maxText)
	c.Bucket, c.Key, c.Version = c.copied(e.Bucket, maxText), c.copied(e.Key, maxKey), c.copied(e.Version, maxText)
	c.Target, c.Code, c.Address = c.copied(e.Target, maxText), c.copied(e.Code, maxText), c.copied(e.Remote, maxText)
	c.AccessKey, c.UserAgent = c.copied(e.AccessKey, maxText), c.copied(e.UserAgent, maxText)
	if e.Principal != nil {
		c.Principal = c.copied(e.Principal.ARN, maxText)
	}
	return c
}

// copied returns a copy of a text with at most limit bytes.
func (c *Event) copied(s string, limit int) string {
	if len(s) <= limit {
		return strings.Clone(s)
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	c.Cut = true
	return s[:limit] + "..."
}
