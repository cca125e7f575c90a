package core

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"
)

// Change is one write to the metadata: data, never a closure, so that it can be recorded in a block and replayed. The set is
// closed (see the types below). Times and DataIDs are in it before Apply sees it; the batch writer stamps it.
type Change interface {
	// Place returns the part that all changes share: their place in the order.
	Place() *Stamp
	kind() changeKind
}

// Stamp numbers the changes of one writer, ascending, and leaves the places free that a change takes besides its own (see Places); replay skips by it. With a SingleWriter it is also the change's place in
// the order of all; other engines find the place in Apply, when every lock is held, and say it in Result.Seq.
type Stamp struct {
	Seq Seq
}

// Place returns s itself, for the changes that embed it.
func (s *Stamp) Place() *Stamp { return s }

// changeKind is a change's number in its binary form. Numbers are never reused.
type changeKind uint8

const (
	kindPutBucket      changeKind = 1
	kindDeleteBucket   changeKind = 2
	kindPutObject      changeKind = 3
	kindDeleteObject   changeKind = 4
	kindCreateUpload   changeKind = 5
	kindPutPart        changeKind = 6
	kindCompleteUpload changeKind = 7
	kindAbortUpload    changeKind = 8
	kindPutRecord      changeKind = 9
	kindSetFloor       changeKind = 10
	kindVoid           changeKind = 11
	// 12 is kept for the note where a batch came to stand, which a rebuild from the records of several writers will need.
	kindMoveData    changeKind = 13
	kindFreeGarbage changeKind = 14
	kindDropParts   changeKind = 15
	kindSynced      changeKind = 16
	kindUpdate      changeKind = 17
	kindMoveObject  changeKind = 18
	kindRewrapData  changeKind = 19
	kindUnshare     changeKind = 20
)

// Precondition is what the caller demands of the key's current version, checked in Apply. The zero value demands nothing.
// ETags are without quotes; "*" stands for any version.
type Precondition struct {
	Match     []string // one of them must be the current version's; none there: NoSuchKey
	NoneMatch []string // none of them may be the current version's
	Seq       Seq      // the current version must be this one, else Conflict; 0: any

	// Where there is a current version, it must have this second and this size; where there is none, they demand nothing.
	Modified time.Time // in whole seconds; zero: any
	HasSize  bool
	Size     int64 // with HasSize, in bytes

	// What is computed from a version, with its tags, names both: tags change in place.
	HasTags bool
	Tags    []Attr // with HasTags: those of the current version, else Conflict
}

// Check holds p against the current version; cur is nil, or a delete marker, where the key has none.
func (p *Precondition) Check(cur *ObjectInfo) error {
	exists := cur != nil && !cur.Marker
	if p.Seq != 0 && (cur == nil || cur.Seq != p.Seq) {
		return E("core.Precondition", Conflict, nil)
	}
	if p.HasTags && (cur == nil || !slices.Equal(cur.Tags, p.Tags)) {
		return E("core.Precondition", Conflict, errors.New("tags"))
	}
	if len(p.Match) > 0 {
		if !exists {
			return E("core.Precondition", NoSuchKey, errors.New("If-Match on a key that does not exist"))
		}
		if !matchETag(p.Match, cur.ETag) {
			return E("core.Precondition", PreconditionFailed, errors.New("If-Match"))
		}
	}
	if len(p.NoneMatch) > 0 && exists && matchETag(p.NoneMatch, cur.ETag) {
		return E("core.Precondition", PreconditionFailed, errors.New("If-None-Match"))
	}
	if exists && !p.Modified.IsZero() && !cur.Modified.Truncate(time.Second).Equal(p.Modified) {
		return E("core.Precondition", PreconditionFailed, errors.New("time of modification"))
	}
	if exists && p.HasSize && p.Size != cur.Size {
		return E("core.Precondition", PreconditionFailed, errors.New("size"))
	}
	return nil
}

// IsZero says whether p demands nothing.
func (p *Precondition) IsZero() bool {
	return len(p.Match) == 0 && len(p.NoneMatch) == 0 && p.Seq == 0 && p.Modified.IsZero() && !p.HasSize && !p.HasTags
}

