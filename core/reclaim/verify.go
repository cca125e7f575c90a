package reclaim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"orcas/core"
	"orcas/core/frame"
)

// readContents reads every live content, in the order in which they stand.
func (c *check) readContents() error {
	if !c.o.Content {
		return nil
	}
	p := &pacer{perSecond: c.o.BytesPerSecond}
	ids := make([]core.DataID, 0, dataTogether)
	for i := range c.places {
		if c.places[i].first {
			ids = append(ids, core.DataID(c.places[i].owner))
		}
		if len(ids) == dataTogether || i == len(c.places)-1 {
			if err := c.readSome(ids, p); err != nil {
				return err
			}
			ids = ids[:0]
		}
	}
	return c.readSnapshots()
}

func (c *check) readSome(ids []core.DataID, p *pacer) error {
	if len(ids) == 0 {
		return nil
	}
	infos, err := c.meta.Data(c.ctx, ids)
	if err != nil {
		return err
	}
	for i := range infos {
		d := &infos[i]
		now, err := verifyLive(c.ctx, c.meta, c.blocks, d, func(n int) error {
			c.report.BytesRead += int64(n)
			c.o.Progress("content", c.report.BytesRead, c.report.LiveBytes)
			return p.wait(c.ctx, n)
		})
		switch {
		case err == nil, core.Is(err, core.NoSuchData): // that was reported with the blocks
		case core.Is(err, core.Canceled):
			return err
		case c.ctx.Err() != nil:
			return core.E("reclaim.Check", core.Canceled, c.ctx.Err())
		default:
			c.differAbout(now.ID, KindContent, now.Size, "%v", err)
		}
	}
	return nil
}

