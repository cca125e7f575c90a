package iofault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// losses simulates the data that a failed sync did not write to the drive. The kernel marks such pages as clean
// nonetheless: they can be read for a while, a later sync succeeds, and after a crash of the machine the data is lost.
// Here it is lost when the server has ended.
//
// File lengths and names are kept; a piece that was rewritten later counts as safe.
type losses struct {
	back     string
	unsynced map[string][]piece // pieces written since the last sync, by path
	lost     []piece            // in the order in which they were written
}

// piece is a range of a file, with its content before it was overwritten.
type piece struct {
	path   string
	offset int64
	before []byte
}

// write records a write before it is performed.
func (l *losses) write(path string, offset int64, n int) {
	if isShared(path) {
		return
	}
	end := offset + int64(n)
	l.lost = slices.DeleteFunc(l.lost, func(p piece) bool {
		return p.path == path && p.offset < end && offset < p.offset+int64(len(p.before))
	})
	p := piece{path, offset, make([]byte, n)}
	if f, err := os.Open(filepath.Join(l.back, path)); err == nil {
		_, _ = f.ReadAt(p.before, offset) // beyond the end of the file, before stays zero
		f.Close()
	}
	l.unsynced[path] = append(l.unsynced[path], p)
}

// sync records the result of a sync of a file.
func (l *losses) sync(path string, ok bool) {
	if !ok {
		l.lost = append(l.lost, l.unsynced[path]...)
	}
	delete(l.unsynced, path)
}

// forget records that a file was deleted or renamed.
func (l *losses) forget(path string) {
	delete(l.unsynced, path)
	l.lost = slices.DeleteFunc(l.lost, func(p piece) bool { return p.path == path })
}

// happen undoes the lost writes in the files.
func (l *losses) happen() error {
	for _, p := range slices.Backward(l.lost) {
		f, err := os.OpenFile(filepath.Join(l.back, p.path), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		st, err := f.Stat()
		if err == nil && p.offset < st.Size() {
			_, err = f.WriteAt(p.before[:min(int64(len(p.before)), st.Size()-p.offset)], p.offset)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	l.lost = nil
	return nil
}
