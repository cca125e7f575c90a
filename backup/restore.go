package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/durable"
)

// Check reads all blocks of a backup (the newest if name is empty) and compares them with its manifest. It returns the
// differences in Report.Problems.
func Check(ctx context.Context, dir, name string, progress func(Progress)) (*Report, error) {
	const op = "backup.Check"
	started := time.Now()
	r, err := openRepo(dir)
	if err != nil {
		return nil, fail(op, dir, err)
	}
	defer r.close()
	m, err := r.choose(name)
	if err != nil {
		return nil, fail(op, dir, err)
	}
	report := &Report{}
	err = m.each(progress, func(e *entry) error {
		problem, err := r.copyOut(ctx, e, nil)
		if problem != "" {
			report.Problems = append(report.Problems, problem)
		}
		return err
	})
	if err != nil {
		return nil, fail(op, dir, err)
	}
	report.describe(m)
	report.Seconds = time.Since(started).Seconds()
	return report, nil
}

// each calls fn for each block of the backup, and progress after each call. progress may be nil.
func (m *manifest) each(progress func(Progress), fn func(e *entry) error) error {
	p := Progress{Of: len(m.Blocks)}
	for _, e := range m.Blocks {
		p.OfAll += e.Length
	}
	for _, e := range m.Blocks {
		if err := fn(e); err != nil {
			return err
		}
		p.Blocks++
		p.Bytes += e.Length
		if progress != nil {
			progress(p)
		}
	}
	return nil
}

// copyOut reads and verifies the copy of a block, and writes it to the writer to, which may be nil. If the copy is
// missing or damaged, copyOut describes this in problem. It returns an error only if it was canceled or could not
// write.
func (r *repo) copyOut(ctx context.Context, e *entry, to io.Writer) (problem string, err error) {
	path := r.path(e.Name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s is missing", path), nil
	}
	if err != nil {
		return fmt.Sprintf("%s cannot be read: %v", path, err), nil
	}
	defer f.Close()
	if to == nil {
		to = io.Discard
	}
	sum, buf, at := xxh3.New(), make([]byte, 1<<20), int64(0)
	for at < e.Length {
		if err := ctx.Err(); err != nil {
			return "", core.E("backup.read", core.Canceled, err)
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), e.Length-at)], at)
		if err != nil && err != io.EOF {
			return fmt.Sprintf("%s cannot be read: %v", path, err), nil
		}
		_, _ = sum.Write(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return "", err
		}
		if at += int64(n); n == 0 {
			return fmt.Sprintf("%s ends at byte %d of %d", path, at, e.Length), nil
		}
	}
	if sumText(sum) != e.Sum {
		return fmt.Sprintf("%s is damaged: its checksum differs from the manifest", path), nil
	}
	return "", nil
}

// RestoreOptions configure Restore.
type RestoreOptions struct {
	Dir     string // the backup directory
	Backup  string // the name of the backup; if empty, the newest backup
	DataDir string // must not exist, or must be empty except for lost+found

	// Fork returns the STORE file of the restored store, given the STORE file of the original (see disk.Fork). It may
	// be nil.
	Fork func(store []byte) ([]byte, error)

	// Marker returns the file that marks a block directory as belonging to a store, given the STORE file of that store
	// (see disk.Marker). It may be nil.
	Marker func(store []byte) ([]byte, error)

	Progress func(Progress)

	// Hook, for tests, replaces the file operations in DataDir.
	Hook func(s durable.Step, do func() error) error
}

