package content

import (
	"context"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/internal/checksum"
)

// # Deduplication (instant upload)
//
// Content that the bucket already has is not stored again: the new version, or part, refers to the stored content.
// Content in memory is looked up before it is passed to the write buffer. The hash of large content is known only at
// its end, so a large duplicate is written and then dropped. If the client sends the hash first (KnownContent), it need
// not send the body.
//
// A lookup guarantees nothing. core.Meta.Apply, which updates the reference counts, decides whether the content still
// exists and is the expected content. If it was deleted in the meantime, the change fails with NoSuchData, and the new
// content is stored as usual.

// share makes the target refer to stored content that is equal and intact. Done is false if there is none. The IDs of
// recent content are in memory, so share tries those before it queries the database.
func (c *Content) share(ctx context.Context, t Target) (res core.Result, done bool, err error) {
	if c.scope == 0 || c.size == 0 {
		return res, false, nil
	}
	key := c.key()
	if c.known != nil {
		return c.refer(ctx, t, key, c.known.ID)
	}
	guess := c.engine.guess(ctx, &key)
	if guess != nil {
		if res, done, err = c.shareIfWhole(ctx, t, key, guess); done {
			return res, done, err
		}
	}
	found, err := c.engine.meta.FindData(ctx, key)
	if err != nil || guess != nil && found.ID == guess.ID {
		return res, false, nil // even after an error, the content can be stored as new
	}
	return c.shareIfWhole(ctx, t, key, found)
}

// guess returns the stored content that matches a key, if its DataID is in memory.
func (e *Engine) guess(ctx context.Context, key *core.ContentKey) *core.DataInfo {
	if e.guesser == nil {
		return nil
	}
	id := e.guesser.GuessData(*key)
	if id == 0 {
		return nil
	}
	found, err := e.meta.Data(ctx, []core.DataID{id})
	if err != nil || len(found) == 0 || !key.Fits(&found[0]) || found[0].Damaged {
		return nil
	}
	return &found[0]
}

// shareIfWhole makes the target refer to d if the stored copy of d is intact. It first repairs a damaged or missing
// copy.
func (c *Content) shareIfWhole(
	ctx context.Context, t Target, key core.ContentKey, d *core.DataInfo,
) (res core.Result, done bool, err error) {
	body, _ := c.Bytes()
	v, d := c.engine.examine(ctx, d, body, true)
	if v == broken {
		if err := c.repair(ctx, d); err == nil {
			v = whole
		} else if core.Is(err, core.Conflict) { // another upload may have repaired it
			v, d = c.engine.examine(ctx, d, body, true)
		}
	}
	if v != whole {
		return res, false, nil
	}
	return c.refer(ctx, t, key, d.ID)
}

// refer applies the target's change with a reference to stored content, and drops c. Done is false if the stored
// content no longer exists or is not equal.
func (c *Content) refer(
	ctx context.Context, t Target, key core.ContentKey, id core.DataID,
) (res core.Result, done bool, err error) {
	*t.Segments, *t.Source = []core.Segment{{Data: id, Length: c.size}}, &core.Source{Content: &key, Sums: c.sums}
	res, err = c.engine.writer.Do(ctx, batch.Write{Change: t.Change})
	if core.Is(err, core.NoSuchData) {
		*t.Segments, *t.Source = nil, nil
		return core.Result{}, false, nil
	}
	if err == nil {
		c.drop(ctx)
	}
	return res, true, err
}

// deferMin is the size, in bytes, from which content is flushed to the drive while it is still being received.
const deferMin = 4 << 20

// predictDuplicate looks for stored content of the same size and with the same beginning. If there is any, this content
// is probably a duplicate that will be dropped, so the flush to the drive is deferred. A wrong prediction makes the
// write about a tenth slower (disk images, for example, have the same beginning and the same size), so the flush is
// deferred only if the previous prediction was right.
func (c *Content) predictDuplicate() {
	if c.scope == 0 || c.size < deferMin {
		return
	}
	key := core.ContentKey{Scope: c.scope, KeyID: c.codec.KeyID, SHA256: c.head, Size: c.size, Head: true}
	found, err := c.engine.meta.FindData(context.Background(), key)
	if c.similar = err == nil && !found.Damaged; c.similar && !c.engine.mispredicted.Load() {
		c.large.Defer()
	}
}

