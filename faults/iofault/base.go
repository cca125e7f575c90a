package iofault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Bench holds the state that all sweeps share. Only one sweep runs at a time.
type Bench struct {
	Binary  string
	Dir     string // for everything; empty at first
	Workers int    // points that are tried at the same time
	Turn    int    // which of four endings comes first, see point.withFault
	Features

	bases map[string]*base
	base  *base // of the sweep that runs
}

// base is a data directory that scripts begin with, and what it holds.
type base struct {
	dir    string // "": none
	model  *model
	lastID uint64 // of contents
}

// The data directories that scripts begin with.
const (
	empty   = "empty"    // none
	stocked = "stocked"  // a server filled it, see stock, and was stopped
	crashed = "crashed"  // then the server was killed when it had made a batch durable and was about to apply it
	longLog = "long-log" // then the server was killed when SQLite's log was nearly long enough to be copied
	wrapped = "wrapped"  // as stocked, by a server that encrypts everything under the old key
)

// What reclaim has to do: see leaveHoles. In both, rounds are made only where they are asked for.
const (
	holed    = "holed"    // packed blocks in which some content is alive, some dead
	deadPack = "deadpack" // a packed block in which nothing is alive
	lost     = "lost"     // as holed, then a snapshot was made and more was written, and the database is gone
)

// noRounds is the environment in which reclaim waits to be asked.
var noRounds = []string{"ORCAS_RECLAIM_ENABLED=false"}

// longLogSize is how long the log is in longLog, in bytes: twenty pages, each with its header of 24 bytes, less than a
// checkpoint waits for.
const longLogSize = (24<<20/4096 - 20) * (4096 + 24)

// pointIDs is the first ID of contents that points write.
const pointIDs = 1 << 20

// prepare returns the data directory of that name, which is made once.
func (b *Bench) prepare(name string) (*base, error) {
	if b.bases[name] == nil {
		if b.bases == nil {
			b.bases = map[string]*base{}
		}
		made, err := b.make(name)
		if err != nil {
			return nil, err
		}
		b.bases[name] = made
	}
	return b.bases[name], nil
}

func (b *Bench) make(name string) (*base, error) {
	switch name {
	case empty:
		return &base{model: newModel()}, nil
	case stocked:
		return b.fill(name, b.run(newModel(), 0), stock, nil)
	case wrapped:
		return b.fill(name, b.run(newModel(), 0), stock, nil, encrypting(oldKey)...)
	}
	from, err := b.prepare(stocked)
	if err != nil {
		return nil, err
	}
	r := b.run(from.model.clone(), from.lastID)
	if err := os.CopyFS(filepath.Join(b.Dir, "back-bases", name), os.DirFS(from.dir)); err != nil {
		return nil, err
	}
	switch name {
	case holed:
		return b.fill(name, r, func(r *run) { leaveHoles(r, 2) }, nil)
	case deadPack:
		return b.fill(name, r, func(r *run) { leaveHoles(r, 1) }, nil)
	case lost:
		made, err := b.fill(name, r, func(r *run) {
			leaveHoles(r, 2)
			r.reclaim()
			r.put("after", smallSize)
			r.remove("small")
		}, nil)
		return made, errors.Join(err, loseDatabase(filepath.Join(b.Dir, "back-bases", name)))
	case crashed:
		logWrite := func(op Op) bool { return op.Name == "write" && strings.HasSuffix(op.File, "-wal") }
		return b.fill(name, r, leaveUnapplied, &Fault{Action: KILL, At: 1, Only: logWrite})
	}
	log := filepath.Join(b.Dir, "back-bases", name, "metadata.db-wal")
	none := func(Op) bool { return false }
	return b.fill(name, r, func(r *run) { lengthenLog(r, log) }, &Fault{Action: KILL, Only: none})
}

// fill runs a server on a drive, with more environment, and steps, and then stops it or, where there is a fault, which
// is set for the last request, kills it.
func (b *Bench) fill(name string, r *run, steps func(r *run), last *Fault, env ...string) (*base, error) {
	d, err := b.mount("bases")
	if err != nil {
		return nil, err
	}
	defer d.Unmount()
	p, err := start(b.Binary, filepath.Join(d.Dir(), name), b.env(append(env, noRounds...)), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, p.tail())
	}
	defer p.kill()
	r.c = newClient(p)
	steps(r)
	if len(r.wrong) > 0 || len(r.failed) > 0 {
		return nil, fmt.Errorf("%v, %v", r.wrong, r.failed)
	}
	made := &base{filepath.Join(b.Dir, "back-bases", name), r.m, 0}
	if last == nil {
		made.lastID = r.id
		return made, p.stop()
	}
	r.killed = true
	d.Set(*last, func() { p.signal(syscall.SIGKILL) })
	r.put("last", smallSize)
	if s := d.Lift(); len(r.wrong) > 0 || r.over != (s.Times == 1) {
		return nil, fmt.Errorf("not killed as it should be: %+v, %v", s, r.wrong)
	}
	made.lastID = r.id
	return made, nil
}

// loseDatabase removes the database of a data directory, so that the next start has the blocks alone.
func loseDatabase(dir string) error {
	var errs []error
	for _, file := range []string{"metadata.db", "metadata.db-wal", "metadata.db-shm"} {
		if err := os.Remove(filepath.Join(dir, file)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stock fills an empty server.
func stock(r *run) {
	r.createBucket()
	r.put("small", smallSize)
	r.put("small2", 300)
	r.put("empty", 0)
	r.put("large", 1<<20)
	r.put("gone", smallSize)
	r.remove("gone")
	r.multipart("parts", partSize, 1000)
	r.part(r.begin("begun"), 1, 2000)
	r.again("equal-stocked", "small", false)
	r.put(customers+"stocked", smallSize)
}

// leaveUnapplied writes something that is in the log when the server is killed.
func leaveUnapplied(r *run) {
	for i := range 5 {
		r.put(fmt.Sprint("before-", i), smallSize)
	}
	r.remove("small2")
}

// leaveHoles moves everything that there is into a block, fills another, and deletes from that: all but every so
// manieth object, or all. Some of what is left there is shared with what was deleted.
func leaveHoles(r *run, keep int) {
	r.reclaim()
	r.put("filler", 2*maxPacked/3) // beside it, records are little
	r.reclaim()
	for i := range 12 {
		r.put(fmt.Sprintf("hole-%02d", i), 3*smallSize)
	}
	if keep > 1 {
		r.again("twin-01", "hole-01", false)
		r.again("twin-02", "hole-02", true)
		r.put(customers+"hole", 3*smallSize)
	}
	for i := range 12 {
		if keep == 1 || i%keep > 0 {
			r.remove(fmt.Sprintf("hole-%02d", i))
		}
	}
}

// lengthenLog overwrites a few keys until the log at path is long.
func lengthenLog(r *run, path string) {
	for i := 0; len(r.failed) == 0; i++ {
		if st, err := os.Stat(path); err != nil || st.Size() >= longLogSize {
			return
		}
		r.put(fmt.Sprintf("often-%02d", i%20), 10)
	}
}

// mount mounts a drive of that name.
func (b *Bench) mount(name string) (*Drive, error) {
	back, dir := filepath.Join(b.Dir, "back-"+name), filepath.Join(b.Dir, "drive-"+name)
	for _, path := range []string{back, dir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	return Mount(back, dir)
}