func matchETag(list []string, etag string) bool {
	for _, m := range list {
		if m == "*" || m == etag {
			return true
		}
	}
	return false
}

// PutBucket creates a bucket (Info.ID 0: its ID becomes the change's sequence; a bucket of that name: BucketExists), or
// replaces the bucket of Info.ID, which must exist under Info.Name.
type PutBucket struct {
	Stamp
	Info BucketInfo
}

// DeleteBucket removes an empty bucket; one with versions, delete markers or uploads is BucketNotEmpty. Its records
// (see BucketRecordKind) go with it.
type DeleteBucket struct {
	Stamp
	Bucket BucketID
}

// PutObject writes a version. What it does to older versions is the bucket's versioning state's to say: off: the new version
// is the null version and takes the place of the old one; enabled: it is a version of its own; suspended: it is the null
// version and takes the place of an older null version. Object.Seq and Null are set by Apply.
//
// Segments whose Info is nil, or a List, refer to content that is there: a copy. Then Source names the version that
// they were read from; Conflict where it is not there any more. Or it names the content, by its hash.
type PutObject struct {
	Stamp
	Object ObjectInfo
	If     Precondition
	Source *Source
}

// Source is the version that a copy was computed from; Seq is that version's sequence. Or it is, where Content is set, what was found to
// be equal to content that a client has: then the one segment is the whole of a content that fits it, else NoSuchData; Sums are checksums
// that were verified of the client's, and those of algorithms that the content does not have are kept with it.
type Source struct {
	Bucket  BucketID
	Key     string
	Seq     Seq
	Content *ContentKey
	Sums    []Checksum // with Content; none of them composite
}

// AddSums adds those of s.Sums to a content that it does not have, and says whether there were any.
func (s *Source) AddSums(d *DataInfo) (added bool) {
	for i := range s.Sums {
		if !slices.ContainsFunc(d.Sums, func(c Checksum) bool { return c.Algorithm == s.Sums[i].Algorithm }) {
			d.Sums = append(slices.Clip(d.Sums), s.Sums[i])
			added = true
		}
	}
	return added
}

// CheckContent holds the segments of a change, and the content that the first of them refers to (nil: none), against s.Content.
func (s *Source) CheckContent(segments []Segment, found *DataInfo) error {
	const op = "core.Source"
	if s.Content.Head || len(segments) != 1 || segments[0].Info != nil || segments[0].From != 0 || segments[0].Length != s.Content.Size {
		return E(op, InvalidArgument, errors.New("equal content is shared as a whole"))
	}
	if found == nil || !s.Content.Fits(found) {
		return E(op, NoSuchData, errors.New("the equal content is gone"))
	}
	return nil
}

// DeleteObject removes a version for good (Version), or the current one in the way of the bucket's versioning state (Current):
// off: removed; enabled: a delete marker is written; suspended: the null version is replaced by a null delete marker.
// Deleting what does not exist succeeds, as S3 has it. Modified is the time of the marker, and that at which retention must have ended:
// a version that a lock keeps is Locked. Bypass passes over retention in governance mode.
type DeleteObject struct {
	Stamp
	Bucket   BucketID
	Key      string
	Version  Version
	If       Precondition
	Modified time.Time
	Owner    string
	Bypass   bool
}

// UpdateObject sets what may change of a version, each where it says so: its tags, its retention (Lock.Mode and Lock.Until), its legal hold
// (Lock.Hold). NoSuchKey and NoSuchVersion as in reads; a delete marker is MethodNotAllowed, also where it is the current version. Retention that
// holds at Time may be made longer; governance may be replaced by Bypass; anything else is Locked. In a bucket without locks it is BucketState.
type UpdateObject struct {
	Stamp
	Bucket       BucketID
	Key          string
	Version      Version
	SetTags      bool
	SetRetention bool
	SetHold      bool
	Tags         []Attr
	Lock         Lock
	Time         time.Time // milliseconds, UTC
	Bypass       bool
}

// CreateUpload begins a multipart upload; its ID becomes the change's sequence.
type CreateUpload struct {
	Stamp
	Upload UploadInfo
}

