package reclaim

import (
	"context"
	"errors"
	"io"

	"orcas/core"
	"orcas/core/frame"
)

// stretch is a run of bytes of a block in which something is not whole.
type stretch struct{ from, to int64 }

// scanned is what was found in a block.
type scanned struct {
	stretches []stretch
	records   bool        // one of them is, or may be, a record
	tail      int64       // where the last whole frame ends; what follows is damaged, or was never written
	ended     bool        // that frame is the last of its content, record or snapshot
	first     core.DataID // of the first frame, where that is one of content
}

// scanBlock reads every frame of a block and verifies it. Pace is told the bytes that were read. The block is opened for each MiB anew, so it is
// not pinned for long.
func scanBlock(ctx context.Context, blocks core.Blocks, id core.BlockID, size int64, pace func(n int) error) (*scanned, error) {
	found := &scanned{tail: frame.BlockHeaderSize}
	r := &pieces{ctx: ctx, blocks: blocks, id: id, size: size, pace: pace}
	s := &frame.Scanner{R: r, Block: id, Size: size}
	for at := int64(frame.BlockHeaderSize); at < size; {
		h, err := s.Header(at)
		if err == nil {
			if _, err = s.Payload(h); err == nil {
				if h.Type == frame.Data && found.first == 0 {
					found.first = core.DataID(h.ID)
				}
				at, found.tail, found.ended = h.End(), h.End(), h.Last
				continue
			}
		}
		if r.err != nil {
			return found, r.err
		}
		if errors.Is(err, frame.ErrVersion) {
			return found, core.E("reclaim.scan", core.Unsupported, err)
		}
		next := int64(-1)
		if frame.Broken(err) {
			if h.Stored > 0 && h.End() <= size && errors.Is(err, frame.ErrDamaged) { // the payload alone
				found.records = found.records || h.Type != frame.Data
				found.stretches = append(found.stretches, stretch{at, h.End()})
				at, found.tail, found.ended = h.End(), h.End(), h.Last
				continue
			}
			next, err = s.Next(at + 1)
		}
		if r.err != nil {
			return found, r.err
		}
		if err != nil { // the drive does not give it: what comes behind it is not known either
			found.records = true
			found.stretches = append(found.stretches, stretch{at, size})
			found.tail = size
			break
		}
		if next < 0 {
			break
		}
		found.records = true
		found.stretches = append(found.stretches, stretch{at, next})
		at = next
	}
	return found, nil
}

// pieces reads a block piece by piece.
type pieces struct {
	ctx    context.Context
	blocks core.Blocks
	id     core.BlockID
	size   int64
	pace   func(n int) error
	err    error // that ends the scan: the block is gone, or the caller wants no more
}

// ReadAt implements io.ReaderAt.
func (r *pieces) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.err = core.E("reclaim.scan", core.Canceled, err)
		return 0, r.err
	}
	br, err := r.blocks.Open(r.ctx, core.Extent{Block: r.id, Length: r.size})
	if core.Is(err, core.NoSuchData) || core.Is(err, core.Canceled) {
		r.err = err
	}
	if err != nil {
		return 0, err
	}
	defer br.Close()
	n, err := br.ReadAt(p, off)
	if paceErr := r.pace(n); paceErr != nil {
		r.err = paceErr
		return n, paceErr
	}
	if err == io.EOF && n == len(p) {
		err = nil
	}
	return n, err
}
