// Package scrub regularly reads every block of a store, so that damage is found while another copy still exists. It
// repairs damaged content if it finds such a copy.
package scrub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/verify"
	"orcas/fsck"
	"orcas/internal/mutant"
	"orcas/lease"
)

// Options configure a Scrubber. Meta, Blocks and Writer are required; for all other fields, the zero value selects the
// default.
type Options struct {
	Meta   fsck.Source
	Blocks core.Blocks
	Writer batch.Doer

	Period         time.Duration // time in which every block is read once; default 7 days
	BytesPerSecond int64         // minimum rate of a background pass, so that a small store takes less time; default 1 MiB

	// Pause calls fn while no content is moved and nothing else depends on its position (see reclaim.Reclaimer.Pause).
	// If it is nil, fn is called directly.
	Pause func(ctx context.Context, fn func() error) error

	// Repair stores damaged content again, from equal content. If it is nil, the scrub can only copy the stored frames
	// of content with one extent.
	Repair func(ctx context.Context, damaged, from *core.DataInfo) error

	// Compare finds missing blocks (see fsck.Compare). Each pass calls it. If it is nil, the scrub does not look for
	// missing blocks.
	Compare func(ctx context.Context) (*fsck.Comparison, error)

	// NewSnapshot writes a new snapshot of the metadata, because an old snapshot or records are damaged. If it is nil,
	// such damage is only reported.
	NewSnapshot func(ctx context.Context) error

	Logger *slog.Logger
	Now    func() time.Time
	Leases lease.Leases // the leases of the store; nil if no other process scrubs
}

// Damage describes damage in a block that could not be repaired.
type Damage struct {
	Kind    string            `json:"kind"` // fsck.KindContent, fsck.KindSnapshot, or KindRecord
	Block   string            `json:"block"`
	Text    string            `json:"text"`
	Found   time.Time         `json:"found"`
	Content core.DataID       `json:"content,omitempty"`
	Bytes   int64             `json:"bytes,omitempty"`   // plain size of the content
	Objects []fsck.ObjectName `json:"objects,omitempty"` // the first objects that refer to the content
	Users   int               `json:"users,omitempty"`   // the number of references from objects
}

// KindRecord is the kind of Damage to bytes that do not form a frame and may have been a record. A snapshot that
// covers the record makes the record unnecessary.
const KindRecord = "record"

// Status is the progress of the current pass, and the results of earlier ones.
type Status struct {
	Running        bool      `json:"running"`
	PassStarted    time.Time `json:"pass_started"` // start of the current or last pass
	PassEnded      time.Time `json:"pass_ended"`   // end of the last pass that was completed
	BytesDone      int64     `json:"bytes_done"`   // in the current pass
	BytesTotal     int64     `json:"bytes_total"`
	BlocksDone     int       `json:"blocks_done"`
	BlocksTotal    int       `json:"blocks_total"`
	BytesPerSecond int64     `json:"bytes_per_second"`    // maximum rate; 0 means no limit
	Asked          bool      `json:"asked"`               // a command requested the current or last pass
	Passes         int       `json:"passes"`              // passes completed since the start
	Repaired       int       `json:"mended"`              // pieces of content repaired since the start
	Snapshots      int       `json:"snapshots_requested"` // snapshots of the metadata requested since the start
	BadSnapshots   int       `json:"snapshots_replaced"`  // damaged snapshots for which a new one was requested
	BadRecords     int       `json:"records_replaced"`    // blocks with damaged records for which a snapshot was requested
	Missing        int       `json:"missing_blocks"`      // missing blocks that the metadata refers to
	Lost           int       `json:"lost_contents"`       // pieces of content in missing blocks
	LostBytes      int64     `json:"lost_bytes"`
	EverFound      int       `json:"damaged_ever"` // pieces of damage found since the start, repaired or not
	Found          int       `json:"damaged_total"`
	Damaged        []Damage  `json:"damaged"` // at most maxDamages of Found
	Error          string    `json:"error,omitempty"`
}