// key returns the key for finding equal content.
func (c *Content) key() core.ContentKey {
	return core.ContentKey{Scope: c.scope, KeyID: c.codec.KeyID, SHA256: c.sha256, Size: c.size}
}

// KnownContent returns content with a SHA-256 and a size as if its body had been received, with its MD5 and its
// checksums for algs. It returns nil if the bucket does not have this content, encrypted as enc selects. Put fails with
// NoSuchData if the content is deleted in the meantime. The caller must ensure that the client may read everything in
// the bucket, because the result reveals what the bucket contains.
func (e *Engine) KnownContent(
	ctx context.Context, b *core.BucketInfo, sha256 [32]byte, size int64, enc Encryption, algs ...checksum.Algorithm,
) (*Content, error) {
	c, err := e.announce(ctx, b, enc)
	if err != nil {
		return nil, err
	}
	c.size, c.sha256 = size, sha256
	if c.scope == 0 || size <= 0 {
		return nil, nil
	}
	known, err := e.meta.FindData(ctx, c.key())
	if err != nil {
		return nil, nil // the client must send it
	}
	if known = e.examineUnsent(ctx, known); known == nil {
		return nil, nil
	}
	md5, ok := FindSum(known.Sums, checksum.MD5)
	if !ok || len(md5.Value) != len(c.md5) {
		return nil, nil
	}
	copy(c.md5[:], md5.Value)
	for _, a := range algs {
		if a == checksum.None || a == checksum.MD5 || a == checksum.SHA256 {
			continue
		}
		sum, ok := FindSum(known.Sums, a)
		if !ok {
			return nil, nil
		}
		c.sums = append(c.sums, sum)
	}
	if err := e.space.check(ctx, 0); err != nil {
		return nil, err
	}
	c.known = known
	return c, nil
}

// InstantUpload reports whether new content is deduplicated.
func (e *Engine) InstantUpload() bool { return e.instant }

// Known reports for each key whether the bucket has that content, encrypted as enc selects. If ContentKey.Head is set,
// it reports whether the bucket has content with that beginning. The caller sets SHA256, Size and Head of the keys, and
// must check the same permission as for KnownContent. The results guarantee nothing.
func (e *Engine) Known(
	ctx context.Context, b *core.BucketInfo, enc Encryption, keys []core.ContentKey,
) ([]bool, error) {
	c, err := e.announce(ctx, b, enc)
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
		switch found, err := e.meta.FindData(ctx, k); {
		case err == nil:
			there[i] = e.examineUnsent(ctx, found) != nil
		case core.Is(err, core.Canceled):
			return nil, err
		}
	}
	return there, nil
}

// examineUnsent returns the current state of stored content that the client wants to refer to without sending it. It
// returns nil unless the stored copy is known to be intact.
func (e *Engine) examineUnsent(ctx context.Context, d *core.DataInfo) *core.DataInfo {
	v, d := e.examine(ctx, d, nil, false)
	if v == broken {
		e.unshareDamaged(ctx, d)
	}
	if v != whole {
		return nil
	}
	return d
}

// announce returns a Content for which only the bucket and the encryption are known.
func (e *Engine) announce(ctx context.Context, b *core.BucketInfo, enc Encryption) (*Content, error) {
	c := &Content{engine: e, scope: e.scope(b)}
	enc.Store = enc.Store || e.EncryptsBucket(b)
	return c, c.Encrypt(ctx, enc)
}

// scope returns the bucket whose stored content may be shared by new content of b; 0 if none.
func (e *Engine) scope(b *core.BucketInfo) core.BucketID {
	if !e.instant {
		return 0
	}
	return b.ID
}

// unshareDamaged marks content that a reader found damaged, so that no new write shares it. If the content was moved or
// deleted in the meantime, the reader did not read the current copy, so nothing is marked.
func (e *Engine) unshareDamaged(ctx context.Context, d *core.DataInfo) {
	if d.Scope == 0 || d.Damaged {
		return
	}
	now, err := e.meta.Data(ctx, []core.DataID{d.ID})
	if err != nil || len(now) == 0 || !slices.Equal(now[0].Extents, d.Extents) {
		return
	}
	_, _ = e.writer.Do(ctx, batch.Write{Change: &core.Unshare{Data: d.ID}}) // if this fails, the next reader retries
}
