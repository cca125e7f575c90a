//go:build cgo && (linux || darwin)

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
	"orcas/core"
	"orcas/core/snapshot"
	"orcas/fsck"
	"orcas/internal/mutant"
	"orcas/reclaim"
	"orcas/server"
)

type fsckCommand struct {
	Data    string `required:"" placeholder:"DIR" help:"Check this data directory; no server may be using it."`
	Content bool   `help:"Also read and verify the content of all objects."`
	Repair  bool   `help:"Repair the metadata: rebuild it from the blocks if rows are lost; otherwise recompute reference counts, indexes and newest versions."`
	JSON    bool   `name:"json" help:"Print the report as JSON."`

	AllowMissing bool `name:"allow-missing-blocks" help:"Check even if the metadata refers to blocks but the block directory is empty."`

	progress func(phase string, done, total int64)
	voids    bool // the replay skipped changes, so a snapshot must record that
}

// Validate is called by kong.
func (c *fsckCommand) Validate() error { return needData(c.Data) }

func needData(dir string) error {
	if dir == "" {
		return errors.New("missing flag --data=DIR")
	}
	return nil
}

// fsckReport is the report that fsck prints.
type fsckReport struct {
	Check  *fsck.Report       `json:"check"`
	Repair *fsck.RepairReport `json:"repair,omitempty"`
	// Rebuilt is set if the new database was rebuilt from the blocks, as by orcas rebuild, and not created from the old
	// database. NotRebuilt is the reason why it was not rebuilt although rows were lost.
	Rebuilt    *rebuildReport `json:"rebuilt,omitempty"`
	NotRebuilt string         `json:"not_rebuilt,omitempty"`
	Kept       string         `json:"old_database,omitempty"`
	After      *fsck.Report   `json:"check_after,omitempty"`
	Log        string         `json:"log,omitempty"`
}

// rebuildReport describes the sources of a rebuilt database.
type rebuildReport struct {
	Snapshot core.Seq `json:"snapshot_seq"`  // sequence of the snapshot; 0 if there was none
	Rows     int64    `json:"snapshot_rows"` // number of rows in the snapshot
	Replayed int      `json:"replayed"`      // number of changes after the snapshot
	Seq      core.Seq `json:"seq"`           // sequence of the last change
}

// Run checks a data directory. Without --repair it changes nothing except the number of starts, which opening the store
// increments.
func (c *fsckCommand) Run(ctx context.Context, to *console) error {
	log := warnings(to.stderr)
	store, err := server.OpenOffline(c.Data, c.AllowMissing, log)
	if err != nil {
		return err
	}
	report := &fsckReport{}
	c.progress = fsckProgress(to.stderr)
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
		return fmt.Errorf("the check found %d differences", last.Found)
	}
	return nil
}