// PutPart writes a part of an upload (NoSuchUpload where it ended) and takes the place of an older one of that number. Source as
// in PutObject, for a part that is a copy. Part.Seq is set by Apply.
type PutPart struct {
	Stamp
	Bucket BucketID
	Key    string
	Upload UploadID
	Part   PartInfo
	Source *Source
}

// PartRef is a part that a Complete was computed from.
type PartRef struct {
	Number int
	Seq    Seq
}

// CompleteUpload makes an object of an upload's parts. Parts are those it consists of, by ascending number; each must still be
// the one of that Seq, else Conflict (InvalidPart where it is not there). Parts of the upload that are not named are
// let go of. Object carries what was computed from the parts (Size, ETag, Sums, Parts, Index); its content becomes the list of
// the upload's number.
type CompleteUpload struct {
	Stamp
	Upload UploadID
	Parts  []PartRef
	Object ObjectInfo
	If     Precondition
}

// AbortUpload lets go of an upload and its parts; NoSuchUpload where it ended.
type AbortUpload struct {
	Stamp
	Bucket BucketID
	Key    string
	Upload UploadID
}

// PutRecord writes a record, or removes it where Record.Value is nil. Expect, where set, is the value that must be there
// (empty: none), else Conflict.
type PutRecord struct {
	Stamp
	Record    Record
	HasExpect bool
	Expect    []byte
}

// SetFloor moves State.Floor: the batch writer's note that it writes records to a later block from now on.
type SetFloor struct {
	Stamp
	Floor BlockID
}

// Synced begins each batch of a writer that answers before its batches are durable (Relaxed), and takes the place of SetFloor in one that comes
// after such a one: everything up to UpTo is durable, and no record of a change behind it is in a block below Floor. It moves State.Synced and State.Floor, forwards only.
type Synced struct {
	Stamp
	UpTo    Seq
	Floor   BlockID
	Relaxed bool
}

// Void says that the changes From..To, which are recorded in a block, were reported as failed and never applied: replay leaves
// them out. For Apply it does nothing.
type Void struct {
	Stamp
	From, To Seq
}

// MoveData says that the content Data was copied to other places, frame by frame, as reclaim does to empty a block: To takes the place of
// From, which must still be its extents, else Conflict (NoSuchData where the content is gone). Extents keep their lengths. What was
// From becomes garbage.
type MoveData struct {
	Stamp
	Data     DataID
	From, To []Extent
}

// RewrapData puts another wrapping of the data key of content in the place of From, which must still be the one, else Conflict (NoSuchData where the
// content is gone). The content stays as it is: the data key is the same.
type RewrapData struct {
	Stamp
	Data    DataID
	From    []byte // DataInfo.DataKey as it was
	KeyID   uint32 // not 0
	DataKey []byte
}

// FreeGarbage removes entries of the garbage, by their IDs: their extents are free. It leaves those that are not there, and those that
// hold a list.
type FreeGarbage struct {
	Stamp
	IDs []uint64
}

// DropParts lets go of the first Count parts of a list in the garbage (NoSuchData where Garbage is no such entry), whose content becomes
// garbage of its own; with the last of them the entry goes.
type DropParts struct {
	Stamp
	Garbage uint64
	Count   int
}

// Unshare says that content is shared with no new content any more (DataInfo.Scope): since it was found damaged, what is equal to it is
// to be stored afresh. NoSuchData where it is gone.
type Unshare struct {
	Stamp
	Data DataID
}

func (*PutBucket) kind() changeKind      { return kindPutBucket }
func (*DeleteBucket) kind() changeKind   { return kindDeleteBucket }
func (*PutObject) kind() changeKind      { return kindPutObject }
func (*DeleteObject) kind() changeKind   { return kindDeleteObject }
func (*CreateUpload) kind() changeKind   { return kindCreateUpload }
func (*PutPart) kind() changeKind        { return kindPutPart }
func (*CompleteUpload) kind() changeKind { return kindCompleteUpload }
func (*AbortUpload) kind() changeKind    { return kindAbortUpload }
func (*PutRecord) kind() changeKind      { return kindPutRecord }
func (*SetFloor) kind() changeKind       { return kindSetFloor }
func (*Synced) kind() changeKind         { return kindSynced }
func (*UpdateObject) kind() changeKind   { return kindUpdate }
func (*Void) kind() changeKind           { return kindVoid }
func (*MoveData) kind() changeKind       { return kindMoveData }
func (*RewrapData) kind() changeKind     { return kindRewrapData }
func (*FreeGarbage) kind() changeKind    { return kindFreeGarbage }
func (*DropParts) kind() changeKind      { return kindDropParts }
func (*Unshare) kind() changeKind        { return kindUnshare }

