package disk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/durable"
	"orcas/internal/mutant"
)

// format is the version of the layout of a data directory and of the data in its blocks. A start sets it in STORE before
// it writes to a block. Format 2 added short frame headers, version 2 of the list of changes in a record, and compressed
// records.
const format = 2

// Format is the version of the layout that this program writes.
const Format = format

// The lines of the file STORE. Each start replaces it before it creates a block, so that no block ID is ever used
// twice. The sum is the XXH3-64 of the lines before it.
//
//	orcas-store 2
//	store 0123456789abcdef
//	generation 0000002a
//	sum 0123456789abcdef
const (
	storeHead = "orcas-store %d\n"
	storeBody = "store %016x\ngeneration %08x\n"
	storeSum  = "sum %016x\n"
)

func encodeStore(number uint64, generation uint32) []byte {
	return encodeStoreAs(format, number, generation)
}

func encodeStoreAs(version int, number uint64, generation uint32) []byte {
	text := fmt.Sprintf(storeHead+storeBody, version, number, generation)
	return fmt.Appendf([]byte(text), storeSum, xxh3.HashString(text))
}

func decodeStore(b []byte) (number uint64, generation uint32, err error) {
	var version int
	if _, err := fmt.Sscanf(string(b), storeHead, &version); err == nil && version > format {
		return 0, 0, core.E("disk.Open", core.Unsupported, fmt.Errorf(
			"the data directory was created by a newer version of ORCAS: it has data format %d, but this version supports only formats up to %d", version, format))
	}
	if _, rest, ok := strings.Cut(string(b), "\n"); ok {
		_, _ = fmt.Sscanf(rest, storeBody, &number, &generation)
	}
	if number == 0 || version < 1 || string(encodeStoreAs(version, number, generation)) != string(b) {
		return 0, 0, core.E("disk.Open", core.Damaged, errors.New("the file STORE of the data directory is damaged"))
	}
	return number, generation, nil
}

// Fork returns the file STORE for a copy of a data directory; text is the file of the original. Both have the same
// store number, so the copy counts its starts from a different value: a random multiple of 4096 above that of the
// original. The counts of the original and, most likely, of its copies are so far apart that no two blocks get the same
// ID.
func Fork(text []byte) ([]byte, error) {
	const stride, strides = 1 << 12, 1 << 10
	number, generation, err := decodeStore(text)
	if err != nil {
		return nil, err
	}
	beyond := (uint64(generation)/stride + 1 + uint64(mathrand.IntN(strides))) * stride
	if beyond >= math.MaxUint32 {
		return nil, core.E("disk.Fork", core.Unsupported, errors.New("the counter of starts in STORE is exhausted"))
	}
	return encodeStore(number, uint32(beyond)), nil
}

// take creates the data directory and locks it.
func (s *Store) take() error {
	if err := s.steps.MkdirAll(s.dir); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "LOCK")
	lock, err := s.steps.Lock(path)
	if errors.Is(err, durable.ErrLocked) {
		owner, _ := os.ReadFile(path)
		process := strings.TrimSpace("process " + string(owner))
		return core.E("disk.Open", core.Busy, fmt.Errorf("%s already uses the data directory %s", process, s.dir))
	}
	if err != nil {
		return err
	}
	s.lock = lock
	// The process ID is used only for the message above.
	_ = lock.Truncate(0)
	_, _ = fmt.Fprintf(lock, "%d\n", os.Getpid())
	return nil
}

// start increments the counter of starts in STORE and creates the directory of the blocks of this start.
func (s *Store) start(noBlocks func(starts int) error) error {
	path := filepath.Join(s.dir, "STORE")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = s.newNumber()
	case err == nil:
		s.number, s.generation, err = decodeStore(text)
	}
	if err != nil {
		return err
	}
	unmarked, err := s.generation == 0, error(nil)
	if !unmarked && !mutant.Is("no-marker") {
		unmarked, err = s.checkMarker(noBlocks)
	}
	if err != nil {
		return err
	}
	if err := s.steps.MkdirAll(s.blocksDir()); err != nil {
		return err
	}
	generations, err := s.list(s.blocksDir(), 8, true)
	if err != nil {
		return err
	}
	if n := len(generations); n > 0 {
		// STORE may have been restored from an older copy.
		s.generation = max(s.generation, generations[n-1].number)
	}
	if s.generation == math.MaxUint32 {
		return errors.New("the counter of starts in STORE is exhausted")
	}
	s.tidy(generations)
	s.useSpare()
	s.generation++
	if err := s.steps.Replace(path, encodeStore(s.number, s.generation)); err != nil {
		return err
	}
	if unmarked {
		if err := s.steps.Replace(s.markerPath(), encodeMarker(s.number)); err != nil {
			return err
		}
	}
	// An earlier start may have been killed after it created the data directory and before it synced its name.
	if err := s.steps.SyncDir(filepath.Dir(s.dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return s.steps.MkdirAll(s.generationDir(s.generation))
}

// newNumber creates the number of a new store. It returns Damaged if there are blocks, because then STORE must have
// been lost.
func (s *Store) newNumber() error {
	list, err := os.ReadDir(s.blocksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(list) > 0 && !(len(list) == 1 && list[0].Name() == lostFound) {
		return core.E("disk.Open", core.Damaged, errors.New("there are blocks, but the file STORE is missing: restore it from a copy of the data directory"))
	}
	var b [8]byte
	for s.number == 0 {
		_, _ = rand.Read(b[:]) // never fails
		s.number = binary.BigEndian.Uint64(b[:])
	}
	return nil
}

// tidy removes empty directories of earlier generations. It also frees space in the last remaining directory that was
// preallocated and not used because the process was killed. It examines only that directory, because each earlier
// directory of a generation was filled with 4096 blocks, compared with which the tail of one packed file is small. All
// of this only saves space, so errors are ignored.
func (s *Store) tidy(generations []entry) {
	last := ""
	for _, g := range generations {
		dir := filepath.Join(s.blocksDir(), g.name)
		subs, _ := os.ReadDir(dir)
		for _, sub := range subs {
			if path := filepath.Join(dir, sub.Name()); os.Remove(path) != nil {
				last = path
			}
		}
		_ = os.Remove(dir)
	}
	files, _ := os.ReadDir(last)
	for _, f := range files {
		info, err := f.Info()
		if err != nil || filepath.Ext(f.Name()) != packedExt {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 > st.Size+1<<20 {
			_ = os.Truncate(filepath.Join(last, f.Name()), st.Size) // frees only the space allocated beyond the end
		}
	}
}
