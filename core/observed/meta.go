package observed

import (
	"context"
	"time"

	"orcas/core"
)

// State implements core.Meta.
func (m *meta) State(ctx context.Context) (core.State, error) {
	start := time.Now()
	st, err := m.engine.State(ctx)
	m.observe.observe(MetaState, start, 0, err)
	return st, err
}

// Bucket implements core.Meta.
func (m *meta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	start := time.Now()
	b, err := m.engine.Bucket(ctx, name)
	m.observe.observe(MetaBucket, start, 0, err)
	return b, err
}

// Buckets implements core.Meta.
func (m *meta) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, error) {
	start := time.Now()
	list, err := m.engine.Buckets(ctx, prefix, after, limit)
	m.observe.observe(MetaBuckets, start, 0, err)
	return list, err
}

// Object implements core.Meta.
func (m *meta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	start := time.Now()
	o, err := m.engine.Object(ctx, bucket, key, v)
	m.observe.observe(MetaObject, start, 0, err)
	return o, err
}

// List implements core.Meta.
func (m *meta) List(ctx context.Context, q core.ListQuery) (*core.ListPage, error) {
	start := time.Now()
	page, err := m.engine.List(ctx, q)
	m.observe.observe(MetaList, start, 0, err)
	return page, err
}

// Upload implements core.Meta.
func (m *meta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	start := time.Now()
	u, err := m.engine.Upload(ctx, bucket, key, id)
	m.observe.observe(MetaUpload, start, 0, err)
	return u, err
}

// Parts implements core.Meta.
func (m *meta) Parts(
	ctx context.Context, id core.UploadID, after, limit int, content core.PartContent,
) ([]core.PartInfo, error) {
	start := time.Now()
	parts, err := m.engine.Parts(ctx, id, after, limit, content)
	m.observe.observe(MetaParts, start, 0, err)
	return parts, err
}

// Data implements core.Meta.
func (m *meta) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	start := time.Now()
	list, err := m.engine.Data(ctx, ids)
	m.observe.observe(MetaData, start, 0, err)
	return list, err
}

// FindData implements core.Meta.
func (m *meta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	start := time.Now()
	d, err := m.engine.FindData(ctx, k)
	m.observe.observe(MetaFindData, start, 0, err)
	return d, err
}

// Garbage implements core.Meta.
func (m *meta) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	start := time.Now()
	list, err := m.engine.Garbage(ctx, after, limit)
	m.observe.observe(MetaGarbage, start, 0, err)
	return list, err
}

// Records implements core.Meta.
func (m *meta) Records(ctx context.Context, kind, after string, limit int) ([]core.Record, error) {
	start := time.Now()
	list, err := m.engine.Records(ctx, kind, after, limit)
	m.observe.observe(MetaRecords, start, 0, err)
	return list, err
}

// Usage implements core.Meta.
func (m *meta) Usage(ctx context.Context, bucket core.BucketID) (core.Usage, error) {
	start := time.Now()
	u, err := m.engine.Usage(ctx, bucket)
	m.observe.observe(MetaUsage, start, 0, err)
	return u, err
}

// Apply implements core.Meta. A change that fails its check is a result, not an error of the call.
func (m *meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	start := time.Now()
	results, err := m.engine.Apply(ctx, changes)
	m.observe.observe(MetaApply, start, 0, err)
	return results, err
}

// Close implements core.Meta.
func (m *meta) Close() error {
	start := time.Now()
	err := m.engine.Close()
	m.observe.observe(MetaClose, start, 0, err)
	return err
}
