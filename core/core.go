// Package core defines the nouns of ORCAS (the types of what it stores: buckets, objects, uploads, content and so on)
// and its contracts: the interfaces Meta and Blocks, and the duties of their callers and drivers. Blocks is in
// blocks.go, the changes that Meta applies are in change.go, and the kinds of errors are in errors.go. Package
// core/encoding defines the binary form of nouns and changes, in records in blocks and in columns of databases.
//
// Blocks stores content as frames (package core/frame); Meta stores its names and all other metadata. Content is made
// durable before metadata refers to it, and references to content are deleted before its space is freed. A crash
// between the two steps leaves garbage, never an extent that refers to missing content.
package core

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"orcas/core/frame"
	"orcas/internal/checksum"
)

// Seq is the position of a change in the total order of all changes of a store: at least 1, below 2^63, possibly with
// gaps. Versions are ordered by sequence, never by the wall clock.
type Seq uint64

// BucketID is the sequence (Result.Seq) of the change that created the bucket, so a bucket that is deleted and created
// again under the same name gets a new ID.
type BucketID uint64

// UploadID is the sequence (Result.Seq) of the change that created the upload. After the upload is completed, it is the
// ID of the segment list of the object.
type UploadID uint64

// DataID identifies stored content within a store. The batch writer assigns it before the content is written. It is
// never reused and stays below 2^63.
type DataID uint64

// BlockID is the globally unique ID of a block. It consists of 8 random bytes that identify the store, 4 bytes that
// count the starts of the store (the generation), and 4 bytes that count the blocks of that generation. All are big
// endian, so the IDs of a store sort bytewise in the order of creation. An ID is never reused, so stale bytes in a
// recycled file are never mistaken for frames of the current block.
type BlockID [16]byte

// MakeBlockID returns the BlockID with these parts.
func MakeBlockID(store uint64, generation, number uint32) (id BlockID) {
	binary.BigEndian.PutUint64(id[:8], store)
	binary.BigEndian.PutUint32(id[8:12], generation)
	binary.BigEndian.PutUint32(id[12:], number)
	return id
}

// Store returns the random number of the store that created the block.
func (b BlockID) Store() uint64 { return binary.BigEndian.Uint64(b[:8]) }

// Generation returns the generation of the store that created the block.
func (b BlockID) Generation() uint32 { return binary.BigEndian.Uint32(b[8:12]) }

// Number returns the number of the block within its generation.
func (b BlockID) Number() uint32 { return binary.BigEndian.Uint32(b[12:]) }

// IsZero reports whether b is zero, which is not the ID of any block.
func (b BlockID) IsZero() bool { return b == BlockID{} }

// Compare returns -1, 0 or +1. Blocks of one store sort in the order of creation; the order across stores has
// no meaning.
func (b BlockID) Compare(other BlockID) int { return bytes.Compare(b[:], other[:]) }

// Before reports whether b was created before other in the same store. It returns false for blocks of different stores.
func (b BlockID) Before(other BlockID) bool {
	return b.Store() == other.Store() && b.Compare(other) < 0
}

// String returns the id in hexadecimal.
func (b BlockID) String() string { return hex.EncodeToString(b[:]) }

// LogValue implements slog.LogValuer. Logs contain the result of String, whose last 16 digits are part of the block's
// file name.
func (b BlockID) LogValue() slog.Value { return slog.StringValue(b.String()) }

// Version identifies a version of a key: Current, Null, or the sequence of the change that wrote it.
type Version uint64

// The two versions that are not sequences.
const (
	Current Version = 0           // the newest version, even if it is a delete marker
	Null    Version = ^Version(0) // the version written while versioning was off or suspended
)

// String returns the version for reports and messages: "null", or 16 hexadecimal digits; "" for Current. Clients
// see the IDs of package core/ids instead.
func (v Version) String() string {
	switch v {
	case Current:
		return ""
	case Null:
		return "null"
	}
	return fmt.Sprintf("%016x", uint64(v))
}

// Versioning is the versioning state of a bucket.
type Versioning uint8

// The states of versioning. Once versioning has been enabled, a bucket never returns to VersioningOff.
const (
	VersioningOff Versioning = iota
	VersioningEnabled
	VersioningSuspended
)

// Attr is a name and a value that ORCAS stores for a client and does not interpret: a stored header, user metadata or a
// tag.
type Attr struct{ Name, Value string }

