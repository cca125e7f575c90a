package batch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/internal/procs"
)

// Large stores content that is too large to be packed. It writes the content to a block of its own, frame by frame, in
// constant memory. Only one goroutine may use it at a time. The content is durable after Commit, and referenced after
// Writer.Do has applied a change with its Info.
type Large struct {
	owner *Writer
	w     core.BlockWriter
	info  *core.DataInfo
	index uint32
	size  int64 // announced, in bytes
	chunk core.Extent
	fill  int64 // plain bytes in chunk
	codec *codec.Encoder
	coded *Buffer // for frames that are compressed or encrypted
}

// largeState is what every Large of a Writer shares.
type largeState struct {
	turns    procs.Turns    // to hash and encode content
	drops    sync.WaitGroup // background drops of content
	dropping atomic.Int32   // the number of drops in progress
}

func newLargeState() largeState { return largeState{turns: procs.NewTurns()} }

// NewLarge starts storing content of size bytes. ChunkSize is the number of bytes of plain content per extent (see
// core.CheckChunkSize); 0 means core.DefaultChunkSize. E encodes the frames, and may be modified until the first Write;
// if it is nil, they are stored unchanged.
func (w *Writer) NewLarge(ctx context.Context, size, chunkSize int64, e *codec.Encoder) (*Large, error) {
	return w.Rewrite(ctx, w.NewData(), size, chunkSize, e)
}

// Rewrite is like NewLarge, but for existing content, which it writes to a new block.
func (w *Writer) Rewrite(ctx context.Context, id core.DataID, size, chunkSize int64, e *codec.Encoder) (*Large, error) {
	if chunkSize == 0 {
		chunkSize = core.DefaultChunkSize
	}
	if err := core.CheckChunkSize(chunkSize); err != nil {
		return nil, core.E("batch.NewLarge", core.InvalidArgument, err)
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	stored := frame.BlockHeaderSize + size + (size/frame.MaxPlain+1)*frame.HeaderSize
	bw, err := w.blocks.Create(ctx, core.BlockOptions{Kind: core.Large, SizeHint: stored, Relaxed: w.o.Relaxed})
	if err != nil {
		return nil, err
	}
	return &Large{owner: w, w: bw, size: size, info: &core.DataInfo{ID: id, ChunkSize: chunkSize}, codec: e}, nil
}

// ID returns the DataID of the content.
func (l *Large) ID() core.DataID { return l.info.ID }

// Write stores the next frame.MaxPlain bytes of plain content; the last call may have fewer. They are in
// buf[frame.HeaderSize:]; the space before them is for the header of the frame.
func (l *Large) Write(buf []byte) error {
	payload := buf[frame.HeaderSize:]
	plain := int64(len(payload))
	if l.info.Size+plain > l.size || plain != frame.MaxPlain && l.info.Size+plain != l.size {
		return core.E("batch.Large", core.InvalidArgument, fmt.Errorf("a frame of %d bytes: only the last one may be shorter than %d bytes", len(buf)-frame.HeaderSize, frame.MaxPlain))
	}
	h := frame.Header{
		Type: frame.Data, Block: l.w.Block(), Offset: l.w.Offset(), ID: uint64(l.info.ID), Index: l.index,
		Plain: uint32(plain), Last: l.info.Size+plain == l.size,
	}
	buf = l.encode(buf, &h)
	if _, err := l.w.Write(buf); err != nil {
		return err
	}
	if l.fill == 0 {
		l.chunk = core.Extent{Block: h.Block, Offset: h.Offset}
	}
	l.chunk.Length += int64(len(buf))
	l.fill += plain
	l.index++
	l.info.Size += plain
	if l.fill == l.info.ChunkSize || h.Last {
		l.info.Extents = append(l.info.Extents, l.chunk)
		l.chunk, l.fill = core.Extent{}, 0
	}
	return nil
}

// Shrink reduces the announced size, before the last frame is written. The size must not be less than what has been
// written.
func (l *Large) Shrink(size int64) { l.size = size }

// encode turns plain content, behind the space for a header, into a frame.
func (l *Large) encode(buf []byte, h *frame.Header) []byte {
	l.owner.turns.Begin()
	defer l.owner.turns.End()
	payload := buf[frame.HeaderSize:]
	if l.codec != nil && !l.codec.Plain() {
		if l.coded == nil {
			l.coded = NewBuffer(frame.MaxStored)
		}
		if coded := l.codec.Encode(l.coded.B[:frame.HeaderSize], h, payload); coded != nil {
			buf, payload = coded, coded[frame.HeaderSize:]
		}
	}
	frame.Encode(buf, h, payload)
	return buf
}

// Compute calls a function that hashes or transforms about a frame of large content, when it is the caller's turn (see
// package procs). The function must not wait for anything.
func (w *Writer) Compute(do func()) {
	w.turns.Begin()
	defer w.turns.End()
	do()
}

// Defer announces that the content will probably be dropped: work that can wait is deferred until Commit, so that it
// need not be done if the content is dropped.
func (l *Large) Defer() {
	if d, ok := core.As[core.Deferrer](l.w); ok {
		d.Defer()
	}
}

// Commit makes the content durable and returns its Info, to which the caller adds the checksums.
func (l *Large) Commit(ctx context.Context) (*core.DataInfo, error) {
	if l.info.Size != l.size {
		return nil, core.E("batch.Large", core.Incomplete, fmt.Errorf("the content has %d bytes instead of the announced %d", l.info.Size, l.size))
	}
	if err := l.w.Commit(ctx); err != nil {
		return nil, err
	}
	if l.codec != nil && l.codec.Compressed() {
		l.info.Codec = frame.Zstd
	}
	return l.info, nil
}

// Abort releases the memory and discards content that was not committed.
func (l *Large) Abort() {
	_ = l.w.Abort() // ignore the error: a block that remains is garbage
	if l.coded != nil {
		l.coded.Release()
		l.coded = nil
	}
}

// maxDrops is the maximum number of drops that a Writer runs in the background at the same time.
const maxDrops = 16

// Drop is Abort for complete content that turned out to be unnecessary. The caller does not wait, because a file is
// deleted only after its pending writes have ended.
func (l *Large) Drop() {
	w := l.owner
	if w.dropping.Add(1) > maxDrops {
		w.dropping.Add(-1)
		l.Abort()
		return
	}
	w.drops.Go(func() {
		l.Abort()
		w.dropping.Add(-1)
	})
}