// Restore creates a data directory from a backup. The first server that starts with this directory rebuilds the
// metadata from the blocks. Restore continues if blocks are missing or damaged, and lists them in Report.Problems. It
// writes the file STORE last, so that a server cannot start with an incomplete directory.
func Restore(ctx context.Context, o RestoreOptions) (*Report, error) {
	const op = "backup.Restore"
	started := time.Now()
	if err := apart(o.Dir, o.DataDir); err != nil {
		return nil, core.E(op, core.InvalidArgument, err)
	}
	repo, err := openRepo(o.Dir)
	if err != nil {
		return nil, fail(op, o.Dir, err)
	}
	defer repo.close()
	m, err := repo.choose(o.Backup)
	if err != nil {
		return nil, fail(op, o.Dir, err)
	}
	list, err := os.ReadDir(o.DataDir)
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name() == "lost+found" }) // exists in a new file system
	if len(list) > 0 {
		err = core.E(op, core.InvalidArgument, fmt.Errorf("%s is not empty: it contains %q", o.DataDir, list[0].Name()))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(op, o.DataDir, err)
	}
	r := &restore{ctx: ctx, o: o, repo: repo, steps: &durable.Steps{Hook: o.Hook}, report: &Report{}, dirs: map[string]bool{}}
	if err := r.run(m); err != nil {
		return nil, fail(op, o.DataDir, fmt.Errorf("%w (the data directory %s is incomplete and cannot be used: remove it before you try again)", err, o.DataDir))
	}
	r.report.describe(m)
	r.report.Seconds = time.Since(started).Seconds()
	return r.report, nil
}

type restore struct {
	ctx    context.Context
	o      RestoreOptions
	repo   *repo
	steps  *durable.Steps
	report *Report
	dirs   map[string]bool // directories that must be synced
	cloner cloner
}

func (r *restore) run(m *manifest) error {
	if err := r.steps.MkdirAll(r.o.DataDir); err != nil {
		return err
	}
	lock, err := r.steps.Lock(filepath.Join(r.o.DataDir, lockFile)) // the lock that the disk driver uses
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := m.each(r.o.Progress, r.block); err != nil {
		return err
	}
	for dir := range r.dirs {
		if err := r.steps.SyncDir(dir); err != nil {
			return err
		}
	}
	var store []byte
	for _, f := range m.Files {
		if f.Name == storeFile {
			store = f.Data
			continue
		}
		if err := r.steps.Replace(filepath.Join(r.o.DataDir, f.Name), f.Data); err != nil {
			return err
		}
	}
	if store == nil {
		return core.E("backup.Restore", core.Damaged, fmt.Errorf("the backup does not contain the file %s", storeFile))
	}
	if r.o.Fork != nil {
		if store, err = r.o.Fork(store); err != nil {
			return err
		}
	}
	if r.o.Marker != nil {
		if err := r.mark(store); err != nil {
			return err
		}
	}
	return r.steps.Replace(filepath.Join(r.o.DataDir, storeFile), store)
}

// mark writes the marker of the block directory, and creates the directory if necessary.
func (r *restore) mark(store []byte) error {
	text, err := r.o.Marker(store)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.o.DataDir, blocksDir) // block directories have the same name in backups
	if err := r.steps.MkdirAll(dir); err != nil {
		return err
	}
	return r.steps.Replace(filepath.Join(dir, storeFile), text)
}

// block restores the file of a block. If the copy is missing, it adds this to the problems of the report.
func (r *restore) block(e *entry) error {
	if _, err := os.Stat(r.repo.path(e.Name)); errors.Is(err, fs.ErrNotExist) {
		r.report.Problems = append(r.report.Problems, fmt.Sprintf("%s is missing", r.repo.path(e.Name)))
		return nil
	}
	path := filepath.Join(r.o.DataDir, filepath.FromSlash(e.Name))
	if dir := filepath.Dir(path); !r.dirs[dir] {
		r.dirs[dir] = true
		if err := r.steps.MkdirAll(dir); err != nil {
			return err
		}
	}
	f, err := r.steps.Create(path)
	if err != nil {
		return err
	}
	err = r.fill(e, f)
	return errors.Join(err, f.Close())
}

func (r *restore) fill(e *entry, f *durable.File) error {
	shared := r.cloner.clone(r.repo.path(e.Name), e.Length, f)
	var out *bufio.Writer
	var to io.Writer
	if !shared {
		out = bufio.NewWriterSize(&fileWriter{f, 0}, 1<<20)
		to = out
	}
	problem, err := r.repo.copyOut(r.ctx, e, to)
	if err != nil {
		return err
	}
	if problem != "" {
		r.report.Problems = append(r.report.Problems, problem)
	}
	if out != nil {
		if err := out.Flush(); err != nil {
			return err
		}
		r.report.CopiedBytes += e.Length
	} else {
		r.report.SharedBytes += e.Length
	}
	r.report.CopiedBlocks++
	return f.DataSync()
}
