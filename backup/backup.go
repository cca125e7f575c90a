// Package backup copies the blocks of a store in use to another directory, as of one change, and restores data
// directories from such copies.
//
// # What a backup is
//
// Blocks are append-only, and also contain the metadata: snapshots, and a record of every batch (packages core/snapshot
// and batch). So the blocks alone are a backup, if they are cut at one change: a backup contains everything that a
// replay up to a sequence S reads, and nothing later. S is the last change that the metadata had applied when the
// backup began, so the backup contains every write that was acknowledged before.
//
//   - Packed blocks before core.State.ReplayFrom are closed, and copied completely.
//   - Later packed blocks are copied up to the end of the last record that is not after S (batch.Cut).
//   - Large blocks are copied if they have content that the metadata refers to, or content that was orphaned after S
//     and is still in the garbage. All other large blocks are being written, or were left by a crash. With relaxed
//     durability, a replay needs the content of the last writes even if it has been deleted since. So their blocks are
//     copied too, and everything up to S is made durable first.
//   - Snapshots are copied if they are not after S. Deltas are after their predecessors, so a copied chain is never
//     without its beginning.
//
// No block is deleted during the backup (see Options.Pause). Blocks that are created later do not belong to it.
//
// # The backup directory
//
//	LOCK                   locked exclusively by a backup, and shared by checks and restores
//	BACKUP                 the format, and the number of the store
//	blocks/...             copies of blocks, with the same names as in the data directory
//	backups/TIME.json      a manifest: the blocks, the length of each in this backup, their checksums (see manifest.go)
//
// Backups share the copies. A copy grows with its block, because appended bytes do not affect the backups that end
// before them. Each manifest has the length of its part of each file. Bytes beyond the longest part are ignored. A file
// to which no manifest refers is read and verified before it is used; if it is not intact, the block is copied again.
//
// A copy is renamed to its final name only when all of it is on the drive, and the manifest is written last. Earlier
// backups remain intact throughout.
//
// # What is verified
//
// Every byte is read once when it is copied, even if the file system shares it (FICLONE) or if the file is a hard link.
// It is read frame by frame, and verified with the checksums in the block. Damaged bytes are copied unchanged, and
// reported for this backup and for each later backup that contains them. For a block that was copied before, a backup
// compares only the length, the first bytes and the last bytes. Check reads everything.
//
// Two alternatives were tried and dropped. One sync of the whole file system, instead of one per file, also waits for
// the writes of the server. Copies that are named by their checksums would have to be made again each time, because an
// open block grows.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/fsck"
	"orcas/internal/durable"
)

// Options configure Backup.
type Options struct {
	Meta    core.Meta   // the metadata, after recovery
	Blocks  core.Blocks // a core.Identifier and a core.WriterLister; if it is also a core.Filer, copies may share bytes
	DataDir string      // the directory that contains STORE and SmallFiles
	Dir     string      // the backup directory; created if it does not exist

	SmallFiles []string // names of files in DataDir that are stored in the manifest, if they exist

	// Pause calls fn, and prevents the deletion of blocks until fn returns (see reclaim.Reclaimer.Pause). It may be nil
	// if the store is not in use.
	Pause func(ctx context.Context, fn func() error) error

	Keep int  // number of backups to keep; older backups are deleted; 0 keeps all
	Link bool // hard-link closed blocks if Dir is on the same file system, instead of copying them

	Progress func(Progress) // called after each block; may be nil
	Now      func() time.Time

	// Hook, for tests, replaces the file operations in Dir.
	Hook func(s durable.Step, do func() error) error
}

// Progress is the progress of a backup, check or restore.
type Progress struct {
	Blocks int   `json:"blocks"`   // finished blocks
	Of     int   `json:"of"`       // all blocks
	Bytes  int64 `json:"bytes"`    // bytes in finished blocks
	OfAll  int64 `json:"of_bytes"` // bytes in all blocks
}

// Report describes a completed backup, check or restore. If there are Problems, its result is damaged or incomplete.
type Report struct {
	Backup        string    `json:"backup"` // the name of the backup
	Store         string    `json:"store"`
	Seq           core.Seq  `json:"seq"` // the last change in the backup
	Time          time.Time `json:"time"`
	Seconds       float64   `json:"seconds"`
	Blocks        int       `json:"blocks"` // blocks in the backup
	Bytes         int64     `json:"bytes"`
	CopiedBlocks  int       `json:"copied_blocks"`     // blocks written, in whole or in part
	CopiedBytes   int64     `json:"copied_bytes"`      // bytes written
	SharedBytes   int64     `json:"shared_bytes"`      // new bytes that the file system shares with the original
	Removed       []string  `json:"removed,omitempty"` // names of the deleted backups
	RemovedBlocks int       `json:"removed_blocks"`
	RemovedBytes  int64     `json:"removed_bytes"`
	Problems      []string  `json:"problems,omitempty"`
}

