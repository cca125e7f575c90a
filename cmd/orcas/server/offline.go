package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/sqlite"
	"orcas/internal/durable"
)

// Offline is a data directory that no server uses, for commands that check and mend it. It holds the lock. Nothing was replayed.
type Offline struct {
	Dir    string
	Blocks core.Blocks
	steps  durable.Steps
}

// OpenOffline takes the lock of a data directory, which must be there.
func OpenOffline(dir string, log *slog.Logger) (*Offline, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "STORE")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no data directory: it has no file STORE", dir)
	}
	blocks, err := disk.Open(dir, disk.Options{Logger: log})
	if core.Is(err, core.Busy) {
		return nil, fmt.Errorf("a server uses %s: stop it, or let it check itself with orcas admin fsck: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Offline{Dir: dir, Blocks: blocks}, nil
}

// Close gives the lock back.
func (o *Offline) Close() error { return o.Blocks.Close() }

// OpenDatabase opens the database, which must be there. It is SQLite's own, and not cached.
func (o *Offline) OpenDatabase() (*sqlite.Meta, error) {
	path := filepath.Join(o.Dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: orcas rebuild, or the next start of a server, makes it from the blocks", path)
	}
	meta, err := sqlite.Open(path, sqlite.Options{})
	if core.Is(err, core.Damaged) {
		return nil, fmt.Errorf("%s cannot be read (orcas rebuild makes it again from the blocks): %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, nil
}

// Beside the database: the one that is being made, and the files of SQLite's that go with one.
const (
	newDatabase = databaseFile + ".new"
	logSuffix   = "-wal"
	indexSuffix = "-shm"
)

// NewDatabase begins an empty database beside the one that is there.
func (o *Offline) NewDatabase() (*sqlite.Meta, error) {
	o.dropNewDatabase()
	path := filepath.Join(o.Dir, newDatabase)
	meta, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, nil
}

// EndDatabase closes what NewDatabase made and, where err is one or the close fails, takes it away and returns that error.
func (o *Offline) EndDatabase(meta *sqlite.Meta, err error) error {
	if closeErr := meta.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		o.dropNewDatabase()
	}
	return err
}

// dropNewDatabase takes away what NewDatabase made, if it is there.
func (o *Offline) dropNewDatabase() {
	for _, suffix := range []string{"", logSuffix, indexSuffix} {
		_ = os.Remove(filepath.Join(o.Dir, newDatabase+suffix)) // what stays is overwritten by the next
	}
}

// SwapDatabase puts the database that NewDatabase made, closed by now, in the place of the old one, and keeps that under the name returned ("": there was none).
//
// The new one is on the drive before anything moves. Then the old one gets its other name, then its log, then the new one its place, and
// each step is on the drive before the next: so no database ever meets the log of another. A crash in between leaves no database,
// and the next start makes one from the blocks.
func (o *Offline) SwapDatabase(reason string, now time.Time) (kept string, err error) {
	at, fresh := filepath.Join(o.Dir, databaseFile), filepath.Join(o.Dir, newDatabase)
	if _, err := os.Stat(fresh + logSuffix); err == nil {
		return "", fmt.Errorf("%s%s is there: the new database was not closed well", fresh, logSuffix)
	}
	f, err := o.steps.Open(fresh)
	if err != nil {
		return "", err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return "", err
	}
	kept = databaseFile + ".before-" + reason + "-" + stampOf(now)
	moved := false
	for _, suffix := range []string{"", logSuffix, indexSuffix} {
		err := o.steps.Rename(at+suffix, filepath.Join(o.Dir, kept+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		moved = moved || suffix == ""
		if err == nil {
			err = o.steps.SyncDir(o.Dir)
		}
		if err != nil {
			return kept, err
		}
	}
	if !moved {
		kept = ""
	}
	if err := o.steps.Rename(fresh, at); err != nil {
		return kept, err
	}
	return kept, o.steps.SyncDir(o.Dir)
}

// WriteReport writes what a command did to a file of its own in the data directory, and returns its name.
func (o *Offline) WriteReport(command string, now time.Time, text []byte) (string, error) {
	name := command + "-" + stampOf(now) + ".log"
	return name, o.steps.Replace(filepath.Join(o.Dir, name), text)
}

// stampOf is a time as names of files show it.
func stampOf(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// Store is a data directory that no server uses, opened by a command.
type Store struct {
	Blocks core.Blocks
	Meta   core.Meta
}

// OpenStore opens a data directory that exists, and brings its metadata up to what the blocks say, as a start of a server does.
func OpenStore(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, "STORE")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no data directory: there is no STORE in it", dir)
	} else if err != nil {
		return nil, err
	}
	blocks, meta, err := openDrivers(ctx, dir, log, nil)
	if err != nil {
		return nil, err
	}
	s := &Store{blocks, meta}
	if _, err := batch.Recover(ctx, meta, blocks, log); err != nil {
		return nil, errors.Join(fmt.Errorf("recovery of %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// Close lets go of the directory.
func (s *Store) Close() error { return errors.Join(s.Meta.Close(), s.Blocks.Close()) }
