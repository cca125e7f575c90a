package lifecycle

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/lease"
)

// Options configure a Worker. Meta and Writer are required; for all other fields, the zero value selects the default.
type Options struct {
	Meta      core.Meta
	Writer    batch.Doer
	Day       time.Duration // length of a day; default 24 h
	Every     time.Duration // interval from the end of a background pass to the next one; default 1 h
	UploadAge time.Duration // age at which uploads in progress are aborted, in every bucket; 0 means never
	Share     float64       // maximum fraction of the time that a background pass works; default 0.2
	Page      int           // number of entries to read per call; default 1000
	Save      int           // number of entries after which a pass records its position; default 20,000
	Logger    *slog.Logger
	Now       func() time.Time
	Leases    lease.Leases // leases of the store; nil if no other worker makes passes

	// Hook, for tests, is called after expired versions were found and before they are deleted.
	Hook func()
}

// Report describes a pass.
type Report struct {
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Resumed    bool      `json:"resumed"`    // whether the pass continued an interrupted pass
	Buckets    int       `json:"buckets"`    // number of buckets walked: those with rules, or all if UploadAge is set
	Unreadable int       `json:"unreadable"` // number of these that were skipped because their rules cannot be decoded
	Scanned    int64     `json:"scanned"`    // number of versions, delete markers and uploads read
	Expired    int64     `json:"expired"`    // number of current versions deleted; the next three count other deletions
	Noncurrent int64     `json:"noncurrent"`
	Markers    int64     `json:"markers"`
	Uploads    int64     `json:"uploads"`
	Changed    int64     `json:"changed"` // expired, but changed during the pass; left for the next pass
	Held       int64     `json:"held"`    // expired, but locked
	Error      string    `json:"error,omitempty"`
}

// Deleted returns the number of deleted versions, delete markers and uploads.
func (r Report) Deleted() int64 { return r.Expired + r.Noncurrent + r.Markers + r.Uploads }

// Status is the current state of a Worker.
type Status struct {
	Running bool   `json:"running"`
	Bucket  string `json:"bucket,omitempty"`
	Passes  int    `json:"passes"`
	Present Report `json:"present"` // the current pass, if Running is set
	Last    Report `json:"last"`    // the last pass that ended

	LastSuccess time.Time `json:"last_success"` // the end of the last pass without an error; zero if there was none since the start
}

// Worker deletes expired versions, delete markers and uploads. Its methods are safe for concurrent use.
//
// A pass reads the buckets that have rules, in the order of their names. Within the prefixes of the rules, it first
// reads the versions, the newest version of each key first, and then the uploads. With each page it reads the bucket's
// rules again. The change that deletes an expired version requires the current version of its key to have the sequence
// that was read. If the key was overwritten, deleted or restored in the meantime, the change fails with Conflict, and
// the key is left for the next pass. So a version that is deleted as noncurrent is still noncurrent, and a null version
// that is deleted is the null version that was read. Locked versions are kept.
//
// The position of a pass is stored as JSON in the record "pass" of the kind "lifecycle". It is written after the
// deletions, so a resumed pass may begin with pages that are already done. Repeating them has no effect.
type Worker struct {
	o   Options
	log *slog.Logger

	hurry atomic.Int32
	mu    sync.Mutex // guards state
	state Status
}

// New returns a Worker.
func New(o Options) *Worker {
	o.Day = cmp.Or(max(o.Day, 0), Day)
	o.Every = cmp.Or(max(o.Every, 0), time.Hour)
	o.Page = cmp.Or(max(o.Page, 0), 1000)
	o.Save = cmp.Or(max(o.Save, 0), 20_000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Leases = cmp.Or[lease.Leases](o.Leases, &lease.Local{})
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 0.2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hook == nil {
		o.Hook = func() {}
	}
	return &Worker{o: o, log: o.Logger}
}

// retryAfter is the delay before a failed pass is retried.
const retryAfter = time.Minute

// Run makes a pass every Options.Every until ctx is canceled. The first pass starts immediately if an earlier one was
// interrupted.
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
			pause = min(pause, retryAfter)
			w.log.Warn("not all lifecycle rules were applied, so expired objects remain; the server tries again: if this continues, correct the cause",
				"retry_in_seconds", pause.Seconds(), "err", err)
		}
		timer.Reset(pause)
	}
}

// Pass makes a pass over all buckets, without pauses. If it returns an error, which is also in the Report, the earlier
// deletions of the pass remain in effect.
func (w *Worker) Pass(ctx context.Context) (Report, error) {
	w.hurry.Add(1)
	defer w.hurry.Add(-1)
	return w.run(ctx, false)
}

// run makes a pass while it holds the lifecycle lease. If resume is set, it continues an interrupted pass, if any.
func (w *Worker) run(ctx context.Context, resume bool) (report Report, err error) {
	err = w.o.Leases.Do(ctx, lease.Lifecycle, func(ctx context.Context) (err error) {
		report, err = w.leased(ctx, resume)
		return err
	})
	return report, err
}

// leased makes a pass. The caller holds the lease.
func (w *Worker) leased(ctx context.Context, resume bool) (Report, error) {
	start := time.Now()
	p := &pass{Worker: w, ctx: ctx, report: Report{Started: w.o.Now().UTC()}}
	w.note(func(s *Status) { s.Running = true })
	err := p.run(resume)
	p.report.Seconds = time.Since(start).Seconds()
	if err != nil {
		p.report.Error = core.Text(err)
		err = core.E("lifecycle.Pass", core.Internal, err)
	}
	w.note(func(s *Status) {
		s.Running, s.Bucket, s.Last = false, "", p.report
		s.Passes++
		if err == nil {
			s.LastSuccess = w.o.Now().UTC()
		}
	})
	if p.report.Deleted() > 0 {
		w.log.Info("lifecycle pass deleted expired versions and uploads", "expired", p.report.Expired, "noncurrent", p.report.Noncurrent, "markers", p.report.Markers,
			"uploads", p.report.Uploads, "scanned", p.report.Scanned, "seconds", p.report.Seconds)
	}
	return p.report, err
}

// Status returns the current state.
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

// longestRest is the maximum length of a pause, and so the longest time that a requested pass waits for one to end.
const longestRest = time.Second

// rest pauses until the work since began is the fraction Share of the elapsed time, but at most for longestRest. It
// does not pause while a requested pass is running or waiting.
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
