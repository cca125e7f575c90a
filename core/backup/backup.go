// Package backup copies the blocks of a store that is in use to another directory, as they were after one change, and makes data
// directories of such copies again.
//
// # What a backup is
//
// Blocks are append-only, and the metadata is in them too: snapshots of it, and a record of every batch (packages core/snapshot and batch). So the blocks
// alone are a backup, if they are cut at one place: all that a replay up to a sequence S reads, and nothing behind it. S is the last
// change that the metadata had applied when the backup began, so everything that was acknowledged before is in it.
//
//   - Packed blocks below the floor of the metadata (core.State.Floor) are closed, and copied whole.
//   - Packed blocks from the floor on are copied up to the end of the last record that is not behind S (batch.Cut).
//   - Large blocks are copied where a content that the metadata names is in them, or one that it let go of behind S: that stands in the
//     garbage still. The others are being written, or left by a crash. Where writes are answered before they are durable, a replay looks for the
//     contents of the last of them, whatever became of those since: their blocks are copied too, and everything up to S is made durable first.
//   - Snapshots are copied where they are not behind S.
//
// Meanwhile nothing is unlinked: see Options.Hold. Blocks that are created later are no concern of this backup.
//
// # The backup directory
//
//	LOCK                   locked while a backup is made, shared by checks and restores
//	BACKUP                 the format, and the number of the store whose backups these are
//	blocks/...             copies of blocks, under the names that they have in the data directory
//	backups/TIME.json      a manifest: which blocks, how much of each, their checksums; see manifest.go
//
// Backups share the copies. A copy grows as its block does, since what is appended to a block takes nothing away from the backups that
// end before it. A manifest says how much of a file is its: what lies behind the longest that any manifest says is worth nothing, and
// a file that no manifest names is read and verified before it is believed, or made anew.
//
// A copy gets its name when all of it is on the drive, the manifest is written last: until then the earlier backups are what there is, and whole.
//
// # What is verified
//
// Every byte is read once when it is copied, also where the file system shares it (FICLONE) or a second name is all that is made: frame by frame,
// against the checksums in the blocks. What is damaged is copied as it is and reported, with this and each later backup that holds it. Of a
// block that was copied before, a backup compares the length, the first bytes and the last ones. Check reads everything.
//
// Tried and dropped: a sync of the whole file system in place of one for each file (it waits for what the server is writing); names of blocks by
// their checksums (an open block grows, and the copy would be made anew each time).
package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/internal/durable"
)

// Files is implemented by core.Blocks that keep each block in a file of its own.
type Files interface {
	// BlockFile returns the path of the file of a block.
	BlockFile(b core.BlockInfo) string

	// Number returns the number of the store.
	Number() uint64

	// Begun returns the large blocks that are being written, and the newest block that there is.
	Begun() (begun map[core.BlockID]bool, newest core.BlockID)
}

// Options say what Backup copies, and where to.
type Options struct {
	Meta    core.Meta   // recovered
	Blocks  core.Blocks // must be Files
	DataDir string      // where the blocks' files and the small files are
	Dir     string      // the backup directory; made where it is missing

	// Hold calls fn while nothing is unlinked (see reclaim.Reclaimer.Hold); nil: nobody else uses the store.
	Hold func(ctx context.Context, fn func() error) error

	Keep int  // how many backups there shall be, older ones are removed; 0: all
	Link bool // blocks that are closed get a second name in Dir where that is on the same file system: no copy is made

	Progress func(Progress) // called after each block; nil: nobody is told
	Now      func() time.Time

	// Hook stands in for the file steps in Dir; for tests.
	Hook func(s durable.Step, do func() error) error
}

// Progress says how far a backup, check or restore is.
type Progress struct {
	Blocks int   `json:"blocks"` // done
	Of     int   `json:"of"`
	Bytes  int64 `json:"bytes"` // of blocks that are done, in bytes
	OfAll  int64 `json:"of_bytes"`
}

