package core

import (
	"encoding/binary"
	"fmt"

	"orcas/internal/mutant"
)

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func (d *decoder) strings() []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.string()
	}
	return list
}

func appendIf(b []byte, p *Precondition) []byte {
	if p.IsZero() {
		return append(b, 0)
	}
	b, f := beginFields(append(b, 1))
	b = appendStrings(appendStrings(b, p.Match), p.NoneMatch)
	b = binary.AppendUvarint(b, uint64(p.Seq))
	if f.next(!p.Modified.IsZero()) {
		b = appendTime(b, p.Modified)
	}
	if f.next(p.HasSize) {
		b = binary.AppendUvarint(b, uint64(p.Size))
	}
	if f.next(p.HasTags) {
		b = appendAttrs(b, p.Tags)
	}
	return f.end(b)
}

func (d *decoder) precondition() (p Precondition) {
	if d.byte() == 1 {
		f := d.fields(3)
		p.Match, p.NoneMatch, p.Seq = d.strings(), d.strings(), Seq(d.uint())
		if f.next() {
			p.Modified = d.time()
		}
		if p.HasSize = f.next(); p.HasSize {
			p.Size = d.int()
		}
		if p.HasTags = f.next(); p.HasTags {
			p.Tags = d.attrs()
		}
	}
	return p
}

func appendSource(b []byte, s *Source) []byte {
	if s == nil {
		return append(b, 0)
	}
	if c := s.Content; c != nil {
		kind := byte(2)
		if c.Head {
			kind = 3 // which fails its check, today and when it is replayed
		}
		b = binary.AppendUvarint(append(b, kind), uint64(c.Scope))
		b = append(binary.AppendUvarint(b, uint64(c.KeyID)), c.SHA256[:]...)
		return AppendSums(binary.AppendUvarint(b, uint64(c.Size)), s.Sums)
	}
	b = appendString(binary.AppendUvarint(append(b, 1), uint64(s.Bucket)), s.Key)
	return binary.AppendUvarint(b, uint64(s.Seq))
}

func (d *decoder) source() *Source {
	switch kind := d.byte(); kind {
	case 0:
		return nil
	case 1:
		return &Source{Bucket: BucketID(d.uint()), Key: d.string(), Seq: Seq(d.uint())}
	case 2, 3:
		c := &ContentKey{Scope: BucketID(d.uint()), KeyID: uint32(d.uint()), Head: kind == 3}
		copy(c.SHA256[:], d.raw(len(c.SHA256)))
		c.Size = d.int()
		return &Source{Content: c, Sums: d.sums()}
	}
	d.fail()
	return nil
}

// appendTarget appends what most changes begin with: bucket and key.
func appendTarget(b []byte, bucket BucketID, key string) []byte {
	return appendString(binary.AppendUvarint(b, uint64(bucket)), key)
}

func (d *decoder) target() (BucketID, string) { return BucketID(d.uint()), d.string() }

func appendChange(b []byte, c Change) []byte {
	switch c := c.(type) {
	case *PutBucket:
		return AppendBucket(appendTarget(b, c.Info.ID, c.Info.Name), &c.Info)
	case *DeleteBucket:
		return binary.AppendUvarint(b, uint64(c.Bucket))
	case *PutObject:
		b = appendTarget(b, c.Object.Bucket, c.Object.Key)
		return appendSource(appendIf(appendObject(b, &c.Object, true), &c.If), c.Source)
	case *DeleteObject:
		b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Version))
		return appendBool(appendString(appendTime(appendIf(b, &c.If), c.Modified), c.Owner), c.Bypass)
	case *UpdateObject:
		return appendUpdate(b, c)
	case *MoveObject:
		return appendMove(b, c)
	case *CreateUpload:
		return AppendUpload(appendTarget(b, c.Upload.Bucket, c.Upload.Key), &c.Upload)
	case *PutPart:
		b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Upload))
		b = appendPart(binary.AppendUvarint(b, uint64(c.Part.Number)), &c.Part, true)
		return appendSource(b, c.Source)
	case *CompleteUpload:
		b = binary.AppendUvarint(appendTarget(b, c.Object.Bucket, c.Object.Key), uint64(c.Upload))
		b = binary.AppendUvarint(b, uint64(len(c.Parts)))
		for _, p := range c.Parts {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Number)), uint64(p.Seq))
		}
		return appendIf(appendObject(b, &c.Object, true), &c.If)
	case *AbortUpload:
		return binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Upload))
	case *PutRecord:
		return appendRecord(b, c)
	case *SetFloor:
		return append(b, c.Floor[:]...)
	case *Synced:
		return appendBool(append(binary.AppendUvarint(b, uint64(c.UpTo)), c.Floor[:]...), c.Relaxed)
	case *Void:
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.From)), uint64(c.To))
	case *MoveData:
		return AppendExtents(AppendExtents(binary.AppendUvarint(b, uint64(c.Data)), c.From), c.To)
	case *RewrapData:
		b = appendString(binary.AppendUvarint(b, uint64(c.Data)), c.From)
		return appendString(binary.AppendUvarint(b, uint64(c.KeyID)), c.DataKey)
	case *FreeGarbage:
		b = binary.AppendUvarint(b, uint64(len(c.IDs)))
		for _, id := range c.IDs {
			b = binary.AppendUvarint(b, id)
		}
		return b
	case *DropParts:
		return binary.AppendUvarint(binary.AppendUvarint(b, c.Garbage), uint64(c.Count))
	case *Unshare:
		return binary.AppendUvarint(b, uint64(c.Data))
	}
	panic(fmt.Sprintf("core: no encoding for %T", c)) // the set is closed: a defect of this file
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendUpdate(b []byte, c *UpdateObject) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Version))
	b = appendTime(b, c.Time)
	f.next(c.SetTags)
	f.next(c.SetRetention)
	f.next(c.SetHold)
	if f.next(len(c.Tags) > 0 && !mutant.Is("no-tags-recorded")) {
		b = appendAttrs(b, c.Tags)
	}
	if f.next(c.Lock != Lock{}) {
		b = appendLock(b, c.Lock)
	}
	f.next(c.Bypass)
	return f.end(b)
}

