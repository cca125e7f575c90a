// Package vfs is the namespace: buckets, keys, versions, ranges, listings and multipart uploads, over the contracts Meta and
// Blocks and the write buffer. It knows no HTTP: package s3 speaks that, and calls one method here for each request.
//
// A write has two steps, so that nothing is called back. NewContent and ReadFrom take the body in: up to Options.MaxPacked
// bytes into a pooled buffer, more into a block of its own, hashed in one pass. The caller compares the sums with what the
// client claimed. Put (or PutPart) then makes it durable and gives it its name at one commit point; Discard forgets it.
//
// A read also has two: Open finds the version, Range reads and verifies the first frame, so that damage there is an error before
// any answer is begun. What an open Object refers to stays where it is until Close: who takes content away calls Quiet before. Copies
// are by reference: no byte of content moves.
package vfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
	"orcas/internal/epoch"
)

// Options configure an FS. Meta, Blocks and Writer are required.
type Options struct {
	Meta      core.Meta
	Blocks    core.Blocks
	Writer    *batch.Writer
	MaxPacked int64                   // largest content that is packed, in bytes; default 65536
	Reserve   func(total int64) int64 // bytes that content must leave free on a drive of total bytes; nil: none
	Now       func() time.Time        // default time.Now
	Instant   bool                    // new content of a bucket shares what is equal to it

	Compression codec.Level // of content in buckets that do not say; default codec.Off
	Logger      *slog.Logger
	Keys        *codec.Keys // master keys; nil: none, so that nothing is encrypted but with customers' keys. See FS.CheckKeys
	EncryptAll  bool        // new content is encrypted in every bucket
}

// FS is the namespace. Its methods may be called from many goroutines.
type FS struct {
	meta      core.Meta
	blocks    core.Blocks
	writer    *batch.Writer
	maxPacked int64
	instant   bool
	space     space
	now       func() time.Time
	readers   epoch.Readers // that may be on their way to what they found in the metadata
	misled    atomic.Bool   // the last large content that was likely to be dropped (see Content.look) was not
	buckets   sync.Mutex    // held by who updates or deletes one, or writes a document of it

	compression  codec.Level
	dictionaries dictionaries
	master       masterKeys
	encryptAll   bool
	log          *slog.Logger
}

// New makes an FS.
func New(o Options) (*FS, error) {
	if o.Meta == nil || o.Blocks == nil || o.Writer == nil {
		return nil, core.E("vfs.New", core.InvalidArgument, errors.New("the options Meta, Blocks and Writer are required"))
	}
	if o.MaxPacked <= 0 {
		o.MaxPacked = 64 << 10
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &FS{
		meta: o.Meta, blocks: o.Blocks, writer: o.Writer, maxPacked: o.MaxPacked, instant: o.Instant, now: o.Now,
		space: space{blocks: o.Blocks, reserve: o.Reserve, now: o.Now}, compression: o.Compression,
		master: masterKeys{keys: o.Keys}, encryptAll: o.EncryptAll, log: o.Logger,
	}
	f.dictionaries.init()
	return f, nil
}

// Quiet returns when every Object has been closed that was open when it was called, or when ctx ends.
func (f *FS) Quiet(ctx context.Context) error {
	if err := f.readers.Wait(ctx); err != nil {
		return core.E("vfs.Quiet", core.Canceled, err)
	}
	return nil
}

// time returns the present as it is stored: milliseconds, UTC.
func (f *FS) time() time.Time { return f.now().UTC().Truncate(time.Millisecond) }

// Stat returns a version of a key. Where that is a delete marker it comes with an error: NoSuchKey for the current version,
// MethodNotAllowed for one named. The caller must not change what it gets.
func (f *FS) Stat(ctx context.Context, b *core.BucketInfo, key string, v core.Version) (*core.ObjectInfo, error) {
	o, err := f.meta.Object(ctx, b.ID, key, v)
	if err != nil {
		return nil, err
	}
	if !o.Marker {
		o.Attrs = core.WithoutToken(o.Attrs)
		return o, nil
	}
	kind := core.NoSuchKey
	if v != core.Current {
		kind = core.MethodNotAllowed
	}
	return o, core.E("vfs.Stat", kind, errors.New("a delete marker"))
}

// List returns one page of a listing (see core.ListQuery).
func (f *FS) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	return f.meta.List(ctx, q)
}

// PutRequest is a version to be written.
type PutRequest struct {
	Bucket      *core.BucketInfo
	Key         string
	Content     *Content // taken over by a successful Put
	Attrs, Tags []core.Attr
	Lock        core.Lock       // without a Mode: the bucket's retention
	Sums        []core.Checksum // kept with the version
	Owner       string
	If          core.Precondition
}

