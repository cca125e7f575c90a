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
	"orcas/core/cached"
	"orcas/core/disk"
	"orcas/core/sqlite"
	"orcas/reclaim"
)

// drivers are the drivers of a store, by their names.
type drivers struct {
	metadata string // sqlite
	blocks   string // disk
}

// ownDrivers are the drivers of every store so far; no setting selects others.
var ownDrivers = drivers{metadata: "sqlite", blocks: "disk"}

// driverOptions are the options of all drivers of a store.
type driverOptions struct {
	dir          string
	allowMissing bool // the directory of the blocks may be empty even if the metadata refers to blocks
	log          *slog.Logger
	beforeSync   func() // called before metadata is synced; may be nil
	memory       memoryPlan

	synced       func(time.Duration, error) // see disk.Options; may be nil
	checkpointed func(time.Duration, error) // see sqlite.Options; may be nil
}

// databaseFile is the file with the metadata, next to the directories of the disk driver.
const databaseFile = "metadata.db"

// open opens blocks and metadata. The blocks come first, because the disk driver locks the directory. If there are
// blocks but no database, it rebuilds the database and returns the result, which is nil otherwise.
func (d drivers) open(ctx context.Context, o driverOptions) (core.Blocks, reclaim.Meta, *batch.Recovery, error) {
	blocks, err := d.openBlocks(ctx, o)
	if err != nil {
		return nil, nil, nil, err
	}
	rebuilt, err := d.rebuildMissing(ctx, o, blocks)
	if err != nil {
		return nil, nil, nil, errors.Join(err, blocks.Close())
	}
	meta, err := d.openMetadata(o)
	if err != nil {
		return nil, nil, nil, errors.Join(err, blocks.Close())
	}
	return blocks, meta, rebuilt, nil
}

// rebuildMissing rebuilds a missing database from the blocks. It returns nil if the database exists, or if there are no
// blocks.
func (d drivers) rebuildMissing(ctx context.Context, o driverOptions, blocks core.Blocks) (*batch.Recovery, error) {
	if d.metadata != "sqlite" {
		return nil, nil
	}
	if _, err := os.Lstat(filepath.Join(o.dir, databaseFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := errors.New("found")
	err := blocks.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { return found })
	if err != found {
		return nil, err
	}
	store := &Offline{Dir: o.dir, Blocks: blocks, bulkCache: o.memory.bulkCache}
	meta, err := store.NewDatabase()
	if err != nil {
		return nil, err
	}
	rebuilt, err := batch.Rebuild(ctx, meta, blocks, o.log, false)
	if err = store.EndDatabase(meta, err); err == nil {
		_, err = store.SwapDatabase("rebuild", time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild of %s: %w", filepath.Join(o.dir, databaseFile), err)
	}
	return rebuilt, nil
}

// openBlocks opens the block store.
func (d drivers) openBlocks(ctx context.Context, o driverOptions) (core.Blocks, error) {
	switch d.blocks {
	case "disk":
		blocks, err := disk.Open(o.dir, disk.Options{Logger: o.log, Synced: o.synced, NoBlocks: mayBeEmpty(ctx, o.dir, o.allowMissing)})
		if err != nil {
			return nil, describeOpen(o.dir, err)
		}
		return blocks, nil
	}
	return nil, fmt.Errorf("block driver %q does not exist: expected disk", d.blocks)
}

// openMetadata opens the metadata engine, with a cache in front of it.
func (d drivers) openMetadata(o driverOptions) (reclaim.Meta, error) {
	switch d.metadata {
	case "sqlite":
		path := filepath.Join(o.dir, databaseFile)
		meta, err := sqlite.Open(path, sqlite.Options{
			BeforeSync: o.beforeSync, CacheBytes: o.memory.pageCache, FilterBytes: o.memory.filter,
			Checkpointed: o.checkpointed,
		})
		if err != nil {
			return nil, describeOpen(path, err)
		}
		through, err := cached.New(meta, cached.Options{Objects: o.memory.objects})
		if err != nil {
			return nil, errors.Join(err, meta.Close())
		}
		return through, nil
	}
	return nil, fmt.Errorf("metadata driver %q does not exist: expected sqlite", d.metadata)
}
