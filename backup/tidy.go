package backup

import (
	"io/fs"
	"os"
	"path/filepath"

	"orcas/core"
)

// tidy deletes the oldest backups until Keep backups are left. Then it deletes the copies to which no manifest refers,
// but only if sure is true because all manifests could be read. After a crash in between, the next call deletes the
// remaining copies.
func (b *backup) tidy(manifests []*manifest, sure bool) error {
	steps := b.repo.steps
	for len(manifests) > b.Keep {
		name := manifests[0].name()
		if err := steps.Remove(b.repo.manifestPath(name)); err != nil {
			return err
		}
		b.report.Removed = append(b.report.Removed, name)
		manifests = manifests[1:]
	}
	if len(b.report.Removed) > 0 {
		if err := steps.SyncDir(filepath.Join(b.Dir, manifestsDir)); err != nil {
			return err
		}
	}
	if !sure {
		return nil
	}
	named := map[string]bool{}
	for _, m := range manifests {
		for i := range m.Blocks {
			named[b.repo.path(m.Blocks[i].Name)] = true
		}
	}
	var dirs []string
	err := filepath.WalkDir(filepath.Join(b.Dir, blocksDir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return ignore(err, fs.ErrNotExist)
		case b.ctx.Err() != nil:
			return core.E("backup.tidy", core.Canceled, b.ctx.Err())
		case d.IsDir():
			dirs = append(dirs, path)
			return nil
		case named[path]:
			return nil
		}
		if st, err := d.Info(); err == nil {
			b.report.RemovedBytes += st.Size()
		}
		b.report.RemovedBlocks++
		return ignore(steps.Remove(path), fs.ErrNotExist)
	})
	for i := len(dirs) - 1; i > 0; i-- { // the walk lists a directory before its subdirectories
		_ = os.Remove(dirs[i]) // succeeds only for empty directories
	}
	return err
}
