package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// places keeps the table blocks, which has the amount of stored content of each block: every row of data counts, in
// each block that has an extent of it. The changes of a transaction are added up in memory, and written once at its end.
// A rollback clears them.
//
// One more row, whose ID is zero, has the number of all pieces of content, and their plain size.
//
// The table only saves reading all rows of data, so a damaged row does not stop the writer. It is left as it is: Places
// then reads data instead, Verify reports the row, and a repair writes the table again.
type places struct {
	c       *conn
	changed core.BlockContents // what the transaction in progress adds, which may be negative
	buf     []byte             // a buffer for a row checksum
}

// add adds new content.
func (p *places) add(d *core.DataInfo) {
	p.changed.Add(d.Extents)
	addPlain(p.changed, d.Size, 1)
}

// remove is the inverse of add.
func (p *places) remove(d *core.DataInfo) {
	p.changed.Remove(d.Extents)
	addPlain(p.changed, d.Size, -1)
}

// addPlain adds a piece of content to the row of all content, or removes it if sign is -1.
func addPlain(all core.BlockContents, size, sign int64) {
	of := all[core.BlockID{}]
	all[core.BlockID{}] = core.BlockContent{Contents: of.Contents + sign, Bytes: of.Bytes + sign*size}
}

// moved replaces the extents of content.
func (p *places) moved(from, to []core.Extent) {
	if !mutant.Is("move-not-counted") {
		p.changed.Remove(from)
	}
	p.changed.Add(to)
}

// write writes the rows of the blocks that the transaction has changed.
func (p *places) write() error {
	for _, id := range slices.SortedFunc(maps.Keys(p.changed), core.BlockID.Compare) {
		more := p.changed[id]
		if more == (core.BlockContent{}) {
			continue
		}
		row, err := p.c.row(selectBlock, id[:])
		if err != nil {
			return err
		}
		var now core.BlockContent
		if row != nil {
			if now, err = decodeBlock(id, row); err != nil {
				continue
			}
		}
		now.Contents += more.Contents
		now.Bytes += more.Bytes
		if err := p.writeOne(id, now); err != nil {
			return err
		}
	}
	clear(p.changed)
	return nil
}

func (p *places) writeOne(id core.BlockID, now core.BlockContent) (err error) {
	if now == (core.BlockContent{}) {
		_, err = p.c.exec(deleteBlock, id[:])
		return err
	}
	p.buf = blockKey(id, now).appendSum(p.buf[:0])
	_, err = p.c.exec(upsertBlock, id[:], now.Contents, now.Bytes, p.buf)
	return err
}

// decodeBlock decodes the columns contents, bytes and seal of the table blocks.
func decodeBlock(id core.BlockID, cols []driver.Value) (core.BlockContent, error) {
	of := core.BlockContent{Contents: integer(cols[0]), Bytes: integer(cols[1])}
	_, err := blockKey(id, of).checkSum(bytes(cols[2]))
	return of, damaged("block", err)
}

// eachBlockRow calls fn with each row of the table blocks, and the error of a damaged row.
func (c *conn) eachBlockRow(ctx context.Context, fn func(id core.BlockID, of core.BlockContent, err error) error) error {
	return c.scan(ctx, "SELECT id, contents, bytes, seal FROM blocks", func(cols []driver.Value) error {
		var id core.BlockID
		var of core.BlockContent
		var err error
		if n := copy(id[:], bytes(cols[0])); n < len(id) || len(bytes(cols[0])) > len(id) {
			err = damaged("block", fmt.Errorf("the ID %x has not %d bytes", cols[0], len(id)))
		} else {
			of, err = decodeBlock(id, cols[1:])
		}
		return fn(id, of, err)
	})
}