// fsckProgress returns a function that prints the progress of a check every progressInterval.
func fsckProgress(to io.Writer) func(phase string, done, total int64) {
	last := time.Now()
	return func(phase string, done, total int64) {
		if time.Since(last) < progressInterval {
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

// warnings returns a logger that prints warnings and errors only.
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
		err = c.repair(ctx, store, meta, log, report) // this writes a snapshot
	} else if err == nil && c.voids {
		_, err = snapshot.Write(ctx, meta, store.Blocks, snapshot.WriteOptions{})
	}
	if closeErr := meta.Close(); err == nil {
		err = closeErr
	}
	if err != nil || report.After == nil {
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

// check sets report.Check. With --repair it first replays pending changes. Without it, it only counts them, and
// changes nothing.
func (c *fsckCommand) check(ctx context.Context, store *server.Offline, meta reclaim.Meta, log *slog.Logger, report *fsckReport) error {
	o := fsck.Options{Content: c.Content, Progress: c.progress}
	waiting, err := batch.Pending(ctx, meta, store.Blocks, log)
	if err != nil {
		return err
	}
	if waiting.Ahead && !c.Repair {
		return errors.New("the database is ahead of the blocks, as it may be after a power cut, so nothing was checked; the next start of the server, or --repair, rebuilds the database from the blocks")
	}
	if c.Repair {
		found, err := batch.Recover(ctx, meta, store.Blocks, log)
		if err != nil {
			return err
		}
		c.voids = len(found.Voids) > 0
	} else {
		o.Waiting = waiting.Changes
	}
	if report.Check, err = fsck.Check(ctx, meta, store.Blocks, o); err != nil {
		return err
	}
	for _, g := range waiting.Missing {
		report.Check.Add(fsck.Difference{Kind: fsck.KindGap, Where: fmt.Sprintf("changes %d to %d", g.From, g.To),
			Text: "the changes are neither in the database nor in any block"})
	}
	return nil
}

// repair creates a new database. If rows were lost, the new database is rebuilt from the blocks, since the old one no
// longer has these rows. If the blocks are incomplete too, the new database gets the rows that can be read.
func (c *fsckCommand) repair(ctx context.Context, store *server.Offline, meta reclaim.Meta, log *slog.Logger, report *fsckReport) error {
	if report.Check.RowsLost() && !mutant.Is("repair-keeps-loss") {
		why, err := c.rebuild(ctx, store, meta, log, report)
		if err != nil || why == "" {
			return err
		}
		report.NotRebuilt = why
	}
	err := c.finish(ctx, store, report, func(fresh reclaim.Meta) (err error) {
		report.Repair, err = fsck.Repair(ctx, meta, fresh)
		return err
	})
	if err != nil {
		return fmt.Errorf("the repair failed and changed nothing; to rebuild the database from the blocks, run orcas rebuild --data %s: %w", c.Data, err)
	}
	return nil
}

// rebuild rebuilds the new database from the blocks, or returns the reason why it would be incomplete.
func (c *fsckCommand) rebuild(
	ctx context.Context, store *server.Offline, meta reclaim.Meta, log *slog.Logger, report *fsckReport,
) (why string, err error) {
	was, err := meta.State(ctx)
	if err != nil {
		return "", err
	}
	incomplete := errors.New("incomplete")
	err = c.finish(ctx, store, report, func(fresh reclaim.Meta) error {
		found, err := batch.Rebuild(ctx, fresh, store.Blocks, log, false)
		if core.Is(err, core.Damaged) {
			why = core.Text(err)
			return incomplete
		}
		if err != nil {
			return err
		}
		if found.Seq < was.Seq {
			why = fmt.Sprintf("the last change in the blocks is %d, in the database %d", found.Seq, was.Seq)
			return incomplete
		}
		report.Rebuilt = &rebuildReport{Replayed: found.Applied, Seq: found.Seq}
		if found.Snapshot != nil {
			report.Rebuilt.Snapshot, report.Rebuilt.Rows = found.Snapshot.Seq, found.Snapshot.Rows
		}
		return nil
	})
	if errors.Is(err, incomplete) {
		return why, nil
	}
	return "", err
}

// finish creates and fills a new database, checks it, and writes a snapshot of it, from which a later rebuild can
// start.
func (c *fsckCommand) finish(ctx context.Context, store *server.Offline, report *fsckReport, fill func(fresh reclaim.Meta) error) error {
	fresh, err := store.NewDatabase()
	if err != nil {
		return err
	}
	if err = fill(fresh); err == nil {
		report.After, err = fsck.Check(ctx, fresh, store.Blocks, fsck.Options{Content: c.Content, Progress: c.progress})
	}
	if err == nil {
		_, err = snapshot.Write(ctx, fresh, store.Blocks, snapshot.WriteOptions{})
	}
	return store.EndDatabase(fresh, err)
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

// writeRepair writes a description of the repair.
func (r *fsckReport) writeRepair(b *bytes.Buffer) {
	if m := r.Rebuilt; m != nil {
		b.WriteString("\nthe database has lost rows; it was rebuilt from the blocks\n")
		if m.Snapshot > 0 {
			fmt.Fprintf(b, "restored %d rows from a snapshot up to change %d\n", m.Rows, m.Snapshot)
		}
		fmt.Fprintf(b, "replayed %d changes, up to change %d\n", m.Replayed, m.Seq)
		return
	}
	if r.NotRebuilt != "" {
		fmt.Fprintf(b, "\nthe database has lost rows, and the blocks do not contain all of them: %s\n", r.NotRebuilt)
	}
	m := r.Repair
	if m == nil {
		return
	}
	fmt.Fprintf(b, "\nrepaired: %d rows written; %d versions were added to listings or removed from them\n", m.Rows, m.Listed)
	if m.Twice > 0 {
		fmt.Fprintf(b, "skipped %d duplicate rows\n", m.Twice)
	}
	for _, line := range m.Added {
		fmt.Fprintf(b, "created: %s\n", line)
	}
	for _, d := range m.LeftOut {
		fmt.Fprintf(b, "dropped: %s: %s (%d bytes)\n", d.Where, d.Text, d.Bytes)
	}
}

func (r *fsckReport) writeText(to io.Writer) error {
	var b bytes.Buffer
	_ = r.Check.WriteText(&b) // writing to a buffer does not fail
	r.writeRepair(&b)
	if r.After != nil {
		if r.Kept != "" {
			fmt.Fprintf(&b, "the old database was kept as %s\n", r.Kept)
		}
		b.WriteString("\nafter the repair:\n")
		_ = r.After.WriteText(&b)
	}
	if r.Log != "" {
		fmt.Fprintf(&b, "this report was also written to %s\n", r.Log)
	}
	_, err := to.Write(b.Bytes())
	return err
}
