package vfs

import (
	"context"

	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// Recode is a copy whose content must not be that of its source, since it is to be encrypted in another way. All of it is read and written.
type Recode struct {
	From *codec.Key // the customer's key of the source; nil: it takes none
	To   Encryption
}

// read takes a run of an object in as new content of a bucket. The caller discards it.
func (r *Recode) read(ctx context.Context, o *Object, b *core.BucketInfo, from, n int64, algs []checksum.Algorithm) (*Content, error) {
	o.Unlock(r.From)
	section, err := o.Range(ctx, from, n)
	if err != nil {
		return nil, err
	}
	defer section.Close()
	c, err := o.fs.NewContent(ctx, b, n, algs...)
	if err != nil {
		return nil, err
	}
	c.Describe(o.Info.Attrs)
	if err = c.Encrypt(ctx, r.To); err == nil {
		_, err = c.ReadFrom(section)
	}
	if err != nil {
		c.Discard()
		return nil, err
	}
	return c, nil
}

// kept returns the checksums of the content that are of algs.
func (c *Content) kept(algs []checksum.Algorithm) []core.Checksum {
	sums := make([]core.Checksum, len(algs))
	for i, a := range algs {
		sums[i] = core.Checksum{Algorithm: a, Value: c.Sum(a)}
	}
	return sums
}

// copyContent is Copy by value.
func (f *FS) copyContent(ctx context.Context, r *CopyRequest) (*core.ObjectInfo, error) {
	source, err := f.reopen(ctx, r.Source)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	algs := r.algorithms()
	content, err := r.Recode.read(ctx, source, r.Bucket, 0, source.Info.Size, algs)
	if err != nil {
		return nil, err
	}
	defer content.Discard()
	return f.Put(ctx, PutRequest{
		Bucket: r.Bucket, Key: r.Key, Content: content, Attrs: r.Attrs, Tags: r.Tags, Lock: r.Lock, Sums: content.kept(algs), Owner: r.Owner, If: r.If,
	})
}

// copyPart is CopyPart by value.
func (f *FS) copyPart(ctx context.Context, r *CopyPartRequest, source *Object) (*core.PartInfo, error) {
	content, err := r.Recode.read(ctx, source, r.Bucket, r.From, r.Length, r.Algorithms)
	if err != nil {
		return nil, err
	}
	defer content.Discard()
	return f.PutPart(ctx, PartRequest{
		Bucket: r.Bucket, Key: r.Key, Upload: r.Upload, Number: r.Number, Content: content, Sums: content.kept(r.Algorithms),
	})
}
