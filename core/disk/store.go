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
)

// format is the version of the layout of a data directory and of what is in its blocks.
const format = 1

// The file STORE, which each start replaces before it makes a block, so that no block id is ever used twice. The sum is
// XXH3-64 of the lines before it.
//
//	orcas-store 1
//	store 0123456789abcdef
//	generation 0000002a
//	sum 0123456789abcdef
const (
	storeHead = "orcas-store %d\n"
	storeBody = "store %016x\ngeneration %08x\n"
	storeSum  = "sum %016x\n"
)

func encodeStore(number uint64, generation uint32) []byte {
	text := fmt.Sprintf(storeHead+storeBody, format, number, generation)
	return fmt.Appendf([]byte(text), storeSum, xxh3.HashString(text))
}

func decodeStore(b []byte) (number uint64, generation uint32, err error) {
	var version int
	if _, err := fmt.Sscanf(string(b), storeHead, &version); err == nil && version > format {
		return 0, 0, core.E("disk.Open", core.Unsupported, fmt.Errorf("format %d is newer than %d", version, format))
	}
	if _, rest, ok := strings.Cut(string(b), "\n"); ok {
		_, _ = fmt.Sscanf(rest, storeBody, &number, &generation)
	}
	if number == 0 || string(encodeStore(number, generation)) != string(b) {
		return 0, 0, core.E("disk.Open", core.Damaged, errors.New("STORE is damaged"))
	}
	return number, generation, nil
}

// Fork returns the STORE of a copy of the data directory that text is the STORE of. The copy goes its own way under the same number, so it
// counts its starts elsewhere: at a random multiple of 4096 beyond, far from the original and, most likely, from other copies, so that
// the two give no block the same id.
func Fork(text []byte) ([]byte, error) {
	const stride, strides = 1 << 12, 1 << 10
	number, generation, err := decodeStore(text)
	if err != nil {
		return nil, err
	}
	beyond := (uint64(generation)/stride + 1 + uint64(mathrand.IntN(strides))) * stride
	if beyond >= math.MaxUint32 {
		return nil, core.E("disk.Fork", core.Unsupported, errors.New("the counter of starts is used up"))
	}
	return encodeStore(number, uint32(beyond)), nil
}

// take makes the data directory and locks it.
func (s *Store) take() error {
	if err := s.steps.MkdirAll(s.dir); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "LOCK")
	lock, err := s.steps.Lock(path)
	if errors.Is(err, durable.ErrLocked) {
		owner, _ := os.ReadFile(path)
		return fmt.Errorf("process %s owns the data directory %s: %w", strings.TrimSpace(string(owner)), s.dir, err)
	}
	if err != nil {
		return err
	}
	s.lock = lock
	// Who owns it is only for the message above.
	_ = lock.Truncate(0)
	_, _ = fmt.Fprintf(lock, "%d\n", os.Getpid())
	return nil
}

// start counts this start in STORE and makes the directory of its blocks.
func (s *Store) start() error {
	path := filepath.Join(s.dir, "STORE")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = s.found()
	case err == nil:
		s.number, s.generation, err = decodeStore(text)
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
		// STORE may be an older one that somebody put back.
		s.generation = max(s.generation, generations[n-1].number)
	}
	if s.generation == math.MaxUint32 {
		return errors.New("the counter of starts is used up")
	}
	s.tidy(generations)
	s.useSpare()
	s.generation++
	if err := s.steps.Replace(path, encodeStore(s.number, s.generation)); err != nil {
		return err
	}
	// An earlier start may have been killed between making the data directory and syncing its name.
	if err := s.steps.SyncDir(filepath.Dir(s.dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return s.steps.MkdirAll(s.generationDir(s.generation))
}

// found begins a new store, unless there are blocks already, whose STORE must have been lost.
func (s *Store) found() error {
	list, err := os.ReadDir(s.blocksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(list) > 0 {
		return core.E("disk.Open", core.Damaged, errors.New("there are blocks, but STORE is missing"))
	}
	var b [8]byte
	for s.number == 0 {
		_, _ = rand.Read(b[:]) // never fails
		s.number = binary.BigEndian.Uint64(b[:])
	}
	return nil
}

// tidy removes empty directories that earlier generations left, and gives back what the newest of those that have files had
// preallocated when its process was killed. Only the last directory is looked at: in front of it lie at least 4096 large blocks, to which
// the tail of one packed file is little. Nothing here matters but to space, so errors end it silently.
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
			_ = os.Truncate(filepath.Join(last, f.Name()), st.Size) // cuts off nothing but what is allocated behind the end
		}
	}
}
