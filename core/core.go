// Package core is the one page on which ORCAS agrees with itself: the nouns, the contracts Meta and Blocks, and what
// their callers and drivers owe each other. The changes that Meta applies are in change.go, their binary form (records in
// blocks, columns in databases) in encode.go, the error kinds in errors.go.
//
// Content lives in Blocks, as frames (package core/frame); what it is called lives in Meta. The order is always the same:
// content is durable before metadata names it, and metadata forgets content before it is freed. A crash between the two
// leaves garbage, never an extent that points at nothing.
package core

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"orcas/core/codec"
	"orcas/internal/checksum"
)

// Seq is the place of a change in the one order of all changes of a store, from 1, below 2^63. There may be gaps. The order
// of versions is the order of sequences, never the wall clock.
type Seq uint64

// BucketID is the sequence (Result.Seq) of the change that created the bucket, so a bucket made again under an old name is another one.
type BucketID uint64

// UploadID is the sequence (Result.Seq) of the change that created the upload. A completed upload lives on as the segment list of its
// object, under the same number.
type UploadID uint64

// DataID names stored content within a store. The batch writer assigns it before the content is written; it is never reused
// and stays below 2^63.
type DataID uint64

// BlockID names a block, unique in the world: 8 random bytes of the store, 4 bytes that count the starts of its owner (the
// generation), 4 bytes that count the blocks of that start; big endian, so byte order is order of creation in a store.
// An id is never reused, so the bytes of an earlier life of a recycled file never pass for frames of the present one.
type BlockID [16]byte

// MakeBlockID puts a BlockID together.
func MakeBlockID(store uint64, generation, number uint32) (id BlockID) {
	binary.BigEndian.PutUint64(id[:8], store)
	binary.BigEndian.PutUint32(id[8:12], generation)
	binary.BigEndian.PutUint32(id[12:], number)
	return id
}

// Store returns the random number of the store that made the block.
func (b BlockID) Store() uint64 { return binary.BigEndian.Uint64(b[:8]) }

// Generation returns which start of the store made the block.
func (b BlockID) Generation() uint32 { return binary.BigEndian.Uint32(b[8:12]) }

// Number returns which block of its generation it is.
func (b BlockID) Number() uint32 { return binary.BigEndian.Uint32(b[12:]) }

// IsZero says whether b names no block.
func (b BlockID) IsZero() bool { return b == BlockID{} }

// String returns the id in hexadecimal.
func (b BlockID) String() string { return hex.EncodeToString(b[:]) }

// LogValue implements slog.LogValuer: a log has it as String does. Its last 16 digits are those of the name of the file.
func (b BlockID) LogValue() slog.Value { return slog.StringValue(b.String()) }

// Version names a version of a key: Current, Null, or the sequence of the change that wrote it.
type Version uint64

// The two versions that are no sequence.
const (
	Current Version = 0           // the newest, whatever it is
	Null    Version = ^Version(0) // the version written while versioning was off or suspended
)

// String returns the version id as clients see it: "null", or 16 hexadecimal digits. Current is "".
func (v Version) String() string {
	switch v {
	case Current:
		return ""
	case Null:
		return "null"
	}
	return fmt.Sprintf("%016x", uint64(v))
}

// ParseVersion is the inverse of Version.String.
func ParseVersion(s string) (Version, error) {
	switch s {
	case "":
		return Current, nil
	case "null":
		return Null, nil
	}
	if len(s) == 16 {
		if n, err := strconv.ParseUint(s, 16, 64); err == nil && n != 0 && Version(n) != Null {
			return Version(n), nil
		}
	}
	return 0, E("core.ParseVersion", InvalidArgument, fmt.Errorf("no version id: %q", s))
}

// Versioning is the versioning state of a bucket.
type Versioning uint8

// The states. Once enabled, a bucket is never off again.
const (
	VersioningOff Versioning = iota
	VersioningEnabled
	VersioningSuspended
)

