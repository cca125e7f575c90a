package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A start creates a few files and directories (a new STORE, the directory of its blocks, the log of the database). On a
// completely full drive that would fail, and it would not even be possible to delete objects. So the data directory
// reserves space and inodes for the next start, with files in the directory spare.
const (
	spareDir   = "spare"
	spareFiles = 8
	spareBytes = 64 << 10 // the size of each file
)

// KeepSpare reserves the space that the next start will need, as far as it is available. Open has released it, so a
// server calls KeepSpare after it has created all files that it needs; Close calls it too. It returns no error, because
// the files have no meaning of their own, and if the drive is full now, it may have space the next time.
func (s *Store) KeepSpare() {
	_ = s.steps.Mkdir(filepath.Join(s.dir, spareDir))
	for i := range spareFiles {
		f, err := s.steps.Create(s.sparePath(i))
		if errors.Is(err, fs.ErrExist) {
			f, err = s.steps.Open(s.sparePath(i))
		}
		if err != nil {
			return
		}
		_ = f.Allocate(0, spareBytes, false)
		_ = f.Close()
	}
}

// useSpare releases the reserved space. The directory is kept, so that the next start does not have to create it.
func (s *Store) useSpare() {
	for i := range spareFiles {
		_ = os.Remove(s.sparePath(i))
	}
}

func (s *Store) sparePath(i int) string { return filepath.Join(s.dir, spareDir, fmt.Sprint(i)) }
