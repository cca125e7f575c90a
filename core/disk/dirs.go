package disk

import (
	"errors"
	"os"
	"sync"

	"orcas/internal/durable"
)

// directories makes the names of files last. A failed sync of a directory leaves in doubt all names made in it until then,
// whatever later syncs say: so each writer notes how many syncs had failed before it made its name (epoch), and
// sync refuses where it has become more.
type directories struct {
	mu    sync.Mutex     // held during the sync, so that a success is not taken for another's failure
	fails map[string]int // failed syncs of each directory that this process made
}

// make makes dir with its name in parent durable, once, and returns its epoch.
func (d *directories) make(steps *durable.Steps, parent, dir string) (epoch int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch, ok := d.fails[dir]; ok {
		return epoch, nil
	}
	// Not Steps.MkdirAll, to which a directory whose name is in doubt would be as good as any.
	err = steps.Mkdir(dir)
	if err == nil {
		err = steps.SyncDir(parent)
	}
	if err != nil {
		_ = os.Remove(dir)
		return 0, err
	}
	if d.fails == nil {
		d.fails = map[string]int{}
	}
	d.fails[dir] = 0
	return 0, nil
}

// sync makes the names last that were made in dir since make returned epoch.
func (d *directories) sync(steps *durable.Steps, dir string, epoch int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails[dir] != epoch {
		return errors.New("an earlier sync of the directory failed: " + dir)
	}
	if err := steps.SyncDir(dir); err != nil {
		d.fails[dir]++
		return err
	}
	return nil
}