// Put writes a version and returns it. When it returns without error the version is durable and everybody sees it; with an error of
// the kind Unavailable nobody knows; with any other error the key is as it was.
func (f *FS) Put(ctx context.Context, r PutRequest) (*core.ObjectInfo, error) {
	now := f.time()
	change := &core.PutObject{
		Object: core.ObjectInfo{
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now), Size: r.Content.Size(), ETag: r.Content.etag(),
			Sums: r.Sums, Attrs: r.Attrs, Tags: r.Tags, Owner: r.Owner,
		},
		If: r.If,
	}
	res, err := r.Content.put(ctx, place{change, &change.Object.Segments, &change.Source})
	if err != nil {
		return nil, err
	}
	return written(&change.Object, res), nil
}

// written returns o as Apply has written it. The change itself belongs to the write buffer no longer.
func written(o *core.ObjectInfo, res core.Result) *core.ObjectInfo {
	o.Seq, o.Null, o.Latest = res.Seq, res.Version == core.Null, true
	return o
}

// DeleteRequest is a key, or one version of it, to be deleted.
type DeleteRequest struct {
	Key     string
	Version core.Version
	If      core.Precondition
	Bypass  bool // passes over retention in governance mode
}

// DeleteResult is what became of a DeleteRequest: Version is the version removed or the marker written, Current where there was
// nothing to do.
type DeleteResult struct {
	Err     error
	Version core.Version
	Marker  bool
}

// Delete deletes keys or versions, each with an outcome of its own, in one batch where they fit.
func (f *FS) Delete(ctx context.Context, b *core.BucketInfo, owner string, reqs []DeleteRequest) []DeleteResult {
	now := f.time()
	writes := make([]batch.Write, len(reqs))
	for i, r := range reqs {
		writes[i].Change = &core.DeleteObject{Bucket: b.ID, Key: r.Key, Version: r.Version, If: r.If, Modified: now, Owner: owner, Bypass: r.Bypass}
	}
	results, errs := f.writer.DoAll(ctx, writes)
	out := make([]DeleteResult, len(reqs))
	for i := range out {
		out[i] = DeleteResult{errs[i], results[i].Version, results[i].Marker}
	}
	return out
}

// CopyRequest is a copy of a version that Stat returned, with metadata of its own.
type CopyRequest struct {
	SourceBucket *core.BucketInfo
	Source       *core.ObjectInfo
	Bucket       *core.BucketInfo
	Key          string
	Attrs, Tags  []core.Attr
	Lock         core.Lock // without a Mode: the bucket's retention
	Owner        string
	If           core.Precondition
	Algorithm    checksum.Algorithm // of the checksum that is kept with the copy; None: those of the source
	Customer     *codec.Key         // the customer's key, to read the source; nil: it takes none
	Recode       *Recode            // the content is encrypted anew; nil: the copy refers to that of the source
}

// algorithms returns which checksums the copy has.
func (r *CopyRequest) algorithms() []checksum.Algorithm {
	if r.Algorithm != checksum.None {
		return []checksum.Algorithm{r.Algorithm}
	}
	algs := make([]checksum.Algorithm, len(r.Source.Sums))
	for i := range algs {
		algs[i] = r.Source.Sums[i].Algorithm
	}
	return algs
}

// NeedsReading says whether Copy has to read all of the content: where it is encrypted anew, or where a checksum of the whole, which an ETag is
// one of, is not known.
func (r *CopyRequest) NeedsReading() bool {
	_, known := pick(r.Source.Sums, r.algorithms())
	return r.Recode != nil || !known || !isMD5(r.Source.ETag)
}

// Copy writes a version whose content is that of another, by reference as a rule. The copy is one object, whatever its source was made of: its ETag is
// the MD5 of all content, its checksum is of all content, and it has no parts. The content is read once where these are not known. Conflict: the
// source is not there any more; look again.
func (f *FS) Copy(ctx context.Context, r CopyRequest) (*core.ObjectInfo, error) {
	if err := f.Room(ctx, r.Bucket, r.Key, r.Source.Size); err != nil {
		return nil, err
	}
	if r.Recode != nil {
		return f.copyContent(ctx, &r)
	}
	src := r.Source
	etag, sums, err := f.sumsOf(ctx, src, r.Customer, 0, src.Size, r.algorithms())
	if err != nil {
		return nil, err
	}
	now := f.time()
	change := &core.PutObject{
		Object: core.ObjectInfo{
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now), Size: src.Size, ETag: etag, Sums: sums,
			Attrs: r.Attrs, Tags: r.Tags, Owner: r.Owner,
			Segments: references(src.Segments), List: src.List, Index: src.Index,
		},
		If:     r.If,
		Source: &core.Source{Bucket: src.Bucket, Key: src.Key, Seq: src.Seq},
	}
	res, err := f.writer.Do(ctx, batch.Write{Change: change})
	if err != nil {
		return nil, err
	}
	return written(&change.Object, res), nil
}

// references returns segments that refer to content that is there already.
func references(segments []core.Segment) []core.Segment {
	out := make([]core.Segment, len(segments))
	for i, s := range segments {
		out[i] = core.Segment{Data: s.Data, From: s.From, Length: s.Length}
	}
	return out
}

func badRange(op string, from, n, size int64) error {
	return core.E(op, core.InvalidArgument, fmt.Errorf("bytes %d to %d of %d", from, from+n, size))
}
