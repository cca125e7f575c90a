package lifecycle

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"orcas/batch"
	"orcas/core"
)

// Writer makes changes durable; the write buffer of the process.
type Writer interface {
	// DoAll returns the outcomes in the order of writes; a change that failed its check is an error.
	DoAll(ctx context.Context, writes []batch.Write) ([]core.Result, []error)
}

// Options configure a Worker. Meta and Writer are required; zero values stand for the defaults.
type Options struct {
	Meta      core.Meta
	Writer    Writer
	Day       time.Duration // how long a day is; default 24 h
	Every     time.Duration // between the end of a pass and the next one that nobody asked for; default 1 h
	UploadAge time.Duration // after which an upload in progress is aborted, whatever its bucket says; 0: never
	Share     float64       // of the time that such a pass works; it rests for the others; default 0.2
	Page      int           // versions that are read at once; default 1000
	Save      int           // versions after which a pass notes how far it is; default 20,000
	Logger    *slog.Logger
	Now       func() time.Time

	// Hook is called between finding what is due and deleting it; for tests.
	Hook func()
}

// Report says what a pass did.
type Report struct {
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Resumed    bool      `json:"resumed"`    // it went on where an earlier one was interrupted
	Buckets    int       `json:"buckets"`    // that were walked over: those with rules, and all where UploadAge is set
	Unreadable int       `json:"unreadable"` // of them: left alone, since their rules cannot be read
	Scanned    int64     `json:"scanned"`    // versions, delete markers and uploads
	Expired    int64     `json:"expired"`    // current versions
	Noncurrent int64     `json:"noncurrent"`
	Markers    int64     `json:"markers"`
	Uploads    int64     `json:"uploads"`
	Changed    int64     `json:"changed"` // were due, and are others meanwhile: left for the next pass
	Held       int64     `json:"held"`    // are due, and locked
	Error      string    `json:"error,omitempty"`
}

// Deleted returns how many versions, delete markers and uploads are gone.
func (r Report) Deleted() int64 { return r.Expired + r.Noncurrent + r.Markers + r.Uploads }

// Status says what goes on.
type Status struct {
	Running bool   `json:"running"`
	Bucket  string `json:"bucket,omitempty"`
	Passes  int    `json:"passes"`
	Present Report `json:"present"` // with Running
	Last    Report `json:"last"`    // the last pass that ended
}

// Worker deletes what is due. Its methods may be called from many goroutines.
//
// A pass reads the buckets that have rules, in order of names: their versions, newest first, within the prefixes that rules are about, then their uploads.
// A bucket's rules are looked at anew with each page. What is due is deleted by changes that name the version that is current, by its sequence, as it
// was read: an overwritten, deleted or restored key is a Conflict and left for the next pass. So what is noncurrent when it is deleted is noncurrent still, and
// the null version is the one that was read. Locked versions stay.
//
// How far a pass is stands in the record "pass" of the kind "lifecycle", as JSON: it is written behind the deletions, so a pass that was
// interrupted goes on with what it may have done in part, and doing that again does nothing.
type Worker struct {
	o   Options
	log *slog.Logger

	pass  sync.Mutex // held by a pass
	hurry atomic.Int32
	mu    sync.Mutex // guards status
	state Status
}

// New makes a Worker.
func New(o Options) *Worker {
	if o.Day <= 0 {
		o.Day = Day
	}
	if o.Every <= 0 {
		o.Every = time.Hour
	}
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 0.2
	}
	if o.Page <= 0 {
		o.Page = 1000
	}
	if o.Save <= 0 {
		o.Save = 20_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hook == nil {
		o.Hook = func() {}
	}
	return &Worker{o: o, log: o.Logger}
}

// retryAfter is when a pass that failed is tried again.
const retryAfter = time.Minute

// Run makes a pass now and then until ctx ends, at once where one was interrupted.
func (w *Worker) Run(ctx context.Context) {
	pause := w.o.Every
	if p, err := load(ctx, w.o.Meta); err == nil && p != nil {
		pause = 0
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause = w.o.Every
		if _, err := w.run(ctx, true); err != nil && ctx.Err() == nil {
			w.log.Warn("lifecycle stopped for now", "err", err)
			pause = min(pause, retryAfter)
		}
		timer.Reset(pause)
	}
}

// Pass makes a pass over everything, without rests. After an error, which the Report gives as well, what was deleted until then is deleted.
func (w *Worker) Pass(ctx context.Context) (Report, error) {
	w.hurry.Add(1)
	defer w.hurry.Add(-1)
	return w.run(ctx, false)
}

// run makes a pass; resume: from where the last one was interrupted, if it was.
func (w *Worker) run(ctx context.Context, resume bool) (Report, error) {
	w.pass.Lock()
	defer w.pass.Unlock()
	start := time.Now()
	p := &pass{Worker: w, ctx: ctx, report: Report{Started: w.o.Now().UTC()}}
	w.note(func(s *Status) { s.Running = true })
	err := p.run(resume)
	p.report.Seconds = time.Since(start).Seconds()
	if err != nil {
		p.report.Error = err.Error()
		err = core.E("lifecycle.Pass", core.Internal, err)
	}
	w.note(func(s *Status) {
		s.Running, s.Bucket, s.Last = false, "", p.report
		s.Passes++
	})
	if p.report.Deleted() > 0 {
		w.log.Info("lifecycle", "expired", p.report.Expired, "noncurrent", p.report.Noncurrent, "markers", p.report.Markers,
			"uploads", p.report.Uploads, "scanned", p.report.Scanned, "seconds", p.report.Seconds)
	}
	return p.report, err
}

// Status returns what goes on.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *Worker) note(fn func(s *Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(&w.state)
}

// longestRest bounds how long somebody who is in a hurry waits for a pass that rests.
const longestRest = time.Second

// rest lets others work: as long as it takes that Share of the time was work since began, unless somebody is in a hurry.
func (w *Worker) rest(ctx context.Context, began time.Time) {
	pause := min(time.Duration(float64(time.Since(began))*(1/w.o.Share-1)), longestRest)
	if w.hurry.Load() > 0 || pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
