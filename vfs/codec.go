package vfs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// setCodec says how the content of a bucket is to be stored.
func (f *FS) setCodec(c *Content, b *core.BucketInfo) {
	c.bucket = b
	c.codec.Level = b.Compression
	if c.codec.Level == codec.Default {
		c.codec.Level = f.compression
	}
}

// Describe tells what the headers that are kept with the content say of it, before ReadFrom: what is compressed already is not compressed again.
func (c *Content) Describe(attrs []core.Attr) {
	if c.codec.Level <= codec.Off {
		return
	}
	for i := range attrs {
		switch attrs[i].Name {
		case "Content-Type":
			if codec.IsCompressedType(attrs[i].Value) {
				c.codec.Level = codec.Off
			}
		case "Content-Encoding":
			if codec.IsCompressedEncoding(attrs[i].Value) {
				c.codec.Level = codec.Off
			}
		}
	}
}

// encode brings small content into the form in which it is stored.
func (c *Content) encode(ctx context.Context, info *core.DataInfo, write *batch.Write) {
	write.Info = info
	info.DataKey = c.seal(info.ID)
	info.KeyID = c.codec.KeyID
	content := c.buffer.Content()[:c.size]
	worthwhile := c.codec.Worthwhile(content[:min(len(content), frame.MaxPlain)])
	if worthwhile {
		c.fs.chooseDictionary(ctx, c, content)
	}
	if worthwhile || !c.codec.Plain() && (c.codec.Sealer != nil || len(content) > frame.MaxPlain) {
		frames := c.frames(info, content)
		if c.codec.Sealer != nil || c.codec.Compressed() {
			write.Frames = frames
			return
		}
	}
	write.Content = content
}

// frames returns the frames of small content as the write buffer takes them.
func (c *Content) frames(info *core.DataInfo, content []byte) []byte {
	count := (len(content) + frame.MaxPlain - 1) / frame.MaxPlain
	c.coded = batch.NewBuffer(len(content) + count*(frame.HeaderSize+codec.SealedMore))
	b := c.coded.B[:0]
	h := frame.Header{Type: frame.Data, ID: uint64(info.ID)}
	for ; len(content) > 0; h.Index++ {
		n := min(len(content), frame.MaxPlain)
		h.Offset, h.Last = int64(len(b)), n == len(content)
		at := len(b)
		head := slices.Grow(b, frame.HeaderSize)[:at+frame.HeaderSize]
		if b = c.codec.Encode(head, &h, content[:n]); b == nil {
			b = append(head, content[:n]...)
		}
		frame.Encode(b[at:], &h, b[at+frame.HeaderSize:])
		content = content[n:]
	}
	if c.codec.Compressed() {
		info.Codec = frame.Zstd
		if c.codec.Dictionary != nil {
			info.Dictionary = c.codec.Dictionary.ID()
		}
	}
	return b
}

