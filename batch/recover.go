package batch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// The payload of a record, joined from all its frames, is the offset of the batch in its block (8 bytes, big endian),
// followed by the changes (encoding.AppendChanges).
const recordStart = 8

func appendRecord(b []byte, start int64, changes []core.Change) []byte {
	return encoding.AppendChanges(binary.BigEndian.AppendUint64(b, uint64(start)), changes)
}

// decodeRecord is the inverse of appendRecord.
func decodeRecord(b []byte) (start int64, changes []core.Change, err error) {
	if len(b) < recordStart {
		return 0, nil, errors.New("record too short")
	}
	changes, err = encoding.DecodeChanges(b[recordStart:])
	if err == nil && len(changes) == 0 {
		err = errors.New("record without changes")
	}
	return int64(binary.BigEndian.Uint64(b)), changes, err
}

// Recovery is the result of Recover, and the state from which a Writer continues.
type Recovery struct {
	Seq        core.Seq       // the highest sequence that may have been assigned
	NextData   core.DataID    // the next DataID: no lower one may be assigned again
	ReplayFrom core.BlockID   // State.ReplayFrom
	Voids      []*core.Void   // recorded changes that were not applied: the next record must void them
	Applied    int            // number of changes in blocks that the metadata lacked
	Snapshot   *snapshot.Info // the snapshot from which empty metadata was restored, or nil
	Missing    []Gap          // sequences without a record, although there must have been one
	Relaxed    bool           // the last writer used relaxed durability
	Durable    core.Seq       // everything up to this sequence is durable; later sequences must be voided
	Lost       Gap            // acknowledged changes that a power cut has undone; only with Relaxed

	unnoted bool         // some durable changes are not recorded as durable
	block   core.BlockID // the block of the record with Seq; zero if there is none
}

// Gap is a range of sequences, including both ends.
type Gap struct{ From, To core.Seq }

// found is a record newer than the metadata, found in a block.
type found struct {
	block       core.BlockID
	start, end  int64 // the batch: its content begins at start, its record ends at end
	first, last core.Seq
	relaxed     bool
	note        bool // it records only what was durable
	length      int  // the length of the record, in bytes
}

// Recover updates the metadata from the blocks: it reads the records from State.ReplayFrom on, and applies the changes
// that are newer than State.Seq, in order, except the voided ones. It never needs manual intervention, and can be
// repeated. Empty metadata is rebuilt (see Rebuild).
//
// Unless there is damage, only the last batch can have incomplete content, and it was never acknowledged. Of that
// batch, the changes with complete content are applied. Damage in an earlier batch does not undo it: all its changes
// are applied, and reads of the damaged content fail.
func Recover(ctx context.Context, meta core.Meta, blocks core.Blocks, log *slog.Logger) (*Recovery, error) {
	st, err := meta.State(ctx)
	if err != nil {
		return nil, err
	}
	if st.Seq == 0 && !mutant.Is("no-replay") {
		return Rebuild(ctx, meta, blocks, log, false)
	}
	r := &recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}
	if !mutant.Is("no-replay") {
		if err := r.scanAll(st); err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
		r.keepBeheaded(st)
		end, err := r.cutOff()
		if err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
		if r.relaxed && st.Seq > end {
			return r.again("the metadata is ahead of the blocks, because a power cut lost a part of them", st.Seq)
		}
		gaps := r.gaps()
		overtaken, err := r.overtaken(gaps)
		if err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
		if overtaken {
			return r.again("the metadata is older than the newest snapshot, and records between the two are missing", st.Seq)
		}
		for _, g := range gaps {
			log.Error("acknowledged changes are missing from the blocks", "from", g.From, "to", g.To)
		}
		if err := r.replay(); err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
	}
	return r.outcome()
}

// Rebuild fills empty metadata from the blocks: from the newest intact snapshot, and the later records. If changes are
// missing, because blocks are damaged or lost, it returns Damaged and writes nothing, unless lossy is set.
func Rebuild(ctx context.Context, meta core.Meta, blocks core.Blocks, log *slog.Logger, lossy bool) (*Recovery, error) {
	return rebuild(&recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}, lossy)
}

