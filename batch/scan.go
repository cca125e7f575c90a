package batch

import (
	"bytes"
	"errors"
	"io"

	"orcas/core"
	"orcas/core/frame"
)

// errTail: a record whose later frames are missing.
var errTail = errors.New("the record is cut off")

// windowSize is how much a scanner reads at once, in bytes.
const windowSize = 1 << 20

// scanner reads frames of a block, mostly forwards, through a window.
type scanner struct {
	r      core.BlockReader
	block  core.BlockID
	size   int64
	window []byte
	from   int64 // where window begins
}

// bytes returns n bytes at an offset, or frame.ErrNotFrame behind the end. They are valid until the next call.
func (s *scanner) bytes(at int64, n int) ([]byte, error) {
	if at+int64(n) > s.size {
		return nil, frame.ErrNotFrame
	}
	if at < s.from || at+int64(n) > s.from+int64(len(s.window)) {
		size := min(max(int64(n), windowSize), s.size-at)
		if int64(cap(s.window)) < size {
			s.window = make([]byte, size)
		}
		s.window, s.from = s.window[:size], at
		if _, err := s.r.ReadAt(s.window, at); err != nil && !errors.Is(err, io.EOF) {
			s.window = s.window[:0]
			return nil, err
		}
	}
	i := int(at - s.from)
	return s.window[i : i+n], nil
}

func (s *scanner) header(at int64) (frame.Header, error) {
	b, err := s.bytes(at, frame.HeaderSize)
	if err != nil {
		return frame.Header{}, err
	}
	return frame.Decode(b, s.block, at)
}

// payload returns the verified payload of a frame, valid until the next call.
func (s *scanner) payload(h frame.Header) ([]byte, error) {
	b, err := s.bytes(h.Offset+frame.HeaderSize, int(h.Stored))
	if err != nil {
		return nil, err
	}
	return b, h.Verify(b)
}

// record returns the payload of the record that begins with h, over all its frames, and where it ends.
func (s *scanner) record(h frame.Header) (all []byte, end int64, err error) {
	for index := uint32(0); ; index++ {
		if h.Index != index || h.Type != frame.Record {
			return nil, 0, errTail
		}
		b, err := s.payload(h)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, b...)
		if h.Last {
			return all, h.End(), nil
		}
		id := h.ID
		if h, err = s.header(h.End()); err != nil {
			return nil, 0, err
		}
		if h.ID != id {
			return nil, 0, errTail
		}
	}
}

// next returns the offset of the first whole frame header at or behind an offset, or -1 where there is none.
func (s *scanner) next(at int64) (int64, error) {
	for at+frame.HeaderSize <= s.size {
		n := int(min(windowSize, s.size-at))
		b, err := s.bytes(at, n)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(b, []byte(frame.Magic))
		if i < 0 {
			at += int64(n - len(frame.Magic) + 1)
			continue
		}
		at += int64(i)
		if _, err := s.header(at); err == nil {
			return at, nil
		}
		at++
	}
	return -1, nil
}
