package iofault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Bench holds the state that all sweeps share. Only one sweep runs at a time.
type Bench struct {
	Binary  string
	Dir     string // contains everything; initially empty
	Workers int    // points that are tested concurrently
	Turn    int    // the first of four endings, see point.withFault
	Features

	bases map[string]*base
	base  *base // of the current sweep
}

// base is an initial data directory of scripts, and the model of its content.
type base struct {
	dir    string // "" if there is none
	model  *model
	lastID uint64 // the last ID of content in it
}

// The initial data directories of scripts.
const (
	empty   = "empty"    // no data directory
	stocked = "stocked"  // filled by a server (see stock), which was then stopped
	crashed = "crashed"  // as stocked; then the server was killed after it made a batch durable, before it applied it
	longLog = "long-log" // as stocked; then the server was killed when a checkpoint of SQLite's log was near
	wrapped = "wrapped"  // as stocked, but the server encrypted everything with the old key
)

// Initial data directories with work for reclaim, see leaveHoles. Reclaim ran only on request in them.
const (
	holed     = "holed"     // packed blocks with both live and dead content
	deadPack  = "deadpack"  // a packed block without live content
	lost      = "lost"      // as holed; then a snapshot and more objects were written, and the database was deleted
	chained   = "chained"   // many objects, which a snapshot contains; later, as deadPack, so that the next snapshot is a delta
	chainLost = "chainlost" // as chained; then a delta and more objects were written, and the database was deleted
)

// noRounds is the environment in which reclaim runs only on request.
var noRounds = []string{"ORCAS_RECLAIM_ENABLED=false"}

// longLogSize is the length of the log in longLog, in bytes: twenty pages, each with a header of 24 bytes, less than a
// checkpoint needs.
const longLogSize = (24<<20/4096 - 20) * (4096 + 24)

// pointIDs is the first ID of content that points write.
const pointIDs = 1 << 20

// prepare returns the data directory with a name. It is created only once.
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
	if err := copyDir(from.dir, filepath.Join(b.Dir, "back-bases", name)); err != nil {
		return nil, err
	}
	switch name {
	case holed:
		return b.fill(name, r, func(r *run) { leaveHoles(r, 2) }, nil)
	case deadPack:
		return b.fill(name, r, func(r *run) { leaveHoles(r, 1) }, nil)
	case lost, chainLost:
		made, err := b.fill(name, r, func(r *run) {
			if name == lost {
				leaveHoles(r, 2)
			} else {
				beginChain(r)
			}
			r.reclaim()
			r.put("after", smallSize)
			r.remove("small")
		}, nil)
		return made, errors.Join(err, loseDatabase(filepath.Join(b.Dir, "back-bases", name)))
	case chained:
		return b.fill(name, r, beginChain, nil)
	case crashed:
		logWrite := func(op Op) bool { return op.Name == "write" && strings.HasSuffix(op.File, "-wal") }
		return b.fill(name, r, leaveUnapplied, &Fault{Action: KILL, At: 1, Only: logWrite})
	}
	log := filepath.Join(b.Dir, "back-bases", name, "metadata.db-wal")
	none := func(Op) bool { return false }
	return b.fill(name, r, func(r *run) { lengthenLog(r, log) }, &Fault{Action: KILL, Only: none})
}

// fill runs a server on a drive, with additional environment variables, and performs the steps. Then it stops the
// server or, if last is set, sets that fault for one last request and kills the server.
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
		return nil, fmt.Errorf("expected the fault to kill the server during the last request: %+v, %v", s, r.wrong)
	}
	made.lastID = r.id
	return made, nil
}

// loseDatabase removes the database of a data directory, so that the next start has only the blocks.
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

// leaveUnapplied writes objects whose changes are in SQLite's log when the server is killed.
func leaveUnapplied(r *run) {
	for i := range 5 {
		r.put(fmt.Sprint("before-", i), smallSize)
	}
	r.remove("small2")
}

// leaveHoles moves all content into one block, fills another block, and deletes objects from the latter: all except
// every keep-th, or all if keep is 1. Some of the remaining content was shared with deleted objects.
func leaveHoles(r *run, keep int) {
	r.reclaim()
	r.put("filler", 2*maxPacked/3) // large, so that records are a small part of the block
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

// beginChain writes so many objects that the changes of a few others fit in a delta, and then a snapshot, and leaves a
// dead block.
func beginChain(r *run) {
	for i := range 250 {
		r.put(fmt.Sprintf("row-%03d", i), 3000) // large, so that blocks full of rows are not compacted
	}
	leaveHoles(r, 1)
	r.reclaim()
	leaveHoles(r, 1)
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

// mount mounts a drive with the given name.
func (b *Bench) mount(name string) (*Drive, error) {
	back, dir := filepath.Join(b.Dir, "back-"+name), filepath.Join(b.Dir, "drive-"+name)
	for _, path := range []string{back, dir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	return Mount(back, dir)
}

// copyDir copies a directory with the modes of its files, which os.CopyFS does not keep: a server refuses a key file that
// others can read.
func copyDir(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if text, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, text)
	}
	return nil
}
