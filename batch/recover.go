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
}

// Gap is a run of sequences.
type Gap struct{ From, To core.Seq }

// found is a record newer than the metadata, found in a block.
type found struct {
	block       core.BlockID
	start, end  int64 // the batch: its contents from start on, its record up to end
	first, last core.Seq
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
		for _, g := range r.gaps() {
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
	const op = "batch.Rebuild"
	snapshots, err := snapshot.List(ctx, blocks)
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	for i := range len(snapshots) + 1 {
		r := &recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}
		st := core.State{}
		if i < len(snapshots) {
			st.Seq = snapshots[i].Seq
		}
		if err := r.scanAll(st); err != nil {
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
}

// scanAll notes what is newer than a state.
func (r *recovery) scanAll(st core.State) error {
	r.applied, r.seen = st.Seq, st.Seq
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
	known := make([]Gap, 0, len(r.records)+len(r.voids))
	for _, f := range r.records {
		known = append(known, Gap{f.first, f.last})
	}
	for _, v := range r.voids {
		known = append(known, Gap{v.From, v.To})
	}
	slices.SortFunc(known, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	var gaps []Gap
	at := r.applied
	for _, k := range known {
		if k.From > at+1 {
			gaps = append(gaps, Gap{at + 1, k.From - 1})
		}
		at = max(at, k.To)
	}
	return gaps
}

// outcome says where the metadata stands.
func (r *recovery) outcome() (*Recovery, error) {
	st, err := r.meta.State(r.ctx)
	if err != nil {
		return nil, err
	}
	return &Recovery{Seq: max(st.Seq, r.seen), NextData: st.NextData, Floor: st.Floor, Voids: r.left, Applied: r.count}, nil
}

// scan notes the records of a block that are newer than the metadata.
func (r *recovery) scan(b core.BlockInfo) error {
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
			at = h.End()
			continue
		}
		var payload []byte
		end := at
		if err == nil {
			payload, end, err = readRecord(s, h)
		}
		if err == nil {
			err = r.note(b.ID, payload, end)
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
			r.log.Warn("skipped a damaged stretch of a block", "block", b.ID, "to", at)
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
	first, last := changes[0].Place().Seq, changes[len(changes)-1].Place().Seq
	r.seen = max(r.seen, last)
	for _, c := range changes {
		if v, ok := c.(*core.Void); ok {
			r.voids = append(r.voids, v)
		}
	}
	if last > r.applied {
		r.records = append(r.records, found{block, start, end, first, last})
	}
	return nil
}

// applyTogether is how many changes recovery gathers for one Apply.
const applyTogether = 2000

// replay applies what scan found, in the order of sequences.
func (r *recovery) replay() error {
	var together []core.Change
	for i, f := range r.records {
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