// decoding is what a Section knows of the content that it is decoding.
type decoding struct {
	data    core.DataID // of the decoder; 0: none
	decoder codec.Decoder
	buffer  *batch.Buffer // plain content

	// Where frames of the extent begin is known up to this one. head is its header, where that was read already.
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

// frameAt is where a frame of a content is: the number within its extent, and what its header has to say.
type frameAt struct {
	data   *core.DataInfo
	extent core.Extent
	number int64 // within the extent, from 0
	index  int64 // within the content
	plain  int64 // bytes
	final  bool  // no other frame follows in the extent
	last   bool  // nor in the content
}

// locate finds the frame that holds a byte of a content.
func locate(d *core.DataInfo, at int64) (frameAt, error) {
	perChunk := d.ChunkSize
	if perChunk == 0 {
		perChunk = d.Size
	}
	chunk := at / perChunk
	if at >= d.Size || chunk >= int64(len(d.Extents)) {
		return frameAt{}, errors.New("no extent")
	}
	f := frameAt{data: d, extent: d.Extents[chunk], number: at % perChunk / frame.MaxPlain}
	rest := min(perChunk, d.Size-chunk*perChunk) - f.number*frame.MaxPlain // of the chunk
	f.index = chunk*(perChunk/frame.MaxPlain) + f.number
	f.plain = min(rest, frame.MaxPlain)
	f.final = f.plain == rest
	f.last = f.final && chunk == int64(len(d.Extents))-1
	return f, nil
}

// check says whether h is the header of the frame.
func (f *frameAt) check(h *frame.Header) error {
	if h.Type != frame.Data || h.ID != uint64(f.data.ID) || int64(h.Index) != f.index || int64(h.Plain) != f.plain || h.Last != f.last {
		return errors.New("a frame of other content")
	}
	return nil
}

// place returns where in its extent a frame stands whose content is not compressed, and its length, header included. All frames before it are
// full.
func (f *frameAt) place() (from int64, n int, err error) {
	around := int64(frame.HeaderSize)
	if f.data.KeyID != 0 {
		around += codec.SealedMore
	}
	from = f.number * (around + frame.MaxPlain)
	if from+around+f.plain > f.extent.Length {
		return 0, 0, errors.New("the extent is too short")
	}
	return from, int(around + f.plain), nil
}

// open returns the content of a frame of which raw is all that is stored from a place in its extent on, header included. Content that is encrypted is decrypted in place, which
// verifies it: where it is not, the frame is another one.
func (f *frameAt) open(raw []byte, from int64, sealer codec.Sealer) ([]byte, error) {
	h, err := frame.Decode(raw, f.extent.Block, f.extent.Offset+from)
	if err != nil {
		return nil, err
	}
	if err := f.check(&h); err != nil {
		return nil, err
	}
	payload := raw[frame.HeaderSize:]
	if h.Codec != frame.Plain || (h.KeyID != 0) != (sealer != nil) {
		return nil, errors.New("a frame of other content")
	}
	if sealer == nil {
		return payload, h.Verify(payload)
	}
	return sealer.Open(payload[:0], payload, &h)
}

// setDecoder makes ready for decoding a content.
func (s *Section) setDecoder(d *core.DataInfo) (err error) {
	if s.decoding.data != d.ID {
		s.decoding.decoder, err = s.fs.decoder(s.ctx, d, s.customer)
		s.decoding.data = d.ID
		if err != nil {
			s.decoding.data = 0
		}
	}
	return err
}

// coded returns the plain content of a frame that is compressed or encrypted.
func (s *Section) coded(f *frameAt) ([]byte, error) {
	d := &s.decoding
	raw, h, err := s.stored(f)
	if err == nil {
		err = f.check(&h)
	}
	if err == nil && h.KeyID == 0 { // what is encrypted says by itself whether it is whole
		err = h.Verify(raw[frame.HeaderSize:])
	}
	if err != nil {
		return nil, err
	}
	if d.buffer == nil || len(d.buffer.B) < int(f.plain) {
		d.close()
		d.buffer = batch.NewBuffer(int(f.plain))
	}
	return d.decoder.Decode(d.buffer.B[:0], raw[frame.HeaderSize:], &h)
}

// stored reads a frame whose place follows from the lengths of those before it in the extent: header and payload, neither of them verified against each other. It
// reads the next frame's header along.
func (s *Section) stored(f *frameAt) ([]byte, frame.Header, error) {
	d := &s.decoding
	if d.extent != f.extent || d.number > f.number {
		d.extent, d.number, d.from, d.known = f.extent, 0, 0, false
	}
	for d.number < f.number {
		if err := s.readHead(); err != nil {
			return nil, frame.Header{}, err
		}
		if h := &d.head; h.Type != frame.Data || h.ID != uint64(f.data.ID) || int64(h.Index) != f.index-f.number+d.number {
			return nil, frame.Header{}, errors.New("a frame of other content")
		}
		d.next()
	}
	if f.final { // its end is known, so one read does
		return s.finalFrame()
	}
	if err := s.readHead(); err != nil {
		return nil, frame.Header{}, err
	}
	h, end := d.head, d.from+frame.HeaderSize+int64(d.head.Stored)
	if end+frame.HeaderSize > d.extent.Length {
		return nil, h, errors.New("the extent is too short")
	}
	raw, err := s.read(d.extent, d.from, int(end+frame.HeaderSize-d.from))
	if err != nil {
		return nil, h, err
	}
	d.next()
	d.head, err = frame.Decode(raw[len(raw)-frame.HeaderSize:], d.extent.Block, d.extent.Offset+d.from)
	d.known = err == nil // else it is read again when it is needed, and fails then
	return raw[:len(raw)-frame.HeaderSize], h, nil
}

// finalFrame reads the rest of the extent, which is one frame.
func (s *Section) finalFrame() ([]byte, frame.Header, error) {
	d := &s.decoding
	n := d.extent.Length - d.from
	if n < frame.HeaderSize || n > frame.HeaderSize+frame.MaxStored {
		return nil, frame.Header{}, fmt.Errorf("a frame of %d bytes", n)
	}
	raw, err := s.read(d.extent, d.from, int(n))
	if err != nil {
		return nil, frame.Header{}, err
	}
	h, err := frame.Decode(raw, d.extent.Block, d.extent.Offset+d.from)
	return raw, h, err
}

// readHead reads the header of the next frame, if it is not known.
func (s *Section) readHead() error {
	d := &s.decoding
	if d.known {
		return nil
	}
	if d.from+frame.HeaderSize > d.extent.Length {
		return errors.New("the extent is too short")
	}
	raw, err := s.read(d.extent, d.from, frame.HeaderSize)
	if err != nil {
		return err
	}
	d.head, err = frame.Decode(raw, d.extent.Block, d.extent.Offset+d.from)
	d.known = err == nil
	return err
}

// next goes on to the frame behind the one whose header is known.
func (d *decoding) next() {
	d.from += frame.HeaderSize + int64(d.head.Stored)
	d.number++
	d.known = false
}

// decoder returns what it takes to read a content. Customer is the key that its owner brought; nil: none.
func (f *FS) decoder(ctx context.Context, d *core.DataInfo, customer *codec.Key) (decoder codec.Decoder, err error) {
	if decoder.Sealer, err = f.opener(d, customer); err == nil && d.Dictionary != 0 {
		decoder.Dictionary, err = f.dictionary(ctx, d.Dictionary)
	}
	return decoder, err
}
