package vfs

import (
	"context"
	"errors"
	"slices"

	"orcas/batch"
	"orcas/core"
)

// CreateBucket creates a bucket with the name and the properties of info. It returns BucketExists if the name is in
// use, and InvalidArgument if the quota is negative.
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

// Bucket returns the bucket with a name.
func (f *FS) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	b, err := f.meta.Bucket(ctx, name)
	if err == nil && f.ownedByRoot(b) {
		b = f.withRoot(b)
	}
	return b, err
}

// formerRoot is the owner of buckets that were created before accounts had IDs.
const formerRoot = "root"

func (f *FS) ownedByRoot(b *core.BucketInfo) bool { return b.Owner == formerRoot && f.root != "" }

// withRoot returns a copy of a bucket that the root account owns.
func (f *FS) withRoot(b *core.BucketInfo) *core.BucketInfo {
	owned := *b
	owned.Owner = f.root
	return &owned
}

// Buckets returns up to limit buckets whose names begin with prefix and sort after the name after, in order, and
// reports whether there are more.
func (f *FS) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, bool, error) {
	list, err := f.meta.Buckets(ctx, prefix, after, limit+1)
	if slices.ContainsFunc(list, func(b core.BucketInfo) bool { return f.ownedByRoot(&b) }) {
		list = slices.Clone(list)
		for i := range list {
			if f.ownedByRoot(&list[i]) {
				list[i].Owner = f.root
			}
		}
	}
	if err != nil || len(list) <= limit {
		return list, false, err
	}
	return list[:limit], true, nil
}

// UpdateBucket changes the properties of a bucket. If change returns an error, the bucket is unchanged and UpdateBucket
// returns that error. A negative quota is InvalidArgument. Updates are serialized, so that concurrent updates do not
// overwrite each other.
func (f *FS) UpdateBucket(
	ctx context.Context, name string, change func(*core.BucketInfo) error,
) (*core.BucketInfo, error) {
	f.buckets.Lock()
	defer f.buckets.Unlock()
	for try := 1; ; try++ {
		old, err := f.meta.Bucket(ctx, name)
		if err != nil {
			return nil, err
		}
		info := *old
		if f.ownedByRoot(old) {
			info.Owner = f.root
		}
		info.Attrs = append([]core.Attr(nil), old.Attrs...)
		if err = change(&info); err == nil {
			err = info.Quota.Check() // a negative quota cannot be recorded
		}
		if err != nil {
			return nil, err
		}
		c := &core.PutBucket{Info: info}
		if !f.single {
			c.Expect = old
		}
		if _, err = f.writer.Do(ctx, batch.Write{Change: c}); err == nil {
			return &info, nil
		}
		if f.single || !core.Is(err, core.Conflict) || try == updateTries {
			return nil, err
		}
	}
}

// updateTries is how often an update is attempted if other servers update the same bucket.
const updateTries = 10

// DeleteBucket deletes a bucket that has no objects, together with its documents and its uploads in progress. It does
// not affect a new bucket of the same name.
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
		f.ForgetBucket(b.ID)
	}
	return err
}

func (f *FS) deleteBucket(ctx context.Context, b *core.BucketInfo) error {
	_, err := f.writer.Do(ctx, batch.Write{Change: &core.DeleteBucket{Bucket: b.ID}})
	return err
}

// endUploads aborts all uploads of a bucket that has no objects, because in S3 only objects prevent the deletion of a
// bucket. It reports whether there were any uploads.
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

// maxDocuments is the maximum number of documents that are read from a bucket.
const maxDocuments = 100

// Document returns a document of a bucket, usually XML, by the name of its subresource, or nil if it does not exist.
// Documents are deleted with the bucket.
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

// PutDocument writes a document of a bucket, or deletes it if value is nil. It returns NoSuchBucket if the bucket was
// deleted, even if a new bucket has the same name: a document of a deleted bucket would never be deleted.
func (f *FS) PutDocument(ctx context.Context, b *core.BucketInfo, name string, value []byte) error {
	if value != nil && len(value) == 0 {
		return core.E("vfs.PutDocument", core.InvalidArgument, errors.New("the document is empty"))
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
	c := &core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(b.ID), Key: name, Value: value}}
	if !f.single { // another server may have deleted the bucket in the meantime
		c.In = b.ID
	}
	_, err = f.writer.Do(ctx, batch.Write{Change: c})
	return err
}
