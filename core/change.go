package core

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Change is one write to the metadata. It is data, never a closure, so that it can be recorded in a block and replayed.
// The set of changes is closed: it consists of the types below. The caller sets times and DataIDs, and the batch writer
// sets the stamp.
type Change interface {
	// Stamp returns the number that the writer assigned to the change.
	Stamp() Seq
	SetStamp(Seq)

	Kind() ChangeKind
}

// Stamped is the part that all changes share: the stamp. Stamps number the changes of one writer in ascending order,
// and replay uses them to skip changes. A change that takes several sequences is stamped with the last of them (see
// SeqCount). With a SingleWriter the stamp is also the change's sequence. Other engines assign the sequence in Apply,
// while they hold every lock, and return it in Result.Seq.
type Stamped struct {
	Seq Seq
}

// Stamp implements Change.
func (s *Stamped) Stamp() Seq { return s.Seq }

// SetStamp implements Change.
func (s *Stamped) SetStamp(seq Seq) { s.Seq = seq }

// ChangeKind identifies a kind of change in its binary form. Numbers are never reused.
type ChangeKind uint8

const (
	ChangePutBucket      ChangeKind = 1
	ChangeDeleteBucket   ChangeKind = 2
	ChangePutObject      ChangeKind = 3
	ChangeDeleteObject   ChangeKind = 4
	ChangeCreateUpload   ChangeKind = 5
	ChangePutPart        ChangeKind = 6
	ChangeCompleteUpload ChangeKind = 7
	ChangeAbortUpload    ChangeKind = 8
	ChangePutRecord      ChangeKind = 9
	ChangeSetReplayFrom  ChangeKind = 10
	ChangeVoid           ChangeKind = 11
	// 12 is reserved for the sequences of a batch, which is needed to rebuild from the records of several writers.
	ChangeMoveData     ChangeKind = 13
	ChangeFreeGarbage  ChangeKind = 14
	ChangeDropParts    ChangeKind = 15
	ChangeSynced       ChangeKind = 16
	ChangeUpdateObject ChangeKind = 17
	ChangeMoveObject   ChangeKind = 18
	ChangeRewrapData   ChangeKind = 19
	ChangeUnshare      ChangeKind = 20
	ChangeRepairData   ChangeKind = 21
	// 22 is reserved for a change that replaces a range of a version's segments, which is needed for writes in the
	// middle of a file.
)

// Precondition is a condition on the current version of a key; Apply checks it. The zero value is always met. ETags
// have no quotes; "*" matches any version.
type Precondition struct {
	Match     []string // the current version must have one of these ETags; NoSuchKey if there is no version
	NoneMatch []string // the current version must have none of these ETags
	Seq       Seq      // sequence of the current version, else Conflict; 0: any

	// The time and the size of the current version. These conditions are met if there is no current version.
	Modified time.Time // in whole seconds; zero: any
	HasSize  bool
	Size     int64 // with HasSize, in bytes

	// A change that was computed from a version and its tags requires both to be unchanged, since tags change in place.
	HasTags bool
	Tags    []Attr // with HasTags: the tags of the current version, else Conflict
}

// Check returns an error unless the current version meets p. cur is nil or a delete marker if the key has no current
// version.
func (p *Precondition) Check(cur *ObjectInfo) error {
	exists := cur != nil && !cur.Marker
	if p.Seq != 0 && (cur == nil || cur.Seq != p.Seq) {
		return E("core.Precondition", Conflict, fmt.Errorf("the current version no longer has sequence %d", p.Seq))
	}
	if p.HasTags && (cur == nil || !slices.Equal(cur.Tags, p.Tags)) {
		return E("core.Precondition", Conflict, errors.New("the tags of the current version have changed"))
	}
	if len(p.Match) > 0 {
		if !exists {
			return E("core.Precondition", NoSuchKey, errors.New("If-Match: the key does not exist"))
		}
		if !matchETag(p.Match, cur.ETag) {
			return E("core.Precondition", PreconditionFailed, fmt.Errorf("If-Match: the ETag of the current version is %q", cur.ETag))
		}
	}
	if len(p.NoneMatch) > 0 && exists && matchETag(p.NoneMatch, cur.ETag) {
		return E("core.Precondition", PreconditionFailed, fmt.Errorf("If-None-Match: the ETag of the current version is %q", cur.ETag))
	}
	if exists && !p.Modified.IsZero() && !cur.Modified.Truncate(time.Second).Equal(p.Modified) {
		return E("core.Precondition", PreconditionFailed, fmt.Errorf("the current version was modified at %v, not at %v", cur.Modified, p.Modified))
	}
	if exists && p.HasSize && p.Size != cur.Size {
		return E("core.Precondition", PreconditionFailed, fmt.Errorf("the current version has %d bytes, not %d", cur.Size, p.Size))
	}
	return nil
}

