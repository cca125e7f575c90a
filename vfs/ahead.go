package vfs

import (
	"context"
	"fmt"
	"io"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// To decrypt a frame takes as long as to send it. So while one frame of a long run is being sent, others are read and decrypted by other
// processors. That takes memory for as long as a client takes what it is sent, so only so many readers do it at the same time; the others
// go on frame by frame.
const (
	aheadFrames  = 3  // of a reader, the one that is being sent included
	aheadReaders = 64 // of the process: at most 48 MiB
)

// ahead is a frame that is being read while others are sent.
type ahead struct {
	buffer  *batch.Buffer
	content []byte
	err     error
	done    chan struct{} // one token: the frame is there
}

// writeAhead writes a run of encrypted frames to w, if there is a run that is worth it: several frames of one content that are not compressed. It returns what it
// wrote; 0, nil: next has to do it.
func (s *Section) writeAhead(w io.Writer) (n int64, err error) {
	if len(s.segments) == 0 || s.skip >= s.segments[0].Length {
		return 0, nil
	}
	seg := &s.segments[0]
	d := seg.Info
	run := min(seg.Length-s.skip, s.left)
	if d == nil || d.KeyID == 0 || d.Codec != frame.Plain || run <= 2*frame.MaxPlain {
		return 0, nil
	}
	if s.fs.ahead.Add(1) > aheadReaders {
		s.fs.ahead.Add(-1)
		return 0, nil
	}
	defer s.fs.ahead.Add(-1)
	if err := s.setDecoder(d); err != nil {
		return 0, err
	}
	if s.buffer != nil { // its frame is sent
		s.buffer.Release()
		s.buffer = nil
	}
	n, err = s.sendAhead(w, d, seg.From+s.skip, run)
	s.skip += n
	s.left -= n
	return n, err
}

// sendAhead writes n bytes of a content, from at on.
func (s *Section) sendAhead(w io.Writer, d *core.DataInfo, at, n int64) (sent int64, err error) {
	var ring [aheadFrames]ahead
	sealer := s.sealer(d)
	started := at // the place from which nothing was started yet
	begun, ended := 0, 0
	start := func() {
		a := &ring[begun%aheadFrames]
		if a.buffer == nil {
			a.buffer, a.done = batch.NewBuffer(frame.MaxPlain+codec.SealedMore), make(chan struct{}, 1)
		}
		go func(from int64) {
			a.content, a.err = s.fs.readFrame(s.ctx, d, from, a.buffer, sealer)
			a.done <- struct{}{}
		}(started)
		begun++
		started += frame.MaxPlain - started%frame.MaxPlain
	}
	defer func() {
		for ; ended < begun; ended++ {
			<-ring[ended%aheadFrames].done
		}
		for i := range ring {
			if ring[i].buffer != nil {
				ring[i].buffer.Release()
			}
		}
	}()
	for sent < n {
		for begun-ended < aheadFrames && started < at+n {
			start()
		}
		a := &ring[ended%aheadFrames]
		<-a.done
		ended++
		if a.err != nil {
			return sent, a.err
		}
		content := a.content[:min(int64(len(a.content)), n-sent)]
		m, err := w.Write(content)
		sent += int64(m)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
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
