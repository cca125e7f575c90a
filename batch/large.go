package batch

import (
	"context"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// Large stores content that is too large to be packed, in a block of its own, frame by frame in constant memory. One goroutine
// uses it. Its content is durable after Commit, and belongs to somebody when Writer.Do has applied a change with its Info.
type Large struct {
	owner *Writer
	w     core.BlockWriter
	info  *core.DataInfo
	index uint32
	size  int64 // announced, in bytes
	chunk core.Extent
	fill  int64 // plain bytes in chunk
	codec *codec.Encoder
	coded *Buffer // where frames are laid out that are not stored as they are
}

// NewLarge begins content of size bytes. chunkSize is the bytes of plain content per extent, a multiple of
// frame.MaxPlain; 0: core.DefaultChunkSize. Frames are stored as e makes them, which may still change until the first
// Write; nil: as they are.
func (w *Writer) NewLarge(ctx context.Context, size, chunkSize int64, e *codec.Encoder) (*Large, error) {
	if chunkSize == 0 {
		chunkSize = core.DefaultChunkSize
	}
	if chunkSize%frame.MaxPlain != 0 {
		return nil, core.E("batch.NewLarge", core.InvalidArgument, fmt.Errorf("chunk size %d is no multiple of %d", chunkSize, frame.MaxPlain))
	}
	stored := frame.BlockHeaderSize + size + (size/frame.MaxPlain+1)*frame.HeaderSize
	bw, err := w.blocks.Create(ctx, core.BlockOptions{Kind: core.Large, SizeHint: stored, Relaxed: w.o.Relaxed})
	if err != nil {
		return nil, err
	}
	return &Large{owner: w, w: bw, size: size, info: &core.DataInfo{ID: w.NewData(), ChunkSize: chunkSize}, codec: e}, nil
}

// ID returns the number that the content has.
func (l *Large) ID() core.DataID { return l.info.ID }

// Write stores the next frame.MaxPlain bytes of plain content, or the shorter rest: buf[frame.HeaderSize:], behind room for the frame's header.
func (l *Large) Write(buf []byte) error {
	payload := buf[frame.HeaderSize:]
	plain := int64(len(payload))
	if l.info.Size+plain > l.size || plain != frame.MaxPlain && l.info.Size+plain != l.size {
		return core.E("batch.Large", core.InvalidArgument, errors.New("a frame of the wrong length"))
	}
	h := frame.Header{
		Type: frame.Data, Block: l.w.Block(), Offset: l.w.Offset(), ID: uint64(l.info.ID), Index: l.index,
		Plain: uint32(plain), Last: l.info.Size+plain == l.size,
	}
	if l.codec != nil && !l.codec.Plain() {
		if l.coded == nil {
			l.coded = NewBuffer(frame.MaxStored)
		}
		if coded := l.codec.Encode(l.coded.B[:frame.HeaderSize], &h, payload); coded != nil {
			buf, payload = coded, coded[frame.HeaderSize:]
		}
	}
	frame.Encode(buf, &h, payload)
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

// Defer says that the content is likely to be dropped: what can wait for Commit then does, and never happens.
func (l *Large) Defer() {
	if d, ok := l.w.(core.Deferrer); ok {
		d.Defer()
	}
}

// Commit makes the content durable and returns its Info, to which the caller adds the checksums.
func (l *Large) Commit(ctx context.Context) (*core.DataInfo, error) {
	if l.info.Size != l.size {
		return nil, core.E("batch.Large", core.Incomplete, fmt.Errorf("%d of %d bytes", l.info.Size, l.size))
	}
	if err := l.w.Commit(ctx); err != nil {
		return nil, err
	}
	if l.codec != nil && l.codec.Compressed() {
		l.info.Codec = frame.Zstd
	}
	return l.info, nil
}

// Abort lets go of the memory, and of content that was not committed.
func (l *Large) Abort() {
	_ = l.w.Abort() // what is left behind is garbage: there is nobody to tell
	if l.coded != nil {
		l.coded.Release()
		l.coded = nil
	}
}

// maxDrops is how many contents of a Writer are let go of behind their callers' backs at once.
const maxDrops = 16

// Drop is Abort, for content that came whole and is not needed after all. The caller need not wait for it: a file goes only when the writes of it that
// were begun have ended.
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
