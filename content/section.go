package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/internal/pins"
)

// sectionPage is the number of parts of a long segment list that a Section reads per page. The page stays in memory,
// and its blocks stay pinned, until the client has read it.
const sectionPage = 128

// Section reads a range of content, one verified frame at a time. It must be used by one goroutine only.
type Section struct {
	ctx      context.Context
	engine   *Engine
	left     int64          // bytes not yet in ready
	segments []core.Segment // the next segments
	list     core.UploadID  // a segment list with more segments; 0 if none
	after    int            // the number of the last part read from list
	refer    bool           // the content will not be read, so segments need no DataInfo
	tail     []core.Segment // the segments after the list
	skip     int64          // bytes to skip in segments
	ready    []byte         // verified bytes not yet returned; a part of buffer
	buffer   *batch.Buffer
	reader   core.BlockReader // reads extent
	extent   core.Extent
	span     io.ReadCloser // reads extent from spanAt to spanEnd; if nil, frames are read by ReadAt
	spanAt   int64
	spanEnd  int64
	decoding decoding
	customer *codec.Key // nil if none
	unnoted  bool       // the caller handles damage: do not mark damaged content
	piece    bool       // ready is a piece of a frame, because there is no memory for whole frames
	exempt   bool       // no client is waited for between frames, so memory is not reserved
	reserved int64      // the memory, in bytes, that is reserved for the current frame

	pins *pins.Reader[pinned] // pins list, and the blocks of segments and tail; nil during the lookup and at the end
}

// NewSection opens the n bytes of an object that begin at off; the range must be within the object. Customer is the
// customer key, or nil if the request has none. The caller must be in a lookup (see Enter) that began before it read o.
// NewSection reads and verifies the first frame, so damage in it is reported before the caller gets any byte. It pins
// the rest, which can be read after the lookup even if the object is overwritten or deleted.
func (e *Engine) NewSection(
	ctx context.Context, o *core.ObjectInfo, off, n int64, customer *codec.Key,
) (*Section, error) {
	s := &Section{ctx: ctx, engine: e, left: n, customer: customer}
	if n == 0 {
		return s, nil
	}
	s.seek(o, off)
	if err := s.next(); err != nil {
		s.Close()
		return nil, err
	}
	s.pinAhead()
	return s, nil
}

// wholeSection returns a Section for all of d. The caller must handle damage itself.
func (e *Engine) wholeSection(ctx context.Context, d *core.DataInfo) *Section {
	return &Section{
		ctx: ctx, engine: e, left: d.Size, unnoted: true, exempt: true,
		segments: []core.Segment{{Data: d.ID, Length: d.Size, Info: d}},
	}
}

// Slice returns segments that refer to the n bytes of an object that begin at from; the range must be within the
// object. The caller must be in a lookup that began before it read o.
func (e *Engine) Slice(ctx context.Context, o *core.ObjectInfo, from, n int64) ([]core.Segment, error) {
	s := &Section{ctx: ctx, engine: e, left: n, refer: true}
	s.seek(o, from)
	from = s.skip
	var out []core.Segment
	for n > 0 {
		if len(s.segments) == 0 {
			if err := s.more(); err != nil {
				return nil, err
			}
			continue
		}
		seg := s.segments[0]
		s.segments = s.segments[1:]
		if from >= seg.Length {
			from -= seg.Length
			continue
		}
		length := min(seg.Length-from, n)
		out = append(out, core.Segment{Data: seg.Data, From: seg.From + from, Length: length})
		from, n = 0, n-length
	}
	return out, nil
}

// seek sets the position of the section to an offset in an object's content.
func (s *Section) seek(o *core.ObjectInfo, off int64) {
	listEnd := o.Size // the offset at which the list ends and the inline segments begin
	for i := range o.Segments {
		listEnd -= o.Segments[i].Length
	}
	if o.List == 0 || off >= listEnd {
		s.skip = off - listEnd
		s.segments, _ = needed(o.Segments, s.skip, s.left)
		return
	}
	s.list = o.List
	if rest := off + s.left - listEnd; rest > 0 {
		s.tail, _ = needed(o.Segments, 0, rest)
	}
	for _, x := range o.Index {
		if x.Offset > off {
			break
		}
		s.after, s.skip = x.After, x.Offset
	}
	s.skip = off - s.skip
}

// needed returns the segments that n bytes beginning at from may touch, and reports whether the segments contain all of
// those bytes.
func needed(segments []core.Segment, from, n int64) ([]core.Segment, bool) {
	end := from + n
	for i := range segments {
		if end -= segments[i].Length; end <= 0 {
			return segments[:i+1], true
		}
	}
	return segments, false
}

