// Package frame defines the format in which content and records are stored in blocks, so that every byte can be
// verified when it is read.
//
// A block begins with a block header of 64 bytes, followed by frames without gaps. A frame is a header and its payload:
// at most 256 KiB of plain content, or a piece of a record, possibly compressed or encrypted. Numbers are big endian.
//
//	block header                            full frame header
//	 0  8  magic "ORCASBLK"                   0  4  magic "ORCf"
//	 8  1  format version (1)                 4  1  format version (1)
//	 9  1  kind of block                      5  1  type (1 data, 2 record, 3 snapshot)
//	10  6  zero                               6  1  codec (0 none, 1 zstd, 2 s2)
//	16 16  block id                           7  1  flags (1 last frame of its content or record)
//	32 24  zero                               8 16  block id
//	56  8  XXH3-64 of bytes 0 to 55          24  8  offset of this header in the block
//	                                         32  8  DataID, or the first sequence in the record
//	short frame header                       40  4  number of the frame in its content or record
//	 0  4  magic "ORCs"                      44  4  key id
//	 4  1  type                              48  4  payload bytes as stored
//	 5  1  flags (1 encrypted) + 16 x codec  52  4  payload bytes as plain content
//	 6  3  payload bytes as stored           56 16  XXH3-128 of the stored payload
//	 9  3  payload bytes as plain content    72  8  XXH3-64 of bytes 0 to 71
//	12  8  DataID or first sequence
//	20  8  the first 8 bytes of the XXH3-128 of the stored payload
//	28  4  key id, only if the frame is encrypted
//	28  4  low half of the XXH3-64 of the bytes before, seeded with the block id and the offset (at 32 if encrypted)
//
// The short header is for a frame that has all of its content or record, so its number is 0 and it is the last one. A
// small object would otherwise need nearly as many bytes for the header as for its record.
//
// A header proves its own position: a full one contains it, and the checksum of a short one is seeded with it. So stale
// bytes of an earlier file, or of a frame that was moved to another place, are never mistaken for a frame. The checksum
// of the payload does not cover the position: to move a frame, write a new header (PutHeader) before the unchanged
// payload.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"orcas/internal/mutant"
)

// Sizes, in bytes.
const (
	HeaderSize      = 80 // a full frame header, which is the largest
	ShortSize       = 32 // a short frame header of a frame that is not encrypted, which is the smallest
	SealedShortSize = 36 // a short frame header of an encrypted frame
	BlockHeaderSize = 64
	MaxPlain        = 256 << 10       // the most plain content in a frame
	MaxStored       = MaxPlain + 4096 // the largest payload, including the bytes that a codec adds to incompressible content
)

// The first bytes of frame headers. A scan searches for what they share after damaged bytes.
const (
	fullMagic   = "ORCf"
	shortMagic  = "ORCs"
	sharedMagic = "ORC"
)

// The errors of this package. They do not contain the block and the offset, which the caller knows.
var (
	ErrNotFrame = errors.New("there is no frame at this offset") // other bytes, or an intact header of another position
	ErrDamaged  = errors.New("the frame is damaged")             // a checksum or a length does not match
	ErrVersion  = errors.New("the frame was written by a newer version of ORCAS")
)

const (
	version      = 1
	flagLast     = 1
	flagSealed   = 1
	blockMagic   = "ORCASBLK"
	blockVersion = 1
)

// BlockVersion is the version of the block headers that this program writes.
const BlockVersion = blockVersion

// Type is the kind of data in a frame.
type Type uint8

// The types of frames.
const (
	Data     Type = 1 // a piece of content
	Record   Type = 2 // a piece of a record: the changes of a batch
	Snapshot Type = 3 // a piece of a snapshot of the metadata
)

// The codecs, which define the stored form of a payload.
const (
	Plain = 0 // stored unchanged
	Zstd  = 1 // one Zstandard frame (RFC 8878); of content and snapshots
	S2    = 2 // one S2 block (github.com/klauspost/compress/s2); of records
)

// Header describes a frame and its payload.
type Header struct {
	Type   Type
	Short  bool     // whether the header is a short one: Last must be set, and Index must be 0
	Codec  uint8    // the stored form of the payload: Plain, Zstd or S2
	Last   bool     // whether this is the last frame of its content, record or snapshot
	Block  [16]byte // the block that contains the frame
	Offset int64    // position of the header in the block, in bytes
	ID     uint64   // Data: the DataID; Record: the first sequence in the record; Snapshot: the last sequence in it
	Index  uint32   // number of the frame in its content, record or snapshot, from 0
	KeyID  uint32   // the master key; 0: not encrypted
	Stored uint32   // size of the payload in its stored form, in bytes
	Plain  uint32   // size of the payload as plain content, in bytes
	Sum    [16]byte // XXH3-128 of the stored payload; a short header has only the first shortSum bytes
}

