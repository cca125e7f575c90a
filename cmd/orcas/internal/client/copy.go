package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"orcas/sdk"
	"orcas/sdk/tree"
)

// copyFlags are the flags of cp and mv.
type copyFlags struct {
	connection
	transfer
	properties
	treeFlags
	Paths     []string `arg:"" name:"source-and-target" placeholder:"SOURCE... TARGET" complete:"address,file" help:"Copy these files or objects to the last one: s3://BUCKET/KEY, NAME://BUCKET/KEY, or a local path. A target that ends with / or is a directory keeps the names. With --recursive, the files below one directory or prefix go below another."`
	Recursive bool     `short:"r" help:"Copy everything below the source."`
	VersionID string   `placeholder:"ID" help:"Copy this version of an object."`
}

// cpCommand copies.
type cpCommand struct{ copyFlags }

// Help is shown by orcas cp --help.
func (cpCommand) Help() string {
	return "A source of - is the standard input, and a target of - is the standard output. Interrupted transfers of large files continue when the same command runs again."
}

// Run copies.
func (c *cpCommand) Run(ctx context.Context, console *Console) error {
	return c.run(ctx, console, false)
}

// mvCommand moves.
type mvCommand struct{ copyFlags }

// Run moves.
func (c *mvCommand) Run(ctx context.Context, console *Console) error {
	return c.run(ctx, console, true)
}

// parse returns the sources and the target.
func (c *copyFlags) parse(move bool) (sources []Address, target Address, err error) {
	if len(c.Paths) < 2 {
		return nil, target, usagef("expected SOURCE... TARGET, not %q only", strings.Join(c.Paths, " "))
	}
	var all []Address
	for _, text := range c.Paths {
		a, err := parseAddress(text)
		if err != nil {
			return nil, target, err
		}
		if !a.Local && a.Bucket == "" {
			return nil, target, usagef("%s has no bucket: expected %sBUCKET/KEY", text, a.root())
		}
		all = append(all, a)
	}
	sources, target = all[:len(all)-1], all[len(all)-1]
	switch {
	case c.Recursive && (len(sources) > 1 || c.VersionID != ""):
		return nil, target, usagef("--recursive copies one directory or prefix: it cannot be combined with several sources and --version-id")
	case !c.Recursive && c.treeFlags.Versions:
		return nil, target, usagef("--versions needs --recursive")
	case !c.Recursive && len(c.Include)+len(c.Exclude) > 0:
		return nil, target, usagef("--include and --exclude need --recursive")
	case c.VersionID != "" && (len(sources) > 1 || sources[0].Local || move || c.Conflict != "overwrite" || target.standard() && c.DryRun):
		return nil, target, usagef("--version-id needs cp with one remote source, and --conflict overwrite")
	}
	for _, a := range sources {
		switch {
		case a.Local && target.Local:
			return nil, target, usagef("both %s and %s are local: one of them must be s3://BUCKET/KEY or NAME://BUCKET/KEY", a, target)
		case (a.standard() || target.standard()) && (c.Recursive || move || len(sources) > 1):
			return nil, target, usagef("- is the standard input or output: it cannot be moved, and not be copied with --recursive or other sources")
		case !a.Local && a.Key == "" && !c.Recursive:
			return nil, target, usagef("%s is a bucket: use --recursive to copy all of its objects", a)
		}
	}
	return sources, target, nil
}

// run copies or moves.
func (c *copyFlags) run(ctx context.Context, console *Console, move bool) error {
	sources, target, err := c.parse(move)
	if err != nil {
		return err
	}
	if target.standard() {
		s, err := c.start(ctx, console)
		if err != nil {
			return err
		}
		return s.end(s.cat(sources[0], &sdk.GetOptions{VersionID: c.VersionID}))
	}
	s, err := c.startTransfer(ctx, console, &c.transfer)
	if err != nil {
		return err
	}
	if c.Recursive {
		return s.end(c.recursive(s, sources[0], target, move))
	}
	o, err := c.options(s, &c.properties)
	if err != nil {
		return s.end(err)
	}
	f := &files{session: s, options: o, version: c.VersionID, move: move}
	return s.end(f.all(sources, target))
}

