package vfs

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/internal/checksum"
	"orcas/internal/mutant"
)

// Content is a body on its way in: small in a pooled buffer, large already in a block of its own, but not durable yet. One
// goroutine uses it.
type Content struct {
	fs      *FS
	size    int64 // announced, in bytes
	chunk   int64
	scope   core.BucketID // whose content it may share; 0: nobody's
	md5     [md5.Size]byte
	sha256  [sha256.Size]byte
	head    [sha256.Size]byte // SHA-256 of the first core.HeadSize bytes, where there are more
	sums    []core.Checksum   // the others that were asked for
	buffer  *batch.Buffer     // small content
	coded   *batch.Buffer     // its frames as they are stored, where that is another form
	large   *batch.Large      // large content
	block   core.BlockID      // its block, once it is durable
	codec   codec.Encoder
	similar bool             // there is content of its size that begins like it
	known   *core.DataInfo   // instead of both: what was found to be equal to it (see KnownContent)
	bucket  *core.BucketInfo // for which it was announced

	wrapper *codec.Key // wraps the data key; nil: the content is not encrypted
	dataKey []byte     // the wrapped data key of large content
}

// NewContent begins content of size bytes for a bucket. Its MD5 and SHA-256 are computed always, algs besides. NoSpace: the
// drive's reserve is reached. NoKey: the bucket encrypts, and there is no master key. Call Discard when done with it; after a successful Put it does nothing.
func (f *FS) NewContent(ctx context.Context, b *core.BucketInfo, size int64, algs ...checksum.Algorithm) (*Content, error) {
	if size < 0 {
		return nil, core.E("vfs.NewContent", core.InvalidArgument, fmt.Errorf("size %d", size))
	}
	if err := f.space.check(ctx, size); err != nil {
		return nil, err
	}
	c := &Content{fs: f, size: size, chunk: b.ChunkSize, scope: f.scope(b)}
	f.setCodec(c, b)
	for _, a := range algs {
		if a != checksum.None && a != checksum.MD5 && a != checksum.SHA256 {
			c.sums = append(c.sums, core.Checksum{Algorithm: a})
		}
	}
	if size > f.maxPacked {
		large, err := f.writer.NewLarge(ctx, size, b.ChunkSize, &c.codec)
		if err != nil {
			return nil, err
		}
		c.large = large
	}
	if f.EncryptsBucket(b) {
		if err := c.Encrypt(ctx, Encryption{Store: true}); err != nil {
			c.Discard()
			return nil, err
		}
	}
	return c, nil
}

// ReadFrom reads the body to its end. A body that ends early is Incomplete, one that goes on is TooLarge; errors of r come back unchanged.
func (c *Content) ReadFrom(r io.Reader) (int64, error) {
	n, err := int64(0), error(nil)
	if c.large != nil {
		n, err = c.readLarge(r)
	} else {
		n, err = c.readSmall(r)
	}
	if err == nil {
		err = expectEnd(r)
	}
	return n, err
}

func (c *Content) readSmall(r io.Reader) (int64, error) {
	c.buffer = batch.NewBuffer(int(c.size))
	body := c.buffer.Content()[:c.size]
	n, err := io.ReadFull(r, body)
	if err != nil {
		return int64(n), c.short(int64(n), err)
	}
	c.md5, c.sha256 = md5.Sum(body), sha256.Sum256(body)
	if c.size > core.HeadSize {
		c.head = sha256.Sum256(body[:core.HeadSize])
	}
	for i := range c.sums {
		c.sums[i].Value = checksum.Sum(c.sums[i].Algorithm, body)
	}
	return c.size, nil
}

func (c *Content) readLarge(r io.Reader) (n int64, err error) {
	buffer := batch.NewBuffer(frame.MaxPlain)
	defer buffer.Release()
	whole, hashes := sha256.New(), []hash.Hash{md5.New()}
	for _, s := range c.sums {
		hashes = append(hashes, checksum.New(s.Algorithm))
	}
	for n < c.size {
		b := buffer.B[:frame.HeaderSize+min(frame.MaxPlain, c.size-n)]
		got, err := io.ReadFull(r, b[frame.HeaderSize:])
		if err != nil {
			return n + int64(got), c.short(n+int64(got), err)
		}
		plain, hashed := b[frame.HeaderSize:], 0
		if n == 0 && c.size > core.HeadSize { // which is less than a frame
			hashed, _ = whole.Write(plain[:core.HeadSize])
			whole.Sum(c.head[:0])
			c.look()
		}
		_, _ = whole.Write(plain[hashed:]) // hash.Hash never fails
		for _, h := range hashes {
			_, _ = h.Write(plain)
		}
		if err := c.large.Write(b); err != nil {
			return n, err
		}
		n += int64(got)
	}
	whole.Sum(c.sha256[:0])
	hashes[0].Sum(c.md5[:0])
	for i := range c.sums {
		c.sums[i].Value = hashes[i+1].Sum(nil)
	}
	return n, nil
}

