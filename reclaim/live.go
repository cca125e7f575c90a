package reclaim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/internal/mutant"
)

// live describes the live content of a block.
type live struct {
	contents []core.DataInfo
	bytes    int64 // total length of their extents in the block
}

// dataTogether is the number of DataIDs that are looked up per call.
const dataTogether = 500

// liveIn reads the frame headers of a block, and looks up in the metadata which of the content is still in that block.
// It stops after limit DataIDs (0 means no limit): a large block has only one, so its first header is enough. It
// returns nil for a damaged block.
func (r *round) liveIn(id core.BlockID, size int64, limit int) (*live, error) {
	ids, err := r.contentsOf(id, size, limit)
	if err != nil || ids == nil {
		return nil, err
	}
	found := &live{}
	for together := range slices.Chunk(ids, dataTogether) {
		infos, err := r.o.Meta.Data(r.ctx, together)
		if err != nil {
			return nil, err
		}
		for _, d := range infos {
			here := int64(0)
			for _, e := range d.Extents {
				if e.Block == id {
					here += e.Length
				}
			}
			if here > 0 {
				found.contents = append(found.contents, d)
				found.bytes += here
			}
		}
	}
	return found, nil
}

// contentsOf returns the DataIDs of the frames in a block, at most limit of them. The slice is nil only for a damaged
// block.
func (r *round) contentsOf(id core.BlockID, size int64, limit int) ([]core.DataID, error) {
	br, err := r.o.Blocks.Open(r.ctx, core.Extent{Block: id, Length: size})
	if err != nil {
		return nil, err
	}
	defer br.Close()
	s := &frame.Scanner{R: br, Block: id, Size: size}
	ids := []core.DataID{}
	for at := int64(frame.BlockHeaderSize); ; {
		if err := r.ctx.Err(); err != nil {
			return nil, core.E("reclaim.scan", core.Canceled, err)
		}
		h, err := s.Header(at)
		if frame.Broken(err) {
			// This is the end of the written data, unless another frame follows it.
			if next, err := s.Next(at + 1); err != nil || next >= 0 {
				return nil, err
			}
			return ids, nil
		}
		if err != nil && mutant.Is("no-scan-error") {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Type == frame.Data && (len(ids) == 0 || ids[len(ids)-1] != core.DataID(h.ID)) {
			if ids = append(ids, core.DataID(h.ID)); len(ids) == limit {
				return ids, nil
			}
		}
		at = h.End()
	}
}

// Limits on one batch of moved content.
const (
	moveBytes    = 1 << 20
	moveContents = 256
)

// spare is the number of bytes that must remain free on the drive after a copy.
const spare = 64 << 20

// empty moves all live content out of a closed packed block, and adds the block to ledger.empty.
func (r *round) empty(id core.BlockID, size int64) error {
	found, err := r.liveIn(id, size, 0)
	if err != nil {
		return err
	}
	if mutant.Is("hint-is-proof") {
		found = &live{}
	}
	if found == nil {
		r.damaged(id)
		r.bad[id] = true
		return nil
	}
	r.o.Hook(HookMarked)
	if len(found.contents) > 0 {
		if err := r.reserve(found.bytes); err != nil {
			return err
		}
		if whole, err := r.move(id, found.contents); err != nil || !whole {
			return err
		}
		r.o.Hook(HookCopied)
		if !mutant.Is("no-second-look") {
			if found, err = r.liveIn(id, size, 0); err != nil || found == nil || len(found.contents) > 0 {
				return err // the next round tries again
			}
		}
		r.report.BlocksMoved++
	}
	r.ledger.empty[id] = size
	return nil
}

// reserve returns NoSpace if the drive does not have enough free space for a copy of n bytes.
func (r *round) reserve(n int64) error {
	s, ok := core.As[core.Spacer](r.o.Blocks)
	if !ok {
		return nil
	}
	free, _, err := s.Space(r.ctx)
	if core.Is(err, core.Unsupported) {
		return nil
	}
	if err == nil && free < n+spare {
		err = core.E("reclaim.move", core.NoSpace, fmt.Errorf("the drive has %d bytes free, but %d are needed for a copy", free, n+spare))
	}
	return err
}

// move copies content out of a block, in batches. It returns false if any of the content is damaged; the block is then
// kept.
func (r *round) move(id core.BlockID, contents []core.DataInfo) (whole bool, err error) {
	whole = true
	for len(contents) > 0 {
		began := time.Now()
		var writes []batch.Write
		bytes := int64(0)
		for len(contents) > 0 && len(writes) < moveContents && bytes < moveBytes {
			d := &contents[0]
			contents = contents[1:]
			if len(d.Extents) != 1 {
				err := fmt.Errorf("content %d in packed block %s has %d extents: expected 1", d.ID, id, len(d.Extents))
				return false, core.E("reclaim.move", core.Damaged, err)
			}
			raw, err := r.frames(d)
			if core.Is(err, core.Damaged) && !mutant.Is("no-move-check") {
				r.log.Error("content is damaged: its block cannot be freed", "block", id, "content", d.ID, "err", err)
				whole = false
				continue
			}
			if err != nil && !(core.Is(err, core.Damaged) && mutant.Is("no-move-check")) {
				return false, err
			}
			writes = append(writes, batch.Write{Change: &core.MoveData{Data: d.ID, From: d.Extents}, Moved: raw})
			bytes += int64(len(raw))
		}
		_, errs := r.o.Writer.DoAll(r.ctx, writes)
		for i, err := range errs {
			switch {
			case err == nil:
				r.report.BytesMoved += int64(len(writes[i].Moved))
			case !core.Is(err, core.NoSuchData) && !core.Is(err, core.Conflict): // otherwise it was deleted in the meantime
				return false, err
			}
		}
		if err := r.rest(time.Since(began)); err != nil {
			return false, err
		}
	}
	if !whole {
		r.damaged(id)
		r.bad[id] = true
	}
	return whole, nil
}

// rest waits as long as the previous work took, so that reclaim works at most half of the time. A full round does not
// rest.
func (r *round) rest(took time.Duration) error {
	if r.report.Full {
		took = 0
	}
	select {
	case <-r.ctx.Done():
		return core.E("reclaim.move", core.Canceled, r.ctx.Err())
	case <-time.After(took):
		return nil
	}
}

// frames reads and verifies the frames of content with one extent. If it returns Damaged, the bytes must not be used.
func (r *round) frames(d *core.DataInfo) ([]byte, error) {
	const op = "reclaim.frames"
	e := d.Extents[0]
	br, err := r.o.Blocks.Open(r.ctx, e)
	if err != nil {
		return nil, err
	}
	defer br.Close()
	raw := make([]byte, e.Length)
	if n, err := br.ReadAt(raw, 0); n < len(raw) {
		return nil, err
	}
	index := uint32(0)
	for at, last := int64(0), false; at < e.Length; index++ {
		h, err := frame.Decode(raw[at:], e.Block, e.Offset+at)
		if errors.Is(err, frame.ErrVersion) {
			return nil, core.E(op, core.Unsupported, err)
		}
		end := h.End() - e.Offset
		if err == nil && (last || h.Type != frame.Data || h.ID != uint64(d.ID) || h.Index != index || end > e.Length || h.Last != (end == e.Length)) {
			err = frame.ErrNotFrame
		}
		if err == nil {
			err = h.Verify(raw[at+int64(h.Size()) : end])
		}
		if err != nil {
			return raw, core.E(op, core.Damaged, err)
		}
		at, last = end, h.Last
	}
	return raw, nil
}
