package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// plan is the pass over both trees. It knows what it has to remember about the past of the two streams.
type plan struct {
	*engine
	rules     nameRules
	ancestry  ancestry    // of the source
	folded    *folded     // the paths of the source, if the target does not distinguish case
	extra     []string    // paths that only the target has
	extraDirs []string    // directories with nothing but extra files, each after those below it
	open      []targetDir // the directories of the target on the way to the current path
	looked    string      // the last directory of the target that checkDirs has approved
	deferred  []*task     // what can be done after extra files were deleted
}

// errExists reports that a directory exists already.
var errExists = errors.New("exists")

// targetDir is a directory of a local target.
type targetDir struct {
	path string
	used bool // it has something that is not extra
}

// plan compares the trees, and passes what differs to the workers. Then it deletes what only the target has.
func (e *engine) plan(ctx context.Context) error {
	p := &plan{engine: e}
	wait := e.workers(ctx)
	err := p.pass(ctx)
	e.reporter.complete.Store(true)
	wait()
	if e.toLocal != nil {
		e.directories.apply(e)
	}
	if err != nil || ctx.Err() != nil || !e.options.Delete || e.purpose != syncing {
		return err
	}
	if e.reporter.failed.Load() > 0 {
		return nil // what failed might be why a file seems to be extra
	}
	return p.finish(ctx)
}

// pass merges the two streams.
func (p *plan) pass(ctx context.Context) error {
	listing, stop := context.WithCancel(ctx)
	j := &join{a: p.stream(listing, true), b: p.stream(listing, false)}
	defer func() {
		stop()
		j.drain()
	}()
	if !p.to.remote() {
		if p.rules = localRules(p.to.dir); p.rules.foldCase {
			p.folded = newFolded()
		}
	}
	for {
		pair, ok := j.next()
		if !ok {
			break
		}
		if err := p.visit(ctx, pair); err != nil {
			return err
		}
	}
	p.leave("", false)
	if err := j.err(); err != nil {
		return err
	}
	return ctx.Err()
}

// stream returns the entries of the source or the target. It is nil if the target does not exist.
func (p *plan) stream(ctx context.Context, source bool) *stream {
	place, l, filter := &p.to, p.toLocal, filter(p.options.Patterns)
	if source {
		place, l = &p.from, p.fromLocal
	}
	if place.remote() {
		return remoteStream(ctx, place, filter)
	}
	if l == nil {
		return nil
	}
	var stale func(string)
	if !source && !p.options.DryRun {
		stale = l.removeStale
	}
	symlinks := p.options.Symlinks
	if !source && symlinks == FollowSymlinks {
		symlinks = SkipSymlinks // a download replaces links; it does not write through them
	}
	return l.walkStream(ctx, filter, symlinks, stale)
}

// visit decides about one path.
func (p *plan) visit(ctx context.Context, x pair) error {
	if x.from == nil {
		p.leave(x.to.path, false)
		p.only(x.to)
		return nil
	}
	p.leave(x.from.path, true)
	if x.to != nil && x.to.kind == directory && !p.to.remote() {
		p.open = append(p.open, targetDir{path: x.to.path, used: true})
	}
	if !strings.HasSuffix(x.from.path, "/") || x.from.err != nil || p.from.remote() {
		p.reporter.compared.Add(1)
	}
	t := &task{from: *x.from, path: x.from.path, reason: "new"}
	if x.to != nil {
		t.to, t.exists = *x.to, true
	}
	return p.decide(ctx, t)
}

// decide passes a task to the workers if it is or may be necessary.
func (p *plan) decide(ctx context.Context, t *task) error {
	switch {
	case t.from.err != nil:
		p.failed(ctx, t, t.from.err)
		return ctx.Err()
	case t.from.kind == other:
		p.skip(t, "not a regular file")
		return nil
	case t.from.kind == directory && !p.from.remote():
		if !p.options.Directories || t.exists {
			return nil
		}
		t.mkdir = true
	case t.from.kind == directory && !p.to.remote():
		if t.exists {
			return nil
		}
		t.mkdir = true
	}
	if err := p.checkName(t); err != nil {
		p.failed(ctx, t, err)
		return ctx.Err()
	}
	if blocked, err := p.look(t); errors.Is(err, errExists) {
		return nil
	} else if err != nil {
		if blocked && p.options.Delete && p.purpose == syncing {
			p.deferred = append(p.deferred, t)
			return nil
		}
		p.failed(ctx, t, err)
		return ctx.Err()
	}
	if !t.exists {
		return p.accept(ctx, t)
	}
	return p.existing(ctx, t)
}

// checkName returns an error if the target cannot have the name.
func (p *plan) checkName(t *task) error {
	if p.to.remote() {
		return checkKey(p.to.prefix + t.path)
	}
	name := t.targetName(p.engine)
	file := p.ancestry.add(t.path, name)
	if err := p.rules.check(name); err != nil {
		return err
	}
	if file == name {
		return fmt.Errorf("there is also a file %q", file)
	}
	if file != "" {
		return fmt.Errorf("the key is below %q, which is a file", file)
	}
	if strings.HasSuffix(t.path, "/") && t.from.kind != directory {
		return errors.New("the key ends with a slash, but the object has content")
	}
	if p.folded != nil && p.folded.add(strings.TrimSuffix(name, "/")) {
		return errors.New("the name differs only in case from another one, and the file system does not distinguish them")
	}
	return nil
}

