package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// source is the content of an upload.
type source struct {
	at     io.ReaderAt // nil: the content can only be read once, from its beginning
	base   int64       // where the content begins in at
	reader io.Reader   // if at is nil
	size   int64       // -1: unknown
	file   *os.File    // nil: the content is not a file, and cannot change
	id     sourceIdentity
}

// newSource returns the source for what r has from its position to its end. size is what the caller knows; 0 means
// nothing.
func newSource(r io.Reader, size int64) (*source, error) {
	s := &source{reader: r, size: -1}
	if size > 0 {
		s.size = size
	}
	found, err := s.find(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sdk: cannot read the source: %w", err)
	case found >= 0 && size > 0 && found != size:
		return nil, fmt.Errorf("sdk: the source has %d bytes, and UploadOptions.Size is %d", found, size)
	case found >= 0:
		s.size = found
	}
	s.id.Size = s.size
	return s, nil
}

// find sets how r can be read, and returns its size, or -1 if that is unknown.
func (s *source) find(r io.Reader) (int64, error) {
	if f, ok := r.(*os.File); ok {
		return s.ofFile(f)
	}
	at, random := r.(io.ReaderAt)
	if k, ok := r.(io.ReadSeeker); ok {
		start, size, err := measure(k)
		if err != nil { // it has the method, but cannot seek
			return -1, nil
		}
		if s.at, s.base = at, start; !random {
			s.at = &seekerAt{r: k}
		}
		return size, nil
	}
	if k, ok := r.(interface{ Size() int64 }); ok && random {
		s.at = at
		return k.Size(), nil
	}
	return -1, nil
}

func (s *source) ofFile(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, &os.PathError{Op: "read", Path: f.Name(), Err: errIsDir}
	}
	if !info.Mode().IsRegular() {
		return -1, nil
	}
	id, err := identify(f)
	if err != nil {
		return 0, err
	}
	if s.base, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	s.at, s.file = f, f
	if s.base == 0 { // the identity is that of the whole file
		s.id = id
	}
	return max(0, id.Size-s.base), nil
}

// open returns a reader of n bytes at an offset of the content. The source must have random access.
func (s *source) open(offset, n int64) *io.SectionReader {
	return io.NewSectionReader(s.at, s.base+offset, n)
}

// ErrSourceChanged means that a file changed while it was uploaded, or an object while it was downloaded. Nothing was
// written.
var ErrSourceChanged = newKind("the source changed during the transfer")

// unchanged returns ErrSourceChanged if the file is not as it was when the upload began.
func (s *source) unchanged() error {
	if s.file == nil || s.id.Path == "" {
		return nil
	}
	now, err := identify(s.file)
	if err != nil {
		return fmt.Errorf("sdk: cannot read the source: %w", err)
	}
	if !s.id.same(now) {
		return failed(ErrSourceChanged, "the file %s changed while it was uploaded", s.id.Path)
	}
	return nil
}

// shorter returns the error for a read that found the end of the content too early.
func (s *source) shorter(err error) error {
	if !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return fmt.Errorf("sdk: cannot read the source: %w", err)
	}
	if s.file != nil {
		return failed(ErrSourceChanged, "the file %s became shorter while it was uploaded", s.file.Name())
	}
	return fmt.Errorf("sdk: the source is shorter than its size, %d bytes: %w", s.size, io.ErrUnexpectedEOF)
}

// readSmall turns a reader of unknown size into a source of known size, if it has at most putMax bytes.
func (s *source) readSmall() error {
	head, err := io.ReadAll(io.LimitReader(s.reader, putMax+1))
	if err != nil {
		return fmt.Errorf("sdk: cannot read the source: %w", err)
	}
	if len(head) > putMax {
		s.reader = io.MultiReader(bytes.NewReader(head), s.reader)
		return nil
	}
	s.at, s.size, s.id.Size = bytes.NewReader(head), int64(len(head)), int64(len(head))
	return nil
}

// readAll reads a reader of known, small size.
func (s *source) readAll() error {
	b := make([]byte, s.size)
	if _, err := io.ReadFull(s.reader, b); err != nil {
		return s.shorter(err)
	}
	if err := s.atEnd(); err != nil {
		return err
	}
	s.at = bytes.NewReader(b)
	return nil
}

// atEnd returns an error if the reader has more content than it should.
func (s *source) atEnd() error {
	switch n, err := io.ReadFull(s.reader, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("sdk: the source is longer than UploadOptions.Size, %d bytes", s.size)
	case err != io.EOF:
		return fmt.Errorf("sdk: cannot read the source: %w", err)
	}
	return nil
}

// seekerAt reads at any offset of a reader that can seek.
type seekerAt struct {
	mu sync.Mutex // guards the position of r
	r  io.ReadSeeker
}

func (s *seekerAt) ReadAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.r.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s.r, p)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