// StorageClassAttr is the name of the attribute with the storage class, the only attribute in a brief listing.
const StorageClassAttr = "X-Amz-Storage-Class"

// AttrValue returns the value of an attribute, or "" if there is none with that name.
func AttrValue(attrs []Attr, name string) string {
	for i := range attrs {
		if attrs[i].Name == name {
			return attrs[i].Value
		}
	}
	return ""
}

// SetAttr sets an attribute, or deletes it if value is "". It modifies attrs and returns the new list.
func SetAttr(attrs []Attr, name, value string) []Attr {
	attrs = slices.DeleteFunc(attrs, func(a Attr) bool { return a.Name == name })
	if value != "" {
		attrs = append(attrs, Attr{Name: name, Value: value})
	}
	return attrs
}

// Checksum is a verified checksum of content.
type Checksum struct {
	Algorithm checksum.Algorithm
	Composite bool   // a checksum of the checksums of the parts
	Parts     int    // with Composite: the number of parts
	Value     []byte // raw
}

// BucketInfo is a bucket. Subresources that the engine does not interpret are records (see Meta.Records).
type BucketInfo struct {
	ID          BucketID
	Name        string
	Owner       string // access key or account of the creator
	Region      string
	Created     time.Time
	Versioning  Versioning
	ObjectLock  bool             // allows locks; once set, it cannot be cleared, and versioning stays enabled
	Retention   DefaultRetention // with ObjectLock: the retention of versions that are written without one
	ChunkSize   int64            // bytes of large content per extent; 0: DefaultChunkSize
	Compression Compression      // compression level of new content
	Encrypted   bool             // new content is encrypted, under the newest master key
	Quota       Quota            // limits on the usage of the bucket
	Attrs       []Attr
}

// DefaultChunkSize is the size of a chunk in bytes, unless the bucket has a different one.
const DefaultChunkSize = 4 << 20

// MaxChunkSize is the largest size of a chunk, in bytes. It limits a chunk to 256 frames, because a read within a
// compressed chunk walks the headers of its frames.
const MaxChunkSize = 64 << 20

// CheckChunkSize returns an error unless n is a valid chunk size. 0 stands for DefaultChunkSize.
func CheckChunkSize(n int64) error {
	if n != 0 && (n < frame.MaxPlain || n > MaxChunkSize || n%frame.MaxPlain != 0) {
		return fmt.Errorf("%d bytes: expected a multiple of %d KiB, at most %d MiB", n, frame.MaxPlain>>10, MaxChunkSize>>20)
	}
	return nil
}

// Extent is a range of bytes in a block: whole frames, including their headers.
type Extent struct {
	Block  BlockID
	Offset int64 // bytes from the start of the block
	Length int64 // bytes
}

// DataInfo describes stored content. Two pieces of content never share an extent. Extents has one extent per chunk of
// ChunkSize bytes of plain content, in order; empty content has none.
type DataInfo struct {
	ID         DataID
	Size       int64      // plain bytes
	SHA256     [32]byte   // SHA-256 of the plain bytes
	Sums       []Checksum // every other checksum that was verified for this content, MD5 first
	Codec      uint8      // codec of its frames; unless it is frame.Plain, some frames may still be plain
	KeyID      uint32     // the master key that wraps DataKey, or codec.CustomerKeyID; 0: not encrypted
	DataKey    []byte     // wrapped data key
	ChunkSize  int64
	Extents    []Extent
	Dictionary uint32    // dictionary for compressed frames (see package core/dictionary); 0: none
	Head       [32]byte  // SHA-256 of the first HeadSize bytes of larger content; zero: unknown or not needed
	Scope      BucketID  // the bucket whose new content may share this content (see ContentKey); 0: none
	Refs       int64     // number of segments that refer to the content; set by reads, ignored in changes
	Damaged    bool      // the content is damaged or missing; new content does not share it until it is repaired
	Written    time.Time // when large content was written (milliseconds, UTC); zero: unknown
}

// Segment is a range of stored content: Length bytes of Data starting at byte From. In a change, Info describes new
// content, and is nil if the segment refers to content that is already stored. Reads always set Info, unless documented
// otherwise.
type Segment struct {
	Data   DataID
	From   int64
	Length int64
	Info   *DataInfo
}