// IsZero reports whether p has no conditions.
func (p *Precondition) IsZero() bool {
	return len(p.Match) == 0 && len(p.NoneMatch) == 0 && p.Seq == 0 && p.Modified.IsZero() && !p.HasSize && !p.HasTags
}

func matchETag(list []string, etag string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, etag)
}

// PutBucket creates a bucket if Info.ID is 0, with the change's sequence as its ID. It fails with BucketExists if a
// bucket of that name exists. Otherwise it replaces the bucket with that ID, which must exist under Info.Name.
//
// If Expect is set, the bucket must still equal it, else PutBucket fails with Conflict. This prevents several servers
// from undoing each other's updates. The only server of a SingleWriter need not set it.
type PutBucket struct {
	Stamped
	Info   BucketInfo
	Expect *BucketInfo // the bucket that Info was computed from, without ID and Name, which are Info's
}

// CheckExpect returns Conflict unless the bucket equals c.Expect, if that is set.
func (c *PutBucket) CheckExpect(now *BucketInfo) error {
	if c.Expect == nil {
		return nil
	}
	expect, is := *c.Expect, *now
	// reflect.DeepEqual would distinguish equal times in different locations, and nil from empty slices.
	same := expect.Created.Equal(is.Created) && slices.Equal(expect.Attrs, is.Attrs)
	for _, b := range []*BucketInfo{&expect, &is} {
		b.ID, b.Name, b.Created, b.Attrs = 0, "", time.Time{}, nil
	}
	if !same || !reflect.DeepEqual(expect, is) {
		return E("core.PutBucket", Conflict, fmt.Errorf("bucket %q was changed in the meantime", now.Name))
	}
	return nil
}

// DeleteBucket deletes an empty bucket and its records (see BucketRecordKind). It fails with BucketNotEmpty if the
// bucket has versions, delete markers or uploads.
type DeleteBucket struct {
	Stamped
	Bucket BucketID
}

// PutObject writes a version. The versioning state of the bucket decides what happens to older ones. If versioning is
// off or suspended, the new version is the null version, and replaces an older null version. If it is enabled, the
// older versions are kept. Apply sets Object.Seq and Null.
//
// Segments without Info, and a List, refer to stored content, so the version is a copy. Then Source identifies either
// the version that they were read from, or the content by its hash. PutObject fails with Conflict if that version no
// longer exists.
type PutObject struct {
	Stamped
	Object ObjectInfo
	If     Precondition
	Source *Source
}

// Source is the version that a copy was computed from; Seq is its sequence. If Content is set, it is instead the key of
// stored content that is equal to the client's content. Then the change must have exactly one segment, which is all of
// that content, else it fails with InvalidArgument. It fails with NoSuchData unless that content matches the key and is
// not damaged. Sums are verified checksums of the client's content; Apply adds to the stored content those that it
// lacks.
type Source struct {
	Bucket  BucketID
	Key     string
	Seq     Seq
	Content *ContentKey
	Sums    []Checksum // with Content; none of them composite
}

// AddSums adds the checksums that d lacks, and reports whether there were any.
func (s *Source) AddSums(d *DataInfo) (added bool) {
	for i := range s.Sums {
		if !slices.ContainsFunc(d.Sums, func(c Checksum) bool { return c.Algorithm == s.Sums[i].Algorithm }) {
			d.Sums = append(slices.Clip(d.Sums), s.Sums[i])
			added = true
		}
	}
	return added
}

