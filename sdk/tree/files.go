package tree

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// copyBuffers are buffers for content that is passed on.
const copyBufferSize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBufferSize]byte) }}

// staleAfter is the age of temporary files that belong to downloads that have ended. Small files take seconds.
const staleAfter = 24 * time.Hour

// tempName returns a new name that temporaryName matches.
func tempName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return ".orcas-" + hex.EncodeToString(b[:]) + ".tmp"
}

// removeStale removes a temporary file if nothing has been written to it for a long time.
func (l *local) removeStale(rel string) {
	if info, err := l.root.Lstat(rel); err == nil && strings.HasSuffix(rel, ".tmp") && time.Since(info.ModTime()) > staleAfter {
		_ = l.root.Remove(rel) // it is only garbage
	}
}

// checkDirs returns an error if something that is not a directory is on the way to a path: a file, or a symbolic link,
// through which nothing is written.
func (l *local) checkDirs(dir string) (blocked bool, err error) {
	if dir == "." {
		return false, nil
	}
	for end := 0; end < len(dir); end++ {
		if n := strings.IndexByte(dir[end:], '/'); n < 0 {
			end = len(dir)
		} else {
			end += n
		}
		d := entry{path: dir[:end]}
		switch err := l.stat(&d, false); {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, err
		case d.mode&fs.ModeSymlink != 0:
			return true, fmt.Errorf("%q is a symbolic link in the target, and nothing is written through links", d.path)
		case !d.mode.IsDir():
			return true, fmt.Errorf("the target has a file %q where the path needs a directory", d.path)
		}
	}
	return false, nil
}

// content opens a file. The content of a link is its path.
func (l *local) content(e *entry) (io.ReadCloser, error) {
	if e.kind == link {
		target, err := l.root.Readlink(e.name())
		return io.NopCloser(strings.NewReader(target)), err
	}
	return l.root.Open(e.name())
}

// errChanged reports that a file was modified while it was being read.
var errChanged = errors.New("the file was modified while it was being read")

// read reads a file of at most smallMax bytes into buf, and sets the attributes of the entry to those of the file that
// it has read. ok is false if the file has become larger.
func (l *local) read(e *entry, buf *bytes.Buffer) (ok bool, err error) {
	buf.Reset()
	if e.kind == link {
		target, err := l.root.Readlink(e.name())
		buf.WriteString(target)
		e.size = int64(len(target))
		return true, err
	}
	f, err := l.root.Open(e.name())
	if err != nil {
		return false, err
	}
	defer f.Close()
	for range 3 {
		before, err := f.Stat()
		if err != nil {
			return false, err
		}
		if !before.Mode().IsRegular() {
			return false, errors.New("not a regular file any more")
		}
		if setInfo(e, before); e.size > smallMax {
			return false, nil
		}
		buf.Reset()
		buf.Grow(int(e.size) + bytes.MinRead)
		n, err := io.ReadFull(f, buf.AvailableBuffer()[:e.size+1])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		buf.Write(buf.AvailableBuffer()[:min(n, int(e.size))])
		if l.reading != nil {
			l.reading()
		}
		after, err := f.Stat()
		if err != nil {
			return false, err
		}
		if int64(n) == e.size && after.Size() == e.size && after.ModTime().Equal(before.ModTime()) {
			return true, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	}
	return false, errChanged
}

// openDir opens a directory below the tree, and creates it if it does not exist.
func (l *local) openDir(dir string) (*os.Root, error) {
	if _, err := l.checkDirs(dir); err != nil {
		return nil, err
	}
	if err := l.root.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return l.root.OpenRoot(dir)
}

// worker does tasks. It is used by one goroutine, and keeps the directory open in which it has written last.
type worker struct {
	*engine
	dirName string
	dir     *os.Root
	buf     bytes.Buffer
}

func (w *worker) close() {
	if w.dir != nil {
		_ = w.dir.Close() // a directory
	}
	w.dir = nil
}

// parent returns the open directory for a path of the target, which is created if it does not exist, and the name there.
// It is valid until the next call.
func (w *worker) parent(rel string) (*os.Root, string, error) {
	dir, name := path.Split(rel)
	if dir = path.Clean(dir); w.dir != nil && w.dirName == dir {
		return w.dir, name, nil
	}
	w.close()
	root, err := w.toLocal.openDir(dir)
	if err != nil {
		return nil, "", err
	}
	w.dir, w.dirName = root, dir
	return root, name, nil
}
