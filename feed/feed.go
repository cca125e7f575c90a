// Package feed delivers committed changes, in the order of their sequences, to subscribers in this process that can
// resume after a restart: notifications, replication, usage figures, mounts, and caches of other servers.
//
// # When a change is delivered
//
// A change is delivered when it can no longer be lost: it was applied, so every reader sees it, and it is durable. With
// strict durability both are true when its write is acknowledged. With relaxed durability a change is delivered after
// the next sync, so at most the window plus the time of two syncs after the acknowledgment (see package batch). A
// change that fails its check is not delivered, and neither is any change of a batch that failed.
//
// # What an event contains
//
// An Event identifies what changed: a bucket, a key, an upload, or stored content. It depends on the change alone, so
// it is the same whether the change was just applied or is read from its record. It has no sizes, ETags or old values:
// a subscriber that needs them reads the metadata, which is at least as new as the event. If the metadata is newer,
// another event follows.
//
// # Bounds
//
// Events wait in one buffer for all subscribers, so a slow subscriber neither delays others nor uses additional memory.
// A subscriber that resumes, or that has fallen behind the buffer, reads the records in the blocks. Next returns
// ErrTooOld, and never skips a change silently, if some of these records no longer exist, because their blocks were
// reclaimed or lost, or if the subscriber is too far behind. Without subscribers no events are collected: a batch only
// updates the position of the feed.
//
// # Resuming
//
// A subscriber stores Subscription.Position together with its own results, and passes it to Subscribe after a restart.
// It should store the position from time to time even if there were no events, because old records are deleted.
// Delivery is at least once: events after the stored position are delivered again. An event that was read from a record
// has Replayed set. The record was written before the results of its changes were known, so the change may have failed
// its check (for example, the If-None-Match of a PUT). To find out, a subscriber reads the metadata: the version that
// the change wrote has the sequence of the event.
//
// The first time, and after ErrTooOld, a subscriber begins as follows:
//
//  1. Subscribe(feed.Latest());
//  2. read everything from the metadata;
//  3. process the events, some of which may be included in step 2.
//
// A position is valid only in its own history. In a store that was restored from a backup, Next returns ErrTooOld for a
// position that the backup does not include.
//
// With relaxed durability the metadata shows changes that a power cut may still undo. Their sequences are above
// Feed.Latest, and each gets an event once it is durable. A subscriber that must not act on them earlier waits for that
// event.
//
// # Tried and dropped
//
// Recording the result of each change, so that Replayed events are exact: this needs a record for every failed
// precondition, even without subscribers. A queue per subscriber: it stores each event once per subscriber, and each
// queue needs a bound. Delivering events before the write is acknowledged: subscribers would slow down writers.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"orcas/core"
)

// ErrTooOld is the cause of the error (kind Conflict) of a subscriber that cannot resume from its position.
var ErrTooOld = errors.New("changes after this position are no longer recorded: read the metadata again")

// TooOld returns an error with ErrTooOld as its cause.
func TooOld(why string) error {
	return core.E("feed", core.Conflict, fmt.Errorf("%s: %w", why, ErrTooOld))
}

// Position is a point in the history: all changes up to Seq were delivered, and the record of that change is in Block.
// The zero Position is the beginning of the store.
type Position struct {
	Seq   core.Seq
	Block core.BlockID
}

// Records reads changes from the records in the blocks.
type Records interface {
	// Since returns the changes that were recorded after a position, up to a sequence. An error with ErrTooOld as its
	// cause means that some of them no longer exist, or that the position does not belong to this history.
	Since(ctx context.Context, after Position, to core.Seq) (History, error)
}

// History is a sequence of changes read from records. Only one goroutine may use it at a time.
type History interface {
	// Next returns the changes of the next record, in order, without voided ones, and the position after the record.
	// It returns io.EOF after the last one.
	Next(ctx context.Context) ([]core.Change, Position, error)
}

// DefaultBuffer is the default number of events that can wait for subscribers; they use about 1 MiB.
const DefaultBuffer = 8192

// Options configure a Feed.
type Options struct {
	Records Records
	Buffer  int      // the number of events that can wait for subscribers; 0 means DefaultBuffer
	Start   Position // the current end of the history, which is durable
	Relaxed bool     // a batch is durable after a call of Durable, not as soon as it was applied
}

// Feed delivers the changes of one writer. Its methods may be called concurrently, but Applied only by one goroutine at
// a time.
//
// One process: it delivers the changes of this process's writer. If several servers write to one store, each has a feed
// of its own changes, and the sequences define the order of all changes.
type Feed struct {
	o Options

	mu      sync.Mutex // guards the fields below
	applied Position   // the last batch
	durable Position   // the last batch that is durable; before or after applied
	subs    []*Subscription
	ring    []Event // the latest events; nil without subscribers
	first   int     // index of the oldest event
	count   int
	from    core.Seq // the ring contains every event after this sequence
	closed  bool
}

// New returns a Feed.
func New(o Options) *Feed {
	if o.Buffer <= 0 {
		o.Buffer = DefaultBuffer
	}
	return &Feed{o: o, applied: o.Start, durable: o.Start}
}

// Applied accepts an applied batch: its changes, their results, and the position after it. The writer calls it before
// it returns results to callers, which may then modify the changes.
func (f *Feed) Applied(changes []core.Change, results []core.Result, at Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = at
	if !f.o.Relaxed {
		f.durable = at
	}
	if len(f.subs) == 0 {
		return
	}
	var room [2]Event
	for i, c := range changes {
		if results[i].Err != nil || results[i].Skipped {
			continue
		}
		for _, e := range appendEvents(room[:0], c, results[i].Seq) {
			e.block = at.Block
			f.push(e)
		}
	}
	f.wake()
}