// rebuild is Rebuild with facts that are already known: the sequence up to which everything is durable, and the
// highest sequence that was ever assigned.
func rebuild(known *recovery, lossy bool) (*Recovery, error) {
	const op = "batch.Rebuild"
	ctx, meta, blocks, log := known.ctx, known.meta, known.blocks, known.log
	snapshots, err := snapshot.List(ctx, blocks)
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	for i := 0; i <= len(snapshots); i++ {
		r := &recovery{ctx: ctx, meta: meta, blocks: blocks, log: log, synced: known.synced, given: known.given, nextData: known.nextData}
		st := core.State{}
		if i < len(snapshots) {
			st = snapshots[i].State
		}
		if err := r.scanAll(st); err != nil {
			return nil, core.E(op, core.Internal, err)
		}
		if _, err := r.cutOff(); err != nil {
			return nil, core.E(op, core.Internal, err)
		}
		gaps := r.gaps()
		if len(gaps) > 0 && !lossy {
			return nil, core.E(op, core.Damaged, fmt.Errorf(
				"changes %d to %d are neither in a block nor in a snapshot: to rebuild the metadata without them, run orcas rebuild --lossy", gaps[0].From, gaps[0].To))
		}
		if i < len(snapshots) {
			err := snapshot.Restore(ctx, blocks, &snapshots[i], meta)
			if core.Is(err, core.Damaged) {
				log.Error("a snapshot of the metadata is damaged; trying an older one", "block", snapshots[i].Block, "err", err)
				snapshots = append(snapshots[:i+1:i+1], snapshot.Without(snapshots[i+1:], &snapshots[i])...)
				continue
			}
			if err != nil {
				return nil, core.E(op, core.Internal, err)
			}
			log.Info("metadata restored from a snapshot", "block", snapshots[i].Block, "seq", snapshots[i].Seq, "rows", snapshots[i].Rows,
				"deltas", len(snapshots[i].Deltas))
		}
		if err := r.replay(); err != nil {
			return nil, core.E(op, core.Internal, err)
		}
		done, err := r.outcome()
		if err == nil {
			done.Missing = gaps
			if i < len(snapshots) {
				done.Snapshot = &snapshots[i]
			}
		}
		return done, err
	}
	panic("unreachable: the last try is without a snapshot")
}

// recovery reads the records of a store and replays them.
//
// One process: the records are those of one writer, whose stamps have no gaps except voided ones. Records of several
// writers would have to note the position of each batch in the commit order (the reserved change 12).
type recovery struct {
	ctx     context.Context
	meta    core.Meta
	blocks  core.Blocks
	log     *slog.Logger
	applied core.Seq // State.Seq before the recovery
	seen    core.Seq // the highest sequence in any record
	records []found
	voids   []*core.Void
	left    []*core.Void
	count   int

	newest core.BlockID // the block of the record with seen, if there is one

	given    core.Seq    // the highest sequence known from other sources
	nextData core.DataID // higher than every DataID seen, even in changes that were not applied
	synced   core.Seq    // everything up to this sequence is durable, according to metadata and records
	relaxed  bool        // there is a record with relaxed durability
	beheaded bool        // the block at State.ReplayFrom, with the newest records that the metadata knows, is missing
	lost     Gap
	end      core.Seq // the last sequence of the remaining history, if relaxed is set
	unnoted  bool     // a batch in the history is more than a note, and not recorded as durable
}

// scanAll collects the records that are newer than a state.
func (r *recovery) scanAll(st core.State) error {
	r.applied, r.seen = st.Seq, max(st.Seq, r.given)
	r.nextData = max(r.nextData, st.NextData)
	r.synced = max(r.synced, st.Synced)
	r.relaxed = r.synced > 0
	r.beheaded = !st.ReplayFrom.IsZero()
	var packed []core.BlockInfo
	err := r.blocks.Walk(r.ctx, st.ReplayFrom, func(b core.BlockInfo) error {
		r.beheaded = r.beheaded && b.ID != st.ReplayFrom
		if b.Kind == core.Packed {
			packed = append(packed, b)
		}
		return nil
	})
	if err == nil {
		err = r.scanBlocks(packed)
	}
	slices.SortFunc(r.records, func(a, b found) int { return cmp.Compare(a.first, b.first) })
	return err
}

