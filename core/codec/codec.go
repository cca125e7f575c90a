// Package codec turns the plain content of a frame into the bytes that are stored, and back: compressed where that makes it smaller, then
// encrypted where there is a key. Each frame is coded by itself, so that a range read touches the frames that it needs. What was done is
// in the frame's header (Codec, KeyID): frames of one content may differ.
//
// The compressed form is one Zstandard frame (RFC 8878) without a checksum of its own, with the plain size in its header and, where a dictionary was used, the
// dictionary's number.
package codec

import (
	"errors"
	"fmt"

	"orcas/core/frame"
)

// The errors of this package. They say nothing about where: the caller knows content and offset.
var (
	ErrDamaged      = errors.New("codec: damaged")                            // the payload is not what its header promises
	ErrNoKey        = errors.New("codec: encrypted, and there is no key")     // or it is not encrypted where it has to be
	ErrNoDictionary = errors.New("codec: compressed with another dictionary") // than the one at hand, if any
	ErrCodec        = errors.New("codec: written by a newer version")         // a number of which this program knows nothing
)

// Level says how hard new content is compressed. The numbers are stored with buckets, and never reused.
type Level uint8

// The levels.
const (
	Default Level = iota // what the server does unasked
	Off                  // not at all
	Fast                 // at least effort
	Better               // at three to four times the effort, for a tenth less room
)

var levelNames = [...]string{"default", "off", "fast", "better"}

// String returns the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// ParseLevel is the inverse of String.
func ParseLevel(s string) (Level, error) {
	for l, name := range levelNames {
		if s == name {
			return Level(l), nil
		}
	}
	return 0, fmt.Errorf("%q is none of off, fast and better", s)
}

// Sealer encrypts and decrypts the frames of one content. Its methods may be called from many goroutines.
type Sealer interface {
	// Seal encrypts plain, appends the outcome to dst and returns the extended slice. The header has everything but Stored, Sum and the
	// place: ID, Index, Last, Plain, Codec, KeyID may be bound to what is stored. As with crypto/cipher.AEAD, plain may stand exactly where the outcome goes.
	Seal(dst, plain []byte, h *frame.Header) []byte

	// Open is the inverse of Seal, on the same conditions. An error says that key, frame or header are other ones.
	Open(dst, stored []byte, h *frame.Header) ([]byte, error)
}

// Encoder codes the frames of one content, in order. The zero value stores everything as it is. One goroutine uses it.
type Encoder struct {
	Level      Level       // Default means Off here
	Dictionary *Dictionary // of small content; nil: none
	Sealer     Sealer      // nil: not encrypted
	KeyID      uint32      // goes into the headers of what is encrypted; not 0 with a Sealer

	sampler    sampler
	looked     bool // the next frame is worthwhile
	compressed bool
}

// Plain says that nothing is done to content: its frames may be written without Encode.
func (e *Encoder) Plain() bool { return e.Sealer == nil && e.Level <= Off }

// Compressed says whether a frame so far was compressed.
func (e *Encoder) Compressed() bool { return e.compressed }

// Worthwhile says whether the next frame may shrink, from a look at a part of it. Encode then does not look again.
func (e *Encoder) Worthwhile(plain []byte) bool {
	e.looked = e.Level > Off && e.sampler.worthwhile(plain)
	return e.looked
}

// Encode appends what is stored of a frame's plain content to dst and returns the extended slice; nil says that the content is stored as it is. h.ID, Index
// and Last have to be set; Encode sets Codec, KeyID and Plain.
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

// Decoder decodes the frames of one content. The zero value knows no key and no dictionary. It may be used from many goroutines.
type Decoder struct {
	Dictionary *Dictionary // nil: none
	Sealer     Sealer      // nil: the content is not encrypted
}

// Decode returns the plain content of a frame whose payload is stored, which was verified and which it may overwrite. What it returns
// is a part of stored, or stands in dst[:0], grown if it is too short; never more than h.Plain bytes are made.
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
		return nil, fmt.Errorf("%w: %d", ErrCodec, h.Codec)
	}
	if len(stored) != int(h.Plain) {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrDamaged, len(stored), h.Plain)
	}
	return stored, nil
}