// CheckContent returns an error unless the change's segments and found, the content that the first of them refers to,
// meet the conditions of s.Content. Found is nil if that content does not exist.
func (s *Source) CheckContent(segments []Segment, found *DataInfo) error {
	const op = "core.Source"
	if s.Content.Head || len(segments) != 1 || segments[0].Info != nil || segments[0].From != 0 || segments[0].Length != s.Content.Size {
		return E(op, InvalidArgument, errors.New("a change that shares equal content must have exactly one segment, which is all of that content"))
	}
	if found == nil || !s.Content.Fits(found) {
		return E(op, NoSuchData, fmt.Errorf("the equal content of %d bytes no longer exists", s.Content.Size))
	}
	if found.Damaged {
		return E(op, NoSuchData, fmt.Errorf("the equal content %d is damaged", found.ID))
	}
	return nil
}

// DeleteObject deletes a version permanently. If Version is Current, the effect depends on the versioning state of the
// bucket. If versioning is off, the current version is deleted. If it is enabled, a delete marker is written. If it is
// suspended, a null delete marker replaces the null version. Deleting a version that does not exist succeeds, as in S3.
// Modified is the time of the marker, and the time by which retention must have ended. The change fails with Locked if
// a lock protects the version; Bypass overrides retention in governance mode.
type DeleteObject struct {
	Stamped
	Bucket   BucketID
	Key      string
	Version  Version
	If       Precondition
	Modified time.Time
	Owner    string
	Bypass   bool
}

// UpdateObject sets the tags, the retention (Lock.Mode and Lock.Until) and the legal hold (Lock.Hold) of a version,
// each only if its Set field is true. It fails with NoSuchKey and NoSuchVersion as reads do, and with MethodNotAllowed
// for a delete marker, even if it is the current version. Retention that is in force at Time can be extended, and
// Bypass can replace governance mode; any other change to it fails with Locked. Setting retention or a legal hold fails
// with BucketState if object lock is not enabled for the bucket.
type UpdateObject struct {
	Stamped
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
	Stamped
	Upload UploadInfo
}

// PutPart writes a part of an upload and replaces an older part with the same number. It fails with NoSuchUpload if the
// upload has ended. Source is set for a part that is a copy, as in PutObject. Apply sets Part.Seq.
type PutPart struct {
	Stamped
	Bucket BucketID
	Key    string
	Upload UploadID
	Part   PartInfo
	Source *Source
}

// PartRef is a part that a CompleteUpload was computed from.
type PartRef struct {
	Number int
	Seq    Seq
}

// CompleteUpload creates an object from parts of an upload. Parts are the parts that the object consists of, in
// ascending order of their numbers. Each must still have that Seq; otherwise the change fails with Conflict, or with
// InvalidPart if the part does not exist. The other parts of the upload become garbage. Object contains the values
// computed from the parts (Size, ETag, Sums, Parts, Index); its content becomes the list with the upload's ID.
type CompleteUpload struct {
	Stamped
	Upload UploadID
	Parts  []PartRef
	Object ObjectInfo
	If     Precondition
}

// AbortUpload deletes an upload; its parts become garbage. It fails with NoSuchUpload if the upload has ended.
type AbortUpload struct {
	Stamped
	Bucket BucketID
	Key    string
	Upload UploadID
}

// PutRecord writes a record, or deletes it if Record.Value is nil. With HasExpect, the record must have the value
// Expect, or must not exist if Expect is empty, else the change fails with Conflict. In, if set, is the bucket that the
// record belongs to; the change fails with NoSuchBucket if it does not exist.
type PutRecord struct {
	Stamped
	Record    Record
	HasExpect bool
	Expect    []byte
	In        BucketID
}

// SetReplayFrom sets State.ReplayFrom. The batch writer records this change when it begins to write records to a later
// block.
type SetReplayFrom struct {
	Stamped
	ReplayFrom BlockID
}

// Synced is the first change in each batch of a writer that acknowledges writes before its batches are durable
// (Relaxed). A strict writer that continues after such a writer uses it instead of SetReplayFrom. Everything up to UpTo
// is durable, and no block below ReplayFrom contains a record of a later change. Synced only ever advances State.Synced
// and State.ReplayFrom.
type Synced struct {
	Stamped
	UpTo       Seq
	ReplayFrom BlockID
	Relaxed    bool
}

// Void marks the changes From..To, which are recorded in a block, as failed: they were never applied, so replay must
// skip them. Apply does nothing for it.
type Void struct {
	Stamped
	From, To Seq
}