// maxDamages is the maximum length of Status.Damaged.
const maxDamages = 1000

// Scrubber reads every frame of every block, again and again, beginning with the least recently verified block.
//
// It never deletes anything. Damaged content is written again from an intact copy, if there is one: equal content, or
// the frames from before reclaim moved the content. The damaged extents become garbage. Content that cannot be repaired
// is reported with the names of the objects that refer to it.
//
// A block may end in bytes that are not a frame, because a crash or a failed batch cut it off. To decide whether those
// bytes, or any other stretch without valid frames, are damage, the scrub looks up in the metadata which content should
// be there, and reads it again. It reports damage only if this fails too.
type Scrubber struct {
	o   Options
	log *slog.Logger

	// One process: the progress is read only once, so a pass ignores the progress that another server has made since.
	loading  sync.Mutex // guards progress
	progress *progress

	passing   sync.Mutex // held during a pass; guards the four fields below
	suspects  []suspect
	inspected time.Time              // when suspects were last inspected
	harmless  map[core.BlockID]int64 // for blocks whose tail is not damage: the end of the last valid frame
	unread    map[core.BlockID]bool  // suspects that the drive could not read completely

	mu        sync.Mutex // guards the fields below
	status    Status
	damage    map[string]known
	interrupt context.CancelCauseFunc // ends the current background pass; nil if there is none
	asked     *askedPass              // the current pass of Now; nil if there is none
}

// known is a Damage, and the start of the last pass that found it.
type known struct {
	Damage
	pass int64
}

// suspect is a block that may be damaged.
type suspect struct {
	block     core.BlockInfo
	stretches []verify.Stretch
	records   bool  // one of the stretches may be a record or a snapshot
	tail      int64 // the end of the last valid frame
}

// New returns a Scrubber.
func New(o Options) *Scrubber {
	o.Period = cmp.Or(max(o.Period, 0), 7*24*time.Hour)
	o.BytesPerSecond = cmp.Or(max(o.BytesPerSecond, 0), 1<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Leases = cmp.Or[lease.Leases](o.Leases, &lease.Local{})
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = func(_ context.Context, fn func() error) error { return fn() }
	}
	return &Scrubber{o: o, log: o.Logger, harmless: map[core.BlockID]int64{}, damage: map[string]known{}}
}

// retryAfter is how long Run waits after a failed pass.
const retryAfter = time.Minute

