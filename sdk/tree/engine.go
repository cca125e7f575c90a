package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orcas/sdk"
)

const (
	smallMax     = 1 << 20  // bytes of the largest file that is read into memory
	smallMemory  = 48 << 20 // bytes of such files in memory
	largeMemory  = 96 << 20 // bytes of parts of larger files in memory
	largeParts   = 4        // parts of a large file that are transferred at the same time
	largeWorkers = 16       // large files at the same time, if their parts fit into largeMemory
	partUsual    = 8 << 20  // bytes of a part, if the caller has not chosen another size
	queueLength  = 10_000   // files that have been compared and wait, so that Progress knows what is to be done
	deniedMax    = 8        // denied files without a success before them that end the transfer
)

// purpose is what an engine does with files.
type purpose uint8

const (
	copying purpose = iota
	syncing
	moving
)

// engine is one call of Sync, Copy or Move.
//
// The goroutine of the caller merges the listings and decides what to do; that is the plan. Tasks go through a queue to
// workers. A dry run is the same, except that workers report tasks instead of doing them.
type engine struct {
	options  *Options
	purpose  purpose
	from, to Place

	fromLocal *local // nil if the source is remote
	toLocal   *local // nil if the target is remote, or does not exist in a dry run

	reporter *reporter
	fail     context.CancelCauseFunc // ends everything, because of an error that all files would get
	small    chan *task
	large    chan *task
	asker    *asker // nil without instant upload
	memory   *budget
	parts    *budget
	outcome  outcome
	noCopy   atomic.Bool // the server does not copy objects by itself

	directories directories
}

// outcome is what has happened to the requests so far.
type outcome struct {
	mu        sync.Mutex
	succeeded bool
	denied    int // since the start, while nothing succeeded
}

// task is a file to transfer.
type task struct {
	from   entry
	to     entry // what the target has; if exists
	exists bool
	path   string // in the target; usually from.path
	reason string
	check  bool // it is not known yet whether they differ
	mkdir  bool // an object that stands for a directory, or a local directory
	list   *versionsTask
}

// run does everything for Sync, Copy and Move.
func run(ctx context.Context, from, to Place, o Options, p purpose) (*Result, error) {
	if err := o.check(&from, &to); err != nil {
		return nil, err
	}
	return start(ctx, from, to, o, p, func(ctx context.Context, e *engine) error {
		if e.options.Versions {
			return e.planVersions(ctx)
		}
		return e.plan(ctx)
	})
}

// start creates an engine, runs a plan, and waits for the workers.
func start(ctx context.Context, from, to Place, o Options, p purpose, plan func(context.Context, *engine) error) (*Result, error) {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e := &engine{options: &o, purpose: p, from: from, to: to, fail: cancel,
		reporter: &reporter{report: o.Report, progress: o.Progress, start: time.Now()},
		small:    make(chan *task, queueLength), large: make(chan *task, queueLength), memory: newBudget(smallMemory), parts: newBudget(largeMemory)}
	stop := e.reporter.watch()
	err := e.open()
	if err == nil {
		err = plan(work, e)
	}
	e.close()
	stop()
	result, failed := e.reporter.finish()
	switch cause := context.Cause(work); {
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	case cause != nil:
		return result, cause
	case err != nil:
		return result, err
	}
	return result, failed
}

// open opens the local trees.
func (e *engine) open() (err error) {
	if !e.from.remote() {
		if e.fromLocal, err = openLocal(e.from.dir); err != nil {
			return fmt.Errorf("tree: the source cannot be read: %w", err)
		}
	}
	if !e.to.remote() {
		e.toLocal, err = openLocal(e.to.dir)
		if errors.Is(err, fs.ErrNotExist) {
			e.toLocal, err = nil, nil // created when there is something to write
		}
		if err != nil {
			return fmt.Errorf("tree: the target cannot be used: %w", err)
		}
	}
	return nil
}

func (e *engine) close() {
	for _, l := range []*local{e.fromLocal, e.toLocal} {
		if l != nil {
			l.close()
		}
	}
}

// createTarget creates the local target if it does not exist.
func (e *engine) createTarget() (err error) {
	if e.to.remote() || e.toLocal != nil || e.options.DryRun {
		return nil
	}
	if err := os.MkdirAll(e.to.dir, 0o777); err != nil {
		return fmt.Errorf("tree: the target cannot be created: %w", err)
	}
	e.toLocal, err = openLocal(e.to.dir)
	return err
}

