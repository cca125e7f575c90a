package sdk

import (
	"io"
	"io/fs"
	"sync"
)

// objectFile is an open object. Read and Seek are for one goroutine at a time, ReadAt for several.
type objectFile struct {
	fs   *objectFS
	name string
	info *fileInfo

	mu     sync.Mutex // guards the fields below
	offset int64      // of the next Read
	stream *Object    // the content from offset; nil if none is open
	closed bool
}

var (
	_ io.ReadSeeker = (*objectFile)(nil)
	_ io.ReaderAt   = (*objectFile)(nil)
)

func (f *objectFile) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, pathError("stat", f.name, fs.ErrClosed)
	}
	return f.info, nil
}

// options returns the options of a request for the version that was opened.
func (f *objectFile) options(offset, length int64) *GetOptions {
	o := f.info.object
	return &GetOptions{VersionID: o.VersionID, Offset: offset, Length: length, Conditions: Conditions{IfMatch: o.ETag}}
}

func (f *objectFile) get(offset, length int64) (*Object, error) {
	return f.fs.client.Get(f.fs.ctx, f.fs.bucket, f.fs.prefix+f.name, f.options(offset, length))
}

// Read implements io.Reader with one request for everything that follows.
func (f *objectFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case f.offset >= f.info.size && f.stream == nil: // an open stream still has to verify the content
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if f.stream == nil {
		s, err := f.get(f.offset, 0)
		if err != nil {
			return 0, pathError("read", f.name, err)
		}
		f.stream = s
	}
	n, err := f.stream.Read(p)
	f.offset += int64(n)
	if err != nil {
		f.drop()
		if err != io.EOF {
			err = pathError("read", f.name, err)
		}
	}
	return n, err
}

// drop closes the stream.
func (f *objectFile) drop() {
	if f.stream != nil {
		_ = f.stream.Close() // nothing more is read from it
		f.stream = nil
	}
}

// Seek implements io.Seeker. The next Read sends a new request, unless the offset is the same.
func (f *objectFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, pathError("seek", f.name, fs.ErrClosed)
	case whence == io.SeekCurrent:
		offset += f.offset
	case whence == io.SeekEnd:
		offset += f.info.size
	case whence != io.SeekStart:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset != f.offset {
		f.drop()
		f.offset = offset
	}
	return offset, nil
}

// ReadAt implements io.ReaderAt with one request for each call.
func (f *objectFile) ReadAt(p []byte, offset int64) (int, error) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	switch {
	case closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case offset < 0:
		return 0, pathError("read", f.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case offset >= f.info.size:
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.info.size-offset))
	s, err := f.get(offset, int64(n))
	if err != nil {
		return 0, pathError("read", f.name, err)
	}
	defer s.Close()
	got, err := io.ReadFull(s, p[:n])
	switch {
	case err != nil:
		return got, pathError("read", f.name, err)
	case got < len(p):
		return got, io.EOF
	}
	return got, nil
}

func (f *objectFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.drop()
	f.closed = true
	return nil
}
