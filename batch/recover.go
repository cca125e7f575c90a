package batch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"orcas/core"
	"orcas/core/frame"
	"orcas/core/snapshot"
	"orcas/internal/mutant"
)

// The payload of a record, over all its frames: 8 bytes, big endian, with the offset at which the batch begins in its block,
// then the changes (core.AppendChanges).
const recordStart = 8

func appendRecord(b []byte, start int64, changes []core.Change) []byte {
	return core.AppendChanges(binary.BigEndian.AppendUint64(b, uint64(start)), changes)
}

// decodeRecord is the inverse of appendRecord.
func decodeRecord(b []byte) (start int64, changes []core.Change, err error) {
	if len(b) < recordStart {
		return 0, nil, errors.New("record too short")
	}
	changes, err = core.DecodeChanges(b[recordStart:])
	if err == nil && len(changes) == 0 {
		err = errors.New("record without changes")
	}
	return int64(binary.BigEndian.Uint64(b)), changes, err
}

// Recovery is what Recover found and what a Writer has to go on with.
type Recovery struct {
	Seq      core.Seq       // no sequence up to it may be given away again
	NextData core.DataID    // nor any DataID below it
	Floor    core.BlockID   // State.Floor
	Voids    []*core.Void   // recorded, but left out: to be voided by the next record
	Applied  int            // changes that were in blocks and not in the metadata
	Snapshot *snapshot.Info // from which empty metadata was filled first; nil: from none
	Missing  []Gap          // sequences of which no record was found where there must have been one
	Relaxed  bool           // the last writer answered before its batches were durable
	Durable  core.Seq       // up to here everything is durable; above it are only Voids to be
	Lost     Gap            // what a power cut took of what was answered: nothing but with such a writer
}

// Gap is a run of sequences.
type Gap struct{ From, To core.Seq }

// found is a record newer than the metadata, found in a block.
type found struct {
	block       core.BlockID
	start, end  int64 // the batch: its contents from start on, its record up to end
	first, last core.Seq
	relaxed     bool
}

// Recover brings the metadata up to what the blocks say: it reads the records from State.Floor on, and applies those changes that
// are newer than State.Seq, in order, but for the voided ones. It needs no repair by hand and is harmless to repeat. Empty metadata
// is rebuilt (see Rebuild).
//
// A batch whose contents are not whole can only be one that was never acknowledged: the last. Of it, those changes are applied
// whose own content is whole. Damage in an earlier batch is no reason to forget what it wrote: everything is applied, and a read of the
// damaged content says so.
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
		end, err := r.cutOff()
		if err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
		if r.relaxed && st.Seq > end {
			return r.again("the metadata is ahead of what the power cut left", st.Seq)
		}
		gaps := r.gaps()
		overtaken, err := r.overtaken(gaps)
		if err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
		if overtaken {
			return r.again("the metadata is older than the newest snapshot, and records between the two are gone", st.Seq)
		}
		for _, g := range gaps {
			log.Error("acknowledged changes are in no block any more", "from", g.From, "to", g.To)
		}
		if err := r.replay(); err != nil {
			return nil, core.E("batch.Recover", core.Internal, err)
		}
	}
	return r.outcome()
}

// Rebuild fills empty metadata from the blocks: from the newest snapshot that is whole, and the records behind it. Where changes are
// missing, which only damage or a loss of blocks explains, it is Damaged and nothing is written, unless lossy says that what there is is wanted all the same.
func Rebuild(ctx context.Context, meta core.Meta, blocks core.Blocks, log *slog.Logger, lossy bool) (*Recovery, error) {
	return rebuild(&recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}, lossy)
}

