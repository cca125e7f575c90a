// Package disk keeps blocks as files on a local drive.
//
// A data directory has these files:
//
//	LOCK                               locked by the process that uses the directory; contains its process id
//	STORE                              format version, store number, and counter of starts; see store.go
//	spare/0 to 7                       space reserved for the next start; see spare.go
//	blocks/STORE                       the number of the store that these blocks belong to; see marker.go
//	blocks/GGGGGGGG/SSSSS/NNNNNNNN.packed
//	blocks/GGGGGGGG/SSSSS/NNNNNNNN.large
//	blocks/GGGGGGGG/SSSSS/NNNNNNNN.snapshot
//
// In hexadecimal, G is the generation (the start) that created the block, N is its number in that generation, and S is
// N without its last three digits, so that no directory has more than 4096 files. A file is a block as described in
// package frame: a header of 64 bytes, then frames. Nothing is overwritten, and files of earlier generations are never
// written to.
//
// The cost of a commit, in steps of package durable:
//
//   - A shared packed block: one pwrite per Write and one fdatasync. The file is preallocated beyond its end, so that
//     its disk blocks are already mapped. Its name and its parent directories were made durable when it was created.
//   - An unshared block: create, one pwrite per Write, one sync_file_range per MiB if it has at least one (see pacer.go),
//     one fdatasync, one sync of its directory.
//
// Tried and dropped: writing zeros ahead of the packed writer in another goroutine, so that a commit overwrites
// initialized disk blocks and needs no commit of the file system's journal. Commits of 4 KiB took 0.07 ms instead of
// 0.09 ms. But commits of 256 KiB took 0.33 ms on average instead of 0.24 ms, and 0.8 ms instead of 0.3 ms at the 90th
// percentile, because every byte is written to the drive twice.
//
// After a failed write or sync nothing more is appended to the block: its file is closed, and the next writer creates a
// new block. The same is true after an abort that leaves bytes in a shared block. A failed sync is never retried, and a
// failed sync_file_range fails the commit, because the kernel has then reported the error of the write-back, and the
// fdatasync succeeds. A failed sync of a directory fails every block whose name was created in that directory before it
// and was not synced yet.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/internal/durable"
)

// Options are the settings of a Store. The zero value is ready to use.
type Options struct {
	PackedSize   int64        // the size of a shared packed block, in bytes; 0: 8 MiB
	MaxOpenFiles int          // the maximum number of cached open files; 0: 512. Readers may keep more files open
	Logger       *slog.Logger // if nil, nothing is logged

	// NoBlocks is called if the directory of the blocks has neither a block nor a marker (see marker.go), so that it is
	// unknown whether it belongs to this store. Starts is the number of earlier starts. NoBlocks returns an error if
	// there must be blocks, so that nothing is written into the mount point of a file system that is not mounted. If it
	// is nil, blocks are not required.
	NoBlocks func(starts int) error

	// Synced is called after each fdatasync of a block, with its duration, by the goroutine that has waited for it. It
	// must not block. If it is nil, nothing is measured.
	Synced func(took time.Duration, err error)

	// Hook wraps each file operation, for tests.
	Hook func(s durable.Step, do func() error) error
}

// Store is a core.Blocks and a core.Spacer on a local drive.
type Store struct {
	dir        string
	steps      durable.Steps
	log        *slog.Logger
	packedSize int64
	number     uint64 // the number of the store
	generation uint32
	lock       *os.File
	cache      fileCache
	dirs       directories
	unsynced   unsynced
	synced     func(time.Duration, error) // see Options.Synced
	pacer      pacer

	mu      sync.Mutex            // guards the fields below; not held during file operations
	last    uint32                // the number of the newest block of this generation
	open    packedFile            // the packed file to which the next shared writer appends; unset while one is active
	newest  core.BlockID          // the newest shared packed block; the older ones are no longer appended to
	writing map[core.BlockID]bool // blocks with an active shared writer; true if the block has been deleted
	begun   map[core.BlockID]bool // unshared blocks that are not committed yet
	closed  bool
}

// packedFile is a shared packed file and the position of its next byte; f is nil if there is none.
type packedFile struct {
	f   *durable.File
	id  core.BlockID
	pos int64
}

// The file extensions of the kinds of blocks.
const (
	packedExt   = ".packed"
	largeExt    = ".large"
	snapshotExt = ".snapshot"
)

var extensions = [...]string{packedExt, largeExt, snapshotExt}

// extOf returns the extension of a kind of block, or "" if the kind is unknown.
func extOf(k core.BlockKind) string {
	switch k {
	case core.Packed:
		return packedExt
	case core.Large:
		return largeExt
	case core.Snapshot:
		return snapshotExt
	}
	return ""
}

// kindOf is the inverse of extOf. It returns 0 for other extensions.
func kindOf(ext string) core.BlockKind {
	for _, k := range []core.BlockKind{core.Packed, core.Large, core.Snapshot} {
		if extOf(k) == ext {
			return k
		}
	}
	return 0
}

// blocksPerDir is the number of blocks in a directory.
const blocksPerDir = 4096

