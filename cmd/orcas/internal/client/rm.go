package client

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"orcas/sdk"
)

// rmCommand deletes objects.
type rmCommand struct {
	connection
	Addresses        []string `arg:"" name:"address" placeholder:"ADDRESS" complete:"address" help:"Delete this object, s3://BUCKET/KEY, or with --recursive everything below s3://BUCKET[/PREFIX]/."`
	Recursive        bool     `short:"r" help:"Delete all objects below the prefix."`
	Versions         bool     `help:"Delete all versions and delete markers. Otherwise, a bucket with versioning keeps the content, and orcas undelete restores it."`
	VersionID        string   `placeholder:"ID" help:"Delete this version of an object."`
	BypassGovernance bool     `help:"Delete versions with a retention in the mode GOVERNANCE too, if the key is allowed to."`
	OlderThan        age      `placeholder:"TIME" help:"Delete only what was written before this time: an age such as 36h or 30d, or a time such as 2026-01-31."`
	DryRun           bool     `short:"n" help:"Print what would be deleted, and delete nothing."`
	Force            bool     `short:"f" help:"Delete a whole bucket's objects without asking, and do not fail if an object does not exist."`
	Quiet            bool     `short:"q" help:"Print errors only."`
}

// Validate is called by kong.
func (c *rmCommand) Validate() error {
	switch {
	case c.VersionID != "" && (c.Recursive || c.Versions || len(c.Addresses) > 1):
		return usagef("--version-id deletes a version of one object: it cannot be combined with --recursive, --versions and other objects")
	case c.OlderThan.set() && !c.Recursive:
		return usagef("--older-than needs --recursive")
	}
	return nil
}

// Run deletes.
func (c *rmCommand) Run(ctx context.Context, console *Console) error {
	want := "s3://BUCKET/KEY (or --recursive)"
	if c.Recursive {
		want = "s3://BUCKET[/PREFIX]"
	}
	targets := make([]Address, len(c.Addresses))
	for i, text := range c.Addresses {
		var err error
		if targets[i], err = parseRemote(text, want); err != nil {
			return err
		}
	}
	s, err := c.start(ctx, console)
	if err != nil {
		return err
	}
	s.quiet = c.Quiet
	d := deletion{session: s, dry: c.DryRun, options: sdk.DeleteOptions{BypassGovernance: c.BypassGovernance}}
	for _, at := range targets {
		if err := c.one(s, &d, at); err != nil {
			return s.end(err)
		}
	}
	return s.end(d.finish(len(targets) > 1 || c.Recursive || c.Versions))
}

// one deletes what an address means.
func (c *rmCommand) one(s *session, d *deletion, at Address) error {
	r, err := s.open(at)
	if err != nil {
		return err
	}
	if !c.Recursive && !c.Versions {
		return c.object(r, d, at)
	}
	if c.Recursive && at.Key == "" {
		if err := c.confirm(s, at); err != nil {
			return err
		}
	}
	found := false
	err = d.all(r, at.Bucket, c.list(r, at, &found))
	if err == nil && !found && at.Key != "" && !c.Force {
		return notFound("there is nothing to delete at %s", shown(at.String()))
	}
	return err
}

// object deletes an object, or a version of it.
func (c *rmCommand) object(r *remote, d *deletion, at Address) error {
	if !c.Force || c.DryRun {
		_, err := r.Head(r.session.ctx, at.Bucket, at.Key, &sdk.GetOptions{VersionID: c.VersionID})
		if err != nil && !isAny(err, sdk.ErrAccessDenied, sdk.ErrNotImplemented) { // it may be allowed to delete only, or a marker
			return r.explain(err)
		}
	}
	id := sdk.ObjectID{Key: at.Key, VersionID: c.VersionID}
	if c.DryRun {
		d.report(r, at.Bucket, &sdk.Deleted{ObjectID: id})
		return nil
	}
	o := d.options
	o.VersionID = c.VersionID
	deleted, err := r.Delete(r.session.ctx, at.Bucket, at.Key, &o)
	if err != nil {
		return r.explain(err)
	}
	deleted.ObjectID = id
	d.report(r, at.Bucket, deleted)
	return nil
}

