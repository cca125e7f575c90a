package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"orcas/sdk"
)

// remove deletes what only the target has.
func (p *plan) remove(ctx context.Context) error {
	switch {
	case p.options.DryRun:
		for _, path := range p.extra {
			p.removed(path, nil)
		}
	case p.to.remote():
		if err := p.removeObjects(ctx); err != nil {
			return err
		}
	case p.toLocal != nil:
		for _, path := range p.extra {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			e := p.extraEntry(path)
			p.removed(path, p.toLocal.root.Remove(e.name()))
		}
	}
	for _, path := range p.extraDirs {
		if p.options.DryRun {
			p.removed(path, nil)
			continue
		}
		if p.reporter.failed.Load() > 0 {
			break // directories with files that could not be deleted are not empty
		}
		p.removed(path, p.toLocal.root.Remove(path[:len(path)-1]))
	}
	return nil
}

// extraEntry returns the entry of a path that only a local target has.
func (p *plan) extraEntry(path string) *entry {
	e := &entry{path: path}
	if p.options.Symlinks == StoreSymlinks && len(path) > len(linkSuffix) && path[len(path)-len(linkSuffix):] == linkSuffix {
		e.kind = link
		if info, err := p.toLocal.root.Lstat(e.name()); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			e.kind = file // a file whose name ends so
		}
	}
	return e
}

// removeObjects deletes objects, many with each request.
func (p *plan) removeObjects(ctx context.Context) error {
	ids := func(yield func(sdk.ObjectID) bool) {
		for _, path := range p.extra {
			if !yield(sdk.ObjectID{Key: p.to.prefix + path}) {
				return
			}
		}
	}
	for d, err := range p.to.client.DeleteAll(ctx, p.to.bucket, ids, nil) {
		if err != nil {
			return err
		}
		p.removed(strings.TrimPrefix(d.Key, p.to.prefix), d.Err)
	}
	return nil
}

// removed reports a deletion.
func (p *plan) removed(path string, err error) {
	a := Action{Op: OpDelete, Path: path, To: p.to.address(path), Reason: "extra"}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // someone else has deleted it
	}
	if err != nil {
		a.Op, a.Err = OpError, err
	}
	p.reporter.add(a)
}

// directories are the attributes of directories, which they get at the end: with them it may be impossible to write into
// the directories.
type directories struct {
	mu   sync.Mutex // guards list
	list []directoryAttributes
}

type directoryAttributes struct {
	path string
	attributes
}

func (d *directories) add(path string, a attributes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, directoryAttributes{path, a})
}

// apply sets the attributes.
func (d *directories) apply(e *engine) {
	for _, x := range d.list {
		err := e.toLocal.root.Chmod(x.path, fs.FileMode(x.mode&0o777))
		if err == nil && x.owner >= 0 && x.group >= 0 && os.Geteuid() == 0 {
			err = e.toLocal.root.Chown(x.path, x.owner, x.group)
		}
		if err == nil && !x.modified.IsZero() {
			err = e.toLocal.root.Chtimes(x.path, time.Now(), x.modified)
		}
		if err != nil && !errors.Is(err, syscall.ENOTSUP) {
			e.reporter.add(Action{Op: OpError, Path: x.path + "/", To: e.to.address(x.path), Err: err})
		}
	}
	d.list = nil
}
