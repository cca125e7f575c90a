package verify

import (
	"context"
	"errors"
	"io"

	"orcas/core"
	"orcas/core/frame"
)

// Stretch is a range of bytes of a block that contains damage.
type Stretch struct{ From, To int64 }

// BlockReport is the result of Block.
type BlockReport struct {
	Damaged []Stretch
	Records bool        // whether a damaged stretch is, or may be, part of a record
	Tail    int64       // end of the last complete frame; the bytes after it are damaged or were never written
	Ended   bool        // whether the last complete frame is the last frame of its content, record or snapshot
	First   core.DataID // DataID of the first intact frame with content; 0: none
}

// Block reads and verifies every frame of a block. It reopens the block for each MiB, so that it does not pin the block
// for long.
func Block(ctx context.Context, blocks core.Blocks, id core.BlockID, size int64, pace Pace) (*BlockReport, error) {
	found := &BlockReport{Tail: frame.BlockHeaderSize}
	r := &pieces{ctx: ctx, blocks: blocks, id: id, size: size, pace: pace}
	s := &frame.Scanner{R: r, Block: id, Size: size}
	for at := int64(frame.BlockHeaderSize); at < size; {
		h, err := s.Header(at)
		if err == nil {
			if _, err = s.Payload(h); err == nil {
				if h.Type == frame.Data && found.First == 0 {
					found.First = core.DataID(h.ID)
				}
				at, found.Tail, found.Ended = h.End(), h.End(), h.Last
				continue
			}
		}
		if r.err != nil {
			return found, r.err
		}
		if errors.Is(err, frame.ErrVersion) {
			return found, core.E("verify.Block", core.Unsupported, err)
		}
		next := int64(-1)
		if frame.Broken(err) {
			if h.Stored > 0 && h.End() <= size && errors.Is(err, frame.ErrDamaged) { // only the payload is damaged
				found.Records = found.Records || h.Type != frame.Data
				found.Damaged = append(found.Damaged, Stretch{at, h.End()})
				at, found.Tail, found.Ended = h.End(), h.End(), h.Last
				continue
			}
			next, err = s.Next(at + 1)
		}
		if r.err != nil {
			return found, r.err
		}
		if err != nil { // the drive cannot read these bytes, so the rest of the block is also unknown
			found.Records = true
			found.Damaged = append(found.Damaged, Stretch{at, size})
			found.Tail = size
			break
		}
		if next < 0 {
			break
		}
		found.Records = true
		found.Damaged = append(found.Damaged, Stretch{at, next})
		at = next
	}
	return found, nil
}

// pieces is an io.ReaderAt that reopens the block for each read.
type pieces struct {
	ctx    context.Context
	blocks core.Blocks
	id     core.BlockID
	size   int64
	pace   Pace
	err    error // set to end the scan: the block no longer exists, or the context has ended
}

// ReadAt implements io.ReaderAt.
func (r *pieces) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		r.err = core.E("verify.Block", core.Canceled, err)
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