// Apply makes the change in a version, which is found (nil: the key has others, or none) in a bucket that has locks or not; its Tags
// are the change's.
func (c *UpdateObject) Apply(o *ObjectInfo, locks bool) error {
	const op = "core.UpdateObject"
	switch {
	case o == nil && c.Version == Current:
		return E(op, NoSuchKey, nil)
	case o == nil:
		return E(op, NoSuchVersion, nil)
	case o.Marker:
		return E(op, MethodNotAllowed, errors.New("a delete marker"))
	case !locks && (c.SetRetention || c.SetHold):
		return E(op, BucketState, errors.New("the bucket has no object lock"))
	}
	if c.SetRetention {
		if err := o.Lock.checkRetention(&c.Lock, c.Time, c.Bypass); err != nil {
			return err
		}
		o.Lock.Mode, o.Lock.Until = c.Lock.Mode, c.Lock.Until
	}
	if c.SetHold {
		o.Lock.Hold = c.Lock.Hold
	}
	if c.SetTags {
		o.Tags = c.Tags
	}
	return nil
}

// Apply moves a state as the change says.
func (c *Synced) Apply(st *State) {
	if c.UpTo > st.Synced {
		st.Synced = c.UpTo
		if bytes.Compare(c.Floor[:], st.Floor[:]) > 0 {
			st.Floor = c.Floor
		}
	}
}

// CheckMove holds a MoveData against the extents that its content has now.
func (c *MoveData) CheckMove(now []Extent) error {
	const op = "core.MoveData"
	if !slices.Equal(now, c.From) {
		return E(op, Conflict, errors.New("the content stands elsewhere"))
	}
	if !slices.EqualFunc(c.From, c.To, func(a, b Extent) bool { return a.Length == b.Length }) {
		return E(op, InvalidArgument, errors.New("extents keep their lengths"))
	}
	return nil
}

// CheckRewrap holds a RewrapData against its content as it is now.
func (c *RewrapData) CheckRewrap(now *DataInfo) error {
	const op = "core.RewrapData"
	if len(c.From) == 0 || len(c.DataKey) == 0 || c.KeyID == 0 {
		return E(op, InvalidArgument, errors.New("content that is encrypted stays so, and other content too"))
	}
	if !bytes.Equal(now.DataKey, c.From) {
		return E(op, Conflict, errors.New("the data key is wrapped in another way"))
	}
	return nil
}

// Result is the outcome of one change.
type Result struct {
	Err     error   // the check that it failed; nil: written
	Skipped bool    // stamped at or below State.Seq: nothing else is known
	Seq     Seq     // the change's place in the one order: the ID of a bucket or upload that it created; Skipped: its stamp
	Version Version // PutObject, CompleteUpload, MoveObject: the version written; DeleteObject: the version or marker removed or written; Current where there was nothing to do; UpdateObject: the version changed
	Marker  bool    // DeleteObject: Version is a delete marker
}

// CommonPrefix returns the prefix that key is rolled up to in a listing of prefix and delimiter, and whether it is rolled up
// at all.
func CommonPrefix(key, prefix, delimiter string) (string, bool) {
	if delimiter == "" || !strings.HasPrefix(key, prefix) {
		return "", false
	}
	i := strings.Index(key[len(prefix):], delimiter)
	if i < 0 {
		return "", false
	}
	return key[:len(prefix)+i+len(delimiter)], true
}

// Successor returns the smallest key above every key that begins with prefix, or "" where there is none.
func Successor(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// BucketRecordKind returns the kind under which the documents of a bucket are kept; DeleteBucket removes them.
func BucketRecordKind(id BucketID) string { return "bucket/" + Version(id).String() }
