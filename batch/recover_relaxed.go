package batch

import (
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/frame"
	"orcas/internal/mutant"
)

// cutOff ends the history at the point where a power cut ended it: at the first batch that is not known to be durable
// and is missing or incomplete. It returns the last remaining sequence. Batches with strict durability are never cut
// off: an incomplete one was damaged, or is the last (see replay).
func (r *recovery) cutOff() (end core.Seq, err error) {
	end = r.synced
	if !r.relaxed || mutant.Is("no-relaxed-cut") {
		return max(end, r.seen), nil
	}
	keep := r.records[:0]
	cut := false
	for _, f := range r.records {
		if !cut && f.last > r.synced {
			if f.first > end+1 && !r.allVoided(end+1, f.first-1) {
				cut = true
			} else if f.relaxed && !r.allVoided(f.first, f.last) {
				whole, err := r.whole(f)
				if err != nil {
					return 0, err
				}
				cut = !whole
			}
		}
		if cut {
			continue
		}
		end = max(end, f.last)
		r.unnoted = r.unnoted || f.relaxed && !f.note && f.last > r.synced
		keep = append(keep, f)
	}
	r.records = keep
	r.end = end
	if end < r.seen {
		r.lost = Gap{end + 1, r.seen}
		r.left = append(r.left, &core.Void{From: end + 1, To: r.seen})
		r.log.Warn("a power cut lost writes that were acknowledged with relaxed durability", "from", end+1, "to", r.seen)
	}
	return end, nil
}

// allVoided reports whether all sequences of a range were reported as failed.
func (r *recovery) allVoided(from, to core.Seq) bool {
	for at := from; at <= to; {
		next := at
		for _, v := range r.voids {
			if v.From <= at && at <= v.To {
				next = max(next, v.To+1)
			}
		}
		if next == at {
			return false
		}
		at = next
	}
	return true
}

// whole reports whether a batch and all content that it refers to are complete.
func (r *recovery) whole(f found) (bool, error) {
	changes, broken, err := r.load(f)
	if errors.Is(err, errTail) || frame.Broken(err) {
		return false, nil
	}
	if err != nil || len(broken) > 0 {
		return false, err
	}
	for _, c := range changes {
		var failed error
		good := true
		eachContent(c, func(id core.DataID, extents []core.Extent) {
			for _, e := range extents {
				if e.Block != f.block && good && failed == nil {
					good, failed = r.wholeExtent(id, e)
				}
			}
		})
		if failed != nil || !good {
			return false, failed
		}
	}
	return true, nil
}

// wholeExtent reports whether all frames of an extent are intact and belong to the content id.
func (r *recovery) wholeExtent(id core.DataID, e core.Extent) (bool, error) {
	rd, err := r.blocks.Open(r.ctx, core.Extent{Block: e.Block, Length: e.Offset + e.Length})
	if core.Is(err, core.NoSuchData) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer rd.Close()
	s := &frame.Scanner{R: rd, Block: e.Block, Size: e.Offset + e.Length}
	for at := e.Offset; at < s.Size; {
		h, err := s.Header(at)
		if err == nil {
			_, err = s.Payload(h)
		}
		if frame.Broken(err) || core.Is(err, core.Damaged) || err == nil && h.ID != uint64(id) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("block %s at %d: %w", e.Block, at, err)
		}
		at = h.End()
	}
	return true, nil
}

// keepBeheaded keeps the metadata unchanged if its newest records are in a missing block. Neither a power cut nor
// reclaim deletes that block, so the remaining records do not show where the history ends.
func (r *recovery) keepBeheaded(st core.State) {
	if r.relaxed && r.beheaded && !mutant.Is("no-head") {
		r.log.Error("a block with records is missing; the metadata is left unchanged", "block", st.ReplayFrom)
		r.relaxed = false
	}
}

// again rebuilds metadata that contradicts the blocks. Why is the reason.
func (r *recovery) again(why string, was core.Seq) (*Recovery, error) {
	restorer, ok := core.As[core.Snapshotter](r.meta)
	if !ok {
		return nil, core.E("batch.Recover", core.Unsupported, errors.New(why+", and this metadata engine does not support a rebuild"))
	}
	r.log.Warn(why+"; rebuilding it from the blocks", "seq", was)
	if err := restorer.Reset(r.ctx); err != nil {
		return nil, core.E("batch.Recover", core.Internal, err)
	}
	return rebuild(&recovery{ctx: r.ctx, meta: r.meta, blocks: r.blocks, log: r.log, synced: r.synced, given: r.seen, nextData: r.nextData}, false)
}
