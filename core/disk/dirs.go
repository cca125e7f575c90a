package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"orcas/internal/durable"
)

// directories makes the names of files durable. Writers that wait for a sync of the same directory share the next sync.
//
// After a failed sync it is unknown which of the names created before it are durable, no matter what later syncs
// return. So each writer notes the number of failed syncs before it creates its name (epoch), and its sync fails if
// more syncs have failed by then.
type directories struct {
	mu    sync.Mutex            // guards the fields below
	ended sync.Cond             // signaled when a sync has ended
	made  map[string]*directory // the directories that this process created, by path
}

type directory struct {
	begun, ended uint64 // the numbers of syncs begun and ended; at most one is in progress
	fails        int    // the number of failed syncs
	err          error  // the error of the last failed sync
}

func (d *directories) init() {
	d.ended.L = &d.mu
	d.made = map[string]*directory{}
}

// make creates dir and makes its name in parent durable, unless it has already done so, and returns the epoch of dir.
func (d *directories) make(steps *durable.Steps, parent, dir string) (epoch int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.made[dir]; known != nil {
		return known.fails, nil
	}
	// Not Steps.MkdirAll, which would accept a directory whose name may not be durable.
	if err = steps.Mkdir(dir); errors.Is(err, fs.ErrExist) {
		// The directory is left over from a failed attempt, so it is empty.
		if err = steps.Remove(dir); err == nil {
			err = steps.Mkdir(dir)
		}
	}
	if err != nil {
		return 0, err
	}
	if err = steps.SyncDir(parent); err != nil {
		_ = steps.Remove(dir) // if this fails, the next attempt removes it
		return 0, err
	}
	d.made[dir] = &directory{}
	return 0, nil
}

// forget deletes the state of a directory that another program removed. Writers of files in it will notice that their
// files no longer exist.
func (d *directories) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.made[dir]; known != nil && known.begun == known.ended {
		delete(d.made, dir)
	}
}

// sync makes the names durable that were created in dir after make returned epoch. It returns nil only if a sync of dir
// began and ended during the call and no sync has failed since make.
func (d *directories) sync(steps *durable.Steps, dir string, epoch int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.made[dir]
	if known == nil {
		return fmt.Errorf("the directory %s was removed", dir)
	}
	for mine := known.begun + 1; known.ended < mine; {
		if known.begun > known.ended {
			d.ended.Wait()
			continue
		}
		known.begun++
		d.mu.Unlock()
		err := steps.SyncDir(dir)
		d.mu.Lock()
		known.ended++
		if err != nil {
			known.fails++
			known.err = err
		}
		d.ended.Broadcast()
	}
	if known.fails != epoch {
		return fmt.Errorf("a sync of the directory failed: %w", known.err)
	}
	return nil
}
