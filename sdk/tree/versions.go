package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"orcas/sdk"
)

// history is all versions of a key, from the oldest to the newest.
type history struct {
	path     string
	versions []version
}

// version is a version of an object, or a delete marker.
type version struct {
	id       string
	size     int64
	modified time.Time
	marker   bool
}

// size returns the bytes of all versions.
func (h *history) size() (n int64) {
	for _, v := range h.versions {
		n += v.size
	}
	return n
}

// deleted reports whether the current version is a delete marker.
func (h *history) deleted() bool { return h.versions[len(h.versions)-1].marker }

// versionsTask is the versions of a key to copy.
type versionsTask struct {
	from, to []version // to: what the target has
}

// errUnversioned is returned if the target cannot keep versions.
var errUnversioned = errors.New("tree: Options.Versions needs a target with versioning: enable it, because otherwise each version would replace the one before")

// histories returns the versions below a prefix, by key.
func histories(ctx context.Context, p *Place, f filter) iter.Seq2[*history, error] {
	return func(yield func(*history, error) bool) {
		var h *history
		complete := func() bool {
			if h == nil || h.path == "" || !f.includes(h.path) {
				return true
			}
			slices.Reverse(h.versions)
			return yield(h, nil)
		}
		for e, err := range p.client.Versions(ctx, p.bucket, &sdk.ListOptions{Prefix: p.prefix}) {
			if err != nil {
				yield(nil, err)
				return
			}
			path, ok := strings.CutPrefix(e.Key, p.prefix)
			switch {
			case !ok || e.Prefix != "":
				yield(nil, fmt.Errorf("tree: the server listed %q, which is not below the prefix %q", e.Key+e.Prefix, p.prefix))
				return
			case h != nil && path < h.path:
				yield(nil, fmt.Errorf("tree: the listing of %s is not in order: %q comes after %q", p, path, h.path))
				return
			case h == nil || path != h.path:
				if !complete() {
					return
				}
				h = &history{path: path}
			}
			h.versions = append(h.versions, version{id: e.VersionID, size: e.Size, modified: e.LastModified, marker: e.DeleteMarker})
		}
		complete()
	}
}

// planVersions compares the versions of two buckets, and passes keys with versions to copy to the workers.
func (e *engine) planVersions(ctx context.Context) error {
	status, err := e.to.client.Versioning(ctx, e.to.bucket)
	if err != nil && !errors.Is(err, sdk.ErrAccessDenied) && !errors.Is(err, sdk.ErrNotImplemented) {
		return err
	}
	if err == nil && status != "Enabled" {
		return errUnversioned
	}
	p := &plan{engine: e}
	wait := e.workers(ctx)
	err = p.passVersions(ctx)
	e.reporter.complete.Store(true)
	wait()
	if err != nil || ctx.Err() != nil || !e.options.Delete || e.purpose != syncing || e.reporter.failed.Load() > 0 {
		return err
	}
	return p.remove(ctx)
}

