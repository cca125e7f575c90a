package sqlite

import (
	"errors"

	"orcas/core"
)

// letGo takes a reference for each segment away; what has none any more is freed. V is the version that goes, or nil where
// the segments are a part's.
func (w *writer) letGo(segments []core.Segment, v *version) error {
	for i := range segments {
		id := segments[i].Data
		isBorn := v != nil && v.born == id
		var info *core.DataInfo
		if isBorn {
			info = v.content
		} else {
			var err error
			if info, err = w.c.content(id); err != nil {
				return err
			}
			if info == nil {
				return damaged("segment", errors.New("its content is not there"))
			}
		}
		n, err := w.c.exec(dropData, int64(id))
		if err == nil && n == 0 {
			_, err = w.c.exec(releaseData, int64(id), boolean(isBorn))
		}
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		w.shared.forget(id)
		w.freed = append(w.freed, info.Extents...)
		if err := w.unfindable(info); err != nil {
			return err
		}
	}
	return nil
}

// letGoOfList takes a reference to a list away; one without any is garbage. Its parts and their content stay until reclaim
// works the entry off.
func (w *writer) letGoOfList(id core.UploadID) error {
	n, err := w.c.exec(dropList, int64(id))
	if err == nil && n == 0 {
		_, err = w.c.exec(releaseList, int64(id))
	} else if err == nil {
		err = w.writeFreedList(id)
	}
	return err
}

// writeFreed writes the extents that the change let go of.
func (w *writer) writeFreed() error {
	if len(w.freed) == 0 {
		return nil
	}
	return w.insertGarbage(int64(w.state.Seq)*2, 0, w.freed)
}

// writeFreedList writes the list that the change let go of; a change lets go of one at most.
func (w *writer) writeFreedList(id core.UploadID) error {
	return w.insertGarbage(int64(w.state.Seq)*2+1, int64(id), nil)
}

func (w *writer) insertGarbage(id, list int64, extents []core.Extent) error {
	w.dataBuf = placeOfGarbage(id, list).seal(core.AppendExtents(w.dataBuf[:0], extents))
	_, err := w.c.exec(insertGarbage, id, list, w.dataBuf)
	return err
}

// moveData makes content stand elsewhere.
func (w *writer) moveData(c *core.MoveData) error {
	d, err := w.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return fail(core.NoSuchData, "MoveData")
	}
	if err := c.CheckMove(d.Extents); err != nil {
		return err
	}
	w.freed = append(w.freed, d.Extents...)
	d.Extents = c.To
	return w.updateData(d)
}

// rewrapData gives content another wrapping of its data key.
func (w *writer) rewrapData(c *core.RewrapData) error {
	d, err := w.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return fail(core.NoSuchData, "RewrapData")
	}
	if err := c.CheckRewrap(d); err != nil {
		return err
	}
	d.KeyID, d.DataKey = c.KeyID, c.DataKey
	return w.updateData(d)
}

// unshare makes content that which nothing new is equal to.
func (w *writer) unshare(c *core.Unshare) error {
	d, err := w.c.content(c.Data)
	if err != nil {
		return err
	}
	if d == nil {
		return fail(core.NoSuchData, "Unshare")
	}
	if err := w.unfindable(d); err != nil {
		return err
	}
	d.Scope = 0
	return w.updateData(d)
}

// freeGarbage forgets garbage that is gone.
func (w *writer) freeGarbage(c *core.FreeGarbage) error {
	for _, id := range c.IDs {
		if _, err := w.c.exec(deleteGarbage, int64(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropParts lets go of some of the parts of a list in the garbage.
func (w *writer) dropParts(c *core.DropParts) error {
	row, err := w.c.row(selectGarbageList, int64(c.Garbage))
	if err != nil {
		return err
	}
	if row == nil {
		return fail(core.NoSuchData, "DropParts")
	}
	id := integer(row[0])
	parts, err := w.c.parts(core.UploadID(id), 0, max(c.Count, 0))
	if err != nil {
		return err
	}
	for i := range parts {
		if _, err := w.c.exec(deletePart, id, int64(parts[i].Number)); err != nil {
			return err
		}
		if err := w.letGo(parts[i].Segments, nil); err != nil {
			return err
		}
	}
	if row, err = w.c.row(anyPart, id); err != nil || row != nil {
		return err
	}
	_, err = w.c.exec(deleteGarbageList, int64(c.Garbage))
	return err
}
