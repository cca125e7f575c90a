package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"orcas/core"
)

// Dictionary is a compression dictionary: data that small objects of a bucket have in common. Frames that were
// compressed with a dictionary cannot be read without it. It is safe for concurrent use.
//
// It is a raw content dictionary as defined in RFC 8878: data that precedes the frame, without tables. So a frame is
// decoded as if the dictionary were its first block. Compared with a dictionary with tables, decoding takes half the
// time, and the compressed content is 4% larger. Both compression levels use the same encoder, because the better one
// would take four times as long (its tables must be copied for each frame) to save 3%.
type Dictionary struct {
	id      uint32
	raw     []byte
	encoder func() *zstd.Encoder
}

// The range of dictionary numbers, which RFC 8878 reserves for private use.
const (
	MinDictionaryID = 1 << 15
	MaxDictionaryID = 1<<31 - 1
)

// maxDictionary is the maximum size of a dictionary, in bytes: it must fit in one Zstandard block.
const maxDictionary = 128<<10 - 1

// NewDictionary returns a dictionary with the given number. It returns ErrDamaged if the number or the size is out of
// range. Raw must not be modified afterwards.
func NewDictionary(id uint32, raw []byte) (*Dictionary, error) {
	if id < MinDictionaryID || id > MaxDictionaryID || len(raw) < minSize || len(raw) > maxDictionary {
		return nil, fmt.Errorf("%w: dictionary %d of %d bytes: the number or the size is out of range", ErrDamaged, id, len(raw))
	}
	d := &Dictionary{id: id, raw: raw}
	d.encoder = sync.OnceValue(func() *zstd.Encoder { return must(coder(core.CompressionFast, d)) })
	return d, nil
}

// ID returns the number of the dictionary, which is in the header of every frame compressed with it.
func (d *Dictionary) ID() uint32 { return d.id }

// Raw returns the content of the dictionary, which must not be modified.
func (d *Dictionary) Raw() []byte { return d.raw }

// dictionaryDecoder decodes frames whose first block is a dictionary.
var dictionaryDecoder = sync.OnceValue(func() *zstd.Decoder {
	return must(decoder(maxDictionary+maxDictionaryContent, min(maxDecoders, runtime.GOMAXPROCS(0))))
})

// maxDictionaryContent is the maximum size of the content of a frame with a dictionary, in bytes.
const maxDictionaryContent = 256 << 10

// room contains a buffer for a frame whose first block is a dictionary, and one for its decoded content.
type room struct{ frame, plain []byte }

var rooms = sync.Pool{New: func() any { return new(room) }}

var errForeign = errors.New("the compressed data was not written by this encoder")

// decompress decodes a frame with header h to size bytes of content in dst. To do so, it builds a frame that consists
// of a header, the dictionary as a raw block, and the blocks of the original frame.
func (d *Dictionary) decompress(dst, stored []byte, h *zstd.Header, size int) ([]byte, error) {
	if h.DictionaryID != d.id {
		return nil, ErrNoDictionary
	}
	if h.HasCheckSum || !h.HasFCS || h.FrameContentSize != uint64(size) || size > maxDictionaryContent {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, errForeign)
	}
	r := rooms.Get().(*room)
	defer rooms.Put(r)
	all := len(d.raw) + size
	r.frame = append(r.frame[:0], 0x28, 0xb5, 0x2f, 0xfd, 0xa0, byte(all), byte(all>>8), byte(all>>16), byte(all>>24)) // one segment of all bytes
	r.frame = append(r.frame, byte(len(d.raw)<<3), byte(len(d.raw)>>5), byte(len(d.raw)>>13))                          // a raw block
	r.frame = append(append(r.frame, d.raw...), stored[h.HeaderSize:]...)
	if cap(r.plain) < all+slack {
		r.plain = make([]byte, 0, all+slack)
	}
	plain, err := dictionaryDecoder().DecodeAll(r.frame, r.plain[:0:all+slack])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return append(dst[:0], plain[len(d.raw):]...), nil
}