// readSnapshots reads the snapshots of the metadata. One without an end is no difference: a crash leaves such a block, and one that is being written
// looks like it.
func (c *check) readSnapshots() error {
	for i := range c.table {
		n := &c.table[i]
		if n.kind != core.Snapshot {
			continue
		}
		found, err := scanBlock(c.ctx, c.blocks, n.id, n.size, func(int) error { return nil })
		if core.Is(err, core.NoSuchData) {
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range found.stretches {
			c.differ(Difference{Kind: KindSnapshot, Where: "block " + n.id.String(), Bytes: s.to - s.from,
				Text: fmt.Sprintf("%d bytes at %d are damaged", s.to-s.from, s.from)})
		}
		if !found.ended {
			c.note("the snapshot in block %v has no end", n.id)
		}
	}
	return nil
}

// verifyLive reads a content, which may move or go meanwhile: it returns the content as it was read, and nil also where it is gone.
func verifyLive(ctx context.Context, meta core.Meta, blocks core.Blocks, d *core.DataInfo, pace func(n int) error) (*core.DataInfo, error) {
	for {
		err := verify(ctx, blocks, d, pace)
		if err == nil || core.Is(err, core.Canceled) {
			return d, err
		}
		now, readErr := meta.Data(ctx, []core.DataID{d.ID})
		if readErr != nil {
			return d, readErr
		}
		if len(now) == 0 {
			return d, nil
		}
		if slices.Equal(now[0].Extents, d.Extents) {
			return d, err
		}
		d = &now[0]
	}
}

// verify reads every frame of a content. It is Damaged where one is not whole, NoSuchData where a block is not there.
func verify(ctx context.Context, blocks core.Blocks, d *core.DataInfo, pace func(n int) error) error {
	return newVerification(d, pace).all(ctx, blocks)
}

func newVerification(d *core.DataInfo, pace func(n int) error) *verification {
	return &verification{d: d, pace: pace, sum: sha256.New(), clear: d.KeyID == 0}
}

// all reads the content from its first frame to its last.
func (v *verification) all(ctx context.Context, blocks core.Blocks) error {
	d := v.d
	for i, e := range d.Extents {
		if err := v.extent(ctx, blocks, e, i == len(d.Extents)-1); err != nil {
			return err
		}
	}
	if v.plain != d.Size {
		return damage(d, core.Extent{}, fmt.Errorf("its frames hold %d bytes of %d", v.plain, d.Size))
	}
	if v.clear && d.SHA256 != [32]byte{} && !bytes.Equal(v.sum.Sum(nil), d.SHA256[:]) {
		return damage(d, core.Extent{}, errors.New("its SHA-256 is another"))
	}
	if v.clear && d.HasHead() && v.head != d.Head {
		return damage(d, core.Extent{}, fmt.Errorf("the SHA-256 of its first %d bytes is another", core.HeadSize))
	}
	return nil
}

func damage(d *core.DataInfo, e core.Extent, err error) error {
	if e.Length > 0 {
		err = fmt.Errorf("content %d at %d of block %v: %w", d.ID, e.Offset, e.Block, err)
	} else {
		err = fmt.Errorf("content %d: %w", d.ID, err)
	}
	return core.E("reclaim.verify", core.Damaged, err)
}

// verification is what is known of a content while it is read.
type verification struct {
	d     *core.DataInfo
	pace  func(n int) error
	index uint32 // of the next frame
	plain int64
	sum   hash.Hash
	head  [32]byte // what sum was behind the first core.HeadSize bytes
	clear bool     // every payload was plain content, and went into sum
	keep  bool     // frames are gathered in raw, their headers in heads
	raw   []byte
	heads []frame.Header
	buf   []byte
}

// extent reads the frames of an extent, one after the other.
func (v *verification) extent(ctx context.Context, blocks core.Blocks, e core.Extent, final bool) error {
	br, err := blocks.Open(ctx, e)
	if err != nil {
		return err
	}
	defer br.Close()
	for at := int64(0); at < e.Length; {
		if err := ctx.Err(); err != nil {
			return core.E("reclaim.verify", core.Canceled, err)
		}
		here := core.Extent{Block: e.Block, Offset: e.Offset + at, Length: e.Length}
		size := int(min(frame.HeaderSize+frame.MaxStored, e.Length-at))
		if cap(v.buf) < size {
			v.buf = make([]byte, size)
		}
		b := v.buf[:size]
		if n, err := br.ReadAt(b, at); n < size {
			return damage(v.d, here, err)
		}
		h, err := frame.Decode(b, e.Block, here.Offset)
		if errors.Is(err, frame.ErrVersion) {
			return core.E("reclaim.verify", core.Unsupported, err)
		}
		end := h.End() - e.Offset
		if err == nil && (h.Type != frame.Data || h.ID != uint64(v.d.ID) || h.Index != v.index || end > e.Length || h.Last != (final && end == e.Length)) {
			err = frame.ErrNotFrame
		}
		if err == nil {
			err = h.Verify(b[frame.HeaderSize : end-at])
		}
		if err != nil {
			return damage(v.d, here, err)
		}
		v.take(b[:end-at], &h)
		if err := v.pace(int(end - at)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func (v *verification) take(raw []byte, h *frame.Header) {
	if v.clear = v.clear && h.Codec == frame.Plain; v.clear {
		payload := raw[frame.HeaderSize:]
		if left := core.HeadSize - v.plain; left > 0 && left <= int64(len(payload)) {
			_, _ = v.sum.Write(payload[:left]) // hash.Hash never fails
			v.sum.Sum(v.head[:0])
			payload = payload[left:]
		}
		_, _ = v.sum.Write(payload)
	}
	v.index++
	v.plain += int64(h.Plain)
	if v.keep {
		v.raw = append(v.raw, raw...)
		v.heads = append(v.heads, *h)
	}
}

// pacer keeps work at so many bytes per second.
type pacer struct {
	perSecond int64 // 0: as fast as it goes
	last      time.Time
	owed      time.Duration // not slept yet
}

// restMin is the shortest sleep: shorter ones take longer than they should.
const restMin = 10 * time.Millisecond

// wait returns when the next bytes may be read, after n.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.perSecond <= 0 {
		return nil
	}
	now := time.Now()
	if !p.last.IsZero() {
		p.owed = max(0, p.owed-now.Sub(p.last))
	}
	p.last = now
	p.owed += time.Duration(float64(n) / float64(p.perSecond) * float64(time.Second))
	if p.owed < restMin {
		return nil
	}
	timer := time.NewTimer(p.owed)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return core.E("reclaim.pace", core.Canceled, ctx.Err())
	case <-timer.C:
		return nil
	}
}