// WriteTo writes the rest of the section to w. After an error, w has received only a part of it.
func (s *Section) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if len(s.ready) > 0 {
			m, err := s.write(w)
			n += int64(m)
			if err != nil {
				return n, err
			}
		}
		if s.left == 0 {
			return n, nil
		}
		if err := s.next(); err != nil {
			return n, err
		}
	}
}

// write writes the current frame to w, or the piece of it that is ready.
func (s *Section) write(w io.Writer) (int, error) {
	if s.reserved == 0 && s.piece {
		small := s.shrink()
		defer small.Release()
	}
	m, err := w.Write(s.ready)
	s.ready = nil
	s.unreserve()
	return m, err
}

// Read implements io.Reader. Its caller stores what it reads, so it reads whole frames.
func (s *Section) Read(p []byte) (int, error) {
	s.exempt = true
	if len(s.ready) == 0 {
		if s.left == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// Close releases the buffer, the block and the pins.
func (s *Section) Close() error {
	s.unpin()
	s.unreserve()
	s.ready = nil
	s.releaseBuffers()
	return s.closeReader()
}

func (s *Section) closeReader() error {
	if s.reader == nil {
		return nil
	}
	r := s.reader
	s.reader = nil
	return errors.Join(s.closeSpan(), r.Close())
}

func (s *Section) closeSpan() error {
	if s.span == nil {
		return nil
	}
	span := s.span
	s.span = nil
	return span.Close()
}

// next reads and verifies the next frame.
func (s *Section) next() error {
	if err := s.ctx.Err(); err != nil {
		return core.E("content.Section", core.Canceled, err)
	}
	for len(s.segments) == 0 || s.skip >= s.segments[0].Length {
		if len(s.segments) > 0 {
			if s.pins != nil {
				s.unpinSegments(s.segments[:1])
			}
			s.skip -= s.segments[0].Length
			s.segments = s.segments[1:]
			continue
		}
		if err := s.more(); err != nil {
			return err
		}
	}
	seg := &s.segments[0]
	if seg.Info == nil {
		return core.E("content.Section", core.Internal, fmt.Errorf("the segment of content %d has no DataInfo", seg.Data))
	}
	content, err := s.frame(seg.Info, seg.From+s.skip)
	if isGone(err) && !s.unnoted && s.relocate() {
		seg = &s.segments[0]
		content, err = s.frame(seg.Info, seg.From+s.skip)
	}
	if err != nil {
		if core.Is(err, core.Damaged) && !s.unnoted {
			s.engine.unshareDamaged(s.ctx, seg.Info)
		}
		return err
	}
	n := min(int64(len(content)), seg.Length-s.skip, s.left)
	if s.piece = !s.whole(); s.piece {
		n = min(n, pieceSize)
	}
	s.ready = content[:n]
	s.skip += n
	if s.left -= n; s.left == 0 { // a client that is slow to receive the last frame must not pin anything
		s.unpin()
		_ = s.closeReader() // nothing was written, so an error does not matter
	}
	return nil
}

// isGone reports whether an error was caused by a block that does not exist.
func isGone(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*core.Error); ok && e.Kind == core.NoSuchData {
			return true
		}
	}
	return false
}

// relocate reads the metadata of the section's current content again, once, because one of its blocks no longer exists.
// It reports whether the content is now stored elsewhere. This process never deletes the old copy of content that is
// being read, but another server that shares the blocks does not know about this reader.
func (s *Section) relocate() bool {
	if s.pins != nil {
		lookup := s.engine.Enter()
		defer lookup.Leave()
	}
	old := s.segments[0].Info
	found, err := s.engine.meta.Data(s.ctx, []core.DataID{old.ID})
	if err != nil || len(found) == 0 || slices.Equal(found[0].Extents, old.Extents) {
		return false // report the original error
	}
	if s.pins != nil {
		s.unpinSegments(s.segments[:1])
	}
	s.segments = slices.Clone(s.segments) // they may belong to the object
	s.segments[0].Info = &found[0]
	if s.pins != nil {
		s.pinSegments(s.segments[:1])
	}
	return true
}

// more reads the next page of a long segment list, or continues with the segments after it.
func (s *Section) more() error {
	if s.list == 0 && len(s.tail) > 0 {
		s.segments, s.tail = s.tail, nil
		return nil
	}
	if s.list == 0 {
		return core.E("content.Section", core.Damaged, errors.New("the segments are shorter than the object"))
	}
	if s.pins != nil { // a new lookup: the list is pinned, but not the blocks that it refers to
		lookup := s.engine.Enter()
		defer lookup.Leave()
	}
	parts, err := s.engine.meta.Parts(s.ctx, s.list, s.after, sectionPage, core.PartContent(!s.refer))
	if err != nil {
		return err
	}
	for i := range parts {
		s.segments = append(s.segments, parts[i].Segments...)
		s.after = parts[i].Number
	}
	var enough bool
	s.segments, enough = needed(s.segments, s.skip, s.left)
	if s.pins != nil {
		s.pinSegments(s.segments)
	}
	if enough || len(parts) == 0 {
		s.endList()
	}
	return nil
}