// short turns the end of the body before its announced length into Incomplete.
func (c *Content) short(n int64, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return core.E("vfs.Content", core.Incomplete, fmt.Errorf("%d of %d bytes: %w", n, c.size, io.ErrUnexpectedEOF))
	}
	return err
}

// expectEnd reads the end of the body: that is where a body that verifies itself says whether it is whole.
func expectEnd(r io.Reader) error {
	var b [1]byte
	for {
		switch n, err := r.Read(b[:]); {
		case n > 0:
			return core.E("vfs.Content", core.TooLarge, errors.New("the body is longer than announced"))
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// Size returns the announced size in bytes, which after ReadFrom is the size.
func (c *Content) Size() int64 { return c.size }

// Sum returns the raw checksum of what was read, or nil for an algorithm that was not asked for.
func (c *Content) Sum(a checksum.Algorithm) []byte {
	switch a {
	case checksum.MD5:
		return c.md5[:]
	case checksum.SHA256:
		return c.sha256[:]
	}
	for _, s := range c.sums {
		if s.Algorithm == a {
			return s.Value
		}
	}
	return nil
}

func (c *Content) etag() string { return hex.EncodeToString(c.md5[:]) }

// commit makes large content durable and returns the segment that refers to the content, and the write that brings it.
func (c *Content) commit(ctx context.Context) ([]core.Segment, batch.Write, error) {
	if c.size == 0 {
		return nil, batch.Write{}, nil
	}
	var write batch.Write
	var info *core.DataInfo
	if c.large != nil {
		var err error
		if info, err = c.large.Commit(ctx); err != nil {
			return nil, write, err
		}
		c.block = info.Extents[0].Block
		info.KeyID, info.DataKey = c.codec.KeyID, c.dataKey
	} else {
		info = &core.DataInfo{ID: c.fs.writer.NewData(), Size: c.size}
		c.encode(ctx, info, &write)
	}
	if info.KeyID == codec.CustomerKeyID { // who holds the drive shall not confirm a guess
		return []core.Segment{{Data: info.ID, Length: c.size, Info: info}}, write, nil
	}
	info.SHA256, info.Scope = c.sha256, c.scope
	if c.scope != 0 {
		info.Head = c.head
	}
	info.Sums = make([]core.Checksum, 0, 1+len(c.sums))
	info.Sums = append(info.Sums, core.Checksum{Algorithm: checksum.MD5, Value: c.md5[:]})
	info.Sums = append(info.Sums, c.sums...)
	return []core.Segment{{Data: info.ID, Length: c.size, Info: info}}, write, nil
}

// write makes the write that commit returned durable, its change added. Large content whose change failed its check belongs to nobody
// and goes at once; after any other error a replay may still bring the change back, so the content stays.
func (c *Content) write(ctx context.Context, write batch.Write) (core.Result, error) {
	if mutant.Is("early-release") {
		c.settled()
	}
	res, err := c.fs.writer.Do(ctx, write)
	c.written(ctx, res)
	return res, err
}

// written lets go of what the write buffer has done with.
func (c *Content) written(ctx context.Context, res core.Result) {
	c.settled()
	if res.Err != nil && c.block != (core.BlockID{}) && !c.fs.writer.Relaxed() {
		_ = c.fs.blocks.Delete(ctx, c.block) // what stays behind is garbage; a relaxed record has to find all that it names
	}
}

// settled lets go of the buffers when the write buffer has done with it.
func (c *Content) settled() {
	if c.buffer != nil {
		c.buffer.Release()
		c.buffer = nil
	}
	if c.coded != nil {
		c.coded.Release()
		c.coded = nil
	}
}

// drop forgets content that came whole, and that is there already.
func (c *Content) drop() {
	if c.large != nil {
		c.large.Drop()
		c.large = nil
	}
	c.settled()
}

// Discard forgets content that was not put.
func (c *Content) Discard() {
	c.settled()
	if c.large != nil {
		c.large.Abort()
		c.large = nil
	}
}
