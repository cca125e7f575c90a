// Package codec converts the plain content of a frame to its stored form and back. A frame is compressed if that makes
// it smaller, and then encrypted if there is a key. Each frame is encoded independently, so that a range read decodes
// only the frames that it needs. The header of a frame contains its codec and key (Codec, KeyID), which may differ
// between frames of the same content.
//
// The compressed form is one Zstandard frame (RFC 8878) without a checksum. Its header has the plain size and, if a
// dictionary was used, the number of the dictionary.
package codec

import (
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/frame"
)

// The errors of this package. They do not contain the content or the offset, which the caller knows.
var (
	ErrDamaged      = errors.New("the encoded data is damaged") // for example, a payload does not match its header
	ErrNoKey        = errors.New("the frame is encrypted, but there is no key, or vice versa")
	ErrNoDictionary = errors.New("the frame was compressed with another dictionary") // or no dictionary was given
	ErrCodec        = errors.New("the data was encoded by a newer version of ORCAS") // for example, the codec is unknown
)

// Sealer encrypts and decrypts the frames of one piece of content. Its methods are safe for concurrent use.
type Sealer interface {
	// Seal encrypts plain, appends the result to dst and returns the extended slice. All fields of the header are set
	// except Stored, Sum and the position, so ID, Index, Last, Plain, Codec and KeyID may be authenticated. As with
	// crypto/cipher.AEAD, plain may overlap the result exactly.
	Seal(dst, plain []byte, h *frame.Header) []byte

	// Open is the inverse of Seal, under the same conditions. It fails if the key, the frame or the header differs from
	// that of Seal.
	Open(dst, stored []byte, h *frame.Header) ([]byte, error)
}

// Encoder encodes the frames of one piece of content, in order. The zero value stores them unchanged. It is not safe
// for concurrent use.
type Encoder struct {
	Level      core.Compression // CompressionDefault means off here
	Dictionary *Dictionary      // for small content; nil: none
	Sealer     Sealer           // nil: not encrypted
	KeyID      uint32           // key ID for the headers of encrypted frames; not 0 with a Sealer

	sampler    sampler
	looked     bool // Worthwhile returned true for the next frame
	compressed bool
}

// Plain reports whether content is stored unchanged, so that its frames can be written without Encode.
func (e *Encoder) Plain() bool { return e.Sealer == nil && e.Level <= core.CompressionOff }

// Compressed reports whether any frame so far was compressed.
func (e *Encoder) Compressed() bool { return e.compressed }

// Worthwhile reports whether compression may shrink the next frame, based on a sample. If so, Encode does not sample
// the frame again.
func (e *Encoder) Worthwhile(plain []byte) bool {
	e.looked = e.Level > core.CompressionOff && e.sampler.worthwhile(plain)
	return e.looked
}

// Encode appends the stored form of a frame's plain content to dst and returns the extended slice, or nil if the
// content is stored unchanged. The caller must set h.ID, Index and Last; Encode sets Codec, KeyID and Plain.
func (e *Encoder) Encode(dst []byte, h *frame.Header, plain []byte) []byte {
	h.Plain, h.Codec, h.KeyID = uint32(len(plain)), frame.Plain, 0
	at := len(dst)
	payload := plain
	if e.looked || e.Worthwhile(plain) {
		dst = e.compress(dst, plain)
		shrunk := len(dst)-at <= len(plain)-len(plain)/minGain
		e.sampler.learn(shrunk)
		if shrunk {
			h.Codec, e.compressed, payload = frame.Zstd, true, dst[at:]
		}
	}
	e.looked = false
	switch {
	case e.Sealer != nil:
		h.KeyID = e.KeyID
		return e.Sealer.Seal(dst[:at], payload, h)
	case h.Codec == frame.Plain:
		return nil
	}
	return dst
}

// Decoder decodes the frames of one piece of content. The zero value has no key and no dictionary. It is safe for
// concurrent use.
type Decoder struct {
	Dictionary *Dictionary // nil: none
	Sealer     Sealer      // nil: the content is not encrypted
}

// Decode returns the plain content of a frame. Stored is its verified payload, which Decode may overwrite. The result
// is either a part of stored, or is appended to dst[:0]. It never has more than h.Plain bytes.
func (d *Decoder) Decode(dst, stored []byte, h *frame.Header) ([]byte, error) {
	if h.Plain > frame.MaxPlain {
		return nil, ErrDamaged
	}
	if (h.KeyID != 0) != (d.Sealer != nil) {
		return nil, ErrNoKey
	}
	if d.Sealer != nil {
		var err error
		if stored, err = d.Sealer.Open(stored[:0], stored, h); err != nil {
			return nil, err
		}
	}
	switch h.Codec {
	case frame.Plain:
	case frame.Zstd:
		var err error
		if stored, err = decompress(d.Dictionary, dst, stored, int(h.Plain)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: codec %d", ErrCodec, h.Codec)
	}
	if len(stored) != int(h.Plain) {
		return nil, fmt.Errorf("%w: it has %d bytes of content instead of %d", ErrDamaged, len(stored), h.Plain)
	}
	return stored, nil
}
