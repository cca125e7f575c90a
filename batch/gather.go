package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/internal/mutant"
)

// writeSize is the number of bytes that are laid out before they are passed to the driver.
const writeSize = 1 << 20

const (
	minShrunk     = 128       // in bytes; a shorter piece of a record is not compressed
	maxKeptRecord = 512 << 10 // the most memory for a record, in bytes, that is kept for the next one
)

// gather is the gatherer: it commits one batch after another until the Writer is closed.
func (w *Writer) gather() {
	defer close(w.apply)
	for {
		writes := w.take()
		if writes == nil {
			return
		}
		if err := w.stopped.Load(); err != nil {
			fail(writes, *err)
			continue
		}
		start := w.o.Observer.now()
		f, err := w.commit(writes)
		if err != nil {
			stats := w.measure(writes, start, 0)
			fail(writes, err)
			w.o.Observer.ended(&stats, err)
			continue
		}
		f.stats = w.measure(writes, start, f.stats.Stored)
		w.apply <- f
		<-w.taken
	}
}

func fail(writes []*pending, err error) {
	for _, p := range writes {
		p.err = err
		p.finish()
	}
}

// commit lays out a batch in a packed block and makes it durable.
func (w *Writer) commit(writes []*pending) (*flight, error) {
	ctx := context.Background() // a batch has many callers, so none of them may cancel it
	f := &flight{writes: writes}
	voids, failed := w.takeVoids()
	f.failed = failed
	durable := w.unsynced.wait(w.o.Window)
	bw, err := w.blocks.Create(ctx, core.BlockOptions{
		Kind: core.Packed, SizeHint: sizeHint(writes, len(voids)), Alone: w.o.Alone, Relaxed: w.o.Relaxed,
	})
	if err != nil {
		w.putBack(voids)
		return nil, err
	}
	f.changes = make([]core.Change, 0, len(writes)+len(voids)+1)
	switch floor := bw.Block(); {
	case w.o.Relaxed:
		f.changes = append(f.changes, &core.Synced{UpTo: durable.seq, ReplayFrom: durable.floor, Relaxed: true})
	case floor != w.floor && w.after:
		f.changes = append(f.changes, &core.Synced{UpTo: w.seq, ReplayFrom: floor})
	case floor != w.floor:
		f.changes = append(f.changes, &core.SetReplayFrom{ReplayFrom: floor})
	}
	for _, v := range voids {
		f.changes = append(f.changes, v)
	}
	f.own = len(f.changes)
	for _, p := range writes {
		f.changes = append(f.changes, p.write.Change)
	}
	for _, c := range f.changes {
		w.seq += core.SeqCount(c)
		c.SetStamp(w.seq)
	}
	if mutant.Is("ack-before-commit") {
		w.acknowledgeEarly(f)
	}
	if err = w.layOut(bw, f); err == nil {
		err = bw.Commit(ctx)
	}
	if err != nil {
		_ = bw.Abort() // report the first error
		w.putBack(voids)
		w.void(f.changes, 0)
		return nil, err
	}
	w.floor, f.block = bw.Block(), bw.Block()
	if w.o.Relaxed {
		w.unsynced.committed(position{w.seq, w.floor}, durable.seq, len(voids) == 0 && onlyNotes(writes))
	}
	return f, nil
}

// takeVoids returns the voids that are not yet in a durable record, and the number of batches that the applier has
// voided.
func (w *Writer) takeVoids() (voids []*core.Void, failed int) {
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	voids, w.voids = w.voids, nil
	return voids, w.failed
}

func (w *Writer) putBack(voids []*core.Void) {
	w.voidMu.Lock()
	defer w.voidMu.Unlock()
	w.voids = append(voids, w.voids...)
}

// layOut writes the frames of a batch: first the content, then the record.
func (w *Writer) layOut(bw core.BlockWriter, f *flight) error {
	out := output{w: bw, buf: w.buf[:0], start: bw.Offset(), at: bw.Offset(), block: bw.Block(), shrunk: w.shrunk}
	for _, p := range f.writes {
		var err error
		switch move, _ := p.write.Change.(*core.MoveData); {
		case p.write.Info != nil:
			err = out.content(p.write.Info, &p.write)
		case move != nil:
			err = out.moved(move, p.write.Moved)
		}
		if err != nil {
			return err
		}
	}
	w.plain = appendRecord(w.plain[:0], out.start, f.changes)
	err := out.record(f.changes[0].Stamp(), w.plain)
	if err == nil {
		err = out.flush()
	}
	if w.shrunk = out.shrunk; cap(w.plain) > maxKeptRecord { // a rare record, for example of a large multipart object
		w.plain, w.shrunk = nil, nil
	}
	w.buf, f.stats.Stored = out.buf[:0], out.at-out.start
	return err
}

// output lays out frames at known offsets of a block.
type output struct {
	w         core.BlockWriter
	buf       []byte // laid out, but not yet written
	block     core.BlockID
	start, at int64  // offset of the batch, and of the next frame
	shrunk    []byte // a buffer for a compressed piece of the record
}

