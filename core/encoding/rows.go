package encoding

import (
	"encoding/binary"
	"fmt"

	"orcas/core"
)

// The first byte of a row's binary form. Numbers are never reused.
const (
	rowState   = 1
	rowBucket  = 2
	rowData    = 3
	rowObject  = 4
	rowUpload  = 5
	rowPart    = 6
	rowGarbage = 7
	rowRecord  = 8
)

// AppendRow appends the binary form of a row: its kind, the fields that identify the noun, and the noun.
func AppendRow(b []byte, r *core.Row) []byte {
	switch {
	case r.State != nil:
		b = binary.AppendUvarint(append(b, rowState), uint64(r.State.Seq))
		b = binary.AppendUvarint(b, uint64(r.State.NextData))
		return binary.AppendUvarint(append(b, r.State.ReplayFrom[:]...), uint64(r.State.Synced))
	case r.Bucket != nil:
		return AppendBucket(appendTarget(append(b, rowBucket), r.Bucket.ID, r.Bucket.Name), r.Bucket)
	case r.Data != nil:
		return AppendData(binary.AppendUvarint(append(b, rowData), uint64(r.Data.Refs)), r.Data)
	case r.Object != nil:
		o := r.Object
		b = appendTarget(append(b, rowObject), o.Bucket, o.Key)
		latest := byte(0)
		if o.Latest {
			latest = 1
		}
		return AppendResolvedObject(append(b, latest), o)
	case r.Upload != nil:
		b = appendTarget(append(b, rowUpload), r.Upload.Bucket, r.Upload.Key)
		return AppendUpload(binary.AppendUvarint(b, uint64(r.Upload.ID)), r.Upload)
	case r.Part != nil:
		b = binary.AppendUvarint(append(b, rowPart), uint64(r.Part.List))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Part.Number)), uint64(r.Part.Seq))
		return AppendPart(b, &r.Part.PartInfo)
	case r.Garbage != nil:
		b = binary.AppendUvarint(append(b, rowGarbage), r.Garbage.ID)
		return AppendExtents(binary.AppendUvarint(b, uint64(r.Garbage.List)), r.Garbage.Extents)
	case r.Record != nil:
		b = appendString(appendString(append(b, rowRecord), r.Record.Kind), r.Record.Key)
		return appendString(b, r.Record.Value)
	}
	return b
}

// DecodeRow is the inverse of AppendRow. The row shares the memory of b, which must not be modified afterwards.
// DecodeRow returns Unsupported for an unknown kind.
func DecodeRow(b []byte) (*core.Row, error) {
	d := decoder{b: b, share: true}
	r := &core.Row{}
	switch kind := d.byte(); kind {
	case rowState:
		r.State = &core.State{Seq: core.Seq(d.uint()), NextData: core.DataID(d.uint())}
		copy(r.State.ReplayFrom[:], d.raw(len(r.State.ReplayFrom)))
		r.State.Synced = core.Seq(d.uint())
	case rowBucket:
		r.Bucket = &core.BucketInfo{}
		r.Bucket.ID, r.Bucket.Name = d.target()
		d.bucket(r.Bucket)
	case rowData:
		refs := d.int()
		r.Data = d.data()
		r.Data.Refs = refs
	case rowObject:
		r.Object = &core.ObjectInfo{}
		r.Object.Bucket, r.Object.Key = d.target()
		r.Object.Latest = d.byte() == 1
		d.resolvedObject(r.Object)
	case rowUpload:
		r.Upload = &core.UploadInfo{}
		r.Upload.Bucket, r.Upload.Key = d.target()
		r.Upload.ID = core.UploadID(d.uint())
		d.upload(r.Upload)
	case rowPart:
		r.Part = &core.ListPart{List: core.UploadID(d.uint())}
		r.Part.Number, r.Part.Seq = int(d.int()), core.Seq(d.uint())
		d.part(&r.Part.PartInfo, false)
	case rowGarbage:
		r.Garbage = &core.Garbage{ID: d.uint(), List: core.UploadID(d.uint()), Extents: d.extents()}
	case rowRecord:
		r.Record = &core.Record{Kind: d.string(), Key: d.string(), Value: d.bytes()}
	default:
		if d.err == nil {
			return nil, core.E("encoding.DecodeRow", core.Unsupported, fmt.Errorf("unknown kind of row: %d", kind))
		}
	}
	if err := d.done(); err != nil {
		return nil, err
	}
	return r, nil
}
