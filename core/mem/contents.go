package mem

import (
	"cmp"
	"fmt"
	"slices"

	"orcas/core"
)

// contents has the stored content with its reference counts, and the garbage.
type contents struct {
	byID    map[core.DataID]*core.DataInfo // content that at least one segment refers to
	freed   []core.Extent                  // extents freed by the change in progress
	garbage []core.Garbage                 // sorted by ID
}

// resolve sets the Info of segments.
func (t *contents) resolve(segments []core.Segment) {
	for i := range segments {
		info := cloneData(t.byID[segments[i].Data])
		segments[i].Info = &info
	}
}

// checkSegments checks that all content that the segments refer to either exists or is new content in one of them.
func (t *contents) checkSegments(segments []core.Segment) error {
	seen := map[core.DataID]bool{}
	for _, s := range segments {
		switch known := t.byID[s.Data] != nil || seen[s.Data]; {
		case s.Info == nil && !known:
			return fail(core.NoSuchData, fmt.Sprintf("content %d no longer exists", s.Data))
		case s.Info != nil && (known || s.Info.ID != s.Data):
			return fail(core.InvalidArgument, fmt.Sprintf("content %d already exists, or its segment refers to another ID", s.Info.ID))
		}
		seen[s.Data] = true
	}
	return nil
}

// incRef adds a reference for each segment and inserts the new content of segments.
func (t *contents) incRef(segments []core.Segment) {
	for _, s := range segments {
		if s.Info != nil {
			info := cloneData(s.Info)
			info.Refs = 0
			t.byID[s.Data] = &info
		}
		t.byID[s.Data].Refs++
	}
}

// mergeSums adds the checksums in a change to the equal content that the change shares. It is called after incRef.
func (t *contents) mergeSums(s *core.Source, segments []core.Segment) {
	if s != nil && s.Content != nil {
		added := core.Source{Sums: cloneSums(s.Sums)}
		added.AddSums(t.byID[segments[0].Data])
	}
}

// decRef removes a reference for each segment. Content without references becomes garbage.
func (t *contents) decRef(segments []core.Segment) {
	for _, s := range segments {
		d := t.byID[s.Data]
		d.Refs--
		if d.Refs > 0 {
			continue
		}
		delete(t.byID, s.Data)
		t.freed = append(t.freed, d.Extents...)
	}
}

// addGarbage records the extents that the change at seq freed.
func (t *contents) addGarbage(seq core.Seq) {
	if len(t.freed) > 0 {
		t.insertGarbage(core.Garbage{ID: 2 * uint64(seq), Extents: t.freed})
		t.freed = nil
	}
}

// addList records the list that the change at seq freed. A change frees at most one list.
func (t *contents) addList(seq core.Seq, id core.UploadID) {
	t.insertGarbage(core.Garbage{ID: 2*uint64(seq) + 1, List: id})
}

func (t *contents) insertGarbage(g core.Garbage) {
	t.garbage = append(t.garbage, g)
	slices.SortFunc(t.garbage, func(a, b core.Garbage) int { return cmp.Compare(a.ID, b.ID) })
}

func (t *contents) moveData(c *core.MoveData) error {
	d := t.byID[c.Data]
	if d == nil {
		return noContent(c.Data)
	}
	if err := c.CheckMove(d.Extents); err != nil {
		return err
	}
	t.freed = append(t.freed, d.Extents...)
	d.Extents, d.Damaged = slices.Clone(c.To), false
	return nil
}

func (t *contents) rewrapData(c *core.RewrapData) error {
	d := t.byID[c.Data]
	if d == nil {
		return noContent(c.Data)
	}
	if err := c.CheckRewrap(d); err != nil {
		return err
	}
	d.KeyID, d.DataKey = c.KeyID, slices.Clone(c.DataKey)
	return nil
}

func (t *contents) unshare(c *core.Unshare) error {
	d := t.byID[c.Data]
	if d == nil {
		return noContent(c.Data)
	}
	d.Damaged = true
	return nil
}

func (t *contents) repairData(c *core.RepairData) error {
	d := t.byID[c.Info.ID]
	if d == nil {
		return noContent(c.Info.ID)
	}
	was, repaired := d.Extents, *c
	info := cloneData(c.Info)
	repaired.Info = &info
	if err := repaired.Repair(d); err != nil {
		return err
	}
	t.freed = append(t.freed, was...)
	return nil
}

func (t *contents) freeGarbage(c *core.FreeGarbage) {
	t.garbage = slices.DeleteFunc(t.garbage, func(g core.Garbage) bool { return g.List == 0 && slices.Contains(c.IDs, g.ID) })
}
