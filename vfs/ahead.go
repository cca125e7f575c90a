package vfs

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// To decrypt a frame takes as long as to send it. So while one frame of a long run is being sent, others are read and decrypted by other
// processors, if they have nothing else to do: where as many frames as half of the processors are being decrypted at the moment, the other
// half has enough to send. Then frames are read one after the other into the same memory, which takes a tenth less of the processor than to pass them from
// one to another, cold. Frames that wait to be sent take memory for as long as a client takes what it is sent, so only so many readers do it at the same time; the
// others go on frame by frame.
const (
	aheadFrames  = 3  // of a reader, the one that is being sent included
	aheadReaders = 64 // of the process: at most 48 MiB
)

// ahead is what the readers of encrypted content know of each other.
type ahead struct {
	readers  atomic.Int32 // that may read ahead
	frames   atomic.Int32 // that are being read and decrypted for them
	together int32        // the most frames at which another one is read ahead
}

// aheadFrame is a frame that is being read while others are sent.
type aheadFrame struct {
	buffer  *batch.Buffer
	content []byte
	err     error
	done    chan struct{} // one token: the frame is there
}

// run is a run of frames of one content that is being sent. Frames are read in the slots of the ring in turns.
type run struct {
	s            *Section
	data         *core.DataInfo
	sealer       codec.Sealer
	ring         [aheadFrames]aheadFrame
	begun, taken int   // frames
	from, end    int64 // bytes of the content that nobody reads yet
}

// writeAhead writes a run of encrypted frames to w, if there is a run that is worth it: several frames of one content that are not compressed. It returns what it
// wrote; 0, nil: next has to do it.
func (s *Section) writeAhead(w io.Writer) (n int64, err error) {
	if len(s.segments) == 0 || s.skip >= s.segments[0].Length {
		return 0, nil
	}
	seg := &s.segments[0]
	d := seg.Info
	length := min(seg.Length-s.skip, s.left)
	if d == nil || d.KeyID == 0 || d.Codec != frame.Plain || length <= 2*frame.MaxPlain {
		return 0, nil
	}
	defer s.fs.ahead.readers.Add(-1)
	if s.fs.ahead.readers.Add(1) > aheadReaders {
		return 0, nil
	}
	if err := s.setDecoder(d); err != nil {
		return 0, err
	}
	if s.buffer != nil { // its frame is sent
		s.buffer.Release()
		s.buffer = nil
	}
	at := seg.From + s.skip
	r := &run{s: s, data: d, sealer: s.sealer(d), from: at, end: at + length}
	defer r.close()
	n, err = r.send(w, length)
	s.skip += n
	s.left -= n
	return n, err
}

// send writes n bytes to w.
func (r *run) send(w io.Writer, n int64) (sent int64, err error) {
	for sent < n {
		if r.begun == r.taken {
			r.begun, r.taken = 0, 0 // the memory that was used last is still in the processor's cache
			r.s.fs.ahead.frames.Add(1)
			r.read(r.next())
		}
		a := &r.ring[r.taken%aheadFrames]
		<-a.done
		r.taken++
		if a.err != nil {
			return sent, a.err
		}
		for r.begun-r.taken < aheadFrames-1 && r.from < r.end && r.s.fs.ahead.idle() {
			a, from := r.next()
			go r.read(a, from)
		}
		m, err := w.Write(a.content[:min(int64(len(a.content)), n-sent)])
		sent += int64(m)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// idle says whether a processor can be had to read a frame ahead, and counts the frame.
func (a *ahead) idle() bool {
	if a.frames.Add(1) <= a.together {
		return true
	}
	a.frames.Add(-1)
	return false
}

// next takes the next frame: where it goes, and from which byte on it is wanted.
func (r *run) next() (a *aheadFrame, from int64) {
	a, from = &r.ring[r.begun%aheadFrames], r.from
	if a.buffer == nil {
		a.buffer, a.done = batch.NewBuffer(frame.MaxPlain+codec.SealedMore), make(chan struct{}, 1)
	}
	r.begun++
	r.from += frame.MaxPlain - from%frame.MaxPlain
	return a, from
}

// read reads a frame that next took and ahead has counted.
func (r *run) read(a *aheadFrame, from int64) {
	a.content, a.err = r.s.fs.readFrame(r.s.ctx, r.data, from, a.buffer, r.sealer)
	r.s.fs.ahead.frames.Add(-1)
	a.done <- struct{}{}
}

// close waits for the frames that are still being read.
func (r *run) close() {
	for ; r.taken < r.begun; r.taken++ {
		<-r.ring[r.taken%aheadFrames].done
	}
	for i := range r.ring {
		if r.ring[i].buffer != nil {
			r.ring[i].buffer.Release()
		}
	}
}

// readFrame reads the frame of a content that holds the byte at, and returns the content from there on, which stands in buffer.
func (f *FS) readFrame(ctx context.Context, d *core.DataInfo, at int64, buffer *batch.Buffer, sealer codec.Sealer) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.E("vfs.Section", core.Canceled, err)
	}
	content, err := f.openFrame(ctx, d, at, buffer, sealer)
	if err != nil {
		return nil, damaged(d, at, err)
	}
	return content, nil
}

func (f *FS) openFrame(ctx context.Context, d *core.DataInfo, at int64, buffer *batch.Buffer, sealer codec.Sealer) ([]byte, error) {
	l, err := locate(d, at)
	if err != nil {
		return nil, err
	}
	from, n, err := l.place()
	if err != nil {
		return nil, err
	}
	r, err := f.blocks.Open(ctx, l.extent)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw := buffer.B[:n]
	if got, err := r.ReadAt(raw, from); got < n {
		return nil, fmt.Errorf("%d of %d bytes: %w", got, n, err)
	}
	content, err := l.open(raw, sealer)
	if err != nil {
		return nil, err
	}
	return content[at-l.index*frame.MaxPlain:], nil
}
