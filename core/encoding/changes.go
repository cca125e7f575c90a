package encoding

import (
	"encoding/binary"
	"fmt"

	"orcas/core"
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

func appendIf(b []byte, p *core.Precondition) []byte {
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

func (d *decoder) precondition() (p core.Precondition) {
	if d.byte() == 1 {
		f := d.fields(3)
		p.Match, p.NoneMatch, p.Seq = d.strings(), d.strings(), core.Seq(d.uint())
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

func appendSource(b []byte, s *core.Source) []byte {
	if s == nil {
		return append(b, 0)
	}
	if c := s.Content; c != nil {
		kind := byte(2)
		if c.Head {
			kind = 3 // it fails its check in Apply, even during a replay
		}
		b = binary.AppendUvarint(append(b, kind), uint64(c.Scope))
		b = append(binary.AppendUvarint(b, uint64(c.KeyID)), c.SHA256[:]...)
		return appendSums(binary.AppendUvarint(b, uint64(c.Size)), s.Sums)
	}
	b = appendString(binary.AppendUvarint(append(b, 1), uint64(s.Bucket)), s.Key)
	return binary.AppendUvarint(b, uint64(s.Seq))
}

func (d *decoder) source() *core.Source {
	switch kind := d.byte(); kind {
	case 0:
		return nil
	case 1:
		return &core.Source{Bucket: core.BucketID(d.uint()), Key: d.string(), Seq: core.Seq(d.uint())}
	case 2, 3:
		c := &core.ContentKey{Scope: core.BucketID(d.uint()), KeyID: uint32(d.uint()), Head: kind == 3}
		copy(c.SHA256[:], d.raw(len(c.SHA256)))
		c.Size = d.int()
		return &core.Source{Content: c, Sums: d.sums()}
	}
	d.fail()
	return nil
}

// appendTarget appends the bucket and the key, with which most changes begin.
func appendTarget(b []byte, bucket core.BucketID, key string) []byte {
	return appendString(binary.AppendUvarint(b, uint64(bucket)), key)
}

func (d *decoder) target() (core.BucketID, string) { return core.BucketID(d.uint()), d.string() }

func appendChange(b []byte, c core.Change) []byte {
	switch c := c.(type) {
	case *core.PutBucket:
		b = AppendBucket(appendTarget(b, c.Info.ID, c.Info.Name), &c.Info)
		if c.Expect != nil {
			b = AppendBucket(b, c.Expect) // the last field; it is present if the change has more bytes
		}
		return b
	case *core.DeleteBucket:
		return binary.AppendUvarint(b, uint64(c.Bucket))
	case *core.PutObject:
		b = appendTarget(b, c.Object.Bucket, c.Object.Key)
		return appendSource(appendIf(appendObject(b, &c.Object, true), &c.If), c.Source)
	case *core.DeleteObject:
		b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Version))
		return appendBool(appendString(appendTime(appendIf(b, &c.If), c.Modified), c.Owner), c.Bypass)
	case *core.UpdateObject:
		return appendUpdate(b, c)
	case *core.MoveObject:
		return appendMove(b, c)
	case *core.CreateUpload:
		return AppendUpload(appendTarget(b, c.Upload.Bucket, c.Upload.Key), &c.Upload)
	case *core.PutPart:
		b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Upload))
		b = appendPart(binary.AppendUvarint(b, uint64(c.Part.Number)), &c.Part, true)
		return appendSource(b, c.Source)
	case *core.CompleteUpload:
		b = binary.AppendUvarint(appendTarget(b, c.Object.Bucket, c.Object.Key), uint64(c.Upload))
		b = binary.AppendUvarint(b, uint64(len(c.Parts)))
		for _, p := range c.Parts {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Number)), uint64(p.Seq))
		}
		return appendIf(appendObject(b, &c.Object, true), &c.If)
	case *core.AbortUpload:
		return binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Upload))
	case *core.PutRecord:
		return appendRecord(b, c)
	case *core.SetReplayFrom:
		return append(b, c.ReplayFrom[:]...)
	case *core.Synced:
		return appendBool(append(binary.AppendUvarint(b, uint64(c.UpTo)), c.ReplayFrom[:]...), c.Relaxed)
	case *core.Void:
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.From)), uint64(c.To))
	case *core.MoveData:
		return AppendExtents(AppendExtents(binary.AppendUvarint(b, uint64(c.Data)), c.From), c.To)
	case *core.RewrapData:
		b = appendString(binary.AppendUvarint(b, uint64(c.Data)), c.From)
		return appendString(binary.AppendUvarint(b, uint64(c.KeyID)), c.DataKey)
	case *core.FreeGarbage:
		b = binary.AppendUvarint(b, uint64(len(c.IDs)))
		for _, id := range c.IDs {
			b = binary.AppendUvarint(b, id)
		}
		return b
	case *core.DropParts:
		return binary.AppendUvarint(binary.AppendUvarint(b, c.Garbage), uint64(c.Count))
	case *core.Unshare:
		return binary.AppendUvarint(b, uint64(c.Data))
	case *core.RepairData:
		return appendData(AppendExtents(b, c.From), c.Info)
	}
	panic(fmt.Sprintf("encoding: no encoding for %T", c)) // the set of changes is closed, so this is a bug in this file
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendUpdate(b []byte, c *core.UpdateObject) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(appendTarget(b, c.Bucket, c.Key), uint64(c.Version))
	b = appendTime(b, c.Time)
	f.next(c.SetTags)
	f.next(c.SetRetention)
	f.next(c.SetHold)
	if f.next(len(c.Tags) > 0 && !mutant.Is("no-tags-recorded")) {
		b = appendAttrs(b, c.Tags)
	}
	if f.next(c.Lock != core.Lock{}) {
		b = appendLock(b, c.Lock)
	}
	f.next(c.Bypass)
	return f.end(b)
}

