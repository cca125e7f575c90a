package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/frame"
)

// The file blocks/STORE has the number of the store that the blocks belong to. It is in the directory of the blocks: if
// that is a mount point and the file system is not mounted, the file is missing too. Its lines are
//
//	orcas-blocks 1
//	store 0123456789abcdef
//	sum 0123456789abcdef
//
// The sum is the XXH3-64 of the lines before it. A start refuses a directory without the file, or with the file of
// another store. If an older version of ORCAS did not write the file, the first start writes it if the directory has
// blocks of the store or if no blocks are required (Options.NoBlocks).
const markerText = "orcas-blocks 1\nstore %016x\n"

const markerFile = "STORE"

// lostFound is a directory at the root of some file systems.
const lostFound = "lost+found"

func encodeMarker(number uint64) []byte {
	text := fmt.Sprintf(markerText, number)
	return fmt.Appendf([]byte(text), storeSum, xxh3.HashString(text))
}

// Marker returns the text of blocks/STORE for the text of a file STORE, to create a data directory from copies.
func Marker(store []byte) ([]byte, error) {
	number, _, err := decodeStore(store)
	if err != nil {
		return nil, err
	}
	return encodeMarker(number), nil
}

func (s *Store) markerPath() string { return filepath.Join(s.blocksDir(), markerFile) }

// checkMarker checks that the directory of the blocks belongs to this store. It changes nothing. It returns true if
// there is no marker and one may be written.
func (s *Store) checkMarker(noBlocks func(starts int) error) (write bool, err error) {
	text, err := os.ReadFile(s.markerPath())
	if errors.Is(err, fs.ErrNotExist) {
		return true, s.checkUnmarked(noBlocks)
	}
	if err != nil || string(text) == string(encodeMarker(s.number)) {
		return false, err
	}
	var other uint64
	if _, err := fmt.Sscanf(string(text), markerText, &other); err == nil && string(text) == string(encodeMarker(other)) {
		return false, s.foreign(s.markerPath()+" is", other)
	}
	return false, core.E("disk.Open", core.Damaged, fmt.Errorf(
		"%s is damaged: if %s is the directory with the blocks of this store, remove the file, and the next start writes it again", s.markerPath(), s.blocksDir()))
}

func (s *Store) foreign(what string, other uint64) error {
	return core.E("disk.Open", core.InvalidArgument, fmt.Errorf(
		"%s of store %016x, and this is store %016x: mount the file system with the blocks of this store at %s", what, other, s.number, s.blocksDir()))
}

// checkUnmarked checks that a directory without a marker can belong to this store. It reads the number of the store
// from the header of a block. If there is no block, Options.NoBlocks decides.
func (s *Store) checkUnmarked(noBlocks func(starts int) error) error {
	found := false
	enough := errors.New("enough")
	err := filepath.WalkDir(s.blocksDir(), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil && e != nil && e.Name() == lostFound:
			return fs.SkipDir // possibly only root may read it
		case err != nil || e.IsDir() || kindOf(filepath.Ext(path)) == 0:
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var head [frame.BlockHeaderSize]byte
		n, _ := f.ReadAt(head[:], 0) // an unreadable file proves nothing
		id, _, err := frame.DecodeBlockHeader(head[:n])
		if err != nil {
			return nil
		}
		if found = core.BlockID(id).Store() == s.number; !found {
			return s.foreign(path+" is a block", core.BlockID(id).Store())
		}
		return enough
	})
	if err != nil && !errors.Is(err, enough) {
		return err
	}
	if found || noBlocks == nil {
		return nil
	}
	return noBlocks(int(s.generation))
}
