package client

import (
	"context"

	"orcas/sdk"
)

// treeCommand shows objects as a tree.
type treeCommand struct {
	connection
	Address string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Show the objects below this prefix, s3://BUCKET[/PREFIX]."`
	Depth   int    `placeholder:"N" help:"Show this many levels. By default all are shown."`
	Dirs    bool   `short:"d" help:"Show prefixes only, no objects."`
	Sizes   bool   `short:"s" help:"Show the sizes of objects."`
}

// Run shows the tree.
func (c *treeCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET[/PREFIX]")
	if err != nil {
		return err
	}
	if c.Depth < 0 {
		return usagef("--depth: expected 1 or more, not %d", c.Depth)
	}
	if !at.isDirectory() {
		at.Key += "/"
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	s.out.line("%s", shown(at.String()))
	t := treeCounts{}
	if err := c.level(r, at, "", 1, &t); err != nil {
		return s.end(err)
	}
	if t.prefixes+t.objects == 0 && at.Key != "" {
		return s.end(notFound("nothing begins with %s", shown(at.String())))
	}
	s.out.line("\n%s, %s", plural(t.prefixes, "prefix"), plural(t.objects, "object"))
	return s.end(nil)
}

// treeCounts counts what was shown.
type treeCounts struct{ prefixes, objects int64 }

// level shows the entries of a prefix, and the levels below it. Each level is a listing of its own, and shows an entry
// when the next one is known, because the last one has another line in front.
func (c *treeCommand) level(r *remote, at Address, indent string, depth int, t *treeCounts) error {
	var held *sdk.Entry
	for e, err := range r.List(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: at.Key, Delimiter: "/"}) {
		if err != nil {
			return r.explain(err)
		}
		if e.Prefix == "" && (c.Dirs || e.Key == at.Key) { // the object at.Key stands for the directory itself
			continue
		}
		if held != nil {
			if err := c.entry(r, at, held, indent, false, depth, t); err != nil {
				return err
			}
		}
		held = &e
	}
	if held == nil {
		return nil
	}
	return c.entry(r, at, held, indent, true, depth, t)
}

// entry shows an entry of a level.
func (c *treeCommand) entry(r *remote, at Address, e *sdk.Entry, indent string, last bool, depth int, t *treeCounts) error {
	branch, below := "├── ", "│   "
	if last {
		branch, below = "└── ", "    "
	}
	r.session.out.object(newEntryJSON(at, e, false))
	if e.Prefix == "" {
		t.objects++
		size := ""
		if c.Sizes {
			size = " (" + bytesText(e.Size, true) + ")"
		}
		r.session.out.line("%s%s%s%s", indent, branch, shown(e.Key[len(at.Key):]), size)
		return nil
	}
	t.prefixes++
	r.session.out.line("%s%s%s", indent, branch, shown(e.Prefix[len(at.Key):]))
	if depth == c.Depth {
		return nil
	}
	return c.level(r, at.object(e.Prefix), indent+below, depth+1, t)
}
