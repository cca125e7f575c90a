package client

import (
	"context"
	"strings"

	"orcas/sdk"
)

// duCommand adds up sizes.
type duCommand struct {
	connection
	Address  string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Add up the objects below this prefix, s3://BUCKET[/PREFIX]."`
	Depth    int    `default:"1" placeholder:"N" help:"Show prefixes up to this depth (default ${default}); 0 shows the total only."`
	Versions bool   `help:"Add up all versions, not just the current ones."`
	Human    bool   `short:"H" help:"Print sizes with units."`
}

// usage is the use of a prefix.
type usage struct {
	prefix         string // the key of the prefix, ends with "/"; "" is the whole bucket
	size, objects  int64
	markers, older int64 // delete markers and noncurrent versions, with --versions
}

// usageJSON is usage as JSON.
type usageJSON struct {
	Type       string `json:"type"` // prefix or total
	Address    string `json:"address"`
	Size       int64  `json:"size"`
	Objects    int64  `json:"objects"`
	Noncurrent *int64 `json:"noncurrent_versions,omitempty"` // with --versions
	Markers    *int64 `json:"delete_markers,omitempty"`      // with --versions
}

// Run adds up.
func (c *duCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET[/PREFIX]")
	if err != nil {
		return err
	}
	if c.Depth < 0 {
		return usagef("--depth: expected 0 or more, not %d", c.Depth)
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	return s.end(c.add(r, at))
}

// add adds up the objects below an address. The keys are sorted, so a prefix is complete when a key does not begin with
// it, and memory does not grow with the number of prefixes.
func (c *duCommand) add(r *remote, at Address) error {
	list := r.List
	if c.Versions {
		list = r.Versions
	}
	total := usage{prefix: at.Key}
	var open []usage // the prefixes of the key, each inside the one before
	found := false
	for e, err := range list(r.session.ctx, at.Bucket, &sdk.ListOptions{Prefix: at.Key}) {
		if err != nil {
			return r.explain(err)
		}
		found = true
		for len(open) > 0 && !strings.HasPrefix(e.Key, open[len(open)-1].prefix) {
			open = c.shut(r, at, open)
		}
		for len(open) < c.Depth {
			from := len(total.prefix)
			if len(open) > 0 {
				from = len(open[len(open)-1].prefix)
			}
			slash := strings.IndexByte(e.Key[from:], '/')
			if slash < 0 {
				break
			}
			open = append(open, usage{prefix: e.Key[:from+slash+1]})
		}
		total.count(&e.Info, c.Versions)
		if n := len(open); n > 0 {
			open[n-1].count(&e.Info, c.Versions)
		}
	}
	for len(open) > 0 {
		open = c.shut(r, at, open)
	}
	if !found && at.Key != "" {
		return notFound("nothing begins with %s", shown(at.String()))
	}
	c.print(r, at, "total", &total)
	return nil
}

// count adds an object.
func (u *usage) count(i *sdk.Info, versions bool) {
	switch {
	case i.DeleteMarker:
		u.markers++
		return
	case versions && !i.Latest:
		u.older++
	default:
		u.objects++
	}
	u.size += i.Size
}

// shut prints the last prefix of open and adds it to the one around it.
func (c *duCommand) shut(r *remote, at Address, open []usage) []usage {
	u := open[len(open)-1]
	open = open[:len(open)-1]
	if len(open) > 0 {
		outer := &open[len(open)-1]
		outer.size, outer.objects, outer.markers, outer.older = outer.size+u.size, outer.objects+u.objects, outer.markers+u.markers, outer.older+u.older
	}
	c.print(r, at, "prefix", &u)
	return open
}

// print prints the use of a prefix.
func (c *duCommand) print(r *remote, at Address, kind string, u *usage) {
	address := at.object(u.prefix).String()
	if c.Versions {
		r.session.out.line("%12s %10d objects %10d old versions %8d delete markers  %s", bytesText(u.size, c.Human), u.objects, u.older, u.markers, shown(address))
	} else {
		r.session.out.line("%12s %10d objects  %s", bytesText(u.size, c.Human), u.objects, shown(address))
	}
	j := usageJSON{Type: kind, Address: address, Size: u.size, Objects: u.objects}
	if c.Versions {
		j.Noncurrent, j.Markers = &u.older, &u.markers
	}
	r.session.out.object(j)
}
