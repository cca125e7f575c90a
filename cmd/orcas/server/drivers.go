package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"orcas/core"
	"orcas/core/cached"
	"orcas/core/disk"
	"orcas/core/reclaim"
	"orcas/core/sqlite"
)

// databaseFile holds the metadata, beside the directories of the disk driver.
const databaseFile = "metadata.db"

// openDrivers opens blocks and metadata in dir. The disk driver comes first: it takes the lock of the directory.
// BeforeSync is called before metadata is synced.
func openDrivers(_ context.Context, dir string, log *slog.Logger, beforeSync func()) (*disk.Store, reclaim.Meta, error) {
	blocks, err := disk.Open(dir, disk.Options{Logger: log})
	if core.Is(err, core.Busy) {
		return nil, nil, fmt.Errorf("another server uses %s: %w", dir, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	database := filepath.Join(dir, databaseFile)
	meta, err := sqlite.Open(database, sqlite.Options{BeforeSync: beforeSync})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", database, err), blocks.Close())
	}
	through, err := cached.New(meta, cached.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, meta.Close(), blocks.Close())
	}
	return blocks, through, nil
}