// MoveData sets the extents of the content Data after reclaim has copied it to other blocks, frame by frame, to empty a
// block. To replaces From, which must still be the extents of the content, else the change fails with Conflict, or with
// NoSuchData if the content no longer exists. The lengths of the extents do not change. The old extents become garbage.
// Only verified frames are moved, so the content is no longer Damaged.
type MoveData struct {
	Stamped
	Data     DataID
	From, To []Extent
}

// RewrapData replaces the wrapped data key of content, which must still be From, else the change fails with Conflict,
// or with NoSuchData if the content no longer exists. The data key itself does not change, so the content is not
// encrypted again.
type RewrapData struct {
	Stamped
	Data    DataID
	From    []byte // DataInfo.DataKey as it was
	KeyID   uint32 // not 0
	DataKey []byte
}

// FreeGarbage deletes garbage entries whose extents were freed. It ignores IDs that do not exist, and entries with a
// list.
type FreeGarbage struct {
	Stamped
	IDs []uint64
}

// DropParts deletes the first Count parts of a list in the garbage; their content becomes separate garbage. The entry
// is deleted with its last part. It fails with NoSuchData if Garbage is not an entry with a list.
type DropParts struct {
	Stamped
	Garbage uint64
	Count   int
}

// Unshare marks content as damaged (DataInfo.Damaged): no new content shares it until it is repaired. It fails with
// NoSuchData if the content no longer exists. Versions of ORCAS without RepairData cleared the Scope instead, so
// content that they marked cannot be found for repair.
type Unshare struct {
	Stamped
	Data DataID
}

// RepairData replaces the copy of content at From, which was damaged or missing, with a new copy of equal bytes. Info
// must have the ID, Size and SHA256 of the content, else the change fails with InvalidArgument. Its Extents, Codec,
// KeyID, DataKey, ChunkSize, Dictionary and Written replace those of the content, which is no longer Damaged. From must
// still be the extents of the content, else the change fails with Conflict, or with NoSuchData if the content no longer
// exists. The old extents become garbage.
type RepairData struct {
	Stamped
	From []Extent
	Info *DataInfo
}

func (*PutBucket) Kind() ChangeKind      { return ChangePutBucket }
func (*DeleteBucket) Kind() ChangeKind   { return ChangeDeleteBucket }
func (*PutObject) Kind() ChangeKind      { return ChangePutObject }
func (*DeleteObject) Kind() ChangeKind   { return ChangeDeleteObject }
func (*CreateUpload) Kind() ChangeKind   { return ChangeCreateUpload }
func (*PutPart) Kind() ChangeKind        { return ChangePutPart }
func (*CompleteUpload) Kind() ChangeKind { return ChangeCompleteUpload }
func (*AbortUpload) Kind() ChangeKind    { return ChangeAbortUpload }
func (*PutRecord) Kind() ChangeKind      { return ChangePutRecord }
func (*SetReplayFrom) Kind() ChangeKind  { return ChangeSetReplayFrom }
func (*Synced) Kind() ChangeKind         { return ChangeSynced }
func (*UpdateObject) Kind() ChangeKind   { return ChangeUpdateObject }
func (*Void) Kind() ChangeKind           { return ChangeVoid }
func (*MoveData) Kind() ChangeKind       { return ChangeMoveData }
func (*RewrapData) Kind() ChangeKind     { return ChangeRewrapData }
func (*FreeGarbage) Kind() ChangeKind    { return ChangeFreeGarbage }
func (*DropParts) Kind() ChangeKind      { return ChangeDropParts }
func (*Unshare) Kind() ChangeKind        { return ChangeUnshare }
func (*RepairData) Kind() ChangeKind     { return ChangeRepairData }

