package batch

import (
	"context"
	"errors"
	"time"

	"orcas/core"
	"orcas/core/frame"
	"orcas/internal/mutant"
)

// writeSize is how much is laid out before it is handed to the driver, in bytes.
const writeSize = 1 << 20

// gather is the gatherer: one batch after the other until the Writer is closed.
func (w *Writer) gather() {
	defer close(w.apply)
	for {
		writes := w.take()
		if writes == nil {
			return
		}
		if err := w.sealed.Load(); err != nil {
			fail(writes, *err)
			continue
		}
		f, err := w.commit(writes)
		if err != nil {
			fail(writes, err)
			continue
		}
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
	ctx := context.Background() // a batch belongs to many callers: none of them can cancel it
	f := &flight{writes: writes}
	voids, failed := w.takeVoids()
	f.failed = failed
	durable := w.lag.wait(w.o.Window)
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
		f.changes = append(f.changes, &core.Synced{UpTo: durable.seq, Floor: durable.floor, Relaxed: true})
	case floor != w.floor && w.after:
		f.changes = append(f.changes, &core.Synced{UpTo: w.seq, Floor: floor})
	case floor != w.floor:
		f.changes = append(f.changes, &core.SetFloor{Floor: floor})
	}
	for _, v := range voids {
		f.changes = append(f.changes, v)
	}
	f.own = len(f.changes)
	for _, p := range writes {
		f.changes = append(f.changes, p.write.Change)
	}
	for _, c := range f.changes {
		w.seq += core.Places(c)
		c.Place().Seq = w.seq
	}
	if mutant.Is("ack-before-commit") {
		w.acknowledgeEarly(f)
	}
	if err = w.layOut(bw, f); err == nil {
		err = bw.Commit(ctx)
	}
	if err != nil {
		_ = bw.Abort() // the first error is the one to report
		w.putBack(voids)
		w.void(f.changes, 0)
		return nil, err
	}
	w.floor = bw.Block()
	if w.o.Relaxed {
		w.lag.committed(point{w.seq, w.floor})
	}
	return f, nil
}

// takeVoids returns the voids that no durable record holds yet, as changes of their own, and how many batches the applier has voided.
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

// layOut writes the frames of a batch: contents, then the record.
func (w *Writer) layOut(bw core.BlockWriter, f *flight) error {
	out := output{w: bw, buf: w.buf[:0], start: bw.Offset(), at: bw.Offset(), block: bw.Block()}
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
	err := out.record(f.changes)
	if err == nil {
		err = out.flush()
	}
	w.buf = out.buf[:0]
	return err
}

// output lays out frames at known places of a block.
type output struct {
	w         core.BlockWriter
	buf       []byte // laid out, not yet written
	block     core.BlockID
	start, at int64 // where the batch begins, and where the next frame goes
}

// content appends the frames of a small content and sets its extent. Empty content has none.
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

// moved appends frames that stood elsewhere and says in the change where.
func (o *output) moved(c *core.MoveData, frames []byte) error {
	if len(c.From) != 1 || c.From[0].Length != int64(len(frames)) {
		return core.E("batch.Move", core.InvalidArgument, errors.New("only content of one extent can be moved"))
	}
	c.To = []core.Extent{{Block: o.block, Offset: o.at, Length: c.From[0].Length}}
	return o.place(c.Data, c.From[0], frames)
}