// gaps returns the sequences between the state and the last record that are neither in a record nor voided.
func (r *recovery) gaps() []Gap {
	var gaps []Gap
	at := r.applied
	for _, f := range r.records {
		if f.first > at+1 && !r.allVoided(at+1, f.first-1) {
			gaps = append(gaps, Gap{at + 1, f.first - 1})
		}
		at = max(at, f.last)
	}
	return gaps
}

// overtaken reports whether an intact snapshot contains changes that are missing from the records between the metadata
// and the snapshot. This happens after an old copy of the database was restored: blocks are deleted once a snapshot
// covers their records and the database was synced after it.
func (r *recovery) overtaken(gaps []Gap) (bool, error) {
	if len(gaps) == 0 {
		return false, nil
	}
	list, err := snapshot.List(r.ctx, r.blocks)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(i snapshot.Info) bool { return i.Seq < gaps[len(gaps)-1].To })
	newest, err := snapshot.Newest(r.ctx, r.blocks, list)
	return newest != nil, err
}

// outcome returns the result of the recovery.
func (r *recovery) outcome() (*Recovery, error) {
	st, err := r.meta.State(r.ctx)
	if err != nil {
		return nil, err
	}
	if f, ok := core.As[core.Flusher](r.blocks); ok && r.relaxed {
		// A killed process has left its last writes to the operating system.
		if err := f.Sync(r.ctx); err != nil {
			return nil, err
		}
	}
	durable := max(st.Seq, r.seen)
	if r.relaxed {
		durable = r.end
	}
	return &Recovery{
		Durable: durable, Seq: max(st.Seq, r.seen), NextData: max(st.NextData, r.nextData), ReplayFrom: st.ReplayFrom, Voids: r.left, Applied: r.count, Relaxed: r.relaxed, Lost: r.lost,
		unnoted: r.relaxed && r.unnoted, block: r.newest,
	}, nil
}

// The changes that recovery passes to one Apply: at least applyTogether, unless their records are longer than applyBytes.
const (
	applyTogether = 20_000
	applyBytes    = 16 << 20
)

// changeGroup is a list of changes to apply together, or the error that ended the reading of records.
type changeGroup struct {
	changes []core.Change
	err     error
}

// replay applies the records that scan found, in the order of their sequences. Another goroutine reads the next records
// in the meantime.
func (r *recovery) replay() error {
	groups, stop := make(chan changeGroup), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(groups)
		if err := r.loadAll(groups, stop); err != nil {
			select {
			case groups <- changeGroup{err: err}:
			case <-stop:
			}
		}
	})
	var err error
	for g := range groups {
		if err = g.err; err == nil {
			_, err = r.meta.Apply(r.ctx, g.changes)
		}
		if err != nil {
			break
		}
		r.count += len(g.changes)
	}
	close(stop)
	reading.Wait()
	if err != nil {
		return err
	}
	if r.count > 0 {
		if c, ok := core.As[core.Checkpointer](r.meta); ok {
			if err := c.Checkpoint(r.ctx); err != nil { // for example, the drive is full; the next start replays the same changes
				r.log.Warn("could not sync the recovered writes; the next start may apply them again", "err", err)
			}
		}
		r.log.Info("recovered writes from the blocks", "changes", r.count, "batches", len(r.records))
	}
	return nil
}

// loadAll sends the changes of all records that are to be applied, until stop is closed.
func (r *recovery) loadAll(groups chan<- changeGroup, stop <-chan struct{}) error {
	var together []core.Change
	length := 0
	for i, f := range r.records {
		last := i == len(r.records)-1
		if f.last > r.applied {
			changes, broken, err := r.load(f)
			if err != nil {
				return fmt.Errorf("block %s at %d: %w", f.block, f.start, err)
			}
			together = append(together, r.keep(changes, broken, last)...)
			if length += f.length; len(broken) > 0 && !last {
				r.log.Error("content of an acknowledged batch is damaged", "block", f.block, "contents", len(broken))
			}
		}
		if len(together) == 0 || !last && len(together) < applyTogether && length < applyBytes {
			continue
		}
		select {
		case groups <- changeGroup{changes: together}:
		case <-stop:
			return nil
		}
		together, length = make([]core.Change, 0, len(together)), 0
	}
	return nil
}

