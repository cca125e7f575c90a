package feed

import (
	"strings"

	"orcas/core"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. The numbers are not stored anywhere.
const (
	BucketCreated   Kind = iota + 1 // Key is the bucket's name
	BucketUpdated                   // its settings; Key is its name
	BucketDeleted                   // with its documents; Key is ""
	DocumentChanged                 // a document of a bucket was written or deleted; Key is its name
	RecordChanged                   // any other record: Key is its kind, "/", and its key
	ObjectCreated                   // a version was written, with content from a client
	ObjectCopied                    // ... with content of another version
	ObjectCompleted                 // ... from the parts of Upload
	ObjectMoved                     // ... under a new name; the ObjectDeleted of the old name immediately precedes it
	ObjectDeleted                   // Version was deleted; if it is Current, the key was deleted, depending on the bucket's versioning
	ObjectUpdated                   // tags, retention or legal hold of Version were set
	UploadCreated
	PartWritten
	UploadAborted
	ContentChanged // the way Data is stored has changed: it was moved, repaired, rewrapped, or marked as damaged
)

// Event is one change. Fields that its Kind does not use are zero.
type Event struct {
	Seq      core.Seq // also the version that the change wrote, or the ID of the bucket or upload that it created
	Kind     Kind
	Replayed bool // the event was read from a record, so the result of the change is unknown: see the package comment
	Bucket   core.BucketID
	Key      string
	Version  core.Version // as specified in the request
	Upload   core.UploadID
	Data     core.DataID

	block core.BlockID // the block of the record
}

// Position returns the position after the event.
func (e *Event) Position() Position { return Position{e.Seq, e.block} }

// appendEvents appends the events of a change: two for a move, which has two sequences; none for the internal changes
// of the write buffer and of reclaim; one for every other change.
func appendEvents(list []Event, c core.Change, seq core.Seq) []Event {
	e := Event{Seq: seq}
	switch c := c.(type) {
	case *core.PutBucket:
		e.Kind, e.Bucket, e.Key = BucketUpdated, c.Info.ID, c.Info.Name
		if c.Info.ID == 0 {
			e.Kind, e.Bucket = BucketCreated, core.BucketID(seq)
		}
	case *core.DeleteBucket:
		e.Kind, e.Bucket = BucketDeleted, c.Bucket
	case *core.PutRecord:
		if id, ok := core.RecordBucket(c.Record.Kind); ok {
			e.Kind, e.Bucket, e.Key = DocumentChanged, id, c.Record.Key
		} else {
			e.Kind, e.Key = RecordChanged, c.Record.Kind+"/"+c.Record.Key
		}
	case *core.PutObject:
		e.Kind, e.Bucket, e.Key = ObjectCreated, c.Object.Bucket, c.Object.Key
		if c.Source != nil && c.Source.Content == nil {
			e.Kind = ObjectCopied
		}
	case *core.CompleteUpload:
		e.Kind, e.Bucket, e.Key, e.Upload = ObjectCompleted, c.Object.Bucket, c.Object.Key, c.Upload
	case *core.MoveObject:
		list = append(list, Event{
			Seq: seq - 1, Kind: ObjectDeleted, Bucket: c.From.Bucket, Key: strings.Clone(c.From.Key),
		})
		e.Kind, e.Bucket, e.Key = ObjectMoved, c.Bucket, c.Key
	case *core.DeleteObject:
		e.Kind, e.Bucket, e.Key, e.Version = ObjectDeleted, c.Bucket, c.Key, c.Version
	case *core.UpdateObject:
		e.Kind, e.Bucket, e.Key, e.Version = ObjectUpdated, c.Bucket, c.Key, c.Version
	case *core.CreateUpload:
		e.Kind, e.Bucket, e.Key, e.Upload = UploadCreated, c.Upload.Bucket, c.Upload.Key, core.UploadID(seq)
	case *core.PutPart:
		e.Kind, e.Bucket, e.Key, e.Upload = PartWritten, c.Bucket, c.Key, c.Upload
	case *core.AbortUpload:
		e.Kind, e.Bucket, e.Key, e.Upload = UploadAborted, c.Bucket, c.Key, c.Upload
	case *core.MoveData:
		e.Kind, e.Data = ContentChanged, c.Data
	case *core.RewrapData:
		e.Kind, e.Data = ContentChanged, c.Data
	case *core.Unshare:
		e.Kind, e.Data = ContentChanged, c.Data
	case *core.RepairData:
		e.Kind, e.Data = ContentChanged, c.Info.ID
	case *core.SetReplayFrom, *core.Synced, *core.Void, *core.FreeGarbage, *core.DropParts:
		return list
	default:
		panic("feed: no event for a change of an unknown kind") // the set of changes is closed, so this is a bug
	}
	e.Key = strings.Clone(e.Key) // do not keep the memory of the request
	return append(list, e)
}