// rebuild is Rebuild with what is known already: up to where everything is durable, and the highest sequence that was ever given away.
func rebuild(known *recovery, lossy bool) (*Recovery, error) {
	const op = "batch.Rebuild"
	ctx, meta, blocks, log := known.ctx, known.meta, known.blocks, known.log
	snapshots, err := snapshot.List(ctx, blocks)
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	for i := range len(snapshots) + 1 {
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
				"the changes %d to %d are in no block and no snapshot: orcas rebuild --lossy makes of the rest what it can", gaps[0].From, gaps[0].To))
		}
		if i < len(snapshots) {
			restorer, ok := meta.(core.Snapshotter)
			if !ok {
				return nil, core.E(op, core.Unsupported, errors.New("this engine restores no snapshots"))
			}
			err := snapshot.Restore(ctx, blocks, &snapshots[i], restorer)
			if core.Is(err, core.Damaged) {
				log.Error("a snapshot of the metadata is damaged: trying an older one", "block", snapshots[i].Block, "err", err)
				continue
			}
			if err != nil {
				return nil, core.E(op, core.Internal, err)
			}
			log.Info("metadata restored from a snapshot", "block", snapshots[i].Block, "seq", snapshots[i].Seq, "rows", snapshots[i].Rows)
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

type recovery struct {
	ctx     context.Context
	meta    core.Meta
	blocks  core.Blocks
	log     *slog.Logger
	applied core.Seq // State.Seq before
	seen    core.Seq // the highest sequence in any record
	records []found
	voids   []*core.Void
	left    []*core.Void
	count   int

	given    core.Seq    // the highest sequence that is known from elsewhere
	nextData core.DataID // no DataID from it on was ever seen, whether or not its change is kept
	synced   core.Seq    // up to here everything is durable, as far as metadata and records say
	relaxed  bool        // some record was answered before it was durable
	lost     Gap
	end      core.Seq // the last sequence of the history that is left; with relaxed
}

// scanAll notes what is newer than a state.
func (r *recovery) scanAll(st core.State) error {
	r.applied, r.seen = st.Seq, max(st.Seq, r.given)
	r.nextData = max(r.nextData, st.NextData)
	r.synced = max(r.synced, st.Synced)
	r.relaxed = r.synced > 0
	err := r.blocks.Walk(r.ctx, st.Floor, func(b core.BlockInfo) error {
		if b.Kind != core.Packed {
			return nil
		}
		return r.scan(b)
	})
	slices.SortFunc(r.records, func(a, b found) int { return cmp.Compare(a.first, b.first) })
	return err
}

// gaps returns the sequences between the state and the last record that are in none and were not voided.
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

// overtaken says whether a snapshot that is whole holds what the records between the metadata and it no longer say. So it is where somebody
// has put an old copy of the database in its place: blocks go once a snapshot covers their records and the database is durable behind it.
func (r *recovery) overtaken(gaps []Gap) (bool, error) {
	if len(gaps) == 0 {
		return false, nil
	}
	list, err := snapshot.List(r.ctx, r.blocks)
	if err != nil {
		return false, err
	}
	for i := range list {
		if list[i].Seq < gaps[len(gaps)-1].To {
			continue
		}
		switch err := snapshot.Read(r.ctx, r.blocks, &list[i], func(*core.Row) error { return nil }); {
		case err == nil:
			return true, nil
		case !core.Is(err, core.Damaged):
			return false, err
		}
	}
	return false, nil
}

// outcome says where the metadata stands.
func (r *recovery) outcome() (*Recovery, error) {
	st, err := r.meta.State(r.ctx)
	if err != nil {
		return nil, err
	}
	if f, ok := r.blocks.(core.Flusher); ok && r.relaxed {
		// A process that was killed has left it to the operating system.
		if err := f.Sync(r.ctx); err != nil {
			return nil, err
		}
	}
	durable := max(st.Seq, r.seen)
	if r.relaxed {
		durable = r.end
	}
	return &Recovery{
		Durable: durable, Seq: max(st.Seq, r.seen), NextData: max(st.NextData, r.nextData), Floor: st.Floor, Voids: r.left, Applied: r.count, Relaxed: r.relaxed, Lost: r.lost,
	}, nil
}

// scan notes the records of a block that are newer than the metadata.
func (r *recovery) scan(b core.BlockInfo) error {
	return r.eachRecord(b, func(payload []byte, end int64) error {
		return r.note(b.ID, payload, end)
	}, func(to int64) {
		r.log.Warn("skipped a damaged stretch of a block", "block", b.ID, "to", to)
	})
}

// eachRecord calls fn with each whole record of a block and where it ends, and skipped behind a stretch that is no frame. An error of fn that is about
// the bytes counts as damage.
func (r *recovery) eachRecord(b core.BlockInfo, fn func(payload []byte, end int64) error, skipped func(to int64)) error {
	if b.Size <= frame.BlockHeaderSize {
		return nil // a crash right after it was created
	}
	rd, err := r.blocks.Open(r.ctx, core.Extent{Block: b.ID, Length: b.Size})
	if err != nil {
		return err
	}
	defer rd.Close()
	s := &frame.Scanner{R: rd, Block: b.ID, Size: b.Size}
	for at := int64(frame.BlockHeaderSize); ; {
		h, err := s.Header(at)
		if err == nil && h.Type == frame.Data {
			r.nextData = max(r.nextData, core.DataID(h.ID)+1)
			at = h.End()
			continue
		}
		var payload []byte
		end := at
		if err == nil {
			payload, end, err = readRecord(s, h)
		}
		if err == nil {
			err = fn(payload, end)
		}
		switch {
		case err == nil:
			at = end
		case errors.Is(err, frame.ErrNotFrame), errors.Is(err, frame.ErrDamaged), errors.Is(err, errTail):
			// The written part ends here, or something is damaged: go on at the next frame, if there is one.
			if at, err = s.Next(at + 1); err != nil {
				return err
			}
			if at < 0 {
				return nil
			}
			skipped(at)
		default:
			return fmt.Errorf("block %s at %d: %w", b.ID, at, err)
		}
	}
}

// note keeps where a record stands, if it is newer than the metadata.
func (r *recovery) note(block core.BlockID, payload []byte, end int64) error {
	start, changes, err := decodeRecord(payload)
	if err != nil {
		return err
	}
	first, last := core.FirstPlace(changes[0]), changes[len(changes)-1].Place().Seq
	r.seen = max(r.seen, last)
	relaxed := false
	for _, c := range changes {
		eachContent(c, func(id core.DataID, _ []core.Extent) { r.nextData = max(r.nextData, id+1) })
		switch c := c.(type) {
		case *core.Void:
			r.voids = append(r.voids, c)
		case *core.Synced:
			r.synced = max(r.synced, c.UpTo)
			relaxed = relaxed || c.Relaxed
		}
	}
	r.relaxed = r.relaxed || relaxed
	if last > r.applied || r.relaxed {
		r.records = append(r.records, found{block, start, end, first, last, relaxed})
	}
	return nil
}

// applyTogether is how many changes recovery gathers for one Apply.
const applyTogether = 2000

// replay applies what scan found, in the order of sequences.
func (r *recovery) replay() error {
	var together []core.Change
	for i, f := range r.records {
		if f.last <= r.applied {
			continue
		}
		changes, broken, err := r.load(f)
		if err != nil {
			return fmt.Errorf("block %s at %d: %w", f.block, f.start, err)
		}
		changes = slices.DeleteFunc(changes, func(c core.Change) bool {
			seq := c.Place().Seq
			if r.voided(seq) {
				return true
			}
			if i == len(r.records)-1 && bringsAny(c, broken) && !mutant.Is("no-tail-cut") {
				r.log.Warn("left out a write that was cut off", "seq", seq)
				r.left = append(r.left, &core.Void{From: seq, To: seq})
				return true
			}
			return false
		})
		if len(broken) > 0 && i < len(r.records)-1 {
			r.log.Error("content of an acknowledged batch is damaged", "block", f.block, "contents", len(broken))
		}
		together = append(together, changes...)
		if len(together) < applyTogether && i < len(r.records)-1 || len(together) == 0 {
			continue
		}
		if _, err := r.meta.Apply(r.ctx, together); err != nil {
			return err
		}
		r.count += len(together)
		together = together[:0]
	}
	if r.count > 0 {
		if c, ok := r.meta.(core.Checkpointer); ok {
			if err := c.Checkpoint(r.ctx); err != nil { // a full drive, say: the next crash has to replay as much
				r.log.Warn("the recovered writes could not be made to last: another start may apply them again", "err", err)
			}
		}
		r.log.Info("recovered writes from the blocks", "changes", r.count, "batches", len(r.records))
	}
	return nil
}

func (r *recovery) voided(seq core.Seq) bool {
	for _, v := range r.voids {
		if v.From <= seq && seq <= v.To {
			return true
		}
	}
	return false
}

// load reads a batch again, whole: its changes, and the contents in it that fail their checksums.
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
		case errors.Is(err, frame.ErrDamaged) && h.Stored > 0: // this payload only
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

// missing returns the contents that the changes bring from this very batch and that are not whole in it.
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

// eachContent calls fn with each content that a change says to stand somewhere.
func eachContent(c core.Change, fn func(id core.DataID, extents []core.Extent)) {
	var segments []core.Segment
	switch c := c.(type) {
	case *core.PutObject:
		segments = c.Object.Segments
	case *core.PutPart:
		segments = c.Part.Segments
	case *core.MoveData:
		fn(c.Data, c.To)
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
