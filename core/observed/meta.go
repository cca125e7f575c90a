package observed

import (
	"context"
	"time"

	"orcas/core"
)

// State implements core.Meta.
func (m *meta) State(ctx context.Context) (_ core.State, err error) {
	defer m.observe.call(MetaState, time.Now(), &err)
	return m.engine.State(ctx)
}

// Bucket implements core.Meta.
func (m *meta) Bucket(ctx context.Context, name string) (_ *core.BucketInfo, err error) {
	defer m.observe.call(MetaBucket, time.Now(), &err)
	return m.engine.Bucket(ctx, name)
}

// Buckets implements core.Meta.
func (m *meta) Buckets(ctx context.Context, prefix, after string, limit int) (_ []core.BucketInfo, err error) {
	defer m.observe.call(MetaBuckets, time.Now(), &err)
	return m.engine.Buckets(ctx, prefix, after, limit)
}

// Object implements core.Meta.
func (m *meta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (_ *core.ObjectInfo, err error) {
	defer m.observe.call(MetaObject, time.Now(), &err)
	return m.engine.Object(ctx, bucket, key, v)
}

// List implements core.Meta.
func (m *meta) List(ctx context.Context, q core.ListQuery) (_ *core.ListPage, err error) {
	defer m.observe.call(MetaList, time.Now(), &err)
	return m.engine.List(ctx, q)
}

// Upload implements core.Meta.
func (m *meta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (_ *core.UploadInfo, err error) {
	defer m.observe.call(MetaUpload, time.Now(), &err)
	return m.engine.Upload(ctx, bucket, key, id)
}

// Parts implements core.Meta.
func (m *meta) Parts(
	ctx context.Context, id core.UploadID, after, limit int, content core.PartContent,
) (_ []core.PartInfo, err error) {
	defer m.observe.call(MetaParts, time.Now(), &err)
	return m.engine.Parts(ctx, id, after, limit, content)
}

// Data implements core.Meta.
func (m *meta) Data(ctx context.Context, ids []core.DataID) (_ []core.DataInfo, err error) {
	defer m.observe.call(MetaData, time.Now(), &err)
	return m.engine.Data(ctx, ids)
}

// FindData implements core.Meta.
func (m *meta) FindData(ctx context.Context, k core.ContentKey) (_ *core.DataInfo, err error) {
	defer m.observe.call(MetaFindData, time.Now(), &err)
	return m.engine.FindData(ctx, k)
}

// Garbage implements core.Meta.
func (m *meta) Garbage(ctx context.Context, after uint64, limit int) (_ []core.Garbage, err error) {
	defer m.observe.call(MetaGarbage, time.Now(), &err)
	return m.engine.Garbage(ctx, after, limit)
}

// Records implements core.Meta.
func (m *meta) Records(ctx context.Context, kind, after string, limit int) (_ []core.Record, err error) {
	defer m.observe.call(MetaRecords, time.Now(), &err)
	return m.engine.Records(ctx, kind, after, limit)
}

// Usage implements core.Meta.
func (m *meta) Usage(ctx context.Context, bucket core.BucketID) (_ core.Usage, err error) {
	defer m.observe.call(MetaUsage, time.Now(), &err)
	return m.engine.Usage(ctx, bucket)
}

// Apply implements core.Meta. A change that fails its check is a result, not an error of the call.
func (m *meta) Apply(ctx context.Context, changes []core.Change) (_ []core.Result, err error) {
	defer m.observe.call(MetaApply, time.Now(), &err)
	return m.engine.Apply(ctx, changes)
}

// Close implements core.Meta.
func (m *meta) Close() (err error) {
	defer m.observe.call(MetaClose, time.Now(), &err)
	return m.engine.Close()
}
