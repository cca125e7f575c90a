package vfs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/internal/epoch"
)

// partsPage is how many parts of a long segment list are read at once.
const partsPage = 1000

// Object is a version that is open for reading.
type Object struct {
	Info *core.ObjectInfo
	fs   *FS
	pin  epoch.Reader

	customer *codec.Key // see Unlock
}

// Open finds a version; errors as for Stat, with the marker in the Object's Info. After an error the Object is closed.
func (f *FS) Open(ctx context.Context, b *core.BucketInfo, key string, v core.Version) (*Object, error) {
	o := &Object{fs: f, pin: f.readers.Enter()}
	var err error
	if o.Info, err = f.Stat(ctx, b, key, v); err != nil {
		o.Close()
	}
	return o, err
}

// reopen opens a version that Stat returned; Conflict where it is not there any more.
func (f *FS) reopen(ctx context.Context, info *core.ObjectInfo) (*Object, error) {
	o, err := f.Open(ctx, &core.BucketInfo{ID: info.Bucket}, info.Key, info.Version())
	if err == nil && o.Info.Seq != info.Seq {
		o.Close()
		err = core.E("vfs.reopen", core.NoSuchVersion, nil)
	}
	if core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion) {
		err = core.E("vfs.reopen", core.Conflict, err)
	}
	return o, err
}

// Close lets go of the object; its Sections must be closed already.
func (o *Object) Close() {
	if o.fs != nil {
		o.pin.Leave()
		o.fs = nil
	}
}

// Range returns the n bytes from off on. Its first frame is read and verified: Damaged comes before any byte is handed out.
func (o *Object) Range(ctx context.Context, off, n int64) (*Section, error) {
	if off < 0 || n < 0 || off > o.Info.Size || n > o.Info.Size-off {
		return nil, badRange("vfs.Range", off, n, o.Info.Size)
	}
	s := &Section{ctx: ctx, fs: o.fs, left: n, customer: o.customer}
	if n == 0 {
		return s, nil
	}
	s.seek(o.Info, off)
	if err := s.next(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// seek makes off the place in an object's content where s goes on.
func (s *Section) seek(o *core.ObjectInfo, off int64) {
	behind := o.Size // where the list ends and the segments begin
	for i := range o.Segments {
		behind -= o.Segments[i].Length
	}
	if o.List == 0 || off >= behind {
		s.segments, s.skip = o.Segments, off-behind
		return
	}
	s.list, s.tail = o.List, o.Segments
	for _, x := range o.Index {
		if x.Offset > off {
			break
		}
		s.after, s.skip = x.After, x.Offset
	}
	s.skip = off - s.skip
}

// Section is a run of content being read, one verified frame at a time. One goroutine uses it.
type Section struct {
	ctx      context.Context
	fs       *FS
	left     int64          // bytes not yet in ready
	segments []core.Segment // the next ones
	list     core.UploadID  // where more segments come from; 0: nowhere
	after    int            // the last part read of it
	tail     []core.Segment // what follows the list
	skip     int64          // bytes to skip in segments
	ready    []byte         // verified, not yet handed out: a part of buffer
	buffer   *batch.Buffer
	reader   core.BlockReader // of extent
	extent   core.Extent
	decoding decoding
	customer *codec.Key // see Object.Unlock
}

// WriteTo writes what is left to w. An error before the end means that what was written is only a part.
func (s *Section) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if len(s.ready) > 0 {
			m, err := w.Write(s.ready)
			n += int64(m)
			if err != nil {
				return n, err
			}
			s.ready = nil
		}
		if s.left == 0 {
			return n, nil
		}
		if err := s.next(); err != nil {
			return n, err
		}
	}
}

// Read implements io.Reader.
func (s *Section) Read(p []byte) (int, error) {
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

// Close lets go of the buffer and the block.
func (s *Section) Close() error {
	if s.buffer != nil {
		s.buffer.Release()
		s.buffer, s.ready = nil, nil
	}
	s.decoding.close()
	return s.closeReader()
}

func (s *Section) closeReader() error {
	if s.reader == nil {
		return nil
	}
	r := s.reader
	s.reader = nil
	return r.Close()
}

// next reads and verifies the frame in which the section goes on.
func (s *Section) next() error {
	if err := s.ctx.Err(); err != nil {
		return core.E("vfs.Section", core.Canceled, err)
	}
	for len(s.segments) == 0 || s.skip >= s.segments[0].Length {
		if len(s.segments) > 0 {
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
		return core.E("vfs.Section", core.Internal, fmt.Errorf("data %d is not resolved", seg.Data))
	}
	content, err := s.frame(seg.Info, seg.From+s.skip)
	if err != nil {
		if core.Is(err, core.Damaged) {
			s.fs.unshare(s.ctx, seg.Info)
		}
		return err
	}
	n := min(int64(len(content)), seg.Length-s.skip, s.left)
	s.ready = content[:n]
	s.skip += n
	s.left -= n
	return nil
}

// more reads the next page of a long segment list, or goes on behind it.
func (s *Section) more() error {
	if s.list == 0 && len(s.tail) > 0 {
		s.segments, s.tail = s.tail, nil
		return nil
	}
	if s.list == 0 {
		return core.E("vfs.Section", core.Damaged, errors.New("the segments end before the object does"))
	}
	parts, err := s.fs.meta.Parts(s.ctx, s.list, s.after, partsPage)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		s.list = 0
	}
	for i := range parts {
		s.segments = append(s.segments, parts[i].Segments...)
		s.after = parts[i].Number
	}
	return nil
}

// frame returns the plain content of a DataInfo from an offset on, to the end of the frame that holds the offset.
func (s *Section) frame(d *core.DataInfo, at int64) ([]byte, error) {
	f, err := locate(d, at)
	if err != nil {
		return nil, damaged(d, at, err)
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
		return nil, damaged(d, at, err)
	}
	return content[at-f.index*frame.MaxPlain:], nil
}

// uncompressed returns the content of a frame that is not compressed, so that its place follows from its number.
func (s *Section) uncompressed(f *frameAt) ([]byte, error) {
	from, n, err := f.place()
	if err != nil {
		return nil, err
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

// read returns n bytes of an extent, in the section's buffer.
func (s *Section) read(e core.Extent, from int64, n int) ([]byte, error) {
	if s.reader == nil || s.extent != e {
		if err := s.closeReader(); err != nil {
			return nil, err
		}
		r, err := s.fs.blocks.Open(s.ctx, e)
		if err != nil {
			return nil, err
		}
		s.reader, s.extent = r, e
	}
	if s.buffer == nil || len(s.buffer.B) < n {
		if s.buffer != nil {
			s.buffer.Release()
		}
		s.buffer = batch.NewBuffer(n - frame.HeaderSize)
	}
	raw := s.buffer.B[:n]
	if got, err := s.reader.ReadAt(raw, from); got < n {
		return nil, err
	}
	return raw, nil
}

// damaged says which content cannot be read. Passing lack of means (too many open files) keeps its kind.
func damaged(d *core.DataInfo, at int64, err error) error {
	kind := core.Damaged
	if core.Is(err, core.Overloaded) || core.Is(err, core.Canceled) {
		kind = core.KindOf(err)
	}
	return core.E("vfs.Section", kind, fmt.Errorf("data %d at byte %d: %w", d.ID, at, err))
}
