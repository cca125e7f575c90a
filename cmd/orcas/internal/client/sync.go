package client

import (
	"context"
	"errors"

	"orcas/sdk/tree"
)

// syncCommand makes a target have the files of a source.
type syncCommand struct {
	connection
	transfer
	properties
	treeFlags
	Source   string `arg:"" placeholder:"SOURCE" complete:"address,file" help:"Use the files of this directory or prefix."`
	Target   string `arg:"" placeholder:"TARGET" complete:"address,file" help:"Change this directory or prefix. One of the two must be remote."`
	Delete   bool   `help:"Delete files that only the target has, after everything else, and only if nothing failed."`
	Checksum bool   `help:"Compare content by checksums, not by size and time."`
	SizeOnly bool   `help:"Compare sizes only."`
}

// Validate is called by kong.
func (c *syncCommand) Validate() error {
	if c.Checksum && c.SizeOnly {
		return usagef("--checksum and --size-only exclude each other")
	}
	return c.transfer.Validate()
}

// Run synchronizes.
func (c *syncCommand) Run(ctx context.Context, console *Console) error {
	source, err := parseAddress(c.Source)
	if err != nil {
		return err
	}
	target, err := parseAddress(c.Target)
	if err != nil {
		return err
	}
	s, err := c.startTransfer(ctx, console, &c.transfer)
	if err != nil {
		return err
	}
	return s.end(c.sync(s, source, target))
}

func (c *syncCommand) sync(s *session, source, target Address) error {
	o, err := c.options(s, &c.properties)
	if err != nil {
		return err
	}
	o.Delete, o.Checksum, o.SizeOnly = c.Delete, c.Checksum, c.SizeOnly
	from, to, err := s.pair(source, target)
	if err != nil {
		return err
	}
	return s.run(&from, &to, &o, "copied", func() (*tree.Result, error) { return tree.Sync(s.ctx, from.tree, to.tree, o) })
}

// diffCommand shows how two trees differ.
type diffCommand struct {
	connection
	filters
	Source   string `arg:"" placeholder:"A" complete:"address,file" help:"Compare this directory or prefix."`
	Target   string `arg:"" placeholder:"B" complete:"address,file" help:"Compare it with this one. One of the two must be remote."`
	Checksum bool   `help:"Compare content by checksums, not by size and time."`
	SizeOnly bool   `help:"Compare sizes only."`
	Parallel int    `placeholder:"N" help:"Send this many requests at the same time (default 64)."`
}

// Validate is called by kong.
func (c *diffCommand) Validate() error {
	if c.Checksum && c.SizeOnly {
		return usagef("--checksum and --size-only exclude each other")
	}
	return nil
}

// Help is shown by orcas diff --help.
func (diffCommand) Help() string {
	return "Each line is a path that differs: < only A has it, > only B has it, ! both have it, and why they differ. The exit status is 1 if there are differences."
}

// differenceJSON is a difference as JSON.
type differenceJSON struct {
	Difference string `json:"difference"` // only-from, only-to, differs or failed
	Path       string `json:"path"`
	Reason     string `json:"reason,omitempty"`
	FromSize   int64  `json:"from_size"`
	ToSize     int64  `json:"to_size"`
	FromTime   string `json:"from_time,omitempty"`
	ToTime     string `json:"to_time,omitempty"`
	Error      string `json:"error,omitempty"`
	Status     int    `json:"status,omitempty"`
}

// Run compares.
func (c *diffCommand) Run(ctx context.Context, console *Console) error {
	source, err := parseAddress(c.Source)
	if err != nil {
		return err
	}
	target, err := parseAddress(c.Target)
	if err != nil {
		return err
	}
	if c.Parallel < 0 {
		return usagef("--parallel: expected 1 or more, not %d", c.Parallel)
	}
	s, err := c.start(ctx, console)
	if err != nil {
		return err
	}
	return s.end(c.compare(s, source, target))
}

func (c *diffCommand) compare(s *session, source, target Address) error {
	patterns, err := c.list()
	if err != nil {
		return err
	}
	from, to, err := s.pair(source, target)
	if err != nil {
		return err
	}
	var differences, failed int64
	o := tree.Options{Patterns: patterns, Checksum: c.Checksum, SizeOnly: c.SizeOnly, Parallel: c.Parallel}
	for d, err := range tree.Diff(s.ctx, from.tree, to.tree, o) {
		if err != nil {
			return s.explainTransfer(&from, &to, err)
		}
		j := differenceJSON{
			Difference: string(d.Kind), Path: d.Path, Reason: d.Reason, FromSize: d.FromSize, ToSize: d.ToSize,
			FromTime: jsonTime(d.FromTime), ToTime: jsonTime(d.ToTime),
		}
		differences++
		switch d.Kind {
		case tree.OnlyFrom:
			s.out.line("< %s", shown(d.Path))
		case tree.OnlyTo:
			s.out.line("> %s", shown(d.Path))
		case tree.Differs:
			s.out.line("! %s (%s)", shown(d.Path), d.Reason)
		default:
			failed++
			err := s.explainTransfer(&from, &to, d.Err)
			j.Error, j.Status = err.Error(), Status(err)
			s.complain(errors.New(shown(d.Path) + ": " + err.Error()))
		}
		s.out.object(j)
	}
	switch {
	case failed > 0:
		return &statusError{StatusSomeFailed, plural(failed, "file") + " could not be compared; the errors are above", nil}
	case differences > 0:
		return &statusError{StatusFailed, plural(differences, "difference"), nil}
	}
	return nil
}
