package sqlite

import (
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
)

// writeFreed records the extents that the change at seq freed.
func (t *contents) writeFreed(seq core.Seq) error {
	if len(t.freed) == 0 {
		return nil
	}
	return t.insertGarbage(int64(seq)*2, 0, t.freed)
}

// writeFreedList records the list that the change at seq freed. A change frees at most one list.
func (t *contents) writeFreedList(seq core.Seq, id core.UploadID) error {
	return t.insertGarbage(int64(seq)*2+1, int64(id), nil)
}

func (t *contents) insertGarbage(id, list int64, extents []core.Extent) error {
	t.buf = garbageKey(id, list).appendSum(encoding.AppendExtents(t.buf[:0], extents))
	_, err := t.c.exec(insertGarbage, id, list, t.buf)
	return err
}

// noContent returns the error of a change that refers to missing content.
func noContent(id core.DataID) error {
	return fail(core.NoSuchData, fmt.Sprintf("content %d", id))
}

// moveData replaces the extents of content and clears its mark of damage.
func (t *contents) moveData(c *core.MoveData) error {
	d, err := t.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return noContent(c.Data)
	}
	if err := c.CheckMove(d.Extents); err != nil {
		return err
	}
	t.freed = append(t.freed, d.Extents...)
	t.places.moved(d.Extents, c.To)
	d.Extents, d.Damaged = c.To, false
	return t.update(d)
}

// rewrapData replaces the wrapped data key of content.
func (t *contents) rewrapData(c *core.RewrapData) error {
	d, err := t.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return noContent(c.Data)
	}
	if err := c.CheckRewrap(d); err != nil {
		return err
	}
	d.KeyID, d.DataKey = c.KeyID, c.DataKey
	return t.update(d)
}

// unshare marks content as damaged. FindData still finds it, so that it can be repaired, but GuessData no longer
// returns it.
func (t *contents) unshare(c *core.Unshare) error {
	d, err := t.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return noContent(c.Data)
	}
	if d.Damaged {
		return nil
	}
	t.index.guesses.forget(d.Hash(), d.ID)
	d.Damaged = true
	return t.update(d)
}

// repairData replaces damaged content with an intact copy.
func (t *contents) repairData(c *core.RepairData) error {
	d, err := t.c.content(c.Info.ID)
	if err != nil {
		return err
	}
	if d == nil {
		return noContent(c.Info.ID)
	}
	was := d.Extents
	if err := c.Repair(d); err != nil {
		return err
	}
	t.freed = append(t.freed, was...)
	t.places.moved(was, d.Extents)
	if d.Scope != 0 {
		t.index.guesses.set(d.Hash(), d.ID, d.KeyID)
	}
	return t.update(d)
}

// freeGarbage deletes the rows of garbage whose space has been reclaimed.
func (t *contents) freeGarbage(c *core.FreeGarbage) error {
	for _, id := range c.IDs {
		if _, err := t.c.exec(deleteGarbage, int64(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropParts deletes up to Count parts of a list in the garbage. With the last part it deletes the row of the garbage.
func (t *contents) dropParts(c *core.DropParts) error {
	row, err := t.c.row(selectGarbageList, int64(c.Garbage))
	if err != nil {
		return err
	}
	if row == nil {
		return fail(core.NoSuchData, fmt.Sprintf("garbage %d is not a list of parts", c.Garbage))
	}
	id := integer(row[0])
	parts, err := t.c.parts(core.UploadID(id), 0, max(c.Count, 0), core.WithoutContent)
	if err != nil {
		return err
	}
	for i := range parts {
		if _, err := t.c.exec(deletePart, id, int64(parts[i].Number)); err != nil {
			return err
		}
		if err := t.decRef(parts[i].Segments, nil); err != nil {
			return err
		}
	}
	if row, err = t.c.row(anyPart, id); err != nil || row != nil {
		return err
	}
	_, err = t.c.exec(deleteGarbageList, int64(c.Garbage))
	return err
}
