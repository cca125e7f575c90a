package vfs

import (
	"context"
	"errors"

	"orcas/batch"
	"orcas/core"
)

// CreateBucket makes a bucket of info's Name and properties; BucketExists where there is one, InvalidArgument where its quota is below nothing.
func (f *FS) CreateBucket(ctx context.Context, info core.BucketInfo) (*core.BucketInfo, error) {
	info.ID, info.Created = 0, f.time()
	if err := info.Quota.Check(); err != nil {
		return nil, err
	}
	res, err := f.writer.Do(ctx, batch.Write{Change: &core.PutBucket{Info: info}})
	if err != nil {
		return nil, err
	}
	info.ID = core.BucketID(res.Seq)
	return &info, nil
}

// Bucket returns the bucket of that name.
func (f *FS) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	return f.meta.Bucket(ctx, name)
}

// Buckets returns up to limit buckets whose names begin with prefix and come after after, and whether more follow.
func (f *FS) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, bool, error) {
	list, err := f.meta.Buckets(ctx, prefix, after, limit+1)
	if err != nil || len(list) <= limit {
		return list, false, err
	}
	return list[:limit], true, nil
}

// UpdateBucket replaces the properties of a bucket by what change makes of them; an error of change leaves it as it was, and so does a quota below nothing (InvalidArgument). Updates of buckets
// follow each other, so that none undoes another.
func (f *FS) UpdateBucket(ctx context.Context, name string, change func(*core.BucketInfo) error) (*core.BucketInfo, error) {
	f.buckets.Lock()
	defer f.buckets.Unlock()
	old, err := f.meta.Bucket(ctx, name)
	if err != nil {
		return nil, err
	}
	info := *old
	info.Attrs = append([]core.Attr(nil), old.Attrs...)
	if err = change(&info); err == nil {
		err = info.Quota.Check() // a record could not hold it
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.writer.Do(ctx, batch.Write{Change: &core.PutBucket{Info: info}}); err != nil {
		return nil, err
	}
	return &info, nil
}

// DeleteBucket removes a bucket without objects, its documents, and its uploads in progress: that one, and no other that has taken its name.
func (f *FS) DeleteBucket(ctx context.Context, b *core.BucketInfo) error {
	f.buckets.Lock()
	defer f.buckets.Unlock()
	err := f.deleteBucket(ctx, b)
	if core.Is(err, core.BucketNotEmpty) {
		if ended, failed := f.endUploads(ctx, b); failed != nil {
			return failed
		} else if ended {
			err = f.deleteBucket(ctx, b)
		}
	}
	if err == nil {
		f.dictionaries.drop(b.ID)
	}
	return err
}

func (f *FS) deleteBucket(ctx context.Context, b *core.BucketInfo) error {
	_, err := f.writer.Do(ctx, batch.Write{Change: &core.DeleteBucket{Bucket: b.ID}})
	return err
}

// endUploads aborts every upload of a bucket that has nothing else: in S3 only objects keep a bucket. It says whether there were any.
func (f *FS) endUploads(ctx context.Context, b *core.BucketInfo) (ended bool, err error) {
	objects, err := f.List(ctx, core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 1})
	if err != nil || len(objects.Objects) > 0 {
		return false, err
	}
	for q := (core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 1000}); ; {
		page, err := f.List(ctx, q)
		if err != nil {
			return ended, err
		}
		for i := range page.Uploads {
			u := &page.Uploads[i]
			if err := f.AbortUpload(ctx, b, u.Key, u.ID); err != nil && !core.Is(err, core.NoSuchUpload) {
				return ended, err
			}
			ended = true
		}
		if !page.Truncated {
			return ended, nil
		}
		q.After = page.Next
	}
}

// maxDocuments is how many documents a bucket can have.
const maxDocuments = 100

// Document returns a document of a bucket (the XML of a sub-resource, as a rule), by the name of its sub-resource. It goes with the bucket. Nil: there is none.
func (f *FS) Document(ctx context.Context, b *core.BucketInfo, name string) ([]byte, error) {
	list, err := f.meta.Records(ctx, core.BucketRecordKind(b.ID), "", maxDocuments)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if r.Key == name {
			return r.Value, nil
		}
	}
	return nil, nil
}

// PutDocument writes a document of a bucket; nil removes it. NoSuchBucket: the bucket went meanwhile, also where another has its name; a document
// written after that would stay for ever.
func (f *FS) PutDocument(ctx context.Context, b *core.BucketInfo, name string, value []byte) error {
	if value != nil && len(value) == 0 {
		return core.E("vfs.PutDocument", core.InvalidArgument, errors.New("an empty document"))
	}
	f.buckets.Lock()
	defer f.buckets.Unlock()
	now, err := f.meta.Bucket(ctx, b.Name)
	if err == nil && now.ID != b.ID {
		err = core.E("vfs.PutDocument", core.NoSuchBucket, nil)
	}
	if err != nil {
		return err
	}
	record := core.Record{Kind: core.BucketRecordKind(b.ID), Key: name, Value: value}
	_, err = f.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: record}})
	return err
}
