// Package snapshot keeps the metadata in blocks: everything that an engine says of itself (core.Snapshotter), as it was after one sequence.
//
// A snapshot is a block of its own kind. Its frames (type Snapshot, numbered by the snapshot's sequence) hold one stream, 256 KiB of
// it each, compressed by themselves with Zstandard where that makes them smaller. The stream is a list of rows in the binary form of core.AppendRow, each after its length as an
// unsigned LEB128 number. The last frame is marked as such, so a snapshot that a crash cut off is known for what it is.
//
// With a snapshot of sequence S, records of changes up to S are not needed any more: a rebuild restores it and replays those behind it.
package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"orcas/core"
	"orcas/core/frame"
)

// Info describes a snapshot.
type Info struct {
	Block      core.BlockID
	core.State       // everything up to State.Seq is in the snapshot, and nothing behind it
	Size       int64 // bytes of the block
	Rows       int64
}

// maxRow bounds a row, in bytes, so that a damaged length asks for no memory: a version with 2 KiB of headers takes three, a list of 1,000 extents 30 KiB.
const maxRow = 64 << 20

// WriteOptions configure Write. All of them may be nil.
type WriteOptions struct {
	Pace   func(n int64) error             // called after each frame with the bytes written; may wait
	Before func(ctx context.Context) error // called before the snapshot is made durable: all that is in it has to be when it returns
}

// Write writes a snapshot of meta into a block of its own, durable when it returns.
func Write(ctx context.Context, meta core.Snapshotter, blocks core.Blocks, o WriteOptions) (*Info, error) {
	const op = "snapshot.Write"
	bw, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	w := &writer{w: bw, pace: o.Pace, info: Info{Block: bw.Block()}}
	err = w.write(ctx, meta)
	if err == nil && o.Before != nil {
		err = o.Before(ctx)
	}
	if err != nil {
		_ = bw.Abort() // the first error is the one to report
		return nil, core.E(op, core.Internal, err)
	}
	if err := bw.Commit(ctx); err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	w.info.Size = bw.Offset()
	return &w.info, nil
}

type writer struct {
	w     core.BlockWriter
	zip   *zstd.Encoder
	pace  func(n int64) error
	info  Info
	plain []byte // of the stream, not yet in a frame
	row   []byte
	raw   []byte // a frame
	index uint32
}

