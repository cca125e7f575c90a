package core

import "context"

// Snapshotter is implemented by a Meta whose metadata can be read and restored as a whole. Snapshots are used to store
// metadata in blocks (package core/snapshot), to migrate it between engines, and to check it.
type Snapshotter interface {
	// Snapshot calls emit with every row, as of one moment between two changes: first the state, then each noun once,
	// with a bucket before its versions and uploads, and otherwise in any order. A DataInfo is either a separate row,
	// or the Info of the only segment of the version that was written with the content; other segments have no Info.
	// Emit must not retain the row, and must not call Snapshot. Changes can be applied in the meantime, even by emit. If
	// emit returns an error, Snapshot stops and returns it. It returns Busy if concurrent writes ended the snapshot; the
	// caller should retry when there are fewer writes. It returns Damaged if the metadata may have lost rows.
	Snapshot(ctx context.Context, emit func(*Row) error) error

	// Restore fills the engine with the rows that next returns, until it returns nil. It returns Conflict if a change
	// was ever applied to the engine. It counts references and builds indexes from the rows, and omits content without
	// references. It returns NoSuchData if a row refers to content that is not among the rows. After an error the
	// engine is empty, and Restore can be retried.
	Restore(ctx context.Context, next func() (*Row, error)) error

	// Reset deletes everything, as if no change had ever been applied. The engine must not be in use.
	Reset(ctx context.Context) error
}

// Salvager is implemented by a Snapshotter that can skip rows that it cannot read.
type Salvager interface {
	// Salvage is like Snapshot, but for each row that cannot be read, it calls lost and continues.
	Salvage(ctx context.Context, emit func(*Row) error, lost func(what string, err error)) error
}

// Syncer is implemented by a Meta that may lose the most recent changes in a crash.
type Syncer interface {
	// Sync makes all changes that were applied before the call durable, and returns the durable state.
	Sync(ctx context.Context) (State, error)
}

// Row is one noun of a snapshot: exactly one field is set.
type Row struct {
	State   *State
	Bucket  *BucketInfo
	Data    *DataInfo // with Refs, which Restore ignores and recounts
	Object  *ObjectInfo
	Upload  *UploadInfo
	Part    *ListPart
	Garbage *Garbage
	Record  *Record
}

// EachData calls fn with each DataInfo in the row: Data, or the Infos of the segments of a version.
func (r *Row) EachData(fn func(*DataInfo)) {
	if r.Data != nil {
		fn(r.Data)
	}
	if r.Object == nil {
		return
	}
	for _, s := range r.Object.Segments {
		if s.Info != nil {
			fn(s.Info)
		}
	}
}

// ListPart is a part of a segment list, which belongs to an upload in progress, to objects, or to the garbage.
type ListPart struct {
	List UploadID
	PartInfo
}
