package sqlite

import (
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

func (w *writer) putObject(c *core.PutObject) (core.Version, error) {
	segments := c.Object.Segments
	w.sawData(segments)
	switch {
	case c.Object.Marker:
		return 0, fail(core.InvalidArgument, "PutObject cannot write a delete marker; use DeleteObject")
	case len(segments) > core.MaxInlineSegments:
		return 0, fail(core.InvalidArgument, fmt.Sprintf("an object with %d segments: at most %d are allowed", len(segments), core.MaxInlineSegments))
	}
	b, exists, err := w.bucket(c.Object.Bucket)
	switch {
	case err != nil:
		return 0, err
	case !exists:
		return 0, noBucket(c.Object.Bucket)
	case !b.locks && !c.Object.Lock.IsZero():
		return 0, fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	w.object = c.Object
	o := &w.object
	o.Seq, o.Latest, o.Null = c.Seq, false, b.versioning != core.VersioningEnabled
	if b.versioning != core.VersioningSuspended && len(c.If.Match) == 0 && c.If.Seq == 0 && !c.If.HasTags && b.tally.admit(core.UsageOf(o)) == nil {
		switch done, err := w.putNew(c, o); {
		case err != nil:
			return 0, err
		case done:
			w.tallies.add(o.Bucket, b.tally, core.TallyOf(o, true))
			return o.Version(), nil
		}
	}
	cur, err := w.c.find(o.Bucket, o.Key, core.Current, depthFor(&c.If))
	if err != nil {
		return 0, err
	}
	found, err := w.checkPut(c, cur)
	if err != nil {
		return 0, err
	}
	replaced, err := w.replaced(b, o.Bucket, o.Key, cur)
	if err != nil {
		return 0, err
	}
	if err := b.tally.admit(core.UsageOf(o).Minus(replaced)); err != nil {
		return 0, err
	}
	// New references are added before old ones are deleted, so that the content is kept if a version replaces its own
	// source.
	w.encode(o)
	var born []byte
	if isBorn(o) {
		born = w.infoBuf
	}
	if err := w.contents.incRef(segments, born); err != nil {
		return 0, err
	}
	if err := w.contents.mergeSums(c.Source, found); err != nil {
		return 0, err
	}
	if o.List != 0 {
		if _, err := w.c.exec(incListRef, int64(o.List)); err != nil {
			return 0, err
		}
	}
	return o.Version(), w.putVersion(b, o, cur)
}

// isBorn reports whether o has exactly one segment, with new content. Then its info is stored in the row of that
// content.
func isBorn(o *core.ObjectInfo) bool {
	return o.List == 0 && len(o.Segments) == 1 && o.Segments[0].Info != nil && o.Segments[0].Info.ID == o.Segments[0].Data && o.Segments[0].Data != 0
}

// encode sets infoBuf to the info of o, with its checksum.
func (w *writer) encode(o *core.ObjectInfo) {
	data := int64(0)
	if isBorn(o) {
		data = int64(o.Segments[0].Data)
	}
	w.infoBuf = versionKey(int64(o.Bucket), o.Key, int64(o.Seq), data).appendSum(encoding.AppendObject(w.infoBuf[:0], o, core.DataID(data)))
}

// putNew writes the current version of a key that has none, and reports whether it did so. A delete marker, which is in
// history, makes no difference. But the caller does not use putNew if versioning is suspended, because a null marker
// would have to be replaced. Nearly all writes take this path. New content needs two statements and no lookup; shared
// content needs three, and a lookup unless it was shared recently.
func (w *writer) putNew(c *core.PutObject, o *core.ObjectInfo) (done bool, err error) {
	shared := c.Source != nil && c.Source.Content != nil && o.List == 0
	if !shared && (c.Source != nil || !isBorn(o)) {
		return false, nil
	}
	var born core.DataID
	if !shared {
		born = o.Segments[0].Data
	}
	bucket, key := int64(o.Bucket), blob(o.Key)
	n, err := w.c.exec(insertObject, bucket, key, int64(o.Seq), boolean(o.Null), bornWith(born), w.brief(o, born))
	if err != nil || n == 0 {
		return false, err
	}
	w.encode(o)
	if shared {
		err = w.shareNew(c, o)
	} else if free, insertErr := w.contents.insert(o.Segments[0].Info, w.infoBuf); insertErr != nil {
		err = insertErr
	} else if !free {
		err = fail(core.InvalidArgument, fmt.Sprintf("content %d already exists", born))
	}
	if _, failed := err.(*core.Error); failed { // any other error ends the transaction
		if _, undoErr := w.c.exec(deleteObject, bucket, key); undoErr != nil {
			err = undoErr
		}
	}
	return true, err
}

// shareNew adds a reference to the existing content of o, and writes the info of o, which is in infoBuf.
func (w *writer) shareNew(c *core.PutObject, o *core.ObjectInfo) error {
	found, err := w.contents.check(c.Source, o.Segments)
	if err != nil {
		return err
	}
	if err := w.contents.incRef(o.Segments, nil); err != nil {
		return err
	}
	if _, err := w.c.exec(insertInfo, int64(o.Seq), w.infoBuf); err != nil {
		return err
	}
	return w.contents.mergeSums(c.Source, found)
}

// checkPut performs the checks of a PutObject that need the database. It returns the result of contents.check.
func (w *writer) checkPut(c *core.PutObject, cur *version) (found *core.DataInfo, err error) {
	if err := c.If.Check(infoOf(cur)); err != nil && !mutant.Is("no-condition") {
		return nil, err
	}
	if found, err = w.contents.check(c.Source, c.Object.Segments); err != nil {
		return nil, err
	}
	if c.Object.List != 0 {
		row, err := w.c.row(hasList, int64(c.Object.List))
		if err != nil {
			return nil, err
		}
		if row == nil {
			return nil, fail(core.NoSuchData, fmt.Sprintf("part list %d does not belong to any object", c.Object.List))
		}
	}
	return found, nil
}

// depthFor returns the depth at which the current version must be read for a precondition.
func depthFor(p *core.Precondition) depth {
	if p.IsZero() {
		return bare
	}
	return full
}

func infoOf(v *version) *core.ObjectInfo {
	if v == nil {
		return nil
	}
	return &v.ObjectInfo
}

// putVersion makes o the newest version of its key, in place of cur. The references of o have been added, and its
// encoding is in infoBuf.
func (w *writer) putVersion(b bucketState, o *core.ObjectInfo, cur *version) error {
	var born core.DataID
	if isBorn(o) {
		born = o.Segments[0].Data
	} else if _, err := w.c.exec(insertInfo, int64(o.Seq), w.infoBuf); err != nil {
		return err
	}
	if err := w.makeRoom(b, o, cur); err != nil {
		return err
	}
	w.tallies.add(o.Bucket, b.tally, core.TallyOf(o, true))
	bucket, key := int64(o.Bucket), blob(o.Key)
	if !o.Marker {
		_, err := w.c.exec(upsertObject, bucket, key, int64(o.Seq), boolean(o.Null), bornWith(born), w.brief(o, born))
		return err
	}
	if cur != nil && !cur.old {
		if _, err := w.c.exec(deleteObject, bucket, key); err != nil {
			return err
		}
	}
	_, err := w.c.exec(insertHistory, bucket, key, int64(o.Seq), boolean(o.Null), bornWith(born))
	return err
}

// makeRoom prepares the tables for o, which replaces the row of cur in objects. If o is a null version, the old null
// version is deleted. If cur is kept, its row is copied to history.
func (w *writer) makeRoom(b bucketState, o *core.ObjectInfo, cur *version) error {
	if cur == nil {
		return nil
	}
	replaced := cur
	if o.Null && !cur.Null && b.versioning != core.VersioningOff {
		null, err := w.c.load(selectNull, bare, o.Bucket, o.Key, 0)
		if err != nil {
			return err
		}
		replaced = null
	}
	if o.Null && replaced != nil {
		if err := w.drop(b, replaced); err != nil {
			return err
		}
	}
	if cur.old || o.Null && replaced == cur || mutant.Is("no-history") {
		return nil
	}
	return w.toHistory(b, cur)
}

// toHistory copies the row of a version from objects to history.
func (w *writer) toHistory(b bucketState, v *version) error {
	if !mutant.Is("noncurrent-not-counted") {
		w.tallies.move(b.tally, v, false)
	}
	_, err := w.c.exec(insertHistory, int64(v.Bucket), blob(v.Key), int64(v.Seq), boolean(v.Null), bornWith(v.born))
	return err
}

// drop deletes the references of a version and its row in history. The caller deletes or replaces a row in objects.
func (w *writer) drop(b bucketState, v *version) error {
	w.tallies.add(v.Bucket, b.tally, core.Tally{}.Minus(core.TallyOf(&v.ObjectInfo, !v.old)))
	if v.born == 0 {
		if _, err := w.c.exec(deleteInfo, int64(v.Seq)); err != nil {
			return err
		}
	}
	if err := w.contents.decRef(v.Segments, v); err != nil {
		return err
	}
	if v.List != 0 {
		if err := w.contents.decListRef(w.state.Seq, v.List); err != nil {
			return err
		}
	}
	if !v.old {
		return nil
	}
	_, err := w.c.exec(deleteHistory, int64(v.Bucket), blob(v.Key), int64(v.Seq))
	return err
}

func (w *writer) deleteObject(c *core.DeleteObject) (core.Version, bool, error) {
	b, exists, err := w.bucket(c.Bucket)
	if err != nil {
		return 0, false, err
	}
	if !exists {
		return 0, false, noBucket(c.Bucket)
	}
	cur, err := w.c.find(c.Bucket, c.Key, core.Current, depthFor(&c.If))
	if err != nil {
		return 0, false, err
	}
	if err := c.If.Check(infoOf(cur)); err != nil {
		return 0, false, err
	}
	if c.Version == core.Current && b.versioning != core.VersioningOff {
		o := &core.ObjectInfo{
			Bucket: c.Bucket, Key: c.Key, Seq: c.Seq, Marker: true, Null: b.versioning == core.VersioningSuspended,
			Modified: c.Modified, Owner: c.Owner,
		}
		w.encode(o)
		return o.Version(), true, w.putVersion(b, o, cur)
	}
	v := cur
	if c.Version != core.Current {
		d := bare
		if b.locks {
			d = full
		}
		if v, err = w.c.find(c.Bucket, c.Key, c.Version, d); err != nil {
			return 0, false, err
		}
	}
	if v == nil {
		return core.Current, false, nil
	}
	if b.locks {
		if err := v.Lock.CheckDelete(c.Modified, c.Bypass); err != nil {
			return 0, false, err
		}
	}
	return v.Version(), v.Marker, w.remove(b, v, v.Seq == cur.Seq)
}

// updateObject rewrites the info of a version in place.
func (w *writer) updateObject(c *core.UpdateObject) (core.Version, error) {
	b, exists, err := w.bucket(c.Bucket)
	if err != nil {
		return 0, err
	}
	if !exists {
		return 0, noBucket(c.Bucket)
	}
	v, err := w.c.find(c.Bucket, c.Key, c.Version, full)
	if err != nil {
		return 0, err
	}
	if v == nil && c.Version != core.Current {
		cur, err := w.c.find(c.Bucket, c.Key, core.Current, bare)
		if err != nil {
			return 0, err
		}
		if cur == nil {
			return 0, fail(core.NoSuchKey, fmt.Sprintf("key %q", c.Key))
		}
	}
	if err := c.Apply(infoOf(v), b.locks); err != nil {
		return 0, err
	}
	w.infoBuf = versionKey(int64(v.Bucket), v.Key, int64(v.Seq), int64(v.born)).appendSum(encoding.AppendObject(w.infoBuf[:0], &v.ObjectInfo, v.born))
	if v.born != 0 {
		_, err = w.c.exec(updateBorn, int64(v.born), w.infoBuf)
	} else {
		_, err = w.c.exec(updateInfo, int64(v.Seq), w.infoBuf)
	}
	return v.Version(), err
}

// remove deletes a version permanently. If it was the current one, the newest version in history replaces it.
func (w *writer) remove(b bucketState, v *version, wasCurrent bool) error {
	if err := w.drop(b, v); err != nil {
		return err
	}
	if !v.old {
		if _, err := w.c.exec(deleteObject, int64(v.Bucket), blob(v.Key)); err != nil {
			return err
		}
	}
	if !wasCurrent || b.versioning == core.VersioningOff {
		return nil
	}
	next, err := w.c.load(selectNewest, full, v.Bucket, v.Key, 0)
	isWhole := err == nil
	if isDamage(err) { // the deletion needs less of it
		next, err = w.c.load(selectNewest, bare, v.Bucket, v.Key, 0)
	}
	if err != nil || next == nil || next.Marker {
		return err
	}
	w.tallies.move(b.tally, next, true)
	bucket, key := int64(next.Bucket), blob(next.Key)
	if _, err := w.c.exec(deleteHistory, bucket, key, int64(next.Seq)); err != nil {
		return err
	}
	n, err := w.c.exec(insertObject, bucket, key, int64(next.Seq), boolean(next.Null), bornWith(next.born), w.briefAgain(next, v, isWhole))
	if err == nil && n == 0 {
		err = damaged("objects", errors.New("the key has two current versions"))
	}
	return err
}
