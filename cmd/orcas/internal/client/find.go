package client

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"orcas/sdk"
)

// findCommand finds objects.
type findCommand struct {
	connection
	Address string   `arg:"" placeholder:"ADDRESS" complete:"address" help:"Search the objects below this prefix, s3://BUCKET[/PREFIX]."`
	Name    []string `sep:"none" placeholder:"PATTERN" help:"Find objects whose last part of the key matches a pattern, such as '*.jpg'. If the flag is repeated, one of the patterns must match."`
	Larger  *size    `placeholder:"SIZE" help:"Find objects that are larger than this, such as 10MiB."`
	Smaller *size    `placeholder:"SIZE" help:"Find objects that are smaller than this."`
	Newer   age      `placeholder:"TIME" help:"Find objects that were written after this time: an age such as 36h or 30d, or a time such as 2026-01-31."`
	Older   age      `placeholder:"TIME" help:"Find objects that were written before this time."`
	Tag     []string `sep:"none" placeholder:"NAME[=VALUE]" help:"Find objects with this tag. The flag can be repeated: all of them must match. Each object needs a request."`
	Limit   int      `placeholder:"N" help:"Find at most this many."`
}

// tagsAtOnce is the number of objects whose tags are requested at the same time.
const tagsAtOnce = 64

// Validate is called by kong.
func (c *findCommand) Validate() error {
	for _, name := range c.Name {
		if _, err := path.Match(name, ""); err != nil {
			return usagef("--name: %q is not a pattern: a [ is not closed, or a \\ is at the end", name)
		}
	}
	for _, tag := range c.Tag {
		if name, _, _ := strings.Cut(tag, "="); name == "" {
			return usagef("--tag: expected NAME or NAME=VALUE, not %q", tag)
		}
	}
	if c.Limit < 0 {
		return usagef("--limit: expected 1 or more, not %d", c.Limit)
	}
	return nil
}

// Run finds objects.
func (c *findCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET[/PREFIX]")
	if err != nil {
		return err
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	return s.end(c.search(r, at, s.now()))
}

// search prints the objects that match. Objects wait until there are enough of them to request their tags together.
func (c *findCommand) search(r *remote, at Address, now time.Time) error {
	found := 0
	var waiting []sdk.Entry
	show := func() (more bool, err error) {
		matches, err := c.tagged(r, at, waiting)
		for i := range waiting {
			if matches[i] && (c.Limit == 0 || found < c.Limit) {
				found++
				r.session.out.line("%s", shown(at.object(waiting[i].Key).String()))
				r.session.out.object(newEntryJSON(at, &waiting[i], false))
			}
		}
		waiting = waiting[:0]
		return err == nil && (c.Limit == 0 || found < c.Limit) && r.session.out.broken() == nil, err
	}
	batch := tagsAtOnce
	if len(c.Tag) == 0 {
		batch = 1
	}
	for e, err := range r.List(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: at.Key}) {
		if err != nil {
			return r.explain(err)
		}
		if !c.matches(&e.Info, now) {
			continue
		}
		if waiting = append(waiting, e); len(waiting) < batch {
			continue
		}
		if more, err := show(); !more {
			return err
		}
	}
	_, err := show()
	return err
}

// matches reports whether a listed object is found, as far as its tags do not matter.
func (c *findCommand) matches(i *sdk.Info, now time.Time) bool {
	named := len(c.Name) == 0
	for _, pattern := range c.Name {
		ok, _ := path.Match(pattern, path.Base(i.Key)) // Validate has checked the pattern
		named = named || ok
	}
	return named &&
		(c.Larger == nil || i.Size > int64(*c.Larger)) && (c.Smaller == nil || i.Size < int64(*c.Smaller)) &&
		(!c.Newer.set() || i.LastModified.After(c.Newer.before(now))) && (!c.Older.set() || i.LastModified.Before(c.Older.before(now)))
}

// tagged reports for each object whether it has the tags. An object that was deleted in the meantime has none.
func (c *findCommand) tagged(r *remote, at Address, objects []sdk.Entry) ([]bool, error) {
	matches, errs := make([]bool, len(objects)), make([]error, len(objects))
	var wait sync.WaitGroup
	for i := range objects {
		if len(c.Tag) == 0 {
			matches[i] = true
			continue
		}
		wait.Go(func() {
			tags, err := r.Tags(r.session.ctx, at.Bucket, sdk.ObjectID{Key: objects[i].Key})
			if isAny(err, sdk.ErrNoSuchKey, sdk.ErrNoSuchVersion) {
				return
			}
			matches[i], errs[i] = hasTags(tags, c.Tag), err
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return matches, r.explain(err)
		}
	}
	return matches, nil
}

// hasTags reports whether tags have all of want, which are NAME or NAME=VALUE.
func hasTags(tags map[string]string, want []string) bool {
	for _, w := range want {
		name, value, valued := strings.Cut(w, "=")
		if got, ok := tags[name]; !ok || valued && got != value {
			return false
		}
	}
	return true
}