// content appends the frames of small content and sets its extent. Empty content has no extent.
func (o *output) content(info *core.DataInfo, w *Write) error {
	from := o.at
	var err error
	if len(w.Frames) > 0 {
		err = o.place(info.ID, core.Extent{Length: int64(len(w.Frames))}, w.Frames)
	} else {
		err = o.frames(frame.Header{Type: frame.Data, ID: uint64(info.ID)}, w.Content)
	}
	if o.at > from {
		info.Extents = []core.Extent{{Block: o.block, Offset: from, Length: o.at - from}}
	}
	return err
}

// moved appends frames that were stored elsewhere and sets the new extent in the change.
func (o *output) moved(c *core.MoveData, frames []byte) error {
	if len(c.From) != 1 || c.From[0].Length != int64(len(frames)) {
		return core.E("batch.Move", core.InvalidArgument, errors.New("MoveData requires content with exactly one extent"))
	}
	c.To = []core.Extent{{Block: o.block, Offset: o.at, Length: c.From[0].Length}}
	return o.place(c.Data, c.From[0], frames)
}

// place appends frames with new headers. The old headers state the position e.
func (o *output) place(id core.DataID, e core.Extent, frames []byte) error {
	for at := e.Offset; len(frames) > 0; {
		h, err := frame.Decode(frames, e.Block, at)
		if err == nil && (h.Type != frame.Data || h.ID != uint64(id) || h.End()-at > int64(len(frames))) {
			err = frame.ErrNotFrame
		}
		if err != nil {
			return core.E("batch.place", core.Internal, err)
		}
		payload := frames[h.Size() : h.End()-at]
		at, frames = h.End(), frames[h.End()-at:]
		h.Block, h.Offset = o.block, o.at
		head := len(o.buf)
		o.buf = append(append(o.buf, zeroHeader[:h.Size()]...), payload...)
		frame.PutHeader(o.buf[head:], &h)
		o.at = h.End()
		if err := o.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// record appends the frames of the record, whose first sequence is first.
func (o *output) record(first core.Seq, payload []byte) error {
	return o.frames(frame.Header{Type: frame.Record, ID: uint64(first)}, payload)
}

// shrink returns the codec and the stored form of a piece of the record. The record is compressed with S2, which leaves
// three quarters of it. Zstandard leaves two thirds, but it takes six times as long, or 10% of the CPU time of a PUT.
func (o *output) shrink(piece []byte) (codec uint8, stored []byte) {
	if len(piece) < minShrunk {
		return frame.Plain, piece
	}
	o.shrunk = slices.Grow(o.shrunk[:0], s2.MaxEncodedLen(len(piece)))
	stored = s2.Encode(o.shrunk[:cap(o.shrunk)], piece)
	if len(stored) > len(piece)-len(piece)/16 {
		return frame.Plain, piece
	}
	return frame.S2, stored
}

func (o *output) frames(h frame.Header, payload []byte) error {
	h.Block, h.Short = o.block, len(payload) <= frame.MaxPlain
	for len(payload) > 0 {
		n := min(len(payload), frame.MaxPlain)
		h.Offset, h.Plain, h.Last = o.at, uint32(n), n == len(payload)
		stored := payload[:n]
		if h.Type == frame.Record {
			h.Codec, stored = o.shrink(stored)
		}
		at := len(o.buf)
		o.buf = append(o.buf, zeroHeader[:h.Size()]...)
		o.buf = append(o.buf, stored...)
		frame.Encode(o.buf[at:], &h, stored)
		o.at = h.End()
		h.Index++
		payload = payload[n:]
		if err := o.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) flushIfFull() error {
	if len(o.buf) < writeSize {
		return nil
	}
	return o.flush()
}

var zeroHeader [frame.HeaderSize]byte

func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// acknowledgeEarly is a defect that the fault tests must detect: it acknowledges writes before anything is written, and
// waits until the responses have reached the clients.
func (w *Writer) acknowledgeEarly(f *flight) {
	for i, p := range f.writes {
		late := &pending{write: p.write, ready: make(chan struct{}, 1)}
		late.write.Content = append([]byte(nil), p.write.Content...)
		late.write.Frames = append([]byte(nil), p.write.Frames...)
		f.writes[i] = late
		p.res.Seq = late.write.Change.Stamp()
		p.finish()
	}
	time.Sleep(50 * time.Millisecond)
}

// fitsNowhere is a size that fits in no open block.
const fitsNowhere = 1 << 40

// sizeHint returns an upper bound on the stored size of a batch, in bytes.
func sizeHint(writes []*pending, voids int) int64 {
	record := int64(64 + 32*voids)
	content := int64(0)
	for _, p := range writes {
		if p.write.Fresh {
			return fitsNowhere
		}
		record += encoding.SizeBound(p.write.Change)
		content += int64(len(p.write.Moved) + len(p.write.Frames))
		if n := int64(len(p.write.Content)); n > 0 {
			content += n + frame.HeaderSize*(1+n/frame.MaxPlain)
		}
	}
	return content + record + frame.HeaderSize*(1+record/frame.MaxPlain)
}