// ObjectInfo is the metadata of one version of a key, or a delete marker.
type ObjectInfo struct {
	Bucket   BucketID
	Key      string
	Seq      Seq       // sequence of the change that wrote it
	Null     bool      // whether this is the null version
	Marker   bool      // whether this is a delete marker; of the fields after Modified, only Owner is set
	Latest   bool      // whether no version of the key is newer; set by reads
	Modified time.Time // milliseconds, UTC
	Placed   time.Time // when the version was moved to this key, if that is later than Modified; zero if it was not moved
	Size     int64
	ETag     string // without quotes
	Sums     []Checksum
	Attrs    []Attr // stored headers under their canonical names, user metadata under its full lowercase header names
	Tags     []Attr
	Owner    string
	Lock     Lock
	// The content: the list of the completed upload, if any (see Meta.Parts), followed by up to MaxInlineSegments
	// segments.
	Segments []Segment
	List     UploadID
	Parts    int         // number of parts of a multipart object, else 0
	Index    []PartIndex // with List: one entry per IndexStride parts, to find a byte range without reading all parts
}

// PartIndex is the position of a part in an object: the parts with numbers above After begin at Offset, in bytes.
type PartIndex struct {
	After  int
	Offset int64
}

// IndexStride is the number of parts per entry of ObjectInfo.Index.
const IndexStride = 256

// MaxInlineSegments is the maximum length of ObjectInfo.Segments.
const MaxInlineSegments = 8

// Since returns the time at which o became the newest version of its key, and the previous version became noncurrent.
func (o *ObjectInfo) Since() time.Time {
	if !o.Placed.IsZero() {
		return o.Placed
	}
	return o.Modified
}

// Version returns the Version that identifies o among the versions of its key.
func (o *ObjectInfo) Version() Version {
	if o.Null {
		return Null
	}
	return Version(o.Seq)
}

// Brief returns o with only the fields that a brief listing has (see ListQuery.Brief).
func (o *ObjectInfo) Brief() ObjectInfo {
	b := ObjectInfo{
		Bucket: o.Bucket, Key: o.Key, Seq: o.Seq, Null: o.Null, Marker: o.Marker, Latest: o.Latest,
		Modified: o.Modified, Size: o.Size, ETag: o.ETag,
	}
	if len(o.Sums) > 0 {
		b.Sums = []Checksum{{Algorithm: o.Sums[0].Algorithm, Composite: o.Sums[0].Composite}}
	}
	if class := AttrValue(o.Attrs, StorageClassAttr); class != "" {
		b.Attrs = []Attr{{Name: StorageClassAttr, Value: class}}
	}
	return b
}

// UploadInfo is a multipart upload in progress, with the metadata of the future object.
type UploadInfo struct {
	ID        UploadID
	Bucket    BucketID
	Key       string
	Initiated time.Time // milliseconds, UTC
	Owner     string
	Algorithm checksum.Algorithm // algorithm of the checksum that the client announced; None if it announced none
	Composite bool               // whether the announced checksum is composite
	Attrs     []Attr             // Attrs, Tags and Lock are those of the future object
	Tags      []Attr
	Lock      Lock
}

// PartInfo is a part of an upload in progress or of a multipart object.
type PartInfo struct {
	Number   int // 1..10000
	Seq      Seq // sequence of the change that wrote it
	Modified time.Time
	Size     int64
	ETag     string
	Sums     []Checksum
	Segments []Segment
}

// Record is a small document: a bucket subresource, a user, a policy or a cursor. Key is unique within Kind; keys
// compare as bytes.
type Record struct {
	Kind, Key string
	Value     []byte
}

// Garbage is an entry for storage without references. The change that deleted the last reference writes it, and reclaim
// frees the storage.
type Garbage struct {
	// ID is twice the sequence of the change that wrote the entry, plus 1 for a List. New entries may have lower IDs
	// than entries that were already read, so every pass begins at 0.
	ID      uint64
	Extents []Extent
	List    UploadID // a whole segment list, which is deleted in slices (see DropParts); 0: none
}

// State is the position of this process's writer: the changes that must be replayed after a crash, and the unused
// DataIDs.
type State struct {
	Seq        Seq     // changes with stamps up to this one are not applied again; 0: none
	NextData   DataID  // the first of 2^40 unused IDs, which are reserved for this writer
	ReplayFrom BlockID // no block below this one contains a record of a change with a stamp above Seq
	Synced     Seq     // with relaxed durability: changes up to this one are known to be durable
}