// Attr is a name and a value that ORCAS keeps for a client and does not interpret: stored headers, user metadata, tags.
type Attr struct{ Name, Value string }

// Checksum is a verified checksum of content.
type Checksum struct {
	Algorithm checksum.Algorithm
	Composite bool   // a checksum of the parts' checksums; Parts says of how many
	Parts     int    // with Composite
	Value     []byte // raw, as long as the algorithm makes it
}

// BucketInfo is a bucket. Sub-resources that the engine does not act upon are records (see Meta.Records).
type BucketInfo struct {
	ID          BucketID
	Name        string
	Owner       string // access key or account of the creator
	Region      string
	Created     time.Time
	Versioning  Versioning
	ObjectLock  bool             // versions may be locked; once set it stays, and Versioning stays enabled
	Retention   DefaultRetention // with ObjectLock: of versions that are written without one
	ChunkSize   int64            // bytes of content per extent of large content; 0: DefaultChunkSize
	Compression codec.Level      // of new content
	Encrypted   bool             // new content is encrypted, under the newest master key
	Quota       Quota            // what it may hold
	Attrs       []Attr
}

// DefaultChunkSize is the size of a chunk in a bucket that says nothing else, in bytes.
const DefaultChunkSize = 4 << 20

// Extent is a run of bytes in a block: whole frames, their headers included.
type Extent struct {
	Block  BlockID
	Offset int64 // bytes from the start of the block
	Length int64 // bytes
}

// DataInfo is stored content. No extent is ever in two of them. Extents holds one extent per chunk of ChunkSize bytes of
// plain content, in order (content of at most one chunk has one, empty content none).
type DataInfo struct {
	ID         DataID
	Size       int64      // plain bytes
	SHA256     [32]byte   // of the plain bytes
	Sums       []Checksum // every other checksum ever verified for it, MD5 first
	Codec      uint8      // how its frames are stored; where it is not frame.Plain, some may be plain all the same
	KeyID      uint32     // the master key that wraps DataKey, or codec.CustomerKeyID; 0: not encrypted
	DataKey    []byte     // wrapped data key
	ChunkSize  int64
	Extents    []Extent
	Dictionary uint32   // with which its frames may be compressed (see DictionaryKind); 0: none
	Head       [32]byte // SHA-256 of the first HeadSize bytes of content that is larger; zero: not known, or not needed
	Scope      BucketID // whose new content may share it, where it is equal (see ContentKey); 0: nobody's
	Refs       int64    // segments that refer to it; set by reads, ignored in changes
}

// Segment is a run of stored content: length bytes of Data from byte From on. In a change, Info brings content that the
// store does not know yet, and is nil where the content is there already. Reads resolve it always.
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
	Seq      Seq       // of the change that wrote it
	Null     bool      // it is the null version
	Marker   bool      // it is a delete marker: below Modified, only Owner is set
	Latest   bool      // no version of the key is newer; set by reads
	Modified time.Time // milliseconds, UTC
	Placed   time.Time // with a version that was moved, when it was: later than Modified; else zero
	Size     int64
	ETag     string // without quotes
	Sums     []Checksum
	Attrs    []Attr // stored headers by their canonical names, user metadata by its full lower-case header name
	Tags     []Attr
	Owner    string
	Lock     Lock
	// The content: a longer list under the number of the upload it came from (see Meta.Parts), where there is one, then a few segments here.
	Segments []Segment
	List     UploadID
	Parts    int         // parts of a multipart object, else 0
	Index    []PartIndex // with List: an entry after every IndexStride parts, so that a range is found without reading all parts
}

// PartIndex says that the parts with numbers above After begin at Offset, in bytes.
type PartIndex struct {
	After  int
	Offset int64
}

// IndexStride is the number of parts between two entries of ObjectInfo.Index.
const IndexStride = 256

// MaxInlineSegments is the largest number of segments that an ObjectInfo holds itself.
const MaxInlineSegments = 8

