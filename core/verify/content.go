// Package verify reads stored content and whole blocks and verifies every frame. It modifies nothing, and works while
// the store is in use: content that is moved or deleted in the meantime is not reported as damaged. The check and the
// scrub are based on it.
package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"orcas/core"
	"orcas/core/frame"
)

// Pace is called after each read with the number of bytes that it returned, before the next read. If it returns an
// error, the work stops and that error is returned.
type Pace func(n int) error

// Unpaced is a Pace that neither counts nor waits.
func Unpaced(int) error { return nil }

// Live reads and verifies every frame of content that may be moved or deleted in the meantime. It returns the DataInfo
// that it last used. The error is Damaged if a frame or a checksum is wrong, NoSuchData if a block is missing, and nil
// if the content was deleted.
func Live(ctx context.Context, meta core.Meta, blocks core.Blocks, d *core.DataInfo, pace Pace) (*core.DataInfo, error) {
	for {
		err := newReader(d, pace).all(ctx, blocks)
		if err == nil || core.Is(err, core.Canceled) {
			return d, err
		}
		now, readErr := meta.Data(ctx, []core.DataID{d.ID})
		if readErr != nil {
			return d, readErr
		}
		if len(now) == 0 { // it was deleted while it was read
			return d, nil
		}
		if slices.Equal(now[0].Extents, d.Extents) {
			return d, err
		}
		d = &now[0] // it was moved while it was read: read it at its new extents
	}
}

// Frames verifies content, and returns its concatenated stored frames and their headers.
func Frames(ctx context.Context, blocks core.Blocks, d *core.DataInfo) (raw []byte, headers []frame.Header, err error) {
	r := newReader(d, Unpaced)
	r.keep = true
	if err := r.all(ctx, blocks); err != nil {
		return nil, nil, err
	}
	return r.raw, r.headers, nil
}

// reader is the state of reading content.
type reader struct {
	d       *core.DataInfo
	pace    Pace
	index   uint32 // number of the next frame
	plain   int64
	sum     hash.Hash
	head    [32]byte // SHA-256 of the first core.HeadSize bytes
	clear   bool     // whether every payload so far was plain, and so is included in sum
	keep    bool     // whether to collect the frames in raw and their headers in headers
	raw     []byte
	headers []frame.Header
	buf     []byte
}

func newReader(d *core.DataInfo, pace Pace) *reader {
	return &reader{d: d, pace: pace, sum: sha256.New(), clear: d.KeyID == 0}
}

// all reads all frames of the content in order, and verifies its checksums.
func (r *reader) all(ctx context.Context, blocks core.Blocks) error {
	d := r.d
	for i, e := range d.Extents {
		if err := r.extent(ctx, blocks, e, i == len(d.Extents)-1); err != nil {
			return err
		}
	}
	if r.plain != d.Size {
		return damage(d, core.Extent{}, fmt.Errorf("its frames have %d bytes of content instead of %d", r.plain, d.Size))
	}
	if r.clear && d.SHA256 != [32]byte{} && !bytes.Equal(r.sum.Sum(nil), d.SHA256[:]) {
		return damage(d, core.Extent{}, errors.New("its SHA-256 does not match"))
	}
	if r.clear && d.HasHead() && r.head != d.Head {
		return damage(d, core.Extent{}, fmt.Errorf("the SHA-256 of its first %d bytes does not match", core.HeadSize))
	}
	return nil
}

func damage(d *core.DataInfo, e core.Extent, err error) error {
	if e.Length > 0 {
		err = fmt.Errorf("content %d at offset %d of block %v: %w", d.ID, e.Offset, e.Block, err)
	} else {
		err = fmt.Errorf("content %d: %w", d.ID, err)
	}
	return core.E("verify.Live", core.Damaged, err)
}

// extent reads the frames of an extent in order. Final states whether it is the last extent of the content.
func (r *reader) extent(ctx context.Context, blocks core.Blocks, e core.Extent, final bool) error {
	const op = "verify.Live"
	br, err := blocks.Open(ctx, e)
	if err != nil {
		return err
	}
	defer br.Close()
	for at := int64(0); at < e.Length; {
		if err := ctx.Err(); err != nil {
			return core.E(op, core.Canceled, err)
		}
		here := core.Extent{Block: e.Block, Offset: e.Offset + at, Length: e.Length}
		size := int(min(frame.HeaderSize+frame.MaxStored, e.Length-at))
		if cap(r.buf) < size {
			r.buf = make([]byte, size)
		}
		b := r.buf[:size]
		if n, err := br.ReadAt(b, at); n < size {
			if err != io.EOF && !core.Is(err, core.Damaged) { // a failed read proves nothing about the stored bytes
				return core.E(op, core.Internal, err)
			}
			return damage(r.d, here, err)
		}
		h, err := frame.Decode(b, e.Block, here.Offset)
		if errors.Is(err, frame.ErrVersion) {
			return core.E(op, core.Unsupported, err)
		}
		end := h.End() - e.Offset
		if err == nil && (h.Type != frame.Data || h.ID != uint64(r.d.ID) || h.Index != r.index || end > e.Length || h.Last != (final && end == e.Length)) {
			err = frame.ErrNotFrame
		}
		if err == nil {
			err = h.Verify(b[h.Size() : end-at])
		}
		if err != nil {
			return damage(r.d, here, err)
		}
		r.take(b[:end-at], &h)
		if err := r.pace(int(end - at)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// take processes a frame that was verified.
func (r *reader) take(raw []byte, h *frame.Header) {
	if r.clear = r.clear && h.Codec == frame.Plain; r.clear {
		payload := raw[h.Size():]
		if left := core.HeadSize - r.plain; left > 0 && left <= int64(len(payload)) {
			_, _ = r.sum.Write(payload[:left]) // hash.Hash never fails
			r.sum.Sum(r.head[:0])
			payload = payload[left:]
		}
		_, _ = r.sum.Write(payload)
	}
	r.index++
	r.plain += int64(h.Plain)
	if r.keep {
		r.raw = append(r.raw, raw...)
		r.headers = append(r.headers, *h)
	}
}