// Open creates the data directory at dir if it does not exist, and locks it. It returns Busy if another process uses
// the directory, Unsupported if a newer version of ORCAS created it, and Damaged if the file STORE is damaged.
func Open(dir string, o Options) (*Store, error) {
	const op = "disk.Open"
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	s := &Store{
		dir: dir, steps: durable.Steps{Hook: o.Hook}, synced: o.Synced, packedSize: cmp.Or(max(o.PackedSize, 0), 8<<20),
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), begun: map[core.BlockID]bool{}, writing: map[core.BlockID]bool{},
	}
	s.cache.init(o.MaxOpenFiles)
	s.dirs.init()
	s.pacer.init()
	if err := s.take(); err != nil {
		return nil, fail(op, err)
	}
	if err := s.start(o.NoBlocks); err != nil {
		s.KeepSpare()
		return nil, fail(op, errors.Join(err, s.lock.Close()))
	}
	s.log.Info("data directory opened", "dir", dir, "store", fmt.Sprintf("%016x", s.number), "generation", s.generation)
	return s, nil
}

// blocksDir returns the directory of the blocks.
func (s *Store) blocksDir() string { return filepath.Join(s.dir, "blocks") }

// generationDir returns the directory of the blocks of one generation.
func (s *Store) generationDir(g uint32) string {
	return filepath.Join(s.blocksDir(), fmt.Sprintf("%08x", g))
}

// blockDir returns the directory of the file of a block.
func (s *Store) blockDir(id core.BlockID) string {
	return filepath.Join(s.generationDir(id.Generation()), fmt.Sprintf("%05x", id.Number()/blocksPerDir))
}

// blockPath returns the path of a block. Every duplicate upload needs one, so it makes only one allocation.
func (s *Store) blockPath(id core.BlockID, ext string) string {
	var room [256]byte
	b := append(append(room[:0], s.dir...), "/blocks/"...)
	b = append(appendHex(b, id.Generation(), 8), '/')
	b = append(appendHex(b, id.Number()/blocksPerDir, 5), '/')
	return string(append(appendHex(b, id.Number(), 8), ext...))
}

// appendHex appends a number in hexadecimal with the given number of digits.
func appendHex(b []byte, n uint32, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		b = append(b, "0123456789abcdef"[n>>(4*i)&15])
	}
	return b
}

// Begun implements core.WriterLister.
func (s *Store) Begun() (begun map[core.BlockID]bool, newest core.BlockID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.begun), core.MakeBlockID(s.number, s.generation, s.last)
}

// ended records that the writer of a block has ended and that nothing more will be appended to the block.
func (s *Store) ended(id core.BlockID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, id)
	delete(s.writing, id)
}

// BlockFile implements core.Filer.
func (s *Store) BlockFile(b core.BlockInfo) string { return s.blockPath(b.ID, extOf(b.Kind)) }

// Identity implements core.Identifier.
func (s *Store) Identity() (store uint64, generation uint32) { return s.number, s.generation }

// Delete implements core.Blocks. After a crash the block may exist again; it is still garbage.
func (s *Store) Delete(ctx context.Context, id core.BlockID) error {
	if id.Store() != s.number {
		return nil
	}
	s.mu.Lock()
	old := packedFile{}
	if s.open.f != nil && s.open.id == id {
		old, s.open = s.open, packedFile{}
	}
	if _, writing := s.writing[id]; writing {
		s.writing[id] = true
	}
	s.mu.Unlock()
	if old.f != nil && !s.unsynced.leave(id) {
		_ = old.f.Close() // the content is no longer needed
	}
	s.unsynced.forget(id)
	for _, ext := range extensions {
		err := s.steps.Remove(s.blockPath(id, ext))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fail("disk.Delete", err)
		}
	}
	s.cache.drop(id)
	if id.Generation() < s.generation {
		// No more files are created in these directories, so each is removed with its last file.
		if os.Remove(s.blockDir(id)) == nil {
			_ = os.Remove(s.generationDir(id.Generation()))
		}
	}
	return nil
}

// Space implements core.Spacer. It returns the space that is available to the user of this process.
func (s *Store) Space(context.Context) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return 0, 0, fail("disk.Space", err)
	}
	size := int64(st.Bsize) // its type differs between systems
	return int64(st.Bavail) * size, int64(st.Blocks) * size, nil
}

// Close implements core.Blocks. It unlocks the data directory.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	old := s.open
	s.open = packedFile{}
	s.mu.Unlock()
	s.retire(old)
	s.unsynced.close()
	s.cache.close()
	_ = os.Remove(s.generationDir(s.generation)) // succeeds only if the directory is empty
	s.KeepSpare()
	if err := s.lock.Close(); err != nil {
		return fail("disk.Close", err)
	}
	return nil
}

// isClosed reports whether Close has been called.
func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

var errClosed = errors.New("the store is closed")

// fail converts a system error to a core.Error.
func fail(op string, err error) error {
	kind := core.Internal
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = core.NoSpace
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		kind = core.Overloaded
	case errors.Is(err, durable.ErrLocked):
		kind = core.Busy
	}
	return core.E(op, kind, err)
}
