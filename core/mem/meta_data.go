package mem

import "orcas/core"

// sawData moves NextData above the content that a change brings, also where the change then fails: frames with that number
// are in a block.
func (m *Meta) sawData(segments []core.Segment) {
	for _, s := range segments {
		if s.Info != nil {
			m.state.NextData = max(m.state.NextData, s.Info.ID+1)
		}
	}
}

// checkSource says Conflict where the version that a copy was computed from is gone.
func (m *Meta) checkSource(s *core.Source) error {
	if s == nil {
		return nil
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

// release takes a reference for each segment; content without one becomes garbage.
func (m *Meta) release(segments []core.Segment) {
	for _, s := range segments {
		d := m.data[s.Data]
		d.Refs--
		if d.Refs > 0 {
			continue
		}
		delete(m.data, s.Data)
		if len(d.Extents) > 0 {
			m.addGarbage(core.Garbage{Extents: d.Extents})
		}
	}
}

func (m *Meta) addGarbage(g core.Garbage) {
	m.lastGarbage++
	g.ID = m.lastGarbage
	m.garbage = append(m.garbage, g)
}