// Report says what was done. What is in Problems did not stop it; where there are any, the backup, or what was restored, is not all that it should be.
type Report struct {
	Backup        string    `json:"backup"` // its name
	Store         string    `json:"store"`
	Seq           core.Seq  `json:"seq"` // the last change that is in it
	Time          time.Time `json:"time"`
	Seconds       float64   `json:"seconds"`
	Blocks        int       `json:"blocks"` // in the backup
	Bytes         int64     `json:"bytes"`
	CopiedBlocks  int       `json:"copied_blocks"`     // written, in whole or in part
	CopiedBytes   int64     `json:"copied_bytes"`      // written
	SharedBytes   int64     `json:"shared_bytes"`      // new, and shared with the original by the file system
	Removed       []string  `json:"removed,omitempty"` // backups
	RemovedBlocks int       `json:"removed_blocks"`
	RemovedBytes  int64     `json:"removed_bytes"`
	Problems      []string  `json:"problems,omitempty"`
}

// storeFile is the disk driver's: it must be the last file of a data directory that is restored, since no store starts without it. The
// credentials are the server's.
const storeFile = "STORE"

// smallFiles are copied into the manifest.
var smallFiles = []string{storeFile, "root-credentials.json"}

// backup is a backup in progress.
type backup struct {
	Options
	ctx      context.Context
	files    Files
	repo     *repo
	known    map[string]*entry // the longest copy of each file that a manifest names
	manifest *manifest
	report   *Report
	made     map[string]bool // directories that this process made, or found
	dirty    map[string]bool // directories whose names have to be synced
	cloner   cloner
	torn     []*entry // of packed blocks that end with what is no frame
}

