// Package frame defines the format in which content and records are stored in blocks, so that every byte can be
// verified when it is read.
//
// A block begins with a block header of 64 bytes, followed by frames without gaps. A frame is a header of 80 bytes and
// its payload: at most 256 KiB of plain content, or a piece of a record, possibly compressed or encrypted. Numbers are
// big endian.
//
//	block header                            frame header
//	 0  8  magic "ORCASBLK"                   0  4  magic "ORCf"
//	 8  1  format version (1)                 4  1  format version (1)
//	 9  1  kind of block                      5  1  type (1 data, 2 record, 3 snapshot)
//	10  6  zero                               6  1  codec (0 none, 1 zstd)
//	16 16  block id                           7  1  flags (1 last frame of its content or record)
//	32 24  zero                               8 16  block id
//	56  8  XXH3-64 of bytes 0 to 55          24  8  offset of this header in the block
//	                                         32  8  DataID, or the first sequence in the record
//	                                         40  4  number of the frame in its content or record
//	                                         44  4  key id
//	                                         48  4  payload bytes as stored
//	                                         52  4  payload bytes as plain content
//	                                         56 16  XXH3-128 of the stored payload
//	                                         72  8  XXH3-64 of bytes 0 to 71
//
// A header contains its own position, so stale bytes of an earlier file, or of a frame that was moved to another place,
// are never mistaken for a frame. The checksum of the payload does not cover the position: to move a frame, write a new
// header (PutHeader) before the unchanged payload.
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
	HeaderSize      = 80
	BlockHeaderSize = 64
	MaxPlain        = 256 << 10       // the most plain content in a frame
	MaxStored       = MaxPlain + 4096 // the largest payload, including the bytes that a codec adds to incompressible content
)

// Magic is the beginning of every frame. A scan searches for it after damaged bytes.
const Magic = "ORCf"

// The errors of this package. They do not contain the block and the offset, which the caller knows.
var (
	ErrNotFrame = errors.New("there is no frame at this offset") // other bytes, or an intact header of another position
	ErrDamaged  = errors.New("the frame is damaged")             // a checksum or a length does not match
	ErrVersion  = errors.New("the frame was written by a newer version of ORCAS")
)

const (
	version      = 1
	flagLast     = 1
	blockMagic   = "ORCASBLK"
	blockVersion = 1
)

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
	Zstd  = 1 // one Zstandard frame (RFC 8878)
)

// Header describes a frame and its payload.
type Header struct {
	Type   Type
	Codec  uint8    // the stored form of the payload: Plain or Zstd
	Last   bool     // whether this is the last frame of its content, record or snapshot
	Block  [16]byte // the block that contains the frame
	Offset int64    // position of the header in the block, in bytes
	ID     uint64   // Data: the DataID; Record: the first sequence in the record; Snapshot: the last sequence in it
	Index  uint32   // number of the frame in its content, record or snapshot, from 0
	KeyID  uint32   // the master key; 0: not encrypted
	Stored uint32   // size of the payload in its stored form, in bytes
	Plain  uint32   // size of the payload as plain content, in bytes
	Sum    [16]byte // XXH3-128 of the stored payload
}

// Encode sets h.Stored and h.Sum from payload and writes h to dst[:HeaderSize]. It panics if payload or h.Plain exceeds
// the limits of a frame, because such a frame could not be read.
func Encode(dst []byte, h *Header, payload []byte) {
	if len(payload) > MaxStored {
		panic(fmt.Sprintf("frame: a payload of %d bytes is too large", len(payload)))
	}
	h.Stored = uint32(len(payload))
	h.Sum = xxh3.Hash128(payload).Bytes()
	PutHeader(dst, h)
}

// PutHeader writes h to dst[:HeaderSize] unchanged. Use it to move a frame to a new h.Block and h.Offset without
// changing its payload.
func PutHeader(dst []byte, h *Header) {
	if h.Plain > MaxPlain || h.Stored > MaxStored {
		panic(fmt.Sprintf("frame: %d plain bytes in a payload of %d bytes: too large", h.Plain, h.Stored))
	}
	b := dst[:HeaderSize]
	copy(b, Magic)
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

// Decode reads the header at the start of b, which was read from block at offset. It returns ErrNotFrame if no frame
// begins there that was written at this position (for example, at the end of the written part of a block), ErrDamaged
// if the header of a frame is damaged, and ErrVersion if the header is intact but has a newer format.
func Decode(b []byte, block [16]byte, offset int64) (Header, error) {
	if len(b) < HeaderSize || string(b[:4]) != Magic {
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

// End returns the offset of the first byte after the frame.
func (h *Header) End() int64 { return h.Offset + HeaderSize + int64(h.Stored) }

// Verify returns ErrDamaged unless the length and the checksum of payload match the header.
func (h *Header) Verify(payload []byte) error {
	if mutant.Is("no-frame-check") {
		return nil
	}
	if len(payload) != int(h.Stored) || xxh3.Hash128(payload).Bytes() != h.Sum {
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
