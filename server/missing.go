package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"orcas/core"
	"orcas/core/sqlite"
	"orcas/fsck"
	"orcas/internal/mutant"
)

// Missing blocks. Every start, every pass of the scrub and every list of lost objects compares the blocks with the
// metadata. If a few blocks are missing, the server is degraded: it reports them, and continues. If many blocks are
// missing, or one that recovery needs, a file system is probably not mounted. Then the server refuses writes
// (batch.Writer.Refuse) and frees no space, unless Settings.AllowMissing is set.

// comparePatience is the time that a start waits for its comparison, which then continues in the background.
const comparePatience = time.Second

// compareAgain is the delay before a comparison that yielded to writes is retried.
const compareAgain = 10 * time.Second

// loggedBlocks is the maximum number of missing blocks that a line of the log names.
const loggedBlocks = 10

// missing is the result of the last comparison.
type missing struct {
	comparing sync.Mutex // held during a comparison

	mu      sync.Mutex // guards the fields below
	last    *fsck.Comparison
	pending bool // the comparison at the start has not ended
}

// startComparing compares the blocks with the metadata. It returns when the comparison has ended, or after
// comparePatience.
func (s *Server) startComparing(ctx context.Context) {
	if mutant.Is("no-start-compare") {
		return
	}
	s.missing.mu.Lock()
	s.missing.pending = true
	s.missing.mu.Unlock()
	if why, err := fsck.MissingForRecovery(ctx, s.meta, s.blocks); err == nil && why != "" && !s.config.Settings.AllowMissing {
		s.writer.Refuse(core.E("server.write", core.ReadOnly, errors.New(why))) // until the comparison below decides
	}
	done := make(chan struct{})
	s.background.Go(func() {
		defer close(done)
		found, err := s.compare(s.life)
		for core.Is(err, core.Busy) { // it yielded to writes
			select {
			case <-s.life.Done():
			case <-time.After(compareAgain):
			}
			found, err = s.compare(s.life)
		}
		if err == nil && found.Needed != "" && s.config.Settings.AllowMissing {
			// A snapshot of the metadata replaces the missing records.
			if err = s.reclaimer.Snapshot(s.life); err == nil {
				_, err = s.compare(s.life)
			}
		}
		if err != nil && s.life.Err() == nil {
			s.log.Error("the blocks could not be compared with the metadata, so missing blocks are not known: correct the cause, and run orcas admin lost", "err", err)
		}
		debug.FreeOSMemory() // reading every row leaves garbage that an idle server would keep until its next collection
		s.missing.mu.Lock()
		s.missing.pending = false
		s.missing.mu.Unlock()
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(comparePatience):
		s.log.Info("still comparing the blocks with the metadata; requests are served in the meantime")
	}
}

// compare compares the blocks with the metadata, and decides whether writes are accepted.
func (s *Server) compare(ctx context.Context) (*fsck.Comparison, error) {
	m := &s.missing
	m.comparing.Lock()
	defer m.comparing.Unlock()
	found, err := fsck.Compare(ctx, s.meta, s.blocks)
	if err != nil {
		return nil, err
	}
	var refuse error
	if why := found.Severe(); why != "" && !s.config.Settings.AllowMissing {
		refuse = core.E("server.write", core.ReadOnly, errors.New(why))
	}
	m.mu.Lock()
	before := m.last
	m.last = found
	m.mu.Unlock()
	s.writer.Refuse(refuse)
	s.log.Info("blocks compared with the metadata", "blocks", found.Blocks, "missing", len(found.Missing), "seconds", found.Seconds)
	s.logMissing(before, found, refuse)
	return found, nil
}

// logMissing logs the result of a comparison, unless it is the same as the previous one.
func (s *Server) logMissing(before, found *fsck.Comparison, refuse error) {
	n := len(found.Missing)
	if n == 0 && found.Needed == "" {
		if before != nil && (len(before.Missing) > 0 || before.Needed != "") {
			s.log.Info("blocks are no longer missing")
		}
		return
	}
	if before != nil && len(before.Missing) == n && before.Needed == found.Needed {
		return
	}
	contents, bytes := found.Lost()
	ids := make([]string, 0, loggedBlocks)
	for _, b := range found.Missing[:min(n, loggedBlocks)] {
		ids = append(ids, b.Block.String())
	}
	args := []any{"missing", n, "blocks_with_content", found.Blocks, "contents", contents, "bytes", bytes, "blocks", ids}
	if refuse == nil {
		s.log.Warn("blocks are missing: list the affected objects with orcas admin lost, and restore them from a backup or delete them", args...)
		return
	}
	s.log.Error(fmt.Sprintf("the server is read-only: %s; mount the file system of %s and restart, or start with --allow-missing-blocks; orcas admin lost lists the affected objects",
		found.Severe(), filepath.Join(s.config.Data, "blocks")), args...)
}

// compared returns the result of the last comparison, or nil if there was none, and whether the comparison at startup
// is still running.
func (s *Server) compared() (last *fsck.Comparison, pending bool) {
	s.missing.mu.Lock()
	defer s.missing.mu.Unlock()
	return s.missing.last, s.missing.pending
}

// degraded reports whether a block is missing.
func (s *Server) degraded() bool {
	last, _ := s.compared()
	return last != nil && (len(last.Missing) > 0 || last.Needed != "")
}

// errNoBlocks returns an error for a data directory without blocks; why is the reason to expect blocks there.
func errNoBlocks(dir, why string) error {
	return core.E("disk.Open", core.InvalidArgument, fmt.Errorf(
		"%s contains neither blocks nor the file STORE, but %s: mount the file system with the blocks there, or, if they are lost, start orcas server with --allow-missing-blocks",
		filepath.Join(dir, "blocks"), why))
}

// mayBeEmpty returns a value for disk.Options.NoBlocks: a function that fails if the metadata refers to any block.
func mayBeEmpty(ctx context.Context, dir string, allow bool) func(starts int) error {
	return func(starts int) error {
		if allow {
			return nil
		}
		path := filepath.Join(dir, databaseFile)
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist) && starts > 1:
			return errNoBlocks(dir, "the store has been used (its database is missing too)")
		case errors.Is(err, fs.ErrNotExist):
			return nil // the first start was interrupted
		case err != nil:
			return err
		}
		meta, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		found := errors.New("found")
		_, err = meta.Places(ctx, func(core.BlockID, core.BlockContent) error { return found })
		if errors.Is(err, found) {
			err = errNoBlocks(dir, "the database refers to blocks")
		}
		return errors.Join(err, meta.Close())
	}
}
