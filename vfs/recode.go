package vfs

import (
	"context"

	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// Recode describes a copy that is encrypted differently from its source, so that all content must be read and written
// again.
type Recode struct {
	From *codec.Key // the customer key of the source; nil if it has none
	To   content.Encryption
}

// read reads n bytes of an object as new content of a bucket. The caller must discard it.
func (r *Recode) read(
	ctx context.Context, o *Object, b *core.BucketInfo, from, n int64, algs []checksum.Algorithm,
) (*content.Content, error) {
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

// copyContent implements Copy with a Recode.
func (f *FS) copyContent(ctx context.Context, r *CopyRequest) (*core.ObjectInfo, error) {
	source, err := f.reopen(ctx, r.Source)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	algs := r.algorithms()
	body, err := r.Recode.read(ctx, source, r.Bucket, 0, source.Info.Size, algs)
	if err != nil {
		return nil, err
	}
	defer body.Discard()
	return f.Put(ctx, PutRequest{
		Bucket: r.Bucket, Key: r.Key, Content: body, Attrs: r.Attrs, Tags: r.Tags, Lock: r.Lock,
		Sums: body.Sums(algs), Owner: r.Owner, If: r.If,
	})
}

// copyPart implements CopyPart with a Recode.
func (f *FS) copyPart(ctx context.Context, r *CopyPartRequest) (*core.PartInfo, error) {
	source, err := f.reopen(ctx, r.Source)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	body, err := r.Recode.read(ctx, source, r.Bucket, r.From, r.Length, r.Algorithms)
	if err != nil {
		return nil, err
	}
	defer body.Discard()
	return f.PutPart(ctx, PartRequest{
		Bucket: r.Bucket, Key: r.Key, Upload: r.Upload, Number: r.Number,
		Content: body, Sums: body.Sums(r.Algorithms),
	})
}
