package client

import (
	"context"
	"fmt"
	"strings"

	"orcas/sdk"
)

// lsCommand lists buckets or objects.
type lsCommand struct {
	connection
	Address   string `arg:"" optional:"" placeholder:"ADDRESS" complete:"address" help:"List the objects whose keys begin with the key in this address, s3://BUCKET[/PREFIX]. Without a bucket, the buckets are listed."`
	Recursive bool   `short:"r" help:"List all objects below the prefix, not just one level."`
	Versions  bool   `help:"List all versions and delete markers."`
	Human     bool   `short:"H" help:"Print sizes with units."`
	Limit     int    `placeholder:"N" help:"List at most this many."`
}

// entryJSON is an object, version or prefix in the JSON of ls, find and undelete.
type entryJSON struct {
	Type         string `json:"type"` // bucket, prefix, object or delete-marker
	Address      string `json:"address"`
	Bucket       string `json:"bucket"`
	Key          string `json:"key,omitempty"`
	Size         *int64 `json:"size,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	ETag         string `json:"etag,omitempty"`
	StorageClass string `json:"storage_class,omitempty"`
	VersionID    string `json:"version_id,omitempty"`
	Latest       *bool  `json:"latest,omitempty"` // versions only
}

// newEntryJSON returns an entry of a listing as JSON.
func newEntryJSON(at Address, e *sdk.Entry, versions bool) entryJSON {
	if e.Prefix != "" {
		return entryJSON{Type: "prefix", Address: at.object(e.Prefix).String(), Bucket: at.Bucket, Key: e.Prefix}
	}
	j := entryJSON{
		Type: "object", Address: at.object(e.Key).String(), Bucket: at.Bucket, Key: e.Key, LastModified: jsonTime(e.LastModified),
		ETag: e.ETag, StorageClass: e.StorageClass, VersionID: e.VersionID,
	}
	if versions {
		j.Latest = &e.Latest
	}
	if e.DeleteMarker {
		j.Type = "delete-marker"
	} else {
		j.Size = &e.Size
	}
	return j
}

// Run lists.
func (c *lsCommand) Run(ctx context.Context, console *Console) error {
	at := Address{}
	if c.Address != "" {
		var err error
		if at, err = parseRemote(c.Address, "s3://[BUCKET[/PREFIX]]"); err != nil {
			return err
		}
	}
	if c.Limit < 0 {
		return usagef("--limit: expected 1 or more, not %d", c.Limit)
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	if at.Bucket == "" {
		return s.end(c.buckets(r))
	}
	return s.end(c.objects(r, at))
}

// buckets lists the buckets.
func (c *lsCommand) buckets(r *remote) error {
	count := 0
	for b, err := range r.Buckets(r.session.ctx, "") {
		if err != nil {
			return r.explain(err)
		}
		r.session.out.line("%s %s", localTime(b.Created), b.Name)
		r.session.out.object(entryJSON{Type: "bucket", Address: r.address(b.Name, "").String(), Bucket: b.Name, LastModified: jsonTime(b.Created)})
		if count++; count == c.Limit {
			break
		}
	}
	return nil
}

// objects lists the objects or versions of a bucket.
func (c *lsCommand) objects(r *remote, at Address) error {
	o := &sdk.ListOptions{Prefix: at.Key}
	if !c.Recursive {
		o.Delimiter = "/"
	}
	if c.Limit > 0 {
		o.PageSize = min(c.Limit, 1000)
	}
	list := r.List
	if c.Versions {
		list = r.Versions
	}
	from := 0 // names are relative to the directory of the prefix
	if !c.Recursive {
		from = strings.LastIndexByte(at.Key, '/') + 1
	}
	count := 0
	for e, err := range list(r.session.ctx, at.Bucket, o) {
		if err != nil {
			return r.explain(err)
		}
		c.print(r.session.out, at, &e, from)
		if count++; count == c.Limit || r.session.out.broken() != nil {
			break
		}
	}
	if count == 0 && at.Key != "" {
		return notFound("nothing at %s begins with %s", strings.TrimSuffix(at.object("").String(), "/"), shown(at.Key))
	}
	return nil
}

// notFound returns an error with the status of objects that do not exist.
func notFound(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &statusError{StatusNotFound, text, nil}
}

// print prints an entry. Names begin at from in a key.
func (c *lsCommand) print(out *output, at Address, e *sdk.Entry, from int) {
	if out.json {
		out.object(newEntryJSON(at, e, c.Versions))
		return
	}
	size := bytesText(e.Size, c.Human)
	switch {
	case e.Prefix != "":
		out.line("%19s %10s %s", "", "DIR", shown(e.Prefix[from:]))
	case c.Versions:
		mark := ""
		if e.Latest {
			mark = " (current)"
		}
		if e.DeleteMarker {
			size = "DELETED"
		}
		out.line("%s %10s %s %s%s", localTime(e.LastModified), size, e.VersionID, shown(e.Key[from:]), mark)
	default:
		out.line("%s %10s %s", localTime(e.LastModified), size, shown(e.Key[from:]))
	}
}
