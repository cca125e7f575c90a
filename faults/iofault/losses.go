package iofault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// losses keeps what a failed sync did not bring to the drive. The kernel marks it clean all the same: it can be read for a while, a
// later sync says nil, and after a crash of the machine it is gone. Here it goes when the server has ended.
//
// Lengths and names stay; a piece that was written again since is taken as safe.
type losses struct {
	back     string
	unsynced map[string][]piece // by path: written since the last sync
	lost     []piece            // in the order of writing
}

// piece is what stood somewhere before it was written over.
type piece struct {
	path   string
	offset int64
	before []byte
}

// write notes a write before it is done.
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
		_, _ = f.ReadAt(p.before, offset) // behind the end stand zeros
		f.Close()
	}
	l.unsynced[path] = append(l.unsynced[path], p)
}

// sync notes how a sync of a file went.
func (l *losses) sync(path string, ok bool) {
	if !ok {
		l.lost = append(l.lost, l.unsynced[path]...)
	}
	delete(l.unsynced, path)
}

// forget notes that a file is gone, or has another name now.
func (l *losses) forget(path string) {
	delete(l.unsynced, path)
	l.lost = slices.DeleteFunc(l.lost, func(p piece) bool { return p.path == path })
}

// happen takes the losses from the files.
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
