package content

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
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

// Content is a body that is being received and stored. Small content is in a pooled buffer. Large content is already in
// a block of its own, but not yet durable. A Content must be used by one goroutine only.
type Content struct {
	engine  *Engine
	size    int64         // announced, in bytes
	upTo    bool          // the body may be shorter than announced (see UpTo)
	scope   core.BucketID // the bucket whose stored content it may share; 0 if none
	md5     [md5.Size]byte
	sha256  [sha256.Size]byte
	head    [sha256.Size]byte // SHA-256 of the first core.HeadSize bytes, if there are more
	sums    []core.Checksum   // the other checksums that were requested
	sum     [1]core.Checksum  // the memory of sums, which rarely has more
	past    [1]byte           // for reading past the end of the body
	buffer  *batch.Buffer     // small content
	coded   *batch.Buffer     // the frames of small content as they are stored, if they are compressed or encrypted
	large   *batch.Large      // large content
	block   core.BlockID      // the block of large content, once it is durable
	stored  []core.Segment    // the result of Commit for large content
	unnamed core.BlockID      // the block, while it is durable but no record refers to it (see repairLarge)
	codec   codec.Encoder
	similar bool             // predictDuplicate predicted that this is a duplicate
	known   *core.DataInfo   // instead of buffer and large: equal content that is already stored (see KnownContent)
	bucket  *core.BucketInfo // the destination bucket

	wrapper *codec.Key // wraps the data key; nil if the content is not encrypted
	dataKey []byte     // the wrapped data key of large content

	ctx      context.Context // for waiting for memory
	beside   bool            // see Beside
	reserved share           // the memory that release returns; see reserve
}

// NewContent prepares to receive content of size bytes for a bucket. It always computes MD5 and SHA-256, in addition
// to algs. It returns NoSpace if the drive has reached its reserve, and NoKey if the bucket encrypts and there is no
// master key. The caller must call Discard at the end; after a successful Put it does nothing.
func (e *Engine) NewContent(
	ctx context.Context, b *core.BucketInfo, size int64, algs ...checksum.Algorithm,
) (*Content, error) {
	if size < 0 {
		return nil, core.E("content.NewContent", core.InvalidArgument, fmt.Errorf("size %d is negative", size))
	}
	if err := e.space.check(ctx, size); err != nil {
		return nil, err
	}
	c := &Content{engine: e, size: size, scope: e.scope(b), ctx: ctx}
	e.setCodec(c, b)
	for _, a := range algs {
		if a != checksum.None && a != checksum.MD5 && a != checksum.SHA256 {
			if c.sums == nil {
				c.sums = c.sum[:0]
			}
			c.sums = append(c.sums, core.Checksum{Algorithm: a})
		}
	}
	if size > e.maxPacked {
		large, err := e.writer.NewLarge(ctx, size, b.ChunkSize, &c.codec)
		if err != nil {
			return nil, err
		}
		c.large = large
	}
	if e.EncryptsBucket(b) {
		if err := c.Encrypt(ctx, Encryption{Store: true}); err != nil {
			c.Discard()
			return nil, err
		}
	}
	return c, nil
}

// UpTo allows the body to be shorter than announced, for content whose exact size is known only at its end. The reader
// returns io.EOF at that end. If the content is not complete, it must return another error, which must not be
// io.ErrUnexpectedEOF. UpTo must be called before ReadFrom.
func (c *Content) UpTo() { c.upTo = true }

// ReadFrom reads the body to its end. It returns Incomplete if the body is shorter than announced, TooLarge if it is
// longer, Overloaded if there is no memory for it, and errors of r unchanged.
func (c *Content) ReadFrom(r io.Reader) (int64, error) {
	if err := c.reserve(r); err != nil {
		return 0, err
	}
	n, err := int64(0), error(nil)
	if c.large != nil {
		n, err = c.readLarge(r)
	} else {
		n, err = c.readSmall(r)
	}
	if err == nil {
		err = expectEnd(r, c.past[:])
	}
	return n, err
}