// shortSum is the number of bytes of Sum in a short header.
const shortSum = 8

// maxCodec is the highest codec that a short header can contain.
const maxCodec = 15

// Size returns the size of the header, in bytes.
func (h *Header) Size() int {
	switch {
	case !h.Short:
		return HeaderSize
	case h.KeyID == 0:
		return ShortSize
	}
	return SealedShortSize
}

// Encode sets h.Stored and h.Sum from payload and writes h to dst[:h.Size()]. It panics if payload or h.Plain exceeds
// the limits of a frame, or a short header cannot express h, because such a frame could not be read.
func Encode(dst []byte, h *Header, payload []byte) {
	if len(payload) > MaxStored {
		panic(fmt.Sprintf("frame: a payload of %d bytes is too large", len(payload)))
	}
	h.Stored = uint32(len(payload))
	h.Sum = h.sum(payload)
	PutHeader(dst, h)
}

// sum returns the checksum of a payload, as far as the header contains it.
func (h *Header) sum(payload []byte) [16]byte {
	sum := xxh3.Hash128(payload).Bytes()
	if h.Short {
		clear(sum[shortSum:])
	}
	return sum
}

// PutHeader writes h to dst[:h.Size()] unchanged. Use it to move a frame to a new h.Block and h.Offset without
// changing its payload.
func PutHeader(dst []byte, h *Header) {
	if h.Plain > MaxPlain || h.Stored > MaxStored {
		panic(fmt.Sprintf("frame: %d plain bytes in a payload of %d bytes: too large", h.Plain, h.Stored))
	}
	if h.Short {
		h.putShort(dst)
		return
	}
	b := dst[:HeaderSize]
	copy(b, fullMagic)
	b[4], b[5], b[6], b[7] = version, byte(h.Type), h.Codec, 0
	if h.Last {
		b[7] = flagLast
	}
	copy(b[8:24], h.Block[:])
	binary.BigEndian.PutUint64(b[24:], uint64(h.Offset))
	binary.BigEndian.PutUint64(b[32:], h.ID)
	binary.BigEndian.PutUint32(b[40:], h.Index)
	binary.BigEndian.PutUint32(b[44:], h.KeyID)
	binary.BigEndian.PutUint32(b[48:], h.Stored)
	binary.BigEndian.PutUint32(b[52:], h.Plain)
	copy(b[56:72], h.Sum[:])
	binary.BigEndian.PutUint64(b[72:], xxh3.Hash(b[:72]))
}

func (h *Header) putShort(dst []byte) {
	if h.Index != 0 || !h.Last || h.Codec > maxCodec {
		panic(fmt.Sprintf("frame: a short header cannot express frame %d with codec %d", h.Index, h.Codec))
	}
	b := dst[:h.Size()]
	copy(b, shortMagic)
	b[4], b[5] = byte(h.Type), h.Codec<<4
	putUint24(b[6:], h.Stored)
	putUint24(b[9:], h.Plain)
	binary.BigEndian.PutUint64(b[12:], h.ID)
	copy(b[20:28], h.Sum[:shortSum])
	if h.KeyID != 0 {
		b[5] |= flagSealed
		binary.BigEndian.PutUint32(b[28:], h.KeyID)
	}
	binary.BigEndian.PutUint32(b[len(b)-4:], shortCheck(b[:len(b)-4], h.Block, h.Offset))
}