// Backup makes a backup, named for the time. It is Busy where another one is being made in that directory, Conflict where the directory holds
// backups of another store, and NoSpace on a full drive. After an error the earlier backups are as they were.
func Backup(ctx context.Context, o Options) (*Report, error) {
	const op = "backup.Backup"
	files, ok := o.Blocks.(Files)
	if !ok {
		return nil, core.E(op, core.Unsupported, errors.New("these blocks are no files"))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hold == nil {
		o.Hold = func(_ context.Context, fn func() error) error { return fn() }
	}
	started := time.Now()
	var err error
	if o.DataDir, err = filepath.Abs(o.DataDir); err == nil {
		o.Dir, err = filepath.Abs(o.Dir)
	}
	if err == nil {
		err = apart(o.Dir, o.DataDir)
	}
	if err != nil {
		return nil, core.E(op, core.InvalidArgument, err)
	}
	repo, err := makeRepo(o.Dir, files.Number(), &durable.Steps{Hook: o.Hook})
	if err != nil {
		return nil, fail(op, o.Dir, err)
	}
	defer repo.close()
	b := &backup{
		Options: o, ctx: ctx, files: files, repo: repo, report: &Report{}, made: map[string]bool{}, dirty: map[string]bool{}, known: map[string]*entry{},
	}
	if err := b.run(); err != nil {
		return nil, fail(op, o.Dir, err)
	}
	b.report.Seconds = time.Since(started).Seconds()
	return b.report, nil
}

func (b *backup) run() error {
	manifests, broken, err := b.repo.list()
	if err != nil {
		return err
	}
	for _, name := range broken {
		b.problem("the manifest of the backup %s is damaged: that backup is lost, and no block is removed before its file is", name)
	}
	for _, m := range manifests {
		for i := range m.Blocks {
			if e := m.Blocks[i]; b.known[e.Name] == nil || b.known[e.Name].Length < e.Length {
				b.known[e.Name] = e
			}
		}
	}
	b.manifest = &manifest{Format: format, Store: storeName(b.files.Number())}
	if err := b.Hold(b.ctx, b.copyAll); err != nil {
		return err
	}
	names, err := b.repo.names()
	if err != nil {
		return err
	}
	if n := len(names); n > 0 && b.manifest.name() <= names[n-1] { // the clock was set back
		t, err := time.Parse(nameLayout, names[n-1])
		if err != nil {
			return err
		}
		b.manifest.Time = t.Add(time.Millisecond)
	}
	if err := b.repo.write(b.manifest); err != nil {
		return err
	}
	b.report.describe(b.manifest)
	if b.Keep <= 0 {
		return nil
	}
	return b.tidy(append(manifests, b.manifest), len(broken) == 0)
}

// copyAll brings everything but the manifest to the backup directory.
func (b *backup) copyAll() error {
	b.manifest.Time = b.Now().UTC().Truncate(time.Millisecond)
	sources, err := b.plan()
	if err != nil {
		return err
	}
	for _, name := range smallFiles {
		data, err := os.ReadFile(filepath.Join(b.DataDir, name))
		if errors.Is(err, fs.ErrNotExist) && name != storeFile {
			continue
		}
		if err != nil {
			return err
		}
		b.manifest.Files = append(b.manifest.Files, smallFile{name, data})
	}
	p := Progress{Of: len(sources)}
	for _, s := range sources {
		p.OfAll += s.length
	}
	for _, s := range sources {
		if err := b.ctx.Err(); err != nil {
			return core.E("backup.Backup", core.Canceled, err)
		}
		e, err := b.block(&s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		b.manifest.Blocks = append(b.manifest.Blocks, e)
		p.Blocks++
		p.Bytes += s.length
		if b.Progress != nil {
			b.Progress(p)
		}
	}
	for dir := range b.dirty {
		if err := b.repo.steps.SyncDir(dir); err != nil {
			return err
		}
	}
	return b.judge()
}

func (b *backup) problem(format string, args ...any) {
	b.report.Problems = append(b.report.Problems, fmt.Sprintf(format, args...))
}

// describe fills in what a manifest says.
func (r *Report) describe(m *manifest) {
	r.Backup, r.Store, r.Seq, r.Time = m.name(), m.Store, m.Seq, m.Time
	r.Blocks = len(m.Blocks)
	whole := false // a snapshot is: then the others are what a crash left
	for i := range m.Blocks {
		e := m.Blocks[i]
		r.Bytes += e.Length
		whole = whole || e.Kind == kindNames[core.Snapshot] && len(e.Damaged) == 0
	}
	for i := range m.Blocks {
		if e := m.Blocks[i]; len(e.Damaged) > 0 && !(whole && e.Kind == kindNames[core.Snapshot]) {
			r.Problems = append(r.Problems, fmt.Sprintf("the block %s was damaged in the store already: %s: %s", e.Block, e.Name, list(e.Damaged)))
		}
	}
}

// list puts the first few of a list on one line.
func list(what []string) (line string) {
	const few = 3
	for i, s := range what {
		switch {
		case i == few:
			return line + fmt.Sprintf(" and %d more", len(what)-few)
		case i > 0:
			line += ", "
		}
		line += s
	}
	return line
}

// apart says what is wrong where a directory is, or is in, another one.
func apart(dir, data string) error {
	abs := func(path string) string {
		if p, err := filepath.Abs(path); err == nil {
			path = p
		}
		rest := ""
		for p := path; ; p = filepath.Dir(p) { // what is there of it may be a symbolic link
			if real, err := filepath.EvalSymlinks(p); err == nil {
				return filepath.Join(real, rest)
			}
			if p == filepath.Dir(p) {
				return path
			}
			rest = filepath.Join(filepath.Base(p), rest)
		}
	}
	d, of := abs(dir), abs(data)
	for _, pair := range [][2]string{{d, of}, {of, d}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s and %s must lie apart: the one is in the other", dir, data)
		}
	}
	return nil
}

// fail turns an error of the system into one of core, which says whose drive is full.
func fail(op, dir string, err error) error {
	kind := core.Internal
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind, err = core.NoSpace, fmt.Errorf("the drive of %s is full: %w", dir, err)
	case errors.Is(err, durable.ErrLocked):
		kind, err = core.Busy, fmt.Errorf("%s is in use by another backup, check or restore: %w", dir, err)
	}
	return core.E(op, kind, err)
}

func compareIDs(a, b core.BlockID) int { return bytes.Compare(a[:], b[:]) }
