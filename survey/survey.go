// Package survey determines what a store holds: the tally of every bucket, and the amount of stored, live and
// reclaimable bytes. It reads what the metadata engine has counted (core.Tallier and core.Placer) and the list of the
// blocks, never versions or content. The last result stays in memory, so that metrics can read it at any time.
//
// The time of a round grows with the number of buckets and blocks. So the pause after a round is at least restTimes as
// long as the round, and there is no round while nothing changes.
package survey

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"orcas/core"
)

// The usual pauses between two rounds.
const (
	talliesEvery = 5 * time.Second
	spaceEvery   = time.Minute
	restTimes    = 100
)

// page is the number of buckets that are read together.
const page = 1000

// Options are the parts of a store that a Survey reads.
type Options struct {
	Meta   core.Meta
	Blocks core.Blocks
	Log    *slog.Logger

	// For tests.
	TalliesEvery, SpaceEvery time.Duration // 0: the usual pauses
}

// Bucket is what a bucket holds.
type Bucket struct {
	Name string
	core.Tally
}

// Space is the use of the drive by content.
type Space struct {
	Stored   int64             // the size of all blocks with content
	Blocks   int64             // their number
	Live     int64             // the part of it that has stored content, with the headers of frames
	Contents core.BlockContent // the number of pieces of stored content, and their size before compression
	Logical  int64             // the size of all versions and parts, before deduplication and compression
}

// Reclaimable is the part of Stored that is not live: garbage, records of changes, and the free end of open blocks.
func (s Space) Reclaimable() int64 { return max(0, s.Stored-s.Live) }

// Deduplication is the size of all versions and parts divided by that of the stored content. Without content it is 1.
func (s Space) Deduplication() float64 { return ratio(s.Logical, s.Contents.Bytes) }

// Compression is the size of the stored content before compression divided by that after it. Without content it is 1.
func (s Space) Compression() float64 { return ratio(s.Contents.Bytes, s.Live) }

