package disk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"orcas/core"
	"orcas/internal/durable"
)

// maxUnsynced is the number of waiting files at which a relaxed commit of an unshared block calls Sync.
const maxUnsynced = 256

// unsynced is the set of files with relaxed commits that wait for a Sync.
type unsynced struct {
	mu      sync.Mutex // held by Sync; guards failed and earlier
	failed  error      // the error of the first Sync that failed
	earlier bool       // the data of earlier processes has been synced

	listMu sync.Mutex // guards files, and the fields of each file
	files  map[core.BlockID]*waiting
}

// waiting is a file that waits for a Sync.
type waiting struct {
	f       *durable.File
	dir     string // the directory whose sync makes the name durable; "": the name is durable
	epoch   int    // the epoch of dir (see directories)
	done    bool   // the file is no longer written to; Sync closes it
	syncing bool   // a Sync is syncing it
	again   bool   // there was a commit after that Sync began
}

// add adds a file and returns the number of waiting files.
func (u *unsynced) add(id core.BlockID, x waiting) int {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	if u.files == nil {
		u.files = map[core.BlockID]*waiting{}
	}
	if w := u.files[id]; w != nil {
		w.again = w.syncing
	} else {
		u.files[id] = &x
	}
	return len(u.files)
}

// leave takes over a file that is no longer written to, if it is waiting for a Sync, and reports whether it is. If not,
// the caller closes the file.
func (u *unsynced) leave(id core.BlockID) bool {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	w := u.files[id]
	if w != nil {
		w.done = true
	}
	return w != nil
}

// forget closes the file of a deleted block and removes it from the list, unless it is still written to or being
// synced.
func (u *unsynced) forget(id core.BlockID) {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	if w := u.files[id]; w != nil && w.done && !w.syncing {
		_ = w.f.Close() // the content is no longer needed
		delete(u.files, id)
	}
}

// begin marks all files as being synced and returns them.
func (u *unsynced) begin() []*waiting {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	list := make([]*waiting, 0, len(u.files))
	for _, w := range u.files {
		w.syncing, w.again = true, false
		list = append(list, w)
	}
	return list
}

// end removes the files that begin returned from the list, except those with a new commit, and closes them if they are
// no longer written to. It returns the errors of closing.
func (u *unsynced) end() (errs []error) {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	for id, w := range u.files {
		if w.syncing && !w.again {
			delete(u.files, id)
			if w.done {
				errs = append(errs, w.f.Close())
			}
		}
		w.syncing = false
	}
	return errs
}

// close closes all files.
func (u *unsynced) close() {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	for _, w := range u.files {
		_ = w.f.Close() // callers that need durability have called Sync
	}
	u.files = nil
}

// Sync implements core.Flusher.
func (s *Store) Sync(context.Context) error {
	const op = "disk.Sync"
	u := &s.unsynced
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed != nil {
		return core.E(op, core.Unavailable, fmt.Errorf("an earlier sync failed: %w", u.failed))
	}
	if !u.earlier {
		if err := s.syncEarlier(); err != nil {
			u.failed = err
			return fail(op, err)
		}
		u.earlier = true
	}
	var errs []error
	list := u.begin()
	for _, w := range list {
		errs = append(errs, s.dataSync(w.f))
	}
	for _, w := range list {
		if w.dir != "" {
			errs = append(errs, s.dirs.sync(&s.steps, w.dir, w.epoch))
		}
	}
	for _, err := range u.end() {
		if err != nil {
			s.log.Warn("could not close a block", "err", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		u.failed = err
		return fail(op, err)
	}
	return nil
}

// syncEarlier makes the data of earlier processes durable, because a killed process may have left unsynced data in the
// operating system.
func (s *Store) syncEarlier() error {
	return durable.SyncAll(s.dir)
}
