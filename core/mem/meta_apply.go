package mem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"orcas/core"
)

// Apply implements core.Meta. Each change is checked completely before its first write.
func (m *Meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.E("mem.Apply", core.Canceled, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, core.E("mem.Apply", core.Unavailable, errors.New("the metadata engine is closed"))
	}
	results := make([]core.Result, len(changes))
	for i, c := range changes {
		results[i] = m.apply(c)
	}
	return results, nil
}

func (m *Meta) apply(c core.Change) core.Result {
	r := core.Result{Seq: c.Stamp()}
	if r.Seq <= m.state.Seq {
		r.Skipped = true
		return r
	}
	free := r.Seq - m.state.Seq
	m.state.Seq = r.Seq // even if the change fails its checks, because a replay would fail them again
	if free < core.SeqCount(c) {
		r.Err = fail(core.InvalidArgument, "the sequences of the change are already in use")
		return r
	}
	switch c := c.(type) {
	case *core.PutBucket:
		r.Err = m.putBucket(c)
	case *core.DeleteBucket:
		r.Err = m.deleteBucket(c)
	case *core.PutObject:
		r.Version, r.Err = m.putObject(c)
	case *core.DeleteObject:
		r.Version, r.Marker, r.Err = m.deleteObject(c)
	case *core.UpdateObject:
		r.Version, r.Err = m.updateObject(c)
	case *core.MoveObject:
		r.Version, r.Err = m.moveObject(c)
	case *core.CreateUpload:
		r.Err = m.createUpload(c)
	case *core.PutPart:
		r.Err = m.putPart(c)
	case *core.CompleteUpload:
		r.Version, r.Err = m.completeUpload(c)
	case *core.AbortUpload:
		r.Err = m.abortUpload(c)
	case *core.PutRecord:
		r.Err = m.putRecord(c)
	case *core.SetReplayFrom:
		m.state.ReplayFrom = c.ReplayFrom
	case *core.Synced:
		c.Apply(&m.state)
	case *core.Void:
	case *core.MoveData:
		r.Err = m.contents.moveData(c)
	case *core.RewrapData:
		r.Err = m.contents.rewrapData(c)
	case *core.FreeGarbage:
		m.contents.freeGarbage(c)
	case *core.DropParts:
		r.Err = m.dropParts(c)
	case *core.Unshare:
		r.Err = m.contents.unshare(c)
	case *core.RepairData:
		r.Err = m.contents.repairData(c)
	default:
		r.Err = fail(core.Unsupported, fmt.Sprintf("a change of type %T is not supported", c))
	}
	m.contents.addGarbage(m.state.Seq)
	return r
}

// fail returns the error of a failed check.
func fail(kind core.Kind, why string) error { return core.E("mem.Apply", kind, errors.New(why)) }

// The functions below return the errors of changes that refer to something missing.
func noBucket(id core.BucketID) error {
	return fail(core.NoSuchBucket, fmt.Sprintf("the bucket with ID %d does not exist", id))
}

func noUpload(id core.UploadID, key string) error {
	return fail(core.NoSuchUpload, fmt.Sprintf("upload %d of key %q", id, key))
}

func noContent(id core.DataID) error { return fail(core.NoSuchData, fmt.Sprintf("content %d", id)) }

func (m *Meta) putBucket(c *core.PutBucket) error {
	id, exists := m.names[c.Info.Name]
	if c.Info.ID == 0 {
		if exists {
			return fail(core.BucketExists, fmt.Sprintf("bucket %q", c.Info.Name))
		}
		if err := c.Info.CheckLocks(false); err != nil {
			return err
		}
		if err := c.Info.Quota.Check(); err != nil {
			return err
		}
		b := &bucket{cloneBucket(c.Info), map[string][]*core.ObjectInfo{}, map[core.UploadID]*core.UploadInfo{}}
		b.info.ID = core.BucketID(c.Seq)
		m.buckets[b.info.ID], m.names[b.info.Name] = b, b.info.ID
		return nil
	}
	if !exists || id != c.Info.ID {
		return fail(core.NoSuchBucket, fmt.Sprintf("bucket %q does not exist", c.Info.Name))
	}
	if err := c.CheckExpect(&m.buckets[id].info); err != nil {
		return err
	}
	if c.Info.Versioning == core.VersioningOff && m.buckets[id].info.Versioning != core.VersioningOff {
		return fail(core.Conflict, "versioning cannot be turned off once it was enabled, only suspended")
	}
	if err := c.Info.CheckLocks(m.buckets[id].info.ObjectLock); err != nil {
		return err
	}
	if err := c.Info.Quota.Check(); err != nil {
		return err
	}
	m.buckets[id].info = cloneBucket(c.Info)
	return nil
}

