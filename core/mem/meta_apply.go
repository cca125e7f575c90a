package mem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"orcas/core"
)

// Apply implements core.Meta. Each change makes all of its checks before its first write.
func (m *Meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.E("mem.Apply", core.Canceled, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, core.E("mem.Apply", core.Unavailable, errors.New("closed"))
	}
	results := make([]core.Result, len(changes))
	for i, c := range changes {
		results[i] = m.apply(c)
	}
	return results, nil
}

func (m *Meta) apply(c core.Change) core.Result {
	r := core.Result{Seq: c.Place().Seq}
	if r.Seq <= m.state.Seq {
		r.Skipped = true
		return r
	}
	free := r.Seq - m.state.Seq
	m.state.Seq = r.Seq // whether or not it passes its checks: a replay of it would fail them again
	if free < core.Places(c) {
		r.Err = fail(core.InvalidArgument, "the change's places are taken")
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
	case *core.SetFloor:
		m.state.Floor = c.Floor
	case *core.Synced:
		c.Apply(&m.state)
	case *core.Void:
	case *core.MoveData:
		r.Err = m.moveData(c)
	case *core.RewrapData:
		r.Err = m.rewrapData(c)
	case *core.FreeGarbage:
		m.freeGarbage(c)
	case *core.DropParts:
		r.Err = m.dropParts(c)
	case *core.Unshare:
		r.Err = m.unshare(c)
	default:
		r.Err = fail(core.Unsupported, fmt.Sprintf("change %T", c))
	}
	m.addGarbage()
	return r
}

// fail is the error of a check.
func fail(kind core.Kind, why string) error { return core.E("mem.Apply", kind, errors.New(why)) }

func (m *Meta) putBucket(c *core.PutBucket) error {
	id, exists := m.names[c.Info.Name]
	if c.Info.ID == 0 {
		if exists {
			return fail(core.BucketExists, c.Info.Name)
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
		return fail(core.NoSuchBucket, c.Info.Name)
	}
	if c.Info.Versioning == core.VersioningOff && m.buckets[id].info.Versioning != core.VersioningOff {
		return fail(core.Conflict, "versioning is never off again")
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
		return fail(core.NoSuchBucket, "by number")
	}
	if len(b.versions) > 0 || len(b.uploads) > 0 {
		return fail(core.BucketNotEmpty, b.info.Name)
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
		return 0, fail(core.InvalidArgument, "a delete marker is written by DeleteObject")
	case n > core.MaxInlineSegments:
		return 0, fail(core.InvalidArgument, "too many segments")
	}
	b := m.buckets[c.Object.Bucket]
	if b == nil {
		return 0, fail(core.NoSuchBucket, "by number")
	}
	if !b.info.ObjectLock && !c.Object.Lock.IsZero() {
		return 0, fail(core.BucketState, "the bucket has no object lock")
	}
	if err := c.If.Check(b.current(c.Object.Key)); err != nil {
		return 0, err
	}
	if err := m.checkSource(c.Source, c.Object.Segments); err != nil {
		return 0, err
	}
	if err := m.checkSegments(c.Object.Segments); err != nil {
		return 0, err
	}
	if l := m.lists[c.Object.List]; c.Object.List != 0 && (l == nil || l.objects == 0) {
		return 0, fail(core.NoSuchData, "the list is no object's")
	}
	if err := m.admit(b, core.UsageOf(&c.Object).Minus(b.replaced(c.Object.Key))); err != nil {
		return 0, err
	}
	// The new references come first: where a version takes the place of its own source, the content stays.
	m.hold(c.Object.Segments)
	m.learn(c.Source, c.Object.Segments)
	if c.Object.List != 0 {
		m.lists[c.Object.List].objects++
	}
	o := cloneObject(&c.Object)
	return m.putVersion(b, &o, c.Seq), nil
}

// putVersion makes o, whose content is held already, the newest version of its key.
func (m *Meta) putVersion(b *bucket, o *core.ObjectInfo, seq core.Seq) core.Version {
	o.Seq, o.Latest = seq, false
	o.Null = b.info.Versioning != core.VersioningEnabled
	if o.Null {
		m.dropVersion(b, b.find(o.Key, core.Null))
	}
	b.versions[o.Key] = append(b.versions[o.Key], o)
	return o.Version()
}

// dropVersion takes a version away and lets go of its content; nil is no version.
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
	m.release(o.Segments)
	if o.List != 0 {
		l := m.lists[o.List]
		l.objects--
		if l.objects == 0 { // its parts and their content stay until reclaim works the entry off
			m.addList(o.List)
		}
	}
}