// Since returns when o took its place: the version below it is noncurrent since then.
func (o *ObjectInfo) Since() time.Time {
	if !o.Placed.IsZero() {
		return o.Placed
	}
	return o.Modified
}

// Version returns the version that o is.
func (o *ObjectInfo) Version() Version {
	if o.Null {
		return Null
	}
	return Version(o.Seq)
}

// UploadInfo is a multipart upload in progress: the object it will be, and who began it when.
type UploadInfo struct {
	ID        UploadID
	Bucket    BucketID
	Key       string
	Initiated time.Time // milliseconds, UTC
	Owner     string
	Algorithm checksum.Algorithm // of the checksum that the client announced; None where it announced none
	Composite bool               // the announced checksum type
	Attrs     []Attr             // of the object to be
	Tags      []Attr
	Lock      Lock
}

// PartInfo is a part of an upload, or of the multipart object that it became.
type PartInfo struct {
	Number   int // 1..10000
	Seq      Seq // of the change that wrote it
	Modified time.Time
	Size     int64
	ETag     string
	Sums     []Checksum
	Segments []Segment
}

// Record is a small document: a bucket sub-resource, a user, a policy, a cursor. Key is unique within Kind; keys compare as bytes.
type Record struct {
	Kind, Key string
	Value     []byte
}

// Garbage is storage that nothing refers to any more, written by the change that let go of it, for reclaim to free.
type Garbage struct {
	ID      uint64 // twice the sequence of that change, plus 1 for a List. An entry may appear below one that was read before: who walks begins at 0 each round
	Extents []Extent
	List    UploadID // a whole segment list to be let go of, in slices; 0: none
}

// State is where this process's writer stands: what a start after a crash has to replay, and which numbers are free.
type State struct {
	Seq      Seq     // changes stamped at or below it are never applied any more; 0: none
	NextData DataID  // the 2^40 ids from here on were never used, and are this writer's alone
	Floor    BlockID // no record of a change stamped above Seq is in a block below this one
	Synced   Seq     // with a writer that answers before its batches are durable: the changes up to here are, as far as is known
}

// ListKind says what a listing lists.
type ListKind uint8

// The kinds of listing.
const (
	ListObjects  ListKind = iota // current versions that are no delete markers
	ListVersions                 // every version and delete marker, the newest of a key first
	ListUploads                  // uploads in progress, the oldest of a key first
)

// ListQuery asks for one page of a listing. Keys compare as bytes.
type ListQuery struct {
	Kind      ListKind
	Bucket    BucketID
	Prefix    string // only keys that begin with it
	Delimiter string // keys are rolled up to their first Delimiter after Prefix; "": not at all
	After     Cursor // only what comes after it
	Limit     int    // entries and common prefixes on the page, at least 1
}

// Cursor is a place in a listing: after Key; in ListVersions with Version, after that version of Key (its older versions still
// follow); in ListUploads with Upload, after that upload of Key. A Key that is a common prefix under the query's Prefix and Delimiter (see
// CommonPrefix) is after everything beneath it. The place need not exist.
type Cursor struct {
	Key     string
	Version Version // the version's sequence (ObjectInfo.Seq), also for the null version; 0: after every version of Key
	Upload  UploadID
}

// ListPage is one page: entries and common prefixes, each in order. Next is the place after its last entry, to be used where
// Truncated says that more follows.
type ListPage struct {
	Objects   []ObjectInfo // without Segments' Info
	Uploads   []UploadInfo
	Prefixes  []string
	Next      Cursor
	Truncated bool
}