// recursive copies or moves a tree.
func (c *copyFlags) recursive(s *session, source, target Address, move bool) error {
	o, err := c.options(s, &c.properties)
	if err != nil {
		return err
	}
	from, to, err := s.pair(source, target)
	if err != nil {
		return err
	}
	if move {
		return s.run(&from, &to, &o, "moved", func() (*tree.Result, error) { return tree.Move(s.ctx, from.tree, to.tree, o) })
	}
	return s.run(&from, &to, &o, "copied", func() (*tree.Result, error) { return tree.Copy(s.ctx, from.tree, to.tree, o) })
}

// files copies or moves single files and objects.
type files struct {
	session *session
	options tree.Options
	version string // of the source, "" is the current one
	move    bool
	result  tree.Result
}

// all copies or moves all sources. If one of several fails, the others are still tried.
func (f *files) all(sources []Address, target Address) error {
	s, begun := f.session, f.session.now()
	keep := target.isDirectory() || len(sources) > 1 // the names of the sources
	if target.Local && !keep {
		info, err := os.Stat(target.Path)
		keep = err == nil && info.IsDir()
	}
	for _, source := range sources {
		err := f.one(source, target, keep)
		if err == nil {
			continue
		}
		if len(sources) == 1 || s.ctx.Err() != nil {
			return err
		}
		f.result.Files++
		f.result.Failed++
		err = s.explain(source, err)
		s.complain(err)
		s.out.object(actionJSON{Op: string(tree.OpError), Path: source.name(), From: source.String(), Error: err.Error(), Status: Status(err)})
	}
	verb := "copied"
	if f.move {
		verb = "moved"
	}
	s.result(&f.result, verb, s.now().Sub(begun), f.options.DryRun)
	if f.result.Failed > 0 {
		return &statusError{StatusSomeFailed, partial(&f.result), nil}
	}
	return nil
}

// one copies or moves one source.
func (f *files) one(source, target Address, keep bool) (err error) {
	s := f.session
	if source.standard() {
		return f.input(target)
	}
	if err := f.check(source); err != nil {
		return err
	}
	if keep {
		if target, err = inside(source, target); err != nil {
			return err
		}
	}
	if source == target && f.version == "" {
		return usagef("%s is both the source and the target", source)
	}
	if f.version != "" {
		return f.copyVersion(source, target)
	}
	from, err := s.single(source)
	if err != nil {
		return err
	}
	to, err := s.single(target)
	if err != nil {
		return err
	}
	if target.Local && !f.options.DryRun {
		if err := os.MkdirAll(filepath.Dir(target.Path), 0o777); err != nil {
			return s.explain(target, err)
		}
	}
	o := f.options
	o.Always = true
	do := tree.CopyFile
	if f.move {
		do = tree.MoveFile
	}
	var failed error // the reason, without the words of a tree
	o.Report = s.report(&from, &to, o.DryRun, &failed)
	o.Progress = s.treeProgress()
	result, err := do(s.ctx, from.tree, to.tree, o)
	if failed != nil && errors.Is(err, tree.ErrPartial) {
		err = failed
	}
	if err == nil && result != nil {
		f.add(result)
	}
	if !source.Local && errors.Is(err, sdk.ErrNoSuchKey) {
		return f.noObject(&from, err)
	}
	return s.explainTransfer(&from, &to, err)
}

// noObject returns the error for an object that does not exist. It says so if the key is a prefix.
func (f *files) noObject(from *place, err error) error {
	prefix := from.object(from.Key + "/")
	for _, listing := range from.remote.List(f.session.ctx, from.Bucket, &sdk.ListOptions{Prefix: prefix.Key, PageSize: 1}) {
		if listing == nil {
			return notFound("there is no object %s, but there are objects below %s: use --recursive for them", shown(from.String()), shown(prefix.String()))
		}
	}
	return from.remote.explain(err)
}

