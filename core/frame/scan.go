package frame

import (
	"bytes"
	"errors"
	"io"
)

// windowSize is how much a Scanner reads at once, in bytes.
const windowSize = 1 << 20

// Scanner reads the frames of a block, mostly forwards, through a window. One goroutine uses it.
type Scanner struct {
	R     io.ReaderAt // of the block, from its start
	Block [16]byte
	Size  int64 // bytes that may hold frames

	window []byte
	from   int64 // where window begins
}

// Bytes returns n bytes at an offset, or ErrNotFrame behind the end. They are valid until the next call.
func (s *Scanner) Bytes(at int64, n int) ([]byte, error) {
	if at+int64(n) > s.Size {
		return nil, ErrNotFrame
	}
	if at < s.from || at+int64(n) > s.from+int64(len(s.window)) {
		size := min(max(int64(n), windowSize), s.Size-at)
		if int64(cap(s.window)) < size {
			s.window = make([]byte, size)
		}
		s.window, s.from = s.window[:size], at
		if _, err := s.R.ReadAt(s.window, at); err != nil && !errors.Is(err, io.EOF) {
			s.window = s.window[:0]
			return nil, err
		}
	}
	i := int(at - s.from)
	return s.window[i : i+n], nil
}

// Header reads the header at an offset; errors as Decode has them.
func (s *Scanner) Header(at int64) (Header, error) {
	b, err := s.Bytes(at, HeaderSize)
	if err != nil {
		return Header{}, err
	}
	return Decode(b, s.Block, at)
}

// Payload returns the verified payload of a frame, valid until the next call.
func (s *Scanner) Payload(h Header) ([]byte, error) {
	b, err := s.Bytes(h.Offset+HeaderSize, int(h.Stored))
	if err != nil {
		return nil, err
	}
	return b, h.Verify(b)
}

// Next returns the offset of the first whole frame header at or behind an offset, or -1 where there is none.
func (s *Scanner) Next(at int64) (int64, error) {
	for at+HeaderSize <= s.Size {
		n := int(min(windowSize, s.Size-at))
		b, err := s.Bytes(at, n)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(b, []byte(Magic))
		if i < 0 {
			at += int64(n - len(Magic) + 1)
			continue
		}
		at += int64(i)
		if _, err := s.Header(at); err == nil {
			return at, nil
		}
		at++
	}
	return -1, nil
}

// Broken says whether err is about the bytes of a frame, and not about reading them.
func Broken(err error) bool { return errors.Is(err, ErrNotFrame) || errors.Is(err, ErrDamaged) }