// frame returns the plain bytes of d from an offset to the end of the frame that contains it.
func (s *Section) frame(d *core.DataInfo, at int64) ([]byte, error) {
	f, err := locate(d, at)
	if err != nil {
		return nil, unreadable(d, at, err)
	}
	if d.KeyID != 0 || d.Codec != frame.Plain {
		if err := s.setDecoder(d); err != nil {
			return nil, err
		}
	}
	var content []byte
	if d.Codec == frame.Plain {
		content, err = s.uncompressed(&f)
	} else {
		content, err = s.coded(&f)
	}
	if err != nil {
		return nil, unreadable(d, at, err)
	}
	return content[at-f.index*frame.MaxPlain:], nil
}

// uncompressed returns the plain bytes of a frame of uncompressed content. Its offset can be computed from its number.
func (s *Section) uncompressed(f *frameAt) ([]byte, error) {
	from, n, err := f.bounds()
	if err != nil {
		return nil, err
	}
	if s.reader == nil || s.extent != f.extent {
		if err = s.open(f.extent); err == nil {
			err = s.openSpan(f, from, n)
		}
		if err != nil {
			return nil, err
		}
	}
	raw, err := s.read(f.extent, from, n)
	if err != nil {
		return nil, err
	}
	if f.data.KeyID == 0 {
		return f.open(raw, from, nil)
	}
	return f.open(raw, from, s.decoding.decoder.Sealer)
}

// open opens an extent.
func (s *Section) open(x core.Extent) error {
	if err := s.closeReader(); err != nil {
		return err
	}
	r, err := s.engine.blocks.Open(s.ctx, x)
	if err == nil {
		s.reader, s.extent = r, x
	}
	return err
}

// openSpan begins one long read of all frames of an extent that the section needs, if there are several. The first one
// is f, whose stored form has n bytes.
func (s *Section) openSpan(f *frameAt, from int64, n int) (err error) {
	seg := &s.segments[0]
	inFrame := seg.From + s.skip - f.index*frame.MaxPlain
	frames := (inFrame + min(seg.Length-s.skip, s.left) + frame.MaxPlain - 1) / frame.MaxPlain
	if frames > 1 && !f.final {
		s.spanAt, s.spanEnd = from, min(from+frames*int64(n), f.extent.Length)
		s.span, err = core.ReadSpan(s.ctx, s.reader, from, s.spanEnd-from)
	}
	return err
}

// read returns n bytes of an extent, in the section's buffer.
func (s *Section) read(x core.Extent, from int64, n int) ([]byte, error) {
	if s.reader == nil || s.extent != x {
		if err := s.open(x); err != nil {
			return nil, err
		}
	}
	if s.buffer == nil || len(s.buffer.B) < n {
		if s.buffer != nil {
			s.buffer.Release()
		}
		s.buffer = batch.NewBuffer(n - frame.HeaderSize)
	}
	raw, got, err := s.buffer.B[:n], 0, error(nil)
	if s.span != nil && from == s.spanAt && from+int64(n) <= s.spanEnd {
		got, err = io.ReadFull(s.span, raw)
		s.spanAt += int64(got)
	} else {
		got, err = s.reader.ReadAt(raw, from)
	}
	switch {
	case got == n:
		return raw, nil
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return nil, errShortExtent
	default:
		return nil, core.E("content.read", core.Internal, err)
	}
}

// unreadable adds the DataID and the offset to a read error, and sets its kind. The kind is Damaged for every error
// from the checks of this package and of packages frame and codec, for a missing block, and for a block that ends
// inside the extent. Any other error of a driver keeps its kind: a failed system call, a lack of file descriptors or a
// canceled request proves nothing about the stored bytes.
func unreadable(d *core.DataInfo, at int64, err error) error {
	kind := core.Damaged
	var driver *core.Error
	switch {
	case errors.As(err, &driver) && driver.Kind != core.NoSuchData:
		kind = driver.Kind
	case errors.Is(err, frame.ErrVersion), errors.Is(err, codec.ErrCodec):
		kind = core.Unsupported
	}
	return core.E("content.Section", kind, fmt.Errorf("cannot read content %d at byte %d: %w", d.ID, at, err))
}

// decoding is the state of a Section for the content that it is decoding.
type decoding struct {
	data       core.DataID // the content that decoder is for; 0 if none
	dictionary uint32      // the dictionary of decoder; a repair may change that of the content
	dataKey    []byte      // the data key of decoder; likewise
	decoder    codec.Decoder
	buffer     *batch.Buffer // plain content

	// The frames of extent are located up to frame number, which begins at from. If known is set, head is its header.
	extent core.Extent
	number int64
	from   int64
	head   frame.Header
	known  bool
}

