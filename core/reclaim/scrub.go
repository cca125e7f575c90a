package reclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"orcas/core"
)

// ScrubOptions configure a Scrubber. Zero values stand for the defaults.
type ScrubOptions struct {
	Meta   Source
	Blocks core.Blocks
	Writer Writer

	Period         time.Duration // in which every block is read once; default 7 days
	BytesPerSecond int64         // at least, so that a small store is read in one go; default 1 MiB

	// Hold calls fn while nobody else moves content or relies on where it is (see Reclaimer.Hold); nil: at once.
	Hold func(ctx context.Context, fn func() error) error

	// NewSnapshot writes a new snapshot of the metadata, where one that was written, or records, are damaged; nil: that is only reported.
	NewSnapshot func(ctx context.Context) error

	Logger *slog.Logger
	Now    func() time.Time
}

// Damage is something in the blocks that is not whole and could not be mended.
type Damage struct {
	Kind    string       `json:"kind"` // KindContent, KindSnapshot, or KindRecord
	Block   string       `json:"block"`
	Text    string       `json:"text"`
	Found   time.Time    `json:"found"`
	Content core.DataID  `json:"content,omitempty"`
	Bytes   int64        `json:"bytes,omitempty"`   // plain, of the content
	Objects []ObjectName `json:"objects,omitempty"` // the first of those that refer to it
	Users   int          `json:"users,omitempty"`   // how many do
}

// KindRecord is the kind of Damage of bytes between frames that are whole: a record may have stood there. Where a snapshot covers it, it matters no
// more.
const KindRecord = "record"

// ScrubStatus says what goes on.
type ScrubStatus struct {
	Running        bool      `json:"running"`
	PassStarted    time.Time `json:"pass_started"` // of the present pass, or of the last
	PassEnded      time.Time `json:"pass_ended"`   // of the last that came to its end
	BytesDone      int64     `json:"bytes_done"`   // of the present pass
	BytesTotal     int64     `json:"bytes_total"`
	BlocksDone     int       `json:"blocks_done"`
	BlocksTotal    int       `json:"blocks_total"`
	BytesPerSecond int64     `json:"bytes_per_second"`
	Passes         int       `json:"passes"` // that came to their end since the start
	Mended         int       `json:"mended"` // contents, since the start
	Snapshots      int       `json:"snapshots_requested"`
	Found          int       `json:"damaged_total"`
	Damaged        []Damage  `json:"damaged"` // the first of them
	Error          string    `json:"error,omitempty"`
}

// maxDamages bounds the list of damages.
const maxDamages = 1000

// Scrubber reads every frame of every block, over and over, the one that was verified the longest time ago first, so that damage is found
// while there is still another copy.
//
// It never deletes anything. A content that is damaged is written again from a good copy, if there is one: the same bytes under another number,
// or the place where it stood before reclaim moved it. Its old place becomes garbage. What cannot be mended is reported by the names of the objects.
//
// A block may end in bytes that are no frame, where a crash or a failed batch cut it off. Whether that, or any other stretch without whole frames, is
// damage, the metadata says: content that stands there is read once more by itself, and only what fails then is reported.
type Scrubber struct {
	o   ScrubOptions
	log *slog.Logger

	passing  sync.Mutex // held by a pass; guards what follows
	progress *progress
	suspects []suspect
	looked   time.Time // suspects were looked into
	harmless map[core.BlockID]int64

	mu     sync.Mutex // guards status and damages
	status ScrubStatus
	damage map[string]known
}

// known is a damage, and the pass that found it last.
type known struct {
	Damage
	pass int64
}

// suspect is a block in which something is not whole.
type suspect struct {
	block     core.BlockInfo
	stretches []stretch
	records   bool
	tail      int64 // where the last whole frame ends
}