// shortCheck returns the checksum of a short header, without its last four bytes, at a position.
func shortCheck(b []byte, block [16]byte, offset int64) uint32 {
	var position [24]byte
	copy(position[:], block[:])
	binary.BigEndian.PutUint64(position[16:], uint64(offset))
	return uint32(xxh3.HashSeed(b, xxh3.Hash(position[:])))
}

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// Decode reads the header at the start of b, which was read from block at offset. It returns ErrNotFrame if no frame
// begins there that was written at this position (for example, at the end of the written part of a block), ErrDamaged
// if the header of a frame is damaged, or is a short one of another position, and ErrVersion if the header is intact
// but has a newer format.
func Decode(b []byte, block [16]byte, offset int64) (Header, error) {
	if len(b) >= ShortSize && string(b[:4]) == shortMagic {
		return decodeShort(b, block, offset)
	}
	if len(b) < HeaderSize || string(b[:4]) != fullMagic {
		return Header{}, ErrNotFrame
	}
	if xxh3.Hash(b[:72]) != binary.BigEndian.Uint64(b[72:]) {
		return Header{}, ErrDamaged
	}
	h := Header{
		Type:   Type(b[5]),
		Codec:  b[6],
		Last:   b[7]&flagLast != 0,
		Block:  [16]byte(b[8:24]),
		Offset: int64(binary.BigEndian.Uint64(b[24:])),
		ID:     binary.BigEndian.Uint64(b[32:]),
		Index:  binary.BigEndian.Uint32(b[40:]),
		KeyID:  binary.BigEndian.Uint32(b[44:]),
		Stored: binary.BigEndian.Uint32(b[48:]),
		Plain:  binary.BigEndian.Uint32(b[52:]),
		Sum:    [16]byte(b[56:72]),
	}
	switch {
	case h.Block != block || h.Offset != offset:
		return Header{}, ErrNotFrame
	case b[4] != version || h.Type < Data || h.Type > Snapshot || b[7]&^flagLast != 0:
		return Header{}, ErrVersion
	case h.Plain > MaxPlain || h.Stored > MaxStored:
		return Header{}, ErrDamaged
	}
	return h, nil
}

func decodeShort(b []byte, block [16]byte, offset int64) (Header, error) {
	size := ShortSize
	if b[5]&flagSealed != 0 {
		size = SealedShortSize
	}
	if len(b) < size {
		return Header{}, ErrNotFrame
	}
	if b = b[:size]; binary.BigEndian.Uint32(b[size-4:]) != shortCheck(b[:size-4], block, offset) {
		return Header{}, ErrDamaged
	}
	h := Header{
		Type: Type(b[4]), Short: true, Codec: b[5] >> 4, Last: true, Block: block, Offset: offset,
		Stored: uint24(b[6:]), Plain: uint24(b[9:]), ID: binary.BigEndian.Uint64(b[12:]),
	}
	copy(h.Sum[:], b[20:28])
	if size == SealedShortSize {
		h.KeyID = binary.BigEndian.Uint32(b[28:])
	}
	switch {
	case h.Type < Data || h.Type > Snapshot || b[5]&15&^flagSealed != 0:
		return Header{}, ErrVersion
	case h.Plain > MaxPlain || h.Stored > MaxStored || (h.KeyID == 0) != (size == ShortSize):
		return Header{}, ErrDamaged
	}
	return h, nil
}

// End returns the offset of the first byte after the frame.
func (h *Header) End() int64 { return h.Offset + int64(h.Size()) + int64(h.Stored) }

// Verify returns ErrDamaged unless the length and the checksum of payload match the header.
func (h *Header) Verify(payload []byte) error {
	if mutant.Is("no-frame-check") {
		return nil
	}
	if len(payload) != int(h.Stored) || h.sum(payload) != h.Sum {
		return ErrDamaged
	}
	return nil
}

// EncodeBlockHeader writes the header of a block to dst[:BlockHeaderSize].
func EncodeBlockHeader(dst []byte, block [16]byte, kind uint8) {
	b := dst[:BlockHeaderSize]
	clear(b)
	copy(b, blockMagic)
	b[8], b[9] = blockVersion, kind
	copy(b[16:32], block[:])
	binary.BigEndian.PutUint64(b[56:], xxh3.Hash(b[:56]))
}

// DecodeBlockHeader decodes the header at the start of a block, and returns the id and the kind of the block. It
// returns ErrNotFrame if there is no header (for example after a crash that followed the creation of the file),
// ErrDamaged if it is damaged, and ErrVersion if it has a newer format.
func DecodeBlockHeader(b []byte) (block [16]byte, kind uint8, err error) {
	if len(b) < BlockHeaderSize || string(b[:8]) != blockMagic {
		return block, 0, ErrNotFrame
	}
	if xxh3.Hash(b[:56]) != binary.BigEndian.Uint64(b[56:]) {
		return block, 0, ErrDamaged
	}
	if b[8] != blockVersion {
		return block, 0, ErrVersion
	}
	return [16]byte(b[16:32]), b[9], nil
}
