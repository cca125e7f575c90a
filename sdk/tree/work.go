package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"orcas/sdk"
)

// do does a task, and reports the result.
func (w *worker) do(ctx context.Context, t *task) {
	if t.list != nil {
		w.copyVersions(ctx, t)
		return
	}
	if t.check && !w.decided(ctx, t) {
		return
	}
	if t.exists && w.options.Conflict == Rename {
		same, err := w.rename(ctx, t)
		if err != nil {
			w.failed(ctx, t, err)
			return
		}
		if same {
			w.skip(t, "exists as "+path.Base(t.path))
			w.removeSource(ctx, t)
			return
		}
	}
	if w.options.DryRun {
		w.copied(t, 0)
		w.removeSource(ctx, t)
		return
	}
	w.transfer(ctx, t)
}

// decided finishes a comparison. It returns false if the file is not copied.
func (w *worker) decided(ctx context.Context, t *task) bool {
	if t.reason == "equal" {
		w.skip(t, "equal")
		w.removeSource(ctx, t)
		return false
	}
	v, reason, err := w.resolve(ctx, &t.from, &t.to)
	if err != nil {
		w.failed(ctx, t, err)
		return false
	}
	if v == equal {
		w.skip(t, "equal")
		w.removeSource(ctx, t)
		return false
	}
	t.reason = reason
	skip, err := w.applyPolicy(t)
	if err != nil {
		w.failed(ctx, t, err)
		return false
	}
	if skip != "" {
		w.skip(t, skip)
		return false
	}
	w.reporter.planned(t.from.size)
	return true
}

// transfer copies a file.
func (w *worker) transfer(ctx context.Context, t *task) {
	switch {
	case w.from.remote() && w.to.remote():
		w.copyRemote(ctx, t)
	case w.from.remote():
		w.download(ctx, t)
	default:
		w.upload(ctx, t)
	}
}

// done reports that a file was copied. sent is what the copy has sent.
func (e *engine) transferred(ctx context.Context, t *task, sent int64) {
	e.copied(t, sent)
	e.removeSource(ctx, t)
}

// removeSource deletes the source of a file that was moved.
func (e *engine) removeSource(ctx context.Context, t *task) {
	if e.purpose != moving || t.mkdir && !e.from.remote() {
		return
	}
	if !e.options.DryRun {
		if err := e.deleteSource(ctx, t); err != nil {
			e.failed(ctx, t, fmt.Errorf("it was copied, but not deleted at the source: %w", err))
			return
		}
	}
	a := e.action(OpDelete, t)
	a.To, a.Reason = "", "moved"
	e.reporter.add(a)
}

// deleteSource deletes a file or an object, unless it has changed since it was copied.
func (e *engine) deleteSource(ctx context.Context, t *task) error {
	if e.from.remote() {
		_, err := e.from.client.Delete(ctx, e.from.bucket, e.from.prefix+t.from.path, nil)
		return err
	}
	now := entry{path: t.from.path, kind: t.from.kind}
	if err := e.fromLocal.stat(&now, e.options.Symlinks == FollowSymlinks); err != nil {
		return err
	}
	if now.size != t.from.size || now.modified != t.from.modified {
		return errChanged
	}
	return e.fromLocal.root.Remove(t.from.name())
}

// renameMax is the number of names that rename tries.
const renameMax = 10_000

// rename sets the path of a task to a free name, "name (1).ext" and so on. same reports that a former run has already
// written the file under such a name.
func (e *engine) rename(ctx context.Context, t *task) (same bool, err error) {
	dir, name := path.Split(t.path)
	suffix := ""
	if t.from.kind == link || e.options.Symlinks == StoreSymlinks && strings.HasSuffix(name, linkSuffix) {
		name, suffix = strings.TrimSuffix(name, linkSuffix), linkSuffix
	}
	ext := path.Ext(name)
	if ext == name {
		ext = "" // .profile
	}
	stem := strings.TrimSuffix(name, ext)
	for n := 1; n <= renameMax; n++ {
		t.path = fmt.Sprintf("%s%s (%d)%s%s", dir, stem, n, ext, suffix)
		found, err := e.find(ctx, &e.to, e.toLocal, t.path)
		if err != nil {
			return false, err
		}
		if found == nil {
			other, err := e.find(ctx, &e.from, e.fromLocal, t.path)
			if err != nil {
				return false, err
			}
			if other == nil {
				return false, nil
			}
			continue // the source has a file of this name, which may be on its way
		}
		if found.kind != file && found.kind != link {
			continue
		}
		v, _ := e.compare(&t.from, found)
		if v == unknown {
			if v, _, err = e.resolve(ctx, &t.from, found); err != nil {
				return false, err
			}
		}
		if v == equal {
			return true, nil
		}
	}
	return false, fmt.Errorf("%d names like %q exist already", renameMax, t.path)
}

// find returns what a tree has at a path, or nil.
func (e *engine) find(ctx context.Context, p *Place, l *local, rel string) (*entry, error) {
	if p.remote() {
		info, err := p.client.Head(ctx, p.bucket, p.prefix+rel, &sdk.GetOptions{CustomerKey: e.customerKey(p)})
		if errors.Is(err, sdk.ErrNoSuchKey) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return objectEntry(rel, info), nil
	}
	if l == nil {
		return nil, nil
	}
	n := &entry{path: rel}
	if e.options.Symlinks == StoreSymlinks && strings.HasSuffix(rel, linkSuffix) {
		n.kind = link
	}
	err := l.stat(n, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case n.mode.IsDir():
		n.kind = directory
	case n.kind != link && !n.mode.IsRegular():
		n.kind = other
	}
	return n, nil
}

// objectEntry returns an object as an entry.
func objectEntry(rel string, info *sdk.Info) *entry {
	return &entry{path: rel, size: info.Size, modified: info.LastModified.UnixNano(), etag: info.ETag}
}
