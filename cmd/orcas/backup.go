//go:build cgo && (linux || darwin)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"orcas/backup"
	"orcas/core"
	"orcas/core/disk"
	"orcas/server"
)

type backupCommand struct {
	Dir   string `arg:"" placeholder:"DIR" help:"Store backups in this directory; it is created if it does not exist."`
	Name  string `arg:"" optional:"" placeholder:"NAME" help:"Check this backup instead of the newest (with --check)."`
	Data  string `placeholder:"DIR" help:"Back up this data directory. If a server is using it, the server makes the backup."`
	Keep  int    `placeholder:"N" help:"Afterwards, remove all but the newest N backups (default: remove none)."`
	Link  bool   `help:"Use hard links instead of copies for closed blocks, if DIR is on the same file system. This saves space and protects against deletion, but not against failure of the drive."`
	Check bool   `help:"Do not make a backup; read an existing one and verify its checksums."`
	JSON  bool   `name:"json" help:"Print the report as JSON."`

	adminConnection
}

// Validate is called by kong.
func (c *backupCommand) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("DIR must not be empty")
	case c.Check && (c.Data != "" || c.Keep != 0 || c.Link):
		return errors.New("--check cannot be combined with --data, --keep or --link")
	case !c.Check && c.Name != "":
		return fmt.Errorf("%q: the name of a backup is accepted only with --check", c.Name)
	case !c.Check && c.Data == "":
		return errors.New("missing flag --data=DIR")
	case c.Keep < 0:
		return errors.New("--keep must not be negative")
	}
	return nil
}

// Run makes a backup of a data directory, or checks an existing backup. If a server uses the data directory, Run has
// the server make the backup.
func (c *backupCommand) Run(ctx context.Context, to *console) error {
	if c.Check {
		report, err := backup.Check(ctx, c.Dir, c.Name, progressTo(to.stderr))
		return printBackup(to, c.JSON, "checked", report, err)
	}
	store, err := server.OpenStore(ctx, c.Data, slog.New(slog.DiscardHandler))
	if core.Is(err, core.Busy) {
		return c.runOnServer(ctx, to)
	}
	if err != nil {
		return err
	}
	report, err := backup.Backup(ctx, backup.Options{
		Meta: store.Meta, Blocks: store.Blocks, DataDir: c.Data, SmallFiles: server.BackupFiles(), Dir: c.Dir, Keep: c.Keep, Link: c.Link, Progress: progressTo(to.stderr),
	})
	return errors.Join(printBackup(to, c.JSON, "made", report, err), store.Close())
}

// runOnServer has the server that uses the data directory make the backup.
func (c *backupCommand) runOnServer(ctx context.Context, to *console) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	target := adminTarget{adminConnection: c.adminConnection}
	target.selfSigned = c.Data
	if _, err := target.credentials(to.environ); err != nil {
		target.Data = c.Data
	}
	query := url.Values{"dir": {dir}, "keep": {strconv.Itoa(c.Keep)}, "link": {strconv.FormatBool(c.Link)}}
	var report backup.Report
	if err = target.call(ctx, to, http.MethodPost, "/-/admin/backup", query, &report); errors.Is(err, errInterrupted) {
		return orEnds(err, "the server has stopped the backup; earlier backups are unchanged, and the next one reuses the finished copies")
	} else if err != nil {
		err = fmt.Errorf("a server is using %s and has to make the backup: %w", c.Data, err)
	}
	return printBackup(to, c.JSON, "made", &report, err)
}

type restoreCommand struct {
	Dir    string `arg:"" placeholder:"DIR" help:"Read the backup from this directory."`
	Data   string `required:"" placeholder:"DIR" help:"Restore into this data directory, which must be empty or must not exist."`
	Backup string `placeholder:"NAME" help:"Restore this backup instead of the newest."`
	JSON   bool   `name:"json" help:"Print the report as JSON."`
}

// Validate is called by kong.
func (c *restoreCommand) Validate() error {
	if c.Dir == "" || c.Data == "" {
		return errors.New("DIR and --data must not be empty")
	}
	return nil
}

// Run restores a data directory from a backup.
func (c *restoreCommand) Run(ctx context.Context, to *console) error {
	report, err := backup.Restore(ctx, backup.RestoreOptions{
		Dir: c.Dir, Backup: c.Backup, DataDir: c.Data, Fork: disk.Fork, Marker: disk.Marker, Progress: progressTo(to.stderr),
	})
	return printBackup(to, c.JSON, "restored", report, err)
}

// printBackup prints a report, unless err is not nil. It also returns an error if the backup has problems.
func printBackup(to *console, asJSON bool, done string, r *backup.Report, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(to.stdout, "%s\n", text); err != nil {
			return err
		}
	} else {
		_, err := fmt.Fprintf(to.stdout, "backup %s of store %s: %s in %.1f s, %d blocks (%d bytes in total), up to change %d; %d bytes copied, %d shared\n",
			r.Backup, r.Store, done, r.Seconds, r.Blocks, r.Bytes, r.Seq, r.CopiedBytes, r.SharedBytes)
		if err != nil {
			return err
		}
		if len(r.Removed) > 0 || r.RemovedBlocks > 0 {
			if _, err := fmt.Fprintf(to.stdout, "removed: %d backups, %d blocks (%d bytes in total)\n", len(r.Removed), r.RemovedBlocks, r.RemovedBytes); err != nil {
				return err
			}
		}
	}
	if n := len(r.Problems); n > 0 {
		return fmt.Errorf("backup %s was %s, with problems: %s", r.Backup, done, strings.Join(r.Problems, "; "))
	}
	return nil
}

// progressInterval is the interval at which a backup or a check prints its progress.
const progressInterval = 15 * time.Second

func progressTo(w io.Writer) func(backup.Progress) {
	last := time.Now()
	return func(p backup.Progress) {
		if time.Since(last) < progressInterval {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "%d of %d blocks, %d of %d bytes\n", p.Blocks, p.Of, p.Bytes, p.OfAll)
	}
}
