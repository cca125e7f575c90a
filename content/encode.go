package content

import (
	"context"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// setCodec sets the compression of new content of a bucket.
func (e *Engine) setCodec(c *Content, b *core.BucketInfo) {
	c.bucket = b
	c.codec.Level = b.Compression
	if c.codec.Level == core.CompressionDefault {
		c.codec.Level = e.compression
	}
}

// Describe turns compression off if the headers of the object show that its content is already compressed. It must be
// called before ReadFrom.
func (c *Content) Describe(attrs []core.Attr) {
	if c.codec.Level <= core.CompressionOff {
		return
	}
	for i := range attrs {
		switch attrs[i].Name {
		case "Content-Type":
			if codec.IsCompressedType(attrs[i].Value) {
				c.codec.Level = core.CompressionOff
			}
		case "Content-Encoding":
			if codec.IsCompressedEncoding(attrs[i].Value) {
				c.codec.Level = core.CompressionOff
			}
		}
	}
}

// encode adds small content to write, plain or as frames, and describes its stored form in info.
func (c *Content) encode(ctx context.Context, info *core.DataInfo, write *batch.Write) {
	write.Info = info
	info.DataKey = c.newDataKey(info.ID)
	info.KeyID = c.codec.KeyID
	content := c.buffer.Content()[:c.size]
	worthwhile := c.codec.Worthwhile(content[:min(len(content), frame.MaxPlain)])
	if worthwhile {
		c.engine.dictionaries.choose(ctx, c, content)
	}
	if worthwhile || !c.codec.Plain() && (c.codec.Sealer != nil || len(content) > frame.MaxPlain) {
		frames := c.frames(info, content)
		if c.codec.Sealer != nil || c.codec.Compressed() {
			write.Frames = frames
			return
		}
	}
	write.Content = content
}

// frames returns the frames of small content, compressed and encrypted, in the form that the write buffer expects.
func (c *Content) frames(info *core.DataInfo, content []byte) []byte {
	count := (len(content) + frame.MaxPlain - 1) / frame.MaxPlain
	c.coded = batch.NewBuffer(len(content) + count*(frame.HeaderSize+codec.SealedMore))
	b := c.coded.B[:0]
	h := frame.Header{Type: frame.Data, ID: uint64(info.ID), Short: count == 1, KeyID: info.KeyID}
	for ; len(content) > 0; h.Index++ {
		n := min(len(content), frame.MaxPlain)
		h.Offset, h.Last = int64(len(b)), n == len(content)
		at := len(b)
		header := h.Size()
		head := slices.Grow(b, header)[:at+header]
		if b = c.codec.Encode(head, &h, content[:n]); b == nil {
			b = append(head, content[:n]...)
		}
		frame.Encode(b[at:], &h, b[at+header:])
		content = content[n:]
	}
	if c.codec.Compressed() {
		info.Codec = frame.Zstd
		if c.codec.Dictionary != nil {
			info.Dictionary = c.codec.Dictionary.ID()
		}
	}
	return b
}
