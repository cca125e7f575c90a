package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/mutant"
)

// List returns the snapshots in blocks, newest first. It reads only their first frames; Read checks whether a snapshot
// is intact. Rows is not set. Of a chain, it also returns each beginning as a snapshot. It omits deltas whose predecessor
// does not exist.
func List(ctx context.Context, blocks core.Blocks) ([]Info, error) {
	const op = "snapshot.List"
	var found []Info
	newest := map[core.BlockID]int{} // the position in found, by the newest block of the snapshot
	err := blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind != core.Snapshot {
			return nil
		}
		r, err := newReader(ctx, blocks, b.ID, b.Size)
		if err == nil {
			var state core.State
			var after *link
			state, after, err = r.head()
			err = errors.Join(err, r.close())
			if i := len(found); err == nil && after == nil {
				found, newest[b.ID] = append(found, Info{Block: b.ID, Size: b.Size, State: state}), i
			} else if err == nil {
				// Blocks are in the order of their creation, so the predecessor was found before.
				if before, ok := newest[after.block]; ok && (found[before].Seq == after.seq || mutant.Is("delta-over-any-base")) {
					found, newest[b.ID] = append(found, found[before].with(Delta{b.ID, b.Size, state})), i
				}
			}
		}
		if err != nil && !isBroken(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	slices.Reverse(found)
	return found, nil
}

// Read calls fn with each row of a complete snapshot, verified and in order, and sets info.State and info.Rows. Of a
// chain, these are the rows of its complete snapshot, and Read then verifies all deltas. It returns Damaged if the
// snapshot is not intact; fn may have been called with some of the rows by then.
//
// If fn is nil, Read verifies the frames and the lengths of the rows, but decodes none of them after the first, which is
// five times as fast. If Write returned info, the first such call also verifies that the stream is the one
// that was written.
func Read(ctx context.Context, blocks core.Blocks, info *Info, fn func(*core.Row) error) error {
	state, err := info.readRows(ctx, blocks, fn)
	if err != nil {
		return info.failed(info.Block, err)
	}
	for i := range info.Deltas {
		d := &info.Deltas[i]
		if err := d.read(ctx, blocks, link{info.blockBefore(i), state.Seq}, func([]core.Change) error { return nil }); err != nil {
			return info.failed(d.Block, err)
		}
		state = d.State
	}
	info.State = state
	return nil
}

// failed returns the error of reading a block, and notes the block if it is damaged.
func (i *Info) failed(block core.BlockID, err error) error {
	if core.Is(err, core.Damaged) {
		i.damaged = block
	}
	return err
}

// Newest returns the newest intact snapshot in a list, which it reads to its end, or nil if there is none.
func Newest(ctx context.Context, blocks core.Blocks, list []Info) (*Info, error) {
	for len(list) > 0 {
		info := list[0]
		err := Read(ctx, blocks, &info, nil)
		if err == nil {
			return &info, nil
		}
		if !core.Is(err, core.Damaged) {
			return nil, err
		}
		list = Without(list[1:], &info)
	}
	return nil, nil
}

// Without returns the snapshots in a list without those that have the same damaged block as broken, a snapshot for which
// Read or Restore returned Damaged. If the beginning of a chain is damaged, there is no use in reading it once for each
// delta.
func Without(list []Info, broken *Info) []Info {
	return slices.DeleteFunc(slices.Clone(list), func(i Info) bool { return slices.Contains(i.Blocks(), broken.damaged) })
}

// readRows reads the rows of the complete snapshot, and returns its state.
func (i *Info) readRows(ctx context.Context, blocks core.Blocks, fn func(*core.Row) error) (state core.State, err error) {
	const op = "snapshot.Read"
	r, err := newReader(ctx, blocks, i.Block, i.Size)
	if err != nil {
		return state, core.E(op, core.Internal, err)
	}
	defer r.close()
	if fn == nil {
		if state, i.Rows, err = r.verify(i.sum); err != nil {
			err = core.E(op, core.Internal, err)
		}
		i.sum = 0
		return state, err
	}
	i.Rows = 0
	for {
		row, err := r.next()
		if err != nil {
			return state, core.E(op, core.Internal, err)
		}
		if row == nil {
			return state, nil
		}
		i.Rows++
		if row.State != nil {
			state = *row.State
		}
		if err := fn(row); err != nil {
			return state, err
		}
	}
}

// verify reads the snapshot to its end, without decoding its rows. It returns its state and the number of its rows. Sum
// is the checksum that the stream must have; 0 if it is unknown.
func (r *reader) verify(sum uint64) (state core.State, rows int64, err error) {
	if sum != 0 {
		r.sum = xxh3.New()
		r.addSum() // the first frame has been read
	}
	if state, err = r.state(); err != nil {
		return state, 0, err
	}
	for rows = 1; ; rows++ {
		length, err := r.length()
		if err == io.EOF {
			break
		}
		if err == nil {
			_, err = r.stream.Discard(int(length))
		}
		if err != nil {
			return state, rows, cutOff(err)
		}
	}
	if r.sum != nil && r.sum.Sum64() != sum {
		return state, rows, broken(errors.New("the snapshot is not the one that was written"))
	}
	return state, rows, nil
}

// The changes of a delta are applied in groups, as recovery does.
const applyTogether = 20_000

// Restore fills an empty engine with a snapshot. It returns Damaged if the snapshot is not intact. After an error the
// engine is empty.
func Restore(ctx context.Context, blocks core.Blocks, info *Info, meta core.Meta) error {
	const op = "snapshot.Restore"
	restorer, ok := core.As[core.Snapshotter](meta)
	if !ok {
		return core.E(op, core.Unsupported, errors.New("this metadata engine cannot restore snapshots"))
	}
	if len(info.Deltas) > 0 { // changes cannot be undone, so first check that all of them can be applied
		if err := Read(ctx, blocks, info, nil); err != nil {
			return err
		}
	}
	r, err := newReader(ctx, blocks, info.Block, info.Size)
	if err != nil {
		return info.failed(info.Block, core.E(op, core.Internal, err))
	}
	defer r.close()
	info.Rows = 0
	var state core.State
	err = restorer.Restore(ctx, func() (*core.Row, error) {
		row, err := r.next()
		if row != nil {
			info.Rows++
			if row.State != nil {
				state = *row.State
			}
		}
		return row, err
	})
	if err != nil {
		return info.failed(info.Block, err)
	}
	if err := info.applyDeltas(ctx, blocks, meta, state.Seq); err != nil {
		return info.failed(info.newest(), errors.Join(core.E(op, core.Internal, err), restorer.Reset(ctx)))
	}
	return nil
}

// applyDeltas applies the changes of all deltas to an engine that has the complete snapshot of sequence at.
func (i *Info) applyDeltas(ctx context.Context, blocks core.Blocks, meta core.Meta, at core.Seq) error {
	var together []core.Change
	apply := func() error {
		_, err := meta.Apply(ctx, together)
		together = nil
		return err
	}
	for n := range i.Deltas {
		err := i.Deltas[n].read(ctx, blocks, link{i.blockBefore(n), at}, func(changes []core.Change) error {
			if together = append(together, changes...); len(together) < applyTogether {
				return nil
			}
			return apply()
		})
		if err != nil {
			return err
		}
		at = i.Deltas[n].State.Seq
	}
	if len(together) > 0 {
		if err := apply(); err != nil {
			return err
		}
	}
	st, err := meta.State(ctx)
	if err == nil && st.Seq != at {
		err = broken(fmt.Errorf("the deltas end at change %d, but the metadata is at change %d after them", at, st.Seq))
	}
	return err
}