func (d *decoder) update() *core.UpdateObject {
	f := d.fields(6)
	c := &core.UpdateObject{}
	c.Bucket, c.Key = d.target()
	c.Version, c.Time = core.Version(d.uint()), d.time()
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

func appendRecord(b []byte, c *core.PutRecord) []byte {
	b, f := beginFields(b)
	b = appendString(appendString(b, c.Record.Kind), c.Record.Key)
	if f.next(c.Record.Value != nil) {
		b = appendString(b, c.Record.Value)
	}
	if f.next(c.HasExpect) {
		b = appendString(b, c.Expect)
	}
	if f.next(c.In != 0) {
		b = binary.AppendUvarint(b, uint64(c.In))
	}
	return f.end(b)
}

func (d *decoder) record() *core.PutRecord {
	f := d.fields(3)
	c := &core.PutRecord{Record: core.Record{Kind: d.string(), Key: d.string()}}
	if f.next() {
		c.Record.Value = append([]byte{}, d.raw(d.count(1))...) // not nil if empty: nil would delete the record
	}
	if c.HasExpect = f.next(); c.HasExpect {
		c.Expect = d.bytes()
	}
	if f.next() {
		c.In = core.BucketID(d.uint())
	}
	return c
}

func (d *decoder) change(kind core.ChangeKind) core.Change {
	switch kind {
	case core.ChangePutBucket:
		c := &core.PutBucket{}
		c.Info.ID, c.Info.Name = d.target()
		d.bucket(&c.Info)
		if d.err == nil && len(d.b) > 0 {
			c.Expect = &core.BucketInfo{}
			d.bucket(c.Expect)
		}
		return c
	case core.ChangeDeleteBucket:
		return &core.DeleteBucket{Bucket: core.BucketID(d.uint())}
	case core.ChangePutObject:
		c := &core.PutObject{}
		c.Object.Bucket, c.Object.Key = d.target()
		d.object(&c.Object, true)
		c.If, c.Source = d.precondition(), d.source()
		return c
	case core.ChangeDeleteObject:
		c := &core.DeleteObject{}
		c.Bucket, c.Key = d.target()
		c.Version, c.If, c.Modified, c.Owner = core.Version(d.uint()), d.precondition(), d.time(), d.string()
		c.Bypass = d.byte() == 1
		return c
	case core.ChangeUpdateObject:
		return d.update()
	case core.ChangeMoveObject:
		return d.move()
	case core.ChangeCreateUpload:
		c := &core.CreateUpload{}
		c.Upload.Bucket, c.Upload.Key = d.target()
		d.upload(&c.Upload)
		return c
	case core.ChangePutPart:
		c := &core.PutPart{}
		c.Bucket, c.Key = d.target()
		c.Upload, c.Part.Number = core.UploadID(d.uint()), int(d.int())
		d.part(&c.Part, true)
		c.Source = d.source()
		return c
	case core.ChangeCompleteUpload:
		return d.complete()
	case core.ChangeAbortUpload:
		c := &core.AbortUpload{}
		c.Bucket, c.Key = d.target()
		c.Upload = core.UploadID(d.uint())
		return c
	case core.ChangePutRecord:
		return d.record()
	case core.ChangeSetReplayFrom:
		c := &core.SetReplayFrom{}
		copy(c.ReplayFrom[:], d.raw(len(c.ReplayFrom)))
		return c
	case core.ChangeSynced:
		c := &core.Synced{UpTo: core.Seq(d.uint())}
		copy(c.ReplayFrom[:], d.raw(len(c.ReplayFrom)))
		c.Relaxed = d.byte() == 1
		return c
	case core.ChangeVoid:
		return &core.Void{From: core.Seq(d.uint()), To: core.Seq(d.uint())}
	case core.ChangeMoveData:
		return &core.MoveData{Data: core.DataID(d.uint()), From: d.extents(), To: d.extents()}
	case core.ChangeRewrapData:
		return &core.RewrapData{Data: core.DataID(d.uint()), From: d.bytes(), KeyID: uint32(d.uint()), DataKey: d.bytes()}
	case core.ChangeFreeGarbage:
		c := &core.FreeGarbage{IDs: make([]uint64, d.count(1))}
		for i := range c.IDs {
			c.IDs[i] = d.uint()
		}
		return c
	case core.ChangeDropParts:
		return &core.DropParts{Garbage: d.uint(), Count: int(d.int())}
	case core.ChangeUnshare:
		return &core.Unshare{Data: core.DataID(d.uint())}
	case core.ChangeRepairData:
		return &core.RepairData{From: d.extents(), Info: d.data()}
	}
	if d.err == nil {
		d.err = core.E("encoding.DecodeChanges", core.Unsupported, fmt.Errorf("%w: kind %d", errNewerKind, kind))
	}
	return &core.Void{}
}

func (d *decoder) complete() *core.CompleteUpload {
	c := &core.CompleteUpload{}
	c.Object.Bucket, c.Object.Key = d.target()
	c.Upload = core.UploadID(d.uint())
	c.Parts = make([]core.PartRef, d.count(2))
	for i := range c.Parts {
		c.Parts[i] = core.PartRef{Number: int(d.int()), Seq: core.Seq(d.uint())}
	}
	d.object(&c.Object, true)
	c.If = d.precondition()
	return c
}

func appendMove(b []byte, c *core.MoveObject) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(appendTarget(b, c.From.Bucket, c.From.Key), uint64(c.From.Seq))
	b = appendIf(appendTarget(b, c.Bucket, c.Key), &c.If)
	b = appendString(appendTime(b, c.Time), c.Owner)
	if f.next(c.Lock != core.Lock{}) {
		b = appendLock(b, c.Lock)
	}
	if f.next(c.Token != "") {
		b = appendString(b, c.Token)
	}
	return f.end(b)
}

func (d *decoder) move() *core.MoveObject {
	f := d.fields(2)
	c := &core.MoveObject{}
	c.From.Bucket, c.From.Key = d.target()
	c.From.Seq = core.Seq(d.uint())
	c.Bucket, c.Key = d.target()
	c.If, c.Time, c.Owner = d.precondition(), d.time(), d.string()
	if f.next() {
		c.Lock = d.lock()
	}
	if f.next() {
		c.Token = d.string()
	}
	return c
}