// NewScrubber makes a Scrubber.
func NewScrubber(o ScrubOptions) *Scrubber {
	if o.Period <= 0 {
		o.Period = 7 * 24 * time.Hour
	}
	if o.BytesPerSecond <= 0 {
		o.BytesPerSecond = 1 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hold == nil {
		o.Hold = func(_ context.Context, fn func() error) error { return fn() }
	}
	return &Scrubber{o: o, log: o.Logger, harmless: map[core.BlockID]int64{}, damage: map[string]known{}}
}

// retryAfter is how long Run waits after a pass that failed.
const retryAfter = time.Minute

// Run makes passes until ctx ends.
func (s *Scrubber) Run(ctx context.Context) {
	for failed := ""; ; {
		wait, err := s.next(ctx)
		if err == nil && wait <= 0 {
			if err = s.Pass(ctx); err == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if wait = retryAfter; err.Error() != failed {
				failed = err.Error()
				s.log.Warn("the scrub stopped for now", "err", err)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// next returns how long it is until a pass begins, or goes on.
func (s *Scrubber) next(ctx context.Context) (time.Duration, error) {
	s.passing.Lock()
	defer s.passing.Unlock()
	if err := s.load(ctx); err != nil {
		return 0, err
	}
	if s.progress.open || s.progress.started == 0 {
		return 0, nil
	}
	return time.Unix(s.progress.started, 0).Add(s.o.Period).Sub(s.o.Now()), nil
}

func (s *Scrubber) load(ctx context.Context) (err error) {
	if s.progress == nil {
		s.progress, err = loadProgress(ctx, s.o.Meta)
	}
	return err
}

// Pass reads every block once, or goes on with a pass that was begun before. It waits as it has to, to keep its pace.
func (s *Scrubber) Pass(ctx context.Context) error {
	s.passing.Lock()
	defer s.passing.Unlock()
	err := s.pass(ctx)
	s.note(func(st *ScrubStatus) {
		st.Running = false
		if st.Error = ""; err != nil {
			st.Error = err.Error()
		}
	})
	if err != nil {
		return core.E("reclaim.Scrub", core.Internal, err)
	}
	return nil
}

func (s *Scrubber) pass(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	var list []core.BlockInfo
	total := int64(0)
	err := s.o.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		list = append(list, b)
		total += b.Size
		return nil
	})
	if err != nil {
		return err
	}
	p := s.progress
	p.prune(list)
	p.begin(s.o.Now())
	todo, left := list[:0:0], int64(0)
	for _, b := range list {
		if p.last(b.ID) < p.started {
			todo = append(todo, b)
			left += b.Size
		}
	}
	slices.SortFunc(todo, func(a, b core.BlockInfo) int {
		return cmp.Or(cmp.Compare(p.last(a.ID), p.last(b.ID)), compareIDs(a.ID, b.ID))
	})
	pace := &pacer{perSecond: s.rate(left)}
	s.note(func(st *ScrubStatus) {
		st.Running, st.PassStarted, st.BytesPerSecond = true, time.Unix(p.started, 0).UTC(), pace.perSecond
		st.BytesTotal, st.BytesDone = total, total-left
		st.BlocksTotal, st.BlocksDone = len(list), len(list)-len(todo)
	})
	for _, b := range todo {
		if err := s.block(ctx, b, pace); err != nil {
			return err
		}
		p.verified(b.ID, s.o.Now())
		s.save(ctx, false)
		if len(s.suspects) > 0 && s.o.Now().Sub(s.looked) >= lookEvery {
			if err := s.lookInto(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.lookInto(ctx); err != nil {
		return err
	}
	p.end()
	s.save(ctx, true)
	s.forgetOld()
	s.note(func(st *ScrubStatus) {
		st.Passes++
		st.PassEnded = s.o.Now().UTC()
	})
	return nil
}

// lookEvery is the shortest time between two looks into what is damaged, each of which reads all metadata. What waits is looked into at the end of
// the pass.
const lookEvery = time.Minute

// rate returns how many bytes have to be read in a second so that what is left is read in time.
func (s *Scrubber) rate(left int64) int64 {
	time := max(time.Unix(s.progress.started, 0).Add(s.o.Period).Sub(s.o.Now()), s.o.Period/10)
	return max(s.o.BytesPerSecond, int64(min(float64(left)/time.Seconds(), 1<<50)))
}

// save makes the progress last. Where that fails it is only kept in memory.
func (s *Scrubber) save(ctx context.Context, all bool) {
	changes := s.progress.changes(s.o.Now(), all)
	if len(changes) == 0 {
		return
	}
	writes := make([]Write, len(changes))
	for i, c := range changes {
		writes[i].Change = c
	}
	if _, errs := s.o.Writer.DoAll(ctx, writes); errors.Join(errs...) != nil {
		s.progress.unsaved(changes)
		s.log.Warn("the progress of the scrub is not kept", "err", errors.Join(errs...))
	}
}

// block reads a block and notes what is suspect in it.
func (s *Scrubber) block(ctx context.Context, b core.BlockInfo, pace *pacer) error {
	before, read := int64(0), int64(0)
	s.note(func(st *ScrubStatus) { before = st.BytesDone })
	found, err := scanBlock(ctx, s.o.Blocks, b.ID, b.Size, func(n int) error {
		read += int64(n)
		s.note(func(st *ScrubStatus) { st.BytesDone = before + min(read, b.Size) }) // some bytes are read twice
		return pace.wait(ctx, n)
	})
	s.note(func(st *ScrubStatus) {
		st.BlocksDone++
		st.BytesDone = before + b.Size
	})
	if core.Is(err, core.NoSuchData) {
		return nil // reclaim freed it meanwhile
	}
	if err != nil {
		return err
	}
	cut := found.tail < b.Size
	if b.Kind == core.Snapshot {
		if cut = !found.ended; cut {
			cut = s.hasSize(ctx, b) // else it is being written
		}
	}
	if len(found.stretches) == 0 && (!cut || s.harmless[b.ID] == found.tail && b.Kind != core.Snapshot) {
		return nil
	}
	if b.Kind == core.Large && found.first != 0 {
		known, err := s.o.Meta.Data(ctx, []core.DataID{found.first})
		if err != nil {
			return err
		}
		if len(known) == 0 { // garbage, or still being written
			return nil
		}
	}
	if len(found.stretches) > 0 {
		s.log.Warn("a block is damaged", "block", b.ID, "stretches", len(found.stretches), "first", found.stretches[0].from)
	}
	u := suspect{b, found.stretches, found.records || b.Kind == core.Snapshot, found.tail}
	if cut {
		u.stretches = append(u.stretches, stretch{found.tail, b.Size})
	}
	s.suspects = append(s.suspects, u)
	return nil
}

// hasSize says whether a block is still as long as it was.
func (s *Scrubber) hasSize(ctx context.Context, b core.BlockInfo) (same bool) {
	_ = s.o.Blocks.Walk(ctx, b.ID, func(now core.BlockInfo) error {
		same = now == b
		return errEnough
	})
	return same
}

// Status returns what goes on.
func (s *Scrubber) Status() ScrubStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Found = len(s.damage)
	st.Damaged = make([]Damage, 0, len(s.damage))
	for _, d := range s.damage {
		st.Damaged = append(st.Damaged, d.Damage)
	}
	slices.SortFunc(st.Damaged, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Content, b.Content), cmp.Compare(a.Block, b.Block))
	})
	st.Damaged = st.Damaged[:min(len(st.Damaged), maxDamages)]
	return st
}

func (s *Scrubber) note(fn func(st *ScrubStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status)
}

// damaged notes a damage, in the place of what was known of it.
func (s *Scrubber) damaged(d Damage) {
	d.Found = s.o.Now().UTC()
	key := fmt.Sprint(d.Kind, d.Content)
	if d.Content == 0 {
		key += d.Block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.damage) < 10*maxDamages {
		s.damage[key] = known{d, s.progress.started}
	}
}

// forgetOld forgets damages that this pass did not find again: they were deleted, or mended.
func (s *Scrubber) forgetOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.damage {
		if d.pass != s.progress.started {
			delete(s.damage, key)
		}
	}
}
