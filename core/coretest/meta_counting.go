package coretest

import (
	"context"
	"sync/atomic"

	"orcas/core"
)

// MetaCounts are the numbers of calls of the methods of a Meta.
type MetaCounts struct {
	State, Bucket, Buckets, Object, List, Upload, Parts, Data, Find, Garbage, Records, Usage int64
	Apply                                                                                    int64
	Changes                                                                                  int64 // the total number of changes
	Largest                                                                                  int64 // the maximum number of changes in one Apply
	PartRows, PartContents                                                                   int64 // the total numbers of parts returned and of segments resolved
}

// CountingMeta is a Meta that counts its calls.
type CountingMeta struct {
	core.Meta
	state, bucket, buckets, object, list, upload, parts, data, find, garbage, records, usage atomic.Int64
	apply, changes, largest, partRows, partContents                                          atomic.Int64
}

// NewCountingMeta wraps m.
func NewCountingMeta(m core.Meta) *CountingMeta { return &CountingMeta{Meta: m} }

// Unwrap returns the engine, for core.As.
func (c *CountingMeta) Unwrap() core.Meta { return c.Meta }

// Counts returns the calls since the last Reset.
func (c *CountingMeta) Counts() MetaCounts {
	return MetaCounts{
		State: c.state.Load(), Bucket: c.bucket.Load(), Buckets: c.buckets.Load(), Object: c.object.Load(), List: c.list.Load(),
		Upload: c.upload.Load(), Parts: c.parts.Load(), Data: c.data.Load(), Find: c.find.Load(), Garbage: c.garbage.Load(), Records: c.records.Load(), Usage: c.usage.Load(),
		Apply: c.apply.Load(), Changes: c.changes.Load(), Largest: c.largest.Load(),
		PartRows: c.partRows.Load(), PartContents: c.partContents.Load(),
	}
}

// Reset sets all counts to zero.
func (c *CountingMeta) Reset() {
	for _, n := range []*atomic.Int64{&c.state, &c.bucket, &c.buckets, &c.object, &c.list, &c.upload, &c.parts, &c.data, &c.find, &c.garbage,
		&c.records, &c.usage, &c.apply, &c.changes, &c.largest, &c.partRows, &c.partContents} {
		n.Store(0)
	}
}

// State counts the call and forwards it.
func (c *CountingMeta) State(ctx context.Context) (core.State, error) {
	c.state.Add(1)
	return c.Meta.State(ctx)
}

// Bucket counts the call and forwards it.
func (c *CountingMeta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	c.bucket.Add(1)
	return c.Meta.Bucket(ctx, name)
}

// Buckets counts the call and forwards it.
func (c *CountingMeta) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, error) {
	c.buckets.Add(1)
	return c.Meta.Buckets(ctx, prefix, after, limit)
}

// Object counts the call and forwards it.
func (c *CountingMeta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	c.object.Add(1)
	return c.Meta.Object(ctx, bucket, key, v)
}

// List counts the call and forwards it.
func (c *CountingMeta) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	c.list.Add(1)
	return c.Meta.List(ctx, q)
}

// Upload counts the call and forwards it.
func (c *CountingMeta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	c.upload.Add(1)
	return c.Meta.Upload(ctx, bucket, key, id)
}

// Parts counts the call and the parts and resolved segments that it returns, and forwards it.
func (c *CountingMeta) Parts(
	ctx context.Context, id core.UploadID, after, limit int, content core.PartContent,
) ([]core.PartInfo, error) {
	c.parts.Add(1)
	parts, err := c.Meta.Parts(ctx, id, after, limit, content)
	c.partRows.Add(int64(len(parts)))
	for i := range parts {
		for j := range parts[i].Segments {
			if parts[i].Segments[j].Info != nil {
				c.partContents.Add(1)
			}
		}
	}
	return parts, err
}

// Data counts the call and forwards it.
func (c *CountingMeta) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	c.data.Add(1)
	return c.Meta.Data(ctx, ids)
}

// FindData counts the call and forwards it.
func (c *CountingMeta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	c.find.Add(1)
	return c.Meta.FindData(ctx, k)
}

// Garbage counts the call and forwards it.
func (c *CountingMeta) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	c.garbage.Add(1)
	return c.Meta.Garbage(ctx, after, limit)
}

// Records counts the call and forwards it.
func (c *CountingMeta) Records(ctx context.Context, kind, after string, limit int) ([]core.Record, error) {
	c.records.Add(1)
	return c.Meta.Records(ctx, kind, after, limit)
}

// Usage counts the call and forwards it.
func (c *CountingMeta) Usage(ctx context.Context, bucket core.BucketID) (core.Usage, error) {
	c.usage.Add(1)
	return c.Meta.Usage(ctx, bucket)
}

// Apply counts the call and its changes, and forwards it.
func (c *CountingMeta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	c.apply.Add(1)
	n := int64(len(changes))
	c.changes.Add(n)
	if n > c.largest.Load() { // Apply is called by one goroutine at a time
		c.largest.Store(n)
	}
	return c.Meta.Apply(ctx, changes)
}
