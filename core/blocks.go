package core

import (
	"context"
	"io"
	"time"
)

// BlockKind is the purpose of a block.
type BlockKind uint8

// The kinds of blocks. Only packed blocks contain records, so recovery reads no other kind.
const (
	Packed   BlockKind = 1 // batches: small content and records
	Large    BlockKind = 2 // one piece of large content
	Snapshot BlockKind = 3 // a snapshot of the metadata
)

// BlockOptions are the options of a writer.
type BlockOptions struct {
	Kind     BlockKind
	SizeHint int64 // in bytes; Packed: an upper bound of the data to write; Large: the expected size, 0 if unknown
	Relaxed  bool  // Commit returns once the operating system has the data, before it is on the drive (see Flusher)
	Alone    bool  // with Packed: use a separate block that no other writer appends to

	// Placement is the place to store the block, for example a pool of drives. It is a hint: if it is empty or unknown
	// to the driver, the driver chooses.
	Placement string
}

// BlockInfo describes a block, as reported by Walk.
type BlockInfo struct {
	ID   BlockID
	Kind BlockKind
	Size int64 // bytes that may contain frames; anything after the last valid frame is not content
}

// BlockStat is the state of a block, as returned by a Stater.
type BlockStat struct {
	BlockInfo
	Modified time.Time // the time of the last write to the block, by any program
}

// Blocks is the contract of a block store. Blocks are append-only units that are written once, made durable, read and
// deleted. All methods are safe for concurrent use. Several writers of each kind may be in progress, each in a block
// that no other writer uses until it ends.
type Blocks interface {
	// Create returns a writer at the beginning of a new block. Only a Packed writer that is not Alone may instead
	// continue a block that an earlier such writer committed to, if SizeHint bytes fit. Callers must not rely on that:
	// a store whose blocks cannot be appended to creates a block for each writer. The block of a new Packed writer that
	// is not Alone never has a lower ID than the block of such a writer that was committed before Create was called, so
	// blocks are in the order of their records.
	Create(ctx context.Context, o BlockOptions) (BlockWriter, error)

	// Open returns a reader of an extent and pins its block: after a Delete, the extent remains readable until Close.
	// It returns NoSuchData if the block does not exist.
	Open(ctx context.Context, e Extent) (BlockReader, error)

	// Delete deletes a block. The caller must have proof that nothing refers to it. Deleting a block that does not
	// exist is not an error.
	Delete(ctx context.Context, id BlockID) error

	// Walk calls fn for each block with an ID of at least from, in ascending order of IDs. If fn returns an error, Walk
	// stops and returns it. Walk may miss blocks that are created while it runs.
	Walk(ctx context.Context, from BlockID, fn func(BlockInfo) error) error

	// Close does not wait for writers in progress: their further calls fail. Everything that was committed is already
	// durable.
	Close() error
}

// BlockWriter appends to a block. It is not safe for concurrent use.
type BlockWriter interface {
	// Block and Offset return the position of the next byte. Frame headers contain both.
	Block() BlockID
	Offset() int64

	io.Writer

	// Commit makes everything that was written durable, along with the name of the block, and ends the writer. After an
	// error it is unknown what the drive contains, so nothing is ever appended to the block again, and the sync is not
	// retried.
	Commit(ctx context.Context) error

	// Abort ends the writer, and the data it wrote becomes garbage. After Commit it does nothing, so it can be
	// deferred.
	Abort() error
}

// Deferrer is implemented by BlockWriters that start writing to the drive before Commit, to make Commit faster.
type Deferrer interface {
	// Defer tells the writer that Abort is likely, so it should delay its writes until Commit if it can.
	Defer()
}

// BlockReader reads an extent. Offsets are relative to the start of the extent. As io.ReaderAt requires, ReadAt returns
// an error if it returns fewer bytes than requested. To read a long range, use ReadSpan.
type BlockReader interface {
	io.ReaderAt
	io.Closer
}

