package disk

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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
	dir := filepath.Join(s.dir, spareDir)
	_ = os.Mkdir(dir, 0o700)
	for i := range spareFiles {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		_ = unix.Fallocate(int(f.Fd()), 0, 0, spareBytes)
		_ = f.Close()
	}
}

// useSpare gives the room back. The directory stays: a start would need another.
func (s *Store) useSpare() {
	for i := range spareFiles {
		_ = os.Remove(filepath.Join(s.dir, spareDir, fmt.Sprint(i)))
	}
}
