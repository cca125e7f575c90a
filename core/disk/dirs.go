package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"orcas/internal/durable"
)

// directories makes the names of files last. Whoever waits for a sync of the same directory shares the next one.
//
// A failed sync leaves all names in doubt that were made in its directory until then, whatever later syncs say: so each writer
// notes how many syncs had failed before it made its name (epoch), and its sync fails where there are more by now.
type directories struct {
	mu    sync.Mutex            // guards the rest
	ended sync.Cond             // a sync has ended
	made  map[string]*directory // the directories that this process made
}

type directory struct {
	begun, ended uint64 // syncs; at most one is in progress
	fails        int    // failed syncs
	err          error  // of the last that failed
}

func (d *directories) init() {
	d.ended.L = &d.mu
	d.made = map[string]*directory{}
}

// make makes dir and its name in parent last, once, and returns its epoch.
func (d *directories) make(steps *durable.Steps, parent, dir string) (epoch int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.made[dir]; known != nil {
		return known.fails, nil
	}
	// Not Steps.MkdirAll, to which a directory whose name is in doubt would be as good as any.
	if err = steps.Mkdir(dir); errors.Is(err, fs.ErrExist) {
		// It is left from a try that failed, and empty.
		if err = steps.Remove(dir); err == nil {
			err = steps.Mkdir(dir)
		}
	}
	if err != nil {
		return 0, err
	}
	if err = steps.SyncDir(parent); err != nil {
		_ = steps.Remove(dir) // else the next try does it
		return 0, err
	}
	d.made[dir] = &directory{}
	return 0, nil
}

// sync makes the names last that were made in dir since make returned epoch: a sync of dir has begun and ended when it
// returns nil.
func (d *directories) sync(steps *durable.Steps, dir string, epoch int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.made[dir]
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