// Meta is the contract of a metadata engine: the typed reads of the hot paths, one generic read for small documents, and one
// write.
//
// A read sees every change whose Apply returned before the read began, and never a part of a change; a page, or an object
// with its segments, is one snapshot. An engine behind a network answers a page in one round trip. What a read returns
// belongs to the caller, who must not change it where a driver says that it shares (package cached does). Reads of things
// that do not exist return the kind of the thing (NoSuchBucket, NoSuchKey, NoSuchVersion, NoSuchUpload).
//
// Any error of a read means "unknown", never "nothing there".
type Meta interface {
	// State returns where the engine stands.
	State(ctx context.Context) (State, error)

	// Bucket returns the bucket of that name.
	Bucket(ctx context.Context, name string) (*BucketInfo, error)

	// Buckets returns up to limit buckets whose names begin with prefix and come after after, in order.
	Buckets(ctx context.Context, prefix, after string, limit int) ([]BucketInfo, error)

	// Object returns a version of a key, its segments resolved: Current is the newest, also when that is a delete marker
	// (the caller looks at Marker). It says NoSuchKey where the key has no version at all, and NoSuchVersion where it does
	// not have that one.
	Object(ctx context.Context, bucket BucketID, key string, v Version) (*ObjectInfo, error)

	// List returns one page. It reads at most Limit + 1 rows and one seek per common prefix, whatever noncurrent versions
	// and delete markers lie between (but for ListVersions, which lists those).
	List(ctx context.Context, q ListQuery) (*ListPage, error)

	// Upload returns an upload in progress of bucket and key.
	Upload(ctx context.Context, bucket BucketID, key string, id UploadID) (*UploadInfo, error)

	// Parts returns up to limit parts of an upload in progress, or of the object that it became, with numbers above after,
	// in order, their segments resolved. An unknown id has no parts.
	Parts(ctx context.Context, id UploadID, after, limit int) ([]PartInfo, error)

	// Data returns those of the ids that exist, in the order asked for: how reclaim and checks prove which frames of a
	// block are live, since each frame carries the DataID that it belongs to.
	Data(ctx context.Context, ids []DataID) ([]DataInfo, error)

	// FindData returns a content that fits k, any of them, or NoSuchData. It may be gone when the caller uses it: a change that refers to it
	// says what it must be, by Source.Content.
	FindData(ctx context.Context, k ContentKey) (*DataInfo, error)

	// GuessData returns the number of a content that probably fits k, where that is in memory; 0: nothing is known without a look (FindData). It promises less
	// than FindData does: the content may never have fitted.
	GuessData(k ContentKey) DataID

	// Garbage returns up to limit entries with IDs above after, in order.
	Garbage(ctx context.Context, after uint64, limit int) ([]Garbage, error)

	// Records returns up to limit records of a kind with keys above after, in order.
	Records(ctx context.Context, kind, after string, limit int) ([]Record, error)

	// Usage returns what a bucket with a quota holds: its tally, which each change keeps, so it costs one look-up. BucketState where it has no quota,
	// since then nobody counts; NoSuchBucket.
	Usage(ctx context.Context, bucket BucketID) (Usage, error)

	// Apply writes changes in order, in one transaction: each is checked against the state that those before it left, then
	// written; one that fails its check writes nothing and fails alone (Result.Err). Stamps must be ascending; changes stamped at
	// or below State().Seq are skipped (Result.Skipped), so replaying is harmless.
	//
	// A SingleWriter writes each change under its stamp. Another engine gives the changes of a batch consecutive places, drawn when
	// everything that the batch reads is locked, so that replaying all changes in the order of Result.Seq gives the same outcomes;
	// it retries what its database rolled back, and finds out by itself whether a commit whose answer was lost was written.
	//
	// Apply is called by one goroutine of a process at a time (the batch writer's, or recovery's before it). When it returns nil,
	// every read sees the changes, and a killed process loses none of them. After a power cut a SingleWriter's State tells how many
	// are left, from the first on without a gap: the records in the blocks hold the others; another engine has lost nothing. An
	// error of the kind Unavailable means that nobody knows whether they were written, and every later Apply returns it too; any
	// other error means that nothing was.
	Apply(ctx context.Context, changes []Change) ([]Result, error)

	// Close makes everything durable and lets go of it.
	Close() error
}

