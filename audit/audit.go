// Package audit records every request that changes data or settings, and every attempt: who, what, from where, and with
// which outcome. A record is a line of JSON (see Record). It goes to a file with rotation (file.go), to a webhook
// (webhook.go), or to both.
//
// Requests never wait for the log. Each sink has a queue of bounded size, and a goroutine that empties it. A sink that
// fails retries; when its queue is full, further records are dropped, counted, and reported in the server's log at most
// once a minute. Nothing is synced: a power cut can lose the last records, and a crash of the process those that are
// still queued.
package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"orcas/gate"
)

// Options configure a Log. File, URL or both must be set.
type Options struct {
	File     string // the file that records are appended to; "" for none
	FileSize int64  // the size, in bytes, at which the file is rotated; default 100 MiB
	Keep     int    // the number of rotated files that are kept, as File.1 (the newest), File.2 and so on; default 10

	URL   string                 // receives batches of records by POST; "" for none
	Token func() (string, error) // returns the bearer token for URL; called for each batch; nil for none

	Logger *slog.Logger
	Now    func() time.Time // default time.Now
}

// The sizes of queues, in bytes, and the default limits of the file.
const (
	queueBytes      = 8 << 20
	defaultFileSize = 100 << 20
	defaultKeep     = 10
)

// The pauses after a failure, and the interval of messages about failures.
const (
	retryMin      = time.Second
	retryMax      = 15 * time.Second
	complainEvery = time.Minute
)

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	sinks []*sink
	lines sync.Pool // of *[]byte
	now   func() time.Time
	end   context.CancelFunc
	done  sync.WaitGroup
}

// New opens an audit log. It returns an error if the file cannot be opened.
func New(o Options) (*Log, error) {
	o.FileSize, o.Keep = cmp.Or(o.FileSize, defaultFileSize), cmp.Or(o.Keep, defaultKeep)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.File == "" && o.URL == "" {
		return nil, errors.New("audit.New: expected a file or a URL")
	}
	l := &Log{now: o.Now, lines: sync.Pool{New: func() any { return new([]byte) }}}
	if o.File != "" {
		f, err := openFile(o)
		if err != nil {
			return nil, err
		}
		l.sinks = append(l.sinks, newSink("file", o.File, f, o))
	}
	if o.URL != "" {
		l.sinks = append(l.sinks, newSink("webhook", redacted(o.URL), newWebhook(o), o))
	}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	for _, s := range l.sinks {
		l.done.Go(func() { s.run(ctx) })
	}
	return l, nil
}

// startup is the API in the records of changes that the server makes when it starts. They have no request, so they have
// neither a method nor a client, a status or a body.
const startup = "startup"

// RecordStart records changes that the server makes when it starts, because its settings ask for them. The event has the
// operation, the principal, the start, and what was changed. RecordStart may be called on a nil Log.
func (l *Log) RecordStart(ctx context.Context, e *gate.Event) {
	if l == nil {
		return
	}
	e.ID, e.Effect, e.Took = rand.Text(), gate.Settings, l.now().Sub(e.Start)
	l.For(startup).Observe(ctx, e)
}

// For returns the observer for the requests of an API, whose name is in the records.
func (l *Log) For(api string) gate.Observer { return observer{l, api} }

// observer records the requests of an API.
type observer struct {
	log *Log
	api string
}

// Observe implements gate.Observer.
func (o observer) Observe(_ context.Context, e *gate.Event) {
	if !e.Changes() || wasTurnedAway(e) {
		return
	}
	o.log.record(o.api, e)
	if len(e.Items) == 0 {
		return
	}
	one := *e
	for _, i := range e.Items {
		one.Bucket, one.Key, one.Version, one.Target = cmp.Or(i.Bucket, e.Bucket), i.Key, i.Version, i.Target
		one.Code, one.Reason = i.Code, gate.ReasonOf(i.Code)
		o.log.record(o.api, &one)
	}
}

// wasTurnedAway reports whether a request was refused because of a limit or the load before it was known what it asks
// for. Otherwise a flood of such requests, for which no credentials are needed, would replace the records of others.
func wasTurnedAway(e *gate.Event) bool {
	return e.Effect == 0 && (e.Status == http.StatusServiceUnavailable || e.Status == http.StatusTooManyRequests)
}

// record adds a record to the queue of each sink.
func (l *Log) record(api string, e *gate.Event) {
	line := l.lines.Get().(*[]byte)
	*line = appendRecord((*line)[:0], api, e)
	for _, s := range l.sinks {
		s.queue.push(*line)
	}
	l.lines.Put(line)
}

