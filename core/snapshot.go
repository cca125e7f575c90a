package core

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Snapshotter is implemented by a Meta that can say everything that it holds, and be filled with what another one said: how metadata is
// written down in blocks (package core/snapshot), moved between engines, and checked.
type Snapshotter interface {
	// Snapshot calls emit with everything, as it was at one moment between two changes: first the state, then each noun once, in any
	// order but that buckets come before what is in them. A content is a row of its own, or the Info in the one segment of the version that it was born
	// with; other segments have no Info. Emit must not keep the row. An error of emit ends it and is returned.
	Snapshot(ctx context.Context, emit func(*Row) error) error

	// Restore fills an engine to which nothing was ever applied (else Conflict) with the rows that next returns, nil after the last.
	// References are counted and indexes are made anew from the rows; content to which none refers is left out. Rows that refer to
	// content that never comes are NoSuchData. After an error the engine holds nothing that a read could find, and Restore may be tried again.
	Restore(ctx context.Context, next func() (*Row, error)) error

	// Reset takes everything away: the engine is as if nothing was ever applied. Nobody else uses it meanwhile.
	Reset(ctx context.Context) error
}

// Salvager is implemented by a Snapshotter that can go on behind what it cannot read.
type Salvager interface {
	// Salvage is Snapshot, but for rows that cannot be read: lost is told which, and why.
	Salvage(ctx context.Context, emit func(*Row) error, lost func(what string, err error)) error
}

// Syncer is implemented by a Meta of which a power cut may take what was applied last.
type Syncer interface {
	// Sync makes everything that was applied before survive a power cut, and returns the state that does.
	Sync(ctx context.Context) (State, error)
}

// Row is one noun of a snapshot: one of its fields is set.
type Row struct {
	State   *State
	Bucket  *BucketInfo
	Data    *DataInfo // with Refs, which Restore counts anew
	Object  *ObjectInfo
	Upload  *UploadInfo
	Part    *ListPart
	Garbage *Garbage
	Record  *Record
}

// ListPart is a part with the list that it is in: that of an upload in progress, of objects, or in the garbage.
type ListPart struct {
	List UploadID
	PartInfo
}

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

// AppendRow appends the binary form of a row: its kind, then what tells it from others, then the noun.
func AppendRow(b []byte, r *Row) []byte {
	switch {
	case r.State != nil:
		b = binary.AppendUvarint(append(b, rowState), uint64(r.State.Seq))
		b = binary.AppendUvarint(b, uint64(r.State.NextData))
		return binary.AppendUvarint(append(b, r.State.Floor[:]...), uint64(r.State.Synced))
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

// DecodeRow is the inverse of AppendRow. The row shares b's memory, which must not change any more. A kind that this program does not
// know is Unsupported.
func DecodeRow(b []byte) (*Row, error) {
	d := decoder{b: b, share: true}
	r := &Row{}
	switch kind := d.byte(); kind {
	case rowState:
		r.State = &State{Seq: Seq(d.uint()), NextData: DataID(d.uint())}
		copy(r.State.Floor[:], d.raw(len(r.State.Floor)))
		r.State.Synced = Seq(d.uint())
	case rowBucket:
		r.Bucket = &BucketInfo{}
		r.Bucket.ID, r.Bucket.Name = d.target()
		d.bucket(r.Bucket)
	case rowData:
		refs := d.int()
		r.Data = d.data()
		r.Data.Refs = refs
	case rowObject:
		r.Object = &ObjectInfo{}
		r.Object.Bucket, r.Object.Key = d.target()
		r.Object.Latest = d.byte() == 1
		d.resolvedObject(r.Object)
	case rowUpload:
		r.Upload = &UploadInfo{}
		r.Upload.Bucket, r.Upload.Key = d.target()
		r.Upload.ID = UploadID(d.uint())
		d.upload(r.Upload)
	case rowPart:
		r.Part = &ListPart{List: UploadID(d.uint())}
		r.Part.Number, r.Part.Seq = int(d.int()), Seq(d.uint())
		d.part(&r.Part.PartInfo, false)
	case rowGarbage:
		r.Garbage = &Garbage{ID: d.uint(), List: UploadID(d.uint()), Extents: d.extents()}
	case rowRecord:
		r.Record = &Record{Kind: d.string(), Key: d.string(), Value: d.bytes()}
	default:
		if d.err == nil {
			return nil, E("core.DecodeRow", Unsupported, fmt.Errorf("kind of row %d", kind))
		}
	}
	if err := d.done(); err != nil {
		return nil, err
	}
	return r, nil
}
