package content

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/internal/mutant"
)

// # Repair
//
// A client that sends content whose stored copy is damaged or missing provides an intact copy. This copy is stored
// under the DataID of the damaged content, because every object refers to the content by that DataID, and a
// core.RepairData replaces the damaged copy with it. The new object then shares the content as usual.
//
// Small content is repaired through the write buffer. By the time the hash of large content is known, it has already
// been written under another DataID, which its frames contain. So it is copied to another block, under the right
// DataID, and the first block is deleted. The scrub repairs content in the same way, from an intact copy of equal
// content.

// repair replaces the damaged copy of d with c, which is equal to it. After an error, c can still be stored as new
// content.
func (c *Content) repair(ctx context.Context, d *core.DataInfo) (err error) {
	if mutant.Is("no-repair") {
		return core.E("content.repair", core.Internal, nil)
	}
	var info *core.DataInfo
	if c.large == nil {
		info, err = c.repairSmall(ctx, d)
	} else {
		info, err = c.repairLarge(ctx, d)
	}
	if err != nil {
		if !core.Is(err, core.Conflict) && !core.Is(err, core.NoSuchData) { // no other request repaired or deleted it
			c.engine.log.Warn("cannot repair damaged content", "content", d.ID, "bytes", d.Size, "err", err)
			c.engine.unshareDamaged(ctx, d)
		}
		return err
	}
	c.engine.log.Warn("repaired damaged content from an upload of equal content", "content", d.ID, "bytes", d.Size,
		"from", d.Extents[0].Block, "to", info.Extents[0].Block)
	return nil
}

// repairSmall replaces the copy of d with content that is in memory, and returns the DataInfo of the new copy. It uses
// no dictionary: the bucket of the upload may be deleted in the meantime, together with its dictionaries. A new object
// would then fail, but a repair must succeed, because copies in other buckets may still refer to d.
func (c *Content) repairSmall(ctx context.Context, d *core.DataInfo) (*core.DataInfo, error) {
	write := batch.Write{}
	info := &core.DataInfo{ID: d.ID, Size: c.size}
	bucket := c.bucket
	c.bucket = nil
	c.encode(ctx, info, &write)
	c.bucket = bucket
	info.SHA256 = c.sha256
	write.Change = &core.RepairData{From: d.Extents, Info: info}
	_, err := c.engine.writer.Do(ctx, write)
	if c.coded != nil {
		c.coded.Release()
		c.coded = nil
	}
	return info, err
}

func (c *Content) repairLarge(ctx context.Context, d *core.DataInfo) (*core.DataInfo, error) {
	segments, _, err := c.Commit(ctx)
	if err != nil {
		return nil, err
	}
	c.unnamed = c.block
	return c.rewrite(ctx, d, segments[0].Info)
}

// rewrite replaces the damaged copy of d with a copy of equal large content, in a new block. It verifies every frame
// that it reads.
func (c *Content) rewrite(ctx context.Context, d, from *core.DataInfo) (*core.DataInfo, error) {
	e, coder := c.engine, codec.Encoder{Level: c.codec.Level, KeyID: c.codec.KeyID}
	var dataKey []byte
	if c.wrapper != nil {
		coder.Sealer, dataKey = c.wrapper.NewDataKey(coder.KeyID, uint64(d.ID))
	}
	if err := e.space.check(ctx, d.Size); err != nil {
		return nil, err
	}
	large, err := e.writer.Rewrite(ctx, d.ID, d.Size, from.ChunkSize, &coder)
	if err != nil {
		return nil, err
	}
	defer large.Abort()
	if err := e.copyFrames(ctx, from, large, d); err != nil {
		return nil, err
	}
	info, err := large.Commit(ctx)
	if err != nil {
		return nil, err
	}
	info.KeyID, info.DataKey, info.SHA256, info.Written = coder.KeyID, dataKey, d.SHA256, e.writtenNow()
	res, err := e.writer.Do(ctx, batch.Write{Change: &core.RepairData{From: d.Extents, Info: info}})
	if res.Err != nil {
		e.deleteUnnamed(ctx, info.Extents[0].Block)
	}
	return info, err
}