// keep returns the changes of a batch that are to be applied: not the voided ones and, if it is the last batch, not
// those whose content is broken.
func (r *recovery) keep(changes []core.Change, broken map[core.DataID]bool, last bool) []core.Change {
	return slices.DeleteFunc(changes, func(c core.Change) bool {
		seq := c.Stamp()
		if r.voided(seq) {
			return true
		}
		if last && bringsAny(c, broken) && !mutant.Is("no-tail-cut") {
			r.log.Warn("an incomplete write was not applied: its content is cut off", "seq", seq)
			r.left = append(r.left, &core.Void{From: seq, To: seq})
			return true
		}
		return false
	})
}

func (r *recovery) voided(seq core.Seq) bool {
	for _, v := range r.voids {
		if v.From <= seq && seq <= v.To {
			return true
		}
	}
	return false
}

// load reads a batch again. It returns its changes, and the IDs of its content that is damaged or incomplete.
func (r *recovery) load(f found) (changes []core.Change, broken map[core.DataID]bool, err error) {
	rd, err := r.blocks.Open(r.ctx, core.Extent{Block: f.block, Length: f.end})
	if err != nil {
		return nil, nil, err
	}
	defer rd.Close()
	s := &frame.Scanner{R: rd, Block: f.block, Size: f.end}
	frames, whole := map[uint64]uint32{}, map[core.DataID]bool{}
	for at := f.start; at < f.end; {
		h, err := s.Header(at)
		if err == nil && h.Type == frame.Record {
			payload, _, err := readRecord(s, h)
			if err != nil {
				return nil, nil, err
			}
			if _, changes, err = decodeRecord(payload); err != nil {
				return nil, nil, err
			}
			break
		}
		if err == nil {
			if _, err = s.Payload(h); err == nil && h.Index == frames[h.ID] {
				frames[h.ID]++
				whole[core.DataID(h.ID)] = h.Last
			}
			at = h.End()
		}
		switch {
		case err == nil:
		case errors.Is(err, frame.ErrDamaged) && h.Stored > 0: // only this payload is damaged
		case errors.Is(err, frame.ErrNotFrame), errors.Is(err, frame.ErrDamaged):
			if at, err = s.Next(at + 1); err != nil {
				return nil, nil, err
			}
			if at < 0 {
				return nil, nil, errTail
			}
		default:
			return nil, nil, err
		}
	}
	return changes, missing(changes, f, whole), nil
}

// missing returns the IDs of the content in this batch that belongs to its changes and is incomplete.
func missing(changes []core.Change, f found, whole map[core.DataID]bool) map[core.DataID]bool {
	broken := map[core.DataID]bool{}
	for _, c := range changes {
		eachContent(c, func(id core.DataID, extents []core.Extent) {
			if len(extents) != 1 {
				return
			}
			e := extents[0]
			if e.Block == f.block && e.Offset >= f.start && e.Offset < f.end && !whole[id] {
				broken[id] = true
			}
		})
	}
	return broken
}

// eachContent calls fn for all content whose extents are in a change.
func eachContent(c core.Change, fn func(id core.DataID, extents []core.Extent)) {
	var segments []core.Segment
	switch c := c.(type) {
	case *core.PutObject:
		segments = c.Object.Segments
	case *core.PutPart:
		segments = c.Part.Segments
	case *core.MoveData:
		fn(c.Data, c.To)
	case *core.RepairData:
		fn(c.Info.ID, c.Info.Extents)
	}
	for i := range segments {
		if segments[i].Info != nil {
			fn(segments[i].Data, segments[i].Info.Extents)
		}
	}
}

func bringsAny(c core.Change, ids map[core.DataID]bool) (brings bool) {
	eachContent(c, func(id core.DataID, _ []core.Extent) { brings = brings || ids[id] })
	return brings
}
