// Package snapshot stores snapshots of the metadata in blocks: all metadata of an engine (core.Snapshotter) as of one
// sequence.
//
// A snapshot is complete, or it is a chain: a complete snapshot and deltas, each with the changes that followed.
//
// A complete snapshot is a block of the kind core.Snapshot. Its frames have the type Snapshot, and the ID of each is the
// sequence of the snapshot. They contain one stream, in pieces of 256 KiB. Each piece is compressed separately with
// Zstandard if that makes it smaller. The stream is a list of rows in the binary form of encoding.AppendRow, each
// preceded by its length as an unsigned LEB128 number. The last frame is marked, so a snapshot that was truncated by a
// crash is detected.
//
// A delta is such a block too, with another stream. Its first row is the state after its last change. The second row
// names its predecessor, which is a complete snapshot or a delta. The other rows are lists of changes: those after the
// sequence of the predecessor, up to that of the delta, in order, without voided ones. They are copied from the records
// of the packed blocks. A delta proves that it lacks no change: each sequence in its range belongs to one of its changes,
// or a core.Void among them names it. So damage or an error in the records ends in a delta that is refused, never in one
// that is wrong.
//
// To restore a chain, the rows of its complete snapshot are restored and the changes applied, as recovery applies those
// of records. The beginning of a chain is a chain too, as of an earlier sequence. So a damaged delta makes itself and
// those after it useless, but not those before it.
//
// With a snapshot of sequence S, records of changes up to S are no longer needed: a rebuild restores the snapshot and
// replays the records after it.
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
	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
)

// Info describes a snapshot.
type Info struct {
	Block      core.BlockID // the block of the complete snapshot
	core.State              // the snapshot contains all changes up to State.Seq, and no later ones
	Size       int64        // size of the block, in bytes
	Rows       int64        // rows in the block
	Deltas     []Delta      // the deltas, in order; nil if the snapshot is complete

	sum     uint64       // XXH3 of the stream, until Read has verified it; 0 if it is unknown
	damaged core.BlockID // the block for which Read or Restore returned Damaged; see Without
}

// maxRow is the maximum size of a row, in bytes. It prevents large allocations if a length is damaged. For comparison,
// a version with 2 KiB of headers takes 3 KiB, and a list of 1,000 extents 30 KiB.
const maxRow = 64 << 20

// WriteOptions configure Write.
type WriteOptions struct {
	Before func(ctx context.Context) error // called before the snapshot is made durable, if not nil; must make all changes in the snapshot durable
}

// Write writes a snapshot of meta to a new block, which is durable when Write returns.
func Write(ctx context.Context, meta core.Snapshotter, blocks core.Blocks, o WriteOptions) (*Info, error) {
	const op = "snapshot.Write"
	bw, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	info := &Info{Block: bw.Block()}
	w := &writer{w: bw}
	err = w.finish(ctx, o, func() error {
		return meta.Snapshot(ctx, func(r *core.Row) error {
			if r.State != nil {
				info.State, w.seq = *r.State, r.State.Seq
			}
			info.Rows++
			w.row = encoding.AppendRow(w.row[:0], r)
			return w.put(w.row)
		})
	})
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	info.Size, info.sum = bw.Offset(), w.sum.Sum64()
	return info, nil
}

// finish writes the rows that fill puts, and makes the block durable. After an error, the block is deleted.
func (w *writer) finish(ctx context.Context, o WriteOptions, fill func() error) (err error) {
	defer func() {
		if err != nil {
			_ = w.w.Abort() // report the first error
		}
	}()
	if w.zip, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)); err != nil {
		return err
	}
	defer w.zip.Close()
	if err = fill(); err != nil {
		return err
	}
	if err = w.frame(w.plain, true); err != nil {
		return err
	}
	if o.Before != nil {
		if err = o.Before(ctx); err != nil {
			return err
		}
	}
	return w.w.Commit(ctx)
}

type writer struct {
	w     core.BlockWriter
	zip   *zstd.Encoder
	seq   core.Seq    // the sequence of the snapshot; known once the first row was put
	plain []byte      // part of the stream that is not in a frame yet
	sum   xxh3.Hasher // of the frames' content
	row   []byte
	raw   []byte // buffer for a frame
	index uint32
}

// put adds the binary form of a row to the stream.
func (w *writer) put(row []byte) error {
	w.plain = binary.AppendUvarint(w.plain, uint64(len(row)))
	w.plain = append(w.plain, row...)
	for len(w.plain) > frame.MaxPlain { // never all bytes, because the last frame must not be empty
		if err := w.frame(w.plain[:frame.MaxPlain], false); err != nil {
			return err
		}
		w.plain = w.plain[:copy(w.plain, w.plain[frame.MaxPlain:])]
	}
	return nil
}