func (d *decoder) update() *UpdateObject {
	f := d.fields(6)
	c := &UpdateObject{}
	c.Bucket, c.Key = d.target()
	c.Version, c.Time = Version(d.uint()), d.time()
	c.SetTags, c.SetRetention, c.SetHold = f.next(), f.next(), f.next()
	if f.next() {
		c.Tags = d.attrs()
	}
	if f.next() {
		c.Lock = d.lock()
	}
	c.Bypass = f.next()
	return c
}

func appendRecord(b []byte, c *PutRecord) []byte {
	b, f := beginFields(b)
	b = appendString(appendString(b, c.Record.Kind), c.Record.Key)
	if f.next(c.Record.Value != nil) {
		b = appendString(b, c.Record.Value)
	}
	if f.next(c.HasExpect) {
		b = appendString(b, c.Expect)
	}
	return f.end(b)
}

func (d *decoder) record() *PutRecord {
	f := d.fields(2)
	c := &PutRecord{Record: Record{Kind: d.string(), Key: d.string()}}
	if f.next() {
		c.Record.Value = append([]byte{}, d.raw(d.count(1))...)
	}
	if c.HasExpect = f.next(); c.HasExpect {
		c.Expect = d.bytes()
	}
	return c
}

func (d *decoder) change(kind changeKind) Change {
	switch kind {
	case kindPutBucket:
		c := &PutBucket{}
		c.Info.ID, c.Info.Name = d.target()
		d.bucket(&c.Info)
		return c
	case kindDeleteBucket:
		return &DeleteBucket{Bucket: BucketID(d.uint())}
	case kindPutObject:
		c := &PutObject{}
		c.Object.Bucket, c.Object.Key = d.target()
		d.object(&c.Object, true)
		c.If, c.Source = d.precondition(), d.source()
		return c
	case kindDeleteObject:
		c := &DeleteObject{}
		c.Bucket, c.Key = d.target()
		c.Version, c.If, c.Modified, c.Owner = Version(d.uint()), d.precondition(), d.time(), d.string()
		c.Bypass = d.byte() == 1
		return c
	case kindUpdate:
		return d.update()
	case kindMoveObject:
		return d.move()
	case kindCreateUpload:
		c := &CreateUpload{}
		c.Upload.Bucket, c.Upload.Key = d.target()
		d.upload(&c.Upload)
		return c
	case kindPutPart:
		c := &PutPart{}
		c.Bucket, c.Key = d.target()
		c.Upload, c.Part.Number = UploadID(d.uint()), int(d.int())
		d.part(&c.Part, true)
		c.Source = d.source()
		return c
	case kindCompleteUpload:
		return d.complete()
	case kindAbortUpload:
		c := &AbortUpload{}
		c.Bucket, c.Key = d.target()
		c.Upload = UploadID(d.uint())
		return c
	case kindPutRecord:
		return d.record()
	case kindSetFloor:
		c := &SetFloor{}
		copy(c.Floor[:], d.raw(len(c.Floor)))
		return c
	case kindSynced:
		c := &Synced{UpTo: Seq(d.uint())}
		copy(c.Floor[:], d.raw(len(c.Floor)))
		c.Relaxed = d.byte() == 1
		return c
	case kindVoid:
		return &Void{From: Seq(d.uint()), To: Seq(d.uint())}
	case kindMoveData:
		return &MoveData{Data: DataID(d.uint()), From: d.extents(), To: d.extents()}
	case kindRewrapData:
		return &RewrapData{Data: DataID(d.uint()), From: d.bytes(), KeyID: uint32(d.uint()), DataKey: d.bytes()}
	case kindFreeGarbage:
		c := &FreeGarbage{IDs: make([]uint64, d.count(1))}
		for i := range c.IDs {
			c.IDs[i] = d.uint()
		}
		return c
	case kindDropParts:
		return &DropParts{Garbage: d.uint(), Count: int(d.int())}
	case kindUnshare:
		return &Unshare{Data: DataID(d.uint())}
	}
	if d.err == nil {
		d.err = E("core.DecodeChanges", Unsupported, fmt.Errorf("%w: kind %d", errNewerKind, kind))
	}
	return &Void{}
}

func (d *decoder) complete() *CompleteUpload {
	c := &CompleteUpload{}
	c.Object.Bucket, c.Object.Key = d.target()
	c.Upload = UploadID(d.uint())
	c.Parts = make([]PartRef, d.count(2))
	for i := range c.Parts {
		c.Parts[i] = PartRef{int(d.int()), Seq(d.uint())}
	}
	d.object(&c.Object, true)
	c.If = d.precondition()
	return c
}
