package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"orcas/batch"
	"orcas/cmd/orcas/server"
	"orcas/core/reclaim"
	"orcas/core/snapshot"
)

type rebuildCommand struct {
	Data  string `required:"" placeholder:"DIR" help:"The data directory; no server may use it."`
	Lossy bool   `help:"Make what can be made where changes are missing."`
}

// Validate is called by kong.
func (c *rebuildCommand) Validate() error { return needData(c.Data) }

// Run makes the database again from the blocks.
func (c *rebuildCommand) Run(to *console) error {
	ctx, stop := withSignals(context.Background())
	defer stop()
	log := warnings(to.stderr)
	store, err := server.OpenOffline(c.Data, log)
	if err != nil {
		return err
	}
	return errors.Join(c.rebuild(ctx, store, log, to.stdout), store.Close())
}

func (c *rebuildCommand) rebuild(ctx context.Context, store *server.Offline, log *slog.Logger, out io.Writer) error {
	began := time.Now()
	meta, err := store.NewDatabase()
	if err != nil {
		return err
	}
	found, err := batch.Rebuild(ctx, meta, store.Blocks, log, c.Lossy)
	took := time.Since(began)
	var check *reclaim.CheckReport
	if err == nil && found.Seq == 0 {
		err = errors.New("there is no record and no snapshot in the blocks: nothing to rebuild from")
	}
	if err == nil {
		check, err = reclaim.Check(ctx, meta, store.Blocks, reclaim.CheckOptions{})
	}
	if err == nil && len(found.Missing)+len(found.Voids) > 0 {
		// The next rebuild begins here, and need not find the gaps, nor what was cut off, again.
		_, err = snapshot.Write(ctx, meta, store.Blocks, snapshot.WriteOptions{})
	}
	if err := store.EndDatabase(meta, err); err != nil {
		return err
	}
	kept, err := store.SwapDatabase("rebuild", time.Now())
	if err != nil {
		return err
	}
	if s := found.Snapshot; s != nil {
		fmt.Fprintf(out, "snapshot of change %d in block %v: %d rows\n", s.Seq, s.Block, s.Rows)
	} else {
		fmt.Fprintln(out, "no snapshot: everything comes from the records")
	}
	fmt.Fprintf(out, "%d changes replayed, up to change %d\n", found.Applied, found.Seq)
	for _, g := range found.Missing {
		fmt.Fprintf(out, "missing: the changes %d to %d are in no block and no snapshot\n", g.From, g.To)
	}
	fmt.Fprintf(out, "%.1f seconds, %d MiB of memory at most\n", took.Seconds(), peakMemory()>>20)
	if kept != "" {
		fmt.Fprintf(out, "the old database is kept as %s\n", kept)
	}
	fmt.Fprintln(out, "\nthe new database:")
	err = check.WriteText(out)
	if err == nil && check.Found > 0 {
		err = fmt.Errorf("the database is rebuilt, and %d differences are left", check.Found)
	}
	return err
}

// peakMemory returns the most memory that the process had, in bytes.
func peakMemory() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}
