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
	"orcas/core/sqlite"
	"orcas/internal/durable"
	"orcas/internal/mutant"
	"orcas/reclaim"
)

// Offline is a locked data directory that no server uses, for commands that check and repair it. Pending changes have
// not been replayed.
//
// One process: the lock of the directory keeps out other processes, but not servers on other machines that share the
// store.
type Offline struct {
	Dir    string
	Blocks core.Blocks
	steps  durable.Steps

	bulkCache int64 // the page cache for a rebuild, in bytes; 0 for the default
}

// OpenOffline opens and locks a data directory, which must exist. If allowMissing is set, the directory of the blocks
// may be empty even if the metadata refers to blocks.
func OpenOffline(dir string, allowMissing bool, log *slog.Logger) (*Offline, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := needStore(dir); err != nil {
		return nil, err
	}
	blocks, err := ownDrivers.openBlocks(context.Background(), driverOptions{dir: dir, allowMissing: allowMissing, log: log})
	if core.Is(err, core.Busy) {
		return nil, fmt.Errorf("%w: stop that process, or check the running server with orcas admin fsck", err)
	}
	if err != nil {
		return nil, err
	}
	return &Offline{Dir: dir, Blocks: blocks}, nil
}

// Close releases the lock.
func (o *Offline) Close() error { return o.Blocks.Close() }

// OpenDatabase opens the database, which must exist. The result is not cached.
func (o *Offline) OpenDatabase() (reclaim.Meta, error) {
	path := filepath.Join(o.Dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: orcas rebuild, or the next start of a server, creates it from the blocks", path)
	}
	meta, err := sqlite.Open(path, sqlite.Options{})
	if core.Is(err, core.Damaged) {
		return nil, fmt.Errorf("%s cannot be read (run orcas rebuild to re-create it from the blocks): %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, nil
}

// Names of files next to the database: a new database, and the suffixes of the files that SQLite keeps with a
// database.
const (
	newDatabase = databaseFile + ".new"
	logSuffix   = "-wal"
	indexSuffix = "-shm"
)

// NewDatabase creates an empty database next to the existing one. Nothing is synced while it is filled.
func (o *Offline) NewDatabase() (reclaim.Meta, error) {
	o.dropNewDatabase()
	path := filepath.Join(o.Dir, newDatabase)
	meta, err := sqlite.Open(path, sqlite.Options{Bulk: true, CacheBytes: o.bulkCache})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, nil
}

// EndDatabase closes a database that NewDatabase has returned. If err is not nil, or if closing fails, it deletes the
// database and returns the error.
func (o *Offline) EndDatabase(meta reclaim.Meta, err error) error {
	if closeErr := meta.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		o.dropNewDatabase()
	}
	return err
}

// dropNewDatabase deletes the database of NewDatabase, if it exists.
func (o *Offline) dropNewDatabase() {
	for _, suffix := range []string{"", logSuffix, indexSuffix} {
		_ = os.Remove(filepath.Join(o.Dir, newDatabase+suffix)) // ignore the error: the next NewDatabase tries again
	}
}

// SwapDatabase replaces the database with the one that NewDatabase has created, which must be closed. It keeps the old
// database and returns its new name, or "" if there was no old database.
//
// The new database is synced before anything is renamed. Then the old database is renamed, then its log, then the new
// database, with a sync after each step: so no database is ever opened with the log of another one. A crash in between
// leaves no database, and the next start creates one from the blocks.
func (o *Offline) SwapDatabase(reason string, now time.Time) (kept string, err error) {
	at, fresh := filepath.Join(o.Dir, databaseFile), filepath.Join(o.Dir, newDatabase)
	if _, err := os.Stat(fresh + logSuffix); err == nil {
		return "", fmt.Errorf("%s%s exists, so the new database was not closed cleanly", fresh, logSuffix)
	}
	if err := o.syncNew(fresh); err != nil {
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

// syncNew makes the new database durable, which was filled without a sync.
func (o *Offline) syncNew(path string) error {
	if mutant.Is("new-database-unsynced") {
		return nil
	}
	f, err := o.steps.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteReport writes the report of a command to a new file in the data directory, and returns the name of the file.
func (o *Offline) WriteReport(command string, now time.Time, text []byte) (string, error) {
	name := command + "-" + stampOf(now) + ".log"
	return name, o.steps.Replace(filepath.Join(o.Dir, name), text)
}

// stampOf formats a time for use in file names.
func stampOf(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// Store is a data directory that no server uses, opened by a command.
type Store struct {
	Blocks core.Blocks
	Meta   core.Meta
}

// OpenStore opens a data directory that exists, and applies the changes that are in the blocks but not in the
// metadata, as a start of a server does.
func OpenStore(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	if err := needStore(dir); err != nil {
		return nil, err
	}
	blocks, meta, rebuilt, err := ownDrivers.open(ctx, driverOptions{dir: dir, log: log})
	if err != nil {
		return nil, err
	}
	s := &Store{blocks, meta}
	if rebuilt == nil {
		if _, err := batch.Recover(ctx, meta, blocks, log); err != nil {
			return nil, errors.Join(fmt.Errorf("recovery of %s: %w", dir, err), s.Close())
		}
	}
	return s, nil
}

// Close closes the store and releases its lock.
func (s *Store) Close() error { return errors.Join(s.Meta.Close(), s.Blocks.Close()) }