// Durable records that everything up to a position is durable. A relaxed writer calls it.
func (f *Feed) Durable(at Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable = at
	f.wake()
}

// push adds an event to the ring; if the ring is full, it replaces the oldest one.
func (f *Feed) push(e Event) {
	if f.count == len(f.ring) {
		f.from = f.ring[f.first].Seq
		f.first = (f.first + 1) % len(f.ring)
		f.count--
	}
	f.ring[(f.first+f.count)%len(f.ring)] = e
	f.count++
}

func (f *Feed) at(i int) *Event { return &f.ring[(f.first+i)%len(f.ring)] }

// wake makes all subscribers check for events.
func (f *Feed) wake() {
	for _, s := range f.subs {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
}

// latest returns the position up to which changes can be delivered.
func (f *Feed) latest() Position {
	if f.durable.Seq < f.applied.Seq {
		return f.durable
	}
	return f.applied
}

// Latest returns the position up to which changes can be delivered now.
func (f *Feed) Latest() Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest()
}

// Close ends all subscriptions.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
}

// Subscription is one subscriber. Only one goroutine may use it at a time.
type Subscription struct {
	feed    *Feed
	woken   chan struct{} // one token: there may be new events
	pos     Position
	checked bool     // pos is known to belong to this history
	history History  // set while the subscriber reads records; nil if the ring has all events after pos
	ahead   []Event  // events read from history but not yet returned
	then    Position // the position after ahead
}

// Subscribe returns a subscriber that gets every change after a position, which was returned by Latest or by the
// Position of any subscriber, in this process or an earlier one. If that is not possible, the first Next returns an
// error.
func (f *Feed) Subscribe(after Position) *Subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) == 0 {
		f.ring, f.first, f.count, f.from = make([]Event, f.o.Buffer), 0, 0, f.applied.Seq
	}
	s := &Subscription{feed: f, woken: make(chan struct{}, 1), pos: after, checked: after == f.latest()}
	f.subs = append(f.subs, s)
	return s
}

// Close ends the subscription.
func (s *Subscription) Close() {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs = slices.DeleteFunc(f.subs, func(other *Subscription) bool { return other == s })
	if len(f.subs) == 0 {
		f.ring, f.count = nil, 0
	}
}

// Position returns the position after the events that Next has returned so far. The subscriber stores it once it has
// processed them.
func (s *Subscription) Position() Position { return s.pos }

// Next waits for events and copies up to len(events) of them into events. An error with ErrTooOld as its cause ends
// the subscription. Next returns Unavailable if the feed was closed, and Canceled if ctx has ended.
func (s *Subscription) Next(ctx context.Context, events []Event) (n int, err error) {
	const op = "feed.Next"
	for {
		if err := ctx.Err(); err != nil {
			return 0, core.E(op, core.Canceled, err)
		}
		if n = s.takeAhead(events); n > 0 {
			return n, nil
		}
		if s.history != nil {
			if err := s.readHistory(ctx); err != nil {
				return 0, core.E(op, core.Internal, err)
			}
			continue
		}
		n, behind, to, closed := s.take(events)
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, core.E(op, core.Unavailable, errors.New("the change feed is closed"))
		case behind:
			if s.history, err = s.since(ctx, to); err != nil {
				return 0, core.E(op, core.Internal, err)
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.woken:
		}
	}
}

// take copies events for s from the ring. If behind is true, the ring lacks some of the events after s.pos: the changes
// from there up to a sequence (to) have to be read from the records.
func (s *Subscription) take(events []Event) (n int, behind bool, to core.Seq, closed bool) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	latest := f.latest()
	if s.pos == latest {
		s.checked = true
	}
	if f.closed {
		return 0, false, 0, true
	}
	if !s.checked || s.pos.Seq < min(f.from, latest.Seq) {
		return 0, true, latest.Seq, false
	}
	i := sort.Search(f.count, func(i int) bool { return f.at(i).Seq > s.pos.Seq })
	for ; i < f.count && n < len(events) && f.at(i).Seq <= latest.Seq; i++ {
		events[n] = *f.at(i)
		n++
	}
	if i == f.count || f.at(i).Seq > latest.Seq {
		s.pos = latest
	} else if n > 0 {
		s.pos = events[n-1].Position()
	}
	return n, false, 0, false
}

// since opens the records after the position of s.
func (s *Subscription) since(ctx context.Context, to core.Seq) (History, error) {
	if s.pos.Seq > to {
		return nil, TooOld(fmt.Sprintf("position %d is after the last change, which is %d", s.pos.Seq, to))
	}
	return s.feed.o.Records.Since(ctx, s.pos, to)
}

// readHistory reads the next record. After the last one, the position of s is the end of the history.
func (s *Subscription) readHistory(ctx context.Context) error {
	changes, at, err := s.history.Next(ctx)
	if err == io.EOF {
		s.history, s.checked = nil, true
		return nil
	}
	if err != nil {
		return err
	}
	after := s.pos.Seq
	for _, c := range changes {
		s.ahead = appendEvents(s.ahead, c, c.Stamp())
	}
	s.ahead = slices.DeleteFunc(s.ahead, func(e Event) bool { return e.Seq <= after })
	for i := range s.ahead {
		s.ahead[i].block, s.ahead[i].Replayed = at.Block, true
	}
	if s.then = at; len(s.ahead) == 0 {
		s.pos = at
	}
	return nil
}

// takeAhead returns events that were read from records.
func (s *Subscription) takeAhead(events []Event) int {
	n := copy(events, s.ahead)
	if n == 0 {
		return 0
	}
	s.pos = events[n-1].Position()
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead, s.pos = nil, s.then
	}
	return n
}
