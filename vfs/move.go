package vfs

import (
	"context"

	"orcas/batch"
	"orcas/core"
)

// MoveRequest renames the current version of a key, from Stat, to Key in Bucket.
type MoveRequest struct {
	Source *core.ObjectInfo
	Bucket *core.BucketInfo
	Key    string
	If     core.Precondition // for the current version of the target
	Token  string            // see MovedBy; "" if none
	Owner  string            // the owner of the delete marker that a move leaves in a bucket with versioning
}

// Move moves a version, with its content and metadata, at one commit point, and returns the new version. It does not
// read or write content. It returns Conflict if the source, or the target that If refers to, has changed; the caller
// should look it up again.
func (f *FS) Move(ctx context.Context, r MoveRequest) (*core.ObjectInfo, error) {
	src, now := r.Source, f.time()
	change := &core.MoveObject{
		From: core.Source{Bucket: src.Bucket, Key: src.Key, Seq: src.Seq}, Bucket: r.Bucket.ID, Key: r.Key,
		If: r.If, Lock: lockOf(r.Bucket, core.Lock{}, now), Token: r.Token, Time: now, Owner: r.Owner,
	}
	res, err := f.writer.Do(ctx, batch.Write{Change: change})
	if err != nil {
		return nil, err
	}
	o := change.Moved(src)
	o.Attrs = core.WithoutToken(o.Attrs)
	return written(&o, res), nil
}

// MovedBy returns the current version of a key and the token of the move that wrote it, or nil and "" if it was not
// written by a move with a token. With it, a client that received no response can safely repeat its request.
func (f *FS) MovedBy(ctx context.Context, b *core.BucketInfo, key string) (*core.ObjectInfo, string, error) {
	o, err := f.meta.Object(ctx, b.ID, key, core.Current)
	if core.Is(err, core.NoSuchKey) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	token := core.MoveToken(o)
	if token == "" {
		return nil, "", nil
	}
	o.Attrs = core.WithoutToken(o.Attrs)
	return o, token, nil
}