// Dropped calls emit with the name of each sink, and the number of records that it has dropped.
func (l *Log) Dropped(emit func(sink string, records int64)) {
	if l == nil {
		return
	}
	for _, s := range l.sinks {
		emit(s.name, s.queue.dropped.Load())
	}
}

// Failure is what is wrong with a sink.
type Failure struct {
	Sink    string // file or webhook
	Problem string // with the target of the sink, and the error
}

// Failures returns what is wrong with the sinks at present.
func (l *Log) Failures() (list []Failure) {
	if l == nil {
		return nil
	}
	for _, s := range l.sinks {
		if err, _ := s.failing.Load().(failure); err.error != nil {
			list = append(list, Failure{s.name, "the audit " + s.name + " " + s.target + " cannot be written: " + err.Error()})
		}
	}
	return list
}

// Close writes the queued records, for which each sink has one attempt, and closes the file. Requests that end later
// are not recorded. Close may be called on a nil Log.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.end()
	l.done.Wait()
}

// target is where a sink writes.
type target interface {
	// write writes complete records and returns the bytes of those that need not be written again.
	write(ctx context.Context, records []byte) (written int, err error)
	close()
}

// failure is the state of a sink; its error is nil while the sink works.
type failure struct{ error }

// sink is a destination of records with its queue.
type sink struct {
	name, target string
	to           target
	queue        *queue
	log          *slog.Logger
	now          func() time.Time
	failing      atomic.Value // failure

	reported   time.Time // when the log last had a message
	complained int64     // the number of dropped records in it
}

func newSink(name, target string, to target, o Options) *sink {
	return &sink{
		name: name, target: target, to: to, queue: newQueue(queueBytes), log: o.Logger, now: o.Now,
	}
}

// lastAttempt is the time that a sink has at the end to write what is queued.
const lastAttempt = 5 * time.Second

// run writes records until ctx ends, and then those that are still queued.
func (s *sink) run(ctx context.Context) {
	defer s.to.close()
	work, stop := context.WithCancel(context.Background()) // ends lastAttempt after ctx
	defer stop()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(lastAttempt, stop)
		<-work.Done()
		late.Stop()
	})()
	var taken, pending []byte // records from the queue, and those of them that are not yet written
	pause := retryMin
	for ctx.Err() == nil {
		if len(pending) == 0 {
			select {
			case <-ctx.Done():
			case <-s.queue.filled:
			}
			taken = s.queue.take(taken)
			pending = taken
		}
		n, err := s.to.write(work, pending)
		pending = pending[n:]
		s.queue.release(n)
		s.report(err)
		if err == nil || len(pending) == 0 {
			pause = retryMin
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMax)
	}
	var failed error
	for _, records := range [][]byte{pending, s.queue.take(nil)} {
		for len(records) > 0 {
			n, err := s.to.write(work, records)
			if records = records[n:]; err != nil {
				s.queue.drop(records)
				failed = err
				break
			}
		}
	}
	s.reportEnd(failed)
}

// reportEnd logs what happened to the records that were queued at the end.
func (s *sink) reportEnd(err error) {
	if err == nil {
		s.report(nil)
		return
	}
	dropped := s.queue.dropped.Load()
	s.log.Error("the audit "+s.name+" cannot be written: the server stops, and the records that waited in memory are lost",
		"target", s.target, "err", err, "dropped", dropped-s.complained, "dropped_total", dropped)
}

// report logs a failure, dropped records, and the end of a failure, at most once a minute each. A line has the number of
// records that were dropped since the previous line, and since the start.
func (s *sink) report(err error) {
	was, _ := s.failing.Load().(failure)
	s.failing.Store(failure{err})
	dropped := s.queue.dropped.Load()
	now := s.now()
	if now.Sub(s.reported) < complainEvery && !now.Before(s.reported) && (err != nil) == (was.error != nil) {
		return
	}
	since := dropped - s.complained
	switch {
	case err != nil:
		s.log.Error("the audit "+s.name+" cannot be written: requests are still served, and up to 8 MiB of their records wait in memory",
			"target", s.target, "err", err, "dropped", since, "dropped_total", dropped)
	case was.error != nil:
		s.log.Warn("the audit "+s.name+" can be written again", "target", s.target, "dropped", since, "dropped_total", dropped)
	case since > 0:
		s.log.Error("records of the audit "+s.name+" were dropped, because requests ended faster than it could be written",
			"target", s.target, "dropped", since, "dropped_total", dropped)
	default:
		return
	}
	s.reported, s.complained = now, dropped
}
