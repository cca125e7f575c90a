package tree

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// reporter counts actions and passes them to the caller.
type reporter struct {
	report   func(Action)
	progress func(Progress)
	start    time.Time

	mu     sync.Mutex // guards result, and calls of report
	result Result
	first  error // the first failure

	compared, copies, copied, bytes, done atomic.Int64 // for Progress
	failed                                atomic.Int64
	complete                              atomic.Bool
}

// add counts an action, and reports it.
func (r *reporter) add(a Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.result
	switch a.Op {
	case OpCopy:
		n.Copied++
		n.BytesCopied += a.Size
		r.copied.Add(1)
	case OpSkip:
		n.Skipped++
	case OpDelete:
		n.Deleted++
	case OpError:
		n.Failed++
		r.failed.Add(1)
		if r.first == nil {
			r.first = a.Err
		}
		if len(n.Errors) < errorsMax {
			n.Errors = append(n.Errors, a)
		}
	}
	n.BytesSent += a.BytesSent
	if r.report != nil {
		r.report(a)
	}
}

// count adds bytes that were received or referred to.
func (r *reporter) count(received, referred int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.BytesReceived += received
	r.result.BytesReferred += referred
}

// planned counts a file that will be copied.
func (r *reporter) planned(bytes int64) {
	r.copies.Add(1)
	r.bytes.Add(bytes)
}

// now returns the progress.
func (r *reporter) now() Progress {
	return Progress{Files: r.compared.Load(), Copies: r.copies.Load(), Copied: r.copied.Load(), Bytes: r.bytes.Load(),
		BytesDone: r.done.Load(), Complete: r.complete.Load(), Elapsed: time.Since(r.start)}
}

// watch calls progress until stop is called, which calls it a last time.
func (r *reporter) watch() (stop func()) {
	if r.progress == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.progress(r.now())
			case <-end:
				r.progress(r.now())
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// finish returns the result, and an error if files failed.
func (r *reporter) finish() (*Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Files = r.compared.Load()
	result := r.result
	if result.Failed == 0 {
		return &result, nil
	}
	return &result, fmt.Errorf("tree: %w: %d of %d; the first: %w", ErrPartial, result.Failed, result.Files, r.first)
}
