package vfs

import (
	"context"

	"orcas/batch"
	"orcas/core"
	"orcas/internal/checksum"
)

// # Instant upload
//
// Content that the bucket holds already is not stored again: the new version, or part, refers to what is there. Content in memory is looked
// up before it is handed to the write buffer; large content, whose hash is known at its end, is let go of; and where the hash is known
// before the body (KnownContent), nothing of that need come at all.
//
// A look-up promises nothing. That the content is there, and is the one that was meant, is decided where the references change, in
// core.Meta.Apply: a change whose content went in between fails with NoSuchData, and the content is stored like any other.

// place is where content goes: a change, and in it the segments and the source that content sets.
type place struct {
	change   core.Change
	segments *[]core.Segment
	source   **core.Source
}

// put gives content its place, and makes both durable. NoSuchData: it was known and is not there any more, so it has to be sent.
func (c *Content) put(ctx context.Context, p place) (core.Result, error) {
	res, done, err := c.share(ctx, p)
	if c.similar {
		c.fs.misled.Store(!done)
	}
	if done {
		return res, err
	}
	if c.known != nil {
		return core.Result{}, core.E("vfs.Put", core.NoSuchData, nil)
	}
	segments, write, err := c.commit(ctx)
	if err != nil {
		return core.Result{}, err
	}
	*p.segments, write.Change = segments, p.change
	return c.write(ctx, write)
}

// share refers to equal content where there is some. Done is false where there is none. What came lately is known in memory, so it is referred to without a
// look-up; where that was wrong, there is one.
func (c *Content) share(ctx context.Context, p place) (res core.Result, done bool, err error) {
	if c.scope == 0 || c.size == 0 {
		return res, false, nil
	}
	key := c.key()
	if c.known != nil {
		return c.refer(ctx, p, &key, c.known.ID)
	}
	guess := c.fs.meta.GuessData(key)
	if guess != 0 {
		if res, done, err = c.refer(ctx, p, &key, guess); done {
			return res, done, err
		}
	}
	found, err := c.fs.meta.FindData(ctx, key)
	if err != nil || found.ID == guess {
		return res, false, nil // content that cannot be found is stored once more
	}
	return c.refer(ctx, p, &key, found.ID)
}

// refer gives content that is there its place instead of c. Done is false where it is not there any more, or is not equal.
func (c *Content) refer(ctx context.Context, p place, key *core.ContentKey, id core.DataID) (res core.Result, done bool, err error) {
	*p.segments, *p.source = []core.Segment{{Data: id, Length: c.size}}, &core.Source{Content: key, Sums: c.sums}
	res, err = c.fs.writer.Do(ctx, batch.Write{Change: p.change})
	if core.Is(err, core.NoSuchData) {
		*p.segments, *p.source = nil, nil
		return core.Result{}, false, nil
	}
	if err == nil {
		c.drop()
	}
	return res, true, err
}

// deferMin is the least size, in bytes, of content that the drive would begin to write before its end.
const deferMin = 4 << 20

// look compares the beginning of large content with what is there: if that is of the same size and begins so, the content is likely to be dropped in the end, and its
// writing to the drive is deferred. Where it is not dropped (images of disks begin alike and have one size), that takes a tenth longer; so the last one that was
// likely to be dropped decides about the next.
func (c *Content) look() {
	if c.scope == 0 || c.size < deferMin {
		return
	}
	_, err := c.fs.meta.FindData(context.Background(), core.ContentKey{Scope: c.scope, KeyID: c.codec.KeyID, SHA256: c.head, Size: c.size, Head: true})
	if c.similar = err == nil; c.similar && !c.fs.misled.Load() {
		c.large.Defer()
	}
}

// key returns what names content that c is equal to.
func (c *Content) key() core.ContentKey {
	return core.ContentKey{Scope: c.scope, KeyID: c.codec.KeyID, SHA256: c.sha256, Size: c.size}
}

// KnownContent returns content of a SHA-256 and a size, as if it had been read, where the bucket has it, encrypted as e says, and knows its MD5
// and its checksums of algs; else nil. Put or PutPart then says NoSuchData where it went in between. Whoever calls this must make sure that the caller may read all that
// the bucket has: the answer tells whether it has this.
func (f *FS) KnownContent(ctx context.Context, b *core.BucketInfo, sha256 [32]byte, size int64, e Encryption, algs ...checksum.Algorithm) (*Content, error) {
	c, err := f.announce(ctx, b, e)
	if err != nil {
		return nil, err
	}
	c.size, c.sha256 = size, sha256
	if c.scope == 0 || size <= 0 {
		return nil, nil
	}
	known, err := f.meta.FindData(ctx, c.key())
	if err != nil {
		return nil, nil // it has to be sent
	}
	md5, ok := find(known.Sums, checksum.MD5)
	if !ok || len(md5.Value) != len(c.md5) {
		return nil, nil
	}
	copy(c.md5[:], md5.Value)
	for _, a := range algs {
		if a == checksum.None || a == checksum.MD5 || a == checksum.SHA256 {
			continue
		}
		sum, ok := find(known.Sums, a)
		if !ok {
			return nil, nil
		}
		c.sums = append(c.sums, sum)
	}
	if err := f.space.check(ctx, 0); err != nil {
		return nil, err
	}
	c.known = known
	return c, nil
}

// InstantUpload says whether new content shares what is equal to it.
func (f *FS) InstantUpload() bool { return f.instant }

// Known says of contents whether the bucket has them, encrypted as e says; with ContentKey.Head, whether it has one that begins so. Of the keys, SHA256, Size and
// Head are the caller's, who must make sure of the same as with KnownContent. The answers promise nothing.
func (f *FS) Known(ctx context.Context, b *core.BucketInfo, e Encryption, keys []core.ContentKey) ([]bool, error) {
	c, err := f.announce(ctx, b, e)
	if err != nil {
		return nil, err
	}
	there := make([]bool, len(keys))
	for i := range keys {
		k := keys[i]
		k.Scope, k.KeyID = c.scope, c.codec.KeyID
		if k.Scope == 0 || k.Size <= 0 {
			continue
		}
		switch _, err := f.meta.FindData(ctx, k); {
		case err == nil:
			there[i] = true
		case core.Is(err, core.Canceled):
			return nil, err
		}
	}
	return there, nil
}

// announce returns content of which nothing is known but where it would go.
func (f *FS) announce(ctx context.Context, b *core.BucketInfo, e Encryption) (*Content, error) {
	c := &Content{fs: f, scope: f.scope(b)}
	e.Store = e.Store || f.EncryptsBucket(b)
	return c, c.Encrypt(ctx, e)
}

// scope returns whose content new content of a bucket may share; 0: nobody's.
func (f *FS) scope(b *core.BucketInfo) core.BucketID {
	if !f.instant {
		return 0
	}
	return b.ID
}

// unshare has content that was found damaged shared no more: what is equal to it is then stored, and is whole.
func (f *FS) unshare(ctx context.Context, d *core.DataInfo) {
	if d.Scope != 0 {
		_, _ = f.writer.Do(ctx, batch.Write{Change: &core.Unshare{Data: d.ID}}) // whoever reads it next tries again
	}
}
