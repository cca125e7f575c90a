package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A start makes a few files and directories (STORE anew, the directory of its blocks, the log of the database), and a drive that is full to its last byte or inode
// has no room for them, so that nobody could even delete. Therefore the data directory keeps some room for the next start: files in the directory spare.
const (
	spareDir   = "spare"
	spareFiles = 8
	spareBytes = 64 << 10 // that each takes
)

// KeepSpare takes the room that the next start will need, as far as there is any. Open has given it back, so a server calls this when it has made all that
// it needs; Close does. Nothing in it has to last, and a drive that has no room now may have some the next time: so it has no error.
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

// useSpare gives the room back. The directory stays: a start would need another.
func (s *Store) useSpare() {
	for i := range spareFiles {
		_ = os.Remove(s.sparePath(i))
	}
}

func (s *Store) sparePath(i int) string { return filepath.Join(s.dir, spareDir, fmt.Sprint(i)) }