// PartContent selects whether Meta.Parts resolves the segments of the parts. Only callers that read the content need
// that; it costs one lookup per part.
type PartContent bool

// The values of PartContent.
const (
	WithoutContent PartContent = false
	WithContent    PartContent = true
)

// ListKind is the kind of entries that a listing returns.
type ListKind uint8

// The kinds of listings.
const (
	ListObjects  ListKind = iota // current versions, except delete markers
	ListVersions                 // every version and delete marker, the newest of a key first
	ListUploads                  // uploads in progress, the oldest of a key first
)

// ListQuery describes one page of a listing. Keys compare as bytes.
type ListQuery struct {
	Kind      ListKind
	Bucket    BucketID
	Prefix    string // only keys with this prefix
	Delimiter string // keys are grouped up to their first Delimiter after Prefix; "": no grouping
	After     Cursor // only entries after this position
	Limit     int    // maximum number of entries and common prefixes on the page, at least 1

	// Brief asks for objects with only these fields: Bucket, Key, Seq, Null, Marker, Latest, Modified, Size, ETag, the
	// Algorithm and Composite of the first of Sums, and the StorageClassAttr of Attrs. All others are zero. An engine
	// may keep them where a page of ListObjects reads them together. It makes no difference to ListUploads.
	Brief bool
}

// Cursor is a position in a listing: after Key. With Version, in ListVersions, it is after that version of Key and
// before its older versions. With Upload, in ListUploads, it is after that upload of Key. If Key is a common prefix
// under the query's Prefix and Delimiter (see CommonPrefix), the position is after all keys with that prefix. Key,
// version and upload need not exist.
type Cursor struct {
	Key     string
	Version Version // sequence (ObjectInfo.Seq), also for the null version; 0: after every version of Key
	Upload  UploadID
}

// ListPage is one page of a listing: entries and common prefixes, each in order. If Truncated is set, Next is the
// position at which the next page begins.
type ListPage struct {
	Objects   []ObjectInfo // without Segments' Info
	Uploads   []UploadInfo
	Prefixes  []string
	Next      Cursor
	Truncated bool
}