// Apply applies the change to a version, or to nil if the key does not have that version. Locks states whether object
// lock is enabled for the bucket. Afterwards the version shares the Tags of the change.
func (c *UpdateObject) Apply(o *ObjectInfo, locks bool) error {
	const op = "core.UpdateObject"
	switch {
	case o == nil && c.Version == Current:
		return E(op, NoSuchKey, nil)
	case o == nil:
		return E(op, NoSuchVersion, nil)
	case o.Marker:
		return E(op, MethodNotAllowed, fmt.Errorf("version %v of %q is a delete marker", o.Version(), c.Key))
	case !locks && (c.SetRetention || c.SetHold):
		return E(op, BucketState, errors.New("object lock is not enabled for the bucket"))
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

// Apply applies the change to a state.
func (c *Synced) Apply(st *State) {
	if c.UpTo > st.Synced {
		st.Synced = c.UpTo
		if c.ReplayFrom.Compare(st.ReplayFrom) > 0 {
			st.ReplayFrom = c.ReplayFrom
		}
	}
}

// CheckMove returns an error unless c can move content with these extents.
func (c *MoveData) CheckMove(now []Extent) error {
	const op = "core.MoveData"
	if !slices.Equal(now, c.From) {
		return E(op, Conflict, fmt.Errorf("content %d is no longer in the expected extents", c.Data))
	}
	if !slices.EqualFunc(c.From, c.To, func(a, b Extent) bool { return a.Length == b.Length }) {
		return E(op, InvalidArgument, fmt.Errorf("content %d: the new extents differ in length from the old ones", c.Data))
	}
	return nil
}

// CheckRewrap returns an error unless c can replace the wrapped data key of the content.
func (c *RewrapData) CheckRewrap(now *DataInfo) error {
	const op = "core.RewrapData"
	if len(c.From) == 0 || len(c.DataKey) == 0 || c.KeyID == 0 {
		return E(op, InvalidArgument, fmt.Errorf("content %d: RewrapData requires content that is encrypted, and a new wrapped data key", c.Data))
	}
	if !bytes.Equal(now.DataKey, c.From) {
		return E(op, Conflict, fmt.Errorf("the wrapped data key of content %d has changed", c.Data))
	}
	return nil
}

// Repair applies the change to its content, or returns an error if the content fails the checks.
func (c *RepairData) Repair(now *DataInfo) error {
	const op = "core.RepairData"
	switch {
	case c.Info.ID != now.ID || c.Info.Size != now.Size || c.Info.SHA256 != now.SHA256 || now.SHA256 == [32]byte{}:
		return E(op, InvalidArgument, fmt.Errorf("the new copy differs from content %d, or that content has no SHA-256", now.ID))
	case len(c.Info.Extents) == 0 || len(now.Extents) == 0:
		return E(op, InvalidArgument, fmt.Errorf("content %d: the old or the new copy has no extents", now.ID))
	case (c.Info.KeyID == 0) != (now.KeyID == 0) || (c.Info.KeyID == 0) != (len(c.Info.DataKey) == 0):
		return E(op, InvalidArgument, fmt.Errorf("content %d: a repair cannot encrypt or decrypt it", now.ID))
	}
	if !slices.Equal(now.Extents, c.From) {
		return E(op, Conflict, fmt.Errorf("content %d is no longer in the expected extents", now.ID))
	}
	now.Extents, now.Codec, now.KeyID, now.DataKey = c.Info.Extents, c.Info.Codec, c.Info.KeyID, c.Info.DataKey
	now.ChunkSize, now.Dictionary, now.Written, now.Damaged = c.Info.ChunkSize, c.Info.Dictionary, c.Info.Written, false
	return nil
}

// Result is the outcome of one change.
type Result struct {
	Err     error   // the error of a failed check; nil if the change was written
	Skipped bool    // the change was not applied because its stamp is not above State.Seq; the outcome is unknown
	Seq     Seq     // sequence of the change, and the ID of a bucket or upload that it created; its stamp if Skipped
	Version Version // the object version written, changed or deleted; Current if DeleteObject found no version
	Marker  bool    // DeleteObject: Version is a delete marker
}

// CommonPrefix returns the common prefix under which a listing with prefix and delimiter groups a key, and reports
// whether there is one.
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

// Successor returns the smallest key above every key that begins with prefix, or "" if there is no such key.
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

// BucketRecordKind returns the kind of the records that belong to a bucket; DeleteBucket deletes them.
func BucketRecordKind(id BucketID) string { return "bucket/" + Version(id).String() }

// RecordBucket is the inverse of BucketRecordKind: it returns the bucket that records of that kind belong to, and
// reports whether kind is that of a bucket.
func RecordBucket(kind string) (BucketID, bool) {
	digits, ok := strings.CutPrefix(kind, "bucket/")
	id, err := strconv.ParseUint(digits, 16, 64)
	return BucketID(id), ok && err == nil && len(digits) == 16
}