// place appends frames whose headers say that they stand at e, under new headers.
func (o *output) place(id core.DataID, e core.Extent, frames []byte) error {
	for at := e.Offset; len(frames) > 0; {
		h, err := frame.Decode(frames, e.Block, at)
		if err == nil && (h.Type != frame.Data || h.ID != uint64(id) || h.End()-at > int64(len(frames))) {
			err = frame.ErrNotFrame
		}
		if err != nil {
			return core.E("batch.place", core.Internal, err)
		}
		payload := frames[frame.HeaderSize : h.End()-at]
		at, frames = h.End(), frames[h.End()-at:]
		h.Block, h.Offset = o.block, o.at
		head := len(o.buf)
		o.buf = append(append(o.buf, zeroHeader[:]...), payload...)
		frame.PutHeader(o.buf[head:], &h)
		o.at = h.End()
		if err := o.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// record appends the frames of the record: where the batch begins in the block, as a number of fixed length, and the changes.
func (o *output) record(changes []core.Change) error {
	return o.frames(frame.Header{Type: frame.Record, ID: uint64(changes[0].Place().Seq)}, appendRecord(nil, o.start, changes))
}

func (o *output) frames(h frame.Header, payload []byte) error {
	h.Block = o.block
	for len(payload) > 0 {
		n := min(len(payload), frame.MaxPlain)
		h.Offset, h.Plain, h.Last = o.at, uint32(n), n == len(payload)
		at := len(o.buf)
		o.buf = append(o.buf, zeroHeader[:]...)
		o.buf = append(o.buf, payload[:n]...)
		frame.Encode(o.buf[at:], &h, payload[:n])
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

// acknowledgeEarly is the defect that the fault bench must find: it answers before anything is written, and lets the answer reach the
// client first.
func (w *Writer) acknowledgeEarly(f *flight) {
	for i, p := range f.writes {
		late := &pending{write: p.write, ready: make(chan struct{}, 1)}
		late.write.Content = append([]byte(nil), p.write.Content...)
		late.write.Frames = append([]byte(nil), p.write.Frames...)
		f.writes[i] = late
		p.res.Seq = late.write.Change.Place().Seq
		p.finish()
	}
	time.Sleep(50 * time.Millisecond)
}

// fitsNowhere is a size for which no block that is open has room.
const fitsNowhere = 1 << 40

// sizeHint returns an upper bound of what a batch takes in its block, in bytes.
func sizeHint(writes []*pending, voids int) int64 {
	record := int64(64 + 32*voids)
	content := int64(0)
	for _, p := range writes {
		if p.write.Fresh {
			return fitsNowhere
		}
		record += changeHint(p.write.Change)
		content += int64(len(p.write.Moved) + len(p.write.Frames))
		if n := int64(len(p.write.Content)); n > 0 {
			content += n + frame.HeaderSize*(1+n/frame.MaxPlain)
		}
	}
	return content + record + frame.HeaderSize*(1+record/frame.MaxPlain)
}

// changeHint returns an upper bound of a change's binary form, in bytes.
func changeHint(c core.Change) int64 {
	const fixed = 256
	switch c := c.(type) {
	case *core.PutBucket:
		return fixed + int64(len(c.Info.Name)+len(c.Info.Owner)+len(c.Info.Region)) + attrsHint(c.Info.Attrs)
	case *core.PutObject:
		return fixed + objectHint(&c.Object) + ifHint(&c.If) + sourceHint(c.Source)
	case *core.DeleteObject:
		return fixed + int64(len(c.Key)+len(c.Owner)) + ifHint(&c.If)
	case *core.UpdateObject:
		return fixed + int64(len(c.Key)) + attrsHint(c.Tags)
	case *core.MoveObject:
		return fixed + int64(len(c.From.Key)+len(c.Key)+len(c.Token)+len(c.Owner)) + ifHint(&c.If)
	case *core.CreateUpload:
		return fixed + int64(len(c.Upload.Key)+len(c.Upload.Owner)) + attrsHint(c.Upload.Attrs) + attrsHint(c.Upload.Tags)
	case *core.PutPart:
		return fixed + int64(len(c.Key)+len(c.Part.ETag)) + sumsHint(c.Part.Sums) + segmentsHint(c.Part.Segments) + sourceHint(c.Source)
	case *core.CompleteUpload:
		return fixed + 20*int64(len(c.Parts)) + objectHint(&c.Object) + ifHint(&c.If)
	case *core.AbortUpload:
		return fixed + int64(len(c.Key))
	case *core.MoveData:
		return fixed + 48*int64(2*len(c.From))
	case *core.RewrapData:
		return fixed + int64(len(c.From)+len(c.DataKey))
	case *core.FreeGarbage:
		return fixed + 10*int64(len(c.IDs))
	case *core.PutRecord:
		return fixed + int64(len(c.Record.Kind)+len(c.Record.Key)+len(c.Record.Value)+len(c.Expect))
	}
	return fixed
}

func objectHint(o *core.ObjectInfo) int64 {
	return int64(len(o.Key)+len(o.ETag)+len(o.Owner)+20*len(o.Index)) +
		attrsHint(o.Attrs) + attrsHint(o.Tags) + sumsHint(o.Sums) + segmentsHint(o.Segments)
}

func attrsHint(attrs []core.Attr) (n int64) {
	for _, a := range attrs {
		n += 8 + int64(len(a.Name)+len(a.Value))
	}
	return n
}

func sumsHint(sums []core.Checksum) (n int64) {
	for _, s := range sums {
		n += 16 + int64(len(s.Value))
	}
	return n
}

func segmentsHint(segments []core.Segment) (n int64) {
	for _, s := range segments {
		n += 32
		if s.Info != nil { // an extent that the batch sets is the one beyond those there are
			n += 128 + sumsHint(s.Info.Sums) + int64(len(s.Info.DataKey)) + 48*int64(1+len(s.Info.Extents))
		}
	}
	return n
}

func ifHint(p *core.Precondition) int64 {
	n := int64(64)
	for _, list := range [][]string{p.Match, p.NoneMatch} {
		for _, s := range list {
			n += 8 + int64(len(s))
		}
	}
	return n
}

func sourceHint(s *core.Source) int64 {
	if s == nil {
		return 0
	}
	return 80 + int64(len(s.Key)) + sumsHint(s.Sums)
}
