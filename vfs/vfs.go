// Package vfs is the namespace: buckets, keys, versions, listings and multipart uploads. It is built on the contract
// core.Meta, the write buffer, and the content engine (package content). It does not know about HTTP: package s3
// handles requests, and calls one method of this package for each.
//
// A write has two steps: the content is received (see package content), and then Put, PutPart or Append gives it a
// name, at one commit point. A read has two steps as well: Open looks up the version, and Range reads and verifies the
// first frame. Copies are by reference: they do not copy content.
package vfs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// Options configure an FS. Content, Meta and Writer are required.
type Options struct {
	Content *content.Engine
	Meta    core.Meta
	Writer  *batch.Writer
	Now     func() time.Time // default time.Now

	// Root is the account that owns buckets whose owner is recorded as "root", as it was before accounts had IDs. "" leaves
	// the owner as it is.
	Root string
}

// FS is the namespace. It embeds the content engine. Its methods may be called concurrently.
type FS struct {
	*content.Engine
	meta    core.Meta
	writer  *batch.Writer
	now     func() time.Time
	root    string     // Options.Root
	single  bool       // no other process writes, so the mutex buckets suffices; otherwise changes have preconditions
	buckets sync.Mutex // held while a bucket is updated or deleted, or one of its documents is written
}

// New returns an FS.
func New(o Options) (*FS, error) {
	if o.Content == nil || o.Meta == nil || o.Writer == nil {
		err := errors.New("options Content, Meta and Writer are required")
		return nil, core.E("vfs.New", core.InvalidArgument, err)
	}
	f := &FS{Engine: o.Content, meta: o.Meta, writer: o.Writer, now: o.Now, root: o.Root}
	_, f.single = core.As[core.SingleWriter](o.Meta)
	if f.now == nil {
		f.now = time.Now
	}
	return f, nil
}

// time returns the current time in UTC, truncated to milliseconds as it is stored.
func (f *FS) time() time.Time { return f.now().UTC().Truncate(time.Millisecond) }

// Stat returns a version of a key. If it is a delete marker, Stat returns it together with an error: NoSuchKey if v is
// core.Current, MethodNotAllowed otherwise. The caller must not modify the result.
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
	return o, core.E("vfs.Stat", kind, errors.New("the version is a delete marker"))
}

// List returns one page of a listing (see core.ListQuery).
func (f *FS) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	return f.meta.List(ctx, q)
}

// PutRequest is a version to be written.
type PutRequest struct {
	Bucket      *core.BucketInfo
	Key         string
	Content     *content.Content // owned by the version after a successful Put
	Attrs, Tags []core.Attr
	Lock        core.Lock       // if it has no Mode, the default retention of the bucket applies
	Sums        []core.Checksum // stored with the version
	Owner       string
	If          core.Precondition
}

// Put writes a version and returns it. If there is no error, the version is durable and visible. After an error of kind
// Unavailable the outcome is unknown; after any other error the key is unchanged.
func (f *FS) Put(ctx context.Context, r PutRequest) (*core.ObjectInfo, error) {
	now := f.time()
	change := &core.PutObject{
		Object: core.ObjectInfo{
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now),
			Size: r.Content.Size(), ETag: etagOf(r.Content),
			Sums: r.Sums, Attrs: r.Attrs, Tags: r.Tags, Owner: r.Owner,
		},
		If: r.If,
	}
	target := content.Target{Change: change, Segments: &change.Object.Segments, Source: &change.Source}
	res, err := r.Content.Put(ctx, target)
	if err != nil {
		return nil, err
	}
	return written(&change.Object, res), nil
}

// etagOf returns the ETag of an object or a part with this content: the MD5.
func etagOf(c *content.Content) string { return hex.EncodeToString(c.Sum(checksum.MD5)) }

// written sets the fields of o that Apply assigned. It may modify o because the write buffer no longer uses the change.
func written(o *core.ObjectInfo, res core.Result) *core.ObjectInfo {
	o.Seq, o.Null, o.Latest = res.Seq, res.Version == core.Null, true
	return o
}

// DeleteRequest is a key to delete, or one of its versions.
type DeleteRequest struct {
	Key     string
	Version core.Version
	If      core.Precondition
	Bypass  bool // ignore retention in governance mode
}

// DeleteResult is the result of a DeleteRequest. Version is the deleted version or the new delete marker, or Current if
// there was nothing to delete.
type DeleteResult struct {
	Err     error
	Version core.Version
	Marker  bool
}

// Delete deletes keys or versions, in one batch if they fit. Each has its own result.
func (f *FS) Delete(ctx context.Context, b *core.BucketInfo, owner string, reqs []DeleteRequest) []DeleteResult {
	now := f.time()
	writes := make([]batch.Write, len(reqs))
	for i, r := range reqs {
		writes[i].Change = &core.DeleteObject{
			Bucket: b.ID, Key: r.Key, Version: r.Version, If: r.If, Modified: now, Owner: owner, Bypass: r.Bypass,
		}
	}
	results, errs := f.writer.DoAll(ctx, writes)
	out := make([]DeleteResult, len(reqs))
	for i := range out {
		out[i] = DeleteResult{errs[i], results[i].Version, results[i].Marker}
	}
	return out
}

// CopyRequest is a copy of a version that Stat returned, with new metadata.
type CopyRequest struct {
	SourceBucket *core.BucketInfo
	Source       *core.ObjectInfo
	Bucket       *core.BucketInfo
	Key          string
	Attrs, Tags  []core.Attr
	Lock         core.Lock // if it has no Mode, the default retention of the bucket applies
	Owner        string
	If           core.Precondition
	Algorithm    checksum.Algorithm // of the checksum that is stored with the copy; None: those of the source
	Customer     *codec.Key         // the customer key of the source; nil if it has none
	Recode       *Recode            // encrypt the content again; nil to refer to the content of the source
}

// algorithms returns the algorithms of the copy's checksums.
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

// NeedsReading reports whether Copy must read all of the content: to encrypt it again, or because its MD5 or a checksum
// is unknown.
func (r *CopyRequest) NeedsReading() bool {
	_, known := pick(r.Source.Sums, r.algorithms())
	return r.Recode != nil || !known || !isMD5(r.Source.ETag)
}

// Copy writes a version with the content of another version, usually by reference. Even if the source has parts, the
// copy has none: its ETag is the MD5 of the whole content, and its checksum is that of the whole content. If these are
// unknown, Copy reads the content once. It returns Conflict if the source no longer exists; the caller should then look
// it up again.
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
			Bucket: r.Bucket.ID, Key: r.Key, Modified: now, Lock: lockOf(r.Bucket, r.Lock, now),
			Size: src.Size, ETag: etag, Sums: sums,
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

// references returns copies of segments without their DataInfo.
func references(segments []core.Segment) []core.Segment {
	out := make([]core.Segment, len(segments))
	for i, s := range segments {
		out[i] = core.Segment{Data: s.Data, From: s.From, Length: s.Length}
	}
	return out
}

func badRange(op string, from, n, size int64) error {
	err := fmt.Errorf("the range of %d bytes from offset %d is not within the object of %d bytes", n, from, size)
	return core.E(op, core.InvalidArgument, err)
}