// workers starts the workers. The returned function closes the queues and waits until they are empty.
func (e *engine) workers(ctx context.Context) (wait func()) {
	var readers, senders sync.WaitGroup
	if level := e.refLevel(); level != sdk.RefOff && !e.from.remote() && !e.options.DryRun {
		e.asker = newAsker(e, e.options.Parallel)
		senders.Go(func() { e.asker.ask(ctx) })
		for range e.options.Parallel {
			senders.Go(func() { e.asker.send(ctx) })
		}
	}
	for range e.options.Parallel {
		readers.Go(func() { e.work(ctx, e.small) })
	}
	for range min(largeWorkers, e.options.Parallel) {
		readers.Go(func() { e.work(ctx, e.large) })
	}
	return func() {
		close(e.small)
		close(e.large)
		readers.Wait()
		if e.asker != nil {
			e.asker.close()
		}
		senders.Wait()
		e.small, e.large, e.asker = make(chan *task, queueLength), make(chan *task, queueLength), nil
	}
}

// refLevel returns the level of instant upload.
func (e *engine) refLevel() sdk.RefLevel {
	if !e.to.remote() {
		return sdk.RefOff
	}
	if e.options.RefLevel != nil {
		return *e.options.RefLevel
	}
	return e.to.client.RefLevel()
}

// work does the tasks of a queue until it is closed.
func (e *engine) work(ctx context.Context, queue <-chan *task) {
	w := &worker{engine: e}
	defer w.close()
	for t := range queue {
		if ctx.Err() != nil {
			continue // drain the queue
		}
		w.do(ctx, t)
	}
}

// enqueue passes a task to the workers.
func (e *engine) enqueue(ctx context.Context, t *task) error {
	if !t.check {
		e.reporter.planned(t.from.size)
	}
	queue := e.small
	if t.from.size > smallMax {
		queue = e.large
	}
	select {
	case queue <- t:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// action returns the action of a task.
func (e *engine) action(op Op, t *task) Action {
	a := Action{Op: op, Path: t.from.path, From: e.from.address(t.from.name()), To: e.to.address(t.targetName(e)), Size: t.from.size, Reason: t.reason}
	if e.from.remote() {
		a.From = e.from.address(t.from.path)
	}
	return a
}

// targetName returns the path of the target: in a bucket the end of the key.
func (t *task) targetName(e *engine) string {
	if !e.to.remote() && e.options.Symlinks == StoreSymlinks {
		return strings.TrimSuffix(t.path, linkSuffix)
	}
	return t.path
}

// copied reports a task that was done, and what it sent.
func (e *engine) copied(t *task, sent int64) {
	e.outcome.mu.Lock()
	e.outcome.succeeded = true
	e.outcome.mu.Unlock()
	a := e.action(OpCopy, t)
	if t.mkdir {
		a.Op, a.Size = OpMkdir, 0
	}
	a.BytesSent = sent
	e.reporter.done.Add(t.from.size)
	e.reporter.add(a)
}

// skip reports a task that need not be done.
func (e *engine) skip(t *task, reason string) {
	a := e.action(OpSkip, t)
	a.Reason = reason
	e.reporter.add(a)
}

// failed reports a task that failed, and ends everything if the others would fail, too.
func (e *engine) failed(ctx context.Context, t *task, err error) {
	if ctx.Err() != nil {
		return // a consequence of the end
	}
	if e.fatal(err) {
		e.fail(err)
	}
	a := e.action(OpError, t)
	a.Err = err
	e.reporter.add(a)
}

// fatal reports whether an error is not one of a file, but of the server, the bucket, or the drive.
func (e *engine) fatal(err error) bool {
	kinds := []error{
		ErrConflict, sdk.ErrNoSuchBucket, sdk.ErrInvalidAccessKey, sdk.ErrInvalidToken, sdk.ErrSignature, sdk.ErrClockSkew,
		sdk.ErrRedirect, sdk.ErrQuotaExceeded, sdk.ErrInsufficientStorage, sdk.ErrNetwork,
	}
	for _, kind := range append(kinds, driveErrors()...) {
		if errors.Is(err, kind) {
			return true
		}
	}
	if !errors.Is(err, sdk.ErrAccessDenied) {
		return false
	}
	e.outcome.mu.Lock()
	defer e.outcome.mu.Unlock()
	e.outcome.denied++
	return !e.outcome.succeeded && e.outcome.denied >= deniedMax
}