// add adds the result of a file.
func (f *files) add(r *tree.Result) {
	f.result.Files += max(1, r.Files)
	f.result.Copied += r.Copied
	f.result.Skipped += r.Skipped
	f.result.BytesCopied += r.BytesCopied
	f.result.BytesSent += r.BytesSent
	f.result.BytesReceived += r.BytesReceived
	f.result.BytesReferred += r.BytesReferred
}

// input stores the standard input.
func (f *files) input(target Address) error {
	if target.isDirectory() {
		return usagef("the standard input has no name: expected s3://BUCKET/KEY, not %s", target)
	}
	if f.options.DryRun {
		return nil
	}
	o := f.session.uploadOptions(f.options.Put)
	if f.options.Conflict == tree.Fail {
		o.IfNoneMatch = "*"
	}
	t, err := f.session.pipe(target, o)
	if err == nil {
		f.add(&tree.Result{Copied: 1, BytesCopied: t.Size, BytesSent: t.BytesSent, BytesReferred: t.BytesReferred})
	}
	return err
}

// check returns an error that says what to do if a source is a directory, or does not exist.
func (f *files) check(source Address) error {
	s := f.session
	if source.Local {
		info, err := os.Stat(source.Path)
		switch {
		case err != nil:
			return s.explain(source, err)
		case info.IsDir():
			return usagef("%s is a directory: use --recursive, or orcas sync", source)
		case !info.Mode().IsRegular():
			return usagef("%s is not a regular file: orcas pipe stores what a program writes", source)
		}
		return nil
	}
	if !strings.HasSuffix(source.Key, "/") {
		return nil
	}
	return usagef("%s is a prefix: use --recursive, or orcas sync", shown(source.String()))
}

// single opens an address as a single file or object.
func (s *session) single(a Address) (place, error) {
	if a.Local {
		return place{Address: a, tree: tree.File(a.Path)}, nil
	}
	r, err := s.open(a)
	if err != nil {
		return place{}, err
	}
	return place{a, r, tree.Object(r.Client, a.Bucket, a.Key)}, nil
}

// inside returns the address of a source's name in a target that is a directory or prefix.
func inside(source, target Address) (Address, error) {
	base := source.name()
	if target.Local {
		if base == "" || !filepath.IsLocal(base) || filepath.Base(base) != base {
			return target, usagef("the name of %s cannot be that of a file here: name the target", shown(source.String()))
		}
		target.Path = filepath.Join(target.Path, base)
		return target, nil
	}
	if target.Key != "" && !strings.HasSuffix(target.Key, "/") {
		target.Key += "/"
	}
	target.Key += base
	return target, nil
}

// copyVersion copies a version of an object. Of the target, only the policies overwrite and fail make sense here.
func (f *files) copyVersion(source, target Address) error {
	s := f.session
	r, err := s.open(source)
	if err != nil {
		return err
	}
	info, err := r.Head(s.ctx, source.Bucket, source.Key, &sdk.GetOptions{VersionID: f.version})
	if err != nil {
		return r.explain(err)
	}
	verb := "copied"
	switch {
	case f.options.DryRun:
		verb = "would be copied"
	case target.Local:
		if err := os.MkdirAll(filepath.Dir(target.Path), 0o777); err != nil {
			return s.explain(target, err)
		}
		_, err = r.DownloadFile(s.ctx, source.Bucket, source.Key, target.Path, &sdk.DownloadOptions{VersionID: f.version, Info: info})
	default:
		if other, err := s.open(target); err != nil || other != r {
			return usagef("--version-id copies between buckets of one profile, and to local files: copy in two steps")
		}
		_, err = r.Copy(s.ctx, sdk.Source{Bucket: source.Bucket, Key: source.Key, VersionID: f.version}, target.Bucket, target.Key, nil)
	}
	if err != nil {
		return r.explain(err)
	}
	s.tell("version %s of %s %s to %s", f.version, shown(source.String()), verb, shown(target.String()))
	s.out.object(actionJSON{Op: string(tree.OpCopy), Path: target.name(), From: source.String(), To: target.String(), Size: info.Size, DryRun: f.options.DryRun})
	f.add(&tree.Result{Copied: 1, BytesCopied: info.Size})
	return nil
}
