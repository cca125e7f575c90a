package backup

import (
	"os"
	"time"

	"orcas/core"
)

// Listed is a backup in a directory.
type Listed struct {
	Name  string    `json:"name"`
	Time  time.Time `json:"time"`
	Bytes int64     `json:"bytes"`           // the size of all blocks of the backup, many of which other backups have, too
	Error string    `json:"error,omitempty"` // why it cannot be restored, as far as its manifest shows
}

// List returns the backups in a directory, the oldest first. It reads their manifests, and does not verify the blocks. A
// directory that does not exist has none.
func List(dir string) ([]Listed, error) {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return []Listed{}, nil
	}
	r, err := openRepo(dir)
	if err != nil {
		return nil, fail("backup.List", dir, err)
	}
	defer r.close()
	names, err := r.names()
	if err != nil {
		return nil, fail("backup.List", dir, err)
	}
	list := make([]Listed, 0, len(names))
	for _, name := range names {
		l := Listed{Name: name}
		m, err := r.read(name)
		if err != nil {
			l.Error = core.Text(err)
		} else {
			l.Time = m.Time.UTC()
			for _, e := range m.Blocks {
				l.Bytes += e.Length
			}
		}
		list = append(list, l)
	}
	return list, nil
}