// SpanReader is implemented by BlockReaders for which one long read is cheaper than many short ones: over a network, it
// is one request. Callers use the function ReadSpan.
type SpanReader interface {
	// ReadSpan returns a reader of the n bytes starting at off. It returns the same errors as ReadAt, and Canceled once
	// ctx has ended. A span that extends beyond the extent ends with io.ErrUnexpectedEOF. The caller must close the
	// span before the BlockReader, which it may use in the meantime.
	ReadSpan(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// ReadSpan returns a reader of the n bytes of r starting at off, as specified by SpanReader. If r is not a SpanReader,
// each read of the span is a ReadAt.
func ReadSpan(ctx context.Context, r BlockReader, off, n int64) (io.ReadCloser, error) {
	if s, ok := As[SpanReader](r); ok {
		return s.ReadSpan(ctx, off, n)
	}
	return &span{ctx, r, off, n}, nil
}

// span reads a range with ReadAt.
type span struct {
	ctx      context.Context
	r        io.ReaderAt
	at, left int64
}

func (s *span) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, E("core.ReadSpan", Canceled, err)
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.ReadAt(p[:min(int64(len(p)), s.left)], s.at)
	s.at, s.left = s.at+int64(n), s.left-int64(n)
	if err == io.EOF {
		err = nil
		if s.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (*span) Close() error { return nil }

// Flusher is implemented by Blocks that support BlockOptions.Relaxed. Other block stores make every commit durable.
type Flusher interface {
	// Sync makes all relaxed commits before the call durable, including commits of an earlier process. After an error
	// it is unknown which of them are durable, and every later Sync fails.
	Sync(ctx context.Context) error
}

// Stater is implemented by Blocks that can inspect a block without reading it.
type Stater interface {
	// Stat returns the state of the block as a process that starts now would find it. It returns NoSuchData if the file
	// of the block was deleted, even while readers still have it open. A reader that is opened later reads the block
	// that Stat found.
	Stat(ctx context.Context, id BlockID) (BlockStat, error)
}

// Spacer is implemented by Blocks that can report how much space they have.
type Spacer interface {
	// Space returns the number of bytes available to ORCAS, and the total.
	Space(ctx context.Context) (free, total int64, err error)
}

// Identifier is implemented by Blocks that number their blocks themselves.
type Identifier interface {
	// Identity returns the two numbers at the beginning of the IDs of new blocks: the number of the store, which never
	// changes, and its generation, which increases with every start.
	Identity() (store uint64, generation uint32)
}

// WriterLister is implemented by Blocks that can distinguish blocks with a writer in progress from others.
type WriterLister interface {
	// Begun returns the blocks whose writers have not ended, except blocks that Packed writers share, and the newest of
	// all blocks.
	Begun() (begun map[BlockID]bool, newest BlockID)
}

// Filer is implemented by Blocks that store each block in a separate file, so that a copy can share the storage of the
// block (with FICLONE or a hard link).
type Filer interface {
	// BlockFile returns the path of the file, which contains exactly the bytes of the block. Callers must not write to
	// it.
	BlockFile(b BlockInfo) string
}

// Healer is implemented by Blocks that store a block in several pieces (copies or shards), so that missing or damaged
// pieces can be rebuilt from the others. All methods return NoSuchData if the block does not exist.
type Healer interface {
	// Pieces returns the pieces of a block, always in the same order, with the state of each as far as it is known
	// without reading the piece.
	Pieces(ctx context.Context, id BlockID) ([]Piece, error)

	// VerifyPieces reads all of the pieces, including pieces that no reader needs, and returns their states. It repairs
	// nothing.
	VerifyPieces(ctx context.Context, id BlockID) ([]Piece, error)

	// Heal verifies the pieces and rebuilds the missing and damaged ones. It returns the number of pieces that it
	// rebuilt, which are durable by then. Readers can read the whole block throughout. It returns Damaged and writes
	// nothing if too few pieces are intact, and Busy if the block has a writer in progress.
	Heal(ctx context.Context, id BlockID) (healed int, err error)
}

// Piece is one of the pieces of a block.
type Piece struct {
	Target string // a description of the place where it is stored, for people; its form depends on the driver
	State  PieceState
}

// PieceState is the state of a piece, as far as it is known.
type PieceState uint8

// The states of a piece.
const (
	PieceWhole PieceState = iota
	PieceMissing
	PieceDamaged
)