// look finds out what a local target has at a path that its listing does not contain: a directory, a symbolic link, or
// on file systems that do not distinguish case, another file. blocked reports whether deleting extra files would help.
func (p *plan) look(t *task) (blocked bool, err error) {
	if p.to.remote() || t.exists && t.to.kind == file {
		return false, nil
	}
	if t.exists && t.to.kind == other && t.to.mode&fs.ModeSymlink == 0 {
		return false, errors.New("the target has something of this name that is not a regular file")
	}
	if t.exists || p.toLocal == nil {
		return false, nil
	}
	name := strings.TrimSuffix(t.targetName(p.engine), "/")
	if dir := path.Dir(name); dir != p.looked {
		if blocked, err := p.toLocal.checkDirs(dir); err != nil {
			return blocked, err
		}
		p.looked = dir
	}
	found := entry{path: name}
	switch err := p.toLocal.stat(&found, false); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case found.mode.IsDir() && !t.mkdir:
		return true, errors.New("the target has a directory of this name")
	case t.mkdir && found.mode.IsDir():
		return false, errExists
	case p.rules.foldCase:
		return false, errors.New("the target has a file whose name differs only in case")
	case t.mkdir || name != t.path:
		return true, errors.New("the target has a file of this name")
	case found.mode&fs.ModeSymlink != 0:
		found.kind, found.path = link, found.path+linkSuffix
		t.to, t.exists = found, true
	}
	return false, nil
}

// existing decides about a file that the target has, too.
func (p *plan) existing(ctx context.Context, t *task) error {
	if t.to.err != nil {
		p.failed(ctx, t, t.to.err)
		return ctx.Err()
	}
	if p.options.Conflict == Skip && !p.options.Always {
		p.skip(t, "exists")
		return nil
	}
	v, reason := p.compare(&t.from, &t.to)
	switch v {
	case equal:
		return p.equalFile(ctx, t)
	case differs:
		t.reason = reason
		return p.conflict(ctx, t)
	}
	t.check = true
	return p.enqueue(ctx, t)
}

// equalFile skips a file. Move deletes it at the source.
func (p *plan) equalFile(ctx context.Context, t *task) error {
	if p.purpose != moving {
		p.skip(t, "equal")
		return nil
	}
	t.check, t.reason = true, "equal"
	return p.enqueue(ctx, t)
}

// conflict applies the policy to a file that differs.
func (p *plan) conflict(ctx context.Context, t *task) error {
	skip, err := p.applyPolicy(t)
	if err != nil {
		p.failed(ctx, t, err)
		return ctx.Err()
	}
	if skip != "" {
		p.skip(t, skip)
		return nil
	}
	return p.accept(ctx, t)
}

// applyPolicy returns why a file that differs is skipped, or "" if it is copied.
func (e *engine) applyPolicy(t *task) (skip string, err error) {
	switch e.options.Conflict {
	case Skip:
		return "exists", nil
	case Newer:
		if t.from.modified <= t.to.modified {
			return "older", nil
		}
	case Fail:
		return "", fmt.Errorf("%s: %w (%s)", e.to.address(t.path), ErrConflict, t.reason)
	}
	return "", nil
}

// accept passes a task to the workers that has to be done.
func (p *plan) accept(ctx context.Context, t *task) error {
	if err := p.createTarget(); err != nil {
		return err
	}
	return p.enqueue(ctx, t)
}

// only remembers a path that only the target has, if it is to be deleted.
func (p *plan) only(e *entry) {
	if !p.options.Delete || p.purpose != syncing {
		return
	}
	switch {
	case e.err != nil:
		p.use()
		p.reporter.add(Action{Op: OpError, Path: e.path, To: p.to.address(e.name()), Err: e.err})
	case e.kind == directory && !p.to.remote():
		p.open = append(p.open, targetDir{path: e.path, used: e.partial})
	case e.kind == other:
		p.use()
	case e.kind == directory && p.hasDirectory(e.path):
	default:
		p.extra = append(p.extra, e.path)
	}
}

// hasDirectory reports whether the source has a directory, of which a bucket has an object that stands for it.
func (p *plan) hasDirectory(path string) bool {
	if p.fromLocal == nil {
		return false
	}
	d := entry{path: path, kind: directory}
	return p.fromLocal.stat(&d, p.options.Symlinks == FollowSymlinks) == nil && d.mode.IsDir()
}

// use records that the current directory of the target has something that stays.
func (p *plan) use() {
	if n := len(p.open); n > 0 {
		p.open[n-1].used = true
	}
}

// leave goes on to a path: directories of the target that it is not below are complete. keep reports whether the path is
// one of the source.
func (p *plan) leave(path string, keep bool) {
	for n := len(p.open); n > 0; n-- {
		d := p.open[n-1]
		if path != "" && strings.HasPrefix(path, d.path) {
			break
		}
		p.open = p.open[:n-1]
		if d.used {
			p.use()
		} else {
			p.extraDirs = append(p.extraDirs, d.path)
		}
	}
	if keep {
		p.use()
	}
}

// finish deletes what only the target has, and then does what was waiting for that.
func (p *plan) finish(ctx context.Context) error {
	if err := p.remove(ctx); err != nil || p.reporter.failed.Load() > 0 || len(p.deferred) == 0 {
		return err
	}
	slices.SortFunc(p.deferred, func(a, b *task) int { return strings.Compare(a.path, b.path) })
	wait := p.workers(ctx)
	defer wait()
	for _, t := range p.deferred {
		if err := p.accept(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
