package fsck

import (
	"fmt"

	"orcas/core"
	"orcas/core/snapshot"
	"orcas/core/verify"
)

// readContents reads all live content, in the order of its position in the blocks.
func (c *check) readContents() error {
	if !c.o.Content {
		return nil
	}
	ids := make([]core.DataID, 0, dataTogether)
	for i := range c.extents {
		if c.extents[i].first {
			ids = append(ids, core.DataID(c.extents[i].owner))
		}
		if len(ids) == dataTogether || i == len(c.extents)-1 {
			if err := c.readSome(ids); err != nil {
				return err
			}
			ids = ids[:0]
		}
	}
	return c.readSnapshots()
}

func (c *check) readSome(ids []core.DataID) error {
	if len(ids) == 0 {
		return nil
	}
	infos, err := c.meta.Data(c.ctx, ids)
	if err != nil {
		return err
	}
	for i := range infos {
		d := &infos[i]
		now, err := verify.Live(c.ctx, c.meta, c.blocks, d, func(n int) error {
			c.report.BytesRead += int64(n)
			c.o.Progress("content", c.report.BytesRead, c.report.LiveBytes)
			return nil
		})
		switch {
		case err == nil, core.Is(err, core.NoSuchData): // missing blocks have already been reported
		case core.Is(err, core.Canceled):
			return err
		case c.ctx.Err() != nil:
			return core.E("fsck.Check", core.Canceled, c.ctx.Err())
		default:
			c.differAbout(now.ID, KindContent, now.Size, "%v", err)
		}
	}
	return nil
}

// readSnapshots reads the snapshots of the metadata. A snapshot without an end is not a difference: a crash may have
// cut it off, or it may still be being written. A delta without its predecessor is useless.
func (c *check) readSnapshots() error {
	list, err := snapshot.List(c.ctx, c.blocks)
	if err != nil {
		return err
	}
	listed := map[core.BlockID]bool{}
	for i := range list {
		for _, id := range list[i].Blocks() {
			listed[id] = true
		}
	}
	for i := range c.table {
		n := &c.table[i]
		if n.kind != core.Snapshot {
			continue
		}
		found, err := verify.Block(c.ctx, c.blocks, n.id, n.size, verify.Unpaced)
		if core.Is(err, core.NoSuchData) {
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range found.Damaged {
			c.differ(Difference{Kind: KindSnapshot, Where: "block " + n.id.String(), Bytes: s.To - s.From,
				Text: fmt.Sprintf("%d bytes at offset %d are damaged", s.To-s.From, s.From)})
		}
		if !found.Ended {
			c.note("the snapshot in block %v is incomplete", n.id)
		} else if len(found.Damaged) == 0 && !listed[n.id] {
			c.differ(Difference{Kind: KindSnapshot, Where: "block " + n.id.String(), Bytes: n.size,
				Text: "the part of the snapshot before this block is missing or damaged"})
		}
	}
	return nil
}