func (p *plan) passVersions(ctx context.Context) error {
	nextFrom, stopFrom := iter.Pull2(histories(ctx, &p.from, filter(p.options.Patterns)))
	defer stopFrom()
	nextTo, stopTo := iter.Pull2(histories(ctx, &p.to, filter(p.options.Patterns)))
	defer stopTo()
	from, err, _ := nextFrom()
	if err != nil {
		return err
	}
	to, err, _ := nextTo()
	if err != nil {
		return err
	}
	for from != nil || to != nil {
		switch {
		case from == nil || to != nil && to.path < from.path:
			if p.options.Delete && p.purpose == syncing && !to.deleted() {
				p.extra = append(p.extra, to.path)
			}
		case to == nil || from.path < to.path:
			if err := p.visitVersions(ctx, from, nil); err != nil {
				return err
			}
		default:
			if err := p.visitVersions(ctx, from, to.versions); err != nil {
				return err
			}
		}
		advanceFrom := from != nil && (to == nil || from.path <= to.path)
		advanceTo := to != nil && (from == nil || to.path <= from.path)
		if advanceFrom {
			if from, err, _ = nextFrom(); err != nil {
				return err
			}
		}
		if advanceTo {
			if to, err, _ = nextTo(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// visitVersions passes a key to the workers.
func (p *plan) visitVersions(ctx context.Context, from *history, to []version) error {
	p.reporter.compared.Add(1)
	t := &task{from: entry{path: from.path, size: from.size()}, path: from.path, exists: to != nil, check: true,
		list: &versionsTask{from: from.versions, to: to}}
	if err := checkKey(p.to.prefix + t.path); err != nil {
		p.failed(ctx, t, err)
		return ctx.Err()
	}
	return p.enqueue(ctx, t)
}

// copyVersions copies the versions of a key that the target does not have.
func (w *worker) copyVersions(ctx context.Context, t *task) {
	rest, err := w.missingVersions(ctx, t)
	if err != nil {
		w.failed(ctx, t, err)
		return
	}
	if len(rest) == 0 {
		w.skip(t, "equal")
		return
	}
	t.reason = fmt.Sprintf("%d of %d versions", len(rest), len(t.list.from))
	t.from.size = (&history{versions: rest}).size()
	w.reporter.planned(t.from.size)
	var sent int64
	for _, v := range rest {
		if w.options.DryRun {
			break
		}
		n, err := w.copyVersion(ctx, t, v)
		if err != nil {
			if errors.Is(err, errUnversioned) {
				w.fail(err)
			}
			w.failed(ctx, t, err)
			return
		}
		sent += n
	}
	w.copied(t, sent)
}

// missingVersions returns the versions that the target does not have. Versions are copied in order, so those before one
// that the target has are not missing. A delete marker has no metadata: it is recognized by its place.
func (w *worker) missingVersions(ctx context.Context, t *task) ([]version, error) {
	from, to := t.list.from, t.list.to
	for last := len(to) - 1; last >= 0; last-- {
		if to[last].marker {
			continue
		}
		info, err := w.to.client.Head(ctx, w.to.bucket, w.to.prefix+t.path, &sdk.GetOptions{VersionID: to[last].id})
		if err != nil {
			return nil, err
		}
		id := info.Metadata[metaSourceVersion]
		n := slices.IndexFunc(from, func(v version) bool { return !v.marker && v.id == id })
		if id == "" || n < 0 {
			continue // not a copy
		}
		rest := skipMarkers(from[n+1:], to[last+1:])
		if len(rest) == 0 && last+1 < len(to) && slices.ContainsFunc(to[last+1:], func(v version) bool { return !v.marker }) {
			return nil, fmt.Errorf("the target has a newer version than those of the source")
		}
		return rest, nil
	}
	return skipMarkers(from, to), nil
}

// skipMarkers returns the versions after the delete markers at the beginning of both lists.
func skipMarkers(from, to []version) []version {
	for len(from) > 0 && len(to) > 0 && from[0].marker && to[0].marker {
		from, to = from[1:], to[1:]
	}
	return from
}

// copyVersion writes a version, or a delete marker, to the target.
func (w *worker) copyVersion(ctx context.Context, t *task, v version) (int64, error) {
	if v.marker {
		d, err := w.to.client.Delete(ctx, w.to.bucket, w.to.prefix+t.path, nil)
		if err == nil && !d.Marker {
			err = errUnversioned
		}
		return 0, err
	}
	written, sent, err := w.copyObject(ctx, t, sdk.ObjectID{Key: w.from.prefix + t.path, VersionID: v.id},
		map[string]string{metaSourceVersion: v.id, metaSourceTime: v.modified.UTC().Format(time.RFC3339Nano)})
	if err == nil && (written.VersionID == "" || written.VersionID == "null") {
		err = errUnversioned
	}
	return sent, err
}
