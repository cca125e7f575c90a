package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orcas/sdk"
)

// tagCommand has the commands for tags.
type tagCommand struct {
	List   tagListCommand   `cmd:"" help:"List the tags of an object or a bucket."`
	Set    tagSetCommand    `cmd:"" help:"Set tags of an object or a bucket, and keep the others."`
	Remove tagRemoveCommand `cmd:"" help:"Remove tags of an object or a bucket."`
}

// tagTarget is what has the tags.
type tagTarget struct {
	connection
	Address   string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Use this object, s3://BUCKET/KEY, or this bucket, s3://BUCKET."`
	VersionID string `placeholder:"ID" help:"Use this version of the object."`
}

// tagsJSON are tags as JSON.
type tagsJSON struct {
	Address   string            `json:"address"`
	VersionID string            `json:"version_id,omitempty"`
	Tags      map[string]string `json:"tags"`
}

// run opens a session and calls fn with the tags, which returns those to store, or nil.
func (t *tagTarget) run(ctx context.Context, console *Console, fn func(s *session, tags map[string]string) (map[string]string, error)) error {
	at, err := parseRemote(t.Address, "s3://BUCKET[/KEY]")
	if err != nil {
		return err
	}
	if at.Key == "" && t.VersionID != "" {
		return usagef("--version-id is for objects, and %s is a bucket", at)
	}
	s, err := t.start(ctx, console)
	if err != nil {
		return err
	}
	r, err := s.open(at)
	if err != nil {
		return s.end(err)
	}
	tags, err := t.read(r, at)
	if err != nil {
		return s.end(r.explain(err))
	}
	changed, err := fn(s, tags)
	if err != nil {
		return s.end(err)
	}
	if changed != nil {
		if err := t.write(r, at, changed); err != nil {
			return s.end(r.explain(err))
		}
		tags = changed
	}
	s.out.object(tagsJSON{at.String(), t.VersionID, tags})
	return s.end(nil)
}

// read returns the tags of the target.
func (t *tagTarget) read(r *remote, at Address) (tags map[string]string, err error) {
	if at.Key != "" {
		tags, err = r.Tags(r.session.ctx, at.Bucket, sdk.ObjectID{Key: at.Key, VersionID: t.VersionID})
	} else {
		tags, err = r.BucketTags(r.session.ctx, at.Bucket)
	}
	if errors.Is(err, sdk.ErrNoSuchConfiguration) {
		err = nil
	}
	if tags == nil {
		tags = map[string]string{}
	}
	return tags, err
}

// write replaces the tags of the target.
func (t *tagTarget) write(r *remote, at Address, tags map[string]string) error {
	id := sdk.ObjectID{Key: at.Key, VersionID: t.VersionID}
	switch ctx := r.session.ctx; {
	case at.Key == "":
		return r.SetBucketTags(ctx, at.Bucket, tags)
	case len(tags) == 0:
		return r.DeleteTags(ctx, at.Bucket, id)
	default:
		return r.SetTags(ctx, at.Bucket, id, tags)
	}
}

type tagListCommand struct{ tagTarget }

// Run lists the tags.
func (c *tagListCommand) Run(ctx context.Context, console *Console) error {
	return c.run(ctx, console, func(s *session, tags map[string]string) (map[string]string, error) {
		for _, name := range slices.Sorted(maps.Keys(tags)) {
			s.out.line("%s=%s", shown(name), shown(tags[name]))
		}
		return nil, nil
	})
}

type tagSetCommand struct {
	tagTarget
	Tags    []string `arg:"" name:"tag" sep:"none" placeholder:"NAME=VALUE" complete:"none" help:"Set these tags, NAME=VALUE."`
	Replace bool     `help:"Remove all other tags."`
}

// Validate is called by kong.
func (c *tagSetCommand) Validate() error {
	for _, tag := range c.Tags {
		if name, _, ok := strings.Cut(tag, "="); !ok || name == "" {
			return fmt.Errorf("expected NAME=VALUE, not %q", tag)
		}
	}
	return nil
}

// Run sets tags.
func (c *tagSetCommand) Run(ctx context.Context, console *Console) error {
	return c.run(ctx, console, func(_ *session, tags map[string]string) (map[string]string, error) {
		if c.Replace {
			tags = map[string]string{}
		}
		for _, tag := range c.Tags {
			name, value, _ := strings.Cut(tag, "=")
			tags[name] = value
		}
		return tags, nil
	})
}

type tagRemoveCommand struct {
	tagTarget
	Names []string `arg:"" name:"name" optional:"" placeholder:"NAME" complete:"none" help:"Remove the tags with these names. Without names, all tags are removed."`
}

// Run removes tags.
func (c *tagRemoveCommand) Run(ctx context.Context, console *Console) error {
	return c.run(ctx, console, func(_ *session, tags map[string]string) (map[string]string, error) {
		for _, name := range c.Names {
			if _, ok := tags[name]; !ok {
				return nil, notFound("%s has no tag %s", c.Address, shown(name))
			}
			delete(tags, name)
		}
		if len(c.Names) == 0 {
			tags = map[string]string{}
		}
		return tags, nil
	})
}