func (w *writer) frame(plain []byte, last bool) error {
	h := frame.Header{
		Type: frame.Snapshot, Block: w.w.Block(), Offset: w.w.Offset(), ID: uint64(w.seq), Index: w.index,
		Plain: uint32(len(plain)), Last: last, Codec: frame.Zstd,
	}
	_, _ = w.sum.Write(plain) // never fails
	w.raw = append(w.raw[:0], make([]byte, frame.HeaderSize)...)
	w.raw = w.zip.EncodeAll(plain, w.raw)
	if len(w.raw)-frame.HeaderSize >= len(plain) {
		h.Codec = frame.Plain
		w.raw = append(w.raw[:frame.HeaderSize], plain...)
	}
	frame.Encode(w.raw, &h, w.raw[frame.HeaderSize:])
	w.index++
	_, err := w.w.Write(w.raw)
	return err
}

// isBroken reports whether err means that a block is damaged or missing, as opposed to a failed read.
func isBroken(err error) bool {
	return core.Is(err, core.Damaged) || core.Is(err, core.NoSuchData)
}

// reader reads the stream of a snapshot.
type reader struct {
	blocks core.BlockReader
	block  core.BlockID
	size   int64
	zip    *zstd.Decoder
	h      frame.Header // header of the current frame, whose content is in plain
	raw    []byte
	plain  []byte // content of the current frame that has not been read yet
	space  []byte // for decompressed content
	sum    *xxh3.Hasher
	stream *bufio.Reader
}

func newReader(ctx context.Context, blocks core.Blocks, block core.BlockID, size int64) (*reader, error) {
	br, err := blocks.Open(ctx, core.Extent{Block: block, Length: size})
	if err != nil {
		return nil, err
	}
	r := &reader{blocks: br, block: block, size: size}
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

// frame reads the frame with the given number at an offset.
func (r *reader) frame(at int64, index uint32) error {
	var head [frame.HeaderSize]byte
	if at+frame.HeaderSize > r.size {
		return broken(errors.New("the snapshot is truncated: its last frame is missing"))
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
		return broken(fmt.Errorf("frame %d is not at the expected offset", index))
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
		if r.space, err = r.zip.DecodeAll(raw, r.space[:0]); err != nil {
			return broken(err)
		}
		r.plain = r.space
	default:
		return core.E("snapshot.Read", core.Unsupported, fmt.Errorf("codec %d is unknown", h.Codec))
	}
	if len(r.plain) != int(h.Plain) {
		return broken(errors.New("the content of a frame has the wrong length"))
	}
	r.h = h
	r.addSum()
	return nil
}

// addSum adds the content of the current frame to the checksum of the stream, if it is to be verified.
func (r *reader) addSum() {
	if r.sum != nil {
		_, _ = r.sum.Write(r.plain) // never fails
	}
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

// state reads the first row of a snapshot.
func (r *reader) state() (core.State, error) {
	row, err := r.next()
	if err != nil {
		return core.State{}, err
	}
	if row == nil || row.State == nil || uint64(row.State.Seq) != r.h.ID {
		return core.State{}, broken(errors.New("the first row is not the state of the snapshot"))
	}
	return *row.State, nil
}

// next returns the next row, or nil after the last.
func (r *reader) next() (*core.Row, error) {
	row, err := r.entry()
	if row == nil || err != nil {
		return nil, err
	}
	return encoding.DecodeRow(row)
}

// entry returns the binary form of the next row, or nil after the last.
func (r *reader) entry() ([]byte, error) {
	length, err := r.length()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, cutOff(err)
	}
	row, err := r.bytes(length)
	return row, cutOff(err)
}

// length returns the length of the next row, in bytes. It returns io.EOF after the last row.
func (r *reader) length() (int64, error) {
	length, err := binary.ReadUvarint(r.stream)
	if err == nil && length > maxRow {
		err = broken(fmt.Errorf("a row of %d bytes is too long", length))
	}
	return int64(length), err
}

// bytes returns the next n bytes of the stream. A longer slice than shortRow is not allocated at once, because the
// length may be damaged.
func (r *reader) bytes(n int64) ([]byte, error) {
	const shortRow = 64 << 10
	b := make([]byte, min(n, shortRow))
	if _, err := io.ReadFull(r.stream, b); err != nil || n <= shortRow {
		return b, err
	}
	long := bytes.NewBuffer(b)
	_, err := io.CopyN(long, r.stream, n-shortRow)
	return long.Bytes(), err
}

// cutOff converts the error for a stream that ends within a row to Damaged.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return broken(io.ErrUnexpectedEOF)
	}
	return err
}