func (c *Content) readSmall(r io.Reader) (int64, error) {
	c.buffer = batch.NewBuffer(int(c.size))
	body := c.buffer.Content()[:c.size]
	n, err := io.ReadFull(r, body)
	if c.upTo && isEnd(err) {
		c.size, body, err = int64(n), body[:n], nil
	}
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
	if c.upTo {
		r = bufio.NewReaderSize(r, 4096) // for readFrame
	}
	whole, hashes := sha256.New(), []hash.Hash{md5.New()}
	for _, s := range c.sums {
		hashes = append(hashes, checksum.New(s.Algorithm))
	}
	for n < c.size {
		b := buffer.B[:frame.HeaderSize+min(frame.MaxPlain, c.size-n)]
		got, err := c.readFrame(r, b[frame.HeaderSize:], n)
		if err != nil {
			return n + int64(got), c.short(n+int64(got), err)
		}
		if b = b[:frame.HeaderSize+got]; got == 0 {
			break
		}
		plain, hashed := b[frame.HeaderSize:], 0
		if n == 0 && c.size > core.HeadSize { // core.HeadSize is less than a frame
			hashed, _ = whole.Write(plain[:core.HeadSize])
			whole.Sum(c.head[:0])
			c.predictDuplicate()
		}
		c.engine.writer.Compute(func() {
			_, _ = whole.Write(plain[hashed:]) // hash.Hash never fails
			for _, h := range hashes {
				_, _ = h.Write(plain)
			}
		})
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

// readFrame reads the content of the next frame, after n bytes. If the body may be shorter than announced, it finds out
// whether this is the last frame, which must be known before it is written, and if so, sets the size of the content. r
// is a bufio.Reader then.
func (c *Content) readFrame(r io.Reader, p []byte, n int64) (int, error) {
	got, err := io.ReadFull(r, p)
	if !c.upTo {
		return got, err
	}
	if err == nil {
		_, err = r.(*bufio.Reader).Peek(1)
		if err == nil && n+int64(got) == c.size {
			return got, core.E("content.ReadFrom", core.TooLarge, errors.New("the body is longer than announced"))
		}
	}
	if isEnd(err) {
		c.size, err = n+int64(got), nil
		c.large.Shrink(c.size)
	}
	return got, err
}

// isEnd reports whether err is an error of io.ReadFull for a reader that has ended.
func isEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// short converts a premature end of the body into the error Incomplete.
func (c *Content) short(n int64, err error) error {
	if isEnd(err) {
		err = fmt.Errorf("the body has %d of %d bytes: %w", n, c.size, io.ErrUnexpectedEOF)
		return core.E("content.ReadFrom", core.Incomplete, err)
	}
	return err
}

// expectEnd checks that the body ends here. A reader that verifies the body reports a mismatch at its end. It reads
// into b.
func expectEnd(r io.Reader, b []byte) error {
	for {
		switch n, err := r.Read(b); {
		case n > 0:
			return core.E("content.ReadFrom", core.TooLarge, errors.New("the body is longer than announced"))
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// Size returns the announced size in bytes, which is the actual size after ReadFrom.
func (c *Content) Size() int64 { return c.size }

// Sum returns the raw checksum of the body, or nil for an algorithm that was not requested.
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

// Sums returns the checksums of the body with algs, in that order.
func (c *Content) Sums(algs []checksum.Algorithm) []core.Checksum {
	sums := make([]core.Checksum, len(algs))
	for i, a := range algs {
		sums[i] = core.Checksum{Algorithm: a, Value: c.Sum(a)}
	}
	return sums
}

// Bytes returns the content if it is in memory, and reports whether it is.
func (c *Content) Bytes() ([]byte, bool) {
	if c.large != nil {
		return nil, false
	}
	return c.buffer.Content()[:c.size], true
}

// Target is the change that will refer to the content, with pointers to its fields that Put sets.
type Target struct {
	Change   core.Change
	Segments *[]core.Segment
	Source   **core.Source // set if the change refers to stored content
}

// Put makes content durable and applies the change that refers to it. Content that the bucket already has is not
// stored again. Put returns NoSuchData if the content came from KnownContent but has been deleted since then: the
// client must send it.
func (c *Content) Put(ctx context.Context, t Target) (core.Result, error) {
	res, done, err := c.share(ctx, t)
	if c.similar {
		c.engine.mispredicted.Store(!done)
	}
	if done {
		return res, err
	}
	if c.known != nil {
		return core.Result{}, core.E("content.Put", core.NoSuchData, nil)
	}
	segments, write, err := c.Commit(ctx)
	if err != nil {
		return core.Result{}, err
	}
	*t.Segments, write.Change = segments, t.Change
	c.unnamed = core.BlockID{} // the change refers to it now
	if mutant.Is("early-release") {
		c.release()
	}
	res, err = c.engine.writer.Do(ctx, write)
	c.Finish(ctx, res)
	return res, err
}

// Commit makes large content durable. It returns the segment that refers to the content, and its write, to which the
// caller adds the change. Put calls Commit and Finish. A caller whose change refers to several Contents calls them
// itself, for each one.
func (c *Content) Commit(ctx context.Context) ([]core.Segment, batch.Write, error) {
	if c.size == 0 || c.stored != nil {
		return c.stored, batch.Write{}, nil
	}
	var write batch.Write
	var info *core.DataInfo
	if c.large != nil {
		var err error
		if info, err = c.large.Commit(ctx); err != nil {
			return nil, write, err
		}
		c.block = info.Extents[0].Block
		info.KeyID, info.DataKey, info.Written = c.codec.KeyID, c.dataKey, c.engine.writtenNow()
	} else {
		info = &core.DataInfo{ID: c.engine.writer.NewData(), Size: c.size}
		c.encode(ctx, info, &write)
	}
	segments := []core.Segment{{Data: info.ID, Length: c.size, Info: info}}
	if c.large != nil {
		c.stored = segments
	}
	if info.KeyID == codec.CustomerKeyID { // a stored hash could be used to confirm a guess of the content
		return segments, write, nil
	}
	info.SHA256, info.Scope = c.sha256, c.scope
	if c.scope != 0 {
		info.Head = c.head
	}
	info.Sums = make([]core.Checksum, 0, 1+len(c.sums))
	info.Sums = append(info.Sums, core.Checksum{Algorithm: checksum.MD5, Value: c.md5[:]})
	info.Sums = append(info.Sums, c.sums...)
	return segments, write, nil
}

// Finish releases the buffers after the write buffer has completed the write that Commit returned; res is its result.
// If the change failed its check, nothing refers to large content, and Finish deletes its block (see deleteUnnamed).
// After any other error a replay may still apply the change, so the block is kept.
func (c *Content) Finish(ctx context.Context, res core.Result) {
	c.release()
	if res.Err != nil && c.block != (core.BlockID{}) {
		c.engine.deleteUnnamed(ctx, c.block)
	}
}

// release releases the buffers.
func (c *Content) release() {
	c.reserved.budget.release(c.reserved.n)
	c.reserved = share{}
	if c.buffer != nil {
		c.buffer.Release()
		c.buffer = nil
	}
	if c.coded != nil {
		c.coded.Release()
		c.coded = nil
	}
}

// drop discards complete content because equal content is already stored.
func (c *Content) drop(ctx context.Context) {
	c.dropUnnamed(ctx)
	if c.large != nil {
		c.large.Drop()
		c.large = nil
	}
	c.release()
}

// dropUnnamed deletes the block of large content that was made durable for a repair and is no longer needed.
func (c *Content) dropUnnamed(ctx context.Context) {
	if !c.unnamed.IsZero() {
		_ = c.engine.blocks.Delete(ctx, c.unnamed) // if this fails, the block is garbage
		c.unnamed = core.BlockID{}
	}
}

// Discard deletes content that Put has not stored.
func (c *Content) Discard() {
	c.release()
	c.dropUnnamed(context.Background())
	if c.large != nil {
		c.large.Abort()
		c.large = nil
	}
}
