package batch

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"orcas/core"
	"orcas/core/frame"
)

// scanBlocks collects the records of blocks that are newer than the metadata. It reads as many blocks at a time as there
// are CPUs, and takes their records in the order of the blocks.
func (r *recovery) scanBlocks(blocks []core.BlockInfo) error {
	scans := make([]scan, len(blocks))
	next := make(chan int)
	var scanning sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(blocks)) {
		scanning.Go(func() {
			for i := range next {
				scans[i] = r.scan(blocks[i])
			}
		})
	}
	for i := range blocks {
		next <- i
	}
	close(next)
	scanning.Wait()
	for i := range scans {
		s := scans[i]
		if s.err != nil {
			return s.err
		}
		scans[i] = scan{}
		r.nextData = max(r.nextData, s.nextData)
		for j := range s.records {
			r.take(&s.records[j])
		}
	}
	return nil
}

// scan has the records of a block, in the order of their positions.
type scan struct {
	records  []scanned
	nextData core.DataID
	err      error
}

// scanned is a record, and what it says about other records.
type scanned struct {
	found
	voids  []*core.Void
	synced core.Seq
}

// scan reads the records of a block.
func (r *recovery) scan(b core.BlockInfo) (s scan) {
	part := &recovery{ctx: r.ctx, blocks: r.blocks}
	s.err = part.eachRecord(b, func(payload []byte, _, end int64) error {
		record, err := part.examine(b.ID, payload, end)
		if err == nil {
			s.records = append(s.records, record)
		}
		return err
	}, func(to int64) {
		r.log.Warn("skipped damaged bytes in a block", "block", b.ID, "to", to)
	})
	s.nextData = part.nextData
	return s
}

// eachRecord calls fn with each intact record of a block, its beginning, and its end. After bytes that are not a frame,
// it calls skipped with the offset of the next frame. If fn returns an error about the bytes, the record counts as
// damaged.
func (r *recovery) eachRecord(b core.BlockInfo, fn func(payload []byte, at, end int64) error, skipped func(to int64)) error {
	if b.Size <= frame.BlockHeaderSize {
		return nil // the process crashed immediately after creating the block
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
			err = fn(payload, at, end)
		}
		switch {
		case err == nil:
			at = end
		case errors.Is(err, frame.ErrNotFrame), errors.Is(err, frame.ErrDamaged), errors.Is(err, errTail):
			// The written part of the block ends here, or bytes are damaged: continue at the next frame, if there is
			// one.
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

// examine decodes a record that ends at end.
func (r *recovery) examine(block core.BlockID, payload []byte, end int64) (s scanned, err error) {
	start, changes, err := decodeRecord(payload)
	if err != nil {
		return s, err
	}
	s.found = found{
		block: block, start: start, end: end, first: core.FirstSeq(changes[0]), last: changes[len(changes)-1].Stamp(), note: true, length: len(payload),
	}
	for _, c := range changes {
		eachContent(c, func(id core.DataID, _ []core.Extent) { r.nextData = max(r.nextData, id+1) })
		switch c := c.(type) {
		case *core.Void:
			s.voids = append(s.voids, c)
			s.note = s.note && c.To == 0
		case *core.Synced:
			s.synced = max(s.synced, c.UpTo)
			s.relaxed = s.relaxed || c.Relaxed
		default:
			s.note = false
		}
	}
	return s, nil
}

// take stores the position of a record if it is newer than the metadata.
func (r *recovery) take(s *scanned) {
	if s.last >= r.seen {
		r.seen, r.newest = s.last, s.block
	}
	r.voids = append(r.voids, s.voids...)
	r.synced = max(r.synced, s.synced)
	r.relaxed = r.relaxed || s.relaxed
	if s.last > r.applied || r.relaxed {
		r.records = append(r.records, s.found)
	}
}