func (m *Meta) deleteBucket(c *core.DeleteBucket) error {
	b := m.buckets[c.Bucket]
	if b == nil {
		return noBucket(c.Bucket)
	}
	if len(b.versions) > 0 || len(b.uploads) > 0 {
		return fail(core.BucketNotEmpty, fmt.Sprintf("bucket %q", b.info.Name))
	}
	delete(m.buckets, c.Bucket)
	delete(m.names, b.info.Name)
	delete(m.records, core.BucketRecordKind(c.Bucket))
	return nil
}

func (m *Meta) putObject(c *core.PutObject) (core.Version, error) {
	m.sawData(c.Object.Segments)
	switch n := len(c.Object.Segments); {
	case c.Object.Marker:
		return 0, fail(core.InvalidArgument, "PutObject cannot write a delete marker; use DeleteObject")
	case n > core.MaxInlineSegments:
		return 0, fail(core.InvalidArgument, fmt.Sprintf("an object with %d segments: at most %d are allowed", n, core.MaxInlineSegments))
	}
	b := m.buckets[c.Object.Bucket]
	if b == nil {
		return 0, noBucket(c.Object.Bucket)
	}
	if !b.info.ObjectLock && !c.Object.Lock.IsZero() {
		return 0, fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	if err := c.If.Check(b.current(c.Object.Key)); err != nil {
		return 0, err
	}
	if err := m.checkSource(c.Source, c.Object.Segments); err != nil {
		return 0, err
	}
	if err := m.contents.checkSegments(c.Object.Segments); err != nil {
		return 0, err
	}
	if l := m.lists[c.Object.List]; c.Object.List != 0 && (l == nil || l.objects == 0) {
		return 0, fail(core.NoSuchData, fmt.Sprintf("part list %d does not belong to any object", c.Object.List))
	}
	if err := m.admit(b, core.UsageOf(&c.Object).Minus(b.replaced(c.Object.Key))); err != nil {
		return 0, err
	}
	// New references are added before old ones are removed, so that the content is kept if a version replaces its own
	// source.
	m.contents.incRef(c.Object.Segments)
	m.contents.mergeSums(c.Source, c.Object.Segments)
	if c.Object.List != 0 {
		m.lists[c.Object.List].objects++
	}
	o := cloneObject(&c.Object)
	return m.putVersion(b, &o, c.Seq), nil
}

// putVersion makes o the newest version of its key. The references of o have been added.
func (m *Meta) putVersion(b *bucket, o *core.ObjectInfo, seq core.Seq) core.Version {
	o.Seq, o.Latest = seq, false
	o.Null = b.info.Versioning != core.VersioningEnabled
	if o.Null {
		m.dropVersion(b, b.find(o.Key, core.Null))
	}
	b.versions[o.Key] = append(b.versions[o.Key], o)
	return o.Version()
}

// dropVersion deletes a version and its references. It does nothing if o is nil.
func (m *Meta) dropVersion(b *bucket, o *core.ObjectInfo) {
	if o == nil {
		return
	}
	rest := slices.DeleteFunc(b.versions[o.Key], func(x *core.ObjectInfo) bool { return x == o })
	if len(rest) == 0 {
		delete(b.versions, o.Key)
	} else {
		b.versions[o.Key] = rest
	}
	m.contents.decRef(o.Segments)
	if o.List != 0 {
		l := m.lists[o.List]
		l.objects--
		if l.objects == 0 { // its parts and their content are kept until reclaim processes the garbage
			m.contents.addList(m.state.Seq, o.List)
		}
	}
}

func (m *Meta) deleteObject(c *core.DeleteObject) (core.Version, bool, error) {
	b := m.buckets[c.Bucket]
	if b == nil {
		return 0, false, noBucket(c.Bucket)
	}
	if err := c.If.Check(b.current(c.Key)); err != nil {
		return 0, false, err
	}
	if c.Version == core.Current && b.info.Versioning != core.VersioningOff {
		marker := &core.ObjectInfo{Bucket: c.Bucket, Key: c.Key, Marker: true, Modified: c.Modified, Owner: c.Owner}
		return m.putVersion(b, marker, c.Seq), true, nil
	}
	o := b.find(c.Key, c.Version)
	if o == nil {
		return core.Current, false, nil
	}
	if err := o.Lock.CheckDelete(c.Modified, c.Bypass); err != nil {
		return 0, false, err
	}
	m.dropVersion(b, o)
	return o.Version(), o.Marker, nil
}

func (m *Meta) updateObject(c *core.UpdateObject) (core.Version, error) {
	b := m.buckets[c.Bucket]
	if b == nil {
		return 0, noBucket(c.Bucket)
	}
	if len(b.versions[c.Key]) == 0 {
		return 0, fail(core.NoSuchKey, fmt.Sprintf("key %q", c.Key))
	}
	o := b.find(c.Key, c.Version)
	if err := c.Apply(o, b.info.ObjectLock); err != nil {
		return 0, err
	}
	o.Tags = slices.Clone(o.Tags)
	return o.Version(), nil
}

func (m *Meta) createUpload(c *core.CreateUpload) error {
	b := m.buckets[c.Upload.Bucket]
	if b == nil {
		return noBucket(c.Upload.Bucket)
	}
	if !b.info.ObjectLock && !c.Upload.Lock.IsZero() {
		return fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	u := cloneUpload(&c.Upload)
	u.ID = core.UploadID(c.Seq)
	b.uploads[u.ID] = &u
	m.lists[u.ID] = &list{parts: map[int]*core.PartInfo{}}
	return nil
}

func (m *Meta) putPart(c *core.PutPart) error {
	m.sawData(c.Part.Segments)
	if c.Part.Number < 1 || c.Part.Number > maxPart {
		return fail(core.InvalidArgument, fmt.Sprintf("part number %d is not between 1 and %d", c.Part.Number, maxPart))
	}
	if m.upload(c.Bucket, c.Key, c.Upload) == nil {
		return noUpload(c.Upload, c.Key)
	}
	if err := m.checkSource(c.Source, c.Part.Segments); err != nil {
		return err
	}
	if err := m.contents.checkSegments(c.Part.Segments); err != nil {
		return err
	}
	parts := m.lists[c.Upload].parts
	more := core.Usage{Bytes: c.Part.Size}
	if old := parts[c.Part.Number]; old != nil {
		more.Bytes -= old.Size
	}
	if err := m.admit(m.buckets[c.Bucket], more); err != nil {
		return err
	}
	m.contents.incRef(c.Part.Segments)
	m.contents.mergeSums(c.Source, c.Part.Segments)
	if old := parts[c.Part.Number]; old != nil {
		m.contents.decRef(old.Segments)
	}
	p := clonePart(&c.Part)
	p.Seq = c.Seq
	parts[p.Number] = &p
	return nil
}

// maxPart is the highest part number.
const maxPart = 10_000

func (m *Meta) completeUpload(c *core.CompleteUpload) (core.Version, error) {
	if len(c.Parts) == 0 || len(c.Object.Segments) > 0 || c.Object.Marker {
		return 0, fail(core.InvalidArgument, "CompleteUpload requires parts, and an object without segments")
	}
	for i := 1; i < len(c.Parts); i++ {
		if c.Parts[i].Number <= c.Parts[i-1].Number {
			return 0, fail(core.InvalidArgument, "parts are not in ascending order")
		}
	}
	u := m.upload(c.Object.Bucket, c.Object.Key, c.Upload)
	if u == nil {
		return 0, noUpload(c.Upload, c.Object.Key)
	}
	b, l := m.buckets[c.Object.Bucket], m.lists[c.Upload]
	if err := c.If.Check(b.current(c.Object.Key)); err != nil {
		return 0, err
	}
	named := map[int]bool{}
	for _, ref := range c.Parts {
		switch p := l.parts[ref.Number]; {
		case p == nil:
			return 0, fail(core.InvalidPart, fmt.Sprintf("part %d does not exist", ref.Number))
		case p.Seq != ref.Seq:
			return 0, fail(core.Conflict, fmt.Sprintf("part %d was replaced in the meantime", ref.Number))
		}
		named[ref.Number] = true
	}
	if err := m.admit(b, core.UsageOf(&c.Object).Minus(b.replaced(c.Object.Key)).Minus(l.held())); err != nil {
		return 0, err
	}
	for _, number := range slices.Sorted(maps.Keys(l.parts)) {
		if p := l.parts[number]; !named[number] {
			delete(l.parts, number)
			m.contents.decRef(p.Segments)
		}
	}
	delete(b.uploads, c.Upload)
	l.objects = 1
	o := cloneObject(&c.Object)
	o.List = c.Upload
	o.Attrs, o.Tags, o.Lock, o.Owner = u.Attrs, u.Tags, u.Lock, u.Owner
	return m.putVersion(b, &o, c.Seq), nil
}

func (m *Meta) abortUpload(c *core.AbortUpload) error {
	if m.upload(c.Bucket, c.Key, c.Upload) == nil {
		return noUpload(c.Upload, c.Key)
	}
	delete(m.buckets[c.Bucket].uploads, c.Upload)
	if len(m.lists[c.Upload].parts) > 0 {
		m.contents.addList(m.state.Seq, c.Upload)
	} else {
		delete(m.lists, c.Upload)
	}
	return nil
}

func (m *Meta) putRecord(c *core.PutRecord) error {
	kind, key := c.Record.Kind, c.Record.Key
	if c.In != 0 && m.buckets[c.In] == nil {
		return noBucket(c.In)
	}
	value, exists := m.records[kind][key]
	if c.HasExpect && (exists != (len(c.Expect) > 0) || string(value) != string(c.Expect)) {
		return fail(core.Conflict, fmt.Sprintf("record %q of kind %q has changed", key, kind))
	}
	if c.Record.Value == nil {
		delete(m.records[kind], key)
		return nil
	}
	if m.records[kind] == nil {
		m.records[kind] = map[string][]byte{}
	}
	m.records[kind][key] = slices.Clone(c.Record.Value)
	return nil
}

// sawData raises NextData above the DataIDs of the new content of a change, even if the change then fails, because a
// block already has frames with those DataIDs.
func (m *Meta) sawData(segments []core.Segment) {
	for _, s := range segments {
		if s.Info != nil {
			m.state.NextData = max(m.state.NextData, s.Info.ID+1)
		}
	}
}

// checkSource returns Conflict if the source version of a copy no longer exists. For equal content it returns the error
// of core.Source.CheckContent.
func (m *Meta) checkSource(s *core.Source, segments []core.Segment) error {
	if s == nil {
		return nil
	}
	if s.Content != nil {
		var found *core.DataInfo
		if len(segments) > 0 {
			found = m.contents.byID[segments[0].Data]
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
	return fail(core.Conflict, "the source of the copy no longer exists")
}

// dropParts deletes up to Count parts of a list in the garbage. With the last part it deletes the garbage.
func (m *Meta) dropParts(c *core.DropParts) error {
	i := slices.IndexFunc(m.contents.garbage, func(g core.Garbage) bool { return g.ID == c.Garbage && g.List != 0 })
	if i < 0 {
		return fail(core.NoSuchData, fmt.Sprintf("garbage %d is not a list of parts", c.Garbage))
	}
	id := m.contents.garbage[i].List
	parts := m.lists[id].parts
	for _, number := range slices.Sorted(maps.Keys(parts))[:max(0, min(c.Count, len(parts)))] {
		m.contents.decRef(parts[number].Segments)
		delete(parts, number)
	}
	if len(parts) == 0 {
		m.contents.garbage = slices.Delete(m.contents.garbage, i, i+1)
		delete(m.lists, id)
	}
	return nil
}