// storeFile belongs to the disk driver. A restore must write it last, because a store cannot start without it.
const storeFile = "STORE"

// backup is a backup in progress.
type backup struct {
	Options
	ctx      context.Context
	writers  core.WriterLister
	filer    core.Filer // nil if blocks are not files
	repo     *repo
	known    map[string]*entry // the longest entry in a manifest for each file
	manifest *manifest
	report   *Report
	made     map[string]bool // directories that are known to exist
	dirty    map[string]bool // directories that must be synced
	cloner   cloner
	torn     []*entry // packed blocks whose last bytes are not a frame
}

// Backup makes a backup, which is named after the current time. It returns Busy if the directory is in use by another
// backup, check or restore, Conflict if it contains backups of another store, and NoSpace if the drive is full. After
// an error, the earlier backups are unchanged.
func Backup(ctx context.Context, o Options) (*Report, error) {
	const op = "backup.Backup"
	store, ok := core.As[core.Identifier](o.Blocks)
	writers, ok2 := core.As[core.WriterLister](o.Blocks)
	if !ok || !ok2 {
		return nil, core.E(op, core.Unsupported, errors.New("the block store does not support backups: it must be a core.Identifier and a core.WriterLister"))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = func(_ context.Context, fn func() error) error { return fn() }
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
	number, _ := store.Identity()
	repo, err := makeRepo(o.Dir, number, &durable.Steps{Hook: o.Hook})
	if err != nil {
		return nil, fail(op, o.Dir, err)
	}
	defer repo.close()
	b := &backup{
		Options: o, ctx: ctx, writers: writers, repo: repo, report: &Report{}, made: map[string]bool{}, dirty: map[string]bool{}, known: map[string]*entry{},
	}
	b.filer, _ = core.As[core.Filer](o.Blocks)
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
		b.problem("the manifest of the backup %s is damaged, and that backup is lost: until you remove its file, no copies are removed", name)
	}
	for _, m := range manifests {
		for _, e := range m.Blocks {
			if b.known[e.Name] == nil || b.known[e.Name].Length < e.Length {
				b.known[e.Name] = e
			}
		}
	}
	b.manifest = &manifest{Format: format, Store: b.repo.store}
	if err := b.Pause(b.ctx, b.copyAll); err != nil {
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

// maxMissing is the maximum number of missing blocks that a report lists.
const maxMissing = 100

// reportMissing reports the missing blocks of the store.
func (b *backup) reportMissing() error {
	found, err := fsck.Compare(b.ctx, b.Meta, b.Blocks)
	if err != nil {
		return err
	}
	n := len(found.Missing)
	for _, m := range found.Missing[:min(n, maxMissing)] {
		b.problem("block %v is missing in the store (pieces of content in it: %d): an earlier backup may have it "+
			"(orcas admin lost lists the objects)", m.Block, m.Contents)
	}
	if n > maxMissing {
		b.problem("%d more blocks are missing in the store", n-maxMissing)
	}
	return nil
}

// copyAll copies all blocks to the backup directory, and fills in the manifest.
func (b *backup) copyAll() error {
	b.manifest.Time = b.Now().UTC().Truncate(time.Millisecond)
	sources, err := b.plan()
	if err == nil {
		err = b.reportMissing()
	}
	if err != nil {
		return err
	}
	for _, name := range append([]string{storeFile}, b.SmallFiles...) {
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
			return fmt.Errorf("block %v: %w", s.info.ID, err)
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

// describe fills in the fields that are in a manifest.
func (r *Report) describe(m *manifest) {
	r.Backup, r.Store, r.Seq, r.Time = m.name(), m.Store, m.Seq, m.Time
	r.Blocks = len(m.Blocks)
	whole := false // a snapshot is intact, so a restore does without damaged ones, except those that are needed
	for _, e := range m.Blocks {
		r.Bytes += e.Length
		whole = whole || e.Kind == kindNames[core.Snapshot] && len(e.Damaged) == 0
	}
	for _, e := range m.Blocks {
		if len(e.Damaged) > 0 && !(whole && !e.Needed && e.Kind == kindNames[core.Snapshot]) {
			r.Problems = append(r.Problems, fmt.Sprintf("block %s was already damaged in the store: %s: %s", e.Block, e.Name, list(e.Damaged)))
		}
	}
}

// list joins the first few elements into one line.
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

// apart returns an error if the directories are the same, or if one contains the other.
func apart(dir, data string) error {
	abs := func(path string) string {
		if p, err := filepath.Abs(path); err == nil {
			path = p
		}
		rest := ""
		for p := path; ; p = filepath.Dir(p) { // the existing part may be a symbolic link
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
			return fmt.Errorf("the backup directory %s and the data directory %s must be separate: neither may contain the other", dir, data)
		}
	}
	return nil
}

// fail converts a system error to an error of package core. Messages about a full drive and about a lock contain dir.
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
