package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// Delta is a part of a snapshot: the changes after its predecessor.
type Delta struct {
	Block core.BlockID
	Size  int64      // size of the block, in bytes
	State core.State // the state after the last change
}

// link names the predecessor of a delta: its block and its sequence.
type link struct {
	block core.BlockID
	seq   core.Seq
}

// The first bytes of the rows in a delta, after the state. They differ from those of encoding.AppendRow, so a version of
// ORCAS that does not know deltas refuses them.
const (
	rowLink    = 9  // the predecessor: its block, and its sequence (LEB128)
	rowChanges = 10 // a list of changes (encoding.AppendChanges)
)

// changesTogether is the number of changes in a row of a delta, unless they were read together.
const changesTogether = 256

// Blocks returns the blocks of a snapshot, the oldest first.
func (i *Info) Blocks() []core.BlockID {
	ids := []core.BlockID{i.Block}
	for _, d := range i.Deltas {
		ids = append(ids, d.Block)
	}
	return ids
}

// DeltaSize returns the size of the blocks of all deltas, in bytes.
func (i *Info) DeltaSize() (size int64) {
	for _, d := range i.Deltas {
		size += d.Size
	}
	return size
}

// with returns the snapshot with one more delta.
func (i *Info) with(d Delta) Info {
	longer := *i
	longer.Deltas = append(i.Deltas[:len(i.Deltas):len(i.Deltas)], d)
	longer.State = d.State
	return longer
}

// blockBefore returns the block of the predecessor of a delta.
func (i *Info) blockBefore(n int) core.BlockID {
	if n == 0 {
		return i.Block
	}
	return i.Deltas[n-1].Block
}

// WriteDelta writes the changes between a snapshot and a state to a new block, which is durable when WriteDelta returns.
// It returns the longer snapshot. Changes calls emit with these changes, in order and without voided ones. WriteDelta
// returns Damaged, and writes nothing, if a change is missing.
//
// It requires sequences without gaps except voided ones, as a core.SingleWriter has them.
func WriteDelta(
	ctx context.Context, blocks core.Blocks, after *Info, st core.State, changes func(emit func([]core.Change) error) error, o WriteOptions,
) (*Info, error) {
	const op = "snapshot.WriteDelta"
	bw, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	w := &writer{w: bw, seq: st.Seq}
	before := link{after.blockBefore(len(after.Deltas)), after.Seq}
	err = w.finish(ctx, o, func() error { return w.delta(st, before, changes) })
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	longer := after.with(Delta{bw.Block(), bw.Offset(), st})
	return &longer, nil
}