// confirm asks before all objects of a bucket are deleted.
func (c *rmCommand) confirm(s *session, at Address) error {
	if c.Force || c.DryRun || c.OlderThan.set() {
		return nil
	}
	in, ok := s.Stdin.(*os.File)
	if !ok || !isTerminal(in) || !isTerminal(s.Stderr) {
		return usagef("rm --recursive %s would delete all objects of the bucket: use --force if that is intended", at)
	}
	fmt.Fprintf(s.Stderr, "Delete all objects of %s? Type yes: ", at)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" || err != nil {
		return &statusError{StatusFailed, "nothing was deleted", nil}
	}
	return nil
}

// list returns the objects or versions to delete, or the error of their listing.
func (c *rmCommand) list(r *remote, at Address, found *bool) iter.Seq2[sdk.ObjectID, error] {
	prefix, list := at.Key, r.List
	if c.Versions {
		list = r.Versions
	}
	if c.Recursive && prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	before := c.OlderThan.before(r.session.now())
	return func(yield func(sdk.ObjectID, error) bool) {
		for e, err := range list(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: prefix}) {
			if err != nil {
				yield(sdk.ObjectID{}, err)
				return
			}
			if !c.Recursive && e.Key != at.Key { // keys that only begin with it follow
				return
			}
			*found = true
			id := sdk.ObjectID{Key: e.Key}
			if c.Versions {
				id.VersionID = e.VersionID
			}
			if (!c.OlderThan.set() || e.LastModified.Before(before)) && !yield(id, nil) {
				return
			}
		}
	}
}

// deletion deletes objects and prints what it deleted.
type deletion struct {
	session         *session
	options         sdk.DeleteOptions
	dry             bool
	deleted, failed int64
}

// deletedJSON is an object that was deleted, or not, as JSON.
type deletedJSON struct {
	Op        string `json:"op"` // delete or error
	Address   string `json:"address"`
	VersionID string `json:"version_id,omitempty"`
	MarkerID  string `json:"marker_id,omitempty"` // of the delete marker that was written
	DryRun    bool   `json:"dry_run,omitempty"`
	Error     string `json:"error,omitempty"`
	Status    int    `json:"status,omitempty"`
}

// deletionsJSON is the sum of a deletion as JSON.
type deletionsJSON struct {
	Op      string `json:"op"` // summary
	Deleted int64  `json:"deleted"`
	Failed  int64  `json:"failed"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// all deletes objects of a bucket. The error is one that ends the deletion; objects that cannot be deleted are counted.
func (d *deletion) all(r *remote, bucket string, objects iter.Seq2[sdk.ObjectID, error]) error {
	var listing error
	ids := func(yield func(sdk.ObjectID) bool) {
		for id, err := range objects {
			if err != nil {
				listing = err
				return
			}
			if !yield(id) {
				return
			}
		}
	}
	if d.dry {
		for id := range ids {
			d.report(r, bucket, &sdk.Deleted{ObjectID: id})
		}
		return r.explain(listing)
	}
	for deleted, err := range r.DeleteAll(d.session.ctx, bucket, ids, &d.options) {
		if err != nil {
			return r.explain(err)
		}
		d.report(r, bucket, &deleted)
	}
	return r.explain(listing)
}

// report prints what was deleted, or why not.
func (d *deletion) report(r *remote, bucket string, deleted *sdk.Deleted) {
	s, address := d.session, r.address(bucket, deleted.Key).String()
	j := deletedJSON{Op: "delete", Address: address, VersionID: deleted.VersionID, DryRun: d.dry}
	if deleted.VersionID == "" && deleted.Marker {
		j.MarkerID = deleted.MarkerID
	}
	if deleted.Err != nil {
		d.failed++
		err := r.explain(deleted.Err)
		j.Op, j.Error, j.Status = "error", err.Error(), Status(err)
		s.complain(err)
	} else {
		d.deleted++
		verb, version := "deleted", ""
		if d.dry {
			verb = "would delete"
		}
		if deleted.VersionID != "" {
			version = " version " + deleted.VersionID
		}
		s.tell("%s %s%s", verb, shown(address), version)
	}
	s.out.object(j)
}

// finish prints the sum, if there can be several objects.
func (d *deletion) finish(several bool) error {
	if several {
		d.session.out.object(deletionsJSON{"summary", d.deleted, d.failed, d.dry})
	}
	if d.failed > 0 {
		return &statusError{StatusSomeFailed, fmt.Sprintf("%d of %d were not deleted; the errors are above", d.failed, d.failed+d.deleted), nil}
	}
	return nil
}