func (m *Meta) deleteObject(c *core.DeleteObject) (core.Version, bool, error) {
	b := m.buckets[c.Bucket]
	if b == nil {
		return 0, false, fail(core.NoSuchBucket, "by number")
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
		return 0, fail(core.NoSuchBucket, "by number")
	}
	if len(b.versions[c.Key]) == 0 {
		return 0, fail(core.NoSuchKey, "UpdateObject")
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
		return fail(core.NoSuchBucket, "by number")
	}
	if !b.info.ObjectLock && !c.Upload.Lock.IsZero() {
		return fail(core.BucketState, "the bucket has no object lock")
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
		return fail(core.InvalidArgument, "part number")
	}
	if m.upload(c.Bucket, c.Key, c.Upload) == nil {
		return fail(core.NoSuchUpload, "PutPart")
	}
	if err := m.checkSource(c.Source, c.Part.Segments); err != nil {
		return err
	}
	if err := m.checkSegments(c.Part.Segments); err != nil {
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
	m.hold(c.Part.Segments)
	m.learn(c.Source, c.Part.Segments)
	if old := parts[c.Part.Number]; old != nil {
		m.release(old.Segments)
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
		return 0, fail(core.InvalidArgument, "no parts, or an object with content of its own")
	}
	for i := 1; i < len(c.Parts); i++ {
		if c.Parts[i].Number <= c.Parts[i-1].Number {
			return 0, fail(core.InvalidArgument, "parts are not in ascending order")
		}
	}
	u := m.upload(c.Object.Bucket, c.Object.Key, c.Upload)
	if u == nil {
		return 0, fail(core.NoSuchUpload, "CompleteUpload")
	}
	b, l := m.buckets[c.Object.Bucket], m.lists[c.Upload]
	if err := c.If.Check(b.current(c.Object.Key)); err != nil {
		return 0, err
	}
	named := map[int]bool{}
	for _, ref := range c.Parts {
		switch p := l.parts[ref.Number]; {
		case p == nil:
			return 0, fail(core.InvalidPart, fmt.Sprint("part ", ref.Number))
		case p.Seq != ref.Seq:
			return 0, fail(core.Conflict, fmt.Sprint("part ", ref.Number, " was replaced"))
		}
		named[ref.Number] = true
	}
	if err := m.admit(b, core.UsageOf(&c.Object).Minus(b.replaced(c.Object.Key)).Minus(l.held())); err != nil {
		return 0, err
	}
	for _, number := range slices.Sorted(maps.Keys(l.parts)) {
		if p := l.parts[number]; !named[number] {
			delete(l.parts, number)
			m.release(p.Segments)
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
		return fail(core.NoSuchUpload, "AbortUpload")
	}
	delete(m.buckets[c.Bucket].uploads, c.Upload)
	if len(m.lists[c.Upload].parts) > 0 {
		m.addList(c.Upload)
	} else {
		delete(m.lists, c.Upload)
	}
	return nil
}

func (m *Meta) putRecord(c *core.PutRecord) error {
	kind, key := c.Record.Kind, c.Record.Key
	value, exists := m.records[kind][key]
	if c.HasExpect && (exists != (len(c.Expect) > 0) || string(value) != string(c.Expect)) {
		return fail(core.Conflict, "the record is not what was expected")
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
