// Package frame puts content and records into blocks so that every byte that comes out again can be verified.
//
// A block begins with a block header of 64 bytes, and after it holds frames back to back. A frame is a header of 80 bytes
// and its payload: at most 256 KiB of plain content, or a piece of a record, perhaps compressed or encrypted. Numbers
// are big endian.
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
// A header says where it stands, so stale bytes of a block's earlier life, or of a frame moved elsewhere, never pass for a
// frame. The checksum of the payload does not cover the place: who moves a frame writes a new header (PutHeader) around
// the payload as it is.
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
	MaxPlain        = 256 << 10       // the most plain content that a frame holds
	MaxStored       = MaxPlain + 4096 // the most payload: what a codec adds to content that it cannot shrink must fit
)

// Magic is how every frame begins: what a scan behind a damaged stretch looks for.
const Magic = "ORCf"

// The errors of this package. They say nothing about where or why: the caller knows block and offset.
var (
	ErrNotFrame = errors.New("frame: no frame here") // other bytes, or a whole header that belongs elsewhere
	ErrDamaged  = errors.New("frame: damaged")       // a checksum or a length does not match
	ErrVersion  = errors.New("frame: written by a newer version")
)

const (
	magic        = Magic
	version      = 1
	flagLast     = 1
	blockMagic   = "ORCASBLK"
	blockVersion = 1
)

// Type says what a frame holds.
type Type uint8

// The types of frames.
const (
	Data     Type = 1 // a piece of content
	Record   Type = 2 // a piece of a record: the changes of a batch
	Snapshot Type = 3 // a piece of a snapshot of the metadata
)

// The codecs: how a payload is stored.
const (
	Plain = 0 // as it is
	Zstd  = 1 // one Zstandard frame (RFC 8878)
)

// Header describes a frame and its payload.
type Header struct {
	Type   Type
	Codec  uint8    // how the payload is stored: Plain or Zstd
	Last   bool     // the final frame of its content or record
	Block  [16]byte // the block
	Offset int64    // where the header stands in it, in bytes
	ID     uint64   // Data: the DataID; Record: the first sequence in the record; Snapshot: the last sequence in it
	Index  uint32   // number of the frame in its content or record, from 0
	KeyID  uint32   // the master key; 0: not encrypted
	Stored uint32   // bytes of payload as stored
	Plain  uint32   // bytes of payload as plain content
	Sum    [16]byte // XXH3-128 of the stored payload
}

// Encode sets h.Stored and h.Sum from payload and writes the header to dst[:HeaderSize]. It panics when payload or h.Plain
// is larger than a frame may hold, since nobody could read that frame.
func Encode(dst []byte, h *Header, payload []byte) {
	if len(payload) > MaxStored {
		panic(fmt.Sprintf("frame: payload of %d bytes", len(payload)))
	}
	h.Stored = uint32(len(payload))
	h.Sum = xxh3.Hash128(payload).Bytes()
	PutHeader(dst, h)
}

// PutHeader writes h to dst[:HeaderSize] as it is: for a frame whose payload moves unchanged to a new h.Block and h.Offset.
func PutHeader(dst []byte, h *Header) {
	if h.Plain > MaxPlain || h.Stored > MaxStored {
		panic(fmt.Sprintf("frame: %d plain bytes in %d", h.Plain, h.Stored))
	}
	b := dst[:HeaderSize]
	copy(b, magic)
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

// Decode reads the header at the start of b, which was read from block at offset. It says ErrNotFrame where no frame of this
// place begins (this is how the written part of a block ends), ErrDamaged where one does and its header is not whole, and
// ErrVersion where it is whole and of a later format.
func Decode(b []byte, block [16]byte, offset int64) (Header, error) {
	if len(b) < HeaderSize || string(b[:4]) != magic {
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

// End returns the offset of the first byte behind the frame.
func (h *Header) End() int64 { return h.Offset + HeaderSize + int64(h.Stored) }

// Verify says ErrDamaged unless payload is, in length and checksum, what the header promises.
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

// DecodeBlockHeader reads the header at the start of a block: its id and kind. It says ErrNotFrame where there is none
// (a crash right after the file was created leaves such a block), ErrDamaged or ErrVersion.
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
