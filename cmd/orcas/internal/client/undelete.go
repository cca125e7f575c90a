package client

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"orcas/sdk"
)

// undeleteCommand restores objects.
type undeleteCommand struct {
	connection
	Address   string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Restore this object, s3://BUCKET/KEY, or with --recursive everything below s3://BUCKET[/PREFIX]/."`
	Recursive bool   `short:"r" help:"Restore all objects below the prefix."`
	At        age    `placeholder:"TIME" help:"Restore the versions that were current at this time: an age such as 2h, or a time such as 2026-01-31T12:00:00Z. Objects that did not exist then are not changed."`
	VersionID string `placeholder:"ID" help:"Restore this version of the object."`
	DryRun    bool   `short:"n" help:"Print what would be restored, and change nothing."`
	Quiet     bool   `short:"q" help:"Print errors only."`
}

// Validate is called by kong.
func (c *undeleteCommand) Validate() error {
	if c.VersionID != "" && (c.Recursive || c.At.set()) {
		return usagef("--version-id restores a version of one object: it cannot be combined with --recursive and --at")
	}
	return nil
}

// restoredJSON is an object that was restored, as JSON.
type restoredJSON struct {
	Op        string `json:"op"` // restore, summary or error
	Address   string `json:"address,omitempty"`
	VersionID string `json:"version_id,omitempty"` // the version whose content is current now
	Markers   int    `json:"markers,omitempty"`    // delete markers that were deleted
	Restored  *int64 `json:"restored,omitempty"`   // of summary
	Failed    *int64 `json:"failed,omitempty"`     // of summary
	DryRun    bool   `json:"dry_run,omitempty"`
	Error     string `json:"error,omitempty"`
	Status    int    `json:"status,omitempty"`
}

// Run restores.
func (c *undeleteCommand) Run(ctx context.Context, console *Console) error {
	want := "s3://BUCKET/KEY (or --recursive)"
	if c.Recursive {
		want = "s3://BUCKET[/PREFIX]"
	}
	at, err := parseRemote(c.Address, want)
	if err != nil {
		return err
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	s.quiet = c.Quiet
	if c.VersionID != "" {
		return s.end(c.restore(r, at, c.VersionID, nil))
	}
	return s.end(c.all(r, at))
}

// all restores the objects at an address.
func (c *undeleteCommand) all(r *remote, at Address) error {
	var restored, failed, seen int64
	for versions, err := range c.keys(r, at) {
		if err != nil {
			return r.explain(err)
		}
		seen++
		version, markers := c.choose(versions, r.session.now())
		if version == "" && len(markers) == 0 {
			continue
		}
		err := c.restore(r, at.object(versions[0].Key), version, markers)
		if err == nil {
			restored++
			continue
		}
		if !c.Recursive || r.session.ctx.Err() != nil {
			return err
		}
		failed++
		r.session.complain(err)
		r.session.out.object(restoredJSON{Op: "error", Address: at.object(versions[0].Key).String(), Error: err.Error(), Status: Status(err)})
	}
	if c.Recursive {
		r.session.out.object(restoredJSON{Op: "summary", Restored: &restored, Failed: &failed, DryRun: c.DryRun})
	}
	switch {
	case failed > 0:
		return &statusError{StatusSomeFailed, fmt.Sprintf("%d of %d were not restored; the errors are above", failed, failed+restored), nil}
	case seen == 0:
		return notFound("there are no versions of %s", shown(at.String()))
	case restored == 0 && !c.Recursive:
		return notFound("%s is not deleted, so there is nothing to restore", shown(at.String()))
	}
	return nil
}

// keys returns the versions of each key, from the newest to the oldest.
func (c *undeleteCommand) keys(r *remote, at Address) iter.Seq2[[]sdk.Info, error] {
	prefix := at.Key
	if c.Recursive && prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return func(yield func([]sdk.Info, error) bool) {
		var versions []sdk.Info
		for e, err := range r.Versions(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: prefix}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !c.Recursive && e.Key != at.Key {
				break
			}
			if len(versions) > 0 && versions[0].Key != e.Key {
				if !yield(versions, nil) {
					return
				}
				versions = nil
			}
			versions = append(versions, e.Info)
		}
		if len(versions) > 0 {
			yield(versions, nil)
		}
	}
}

// choose returns how to restore a key with these versions: the delete markers to delete, or else the version to copy.
func (c *undeleteCommand) choose(versions []sdk.Info, now time.Time) (version string, markers []string) {
	n := 0
	for n < len(versions) && versions[n].DeleteMarker {
		markers = append(markers, versions[n].VersionID)
		n++
	}
	if n == len(versions) {
		return "", nil // nothing is left of the object
	}
	if !c.At.set() {
		if n == 0 {
			return "", nil // it is not deleted
		}
		return versions[n].VersionID, markers
	}
	at := c.At.before(now)
	for i, v := range versions {
		if v.LastModified.After(at) {
			continue
		}
		switch {
		case v.DeleteMarker, i == 0: // it was deleted at that time, or has not changed since
			return "", nil
		case i == n:
			return v.VersionID, markers
		}
		return v.VersionID, nil
	}
	return "", nil // it did not exist at that time
}

// restore makes a version the current one: if it is below delete markers only, they are deleted; otherwise it is copied.
func (c *undeleteCommand) restore(r *remote, at Address, version string, markers []string) error {
	s := r.session
	switch {
	case c.DryRun:
	case len(markers) > 0:
		for _, marker := range markers {
			if _, err := r.Delete(s.ctx, at.Bucket, at.Key, &sdk.DeleteOptions{VersionID: marker}); err != nil {
				return r.explain(err)
			}
		}
	default:
		if _, err := r.Copy(s.ctx, sdk.Source{Bucket: at.Bucket, Key: at.Key, VersionID: version}, at.Bucket, at.Key, nil); err != nil {
			return r.explain(err)
		}
	}
	verb := "restored"
	if c.DryRun {
		verb = "would restore"
	}
	s.tell("%s %s version %s", verb, shown(at.String()), version)
	s.out.object(restoredJSON{Op: "restore", Address: at.String(), VersionID: version, Markers: len(markers), DryRun: c.DryRun})
	return nil
}
