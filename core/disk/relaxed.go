package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/internal/durable"
)

// maxUnsynced is how many files wait for a Sync; whoever adds one more waits for one.
const maxUnsynced = 256

// unsynced is what was committed relaxed and waits for a Sync.
type unsynced struct {
	mu      sync.Mutex // held by Sync; guards failed and earlier
	failed  error      // of the first Sync that failed
	earlier bool       // what earlier processes left was synced

	listMu sync.Mutex // guards files, and what is in it
	files  map[core.BlockID]*waiting
}

// waiting is a file that waits.
type waiting struct {
	f       *durable.File
	dir     string // where its name waits too; "": it lasts already
	epoch   int    // of dir
	done    bool   // nobody writes to it any more: Sync closes it
	syncing bool   // a Sync is at it
	again   bool   // there was a commit since that Sync began
}

// add notes that a file waits. It returns how many do.
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

// leave hands a file over that nobody writes to any more, if it waits.
func (u *unsynced) leave(id core.BlockID) bool {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	w := u.files[id]
	if w != nil {
		w.done = true
	}
	return w != nil
}

// forget drops a file whose block is deleted.
func (u *unsynced) forget(id core.BlockID) {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	if w := u.files[id]; w != nil && w.done && !w.syncing {
		_ = w.f.Close() // nothing in it is wanted
		delete(u.files, id)
	}
}

// begin returns what waits.
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

// end lets go of what begin returned, but for what waits again.
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

// close lets go of everything.
func (u *unsynced) close() {
	u.listMu.Lock()
	defer u.listMu.Unlock()
	for _, w := range u.files {
		_ = w.f.Close() // who wanted it to last has called Sync
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
		errs = append(errs, w.f.DataSync())
	}
	for _, w := range list {
		if w.dir != "" {
			errs = append(errs, s.dirs.sync(&s.steps, w.dir, w.epoch))
		}
	}
	for _, err := range u.end() {
		if err != nil {
			s.log.Warn("a block was not closed well", "err", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		u.failed = err
		return fail(op, err)
	}
	return nil
}

// syncEarlier makes last whatever earlier processes handed over to the operating system: a killed one may have left it there.
func (s *Store) syncEarlier() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
