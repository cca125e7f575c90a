//go:build cgo && (linux || darwin)

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
	"orcas/core/snapshot"
	"orcas/fsck"
	"orcas/server"
)

type rebuildCommand struct {
	Data  string `required:"" placeholder:"DIR" help:"Rebuild the metadata of this data directory; no server may be using it."`
	Lossy bool   `help:"Rebuild as much as possible even if changes are missing from the blocks."`
}

// Validate is called by kong.
func (c *rebuildCommand) Validate() error { return needData(c.Data) }

// Run rebuilds the database from the blocks.
func (c *rebuildCommand) Run(ctx context.Context, to *console) error {
	log := warnings(to.stderr)
	store, err := server.OpenOffline(c.Data, false, log)
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
	var check *fsck.Report
	if err == nil && found.Seq == 0 {
		err = errors.New("the blocks contain no record and no snapshot: there is nothing to rebuild from")
	}
	if err == nil {
		check, err = fsck.Check(ctx, meta, store.Blocks, fsck.Options{})
	}
	if err == nil && len(found.Missing)+len(found.Voids) > 0 {
		// The next rebuild starts from this snapshot, so it does not read past the gaps, or the changes that a power
		// cut has undone, again.
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
		fmt.Fprintf(out, "restored the snapshot of change %d in block %v: %d rows, %d deltas\n", s.Seq, s.Block, s.Rows, len(s.Deltas))
	} else {
		fmt.Fprintln(out, "found no snapshot: all changes were replayed from the records")
	}
	fmt.Fprintf(out, "replayed %d changes, up to change %d\n", found.Applied, found.Seq)
	for _, g := range found.Missing {
		fmt.Fprintf(out, "missing: changes %d to %d are neither in a block nor in a snapshot\n", g.From, g.To)
	}
	fmt.Fprintf(out, "took %.1f seconds and at most %d MiB of memory\n", took.Seconds(), peakMemory()>>20)
	if kept != "" {
		fmt.Fprintf(out, "the old database was kept as %s\n", kept)
	}
	fmt.Fprintln(out, "\nthe new database:")
	err = check.WriteText(out)
	if err == nil && check.Found > 0 {
		err = fmt.Errorf("the database was rebuilt, but the check found %d differences", check.Found)
	}
	return err
}

// peakMemory returns the peak resident memory of the process, in bytes.
func peakMemory() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}
