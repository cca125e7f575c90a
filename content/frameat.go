package content

import (
	"cmp"
	"errors"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// frameAt is the location of a frame of stored content, and the expected fields of its header.
type frameAt struct {
	data   *core.DataInfo
	extent core.Extent
	number int64 // within the extent, from 0
	index  int64 // within the content, from 0
	plain  int64 // bytes of content in the frame
	final  bool  // this is the last frame of the extent
	last   bool  // this is the last frame of the content
}

var (
	errOtherFrame  = errors.New("the frame belongs to other content")
	errShortExtent = errors.New("the extent is shorter than its frames")
)

// locate returns the frame that contains the byte at an offset of d.
func locate(d *core.DataInfo, at int64) (frameAt, error) {
	perChunk := cmp.Or(d.ChunkSize, d.Size)
	chunk := at / perChunk
	if at >= d.Size || chunk >= int64(len(d.Extents)) {
		return frameAt{}, errors.New("the content has no extent at this offset")
	}
	f := frameAt{data: d, extent: d.Extents[chunk], number: at % perChunk / frame.MaxPlain}
	rest := min(perChunk, d.Size-chunk*perChunk) - f.number*frame.MaxPlain // the rest of the chunk
	f.index = chunk*(perChunk/frame.MaxPlain) + f.number
	f.plain = min(rest, frame.MaxPlain)
	f.final = f.plain == rest
	f.last = f.final && chunk == int64(len(d.Extents))-1
	return f, nil
}

// check returns an error unless h is the header of the frame.
func (f *frameAt) check(h *frame.Header) error {
	if h.Type != frame.Data || h.ID != uint64(f.data.ID) || int64(h.Index) != f.index ||
		int64(h.Plain) != f.plain || h.Last != f.last {
		return errOtherFrame
	}
	return nil
}

// bounds returns the offset of the frame within its extent, and its length including the header. It is only for
// uncompressed content, in which all earlier frames are full.
func (f *frameAt) bounds() (from int64, n int, err error) {
	sealed := int64(0)
	if f.data.KeyID != 0 {
		sealed = codec.SealedMore
	}
	if f.index == 0 && f.last { // the only frame may have a short header
		switch header := f.extent.Length - sealed - f.plain; header {
		case frame.ShortSize, frame.SealedShortSize, frame.HeaderSize:
			return 0, int(f.extent.Length), nil
		}
	}
	overhead := frame.HeaderSize + sealed
	from = f.number * (overhead + frame.MaxPlain)
	if from+overhead+f.plain > f.extent.Length {
		return 0, 0, errShortExtent
	}
	return from, int(overhead + f.plain), nil
}

// open verifies a frame of uncompressed content and returns its plain bytes. Raw is the stored frame with its header,
// from is its offset in the extent. An encrypted frame is decrypted in place, which also verifies it.
func (f *frameAt) open(raw []byte, from int64, sealer codec.Sealer) ([]byte, error) {
	h, err := frame.Decode(raw, f.extent.Block, f.extent.Offset+from)
	if err != nil {
		return nil, err
	}
	if err := f.check(&h); err != nil {
		return nil, err
	}
	payload := raw[h.Size():]
	if int64(len(payload)) != f.plain && sealer == nil {
		return nil, errOtherFrame
	}
	if h.Codec != frame.Plain || (h.KeyID != 0) != (sealer != nil) {
		return nil, errOtherFrame
	}
	if sealer == nil {
		return payload, h.Verify(payload)
	}
	sealed := h // only this copy escapes to the heap
	return sealer.Open(payload[:0], payload, &sealed)
}