// copyFrames copies all frames of content to another block. It returns Damaged if the content is not equal to d.
func (e *Engine) copyFrames(ctx context.Context, from *core.DataInfo, to *batch.Large, d *core.DataInfo) error {
	s := e.wholeSection(ctx, from)
	defer s.Close()
	buffer := batch.NewBuffer(frame.MaxPlain)
	defer buffer.Release()
	sum := sha256.New()
	for left := from.Size; left > 0; {
		n := min(frame.MaxPlain, left)
		b := buffer.B[:frame.HeaderSize+n]
		if _, err := io.ReadFull(s, b[frame.HeaderSize:]); err != nil {
			return err
		}
		e.writer.Compute(func() { _, _ = sum.Write(b[frame.HeaderSize:]) }) // hash.Hash never fails
		if err := to.Write(b); err != nil {
			return err
		}
		left -= n
	}
	if [sha256.Size]byte(sum.Sum(nil)) != d.SHA256 {
		return errNotEqual("content.repair", from, d)
	}
	return nil
}

// Repair replaces a damaged or missing copy of d with a copy of from, which is equal content, possibly stored in
// another form or under another master key. Both must be exactly as the metadata has them. Repair returns Damaged if
// from is not intact either; Conflict or NoSuchData if d was repaired, moved or deleted in the meantime; and
// Unsupported for content that is encrypted with a customer key, because it cannot be read without that key.
func (e *Engine) Repair(ctx context.Context, d, from *core.DataInfo) (err error) {
	const op = "content.Repair"
	switch {
	case d.KeyID == codec.CustomerKeyID || from.KeyID == codec.CustomerKeyID:
		err = fmt.Errorf("content %d or content %d is encrypted with a customer key", d.ID, from.ID)
		return core.E(op, core.Unsupported, err)
	case d.SHA256 == [32]byte{} || d.SHA256 != from.SHA256 || d.Size != from.Size || d.Size == 0:
		return core.E(op, core.InvalidArgument, fmt.Errorf("content %d and content %d are not equal", d.ID, from.ID))
	}
	c := &Content{engine: e, size: d.Size, sha256: d.SHA256}
	if from.Codec != frame.Plain { // the content is compressible
		c.codec.Level = max(e.compression, core.CompressionFast)
	}
	if d.KeyID != 0 {
		if c.codec.KeyID, c.wrapper, err = e.master.newest(ctx); err != nil {
			return err
		}
	}
	if d.Size > e.maxPacked {
		_, err = c.rewrite(ctx, d, from)
		return err
	}
	c.buffer = batch.NewBuffer(int(c.size))
	defer c.release()
	body := c.buffer.Content()[:c.size]
	s := e.wholeSection(ctx, from)
	defer s.Close()
	if _, err = io.ReadFull(s, body); err != nil {
		return err
	}
	if sha256.Sum256(body) != d.SHA256 {
		return errNotEqual(op, from, d)
	}
	_, err = c.repairSmall(ctx, d)
	return err
}

func errNotEqual(op string, read, want *core.DataInfo) error {
	err := fmt.Errorf("the stored copy of content %d does not have the SHA-256 of content %d", read.ID, want.ID)
	return core.E(op, core.Damaged, err)
}

// deleteUnnamed deletes a block of large content that is unreferenced because the change failed its check. With relaxed
// durability the block is kept, as garbage, because every block that a recorded change refers to must exist.
func (e *Engine) deleteUnnamed(ctx context.Context, id core.BlockID) {
	if !e.writer.Relaxed() {
		_ = e.blocks.Delete(ctx, id) // if this fails, the block is garbage
	}
}

// writtenNow returns the time to record for content that was just written. It is never earlier than the last write to
// its block.
func (e *Engine) writtenNow() time.Time { return e.time().Add(time.Millisecond) }
