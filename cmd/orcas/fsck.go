package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"orcas/batch"
	"orcas/cmd/orcas/server"
	"orcas/core/reclaim"
	"orcas/core/snapshot"
	"orcas/core/sqlite"
)

type fsckCommand struct {
	Data    string `required:"" placeholder:"DIR" help:"The data directory; no server may use it."`
	Content bool   `help:"Read and verify all content too."`
	Repair  bool   `help:"Mend what follows from the metadata itself: references, indexes, which version is the newest."`
	JSON    bool   `name:"json" help:"Print the report as JSON."`

	progress func(phase string, done, total int64)
}

// Validate is called by kong.
func (c *fsckCommand) Validate() error { return needData(c.Data) }

func needData(dir string) error {
	if dir == "" {
		return errors.New("--data: must not be empty")
	}
	return nil
}

// fsckReport is what fsck prints.
type fsckReport struct {
	Check  *reclaim.CheckReport  `json:"check"`
	Repair *reclaim.RepairReport `json:"repair,omitempty"`
	Kept   string                `json:"old_database,omitempty"`
	After  *reclaim.CheckReport  `json:"check_after,omitempty"`
	Log    string                `json:"log,omitempty"`
}

// Run checks a data directory. Without --repair it changes nothing but what opening costs: the count of starts.
func (c *fsckCommand) Run(to *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	log := warnings(to.stderr)
	store, err := server.OpenOffline(c.Data, log)
	if err != nil {
		return err
	}
	report := &fsckReport{}
	c.progress = sayHowFar(to.stderr)
	err = c.fsck(ctx, store, log, report)
	err = errors.Join(err, store.Close())
	if printErr := c.print(to.stdout, report); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	last := report.Check
	if report.After != nil {
		last = report.After
	}
	if last.Found > 0 {
		return fmt.Errorf("%d differences", last.Found)
	}
	return nil
}

// sayHowFar prints how far a check is, where it takes long.
func sayHowFar(to io.Writer) func(phase string, done, total int64) {
	last := time.Now()
	return func(phase string, done, total int64) {
		if time.Since(last) < sayEvery {
			return
		}
		last = time.Now()
		if total > 0 {
			fmt.Fprintf(to, "%s: %d of %d, %d %%\n", phase, done, total, 100*done/total)
		} else {
			fmt.Fprintf(to, "%s: %d\n", phase, done)
		}
	}
}

// warnings returns a logger of what a person should see.
func warnings(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (c *fsckCommand) fsck(ctx context.Context, store *server.Offline, log *slog.Logger, report *fsckReport) error {
	meta, err := store.OpenDatabase()
	if err != nil {
		return err
	}
	err = c.check(ctx, store, meta, log, report)
	if err == nil && c.Repair && report.Check.Found > 0 {
		err = c.repair(ctx, store, meta, report)
	}
	if closeErr := meta.Close(); err == nil {
		err = closeErr
	}
	if err != nil || report.Repair == nil {
		return err
	}
	now := time.Now()
	if report.Kept, err = store.SwapDatabase("repair", now); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := report.writeText(&text); err != nil {
		return err
	}
	report.Log, err = store.WriteReport("fsck", now, text.Bytes())
	return err
}

// check makes report.Check, after a replay of what waits where that may be mended.
func (c *fsckCommand) check(ctx context.Context, store *server.Offline, meta *sqlite.Meta, log *slog.Logger, report *fsckReport) error {
	o := reclaim.CheckOptions{Content: c.Content, Progress: c.progress}
	waiting, err := batch.Pending(ctx, meta, store.Blocks, log)
	if err != nil {
		return err
	}
	if waiting.Ahead && !c.Repair {
		return errors.New("the database is ahead of what a power cut left in the blocks: the next start, or --repair, makes it again from them; nothing was checked")
	}
	if c.Repair {
		found, err := batch.Recover(ctx, meta, store.Blocks, log)
		if err == nil && len(found.Voids) > 0 { // nobody else records what was left out
			_, err = snapshot.Write(ctx, meta, store.Blocks, snapshot.WriteOptions{})
		}
		if err != nil {
			return err
		}
	} else {
		o.Waiting = waiting.Changes
	}
	if report.Check, err = reclaim.Check(ctx, meta, store.Blocks, o); err != nil {
		return err
	}
	for _, g := range waiting.Missing {
		report.Check.Add(reclaim.Difference{Kind: reclaim.KindGap, Where: fmt.Sprintf("changes %d to %d", g.From, g.To),
			Text: "they are not in the database, and in no block any more"})
	}
	return nil
}

// repair makes the new database, and a snapshot of it in the blocks, so that a rebuild later begins with what was mended.
func (c *fsckCommand) repair(ctx context.Context, store *server.Offline, meta *sqlite.Meta, report *fsckReport) error {
	fresh, err := store.NewDatabase()
	if err != nil {
		return err
	}
	repaired, err := reclaim.Repair(ctx, meta, fresh)
	if err == nil {
		report.After, err = reclaim.Check(ctx, fresh, store.Blocks, reclaim.CheckOptions{Content: c.Content, Progress: c.progress})
	}
	if err == nil {
		_, err = snapshot.Write(ctx, fresh, store.Blocks, snapshot.WriteOptions{})
	}
	if err := store.EndDatabase(fresh, err); err != nil {
		return err
	}
	report.Repair = repaired
	return nil
}

func (c *fsckCommand) print(to io.Writer, r *fsckReport) error {
	if r.Check == nil {
		return nil
	}
	if !c.JSON {
		return r.writeText(to)
	}
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *fsckReport) writeText(to io.Writer) error {
	var b bytes.Buffer
	_ = r.Check.WriteText(&b) // a buffer takes everything
	if m := r.Repair; m != nil {
		fmt.Fprintf(&b, "\nrepaired: %d rows written, %d versions now listed or no longer\n", m.Rows, m.Listed)
		for _, line := range m.Added {
			fmt.Fprintf(&b, "made: %s\n", line)
		}
		for _, d := range m.LeftOut {
			fmt.Fprintf(&b, "left out: %s: %s (%d bytes)\n", d.Where, d.Text, d.Bytes)
		}
		if r.Kept != "" {
			fmt.Fprintf(&b, "the old database is kept as %s\n", r.Kept)
		}
		b.WriteString("\nafter the repair:\n")
		_ = r.After.WriteText(&b)
	}
	if r.Log != "" {
		fmt.Fprintf(&b, "all this is in %s too\n", r.Log)
	}
	_, err := to.Write(b.Bytes())
	return err
}