func (d *decoding) close() {
	if d.buffer != nil {
		d.buffer.Release()
		d.buffer = nil
	}
}

// next moves to the frame after head, which must be known.
func (d *decoding) next() {
	d.from += int64(d.head.Size()) + int64(d.head.Stored)
	d.number++
	d.known = false
}

// setDecoder prepares the decoder for d.
func (s *Section) setDecoder(d *core.DataInfo) (err error) {
	c := &s.decoding
	if c.data == d.ID && c.dictionary == d.Dictionary && bytes.Equal(c.dataKey, d.DataKey) {
		return nil
	}
	c.data, c.dictionary, c.dataKey = d.ID, d.Dictionary, d.DataKey
	if c.decoder, err = s.engine.decoder(s.ctx, d, s.customer); err != nil {
		c.data = 0
	}
	return err
}

// decoder returns a decoder for d. Customer is the customer key, or nil if the request has none.
func (e *Engine) decoder(
	ctx context.Context, d *core.DataInfo, customer *codec.Key,
) (decoder codec.Decoder, err error) {
	if decoder.Sealer, err = e.opener(d, customer); err == nil && d.Dictionary != 0 {
		decoder.Dictionary, err = e.dictionaries.get(ctx, d.Dictionary)
	}
	return decoder, err
}

// coded returns the plain bytes of a frame of compressed content, which may also be encrypted.
func (s *Section) coded(f *frameAt) ([]byte, error) {
	d := &s.decoding
	raw, h, err := s.stored(f)
	if err == nil {
		err = f.check(&h)
	}
	if err == nil && h.KeyID == 0 { // decryption verifies encrypted content
		err = h.Verify(raw[h.Size():])
	}
	if err != nil {
		return nil, err
	}
	if d.buffer == nil || len(d.buffer.B) < int(f.plain) {
		d.close()
		d.buffer = batch.NewBuffer(int(f.plain))
	}
	return d.decoder.Decode(d.buffer.B[:0], raw[h.Size():], &h)
}

// stored reads the header and the payload of a frame, without verifying the payload. To find the frame, it reads the
// headers of the frames before it in the extent. The same read also gets the header of the next frame.
func (s *Section) stored(f *frameAt) ([]byte, frame.Header, error) {
	d := &s.decoding
	if d.extent != f.extent || d.number > f.number {
		d.extent, d.number, d.from, d.known = f.extent, 0, 0, false
	}
	for d.number < f.number {
		if err := s.readHead(); err != nil {
			return nil, frame.Header{}, err
		}
		h := &d.head
		if h.Type != frame.Data || h.ID != uint64(f.data.ID) || int64(h.Index) != f.index-f.number+d.number {
			return nil, frame.Header{}, errOtherFrame
		}
		d.next()
	}
	if f.final { // the frame ends with the extent, so one read is enough
		return s.finalFrame()
	}
	if err := s.readHead(); err != nil {
		return nil, frame.Header{}, err
	}
	h, end := d.head, d.from+int64(d.head.Size())+int64(d.head.Stored)
	if end+frame.HeaderSize > d.extent.Length {
		return nil, h, errShortExtent
	}
	raw, err := s.read(d.extent, d.from, int(end+frame.HeaderSize-d.from))
	if err != nil {
		return nil, h, err
	}
	d.next()
	d.head, err = frame.Decode(raw[len(raw)-frame.HeaderSize:], d.extent.Block, d.extent.Offset+d.from)
	d.known = err == nil // otherwise the header is read again when it is needed, and that read fails
	return raw[:len(raw)-frame.HeaderSize], h, nil
}

// finalFrame reads the last frame of the extent.
func (s *Section) finalFrame() ([]byte, frame.Header, error) {
	d := &s.decoding
	n := d.extent.Length - d.from
	if n < frame.ShortSize || n > frame.HeaderSize+frame.MaxStored {
		return nil, frame.Header{}, fmt.Errorf("the last frame of the extent has %d bytes: expected %d to %d",
			n, frame.ShortSize, frame.HeaderSize+frame.MaxStored)
	}
	raw, err := s.read(d.extent, d.from, int(n))
	if err != nil {
		return nil, frame.Header{}, err
	}
	h, err := frame.Decode(raw, d.extent.Block, d.extent.Offset+d.from)
	return raw, h, err
}

// readHead reads the header of the next frame unless it is known.
func (s *Section) readHead() error {
	d := &s.decoding
	if d.known {
		return nil
	}
	if d.from+frame.HeaderSize > d.extent.Length {
		return errShortExtent
	}
	raw, err := s.read(d.extent, d.from, frame.HeaderSize)
	if err != nil {
		return err
	}
	d.head, err = frame.Decode(raw, d.extent.Block, d.extent.Offset+d.from)
	d.known = err == nil
	return err
}
