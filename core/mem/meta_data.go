package mem

import (
	"cmp"
	"maps"
	"slices"

	"orcas/core"
)

// sawData moves NextData above the content that a change brings, also where the change then fails: frames with that number
// are in a block.
func (m *Meta) sawData(segments []core.Segment) {
	for _, s := range segments {
		if s.Info != nil {
			m.state.NextData = max(m.state.NextData, s.Info.ID+1)
		}
	}
}

// checkSource says Conflict where the version that a copy was computed from is gone, and NoSuchData where equal content is.
func (m *Meta) checkSource(s *core.Source, segments []core.Segment) error {
	if s == nil {
		return nil
	}
	if s.Content != nil {
		var found *core.DataInfo
		if len(segments) > 0 {
			found = m.data[segments[0].Data]
		}
		return s.CheckContent(segments, found)
	}
	if b := m.buckets[s.Bucket]; b != nil {
		for _, o := range b.versions[s.Key] {
			if o.Seq == s.Seq {
				return nil
			}
		}
	}
	return fail(core.Conflict, "the source is gone")
}

// checkSegments says whether all content that segments refer to is there, or is brought by one of them.
func (m *Meta) checkSegments(segments []core.Segment) error {
	brought := map[core.DataID]bool{}
	for _, s := range segments {
		switch known := m.data[s.Data] != nil || brought[s.Data]; {
		case s.Info == nil && !known:
			return fail(core.NoSuchData, "content is gone")
		case s.Info != nil && (known || s.Info.ID != s.Data):
			return fail(core.InvalidArgument, "content is brought twice, or under another number")
		}
		brought[s.Data] = true
	}
	return nil
}

// hold adds a reference for each segment.
func (m *Meta) hold(segments []core.Segment) {
	for _, s := range segments {
		if s.Info != nil {
			info := cloneData(s.Info)
			info.Refs = 0
			m.data[s.Data] = &info
		}
		m.data[s.Data].Refs++
	}
}

// learn keeps with equal content what a change knows of it, after hold.
func (m *Meta) learn(s *core.Source, segments []core.Segment) {
	if s != nil && s.Content != nil {
		added := core.Source{Sums: cloneSums(s.Sums)}
		added.AddSums(m.data[segments[0].Data])
	}
}

// release takes a reference for each segment; content without one becomes garbage.
func (m *Meta) release(segments []core.Segment) {
	for _, s := range segments {
		d := m.data[s.Data]
		d.Refs--
		if d.Refs > 0 {
			continue
		}
		delete(m.data, s.Data)
		m.freed = append(m.freed, d.Extents...)
	}
}

// addGarbage writes what the change in progress let go of.
func (m *Meta) addGarbage() {
	if len(m.freed) > 0 {
		m.insertGarbage(core.Garbage{ID: 2 * uint64(m.state.Seq), Extents: m.freed})
		m.freed = nil
	}
}

// addList writes a list that the change in progress let go of.
func (m *Meta) addList(id core.UploadID) {
	m.insertGarbage(core.Garbage{ID: 2*uint64(m.state.Seq) + 1, List: id})
}

func (m *Meta) insertGarbage(g core.Garbage) {
	m.garbage = append(m.garbage, g)
	slices.SortFunc(m.garbage, func(a, b core.Garbage) int { return cmp.Compare(a.ID, b.ID) })
}

func (m *Meta) moveData(c *core.MoveData) error {
	d := m.data[c.Data]
	if d == nil {
		return fail(core.NoSuchData, "MoveData")
	}
	if err := c.CheckMove(d.Extents); err != nil {
		return err
	}
	m.freed = append(m.freed, d.Extents...)
	d.Extents = slices.Clone(c.To)
	return nil
}

func (m *Meta) rewrapData(c *core.RewrapData) error {
	d := m.data[c.Data]
	if d == nil {
		return fail(core.NoSuchData, "RewrapData")
	}
	if err := c.CheckRewrap(d); err != nil {
		return err
	}
	d.KeyID, d.DataKey = c.KeyID, slices.Clone(c.DataKey)
	return nil
}

func (m *Meta) unshare(c *core.Unshare) error {
	d := m.data[c.Data]
	if d == nil {
		return fail(core.NoSuchData, "Unshare")
	}
	d.Scope = 0
	return nil
}

func (m *Meta) freeGarbage(c *core.FreeGarbage) {
	m.garbage = slices.DeleteFunc(m.garbage, func(g core.Garbage) bool { return g.List == 0 && slices.Contains(c.IDs, g.ID) })
}

func (m *Meta) dropParts(c *core.DropParts) error {
	i := slices.IndexFunc(m.garbage, func(g core.Garbage) bool { return g.ID == c.Garbage && g.List != 0 })
	if i < 0 {
		return fail(core.NoSuchData, "DropParts")
	}
	id := m.garbage[i].List
	parts := m.lists[id].parts
	for _, number := range slices.Sorted(maps.Keys(parts))[:max(0, min(c.Count, len(parts)))] {
		m.release(parts[number].Segments)
		delete(parts, number)
	}
	if len(parts) == 0 {
		m.garbage = slices.Delete(m.garbage, i, i+1)
		delete(m.lists, id)
	}
	return nil
}