func (w *writer) write(ctx context.Context, meta core.Snapshotter) (err error) {
	if w.zip, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)); err != nil {
		return err
	}
	defer w.zip.Close()
	err = meta.Snapshot(ctx, func(r *core.Row) error {
		if r.State != nil {
			w.info.State = *r.State
		}
		w.info.Rows++
		w.row = core.AppendRow(w.row[:0], r)
		w.plain = binary.AppendUvarint(w.plain, uint64(len(w.row)))
		w.plain = append(w.plain, w.row...)
		for len(w.plain) > frame.MaxPlain { // never all of it: something is left for the last frame
			if err := w.frame(w.plain[:frame.MaxPlain], false); err != nil {
				return err
			}
			w.plain = w.plain[:copy(w.plain, w.plain[frame.MaxPlain:])]
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.frame(w.plain, true)
}

func (w *writer) frame(plain []byte, last bool) error {
	h := frame.Header{
		Type: frame.Snapshot, Block: w.w.Block(), Offset: w.w.Offset(), ID: uint64(w.info.Seq), Index: w.index,
		Plain: uint32(len(plain)), Last: last, Codec: frame.Zstd,
	}
	w.raw = append(w.raw[:0], make([]byte, frame.HeaderSize)...)
	w.raw = w.zip.EncodeAll(plain, w.raw)
	if len(w.raw)-frame.HeaderSize >= len(plain) {
		h.Codec = frame.Plain
		w.raw = append(w.raw[:frame.HeaderSize], plain...)
	}
	frame.Encode(w.raw, &h, w.raw[frame.HeaderSize:])
	w.index++
	if _, err := w.w.Write(w.raw); err != nil {
		return err
	}
	if w.pace == nil {
		return nil
	}
	return w.pace(int64(len(w.raw)))
}

// List returns the snapshots in blocks, the newest first, as far as their first frames say: whether one is whole, Read finds out. Rows is
// not known.
func List(ctx context.Context, blocks core.Blocks) ([]Info, error) {
	var found []Info
	err := blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind != core.Snapshot {
			return nil
		}
		info := Info{Block: b.ID, Size: b.Size}
		r, err := newReader(ctx, blocks, info)
		if err == nil {
			info.State, err = r.state()
			err = errors.Join(err, r.close())
		}
		if err != nil && !isBroken(err) {
			return err
		}
		if err == nil {
			found = append(found, info)
		}
		return nil
	})
	if err != nil {
		return nil, core.E("snapshot.List", core.Internal, err)
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found, nil
}

// isBroken says whether err is about the bytes of a block and not about reading them.
func isBroken(err error) bool {
	return core.Is(err, core.Damaged) || core.Is(err, core.NoSuchData)
}

// Read calls fn with each row of a snapshot, in order, all of them verified, and sets info's State and Rows. It is Damaged where the
// snapshot is not whole; then fn has seen a part of it.
func Read(ctx context.Context, blocks core.Blocks, info *Info, fn func(*core.Row) error) error {
	r, err := newReader(ctx, blocks, *info)
	if err != nil {
		return core.E("snapshot.Read", core.Internal, err)
	}
	defer r.close()
	info.Rows = 0
	for {
		row, err := r.next()
		if err != nil {
			return core.E("snapshot.Read", core.Internal, err)
		}
		if row == nil {
			return nil
		}
		info.Rows++
		if row.State != nil {
			info.State = *row.State
		}
		if err := fn(row); err != nil {
			return err
		}
	}
}

// Restore fills an empty engine with a snapshot. Damaged says that the snapshot is not whole, and the engine is empty still.
func Restore(ctx context.Context, blocks core.Blocks, info *Info, meta core.Snapshotter) error {
	r, err := newReader(ctx, blocks, *info)
	if err != nil {
		return core.E("snapshot.Restore", core.Internal, err)
	}
	defer r.close()
	info.Rows = 0
	return meta.Restore(ctx, func() (*core.Row, error) {
		row, err := r.next()
		if row != nil {
			info.Rows++
		}
		return row, err
	})
}

// reader reads the stream of a snapshot.
type reader struct {
	blocks core.BlockReader
	block  core.BlockID
	size   int64
	zip    *zstd.Decoder
	h      frame.Header // of the frame in plain
	raw    []byte
	plain  []byte // not yet read
	stream *bufio.Reader
}

func newReader(ctx context.Context, blocks core.Blocks, info Info) (*reader, error) {
	br, err := blocks.Open(ctx, core.Extent{Block: info.Block, Length: info.Size})
	if err != nil {
		return nil, err
	}
	r := &reader{blocks: br, block: info.Block, size: info.Size}
	r.stream = bufio.NewReaderSize(r, 64<<10)
	r.zip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(frame.MaxPlain))
	if err == nil {
		err = r.frame(frame.BlockHeaderSize, 0)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *reader) close() error {
	if r.zip != nil {
		r.zip.Close()
	}
	return r.blocks.Close()
}

func broken(err error) error { return core.E("snapshot.Read", core.Damaged, err) }

// frame reads the frame of that number at an offset.
func (r *reader) frame(at int64, index uint32) error {
	var head [frame.HeaderSize]byte
	if at+frame.HeaderSize > r.size {
		return broken(errors.New("the snapshot is cut off"))
	}
	if n, err := r.blocks.ReadAt(head[:], at); n < len(head) {
		return err
	}
	h, err := frame.Decode(head[:], r.block, at)
	if errors.Is(err, frame.ErrVersion) {
		return core.E("snapshot.Read", core.Unsupported, err)
	}
	if err != nil {
		return broken(err)
	}
	if h.Type != frame.Snapshot || h.Index != index || index > 0 && h.ID != r.h.ID || h.End() > r.size {
		return broken(fmt.Errorf("frame %d is not where it should be", index))
	}
	raw := append(r.raw[:0], make([]byte, h.Stored)...)
	r.raw = raw
	if n, err := r.blocks.ReadAt(raw, at+frame.HeaderSize); n < len(raw) {
		return err
	}
	if err := h.Verify(raw); err != nil {
		return broken(err)
	}
	switch h.Codec {
	case frame.Plain:
		r.plain = raw
	case frame.Zstd:
		if r.plain, err = r.zip.DecodeAll(raw, make([]byte, 0, h.Plain)); err != nil {
			return broken(err)
		}
	default:
		return core.E("snapshot.Read", core.Unsupported, fmt.Errorf("codec %d", h.Codec))
	}
	if len(r.plain) != int(h.Plain) {
		return broken(errors.New("a frame of the wrong length"))
	}
	r.h = h
	return nil
}

// Read implements io.Reader over the frames.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.plain) == 0 {
		if r.h.Last {
			return 0, io.EOF
		}
		if err := r.frame(r.h.End(), r.h.Index+1); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.plain)
	r.plain = r.plain[n:]
	return n, nil
}

// state reads the row with which every snapshot begins.
func (r *reader) state() (core.State, error) {
	row, err := r.next()
	if err != nil {
		return core.State{}, err
	}
	if row == nil || row.State == nil || uint64(row.State.Seq) != r.h.ID {
		return core.State{}, broken(errors.New("the state is not its first row"))
	}
	return *row.State, nil
}

// next returns the next row, nil behind the last.
func (r *reader) next() (*core.Row, error) {
	length, err := binary.ReadUvarint(r.stream)
	if err == io.EOF {
		return nil, nil
	}
	if err == nil && length > maxRow {
		err = broken(fmt.Errorf("a row of %d bytes", length))
	}
	if err != nil {
		return nil, cutOff(err)
	}
	row := bytes.NewBuffer(make([]byte, 0, min(length, 1<<16)))
	if _, err := io.CopyN(row, r.stream, int64(length)); err != nil {
		return nil, cutOff(err)
	}
	return core.DecodeRow(row.Bytes())
}

// cutOff turns the end of the stream within a row into Damaged.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return broken(io.ErrUnexpectedEOF)
	}
	return err
}