// SingleWriter is implemented by a Meta that sees every write to its store: it may be cached in this process, and its stamps
// are the sequences.
type SingleWriter interface{ SingleWriter() }

// Checkpointer is implemented by a Meta that can make all that was applied last through a power cut, so that a start need not
// apply it again.
type Checkpointer interface {
	Checkpoint(ctx context.Context) error
}

// BlockKind says what a block is for.
type BlockKind uint8

// The kinds of blocks. Records are only ever in packed blocks, so a start after a crash reads no others.
const (
	Packed   BlockKind = 1 // batches: small contents and the records
	Large    BlockKind = 2 // one large content
	Snapshot BlockKind = 3 // a snapshot of the metadata
)

// BlockOptions says what a writer is for.
type BlockOptions struct {
	Kind     BlockKind
	SizeHint int64 // bytes: for Packed an upper bound of what will be written; for Large the likely size, 0 if unknown
	Relaxed  bool  // Commit hands over to the operating system and does not wait for the drive: see Flusher
	Alone    bool  // with Packed: a block of its own, shared with no other writer
}

// BlockInfo describes a block in a walk.
type BlockInfo struct {
	ID   BlockID
	Kind BlockKind
	Size int64 // bytes that may hold frames; what lies behind the last good frame is not content
}

// Blocks is the contract of a block store: append-only units that are written once, made durable, read and deleted.
// All methods may be called at the same time from several goroutines; there is at most one Packed writer at a time.
type Blocks interface {
	// Create begins a writer. A Packed one appends to the block that is open, or to a new one where SizeHint does not fit.
	Create(ctx context.Context, o BlockOptions) (BlockWriter, error)

	// Open returns a reader of an extent and pins its block: Delete takes the name away, the bytes stay readable until
	// Close. A block that does not exist is NoSuchData.
	Open(ctx context.Context, e Extent) (BlockReader, error)

	// Delete removes a block. The caller has proof that nothing refers to it. Deleting what does not exist is no error.
	Delete(ctx context.Context, id BlockID) error

	// Walk calls fn for each block from id on, in order of ids, until fn returns an error, which Walk returns. Blocks
	// that are created meanwhile may be missing.
	Walk(ctx context.Context, from BlockID, fn func(BlockInfo) error) error

	// Close waits for nothing: writers in progress fail. Everything committed is durable already.
	Close() error
}

// BlockWriter appends to a block. One goroutine uses it.
type BlockWriter interface {
	// Block and Offset say where the next byte goes: frames carry both.
	Block() BlockID
	Offset() int64

	io.Writer

	// Commit makes everything written durable, with the block's name, and ends the writer. After an error nobody knows what is
	// on disk: the block is sealed, nothing is ever appended to it again, and the sync is not retried.
	Commit(ctx context.Context) error

	// Abort ends the writer; what it wrote is garbage. After Commit it does nothing, so it may be deferred.
	Abort() error
}

// Deferrer is implemented by BlockWriters that begin to write to the drive before Commit, so that this has less to wait for.
type Deferrer interface {
	// Defer says that Abort is likely to come: what can wait for Commit should.
	Defer()
}

// BlockReader reads an extent. Offsets count from the extent's start. io.ReaderAt's rules hold: fewer bytes than asked for
// come with an error.
type BlockReader interface {
	io.ReaderAt
	io.Closer
}

// Flusher is implemented by Blocks that take BlockOptions.Relaxed; others make every commit durable.
type Flusher interface {
	// Sync makes durable what was committed relaxed before the call, by an earlier process as well. After an error nobody knows what is, and no
	// later Sync can say: every later one fails.
	Sync(ctx context.Context) error
}

// Spacer is implemented by Blocks that know how much room they have.
type Spacer interface {
	// Space returns the bytes that are free for ORCAS and the bytes in all.
	Space(ctx context.Context) (free, total int64, err error)
}
