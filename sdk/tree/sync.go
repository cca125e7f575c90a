package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"orcas/sdk"
)

// Sync makes a tree like another one: it copies what differs, and with Options.Delete it deletes what only the target
// has. Deletions come last, and only if nothing failed and both trees could be read completely. Nothing outside the
// target is deleted, and nothing that Options.Patterns excludes.
//
// Errors of single files are collected: the others are still processed, and the error is ErrPartial. An error that all
// files would get, such as a missing bucket or a full drive, ends it. The result is never nil unless the options are wrong.
//
// With Options.Versions, objects are copied with all of their versions and delete markers, from the oldest to the newest.
// The target must have versioning enabled. It assigns IDs and times of its own, so the original ones are recorded as
// metadata: x-amz-meta-orcas-source-version-id and x-amz-meta-orcas-source-last-modified (RFC 3339). The former also
// tells a later call what has been copied already.
func Sync(ctx context.Context, from, to Place, o Options) (*Result, error) {
	return run(ctx, from, to, o, syncing)
}

// Copy copies what differs. It is Sync without deletions.
func Copy(ctx context.Context, from, to Place, o Options) (*Result, error) {
	return run(ctx, from, to, o, copying)
}

// Move is Copy, and deletes each file at the source once the target has it. Directories stay.
func Move(ctx context.Context, from, to Place, o Options) (*Result, error) {
	if o.Versions {
		return nil, errors.New("tree: Options.Versions does not work with Move")
	}
	return run(ctx, from, to, o, moving)
}

// File returns the place of a single local file, for CopyFile and MoveFile.
func File(path string) Place { return Place{dir: path} }

// Object returns the place of a single object, for CopyFile and MoveFile.
func Object(client *sdk.Client, bucket, key string) Place {
	return Place{client: client, bucket: bucket, prefix: key}
}

// CopyFile copies a single file or object: from and to are results of File and Object. Options.Patterns, Delete and
// Versions have no meaning.
func CopyFile(ctx context.Context, from, to Place, o Options) (*Result, error) {
	return runFile(ctx, from, to, o, copying)
}

// MoveFile is CopyFile, and deletes the source once the target has it.
func MoveFile(ctx context.Context, from, to Place, o Options) (*Result, error) {
	return runFile(ctx, from, to, o, moving)
}

func runFile(ctx context.Context, from, to Place, o Options, p purpose) (*Result, error) {
	o.Patterns, o.Delete, o.Versions = nil, false, false
	if err := o.check(&from, &to); err != nil {
		return nil, err
	}
	if o.Symlinks == SkipSymlinks && !from.remote() {
		o.Symlinks = FollowSymlinks // the caller has named it
	}
	fromName, err := from.split()
	if err != nil {
		return nil, err
	}
	toName, err := to.split()
	if err != nil {
		return nil, err
	}
	return start(ctx, from, to, o, p, func(ctx context.Context, e *engine) error {
		p := &plan{engine: e}
		e.reporter.complete.Store(true)
		e.reporter.compared.Add(1)
		wait := e.workers(ctx)
		defer wait()
		return p.one(ctx, fromName, toName)
	})
}

// split turns the place of a file into that of its directory, and returns its name.
func (p *Place) split() (string, error) {
	if p.remote() {
		dir, name := path.Split(p.prefix)
		if name == "" {
			return "", fmt.Errorf("tree: %s is not the address of an object", *p)
		}
		p.prefix = dir
		return name, nil
	}
	if p.dir == "" || strings.HasSuffix(p.dir, "/") || strings.HasSuffix(p.dir, string(filepath.Separator)) {
		return "", fmt.Errorf("tree: %q is not the path of a file", p.dir)
	}
	name := filepath.Base(p.dir)
	if name == "." || name == ".." || name == string(filepath.Separator) {
		return "", fmt.Errorf("tree: %q is a directory", p.dir)
	}
	p.dir = filepath.Dir(p.dir)
	return name, nil
}

// one decides about a single file.
func (p *plan) one(ctx context.Context, from, to string) error {
	source, err := p.find(ctx, &p.from, p.fromLocal, from)
	switch {
	case err != nil:
		return err
	case source == nil && p.from.remote():
		return &sdk.Error{Op: "Head", Bucket: p.from.bucket, Key: p.from.prefix + from, Code: "NoSuchKey", Status: 404}
	case source == nil:
		return &fs.PathError{Op: "open", Path: p.fromLocal.path(from), Err: fs.ErrNotExist}
	case source.kind == directory:
		return fmt.Errorf("tree: %s is a directory", p.from.address(from))
	case source.kind == other:
		if err := p.fromLocal.statLink(source); err != nil {
			return err
		}
		if !source.mode.IsRegular() {
			return fmt.Errorf("tree: %s is not a regular file", p.from.address(from))
		}
		source.kind = file
	}
	target, err := p.find(ctx, &p.to, p.toLocal, to)
	if err != nil {
		return err
	}
	if target != nil && target.kind == directory {
		return fmt.Errorf("tree: %s is a directory", p.to.address(to))
	}
	t := &task{from: *source, path: to, reason: "new"}
	if target != nil {
		t.to, t.exists = *target, true
	}
	if !t.exists {
		return p.accept(ctx, t)
	}
	return p.existing(ctx, t)
}
