package frame

import (
	"bytes"
	"errors"
	"io"
)

// windowSize is the minimum number of bytes that a Scanner reads with one call of ReadAt.
const windowSize = 1 << 20

// Scanner reads the frames of a block, mostly forward, through a window. It is not safe for concurrent use.
type Scanner struct {
	R     io.ReaderAt // reads the block, from its start
	Block [16]byte
	Size  int64 // size of the part of the block that may contain frames, in bytes

	window []byte
	from   int64 // offset of window in the block
}

// Bytes returns the n bytes at an offset, which are valid until the next call. It returns ErrNotFrame if they extend
// beyond the end.
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

// Header reads the header at an offset. It returns the errors of Decode, and read errors.
func (s *Scanner) Header(at int64) (Header, error) {
	size := max(min(HeaderSize, s.Size-at), ShortSize) // a short header may be at the end
	b, err := s.Bytes(at, int(size))
	if err != nil {
		return Header{}, err
	}
	return Decode(b, s.Block, at)
}

// Payload returns the verified payload of a frame, which is valid until the next call.
func (s *Scanner) Payload(h Header) ([]byte, error) {
	b, err := s.Bytes(h.Offset+int64(h.Size()), int(h.Stored))
	if err != nil {
		return nil, err
	}
	return b, h.Verify(b)
}

// Next returns the offset of the first intact frame header at or after an offset, or -1 if there is none.
func (s *Scanner) Next(at int64) (int64, error) {
	for at+ShortSize <= s.Size {
		n := int(min(windowSize, s.Size-at))
		b, err := s.Bytes(at, n)
		if err != nil {
			return 0, err
		}
		i := bytes.Index(b, []byte(sharedMagic))
		if i < 0 {
			at += int64(n - len(sharedMagic) + 1) // the last bytes may be the beginning of sharedMagic
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

// Broken reports whether err means that the bytes of a frame are invalid, as opposed to a failed read.
func Broken(err error) bool { return errors.Is(err, ErrNotFrame) || errors.Is(err, ErrDamaged) }
