package sqlite

import (
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// contents changes the rows of content and their reference counts for the writer, and collects the extents that the
// change in progress frees.
type contents struct {
	c      *conn
	index  *hashIndex
	places places
	tx     *transaction
	shared sharedLately
	freed  []core.Extent // extents freed by the change in progress
	buf    []byte        // a buffer for the encoding of a DataInfo or of extents
}

// sharedLately caches recently shared content, by DataID modulo its length. This saves a statement when the content is
// shared again. An entry is deleted when its row changes, unless only the reference count changes, which is therefore
// out of date here. A rollback deletes all entries.
type sharedLately [256]*core.DataInfo

// maxSharedExtents is the maximum number of extents of cached content.
const maxSharedExtents = 16

func (s *sharedLately) at(id core.DataID) **core.DataInfo { return &s[uint64(id)%uint64(len(s))] }

func (s *sharedLately) forget(id core.DataID) {
	if d := s.at(id); *d != nil && (*d).ID == id {
		*d = nil
	}
}

// check returns an error if the source of a change, or content that its segments refer to, no longer exists. Found is
// the existing equal content that the segments share, or nil.
func (t *contents) check(s *core.Source, segments []core.Segment) (found *core.DataInfo, err error) {
	if s != nil && s.Content != nil { // equal content has exactly one segment
		if len(segments) > 0 {
			if found, err = t.sharedContent(segments[0].Data); err != nil {
				return nil, err
			}
		}
		return found, s.CheckContent(segments, found)
	}
	if err := t.checkSource(s); err != nil {
		return nil, err
	}
	return nil, t.checkSegments(segments)
}

// sharedContent returns the content to share, or nil if there is none with that ID.
func (t *contents) sharedContent(id core.DataID) (*core.DataInfo, error) {
	kept := t.shared.at(id)
	if d := *kept; d != nil && d.ID == id {
		return d, nil
	}
	d, err := t.c.content(id)
	if d != nil && len(d.Extents) <= maxSharedExtents {
		*kept = d
	}
	return d, err
}

// checkSource returns Conflict if the source version of a copy no longer exists.
func (t *contents) checkSource(s *core.Source) error {
	if s == nil {
		return nil
	}
	for _, st := range []statement{sourceInObjects, sourceInHistory} {
		if row, err := t.c.row(st, int64(s.Bucket), blob(s.Key), int64(s.Seq)); err != nil || row != nil {
			return err
		}
	}
	return fail(core.Conflict, "the source of the copy no longer exists")
}

// checkSegments checks that all content that the segments refer to either exists or is new content in one of them.
func (t *contents) checkSegments(segments []core.Segment) error {
	for i := range segments {
		s := &segments[i]
		known := false
		for j := range i {
			known = known || segments[j].Data == s.Data
		}
		if !known {
			row, err := t.c.row(hasData, int64(s.Data))
			if err != nil {
				return err
			}
			known = row != nil
		}
		switch {
		case s.Info == nil && !known:
			return fail(core.NoSuchData, fmt.Sprintf("content %d no longer exists", s.Data))
		case s.Info != nil && (known || s.Info.ID != s.Data):
			return fail(core.InvalidArgument, fmt.Sprintf("content %d already exists, or its segment refers to another ID", s.Info.ID))
		}
	}
	return nil
}

// incRef adds a reference for each segment and inserts the new content of segments. It is called after checkSegments.
// Object is the info of a version whose only segment has new content, or nil.
func (t *contents) incRef(segments []core.Segment, object []byte) error {
	for i := range segments {
		s := &segments[i]
		var err error
		if s.Info == nil {
			t.tx.mark(placeOfData(s.Data))
			_, err = t.c.exec(incDataRef, int64(s.Data))
		} else {
			_, err = t.insert(s.Info, object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeSums adds the checksums in a change to the equal content that the change shares, or does nothing if found is
// nil. It is called after incRef.
func (t *contents) mergeSums(s *core.Source, found *core.DataInfo) error {
	if found == nil || !s.AddSums(found) {
		return nil
	}
	return t.update(found)
}

// update rewrites the info of a row of data.
func (t *contents) update(d *core.DataInfo) error {
	t.shared.forget(d.ID)
	t.tx.mark(placeOfData(d.ID))
	t.encode(d)
	_, err := t.c.exec(updateData, int64(d.ID), t.buf)
	return err
}

// insert writes a row of data with one reference and reports whether its ID was free.
func (t *contents) insert(info *core.DataInfo, object []byte) (bool, error) {
	t.tx.mark(placeOfData(info.ID))
	t.encode(info)
	n, err := t.c.exec(insertData, int64(info.ID), info.SHA256[:], t.buf, object)
	if err != nil || n != 1 {
		return false, err
	}
	t.places.add(info)
	return true, t.index.add(info)
}

// encode sets buf to the column info of content, with its checksum.
func (t *contents) encode(info *core.DataInfo) {
	lean := *info
	lean.SHA256 = [32]byte{} // the SHA-256 has a separate column
	t.buf = dataKey(int64(info.ID), info.SHA256[:]).appendSum(encoding.AppendDataRow(t.buf[:0], &lean))
}

// decRef removes a reference for each segment, and frees content without further references. V is the version being
// deleted, or nil if the segments belong to a part.
func (t *contents) decRef(segments []core.Segment, v *version) error {
	for i := range segments {
		id := segments[i].Data
		t.tx.mark(placeOfData(id))
		isBorn := v != nil && v.born == id
		var info *core.DataInfo
		if isBorn {
			info = v.content
		} else {
			var err error
			if info, err = t.c.content(id); err != nil {
				return err
			}
			if info == nil {
				return damaged("segment", fmt.Errorf("content %d is missing", id))
			}
		}
		n, err := t.c.exec(deleteLastRef, int64(id))
		if err == nil && n == 0 {
			_, err = t.c.exec(decDataRef, int64(id), boolean(isBorn))
		}
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		t.shared.forget(id)
		t.freed = append(t.freed, info.Extents...)
		if !mutant.Is("free-not-counted") {
			t.places.remove(info)
		}
		t.index.remove(info)
	}
	return nil
}

// decListRef removes a reference to a list. A list without references becomes garbage of the change at seq. Its parts
// and their content are kept until reclaim processes the garbage.
func (t *contents) decListRef(seq core.Seq, id core.UploadID) error {
	n, err := t.c.exec(deleteLastListRef, int64(id))
	if err == nil && n == 0 {
		_, err = t.c.exec(decListRef, int64(id))
	} else if err == nil {
		err = t.writeFreedList(seq, id)
	}
	return err
}