func ratio(a, b int64) float64 {
	if a <= 0 || b <= 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// Result is what a store held at a time. It must not be modified.
type Result struct {
	At      time.Time
	Seq     core.Seq // the last change before the round
	Buckets []Bucket // in the order of their names
	Total   core.Tally

	SpaceAt time.Time // when Space was found; zero if it is unknown
	Space   Space
}

// Survey surveys a store again and again.
type Survey struct {
	o       Options
	rounds  sync.Mutex // held during a round
	mu      sync.Mutex // guards the fields below
	last    *Result
	running bool
	ended   time.Time // the end of the last round that succeeded
	err     error     // why the last round failed
}

// New returns a Survey, which does nothing until Run is called.
func New(o Options) *Survey {
	o.TalliesEvery = cmp.Or(o.TalliesEvery, talliesEvery)
	o.SpaceEvery = cmp.Or(o.SpaceEvery, spaceEvery)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Survey{o: o}
}

// Last returns the last result, or nil if there is none yet.
func (s *Survey) Last() *Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Status reports whether a round is in progress, when the last one ended that succeeded, and why the last one failed.
func (s *Survey) Status() (running bool, succeeded time.Time, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.ended, s.err
}

// Run surveys the store until ctx ends.
func (s *Survey) Run(ctx context.Context) {
	if _, ok := core.As[core.Tallier](s.o.Meta); !ok {
		return
	}
	failed := false
	for {
		began := time.Now()
		err := s.Round(ctx)
		if failing := err != nil && ctx.Err() == nil; failing != failed {
			if failed = failing; failed {
				s.o.Log.Warn("the survey failed, so the metrics of buckets and of the store are out of date; the server tries again: if this continues, correct the cause",
					"err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(s.o.TalliesEvery, restTimes*time.Since(began))):
		}
	}
}

// Round surveys the store once, unless nothing has changed. It determines the use of the drive less often.
func (s *Survey) Round(ctx context.Context) error { return s.round(ctx, s.o.SpaceEvery) }

// Final surveys the store once more, and also determines the use of the drive, which takes longest. If ctx ends
// meanwhile, the other figures are current.
func (s *Survey) Final(ctx context.Context) error {
	if err := s.round(ctx, math.MaxInt64); err != nil {
		return err
	}
	return s.round(ctx, 0)
}

// round surveys the store once. If the use of the drive is older than a duration, it is determined again.
func (s *Survey) round(ctx context.Context, spaceEvery time.Duration) error {
	s.rounds.Lock()
	defer s.rounds.Unlock()
	s.mu.Lock()
	last := s.last
	s.running = true
	s.mu.Unlock()
	next, err := s.next(ctx, last, spaceEvery)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running, s.err = false, err; err == nil {
		s.last, s.ended = next, time.Now()
	}
	return err
}

// next returns the result that follows last, which may be nil.
func (s *Survey) next(ctx context.Context, last *Result, spaceEvery time.Duration) (*Result, error) {
	state, err := s.o.Meta.State(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r := &Result{At: now, Seq: state.Seq}
	if last != nil {
		*r = *last
		r.At, r.Seq = now, state.Seq
	}
	if last == nil || last.Seq != state.Seq {
		if err := s.tallies(ctx, r); err != nil {
			return nil, err
		}
	}
	// Reclaim frees blocks without a change of the metadata.
	if now.Sub(r.SpaceAt) >= spaceEvery {
		err := s.space(ctx, r)
		if err != nil && !core.Is(err, core.Busy) { // it has yielded to writes
			return nil, err
		}
	}
	return r, nil
}

// tallies reads the tallies of all buckets. A bucket that is created or deleted meanwhile may be missing.
func (s *Survey) tallies(ctx context.Context, r *Result) error {
	t, _ := core.As[core.Tallier](s.o.Meta)
	held := map[core.BucketID]core.Tally{}
	for after, n := core.BucketID(0), page; n == page; {
		list, err := t.Tallies(ctx, after, page)
		if err != nil {
			return err
		}
		for _, b := range list {
			after, held[b.Bucket] = b.Bucket, b.Tally
		}
		n = len(list)
	}
	r.Buckets, r.Total = make([]Bucket, 0, len(held)), core.Tally{}
	for after, n := "", page; n == page; {
		list, err := s.o.Meta.Buckets(ctx, "", after, page)
		if err != nil {
			return err
		}
		for i := range list {
			after = list[i].Name
			if of, ok := held[list[i].ID]; ok {
				r.Buckets = append(r.Buckets, Bucket{after, of.Clamped()})
				r.Total = r.Total.Plus(of)
			}
		}
		n = len(list)
	}
	r.Total = r.Total.Clamped()
	return nil
}

// space finds out how the drive is used.
func (s *Survey) space(ctx context.Context, r *Result) error {
	p, ok := core.As[core.Placer](s.o.Meta)
	if !ok {
		return nil
	}
	found := Space{Logical: core.Tally{Bytes: r.Total.Bytes, UploadBytes: r.Total.UploadBytes}.Usage().Bytes}
	var err error
	found.Contents, err = p.Places(ctx, func(_ core.BlockID, of core.BlockContent) error {
		found.Live += of.Bytes
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.o.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Packed || b.Kind == core.Large {
			found.Stored += b.Size
			found.Blocks++
		}
		return nil
	}); err != nil {
		return err
	}
	r.Space, r.SpaceAt = found, r.At
	return nil
}

// Largest returns the buckets with the most objects and bytes, at most limit of them, and the sum of all others.
func (r *Result) Largest(limit int) (list []Bucket, others core.Tally) {
	if len(r.Buckets) <= limit {
		return r.Buckets, others
	}
	list = slices.Clone(r.Buckets)
	slices.SortStableFunc(list, func(a, b Bucket) int { return cmp.Compare(weight(&b), weight(&a)) })
	for _, b := range list[limit:] {
		others = others.Plus(b.Tally)
	}
	return list[:limit], others.Clamped()
}

// weight orders buckets by size.
func weight(b *Bucket) float64 {
	return float64(b.Versions) + float64(b.Bytes) + float64(b.UploadBytes)
}
