package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/internal/durable"
)

// The names in a backup directory.
const (
	lockFile     = "LOCK"
	identityFile = "BACKUP"
	blocksDir    = "blocks"
	manifestsDir = "backups"
	manifestExt  = ".json"
)

// repo is a backup directory.
type repo struct {
	dir   string
	store string
	steps *durable.Steps
	lock  *os.File // nil if the directory has no lock file
}

func (r *repo) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

func (r *repo) manifestPath(name string) string {
	return filepath.Join(r.dir, manifestsDir, name+manifestExt)
}

func (r *repo) close() {
	if r.lock != nil {
		_ = r.lock.Close() // this releases the lock, even if it returns an error
	}
}

// The lines of the file BACKUP. The sum is the XXH3-64 of the lines before it.
const (
	identityHead = "orcas-backup %d\n"
	identityBody = "store %s\n"
	identitySum  = "sum %016x\n"
)

func encodeIdentity(store string) []byte {
	text := fmt.Sprintf(identityHead+identityBody, format, store)
	return fmt.Appendf([]byte(text), identitySum, xxh3.HashString(text))
}

func decodeIdentity(b []byte) (store string, err error) {
	const op = "backup.identity"
	var version int
	if _, err := fmt.Sscanf(string(b), identityHead, &version); err == nil && version > format {
		return "", core.E(op, core.Unsupported, fmt.Errorf("the directory has format %d, which is newer than format %d of this program", version, format))
	}
	if _, rest, ok := strings.Cut(string(b), "\n"); ok {
		_, _ = fmt.Sscanf(rest, identityBody, &store)
	}
	if store == "" || string(encodeIdentity(store)) != string(b) {
		return "", core.E(op, core.Damaged, fmt.Errorf("the file %s is damaged", identityFile))
	}
	return store, nil
}

// makeRepo opens a backup directory for a backup of a store, and creates it if it does not exist. The directory is
// locked exclusively until close.
func makeRepo(dir string, number uint64, steps *durable.Steps) (_ *repo, err error) {
	r := &repo{dir: dir, store: storeName(number), steps: steps}
	if err := r.checkDir(); err != nil {
		return nil, err
	}
	if err := steps.MkdirAll(dir); err != nil {
		return nil, err
	}
	if r.lock, err = steps.Lock(r.path(lockFile)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	b, err := os.ReadFile(r.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		if err = steps.Replace(r.path(identityFile), encodeIdentity(r.store)); err != nil {
			return nil, err
		}
		return r, steps.MkdirAll(r.path(manifestsDir))
	}
	if err != nil {
		return nil, err
	}
	store, err := decodeIdentity(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if store != r.store {
		return nil, core.E("backup.open", core.Conflict, fmt.Errorf("%s has backups of another store, %s: this store is %s", dir, store, r.store))
	}
	return r, steps.MkdirAll(r.path(manifestsDir))
}

// checkDir returns InvalidArgument if the directory contains other files than backups.
func (r *repo) checkDir() error {
	list, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	foreign := ""
	for _, f := range list {
		switch f.Name() {
		case identityFile:
			return nil
		case lockFile, identityFile + newExt, "lost+found": // an interrupted first backup, or the root of a file system
		default:
			foreign = f.Name()
		}
	}
	if foreign != "" {
		return core.E("backup.open", core.InvalidArgument, fmt.Errorf("%s is neither empty nor a backup directory: it contains %q", r.dir, foreign))
	}
	return nil
}

// openRepo opens a backup directory for reading, with a shared lock.
func openRepo(dir string) (*repo, error) {
	r := &repo{dir: dir, steps: &durable.Steps{}}
	b, err := os.ReadFile(r.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, core.E("backup.open", core.InvalidArgument, fmt.Errorf("%s is not a backup directory", dir))
	}
	if err != nil {
		return nil, err
	}
	if r.store, err = decodeIdentity(b); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	r.lock, err = os.Open(r.path(lockFile))
	if errors.Is(err, fs.ErrNotExist) { // the directory may be a copy without the lock file
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(r.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		r.close()
		if err == unix.EWOULDBLOCK {
			err = fmt.Errorf("%w: %s", durable.ErrLocked, r.path(lockFile))
		}
		return nil, err
	}
	return r, nil
}

// names returns the names of the backups, oldest first.
func (r *repo) names() (names []string, err error) {
	files, err := os.ReadDir(filepath.Join(r.dir, manifestsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), manifestExt)
		if _, err := time.Parse(nameLayout, name); ok && err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// list returns the intact manifests, oldest first, and the names of backups with damaged manifests.
func (r *repo) list() (whole []*manifest, broken []string, err error) {
	names, err := r.names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		m, err := r.read(name)
		switch {
		case core.Is(err, core.Damaged):
			broken = append(broken, name)
		case err != nil:
			return nil, nil, err
		default:
			whole = append(whole, m)
		}
	}
	return whole, broken, nil
}

// read reads the manifest of a backup.
func (r *repo) read(name string) (*manifest, error) {
	b, err := os.ReadFile(r.manifestPath(name))
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(b)
	if err == nil && (m.name() != name || m.Store != r.store) {
		err = core.E("backup.manifest", core.Damaged, errors.New("the manifest is that of another backup"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.manifestPath(name), err)
	}
	return m, nil
}

// choose returns the manifest of the named backup, or of the newest backup if name is empty.
func (r *repo) choose(name string) (*manifest, error) {
	names, err := r.names()
	if err != nil {
		return nil, err
	}
	name = strings.TrimSuffix(name, manifestExt)
	switch {
	case len(names) == 0:
		return nil, core.E("backup.open", core.InvalidArgument, fmt.Errorf("%s contains no backups", r.dir))
	case name == "":
		name = names[len(names)-1]
	case !slices.Contains(names, name):
		slices.Reverse(names)
		return nil, core.E("backup.open", core.InvalidArgument, fmt.Errorf("there is no backup %s in %s, which has %s", name, r.dir, list(names)))
	}
	return r.read(name)
}

// write writes the manifest of a backup, which completes the backup.
func (r *repo) write(m *manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	return r.steps.Replace(r.manifestPath(m.name()), b)
}