// countBlocks computes the rows of the table blocks from the table data. It skips damaged rows of data, and returns
// their number.
func (c *conn) countBlocks(ctx context.Context) (all core.BlockContents, skipped int, err error) {
	all = core.BlockContents{}
	var extents []core.Extent
	err = c.scan(ctx, "SELECT id, sha256, info FROM data", func(cols []driver.Value) error {
		id := integer(cols[0])
		info, err := dataKey(id, bytes(cols[1])).checkSum(bytes(cols[2]))
		extents = extents[:0]
		var size int64
		if err == nil {
			size, err = encoding.EachBlock(info, func(block core.BlockID, length int64) {
				extents = append(extents, core.Extent{Block: block, Length: length})
			})
		}
		if err != nil {
			skipped++ // Snapshot or Salvage reports it
			return nil
		}
		all.Add(extents)
		addPlain(all, size, 1)
		return nil
	})
	return all, skipped, err
}

// Places implements core.Placer. It reads the table blocks, or the table data if a row of blocks is damaged. Like a
// snapshot, it returns Busy if it has to yield to writes.
func (m *Meta) Places(ctx context.Context, emit func(block core.BlockID, of core.BlockContent) error) (total core.BlockContent, err error) {
	const op = "sqlite.Places"
	err = m.readLong(ctx, op, func(ctx context.Context, c *conn) error {
		var all core.BlockContents
		err := c.snapshot(func() (err error) {
			if all, err = c.blockRows(ctx); !isDamage(err) {
				return err
			}
			all, _, err = c.countBlocks(ctx)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		total = all[core.BlockID{}]
		delete(all, core.BlockID{})
		for id, of := range all {
			if err := emit(id, of); err != nil {
				return err
			}
		}
		return nil
	})
	return total, err
}

// blockRows returns the rows of the table blocks, or Damaged if one is damaged.
func (c *conn) blockRows(ctx context.Context) (core.BlockContents, error) {
	all := core.BlockContents{}
	err := c.eachBlockRow(ctx, func(id core.BlockID, of core.BlockContent, err error) error {
		all[id] = of
		return err
	})
	return all, err
}

// verifyBlocks compares the table blocks with the content.
func (c *conn) verifyBlocks(ctx context.Context, say func(line string)) error {
	found := 0
	report := func(line string) {
		if found++; found <= verifyMax {
			say(line)
		}
	}
	want, skipped, err := c.countBlocks(ctx)
	if err != nil {
		return err
	}
	err = c.eachBlockRow(ctx, func(id core.BlockID, of core.BlockContent, err error) error {
		switch is := want[id]; {
		case err != nil:
			report(fmt.Sprintf("the row of block %v cannot be read: %s", id, core.Text(err)))
		case skipped > 0: // the counts are incomplete
		case of != is:
			report(fmt.Sprintf("the row of block %v has %d pieces of content with %d bytes, but the block has %d with %d bytes",
				id, of.Contents, of.Bytes, is.Contents, is.Bytes))
		}
		delete(want, id)
		return nil
	})
	if err != nil || skipped > 0 {
		return err
	}
	for _, id := range slices.SortedFunc(maps.Keys(want), core.BlockID.Compare) {
		report(fmt.Sprintf("block %v has %d pieces of content, but no row", id, want[id].Contents))
	}
	return nil
}

// createBlocks migrates to schema version 3: it creates the table blocks.
func createBlocks(c *conn) error {
	if err := c.run(`CREATE TABLE blocks (
	id BLOB PRIMARY KEY, contents INTEGER NOT NULL, bytes INTEGER NOT NULL, seal BLOB NOT NULL
) STRICT, WITHOUT ROWID`); err != nil {
		return err
	}
	all, _, err := c.countBlocks(background)
	p := places{c: c, changed: all}
	if err == nil {
		err = p.write()
	}
	return err
}

// addTotal migrates to schema version 7: it adds the row of all content to the table blocks.
func addTotal(c *conn) error {
	all, _, err := c.countBlocks(background)
	if err == nil {
		err = c.run("DELETE FROM blocks")
	}
	p := places{c: c, changed: all}
	if err == nil {
		err = p.write()
	}
	return err
}
