package tree

import (
	"context"
	"errors"
	"iter"
	"time"
)

// DifferenceKind is how two trees differ.
type DifferenceKind string

// The kinds of differences.
const (
	OnlyFrom DifferenceKind = "only-from" // only the first tree has the file
	OnlyTo   DifferenceKind = "only-to"   // only the second tree has the file
	Differs  DifferenceKind = "differs"   // both have it, and it is not equal
	Failed   DifferenceKind = "failed"    // it could not be compared; see Difference.Err
)

// Difference is a file that is not equal in two trees.
type Difference struct {
	Kind             DifferenceKind
	Path             string // relative, with slashes
	Reason           string // "size", "newer" or "checksum"; only with Differs
	FromSize, ToSize int64  // bytes
	FromTime, ToTime time.Time
	Err              error // only with Failed
}

// Diff compares two trees by the rules of Sync, and returns what differs in the order of the paths. The first tree is the
// source: files that only are newer in the second one are equal. Directories are not compared. Of the options, it uses
// Patterns, SizeOnly, Checksum, Symlinks and Parallel. An error ends it; files that cannot be compared are differences
// of the kind Failed.
func Diff(ctx context.Context, from, to Place, o Options) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		if err := o.check(&from, &to); err != nil {
			yield(Difference{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		e := &engine{options: &o, from: from, to: to}
		if err := e.open(); err != nil {
			yield(Difference{}, err)
			return
		}
		defer e.close()
		p := &plan{engine: e}
		results := make(chan chan Difference, o.Parallel)
		failed := make(chan error, 1)
		go func() {
			defer close(results)
			failed <- p.differences(ctx, results)
		}()
		defer func() {
			cancel()
			for r := range results { // wait for all requests
				<-r
			}
		}()
		for r := range results {
			if d := <-r; d.Kind != "" && !yield(d, nil) {
				return
			}
		}
		if err := <-failed; err != nil {
			yield(Difference{}, err)
		}
	}
}

// differences compares the trees. Each pair that is not equal becomes a channel in results, in order, on which the
// comparison sends its result.
func (p *plan) differences(ctx context.Context, results chan<- chan Difference) error {
	listing, stop := context.WithCancel(ctx)
	j := &join{a: p.stream(listing, true), b: p.stream(listing, false)}
	defer func() {
		stop()
		j.drain()
	}()
	send := func(r chan Difference) error {
		select {
		case results <- r:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		x, ok := j.next()
		if !ok {
			return errors.Join(j.err(), ctx.Err())
		}
		d, open := p.difference(x)
		if d.Kind == "" && !open {
			continue
		}
		r := make(chan Difference, 1)
		if !open {
			r <- d
		} else {
			from, to := *x.from, *x.to // they change with the next step
			go func() { r <- p.resolveDifference(ctx, d, &from, &to) }()
		}
		if err := send(r); err != nil {
			if open {
				<-r
			}
			return err
		}
	}
}

// difference compares a pair. The kind is "" if the files are equal; open reports that more is needed to know.
func (p *plan) difference(x pair) (d Difference, open bool) {
	for _, e := range []*entry{x.from, x.to} {
		if e == nil {
			continue
		}
		d.Path = e.path
		if e.err != nil {
			d.Kind, d.Err = Failed, e.err
			return d, false
		}
		if e.kind == other || e.kind == directory {
			return d, false
		}
	}
	if x.from != nil {
		d.FromSize, d.FromTime = x.from.size, time.Unix(0, x.from.modified)
	}
	if x.to != nil {
		d.ToSize, d.ToTime = x.to.size, time.Unix(0, x.to.modified)
	}
	switch {
	case x.to == nil:
		d.Kind = OnlyFrom
	case x.from == nil:
		d.Kind = OnlyTo
	default:
		v, reason := p.compare(x.from, x.to)
		if v == differs {
			d.Kind, d.Reason = Differs, reason
		}
		return d, v == unknown
	}
	return d, false
}

// resolveDifference finishes a comparison.
func (p *plan) resolveDifference(ctx context.Context, d Difference, from, to *entry) Difference {
	v, reason, err := p.resolve(ctx, from, to)
	switch {
	case err != nil:
		d.Kind, d.Err = Failed, err
	case v == differs:
		d.Kind, d.Reason = Differs, reason
	}
	return d
}