// Meta is the contract of a metadata engine: typed reads for the hot paths, one generic read for small documents, and
// one write. Optional abilities are separate interfaces, which As finds.
//
// A read sees every change whose Apply returned before the read began, and never only part of a change. A page shows
// one moment, and so does an object with its segments. An engine behind a network returns a page in one round trip. The
// caller owns the result of a read, unless the driver documents that it is shared (package cached); then it must not be
// modified. If a bucket, key, version or upload does not exist, a read returns an error of that kind (NoSuchBucket,
// NoSuchKey, NoSuchVersion or NoSuchUpload). Any other error means that the read failed, never that something does not
// exist. The DataInfos in the results of Object and Parts may have an old Refs, and may lack Sums that were added lately.
type Meta interface {
	// State returns the position of the writer after the last Apply. After a crash the engine may have an older one; Sync
	// (see Syncer) returns one that the engine certainly keeps.
	State(ctx context.Context) (State, error)

	// Bucket returns the bucket of that name.
	Bucket(ctx context.Context, name string) (*BucketInfo, error)

	// Buckets returns up to limit buckets with names that begin with prefix and are above after, in order.
	Buckets(ctx context.Context, prefix, after string, limit int) ([]BucketInfo, error)

	// Object returns a version of a key, with its segments resolved. Current is the newest version, even if that is a
	// delete marker (see Marker). Object returns NoSuchKey if the key has no versions, and NoSuchVersion if it has
	// versions, but not this one.
	Object(ctx context.Context, bucket BucketID, key string, v Version) (*ObjectInfo, error)

	// List returns one page. It reads at most Limit + 1 rows, with one seek per common prefix, regardless of the number
	// of noncurrent versions and delete markers in between (except with ListVersions, which lists them).
	List(ctx context.Context, q ListQuery) (*ListPage, error)

	// Upload returns an upload in progress for a bucket and key.
	Upload(ctx context.Context, bucket BucketID, key string, id UploadID) (*UploadInfo, error)

	// Parts returns up to limit parts of an upload in progress, or of the object created from it, with numbers above
	// after, in order. It returns no parts for an unknown ID. WithContent resolves the segments; with WithoutContent,
	// Info is nil, and the engine does not look up content.
	Parts(ctx context.Context, id UploadID, after, limit int, content PartContent) ([]PartInfo, error)

	// Data returns the DataInfos with these IDs, in the same order, and omits IDs that do not exist. Reclaim and fsck
	// use it to find the live frames of a block, since each frame has a DataID in its header.
	Data(ctx context.Context, ids []DataID) ([]DataInfo, error)

	// FindData returns content that matches k, or NoSuchData. It prefers content that is not Damaged, and the newest if
	// the engine can find it. The content may be deleted before the caller refers to it, so a change states the
	// expected content in Source.Content.
	FindData(ctx context.Context, k ContentKey) (*DataInfo, error)

	// Garbage returns up to limit entries with IDs above after, in order.
	Garbage(ctx context.Context, after uint64, limit int) ([]Garbage, error)

	// Records returns up to limit records of a kind with keys above after, in order.
	Records(ctx context.Context, kind, after string, limit int) ([]Record, error)

	// Usage returns the usage of a bucket with a quota. Every change updates the tally of its bucket, so the cost is
	// one lookup. Usage returns BucketState if the bucket has no quota.
	Usage(ctx context.Context, bucket BucketID) (Usage, error)

	// Apply writes changes in order, in one transaction. Each change is checked against the state after the previous
	// ones, and then written. A change that fails its check writes nothing, and does not affect the others
	// (Result.Err). Stamps must be ascending. Changes with stamps up to State().Seq are skipped (Result.Skipped), so
	// replay is idempotent.
	//
	// A SingleWriter uses stamps as sequences. Any other engine assigns consecutive sequences to a batch while
	// everything that the batch reads is locked, so that replaying all changes in the order of Result.Seq has the same
	// outcomes. It retries transactions that its database rolled back. If the response to a commit is lost, the engine
	// itself determines whether the commit was written.
	//
	// Only one goroutine of a process calls Apply at a time (the batch writer, or recovery before it starts). When
	// Apply returns nil, every read sees the changes. A SingleWriter may keep them in memory for a short time: if the
	// process is killed or the power fails, it may lose the last changes. It has all of them up to its State, and the
	// records in the blocks have the rest. Any other engine loses nothing. Unavailable means that it is unknown whether
	// the changes were written; every later Apply returns it, too. Any other error means that nothing was written.
	//
	// The engine does not use the changes after Apply has returned.
	Apply(ctx context.Context, changes []Change) ([]Result, error)

	// Close makes everything durable and releases the engine's resources. If it fails, the last changes may be lost.
	Close() error
}

// SingleWriter is implemented by a Meta whose store is written only through it. It can be cached in this process, and
// its sequences are the stamps.
type SingleWriter interface{ SingleWriter() }

// Guesser is implemented by a Meta that has in-memory hints about recent content.
type Guesser interface {
	// GuessData returns the ID of content that probably matches k, or 0 if it has no hint. The content may no longer
	// exist, or may never have matched k.
	GuessData(k ContentKey) DataID
}

// Verifier is implemented by a Meta that can search for damage that reads do not detect, in indexes and orphaned rows.
type Verifier interface {
	// Verify returns a one-line description of each problem.
	Verify(ctx context.Context) ([]string, error)
}

// Placer is implemented by a Meta that keeps the amount of content of each block, and so can list it without reading the
// metadata of all content.
type Placer interface {
	// Places calls emit with each block that has a part of stored content, in no particular order. It shows the state
	// at one moment between two changes. If emit returns an error, Places stops and returns it. All is the number of
	// pieces of stored content, and their size before compression and encryption.
	Places(ctx context.Context, emit func(block BlockID, of BlockContent) error) (all BlockContent, err error)
}

// MemoryReleaser is implemented by a Meta that can free the memory that it uses only for speed.
type MemoryReleaser interface {
	// ReleaseMemory frees caches and other memory that later calls fill again. It may be called at any time; a server
	// calls it when there have been hardly any requests for a time, because the calls that follow are slower. An engine
	// keeps what would take a considerable part of that time to fill again.
	ReleaseMemory(idle time.Duration)
}

// Checkpointer is implemented by a Meta that can make all applied changes durable, so that the next start does not have
// to replay them.
type Checkpointer interface {
	Checkpoint(ctx context.Context) error
}
