package vfs

import (
	"context"

	"orcas/batch"
	"orcas/core"
)

// MoveRequest gives a version that Stat returned, the current one of its key, the name Key in Bucket.
type MoveRequest struct {
	Source *core.ObjectInfo
	Bucket *core.BucketInfo
	Key    string
	If     core.Precondition // of the current version of the target
	Token  string            // see MovedBy; "": none
	Owner  string            // of the delete marker that stays where there are versions
}

// Move moves a version, content and metadata, at one commit point, and returns it as it is now. No content is read or written. Conflict:
// the source, or the target that If names, was changed; look again.
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

// MovedBy returns the current version of a key and the token of the move that wrote it, nil and "" where no move with a token did: so
// that a client whose answer was lost may ask again.
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