// delta puts the rows of a delta.
func (w *writer) delta(st core.State, after link, changes func(emit func([]core.Change) error) error) error {
	if err := w.put(encoding.AppendRow(nil, &core.Row{State: &st})); err != nil {
		return err
	}
	if err := w.put(binary.AppendUvarint(append([]byte{rowLink}, after.block[:]...), uint64(after.seq))); err != nil {
		return err
	}
	order := order{at: after.seq}
	var together []core.Change
	flush := func() error {
		w.row = encoding.AppendChanges(append(w.row[:0], rowChanges), together)
		together = together[:0]
		return w.put(w.row)
	}
	err := changes(func(more []core.Change) error {
		for _, c := range more {
			if err := order.add(c); err != nil {
				return err
			}
		}
		if together = append(together, more...); len(together) < changesTogether {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = order.end(st.Seq)
	}
	if err != nil || len(together) == 0 {
		return err
	}
	return flush()
}

// ReadDelta verifies the last delta of a snapshot.
func ReadDelta(ctx context.Context, blocks core.Blocks, info *Info) error {
	last := len(info.Deltas) - 1
	before := *info
	before.Deltas = info.Deltas[:last]
	r, err := newReader(ctx, blocks, before.newest(), before.newestSize())
	if err != nil {
		return core.E("snapshot.ReadDelta", core.Internal, err)
	}
	defer r.close()
	st, _, err := r.head()
	if err != nil {
		return core.E("snapshot.ReadDelta", core.Internal, err)
	}
	return info.Deltas[last].read(ctx, blocks, link{before.newest(), st.Seq}, func([]core.Change) error { return nil })
}

// newest returns the newest block of a snapshot.
func (i *Info) newest() core.BlockID { return i.blockBefore(len(i.Deltas)) }

// newestSize returns the size of the newest block of a snapshot, in bytes.
func (i *Info) newestSize() int64 {
	if n := len(i.Deltas); n > 0 {
		return i.Deltas[n-1].Size
	}
	return i.Size
}

// read calls fn with the changes of a delta, in lists, and verifies it: it must follow its predecessor, and lack no
// change. It returns Damaged if the delta is not intact; fn may have been called with some of the changes by then.
func (d *Delta) read(ctx context.Context, blocks core.Blocks, after link, fn func([]core.Change) error) error {
	const op = "snapshot.Read"
	r, err := newReader(ctx, blocks, d.Block, d.Size)
	if err != nil {
		return core.E(op, core.Internal, err)
	}
	defer r.close()
	st, before, err := r.head()
	if err == nil && (before == nil || *before != after || st != d.State) {
		err = broken(fmt.Errorf("block %v is not the expected delta", d.Block))
	}
	if err != nil {
		return core.E(op, core.Internal, err)
	}
	order := order{at: after.seq}
	for {
		changes, err := r.changes()
		if err == nil && changes == nil {
			err = order.end(d.State.Seq)
			if err != nil {
				return core.E(op, core.Internal, err)
			}
			return nil
		}
		for i := 0; i < len(changes) && err == nil; i++ {
			err = order.add(changes[i])
		}
		if err != nil {
			return core.E(op, core.Internal, err)
		}
		if err := fn(changes); err != nil {
			return err
		}
	}
}

// head reads the beginning of a snapshot: its state and, if it is a delta, the predecessor.
func (r *reader) head() (core.State, *link, error) {
	st, err := r.state()
	if err != nil {
		return st, nil, err
	}
	next, _ := r.stream.Peek(binary.MaxVarintLen64 + 1) // an error ends the list of rows, or follows at the next read
	length, n := binary.Uvarint(next)
	if n <= 0 || n >= len(next) || length == 0 || next[n] != rowLink {
		return st, nil, nil
	}
	row, err := r.entry()
	if err != nil {
		return st, nil, err
	}
	var l link
	if len(row) < 1+len(l.block) {
		return st, nil, broken(errors.New("the row with the predecessor is too short"))
	}
	rest := row[1+copy(l.block[:], row[1:]):]
	seq, n := binary.Uvarint(rest)
	if n <= 0 || n != len(rest) {
		return st, nil, broken(errors.New("the row with the predecessor has the wrong length"))
	}
	l.seq = core.Seq(seq)
	return st, &l, nil
}

// changes returns the next list of changes of a delta, or nil after the last.
func (r *reader) changes() ([]core.Change, error) {
	row, err := r.entry()
	if row == nil || err != nil {
		return nil, err
	}
	if len(row) == 0 {
		return nil, broken(errors.New("an empty row"))
	}
	if row[0] != rowChanges {
		return nil, core.E("snapshot.Read", core.Unsupported, fmt.Errorf("unknown kind of row in a delta: %d", row[0]))
	}
	changes, err := encoding.DecodeChanges(row[1:])
	if err == nil && len(changes) == 0 {
		err = broken(errors.New("an empty list of changes"))
	}
	return changes, err
}

// order checks that changes are in order, and that all sequences between them were voided.
type order struct {
	at    core.Seq // the sequence of the last change
	holes []span
	voids []*core.Void
}

// span is a range of sequences, including both ends.
type span struct{ from, to core.Seq }

func (o *order) add(c core.Change) error {
	first := core.FirstSeq(c)
	if first <= o.at || c.Stamp() < first {
		return broken(fmt.Errorf("change %d follows change %d", c.Stamp(), o.at))
	}
	if first > o.at+1 {
		o.holes = append(o.holes, span{o.at + 1, first - 1})
	}
	o.at = c.Stamp()
	if v, ok := c.(*core.Void); ok && v.To != 0 {
		o.voids = append(o.voids, v)
	}
	return nil
}

// end returns an error if a change up to seq is missing.
func (o *order) end(seq core.Seq) error {
	if mutant.Is("delta-with-gaps") {
		return nil
	}
	if o.at != seq {
		return broken(fmt.Errorf("the last change is %d, expected %d", o.at, seq))
	}
	for _, h := range o.holes {
		for at := h.from; at <= h.to; {
			next := at
			for _, v := range o.voids {
				if v.From <= at && at <= v.To {
					next = max(next, v.To+1)
				}
			}
			if next == at {
				return broken(fmt.Errorf("change %d is missing", at))
			}
			at = next
		}
	}
	return nil
}
