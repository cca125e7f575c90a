package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// walkers is the number of goroutines that read the attributes of files. More than the cores of most machines have use
// for, but it helps if the drive or the network must be waited for.
const walkers = 8

// local is an open local directory.
type local struct {
	dir  string   // as the caller wrote it
	root *os.Root // for everything below the directory
	fd   *os.File // the directory, for attributes

	reading func() // for tests: called while a file is being read; nil is nothing
}

// openLocal opens a directory.
func openLocal(dir string) (*local, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	fd, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &local{dir: dir, root: root, fd: fd}, nil
}

func (l *local) close() {
	_ = l.fd.Close() // read only
	_ = l.root.Close()
}

// path returns the path of a file below the directory, for messages.
func (l *local) path(rel string) string { return filepath.Join(l.dir, filepath.FromSlash(rel)) }

// walk is a walk through a local directory.
//
// One goroutine reads the directories, in order, and passes names in batches to several others, which read the
// attributes of the files. The consumer gets the batches in order. In memory are the names of one directory on each level
// of the current path, and the batches.
type walk struct {
	*local
	ctx      context.Context
	filter   filter
	symlinks Symlinks
	batches  chan<- *batch
	work     chan<- *batch
	current  *batch
	stale    func(rel string) // called with the path of each temporary file
}

// walkStream returns the files below a directory as a stream. stale is called with the path of each temporary file that a
// download has left there.
func (l *local) walkStream(ctx context.Context, f filter, s Symlinks, stale func(rel string)) *stream {
	batches, work := make(chan *batch, streamBatches), make(chan *batch, streamBatches)
	w := &walk{local: l, ctx: ctx, filter: f, symlinks: s, batches: batches, work: work, stale: stale}
	var stats sync.WaitGroup
	for range walkers {
		stats.Go(func() {
			for b := range work {
				w.readAttributes(b)
			}
		})
	}
	go func() {
		defer close(batches)
		err := w.all()
		close(work)
		stats.Wait()
		if err != nil {
			select {
			case batches <- &batch{err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return &stream{ctx: ctx, batches: batches, where: l.dir}
}

// all adds all entries.
func (w *walk) all() error {
	list, above, err := w.read("", nil)
	if err != nil {
		return err
	}
	if err := w.directory("", list, above); err != nil {
		return err
	}
	return w.flush()
}

// readAttributes reads the attributes of the entries of a batch.
func (w *walk) readAttributes(b *batch) {
	defer close(b.ready)
	for i := range b.entries {
		e := &b.entries[i]
		if e.err != nil || w.ctx.Err() != nil {
			continue
		}
		if err := w.stat(e, w.symlinks == FollowSymlinks); err != nil {
			e.err = err
		}
	}
}

// put adds an entry to the stream.
func (w *walk) put(e entry) error {
	if w.current == nil {
		w.current = &batch{ready: make(chan struct{}), entries: make([]entry, 0, batchEntries)}
	}
	w.current.entries = append(w.current.entries, e)
	if len(w.current.entries) == batchEntries {
		return w.flush()
	}
	return nil
}

func (w *walk) flush() error {
	b := w.current
	if w.current = nil; b == nil {
		return nil
	}
	select {
	case w.work <- b:
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	select {
	case w.batches <- b:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// directory adds the entries below a directory, "" or a path that ends with "/", whose names are in list. Above are the
// directories on the way to them, if symbolic links are followed. It returns an error only if the whole walk must end.
func (w *walk) directory(rel string, list *names, above []fs.FileInfo) error {
	for i := range list.items {
		path, k := rel+string(list.bytes(i)), list.items[i].kind
		if k != directory {
			if w.filter.includes(path) {
				if err := w.put(entry{path: path, kind: k}); err != nil {
					return err
				}
			}
			continue
		}
		if w.filter.excludesAll(path) {
			continue
		}
		below, above, err := w.read(path, above)
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		if err != nil {
			below = &names{}
		}
		if err := w.put(entry{path: path, kind: directory, err: err, partial: w.hides(path, below)}); err != nil {
			return err
		}
		if err := w.directory(path, below, above); err != nil {
			return err
		}
	}
	return nil
}

// hides reports whether a directory has something that is not part of the tree.
func (w *walk) hides(rel string, list *names) bool {
	if list.hidden || len(w.filter) == 0 {
		return list.hidden
	}
	for i := range list.items {
		path := rel + string(list.bytes(i))
		if list.items[i].kind == directory && w.filter.excludesAll(path) || list.items[i].kind != directory && !w.filter.includes(path) {
			return true
		}
	}
	return false
}

// read reads a directory, and returns the directories on the way to those below it.
func (w *walk) read(rel string, above []fs.FileInfo) (*names, []fs.FileInfo, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, nil, err
	}
	name := strings.TrimSuffix(rel, "/")
	if name == "" {
		name = "."
	}
	dir, err := w.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	if w.symlinks == FollowSymlinks {
		info, err := dir.Stat()
		if err != nil {
			return nil, nil, err
		}
		for _, a := range above {
			if os.SameFile(a, info) {
				return nil, nil, errors.New("a symbolic link leads to a directory above itself")
			}
		}
		above = append(above[:len(above):len(above)], info)
	}
	list, err := readNames(dir, func(name string, t fs.FileMode) (kind, bool) { return w.classify(rel, name, t) })
	return list, above, err
}

// classify returns the kind of a name in a directory, and whether it is part of the tree.
func (w *walk) classify(rel, name string, t fs.FileMode) (kind, bool) {
	switch {
	case t.IsDir():
		return directory, true
	case t.IsRegular():
		if temporaryName.MatchString(name) {
			if w.stale != nil {
				w.stale(rel + name)
			}
			return file, false
		}
		return file, true
	case t&fs.ModeSymlink != 0 && w.symlinks == StoreSymlinks:
		return link, true
	case t&fs.ModeSymlink != 0 && w.symlinks == FollowSymlinks:
		info, err := w.root.Stat(rel + name)
		if err != nil || info.Mode().IsRegular() {
			return file, true // the error is reported when the attributes are read
		}
		if info.IsDir() {
			return directory, true
		}
	}
	return other, true
}