// Run makes a pass in each period until ctx is canceled.
func (s *Scrubber) Run(ctx context.Context) {
	for failed := ""; ; {
		wait, err := s.passIfDue(ctx)
		if errors.Is(err, errTakenOver) || err == nil && wait <= 0 {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if wait = retryAfter; err.Error() != failed {
				failed = err.Error()
				s.log.Warn("the scrub failed before it had verified everything; it continues after a pause: if it fails again, check the drive", "retry_in_seconds", retryAfter.Seconds(), "err", err)
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

// passIfDue starts or resumes a pass if the period has elapsed, and otherwise returns the time until then. It decides
// while no other pass is running, so that a background pass does not immediately follow a pass of Now.
func (s *Scrubber) passIfDue(ctx context.Context) (wait time.Duration, err error) {
	s.passing.Lock()
	defer s.passing.Unlock()
	if err := s.load(ctx); err != nil {
		return 0, err
	}
	if !s.progress.open && s.progress.started != 0 {
		wait = time.Unix(s.progress.started, 0).Add(s.o.Period).Sub(s.o.Now())
	}
	if wait > 0 {
		return wait, nil
	}
	return 0, s.backgroundPass(ctx)
}

func (s *Scrubber) load(ctx context.Context) (err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.progress == nil {
		s.progress, err = loadProgress(ctx, s.o.Meta)
	}
	return err
}

// Verified returns the time at which a block was last read to its end and found intact, or at which its damaged content
// was repaired or marked as damaged. It returns the zero time if the block was never verified.
func (s *Scrubber) Verified(ctx context.Context, id core.BlockID) (time.Time, error) {
	if err := s.load(ctx); err != nil {
		return time.Time{}, core.E("scrub.Verified", core.Internal, err)
	}
	if second := s.progress.last(id); second != 0 {
		return time.Unix(second, 0), nil
	}
	return time.Time{}, nil
}

// pass makes a pass, or completes an interrupted pass. If restart is set, it always begins a new pass. If pace is nil,
// it reads at the rate of background passes.
func (s *Scrubber) pass(ctx context.Context, pace *verify.Pacer, restart bool) error {
	return s.o.Leases.Do(ctx, lease.Scrub, func(ctx context.Context) error { return s.leasedPass(ctx, pace, restart) })
}

// leasedPass is like pass, but the caller must hold the lease.
func (s *Scrubber) leasedPass(ctx context.Context, pace *verify.Pacer, restart bool) error {
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
	compared, err := s.compare(ctx)
	if err != nil {
		return err
	}
	p := s.progress
	p.prune(list)
	if restart {
		p.abandon()
	}
	p.begin(s.o.Now())
	todo, left := p.todo(list)
	asked := pace != nil
	if !asked {
		pace = verify.NewPacer(s.rate(left))
	}
	s.note(func(st *Status) {
		st.Running, st.Asked, st.PassStarted, st.BytesPerSecond = true, asked, time.Unix(p.started, 0).UTC(), pace.Rate()
		st.BytesTotal, st.BytesDone = total, total-left
		st.BlocksTotal, st.BlocksDone = len(list), len(list)-len(todo)
	})
	s.suspects = nil // the suspects of a failed pass are not verified yet, so they are read again
	for _, b := range todo {
		suspects := len(s.suspects)
		if err := s.block(ctx, b, pace); err != nil {
			return err
		}
		if len(s.suspects) == suspects || mutant.Is("suspects-verified") {
			p.verified(b.ID, s.o.Now())
			s.save(ctx, false)
		}
		if len(s.suspects) > 0 && s.o.Now().Sub(s.inspected) >= inspectEvery {
			if err := s.inspectSuspects(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.inspectSuspects(ctx); err != nil {
		return err
	}
	if !compared { // try again; if this fails too, the next pass will search
		if _, err := s.compare(ctx); err != nil {
			return err
		}
	}
	p.end()
	s.save(ctx, true)
	s.forgetOld()
	s.note(func(st *Status) {
		st.Passes++
		st.PassEnded = s.o.Now().UTC()
	})
	return nil
}

// inspectSuspects repairs or reports the damage in the suspects. They then count as verified, except for those that the
// drive could not read.
func (s *Scrubber) inspectSuspects(ctx context.Context) error {
	suspects := s.suspects
	s.unread = map[core.BlockID]bool{}
	if err := s.inspect(ctx); err != nil {
		return err
	}
	for _, u := range suspects {
		if !s.unread[u.block.ID] {
			s.progress.verified(u.block.ID, s.o.Now())
		}
	}
	s.save(ctx, false)
	return nil
}

// compare looks for missing blocks, and repairs their content if possible. If the comparison was aborted in favor of
// writes, it returns false without an error, because the existing blocks can still be read.
func (s *Scrubber) compare(ctx context.Context) (done bool, err error) {
	if s.o.Compare == nil || mutant.Is("no-scrub-compare") {
		return true, nil
	}
	found, err := s.o.Compare(ctx)
	if err == nil {
		lost, bytes := found.Lost()
		s.note(func(st *Status) { st.Missing, st.Lost, st.LostBytes = len(found.Missing), lost, bytes })
		err = s.repairMissing(ctx, found)
	}
	if core.Is(err, core.Busy) {
		s.log.Warn("the search for missing blocks was aborted in favor of writes; it will be retried", "err", err)
		return false, nil
	}
	return err == nil, err
}

// inspectEvery is the minimum time between two inspections of suspects within a pass, because each inspection reads all
// metadata. There is always an inspection at the end of a pass.
const inspectEvery = time.Minute

// rate returns the rate in bytes per second at which a background pass reads the remaining bytes by the end of the
// period.
func (s *Scrubber) rate(left int64) int64 {
	time := max(time.Unix(s.progress.started, 0).Add(s.o.Period).Sub(s.o.Now()), s.o.Period/10)
	return max(s.o.BytesPerSecond, int64(min(float64(left)/time.Seconds(), 1<<50)))
}

// save writes the progress as records. If that fails, the progress is kept in memory only.
func (s *Scrubber) save(ctx context.Context, all bool) {
	changes := s.progress.changes(s.o.Now(), all)
	if len(changes) == 0 {
		return
	}
	writes := make([]batch.Write, len(changes))
	for i, c := range changes {
		writes[i].Change = c
	}
	if _, errs := s.o.Writer.DoAll(ctx, writes); errors.Join(errs...) != nil {
		s.progress.unsaved(changes)
		s.log.Warn("cannot save the progress of the scrub: a restart would repeat a part of the pass", "err", errors.Join(errs...))
	}
}

// block reads a block and adds it to the suspects if something in it may be damaged.
func (s *Scrubber) block(ctx context.Context, b core.BlockInfo, pace *verify.Pacer) error {
	before, read := int64(0), int64(0)
	s.note(func(st *Status) { before = st.BytesDone })
	found, err := verify.Block(ctx, s.o.Blocks, b.ID, b.Size, func(n int) error {
		read += int64(n)
		s.note(func(st *Status) { st.BytesDone = before + min(read, b.Size) }) // after damage, some bytes are read twice
		return pace.Wait(ctx, n)
	})
	s.note(func(st *Status) {
		st.BlocksDone++
		st.BytesDone = before + b.Size
	})
	if core.Is(err, core.NoSuchData) {
		return nil // reclaim has deleted the block
	}
	if err != nil {
		return err
	}
	cut := found.Tail < b.Size
	if b.Kind == core.Snapshot {
		if cut = !found.Ended; cut {
			cut = s.hasSize(ctx, b) // a snapshot that has grown is still being written
		}
	}
	if len(found.Damaged) == 0 && (!cut || s.harmless[b.ID] == found.Tail && b.Kind != core.Snapshot) {
		return nil
	}
	if b.Kind == core.Large && found.First != 0 {
		known, err := s.o.Meta.Data(ctx, []core.DataID{found.First})
		if err != nil {
			return err
		}
		if len(known) == 0 { // garbage, or still being written
			return nil
		}
	}
	if len(found.Damaged) > 0 {
		s.log.Warn("a block contains damaged bytes", "block", b.ID, "stretches", len(found.Damaged), "first", found.Damaged[0].From)
	}
	u := suspect{b, found.Damaged, found.Records || b.Kind == core.Snapshot, found.Tail}
	if cut {
		u.stretches = append(u.stretches, verify.Stretch{From: found.Tail, To: b.Size})
	}
	s.suspects = append(s.suspects, u)
	return nil
}

// errFound ends a walk over blocks.
var errFound = errors.New("found")

// hasSize reports whether a block still has the size in b.
func (s *Scrubber) hasSize(ctx context.Context, b core.BlockInfo) (same bool) {
	_ = s.o.Blocks.Walk(ctx, b.ID, func(now core.BlockInfo) error {
		same = now == b
		return errFound
	})
	return same
}

// Status returns the current status.
func (s *Scrubber) Status() Status {
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

func (s *Scrubber) note(fn func(st *Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status)
}

// damaged adds a Damage, replacing an older one for the same content or block.
func (s *Scrubber) damaged(d Damage) {
	d.Found = s.o.Now().UTC()
	key := fmt.Sprint(d.Kind, d.Content)
	if d.Content == 0 {
		key += d.Block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.damage[key]; !again {
		s.status.EverFound++
	}
	if len(s.damage) < 10*maxDamages {
		s.damage[key] = known{d, s.progress.started}
	}
}

// forgetOld deletes every Damage that this pass did not find again, because it was repaired or its content was deleted.
func (s *Scrubber) forgetOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.damage {
		if d.pass != s.progress.started {
			delete(s.damage, key)
		}
	}
}
